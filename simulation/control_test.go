package simulation

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/dedupe/ledgertest"
	"github.com/onceward/onceward/event"
)

// broken is a ledger that breaks one promise, for some of what it does.
type broken struct {
	*memory
	how    string
	n      atomic.Int64
	synced atomic.Pointer[[]byte] // a copy of some commits ago
}

func (b *broken) sometimes(every int64) bool { return b.n.Add(1)%every == 0 }

func (b *broken) revive() engine {
	next := &broken{memory: b.memory.revive().(*memory), how: b.how}
	if b.how == "forgets the last commits in a kill" && b.synced.Load() != nil {
		m, err := ledgertest.RestoreMemory(b.cfg, bytes.NewReader(*b.synced.Load()))
		if err != nil {
			panic(err)
		}
		next.Memory = m
	}
	return next
}

func (b *broken) Commit(ctx context.Context, batch *dedupe.Batch) error {
	for _, req := range batch.Requests {
		for i := range req.Items {
			b.spoil(&req.Items[i])
		}
	}
	if b.how == "forgets the last commits in a kill" && b.sometimes(4) {
		var buf bytes.Buffer
		if err := b.Backup(ctx, &buf); err != nil {
			return err
		}
		copied := buf.Bytes()
		b.synced.Store(&copied)
	}
	return b.memory.Commit(ctx, batch)
}

func (b *broken) spoil(it *dedupe.Item) {
	switch {
	case b.how == "forgets a claim" && b.sometimes(7):
		it.Claim[0]++
	case b.how == "ends claims early":
		it.Window /= 2
	case b.how == "opens no delivery" && b.sometimes(7) && len(it.Event.Targets) > 0:
		it.Event.Targets = it.Event.Targets[1:]
	}
}

func (b *broken) Lease(ctx context.Context, target string, n int, ttl time.Duration) ([]dedupe.Lease, time.Time, error) {
	leases, next, err := b.memory.Lease(ctx, target, n, ttl)
	switch {
	case err != nil || len(leases) == 0:
	case b.how == "leases twice at once" && len(leases) < n:
		leases = append(leases, leases[0])
	case b.how == "loses a delivery" && b.sometimes(7):
		lost := &dedupe.Result{Lease: leases[0], State: event.Delivered, NoAttempt: true}
		if err := b.memory.Commit(ctx, &dedupe.Batch{Results: []*dedupe.Result{lost}}); err != nil {
			return nil, next, err
		}
		leases = slices.Delete(leases, 0, 1)
	}
	return leases, next, err
}

func (b *broken) Load(ctx context.Context, ref event.Ref) (dedupe.Loaded, error) {
	in, err := b.memory.Load(ctx, ref)
	if err == nil && b.how == "changes the key" && b.sometimes(7) {
		ev := *in.Event
		ev.Key += "~again"
		in.Event = &ev
	}
	return in, err
}

// TestControls: each ledger that breaks a promise is caught within a few
// plans.
func TestControls(t *testing.T) {
	const most = 100
	for _, how := range []string{
		"forgets a claim", "ends claims early", "opens no delivery", "loses a delivery", "leases twice at once",
		"changes the key", "forgets the last commits in a kill",
	} {
		t.Run(how, func(t *testing.T) {
			for p := 1; p <= most; p++ {
				out := play(t, plans.Example(p), func(w *world) (engine, error) {
					m, err := newMemory(w)
					if err != nil {
						return nil, err
					}
					return &broken{memory: m.(*memory), how: how}, nil
				})
				if len(out.faults) > 0 {
					fmt.Fprintf(os.Stderr, "control, a ledger that %s: caught in plan %d: %s\n", how, p, out.faults[0])
					return
				}
			}
			t.Errorf("a ledger that %s was not caught in %d plans", how, most)
		})
	}
}
