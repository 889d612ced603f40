package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/onceward/onceward/dedupe"
)

// errBehind says that the database went back to an earlier state.
var errBehind = errors.New("the database has lost transactions that it had committed: it was failed over to a standby that was not synchronous, " +
	"or restored; start anew, and have providers send again what they sent since")

// unsureError is an error after a commit was sent and before it was answered.
type unsureError struct {
	err   error
	batch int64 // the batch's number, if it was written
}

func (e *unsureError) Error() string {
	return "whether a commit was carried out is not known: " + e.err.Error()
}
func (e *unsureError) Unwrap() error { return e.err }

// doubt is the error of a commit that was sent: the database says for certain
// that nothing was written only while it goes on with the connection.
func doubt(err error, batch int64) error {
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.SeverityUnlocalized == "ERROR" && !strings.HasPrefix(pg.Code, "08") {
		return err
	}
	return &unsureError{err, batch}
}

// patience is how long a client waits for one answer: longer than the database
// itself may take.
func (c *Config) patience() time.Duration { return c.Statement + time.Second }

// patient ends a call that the database does not end.
func (db *DB) patient(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, db.cfg.patience())
}

// verdict is what the error of a transaction under ctx means to its caller.
func (db *DB) verdict(ctx context.Context, err error) error {
	var maybe *unsureError
	switch {
	case errors.As(err, &maybe):
		why := absent(err)
		if why == "" {
			why = "a commit was not confirmed"
		}
		return db.pool.lose(&awayError{why: why, err: err})
	case contended(err):
		return fmt.Errorf("%w: %w", dedupe.ErrOverloaded, err)
	}
	return db.pool.heard(ctx, err)
}

// Rejoin makes contact again and finds out what became of a batch whose commit
// was not answered: the gateway's row counts them. The row is locked for that,
// which waits for a transaction that still goes on in the database.
func (db *DB) Rejoin(ctx context.Context) (written bool, err error) {
	ctx, cancel := db.patient(ctx)
	defer cancel()
	if err := db.pool.try(ctx); err != nil {
		return false, db.rejoined(ctx, err)
	}
	batches, err := db.counted(ctx)
	if err != nil {
		return false, db.rejoined(ctx, err)
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	if batches < db.reached.batches {
		db.fatal = fmt.Errorf("%w: %w", dedupe.ErrFatal, errBehind)
		return false, db.fatal
	}
	written = db.lost != 0 && batches >= db.lost
	db.lost = 0
	return written, nil
}

// counted is how many batches the gateway's row counts, once no transaction
// holds it. It commits nothing: that could have to wait for a standby.
func (db *DB) counted(ctx context.Context) (batches int64, err error) {
	tx, err := db.pool.Begin(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	if _, err := tx.Exec(ctx, `SELECT set_config('lock_timeout', $1, true)`, fmt.Sprint(db.cfg.Lock.Milliseconds())); err != nil {
		return 0, err
	}
	err = db.row(ctx, tx, `SELECT batches FROM {s}.gateways WHERE name = $1 AND epoch = $2 FOR UPDATE`, db.cfg.Name, db.epoch).Scan(&batches)
	if errors.Is(err, pgx.ErrNoRows) {
		err = errTaken
	}
	return batches, err
}

// rejoined is what the error of a try to rejoin means.
func (db *DB) rejoined(ctx context.Context, err error) error {
	var pg *pgconn.PgError
	why := absent(err)
	switch {
	case errors.Is(err, dedupe.ErrAway):
		return err
	case errors.Is(err, errTaken):
		err = fmt.Errorf("%w: %w", dedupe.ErrFatal, err)
		db.mu.Lock()
		defer db.mu.Unlock()
		db.fatal = err
		return err
	case errors.As(err, &pg) && pg.Code == "55P03":
		why = "an earlier batch is still under way in it"
	case why == "":
		why = "it can't be asked what became of a batch"
	}
	return db.pool.lose(&awayError{why: why, err: err})
}
