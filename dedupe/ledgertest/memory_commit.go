package ledgertest

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

// Commit applies a batch. It changes nothing before all of the batch is
// decided to be writable.
func (m *Memory) Commit(_ context.Context, b *dedupe.Batch) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.writable(b); err != nil {
		return err
	}
	now := m.clock.now()
	m.wrote = false
	var results []dedupe.Act // told after the requests
	for _, r := range b.Results {
		if a, ok := m.finish(r, now); ok {
			results = append(results, a)
		}
	}
	for _, req := range b.Requests {
		req.Outcomes, req.Err = nil, nil
		if m.diskLow {
			req.Err = dedupe.ErrDiskLow
			continue
		}
		if err := m.accept(req, now); err != nil {
			m.fatal = err
			return err
		}
	}
	for _, a := range results {
		m.act(a, now)
	}
	for _, a := range b.Acts {
		m.act(*a, now)
	}
	for _, s := range b.Keys {
		if err := m.step(s, now); err != nil {
			m.fatal = err
			return err
		}
	}
	m.disk.Batches++
	if m.wrote { // a batch that changes nothing leaves no trace, so no mark
		m.disk.Mark = now
	}
	return nil
}

// writable is an error when no batch, or not this one, can be written.
func (m *Memory) writable(b *dedupe.Batch) error {
	switch {
	case m.closed:
		return fmt.Errorf("%w: %w", dedupe.ErrFatal, dedupe.ErrClosed)
	case m.fatal != nil:
		return m.fatal
	case m.inject != nil:
		m.fatal = fmt.Errorf("%w: %w", dedupe.ErrFatal, m.inject)
		m.inject = nil
		return m.fatal
	}
	for _, req := range b.Requests {
		for i := range req.Items {
			if req.Items[i].HasClaim && req.Items[i].Claim == (dedupe.Key{}) {
				m.fatal = fmt.Errorf("%w: %w", dedupe.ErrFatal, dedupe.ErrNoClaimKey)
				return m.fatal
			}
		}
	}
	return nil
}

// accept decides and applies one request, item by item.
func (m *Memory) accept(req *dedupe.Request, now time.Time) error {
	req.Outcomes = make([]dedupe.Outcome, len(req.Items))
	body := bytes.Clone(req.Body)
	var first event.Ref // of the request's new events
	for i := range req.Items {
		ref := m.nextRef(now)
		d, err := dedupe.Decide(&req.Items[i], req.Batch, ref, now, m.standing(now))
		if err != nil {
			return fmt.Errorf("%w: %w", dedupe.ErrFatal, err)
		}
		m.count(d, req.Items[i].Event.ReceivedAt)
		if d.Verdict != dedupe.New {
			m.act(dedupe.SeenAct(&req.Items[i], &d), now)
			req.Outcomes[i] = m.earlier(d)
			continue
		}
		if first.IsZero() {
			first = ref
		}
		d.Event.Body.Request = first
		d.Event.Answer = req.Answer
		m.insert(d, body, req.Retention, now)
		m.act(dedupe.AcceptedAct(&d.Event), now)
		req.Outcomes[i] = dedupe.Outcome{
			Verdict: dedupe.New, Ref: ref, ID: d.Event.ID, Answer: req.Answer, Flags: d.Event.Flags,
		}
	}
	return nil
}

func (m *Memory) nextRef(now time.Time) event.Ref {
	ms := uint64(now.UnixMilli())
	if m.disk.Last.IsZero() {
		return event.NewRef(ms, 0, m.disk.Writer)
	}
	return m.disk.Last.Next(ms)
}

// standing finds claims that count at now: not expired, or of an open event.
func (m *Memory) standing(now time.Time) dedupe.Find {
	return func(k dedupe.Key) (dedupe.Claim, bool, error) {
		c, ok := m.disk.Claims[k]
		if !ok || now.Before(c.Expires) || now.Before(m.holdTill) && c.Expires.After(m.holdMark) {
			return c, ok, nil // or its end is in doubt, as the clock is
		}
		r, err := m.find(c.Ref)
		return c, err == nil && c.HeldBy(r.Deliveries), nil
	}
}

// count notes on the first event what arrived after it.
func (m *Memory) count(d dedupe.Decision, at time.Time) {
	r, err := m.find(d.First.Ref)
	if err != nil {
		return // nothing stood in the way, or retention took the event before its claim
	}
	switch d.Verdict {
	case dedupe.Repeat, dedupe.Replayed:
		r.Tally.Repeats++
	case dedupe.New, dedupe.Differs, dedupe.Rejected:
		r.Tally.Conflicts++
	}
	r.Tally.LastAt = at
}

// earlier is the outcome of an item that isn't new.
func (m *Memory) earlier(d dedupe.Decision) dedupe.Outcome {
	o := dedupe.Outcome{Verdict: d.Verdict, Ref: d.First.Ref}
	if r, err := m.find(d.First.Ref); err == nil {
		o.ID, o.Answer = r.Event.ID, r.Event.Answer
	}
	return o
}

// insert writes a new event with its claims and deliveries.
func (m *Memory) insert(d dedupe.Decision, body []byte, keep dedupe.Retention, now time.Time) {
	s := d.Event.Body
	r := &record{
		Event: d.Event, Body: body[s.Offset : s.Offset+s.Length : s.Offset+s.Length],
		Retention: m.retention(keep), Kept: now,
	}
	for _, t := range d.Event.Targets {
		del := event.Delivery{Event: d.Event.Ref, Target: t, State: event.Pending, DueAt: now, OpenedAt: now}
		r.Deliveries = append(r.Deliveries, del)
		m.schedule.Add(t, r.entry(del))
	}
	for _, c := range d.Claims {
		m.disk.Claims[c.Key] = c
	}
	m.disk.Records = append(m.disk.Records, r)
	m.disk.Last = d.Event.Ref
	m.disk.Accepted++
}

// retention fills in the ledger's defaults.
func (m *Memory) retention(r dedupe.Retention) dedupe.Retention {
	def := m.cfg.Retention
	pick := func(ds ...time.Duration) time.Duration {
		for _, d := range ds {
			if d > 0 {
				return d
			}
		}
		return 0
	}
	return dedupe.Retention{
		Body:  pick(r.Body, def.Body, DefaultBody),
		Meta:  pick(r.Meta, def.Meta, DefaultMeta),
		Audit: pick(r.Audit, def.Audit, DefaultAudit),
		Once:  r.Once,
	}
}

// finish applies one result and returns its act, if it is one.
func (m *Memory) finish(res *dedupe.Result, now time.Time) (dedupe.Act, bool) {
	_, held := m.schedule.Fence(res.Lease)
	res.Late = !held
	delete(m.disk.Begun, wireOf(res.Lease))
	r, err := m.find(res.Lease.Delivery.Event)
	if err != nil {
		return dedupe.Act{}, false // retention took the event after the lease was lost
	}
	d := r.delivery(res.Lease.Delivery.Target)
	if held {
		m.wrote = true
		*d = res.Settle(*d, now)
		r.spend()
		m.schedule.Settle(res.Lease, d.State, r.entry(*d))
	}
	var state event.State
	if d != nil {
		state = d.State
	}
	if res.NoAttempt {
		return res.Act(state)
	}
	a := res.Attempt
	a.Late = res.Late
	if a.Late && d != nil {
		a.State = m.view(*d).State
		state = a.State
	}
	r.Attempts = append(r.Attempts, a)
	return res.Act(state)
}

// view is a delivery as people see it: leases are in the schedule alone.
func (m *Memory) view(d event.Delivery) event.Delivery {
	if d.State.Open() {
		d.State = m.schedule.State(d.Target, d.Event)
	}
	return d
}
