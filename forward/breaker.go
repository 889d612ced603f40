package forward

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// The defaults of a Breaker, and its bounds.
const (
	DefaultFailures = 10
	DefaultRatio    = 0.9
	DefaultProbe    = 5 * time.Second
	DefaultProbeMax = 5 * time.Minute
	MaxFailures     = 1000
	MinRatio        = 0.05

	// maxHistory is how many changes of a breaker are remembered.
	maxHistory = 50
)

// Breaker says when a target counts as sick. It opens when Failures of the last
// Failures/Ratio results spoke against the target: so many in a row always do.
// While it is open one attempt at a time probes, after Probe and then at
// intervals that double up to ProbeMax; one that doesn't fail closes it.
// Nothing else is attempted, so nothing is lost and no attempt is used up.
type Breaker struct {
	Off      bool
	Failures int           // 0 = DefaultFailures, at most MaxFailures
	Ratio    float64       // 0 = DefaultRatio; from MinRatio to 1
	Probe    time.Duration // 0 = DefaultProbe
	ProbeMax time.Duration // 0 = DefaultProbeMax; at least Probe
}

func (b *Breaker) fill() {
	setDefault(&b.Failures, DefaultFailures)
	setDefault(&b.Ratio, DefaultRatio)
	setDefault(&b.Probe, DefaultProbe)
	setDefault(&b.ProbeMax, max(DefaultProbeMax, b.Probe))
}

func (b *Breaker) check() error {
	switch {
	case b.Failures < 0 || b.Failures > MaxFailures:
		return fmt.Errorf("breaker: %d failures: want 1 to %d", b.Failures, MaxFailures)
	case !(b.Ratio >= MinRatio && b.Ratio <= 1):
		return fmt.Errorf("breaker: ratio %v: want %v to 1", b.Ratio, MinRatio)
	case b.Probe < 0 || b.ProbeMax < b.Probe:
		return errors.New("breaker: want a first probe after more than no time, and the longest interval not below it")
	}
	return nil
}

// The states of a breaker.
const (
	BreakerClosed   = "closed"
	BreakerOpen     = "open"
	BreakerHalfOpen = "half_open" // a probe is under way
)

// BreakerChange is one turn of a breaker.
type BreakerChange struct {
	At     time.Time `json:"at"` // wall clock
	State  string    `json:"state"`
	Reason string    `json:"reason"`
}

// BreakerStatus is the state of a target's breaker.
type BreakerStatus struct {
	State   string    `json:"state"`
	ProbeAt time.Time `json:"probe_at"` // ledger time of the next probe; zero while closed
	Probes  int       `json:"probes"`   // that failed since it opened
	// History is its last turns, the oldest first.
	History []BreakerChange `json:"history"`
}

// breaker is the state machine. It reads no clock and is guarded by its gate.
type breaker struct {
	cfg Breaker

	ring  []bool // the last results, true for failures
	next  int
	known int // of ring
	fails int // of those known

	open     bool
	probing  uint64 // token of the probe under way, 0 for none
	tokens   uint64
	probeAt  time.Time     // ledger time
	wait     time.Duration // before probeAt
	probes   int           // failed since it opened
	failedAt time.Time     // ledger time of the last failed probe; zero while closed
	closedAt time.Time     // ledger time
	history  []BreakerChange
}

// moment is one time on both clocks.
type moment struct{ ledger, wall time.Time }

// configure changes the rules. What was counted under others is forgotten;
// whether it is open stays, unless it is switched off.
func (b *breaker) configure(cfg Breaker, at moment) (changed bool) {
	if b.cfg == cfg {
		return false
	}
	b.cfg = cfg
	b.forget()
	if cfg.Off && b.open {
		b.close(at, "switched off")
		return true
	}
	return false
}

func (b *breaker) forget() {
	b.ring, b.next, b.known, b.fails = make([]bool, int(float64(b.cfg.Failures)/b.cfg.Ratio)), 0, 0, 0
}

// record takes in the result of an attempt: sick, that it spoke against the
// target, and what to say of it; probe is its token, 0 for others, which say
// nothing while the breaker is open. It reports whether anything is to be kept.
func (b *breaker) record(sick bool, probe uint64, at moment, what string) (changed bool) {
	switch {
	case b.cfg.Off:
		return false
	case !b.open:
		b.count(sick)
		if b.fails < b.cfg.Failures {
			return false
		}
		b.trip(at, fmt.Sprintf("%d of the last %d attempts failed, the last with %s", b.fails, b.known, what))
		return true
	case probe == 0 || probe != b.probing:
		return false
	case !sick:
		b.close(at, "a probe was answered with "+what)
		return true
	}
	b.probing = 0
	b.probes++
	b.failedAt = at.ledger
	b.wait = min(2*b.wait, b.cfg.ProbeMax)
	b.probeAt = at.ledger.Add(b.wait)
	return true
}

func (b *breaker) count(sick bool) {
	if b.known == len(b.ring) {
		if b.ring[b.next] {
			b.fails--
		}
	} else {
		b.known++
	}
	b.ring[b.next] = sick
	if sick {
		b.fails++
	}
	b.next = (b.next + 1) % len(b.ring)
}

// trip opens it. A target that fails again as soon as it was let is probed
// more rarely.
func (b *breaker) trip(at moment, reason string) {
	if b.wait > 0 && at.ledger.Sub(b.closedAt) < b.wait {
		b.wait = min(2*b.wait, b.cfg.ProbeMax)
	} else {
		b.wait = b.cfg.Probe
	}
	b.open, b.probing, b.probes, b.failedAt = true, 0, 0, time.Time{}
	b.probeAt = at.ledger.Add(b.wait)
	b.note(at, BreakerOpen, reason)
}

func (b *breaker) close(at moment, reason string) {
	b.open, b.probing, b.probes, b.failedAt, b.closedAt = false, 0, 0, time.Time{}, at.ledger
	b.forget()
	b.note(at, BreakerClosed, reason)
}

func (b *breaker) note(at moment, state, reason string) {
	if len(b.history) == maxHistory {
		b.history = b.history[:copy(b.history, b.history[1:])]
	}
	b.history = append(b.history, BreakerChange{At: at.wall, State: state, Reason: reason})
}

// probe hands out the token of a probe if one is due, else how long until one
// is; 0 and false while another is under way.
func (b *breaker) probe(now time.Time) (token uint64, wait time.Duration, ok bool) {
	if b.probing != 0 {
		return 0, 0, false
	}
	if wait = b.probeAt.Sub(now); wait > 0 {
		return 0, wait, false
	}
	b.tokens++
	b.probing = b.tokens
	return b.probing, 0, true
}

// abandon takes back a probe that said nothing: the next may begin at once.
func (b *breaker) abandon(token uint64) {
	if token != 0 && token == b.probing {
		b.probing = 0
	}
}

func (b *breaker) status() BreakerStatus {
	s := BreakerStatus{State: BreakerClosed, Probes: b.probes, History: append([]BreakerChange{}, b.history...)}
	if b.open {
		s.State, s.ProbeAt = BreakerOpen, b.probeAt
	}
	if b.probing != 0 {
		s.State = BreakerHalfOpen
	}
	return s
}

// breakerNote is what is kept of a breaker in the ledger.
type breakerNote struct {
	Open     bool            `json:"open"`
	ProbeAt  time.Time       `json:"probe_at,omitzero"` // ledger time
	Wait     time.Duration   `json:"wait_ns"`
	Probes   int             `json:"probes"`
	FailedAt time.Time       `json:"failed_at,omitzero"` // ledger time
	ClosedAt time.Time       `json:"closed_at,omitzero"` // ledger time
	History  []BreakerChange `json:"history"`
}

func (b *breaker) kept() breakerNote {
	return breakerNote{b.open, b.probeAt, b.wait, b.probes, b.failedAt, b.closedAt, append([]BreakerChange{}, b.history...)}
}

// restore takes up what was kept. A probe that was under way then is due.
func (b *breaker) restore(value []byte) error {
	n, err := parseBreaker(value)
	if err != nil {
		return err
	}
	b.take(n)
	b.probing = 0
	return nil
}

// adopt takes up what another gateway kept. A probe of our own goes on, unless
// the other closed it.
func (b *breaker) adopt(n breakerNote) {
	was := b.open
	if b.take(n); !b.open {
		b.probing = 0
	}
	if was && !b.open {
		b.forget()
	}
}

func (b *breaker) take(n breakerNote) {
	b.open, b.probeAt, b.wait, b.probes = n.Open && !b.cfg.Off, n.ProbeAt, n.Wait, n.Probes
	b.failedAt, b.closedAt, b.history = n.FailedAt, n.ClosedAt, n.History
	if over := len(b.history) - maxHistory; over > 0 {
		b.history = b.history[over:]
	}
}

func parseBreaker(value []byte) (n breakerNote, err error) {
	if err := json.Unmarshal(value, &n); err != nil {
		return n, fmt.Errorf("decode breaker: %w", err)
	}
	return n, nil
}

// yields reports that what another gateway kept meanwhile, theirs, is to stand
// in place of this: they saw the same, or a probe of theirs was answered.
func (n *breakerNote) yields(theirs *breakerNote) bool {
	return n.Open == theirs.Open || n.Open && n.Probes > 0
}
