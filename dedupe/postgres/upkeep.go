package postgres

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

// Replay opens closed deliveries again, with the note of it in the same
// transaction.
func (db *DB) Replay(ctx context.Context, r dedupe.Replay) (dedupe.ReplayCount, error) {
	events, next, err := db.selected(ctx, &r)
	if err != nil {
		return dedupe.ReplayCount{}, err
	}
	targets := make([][]string, len(events))
	for i := range events {
		if targets[i], err = db.routes(ctx, &events[i], &r); err != nil {
			return dedupe.ReplayCount{}, err
		}
	}
	refs := make([]event.Ref, len(events))
	for i := range events {
		refs[i] = events[i].Event.Ref
	}
	var n dedupe.ReplayCount
	var note *dedupe.Note
	err = db.transact(ctx, deliveriesOf(db, refs...), func(w *work, res pgx.BatchResults) error {
		all, err := readDeliveries(res)
		if err != nil {
			return err
		}
		n = dedupe.ReplayCount{Next: next}
		for i := range events {
			w.replay(all, &events[i], &r, targets[i], &n)
		}
		if r.Keep == nil || r.DryRun {
			return nil
		}
		if note == nil { // asked once, however often the transaction is tried
			kept := r.Keep(n)
			note = &kept
		}
		return w.putNote(ctx, note)
	})
	if err != nil {
		return dedupe.ReplayCount{}, err
	}
	return n, nil
}

// selected are the events that r is about, and where a bounded call goes on.
func (db *DB) selected(ctx context.Context, r *dedupe.Replay) (out []stored, next string, err error) {
	if ref := r.Selection.Ref; !ref.IsZero() {
		s, err := db.find(ctx, db.pool, ref)
		return []stored{s}, "", err
	}
	before, err := parseCursor(r.Cursor)
	if err != nil {
		return nil, "", err
	}
	limit := r.Limit
	if limit <= 0 {
		limit = 1000
	}
	at, err := db.scan(ctx, r.Selection.Filter, before, limit, func(s *stored) (bool, error) {
		if r.Selection.Filter.MatchRecord(&s.Record) {
			out = append(out, *s)
		}
		return true, nil
	})
	if !at.IsZero() {
		next = at.String()
	}
	return out, next, err
}

// routes are the targets that r opens of an event.
func (db *DB) routes(ctx context.Context, s *stored, r *dedupe.Replay) (targets []string, err error) {
	if r.Reroute == nil || s.BodyGone {
		return s.Event.Targets, nil
	}
	targets = r.Reroute(&s.Event, func() (b []byte, _ error) {
		b, err = db.Body(ctx, s.Event.Ref)
		return b, err
	})
	return targets, err
}

// replay opens what r selects of one event.
func (w *work) replay(all map[event.Ref]*held, s *stored, r *dedupe.Replay, targets []string, n *dedupe.ReplayCount) {
	n.Events++
	if s.BodyGone {
		n.Pruned++
		return
	}
	opened, open := w.reopen(all[s.Event.Ref], s, r, targets)
	n.Opened, n.Open = n.Opened+opened, n.Open+open
	n.Bytes += int64(opened) * s.Event.Body.Length
}

// putNote puts a note with the transaction.
func (w *work) putNote(ctx context.Context, n *dedupe.Note) error {
	if err := n.Check(); err != nil {
		return err
	}
	var version int64
	err := w.db.row(ctx, w.conn, `SELECT version FROM {s}.notes WHERE kind = $1 AND name = $2 FOR UPDATE`, []byte(n.Kind), []byte(n.Name)).Scan(&version)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return err
	}
	if uint64(version) != n.Version {
		return dedupe.ErrStale
	}
	sql := `UPDATE {s}.notes SET version = version + 1, updated = $3, value = $4 WHERE kind = $1 AND name = $2`
	if version == 0 { // when another gateway is first, this one sees it on its next try
		sql = `INSERT INTO {s}.notes VALUES ($1, $2, 1, $3, $4)`
	}
	w.queue(sql, []byte(n.Kind), []byte(n.Name), w.head.now, append([]byte{}, n.Value...))
	return nil
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

// deliveriesOf asks for the deliveries of events, locked, so that none is
// closed or opened beside.
func deliveriesOf(db *DB, events ...event.Ref) func(*pgx.Batch) {
	refs := make([][16]byte, len(events))
	for i := range events {
		refs[i] = events[i]
	}
	return func(q *pgx.Batch) {
		q.Queue(db.q(`SELECT `+openFields+` FROM {s}.pending WHERE ref = ANY($1::uuid[]) ORDER BY ref, target FOR UPDATE`), refs)
		q.Queue(db.q(`SELECT ref, target, gen, state, new_key, attempts, opened, updated, last_status, last_error FROM {s}.closed WHERE ref = ANY($1::uuid[])
			ORDER BY ref, target FOR UPDATE`), refs)
		q.Queue(db.q(`SELECT u.ref, e.ref IS NULL FROM unnest($1::uuid[]) u(ref) LEFT JOIN {s}.events e ON e.ref = u.ref AND e.ref = ANY($1::uuid[])`), refs)
	}
}

func readDeliveries(res pgx.BatchResults) (map[event.Ref]*held, error) {
	all := map[event.Ref]*held{}
	of := func(ref event.Ref) *held {
		if all[ref] == nil {
			all[ref] = &held{open: map[string]*openRow{}, closed: map[string]event.Delivery{}}
		}
		return all[ref]
	}
	for _, scan := range [...]func(pgx.Rows) error{
		func(r pgx.Rows) error {
			o, err := scanOpen(r)
			of(o.Event).open[o.Target] = o
			return err
		},
		func(r pgx.Rows) error {
			d, err := scanClosed(r)
			of(d.Event).closed[d.Target] = d
			return err
		},
		func(r pgx.Rows) error {
			var ref [16]byte
			var gone bool
			err := r.Scan(&ref, &gone)
			of(event.Ref(ref)).gone = gone
			return err
		},
	} {
		if err := query(res, scan); err != nil {
			return nil, err
		}
	}
	return all, res.Close()
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
			rows.add(&d, &s.Event, s.once)
			w.act(dedupe.ReplayedAct(&d, r.By))
			w.woken[t] = struct{}{}
		}
	}
	if len(gone.refs) > 0 {
		w.queue(`DELETE FROM {s}.closed WHERE ref = $1 AND target = ANY($2::text[])`, gone.refs[0], gone.targets)
		w.undead(gone.refs[0], gone.targets)
		rows.write(w)
	}
	return opened, open
}

// undead takes deliveries of an event off the dead letters.
func (w *work) undead(ref [16]byte, targets []string) {
	w.queue(`DELETE FROM {s}.dead WHERE ref = $1 AND target = ANY($2::text[])`, ref, targets)
	w.queue(`DELETE FROM {s}.blocks WHERE ref = $1 AND target = ANY($2::text[])`, ref, targets)
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
			w.undead(ref, targets)
			w.spend([][16]byte{ref})
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
		all, err := readDeliveries(res)
		if err != nil {
			return err
		}
		h := all[ref]
		if h.gone {
			return db.absent(ctx, w.conn, ref)
		}
		n = f(w, h)
		return nil
	})
	return n, err
}
