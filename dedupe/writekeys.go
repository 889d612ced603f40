package dedupe

import "context"

// Step applies steps of keys and returns when they are durable; each step's
// Verdict and Record are then set. Claims find a bounded queue, as requests
// do; what concludes a claim never waits for room and is written although the
// disk is low, and is kept while the ledger is away. Errors are as for Accept:
// the first step that was refused alone, or of all of them ErrOverloaded
// (nothing was written), ErrClosed, or ErrFatal and ErrAway (the outcome is
// unknown). A claim that was ErrAway and written after all is released when the
// ledger is back: its caller has been told that there is none.
func (w *Writer) Step(ctx context.Context, steps ...*KeyStep) error {
	if len(steps) == 0 {
		return nil
	}
	q := w.pool.Get().(*waiter)
	for _, s := range steps {
		s.Verdict, s.Err = 0, nil
		if err := s.check(); err != nil {
			w.pool.Put(q)
			return w.metrics.count(opStep, err)
		}
	}
	for _, s := range steps {
		q.bytes += stepSize(s)
	}
	q.keys, q.items = steps, len(steps)
	q.deadline, _ = ctx.Deadline()
	return w.metrics.count(opStep, w.wait(ctx, &w.keys, q))
}

// claims reports whether any step wants something new.
func (q *waiter) claims() bool {
	for _, s := range q.keys {
		if s.Kind == StepClaim {
			return true
		}
	}
	return false
}

// stepSize estimates what a step takes in a transaction.
func stepSize(s *KeyStep) int64 {
	n := 1024 + len(s.Data) + len(s.Detail)
	if c := s.Claim; c != nil {
		n += len(c.Source) + len(c.Caller) + len(c.ID) + len(c.Target) + len(c.Downstream)
	}
	if a := s.Answer; a != nil {
		n += len(a.Body)
		for i := range a.Header {
			n += len(a.Header[i].Name) + len(a.Header[i].Value) + 8
		}
	}
	return int64(n)
}

// answerKeys counts the steps of a batch that is durable and wakes their
// callers.
func (w *Writer) answerKeys(qs []*waiter) {
	for _, q := range qs {
		var err error
		for _, s := range q.keys {
			switch {
			case s.Err != nil:
				err = firstError(err, s.Err)
			default:
				w.metrics.step(s)
			}
		}
		q.done <- err
	}
}

func firstError(a, b error) error {
	if a != nil {
		return a
	}
	return b
}
