package receiver

import (
	"context"
	"sync"
	"time"

	"github.com/onceward/onceward/dedupe"
)

// replays counts the answers given again, until they are written to their
// keys: a replay waits for no disk. A crash forgets those of its last second.
type replays struct {
	mu sync.Mutex // guards n; held for bookkeeping only
	n  map[dedupe.Key]uint64
}

// countEvery is how often counts are written, and countMost how many at once.
const (
	countEvery = time.Second
	countMost  = 256
)

func (p *replays) add(k dedupe.Key) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.n == nil {
		p.n = map[dedupe.Key]uint64{}
	}
	p.n[k]++
}

// take is some of what is to be written.
func (p *replays) take() []*dedupe.KeyStep {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []*dedupe.KeyStep
	for k, n := range p.n {
		if len(out) == countMost {
			break
		}
		out = append(out, &dedupe.KeyStep{Kind: dedupe.StepReplayed, Key: k, Replays: n})
		delete(p.n, k)
	}
	return out
}

// flush writes all counts.
func (r *Receiver) flushReplays(ctx context.Context) {
	for steps := r.replays.take(); len(steps) > 0; steps = r.replays.take() {
		if err := r.cfg.Keys.Step(ctx, steps...); err != nil {
			r.log.Warn("replays not counted", "event", "sync.uncounted", "keys", len(steps), "error", err)
			return
		}
	}
}

// countReplays writes counts until ctx ends.
func (r *Receiver) countReplays(ctx context.Context) {
	tick := time.NewTicker(countEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			r.flushReplays(ctx)
		}
	}
}
