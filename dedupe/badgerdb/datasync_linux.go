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

// hole is the first place at or after from that has no blocks; the end of the
// file counts as one, and is all there is where the file system can't tell.
func hole(f *os.File, from int64) (int64, error) {
	const seekHole = 4 // lseek(2)
	return f.Seek(from, seekHole)
}
