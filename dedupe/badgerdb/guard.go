//go:build !onceward_unsafe_unguarded

package badgerdb

// guarded makes every start look at the files and at the mark first, every batch
// at the space that is left, and ledger time go by the time that passed.
const guarded = true
