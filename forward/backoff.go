package forward

import (
	"math"
	"net/http"
	"strings"
	"time"
)

// MaxRetryAfter caps how long a target may put off its next attempt.
const MaxRetryAfter = 24 * time.Hour

// Next is the delay before the next attempt after the attempt-th has failed,
// counted from 1: the part r, from 0 to 1, of the exponential bound. It is
// pure, and of a normalised schedule.
func (s Schedule) Next(attempt uint32, r float64) time.Duration {
	bound := float64(s.Initial) * math.Pow(s.Factor, float64(max(attempt, 1)-1))
	if !(bound < float64(s.Max)) {
		bound = float64(s.Max)
	}
	return time.Duration(r * bound)
}

// retryAfter reads a Retry-After value, seconds or an HTTP date, at wall clock
// now. Garbage, a negative number and a past date are 0; more than
// MaxRetryAfter is MaxRetryAfter.
func retryAfter(value string, now time.Time) time.Duration {
	value = strings.TrimSpace(value)
	if value == "" {
		return 0
	}
	if secs, ok := digits(value); ok {
		return time.Duration(min(secs, int64(MaxRetryAfter/time.Second))) * time.Second
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	return min(max(at.Sub(now), 0), MaxRetryAfter)
}

// digits reads a number of ASCII digits, saturating.
func digits(s string) (n int64, ok bool) {
	for i := 0; i < len(s); i++ {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
		if n < math.MaxInt64/20 {
			n = n*10 + int64(s[i]-'0')
		}
	}
	return n, true
}

// delay is how long a delivery of age, ledger time since it was opened, waits
// after a failed attempt: the schedule's or the target's wish, whichever is
// longer, but not past give-up, where the last attempt is made. At give-up it
// is false: the delivery is dead.
func (t *Target) delay(attempt uint32, r float64, asked, age time.Duration) (time.Duration, bool) {
	if age >= t.GiveUp {
		return 0, false
	}
	return min(max(t.Schedule.Next(attempt, r), asked), t.GiveUp-age), true
}
