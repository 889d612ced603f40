package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

// checking is a check under way, over one snapshot.
type checking struct {
	*DB
	tx  pgx.Tx
	rep dedupe.CheckReport
}

func (c *checking) fault(where, what string, args ...any) {
	c.rep.Faults = append(c.rep.Faults, dedupe.Fault{Where: where, What: fmt.Sprintf(what, args...)})
}

// Check reads everything against its checksums and hashes.
func (db *DB) Check(ctx context.Context) (dedupe.CheckReport, error) {
	if err := db.usable(); err != nil {
		return dedupe.CheckReport{}, err
	}
	c := &checking{DB: db}
	err := pgx.BeginTxFunc(ctx, db.pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		c.tx = tx
		for _, f := range [...]func(context.Context) error{c.counts, c.events, c.found, c.attempts, c.acts, c.keys} {
			if err := f(ctx); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return c.rep, fmt.Errorf("check the ledger: %w", err)
	}
	return c.rep, nil
}

func (c *checking) counts(ctx context.Context) error {
	return c.row(ctx, c.tx, `SELECT (SELECT COALESCE(sum(batches), 0)::bigint FROM {s}.gateways), (SELECT count(*) FROM {s}.claims)`).Scan(&c.rep.Heads, &c.rep.Claims)
}

func (c *checking) events(ctx context.Context) error {
	return c.each(ctx, c.tx, `SELECT e.ref, e.rec, b.data FROM {s}.events e LEFT JOIN {s}.bodies b ON b.ref = e.request AND NOT e.spent`, nil, func(r pgx.Rows) error {
		var ref [16]byte
		var rec, body []byte
		if err := r.Scan(&ref, &rec, &body); err != nil {
			return err
		}
		c.rep.Events++
		ev, err := unpackEvent(event.Ref(ref), rec)
		if err != nil {
			c.fault("event "+event.Ref(ref).String(), "its record does not decode")
			return nil
		}
		if body == nil {
			return nil
		}
		c.rep.Bodies++
		if _, err := slice(&ev, body); err != nil {
			c.fault("event "+ev.Ref.String(), "its body has another hash")
		}
		return nil
	})
}

// found holds that searches find what is there: each event by its ID, and each
// dead letter, which is counted besides.
func (c *checking) found(ctx context.Context) error {
	return c.each(ctx, c.tx, `SELECT ref, 'it is not found by its ID' FROM {s}.events e WHERE id <> '' AND NOT EXISTS (SELECT FROM {s}.terms t
			WHERE t.ref = e.ref AND t.hash = ('x' || encode(substr(sha256('\x00'::bytea || e.id), 1, 8), 'hex'))::bit(64)::bigint)
		UNION ALL SELECT ref, 'it is not among the dead letters' FROM (SELECT ref, target FROM {s}.closed WHERE state = 3 EXCEPT SELECT ref, target FROM {s}.dead) d
		UNION ALL SELECT ref, 'it is among the dead letters' FROM (SELECT ref, target FROM {s}.dead EXCEPT SELECT ref, target FROM {s}.closed WHERE state = 3) d`,
		nil, func(r pgx.Rows) error {
			var ref [16]byte
			var what string
			err := r.Scan(&ref, &what)
			c.fault("event "+event.Ref(ref).String(), "%s", what)
			return err
		})
}

func (c *checking) attempts(ctx context.Context) error {
	return c.each(ctx, c.tx, `SELECT ref, target, rec FROM {s}.attempts`, nil, func(r pgx.Rows) error {
		var ref [16]byte
		var target string
		var rec []byte
		if err := r.Scan(&ref, &target, &rec); err != nil {
			return err
		}
		c.rep.Attempts++
		if _, err := unpackAttempt(event.Ref(ref), target, rec); err != nil {
			c.fault("attempt of event "+event.Ref(ref).String(), "its record does not decode")
		}
		return nil
	})
}

// acts holds that every writer's acts are dense up to its row's count.
func (c *checking) acts(ctx context.Context) error {
	var last int64 = -1
	var next int64
	return c.each(ctx, c.tx, `SELECT writer, first_act, acts, data FROM {s}.batches
		UNION ALL SELECT writer, acts, 0, NULL FROM {s}.gateways ORDER BY 1, 2, 4 NULLS LAST`, nil, func(r pgx.Rows) error {
		var writer, first, n int64
		var data []byte
		if err := r.Scan(&writer, &first, &n, &data); err != nil {
			return err
		}
		if writer == last && first != next {
			c.fault(fmt.Sprintf("acts of writer %x", uint64(writer)), "act %d follows act %d", first, next-1)
		}
		last, next = writer, first+n
		c.rep.Acts += uint64(n)
		leaves, err := unpackLeaves(data, n)
		if err != nil {
			c.fault(fmt.Sprintf("acts of writer %x from %d", uint64(writer), first), "they do not decode")
		}
		for i, leaf := range leaves {
			if _, err := dedupe.DecodeAct(leaf); err != nil {
				c.fault(fmt.Sprintf("act %d of writer %x", first+int64(i), uint64(writer)), "it does not decode")
			}
		}
		return nil
	})
}

// keys reads every answer against its hash.
func (c *checking) keys(ctx context.Context) error {
	return c.each(ctx, c.tx, `SELECT k.key, k.rec, COALESCE((SELECT string_agg(x.data, ''::bytea ORDER BY x.n) FROM {s}.sync_chunks x
		WHERE x.key = k.key AND x.token = k.token), '') FROM {s}.sync_keys k`, nil, func(r pgx.Rows) error {
		var key, rec, chunks []byte
		if err := r.Scan(&key, &rec, &chunks); err != nil {
			return err
		}
		c.rep.Keys++
		k, err := decodeKey(key, rec)
		if err != nil {
			c.fault(fmt.Sprintf("key %x", key), "its record does not decode")
			return nil
		}
		body := k.Answer.Body
		if k.Answer.Chunks() > 0 {
			body = chunks
		}
		if k.Answer.Status != 0 && event.HashOf(body) != k.Answer.Hash {
			c.fault(fmt.Sprintf("key %x", key), "its answer has another hash")
		}
		return nil
	})
}
