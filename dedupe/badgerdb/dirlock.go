package badgerdb

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/onceward/onceward/dedupe"
)

// lockDir takes the ledger for this process, in Badger's own way, until unlock
// is called: ErrLocked when another process has it. A ledger that isn't there
// needs no lock.
func lockDir(dataDir string) (unlock func() error, err error) {
	dir := ledgerDir(dataDir)
	f, err := os.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return func() error { return nil }, nil
	}
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		if cerr := f.Close(); !errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("lock ledger %q: %w", dataDir, errors.Join(err, cerr))
		}
		return nil, locked(dataDir)
	}
	pid := filepath.Join(dir, lockFile)
	if err := os.WriteFile(pid, fmt.Appendf(nil, "%d\n", os.Getpid()), 0o600); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() error { return errors.Join(os.Remove(pid), f.Close()) }, nil
}

// lockFile is where who has the ledger writes its process ID.
const lockFile = "LOCK"

func locked(dataDir string) error {
	return fmt.Errorf("%w: %q is held by %s; stop it, or choose another store.path", dedupe.ErrLocked, dataDir, holder(ledgerDir(dataDir)))
}
