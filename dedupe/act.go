package dedupe

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/onceward/onceward/event"
)

// ActKind says what an act records. The numbers are part of every leaf.
type ActKind uint8

// The kinds of acts.
const (
	ActAccepted    ActKind = iota + 1 // a new event, with its claim and its deliveries
	ActRepeated                       // a known event came again
	ActConflicting                    // a known event ID came with another body
	ActRefused                        // requests that did not verify: a count per minute, source and reason
	ActAttempted                      // an attempt that left its delivery open, or came too late to change it
	ActDelivered                      // an attempt that landed
	ActDead                           // a delivery given up; without an attempt when Number is 0
	ActReplayed                       // a delivery opened again
	ActCancelled                      // a delivery closed unfinished
	ActSettled                        // an operator said how something of unknown outcome ended
	ActConfigured                     // a configuration was put into effect, or was not
	ActOperated                       // whatever else an operator did, or tried to
	ActKeyed                          // a moment in the life of a key of a synchronous route
)

var actNames = [...]string{"", "accepted", "repeated", "conflicting", "refused", "attempted", "delivered", "dead", "replayed",
	"cancelled", "settled", "configured", "operated", "keyed"}

// String is the kind's public name.
func (k ActKind) String() string {
	if k > 0 && int(k) < len(actNames) {
		return actNames[k]
	}
	return fmt.Sprintf("act(%d)", uint8(k))
}

// ParseActKind reads a public name.
func ParseActKind(s string) (ActKind, error) {
	for i, name := range actNames {
		if i > 0 && name == s {
			return ActKind(i), nil
		}
	}
	return 0, fmt.Errorf("kind of act %q: want one of %s", s, strings.Join(actNames[1:], ", "))
}

// By says who had something done, and why.
type By struct {
	Actor  string // name of a token, or of a part of the gateway; never a credential
	Reason string // in the actor's words
}

// String is the actor and the reason, "" when there is neither.
func (b By) String() string {
	if b.Actor == "" || b.Reason == "" {
		return b.Actor + b.Reason
	}
	return b.Actor + ": " + b.Reason
}

// Act is one record of the account: something that happened, written in the
// transaction of what it records and never changed. Which fields are set
// follows from the kind; zero fields take no space. A text is kept up to
// MaxActText bytes.
type Act struct {
	Kind ActKind
	// At is the ledger time of the transaction, to the millisecond. The ledger
	// sets it.
	At     time.Time
	Event  event.Ref // what it is about; of a repeat, the first event
	Source string
	Target string

	Provider string
	ID       string     // the provider's event ID
	Type     string     // the provider's event type
	Secret   string     // label of the secret that verified the request; never its value
	Hash     event.Hash // of the event's exact bytes; of an attempt, of the answer's head as kept; of a configuration
	Bytes    int64      // length of the event's exact bytes
	// Time is wall clock: received, attempt started, begin of the minute counted.
	Time     time.Time
	Duration time.Duration

	Generation uint16
	Number     uint64 // of the attempt in its generation; how many were counted
	Status     int
	// Outcome is one word: the outcome of an attempt, a verdict, the reason of a
	// refusal, the name of what an operator did.
	Outcome string
	State   event.State // of the delivery after it
	RetryIn time.Duration
	Flags   event.Flags
	Related event.Ref // the earlier event of a conflict or guard hit
	Late    bool      // the lease was lost: the attempt changed nothing

	By
	Detail string
}

// MaxActText is how many bytes of a text an act keeps.
const MaxActText = 1024

// LoggedAct is an act in its place. Leaf is its canonical form, which DecodeAct
// reads and hashes are taken of.
type LoggedAct struct {
	Index uint64 // dense per writer, from 0, in the order of commitment
	Leaf  []byte
}

// ActLog is the acts of one writer.
type ActLog struct {
	Writer uint64
	Own    bool   // the writer is this ledger, which goes on with it
	First  uint64 // the oldest act kept
	Next   uint64 // index of the act to come
	Keep   uint64 // retention has ended for the acts before it
}

// Acts is the account's side of a ledger: every act of every writer, in order.
// An engine writes the acts of requests and results by itself (see AcceptedAct,
// SeenAct, Result.Act, ReplayedAct, CancelledAct, KeyStep.Acts) and those of
// Batch.Acts as they are, in this order: requests, results, others, keys.
type Acts interface {
	// ActLogs lists the writers that ever wrote here and of whom an act is kept,
	// and this ledger itself.
	ActLogs(ctx context.Context) ([]ActLog, error)
	// Acts returns acts of a writer from index from on: up to about limit, at
	// least one if there is one. ErrPruned when from is older than what is kept,
	// ErrNotFound for an unknown writer, ErrDamaged when an act that must be
	// there is not.
	Acts(ctx context.Context, writer, from uint64, limit int) ([]LoggedAct, error)
	// EventActs returns the acts of one event's acceptance and attempts, per
	// writer. Acts gone by retention are left out. Errors are those of
	// Account.Get.
	EventActs(ctx context.Context, ref event.Ref) (map[uint64][]LoggedAct, error)
	// SealActs says that acts of a writer before index at are accounted for
	// elsewhere: Expire may drop them when their retention has ended, and none
	// that is not sealed. Seals are forgotten at a restart.
	SealActs(ctx context.Context, writer, at uint64) error
}

// AcceptedAct records a new event.
func AcceptedAct(ev *event.Event) Act {
	return Act{
		Kind: ActAccepted, Event: ev.Ref, Source: ev.Source, Provider: ev.Provider, ID: ev.ID, Type: ev.Type, Secret: ev.Secret,
		Hash: ev.BodyHash, Bytes: ev.Body.Length, Time: ev.ReceivedAt, Flags: ev.Flags, Related: ev.Related,
	}
}

// SeenAct records an item for which an earlier event stands.
func SeenAct(it *Item, d *Decision) Act {
	ev := &it.Event
	a := Act{
		Kind: ActRepeated, Event: d.First.Ref, Source: ev.Source, ID: ev.ID, Secret: ev.Secret,
		Hash: ev.BodyHash, Bytes: ev.Body.Length, Time: ev.ReceivedAt, Outcome: d.Verdict.String(),
	}
	if d.Verdict == Differs || d.Verdict == Rejected {
		a.Kind = ActConflicting
	}
	return a
}

// Act records the result; state is the delivery's after it. A postponement
// without an attempt is no act.
func (r *Result) Act(state event.State) (Act, bool) {
	d, at := &r.Lease.Delivery, &r.Attempt
	if r.NoAttempt && (r.Late || state.Open()) {
		return Act{}, false
	}
	a := Act{
		Kind: ActAttempted, Event: d.Event, Target: d.Target, Generation: d.Generation,
		Status: at.Status, Outcome: string(at.Outcome), State: state, Late: r.Late,
	}
	if !r.NoAttempt {
		a.Number, a.Time, a.Duration, a.RetryIn = uint64(at.Number), at.StartedAt, at.Duration, at.RetryIn
		if len(at.Response) > 0 {
			a.Hash = event.HashOf(at.Response)
		}
	}
	if !r.Late {
		switch state {
		case event.Delivered:
			a.Kind = ActDelivered
		case event.Dead:
			a.Kind = ActDead
		case event.Cancelled:
			a.Kind = ActCancelled
		}
	}
	return a, true
}

// ReplayedAct records a delivery opened again.
func ReplayedAct(d *event.Delivery, by By) Act {
	return Act{Kind: ActReplayed, Event: d.Event, Target: d.Target, Generation: d.Generation, By: by}
}

// CancelledAct records a delivery that an operator closed.
func CancelledAct(d *event.Delivery, by By) Act {
	return Act{Kind: ActCancelled, Event: d.Event, Target: d.Target, Generation: d.Generation, State: event.Cancelled, By: by}
}

// OfEvent reports whether the act is the acceptance of ref or an attempt at
// one of its deliveries.
func (a *Act) OfEvent(ref event.Ref) bool {
	if a.Event != ref {
		return false
	}
	return a.Kind == ActAccepted || a.IsAttempt()
}

// IsAttempt reports whether the act records an HTTP request on the wire.
func (a *Act) IsAttempt() bool {
	switch a.Kind {
	case ActAttempted, ActDelivered, ActDead, ActCancelled:
		return a.Number > 0
	}
	return false
}
