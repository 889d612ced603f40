package gateway

import (
	"log/slog"
	"testing"
)

// What the ledger fills follows the memory limit: below the default it has
// fewer memtables and fewer waiting bodies, and never less than it works with.
func TestLedgerShares(t *testing.T) {
	t.Parallel()
	for limit, want := range map[Size]struct {
		memtables int
		hot       int64
	}{
		minMemory: {1, 8 << 20}, 256 << 20: {1, 16 << 20}, 384 << 20: {2, 24 << 20},
		DefaultMemory: {3, 32 << 20}, 8 << 30: {3, 32 << 20},
	} {
		cfg := defaults()
		cfg.Store.MemoryLimit = limit
		got := embedded(cfg, slog.New(slog.DiscardHandler), nil)
		if got.Memtables != want.memtables || got.HotBytes != want.hot {
			t.Errorf("%v: %d memtables and %d bytes of bodies, want %+v", limit, got.Memtables, got.HotBytes, want)
		}
	}
}
