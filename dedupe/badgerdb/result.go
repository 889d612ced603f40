package badgerdb

import (
	"errors"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

// resultSize is room for what one result writes, and for forgetting the chunks
// of a body.
const resultSize = 40 << 10

// result writes the end of a lease: the attempt always, the delivery's state
// if the lease still stands.
func (c *commit) result(r *dedupe.Result) error {
	if c.size+resultSize > c.db.maxBatch {
		if err := c.commit(); err != nil {
			return err
		}
		c.reset()
	}
	ref, target := r.Lease.Delivery.Event, r.Lease.Delivery.Target
	entry, stands := c.db.sched.Fence(r.Lease)
	r.Late = !stands
	c.over = append(c.over, ended{&r.Lease, stands && !r.NoAttempt})
	at, err := c.where(ref, entry, stands)
	if err != nil {
		return err
	}
	if at == nil { // pruned under the lease, or unreadable: nothing to write to
		if stands {
			c.settled = append(c.settled, settled{r.Lease, event.Cancelled, entry})
		}
		return nil
	}
	dedupe.Failpoint("result")
	d := entry.Delivery(target)
	fold := stands && c.folds(at, r, &entry)
	late, err := c.attempt(at, r, d.Attempts+1)
	if err != nil {
		return err
	}
	if !stands {
		c.recordResult(r, late)
		return nil
	}
	if r.Attempt.Outcome == "" { // what the last attempt said stays
		was, err := readState(c.txn, &event.Event{Ref: ref}, *at, target)
		if err := c.db.passOver(ref, err); err != nil {
			return err
		}
		if err == nil {
			d = was
		}
	}
	d = r.Settle(d, c.now)
	if !fold {
		if err := c.state(*at, &d); err != nil {
			return err
		}
	}
	if err := c.dead(*at, &d, entry.Order); err != nil {
		return err
	}
	if err := c.spend(*at, &d); err != nil {
		return err
	}
	c.recordResult(r, d.State)
	next := dedupe.EntryOf(d)
	next.Class, next.Size = at.class.n, entry.Size
	c.settled = append(c.settled, settled{r.Lease, d.State, next})
	return nil
}

// folds reports whether the attempt alone says how the delivery stands: it
// closes one that has no state record yet. A delivery that was postponed has
// one; its due time tells. One that is cancelled gets one: it is found by it.
func (c *commit) folds(at *place, r *dedupe.Result, e *dedupe.Entry) bool {
	return !r.NoAttempt && !r.State.Open() && r.State != event.Cancelled && r.Attempt.Outcome != "" && r.Attempt.State == r.State &&
		e.Generation == 0 && e.Attempts == 0 && e.Due == e.Opened &&
		at.sub == subEvent && at.class.folds() && at.class.auditT(r.Lease.Delivery.Event) >= c.db.cuts.Load().of(kindAttempt, at.class.n)
}

// where is the place of an event's records, from its schedule entry where
// that is enough. nil: there is none.
func (c *commit) where(ref event.Ref, e dedupe.Entry, known bool) (*place, error) {
	if known {
		cl := c.db.class(e.Class)
		if t := cl.metaT(ref); t >= c.db.cuts.Load().of(kindEvent, cl.n) {
			return &place{class: cl, t: t, sub: subEvent}, nil
		}
	}
	_, p, err := c.db.find(c.txn, ref)
	switch {
	case err == nil:
		return &p, nil
	case errors.Is(err, dedupe.ErrNotFound), errors.Is(err, dedupe.ErrDamaged):
		c.db.log.Error("event of an attempt can't be read", "ref", ref.String(), "error", err)
		return nil, nil
	}
	return nil, err
}

// attempt writes the attempt, under its number, and returns the delivery's
// state as it records it.
func (c *commit) attempt(at *place, r *dedupe.Result, number uint32) (event.State, error) {
	if r.NoAttempt {
		return 0, nil
	}
	a := recorded{Attempt: r.Attempt, batch: c.head.no, n: c.seq, at: c.now}
	c.seq++
	if a.Late = r.Late; a.Late {
		var err error
		if a.State, err = c.stateNow(at, a.Event, a.Target); err != nil {
			return 0, err
		}
	}
	cl := at.class
	t := max(cl.auditT(a.Event), c.db.cuts.Load().of(kindAttempt, cl.n))
	if a.Late {
		number = a.Number
	}
	key := attemptKey(cl.n, t, a.Event, a.Target, a.Generation, number)
	if a.Late {
		key = lateKey(key, a.batch, a.n)
	}
	e := newEnc(96 + len(a.Response)/2)
	encodeAttempt(e, &a)
	val := e.seal(key, 0)
	c.sum.add(key, val)
	return a.State, c.set(key, val)
}

// stateNow is the state of a delivery that a late attempt leaves unchanged.
func (c *commit) stateNow(at *place, ref event.Ref, target string) (event.State, error) {
	d, err := readState(c.txn, &event.Event{Ref: ref}, *at, target)
	if err != nil {
		return event.Pending, c.db.passOver(ref, err) // the attempt stands, whatever became of its delivery
	}
	if !d.State.Open() {
		return d.State, nil
	}
	for _, s := range c.settled { // in this batch, not yet on the schedule
		if s.lease.Delivery.Event == ref && s.lease.Delivery.Target == target {
			return event.Pending, nil
		}
	}
	return c.db.sched.State(target, ref), nil
}

// state writes a delivery.
func (c *commit) state(at place, d *event.Delivery) error {
	key := stateKey(at.class.n, at.t, d.Event, d.Target)
	e := newEnc(48)
	encodeState(e, d)
	return c.set(key, e.seal(key, 0))
}

// dead enters a delivery into the list of the dead, if it is, with its order
// if those behind it wait.
func (c *commit) dead(at place, d *event.Delivery, o event.Order) error {
	if d.State != event.Dead {
		return nil
	}
	key := deadKey(at.class.n, at.t, d.Target, d.Event)
	return c.set(key, sealDead(key, o))
}

func sealDead(key []byte, o event.Order) []byte {
	e := newEnc(8)
	if o.Blocks() {
		e.order(o)
	}
	return e.seal(key, 0)
}
