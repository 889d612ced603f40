package badgerdb

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/dgraph-io/badger/v4"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

// Inspect reads the whole ledger of a gateway that is stopped and reports every
// fault. A ledger whose files have faults is not opened, because opening it
// would change them; its records are read as they stand.
func Inspect(ctx context.Context, cfg Config) (dedupe.CheckReport, error) {
	cfg.fill()
	s, err := surveyed(cfg.Dir)
	if err != nil {
		return dedupe.CheckReport{}, err
	}
	if len(s.faults) == 0 {
		return inspectOpen(ctx, cfg)
	}
	c := &check{ctx: ctx, report: dedupe.CheckReport{Faults: []dedupe.Fault{}}}
	for _, f := range s.faults {
		c.fault(f.Where, f.What)
	}
	r := &reading{survey: s, ctx: ctx, fault: c.fault}
	err = r.run(func(e rawEntry) error {
		countRecord(&c.report, e)
		return nil
	})
	r.gaps()
	return c.report, err
}

// surveyed is look under the ledger's lock.
func surveyed(dir string) (s *survey, err error) {
	unlock, err := lockDir(dir)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(ledgerDir(dir)); err != nil {
		return nil, errors.Join(fmt.Errorf("no ledger in %q: %w", dir, err), unlock())
	}
	s, err = look(dir)
	return s, errors.Join(err, unlock())
}

func inspectOpen(ctx context.Context, cfg Config) (report dedupe.CheckReport, err error) {
	db, err := open(cfg)
	if errors.Is(err, dedupe.ErrDamaged) {
		return dedupe.CheckReport{Faults: []dedupe.Fault{{Where: cfg.Dir, What: err.Error()}}}, nil
	}
	if err != nil {
		return dedupe.CheckReport{}, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return db.Check(ctx)
}

// Salvage writes everything of a damaged ledger that verifies as a new ledger
// in the directory to, which must be empty or not there, and reports what it
// could not. The damaged one is read only, and its gateway must be stopped.
func Salvage(ctx context.Context, cfg Config, to string) (report dedupe.SalvageReport, err error) {
	cfg.fill()
	if err := makeEmpty(to); err != nil {
		return report, err
	}
	s, err := surveyed(cfg.Dir)
	if err != nil {
		return report, err
	}
	unlock, err := lockDir(cfg.Dir)
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	report = dedupe.SalvageReport{Dir: to, Faults: s.faults}
	r := &reading{survey: s, ctx: ctx, fault: func(where, what string) {
		report.Faults = append(report.Faults, dedupe.Fault{Where: where, What: what})
	}}
	next := cfg
	next.Dir, next.Registerer = to, nil
	if err := copyRecords(r, &next); err != nil {
		return report, fmt.Errorf("salvage: %w", err)
	}
	r.gaps()
	report.Records, report.Lost = r.read, r.lost
	if err := refound(r, &next); err != nil {
		return report, fmt.Errorf("salvage: %w", err)
	}
	done, err := inspectOpen(ctx, next)
	report.Events, report.Bodies, report.Attempts, report.Claims = done.Events, done.Bodies, done.Attempts, done.Claims
	report.Faults = append(report.Faults, done.Faults...)
	if report.Faults == nil {
		report.Faults = []dedupe.Fault{}
	}
	return report, err
}

// makeEmpty makes a directory, or takes one that holds nothing.
func makeEmpty(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	held, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	if len(held) > 0 {
		return fmt.Errorf("directory %q is not empty: a salvaged ledger is a new one", dir)
	}
	return os.Chmod(dir, 0o700)
}

// copyRecords writes what verifies under its own versions, so that the newest
// of each key wins wherever it was found.
func copyRecords(r *reading, to *Config) error {
	if err := os.MkdirAll(ledgerDir(to.Dir), 0o700); err != nil {
		return err
	}
	kv, err := badger.OpenManaged(engine(to))
	if err != nil {
		return err
	}
	wb := kv.NewManagedWriteBatch()
	defer wb.Cancel()
	err = r.run(func(e rawEntry) error {
		key := slices.Clone(e.key)
		if e.meta&metaDelete != 0 {
			return wb.DeleteAt(key, e.version)
		}
		entry := badger.NewEntry(key, slices.Clone(e.value))
		entry.ExpiresAt = e.expires
		return wb.SetEntryAt(entry, e.version)
	})
	if err == nil {
		err = wb.Flush()
	}
	return errors.Join(err, kv.Close())
}

// foundation is what a ledger needs beside its records, made from what is left.
type foundation struct {
	*reading
	db   *DB // not opened: its parts that read and write
	txn  *badger.Txn
	last head // the newest there is
	run  head // the first of those that follow each other up to it
	runT uint32
	at   int64 // ledger ms of the newest thing there is

	old     []salvageMark
	writers map[uint64]bool // of what there is
}

// refound makes the records into a ledger: one that begins with a batch of its
// own behind all there was, under a new writer.
func refound(r *reading, to *Config) error {
	kv, err := badger.Open(engine(to))
	if err != nil {
		return err
	}
	f := &foundation{reading: r, writers: map[uint64]bool{}, db: &DB{cfg: *to, log: to.Log, kv: kv}}
	err = kv.View(func(txn *badger.Txn) error {
		f.txn = txn
		return errors.Join(f.readMeta(), f.readHeads(), f.readRefs())
	})
	if err == nil {
		err = f.write()
	}
	return errors.Join(err, kv.Close())
}

// readMeta reads what the ledger said of itself; what is gone is made as for a
// new one, and said.
func (f *foundation) readMeta() error {
	db := f.db
	if err := db.loadFormat(f.txn); err != nil {
		if !errors.Is(err, dedupe.ErrDamaged) {
			return err
		}
		f.fault("format", "gone; expiry buckets are taken to be of "+db.cfg.ClaimBucket.String())
	} else {
		f.writers[db.writer] = true
	}
	kept := &cuts{first: map[[2]byte]uint32{}}
	if val, err := get(f.txn, cutsKey); err == nil {
		if kept, err = decodeCuts(val); err != nil {
			return err
		}
	} else {
		f.fault("cuts", "gone; nothing counts as pruned")
	}
	db.cuts.Store(kept)
	var all []class
	for n := uint8(0); ; n++ {
		key := classMetaKey(n)
		val, err := get(f.txn, key)
		if errors.Is(err, dedupe.ErrNotFound) && n == 0 {
			f.fault("retention class 0", "gone; taken from the config")
			all = append(all, db.newClass(0, db.cfg.Retention, ""))
			continue
		}
		if err != nil {
			break
		}
		c, err := decodeClass(key, val, n)
		if err != nil {
			return err
		}
		all = append(all, c)
	}
	db.classes.Store(&all)
	var err error
	f.old, err = salvageMarks(f.txn)
	return err
}

// readHeads finds the newest head and where the row that leads to it begins.
func (f *foundation) readHeads() error {
	return f.each([]byte{kindHead}, true, func(key, val []byte) error {
		h, err := decodeHead(key, val)
		if err != nil {
			return err
		}
		if h.no != f.last.no+1 || f.last.no == 0 || h.prev != f.last.hash {
			f.run, f.runT = h, binary.BigEndian.Uint32(key[1:])
		}
		f.last, f.at = h, max(f.at, h.at)
		f.writers[h.writer] = true
		return nil
	})
}

// readRefs finds the newest event, and records of retention classes that are
// gone: nobody could find those again.
func (f *foundation) readRefs() error {
	classes := *f.db.classes.Load()
	homeless := map[byte]int{}
	err := f.each([]byte{kindEvent}, false, func(key, _ []byte) error {
		if ref, _, ok := refOf(key); ok && key[bucketSize] == subEvent {
			f.at = max(f.at, int64(ref.Milli()))
			f.writers[ref.Writer()] = true
			if n := key[1]; int(n) >= len(classes) || classes[n].metaT(ref) != bucketNumber(key) {
				homeless[n]++
			}
		}
		return nil
	})
	for n, count := range homeless {
		f.fault(fmt.Sprintf("retention class %d", n), fmt.Sprintf("gone, and with it the place of %d events", count))
	}
	return err
}

func (f *foundation) each(prefix []byte, values bool, do func(key, val []byte) error) error {
	opt := badger.DefaultIteratorOptions
	opt.Prefix, opt.PrefetchValues = prefix, values
	it := f.txn.NewIterator(opt)
	defer it.Close()
	for it.Rewind(); it.Valid(); it.Next() {
		if err := f.ctx.Err(); err != nil {
			return err
		}
		var val []byte
		if values {
			var err error
			if val, err = it.Item().ValueCopy(nil); err != nil {
				return err
			}
		}
		if err := do(it.Item().KeyCopy(nil), val); err != nil {
			return err
		}
	}
	return nil
}

// write writes the new head, the boundaries, the mark of the salvage and the
// high-water file.
func (f *foundation) write() error {
	db := f.db
	mark, _, err := readHighWater(f.dir)
	if err != nil {
		mark = 0 // the survey has said it
	}
	h := head{no: max(f.last.no, mark) + 1, at: max(f.at+1, db.cfg.Now().UnixMilli()), events: f.last.events}
	h.writer = randomID() & (1<<event.WriterBits - 1)
	if h.no == f.last.no+1 {
		h.prev = f.last.hash
	} else {
		f.run = head{no: h.no, at: h.at}
		f.runT = db.headT(h.at)
	}
	key := headKey(db.headT(h.at), h.no)
	val := h.seal(key)
	wb := db.kv.NewWriteBatch()
	defer wb.Cancel()
	if err := f.meta(wb, h); err != nil {
		return err
	}
	if err := errors.Join(f.dropHeads(wb), wb.Set(key, val)); err != nil {
		return err
	}
	if err := wb.Flush(); err != nil {
		return err
	}
	w, err := createHighWater(db.cfg.Dir)
	if err != nil {
		return err
	}
	return errors.Join(w.write(h.no, h.hash), w.close())
}

func (f *foundation) meta(wb *badger.WriteBatch, h head) error {
	db := f.db
	next := db.cuts.Load().clone()
	if f.run.no > max(1, next.heads) {
		next.heads, next.headT, next.headsAt = f.run.no, f.runT, f.run.at
	}
	marks := f.old
	for w := range f.writers {
		marks = append(marks, salvageMark{w, h.at})
	}
	format := newEnc(32)
	format.uint(formatVersion)
	format.uint(h.writer)
	format.int(db.cfg.ClaimBucket.Milliseconds())
	errs := []error{
		wb.Set(cutsKey, next.seal()),
		wb.Set(metaKey("format"), format.seal(metaKey("format"), 0)),
		wb.Set(salvagedKey, sealSalvages(marks)),
		wb.Delete(sourcesKey), // it may be an older one
	}
	for _, c := range *db.classes.Load() {
		errs = append(errs, wb.Set(classMetaKey(c.n), c.seal(classMetaKey(c.n))))
	}
	return errors.Join(errs...)
}

// dropHeads forgets the heads before the last gap: a row of heads has none.
func (f *foundation) dropHeads(wb *badger.WriteBatch) error {
	return f.db.kv.View(func(txn *badger.Txn) error {
		f.txn = txn
		return f.each([]byte{kindHead}, false, func(key, _ []byte) error {
			if binary.BigEndian.Uint64(key[5:]) < f.run.no {
				return wb.Delete(key)
			}
			return nil
		})
	})
}

// salvageMark says that events of a writer up to a ledger time may have been
// lost.
type salvageMark struct {
	writer uint64
	at     int64
}

var salvagedKey = metaKey("salvaged")

func sealSalvages(marks []salvageMark) []byte {
	e := newEnc(32)
	e.uint(uint64(len(marks)))
	for _, m := range marks {
		e.uint(m.writer)
		e.int(m.at)
	}
	return e.seal(salvagedKey, 0)
}

// salvageMarks reads them; a ledger that was never salvaged has none.
func salvageMarks(txn *badger.Txn) ([]salvageMark, error) {
	val, err := get(txn, salvagedKey)
	if errors.Is(err, dedupe.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	payload, err := unseal(salvagedKey, val)
	if err != nil {
		return nil, err
	}
	d := &dec{b: payload}
	var out []salvageMark
	for range d.count() {
		out = append(out, salvageMark{d.uint(), d.int()})
	}
	return out, d.end(salvagedKey)
}

// inDoubt reports whether the absence of an event may be a loss.
func (db *DB) inDoubt(ref event.Ref) bool {
	return slices.ContainsFunc(db.salvages, func(m salvageMark) bool {
		return ref.Writer() == m.writer && int64(ref.Milli()) <= m.at
	})
}
