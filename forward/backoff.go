package forward

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"
)

// MaxRetryAfter caps how long a target may put off its next attempt.
const MaxRetryAfter = 24 * time.Hour

// Schedule spaces the attempts of a delivery: by a curve, where the n-th retry
// waits a part of min(Max, Initial·Factor^(n-1)), or by a list. It is pure.
type Schedule struct {
	Initial time.Duration // 0 = DefaultInitial
	Factor  float64       // 0 = DefaultFactor; at least 1
	Max     time.Duration // 0 = DefaultMaxDelay; at least Initial
	// List, when not empty, is in place of the curve: the n-th retry waits its
	// n-th element, and those beyond its end the last one.
	List []time.Duration
	// Steady is the part of each pause that is not random: 0 is full jitter,
	// 1 is none.
	Steady float64
}

// fill sets the defaults of the curve.
func (s *Schedule) fill() {
	if len(s.List) > 0 {
		return
	}
	setDefault(&s.Initial, DefaultInitial)
	setDefault(&s.Factor, DefaultFactor)
	setDefault(&s.Max, max(DefaultMaxDelay, s.Initial))
}

func (s *Schedule) check() error {
	switch {
	case !(s.Steady >= 0 && s.Steady <= 1):
		return fmt.Errorf("schedule: steady %v: want 0 to 1", s.Steady)
	case len(s.List) > MaxSteps:
		return fmt.Errorf("schedule: %d pauses: want at most %d", len(s.List), MaxSteps)
	case len(s.List) > 0 && (s.Initial != 0 || s.Factor != 0 || s.Max != 0):
		return errors.New("schedule: is both a curve and a list")
	case len(s.List) > 0 && slices.Min(s.List) <= 0:
		return errors.New("schedule: want pauses of more than 0")
	case len(s.List) == 0 && (s.Initial < 0 || s.Max < s.Initial || !(s.Factor >= 1)):
		return fmt.Errorf("schedule: want initial %v more than 0, max %v not less and factor %v at least 1", s.Initial, s.Max, s.Factor)
	}
	return nil
}

// Next is the delay before the next attempt after the attempt-th has failed,
// counted from 1: of the schedule's pause the steady part, and the part r, from
// 0 to 1, of the rest.
func (s Schedule) Next(attempt uint32, r float64) time.Duration {
	pause := s.pause(max(attempt, 1))
	return time.Duration(float64(pause*s.Steady) + float64(pause*(1-s.Steady)*r)) // the same on every machine: not fused
}

// pause is the longest delay after the attempt-th attempt.
func (s Schedule) pause(attempt uint32) float64 {
	if n := uint32(len(s.List)); n > 0 {
		return float64(s.List[min(attempt, n)-1])
	}
	pause := float64(s.Initial) * math.Pow(s.Factor, float64(attempt-1))
	if !(pause < float64(s.Max)) {
		return float64(s.Max)
	}
	return pause
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
