//go:build onceward_unsafe_nosync

package badgerdb

// syncWrites is off in this build only so that the power-cut test can show
// that it notices.
const syncWrites = false
