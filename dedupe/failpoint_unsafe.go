//go:build onceward_failpoints

package dedupe

import (
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
)

// failpoint is a step and how many passes of it are left.
type failpoint struct {
	step string
	left atomic.Int64
}

// chosen is the step at which this process dies, from ONCEWARD_FAILPOINT as
// step:n. Nothing else sets it.
var chosen = sync.OnceValue(func() *failpoint {
	f := &failpoint{}
	step, n, _ := strings.Cut(os.Getenv("ONCEWARD_FAILPOINT"), ":")
	if passes, err := strconv.ParseInt(n, 10, 64); err == nil && passes > 0 {
		f.step = step
		f.left.Store(passes)
	}
	return f
})

// Failpoint ends the process without any warning when it passes the chosen
// step for the n-th time, so that the crash tests can show that every pair of
// durable steps may be torn apart. A build with this tag must never serve
// traffic.
func Failpoint(step string) {
	f := chosen()
	if f.step != step || f.left.Add(-1) != 0 {
		return
	}
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {} // until the kill arrives
}
