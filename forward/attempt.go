package forward

import (
	"context"
	"errors"
	"time"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

// worker makes one attempt after the other.
type worker struct {
	q    *queue
	keep *keeper
}

// answer is what came back from the wire.
type answer struct {
	status  int
	outcome event.Outcome
	text    string // of the error; "" when answered
	head    []byte
	after   time.Duration // asked for by Retry-After
}

// run attempts what the feeders lease until the queue's channel is closed.
// Once leasing has ended it gives leases back instead.
func (w *worker) run(leasing, attempts context.Context) {
	for it := range w.q.work {
		it.from.took()
		if leasing.Err() != nil {
			w.q.release(it.lease)
			continue
		}
		if r := w.attempt(attempts, it.lease); r != nil {
			w.q.results <- r
		}
	}
}

// attempt makes the attempt that l allows and returns its result, or nil when
// there was none: the lease was lost before it, or the event could not be
// read now.
func (w *worker) attempt(ctx context.Context, l dedupe.Lease) *dedupe.Result {
	q := w.q
	if !q.secure(ctx, &l) {
		return nil
	}
	in, err := q.ledger.Load(ctx, l.Delivery.Event)
	switch {
	case errors.Is(err, dedupe.ErrDamaged), errors.Is(err, dedupe.ErrPruned), errors.Is(err, dedupe.ErrNotFound):
		return q.unreadable(l, err)
	case err != nil:
		q.unloaded(l, err)
		return nil
	}
	if q.faults.Load() != 0 {
		q.faults.Store(0)
	}
	if err := q.ledger.Begin(ctx, l); err != nil {
		q.unloaded(l, err)
		return nil
	}
	q.state.begin()
	start := q.now()
	a := w.send(ctx, l.Delivery, in, start)
	r := &dedupe.Result{Lease: l, Attempt: event.Attempt{
		Event: l.Delivery.Event, Target: l.Delivery.Target, Generation: l.Delivery.Generation,
		Number: l.Delivery.Attempts + 1, StartedAt: start, Duration: q.now().Sub(start),
		Status: a.status, Outcome: a.outcome, Error: a.text, Response: a.head,
	}}
	q.decide(r, a)
	q.state.end(&r.Attempt)
	q.logAttempt(l.Delivery, &r.Attempt)
	return r
}

// send puts one request on the wire and reads the answer.
func (w *worker) send(parent context.Context, d event.Delivery, in dedupe.Loaded, now time.Time) answer {
	ctx, stop := context.WithTimeout(parent, w.q.target.Timeout)
	defer stop()
	req := w.q.build.build(ctx, d, in, now)
	resp, err := w.q.transport.RoundTrip(req)
	if err != nil {
		outcome, text := classify(req.Context(), err)
		return answer{outcome: outcome, text: text}
	}
	a := answer{status: resp.StatusCode, outcome: outcomeOf(resp.StatusCode)}
	if a.outcome != event.Outcome2xx {
		a.after = retryAfter(resp.Header.Get("Retry-After"), w.q.now())
	}
	if a.outcome == event.OutcomeConnectError {
		a.text = "status of the answer is not one of HTTP's"
	}
	a.head = w.keep.keep(resp)
	return a
}

// decide sets what the attempt means for the delivery. An interrupted one is
// due at once: it says nothing about the target.
func (q *queue) decide(r *dedupe.Result, a answer) {
	switch q.target.judge(a.status, a.outcome) {
	case deliver:
		r.State = event.Delivered
	case die:
		r.State = event.Dead
	case retry:
		q.postpone(r, a)
	}
	r.Attempt.State, r.Attempt.RetryIn = r.State, r.Delay
}

func (q *queue) postpone(r *dedupe.Result, a answer) {
	r.State = event.Pending
	if a.outcome == event.OutcomeInterrupted {
		return
	}
	delay, ok := q.target.delay(r.Attempt.Number, q.rand(), a.after, q.age(r.Lease.Delivery))
	if !ok {
		r.State = event.Dead
		return
	}
	r.Delay = delay
}

// age is ledger time since the delivery was opened.
func (q *queue) age(d event.Delivery) time.Duration {
	opened := d.OpenedAt
	if opened.IsZero() {
		opened = d.Event.Time()
	}
	return q.ledger.Now().Sub(opened)
}

// secure makes sure that l outlives an attempt and the commit of its result,
// false when it is lost.
func (q *queue) secure(ctx context.Context, l *dedupe.Lease) bool {
	now := q.ledger.Now()
	if l.Until.Sub(now) >= q.target.Timeout+commitMargin {
		return true
	}
	ok, err := q.ledger.Extend(ctx, *l, q.ttl())
	if err != nil {
		q.unloaded(*l, err)
		return false
	}
	if !ok {
		q.log.Debug("lease was lost before its attempt", "delivery", l.Delivery.DeliveryID())
		return false
	}
	l.Until = now.Add(q.ttl())
	return true
}

// unreadable closes a delivery whose event can't be sent any more. Nothing
// goes on the wire.
func (q *queue) unreadable(l dedupe.Lease, err error) *dedupe.Result {
	text := "stored event or body failed its check"
	if errors.Is(err, dedupe.ErrPruned) {
		text = "body was pruned by retention"
		q.log.Warn("delivery is dead: its body was pruned", "ref", l.Delivery.Event.String(), "delivery", l.Delivery.DeliveryID())
	} else {
		q.log.Error("delivery is dead: its event is damaged", "ref", l.Delivery.Event.String(), "delivery", l.Delivery.DeliveryID(), "error", err)
	}
	q.state.metrics.attempts[event.OutcomeDamaged].Inc()
	return closed(l, event.OutcomeDamaged, text, q.now())
}

// closed is the result that ends a delivery without an attempt.
func closed(l dedupe.Lease, outcome event.Outcome, text string, now time.Time) *dedupe.Result {
	d := l.Delivery
	return &dedupe.Result{Lease: l, State: event.Dead, NoAttempt: true, Attempt: event.Attempt{
		Event: d.Event, Target: d.Target, Generation: d.Generation, Number: d.Attempts + 1,
		StartedAt: now, Outcome: outcome, Error: text, State: event.Dead,
	}}
}
