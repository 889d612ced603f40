package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

// few is how many rows one deleting statement takes.
const few = 5000

// swept is how many deleted rows of a table make it worth a vacuum at once.
const swept = 1000

// Expire drops what retention and windows have ended: partitions whole, what
// ended before or after the rest of its partition row by row.
func (db *DB) Expire(ctx context.Context) (dedupe.Expired, error) {
	var out dedupe.Expired
	if err := db.usable(); err != nil {
		return out, err
	}
	if db.held() {
		out.Held = true
		return out, nil
	}
	now := db.clock.now()
	before, err := db.size(ctx)
	if err != nil {
		return out, err
	}
	for _, f := range [...]func(context.Context, time.Time, *dedupe.Expired) error{
		db.expireClaims, db.carry, db.expireBodies, db.expireEvents, db.expireActs, db.expireKeys,
	} {
		if err := f(ctx, now, &out); err != nil {
			return out, fmt.Errorf("expire: %w", err)
		}
	}
	after, err := db.size(ctx)
	out.Bytes = max(before-after, 0)
	return out, err
}

// size is what the schema's tables take.
func (db *DB) size(ctx context.Context) (n int64, err error) {
	err = db.pool.QueryRow(ctx, `SELECT COALESCE(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE n.nspname = $1 AND c.relkind IN ('r', 'm')`, db.cfg.Schema).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("size of the ledger: %w", err)
	}
	return n, nil
}

// sweep runs a deleting statement until it finds nothing more, few rows at a
// time, and gives the table's space back when it was many.
func (db *DB) sweep(ctx context.Context, table, sql string, args ...any) (sum int64, err error) {
	for {
		tag, err := db.pool.Exec(ctx, db.q(sql), args...)
		if err != nil {
			return sum, err
		}
		sum += tag.RowsAffected()
		if tag.RowsAffected() < few {
			break
		}
	}
	if sum >= swept {
		_, err = db.pool.Exec(ctx, db.q(`VACUUM {s}.`+table), pgx.QueryExecModeExec)
	}
	return sum, err
}

func (db *DB) expireClaims(ctx context.Context, now time.Time, out *dedupe.Expired) error {
	ms := now.UnixMilli()
	_, err := db.sweep(ctx, "claims", `DELETE FROM {s}.claims WHERE key IN (SELECT key FROM {s}.claims c WHERE expires <= $1
		AND NOT EXISTS (SELECT FROM {s}.pending p WHERE p.ref = c.ref AND p.opened < c.expires) ORDER BY key LIMIT $2 FOR UPDATE SKIP LOCKED)`, ms, few)
	if err != nil {
		return err
	}
	return db.row(ctx, db.pool, `SELECT count(*) FROM {s}.claims WHERE expires <= $1`, ms).Scan(&out.Claims)
}

// carry lets the retention of events whose delivery is open begin anew.
func (db *DB) carry(ctx context.Context, now time.Time, out *dedupe.Expired) error {
	return pgx.BeginFunc(ctx, db.pool, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, db.q(`UPDATE {s}.events e SET kept = $1 WHERE e.kept + least(e.keep_body, e.keep_meta) <= $1
			AND e.ref IN (SELECT ref FROM {s}.pending)`), now.UnixMilli())
		if err != nil {
			return err
		}
		out.Carried = int(tag.RowsAffected())
		_, err = tx.Exec(ctx, db.q(`UPDATE {s}.bodies b SET until = e.kept + e.keep_body FROM {s}.events e, {s}.pending p
			WHERE p.request = b.ref AND e.ref = p.ref AND b.until <= $1`), now.UnixMilli())
		return err
	})
}

func (db *DB) expireBodies(ctx context.Context, now time.Time, out *dedupe.Expired) error {
	parts, err := db.pastParts(ctx, now, true)
	if err != nil {
		return err
	}
	for _, lo := range parts {
		name := partName("bodies", lo)
		var left bool
		err := db.row(ctx, db.pool, `SELECT EXISTS (SELECT FROM {s}.`+name+` b WHERE until > $1 OR EXISTS (SELECT FROM {s}.pending p WHERE p.request = b.ref))`,
			now.UnixMilli()).Scan(&left)
		if err != nil {
			return err
		}
		if left {
			continue
		}
		if err := db.dropPart(ctx, lo, "bodies"); err != nil {
			return err
		}
		out.Buckets++
	}
	_, err = db.sweep(ctx, "bodies", `DELETE FROM {s}.bodies WHERE ref IN (SELECT ref FROM {s}.bodies b WHERE until <= $1
		AND NOT EXISTS (SELECT FROM {s}.pending p WHERE p.request = b.ref) ORDER BY ref LIMIT $2)`, now.UnixMilli(), few)
	return err
}

// pastParts lists the partitions that take no more rows, those with bodies
// only when asked.
func (db *DB) pastParts(ctx context.Context, now time.Time, bodies bool) (out []int64, err error) {
	err = db.each(ctx, db.pool, `SELECT lo FROM {s}.partitions WHERE hi <= $1 AND (bodies OR NOT $2) ORDER BY lo`, []any{now.UnixMilli(), bodies}, func(r pgx.Rows) error {
		var lo int64
		err := r.Scan(&lo)
		out = append(out, lo)
		return err
	})
	return out, err
}

// dropPart drops a partition of tables.
func (db *DB) dropPart(ctx context.Context, lo int64, tables ...string) error {
	return pgx.BeginFunc(ctx, db.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "select set_config('lock_timeout', $1, true)", fmt.Sprint(db.cfg.Lock.Milliseconds())); err != nil {
			return err
		}
		sql := `UPDATE {s}.partitions SET bodies = false WHERE lo = $1`
		if len(tables) > 1 {
			sql = `DELETE FROM {s}.partitions WHERE lo = $1`
		}
		if tag, err := tx.Exec(ctx, db.q(sql), lo); err != nil || tag.RowsAffected() == 0 {
			return err // another gateway was first
		}
		for _, t := range tables {
			if _, err := tx.Exec(ctx, fill(`DROP TABLE IF EXISTS {s}.`+partName(t, lo), db.cfg.Schema)); err != nil {
				return err
			}
		}
		db.mu.Lock()
		delete(db.parts, lo)
		db.mu.Unlock()
		return nil
	})
}

func (db *DB) expireEvents(ctx context.Context, now time.Time, out *dedupe.Expired) error {
	ms := now.UnixMilli()
	if err := db.expireAttempts(ctx, ms); err != nil {
		return err
	}
	parts, err := db.pastParts(ctx, now, false)
	if err != nil {
		return err
	}
	for _, lo := range parts {
		var left bool
		err := db.row(ctx, db.pool, `SELECT EXISTS (SELECT FROM {s}.`+partName("events", lo)+` e WHERE kept + keep_meta > $1)
			OR EXISTS (SELECT FROM {s}.pending WHERE ref >= $2 AND ref < $3)`,
			ms, [16]byte(event.NewRef(uint64(lo), 0, 0)), [16]byte(event.NewRef(uint64(lo+db.width.Milliseconds()), 0, 0))).Scan(&left)
		if err != nil {
			return err
		}
		if left {
			continue
		}
		if _, err := db.pool.Exec(ctx, db.q(`DELETE FROM {s}.blocks WHERE ref >= $1 AND ref < $2`),
			[16]byte(event.NewRef(uint64(lo), 0, 0)), [16]byte(event.NewRef(uint64(lo+db.width.Milliseconds()), 0, 0))); err != nil {
			return err
		}
		if err := db.dropPart(ctx, lo, parted[:]...); err != nil {
			return err
		}
		out.Buckets++
	}
	return db.sweepEvents(ctx, ms)
}

// sweepEvents takes events that ended before the rest of their partition.
func (db *DB) sweepEvents(ctx context.Context, ms int64) error {
	_, err := db.sweep(ctx, "events", `WITH gone AS (DELETE FROM {s}.events WHERE ref IN (SELECT ref FROM {s}.events e WHERE kept + keep_meta <= $1
			AND NOT EXISTS (SELECT FROM {s}.pending p WHERE p.ref = e.ref) ORDER BY ref LIMIT $2) RETURNING ref),
		c AS (DELETE FROM {s}.closed WHERE ref IN (SELECT ref FROM gone)), a AS (DELETE FROM {s}.attempts WHERE ref IN (SELECT ref FROM gone)),
		x AS (DELETE FROM {s}.blocks WHERE ref IN (SELECT ref FROM gone))
		DELETE FROM {s}.bodies b WHERE ref IN (SELECT ref FROM gone) AND NOT EXISTS (SELECT FROM {s}.pending p WHERE p.request = b.ref)`, ms, few)
	if err != nil {
		return err
	}
	_, err = db.sweep(ctx, "lanes", `DELETE FROM {s}.lanes WHERE (target, lane) IN (SELECT target, lane FROM {s}.lanes l
		WHERE NOT EXISTS (SELECT FROM {s}.pending p WHERE p.target = l.target AND p.lane = l.lane AND p.lane <> 0)
		AND NOT EXISTS (SELECT FROM {s}.blocks x WHERE x.target = l.target AND x.lane = l.lane) ORDER BY target, lane LIMIT $1 FOR UPDATE SKIP LOCKED)`, few)
	return err
}

// expireAttempts takes the attempts that are kept for less time than their
// events.
func (db *DB) expireAttempts(ctx context.Context, ms int64) error {
	_, err := db.sweep(ctx, "attempts", `DELETE FROM {s}.attempts WHERE (ref, seq) IN (SELECT a.ref, a.seq FROM {s}.events e JOIN {s}.attempts a ON a.ref = e.ref
		WHERE e.keep_audit < e.keep_meta AND e.kept + e.keep_audit <= $1 AND NOT EXISTS (SELECT FROM {s}.pending p WHERE p.ref = e.ref) LIMIT $2)`, ms, few)
	return err
}

// expireActs drops batches of acts that are old and sealed.
func (db *DB) expireActs(ctx context.Context, now time.Time, _ *dedupe.Expired) error {
	db.mu.Lock()
	sealed := map[uint64]uint64{}
	for w, at := range db.sealed {
		sealed[w] = at
	}
	db.mu.Unlock()
	for w, at := range sealed {
		_, err := db.sweep(ctx, "batches", `DELETE FROM {s}.batches WHERE writer = $1 AND first_act IN (SELECT first_act FROM {s}.batches WHERE writer = $1
			AND first_act + acts <= $2 AND at <= $3 ORDER BY first_act LIMIT $4)`, int64(w), int64(at), now.Add(-db.cfg.Retention.Audit).UnixMilli(), few)
		if err != nil {
			return err
		}
	}
	return nil
}

// expireKeys drops the keys that are new again, and every chunk without one.
func (db *DB) expireKeys(ctx context.Context, now time.Time, out *dedupe.Expired) error {
	n, err := db.sweep(ctx, "sync_keys", `DELETE FROM {s}.sync_keys WHERE key IN (SELECT key FROM {s}.sync_keys WHERE state NOT IN (1, 4)
		AND expires <= $1 ORDER BY key LIMIT $2 FOR UPDATE SKIP LOCKED)`, now.UnixMilli(), few)
	if err != nil {
		return err
	}
	out.Keys = int(n)
	n, err = db.sweep(ctx, "sync_chunks", `DELETE FROM {s}.sync_chunks WHERE (key, token, n) IN (SELECT key, token, n FROM {s}.sync_chunks c
		WHERE NOT EXISTS (SELECT FROM {s}.sync_keys k WHERE k.key = c.key AND k.token = c.token) LIMIT $1)`, few)
	if err == nil && n > 0 && n < swept { // chunks are large
		_, err = db.pool.Exec(ctx, db.q(`VACUUM {s}.sync_chunks`), pgx.QueryExecModeExec)
	}
	return err
}
