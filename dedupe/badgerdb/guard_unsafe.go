//go:build onceward_unsafe_unguarded

package badgerdb

// guarded is off in this build only so that the corruption test can show that
// it notices.
const guarded = false
