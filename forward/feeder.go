package forward

import (
	"context"
	"sync/atomic"
	"time"
)

// feeder leases the due deliveries of one name for a queue. It holds few
// leases beyond what the workers hold, so that a slow target keeps few from
// being seen as pending.
type feeder struct {
	q      *queue
	name   string
	limit  int32         // leases that may wait for a worker
	low    int32         // at or below it the feeder leases again
	queued atomic.Int32  // leases that wait for a worker
	refill chan struct{} // holds a value when queued has fallen to low
}

// newFeeder makes the feeder of a target's own name, or a smaller one of a
// former name.
func newFeeder(q *queue, name string, own bool) *feeder {
	fd := &feeder{q: q, name: name, limit: int32(q.target.Concurrency), refill: make(chan struct{}, 1)}
	if !own {
		fd.limit = formerLimit(q.target)
	}
	fd.low = fd.limit / 2
	return fd
}

func formerLimit(t *Target) int32 { return int32(max(t.Concurrency/4, 1)) }

// waiting is how many leases of all feeders can wait at once.
func waiting(t *Target) int {
	return t.Concurrency + len(t.Former)*int(formerLimit(t))
}

// took says that a worker took a lease of this feeder.
func (fd *feeder) took() {
	if fd.queued.Add(-1) == fd.low {
		select {
		case fd.refill <- struct{}{}:
		default:
		}
	}
}

// run leases until ctx ends.
func (fd *feeder) run(ctx context.Context) {
	timer := time.NewTimer(recheck)
	defer timer.Stop()
	wake := fd.q.ledger.Wake(fd.name)
	for ctx.Err() == nil {
		if fd.queued.Load() > fd.low {
			select {
			case <-fd.refill:
			case <-ctx.Done():
			}
			continue
		}
		next := fd.fill(ctx)
		if next.wait <= 0 {
			continue
		}
		timer.Reset(next.wait)
		hint := wake
		if !next.hint {
			hint = nil
		}
		select {
		case <-hint:
		case <-next.turned:
		case <-timer.C:
		case <-ctx.Done():
		}
	}
}

// look is when a feeder looks again: after wait, or when turned is closed, or,
// with hint, when the ledger wakes it.
type look struct {
	wait   time.Duration
	turned <-chan struct{}
	hint   bool
}

// fill leases what there is room and leave for.
func (fd *feeder) fill(ctx context.Context) look {
	q := fd.q
	if d := q.pause(); d > 0 {
		return look{wait: d}
	}
	if q.stalled() {
		return look{wait: time.Second}
	}
	p := q.state.gate.ask(int(fd.limit-fd.queued.Load()), q.ledger.Now())
	if p.n == 0 {
		return look{wait: p.wait, turned: p.turned}
	}
	leases, next, err := q.ledger.Lease(ctx, fd.name, p.n, q.ttl())
	q.state.gate.settle(p, len(leases))
	if err != nil {
		q.fault("lease deliveries", err)
		return look{wait: q.pause()}
	}
	if p.probe != 0 && len(leases) > 0 && !q.claim(ctx, q.ledger.Now().Add(q.target.Timeout+commitMargin)) {
		q.release(leases[0])
		q.state.gate.abandon(p.probe)
		return look{wait: minPause, turned: p.turned}
	}
	fd.queued.Add(int32(len(leases)))
	for _, l := range leases {
		q.work <- item{lease: l, from: fd, probe: p.probe} // never blocks: the channel holds every feeder's limit
	}
	switch {
	case len(leases) == p.n:
		return look{}
	case next.IsZero():
		return look{wait: recheck, turned: p.turned, hint: true}
	}
	return look{wait: min(max(next.Sub(q.ledger.Now()), time.Millisecond), recheck), turned: p.turned, hint: true}
}
