package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

// tries is how often a transaction that the database ended is tried.
const tries = 6

// errTaken says that another process goes on under this gateway's name.
var errTaken = errors.New("another process has taken this gateway's name: give each gateway its own, store.gateway")

// errAgain says that what was decided no longer holds.
var errAgain = errors.New("decided on what changed meanwhile")

// head is the gateway's own row as the transaction has it.
type head struct {
	now     int64 // ledger time, ms
	last    event.Ref
	acts    int64
	batches int64
}

// work is one transaction under way.
type work struct {
	db   *DB
	conn *pgxpool.Conn
	head head
	now  time.Time
	out  pgx.Batch // what is written at its end

	leaves [][]byte
	lo, hi event.Ref // of new events
	events int
	keep   int64 // until when all of them must be there
	woken  map[string]struct{}
	counts bool // it is a batch of its own number
}

// queue adds a statement to what is written at the end. Whatever it depends on
// is locked by then, or guarded by a constraint.
func (w *work) queue(sql string, args ...any) { w.out.Queue(w.db.q(sql), args...) }

// act records one act.
func (w *work) act(a dedupe.Act) {
	a.At = w.now
	w.leaves = append(w.leaves, a.Append(nil))
}

const headSQL = `UPDATE {s}.gateways SET mark = greatest(mark, COALESCE($3::bigint, ` + databaseClock + `)), heartbeat = ` + databaseClock + `
	WHERE name = $1 AND epoch = $2 RETURNING mark, last_ref, acts, batches`

// transact runs f in one transaction and commits what it queued. reads are
// sent with its beginning, in one exchange. What the database ends for a
// conflict is tried again.
func (db *DB) transact(ctx context.Context, reads func(*pgx.Batch), f func(*work, pgx.BatchResults) error) error {
	var err error
	for try := range tries {
		if try > 0 {
			if werr := pause(ctx, try); werr != nil {
				break
			}
		}
		if err = db.attempt(ctx, reads, f); err == nil || !db.again(ctx, err, try) {
			break
		}
	}
	return db.verdict(ctx, err)
}

// pause waits a little before a conflict is tried again, at random so that
// two gateways don't meet a second time.
func pause(ctx context.Context, try int) error {
	t := time.NewTimer(time.Duration(rand.Int64N(int64(try) * int64(5*time.Millisecond))))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// again reports whether err says that nothing was written and another try may
// go through.
func (db *DB) again(ctx context.Context, err error, try int) bool {
	var pg *pgconn.PgError
	var maybe *unsureError
	switch {
	case errors.Is(err, errAgain):
		return true
	case errors.As(err, &maybe):
		return false
	case cut(err):
		return try == 0 // on a new connection, if there is one
	case !errors.As(err, &pg):
		return false
	}
	switch pg.Code {
	case "40001", "40P01", "23505", "55P03":
		return true
	case "23514": // no partition takes the row
		db.mu.Lock()
		clear(db.parts)
		db.mu.Unlock()
		return db.ahead(ctx, db.clock.now(), lead) == nil
	}
	return false
}

func (db *DB) attempt(ctx context.Context, reads func(*pgx.Batch), f func(*work, pgx.BatchResults) error) (err error) {
	conn, err := db.pool.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("connect to the ledger's database: %w", err)
	}
	defer conn.Release()
	w := &work{db: db, conn: conn, woken: map[string]struct{}{}}
	defer func() {
		if err != nil && !conn.Conn().IsClosed() {
			ctx, cancel := db.patient(context.WithoutCancel(ctx))
			defer cancel()
			if _, rerr := conn.Exec(ctx, "rollback"); rerr != nil {
				_ = conn.Conn().Close(ctx)
			}
		}
	}()
	if err := w.begin(ctx, reads, f); err != nil {
		return err
	}
	if err := w.commit(ctx); err != nil {
		return err
	}
	for t := range w.woken {
		db.wakes.signal(t)
	}
	return nil
}

func (w *work) begin(ctx context.Context, reads func(*pgx.Batch), f func(*work, pgx.BatchResults) error) error {
	db := w.db
	b := &pgx.Batch{}
	b.Queue("begin isolation level read committed")
	// A plan that is kept for a statement is made soon, of tables that are still
	// small: without this it reads them as a whole until they are next analysed.
	b.Queue("select set_config('statement_timeout', $1, true), set_config('lock_timeout', $2, true), set_config('enable_seqscan', 'off', true), set_config('jit', 'off', true)",
		fmt.Sprint(db.cfg.Statement.Milliseconds()), fmt.Sprint(db.cfg.Lock.Milliseconds()))
	b.Queue(db.q(headSQL), db.cfg.Name, db.epoch, db.clock.param())
	if reads != nil {
		reads(b)
	}
	res := w.conn.SendBatch(ctx, b)
	for range 2 {
		if _, err := res.Exec(); err != nil {
			return errors.Join(fmt.Errorf("begin: %w", err), res.Close())
		}
	}
	var last *[16]byte
	err := res.QueryRow().Scan(&w.head.now, &last, &w.head.acts, &w.head.batches)
	if errors.Is(err, pgx.ErrNoRows) {
		err = errTaken
	}
	if err == nil {
		err = db.behind(&w.head)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("move the gateway's row on: %w", err), res.Close())
	}
	if last != nil {
		w.head.last = event.Ref(*last)
	}
	w.now = time.UnixMilli(w.head.now)
	db.clock.heard(w.head.now)
	if err := f(w, res); err != nil {
		return errors.Join(err, res.Close())
	}
	return nil
}

// nextRef is the ref after last.
func (w *work) nextRef() event.Ref {
	ms := uint64(w.head.now)
	if w.head.last.IsZero() {
		return event.NewRef(ms, 0, w.db.writer)
	}
	return w.head.last.Next(ms)
}

// commit sends what was queued, the batch's acts and the gateway's row.
func (w *work) commit(ctx context.Context) error {
	db, n := w.db, int64(len(w.leaves))
	if n > 0 {
		w.queue(`INSERT INTO {s}.batches VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`, int64(db.writer), w.head.acts, n, w.head.now,
			optional(w.lo), optional(w.hi), w.events, w.keep, packLeaves(w.leaves))
	}
	batches := 0
	if w.counts {
		batches = 1
	}
	w.queue(`UPDATE {s}.gateways SET first_ref = COALESCE(first_ref, $3), last_ref = COALESCE($4, last_ref), accepted = accepted + $5,
		acts = acts + $6, batches = batches + $7 WHERE name = $1 AND epoch = $2`,
		db.cfg.Name, db.epoch, optional(w.lo), optional(w.hi), w.events, n, batches)
	w.out.Queue("commit")
	data := w.conn.Conn().PgConn().CustomData()
	delete(data, warned)
	res := w.conn.SendBatch(ctx, &w.out)
	for range w.out.Len() {
		if _, err := res.Exec(); err != nil {
			return doubt(errors.Join(fmt.Errorf("write: %w", err), res.Close()), w.head.batches+1)
		}
	}
	if err := res.Close(); err != nil {
		return doubt(fmt.Errorf("commit: %w", err), w.head.batches+1)
	}
	if n, ok := data[warned].(*pgconn.Notice); ok && n.SeverityUnlocalized == "WARNING" {
		// Committed here and perhaps nowhere else: the wait for a synchronous
		// standby was given up.
		return doubt(fmt.Errorf("commit: %s: %s", n.Message, n.Detail), w.head.batches+1)
	}
	db.reach(w.head.batches+int64(batches), w.head.acts+n)
	return nil
}

// warned is where a connection keeps the last notice it was given.
const warned = "onceward.notice"

// reach notes how far the gateway's row has come.
func (db *DB) reach(batches, acts int64) {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.reached.batches, db.reached.acts = max(db.reached.batches, batches), max(db.reached.acts, acts)
}

// behind is errBehind when the row is not as far as it was.
func (db *DB) behind(h *head) error {
	db.mu.Lock()
	defer db.mu.Unlock()
	if h.batches < db.reached.batches || h.acts < db.reached.acts {
		return errBehind
	}
	return nil
}

func optional(r event.Ref) *[16]byte {
	if r.IsZero() {
		return nil
	}
	b := [16]byte(r)
	return &b
}
