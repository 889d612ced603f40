package audit

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync"
	"time"
)

// ErrVerifying says that the account is being verified already.
var ErrVerifying = errors.New("the account is being verified already")

const (
	// verifyLines is how many lines are verified between two rests.
	verifyLines = 256
	// verifyRest is how many times as long as it worked a verification in a
	// running gateway rests, as a backup does: live traffic does not wait for it.
	verifyRest = 8
	// verifyRestMost bounds one rest.
	verifyRestMost = time.Second
)

// Verification is the newest verification of the account that was asked for in
// this process. It is forgotten with the process.
type Verification struct {
	Actor     string
	StartedAt time.Time
	EndedAt   time.Time // zero while it goes on
	Acts      uint64    // verified so far
	Total     uint64    // about how many there are
	Report    VerifyReport
	Err       error // why it did not come to its end; the report is of no use then
}

// Running reports whether it goes on.
func (v Verification) Running() bool { return !v.StartedAt.IsZero() && v.EndedAt.IsZero() }

// verifying is the verification that was asked for.
type verifying struct {
	ask chan struct{} // one that Run has not begun

	// mu guards the rest; held only for bookkeeping, never across I/O.
	mu   sync.Mutex
	at   Verification
	stop context.CancelFunc // of the one under way
	left bool               // it was told to stop
}

// errStopped says that somebody ended a verification.
var errStopped = errors.New("it was stopped")

// AskVerify has the account verified, as Verify does, by Run: at a pace that
// live traffic does not notice, and never two at once: ErrVerifying.
func (l *Log) AskVerify(actor string) error {
	if l.cfg.Key == nil {
		return ErrNoKey
	}
	v := &l.verifying
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.at.Running() {
		return ErrVerifying
	}
	v.at, v.stop, v.left = Verification{Actor: actor, StartedAt: l.cfg.Now()}, nil, false
	v.ask <- struct{}{} // it has room: nothing runs, so nothing waits
	return nil
}

// StopVerify ends a verification that goes on.
func (l *Log) StopVerify() {
	v := &l.verifying
	v.mu.Lock()
	defer v.mu.Unlock()
	v.left = v.at.Running()
	if v.stop != nil {
		v.stop()
	}
}

// Verifying is how far the verification is that was asked for last; it is zero
// when none was.
func (l *Log) Verifying() Verification {
	l.verifying.mu.Lock()
	defer l.verifying.mu.Unlock()
	return l.verifying.at
}

// verifyBeside verifies whenever it is asked for, until ctx ends, beside its
// caller, who waits for it by the function it returns.
func (l *Log) verifyBeside(ctx context.Context) (wait func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-l.verifying.ask:
				l.verifyOnce(ctx)
			case <-ctx.Done():
				return
			}
		}
	}()
	return func() { <-done }
}

func (l *Log) verifyOnce(ctx context.Context) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	v := &l.verifying
	v.mu.Lock()
	v.stop = stop
	if v.left {
		stop()
	}
	v.mu.Unlock()
	l.noteTotal(ctx)
	report, err := l.verify(ctx, func(w io.Writer) io.Writer { return &paced{ctx: ctx, w: w, v: v, since: time.Now()} })
	v.mu.Lock()
	defer v.mu.Unlock()
	if err != nil && v.left {
		err = errStopped
	}
	v.at.EndedAt, v.at.Report, v.at.Err, v.stop = l.cfg.Now(), report, err, nil
	switch {
	case err != nil:
		l.cfg.Log.Warn("account was not verified to its end", "event", "audit.verify", "actor", v.at.Actor, "error", err)
	case len(report.Faults) > 0:
		l.cfg.Log.Error("the account is not as it was recorded", "event", "audit.damaged", "actor", v.at.Actor, "faults", len(report.Faults),
			"where", report.Faults[0].Where, "what", report.Faults[0].What)
	default:
		l.cfg.Log.Info("account verified", "event", "audit.verify", "actor", v.at.Actor, "acts", report.Acts)
	}
}

// noteTotal notes about how many acts there are to verify.
func (l *Log) noteTotal(ctx context.Context) {
	logs, err := l.logs(ctx)
	if err != nil {
		return // verification says so
	}
	l.verifying.mu.Lock()
	defer l.verifying.mu.Unlock()
	for _, g := range logs {
		l.verifying.at.Total += g.Next - g.First
	}
}

// paced passes lines on, one a call, counts the acts among them, and rests in
// between.
type paced struct {
	ctx   context.Context
	w     io.Writer
	v     *verifying
	lines int
	acts  uint64
	since time.Time // of the last rest
}

// Write passes a line on.
func (p *paced) Write(line []byte) (int, error) {
	n, err := p.w.Write(line)
	if bytes.Contains(line, []byte(`"leaf":`)) {
		p.acts++
	}
	if p.lines++; err != nil || p.lines%verifyLines != 0 {
		return n, err
	}
	p.v.mu.Lock()
	p.v.at.Acts += p.acts
	p.v.mu.Unlock()
	p.acts = 0
	timer := time.NewTimer(min(verifyRest*time.Since(p.since), verifyRestMost))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-p.ctx.Done():
	}
	p.since = time.Now()
	return n, p.ctx.Err()
}
