package gateway

import (
	"log/slog"
	"runtime/debug"
	"testing"
)

// What the environment says of the collector wins, and all is as before
// afterwards: a test or a demo that runs a gateway goes on as it was.
func TestTuneRuntime(t *testing.T) {
	percent := func() int {
		p := debug.SetGCPercent(100)
		debug.SetGCPercent(p)
		return p
	}
	wasPercent, wasLimit := percent(), debug.SetMemoryLimit(-1)
	for _, c := range []struct {
		gogc, gomemlimit string
		percent          int
		limit            int64
	}{
		{"", "", garbage, 300 << 20},
		{"50", "", wasPercent, 300 << 20},
		{"", "1GiB", garbage, wasLimit},
	} {
		t.Setenv("GOGC", c.gogc) // the runtime itself read them at its start
		t.Setenv("GOMEMLIMIT", c.gomemlimit)
		restore := tuneRuntime(300<<20, slog.New(slog.DiscardHandler))
		if p, l := percent(), debug.SetMemoryLimit(-1); p != c.percent || l != c.limit {
			t.Errorf("GOGC=%q GOMEMLIMIT=%q: %d %%, %d bytes; want %d %%, %d", c.gogc, c.gomemlimit, p, l, c.percent, c.limit)
		}
		restore()
		if p, l := percent(), debug.SetMemoryLimit(-1); p != wasPercent || l != wasLimit {
			t.Errorf("afterwards %d %%, %d bytes; was %d %%, %d", p, l, wasPercent, wasLimit)
		}
	}
}
