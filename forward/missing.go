package forward

import (
	"context"
	"time"

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

// watchMissing closes the deliveries of targets that no configuration names
// once they are older than Config.GiveUp, until ctx ends. Until then they
// stay pending: the name may come back.
func (f *Forwarder) watchMissing(ctx context.Context) {
	said := make(map[string]bool)
	for {
		wait := sweepEvery
		missing := f.missing()
		for _, name := range missing {
			if !said[name] {
				f.cfg.Log.Warn("target is missing: its deliveries stay pending", "target", name)
			}
			wait = min(wait, f.sweep(ctx, name))
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

// sweep looks at what is due for a missing target, closes what is past
// give-up and gives the rest back unchanged. It returns when to look again.
func (f *Forwarder) sweep(ctx context.Context, name string) time.Duration {
	ledger, wait := f.cfg.Ledger, sweepEvery
	var young []dedupe.Lease
	defer func() {
		if err := ledger.Release(context.WithoutCancel(ctx), young...); err != nil {
			f.cfg.Log.Warn("give back leases", "target", name, "error", err)
		}
	}()
	for len(young) < sweepHold && ctx.Err() == nil {
		leases, next, err := ledger.Lease(ctx, name, sweepBatch, sweepTTL)
		if err != nil {
			f.cfg.Log.Warn("lease deliveries of a missing target", "target", name, "error", err)
			return wait
		}
		now := ledger.Now()
		var old []*dedupe.Result
		for _, l := range leases {
			if left := f.cfg.GiveUp - now.Sub(l.Delivery.OpenedAt); left > 0 {
				young = append(young, l)
				wait = min(wait, left)
				continue
			}
			old = append(old, closed(l, event.OutcomeMissing, "no such target is configured", f.cfg.Now()))
		}
		if !f.bury(ctx, name, old) {
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

// bury closes the deliveries of a missing target, false when the ledger fails.
func (f *Forwarder) bury(ctx context.Context, name string, old []*dedupe.Result) bool {
	if len(old) == 0 {
		return true
	}
	if err := f.cfg.Ledger.Finish(context.WithoutCancel(ctx), old...); err != nil {
		f.fail(err)
		return false
	}
	dead := f.metrics.deliveries.WithLabelValues(name, resultDead)
	for _, r := range old {
		if !r.Late {
			dead.Inc()
		}
	}
	f.cfg.Log.Info("deliveries are dead: target is missing", "target", name, "deliveries", len(old))
	return true
}
