package forward

import (
	"errors"
	"fmt"
	"math"
	"time"

	"golang.org/x/time/rate"
)

// Rate is how many attempts of a target may begin in Per, evenly spaced, and
// how many at once after a pause. The zero Rate is no bound.
type Rate struct {
	Count int
	Per   time.Duration
	Burst int // 0 = what a second allows, at least 1
}

func (r *Rate) perSecond() float64 { return float64(r.Count) / r.Per.Seconds() }

// fill sets the default burst.
func (r *Rate) fill() {
	if r.Burst == 0 && r.Count > 0 && r.Per > 0 {
		r.Burst = max(1, int(math.Min(r.perSecond(), math.MaxInt32)))
	}
}

func (r *Rate) check() error {
	switch {
	case r.Count < 0 || r.Burst < 0 || r.Per < 0 || (r.Count == 0) != (r.Per == 0):
		return fmt.Errorf("rate: want more than 0 attempts in more than no time, not %d in %v, burst %d", r.Count, r.Per, r.Burst)
	case r.Count == 0 && r.Burst != 0:
		return errors.New("rate: a burst without a rate")
	}
	return nil
}

// limiter counts the attempts that a Rate allows. It is guarded by its gate.
type limiter struct {
	*rate.Limiter
	promised int // to passes that aren't settled
}

// limiter is nil for no bound.
func (r *Rate) limiter() *limiter {
	if r.Count == 0 {
		return nil
	}
	return &limiter{Limiter: rate.NewLimiter(rate.Limit(r.perSecond()), r.Burst)}
}

// promise is how many of n attempts may begin at now, and how long until one
// may when none may.
func (l *limiter) promise(n int, now time.Time) (int, time.Duration) {
	have := l.TokensAt(now) - float64(l.promised)
	if n = min(n, int(math.Floor(have))); n > 0 {
		l.promised += n
		return n, 0
	}
	return 0, time.Duration((1-have)/float64(l.Limit())*float64(time.Second)) + time.Millisecond
}

// settle turns a promise of n into used attempts.
func (l *limiter) settle(n, used int, now time.Time) {
	l.promised -= n
	l.ReserveN(now, used)
}
