package forward

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

const (
	// sweepEvery bounds the time between two looks at missing targets.
	sweepEvery = 10 * time.Minute
	sweepBatch = 256
	// sweepHold bounds the leases one look holds at once; what is beyond has
	// its turn when those before it are closed.
	sweepHold = 50_000
	sweepTTL  = 2 * time.Minute
)

// watchMissing closes, until ctx ends, the deliveries that are past their
// give-up and not attempted: those of targets that no configuration names, and
// of targets that are held back. Until then they stay pending: the name may
// come back, the target be resumed or well again.
func (f *Forwarder) watchMissing(ctx, storing context.Context) {
	said := make(map[string]bool)
	for {
		wait := sweepEvery
		missing := f.missing()
		for _, name := range missing {
			if !said[name] {
				f.cfg.Log.Warn("target is missing: its deliveries stay pending", "target", name)
			}
			wait = min(wait, f.sweep(ctx, storing, f.missed(name)))
		}
		for _, end := range f.held() {
			wait = min(wait, max(f.sweep(ctx, storing, end), time.Minute))
		}
		clear(said)
		for _, name := range missing {
			said[name] = true
		}
		timer := time.NewTimer(max(wait, time.Second))
		select {
		case <-timer.C:
		case <-f.changed:
		case <-ctx.Done():
			timer.Stop()
			return
		}
		timer.Stop()
	}
}

// ending says how the deliveries of one name end without an attempt.
type ending struct {
	name    string
	left    func(event.Delivery) time.Duration // until it ends
	outcome event.Outcome
	text    string
	dead    prometheus.Counter
}

func (f *Forwarder) missed(name string) ending {
	return ending{
		name: name, outcome: event.OutcomeMissing, text: "no such target is configured",
		left: func(d event.Delivery) time.Duration { return f.cfg.GiveUp - f.cfg.Ledger.Now().Sub(opened(d)) },
		dead: f.metrics.deliveries.WithLabelValues(name, resultDead),
	}
}

// held lists the endings of the targets that are held back. A delivery of a
// paused one ends when its give-up clock, which a pause stops for a while, has
// run out; one of an open breaker when a probe has failed since.
func (f *Forwarder) held() (out []ending) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, t := range f.targets {
		s := f.states[t.Name]
		paused, open, failedAt := s.gate.held()
		if !paused && (!open || failedAt.IsZero()) {
			continue
		}
		text := "gave up while the target was paused"
		now := f.cfg.Ledger.Now
		if !paused {
			text = "gave up while the target's breaker was open"
			now = func() time.Time { return failedAt }
		}
		left := func(d event.Delivery) time.Duration {
			at, from := now(), opened(d)
			return t.GiveUp - at.Sub(from) + s.gate.stopped(from, at)
		}
		for _, name := range append([]string{t.Name}, t.Former...) {
			out = append(out, ending{name: name, left: left, outcome: event.OutcomeGaveUp, text: text, dead: s.metrics.dead})
		}
	}
	return out
}

// sweep looks at what is due of one name, closes what is to end and gives the
// rest back unchanged. It returns when to look again.
func (f *Forwarder) sweep(ctx, storing context.Context, end ending) time.Duration {
	ledger, wait := f.cfg.Ledger, sweepEvery
	var young []dedupe.Lease
	defer func() {
		if err := ledger.Release(context.WithoutCancel(ctx), young...); err != nil {
			f.cfg.Log.Warn("give back leases", "target", end.name, "error", err)
		}
	}()
	for len(young) < sweepHold && ctx.Err() == nil {
		leases, next, err := ledger.Lease(ctx, end.name, sweepBatch, sweepTTL)
		if err != nil {
			f.cfg.Log.Warn("lease deliveries that may have to be given up", "target", end.name, "error", err)
			return wait
		}
		now := ledger.Now()
		var old []*dedupe.Result
		for _, l := range leases {
			if left := end.left(l.Delivery); left > 0 {
				young = append(young, l)
				wait = min(wait, left)
				continue
			}
			old = append(old, closed(l, end.outcome, end.text, f.cfg.Now()))
		}
		if !f.bury(storing, end, old) {
			return wait
		}
		if len(leases) < sweepBatch {
			// next may be the end of a lease held here, which tells nothing.
			if !next.IsZero() && (len(young) == 0 || next.Before(young[0].Until)) {
				wait = min(wait, next.Sub(now))
			}
			return wait
		}
	}
	return wait
}

// bury closes deliveries, false when the ledger fails.
func (f *Forwarder) bury(ctx context.Context, end ending, old []*dedupe.Result) bool {
	if len(old) == 0 {
		return true
	}
	if err := f.cfg.Ledger.Finish(ctx, old...); err != nil {
		if !errors.Is(err, dedupe.ErrAway) && !errors.Is(err, dedupe.ErrOverloaded) {
			f.fail(err)
		}
		return false
	}
	for _, r := range old {
		if !r.Late {
			end.dead.Inc()
		}
	}
	f.cfg.Log.Info("deliveries are dead: "+end.text, "target", end.name, "deliveries", len(old))
	return true
}
