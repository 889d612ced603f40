package cli

import (
	"os"

	"golang.org/x/sys/unix"
)

// writeOut brings a stretch of a file to the disk without making it durable: no
// flush of the disk's cache, and no commit of the file system's journal, for which
// others would wait. Where the system can't, it is synced.
func writeOut(f *os.File, from, n int64) error {
	const now = unix.SYNC_FILE_RANGE_WAIT_BEFORE | unix.SYNC_FILE_RANGE_WRITE | unix.SYNC_FILE_RANGE_WAIT_AFTER
	if unix.SyncFileRange(int(f.Fd()), from, n, now) == nil {
		return nil
	}
	return f.Sync()
}
