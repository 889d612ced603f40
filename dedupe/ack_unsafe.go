//go:build onceward_unsafe_early_ack

package dedupe

import (
	"time"

	"github.com/onceward/onceward/event"
)

// earlyAck breaks the promise on purpose: a build with this tag answers before
// the commit, so that the crash tests can show that they notice the loss. It
// must never serve traffic.
const earlyAck = true

// earlyGap is how long the answer is ahead of the commit.
const earlyGap = 50 * time.Millisecond

// ackEarly wakes the callers of f's requests as if all their items were new.
// The batch keeps copies, so that the commit fills in outcomes no caller reads.
func ackEarly(w *Writer, f *flight) {
	for i, q := range f.requests {
		req := q.req
		kept := *req
		f.batch.Requests[i] = &kept
		ref := event.NewRef(uint64(w.cfg.Now().UnixMilli()), uint32(i), 0)
		req.Outcomes = make([]Outcome, len(req.Items))
		for j := range req.Items {
			req.Outcomes[j] = Outcome{Verdict: New, Ref: ref, ID: req.Items[j].Event.ID, Answer: req.Answer}
		}
		q.done <- nil
	}
	f.requests = f.requests[:0]
	// As on a slow disk: otherwise it takes many kills to hit the moment
	// between answer and commit.
	time.Sleep(earlyGap)
}
