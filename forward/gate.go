package forward

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/onceward/onceward/dedupe"
)

// gate decides whether a target may be attempted now: not while it is paused,
// by probes alone while its breaker is open, and no faster than its rate, or
// this gateway's part of that. It outlives changes of the target's configuration.
type gate struct {
	// mu guards all below; held for bookkeeping only.
	mu      sync.Mutex
	turned  chan struct{} // closed, and made anew, when waiting may have ended
	control control
	breaker breaker
	rate    Rate
	share   dedupe.Share // of the rate
	limit   *limiter     // nil: no bound
	active  int          // attempts that were admitted and have not ended

	pausedGauge, openGauge prometheus.Gauge // read-only after newGate
}

func newGate(paused, open prometheus.Gauge) *gate {
	return &gate{turned: make(chan struct{}), share: dedupe.Share{Part: 1}, pausedGauge: paused, openGauge: open}
}

// configure applies a target's configuration. It reports whether the breaker
// changed by it.
func (g *gate) configure(t *Target, at moment) (changed bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.rate != t.Rate {
		g.rate = t.Rate
		g.limited(time.Now())
	}
	changed = g.breaker.configure(t.Breaker, at)
	g.turn()
	return changed
}

// limited puts rate and share into effect. g.mu is held.
func (g *gate) limited(now time.Time) {
	switch {
	case g.rate.Count == 0:
		g.limit = nil
	case g.limit == nil:
		g.limit = newLimiter(g.rate, g.share, now)
	default:
		g.limit.change(g.rate, g.share, now)
	}
}

// divide sets which part of the rate is this gateway's.
func (g *gate) divide(s dedupe.Share) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	waits := g.limit != nil && (g.share.Part != s.Part || g.limit.lapsed(now))
	g.share = s
	g.limited(now)
	if waits {
		g.turn()
	}
}

// turn shows how the gate stands now and wakes whoever waits. g.mu is held.
func (g *gate) turn() {
	g.pausedGauge.Set(oneIf(g.control.Paused))
	g.openGauge.Set(oneIf(g.breaker.open))
	close(g.turned)
	g.turned = make(chan struct{})
}

func oneIf(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// pass is leave to lease up to n deliveries and attempt them.
type pass struct {
	n     int
	probe uint64   // token of the only attempt, 0 for none
	limit *limiter // that promised n; nil without a rate
	// wait is, when n is 0, how long at least there will be no leave, and
	// turned is closed when that may change before.
	wait   time.Duration
	turned <-chan struct{}
}

// ask asks for leave to lease n deliveries at ledger time now. settle must
// follow, unless there is none.
func (g *gate) ask(n int, now time.Time) pass {
	g.mu.Lock()
	defer g.mu.Unlock()
	p := pass{n: n, wait: recheck, turned: g.turned}
	if g.control.Paused {
		p.n = 0
		return p
	}
	if g.breaker.open {
		token, wait, ok := g.breaker.probe(now)
		if !ok {
			p.n = 0
			if wait > 0 {
				p.wait = wait
			}
			return p
		}
		p.n, p.probe = 1, token
	}
	if g.limit == nil {
		return p
	}
	if p.n, p.wait = g.limit.promise(p.n, time.Now()); p.n > 0 {
		p.limit = g.limit
	} else {
		g.breaker.abandon(p.probe)
	}
	return p
}

// settle ends a pass of which used were leased. It takes the rest back.
func (g *gate) settle(p pass, used int) {
	if p.limit == nil && (p.probe == 0 || used > 0) {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if used == 0 {
		g.breaker.abandon(p.probe)
	}
	if p.limit != nil {
		p.limit.settle(p.n, used)
	}
}

// admit reports whether an attempt that was leased may begin now; done must
// follow then.
func (g *gate) admit(probe uint64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.control.Paused || g.limit != nil && g.limit.lapsed(time.Now()) || g.breaker.open && (probe == 0 || probe != g.breaker.probing) {
		if probe != 0 {
			g.breaker.abandon(probe)
			g.turn()
		}
		return false
	}
	g.active++
	return true
}

// abandon takes back a probe whose attempt was not begun.
func (g *gate) abandon(probe uint64) {
	if probe == 0 {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.breaker.abandon(probe)
	g.turn()
}

// done ends an attempt that was admitted. A probe that was not judged said
// nothing.
func (g *gate) done(probe uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.active--
	if probe != 0 {
		g.breaker.abandon(probe)
	}
	if probe != 0 || g.active == 0 && g.control.Paused {
		g.turn()
	}
}

// judged takes in a result; see breaker.record. open is how the breaker stands
// after it.
func (g *gate) judged(sick bool, probe uint64, at moment, what string) (changed, open bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	changed = g.breaker.record(sick, probe, at, what)
	if changed {
		g.turn()
	}
	return changed, g.breaker.open
}

// direct sets what operators decided.
func (g *gate) direct(c control) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.control = c
	g.turn()
}

// hold pauses on the spot, before the ledger knows; false when it is paused.
func (g *gate) hold(at moment, by dedupe.By) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.control.pause(at, by) {
		return false
	}
	g.turn()
	return true
}

// stopped is for how long, between from and now, the give-up clock stood.
func (g *gate) stopped(from, now time.Time) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.control.Paused && len(g.control.Ended) == 0 {
		return 0
	}
	return g.control.stopped(from, now)
}

// idle returns nil while no admitted attempt is under way, else a channel that
// is closed when that may have changed.
func (g *gate) idle() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.active == 0 {
		return nil
	}
	return g.turned
}

// held says why a target is not attempted: paused, or its breaker open, and
// then when a probe last failed.
func (g *gate) held() (paused, open bool, failedAt time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.control.Paused, g.breaker.open, g.breaker.failedAt
}

// restore takes up what was kept of the target. Of a breaker that can't be read
// it says so, and leaves it closed.
func (g *gate) restore(c control, breaker []byte, unread func(error)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.control = c
	if len(breaker) > 0 {
		if err := g.breaker.restore(breaker); err != nil {
			unread(err)
		}
	}
	g.turn()
}

// adopt takes up what another gateway kept of the breaker.
func (g *gate) adopt(n breakerNote) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.breaker.adopt(n)
	g.turn()
}

func (g *gate) kept() breakerNote {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.breaker.kept()
}

// view is what people see of a gate.
func (g *gate) view() (control, BreakerStatus) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.control, g.breaker.status()
}
