package badgerdb

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// allocate gives an empty file n bytes of disk. A file system that can't allocate
// leaves it empty: it gives no ballast.
func allocate(f *os.File, n int64) error {
	err := unix.Fallocate(int(f.Fd()), 0, 0, n)
	if errors.Is(err, unix.EOPNOTSUPP) {
		return nil
	}
	return err
}
