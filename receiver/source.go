package receiver

import (
	"strings"
	"time"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/verify"
)

// Route sends events of some types to one target.
type Route struct {
	Target string
	// Types are exact names or globs in which * stands for any run of
	// characters. None at all takes every type.
	Types []string
}

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

	Routes      []Route
	BodyLimit   int64         // bytes; 1 MiB
	Patience    time.Duration // how long the provider waits; 12.5 s
	PublicURL   string        // as the provider calls it; an origin alone keeps the path as called
	MaxElements int           // of one batch; 1,000
	Batch       string        // "split" or "keep"; "split"
	// Answer replaces the row's answer to accepted events and repeats.
	Answer verify.Answer
}

// Targets lists the targets of an event of that type, each once, in the order
// of the routes. An empty list means the event is unrouted.
func (s *Source) Targets(eventType string) []string {
	var out []string
	for i := range s.Routes {
		if s.Routes[i].takes(eventType) && !contains(out, s.Routes[i].Target) {
			out = append(out, s.Routes[i].Target)
		}
	}
	return out
}

func contains(list []string, s string) bool {
	for _, have := range list {
		if have == s {
			return true
		}
	}
	return false
}

func (r *Route) takes(eventType string) bool {
	if len(r.Types) == 0 {
		return true
	}
	for _, glob := range r.Types {
		if globMatch(glob, eventType) {
			return true
		}
	}
	return false
}

// globMatch reports whether s is what glob describes: * is any run, also an
// empty one; everything else is itself. It takes time linear in s per star.
func globMatch(glob, s string) bool {
	first, rest, star := strings.Cut(glob, "*")
	if !star {
		return glob == s
	}
	if !strings.HasPrefix(s, first) {
		return false
	}
	s = s[len(first):]
	for {
		part, after, more := strings.Cut(rest, "*")
		if !more {
			return strings.HasSuffix(s, part)
		}
		i := strings.Index(s, part)
		if i < 0 {
			return false
		}
		s, rest = s[i+len(part):], after
	}
}
