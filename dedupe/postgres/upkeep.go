package postgres

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

// Replay opens closed deliveries again. A call over a filter is bounded, and
// each event is a transaction of its own.
func (db *DB) Replay(ctx context.Context, r dedupe.Replay) (dedupe.ReplayCount, error) {
	var n dedupe.ReplayCount
	if ref := r.Selection.Ref; !ref.IsZero() {
		s, err := db.find(ctx, db.pool, ref)
		if err == nil {
			err = db.replay(ctx, &s, &r, &n)
		}
		return n, err
	}
	before, err := parseCursor(r.Cursor)
	if err != nil {
		return n, err
	}
	limit := r.Limit
	if limit <= 0 {
		limit = 1000
	}
	next, err := db.scan(ctx, db.pool, r.Selection.Filter, before, limit, func(s *stored) (bool, error) {
		if !r.Selection.Filter.MatchRecord(&s.Record) {
			return true, nil
		}
		return true, db.replay(ctx, s, &r, &n)
	})
	if !next.IsZero() {
		n.Next = next.String()
	}
	return n, err
}

// replay opens what r selects of one event.
func (db *DB) replay(ctx context.Context, s *stored, r *dedupe.Replay, n *dedupe.ReplayCount) error {
	n.Events++
	if s.BodyGone {
		n.Pruned++
		return nil
	}
	targets := s.Event.Targets
	if r.Reroute != nil {
		var failed error
		targets = r.Reroute(&s.Event, func() ([]byte, error) {
			b, err := db.Body(ctx, s.Event.Ref)
			failed = err
			return b, err
		})
		if failed != nil {
			return failed
		}
	}
	var opened, open int
	err := db.transact(ctx, deliveriesOf(db, s.Event.Ref), func(w *work, res pgx.BatchResults) error {
		ds, err := readDeliveries(res)
		if err != nil {
			return err
		}
		opened, open = w.reopen(ds, s, r, targets)
		return nil
	})
	n.Opened, n.Open = n.Opened+opened, n.Open+open
	return err
}

// held is an event's deliveries under lock.
type held struct {
	open   map[string]*openRow
	closed map[string]event.Delivery
	gone   bool // the event itself
}

func (h *held) find(target string) (d event.Delivery, there bool) {
	if o := h.open[target]; o != nil {
		return o.Delivery, true
	}
	d, there = h.closed[target]
	return d, there
}

// deliveriesOf asks for an event's deliveries and locks its row first, so that
// none is closed or opened beside.
func deliveriesOf(db *DB, ref event.Ref) func(*pgx.Batch) {
	return func(q *pgx.Batch) {
		q.Queue(db.q(`SELECT `+openFields+` FROM {s}.pending WHERE ref = $1 ORDER BY target FOR UPDATE`), [16]byte(ref))
		q.Queue(db.q(`SELECT ref, target, gen, state, new_key, attempts, opened, updated, last_status, last_error FROM {s}.closed WHERE ref = $1
			ORDER BY target FOR UPDATE`), [16]byte(ref))
		q.Queue(db.q(`SELECT count(*) FROM {s}.events WHERE ref = $1`), [16]byte(ref))
	}
}

func readDeliveries(res pgx.BatchResults) (*held, error) {
	h := &held{open: map[string]*openRow{}, closed: map[string]event.Delivery{}}
	err := query(res, func(r pgx.Rows) error {
		o, err := scanOpen(r)
		h.open[o.Target] = o
		return err
	})
	if err != nil {
		return nil, err
	}
	err = query(res, func(r pgx.Rows) error {
		d, err := scanClosed(r)
		h.closed[d.Target] = d
		return err
	})
	if err != nil {
		return nil, err
	}
	var n int
	if err := res.QueryRow().Scan(&n); err != nil {
		return nil, err
	}
	h.gone = n == 0
	return h, res.Close()
}

func scanClosed(r pgx.Rows) (d event.Delivery, err error) {
	var (
		ref                       [16]byte
		gen                       int32
		state                     int16
		attempts, opened, updated int64
	)
	err = r.Scan(&ref, &d.Target, &gen, &state, &d.NewKey, &attempts, &opened, &updated, &d.LastStatus, &d.LastError)
	d.Event, d.Generation, d.State, d.Attempts = event.Ref(ref), uint16(gen), event.State(state), uint32(attempts)
	d.OpenedAt, d.UpdatedAt = fromMillis(opened), fromMillis(updated)
	return d, err
}

// reopen queues what r opens and counts it.
func (w *work) reopen(h *held, s *stored, r *dedupe.Replay, targets []string) (opened, open int) {
	var rows openCols
	var gone rowKeys
	f := r.Selection.Filter
	for _, t := range targets {
		d, there := h.find(t)
		if o := h.open[t]; o != nil {
			d = o.view(w.head.now)
		}
		switch {
		case h.gone, r.Target != "" && t != r.Target, f.Target != "" && t != f.Target, slices.Contains(gone.targets, t):
		case there && f.State != "" && f.State != d.State.String():
		case there && d.State.Open():
			open++
		default:
			opened++
			if r.DryRun {
				continue
			}
			gone.refs, gone.targets = append(gone.refs, s.Event.Ref), append(gone.targets, t)
			if !there {
				d = event.Delivery{Event: s.Event.Ref, Target: t}
			}
			d = dedupe.Reopen(d, r.NewKey, w.now)
			rows.add(&d, &s.Event)
			w.act(dedupe.ReplayedAct(&d, r.By))
			w.woken[t] = struct{}{}
		}
	}
	if len(gone.refs) > 0 {
		w.queue(`DELETE FROM {s}.closed WHERE ref = $1 AND target = ANY($2::text[])`, gone.refs[0], gone.targets)
		w.queue(`DELETE FROM {s}.blocks WHERE ref = $1 AND target = ANY($2::text[])`, gone.refs[0], gone.targets)
		rows.write(w)
	}
	return opened, open
}

// Cancel closes an event's open deliveries.
func (db *DB) Cancel(ctx context.Context, ref event.Ref, target string, by dedupe.By) (int, error) {
	return db.change(ctx, ref, func(w *work, h *held) (n int) {
		var m results
		for _, t := range slices.Sorted(maps.Keys(h.open)) {
			o := h.open[t]
			if target != "" && target != o.Target {
				continue
			}
			o.State, o.DueAt, o.UpdatedAt = event.Cancelled, time.Time{}, w.now
			m.close(place{ref, o.Target}, o)
			w.act(dedupe.CancelledAct(&o.Delivery, by))
			w.woken[o.Target] = struct{}{}
			n++
		}
		m.write(w)
		return n
	})
}

// Drop takes an event's dead deliveries off the dead letters.
func (db *DB) Drop(ctx context.Context, ref event.Ref, target string, by dedupe.By) (int, error) {
	return db.change(ctx, ref, func(w *work, h *held) int {
		var targets []string
		for _, d := range h.closed {
			if d.State != event.Dead || target != "" && target != d.Target {
				continue
			}
			targets = append(targets, d.Target)
		}
		slices.SortFunc(targets, strings.Compare)
		for _, t := range targets {
			d := h.closed[t]
			d.State, d.UpdatedAt = event.Cancelled, w.now
			w.act(dedupe.CancelledAct(&d, by))
			w.woken[t] = struct{}{}
		}
		if len(targets) > 0 {
			w.queue(`UPDATE {s}.closed SET state = $3, updated = $4 WHERE ref = $1 AND target = ANY($2::text[])`, [16]byte(ref), targets, int16(event.Cancelled), w.head.now)
			w.queue(`DELETE FROM {s}.blocks WHERE ref = $1 AND target = ANY($2::text[])`, [16]byte(ref), targets)
		}
		return len(targets)
	})
}

// change runs f on an event's deliveries under lock.
func (db *DB) change(ctx context.Context, ref event.Ref, f func(*work, *held) int) (n int, err error) {
	if err := db.usable(); err != nil {
		return 0, err
	}
	err = db.transact(ctx, deliveriesOf(db, ref), func(w *work, res pgx.BatchResults) error {
		h, err := readDeliveries(res)
		if err != nil {
			return err
		}
		if h.gone {
			return db.absent(ctx, w.conn, ref)
		}
		n = f(w, h)
		return nil
	})
	return n, err
}
