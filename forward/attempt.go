package forward

import (
	"context"
	"errors"
	"fmt"
	"strconv"
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
	phases  event.Phases
}

// run attempts what the feeders lease until the queue's channel is closed.
// Once leasing has ended, or while the target is held back, it gives leases
// back instead.
func (w *worker) run(leasing, attempts context.Context) {
	for it := range w.q.work {
		it.from.took()
		if r := w.take(leasing, attempts, it); r != nil {
			w.q.results <- r
		}
	}
}

// take makes an attempt once there is room for its body among those of the
// target, if the target may be attempted then.
func (w *worker) take(leasing, attempts context.Context, it item) *dedupe.Result {
	q := w.q
	room, ok := q.share.take(leasing, it.lease.Size)
	defer room.free()
	if !ok || leasing.Err() != nil {
		q.state.gate.abandon(it.probe)
		q.release(it.lease)
		return nil
	}
	if !q.state.gate.admit(it.probe) {
		q.release(it.lease)
		return nil
	}
	defer q.state.gate.done(it.probe)
	return w.attempt(attempts, it, &room)
}

// attempt makes the attempt that a lease allows and returns its result, or nil
// when there was none: the lease was lost before it, or the event could not be
// read now.
func (w *worker) attempt(ctx context.Context, it item, room *room) *dedupe.Result {
	q, l := w.q, it.lease
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
	room.grow(len(in.Body))
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
		Phases: a.phases.Truncate(), Status: a.status, Outcome: a.outcome, Error: a.text, Response: a.head,
	}}
	q.decide(r, a, it.probe)
	q.state.end(&r.Attempt)
	q.logAttempt(l.Delivery, &r.Attempt)
	q.span(in.Event, l.Delivery, &r.Attempt)
	return r
}

// send puts one request on the wire and reads the answer.
func (w *worker) send(ctx context.Context, d event.Delivery, in dedupe.Loaded, now time.Time) answer {
	end := time.Now().Add(w.q.target.Timeout) // now is the ledger's
	req := w.q.build.build(ctx, d, in, now)
	var phases event.Phases
	resp, err := exchange(w.q.transport, req, end, &phases)
	if err != nil {
		outcome, text := classify(req.Context(), err)
		return answer{outcome: outcome, text: text, phases: phases}
	}
	a := answer{status: resp.StatusCode, outcome: outcomeOf(resp.StatusCode), phases: phases}
	if a.outcome != event.Outcome2xx {
		a.after = retryAfter(resp.Header.Get("Retry-After"), w.q.now())
	}
	if a.outcome == event.OutcomeConnectError {
		a.text = "status of the answer is not one of HTTP's"
	}
	a.head = w.keep.keep(resp)
	return a
}

// decide sets what the attempt means for the delivery and tells the breaker.
// An interrupted one is due at once: it says nothing about the target. While
// the breaker is open no delivery dies of an answer that speaks against the
// target: it waits with the others.
func (q *queue) decide(r *dedupe.Result, a answer, probe uint64) {
	v := q.target.judge(a.status, a.outcome)
	sick := q.target.sick(a.status, a.outcome, v)
	if q.judged(r, a, sick, probe) && sick {
		v = retry
	}
	switch v {
	case deliver:
		r.State = event.Delivered
	case die:
		r.State = event.Dead
	case retry:
		q.postpone(r, a)
	case hold:
		r.State = event.Pending
		q.hold(dedupe.By{Actor: "gateway", Reason: fmt.Sprintf("the target answered %d", a.status)})
	}
	r.Attempt.State, r.Attempt.RetryIn = r.State, r.Delay
}

// judged tells the breaker of a result and reports whether it is open.
func (q *queue) judged(r *dedupe.Result, a answer, sick bool, probe uint64) (open bool) {
	switch a.outcome {
	case event.OutcomeInterrupted, event.OutcomeDamaged:
		_, open, _ = q.state.gate.held()
		return open
	}
	what := string(a.outcome)
	if sick && a.status != 0 {
		what = "status " + strconv.Itoa(a.status)
	}
	changed, open := q.state.gate.judged(sick, probe, moment{q.ledger.Now(), q.now()}, what)
	if changed {
		q.save()
	}
	return open
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

// age is for how long the delivery's give-up clock has run.
func (q *queue) age(d event.Delivery) time.Duration {
	now, opened := q.ledger.Now(), opened(d)
	return now.Sub(opened) - q.state.gate.stopped(opened, now)
}

func opened(d event.Delivery) time.Time {
	if d.OpenedAt.IsZero() {
		return d.Event.Time()
	}
	return d.OpenedAt
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
