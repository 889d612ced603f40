package badgerdb

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

// group is the events of one request, whose refs follow each other. Its body
// is put together from their parts.
type group struct {
	*Source
	home    bool // of events where they were accepted
	request event.Ref
	until   time.Time
	body    []byte
	has     bool // some of it is there
}

// add gives an event with all that belongs to it. Damage of its own is told
// and not returned.
func (g *group) add(ev event.Event, p place) error {
	if ev.Body.Request != g.request {
		if err := g.end(); err != nil {
			return err
		}
		*g = group{Source: g.Source, home: g.home, request: ev.Body.Request}
	}
	rec, err := g.db.record(g.txn, ev, p)
	if err != nil {
		return err
	}
	kept := ev.Ref.Time()
	if p.sub == subCarried {
		kept = time.UnixMilli(int64(p.t) * p.class.meta)
	}
	gone, err := g.part(&ev, p, &rec, kept)
	if err != nil {
		return err
	}
	batch, _, err := g.actsOf(p.batch)
	if err != nil {
		return err
	}
	g.seen(ev.Ref)
	if err := g.put(&dedupe.MovedEvent{Event: ev, Batch: batch, Keep: p.class.keep, Kept: kept, BodyGone: gone, Tally: rec.Tally}); err != nil {
		return err
	}
	for _, d := range rec.Deliveries {
		if d.State == event.Leased {
			d.State = event.Pending
		}
		if d.State.Open() && !g.db.held.IsZero() && ev.Ref.Compare(g.db.held) <= 0 {
			d.DueAt = dedupe.HeldUntil
		}
		d.DueAt, d.OpenedAt, d.UpdatedAt = whole(d.DueAt), whole(d.OpenedAt), whole(d.UpdatedAt)
		if err := g.put(&dedupe.MovedDelivery{Delivery: d}); err != nil {
			return err
		}
	}
	return g.attempts(ev.Ref, p)
}

// part adds an event's bytes to the body, or says that they are gone.
func (g *group) part(ev *event.Event, p place, rec *dedupe.Record, kept time.Time) (gone bool, err error) {
	if rec.BodyGone {
		return true, nil
	}
	b, err := g.db.body(g.txn, ev, p)
	if errors.Is(err, dedupe.ErrPruned) {
		return true, nil
	}
	if err == nil && g.home && g.given[ev.Body.Request] {
		err = fmt.Errorf("%w: parts of its body stand in two places", dedupe.ErrDamaged)
	}
	if err != nil {
		return true, g.wrong("body of event "+ev.Ref.String(), err)
	}
	end := ev.Body.Offset + ev.Body.Length
	if n := end - int64(len(g.body)); n > 0 {
		g.body = append(g.body, make([]byte, n)...)
	}
	copy(g.body[ev.Body.Offset:end], b)
	if p.bodyT != p.class.bodyT(ev.Body.Request) {
		kept = time.UnixMilli(int64(p.bodyT) * p.class.body)
	}
	if until := kept.Add(p.class.keep.Body); until.After(g.until) {
		g.until = until
	}
	g.has = true
	return false, nil
}

// end gives the body, if there is one.
func (g *group) end() error {
	if !g.has {
		return nil
	}
	g.has = false
	return g.put(&dedupe.MovedBody{Request: g.request, Until: g.until, Data: g.body})
}

func (g *group) attempts(ref event.Ref, p place) error {
	var found []recorded
	if err := eachAttempt(g.txn, g.db.attemptBuckets(p.class, ref), ref, func(r recorded) { found = append(found, r) }); err != nil {
		return g.wrong("attempts of event "+ref.String(), err)
	}
	slices.SortFunc(found, func(a, b recorded) int { return a.before(&b) })
	for i := range found {
		batch, writer, err := g.actsOf(found[i].batch)
		if err != nil {
			return err
		}
		if err := g.put(&dedupe.MovedAttempt{Attempt: found[i].Attempt, Order: i, Writer: writer, Batch: batch}); err != nil {
			return err
		}
	}
	return nil
}

// whole is a time to the millisecond.
func whole(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return time.UnixMilli(t.UnixMilli())
}
