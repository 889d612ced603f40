package verify

import (
	"math"
	"time"
)

// maxTimestampDigits is the longest text that is still read as a number.
const maxTimestampDigits = 20

// lastSecond is the end of the year 9999; what is later is only "the future".
const lastSecond = 253402300799

// parseTimestamp reads digits and nothing else: no sign, no space, no fraction.
// Numbers beyond the calendar are taken as its end.
func parseTimestamp(s string, unit Unit) (time.Time, bool) {
	if s == "" || len(s) > maxTimestampDigits {
		return time.Time{}, false
	}
	var n uint64
	for i := range len(s) {
		c := s[i]
		if c < '0' || c > '9' {
			return time.Time{}, false
		}
		d := uint64(c - '0')
		if n > (math.MaxUint64-d)/10 {
			return time.Unix(lastSecond, 0), true
		}
		n = n*10 + d
	}
	if unit == Milliseconds {
		if n/1000 > lastSecond {
			return time.Unix(lastSecond, 0), true
		}
		return time.UnixMilli(int64(n)), true
	}
	return time.Unix(int64(min(n, lastSecond)), 0), true
}

// checkAge compares a timestamp with now in both directions. Tolerance 0 passes
// everything. Exactly the tolerance still passes.
func checkAge(skew, tolerance time.Duration) Reason {
	switch {
	case tolerance == 0:
		return OK
	case skew > tolerance:
		return ReasonTimestampOld
	case skew < -tolerance:
		return ReasonTimestampFuture
	default:
		return OK
	}
}
