package postgres

import (
	"context"
	"time"

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
