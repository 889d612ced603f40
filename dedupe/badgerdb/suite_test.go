package badgerdb_test

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/dedupe/badgerdb"
	"github.com/onceward/onceward/dedupe/ledgertest"
)

// running is a ledger with its background work.
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
	db, err := badgerdb.Open(cfg)
	if err != nil {
		tb.Fatalf("open: %v", err)
	}
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
	ledgertest.Run(t, ledgertest.Harness{
		Open: func(tb ledgertest.TB, o ledgertest.Options) dedupe.Ledger {
			cfg := small(tb.TempDir(), o.Now)
			cfg.Retention = o.Retention
			return start(tb, cfg)
		},
		Reopen: func(tb ledgertest.TB, l dedupe.Ledger) dedupe.Ledger {
			r := l.(*running)
			if err := r.Close(); err != nil {
				tb.Fatalf("close: %v", err)
			}
			return start(tb, r.cfg)
		},
		DiskUsage: func(tb ledgertest.TB, l dedupe.Ledger) int64 { return allocated(tb, l.(*running).cfg.Dir) },
		DiskSlack: 16<<20 + 8<<20,
		Histories: 8,
	})
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
