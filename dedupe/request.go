package dedupe

import (
	"time"

	"github.com/onceward/onceward/event"
)

// Conflict says what the same ID with another body means.
type Conflict string

// The conflict policies.
const (
	ConflictAck     Conflict = "ack"     // answered like a repeat, the difference recorded
	ConflictDeliver Conflict = "deliver" // a distinct event, ID "id~bodyhash16"
	ConflictReject  Conflict = "reject"  // refused with 422; single events only
)

// Guard says what the same signed bytes under another ID mean.
type Guard string

// The replay-guard policies.
const (
	GuardOff  Guard = ""     // not looked at
	GuardFlag Guard = "flag" // delivered and marked
	GuardDrop Guard = "drop" // answered like a repeat
)

// Retention is how long the parts of an event are kept. Zero fields take the
// ledger's defaults.
type Retention struct {
	Body  time.Duration // the bytes
	Meta  time.Duration // event, deliveries, index
	Audit time.Duration // attempts and audit records
	// Once drops the bytes as soon as they are Spent; from then on they are
	// ErrPruned, and the hash, headers and all else stay.
	Once bool
}

// Spent reports whether an event with these deliveries has no more use for its
// bytes: it was routed, and each delivery is delivered or cancelled. A dead one
// keeps them, so that it can be replayed.
func (r Retention) Spent(ds []event.Delivery) bool {
	for i := range ds {
		if s := ds[i].State; s != event.Delivered && s != event.Cancelled {
			return false
		}
	}
	return r.Once && len(ds) > 0
}

// Item is one authentic event on its way into the ledger.
type Item struct {
	// Event is complete but for Ref, Key, Body.Request, and what Decide sets
	// on a conflict. Its strings and slices are not reused by the caller.
	Event event.Event

	// Claim is the key of the event's ID (KindID) or, without one, of its
	// body (KindBody). Without HasClaim every arrival is an event.
	Claim    Key
	HasClaim bool
	// RawID is the event ID as received, from which a conflict's distinct ID
	// is derived; Event.ID is its framed form.
	RawID    string
	Former   []Key // the same key under former names of the source
	Window   time.Duration
	Conflict Conflict
	// Distinct are the keys of this ID with this body, as DistinctKeys makes
	// them; needed where Conflict is ConflictDeliver and there is a RawID.
	Distinct []Key

	GuardKey Key
	Guard    Guard // GuardOff: GuardKey is not looked at

	Keys *KeyTemplate // renders Event.Key; nil is the default template
}

// Request is one authenticated request: one or more events, all or none.
type Request struct {
	Body      []byte // the whole body; items slice it by Event.Body.Offset and Length
	Items     []Item
	Retention Retention
	Answer    event.Answer // given when at least one item is new; kept with each new event
	Batch     bool         // items are elements of a batch: a conflict is never ConflictReject

	// Outcomes, one per item, are set by the ledger before the request's
	// caller wakes.
	Outcomes []Outcome
	// Err is set by the ledger instead of Outcomes when it refused this
	// request alone and wrote nothing of it: ErrDiskLow, ErrTooLarge, or
	// ErrDamaged when a claim it needs can't be read.
	Err error
}

// Verdict is what the ledger found for one item.
type Verdict uint8

// The verdicts.
const (
	New      Verdict = iota + 1 // accepted: event, claim and deliveries are durable
	Repeat                      // same key, same body: the first event stands
	Differs                     // same key, other body, answered like a repeat (ConflictAck)
	Rejected                    // same key, other body, refused (ConflictReject)
	Replayed                    // signed bytes seen under another ID, dropped (GuardDrop)
)

var verdictNames = [...]string{"", "new", "repeat", "conflict", "rejected", "guard_drop"}

// String is the verdict's public name.
func (v Verdict) String() string {
	if int(v) < len(verdictNames) {
		return verdictNames[v]
	}
	return "unknown"
}

// Outcome is the durable answer for one item.
type Outcome struct {
	Verdict Verdict
	Ref     event.Ref    // of the new event, or of the one that made the claim
	ID      string       // its event ID
	Answer  event.Answer // first answer, for a repeat
	Flags   event.Flags  // of the new event
}
