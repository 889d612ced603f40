package postgres

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

// What one page may hold, and how many records are looked at for it.
const (
	defaultLimit = 50
	maxLimit     = 1000
	maxScan      = 2000
)

func clamp(limit int) int {
	if limit <= 0 {
		return defaultLimit
	}
	return min(limit, maxLimit)
}

// stored is an event as its row has it.
type stored struct {
	dedupe.Record
	batch int64
	once  bool
	bad   error // of a listing: nothing but its ref can be read
}

// eventColumns are those of an event e.
const eventColumns = `e.ref, e.batch, e.repeats, e.conflicts, e.last_at, e.rec, e.spent, e.once`

// scanEvent reads a row of eventColumns. A row that a filter left out has no
// record.
func scanEvent(r pgx.Row) (s stored, left bool, err error) {
	var (
		ref                      [16]byte
		repeats, conflicts, last int64
		rec                      []byte
	)
	if err := r.Scan(&ref, &s.batch, &repeats, &conflicts, &last, &rec, &s.BodyGone, &s.once); err != nil {
		return s, false, err
	}
	s.Event.Ref = event.Ref(ref)
	if rec == nil {
		return s, true, nil
	}
	if s.Event, err = unpackEvent(event.Ref(ref), rec); err != nil {
		return s, false, err
	}
	s.Tally = event.Tally{Repeats: uint64(repeats), Conflicts: uint64(conflicts), LastAt: fromNanos(last)}
	return s, false, nil
}

// listed is scanEvent for a listing, in which an event that can't be read keeps
// its place.
func listed(r pgx.Row) (s *stored, left bool, err error) {
	got, left, err := scanEvent(r)
	if errors.Is(err, dedupe.ErrDamaged) {
		bad := &stored{bad: err}
		bad.Event.Ref = got.Event.Ref
		return bad, false, nil
	}
	return &got, left, err
}

// find reads one event with its deliveries, or says why it is not there.
func (db *DB) find(ctx context.Context, q querier, ref event.Ref) (stored, error) {
	if err := db.usable(); err != nil {
		return stored{}, err
	}
	s, _, err := scanEvent(db.row(ctx, q, `SELECT e.ref, e.batch, e.repeats, e.conflicts, e.last_at, e.rec, e.spent OR (SELECT b.until FROM {s}.bodies b
		WHERE b.ref = e.request AND b.ref >= $2 AND b.ref <= $1 LIMIT 1) IS NULL, e.once FROM {s}.events e WHERE e.ref = $1`, [16]byte(ref), before(ref)))
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return s, db.absent(ctx, q, ref)
	case err != nil:
		return s, fmt.Errorf("read event %s: %w", ref, err)
	}
	return s, db.deliveries(ctx, q, []*dedupe.Record{&s.Record})
}

// absent says why an event is not there: its batch, if it is known, tells
// whether it was given and until when it must be there.
func (db *DB) absent(ctx context.Context, q querier, ref event.Ref) error {
	var first, last, lo, hi *[16]byte
	var keep *int64
	err := db.row(ctx, q, `SELECT g.first_ref, g.last_ref, b.lo, b.hi, b.keep_until FROM {s}.gateways g LEFT JOIN LATERAL
		(SELECT lo, hi, keep_until FROM {s}.batches WHERE writer = g.writer AND lo <= $2 ORDER BY lo DESC LIMIT 1) b ON true WHERE g.writer = $1`,
		int64(ref.Writer()), [16]byte(ref)).Scan(&first, &last, &lo, &hi, &keep)
	switch {
	case err != nil && !errors.Is(err, pgx.ErrNoRows):
		return fmt.Errorf("read event %s: %w", ref, err)
	case err != nil, first == nil, ref.Compare(event.Ref(*first)) < 0, ref.Compare(event.Ref(*last)) > 0, hi != nil && ref.Compare(event.Ref(*hi)) > 0:
		return fmt.Errorf("event %s: %w", ref, dedupe.ErrNotFound)
	case keep != nil && db.clock.now().UnixMilli() < *keep:
		return fmt.Errorf("event %s: %w", ref, dedupe.ErrDamaged)
	}
	return fmt.Errorf("event %s: %w", ref, dedupe.ErrPruned)
}

var deliveriesSQL = `SELECT d.* FROM unnest($1::uuid[]) u(ref) CROSS JOIN LATERAL (SELECT ref, target, gen, -1::smallint, new_key, attempts, opened, updated, due,
		last_status, last_error, CASE WHEN owner = 0 THEN 0 ELSE lease_until END FROM {s}.pending WHERE ref = u.ref OFFSET 0) d
	UNION ALL SELECT d.* FROM unnest($1::uuid[]) u(ref) CROSS JOIN LATERAL (SELECT ref, target, gen, state, new_key, attempts, opened, updated, 0::bigint,
		last_status, last_error, 0::bigint FROM {s}.closed WHERE ref = u.ref AND ` + within("ref", 2, 3) + ` OFFSET 0) d`

// deliveries fills in the deliveries of records and their status.
func (db *DB) deliveries(ctx context.Context, q querier, recs []*dedupe.Record) error {
	refs, byRef := make([][16]byte, len(recs)), map[event.Ref]*dedupe.Record{}
	for i, r := range recs {
		refs[i], byRef[r.Event.Ref] = r.Event.Ref, r
	}
	now := db.clock.now().UnixMilli()
	// One statement, so that a delivery that is just closed is seen once.
	err := db.byParts(refs, func(refs, lo, hi [][16]byte) error {
		return db.each(ctx, q, deliveriesSQL, []any{once, refs, lo, hi}, func(r pgx.Rows) error {
			var (
				ref                                   [16]byte
				gen                                   int32
				state                                 int16
				attempts, opened, updated, due, until int64
				d                                     event.Delivery
			)
			if err := r.Scan(&ref, &d.Target, &gen, &state, &d.NewKey, &attempts, &opened, &updated, &due, &d.LastStatus, &d.LastError, &until); err != nil {
				return err
			}
			d.Event, d.Generation, d.Attempts = event.Ref(ref), uint16(gen), uint32(attempts)
			d.OpenedAt, d.UpdatedAt, d.DueAt = fromMillis(opened), fromMillis(updated), fromMillis(due)
			switch {
			case state >= 0:
				d.State = event.State(state)
			case until > now:
				d.State = event.Leased
			}
			rec := byRef[d.Event]
			rec.Deliveries = append(rec.Deliveries, d)
			return nil
		})
	})
	for _, r := range recs {
		slices.SortFunc(r.Deliveries, func(a, b event.Delivery) int { return strings.Compare(a.Target, b.Target) })
		r.Status = event.StatusOf(r.Deliveries)
	}
	return err
}

// Get returns one event and what happened to it.
func (db *DB) Get(ctx context.Context, ref event.Ref) (dedupe.Record, error) {
	s, err := db.find(ctx, db.pool, ref)
	if err != nil {
		return dedupe.Record{}, err
	}
	return s.Record, nil
}

// loadSQL finds the body by its own ref. The bounds tell its partition, and
// nothing else: in a plain join the server may think that few bodies lie between
// them, and read all that came in a minute for each attempt.
const loadSQL = `SELECT e.rec, b.data FROM {s}.events e LEFT JOIN LATERAL (SELECT data FROM {s}.bodies b
	WHERE b.ref = e.request AND b.ref >= $2 AND b.ref <= $1 AND NOT e.spent OFFSET 0) b ON true WHERE e.ref = $1`

// Load returns an event and its body for an attempt.
func (db *DB) Load(ctx context.Context, ref event.Ref) (dedupe.Loaded, error) {
	ctx, cancel := db.patient(ctx)
	defer cancel()
	return db.load(ctx, db.pool, ref)
}

func (db *DB) load(ctx context.Context, q querier, ref event.Ref) (dedupe.Loaded, error) {
	if err := db.usable(); err != nil {
		return dedupe.Loaded{}, err
	}
	var rec, body []byte
	err := db.row(ctx, q, loadSQL, [16]byte(ref), before(ref)).Scan(&rec, &body)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return dedupe.Loaded{}, db.absent(ctx, q, ref)
	case err != nil:
		return dedupe.Loaded{}, fmt.Errorf("read event %s: %w", ref, err)
	}
	ev, err := unpackEvent(ref, rec)
	if err != nil {
		return dedupe.Loaded{}, err
	}
	if body == nil {
		return dedupe.Loaded{}, fmt.Errorf("body of event %s: %w", ref, dedupe.ErrPruned)
	}
	part, err := slice(&ev, body)
	return dedupe.Loaded{Event: &ev, Body: part}, err
}

// slice is the event's part of its request's body, checked.
func slice(ev *event.Event, body []byte) ([]byte, error) {
	from, to := ev.Body.Offset, ev.Body.Offset+ev.Body.Length
	if from < 0 || to < from || to > int64(len(body)) || event.HashOf(body[from:to]) != ev.BodyHash {
		return nil, fmt.Errorf("body of event %s: %w", ev.Ref, dedupe.ErrDamaged)
	}
	return body[from:to:to], nil
}

// Body returns an event's exact bytes.
func (db *DB) Body(ctx context.Context, ref event.Ref) ([]byte, error) {
	l, err := db.Load(ctx, ref)
	return l.Body, err
}

// Attempts lists one event's attempts, as they were recorded.
func (db *DB) Attempts(ctx context.Context, ref event.Ref) ([]event.Attempt, error) {
	if err := db.usable(); err != nil {
		return nil, err
	}
	var out []event.Attempt
	err := db.each(ctx, db.pool, `SELECT target, rec FROM {s}.attempts WHERE ref = $1 ORDER BY seq`, []any{[16]byte(ref)}, func(r pgx.Rows) error {
		var target string
		var rec []byte
		if err := r.Scan(&target, &rec); err != nil {
			return err
		}
		a, err := unpackAttempt(ref, target, rec)
		out = append(out, a)
		return err
	})
	if err == nil && len(out) == 0 {
		_, err = db.find(ctx, db.pool, ref)
	}
	return out, err
}

// Lookup finds events by the provider's ID, newest first.
func (db *DB) Lookup(ctx context.Context, sources []string, id string) ([]event.Ref, error) {
	framed, _ := dedupe.FrameID(id)
	all := slices.Contains(sources, "")
	x := index{table: "wide", sql: byTerm, by: idHash(framed)}
	var out []event.Ref
	err := db.search(ctx, func(q querier) error {
		spans, err := db.spans(ctx, q, x.table, time.Time{}, newest)
		for i := 0; i < len(spans) && err == nil; i++ {
			var refs [][16]byte
			if refs, _, err = db.candidates(ctx, q, &x, spans[i].lo, event.Ref(spans[i].hi), math.MaxInt32); err != nil {
				break
			}
			err = db.events(ctx, q, refs, func(s *stored) {
				if s.bad != nil { // whose it is can't be told, and that it is there must
					out = append(out, s.Event.Ref)
				} else if s.Event.ID == framed && (all || slices.Contains(sources, s.Event.Source)) {
					out = append(out, s.Event.Ref)
				}
			})
		}
		return err
	})
	slices.SortFunc(out, func(a, b event.Ref) int { return b.Compare(a) })
	return out, err
}

func parseCursor(s string) (event.Ref, error) {
	if s == "" {
		return event.Ref{}, nil
	}
	ref, err := event.ParseRef(s)
	if err != nil {
		return ref, fmt.Errorf("cursor %q: %w", s, err)
	}
	return ref, nil
}

// bySearch begins a transaction that searches. The server takes small tables, and
// those it has no figures of yet, as a whole, row by row of what is asked for: today's
// partition is one of these.
var bySearch = pgx.TxOptions{BeginQuery: "begin read only; set local enable_seqscan = off; set local jit = off"}

// search calls f with a transaction in which what is looked for is found by
// indexes.
func (db *DB) search(ctx context.Context, f func(q querier) error) error {
	if err := db.usable(); err != nil {
		return err
	}
	err := pgx.BeginTxFunc(ctx, db.pool, bySearch, func(tx pgx.Tx) error { return f(tx) })
	return db.pool.heard(ctx, err)
}

// Events lists events, newest first.
func (db *DB) Events(ctx context.Context, f dedupe.Filter, cursor string, limit int) (dedupe.Page[dedupe.Record], error) {
	var page dedupe.Page[dedupe.Record]
	before, err := parseCursor(cursor)
	if err != nil {
		return page, err
	}
	next, err := db.scan(ctx, f, before, maxScan, func(s *stored) (bool, error) {
		if f.MatchRecord(&s.Record) {
			page.Items = append(page.Items, s.Record)
		}
		return len(page.Items) < clamp(limit), nil
	})
	if !next.IsZero() {
		page.Next = next.String()
	}
	return page, err
}

// Deliveries lists deliveries, newest event first, by target within one.
func (db *DB) Deliveries(ctx context.Context, f dedupe.Filter, cursor string, limit int) (dedupe.Page[dedupe.DeliveryRow], error) {
	var page dedupe.Page[dedupe.DeliveryRow]
	after, target, within := strings.Cut(cursor, "/")
	before, err := parseCursor(after)
	if err != nil {
		return page, err
	}
	from := before
	if within { // the event itself has more
		before = before.Next(0)
	}
	at := ""
	next, err := db.scan(ctx, f, before, maxScan, func(s *stored) (bool, error) {
		for _, d := range s.Deliveries {
			if within && s.Event.Ref == from && d.Target <= target || within && s.Event.Ref.Compare(from) > 0 || !f.MatchDelivery(&s.Record, &d) {
				continue
			}
			page.Items = append(page.Items, dedupe.DeliveryRow{
				Delivery: d, ID: d.DeliveryID(), Key: d.Key(&s.Event), Source: s.Event.Source, EventID: s.Event.ID,
				Type: s.Event.Type, ReceivedAt: s.Event.ReceivedAt,
			})
			if len(page.Items) == clamp(limit) {
				at = s.Event.Ref.String() + "/" + d.Target
				return false, nil
			}
		}
		return true, nil
	})
	switch {
	case at != "":
		page.Next = at
	case !next.IsZero():
		page.Next = next.String()
	}
	return page, err
}

// Stats is a snapshot of the ledger.
func (db *DB) Stats(ctx context.Context) (dedupe.Stats, error) {
	st := dedupe.Stats{Targets: map[string]dedupe.TargetStats{}}
	if err := db.usable(); err != nil {
		return st, err
	}
	now := db.clock.now()
	err := db.each(ctx, db.pool, `SELECT target, sum(open)::bigint, sum(leased)::bigint, sum(behind)::bigint, sum(blocked)::bigint, max(oldest)::bigint FROM (
		SELECT target, count(*) AS open, count(*) FILTER (WHERE owner <> 0 AND lease_until > $1) AS leased,
			count(*) FILTER (WHERE lane <> 0) - count(DISTINCT lane) FILTER (WHERE lane <> 0 AND NOT EXISTS (SELECT FROM {s}.blocks x WHERE x.target = p.target AND x.lane = p.lane)) AS behind,
			0 AS blocked, min(opened) AS oldest FROM {s}.pending p GROUP BY target
		UNION ALL SELECT target, 0, 0, 0, count(DISTINCT lane), 0 FROM {s}.blocks GROUP BY target) u GROUP BY target`,
		[]any{now.UnixMilli()}, func(r pgx.Rows) error {
			var name string
			var open, oldest int64
			var t dedupe.TargetStats
			err := r.Scan(&name, &open, &t.Leased, &t.Behind, &t.BlockedKeys, &oldest)
			t.Pending, t.Oldest = open-t.Leased, fromMillis(oldest)
			st.Targets[name] = t
			return err
		})
	if err != nil {
		return st, err
	}
	if err := db.countDead(ctx, &st); err != nil {
		return st, err
	}
	return st, db.totals(ctx, &st)
}

// sizeFor is how long the size of the database is taken to be what it was: to
// find it out, the server asks for the size of every file.
const sizeFor = 30 * time.Second

func (db *DB) diskSize(ctx context.Context) (int64, error) {
	db.mu.Lock()
	size, at := db.disk, db.diskAt
	db.mu.Unlock()
	if !at.IsZero() && time.Since(at) < sizeFor {
		return size, nil
	}
	if err := db.pool.QueryRow(ctx, `SELECT pg_database_size(current_database())`).Scan(&size); err != nil {
		return 0, err
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	db.disk, db.diskAt = size, time.Now()
	return size, nil
}

// countDead counts the dead letters of every target.
func (db *DB) countDead(ctx context.Context, st *dedupe.Stats) error {
	return db.each(ctx, db.pool, `SELECT target, count(*) FROM {s}.dead GROUP BY target`, nil, func(r pgx.Rows) error {
		var name string
		var n int64
		err := r.Scan(&name, &n)
		t := st.Targets[name]
		t.Dead = n
		st.Targets[name] = t
		return err
	})
}

func (db *DB) totals(ctx context.Context, st *dedupe.Stats) error {
	now := db.clock.now()
	var last *[16]byte
	var oldest *int64
	err := db.row(ctx, db.pool, `SELECT (SELECT sum(accepted)::bigint FROM {s}.gateways), g.last_ref, g.batches,
		(SELECT count(*) FROM {s}.sync_keys WHERE state IN (1, 4) AND state = 1 AND until > $2),
		(SELECT count(*) FROM {s}.sync_keys WHERE state IN (1, 4) AND (state = 4 OR until <= $2)),
		(SELECT min(claimed) FROM {s}.sync_keys WHERE state IN (1, 4) AND (state = 4 OR until <= $2)) FROM {s}.gateways g WHERE name = $1`, db.cfg.Name, now.UnixMilli()).
		Scan(&st.Events, &last, &st.Batches, &st.Keys.InFlight, &st.Keys.Unknown, &oldest)
	if err == nil {
		st.SizeBytes, err = db.diskSize(ctx)
	}
	if err != nil {
		return fmt.Errorf("read the ledger: %w", err)
	}
	if last != nil {
		st.LastRef = event.Ref(*last)
	}
	if oldest != nil {
		st.Keys.Oldest = fromMillis(*oldest)
	}
	db.mu.Lock()
	st.ReadOnly = db.fatal != nil
	db.mu.Unlock()
	st.ClockHold = db.held()
	if c := db.metrics.concerns.Load(); c != nil {
		st.Concerns = *c
	}
	return nil
}
