package badgerdb

import (
	"errors"
	"os"
	"syscall"
)

// ownSync says that datasync is enough to make commits durable.
const ownSync = true

// datasync writes what changed of a file to the disk, by whatever way it was
// changed: pages of its map are those of the file.
func datasync(f *os.File) error {
	for {
		if err := syscall.Fdatasync(int(f.Fd())); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}
