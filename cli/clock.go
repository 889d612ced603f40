//go:build !testclock

package cli

import "time"

// wallClock is the clock of the whole product.
func wallClock() time.Time { return time.Now() }
