package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/event"
)

// Every has a load write a transaction for each n records.
func (l *Loader) Every(n uint64) { l.every = n }

// Flush writes what was put.
func (l *Loader) Flush(ctx context.Context) error { return l.flush(ctx) }

// PackEvent is an event as its row has it.
func PackEvent(ev *event.Event) []byte { return packEvent(ev) }

// FieldHash is what an indexed field is found by.
func FieldHash(name, value string) int64 { return fieldHash(name, value) }

// MakePart makes the partition of a time.
func (db *DB) MakePart(ctx context.Context, at time.Time) error {
	return db.makePart(ctx, db.partOf(at))
}

// Measure reads the figures of the database.
func (db *DB) Measure(ctx context.Context) error { return db.measure(ctx) }

// ExpireInTurn runs retention if it is due.
func (db *DB) ExpireInTurn(ctx context.Context) (bool, error) { return db.expireInTurn(ctx) }

// Schema is where the ledger stands.
func (db *DB) Schema() string { return db.cfg.Schema }

// Writer is the gateway's ID in its refs.
func (db *DB) Writer() uint64 { return db.writer }

// MigrateTo makes a schema of an earlier version and fills it.
func MigrateTo(ctx context.Context, cfg Config, version int, put func(pgx.Tx) error) error {
	cfg = cfg.withDefaults()
	conn, err := connect(ctx, cfg)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	all, err := missing(ctx, conn, cfg.Schema)
	if err == nil {
		err = begin(ctx, conn, cfg.Schema)
	}
	for i := 0; i < version && err == nil; i++ {
		err = apply(ctx, conn, cfg, all[i])
	}
	if err != nil {
		return err
	}
	return pgx.BeginFunc(ctx, conn, put)
}

// AttachOld makes the partition of a time in a schema of version 3.
func AttachOld(ctx context.Context, tx pgx.Tx, cfg Config, at time.Time) error {
	cfg = cfg.withDefaults()
	w := cfg.width().Milliseconds()
	lo := at.UnixMilli() / w * w
	if _, err := tx.Exec(ctx, fill(`INSERT INTO {s}.partitions VALUES ($1, $2, true)`, cfg.Schema), lo, lo+w); err != nil {
		return err
	}
	return attachTables(ctx, tx, cfg.Schema, lo, lo+w, "events", "bodies", "closed", "attempts", "fields")
}
