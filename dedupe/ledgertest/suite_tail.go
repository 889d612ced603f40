package ledgertest

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

// tailTests hold that a reader that follows the ledger sees every event once,
// in order.
func tailTests() []test {
	return []test{
		{"a tail sees every event once, in order", tailAll},
		{"a tail goes on after a restart", tailRestart},
		{"a tail beside many senders", tailBeside},
		{"a tail over several retentions and what went", tailRetention},
	}
}

// follow reads from cursor to the present end.
func (f *fix) follow(cursor string, limit int) (refs []event.Ref, next string) {
	f.Helper()
	for {
		p, err := f.l.Tail(f.Context(), cursor, limit)
		f.must(err)
		if p.Next == "" || len(p.Items) > limit {
			f.Fatalf("%d events of at most %d, next %q", len(p.Items), limit, p.Next)
		}
		if len(p.Items) == 0 {
			return refs, p.Next
		}
		for _, rec := range p.Items {
			refs = append(refs, rec.Event.Ref)
		}
		cursor = p.Next
	}
}

func tailAll(f *fix) {
	got, next := f.follow("", 3)
	equal(f, "events of an empty ledger", len(got), 0)
	var want []event.Ref
	for i := range 10 {
		want = append(want, f.newEvent(fmt.Sprint("evt_", i), "{}", billing))
	}
	if got, _ = f.follow(next, 3); !slices.Equal(got, want) {
		f.Errorf("from the start of an empty ledger: %v, want %v", got, want)
	}
	end, err := f.l.Tail(f.Context(), dedupe.TailEnd, 10)
	f.must(err)
	equal(f, "events at the end", len(end.Items), 0)
	f.accept("evt_3", "{}", billing) // a repeat is no event
	last := f.newEvent("evt_10", "{}", billing)
	if got, _ = f.follow(end.Next, 3); !slices.Equal(got, []event.Ref{last}) {
		f.Errorf("after the end: %v, want %v", got, last)
	}
	f.settle(billing, event.Delivered)
	p, err := f.l.Tail(f.Context(), "", 100)
	f.must(err)
	equal(f, "events in one page", len(p.Items), 11)
	equal(f, "status of a delivered one", p.Items[0].Status, event.StatusDelivered)
	_, err = f.l.Tail(f.Context(), "no cursor", 1)
	f.want(err, dedupe.ErrCursor)
}

func tailRestart(f *fix) {
	f.newEvent("evt_0", "{}")
	_, next := f.follow("", 10)
	var want []event.Ref
	for i := range 3 {
		want = append(want, f.newEvent(fmt.Sprint("before_", i), "{}"))
	}
	f.reopen()
	for i := range 3 {
		want = append(want, f.newEvent(fmt.Sprint("after_", i), "{}"))
	}
	if got, _ := f.follow(next, 2); !slices.Equal(got, want) {
		f.Errorf("over a restart: %v, want %v", got, want)
	}
}

// tailBeside follows while others write: nothing may appear behind the
// reader's back.
func tailBeside(f *fix) {
	const senders, each = 4, 50
	w, stop := f.writer()
	var wg sync.WaitGroup
	for s := range senders {
		wg.Go(func() {
			for i := range each {
				req := one(f.item(fmt.Sprintf("evt_%d_%d", s, i), "{}"), "{}")
				if err := w.Accept(f.Context(), req); err != nil {
					f.Errorf("accept: %v", err)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	var got []event.Ref
	cursor, last := "", false
	defer func() { f.must(stop()) }()
	for !last {
		select {
		case <-done:
			last = true // one more round
		default:
		}
		var refs []event.Ref
		refs, cursor = f.follow(cursor, 7)
		got = append(got, refs...)
	}
	if !slices.IsSortedFunc(got, event.Ref.Compare) {
		f.Errorf("refs don't ascend")
	}
	if n := len(slices.Compact(slices.Clone(got))); n != senders*each || n != len(got) {
		f.Errorf("%d events seen, %d of them different, want %d", len(got), n, senders*each)
	}
}

func tailRetention(f *fix) {
	put := func(id string, keep time.Duration) event.Ref {
		req := one(f.item(id, "{}"), "{}")
		req.Retention = dedupe.Retention{Body: keep, Meta: keep, Audit: keep}
		f.commit(req)
		return req.Outcomes[0].Ref
	}
	var all, kept []event.Ref
	for i := range 6 {
		keep := 24 * time.Hour
		if i%2 == 0 {
			keep = 240 * time.Hour
		}
		all = append(all, put(fmt.Sprint("evt_", i), keep))
		if i%2 == 0 {
			kept = append(kept, all[i])
		}
		f.clock.Advance(time.Second)
	}
	if got, _ := f.follow("", 2); !slices.Equal(got, all) {
		f.Errorf("before retention: %v, want %v", got, all)
	}
	f.clock.Advance(past(24 * time.Hour))
	f.expire()
	if got, _ := f.follow("", 2); !slices.Equal(got, kept) {
		f.Errorf("after retention: %v, want %v", got, kept)
	}
	if got, _ := f.follow(all[1].String(), 2); !slices.Equal(got, kept[1:]) {
		f.Errorf("from an event that went: %v, want %v", got, kept[1:])
	}
}
