package gateway

import (
	"log/slog"
	"os"
	"runtime"
	"runtime/debug"
)

// tuneRuntime sets the Go runtime's memory limit and, on small machines, more
// threads than cores: a thread in a page fault or a sync of the ledger keeps
// its slot, and the others would wait for it. So do a dozen goroutines of a
// compaction, each for ten milliseconds; the system, which they are then left to,
// lets a request through sooner. GOMEMLIMIT and GOMAXPROCS, where set, win. It
// returns how to undo it.
func tuneRuntime(limit Size, log *slog.Logger) (restore func()) {
	memory, procs := int64(-1), runtime.GOMAXPROCS(0)
	if os.Getenv("GOMEMLIMIT") == "" {
		memory = debug.SetMemoryLimit(int64(limit))
	}
	if cores := runtime.NumCPU(); cores <= 4 && os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(max(8, 4*cores))
	}
	log.Debug("runtime tuned", "event", "runtime.tuned", "memory_limit", debug.SetMemoryLimit(-1), "gomaxprocs", runtime.GOMAXPROCS(0))
	return func() {
		debug.SetMemoryLimit(memory) // a negative limit changes nothing
		runtime.GOMAXPROCS(procs)
	}
}
