package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

// nowSQL is ledger time in statements outside a batch: parameter $1, or the
// database's clock.
const nowSQL = `COALESCE($1::bigint, ` + databaseClock + `)`

// free is what can be leased of pending p as far as its lane says: the first of
// it, unless another of it is under a lease or a dead one blocks it.
const free = `(p.lane = 0 OR NOT EXISTS (SELECT FROM {s}.pending o WHERE o.target = p.target AND o.lane = p.lane AND o.lane <> 0 AND o.pos < p.pos)
	AND NOT EXISTS (SELECT FROM {s}.blocks x WHERE x.target = p.target AND x.lane = p.lane))`

// named is true of pending p where it is what u names, and can't be answered by an
// index: p is then read by p.ref = ANY, once. A server without figures of the
// table, which fills fast, would else look for each among all that are open for
// its target.
const named = `uuid_send(p.ref) = uuid_send(u.ref) AND p.target || '' = u.target`

// among is true of pending p where the refs $1 and the targets $2 name it.
const among = `p.ref = ANY($1::uuid[]) AND EXISTS (SELECT FROM unnest($1::uuid[], $2::text[]) u(ref, target) WHERE ` + named + `)`

// leaseSQL takes due rows that no other gateway is just taking. The time is asked
// for as one value: joined, it would have all that is due read and sorted.
// The target is compared as in named.
const leaseSQL = `WITH n AS MATERIALIZED (SELECT ` + nowSQL + ` AS now), due AS (SELECT p.ref FROM {s}.pending p
	WHERE p.target = $2 AND p.next_at <= (SELECT now FROM n) AND ` + free + ` ORDER BY p.next_at, p.ref LIMIT $3 FOR UPDATE OF p SKIP LOCKED)
	UPDATE {s}.pending p SET token = p.token + 1, owner = $4, lease_until = (SELECT now FROM n) + $5, next_at = (SELECT now FROM n) + $5
	WHERE p.ref = ANY(ARRAY(SELECT ref FROM due)) AND p.target || '' = $2
	RETURNING p.ref, p.gen, p.new_key, p.attempts, p.due, p.opened, p.token, p.lease_until, p.size`

// inOrder has what is due read by its index, from the earliest on, and no more of
// it than is taken: a server that thinks it little would read all, and sort that.
const inOrder = `select set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true), set_config('jit', 'off', true)`

const nextSQL = `SELECT least((SELECT next_at FROM {s}.pending WHERE target = $2 AND lane = 0 ORDER BY next_at LIMIT 1),
	(SELECT min(next_at) FROM {s}.pending WHERE target = $2 AND lane <> 0 AND next_at > (SELECT ` + nowSQL + `)))`

// Lease takes due deliveries of a target.
func (db *DB) Lease(ctx context.Context, target string, n int, ttl time.Duration) (leases []dedupe.Lease, next time.Time, err error) {
	if err := db.usable(); err != nil || !text(target) {
		return nil, time.Time{}, err
	}
	// What was leased comes back to its caller, who may have been told to end
	// meanwhile and gives it back: else it would stand until its time is over.
	ctx, cancel := db.patient(context.WithoutCancel(ctx))
	defer cancel()
	db.grants.asking.RLock()
	defer db.grants.asking.RUnlock()
	leases, next, err = db.askLeases(ctx, target, n, ttl)
	var maybe *unsureError
	switch {
	case err == nil:
		db.grants.know(leases)
	case n > 0 && errors.As(doubt(err, 0), &maybe):
		db.grants.lost(db.cfg.patience())
	}
	return leases, next, err
}

func (db *DB) askLeases(ctx context.Context, target string, n int, ttl time.Duration) (leases []dedupe.Lease, next time.Time, err error) {
	now := db.clock.param()
	b := &pgx.Batch{}
	b.Queue("begin isolation level read committed")
	b.Queue(inOrder)
	if n > 0 {
		b.Queue(db.q(leaseSQL), now, target, n, int64(db.writer), ttl.Milliseconds())
	}
	b.Queue(db.q(nextSQL), now, target)
	b.Queue("commit")
	res := db.pool.SendBatch(ctx, b)
	for range 2 {
		if _, err := res.Exec(); err != nil {
			return nil, time.Time{}, errors.Join(fmt.Errorf("lease: %w", err), res.Close())
		}
	}
	if n > 0 {
		leases, err = scanLeases(res, target)
		if err != nil {
			return nil, time.Time{}, errors.Join(fmt.Errorf("lease: %w", err), res.Close())
		}
	}
	var ms *int64
	if err := res.QueryRow().Scan(&ms); err != nil {
		return nil, time.Time{}, errors.Join(fmt.Errorf("lease: %w", err), res.Close())
	}
	if ms != nil {
		next = time.UnixMilli(*ms)
	}
	if len(leases) == n && n > 0 && next.After(db.clock.now()) {
		next = db.clock.now() // of the lanes there may be more
	}
	_, err = res.Exec()
	if err := errors.Join(err, res.Close()); err != nil {
		return nil, time.Time{}, fmt.Errorf("lease: %w", err)
	}
	return leases, next, nil
}

func scanLeases(res pgx.BatchResults, target string) (out []dedupe.Lease, err error) {
	rows, err := res.Query()
	if err != nil {
		return nil, err
	}
	err = drain(rows, func(r pgx.Rows) error {
		var (
			ref                                 [16]byte
			gen                                 int32
			attempts, due, opened, token, until int64
			l                                   dedupe.Lease
		)
		l.Delivery = event.Delivery{Target: target, State: event.Leased}
		if err := r.Scan(&ref, &gen, &l.Delivery.NewKey, &attempts, &due, &opened, &token, &until, &l.Size); err != nil {
			return err
		}
		d := &l.Delivery
		d.Event, d.Generation, d.Attempts = event.Ref(ref), uint16(gen), uint32(attempts)
		d.DueAt, d.OpenedAt, l.Token, l.Until = time.UnixMilli(due), time.UnixMilli(opened), uint64(token), time.UnixMilli(until)
		out = append(out, l)
		return nil
	})
	slices.SortFunc(out, func(a, b dedupe.Lease) int {
		return cmp.Or(a.Delivery.DueAt.Compare(b.Delivery.DueAt), a.Delivery.Event.Compare(b.Delivery.Event))
	})
	return out, err
}

// releaseSQL locks its rows in order and then changes them. What it changes is
// joined with what it was given, of which a server knows how much that is: of what
// was locked it knows nothing, and would read all of it anew for each.
const releaseSQL = `WITH u AS (SELECT * FROM unnest($1::uuid[], $2::text[], $3::int[], $4::bigint[]) u(ref, target, gen, token)),
	l AS MATERIALIZED (SELECT 1 FROM {s}.pending p JOIN u ON ` + named + ` AND u.gen = p.gen
		AND u.token IN (p.token, p.begun_token) WHERE p.ref = ANY($1::uuid[]) ORDER BY p.ref, p.target FOR UPDATE OF p)
	UPDATE {s}.pending p SET
		owner = CASE WHEN p.token = u.token THEN 0 ELSE owner END, lease_until = CASE WHEN p.token = u.token THEN 0 ELSE lease_until END,
		next_at = CASE WHEN p.token = u.token THEN due ELSE next_at END,
		begun = CASE WHEN begun_token = u.token THEN 0 ELSE begun END, begun_by = CASE WHEN begun_token = u.token THEN 0 ELSE begun_by END,
		begun_token = CASE WHEN begun_token = u.token THEN 0 ELSE begun_token END
	FROM u WHERE (SELECT count(*) FROM l) > 0 AND ` + named + ` AND u.gen = p.gen AND u.token IN (p.token, p.begun_token) AND p.ref = ANY($1::uuid[])`

// Release gives leases back; while the database is away, as soon as it is back.
func (db *DB) Release(ctx context.Context, leases ...dedupe.Lease) error {
	ctx, cancel := db.patient(ctx)
	defer cancel()
	if err := db.usable(); err != nil {
		return err
	}
	var k rowKeys
	var gens []int32
	var tokens []int64
	for _, l := range leases {
		k.refs, k.targets = append(k.refs, l.Delivery.Event), append(k.targets, l.Delivery.Target)
		gens, tokens = append(gens, int32(l.Delivery.Generation)), append(tokens, int64(l.Token))
	}
	_, err := db.pool.Exec(ctx, db.q(releaseSQL), once, k.refs, k.targets, gens, tokens)
	if err != nil {
		db.owe(err, leases)
		return fmt.Errorf("release leases: %w", err)
	}
	for _, l := range leases {
		db.grants.forget(l)
		db.wakes.signal(l.Delivery.Target)
	}
	return nil
}

// maxOwed bounds the leases that wait to be given back. Those beyond end by
// themselves.
const maxOwed = 1 << 16

// owe has leases given back when the database is back, if it is away.
func (db *DB) owe(err error, leases []dedupe.Lease) {
	if !errors.Is(err, dedupe.ErrAway) {
		return
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	if len(db.owed)+len(leases) <= maxOwed {
		db.owed = append(db.owed, leases...)
	}
}

// pay gives back what is owed.
func (db *DB) pay(ctx context.Context) error {
	db.mu.Lock()
	owed := db.owed
	db.owed = nil
	db.mu.Unlock()
	if len(owed) == 0 {
		return nil
	}
	return db.Release(ctx, owed...)
}

// Extend prolongs a lease.
func (db *DB) Extend(ctx context.Context, l dedupe.Lease, ttl time.Duration) (bool, error) {
	ctx, cancel := db.patient(ctx)
	defer cancel()
	if err := db.usable(); err != nil {
		return false, err
	}
	tag, err := db.pool.Exec(ctx, db.q(`UPDATE {s}.pending SET lease_until = `+nowSQL+` + $2, next_at = `+nowSQL+` + $2
		WHERE ref = $3 AND target = $4 AND gen = $5 AND token = $6 AND owner <> 0`),
		db.clock.param(), ttl.Milliseconds(), [16]byte(l.Delivery.Event), l.Delivery.Target, int32(l.Delivery.Generation), int64(l.Token))
	if err != nil {
		return false, fmt.Errorf("extend a lease: %w", err)
	}
	if tag.RowsAffected() == 1 {
		db.grants.prolong(l, db.clock.now().Add(ttl))
	}
	return tag.RowsAffected() == 1, nil
}

// Begin notes that an attempt goes on the wire. The database's own crash may
// lose the note, this process's may not.
func (db *DB) Begin(ctx context.Context, l dedupe.Lease) error {
	ctx, cancel := db.patient(ctx)
	defer cancel()
	if err := db.usable(); err != nil {
		return err
	}
	b := &pgx.Batch{}
	b.Queue("begin")
	b.Queue("set local synchronous_commit = off")
	b.Queue(db.q(`UPDATE {s}.pending SET begun = `+nowSQL+`, begun_token = token, begun_by = $2
		WHERE ref = $3 AND target = $4 AND gen = $5 AND token = $6`),
		db.clock.param(), int64(db.writer), [16]byte(l.Delivery.Event), l.Delivery.Target, int32(l.Delivery.Generation), int64(l.Token))
	b.Queue("commit")
	conn, err := db.pool.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("note an attempt: %w", err)
	}
	defer conn.Release()
	if err := conn.SendBatch(ctx, b).Close(); err != nil {
		_, _ = conn.Exec(context.WithoutCancel(ctx), "rollback") // a connection that can't is thrown away by the pool
		return fmt.Errorf("note an attempt: %w", db.pool.heard(ctx, err))
	}
	return nil
}

// targetNames steps from one target to the next in the index.
const targetNames = `WITH RECURSIVE t AS ((SELECT target FROM {s}.pending ORDER BY target LIMIT 1)
	UNION ALL SELECT (SELECT target FROM {s}.pending p WHERE p.target > t.target ORDER BY target LIMIT 1) FROM t WHERE t.target IS NOT NULL)
	SELECT target FROM t WHERE target IS NOT NULL`

// Targets lists the targets with open deliveries, as last known when the
// database is away.
func (db *DB) Targets() []string {
	ctx, cancel := context.WithTimeout(context.Background(), db.cfg.Statement)
	defer cancel()
	var out []string
	err := db.each(ctx, db.pool, targetNames, nil, func(r pgx.Rows) error {
		var t string
		err := r.Scan(&t)
		out = append(out, t)
		return err
	})
	db.mu.Lock()
	defer db.mu.Unlock()
	if err == nil {
		db.known = out
	}
	return slices.Clone(db.known)
}
