package gateway

import (
	"log/slog"
	"os"
	"runtime"
	"runtime/debug"
)

// garbage is GOGC: under load the collector runs when that much, in percent of
// what is in use, has been let go. A gateway holds little and lets go of much:
// with Go's own 100 the collector, and the giving back and taking again of
// pages, are up to a tenth of all processor time. The memory limit bounds it.
const garbage = 200

// tuneRuntime sets the Go runtime's memory limit, how much garbage may lie about
// below it and, on small machines, more threads than cores: a thread in a page
// fault or a sync of the ledger keeps its slot, and the others would wait for it.
// So do a dozen goroutines of a compaction, each for ten milliseconds; the system,
// which they are then left to, lets a request through sooner. GOMEMLIMIT, GOGC and
// GOMAXPROCS, where set, win. It returns how to undo it.
func tuneRuntime(limit Size, log *slog.Logger) (restore func()) {
	memory, percent, procs := debug.SetMemoryLimit(-1), debug.SetGCPercent(garbage), runtime.GOMAXPROCS(0)
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(int64(limit))
	}
	if os.Getenv("GOGC") != "" {
		debug.SetGCPercent(percent)
	}
	if cores := runtime.NumCPU(); cores <= 4 && os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(max(8, 4*cores))
	}
	log.Debug("runtime tuned", "event", "runtime.tuned", "memory_limit", debug.SetMemoryLimit(-1), "gomaxprocs", runtime.GOMAXPROCS(0))
	return func() {
		debug.SetMemoryLimit(memory)
		debug.SetGCPercent(percent)
		runtime.GOMAXPROCS(procs)
	}
}
