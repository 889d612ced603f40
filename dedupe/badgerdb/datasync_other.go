//go:build !linux

package badgerdb

import (
	"io"
	"os"
)

// ownSync is off where it isn't certain that a file's map and its descriptor are
// the same to a sync: Badger syncs its maps by itself.
const ownSync = false

func datasync(f *os.File) error { return f.Sync() }

// hole is the end of the file: none is known.
func hole(f *os.File, _ int64) (int64, error) { return f.Seek(0, io.SeekEnd) }
