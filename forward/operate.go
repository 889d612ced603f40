package forward

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/onceward/onceward/dedupe"
)

// awayAgain is how often what is kept of targets is asked for while the ledger
// is away.
const awayAgain = 200 * time.Millisecond

// restore reads what is kept of targets and applies it to those there are.
func (f *Forwarder) restore(ctx context.Context) error {
	for {
		err := f.book.open(ctx)
		if err == nil {
			break
		}
		if !errors.Is(err, dedupe.ErrAway) {
			return err
		}
		select { // it went away while the gateway started, and comes back
		case <-ctx.Done():
			return err
		case <-time.After(awayAgain):
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for name, s := range f.states {
		f.book.apply(name, s.gate)
	}
	return nil
}

// hold pauses a target at once; the ledger learns of it soon.
func (f *Forwarder) hold(name string, g *gate, by dedupe.By) {
	a := act{f.moment(), by}
	if !g.hold(a.at, by) {
		return
	}
	f.cfg.Log.Warn("target is paused", "target", name, "by", by.Actor, "reason", by.Reason)
	f.book.savePause(name, a)
}

// Pause stops attempts at a target, durably: those under way end, no other
// begins, deliveries stay pending, and for at most MaxPause the time doesn't
// count towards their give-up. It holds over restarts and reloads until
// Resume. Pausing a paused target changes nothing. A name that is no target is
// dedupe.ErrNotFound.
func (f *Forwarder) Pause(ctx context.Context, name string, by dedupe.By) error {
	at := f.moment()
	return f.direct(ctx, name, "target is paused", by, func(c *control) bool { return c.pause(at, by) })
}

// Resume ends a pause, whoever began it. What waited is due as it was.
// Otherwise it is as Pause.
func (f *Forwarder) Resume(ctx context.Context, name string, by dedupe.By) error {
	at := f.moment()
	return f.direct(ctx, name, "target is resumed", by, func(c *control) bool { return c.resume(at, by) })
}

// Drain is Pause, and waits until the attempts under way have ended. When ctx
// ends first it returns its error, and the target stays paused.
func (f *Forwarder) Drain(ctx context.Context, name string, by dedupe.By) error {
	if err := f.Pause(ctx, name, by); err != nil {
		return err
	}
	g := f.gate(name)
	for wait := g.idle(); wait != nil; wait = g.idle() {
		select {
		case <-wait:
		case <-ctx.Done():
			return fmt.Errorf("drain target %q: attempts are still under way: %w", name, ctx.Err())
		}
	}
	return nil
}

func (f *Forwarder) direct(ctx context.Context, name, what string, by dedupe.By, change func(*control) bool) error {
	f.mu.Lock()
	_, ok := f.targets[name]
	f.mu.Unlock()
	if !ok {
		return fmt.Errorf("target %q: %w", name, dedupe.ErrNotFound)
	}
	changed := false
	err := f.book.direct(ctx, name, f.gate(name), func(c *control) bool {
		changed = change(c)
		return changed
	})
	if err == nil && changed {
		f.cfg.Log.Warn(what, "target", name, "by", by.Actor, "reason", by.Reason)
	}
	return err
}

// Cancelled counts deliveries of a target that an operator closed.
func (f *Forwarder) Cancelled(target string, n int) {
	f.metrics.deliveries.WithLabelValues(target, resultCancelled).Add(float64(n))
}
