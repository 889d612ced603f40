//go:build testclock

package cli

import (
	"os"
	"strings"
	"time"
	"unsafe"
)

// wallClock is the machine's clock moved by what the file named by
// ONCEWARD_TESTCLOCK says now, such as "-24h": as if somebody had set it. What
// measures time passed is not moved. A build with this tag must never serve
// traffic.
func wallClock() time.Time {
	text, err := os.ReadFile(os.Getenv("ONCEWARD_TESTCLOCK"))
	if err != nil {
		return time.Now()
	}
	d, err := time.ParseDuration(strings.TrimSpace(string(text)))
	if err != nil {
		return time.Now()
	}
	return moved(time.Now(), d.Truncate(time.Second))
}

// moved sets a time's wall clock and leaves its monotonic reading as it is,
// which no method of time.Time does: bits 30 to 62 of its first word are the
// seconds of the wall clock.
func moved(t time.Time, d time.Duration) time.Time {
	word := (*uint64)(unsafe.Pointer(&t))
	*word += uint64(d/time.Second) << 30
	return t
}
