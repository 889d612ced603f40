package event

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"time"
)

// Hash is a SHA-256 sum. As text it is 64 lower-case hexadecimal digits.
type Hash [sha256.Size]byte

// HashOf is the SHA-256 sum of b.
func HashOf(b []byte) Hash { return sha256.Sum256(b) }

// String is the sum in lower-case hexadecimal.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// MarshalText writes String.
func (h Hash) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// UnmarshalText reads what MarshalText writes.
func (h *Hash) UnmarshalText(b []byte) error {
	if len(b) != hex.EncodedLen(len(h)) {
		return hex.ErrLength
	}
	_, err := hex.Decode(h[:], b)
	return err
}

// Field is a name and its value: a header line, in wire order, where a name may
// occur several times, or one of an event's indexed fields.
type Field struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Slice locates an event's bytes in what they are stored in: the body of the
// request that brought it, kept once, under the ref of the request's first new
// event. A ledger may keep small bodies of requests committed together as one.
type Slice struct {
	Request Ref   `json:"request"`
	Offset  int64 `json:"offset"`
	Length  int64 `json:"length"`
}

// Answer is what the provider was told, kept so that a repeat is told the
// same. The zero Answer is the standard one: 200 and a small JSON with the
// event ID and ref.
type Answer struct {
	Status      int    `json:"status,omitempty"`
	ContentType string `json:"content_type,omitempty"`
	Body        []byte `json:"body,omitempty"`
}

// IsZero reports whether the answer is the standard one.
func (a Answer) IsZero() bool { return a.Status == 0 && a.ContentType == "" && len(a.Body) == 0 }

// Event is one authenticated message and its event ID. It never changes once
// accepted.
type Event struct {
	Ref        Ref       `json:"ref"`
	Source     string    `json:"source"`
	Provider   string    `json:"provider"`
	ID         string    `json:"id"`          // the provider's event ID as recognised; "" when it sent none
	Type       string    `json:"type"`        // the provider's event type; "" when it sent none
	Caller     string    `json:"caller"`      // of idempotency-key sources; "" elsewhere
	Secret     string    `json:"secret"`      // label of the secret that matched, never its value
	Key        string    `json:"key"`         // idempotency key sent downstream, the same on every attempt
	ReceivedAt time.Time `json:"received_at"` // wall clock
	Method     string    `json:"method"`
	Path       string    `json:"path"`  // suffix after the source's path, "" for none
	Query      string    `json:"query"` // raw, as received
	Header     []Field   `json:"header"`
	BodyHash   Hash      `json:"body_sha256"` // of the event's exact bytes
	Body       Slice     `json:"body"`
	Targets    []string  `json:"targets"`          // names, snapshotted at admission; none = unrouted
	Orders     []Order   `json:"orders,omitempty"` // of each target, by position; nil when it is ordered at none
	Index      []Field   `json:"index,omitempty"`  // fields it can be found by, as its source had them extracted
	Answer     Answer    `json:"answer"`
	Trace      string    `json:"trace"` // traceparent sent to targets
	Flags      Flags     `json:"flags"`
	Related    Ref       `json:"related"` // the earlier event of a conflict or guard hit
}

// Flags says what was unusual about an event at admission.
type Flags uint16

// The flags of an event.
const (
	FlagNoID        Flags = 1 << iota // the provider sent no event ID
	FlagConflict                      // same ID, other body, delivered as a distinct event
	FlagGuard                         // the replay guard has seen these signed bytes under another ID
	FlagTest                          // sent by trigger or a test ping
	FlagIDHashed                      // the ID was too long or held control characters; ID holds its hash
	FlagUndeduped                     // nothing to recognise a repeat by; every arrival is an event
	FlagKeepBatch                     // a batch request forwarded whole
	FlagFilterError                   // a route's condition had no result, which is no match
	FlagNoMatch                       // there are routes, and none of them took it
)

var flagNames = [...]string{"no_id", "conflict", "guard", "test", "id_hashed", "undeduped", "batch", "filter_error", "no_match"}

// Names lists the set flags by their public names.
func (f Flags) Names() []string {
	var out []string
	for i, n := range flagNames {
		if f&(1<<i) != 0 {
			out = append(out, n)
		}
	}
	return out
}

// IndexedAs reports whether the event's source had a field of that name
// extracted, and this was its value.
func (e *Event) IndexedAs(name, value string) bool {
	return slices.Contains(e.Index, Field{Name: name, Value: value})
}

// Has reports whether every flag of g is set.
func (f Flags) Has(g Flags) bool { return f&g == g }

// Tally counts what arrived after an event under the same claim.
type Tally struct {
	Repeats   uint64    `json:"repeats"`
	Conflicts uint64    `json:"conflicts"`
	LastAt    time.Time `json:"last_at"` // wall clock of the last one; zero when there was none
}

// Status is the state of an event over all its deliveries.
type Status string

// The statuses of an event.
const (
	StatusUnrouted  Status = "unrouted"  // no target matched
	StatusPending   Status = "pending"   // at least one delivery is open
	StatusDead      Status = "dead"      // none is open and at least one is dead
	StatusCancelled Status = "cancelled" // none is open or dead and at least one was cancelled
	StatusDelivered Status = "delivered" // every delivery landed
)

// StatusOf folds the states of an event's deliveries into one status.
func StatusOf(ds []Delivery) Status {
	if len(ds) == 0 {
		return StatusUnrouted
	}
	var dead, cancelled bool
	for _, d := range ds {
		switch d.State {
		case Pending, Leased:
			return StatusPending
		case Dead:
			dead = true
		case Cancelled:
			cancelled = true
		}
	}
	switch {
	case dead:
		return StatusDead
	case cancelled:
		return StatusCancelled
	}
	return StatusDelivered
}
