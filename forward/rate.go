package forward

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/onceward/onceward/dedupe"
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

// limiter is a bucket of the attempts that a Rate allows: it fills evenly and
// holds a burst. Of several gateways each fills its own with its part of the
// rate. It goes by the process's clock, because a ledger's may be set, and is
// guarded by its gate.
type limiter struct {
	rate     Rate
	share    dedupe.Share // an Until of zero is never
	have     float64      // attempts in the bucket at at; below 0 when more began
	at       time.Time
	promised int // to passes that aren't settled
}

// newLimiter is full for a gateway that is alone, and empty for one of several:
// who joins has no burst to begin with.
func newLimiter(r Rate, s dedupe.Share, now time.Time) *limiter {
	l := &limiter{rate: r, share: s, at: now}
	if s.Until.IsZero() {
		l.have = l.burst()
	}
	return l
}

func (l *limiter) perSecond() float64 { return l.rate.perSecond() * l.share.Part }

func (l *limiter) burst() float64 { return max(1, math.Floor(float64(l.rate.Burst)*l.share.Part)) }

// lapsed reports that nothing of the rate is this gateway's now.
func (l *limiter) lapsed(now time.Time) bool {
	return l.share.Part <= 0 || !l.share.Until.IsZero() && !now.Before(l.share.Until)
}

// fill adds what time has allowed, while there was a share.
func (l *limiter) fill(now time.Time) {
	to := now
	if end := l.share.Until; !end.IsZero() && end.Before(to) {
		to = end
	}
	if d := to.Sub(l.at); d > 0 {
		l.have = min(l.have+d.Seconds()*l.perSecond(), l.burst())
	}
	if now.After(l.at) {
		l.at = now
	}
}

// change goes on with another rate or share. What is in the bucket stays, as
// far as it has room.
func (l *limiter) change(r Rate, s dedupe.Share, now time.Time) {
	l.fill(now)
	l.rate, l.share = r, s
	l.have = min(l.have, l.burst())
}

// promise is how many of n attempts may begin at now, and how long until one
// may when none may.
func (l *limiter) promise(n int, now time.Time) (int, time.Duration) {
	if l.lapsed(now) {
		return 0, recheck // or until there is a share
	}
	l.fill(now)
	free := l.have - float64(l.promised)
	if n = min(n, int(math.Floor(free))); n > 0 {
		l.promised += n
		return n, 0
	}
	return 0, time.Duration((1-free)/l.perSecond()*float64(time.Second)) + time.Millisecond
}

// settle turns a promise of n into used attempts.
func (l *limiter) settle(n, used int) {
	l.promised -= n
	l.have -= float64(used)
}
