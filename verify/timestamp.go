package verify

import (
	"math"
	"net/http"
	"time"
)

// maxTimestampDigits is the longest text that is still read as a number.
const maxTimestampDigits = 20

// maxTimestampText is the longest text of any other timestamp.
const maxTimestampText = 64

// lastSecond is the end of the year 9999; what is later is only "the future".
const lastSecond = 253402300799

// parseTimestamp reads a timestamp in its unit.
func parseTimestamp(s string, unit Unit) (time.Time, bool) {
	switch unit {
	case RFC3339, HTTPDate:
		if len(s) > maxTimestampText {
			return time.Time{}, false
		}
		var t time.Time
		var err error
		if unit == HTTPDate {
			t, err = http.ParseTime(s)
		} else {
			t, err = time.Parse(time.RFC3339Nano, s)
		}
		return t, err == nil
	case SecondsOrMillis:
		if unit = Seconds; len(s) > 11 {
			unit = Milliseconds
		}
	}
	return parseNumber(s, unit)
}

// parseNumber reads digits and nothing else: no sign, no space, no fraction.
// Numbers beyond the calendar are taken as its end.
func parseNumber(s string, unit Unit) (time.Time, bool) {
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
