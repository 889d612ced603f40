package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/dedupe"
)

// restored makes a ledger one of its own: every name is free again, so that
// gateways go on as new writers, and leases are given back.
var restored = [...]string{
	`UPDATE {s}.gateways SET name = 'restored ' || to_hex(writer) || ' ' || name`,
	`UPDATE {s}.pending SET owner = 0, lease_until = 0, next_at = due, token = token + 1`,
}

// holdSQL makes open deliveries due never.
const holdSQL = `UPDATE {s}.pending SET due = $1, next_at = $1`

// aliveFor is how long after its last heartbeat a gateway may be alive.
const aliveFor = time.Minute

// ErrAlive says that a gateway uses the ledger.
var ErrAlive = errors.New("a gateway uses the ledger")

// Hold is for a ledger that the database's own tools restored: what was
// accepted after the copy was made is not in it. Gateways go on as new writers,
// and what was open is held until Resume, since most of it was delivered. It
// returns how many deliveries that are. While a gateway is alive it is ErrAlive.
func Hold(ctx context.Context, cfg Config) (n int64, err error) {
	cfg = cfg.withDefaults()
	err = offline(ctx, cfg, func(tx pgx.Tx) error {
		var name string
		err := tx.QueryRow(ctx, fill(`SELECT name FROM {s}.gateways WHERE heartbeat > `+databaseClock+` - $1 AND name NOT LIKE '% %' LIMIT 1 FOR UPDATE`, cfg.Schema),
			aliveFor.Milliseconds()).Scan(&name)
		switch {
		case err == nil:
			return fmt.Errorf("%w: %s was alive less than a minute ago: stop it, wait a minute, and try again", ErrAlive, name)
		case !errors.Is(err, pgx.ErrNoRows):
			return err
		}
		for _, sql := range restored {
			if _, err := tx.Exec(ctx, fill(sql, cfg.Schema)); err != nil {
				return err
			}
		}
		tag, err := tx.Exec(ctx, fill(holdSQL, cfg.Schema), dedupe.HeldUntil.UnixMilli())
		n = tag.RowsAffected()
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("hold what is open: %w", err)
	}
	return n, nil
}

// Resume makes the deliveries that are held due, and returns how many they were.
// Gateways may be alive.
func Resume(ctx context.Context, cfg Config) (n int64, err error) {
	cfg = cfg.withDefaults()
	err = offline(ctx, cfg, func(tx pgx.Tx) error {
		n, err = resume(ctx, tx, cfg.Schema)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("resume what is held: %w", err)
	}
	return n, nil
}

func resume(ctx context.Context, q querier, schema string) (int64, error) {
	tag, err := q.Exec(ctx, fill(`UPDATE {s}.pending SET due = `+databaseClock+`, next_at = `+databaseClock+` WHERE due = $1`, schema), dedupe.HeldUntil.UnixMilli())
	return tag.RowsAffected(), err
}

// offline runs f in a transaction on a connection of its own, on a schema that
// is as this program knows it.
func offline(ctx context.Context, cfg Config, f func(pgx.Tx) error) error {
	conn, err := connect(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	lacking, err := missing(ctx, conn, cfg.Schema)
	if err == nil && len(lacking) > 0 {
		err = ErrOlder
	}
	if err == nil {
		err = whole(ctx, conn, cfg.Schema)
	}
	if err != nil {
		return err
	}
	return standby(pgx.BeginFunc(ctx, conn, f))
}

// Where names a ledger in words, without a password.
func Where(cfg Config) string {
	cfg = cfg.withDefaults()
	pc, err := cfg.pool()
	if err != nil {
		return "schema " + cfg.Schema
	}
	return fmt.Sprintf("schema %s of database %s at %s", cfg.Schema, pc.ConnConfig.Database, pc.ConnConfig.Host)
}
