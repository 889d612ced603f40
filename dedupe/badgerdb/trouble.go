package badgerdb

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/dgraph-io/badger/v4"
)

// failedPath is a note to the next start that the ledger ended with a write or
// sync that failed: Badger's manifest may name a table that came to nothing.
func failedPath(dir string) string { return filepath.Join(dir, "failed") }

// noteFailure leaves the note, as well as a disk in trouble lets it.
func noteFailure(dir string, err error) {
	_ = os.WriteFile(failedPath(dir), fmt.Appendf(nil, "%v\n", err), 0o600)
}

// kvLogger hands Badger's messages to slog. Its info lines are debug to us.
// When a flush or a compaction fails, Badger only says so, removes the table it
// had named in its manifest and tries again; after a sync that failed nobody
// can tell what is on disk, so to us that is the end of the ledger.
type kvLogger struct {
	log  *slog.Logger
	dir  string     // the data directory
	dead chan error // takes the first failure
}

func newKVLogger(cfg *Config) kvLogger {
	return kvLogger{cfg.Log.With("component", "badger"), cfg.Dir, make(chan error, 1)}
}

func (l kvLogger) Errorf(f string, a ...any) {
	text := line(f, a)
	l.log.Error(text)
	l.judge(text)
}

func (l kvLogger) Warningf(f string, a ...any) {
	text := line(f, a)
	l.log.Warn(text)
	l.judge(text)
}

func (l kvLogger) Infof(f string, a ...any)  { l.log.Debug(line(f, a)) }
func (l kvLogger) Debugf(f string, a ...any) { l.log.Debug(line(f, a)) }

// judge picks out the failures after which the manifest can't be trusted.
func (l kvLogger) judge(text string) {
	flush := strings.HasPrefix(text, "error flushing memtable")
	compaction := strings.Contains(text, "FAILED with error") && strings.Contains(text, badger.ManifestFilename)
	if !flush && !compaction {
		return
	}
	err := errors.New(text)
	noteFailure(l.dir, err)
	select {
	case l.dead <- err:
	default:
	}
}

func line(f string, a []any) string { return strings.TrimSpace(fmt.Sprintf(f, a...)) }

// runTrouble fails the ledger when Badger says that it could not write.
func (db *DB) runTrouble(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case err := <-db.dead:
		db.mu.Lock()
		defer db.mu.Unlock()
		return db.fail(err)
	}
}

// ioTrouble reports whether an error of opening is the disk's, not the data's.
// Badger passes most of them on as text.
func ioTrouble(err error) bool {
	for _, errno := range []syscall.Errno{syscall.EIO, syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS, syscall.EACCES, syscall.EPERM, syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM} {
		if errors.Is(err, errno) || strings.Contains(err.Error(), ": "+errno.Error()) {
			return true
		}
	}
	return false
}
