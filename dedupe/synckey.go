package dedupe

import (
	"fmt"
	"strings"
	"time"

	"github.com/onceward/onceward/event"
)

// KeyState is where a key of a synchronous route stands.
type KeyState uint8

// The states of a key. A key whose lease has ended is unknown, whatever its
// record says; one past its expiry is as if it had never been, unless it is in
// flight or unknown: those stay until they are concluded.
const (
	KeyInFlight KeyState = iota + 1 // claimed, and forwarded or about to be
	KeyAnswered                     // the target's answer is stored
	KeyReleased                     // not executed: the key is free
	KeyUnknown                      // forwarded, and nobody knows whether it was executed
	KeySettled                      // an operator said that it was executed
)

var keyStates = [...]string{"", "in_flight", "answered", "released", "unknown", "settled"}

// String is the state's public name.
func (s KeyState) String() string { return nameOf(keyStates[:], uint8(s)) }

func nameOf(names []string, i uint8) string {
	if i != 0 && int(i) < len(names) {
		return names[i]
	}
	return fmt.Sprintf("(%d)", i)
}

// MarshalText writes the state's public name.
func (s KeyState) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads a public name.
func (s *KeyState) UnmarshalText(b []byte) error {
	v, ok := ParseKeyState(string(b))
	if !ok {
		return fmt.Errorf("key state %q: want one of %s", b, strings.Join(keyStates[1:], ", "))
	}
	*s = v
	return nil
}

// ParseKeyState reads a state's public name.
func ParseKeyState(name string) (KeyState, bool) {
	for i, n := range keyStates {
		if i > 0 && n == name {
			return KeyState(i), true
		}
	}
	return 0, false
}

// Open reports whether the key has no conclusion yet. Open keys don't expire.
func (s KeyState) Open() bool { return s == KeyInFlight || s == KeyUnknown }

// Moment is what happened to a key at one time of its life.
type Moment uint8

// The moments of a key's life. Replays are counted, not listed.
const (
	MomentClaimed Moment = iota + 1
	MomentForwarded
	MomentAnswered
	MomentReleased
	MomentUnknown
	MomentSettled
)

var moments = [...]string{"", "claimed", "forwarded", "answered", "released", "unknown", "settled"}

// String is the moment's public name.
func (m Moment) String() string { return nameOf(moments[:], uint8(m)) }

// MarshalText writes the moment's public name.
func (m Moment) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText reads a public name.
func (m *Moment) UnmarshalText(b []byte) error {
	for i, n := range moments {
		if i > 0 && n == string(b) {
			*m = Moment(i)
			return nil
		}
	}
	return fmt.Errorf("moment %q: want one of %s", b, strings.Join(moments[1:], ", "))
}

// KeyMoment is one entry of a key's life.
type KeyMoment struct {
	At     time.Time `json:"at"` // ledger time, but for MomentForwarded: by the wall clock
	What   Moment    `json:"what"`
	Detail string    `json:"detail,omitempty"` // a class, a status, or who settled it and why
}

// maxLife bounds the moments that are kept of a key, the first and the latest.
const maxLife = 24

// MaxInline is the longest body of an answer that stands in the key's own
// record, in bytes.
const MaxInline = 64 << 10

// SyncChunk is how longer bodies are cut, in bytes.
const SyncChunk = 512 << 10

// KeyAnswer is the first answer of a key, given again to each repeat.
type KeyAnswer struct {
	Status int           `json:"status"`
	Header []event.Field `json:"header,omitempty"`
	// Length and Hash are the body's. A body that was not spooled comes with
	// the step in Body; of a record read back Body is set up to MaxInline, and
	// the rest is read chunk by chunk.
	Length int64      `json:"length"`
	Hash   event.Hash `json:"sha256"`
	Body   []byte     `json:"-"`
}

// Chunks is how many chunks hold the body, 0 when it is in the record.
func (a *KeyAnswer) Chunks() int {
	if a.Length <= MaxInline {
		return 0
	}
	return int((a.Length + SyncChunk - 1) / SyncChunk)
}

// SyncKey is the record of a key of a synchronous route.
type SyncKey struct {
	Key        Key        `json:"-"`
	Source     string     `json:"source"`
	Caller     string     `json:"caller"`
	ID         string     `json:"id"`     // as the caller sent it, unquoted
	Target     string     `json:"target"` // of the last claim
	Downstream string     `json:"key"`    // the Idempotency-Key the target gets
	Print      event.Hash `json:"fingerprint"`
	State      KeyState   `json:"state"`
	// Token fences what follows a claim: after another claim, or a settlement,
	// the conclusions of the one before no longer count. It never comes again.
	Token     uint64        `json:"token"`
	Until     time.Time     `json:"lease_until"` // ledger time; of an in-flight key
	Window    time.Duration `json:"window_ns"`
	ClaimedAt time.Time     `json:"claimed_at"` // ledger time of the first claim
	UpdatedAt time.Time     `json:"updated_at"` // ledger time of the last change
	Expires   time.Time     `json:"expires_at"` // ledger time; from here on the key is new
	Replays   uint64        `json:"replays"`
	Why       string        `json:"why"` // class of the last release or unknown
	Answer    KeyAnswer     `json:"answer"`
	Life      []KeyMoment   `json:"life,omitempty"`
}

// WhyLease is the class of keys whose lease ended without a conclusion: the
// gateway that held it crashed, or was cut off from its ledger.
const WhyLease = "lease_lost"

// At is the key as it stands at ledger time now: one whose lease has ended is
// unknown.
func (k SyncKey) At(now time.Time) SyncKey {
	if k.State == KeyInFlight && !now.Before(k.Until) {
		k.State, k.Why = KeyUnknown, WhyLease
		k.note(now, MomentUnknown, WhyLease)
	}
	return k
}

// Claims is how often the key was claimed, as far as its life is kept.
func (k *SyncKey) Claims() (n uint32) {
	for i := range k.Life {
		if k.Life[i].What == MomentClaimed {
			n++
		}
	}
	return n
}

// Expired reports whether the key is new again at ledger time now.
func (k *SyncKey) Expired(now time.Time) bool {
	return !k.State.Open() && !now.Before(k.Expires)
}

// note adds to the life, dropping from its middle. The slice is never shared
// with the record it came from.
func (k *SyncKey) note(at time.Time, what Moment, detail string) {
	life := make([]KeyMoment, 0, len(k.Life)+1)
	if len(k.Life) < maxLife {
		life = append(life, k.Life...)
	} else {
		life = append(append(life, k.Life[:2]...), k.Life[len(k.Life)-maxLife+3:]...)
	}
	k.Life = append(life, KeyMoment{At: at, What: what, Detail: detail})
}

// KeyFilter selects keys. Zero fields select everything.
type KeyFilter struct {
	Source string
	Caller string
	ID     string
	State  KeyState
	Open   bool // in flight or unknown
}

// Match reports whether the filter selects k, as it stands now.
func (f *KeyFilter) Match(k *SyncKey) bool {
	return (f.Source == "" || f.Source == k.Source) && (f.Caller == "" || f.Caller == k.Caller) &&
		(f.ID == "" || f.ID == k.ID) && (f.State == 0 || f.State == k.State) && (!f.Open || k.State.Open())
}

// KeyStats counts the keys without a conclusion.
type KeyStats struct {
	InFlight int64     `json:"in_flight"`
	Unknown  int64     `json:"unknown"`
	Oldest   time.Time `json:"oldest_unknown"` // ledger time of its claim; zero when there is none
}
