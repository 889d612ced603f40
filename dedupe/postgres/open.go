package postgres

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"regexp"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

// ExecMode says how statements are prepared.
type ExecMode string

// The exec modes.
const (
	ExecPrepare  ExecMode = "prepare"  // named prepared statements, kept per connection
	ExecDescribe ExecMode = "describe" // unnamed ones: for poolers in transaction mode that know no named ones
)

// Config says which database, and as whom. URL and Name are needed.
type Config struct {
	URL      string // as PostgreSQL's own clients read it
	Schema   string // default "onceward"
	Name     string // this gateway's, different from that of any other
	ExecMode ExecMode
	MaxConns int // default 8
	Migrate  bool
	// ResumeDeliveries makes the deliveries due that a restored ledger holds.
	ResumeDeliveries bool
	// Statement and Lock bound what one statement may take, and how long it may
	// wait for a lock. Defaults 10 s and 5 s.
	Statement, Lock time.Duration
	Retention       dedupe.Retention // defaults for requests that name none
	Now             func() time.Time // the wall clock; nil = the database's
	Log             *slog.Logger
	Registerer      prometheus.Registerer // nil keeps the figures to itself
}

var schemaName = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,39}$`)

// The retention a ledger keeps when its config names none.
const (
	defaultBody  = 30 * 24 * time.Hour
	defaultMeta  = 400 * 24 * time.Hour
	defaultAudit = 400 * 24 * time.Hour
)

func (c Config) withDefaults() Config {
	pick := func(v *time.Duration, def time.Duration) {
		if *v <= 0 {
			*v = def
		}
	}
	pick(&c.Retention.Body, defaultBody)
	pick(&c.Retention.Meta, defaultMeta)
	pick(&c.Retention.Audit, defaultAudit)
	pick(&c.Statement, 10*time.Second)
	pick(&c.Lock, 5*time.Second)
	if c.Schema == "" {
		c.Schema = "onceward"
	}
	if c.ExecMode == "" {
		c.ExecMode = ExecPrepare
	}
	if c.MaxConns <= 0 {
		c.MaxConns = 8
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

// pool is the configuration of the connections. Its errors hold no password.
func (c *Config) pool() (*pgxpool.Config, error) {
	if !schemaName.MatchString(c.Schema) {
		return nil, fmt.Errorf("schema %q: want up to 40 of a-z, 0-9 and _, beginning with a letter or _", c.Schema)
	}
	pc, err := pgxpool.ParseConfig(c.URL)
	if err != nil {
		return nil, errors.New("url of the ledger's database can't be read: want postgres://user@host:port/database or key=value pairs")
	}
	switch c.ExecMode {
	case ExecPrepare:
		pc.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheStatement
	case ExecDescribe:
		pc.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	default:
		return nil, fmt.Errorf("exec mode %q: want prepare or describe", c.ExecMode)
	}
	pc.ConnConfig.OnNotice = func(c *pgconn.PgConn, n *pgconn.Notice) { c.CustomData()[warned] = n }
	pc.MaxConns = int32(min(c.MaxConns, math.MaxInt16))
	if pc.ConnConfig.ConnectTimeout == 0 {
		pc.ConnConfig.ConnectTimeout = 5 * time.Second
	}
	return pc, nil
}

// querier is what a connection, a pool and a transaction have in common.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

// DB is a gateway's view of the ledger. Its methods are safe for concurrent
// use.
type DB struct {
	cfg    Config
	pool   *conns
	writer uint64
	epoch  int64
	width  time.Duration // of a partition
	clock  *clock
	wakes  wakes
	filled sync.Map // statements with the schema's name in them

	metrics *metrics

	holdTill, holdMark time.Time // expiry waits until; claims that stood then stand

	mu      sync.Mutex // guards the rest
	parts   map[int64]bool
	closed  bool
	fatal   error
	inject  error
	lost    int64                         // number of a batch that may have been written, 0 for none
	reached struct{ batches, acts int64 } // of what was committed, as the gateway's row counts it
	sealed  map[uint64]uint64             // by writer: acts before it may be dropped
	known   []string                      // targets as last read
	disk    int64                         // bytes of the database, at diskAt
	diskAt  time.Time
	owed    []dedupe.Lease // to be given back when the database is back

	grants grants
}

var (
	_ dedupe.Ledger   = (*DB)(nil)
	_ dedupe.Rejoiner = (*DB)(nil)
)

const (
	clockLead = 24 * time.Hour
	clockHold = time.Hour
)

// Open takes the gateway's name over from whoever had it, gives that one's
// leases back and records what it had on the wire as attempts of unknown
// outcome. A schema that is missing or older is ErrOlder unless cfg.Migrate.
func Open(ctx context.Context, cfg Config) (*DB, error) {
	cfg = cfg.withDefaults()
	if cfg.Name == "" || len(cfg.Name) > 255 {
		return nil, errors.New("name of the gateway: want 1 to 255 bytes")
	}
	pc, err := cfg.pool()
	if err != nil {
		return nil, err
	}
	pool, err := newConns(ctx, &cfg, pc)
	if err != nil {
		return nil, away(err)
	}
	db := &DB{cfg: cfg, pool: pool, parts: map[int64]bool{}, sealed: map[uint64]uint64{}}
	if err := db.start(ctx); err != nil {
		pool.Close()
		return nil, err
	}
	db.metrics = newMetrics(db, cfg.Registerer)
	return db, nil
}

func (db *DB) start(ctx context.Context) error {
	if err := db.prepare(ctx); err != nil {
		return err
	}
	if err := db.takeName(ctx); err != nil {
		return err
	}
	if db.cfg.ResumeDeliveries {
		n, err := resume(ctx, db.pool, db.cfg.Schema)
		if err != nil {
			return fmt.Errorf("resume held deliveries: %w", err)
		}
		db.cfg.Log.Info("held deliveries are resumed", "deliveries", n)
	}
	return db.takeBack(ctx)
}

// prepare brings the schema up to date, or says why not.
func (db *DB) prepare(ctx context.Context) error {
	conn, err := db.pool.Acquire(ctx)
	if err != nil {
		return away(err)
	}
	defer conn.Release()
	var replica bool
	if err := conn.QueryRow(ctx, `SELECT pg_is_in_recovery()`).Scan(&replica); err != nil {
		return fmt.Errorf("ask the database what it is: %w", err)
	}
	if replica {
		return ErrStandby
	}
	lacking, err := missing(ctx, conn, db.cfg.Schema)
	switch {
	case err != nil:
		return err
	case len(lacking) > 0 && !db.cfg.Migrate:
		return ErrOlder
	case len(lacking) > 0:
		if _, err := migrate(ctx, conn.Conn(), db.cfg); err != nil {
			return err
		}
	}
	var ms int64
	if err := db.row(ctx, conn, `SELECT width FROM {s}.meta`).Scan(&ms); err != nil {
		return fmt.Errorf("read the ledger's settings: %w", err)
	}
	db.width = time.Duration(ms) * time.Millisecond
	return whole(ctx, conn, db.cfg.Schema)
}

const databaseClock = `(extract(epoch FROM clock_timestamp()) * 1000)::bigint`

// heartbeatTime is how often a gateway says that it is there, in every slowRound-th
// round of its upkeep, and so how long one goes on whose name was taken.
const (
	heartbeatTime = 5 * time.Second
	slowRound     = 20
)

// takeName makes the name this process's.
func (db *DB) takeName(ctx context.Context) error {
	var b [8]byte
	if _, err := rand.Read(b[:]); err != nil {
		return fmt.Errorf("draw a writer ID: %w", err)
	}
	fresh := int64(binary.BigEndian.Uint64(b[:]) & (1<<event.WriterBits - 1))
	var writer, mark, now int64
	err := db.row(ctx, db.pool, `INSERT INTO {s}.gateways (name, writer, epoch, mark, batches, accepted, acts, heartbeat)
		VALUES ($1, $2, 1, (SELECT COALESCE(max(mark), 0) FROM {s}.gateways WHERE name LIKE '% %'), 0, 0, 0, `+databaseClock+`)
		ON CONFLICT (name) DO UPDATE SET epoch = gateways.epoch + 1, heartbeat = excluded.heartbeat
		RETURNING writer, epoch, mark, `+databaseClock, db.cfg.Name, fresh).Scan(&writer, &db.epoch, &mark, &now)
	if err != nil {
		return fmt.Errorf("take the gateway's name: %w", standby(err))
	}
	db.writer = uint64(writer)
	if db.epoch > 1 {
		// Who had the name before may lease under it until a heartbeat says so.
		db.grants.lost(db.cfg.patience() + heartbeatTime)
	}
	db.clock = newClock(db.cfg.Now, time.UnixMilli(now), fromMillis(mark))
	if start := db.clock.now(); mark != 0 && start.Sub(fromMillis(mark)) > clockLead {
		db.holdTill, db.holdMark = start.Add(clockHold), fromMillis(mark)
	}
	return nil
}

func (db *DB) held() bool { return db.clock.now().Before(db.holdTill) }

// q is sql with the schema's name in it.
func (db *DB) q(sql string) string {
	if v, ok := db.filled.Load(sql); ok {
		return v.(string)
	}
	s := fill(sql, db.cfg.Schema)
	db.filled.Store(sql, s)
	return s
}

func (db *DB) row(ctx context.Context, q querier, sql string, args ...any) pgx.Row {
	return q.QueryRow(ctx, db.q(sql), args...)
}

// each calls scan for every row.
func (db *DB) each(ctx context.Context, q querier, sql string, args []any, scan func(pgx.Rows) error) error {
	rows, err := q.Query(ctx, db.q(sql), args...)
	if err != nil {
		return fmt.Errorf("read the ledger: %w", err)
	}
	return drain(rows, scan)
}

func drain(rows pgx.Rows, scan func(pgx.Rows) error) error {
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return fmt.Errorf("read the ledger: %w", err)
		}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("read the ledger: %w", err)
	}
	return nil
}

// usable is an error when the ledger is closed.
func (db *DB) usable() error {
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.closed {
		return dedupe.ErrClosed
	}
	return nil
}

// Now is the ledger clock.
func (db *DB) Now() time.Time { return db.clock.now() }

// FailNext makes the next Commit fail with err, for tests: nothing of its
// batch is kept and the engine takes no other.
func (db *DB) FailNext(err error) {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.inject = err
}

// Health is nil while the ledger takes events.
func (db *DB) Health(ctx context.Context) error {
	db.mu.Lock()
	closed, fatal := db.closed, db.fatal
	db.mu.Unlock()
	switch {
	case closed:
		return dedupe.ErrClosed
	case fatal != nil:
		return fatal
	}
	if err := db.pool.away(); err != nil { // known without asking
		return err
	}
	ctx, cancel := db.patient(ctx)
	defer cancel()
	var primary bool
	if err := db.pool.QueryRow(ctx, writes).Scan(&primary); err != nil {
		return err
	}
	if !primary {
		return ErrStandby
	}
	return nil
}

// Close gives back the leases that are left, notes how far the clock was and ends
// the connections.
func (db *DB) Close() error {
	db.mu.Lock()
	was, fatal := db.closed, db.fatal
	db.closed = true
	db.mu.Unlock()
	if was {
		return nil
	}
	defer db.pool.Close()
	if fatal != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), db.cfg.Statement)
	defer cancel()
	err := db.takeBack(ctx)
	if errors.Is(err, errTaken) {
		return nil // they are another process's now, and so is the mark
	}
	if errors.Is(err, dedupe.ErrAway) {
		return nil // what takes the name next takes them back, and the mark is as old as the last batch
	}
	if err != nil {
		return fmt.Errorf("close the ledger: %w", err)
	}
	_, err = db.pool.Exec(ctx, db.q(`UPDATE {s}.gateways SET mark = greatest(mark, $3) WHERE name = $1 AND epoch = $2`),
		db.cfg.Name, db.epoch, db.clock.now().UnixMilli())
	if errors.Is(err, dedupe.ErrAway) {
		return nil // the mark is as old as the last batch
	}
	if err != nil {
		return fmt.Errorf("close the ledger: %w", err)
	}
	return nil
}

// Run keeps partitions ahead, the heartbeat and the hints at what other
// gateways opened, until ctx ends or another process has taken the gateway's
// name, which is dedupe.ErrFatal.
func (db *DB) Run(ctx context.Context) error {
	var background sync.WaitGroup
	defer background.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	background.Go(func() { db.runBackground(ctx) })
	tick := time.NewTicker(heartbeatTime / slowRound)
	defer tick.Stop()
	for beat := 0; ; beat++ {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		err := db.round(ctx, beat%slowRound == 0)
		if errors.Is(err, errTaken) {
			return db.failed(err)
		}
		if err != nil && ctx.Err() == nil && !errors.Is(err, dedupe.ErrAway) {
			db.cfg.Log.Warn("ledger upkeep", "error", err)
		}
	}
}

func (db *DB) round(ctx context.Context, slow bool) error {
	ctx, cancel := db.patient(ctx)
	defer cancel()
	if err := db.pay(ctx); err != nil {
		return err
	}
	if db.grants.doubtful(slow) {
		if err := db.takeUnheard(ctx); err != nil {
			return err
		}
	}
	if slow {
		if err := db.ahead(ctx, db.clock.now(), lead); err != nil {
			return err
		}
		tag, err := db.pool.Exec(ctx, db.q(`UPDATE {s}.gateways SET heartbeat = `+databaseClock+` WHERE name = $1 AND epoch = $2`),
			db.cfg.Name, db.epoch)
		if err != nil {
			return fmt.Errorf("heartbeat: %w", err)
		}
		if tag.RowsAffected() == 0 {
			return errTaken
		}
	}
	return db.each(ctx, db.pool, targetNames, nil, func(r pgx.Rows) error {
		var t string
		err := r.Scan(&t)
		db.wakes.signal(t)
		return err
	})
}
