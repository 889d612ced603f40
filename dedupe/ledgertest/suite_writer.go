package ledgertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

// writerTests hold the engine behind group commit.
func writerTests() []test {
	return []test{
		{"many clients on the same IDs: exactly one is new", writerRace},
		{"many clients with two bodies on the same IDs", writerConflicts},
		{"results beside requests", writerResults},
		{"expiry while events arrive loses none", writerExpire},
		{"a failed commit gives no outcome and burns no ID", writerFatal},
	}
}

// writer starts a group-commit writer. stop ends it and returns what its Run
// returned.
func (f *fix) writer() (w *dedupe.Writer, stop func() error) {
	f.Helper()
	w, err := dedupe.NewWriter(dedupe.WriterConfig{Ledger: f.l})
	f.must(err)
	ctx, cancel := context.WithCancel(f.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	var once sync.Once
	var ended error
	stop = func() error {
		once.Do(func() {
			cancel()
			ended = <-done
		})
		return ended
	}
	f.Cleanup(func() { _ = stop() })
	return w, stop
}

func writerRace(f *fix) {
	const clients, events = 32, 40
	w, stop := f.writer()
	outcomes := make([][]dedupe.Outcome, clients)
	errs := make([]error, clients)
	var wg sync.WaitGroup
	for c := range clients {
		wg.Go(func() {
			for i := range events {
				req := one(f.item(fmt.Sprint("evt_", (i+c)%events), "{}", billing, crm), "{}")
				if err := w.Accept(f.Context(), req); err != nil {
					errs[c] = err
					return
				}
				outcomes[c] = append(outcomes[c], req.Outcomes[0])
			}
		})
	}
	wg.Wait()
	f.must(errors.Join(errs...))
	news, byID := 0, map[string]event.Ref{}
	for _, os := range outcomes {
		for _, o := range os {
			if o.Verdict == dedupe.New {
				news++
			} else {
				equal(f, "verdict", o.Verdict, dedupe.Repeat)
			}
			if ref, ok := byID[o.ID]; ok {
				equal(f, "ref of "+o.ID, o.Ref, ref)
			}
			byID[o.ID] = o.Ref
		}
	}
	equal(f, "new events", news, events)
	equal(f, "IDs", len(byID), events)
	f.must(stop())
	equal(f, "events", f.stats().Events, events)
	equal(f, "deliveries", len(f.lease(billing, long))+len(f.lease(crm, long)), 2*events)
	for _, ref := range byID {
		equal(f, "repeats", f.get(ref).Tally.Repeats, clients-1)
	}
	f.reopen()
	equal(f, "deliveries after reopen", len(f.lease(billing, long)), events)
}

func writerConflicts(f *fix) {
	const clients, events = 16, 30
	w, stop := f.writer()
	var mu sync.Mutex
	type seen struct{ news, repeats, differs int }
	counts := map[string]*seen{}
	refs := map[string]map[event.Ref]bool{}
	var wg sync.WaitGroup
	errs := make([]error, clients)
	for c := range clients {
		wg.Go(func() {
			body := fmt.Sprint("body ", c%2)
			for i := range events {
				id := fmt.Sprint("evt_", i)
				req := one(f.item(id, body, billing), body)
				if err := w.Accept(f.Context(), req); err != nil {
					errs[c] = err
					return
				}
				mu.Lock()
				if counts[id] == nil {
					counts[id], refs[id] = &seen{}, map[event.Ref]bool{}
				}
				switch o := req.Outcomes[0]; o.Verdict {
				case dedupe.New:
					counts[id].news++
				case dedupe.Repeat:
					counts[id].repeats++
				case dedupe.Differs:
					counts[id].differs++
				}
				refs[id][req.Outcomes[0].Ref] = true
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	f.must(errors.Join(errs...))
	for id, n := range counts {
		equal(f, id, *n, seen{1, clients/2 - 1, clients / 2})
		equal(f, "refs of "+id, len(refs[id]), 1)
	}
	f.must(stop())
	equal(f, "events", f.stats().Events, events)
}

func writerResults(f *fix) {
	const events = 200
	w, stop := f.writer()
	var wg sync.WaitGroup
	var landed, late int
	errs := make([]error, 3)
	wg.Go(func() {
		for i := range events {
			if err := w.Accept(f.Context(), one(f.item(fmt.Sprint("evt_", i), "{}", billing), "{}")); err != nil {
				errs[0] = err
				return
			}
		}
	})
	wg.Go(func() {
		for landed < events {
			ls, _, err := f.l.Lease(f.Context(), billing, 8, ttl)
			if err != nil {
				errs[1] = err
				return
			}
			if len(ls) == 0 {
				select {
				case <-f.l.Wake(billing):
				case <-f.Context().Done():
					return
				}
				continue
			}
			var rs []*dedupe.Result
			for _, l := range ls {
				rs = append(rs, f.result(l, event.Delivered, 0))
			}
			if err := w.Finish(f.Context(), rs...); err != nil {
				errs[1] = err
				return
			}
			for _, r := range rs {
				landed++
				if r.Late {
					late++
				}
			}
		}
	})
	wg.Wait()
	f.must(errors.Join(errs...))
	f.must(stop())
	equal(f, "late results", late, 0)
	equal(f, "delivered", len(f.events(dedupe.Filter{Status: event.StatusDelivered}, 100)), events)
	f.reopen()
	equal(f, "leases after reopen", len(f.lease(billing, long)), 0)
	equal(f, "delivered after reopen", len(f.events(dedupe.Filter{Status: event.StatusDelivered}, 100)), events)
}

func writerExpire(f *fix) {
	const rounds, perRound = 12, 40
	w, stop := f.writer()
	var mu sync.Mutex
	accepted := map[event.Ref]string{}
	for round := range rounds {
		var wg sync.WaitGroup
		errs := make([]error, 5)
		for c := range 4 {
			wg.Go(func() {
				for i := range perRound / 4 {
					id := fmt.Sprintf("evt_%d_%d_%d", round, c, i)
					body := pattern(5000, i)
					req := one(f.item(id, body), body)
					if err := w.Accept(f.Context(), req); err != nil {
						errs[c] = err
						return
					}
					mu.Lock()
					accepted[req.Outcomes[0].Ref] = body
					mu.Unlock()
				}
			})
		}
		wg.Go(func() {
			for range 3 {
				if _, err := f.l.Expire(f.Context()); err != nil {
					errs[4] = err
				}
			}
		})
		wg.Wait()
		f.must(errors.Join(errs...))
		f.clock.Advance(6 * time.Hour)
	}
	f.must(stop())
	now := f.l.Now()
	for ref, body := range accepted {
		f.get(ref)
		if now.Sub(ref.Time()) < retention.Body && string(f.body(ref)) != body {
			f.Errorf("event %s has another body", ref)
		}
	}
	equal(f, "events", f.stats().Events, rounds*perRound)
}

func writerFatal(f *fix) {
	if f.h.InjectCommitError == nil {
		f.Logf("failed commits are not tested: the harness can't inject them")
		return
	}
	kept := f.newEvent("kept", "{}", billing)
	w, stop := f.writer()
	broken := errors.New("input/output error")
	f.h.InjectCommitError(f.l, broken)
	req := one(f.item("evt_1", "{}", billing), "{}")
	err := w.Accept(f.Context(), req)
	f.want(err, dedupe.ErrFatal)
	equal(f, "outcomes of a failed commit", len(req.Outcomes), 0)
	again := one(f.item("evt_2", "{}", billing), "{}")
	f.want(w.Accept(f.Context(), again), dedupe.ErrFatal)
	f.want(stop(), dedupe.ErrFatal)
	if err := f.l.Commit(f.Context(), &dedupe.Batch{Requests: []*dedupe.Request{again}}); !errors.Is(err, dedupe.ErrFatal) {
		f.Errorf("a ledger that failed took a batch: %v", err)
	}
	if err := f.l.Health(f.Context()); err == nil {
		f.Errorf("a ledger that failed is healthy")
	}

	f.reopen()
	f.get(kept)
	o := f.accept("evt_1", "{}", billing) // unknown before, so either is right
	if o.Verdict != dedupe.New && o.Verdict != dedupe.Repeat {
		f.Errorf("sent again: %v, want new or repeat", o.Verdict)
	}
	equal(f, "then", f.accept("evt_1", "{}", billing).Verdict, dedupe.Repeat)
	equal(f, "sent after the failure", f.accept("evt_2", "{}", billing).Verdict, dedupe.New)
	equal(f, "deliveries", len(slices.Compact(refs(f.lease(billing, long)))), 3)
	equal(f, "events", f.stats().Events, 3)
}
