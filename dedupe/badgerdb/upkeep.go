package badgerdb

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

const defaultReplayLimit = 1000

// Replay opens closed deliveries again; see dedupe.Upkeep.
func (db *DB) Replay(ctx context.Context, r dedupe.Replay) (dedupe.ReplayCount, error) {
	if err := db.whole(ctx); err != nil {
		return dedupe.ReplayCount{}, err
	}
	refs, next, err := db.selected(ctx, r)
	if err != nil {
		return dedupe.ReplayCount{}, err
	}
	if r.DryRun {
		return db.dryRun(r, refs, next)
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	if err := db.writable(); err != nil {
		return dedupe.ReplayCount{}, err
	}
	if err := db.disk.admit(); err != nil {
		return dedupe.ReplayCount{}, err
	}
	run := &replay{Replay: r, commit: db.begin()}
	for _, ref := range refs {
		if err := run.event(ref); err != nil {
			run.txn.Discard()
			return run.count, err
		}
	}
	run.count.Next = next
	if err := run.keep(); err != nil {
		run.txn.Discard()
		return dedupe.ReplayCount{}, err
	}
	if err := run.finish(); err != nil {
		return run.count, db.fail(err)
	}
	return run.count, nil
}

// dryRun counts what Replay would do. Intake does not wait for it.
func (db *DB) dryRun(r dedupe.Replay, refs []event.Ref, next string) (dedupe.ReplayCount, error) {
	run := &replay{}
	err := db.steady(func(txn *badger.Txn) error {
		run = &replay{Replay: r, commit: &commit{db: db, txn: txn, now: db.clock.now()}}
		for _, ref := range refs {
			if err := run.event(ref); err != nil {
				return err
			}
		}
		return nil
	})
	run.count.Next = next
	return run.count, err
}

// whole waits until every open delivery is known: before that, an operator's
// act could open or close one twice.
func (db *DB) whole(ctx context.Context) error {
	select {
	case <-db.rebuilt:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("schedule is still being rebuilt: %w", ctx.Err())
	}
}

// selected lists the refs of one bounded call.
func (db *DB) selected(ctx context.Context, r dedupe.Replay) ([]event.Ref, string, error) {
	if !r.Selection.Ref.IsZero() {
		_, err := db.Get(ctx, r.Selection.Ref)
		return []event.Ref{r.Selection.Ref}, "", err
	}
	limit := r.Limit
	if limit <= 0 {
		limit = defaultReplayLimit
	}
	f := r.Selection.Filter
	below, _, err := parseCursor(r.Cursor)
	if err != nil {
		return nil, "", err
	}
	var refs []event.Ref
	at, err := db.visit(ctx, f, below, func() { refs = refs[:0] }, func(rec *dedupe.Record) bool {
		if len(refs) == limit {
			return false
		}
		if selects(f, rec) {
			refs = append(refs, rec.Event.Ref)
		}
		return true
	})
	next := ""
	if !at.IsZero() {
		next = at.String()
	}
	return refs, next, err
}

// selects reports whether a filter, also one of a delivery's state, selects
// anything of an event.
func selects(f dedupe.Filter, rec *dedupe.Record) bool {
	if f.State == "" {
		return f.MatchRecord(rec)
	}
	for i := range rec.Deliveries {
		if f.MatchDelivery(rec, &rec.Deliveries[i]) {
			return true
		}
	}
	return false
}

// replay is one bounded call under the writer's lock.
type replay struct {
	dedupe.Replay
	*commit
	count dedupe.ReplayCount
}

func (r *replay) event(ref event.Ref) error {
	ev, p, err := r.db.find(r.txn, ref)
	if errors.Is(err, dedupe.ErrNotFound) {
		return nil // dropped since it was selected
	}
	if err != nil {
		return err
	}
	rec, err := r.db.record(r.txn, ev, p)
	if err != nil {
		return err
	}
	r.count.Events++
	if rec.BodyGone {
		r.count.Pruned++
		return nil
	}
	names, err := r.targets(&rec, p)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := r.open(&rec, p, name); err != nil {
			return err
		}
	}
	return nil
}

// targets are the names to open: the event's own, or today's.
func (r *replay) targets(rec *dedupe.Record, p place) (names []string, err error) {
	names = rec.Event.Targets
	if r.Reroute != nil {
		names = r.Reroute(&rec.Event, func() (body []byte, fault error) {
			body, err = r.db.body(r.txn, &rec.Event, p)
			return body, err
		})
	}
	if r.Target == "" || err != nil {
		return names, err
	}
	for _, n := range names {
		if n == r.Target {
			return []string{n}, nil
		}
	}
	return nil, nil
}

func (r *replay) open(rec *dedupe.Record, p place, name string) error {
	d := event.Delivery{Event: rec.Event.Ref, Target: name}
	known := false
	for _, have := range rec.Deliveries {
		if have.Target == name {
			d, known = have, true
		}
	}
	if known && r.Selection.Ref.IsZero() && !r.Selection.Filter.MatchDelivery(rec, &d) {
		return nil
	}
	if known && d.State.Open() {
		r.count.Open++
		return nil
	}
	r.count.Opened++
	r.count.Bytes += rec.Event.Body.Length
	if r.DryRun {
		return nil
	}
	if r.size+1024+actSize > r.db.maxBatch {
		if r.Keep != nil {
			return fmt.Errorf("%w: a replay of %d events", dedupe.ErrTooLarge, r.count.Events)
		}
		if err := r.finish(); err != nil {
			return r.db.fail(err)
		}
		r.reset()
	}
	if err := r.reopen(rec, p, d, known); err != nil {
		return r.db.fail(err)
	}
	return nil
}

func (r *replay) reopen(rec *dedupe.Record, p place, d event.Delivery, known bool) error {
	wasDead := known && d.State == event.Dead
	n := dedupe.Reopen(d, r.NewKey, r.now)
	if err := r.state(p, &n); err != nil {
		return err
	}
	r.record(dedupe.ReplayedAct(&n, r.By))
	if wasDead {
		if err := r.txn.Delete(deadKey(p.class.n, p.t, n.Target, n.Event)); err != nil {
			return err
		}
	}
	if !known {
		if err := r.addTarget(rec.Event.Ref, p, n.Target); err != nil {
			return err
		}
	}
	e := dedupe.EntryOf(n)
	e.Order = rec.Event.OrderAt(n.Target)
	e.Class, e.Size = p.class.n, uint32(rec.Event.Body.Length)
	r.opened = append(r.opened, opened{n.Target, e})
	if wasDead {
		r.after = append(r.after, func() { r.db.sched.Dead(n.Target, -1) })
	}
	return nil
}

// keep puts the note of what the call does into its transaction.
func (r *replay) keep() error {
	if r.Keep == nil {
		return nil
	}
	n := r.Keep(r.count)
	if err := n.Check(); err != nil {
		return err
	}
	have, err := readNote(r.txn, n.Kind, n.Name)
	if err != nil && !errors.Is(err, dedupe.ErrNotFound) {
		return err
	}
	if have.Version != n.Version {
		return dedupe.ErrStale
	}
	n.Version++
	n.UpdatedAt = r.now
	key := noteKey(n.Kind, n.Name)
	return r.set(key, sealNote(key, &n))
}

// addTarget notes a target that an event was given after admission.
func (r *replay) addTarget(ref event.Ref, p place, name string) error {
	key := eventKey(p.class.n, p.t, subTally, ref)
	t := r.tallies[ref]
	if t == nil {
		have, err := readTally(r.txn, key)
		if err != nil {
			return err
		}
		t = &pendingTally{key: key, tally: have}
		r.tallies[ref] = t
	}
	t.extra = append(t.extra, name)
	r.size += int64(len(name)) + 128
	return nil
}

// finish commits with a mark that a restart finds the opened deliveries by.
func (r *replay) finish() error {
	for _, o := range r.opened {
		if o.entry.Ref.Compare(r.head.low) < 0 {
			r.head.low = o.entry.Ref
		}
	}
	return r.commit.commit()
}

// Cancel closes one event's open deliveries; see dedupe.Upkeep.
func (db *DB) Cancel(ctx context.Context, ref event.Ref, target string, by dedupe.By) (int, error) {
	return db.cancel(ctx, ref, target, by, event.State.Open, func(c *commit, _ place, _ *event.Event, d event.Delivery) error {
		c.after = append(c.after, func() { db.sched.Cancel(d.Target, ref, d.Generation) })
		return nil
	})
}

// Drop takes one event's dead deliveries off the dead letters; see
// dedupe.Upkeep.
func (db *DB) Drop(ctx context.Context, ref event.Ref, target string, by dedupe.By) (int, error) {
	return db.cancel(ctx, ref, target, by, isDead, func(c *commit, p place, ev *event.Event, d event.Delivery) error {
		c.after = append(c.after, func() {
			db.sched.Dead(d.Target, -1)
			db.sched.Unblock(d.Target, ref, ev.OrderAt(d.Target))
		})
		return c.txn.Delete(deadKey(p.class.n, p.t, d.Target, ref))
	})
}

func isDead(s event.State) bool { return s == event.Dead }

// cancel makes cancelled, in one transaction, the deliveries of an event that
// are in one of the states of which; leave undoes what those states brought.
func (db *DB) cancel(ctx context.Context, ref event.Ref, target string, by dedupe.By, which func(event.State) bool, leave func(*commit, place, *event.Event, event.Delivery) error) (int, error) {
	if err := db.whole(ctx); err != nil {
		return 0, err
	}
	if _, err := db.Get(ctx, ref); err != nil {
		return 0, err
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	if err := db.writable(); err != nil {
		return 0, err
	}
	c := db.begin()
	ev, p, err := db.find(c.txn, ref)
	if err != nil {
		return 0, err
	}
	rec, err := db.record(c.txn, ev, p)
	if err != nil {
		return 0, err
	}
	n := 0
	for _, d := range rec.Deliveries {
		if !which(d.State) || target != "" && d.Target != target {
			continue
		}
		n++
		err := leave(c, p, &rec.Event, d)
		d.State, d.UpdatedAt, d.DueAt = event.Cancelled, c.now, time.Time{}
		if err == nil {
			err = c.state(p, &d)
		}
		if err == nil {
			err = c.spend(p, &d)
		}
		if err != nil {
			return 0, db.fail(err)
		}
		c.record(dedupe.CancelledAct(&d, by))
	}
	if err := c.commit(); err != nil {
		return 0, db.fail(err)
	}
	return n, nil
}
