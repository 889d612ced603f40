package receiver

import (
	"time"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
	"github.com/onceward/onceward/verify"
)

// Route sends events of some types to one target.
type Route struct {
	Target string
	// Types are exact names or globs in which * stands for any run of
	// characters. None at all takes every type.
	Types []string
	// Where says that the route has a condition as well, its own among the
	// source's Conditions.
	Where bool
}

// Conditions prepares an event, which stays as it is until done is called, for
// the conditions of a source's routes: match says what that of the n-th route
// makes of it. An error means that it has no result.
type Conditions func(ev *event.Event, body []byte) (match func(n int) (bool, error), done func())

// Source is one inbound path as the configuration of one generation has it.
// It is read-only once handed to New or SetSources. Zero fields take what the
// provider's row says, then the default named here.
type Source struct {
	Name string
	Path string // "/in/" and the name
	// Row is the provider. With a Verifier, the verifier's row counts instead:
	// it has the mode and the options applied.
	Row verify.Row
	// Verifier checks requests. Nil means that the source is offline: every
	// request is answered 503, and Offline says why.
	Verifier *verify.Verifier
	Offline  string

	Former    []string        // names it had before, whose claims still count
	Window    time.Duration   // how long an event ID is remembered; 72 h
	Conflict  dedupe.Conflict // same ID, other body; ConflictDeliver
	NoID      verify.NoID     // events without an ID; NoIDBodyHash
	Guard     dedupe.Guard    // replay guard; off, whatever the row says
	Keys      *dedupe.KeyTemplate
	Retention dedupe.Retention
	Index     *Index // what its events are found by; nothing

	Routes      []Route
	Conditions  Conditions       // may be nil when no route has a condition
	Orders      map[string]Order // by target; those that want events one after the other
	BodyLimit   int64            // bytes; 1 MiB
	Patience    time.Duration    // how long the provider waits; 12.5 s
	PublicURL   string           // as the provider calls it; an origin alone keeps the path as called
	MaxElements int              // of one batch; 1,000
	// TrustTrace lets the sender's trace go on in ours. Elsewhere a trace begins
	// with the request.
	TrustTrace bool
	Batch      string // "split" or "keep"; "split"
	// Sync makes the source synchronous. Its Routes then mean nothing.
	Sync *Sync
	// Answer replaces the row's answer to accepted events and repeats.
	Answer verify.Answer
}
