package event

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// State is where a delivery stands.
type State uint8

// The states of a delivery. Pending and Leased are open; the rest is final
// until a replay opens a new generation.
const (
	Pending State = iota
	Leased
	Delivered
	Dead
	Cancelled
)

var stateNames = [...]string{"pending", "leased", "delivered", "dead", "cancelled"}

// String is the state's public name.
func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return "state(" + strconv.Itoa(int(s)) + ")"
}

// Open reports whether the delivery still has to be attempted.
func (s State) Open() bool { return s == Pending || s == Leased }

// MarshalText writes the state's public name.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads a public name.
func (s *State) UnmarshalText(b []byte) error {
	v, ok := ParseState(string(b))
	if !ok {
		return fmt.Errorf("delivery state %q: want one of %s", b, strings.Join(stateNames[:], ", "))
	}
	*s = v
	return nil
}

// ParseState reads a state's public name.
func ParseState(name string) (State, bool) {
	for i, n := range stateNames {
		if n == name {
			return State(i), true
		}
	}
	return 0, false
}

// Delivery is one event bound for one target.
type Delivery struct {
	Event      Ref       `json:"event"`
	Target     string    `json:"target"`
	Generation uint16    `json:"generation"` // 0 at admission, one more with each replay
	State      State     `json:"state"`
	Attempts   uint32    `json:"attempts"`   // of this generation
	NewKey     bool      `json:"new_key"`    // this generation's key is not the event's own
	DueAt      time.Time `json:"due_at"`     // ledger time of the next attempt; zero when closed
	OpenedAt   time.Time `json:"opened_at"`  // ledger time at which this generation was opened
	UpdatedAt  time.Time `json:"updated_at"` // ledger time of the last change; zero when untouched
	LastStatus int       `json:"last_status"`
	LastError  string    `json:"last_error"` // closed set of classes, "" when none
}

// MaxKey is the longest idempotency key sent to a target, in bytes.
const MaxKey = 255

// Key is the idempotency key of every attempt of this generation: the
// event's own, or with NewKey {key}~r{generation}. A key that would grow past
// MaxKey is replaced by its hash.
func (d Delivery) Key(ev *Event) string {
	if !d.NewKey {
		return ev.Key
	}
	key := ev.Key + "~r" + strconv.Itoa(int(d.Generation))
	if len(key) > MaxKey {
		return ev.Source + ":sha256:" + HashOf([]byte(key)).String()
	}
	return key
}

// DeliveryID names a delivery on the wire and in logs: ref, target and
// generation.
func (d Delivery) DeliveryID() string {
	return d.Event.String() + "." + d.Target + "." + strconv.Itoa(int(d.Generation))
}

// ParseDeliveryID reads what DeliveryID writes.
func ParseDeliveryID(s string) (ref Ref, target string, generation uint16, err error) {
	parts := strings.Split(s, ".")
	if len(parts) == 3 {
		n, numErr := strconv.ParseUint(parts[2], 10, 16)
		if ref, err = ParseRef(parts[0]); err == nil && numErr == nil && parts[1] != "" {
			return ref, parts[1], uint16(n), nil
		}
	}
	return Ref{}, "", 0, fmt.Errorf("delivery %q: want a ref, a target and a generation, as in 01ARZ3NDEKTSV4RRFFQ69G5FAV.billing.0", s)
}

// Outcome classes an attempt for metrics, the account and people.
type Outcome string

// The outcomes of an attempt: a closed set.
const (
	Outcome2xx          Outcome = "2xx"
	Outcome3xx          Outcome = "3xx"
	Outcome4xx          Outcome = "4xx"
	Outcome5xx          Outcome = "5xx"
	OutcomeTimeout      Outcome = "timeout"
	OutcomeConnectError Outcome = "connect_error"
	OutcomeTLSError     Outcome = "tls_error"
	OutcomeDNSError     Outcome = "dns_error"
	OutcomeBlocked      Outcome = "blocked"        // refused by the egress guard
	OutcomeInterrupted  Outcome = "interrupted"    // cut by our own stop
	OutcomeMissing      Outcome = "target_missing" // gave up: no such target is configured
	OutcomeGaveUp       Outcome = "gave_up"        // gave up while the target was paused or its breaker open; nothing was sent
	OutcomeDamaged      Outcome = "body_damaged"   // the stored body failed its check; nothing was sent
	OutcomeUnknown      Outcome = "unknown"        // sent, and the answer was never recorded
	OutcomeAcked        Outcome = "acked"          // a service that pulls has done it
	OutcomeNacked       Outcome = "nacked"         // a service that pulls gave it back
)

// Outcomes lists every outcome.
func Outcomes() []Outcome {
	return []Outcome{Outcome2xx, Outcome3xx, Outcome4xx, Outcome5xx, OutcomeTimeout, OutcomeConnectError,
		OutcomeTLSError, OutcomeDNSError, OutcomeBlocked, OutcomeInterrupted, OutcomeMissing, OutcomeGaveUp, OutcomeDamaged, OutcomeUnknown,
		OutcomeAcked, OutcomeNacked}
}

// Success reports whether the target took the delivery.
func (o Outcome) Success() bool { return o == Outcome2xx || o == OutcomeAcked }

// Attempt is one HTTP request on the wire for a delivery. It never changes
// once recorded.
type Attempt struct {
	Event      Ref           `json:"event"`
	Target     string        `json:"target"`
	Generation uint16        `json:"generation"`
	Number     uint32        `json:"number"` // from 1, per generation
	StartedAt  time.Time     `json:"started_at"`
	Duration   time.Duration `json:"duration_ns"`
	Phases     Phases        `json:"phases"`
	Status     int           `json:"status"` // HTTP status; 0 when no answer came
	Outcome    Outcome       `json:"outcome"`
	Error      string        `json:"error"`    // short, without secrets; "" when answered
	Response   []byte        `json:"response"` // head of the answer, at most 4 KiB
	State      State         `json:"state"`    // of the delivery after it
	RetryIn    time.Duration `json:"retry_in_ns"`
	Late       bool          `json:"late"` // its lease was lost; the delivery did not change
}

// Phases are the parts of an attempt's duration, in their order and without
// what lies between them, to the microsecond. One that was not needed, as on a
// connection that was open already, or not reached is zero.
type Phases struct {
	DNS       time.Duration `json:"dns_ns,omitzero"`        // look-up of the name
	Connect   time.Duration `json:"connect_ns,omitzero"`    // until connected, or not
	TLS       time.Duration `json:"tls_ns,omitzero"`        // handshake
	FirstByte time.Duration `json:"first_byte_ns,omitzero"` // from the request written to the answer's first byte
}

// Truncate is p to the microsecond, the precision in which ledgers keep it. A
// phase that there was takes at least one: none means that there was none.
func (p Phases) Truncate() Phases {
	us := func(d time.Duration) time.Duration {
		if d > 0 {
			d = max(d.Truncate(time.Microsecond), time.Microsecond)
		}
		return d
	}
	return Phases{DNS: us(p.DNS), Connect: us(p.Connect), TLS: us(p.TLS), FirstByte: us(p.FirstByte)}
}
