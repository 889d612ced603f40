package forward

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
	"github.com/onceward/onceward/trace"
)

const (
	// commitMargin is how long a lease outlives its attempt, for the commit
	// of the result.
	commitMargin = 30 * time.Second
	// backlog is how many results of one target may wait for the ledger. A
	// crash sends them again, with the same keys.
	backlog = 256
	// recheck bounds how long a feeder trusts the ledger to wake it.
	recheck = time.Minute

	minPause = 100 * time.Millisecond
	maxPause = 10 * time.Second
	// awayFaults are as many faults as feeders pause for while the ledger is
	// away: 800 ms.
	awayFaults = 4
)

// queue serves one target under one configuration: a feeder per name leases,
// workers attempt, one finisher hands results to the ledger. A changed
// configuration makes a new queue; the old one ends its attempts under the
// old one.
type queue struct {
	// read-only
	target    *Target
	ledger    Ledger
	log       *slog.Logger
	now       func() time.Time // wall clock
	rand      func() float64
	state     *state
	build     *builder
	spans     *trace.Recorder
	transport roundTripper
	fail      func(error) // the ledger gave up
	share     *share
	save      func()                                          // keeps the breaker in the ledger, soon
	claim     func(ctx context.Context, until time.Time) bool // makes a probe ours
	hold      func(by dedupe.By)                              // pauses the target

	work    chan item
	results chan *dedupe.Result
	halt    context.CancelFunc // ends leasing; set before run

	committing atomic.Int64 // ledger time at which the present Finish began, or a slow one before it; 0 for none
	faults     atomic.Int32 // ledger faults in a row, of leasing and loading
	faultAt    atomic.Int64 // ledger time of the last one
	faultSaid  atomic.Int64 // ledger time of the last one that was logged
}

// item is a lease on its way to a worker.
type item struct {
	lease dedupe.Lease
	from  *feeder
	probe uint64 // token of the breaker's probe, 0 for none
}

// ttl is the length of a lease: time to wait for a worker, for the attempt,
// and for the commit of its result.
func (q *queue) ttl() time.Duration { return 2 * (q.target.Timeout + commitMargin) }

// run works until leasing ends and everything leased is either finished,
// durably, or given back. Attempts in flight end with attempts, and results that
// the ledger has not taken with storing.
func (q *queue) run(leasing, attempts, storing context.Context) {
	var feeders, workers, finisher sync.WaitGroup
	for i, name := range append([]string{q.target.Name}, q.target.Former...) {
		fd := newFeeder(q, name, i == 0)
		feeders.Go(func() { fd.run(leasing) })
	}
	for range q.target.Concurrency {
		w := &worker{q: q, keep: newKeeper(q.build.hidden)}
		workers.Go(func() { w.run(leasing, attempts) })
	}
	finisher.Go(func() { q.finish(storing) })
	feeders.Wait()
	close(q.work)
	workers.Wait()
	close(q.results)
	finisher.Wait()
	q.transport.CloseIdleConnections()
}

// finish hands results to the ledger, all that wait in one call, until the
// channel is closed.
func (q *queue) finish(ctx context.Context) {
	batch := make([]*dedupe.Result, 0, backlog)
	for r := range q.results {
		batch = append(batch[:0], r)
	gather:
		for len(batch) < backlog {
			select {
			case r, ok := <-q.results:
				if !ok {
					break gather
				}
				batch = append(batch, r)
			default:
				break gather
			}
		}
		q.commit(ctx, batch)
		clear(batch)
	}
}

// commit makes results durable and counts what they closed; while the ledger is
// away it waits. When the ledger fails, or stays away for longer than a stop
// waits, what is lost is sent again after a restart.
func (q *queue) commit(ctx context.Context, batch []*dedupe.Result) {
	if !q.stalled() {
		q.committing.Store(q.ledger.Now().UnixNano())
	}
	err := q.ledger.Finish(ctx, batch...)
	if !q.stalled() || len(q.results) == 0 {
		q.committing.Store(0) // else the leases of those that waited may have run out
	}
	if err != nil {
		q.unfinished(err, len(batch))
		return
	}
	q.count(batch...)
}

// unfinished says what it means that results were not committed.
func (q *queue) unfinished(err error, n int) {
	if !errors.Is(err, dedupe.ErrAway) && !errors.Is(err, dedupe.ErrOverloaded) {
		q.fail(err)
		return
	}
	q.log.Warn("results were not recorded: their attempts will be shown as of unknown outcome and made again", "attempts", n, "error", err)
}

// count counts what committed results closed.
func (q *queue) count(batch ...*dedupe.Result) {
	var now time.Time
	for _, r := range batch {
		m := &q.state.metrics
		switch {
		case r.Late:
			q.state.late.Add(1)
			m.late.Inc()
			q.log.Warn("result came after its lease was lost", "delivery", r.Lease.Delivery.DeliveryID(), "attempt", r.Attempt.Number)
		case r.State == event.Delivered:
			if now.IsZero() {
				now = q.ledger.Now()
			}
			m.delivered.Inc()
			m.latency.Observe(max(now.Sub(r.Lease.Delivery.OpenedAt).Seconds(), 0))
		case r.State == event.Dead:
			m.dead.Inc()
		}
	}
}

// stalled reports that a commit takes so long, or took, that the leases of the
// results behind it may run out. Leasing waits then, so that none is attempted
// again.
func (q *queue) stalled() bool {
	since := q.committing.Load()
	return since != 0 && q.ledger.Now().Sub(time.Unix(0, since)) > commitMargin/3
}

// release gives a lease back. A fault is no loss: the lease runs out.
func (q *queue) release(l dedupe.Lease) {
	if err := q.ledger.Release(context.Background(), l); err != nil && !errors.Is(err, dedupe.ErrClosed) && !errors.Is(err, dedupe.ErrAway) {
		q.log.Warn("give back lease", "delivery", l.Delivery.DeliveryID(), "error", err)
	}
}

// unloaded gives back a lease whose event can't be read now and makes the
// feeders pause.
func (q *queue) unloaded(l dedupe.Lease, err error) {
	q.release(l)
	q.fault("read event for delivery", err)
}

// fault counts a fault of the ledger, and says one now and then.
func (q *queue) fault(what string, err error) {
	now := q.ledger.Now().UnixNano()
	q.faultAt.Store(now)
	if errors.Is(err, dedupe.ErrAway) { // it says so itself, and is asked again soon
		q.faults.Store(min(q.faults.Load()+1, awayFaults))
		return
	}
	q.faults.Add(1)
	said := q.faultSaid.Load()
	if errors.Is(err, context.Canceled) || said != 0 && now-said < int64(warnEvery) || !q.faultSaid.CompareAndSwap(said, now) {
		return
	}
	q.log.Warn(what, "error", err)
}

// pause is how long the feeders wait because of faults of the ledger.
func (q *queue) pause() time.Duration {
	n := q.faults.Load()
	if n == 0 {
		return 0
	}
	d := min(minPause<<min(n-1, 10), maxPause)
	return d - q.ledger.Now().Sub(time.Unix(0, q.faultAt.Load()))
}
