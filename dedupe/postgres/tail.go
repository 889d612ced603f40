package postgres

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

// Tail lists events as they were accepted. A writer's events become visible in
// the order of their refs, those of two writers in any: so a cursor is the last
// ref seen of each, with a dot behind every one. A ref alone stands after all
// events below it.
func (db *DB) Tail(ctx context.Context, cursor string, limit int) (dedupe.Page[dedupe.Record], error) {
	page := dedupe.Page[dedupe.Record]{Next: cursor}
	err := db.search(ctx, func(q querier) error {
		ends, err := db.ends(ctx, q)
		if err != nil {
			return err
		}
		at, err := places(cursor, ends)
		if err != nil {
			return err
		}
		if cursor != dedupe.TailEnd {
			err = db.follow(ctx, q, ends, at, clamp(limit), &page)
		}
		page.Next = joinCursor(at)
		return err
	})
	return page, err
}

// places are where a cursor stands with each writer.
func places(cursor string, ends map[uint64]end) (map[uint64]event.Ref, error) {
	at := map[uint64]event.Ref{}
	switch {
	case cursor == "":
	case cursor == dedupe.TailEnd:
		for w, e := range ends {
			at[w] = e.last
		}
	default:
		all, dotted := strings.CutSuffix(cursor, ".")
		for s := range strings.SplitSeq(all, ".") {
			ref, err := event.ParseRef(s)
			if err != nil {
				return nil, fmt.Errorf("%w: %q: %w", dedupe.ErrCursor, cursor, err)
			}
			if !dotted {
				for w := range ends {
					at[w] = upTo(ref, w)
				}
			}
			if !ref.IsZero() { // which is before all
				at[ref.Writer()] = ref
			}
		}
	}
	return at, nil
}

// upTo is the last ref of a writer that is not above r.
func upTo(r event.Ref, writer uint64) event.Ref {
	ms, n := r.Milli(), r.Counter()
	switch same := event.NewRef(ms, n, writer); {
	case same.Compare(r) <= 0:
		return same
	case n > 0:
		return event.NewRef(ms, n-1, writer)
	case ms > 0:
		return event.NewRef(ms-1, 1<<event.CounterBits-1, writer)
	}
	return event.NewRef(0, 0, writer)
}

func joinCursor(at map[uint64]event.Ref) string {
	if len(at) == 0 {
		return event.Ref{}.String() + "."
	}
	var b strings.Builder
	for _, w := range slices.Sorted(maps.Keys(at)) {
		b.WriteString(at[w].String())
		b.WriteByte('.')
	}
	return b.String()
}

// end is the first and last event of a writer.
type end struct{ first, last event.Ref }

func (db *DB) ends(ctx context.Context, q querier) (map[uint64]end, error) {
	out := map[uint64]end{}
	err := db.each(ctx, q, `SELECT writer, first_ref, last_ref FROM {s}.gateways WHERE last_ref IS NOT NULL`, nil, func(r pgx.Rows) error {
		var writer int64
		var first, last [16]byte
		err := r.Scan(&writer, &first, &last)
		out[uint64(writer)] = end{event.Ref(first), event.Ref(last)}
		return err
	})
	return out, err
}

// follow reads on from where each writer stands, and moves that on.
func (db *DB) follow(ctx context.Context, q querier, ends map[uint64]end, at map[uint64]event.Ref, limit int, page *dedupe.Page[dedupe.Record]) error {
	from := event.Ref(newest)
	for w, e := range ends {
		if at[w].Compare(e.last) >= 0 {
			continue
		}
		pos, err := db.resume(ctx, q, w, e, at[w])
		if err != nil {
			return err
		}
		if pos.Compare(from) < 0 {
			from = pos
		}
	}
	if from == event.Ref(newest) {
		return nil
	}
	var recs []*stored
	var last event.Ref // that was looked at
	seen := 0
	scan := func(r pgx.Rows) error {
		if len(recs) == limit {
			return nil
		}
		s, _, err := scanEvent(r)
		seen++
		last = s.Event.Ref
		w := last.Writer()
		if e, known := ends[w]; err != nil || !known || last.Compare(at[w]) <= 0 || last.Compare(e.last) > 0 {
			return err
		}
		at[w] = last
		s.After = joinCursor(at)
		recs = append(recs, &s)
		return nil
	}
	spans, err := db.spans(ctx, q, "partitions", from.Time(), newest)
	n := max(limit, defaultLimit)
	for i := len(spans) - 1; i >= 0 && err == nil && len(recs) < limit && seen < maxScan; n *= 4 {
		was, most := seen, min(n, maxScan-seen)
		err = db.each(ctx, q, `SELECT `+eventColumns+` FROM {s}.events e WHERE e.ref >= $1 AND e.ref >= $4 AND e.ref < $3 ORDER BY e.ref LIMIT $2`,
			[]any{once, [16]byte(from), most, spans[i].hi, spans[i].lo}, scan)
		if seen-was < most {
			i--
		} else {
			from = last // read again, and passed over as one that was seen
		}
	}
	if err != nil {
		return err
	}
	// What was not among the rows, retention took. All of a writer up to its end
	// was committed before they were read.
	for w, e := range ends {
		to := e.last
		if (seen == maxScan || len(recs) == limit) && last.Compare(to) < 0 {
			to = upTo(last, w)
		}
		if to.Compare(at[w]) > 0 {
			at[w] = to
		}
	}
	if err := db.complete(ctx, q, recs); err != nil {
		return err
	}
	for _, s := range recs {
		page.Items = append(page.Items, s.Record)
	}
	return nil
}

// resume is from where on a writer's events that follow a place are to be
// looked for: the batch that has the first of them, so that what others wrote
// while this one was idle is not read again.
func (db *DB) resume(ctx context.Context, q querier, writer uint64, e end, at event.Ref) (event.Ref, error) {
	if at.IsZero() {
		return event.NewRef(e.first.Milli(), 0, 0), nil // before what may be damaged
	}
	var within bool
	var next *[16]byte
	err := db.row(ctx, q, `SELECT b.hi > $2, (SELECT n.lo FROM {s}.batches n WHERE n.writer = $1 AND n.lo > $2 ORDER BY n.lo LIMIT 1)
		FROM {s}.batches b WHERE b.writer = $1 AND b.lo <= $2 ORDER BY b.lo DESC LIMIT 1`, int64(writer), [16]byte(at)).Scan(&within, &next)
	switch {
	case errors.Is(err, pgx.ErrNoRows), err == nil && (within || next == nil): // batches may go before their events
		return at, nil
	case err != nil:
		return at, fmt.Errorf("follow writer %x: %w", writer, err)
	}
	return event.Ref(*next), nil
}
