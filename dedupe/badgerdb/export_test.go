package badgerdb

import (
	"context"
	"os"
	"sync"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/dgraph-io/ristretto/v2/z"
	"github.com/onceward/onceward/event"
)

// FailNext makes the next commit fail with err before it is synced.
func (db *DB) FailNext(err error) {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.posed, db.beforeSync = true, func() error { return err }
}

// OnSync is called with the file of each sync, after it.
func (db *DB) OnSync(f func(name string)) {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.wal.flush = func(file *os.File) error {
		err := datasync(file)
		f(file.Name())
		return err
	}
}

// Mute leaves acts out, so that their cost can be measured.
func (db *DB) Mute() {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.mute = true
}

// VerifyLive verifies the file of a table, if it is one.
func (db *DB) VerifyLive(id uint64) error { _, err := db.verifyLive(id); return err }

// Scrub reads all tables once and returns how many are damaged.
func (db *DB) Scrub(ctx context.Context) int { return db.scrub(ctx, 0) }

// KeepTime does for an idle ledger what Run does in an hour.
func (db *DB) KeepTime() error {
	idle := &idleness{}
	for range timeEvery / lookEvery {
		if err := db.keepTime(idle); err != nil {
			return err
		}
	}
	return db.keepTime(idle)
}

// Rounds is Expire, of which each call does one round.
func (db *DB) Rounds() func(context.Context) (more bool, err error) {
	s := newSweep()
	return func(ctx context.Context) (bool, error) {
		more, _, err := db.expireRound(ctx, s)
		return more, err
	}
}

// Hold sets how long a round copies.
func (db *DB) Hold(d time.Duration) {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.turn = d
}

// Short sets which rounds are short, after which more buckets go at once.
func (db *DB) Short(d time.Duration) {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.short = d
}

// RetainNever leaves retention to calls of Expire: one that runs by itself, as
// soon as a test has moved the clock, would take from what they report. It has to
// come before Run.
func (db *DB) RetainNever() { db.every = 100 * 365 * 24 * time.Hour }

// Measure is the disk the ledger takes, read anew.
func (db *DB) Measure() int64 { return db.disk.measure() }

// Update reports whether golden files are to be made anew.
func Update() bool { return *update }

// Engine is how Badger is opened for a ledger.
func Engine(cfg Config) badger.Options {
	cfg.fill()
	return engine(&cfg)
}

// SetFormat writes another format's number.
func SetFormat(n uint64) func(*badger.Txn) error {
	return func(txn *badger.Txn) error {
		key := metaKey("format")
		e := newEnc(16)
		e.uint(n)
		e.uint(1)
		e.int(1)
		return txn.Set(key, e.seal(key, 0))
	}
}

// Rebuild is what Run does first.
func (db *DB) Rebuild(ctx context.Context) error { return db.rebuild(ctx, db.startLow, db.startLast) }

// BodyTotal is what all bodies take.
func (db *DB) BodyTotal() (sum int64) {
	db.mu.Lock()
	defer db.mu.Unlock()
	for _, n := range db.bodies {
		sum += n
	}
	return sum
}

// Idle is the engine's channel of idle buffers, nil where it has none.
func (db *DB) Idle() chan *z.Allocator { return poolOf(db.kv) }

// LoadAcross is Load from disk, with f called between the event and its body.
func (db *DB) LoadAcross(ref event.Ref, f func()) (body []byte, err error) {
	first := sync.OnceFunc(f)
	err = db.steady(func(txn *badger.Txn) error {
		ev, p, err := db.event(txn, ref)
		if err != nil {
			return err
		}
		first()
		body, err = db.body(txn, &ev, p)
		return err
	})
	return body, err
}

// CheckAcross is what Check says of an event that it comes upon after f, in a
// snapshot from before it.
func (db *DB) CheckAcross(ref event.Ref, f func()) error {
	return db.kv.View(func(txn *badger.Txn) error {
		ev, _, err := db.find(txn, ref)
		if err != nil {
			return err
		}
		f()
		c := &check{db: db, ctx: context.Background(), txn: txn}
		return c.event(&ev)
	})
}

// LoseBodies takes all bodies away, as no retention would.
func (db *DB) LoseBodies() {
	db.mu.Lock()
	defer db.mu.Unlock()
	if err := db.kv.DropPrefix([]byte{kindBody}); err != nil {
		panic(err)
	}
}

// DeadOf is how many dead letters of a target are counted.
func (db *DB) DeadOf(target string) int64 { return db.sched.DeadOf(target) }

// WithLock calls f while nobody else writes.
func (db *DB) WithLock(f func() error) error {
	db.mu.Lock()
	defer db.mu.Unlock()
	return f()
}
