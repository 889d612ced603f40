package badgerdb

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

// formatVersion is the layout of doc.go. A ledger of a newer one is refused.
const formatVersion = 1

// clockHoldAfter is how far ahead of the persisted mark the clock may start
// before expiry waits, and clockHold for how long: a clock set wrong must not
// throw the ledger away.
const (
	clockHoldAfter = 24 * time.Hour
	clockHold      = time.Hour
)

// Open opens the ledger in cfg.Dir, or makes one. It checks that nothing that
// was known to be on disk is missing. Errors: dedupe.ErrLocked, ErrNewer,
// ErrDamaged, ErrDiskLow, ErrMoved, each with a sentence that says what to do.
func Open(cfg Config) (*DB, error) {
	if err := notMoved(cfg.Dir); err != nil {
		return nil, err
	}
	return open(cfg)
}

func open(cfg Config) (*DB, error) {
	cfg.fill()
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("make data directory: %w", err)
	}
	guard, err := newDiskGuard(&cfg)
	if err != nil {
		return nil, err
	}
	largest, err := largestLeft(&cfg)
	if err == nil {
		err = guard.prepare(largest)
	}
	if err != nil {
		return nil, fmt.Errorf("open ledger: %w", err)
	}
	kv, dead, err := openBadger(&cfg)
	if err != nil {
		return nil, err
	}
	db := &DB{
		dead: dead,
		cfg:  cfg, log: cfg.Log, kv: kv, disk: guard, hot: newHotCache(cfg.HotBytes), bodies: map[partKey]int64{}, limits: cfg.BodySizes, openBodies: map[limited]int64{}, turn: maxHold, short: shortRound, every: min(expireEvery, cfg.MinBucket),
		maxBatch: kv.MaxBatchSize() * 3 / 4, beforeSync: func() error { return nil }, rebuilt: make(chan struct{}), openKeys: map[dedupe.Key]struct{}{}, unread: unread{said: map[string]bool{}}, committed: make(chan struct{}, 1), metrics: newMetrics(cfg.Registerer),
	}
	db.ahead = min(aheadSize, db.maxBatch/2)
	if err := db.load(); err != nil {
		errs := []error{err}
		if !ioTrouble(err) { // closing would flush, and flushing be tried for ever
			errs = append(errs, kv.Close())
		}
		errs = append(errs, db.wal.close())
		if db.high != nil {
			errs = append(errs, db.high.close())
		}
		if db.wire != nil {
			errs = append(errs, db.wire.close())
		}
		return nil, errors.Join(errs...)
	}
	if err := os.Remove(failedPath(cfg.Dir)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		db.log.Warn("note of an earlier failure could not be removed", "error", err)
	}
	return db, nil
}

// Files names what a ledger keeps in its data directory.
func Files() []string {
	return []string{"ledger", "highwater", "highwater.new", "onwire", "ballast", "failed", "moved"}
}

func ledgerDir(dir string) string { return filepath.Join(dir, "ledger") }

// isNew reports whether no ledger was ever made here, or its making was cut
// short before its first record.
func (db *DB) isNew() (bool, error) {
	if _, err := os.Stat(highWaterPath(db.cfg.Dir)); !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	empty := false
	err := db.view(func(txn *badger.Txn) error {
		opt := badger.DefaultIteratorOptions
		opt.PrefetchValues = false
		it := txn.NewIterator(opt)
		defer it.Close()
		it.Rewind()
		empty = !it.Valid()
		return nil
	})
	return empty, err
}

func openBadger(cfg *Config) (kv *badger.DB, dead <-chan error, err error) {
	unlock, err := lockDir(cfg.Dir) // files change under who looks at those of another
	if err != nil {
		return nil, nil, err
	}
	log := newKVLogger(cfg)
	if err = errors.Join(precheck(cfg), unlock()); err == nil {
		err = flushLarger(cfg)
	}
	if err == nil {
		if kv, err = badger.Open(engine(cfg).WithSyncWrites(syncWrites && !ownSync).WithLogger(log)); err == nil {
			unpool(kv)
			return kv, log.dead, nil
		}
	}
	switch text := err.Error(); {
	case strings.Contains(text, "Cannot acquire directory lock"):
		return nil, nil, locked(cfg.Dir)
	case strings.Contains(text, "unsupported version"):
		// A flipped bit looks the same: nothing covers these bytes.
		says, _, _ := strings.Cut(text, "\n")
		return nil, nil, fmt.Errorf("open ledger %q: %w, or its %s is damaged: %s", cfg.Dir, dedupe.ErrNewer, badger.ManifestFilename, says)
	case ioTrouble(err):
		return nil, nil, fmt.Errorf("open ledger %q: %w: %w", cfg.Dir, dedupe.ErrFatal, err)
	}
	return nil, nil, unreadable(cfg.Dir, err)
}

// levelZero is how many tables of level 0 are merged at once.
const levelZero = 3

// engine is how Badger is run, always.
func engine(cfg *Config) badger.Options {
	opt := badger.DefaultOptions(ledgerDir(cfg.Dir))
	opt.TableSizeMultiplier = 1 // the memory to put one together is the same on each level
	// Each merge of level 0 rewrites the level below it whole, so that is as large
	// as what comes to it at once; and few levels are between it and the last one,
	// since most keys ascend with time and overlap with little there.
	opt.BaseLevelSize = levelZero * cfg.MemTable
	opt.LevelSizeMultiplier = 30
	return opt.
		WithSyncWrites(syncWrites).
		WithDetectConflicts(false). // one writer
		WithNumVersionsToKeep(1).
		WithMemTableSize(cfg.MemTable).
		WithNumMemtables(cfg.Memtables).
		WithNumLevelZeroTables(levelZero).
		WithNumLevelZeroTablesStall(levelZero + 1). // of four that nothing else takes for 10 s it makes one, in memory
		WithBaseTableSize(tableSize(cfg)).
		WithNumCompactors(2).
		WithValueThreshold(min(1<<20, cfg.MemTable*15/100)).
		WithValueLogFileSize(64 << 20).
		WithCompression(options.None).
		WithChecksumVerificationMode(options.NoVerification). // precheck has
		WithBlockCacheSize(0).                                // uncompressed blocks are read from the map
		WithIndexCacheSize(32 << 20).
		WithCompactL0OnClose(false).
		WithMetricsEnabled(false). // process-global counters
		WithLogger(newKVLogger(cfg))
}

func unreadable(dir string, err error) error {
	return fmt.Errorf("open ledger %q: %w: %w; keep the directory as it is, and restore a backup or run onceward ledger salvage", dir, dedupe.ErrDamaged, err)
}

// holder names the process that wrote the lock file.
func holder(dir string) string {
	b, err := os.ReadFile(filepath.Join(dir, lockFile))
	if err != nil {
		return "another process"
	}
	if pid, err := strconv.Atoi(strings.TrimSpace(string(b))); err == nil {
		return fmt.Sprintf("process %d", pid)
	}
	return "another process"
}

// load reads what the ledger says of itself and holds it against the
// high-water mark.
func (db *DB) load() error {
	fresh, err := db.isNew()
	if err == nil {
		db.wal, err = openWAL(ledgerDir(db.cfg.Dir))
	}
	if err == nil {
		err = db.syncFirst()
	}
	if err == nil && fresh {
		err = db.create()
		dedupe.Failpoint("ledger.made")
	}
	if err == nil {
		err = db.view(db.loadFrom)
	}
	if err == nil {
		db.high, err = openHighWater(db.cfg.Dir, db.head.no == 0)
	}
	if err == nil {
		err = db.checkHighWater()
	}
	if err == nil {
		err = db.openWire()
	}
	if err != nil && ioTrouble(err) {
		noteFailure(db.cfg.Dir, err)
		err = fmt.Errorf("%w: %w", dedupe.ErrFatal, err)
	}
	if err != nil {
		return fmt.Errorf("open ledger %q: %w", db.cfg.Dir, err)
	}
	mark := db.head.time()
	if db.head.no == 0 {
		mark = time.Time{}
	}
	db.clock.init(db.cfg.Now, mark)
	if ahead := db.cfg.Now().Sub(mark); !mark.IsZero() && ahead > clockHoldAfter {
		db.holdUntil, db.holdMark = db.clock.now().Add(clockHold), mark
		db.log.Warn("clock is far ahead of the ledger: nothing is dropped or forgotten for an hour",
			"ahead", ahead.Round(time.Second), "mark", mark.UTC(), "until", db.holdUntil.UTC())
	}
	db.startLow, db.startLast, db.startNo = db.head.low, db.lastRef, db.head.no
	db.sched = dedupe.NewSchedule(db.clock.now, db.cfg.ScheduleCap)
	db.sched.HoldLanes() // until rebuild has read them all
	db.disk.measure()
	return db.resume()
}

// syncFirst syncs what Badger opened, once: its value log among it, which stays
// empty.
func (db *DB) syncFirst() error {
	if err := db.kv.Sync(); err != nil {
		return fmt.Errorf("sync the ledger's files: %w: %w", syscall.EIO, err) // Badger's error may be text alone
	}
	return nil
}

// openWire opens the file of attempts on the wire. Without it no attempt can
// be said to be missing; the deliveries themselves are all there.
func (db *DB) openWire() (err error) {
	var found bool
	db.wire, db.left, found, err = openOnWire(db.cfg.Dir)
	if err == nil && !found && db.head.no > 0 {
		db.metrics.damage.Inc()
		db.log.Warn("the file of attempts under way is missing: those cut by the last stop can't be shown", "file", onWirePath(db.cfg.Dir))
	}
	return err
}

// create writes the first records of a new ledger.
func (db *DB) create() error {
	id := db.cfg.Rand
	if id == nil {
		id = randomID
	}
	err := db.kv.Update(func(txn *badger.Txn) error {
		first := db.newClass(0, db.cfg.Retention, "")
		if err := txn.Set(cutsKey, (&cuts{}).seal()); err != nil {
			return err
		}
		if err := txn.Set(classMetaKey(0), first.seal(classMetaKey(0))); err != nil {
			return err
		}
		e := newEnc(32)
		e.uint(formatVersion)
		e.uint(id() & (1<<event.WriterBits - 1))
		e.int(db.cfg.ClaimBucket.Milliseconds())
		key := metaKey("format")
		return txn.Set(key, e.seal(key, 0))
	})
	if err != nil {
		return err
	}
	return db.wal.sync()
}

func randomID() uint64 {
	var b [8]byte
	rand.Read(b[:]) // never fails
	return binary.BigEndian.Uint64(b[:])
}

func (db *DB) loadFrom(txn *badger.Txn) error {
	if err := db.loadFormat(txn); err != nil {
		return err
	}
	val, err := get(txn, cutsKey)
	if err != nil {
		return missing(cutsKey, err)
	}
	c, err := decodeCuts(val)
	if err != nil {
		return err
	}
	db.cuts.Store(c)
	var all []class
	for n := 0; n <= 255; n++ {
		key := classMetaKey(uint8(n))
		val, err := get(txn, key)
		if errors.Is(err, dedupe.ErrNotFound) {
			break
		}
		if err != nil {
			return err
		}
		cl, err := decodeClass(key, val, uint8(n))
		if err != nil {
			return err
		}
		all = append(all, cl)
	}
	db.classes.Store(&all)
	sources, err := loadSources(txn)
	if err != nil {
		return err
	}
	db.sources.Store(sources)
	index, err := headBuckets(txn, c.headT)
	if err != nil {
		return err
	}
	db.headIndex.Store(&index)
	if db.head, err = lastHead(txn); err != nil {
		return err
	}
	db.events, db.sealed = db.head.events, map[uint64]uint64{}
	if db.head.writer == db.writer {
		db.nextAct = db.head.acts
	}
	if db.salvages, err = salvageMarks(txn); err != nil {
		return err
	}
	if err := db.loadHeld(txn); err != nil {
		return err
	}
	db.claims, err = claimBuckets(txn)
	if err != nil {
		return err
	}
	syncs, err := syncBuckets(txn)
	if err != nil {
		return err
	}
	db.syncs.Store(&syncs)
	db.lastRef, err = db.lastGiven(txn)
	return err
}

func (db *DB) loadFormat(txn *badger.Txn) error {
	key := metaKey("format")
	val, err := get(txn, key)
	if err != nil {
		return missing(key, err)
	}
	payload, err := unseal(key, val)
	if err != nil {
		return err
	}
	d := &dec{b: payload}
	if v := d.uint(); v > formatVersion {
		return fmt.Errorf("%w: format %d, this program knows %d; use the newer program", dedupe.ErrNewer, v, formatVersion)
	}
	db.writer = d.uint()
	db.cfg.ClaimBucket = time.Duration(d.int()) * time.Millisecond
	return d.end(key)
}

// missing says that a record that every ledger has is not there.
func missing(key []byte, err error) error {
	if errors.Is(err, dedupe.ErrNotFound) {
		return damaged(key, "missing; the ledger was emptied or its files were replaced")
	}
	return err
}

func missingHead(no uint64, err error) error {
	if errors.Is(err, dedupe.ErrNotFound) {
		return fmt.Errorf("%w: the head of batch %d is missing", dedupe.ErrDamaged, no)
	}
	return err
}

// lastGiven is the newest ref given, from the newest head that gave one.
func (db *DB) lastGiven(txn *badger.Txn) (event.Ref, error) {
	start := event.NewRef(0, 0, db.writer)
	for no := db.head.no; no > 0; no-- {
		h, err := db.readHead(txn, no)
		if errors.Is(err, dedupe.ErrNotFound) && no < db.cuts.Load().heads {
			// Every head that gave a ref is pruned: go on from the clock.
			return event.NewRef(uint64(db.head.at), 1<<event.CounterBits-1, db.writer), nil
		}
		if err != nil {
			return start, missingHead(no, err)
		}
		if h.count > 0 && h.last.Writer() != db.writer { // given before this ledger was restored or salvaged
			return event.NewRef(h.last.Milli(), 1<<event.CounterBits-1, db.writer), nil
		}
		if h.count > 0 {
			return h.last, nil
		}
		if db.head.no-no > 100_000 {
			// Heads keep time: no ref of this ledger is later.
			return event.NewRef(uint64(db.head.at), 1<<event.CounterBits-1, db.writer), nil
		}
	}
	return start, nil
}

// checkHighWater compares the newest head with the mark beside the ledger.
func (db *DB) checkHighWater() error {
	w := db.high
	if !guarded {
		return nil
	}
	if db.head.no < w.no {
		return fmt.Errorf("%w: batches %d to %d were on disk and are gone, the newest left is %d of %s; "+
			"keep the directory as it is, and restore a backup or run onceward ledger salvage", dedupe.ErrDamaged, db.head.no+1, w.no, db.head.no,
			db.head.time().UTC().Format(time.RFC3339))
	}
	if w.no == 0 || w.no < db.cuts.Load().heads {
		return nil
	}
	return db.view(func(txn *badger.Txn) error {
		h, err := db.readHead(txn, w.no)
		if err != nil {
			return missingHead(w.no, err)
		}
		if h.hash != w.hash {
			return fmt.Errorf("%w: batch %d is not the one that was written; the high-water file is another ledger's, or history was replaced",
				dedupe.ErrDamaged, w.no)
		}
		return nil
	})
}

// view reads from one snapshot. Damage that ends it is counted.
func (db *DB) view(f func(*badger.Txn) error) error { return db.told(db.read(f)) }

func (db *DB) read(f func(*badger.Txn) error) error {
	if err := db.readers.enter(); err != nil {
		return err
	}
	defer db.readers.leave()
	return db.kv.View(f)
}

// steady is view for what retention may drop: f reads anew, from a newer snapshot,
// when retention moved its cuts meanwhile. A snapshot does not keep what is dropped,
// and does not know where it was carried: what f found missing may be there, and
// what it found may lack a part.
func (db *DB) steady(f func(*badger.Txn) error) error {
	for {
		cuts := db.cuts.Load()
		err := db.read(f)
		if db.cuts.Load() == cuts {
			return db.told(err)
		}
	}
}

// told is the error of a read, with damage counted.
func (db *DB) told(err error) error {
	switch {
	case errors.Is(err, badger.ErrDBClosed):
		return dedupe.ErrClosed
	case errors.Is(err, dedupe.ErrDamaged):
		db.metrics.damage.Inc()
	}
	return err
}

// get reads a value; absent is ErrNotFound.
func get(txn *badger.Txn, key []byte) ([]byte, error) {
	item, err := txn.Get(key)
	if err == nil {
		var val []byte
		if val, err = item.ValueCopy(nil); err == nil {
			return val, nil
		}
	}
	if errors.Is(err, badger.ErrKeyNotFound) {
		return nil, dedupe.ErrNotFound
	}
	return nil, engineErr(key, err)
}

func engineErr(key []byte, err error) error {
	return fmt.Errorf("read %s: %w: %w", keyText(key), dedupe.ErrDamaged, err)
}
