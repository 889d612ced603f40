package postgres

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"time"

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

// spans are the partitions that hold refs below top and not older than from,
// newest first, a few at a time.
func (db *DB) spans(ctx context.Context, q querier, from time.Time, top [16]byte) (out []span, err error) {
	n, oldest := 0, int64(0)
	if !from.IsZero() {
		oldest = from.UnixMilli()
	}
	err = db.each(ctx, q, `SELECT lo, hi FROM {s}.partitions WHERE hi > $1 AND lo <= $2 ORDER BY lo DESC`,
		[]any{oldest, int64(event.Ref(top).Milli())}, func(r pgx.Rows) error {
			var lo, hi int64
			err := r.Scan(&lo, &hi)
			if n%together == 0 {
				out = append(out, span{hi: event.NewRef(uint64(hi), 0, 0)})
			}
			out[len(out)-1].lo = event.NewRef(uint64(lo), 0, 0)
			n++
			return err
		})
	return out, err
}

// scan shows f records older than before, all when it is zero, newest first,
// until f says no or limit records were looked at. next is where it ended, zero
// when there is nothing more.
func (db *DB) scan(ctx context.Context, q querier, flt dedupe.Filter, before event.Ref, limit int, f func(*stored) (bool, error)) (next event.Ref, err error) {
	if err := db.usable(); err != nil {
		return next, err
	}
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
	spans, err := db.spans(ctx, q, from, top)
	seen, chunk := 0, 128
	for i := 0; i < len(spans) && err == nil; {
		if seen >= limit {
			return top, nil
		}
		chunk = min(chunk, limit-seen)
		page, last, n, err := db.chunk(ctx, q, flt, spans[i].lo, top, chunk)
		if err != nil {
			return next, err
		}
		for i := range page {
			more, err := f(&page[i])
			if err != nil {
				return next, err
			}
			if !more {
				return page[i].Event.Ref, nil
			}
		}
		seen += n
		if n == chunk {
			top = last
		} else {
			top = event.Ref(spans[i].lo)
			i++
		}
		chunk = min(chunk*4, maxScan)
	}
	return event.Ref{}, err
}

// chunk reads up to n events from lo up to top, those whole that the filter's
// columns select. last is the oldest looked at, of got in all.
func (db *DB) chunk(ctx context.Context, q querier, flt dedupe.Filter, lo [16]byte, top event.Ref, n int) (out []stored, last event.Ref, got int, err error) {
	sql := `SELECT e.ref, e.batch, e.repeats, e.conflicts, e.last_at, CASE WHEN $3 = '' OR e.source = $3 THEN e.rec END, ` + bodyGone("$5", "$1") + `, e.once
		FROM {s}.events e WHERE e.ref < $1 AND e.ref >= $4 ORDER BY e.ref DESC LIMIT $2`
	args := []any{once, [16]byte(top), n, flt.Source, lo, before(lo)}
	count := true
	if from, by := indexOf(flt); from != "" {
		refs, err := db.candidates(ctx, q, from, by, lo, top, n)
		if err != nil || len(refs) == 0 {
			return nil, last, 0, err
		}
		got, last, count = len(refs), event.Ref(refs[len(refs)-1]), false
		least, most := spanOf(refs)
		sql = `SELECT ` + eventFields("$2", "$3") + ` FROM {s}.events e WHERE e.ref = ANY($1::uuid[]) ORDER BY e.ref DESC`
		args = []any{once, refs, least, [16]byte(most)}
	}
	err = db.each(ctx, q, sql, args, func(r pgx.Rows) error {
		s, left, err := scanEvent(r)
		if count {
			got, last = got+1, s.Event.Ref
		}
		if err == nil && !left && flt.MatchEvent(&s.Event) {
			out = append(out, s)
		}
		return err
	})
	if err != nil || len(out) == 0 {
		return nil, last, got, err
	}
	recs := make([]*dedupe.Record, len(out))
	for i := range out {
		recs[i] = &out[i].Record
	}
	return out, last, got, db.deliveries(ctx, q, recs)
}

// indexOf is the table and condition by which an index gives all that a
// filter may select, "" when none does. The condition's parameter is by.
func indexOf(flt dedupe.Filter) (from string, by any) {
	dead, open := event.Dead.String(), flt.State == event.Pending.String() || flt.State == event.Leased.String()
	target := flt.Target
	if flt.State == "" {
		target = "" // an event's status may be that of a delivery to another target
	}
	switch {
	case flt.ID != "":
		framed, _ := dedupe.FrameID(flt.ID)
		return `{s}.events WHERE id = $4 AND id <> ''`, []byte(framed)
	case flt.Field != "":
		return `{s}.fields WHERE hash = $4`, fieldHash(flt.Field, flt.Value)
	case flt.State == dead || flt.State == "" && flt.Status == event.StatusDead:
		return `{s}.closed WHERE state = 3 AND ($4 = '' OR target = $4)`, target
	case open || flt.State == "" && flt.Status == event.StatusPending:
		return `{s}.pending WHERE ($4 = '' OR target = $4)`, target
	}
	return "", nil
}

// candidates are the refs that an index gives, newest first.
func (db *DB) candidates(ctx context.Context, q querier, from string, by any, lo [16]byte, top event.Ref, n int) (refs [][16]byte, err error) {
	err = db.each(ctx, q, `SELECT DISTINCT ref FROM `+from+` AND ref < $1 AND ref >= $2 ORDER BY ref DESC LIMIT $3`, []any{once, [16]byte(top), lo, n, by},
		func(r pgx.Rows) error {
			var ref [16]byte
			err := r.Scan(&ref)
			refs = append(refs, ref)
			return err
		})
	return refs, err
}

// fieldHash is what an indexed field is found by. Two fields may share one: what
// is found is compared.
func fieldHash(name, value string) int64 {
	b := binary.AppendUvarint(nil, uint64(len(name)))
	sum := sha256.Sum256(append(append(b, name...), value...))
	return int64(binary.BigEndian.Uint64(sum[:]))
}

// fieldHashes are those of an event's indexed fields, each once.
func fieldHashes(ev *event.Event) (out []int64) {
	for _, f := range ev.Index {
		if hash := fieldHash(f.Name, f.Value); !slices.Contains(out, hash) {
			out = append(out, hash)
		}
	}
	return out
}
