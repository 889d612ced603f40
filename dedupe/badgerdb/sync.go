//go:build !onceward_unsafe_nosync

package badgerdb

// syncWrites makes every commit wait for the disk. It is no option: without
// it a power cut takes acknowledged events.
const syncWrites = true
