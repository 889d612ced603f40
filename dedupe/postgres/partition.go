package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/event"
)

// parted are the tables whose rows stand by their refs.
var parted = [...]string{"events", "bodies", "closed", "attempts"}

// lead is how many partitions are made ahead.
const lead = 2

func (db *DB) partOf(t time.Time) int64 {
	w := db.width.Milliseconds()
	return t.UnixMilli() / w * w
}

// bound is the smallest ref of a time, as the database knows refs.
func bound(ms int64) string {
	r := event.NewRef(uint64(ms), 0, 0)
	return fmt.Sprintf("%x-%x-%x-%x-%x", r[:4], r[4:6], r[6:8], r[8:10], r[10:])
}

// ahead makes the partitions of now and of what comes next, unless they are
// there.
func (db *DB) ahead(ctx context.Context, now time.Time) error {
	first := db.partOf(now)
	for i := range int64(1 + lead) {
		lo := first + i*db.width.Milliseconds()
		db.mu.Lock()
		have := db.parts[lo]
		db.mu.Unlock()
		if have {
			continue
		}
		if err := db.makePart(ctx, lo); err != nil {
			return fmt.Errorf("make the partition of %s: %w", time.UnixMilli(lo).UTC().Format(time.DateTime), err)
		}
		db.mu.Lock()
		db.parts[lo] = true
		db.mu.Unlock()
	}
	return nil
}

// makePart makes one partition of every table and attaches it, which stops
// neither readers nor writers of the others. The settings' row serialises
// those who do so at once.
func (db *DB) makePart(ctx context.Context, lo int64) error {
	hi := lo + db.width.Milliseconds()
	return pgx.BeginFunc(ctx, db.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, db.q(`SELECT 1 FROM {s}.meta FOR UPDATE`)); err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, db.q(`INSERT INTO {s}.partitions VALUES ($1, $2, true) ON CONFLICT DO NOTHING`), lo, hi)
		if err != nil || tag.RowsAffected() == 0 {
			return err
		}
		return attach(ctx, tx, db.cfg.Schema, lo, hi)
	})
}

// attachParts notes and makes a partition of every table.
func attachParts(ctx context.Context, tx pgx.Tx, schema string, lo, hi int64) error {
	if _, err := tx.Exec(ctx, fill(`INSERT INTO {s}.partitions VALUES ($1, $2, true)`, schema), lo, hi); err != nil {
		return err
	}
	return attach(ctx, tx, schema, lo, hi)
}

func attach(ctx context.Context, tx pgx.Tx, schema string, lo, hi int64) error {
	for _, t := range parted {
		name := partName(t, lo)
		for _, sql := range [...]string{
			fmt.Sprintf(`CREATE TABLE {s}.%s (LIKE {s}.%s INCLUDING ALL)`, name, t),
			fmt.Sprintf(`ALTER TABLE {s}.%s ATTACH PARTITION {s}.%s FOR VALUES FROM ('%s') TO ('%s')`, t, name, bound(lo), bound(hi)),
		} {
			if _, err := tx.Conn().PgConn().Exec(ctx, fill(sql, schema)).ReadAll(); err != nil {
				return err
			}
		}
	}
	return nil
}

func partName(table string, lo int64) string {
	return table + "_p" + time.UnixMilli(lo).UTC().Format("2006010215")
}
