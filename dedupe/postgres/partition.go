package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

// parted are the tables whose rows stand by their refs.
var parted = [...]string{"events", "bodies", "closed", "attempts"}

// wideParted are those that stand by their refs as well, and are searched over all
// days: one partition of theirs spans wide others.
var wideParted = [...]string{"terms", "dead"}

// wide is known to the schema's fourth step.
const wide = 16

// lead is how many partitions are made ahead.
const lead = 2

// once is for statements that name a partition, or whose plan must leave the
// other partitions out: it is planned each time, with what it is given.
const once = pgx.QueryExecModeCacheDescribe

func (db *DB) partOf(t time.Time) int64 {
	w := db.width.Milliseconds()
	return t.UnixMilli() / w * w
}

// wideOf is where the wide partition begins that is about another.
func (db *DB) wideOf(lo int64) int64 {
	w := wide * db.width.Milliseconds()
	return lo / w * w
}

// bound is the smallest ref of a time, as the database knows refs.
func bound(ms int64) string {
	r := event.NewRef(uint64(ms), 0, 0)
	return fmt.Sprintf("%x-%x-%x-%x-%x", r[:4], r[4:6], r[6:8], r[8:10], r[10:])
}

// behind is how much earlier than an event's ref that of its request may be.
const behind = time.Minute

// spanOf is where the events with these refs and their requests stand: a
// statement that says so leaves all other partitions alone.
func spanOf(refs [][16]byte) (lo [16]byte, hi event.Ref) {
	least, most := event.Ref(refs[0]), event.Ref(refs[0])
	for _, r := range refs[1:] {
		if ref := event.Ref(r); ref.Compare(least) < 0 {
			least = ref
		} else if ref.Compare(most) > 0 {
			most = ref
		}
	}
	return before(least), most
}

func before(r event.Ref) [16]byte {
	return event.NewRef(r.Milli()-min(r.Milli(), uint64(behind.Milliseconds())), 0, 0)
}

func after(r event.Ref) [16]byte { return event.NewRef(r.Milli()+uint64(behind.Milliseconds()), 0, 0) }

// ahead makes the partitions of now and of n that come next, unless they are
// there.
func (db *DB) ahead(ctx context.Context, now time.Time, n int64) error {
	first := db.partOf(now)
	for i := range 1 + n {
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

// bounded runs f in a transaction that waits for a lock only so long.
func (db *DB) bounded(ctx context.Context, lock time.Duration, f func(pgx.Tx) error) error {
	return pgx.BeginFunc(ctx, db.pool, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "select set_config('statement_timeout', $1, true), set_config('lock_timeout', $2, true)",
			fmt.Sprint(db.cfg.Statement.Milliseconds()), fmt.Sprint(lock.Milliseconds()))
		if err != nil {
			return err
		}
		return f(tx)
	})
}

// makePart makes one partition of every table and attaches it, which stops
// neither readers nor writers of the others. The settings' row serialises
// those who do so at once.
func (db *DB) makePart(ctx context.Context, lo int64) error {
	hi := lo + db.width.Milliseconds()
	return db.bounded(ctx, db.cfg.Lock, func(tx pgx.Tx) error {
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

// attach makes a partition of every table, and the wide ones about it unless
// they are there.
func attach(ctx context.Context, tx pgx.Tx, schema string, lo, hi int64) error {
	across := wide * (hi - lo)
	if err := attachWide(ctx, tx, schema, lo/across*across, lo/across*across+across); err != nil {
		return err
	}
	return attachTables(ctx, tx, schema, lo, hi, parted[:]...)
}

func attachWide(ctx context.Context, tx pgx.Tx, schema string, lo, hi int64) error {
	tag, err := tx.Exec(ctx, fill(`INSERT INTO {s}.wide VALUES ($1, $2) ON CONFLICT DO NOTHING`, schema), lo, hi)
	if err != nil || tag.RowsAffected() == 0 {
		return err
	}
	return attachTables(ctx, tx, schema, lo, hi, wideParted[:]...)
}

func attachTables(ctx context.Context, tx pgx.Tx, schema string, lo, hi int64, tables ...string) error {
	sql := ""
	for _, t := range tables {
		name := partName(t, lo)
		sql += fmt.Sprintf(`CREATE TABLE {s}.%s (LIKE {s}.%s INCLUDING ALL); ALTER TABLE {s}.%s ATTACH PARTITION {s}.%s FOR VALUES FROM ('%s') TO ('%s');`,
			name, t, t, name, bound(lo), bound(hi))
	}
	_, err := tx.Conn().PgConn().Exec(ctx, fill(sql, schema)).ReadAll()
	return err
}

func partName(table string, lo int64) string {
	return table + "_p" + time.UnixMilli(lo).UTC().Format("2006010215")
}

// What a drop waits for each lock at a time, and how often it tries. Whatever
// uses a table meanwhile waits behind it, and no longer than that.
const (
	dropWait  = 50 * time.Millisecond
	dropTries = 20
)

// dropBodies drops a partition's bodies.
func (db *DB) dropBodies(ctx context.Context, p *part, out *dedupe.Expired) error {
	dropped, err := db.drop(ctx, p, `UPDATE {s}.partitions SET bodies = false WHERE lo = $1`, "bodies")
	if dropped {
		p.bodies = false
		out.Buckets++
	}
	return err
}

// dropPart drops a partition of all tables.
func (db *DB) dropPart(ctx context.Context, p *part, out *dedupe.Expired) error {
	if _, err := db.pool.Exec(ctx, db.q(`DELETE FROM {s}.blocks WHERE ref >= $1 AND ref < $2`), p.first(), p.end()); err != nil {
		return err
	}
	_, err := db.sweep(ctx, partName("dead", db.wideOf(p.lo)), db.q(`DELETE FROM {s}.dead WHERE ref >= $1 AND ref < $2 AND ref = ANY(ARRAY(SELECT ref FROM {s}.dead
		WHERE ref >= $1 AND ref < $2 ORDER BY ref LIMIT $3))`), once, p.first(), p.end(), few)
	if err != nil {
		return err
	}
	dropped, err := db.drop(ctx, p, `DELETE FROM {s}.partitions WHERE lo = $1`, parted[:]...)
	if dropped {
		db.mu.Lock()
		delete(db.parts, p.lo)
		db.mu.Unlock()
		out.Buckets++
	}
	return err
}

// dropWide drops the wide partitions about which nothing is left: what their
// terms name went before.
func (db *DB) dropWide(ctx context.Context, now time.Time, out *dedupe.Expired) error {
	var empty []part
	err := db.each(ctx, db.pool, `SELECT lo, hi FROM {s}.wide w WHERE hi <= $1 AND NOT EXISTS (SELECT FROM {s}.partitions p WHERE p.lo >= w.lo AND p.lo < w.hi)`,
		[]any{now.Add(-behind).UnixMilli()}, func(r pgx.Rows) error {
			var p part
			err := r.Scan(&p.lo, &p.hi)
			empty = append(empty, p)
			return err
		})
	for i := 0; i < len(empty) && err == nil; i++ {
		var dropped bool
		if dropped, err = db.drop(ctx, &empty[i], `DELETE FROM {s}.wide WHERE lo = $1`, wideParted[:]...); dropped {
			out.Buckets++
		}
	}
	return err
}

// drop drops tables of a partition and notes it, in one transaction. What is
// just read stays until the next time.
func (db *DB) drop(ctx context.Context, p *part, note string, tables ...string) (bool, error) {
	var sql []string
	for _, t := range tables {
		sql = append(sql, `{s}.`+partName(t, p.lo))
	}
	for range dropTries {
		err := db.bounded(ctx, dropWait, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, fill(`DROP TABLE IF EXISTS `+strings.Join(sql, ", "), db.cfg.Schema), pgx.QueryExecModeExec); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, db.q(note), p.lo)
			return err
		})
		var pg *pgconn.PgError
		if err == nil || !errors.As(err, &pg) || pg.Code != "55P03" && pg.Code != "40P01" {
			return err == nil, err
		}
		t := time.NewTimer(dropWait + time.Duration(rand.Int64N(int64(2*dropWait))))
		select {
		case <-t.C:
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
	db.cfg.Log.Warn("a partition is not dropped yet: something reads it all the time", "partition", partName(tables[0], p.lo))
	return false, nil
}
