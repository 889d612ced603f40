//go:build !linux

package badgerdb

import "os"

// ownSync is off where it isn't certain that a file's map and its descriptor are
// the same to a sync: Badger syncs its maps by itself.
const ownSync = false

func datasync(f *os.File) error { return f.Sync() }
