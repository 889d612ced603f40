package gateway

import (
	"log/slog"
	"testing"
)

// What the ledger fills follows the memory limit: below the default it has
// smaller memtables and fewer waiting bodies, above it more memtables, and never
// less than it works with.
func TestLedgerShares(t *testing.T) {
	t.Parallel()
	for limit, want := range map[Size]ledgerShare{
		minMemory: {8 << 20, 1, 1 << 20, 8 << 20}, 256 << 20: {16 << 20, 1, 4 << 20, 16 << 20}, 384 << 20: {24 << 20, 1, 4 << 20, 24 << 20},
		DefaultMemory: {32 << 20, 1, 4 << 20, 32 << 20}, 1 << 30: {32 << 20, 3, 4 << 20, 32 << 20}, 8 << 30: {32 << 20, 3, 4 << 20, 32 << 20},
	} {
		cfg := defaults()
		cfg.Store.MemoryLimit = limit
		got := embedded(cfg, slog.New(slog.DiscardHandler), nil)
		if (ledgerShare{got.MemTable, got.Memtables, got.TableSize, got.HotBytes}) != want {
			t.Errorf("%v: memtables of %d, %d of them, tables of %d, and %d bytes of bodies, want %+v", limit, got.MemTable, got.Memtables, got.TableSize, got.HotBytes, want)
		}
	}
}
