//go:build !onceward_unsafe_unguarded

package badgerdb

// guarded makes every start look at the files and at the mark first.
const guarded = true
