package dedupe

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

// The pauses between two looks for a ledger that is away, and between two
// batches that it is too slow for.
const (
	minAway = 20 * time.Millisecond
	maxAway = time.Second
)

// whyAway is the class with which claims are released that nobody knew of.
const whyAway = "ledger_away"

// Away is nil while the ledger is in reach, and else what requests are answered
// with.
func (w *Writer) Away() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.away
}

func (w *Writer) absence() float64 {
	if w.Away() != nil {
		return 1
	}
	return 0
}

// fresh reports whether q asks for something new, which its sender can ask for
// again. What else there is has happened and must reach the account.
func (q *waiter) fresh() bool { return q.req != nil || q.claims() }

// bridge goes on after a Commit that lost contact. Requests and claims are
// answered at once: those of the batch, those that wait, and those that come.
// The rest is kept until the ledger is back, and then turns out to be written
// or is written again. When ctx ends before that, everybody is told that the
// ledger is away.
func (w *Writer) bridge(ctx context.Context, f *flight, lost error) error {
	w.metrics.count(opCommit, lost)
	claims, kept := w.part(f, lost)
	since := time.Now()
	w.cfg.Log.Warn("ledger is away: requests are answered 503 until it is back", "event", "ledger.away", "error", lost, "kept", kept)
	for try := 0; ; try++ {
		stopped := !pause(ctx, try)
		written, err := w.rejoin.Rejoin(context.WithoutCancel(ctx))
		switch {
		case err == nil:
			w.cfg.Log.Info("ledger is back", "event", "ledger.back", "away", time.Since(since), "kept", kept, "last_batch_written", written)
			w.back(written, claims)
			return nil
		case errors.Is(err, ErrFatal) || !errors.Is(err, ErrAway):
			return w.fail(&flight{}, err)
		case stopped:
			left := w.everybody()
			w.cfg.Log.Warn("stopping while the ledger is away: what was kept is not written", "event", "ledger.left", "error", err, "lost", len(left))
			answerAll(left, err)
			return nil
		}
		w.mu.Lock()
		w.away = err
		w.mu.Unlock()
	}
}

// part sends requests and claims away with err and keeps the rest of f apart.
// It returns how the claims of f are released, should they have been written,
// and how much is kept.
func (w *Writer) part(f *flight, err error) (releases []*waiter, kept int) {
	var gone []*waiter
	w.mu.Lock()
	w.away = err
	for _, q := range append(f.results, f.keys...) {
		if q.fresh() {
			gone = append(gone, q)
			continue
		}
		w.limbo.push(q)
	}
	waiting := append(w.requests.empty(), w.keys.empty()...)
	for _, q := range waiting {
		if q.fresh() {
			gone = append(gone, q)
			continue
		}
		w.keys.push(q)
	}
	kept = w.limbo.len
	w.mu.Unlock()
	for _, q := range f.keys {
		releases = append(releases, q.releases()...)
	}
	answerAll(f.requests, err)
	answerAll(gone, err)
	return releases, kept
}

// releases are the steps that undo the claims of q, of which its caller never
// hears. Nobody waits for them.
func (q *waiter) releases() (out []*waiter) {
	for _, s := range q.keys {
		if s.Kind != StepClaim || s.Verdict != KeyClaimed {
			continue
		}
		step := &KeyStep{Kind: StepRelease, Key: s.Record.Key, Token: s.Record.Token, Detail: whyAway}
		out = append(out, &waiter{keys: []*KeyStep{step}, items: 1, bytes: stepSize(step), done: make(chan error, 1)})
	}
	return out
}

// back takes up work again: what was kept of the lost batch is confirmed, or
// stands first in line.
func (w *Writer) back(written bool, claims []*waiter) {
	w.mu.Lock()
	w.away = nil
	kept := w.limbo.empty()
	if !written {
		w.putBack(kept)
		w.mu.Unlock()
		return
	}
	for _, q := range claims {
		w.keys.putBack(q)
	}
	w.mu.Unlock()
	for _, q := range kept {
		if q.keys == nil {
			q.done <- nil
			continue
		}
		w.answerKeys([]*waiter{q})
	}
}

// putBack puts waiters first in line again, in their order. w.mu is held.
func (w *Writer) putBack(qs []*waiter) {
	for i := len(qs) - 1; i >= 0; i-- {
		if qs[i].keys != nil {
			w.keys.putBack(qs[i])
		} else {
			w.results.putBack(qs[i])
		}
	}
}

// shed goes on after a batch that the ledger was too slow for, or had no room
// for, and wrote nothing of: requests and claims are told so, the rest is tried
// again.
func (w *Writer) shed(ctx context.Context, f *flight, slow error) error {
	w.metrics.count(opCommit, slow)
	if f.slow == 0 { // and not for every try
		w.cfg.Log.Warn("ledger wrote nothing of a batch: requests are answered 503, the rest is tried again", "event", "ledger.slow", "error", slow, "items", f.items)
	}
	var gone, kept []*waiter
	for _, q := range append(f.results, f.keys...) {
		if q.fresh() {
			gone = append(gone, q)
		} else {
			kept = append(kept, q)
		}
	}
	w.noteFull(errors.Is(slow, ErrDiskLow))
	w.mu.Lock()
	w.putBack(kept)
	w.mu.Unlock()
	answerAll(f.requests, slow)
	answerAll(gone, slow)
	f.slow++
	if !pause(ctx, f.slow) && f.slow >= 3 {
		answerAll(w.everybody(), slow) // at a stop it is not tried for ever
	}
	return nil
}

func (w *Writer) noteFull(full bool) {
	w.mu.Lock()
	w.full = full
	w.mu.Unlock()
}

// Full reports whether the ledger had no room for the last batch, not even for
// results: those wait until there is room, and nobody makes it by waiting.
func (w *Writer) Full() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.full
}

// pause waits before the try with that number, the first not at all, at random
// so that gateways don't come back as one. False when ctx has ended.
func pause(ctx context.Context, try int) bool {
	if try > 0 {
		most := min(minAway<<min(try, 8), maxAway)
		t := time.NewTimer(most/2 + rand.N(most/2))
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
		}
	}
	return ctx.Err() == nil
}
