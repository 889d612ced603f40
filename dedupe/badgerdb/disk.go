package badgerdb

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/onceward/onceward/dedupe"
)

// diskGuard keeps the ledger from the end of the disk. Badger writes through
// memory maps: on a full disk the process is killed by a signal it can't
// catch, and can't open again either. So intake stops at the reserve, results
// wait below half of it, and a ballast file can be given back.
type diskGuard struct {
	dir     string
	reserve int64
	ballast int64
	maxSize int64

	freeNow atomic.Int64
	sizeNow atomic.Int64
}

const maxBallast = 256 << 20

func newDiskGuard(cfg *Config) (*diskGuard, error) {
	g := &diskGuard{dir: cfg.Dir, reserve: cfg.Reserve, ballast: cfg.Ballast, maxSize: cfg.MaxSize}
	free, total, err := diskSpace(cfg.Dir)
	if err != nil {
		return nil, err
	}
	if g.reserve == 0 {
		g.reserve = max(1<<30, total/20, 4*int64(cfg.Memtables+1)*cfg.MemTable)
	}
	if g.ballast == 0 {
		g.ballast = min(maxBallast, total/100)
	}
	g.freeNow.Store(free)
	return g, nil
}

func diskSpace(dir string) (free, total int64, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, 0, fmt.Errorf("free space of %q: %w", dir, err)
	}
	return int64(st.Bavail) * int64(st.Bsize), int64(st.Blocks) * int64(st.Bsize), nil // types differ by system
}

func (g *diskGuard) path() string { return filepath.Join(g.dir, "ballast") }

// prepare is called before the store opens: it gives the ballast back when
// space is short, and refuses to open where opening would kill the process.
func (g *diskGuard) prepare(memTable int64) error {
	need := 2 * memTable // a new write-ahead file and a flush
	free, _, err := diskSpace(g.dir)
	if err != nil {
		return err
	}
	if free < need {
		if err := os.Remove(g.path()); err == nil {
			free, _, err = diskSpace(g.dir)
			if err != nil {
				return err
			}
		}
	}
	g.freeNow.Store(free)
	if free < need/2 {
		return fmt.Errorf("%w: %d bytes free in %q, opening needs %d", dedupe.ErrDiskLow, free, g.dir, need/2)
	}
	return nil
}

// refill makes the ballast again when there is room for it above the reserve.
func (g *diskGuard) refill() error {
	if g.ballast <= 0 || g.free() < g.reserve+2*g.ballast {
		return nil
	}
	if st, err := os.Stat(g.path()); err == nil && st.Size() == g.ballast {
		return nil
	}
	f, err := os.OpenFile(g.path(), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(allocate(f, g.ballast), f.Close())
}

// look measures. It is cheap enough for every batch.
func (g *diskGuard) look() int64 {
	free, _, err := diskSpace(g.dir)
	if err != nil {
		return g.freeNow.Load()
	}
	g.freeNow.Store(free)
	return free
}

func (g *diskGuard) free() int64 { return g.freeNow.Load() }
func (g *diskGuard) size() int64 { return g.sizeNow.Load() }

// low reports whether intake is refused.
func (g *diskGuard) low() bool {
	return guarded && g.free() < g.reserve || g.maxSize > 0 && g.size() >= g.maxSize
}

// admit is nil when a batch may take in requests.
func (g *diskGuard) admit() error {
	g.look()
	if g.low() {
		return dedupe.ErrDiskLow
	}
	return nil
}

// roomy reports whether any write is safe, so that a batch that only records
// results doesn't touch the last of the disk. The ballast goes first.
func (g *diskGuard) roomy() bool {
	for {
		if g.look() >= g.reserve/2 || !guarded {
			return true
		}
		if os.Remove(g.path()) != nil {
			return false
		}
	}
}

// room waits until any write is safe or ctx ends.
func (g *diskGuard) room(ctx context.Context) error {
	for !g.roomy() {
		if err := sleep(ctx, time.Second); err != nil {
			return err
		}
	}
	return nil
}

// sleep waits for d or the end of ctx.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// measure adds up the allocated blocks of the ledger's files. They are
// sparse: their length says nothing.
func (g *diskGuard) measure() int64 {
	var sum int64
	// Files come and go under the walk; one that is gone counts as nothing.
	_ = filepath.WalkDir(filepath.Join(g.dir, "ledger"), func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil
		}
		if info, err := d.Info(); err == nil {
			sum += allocated(info)
		}
		return nil
	})
	g.sizeNow.Store(sum)
	return sum
}

func allocated(info fs.FileInfo) int64 {
	if st, ok := info.Sys().(*unixStat); ok {
		return st.Blocks * 512
	}
	return info.Size()
}
