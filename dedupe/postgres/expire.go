package postgres

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

// few is how many rows one deleting statement takes.
const few = 5000

// swept is how many deleted rows of a table make it worth a vacuum at once.
const swept = 1000

// Expire drops what retention and windows have ended: partitions whole. Rows
// go one by one only where the rest of their partition stays for longer: what
// ended less than a partition's width ago may be dropped with all of it.
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
		db.expireClaims, db.expireParts, db.dropWide, db.expireLanes, db.expireActs, db.expireKeys,
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
// time, and gives the table's space back when it was many. The statement has the
// schema's name in it.
func (db *DB) sweep(ctx context.Context, table, sql string, args ...any) (sum int64, err error) {
	for {
		tag, err := db.pool.Exec(ctx, sql, args...)
		if err != nil {
			return sum, err
		}
		sum += tag.RowsAffected()
		if tag.RowsAffected() < few {
			break
		}
	}
	return sum, db.vacuum(ctx, table, sum)
}

// seenFor is how long a vacuum waits for transactions that may see what was
// deleted: its rows would stay.
const seenFor = 5 * time.Second

func (db *DB) vacuum(ctx context.Context, table string, deleted int64) error {
	if deleted < swept {
		return nil
	}
	if err := db.unseen(ctx); err != nil {
		return err
	}
	_, err := db.pool.Exec(ctx, fill(`VACUUM {s}.`+table, db.cfg.Schema), pgx.QueryExecModeExec)
	return err
}

// unseen waits until no transaction goes on that may see what was deleted before, as far as
// this role may know.
func (db *DB) unseen(ctx context.Context) error {
	var now string
	if err := db.pool.QueryRow(ctx, `SELECT pg_snapshot_xmax(pg_current_snapshot())::xid::text`).Scan(&now); err != nil {
		return err
	}
	for end := time.Now().Add(seenFor); time.Now().Before(end); {
		var seen bool
		err := db.pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
			AND backend_xmin IS NOT NULL AND age(backend_xmin) > age($1::text::xid))`, now).Scan(&seen)
		if err != nil || !seen {
			return err
		}
		t := time.NewTimer(10 * time.Millisecond)
		select {
		case <-t.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// expireClaims takes claims by their ends. What is open is asked for claim by
// claim: joined, all of it would be read for each statement. Each statement goes on where the
// one before ended: what an open delivery holds is looked at once.
func (db *DB) expireClaims(ctx context.Context, now time.Time, out *dedupe.Expired) error {
	var sum, at int64
	after := []byte{}
	for {
		var seen, gone int64
		var last *int64
		var key []byte
		err := db.row(ctx, db.pool, `WITH old AS MATERIALIZED (SELECT key, ref, expires FROM {s}.claims WHERE expires <= $1 AND expires >= $2 AND (expires, key) > ($2, $3)
				ORDER BY expires, key LIMIT $4 FOR UPDATE SKIP LOCKED),
			gone AS (DELETE FROM {s}.claims WHERE key = ANY(ARRAY(SELECT o.key FROM old o LEFT JOIN LATERAL
				(SELECT true AS held FROM {s}.pending p WHERE p.ref = o.ref AND p.opened < o.expires LIMIT 1) h ON true WHERE h.held IS NULL)) RETURNING 1),
			last AS (SELECT expires, key FROM old ORDER BY expires DESC, key DESC LIMIT 1)
			SELECT (SELECT count(*) FROM old), (SELECT count(*) FROM gone), (SELECT expires FROM last), (SELECT key FROM last)`,
			now.UnixMilli(), at, after, few).Scan(&seen, &gone, &last, &key)
		if err != nil {
			return err
		}
		sum += gone
		if seen < few {
			break
		}
		at, after = *last, key
	}
	if err := db.vacuum(ctx, "claims", sum); err != nil {
		return err
	}
	return db.row(ctx, db.pool, `SELECT count(*) FROM {s}.claims WHERE expires <= $1`, now.UnixMilli()).Scan(&out.Claims)
}

// part is a partition and what of it has ended.
type part struct {
	lo, hi     int64
	bodies     bool // it has a table of bodies
	bodiesLive bool // one has not ended or is needed
	eventsLive bool
	due        bool // something has ended
	overdue    bool // for as long as a partition spans
}

// of is sql with the part's tables in it: {events} is its table of events.
func (db *DB) of(p *part, sql string) string {
	for _, t := range parted {
		sql = strings.ReplaceAll(sql, "{"+t+"}", "{s}."+partName(t, p.lo))
	}
	for _, t := range wideParted {
		sql = strings.ReplaceAll(sql, "{"+t+"}", "{s}."+partName(t, db.wideOf(p.lo)))
	}
	return fill(sql, db.cfg.Schema)
}

// first and end are the refs that the part is bounded by.
func (p *part) first() [16]byte { return event.NewRef(uint64(p.lo), 0, 0) }
func (p *part) end() [16]byte   { return event.NewRef(uint64(p.hi), 0, 0) }

// expireParts goes through the partitions, oldest first.
func (db *DB) expireParts(ctx context.Context, now time.Time, out *dedupe.Expired) error {
	var parts []part
	err := db.each(ctx, db.pool, `SELECT lo, hi, bodies FROM {s}.partitions WHERE lo <= $1 ORDER BY lo`, []any{now.UnixMilli()}, func(r pgx.Rows) error {
		var p part
		err := r.Scan(&p.lo, &p.hi, &p.bodies)
		parts = append(parts, p)
		return err
	})
	for i := 0; i < len(parts) && err == nil; i++ {
		err = db.expirePart(ctx, now.UnixMilli(), &parts[i], out)
	}
	return err
}

func (db *DB) expirePart(ctx context.Context, now int64, p *part, out *dedupe.Expired) error {
	if err := db.look(ctx, now, p); err != nil || !p.due {
		return err
	}
	n, err := db.carry(ctx, now, p)
	out.Carried += n
	if err != nil || p.hi > now-behind.Milliseconds() { // it still takes rows
		return err
	}
	if n > 0 {
		if err := db.look(ctx, now, p); err != nil {
			return err
		}
	}
	switch {
	case !p.eventsLive:
		return db.dropPart(ctx, p, out)
	case p.bodies && !p.bodiesLive:
		if err := db.dropBodies(ctx, p, out); err != nil {
			return err
		}
	}
	if !p.overdue {
		return nil
	}
	return db.sweepPart(ctx, now-db.width.Milliseconds(), p)
}

// look asks what of a partition has ended. Every answer is one place in an
// index.
func (db *DB) look(ctx context.Context, now int64, p *part) error {
	sql := `SELECT EXISTS (SELECT FROM {events} WHERE kept + keep_meta > $1) OR EXISTS (SELECT FROM {s}.pending WHERE ref >= $3 AND ref < $4),
		EXISTS (SELECT FROM {events} WHERE kept + keep_meta <= $1) OR EXISTS (SELECT FROM {events} WHERE keep_audit < keep_meta AND kept + keep_audit <= $1),
		EXISTS (SELECT FROM {events} WHERE kept + keep_meta <= $2) OR EXISTS (SELECT FROM {events} WHERE keep_audit < keep_meta AND kept + keep_audit <= $2)`
	to := []any{&p.eventsLive, &p.due, &p.overdue}
	var bodiesDue, bodiesOverdue bool
	if p.bodies {
		sql += `, EXISTS (SELECT FROM {bodies} WHERE until > $1) OR EXISTS (SELECT FROM {s}.pending WHERE request >= $3 AND request < $4),
			EXISTS (SELECT FROM {bodies} WHERE until <= $1), EXISTS (SELECT FROM {bodies} WHERE until <= $2)`
		to = append(to, &p.bodiesLive, &bodiesDue, &bodiesOverdue)
	}
	err := db.search(ctx, func(q querier) error {
		return q.QueryRow(ctx, db.of(p, sql), once, now, now-db.width.Milliseconds(), p.first(), p.end()).Scan(to...)
	})
	if err != nil {
		return err
	}
	// An empty partition in the past has nothing that could have ended.
	p.due, p.overdue = p.due || bodiesDue || p.hi <= now && (!p.eventsLive || p.bodies && !p.bodiesLive), p.overdue || bodiesOverdue
	return nil
}

// carry lets the retention of events whose delivery is open begin anew.
func (db *DB) carry(ctx context.Context, now int64, p *part) (sum int, err error) {
	due := `SELECT p.ref FROM {s}.pending p JOIN {events} e ON e.ref = p.ref WHERE p.ref >= $2 AND p.ref < $3 AND e.kept + e.keep_meta <= $1`
	if p.bodies {
		due += ` UNION SELECT p.ref FROM {s}.pending p JOIN {bodies} b ON b.ref = p.request WHERE p.request >= $2 AND p.request < $3 AND b.until <= $1`
	}
	for {
		var refs [][16]byte
		rows, err := db.pool.Query(ctx, db.of(p, due+` LIMIT $4`), once, now, p.first(), p.end(), few)
		if err != nil {
			return sum, err
		}
		err = drain(rows, func(r pgx.Rows) error {
			var ref [16]byte
			err := r.Scan(&ref)
			refs = append(refs, ref)
			return err
		})
		if err != nil || len(refs) == 0 {
			return sum, err
		}
		n, err := db.carryEvents(ctx, now, refs)
		sum += int(n)
		if err != nil || n == 0 || len(refs) < few {
			return sum, err
		}
	}
}

func (db *DB) carryEvents(ctx context.Context, now int64, refs [][16]byte) (n int64, err error) {
	err = db.bounded(ctx, db.cfg.Lock, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, db.q(`UPDATE {s}.events SET kept = $1 WHERE ref = ANY($2::uuid[])`), now, refs)
		if err != nil {
			return err
		}
		n = tag.RowsAffected()
		lo, hi := spanOf(refs)
		_, err = tx.Exec(ctx, db.q(`UPDATE {s}.bodies b SET until = e.kept + e.keep_body FROM {s}.events e WHERE e.ref = ANY($2::uuid[])
			AND b.ref = e.request AND b.until <= $1 AND b.ref >= $3 AND b.ref <= $4`), now, refs, lo, [16]byte(hi))
		return err
	})
	return n, err
}

// sweepPart takes what ended before cut from a partition that stays.
func (db *DB) sweepPart(ctx context.Context, cut int64, p *part) error {
	sweep := func(table, sql string) error {
		_, err := db.sweep(ctx, partName(table, p.lo), db.of(p, sql), once, cut, few)
		return err
	}
	// Asked event by event: else all that is open would be read for each statement.
	const settled = `(SELECT true FROM {s}.pending p WHERE p.ref = e.ref LIMIT 1) IS NULL`
	const ended = `SELECT ref FROM {events} e WHERE kept + keep_meta <= $1 AND ` + settled + ` ORDER BY kept + keep_meta LIMIT $2`
	for {
		n, err := db.sweepEvents(ctx, p, db.of(p, `WITH gone AS (DELETE FROM {events} WHERE ref = ANY(ARRAY(`+ended+`)) RETURNING ref, rec),
			c AS (DELETE FROM {closed} WHERE ref = ANY(ARRAY(SELECT ref FROM gone))), a AS (DELETE FROM {attempts} WHERE ref = ANY(ARRAY(SELECT ref FROM gone))),
			d AS (DELETE FROM {dead} WHERE ref = ANY(ARRAY(SELECT ref FROM gone))), x AS (DELETE FROM {s}.blocks WHERE ref = ANY(ARRAY(SELECT ref FROM gone)))
			SELECT ref, rec FROM gone`), cut)
		if err != nil {
			return err
		}
		if n < few {
			break
		}
	}
	// What is kept of an event's attempts ends once: its row says so from then on.
	for {
		var n int64
		err := db.pool.QueryRow(ctx, db.of(p, `WITH done AS (UPDATE {events} SET keep_audit = keep_meta WHERE ref = ANY(ARRAY(SELECT ref FROM {events} e WHERE keep_audit < keep_meta
				AND kept + keep_audit <= $1 AND `+settled+` ORDER BY kept + keep_audit LIMIT $2)) RETURNING ref),
			a AS (DELETE FROM {attempts} WHERE ref = ANY(ARRAY(SELECT ref FROM done)))
			SELECT count(*) FROM done`), once, cut, few).Scan(&n)
		if err != nil {
			return err
		}
		if n < few {
			break
		}
	}
	if !p.bodies || !p.bodiesLive {
		return nil
	}
	return sweep("bodies", `DELETE FROM {bodies} WHERE ref = ANY(ARRAY(SELECT ref FROM {bodies} b WHERE until <= $1
		AND (SELECT true FROM {s}.pending p WHERE p.request = b.ref LIMIT 1) IS NULL ORDER BY until LIMIT $2))`)
}

// sweepEvents runs a statement that deletes events and returns them, and deletes
// what they are found by. A term that is left, because this was cut short, is
// found to name nothing and goes with its partition.
func (db *DB) sweepEvents(ctx context.Context, p *part, sql string, cut int64) (n int, err error) {
	var hashes []int64
	var refs [][16]byte
	rows, err := db.pool.Query(ctx, sql, once, cut, few)
	if err != nil {
		return 0, err
	}
	err = drain(rows, func(r pgx.Rows) error {
		var ref [16]byte
		var rec []byte
		if err := r.Scan(&ref, &rec); err != nil {
			return err
		}
		n++
		ev, err := unpackEvent(event.Ref(ref), rec)
		if err != nil {
			return nil // damaged, and past its time
		}
		for _, hash := range termsOf(&ev) {
			hashes, refs = append(hashes, hash), append(refs, ref)
		}
		return nil
	})
	if err != nil || len(refs) == 0 {
		return n, err
	}
	_, err = db.pool.Exec(ctx, db.of(p, `DELETE FROM {terms} t USING unnest($1::bigint[], $2::uuid[]) u(hash, ref)
		WHERE t.hash = u.hash AND t.ref = u.ref AND t.hash = ANY($1::bigint[])`), once, hashes, refs)
	return n, err
}

// expireLanes drops the lanes that nothing stands in.
func (db *DB) expireLanes(ctx context.Context, _ time.Time, _ *dedupe.Expired) error {
	_, err := db.sweep(ctx, "lanes", db.q(`DELETE FROM {s}.lanes WHERE (target, lane) IN (SELECT target, lane FROM {s}.lanes l
		WHERE NOT EXISTS (SELECT FROM {s}.pending p WHERE p.target = l.target AND p.lane = l.lane AND p.lane <> 0)
		AND NOT EXISTS (SELECT FROM {s}.blocks x WHERE x.target = l.target AND x.lane = l.lane) ORDER BY target, lane LIMIT $1 FOR UPDATE SKIP LOCKED)`), few)
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
		_, err := db.sweep(ctx, "batches", db.q(`DELETE FROM {s}.batches WHERE writer = $1 AND first_act IN (SELECT first_act FROM {s}.batches WHERE writer = $1
			AND first_act + acts <= $2 AND at <= $3 ORDER BY first_act LIMIT $4)`), int64(w), int64(at), now.Add(-db.cfg.Retention.Audit).UnixMilli(), few)
		if err != nil {
			return err
		}
	}
	return nil
}

// expireKeys drops the keys that are new again, and every chunk without one.
func (db *DB) expireKeys(ctx context.Context, now time.Time, out *dedupe.Expired) error {
	n, err := db.sweep(ctx, "sync_keys", db.q(`DELETE FROM {s}.sync_keys WHERE key IN (SELECT key FROM {s}.sync_keys WHERE state NOT IN (1, 4)
		AND expires <= $1 ORDER BY expires LIMIT $2 FOR UPDATE SKIP LOCKED)`), now.UnixMilli(), few)
	if err != nil {
		return err
	}
	out.Keys = int(n)
	n, err = db.sweep(ctx, "sync_chunks", db.q(`DELETE FROM {s}.sync_chunks WHERE (key, token, n) IN (SELECT key, token, n FROM {s}.sync_chunks c
		WHERE NOT EXISTS (SELECT FROM {s}.sync_keys k WHERE k.key = c.key AND k.token = c.token) LIMIT $1)`), few)
	if err == nil && n > 0 { // chunks are large
		err = db.vacuum(ctx, "sync_chunks", max(n, swept))
	}
	return err
}
