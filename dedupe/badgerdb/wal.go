package badgerdb

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/dgraph-io/badger/v4"
)

// wal makes commits durable. Badger's own SyncWrites syncs two files for each
// commit, one after the other: the log of the memtable, where everything is, and
// its value log, where nothing ever is, as all values are below the threshold.
// Each sync is a flush of the disk's cache, so that one of the two is half of
// what a commit waits for.
//
// A transaction stands whole in the log of one memtable: Badger makes room
// before it writes, and then begins the next log, whose number is one more, at
// most once. db.mu is held throughout.
//
// Badger makes a log of full length that has no blocks. A sync that finds new
// ones to be recorded waits for the file system's journal, and with it for what
// compaction has written meanwhile, at times for a tenth of a second and more. So
// zeros are written ahead of the data: to a reader they are what the holes were.
type wal struct {
	dir string
	n   int      // number of the log that is written
	f   *os.File // opened by us; Badger has its own

	size, zeroed int64 // of the log, and how far it has blocks

	flush func(*os.File) error // datasync; tests look at what it is given
}

// aheadStep is how much is written ahead at once, and aheadLeft how much at least.
const (
	aheadStep = 2 << 20
	aheadLeft = 1 << 20
)

// zeros is a page. What is written at once the page cache may keep as one piece,
// and a sync then writes all of a piece of which a byte has changed: megabytes for
// a commit of one kilobyte.
var zeros [4 << 10]byte

const walSuffix = ".mem"

func (w *wal) path(n int) string { return filepath.Join(w.dir, fmt.Sprintf("%05d%s", n, walSuffix)) }

// openWAL finds the log that an open Badger writes.
func openWAL(dir string) (*wal, error) {
	w := &wal{dir: dir, flush: datasync}
	if err := w.find(); err != nil {
		return nil, err
	}
	return w, nil
}

// find goes to the newest log there is: the one that is written.
func (w *wal) find() error {
	names, err := filepath.Glob(filepath.Join(w.dir, "*"+walSuffix))
	if err != nil {
		return err
	}
	newest := 0
	for _, name := range names {
		n, err := strconv.Atoi(strings.TrimSuffix(filepath.Base(name), walSuffix))
		if err == nil {
			newest = max(newest, n)
		}
	}
	return w.to(newest)
}

// to goes to a log and makes its name durable.
func (w *wal) to(n int) error {
	f, err := os.OpenFile(w.path(n), os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("open the log of the memtable: %w", err)
	}
	dir, err := os.Open(w.dir)
	if err == nil {
		err = errors.Join(f.Sync(), dir.Sync(), dir.Close())
	}
	var info fs.FileInfo
	if err == nil {
		info, err = f.Stat()
	}
	if err != nil {
		_ = f.Close()
		return fmt.Errorf("sync a new log of the memtable: %w", err)
	}
	_ = w.close()
	w.n, w.f, w.size, w.zeroed = n, f, info.Size(), 0
	return nil
}

// ahead writes zeros where the data will stand next, once little of what was
// written before is left. All data is synced then, so that it has blocks: what has
// none is beyond it. Without space there is nothing ahead, and syncs are slower.
func (w *wal) ahead() error {
	if w.zeroed >= w.size {
		return nil
	}
	if w.zeroed > 0 {
		var there [512]byte
		if _, err := w.f.ReadAt(there[:], max(0, w.zeroed-aheadLeft)); err != nil {
			return err
		}
		if there == [len(there)]byte{} {
			return nil
		}
	}
	from, err := hole(w.f, w.zeroed)
	if err != nil {
		return err
	}
	to := min(w.size, from+aheadStep)
	if to <= from {
		return nil
	}
	for at := from; at < to; at += int64(len(zeros)) {
		switch _, err := w.f.WriteAt(zeros[:min(int64(len(zeros)), to-at)], at); {
		case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
			return nil
		case err != nil:
			return err
		}
	}
	w.zeroed = to
	return nil
}

// sync returns when everything committed so far is on the disk. After an error
// nobody can say what is.
func (w *wal) sync() error {
	if !syncWrites || !ownSync {
		return nil
	}
	switch _, err := os.Lstat(w.path(w.n + 1)); {
	case err == nil:
		// What stands in the one before was synced when it was committed.
		if err := w.to(w.n + 1); err != nil {
			return err
		}
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("look for the next log of the memtable: %w", err)
	}
	if err := w.flush(w.f); err != nil {
		return fmt.Errorf("sync the log of the memtable: %w", err)
	}
	if err := w.ahead(); err != nil {
		return fmt.Errorf("write ahead in the log of the memtable: %w", err)
	}
	return nil
}

func (w *wal) close() error {
	if w == nil || w.f == nil {
		return nil
	}
	return w.f.Close()
}

// commitTxn commits a transaction durably. mu is held.
func (db *DB) commitTxn(txn *badger.Txn) error {
	if err := txn.Commit(); err != nil {
		return err
	}
	return db.wal.sync()
}
