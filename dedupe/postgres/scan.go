package postgres

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

// newest is the ref above all.
var newest = [16]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}

// clockSlack is how far ledger time and the wall clock may have been apart: a
// listing between two moments looks this much further.
const clockSlack = 48 * time.Hour

// together is how many partitions one statement looks into: each one costs
// planning, and a lock for its table and for every index.
const together = 16

// span is a stretch of refs, hi not in it.
type span struct{ lo, hi [16]byte }

// spans are the partitions in table, partitions or wide, that hold refs below top
// and not older than from, newest first, a few at a time.
func (db *DB) spans(ctx context.Context, q querier, table string, from time.Time, top [16]byte) (out []span, err error) {
	n, oldest := 0, int64(0)
	if !from.IsZero() {
		oldest = from.UnixMilli()
	}
	err = db.each(ctx, q, `SELECT lo, hi FROM {s}.`+table+` WHERE hi > $1 AND lo <= $2 ORDER BY lo DESC`,
		[]any{oldest, int64(event.Ref(top).Milli())}, func(r pgx.Rows) error {
			var lo, hi int64
			err := r.Scan(&lo, &hi)
			if n%together == 0 {
				out = append(out, span{hi: event.NewRef(uint64(hi), 0, 0)})
			}
			out[len(out)-1].lo = event.NewRef(uint64(max(lo, oldest)), 0, 0)
			n++
			return err
		})
	return out, err
}

// within is a condition that keeps a statement to the partitions whose bounds
// are its parameters lo and hi, as partsOf gives them. An array of refs would do
// so as well, and have the server think each ref as costly as all.
func within(column string, lo, hi int) string {
	var or []string
	for i := 1; i <= together; i++ {
		or = append(or, fmt.Sprintf("%s >= ($%d::uuid[])[%d] AND %s < ($%d::uuid[])[%d]", column, lo, i, column, hi, i))
	}
	return "(" + strings.Join(or, " OR ") + ")"
}

// partsOf are the bounds of the partitions in which the first n of refs stand: of
// all, or as many as one statement is to look into.
func (db *DB) partsOf(refs [][16]byte) (n int, lo, hi [][16]byte) {
	for ; n < len(refs); n++ {
		from := db.partOf(event.Ref(refs[n]).Time())
		first := [16]byte(event.NewRef(uint64(from), 0, 0))
		if slices.Contains(lo, first) {
			continue
		}
		if len(lo) == together {
			break
		}
		lo, hi = append(lo, first), append(hi, event.NewRef(uint64(from+db.width.Milliseconds()), 0, 0))
	}
	for n > 0 && len(lo) < together {
		lo, hi = append(lo, lo[0]), append(hi, hi[0])
	}
	return n, lo, hi
}

// byParts calls f with some of refs after the other, as many at a time as stand
// in the partitions that one statement is to look into.
func (db *DB) byParts(refs [][16]byte, f func(refs, lo, hi [][16]byte) error) error {
	for len(refs) > 0 {
		n, lo, hi := db.partsOf(refs)
		if err := f(refs[:n:n], lo, hi); err != nil {
			return err
		}
		refs = refs[n:]
	}
	return nil
}

// scan shows f records older than before, all when it is zero, newest first,
// until f says no or limit records were looked at. next is where it ended, zero
// when there is nothing more. A record that can't be read ends it with an
// EventError, once f has seen those before it.
func (db *DB) scan(ctx context.Context, flt dedupe.Filter, before event.Ref, limit int, f func(*stored) (bool, error)) (next event.Ref, err error) {
	if !text(flt.Source) || !text(flt.Target) {
		return next, db.usable()
	}
	err = db.search(ctx, func(q querier) error {
		next, err = db.scanIn(ctx, q, flt, before, limit, f)
		return err
	})
	return next, err
}

func (db *DB) scanIn(ctx context.Context, q querier, flt dedupe.Filter, before event.Ref, limit int, f func(*stored) (bool, error)) (next event.Ref, err error) {
	top, from := event.Ref(newest), flt.From
	if !flt.To.IsZero() {
		top = event.NewRef(uint64(max(flt.To.Add(clockSlack).UnixMilli(), 0)), 0, 0)
	}
	if !before.IsZero() && before.Compare(top) < 0 {
		top = before
	}
	if !from.IsZero() {
		from = from.Add(-clockSlack)
	}
	x := indexOf(flt)
	spans := []span{{}}
	if x.table != "" {
		spans, err = db.spans(ctx, q, x.table, from, top)
	}
	seen, chunk := 0, 128
	for i := 0; i < len(spans) && err == nil; {
		if seen >= limit {
			return top, nil
		}
		page, c, err := db.chunk(ctx, q, flt, &x, spans[i].lo, top, min(chunk, limit-seen))
		if err != nil {
			return next, err
		}
		for i := range page {
			if page[i].bad != nil {
				return next, &dedupe.EventError{Ref: page[i].Event.Ref, Err: page[i].bad}
			}
			more, err := f(page[i])
			if err != nil {
				return next, err
			}
			if !more {
				return page[i].Event.Ref, nil
			}
		}
		seen += c.seen
		if c.more {
			top = c.last
		} else {
			top = event.Ref(spans[i].lo)
			i++
		}
		chunk = min(chunk*4, maxScan)
	}
	return event.Ref{}, err
}

// looked is how far a chunk went.
type looked struct {
	seen int       // records or entries of an index
	last event.Ref // the oldest
	more bool      // there may be older ones in its span
}

// chunk reads up to n events from lo up to top, those whole that the filter's
// columns select, newest first.
func (db *DB) chunk(ctx context.Context, q querier, flt dedupe.Filter, x *index, lo [16]byte, top event.Ref, n int) (out []*stored, c looked, err error) {
	keep := func(s *stored) {
		if s.bad != nil || flt.MatchEvent(&s.Event) {
			out = append(out, s)
		}
	}
	if x.sql == "" {
		err = db.each(ctx, q, `SELECT e.ref, e.batch, e.repeats, e.conflicts, e.last_at, CASE WHEN $3 = '' OR e.source = $3 THEN e.rec END, e.spent, e.once
			FROM {s}.events e WHERE e.ref < $1 AND e.ref >= $4 ORDER BY e.ref DESC LIMIT $2`, []any{once, [16]byte(top), n, flt.Source, lo}, func(r pgx.Rows) error {
			s, left, err := listed(r)
			c.seen, c.last = c.seen+1, s.Event.Ref
			if err == nil && !left {
				keep(s)
			}
			return err
		})
		c.more = c.seen == n
	} else {
		var refs [][16]byte
		refs, c, err = db.candidates(ctx, q, x, lo, top, n)
		if n, _, _ := db.partsOf(refs); n < len(refs) {
			refs = refs[:n]
			c = looked{seen: n, last: event.Ref(refs[n-1]), more: true}
		}
		if err == nil {
			err = db.events(ctx, q, refs, keep)
		}
	}
	if err != nil {
		return nil, c, err
	}
	slices.SortFunc(out, func(a, b *stored) int { return b.Event.Ref.Compare(a.Event.Ref) })
	return out, c, db.complete(ctx, q, out)
}

// index gives all events that a filter may select, and perhaps others.
type index struct {
	table  string // of its partitions; "" when it has none
	sql    string // "" when the filter has no index: all events are looked at
	by     any
	target string // entries of others are passed over, "" for none
}

const (
	byTerm   = `SELECT ref, '' FROM {s}.terms WHERE hash = $4 AND ref < $1 AND ref >= $2 ORDER BY ref DESC LIMIT $3`
	byDead   = `SELECT ref, target FROM {s}.dead WHERE ref < $1 AND ref >= $2 ORDER BY ref DESC LIMIT $3`
	byDeadAt = `SELECT ref, target FROM {s}.dead WHERE target = $4 AND ref < $1 AND ref >= $2 ORDER BY ref DESC LIMIT $3`
	byOpen   = `SELECT ref, target FROM {s}.pending WHERE ref < $1 AND ref >= $2 ORDER BY ref DESC LIMIT $3`
)

// indexOf is the index that answers a filter.
func indexOf(flt dedupe.Filter) index {
	dead, open := event.Dead.String(), flt.State == event.Pending.String() || flt.State == event.Leased.String()
	target := flt.Target
	if flt.State == "" {
		target = "" // an event's status may be that of a delivery to another target
	}
	switch {
	case flt.ID != "":
		framed, _ := dedupe.FrameID(flt.ID)
		return index{table: "wide", sql: byTerm, by: idHash(framed)}
	case flt.Field != "":
		return index{table: "wide", sql: byTerm, by: fieldHash(flt.Field, flt.Value)}
	case flt.State == dead && target != "":
		return index{table: "wide", sql: byDeadAt, by: target}
	case flt.State == dead || flt.State == "" && flt.Status == event.StatusDead:
		return index{table: "wide", sql: byDead}
	case open || flt.State == "" && flt.Status == event.StatusPending:
		return index{sql: byOpen, target: target}
	}
	return index{table: "partitions"}
}

// candidates are the refs that an index gives, newest first, each once: those of
// up to n entries.
func (db *DB) candidates(ctx context.Context, q querier, x *index, lo [16]byte, top event.Ref, n int) (refs [][16]byte, c looked, err error) {
	args := []any{once, [16]byte(top), lo, n}
	if x.by != nil {
		args = append(args, x.by)
	}
	err = db.each(ctx, q, x.sql, args, func(r pgx.Rows) error {
		var ref [16]byte
		var target string
		err := r.Scan(&ref, &target)
		c.seen, c.last = c.seen+1, event.Ref(ref)
		if (x.target == "" || x.target == target) && (len(refs) == 0 || refs[len(refs)-1] != ref) {
			refs = append(refs, ref)
		}
		return err
	})
	c.more = c.seen == n
	return refs, c, err
}

// events reads the events of refs that are there, in any order, those that can't
// be read among them.
func (db *DB) events(ctx context.Context, q querier, refs [][16]byte, f func(*stored)) error {
	return db.byParts(refs, func(refs, lo, hi [][16]byte) error {
		return db.each(ctx, q, eventsSQL, []any{once, refs, lo, hi}, func(r pgx.Rows) error {
			s, _, err := listed(r)
			if err == nil {
				f(s)
			}
			return err
		})
	})
}

var eventsSQL = `SELECT e.* FROM unnest($1::uuid[]) u(ref) CROSS JOIN LATERAL (SELECT ` + eventColumns + ` FROM {s}.events e
	WHERE e.ref = u.ref AND ` + within("e.ref", 2, 3) + ` OFFSET 0) e`

var bodiesSQL = `SELECT b.ref FROM unnest($1::uuid[]) u(ref) CROSS JOIN LATERAL (SELECT ref FROM {s}.bodies b
	WHERE b.ref = u.ref AND ` + within("b.ref", 2, 3) + ` OFFSET 0) b`

// complete fills in what stands beside the events: whether their bodies are
// there, and their deliveries.
func (db *DB) complete(ctx context.Context, q querier, page []*stored) error {
	page = slices.DeleteFunc(slices.Clone(page), func(s *stored) bool { return s.bad != nil })
	recs, requests, have := make([]*dedupe.Record, len(page)), make([][16]byte, len(page)), map[event.Ref]bool{}
	for i, s := range page {
		recs[i], requests[i] = &s.Record, s.Event.Body.Request
	}
	err := db.byParts(requests, func(refs, lo, hi [][16]byte) error {
		return db.each(ctx, q, bodiesSQL, []any{once, refs, lo, hi}, func(r pgx.Rows) error {
			var ref [16]byte
			err := r.Scan(&ref)
			have[event.Ref(ref)] = true
			return err
		})
	})
	if err != nil {
		return err
	}
	for _, s := range page {
		s.BodyGone = s.BodyGone || !have[s.Event.Body.Request]
	}
	return db.deliveries(ctx, q, recs)
}

// text reports whether a name can be in a column of text, which takes no other:
// nothing has one that can't, and the server refuses to look for it.
func text(s string) bool { return utf8.ValidString(s) && !strings.ContainsRune(s, 0) }

// fieldHash is what an indexed field is found by. Two terms may share one: what
// is found is compared.
func fieldHash(name, value string) int64 {
	b := binary.AppendUvarint(nil, uint64(len(name)))
	sum := sha256.Sum256(append(append(b, name...), value...))
	return int64(binary.BigEndian.Uint64(sum[:]))
}

// idHash is what an ID is found by, also in SQL: see the schema's fourth step.
func idHash(framed string) int64 { return fieldHash("", framed) }

// termsOf are what an event is found by, its ID and its indexed fields, each once.
func termsOf(ev *event.Event) (out []int64) {
	if ev.ID != "" {
		out = append(out, idHash(ev.ID))
	}
	for _, f := range ev.Index {
		if hash := fieldHash(f.Name, f.Value); !slices.Contains(out, hash) {
			out = append(out, hash)
		}
	}
	return out
}
