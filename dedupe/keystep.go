package dedupe

import (
	"errors"
	"strconv"
	"time"

	"github.com/onceward/onceward/event"
)

// StepKind is what a KeyStep does.
type StepKind uint8

// The acts.
const (
	StepClaim    StepKind = iota + 1 // the right to forward, or what stands in its way
	StepSpool                        // one chunk of an answer that is still arriving
	StepAnswer                       // the answer is complete
	StepRelease                      // the request was not executed
	StepUnknown                      // nobody knows whether it was
	StepSettle                       // an operator says that it was
	StepRetry                        // an operator says that it was not
	StepReplayed                     // the stored answer was given again
)

// KeyVerdict is what the ledger made of a step.
type KeyVerdict uint8

// The verdicts.
const (
	KeyClaimed  KeyVerdict = iota + 1 // StepClaim: the caller, and nobody else, forwards
	KeyReplay                         // StepClaim: Record holds the answer
	KeyBusy                           // StepClaim: in flight elsewhere until Record.Until
	KeyMismatch                       // StepClaim: the key stands for another request
	KeyStuck                          // StepClaim: the outcome is unknown and only an operator may settle it
	KeyDone                           // the step was applied
	KeyStale                          // the record had moved on; nothing was written
)

// KeyClaim is what a claim brings.
type KeyClaim struct {
	Source, Caller, ID string
	Target             string
	Downstream         string
	Print              event.Hash
	Former             []Key         // the same key under former names of the source
	Lease              time.Duration // how long the work may take
	Window             time.Duration // how long the key is remembered; at least Lease
	// Idempotent says that the target itself executes a key once, so that an
	// unknown outcome may be tried again with the same key.
	Idempotent bool
}

// KeyStep is one step in the life of a key. It rides in a batch like any
// request, and is applied to its record in the batch's transaction.
type KeyStep struct {
	Kind  StepKind
	Key   Key
	Claim *KeyClaim // StepClaim
	// Token is the claim's, for what concludes it. For StepSettle and StepRetry
	// it is the one the operator saw; 0 is any.
	Token uint64

	Chunk int    // StepSpool: number of the chunk, from 0
	Data  []byte // StepSpool: its bytes

	Answer *KeyAnswer // StepAnswer, StepSettle; Body nil and Length over MaxInline: it was spooled
	Detail string     // StepRelease, StepUnknown: a class
	By     By         // StepSettle, StepRetry: who says so, and why
	// ForwardedAt is when the request went out, by the wall clock; zero when it
	// did not.
	ForwardedAt time.Time
	Replays     uint64 // StepReplayed

	// Verdict and Record, the key as it stands after the step, are set by the
	// ledger before the step's caller wakes.
	Verdict KeyVerdict
	Record  SyncKey
	// Renewed says of a claim that it took a key that had been there: expired,
	// released, or unknown.
	Renewed KeyState
	Expired bool // the claim took a key whose window had ended
	lapse   bool // this step found that the key's lease had ended
	// Err is set in their place when this step alone was refused and nothing of
	// it was written: ErrDiskLow, ErrTooLarge, ErrDamaged.
	Err error
}

// FindKey reads the record of a key, as earlier steps of the same batch left
// it, locked against other writers. It is true for every record there is, also
// one that has expired.
type FindKey func(Key) (SyncKey, bool, error)

// ErrNoClaim reports a step that lacks what its act needs.
var ErrNoClaim = errors.New("key step lacks its claim, answer or key")

// check is nil for a step that can be applied.
func (s *KeyStep) check() error {
	switch {
	case s.Key == Key{}, s.Kind < StepClaim, s.Kind > StepReplayed, s.Kind == StepClaim && (s.Claim == nil || s.Claim.Window < s.Claim.Lease),
		(s.Kind == StepAnswer || s.Kind == StepSettle) && s.Answer == nil:
		return ErrNoClaim
	case s.Answer != nil && s.Answer.Body != nil && int64(len(s.Answer.Body)) != s.Answer.Length,
		s.Answer != nil && s.Answer.Body == nil && s.Answer.Length != 0 && s.Answer.Length <= MaxInline,
		s.Kind == StepSettle && s.Answer.Length > MaxInline, len(s.Data) > SyncChunk:
		return ErrTooLarge
	}
	return nil
}

// Apply is the state machine: it sets Verdict and Record and says whether
// Record is to be written. It reads through find and the clock it is given and
// does nothing else, so that an engine may run it again. A chunk that is to be
// written has KeyDone and write false.
func (s *KeyStep) Apply(now time.Time, find FindKey) (write bool, err error) {
	s.Verdict, s.Record, s.Renewed, s.Expired, s.lapse, s.Err = 0, SyncKey{}, 0, false, false, nil
	if err := s.check(); err != nil {
		return false, err
	}
	stored, found, err := s.find(now, find)
	if err != nil {
		return false, err
	}
	k := stored.At(now)
	s.lapse = k.State != stored.State
	if s.Kind == StepClaim {
		return s.claim(k, found, now), nil
	}
	if !found || k.Expired(now) {
		s.Verdict = KeyStale
		return false, nil
	}
	s.Record, s.Verdict = k, KeyDone
	if !s.applies(&k, now) {
		s.Verdict = KeyStale
		return false, nil
	}
	return s.conclude(&s.Record, now), nil
}

// find reads the key, or for a claim the one under a former name that is
// still remembered; the step goes on with that one.
func (s *KeyStep) find(now time.Time, find FindKey) (SyncKey, bool, error) {
	k, found, err := find(s.Key)
	if err != nil || s.Kind != StepClaim || found && !k.Expired(now) {
		return k, found, err
	}
	for _, former := range s.Claim.Former {
		old, ok, err := find(former)
		if err != nil {
			return old, false, err
		}
		if ok && !old.Expired(now) {
			s.Key = former
			return old, true, nil
		}
	}
	return k, found, nil
}

// claim decides who forwards. Another fingerprint comes before everything
// else that stands in the way.
func (s *KeyStep) claim(k SyncKey, found bool, now time.Time) (write bool) {
	free := !found || k.State == KeyReleased || k.Expired(now)
	s.Record = k
	switch {
	case free:
	case k.Print != s.Claim.Print:
		s.Verdict = KeyMismatch
		return false
	case k.State == KeyInFlight:
		s.Verdict = KeyBusy
		return false
	case k.State != KeyUnknown:
		s.Verdict = KeyReplay
		return false
	case !s.Claim.Idempotent:
		s.Verdict = KeyStuck
		return s.lapse // from here on the record says so
	}
	if found {
		s.Renewed, s.Expired = k.State, k.Expired(now)
	}
	s.take(found, now)
	return true
}

// take makes Record the claim's. Tokens follow the ledger's clock, so that none
// comes again even when the record of its key was dropped meanwhile.
func (s *KeyStep) take(found bool, now time.Time) {
	k, c := &s.Record, s.Claim
	fresh := !found || s.Expired
	was := *k
	*k = SyncKey{
		Key: s.Key, Source: c.Source, Caller: c.Caller, ID: c.ID, Target: c.Target, Downstream: c.Downstream, Print: c.Print,
		State: KeyInFlight, Token: max(was.Token+1, uint64(now.UnixMilli())), Until: now.Add(c.Lease), Window: c.Window,
		ClaimedAt: now, UpdatedAt: now, Expires: now.Add(c.Window),
	}
	if !fresh {
		k.ClaimedAt, k.Life = was.ClaimedAt, was.Life
	}
	if !fresh && was.State == KeyUnknown { // the target knows it by the key that went out
		k.Downstream = was.Downstream
	}
	k.note(now, MomentClaimed, "")
	s.Verdict = KeyClaimed
}

// applies reports whether the step's claim still stands.
func (s *KeyStep) applies(k *SyncKey, now time.Time) bool {
	switch s.Kind {
	case StepReplayed:
		return k.State == KeyAnswered || k.State == KeySettled
	case StepSettle, StepRetry:
		return k.State == KeyUnknown && (s.Token == 0 || s.Token == k.Token)
	}
	return k.State.Open() && s.Token == k.Token && now.Before(k.Expires)
}

// conclude applies the step to the record.
func (s *KeyStep) conclude(k *SyncKey, now time.Time) (write bool) {
	if s.Kind == StepSpool {
		return false
	}
	k.UpdatedAt = now
	if s.Kind == StepReplayed {
		k.Replays += s.Replays
		return true
	}
	if !s.ForwardedAt.IsZero() {
		k.note(s.ForwardedAt, MomentForwarded, k.Target)
	}
	switch s.Kind {
	case StepAnswer:
		k.State, k.Until, k.Why, k.Answer = KeyAnswered, time.Time{}, "", *s.Answer
		k.note(now, MomentAnswered, strconv.Itoa(s.Answer.Status))
	case StepRelease:
		k.State, k.Until, k.Why = KeyReleased, time.Time{}, s.Detail
		k.note(now, MomentReleased, s.Detail)
	case StepUnknown:
		k.State, k.Until, k.Why = KeyUnknown, time.Time{}, s.Detail
		k.note(now, MomentUnknown, s.Detail)
	case StepSettle:
		k.Token++
		k.State, k.Until, k.Why, k.Answer = KeySettled, time.Time{}, "", *s.Answer
		k.note(now, MomentSettled, s.By.String())
		s.renew(k, now)
	case StepRetry:
		k.Token++
		k.State, k.Until = KeyReleased, time.Time{}
		k.note(now, MomentSettled, s.By.String())
		k.note(now, MomentReleased, "retry")
		s.renew(k, now)
	}
	return true
}

// renew begins the window anew for a key that was held past its end: what the
// operator said must be there for the next repeat.
func (s *KeyStep) renew(k *SyncKey, now time.Time) {
	if !now.Before(k.Expires) {
		k.Expires = now.Add(k.Window)
	}
}
