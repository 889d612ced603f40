package badgerdb_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/dedupe/badgerdb"
	"github.com/onceward/onceward/dedupe/ledgertest"
	"github.com/onceward/onceward/event"
)

// running is a ledger with its background work, but for retention.
type running struct {
	*badgerdb.DB
	cfg  badgerdb.Config
	stop func()
}

// Close stops the background work first, as the gateway does.
func (r *running) Close() error {
	r.stop()
	return r.DB.Close()
}

func start(tb ledgertest.TB, cfg badgerdb.Config) *running {
	tb.Helper()
	return startWith(tb, cfg, (*badgerdb.DB).RetainNever)
}

// startWith prepares a ledger before its background work starts.
func startWith(tb ledgertest.TB, cfg badgerdb.Config, prepare func(*badgerdb.DB)) *running {
	tb.Helper()
	db, err := badgerdb.Open(cfg)
	if err != nil {
		tb.Fatalf("open: %v", err)
	}
	prepare(db)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- db.Run(ctx) }()
	r := &running{DB: db, cfg: cfg, stop: sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil && !errors.Is(err, dedupe.ErrFatal) {
			tb.Errorf("run: %v", err)
		}
	})}
	tb.Cleanup(func() {
		if err := r.Close(); err != nil && !errors.Is(err, dedupe.ErrFatal) {
			tb.Errorf("close: %v", err)
		}
	})
	<-db.Rebuilt()
	return r
}

func small(dir string, now func() time.Time) badgerdb.Config {
	return badgerdb.Config{Dir: dir, Now: now, Reserve: 1 << 20, Ballast: -1, MemTable: 8 << 20}
}

func TestConformance(t *testing.T) {
	histories := 25
	if testing.Short() { // the race detector's run
		histories = 5
	}
	ledgertest.Run(t, ledgertest.Harness{
		Open: func(tb ledgertest.TB, o ledgertest.Options) dedupe.Ledger {
			cfg := small(tb.TempDir(), o.Now)
			cfg.Retention = o.Retention
			cfg.MemTable = 16 << 20
			return start(tb, cfg)
		},
		Reopen: func(tb ledgertest.TB, l dedupe.Ledger) dedupe.Ledger {
			r := l.(*running)
			if err := r.Close(); err != nil {
				tb.Fatalf("close: %v", err)
			}
			return start(tb, r.cfg)
		},
		// As after a kill: the files as they lie, without a Close.
		Crash: func(tb ledgertest.TB, l dedupe.Ledger) dedupe.Ledger {
			r := l.(*running)
			cfg := r.cfg
			cfg.Dir = filepath.Join(tb.TempDir(), "copy")
			snapshot(tb, r.cfg.Dir, cfg.Dir)
			return start(tb, cfg)
		},
		Restore: func(tb ledgertest.TB, r io.Reader, o ledgertest.Options) dedupe.Ledger {
			cfg := small(filepath.Join(tb.TempDir(), "restored"), o.Now)
			cfg.Retention = o.Retention
			if _, err := badgerdb.Restore(tb.Context(), cfg, r, true); err != nil {
				tb.Fatalf("restore: %v", err)
			}
			return start(tb, cfg)
		},
		// Without what runs beside it: that reads open deliveries back, of which a
		// damaged event may have some.
		Damage: func(tb ledgertest.TB, l dedupe.Ledger, ref event.Ref) dedupe.Ledger {
			r := l.(*running)
			if err := r.Close(); err != nil {
				tb.Fatalf("close: %v", err)
			}
			touch(tb, r.cfg.Dir, 'e', func(txn *badger.Txn, key, val []byte) error {
				if key[6] != 'e' || !bytes.HasSuffix(key, ref[:]) {
					return nil
				}
				val[len(val)-1] ^= 1
				return txn.Set(key, val)
			})
			db, err := badgerdb.Open(r.cfg)
			if err != nil {
				tb.Fatalf("open: %v", err)
			}
			tb.Cleanup(func() { _ = db.Close() })
			return db
		},
		InjectCommitError: func(l dedupe.Ledger, err error) { l.(*running).FailNext(err) },
		DiskUsage:         func(tb ledgertest.TB, l dedupe.Ledger) int64 { return allocated(tb, l.(*running).cfg.Dir) },
		DiskSlack:         16<<20 + 16<<20,
		Histories:         histories,
	})
}

// snapshot copies a directory in use as it is at one moment: again, if a flush
// or compaction changed its files meanwhile.
func snapshot(tb ledgertest.TB, from, to string) {
	tb.Helper()
	for range 100 {
		before := listing(tb, from)
		err := os.CopyFS(to, os.DirFS(from))
		if err == nil && listing(tb, from) == before {
			return
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			tb.Fatalf("copy: %v", err)
		}
		if err := os.RemoveAll(to); err != nil {
			tb.Fatalf("copy: %v", err)
		}
	}
	tb.Fatalf("the directory never stood still")
}

func listing(tb ledgertest.TB, dir string) string {
	tb.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil {
			if info, err := d.Info(); err == nil {
				fmt.Fprintln(&b, path, info.Size(), info.ModTime().UnixNano())
			}
		}
		return nil // a file that went away changes the next listing
	})
	if err != nil {
		tb.Fatalf("list: %v", err)
	}
	return b.String()
}

// allocated adds up the blocks of a directory's files.
func allocated(tb ledgertest.TB, dir string) (sum int64) {
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			sum += info.Sys().(*syscall.Stat_t).Blocks * 512
		}
		return err
	})
	if err != nil {
		tb.Fatalf("disk usage: %v", err)
	}
	return sum
}
