package badgerdb

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dgraph-io/badger/v4"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

// Config opens a ledger. Only Dir must be set.
type Config struct {
	Dir  string // the data directory; made with mode 0700
	Log  *slog.Logger
	Now  func() time.Time // wall clock; default time.Now
	Rand func() uint64    // for a new ledger's writer ID; default crypto/rand

	// Retention is the default of requests that bring none. Zero fields:
	// bodies 30 d, metadata and audit 400 d.
	Retention dedupe.Retention
	// MinBucket is the shortest time bucket. Default 1 h.
	MinBucket time.Duration
	// ClaimBucket is the length of the expiry buckets of claims in a new
	// ledger. Default 8 d.
	ClaimBucket time.Duration

	// Reserve is the free disk space below which intake is refused. 0 is
	// max(1 GiB, 5 % of the disk, 4 × all memtables).
	Reserve int64
	// Ballast is the size of a really allocated file that is given back when
	// the disk is full at start. 0 is min(256 MiB, 1 % of the disk), negative
	// none.
	Ballast int64
	// BodySize is how much of the disk the bodies of one retention class may
	// take, about: past it the oldest go before their time, but not those of open
	// events. 0 is no limit.
	BodySize int64
	// BodySizes are such limits by source; see DB.LimitBodies.
	BodySizes map[string]int64
	// MaxSize is the size of the ledger, by allocated blocks, from which on
	// intake is refused. 0 is no limit.
	MaxSize int64
	// MemTable is the size of a memtable, of which one is written to. Default
	// 32 MiB.
	MemTable int64
	// Memtables is how many others may wait for their flush, beside the one that
	// is being flushed; each takes a third more memory than its size. Default 3.
	Memtables int
	// TableSize is the size of the tables that compaction writes. Up to thirteen
	// are put together at once, in up to six times their size of memory. It is
	// doubled until at most 8,192 of them hold what the ledger has at its start:
	// each is an open file. Default 4 MiB.
	TableSize int64
	// HotBytes bounds the bodies kept from commit to first attempt. Default
	// 32 MiB.
	HotBytes int64
	// ScheduleCap is the number of open deliveries per target in memory.
	// Default dedupe.DefaultScheduleCap.
	ScheduleCap int
	// ScanBudget is the number of events one page of a listing looks at; one
	// whose deliveries are read as well counts several times.
	// Default 20,000.
	ScanBudget int

	// ResumeDeliveries ends the hold of a restored ledger: deliveries that were
	// open when the backup was made are made.
	ResumeDeliveries bool

	Registerer prometheus.Registerer // default none
}

func (c *Config) fill() {
	def := func(p *int64, v int64) {
		if *p == 0 {
			*p = v
		}
	}
	dur := func(p *time.Duration, v time.Duration) {
		if *p <= 0 {
			*p = v
		}
	}
	const day = 24 * time.Hour
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	dur(&c.Retention.Body, 30*day)
	dur(&c.Retention.Meta, 400*day)
	dur(&c.Retention.Audit, 400*day)
	dur(&c.MinBucket, time.Hour)
	dur(&c.ClaimBucket, 8*day)
	hurry(c)
	def(&c.MemTable, 32<<20)
	def(&c.TableSize, 4<<20)
	def(&c.HotBytes, 32<<20)
	if c.Memtables <= 0 {
		c.Memtables = 3
	}
	if c.ScanBudget <= 0 {
		c.ScanBudget = 20_000
	}
}

// DB is an open ledger. It satisfies dedupe.Ledger.
type DB struct {
	cfg      Config
	log      *slog.Logger
	kv       *badger.DB
	clock    clock
	sched    *dedupe.Schedule
	hot      *hotCache
	chunks   chunkCache
	disk     *diskGuard
	high     *highWater
	wal      *wal // under mu
	wire     *onWire
	left     []begun // on the wire when the last run ended; until they are recorded
	writer   uint64  // 60-bit writer ID of new refs
	maxBatch int64   // bytes of one transaction, with margin
	ahead    int64   // size above which a body goes ahead of its batch
	// beforeSync is called before each commit; tests make it fail.
	beforeSync func() error

	// mute leaves acts out; benchmarks measure by it what acts cost.
	mute bool

	// mu is held by whoever writes: a commit, a drop, upkeep.
	mu         sync.Mutex
	head       head // newest batch
	lastRef    event.Ref
	events     uint64
	nextAct    uint64            // index of the writer's next act
	pack       dedupe.ActPack    // of the transaction being put together
	packed     []byte            // for the bodies of its packs, one after the other
	sealed     map[uint64]uint64 // by writer: acts before it may be dropped
	bodies     map[partKey]int64 // bytes per bucket, when they are limited
	limits     map[string]int64  // of bodies, by source
	turn       time.Duration     // how long a round of retention copies
	short      time.Duration     // the round of retention below which more buckets go at once
	every      time.Duration     // how often Run has retention run; set before it
	expiring   sync.Mutex        // held by a run of retention; never taken under mu
	openBodies map[limited]int64 // what was open of them when they were last cut
	claims     []uint32          // live claim buckets, ascending
	failed     error             // after it nothing is written any more
	posed      bool              // failed as a test told it to: the files are sound
	closed     bool
	idle       bool        // closing leaves no batch
	ended      atomic.Bool // closed, for those who don't hold mu
	readers    readers
	// openKeys are the keys of synchronous routes without a conclusion.
	openKeys map[dedupe.Key]struct{}

	classes atomic.Pointer[[]class]      // copy on write, under mu
	cuts    atomic.Pointer[cuts]         // copy on write, under mu
	sources atomic.Pointer[knownSources] // nil: none are known; copy on write, under mu
	// headIndex finds a head's bucket by its number; copy on write, under mu.
	headIndex atomic.Pointer[[]headBucket]

	// syncs are the live buckets of keys, ascending; copy on write, under mu.
	syncs   atomic.Pointer[[]uint32]
	startNo uint64 // number of the last batch of earlier runs; read-only after Open

	salvages []salvageMark // what may have been lost before this ledger was salvaged

	dead <-chan error // from Badger: a write of its own failed

	unread unread

	held event.Ref // of a restored ledger: deliveries up to it are not made

	startLow, startLast event.Ref // what rebuild reads: the open deliveries of earlier runs

	lowAt     time.Time     // ledger time of the last mark, under mu
	committed chan struct{} // tells Run that there is a head to mark
	rebuilt   chan struct{} // closed when the schedule is whole
	holdUntil time.Time     // ledger time until which nothing is dropped
	holdMark  time.Time     // until then, claims that stood at this time stand
	metrics   *metrics
}

var _ dedupe.Ledger = (*DB)(nil)

// Now is the ledger clock.
func (db *DB) Now() time.Time { return db.clock.now() }

// Lease takes due deliveries; see dedupe.Dispatch. While the schedule is
// rebuilt it holds what has been read so far.
func (db *DB) Lease(_ context.Context, target string, n int, ttl time.Duration) ([]dedupe.Lease, time.Time, error) {
	if db.ended.Load() {
		return nil, time.Time{}, dedupe.ErrClosed
	}
	leases, next := db.sched.Lease(target, n, ttl)
	return leases, next, nil
}

// Release gives leases back.
func (db *DB) Release(_ context.Context, leases ...dedupe.Lease) error {
	if db.ended.Load() {
		return dedupe.ErrClosed
	}
	for _, l := range leases {
		db.wire.end(&l, false)
		db.sched.Release(l)
	}
	return nil
}

// Extend prolongs a lease.
func (db *DB) Extend(_ context.Context, l dedupe.Lease, ttl time.Duration) (bool, error) {
	if db.ended.Load() {
		return false, dedupe.ErrClosed
	}
	return db.sched.Extend(l, ttl), nil
}

// Wake hints that deliveries of target may be due.
func (db *DB) Wake(target string) <-chan struct{} { return db.sched.Wake(target) }

// Targets lists the names with open deliveries.
func (db *DB) Targets() []string { return db.sched.Targets() }

// Rebuilt is closed when every open delivery of the last run is scheduled.
func (db *DB) Rebuilt() <-chan struct{} { return db.rebuilt }

// Health is nil while the ledger takes events.
func (db *DB) Health(context.Context) error {
	db.mu.Lock()
	failed, closed := db.failed, db.closed
	db.mu.Unlock()
	switch {
	case closed:
		return dedupe.ErrClosed
	case failed != nil:
		return failed
	case db.disk.low():
		return dedupe.ErrDiskLow
	}
	return nil
}

// Stats is a snapshot.
func (db *DB) Stats(context.Context) (dedupe.Stats, error) {
	db.mu.Lock()
	st := dedupe.Stats{Events: db.events, Batches: db.head.no, ReadOnly: db.failed != nil}
	if db.events > 0 {
		st.LastRef = db.lastRef
	}
	closed := db.closed
	var err error
	if !closed {
		st.Keys, err = db.keyStats()
	}
	db.mu.Unlock()
	if closed {
		return st, dedupe.ErrClosed
	}
	if err != nil {
		return st, err
	}
	st.Targets, st.Concerns = db.sched.Stats(), append(db.concerns(), db.unread.concerns()...)
	st.SizeBytes, st.FreeBytes, st.Reserve = db.disk.size(), db.disk.free(), db.disk.reserve
	st.ReadOnly = st.ReadOnly || db.disk.low()
	st.ClockHold = db.clock.now().Before(db.holdUntil)
	select {
	case <-db.rebuilt:
	default:
		st.Rebuilding = true
	}
	return st, nil
}

// Close flushes and releases the ledger; leases end with it. It must not be
// called while Run runs.
//
// It waits for those who read, of whom a backup and a check end by themselves,
// unless who takes the backup holds it up: cancel its context before.
func (db *DB) Close() error {
	again, err := db.shut()
	if again {
		return err
	}
	db.readers.end()
	db.mu.Lock()
	defer db.mu.Unlock()
	errs := []error{err}
	if db.failed == nil {
		errs = append(errs, db.high.write(db.head.no, db.head.hash))
	}
	// After a failed write closing would write more: it would flush what may not
	// be on disk, and try that for ever. The next start reads what there is.
	if db.failed == nil || db.posed {
		errs = append(errs, db.kv.Close())
	}
	return errors.Join(append(errs, db.high.close(), db.wire.close(), db.wal.close())...)
}

// shut writes the last batch and lets no other follow; again says that it was
// done before.
func (db *DB) shut() (again bool, err error) {
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.closed {
		return true, nil
	}
	// The head of an idle ledger is old. What it closes with says when it was
	// last open, or the next start would take the idle time for a jump of the
	// clock.
	if db.failed == nil && !db.idle && db.head.no > 0 && !db.disk.low() && db.clock.now().UnixMilli() > db.head.at {
		err = db.emptyBatch()
	}
	db.closed = true
	db.ended.Store(true)
	return false, err
}

// writable is nil while batches may be written. mu is held.
func (db *DB) writable() error {
	if db.closed {
		return dedupe.ErrClosed
	}
	return db.failed
}
