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

// room is how many leases of all feeders can wait at once.
func room(t *Target) int {
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
		wait, hint := fd.fill(ctx)
		if wait <= 0 {
			continue
		}
		timer.Reset(wait)
		if !hint {
			select {
			case <-timer.C:
			case <-ctx.Done():
			}
			continue
		}
		select {
		case <-wake:
		case <-timer.C:
		case <-ctx.Done():
		}
	}
}

// fill leases what there is room for and says how long to wait before the
// next look, and whether a hint of the ledger may end the wait.
func (fd *feeder) fill(ctx context.Context) (wait time.Duration, hint bool) {
	q := fd.q
	if d := q.pause(); d > 0 {
		return d, false
	}
	if q.stalled() {
		return time.Second, false
	}
	n := fd.limit - fd.queued.Load()
	leases, next, err := q.ledger.Lease(ctx, fd.name, int(n), q.ttl())
	if err != nil {
		q.fault("lease deliveries", err)
		return q.pause(), false
	}
	fd.queued.Add(int32(len(leases)))
	for _, l := range leases {
		q.work <- item{lease: l, from: fd} // never blocks: the channel holds every feeder's limit
	}
	switch {
	case len(leases) == int(n):
		return 0, true
	case next.IsZero():
		return recheck, true
	}
	return min(max(next.Sub(q.ledger.Now()), time.Millisecond), recheck), true
}
