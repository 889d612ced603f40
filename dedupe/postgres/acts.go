package postgres

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

// ActLogs lists the writers, by ID.
func (db *DB) ActLogs(ctx context.Context) ([]dedupe.ActLog, error) {
	if err := db.usable(); err != nil {
		return nil, err
	}
	var out []dedupe.ActLog
	old := db.clock.now().Add(-db.cfg.Retention.Audit).UnixMilli()
	err := db.each(ctx, db.pool, `SELECT g.writer, g.acts, COALESCE((SELECT min(first_act) FROM {s}.batches b WHERE b.writer = g.writer), g.acts),
		COALESCE((SELECT first_act + acts FROM {s}.batches b WHERE b.writer = g.writer AND b.at <= $1 ORDER BY first_act DESC LIMIT 1), 0)
		FROM {s}.gateways g`, []any{old}, func(r pgx.Rows) error {
		var l dedupe.ActLog
		var writer int64
		err := r.Scan(&writer, &l.Next, &l.First, &l.Keep)
		l.Writer, l.Own, l.Keep = uint64(writer), uint64(writer) == db.writer, max(l.Keep, l.First)
		if l.Own || l.First < l.Next {
			out = append(out, l)
		}
		return err
	})
	slices.SortFunc(out, func(a, b dedupe.ActLog) int { return cmp.Compare(a.Writer, b.Writer) })
	return out, err
}

// Acts returns acts of a writer from index from on.
func (db *DB) Acts(ctx context.Context, writer, from uint64, limit int) ([]dedupe.LoggedAct, error) {
	if err := db.usable(); err != nil {
		return nil, err
	}
	var first, next int64
	err := db.row(ctx, db.pool, `SELECT COALESCE((SELECT min(first_act) FROM {s}.batches b WHERE b.writer = g.writer), g.acts), g.acts
		FROM {s}.gateways g WHERE g.writer = $1`, int64(writer)).Scan(&first, &next)
	switch {
	case err == pgx.ErrNoRows:
		return nil, fmt.Errorf("acts of writer %x: %w", writer, dedupe.ErrNotFound)
	case err != nil:
		return nil, fmt.Errorf("acts of writer %x: %w", writer, err)
	case from < uint64(first):
		return nil, fmt.Errorf("act %d of writer %x: %w", from, writer, dedupe.ErrPruned)
	case from >= uint64(next):
		return nil, nil
	}
	var out []dedupe.LoggedAct
	err = db.each(ctx, db.pool, `SELECT first_act, acts, data FROM {s}.batches WHERE writer = $1 AND first_act >=
		(SELECT max(first_act) FROM {s}.batches WHERE writer = $1 AND first_act <= $2) ORDER BY first_act LIMIT $3`,
		[]any{int64(writer), int64(from), max(limit, 1)}, func(r pgx.Rows) error {
			leaves, at, err := scanLeaves(r)
			if err != nil || len(out) >= max(limit, 1) {
				return err
			}
			for i, leaf := range leaves {
				if n := at + uint64(i); n >= from && len(out) < max(limit, 1) {
					if want := from + uint64(len(out)); n != want {
						return fmt.Errorf("act %d of writer %x: %w", want, writer, dedupe.ErrDamaged)
					}
					out = append(out, dedupe.LoggedAct{Index: n, Leaf: leaf})
				}
			}
			return nil
		})
	if err == nil && len(out) == 0 {
		err = fmt.Errorf("act %d of writer %x: %w", from, writer, dedupe.ErrDamaged)
	}
	return out, err
}

func scanLeaves(r pgx.Rows) (leaves [][]byte, first uint64, err error) {
	var at, n int64
	var data []byte
	if err := r.Scan(&at, &n, &data); err != nil {
		return nil, 0, err
	}
	leaves, err = unpackLeaves(data, n)
	return leaves, uint64(at), err
}

// EventActs returns the acts of one event: they are in the batches that its
// own row and those of its attempts name.
func (db *DB) EventActs(ctx context.Context, ref event.Ref) (map[uint64][]dedupe.LoggedAct, error) {
	if _, err := db.find(ctx, db.pool, ref); err != nil {
		return nil, err
	}
	out := map[uint64][]dedupe.LoggedAct{}
	err := db.each(ctx, db.pool, `SELECT b.first_act, b.acts, b.data, b.writer FROM {s}.batches b WHERE (b.writer, b.first_act) IN
		(SELECT $2::bigint, batch FROM {s}.events WHERE ref = $1 UNION SELECT writer, batch FROM {s}.attempts WHERE ref = $1) ORDER BY b.writer, b.first_act`,
		[]any{[16]byte(ref), int64(ref.Writer())}, func(r pgx.Rows) error {
			var at, n, writer int64
			var data []byte
			if err := r.Scan(&at, &n, &data, &writer); err != nil {
				return err
			}
			leaves, err := unpackLeaves(data, n)
			if err != nil {
				return err
			}
			for i, leaf := range leaves {
				a, err := dedupe.DecodeAct(leaf)
				if err != nil {
					return fmt.Errorf("act %d of writer %x: %w: %w", at+int64(i), uint64(writer), dedupe.ErrDamaged, err)
				}
				if a.OfEvent(ref) {
					out[uint64(writer)] = append(out[uint64(writer)], dedupe.LoggedAct{Index: uint64(at) + uint64(i), Leaf: leaf})
				}
			}
			return nil
		})
	return out, err
}

// SealActs allows acts to be dropped.
func (db *DB) SealActs(_ context.Context, writer, at uint64) error {
	if err := db.usable(); err != nil {
		return err
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	db.sealed[writer] = max(db.sealed[writer], at)
	return nil
}
