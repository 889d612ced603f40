package dedupe

import "fmt"

// admissible refuses what no engine could write, before it can harm a batch.
func (w *Writer) admissible(req *Request) error {
	if len(req.Items) > w.cfg.MaxItems {
		return fmt.Errorf("%w: %d events, at most %d", ErrTooLarge, len(req.Items), w.cfg.MaxItems)
	}
	if meta := metaSize(req); meta > w.cfg.MaxBytes {
		return fmt.Errorf("%w: %d bytes beside the body, at most %d", ErrTooLarge, meta, w.cfg.MaxBytes)
	}
	for i := range req.Items {
		it := &req.Items[i]
		if it.HasClaim && it.Claim == (Key{}) || it.Guard != GuardOff && it.GuardKey == (Key{}) {
			return ErrNoClaimKey
		}
		s := it.Event.Body
		if s.Offset < 0 || s.Length < 0 || s.Offset > int64(len(req.Body)) || s.Length > int64(len(req.Body))-s.Offset {
			return fmt.Errorf("item %d: slice %d+%d is outside the body of %d bytes", i, s.Offset, s.Length, len(req.Body))
		}
	}
	return nil
}

// metaSize estimates what a request takes in a transaction beside its body.
func metaSize(req *Request) int64 {
	const perItem = 512 // hashes, refs, times, claims and key overhead
	var n int
	for i := range req.Items {
		ev := &req.Items[i].Event
		n += perItem + len(ev.Source) + len(ev.Provider) + len(ev.ID) + len(ev.Type) + len(ev.Caller) + len(ev.Secret) +
			len(ev.Key) + len(req.Items[i].RawID) + len(ev.Method) + len(ev.Path) + len(ev.Query) + len(ev.Trace) + len(req.Answer.Body)
		for _, h := range ev.Header {
			n += len(h.Name) + len(h.Value) + 8
		}
		for _, t := range ev.Targets {
			n += len(t) + 8
		}
	}
	return int64(n)
}

// resultSize estimates what a result takes in a transaction.
func resultSize(r *Result) int64 {
	return int64(256 + len(r.Attempt.Response) + len(r.Attempt.Error) + len(r.Lease.Delivery.Target))
}

// size estimates what an act takes in a transaction.
func (a *Act) size() int64 {
	const fixed = 128
	return int64(fixed + len(a.Source) + len(a.Target) + len(a.ID) + len(a.Type) + len(a.Outcome) + len(a.Actor) + len(a.Reason) + len(a.Detail))
}
