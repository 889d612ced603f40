//go:build onceward_unsafe_unguarded

package badgerdb

// guarded is off in this build only so that the tests of damaged files,
// full disks and clocks set wrong can show that they notice.
const guarded = false
