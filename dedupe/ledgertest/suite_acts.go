package ledgertest

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

// actTests hold the account of what happened.
func actTests() []test {
	return []test{
		{"what happens is recorded once, in order", actsRecorded},
		{"a batch's acts are read in pages", actsPaged},
		{"acts outlive a restart and go on", func(f *fix) { actsRestart(f, f.reopen) }},
		{"acts outlive a kill and go on", func(f *fix) { crashed(f, actsRestart) }},
		{"a batch that failed left no act", actsFail},
		{"an event's acts are found", actsOfEvent},
		{"large batches lose no act", actsLarge},
		{"retention waits for a seal", actsSealed},
		{"a restore keeps the log and begins another", actsRestored},
	}
}

// logs lists the act logs; own is the engine's own.
func (f *fix) logs() (own dedupe.ActLog, others []dedupe.ActLog) {
	f.Helper()
	all, err := f.l.ActLogs(f.Context())
	f.must(err)
	n := 0
	for _, l := range all {
		if l.First > l.Keep || l.Keep > l.Next {
			f.Fatalf("log %+v: bounds are out of order", l)
		}
		if l.Own {
			own = l
			n++
		} else {
			others = append(others, l)
		}
	}
	equal(f, "logs of its own", n, 1)
	return own, others
}

// acts reads a log in pages of limit and checks that it is dense.
func (f *fix) actsOf(l dedupe.ActLog, limit int) []dedupe.Act {
	f.Helper()
	var out []dedupe.Act
	for next := l.First; next < l.Next; {
		page, err := f.l.Acts(f.Context(), l.Writer, next, limit)
		f.must(err)
		if len(page) == 0 {
			f.Fatalf("no act at %d of %d", next, l.Next)
		}
		for _, got := range page {
			equal(f, "index of an act", got.Index, next)
			a, err := dedupe.DecodeAct(got.Leaf)
			f.must(err)
			out = append(out, a)
			next++
		}
	}
	return out
}

// acts is all that the engine recorded itself, after what was recorded before
// its ledger was moved.
func (f *fix) acts() (out []dedupe.Act) {
	f.Helper()
	own, others := f.logs()
	if f.moved {
		for _, l := range others {
			out = append(out, f.actsOf(l, 100)...)
		}
		slices.SortStableFunc(out, func(a, b dedupe.Act) int { return a.At.Compare(b.At) })
	}
	return append(out, f.actsOf(own, 100)...)
}

// sealAll allows every act to be dropped.
func (f *fix) sealAll() {
	f.Helper()
	all, err := f.l.ActLogs(f.Context())
	f.must(err)
	for _, l := range all {
		f.must(f.l.SealActs(f.Context(), l.Writer, l.Next))
	}
}

// sameAct describes how two acts differ, "" when they don't.
func sameAct(got, want dedupe.Act) string {
	if !sameTime(got.At, want.At) || got.Time.UnixNano() != want.Time.UnixNano() {
		return fmt.Sprintf("times %v %v, want %v %v", got.At, got.Time, want.At, want.Time)
	}
	got.At, got.Time, want.At, want.Time = time.Time{}, time.Time{}, time.Time{}, time.Time{}
	if g, w := fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want); g != w {
		return "got  " + g + "\nwant " + w
	}
	return ""
}

func actsRecorded(f *fix) {
	own, _ := f.logs()
	equal(f, "acts of an empty ledger", own.Next, 0)
	if _, err := f.l.Acts(f.Context(), own.Writer, 0, 10); err != nil {
		f.Errorf("acts of an empty ledger: %v", err)
	}
	first := f.newEvent("evt_1", "{}", billing, crm)
	f.accept("evt_1", "{}", billing)
	f.accept("evt_1", "[]", billing)
	it := f.item("evt_1", "[1]", billing)
	conflict(&it, dedupe.ConflictDeliver)
	second := f.acceptItem(it, "[1]").Ref
	l := f.lease(billing, 1)[0]
	retry := f.result(l, event.Pending, time.Minute)
	f.finish(retry)
	f.clock.Advance(2 * time.Minute)
	f.finish(f.result(l, event.Delivered, 0)) // late: the lease ended with the retry
	l = f.leaseOne(crm)
	none := f.result(l, event.Dead, 0)
	none.NoAttempt, none.Attempt = true, event.Attempt{Outcome: event.OutcomeMissing}
	f.finish(none)
	n, err := f.l.Cancel(f.Context(), first, billing, by)
	f.must(err)
	equal(f, "cancelled", n, 1)
	equal(f, "opened", f.replay(dedupe.Replay{By: by, Selection: dedupe.Selection{Ref: first}, Target: crm}).Opened, 1)
	f.must(f.l.Commit(f.Context(), &dedupe.Batch{Acts: []*dedupe.Act{{Kind: dedupe.ActOperated, Outcome: "reload", By: by, Detail: "x"}}}))

	acts := f.acts()
	want := []dedupe.Act{
		{Kind: dedupe.ActAccepted, Event: first, Source: source, Provider: "test", ID: "evt_1", Type: "order.paid", Hash: event.HashOf([]byte("{}")), Bytes: 2, Time: start},
		{Kind: dedupe.ActRepeated, Event: first, Source: source, ID: "evt_1", Hash: event.HashOf([]byte("{}")), Bytes: 2, Time: start, Outcome: "repeat"},
		{Kind: dedupe.ActConflicting, Event: first, Source: source, ID: "evt_1", Hash: event.HashOf([]byte("[]")), Bytes: 2, Time: start, Outcome: "conflict"},
		{Kind: dedupe.ActAccepted, Event: second, Source: source, Provider: "test", ID: f.get(second).Event.ID, Type: "order.paid", Hash: event.HashOf([]byte("[1]")), Bytes: 3, Time: start,
			Flags: event.FlagConflict, Related: first},
		{Kind: dedupe.ActAttempted, Event: first, Target: billing, Number: 1, Time: start, Status: 503, Outcome: "5xx", Duration: retry.Attempt.Duration,
			RetryIn: time.Minute, Hash: event.HashOf(retry.Attempt.Response)},
		{Kind: dedupe.ActAttempted, Event: first, Target: billing, Number: 1, Time: start.Add(2 * time.Minute), Status: 200, Outcome: "2xx", Duration: retry.Attempt.Duration,
			Hash: event.HashOf([]byte("HTTP/1.1 200 OK\r\n\r\nfine")), Late: true},
		{Kind: dedupe.ActDead, Event: first, Target: crm, Outcome: "target_missing", State: event.Dead},
		{Kind: dedupe.ActCancelled, Event: first, Target: billing, State: event.Cancelled, By: by},
		{Kind: dedupe.ActReplayed, Event: first, Target: crm, Generation: 1, By: by},
		{Kind: dedupe.ActOperated, Outcome: "reload", By: by, Detail: "x"},
	}
	equal(f, "acts", len(acts), len(want))
	for i := range acts {
		want[i].At = start
		if i > 4 {
			want[i].At = start.Add(2 * time.Minute)
		}
		if diff := sameAct(acts[i], want[i]); diff != "" {
			f.Errorf("act %d: %s", i, diff)
		}
	}
	equal(f, "acts of an unknown writer", errors.Is(errOf(f.l.Acts(f.Context(), own.Writer+1, 0, 1)), dedupe.ErrNotFound), true)
}

func errOf[T any](_ T, err error) error { return err }

func actsPaged(f *fix) {
	for i := range 7 { // batches of 1 to 7
		var reqs []*dedupe.Request
		for j := range i + 1 {
			reqs = append(reqs, one(f.item(fmt.Sprintf("evt_%d_%d", i, j), "{}"), "{}"))
		}
		f.commit(reqs...)
		f.clock.Advance(40 * time.Minute)
	}
	own, _ := f.logs()
	equal(f, "acts", own.Next, 28)
	whole := f.actsOf(own, 1000)
	for limit := 1; limit < 12; limit++ {
		for i, a := range f.actsOf(own, limit) {
			equal(f, "id in a page", a.ID, whole[i].ID)
		}
	}
	for from := range own.Next {
		page, err := f.l.Acts(f.Context(), own.Writer, from, 3)
		f.must(err)
		if len(page) == 0 || page[0].Index != from {
			f.Fatalf("acts from %d: %v", from, page)
		}
	}
	page, err := f.l.Acts(f.Context(), own.Writer, own.Next, 3)
	f.must(err)
	equal(f, "acts beyond the last", len(page), 0)
}

func actsRestart(f *fix, restart func()) {
	mixed(f)
	before := f.acts()
	for range 2 {
		restart()
		after := f.acts()
		equal(f, "acts after it", len(after), len(before))
		for i := range after {
			if diff := sameAct(after[i], before[i]); diff != "" {
				f.Fatalf("act %d: %s", i, diff)
			}
		}
		f.newEvent(fmt.Sprint("more_", len(after)), "{}")
		before = f.acts()
		equal(f, "acts with one more", len(before), len(after)+1)
	}
}

func actsFail(f *fix) {
	if f.h.InjectCommitError == nil {
		f.Logf("a failing commit is not tested: the harness has none")
		return
	}
	f.newEvent("evt_1", "{}", billing)
	f.h.InjectCommitError(f.l, errors.New("disk on fire"))
	err := f.l.Commit(f.Context(), &dedupe.Batch{
		Requests: []*dedupe.Request{one(f.item("evt_2", "{}"), "{}")}, Acts: []*dedupe.Act{{Kind: dedupe.ActConfigured}},
	})
	f.want(err, dedupe.ErrFatal)
	f.reopen()
	events := len(f.events(dedupe.Filter{}, 10))
	equal(f, "acts are the events'", len(f.acts()), events)
}

func actsOfEvent(f *fix) {
	ref := f.newEvent("evt_1", "{}", billing, crm)
	other := f.newEvent("evt_2", "{}", billing)
	f.accept("evt_1", "{}")
	f.settle(billing, event.Pending)
	f.settle(crm, event.Dead)
	f.clock.Advance(time.Hour)
	f.settle(billing, event.Delivered)
	for _, again := range [...]bool{false, true} {
		got, err := f.l.EventActs(f.Context(), ref)
		f.must(err)
		own, _ := f.logs()
		equal(f, "logs", len(got), 1)
		kinds := ""
		last := uint64(0)
		for i, g := range got[own.Writer] {
			if i > 0 && g.Index <= last {
				f.Errorf("acts are out of order")
			}
			last = g.Index
			a, err := dedupe.DecodeAct(g.Leaf)
			f.must(err)
			kinds += a.Kind.String() + " "
			at, err := f.l.Acts(f.Context(), own.Writer, g.Index, 1)
			f.must(err)
			equal(f, "the act at its index", string(at[0].Leaf), string(g.Leaf))
		}
		equal(f, "kinds", kinds, "accepted attempted dead delivered ")
		got, err = f.l.EventActs(f.Context(), other)
		f.must(err)
		equal(f, "acts of the other", len(got[own.Writer]), 3)
		if !again {
			f.reopen()
		}
	}
	_, err := f.l.EventActs(f.Context(), event.NewRef(1, 1, 1))
	f.want(err, dedupe.ErrNotFound)
}

func actsLarge(f *fix) {
	b := &dedupe.Batch{}
	for i := range 40 {
		b.Requests = append(b.Requests, one(f.item(fmt.Sprint("evt_", i), pattern(200<<10, i)), pattern(200<<10, i)))
	}
	for i := range 3000 {
		b.Acts = append(b.Acts, &dedupe.Act{Kind: dedupe.ActOperated, Number: uint64(i + 1), Detail: pattern(dedupe.MaxActText+5, i)})
	}
	f.must(f.l.Commit(f.Context(), b))
	acts := f.acts()
	equal(f, "acts", len(acts), 3040)
	for i := range 3000 {
		equal(f, "order", acts[40+i].Number, uint64(i+1))
		equal(f, "text is cut", len(acts[40+i].Detail), dedupe.MaxActText)
	}
	rep, err := f.l.Check(f.Context())
	f.must(err)
	equal(f, "faults", fmt.Sprint(rep.Faults), "[]")
}

func actsSealed(f *fix) {
	for i := range 10 {
		f.newEvent(fmt.Sprint("old_", i), "{}")
	}
	f.clock.Advance(past(retention.Audit))
	f.newEvent("new", "{}")
	own, _ := f.logs()
	equal(f, "whose retention has ended", own.Keep, 10)
	_, err := f.l.Expire(f.Context())
	f.must(err)
	own, _ = f.logs()
	equal(f, "first without a seal", own.First, 0)
	f.must(f.l.SealActs(f.Context(), own.Writer, 9))
	_, err = f.l.Expire(f.Context())
	f.must(err)
	if own, _ = f.logs(); own.First > 9 {
		f.Fatalf("an act that was not sealed was dropped: %+v", own)
	}
	f.must(f.l.SealActs(f.Context(), own.Writer, 10))
	_, err = f.l.Expire(f.Context())
	f.must(err)
	for _, again := range [...]bool{false, true} {
		own, _ = f.logs()
		equal(f, "first", own.First, 10)
		equal(f, "next", own.Next, 11)
		_, err = f.l.Acts(f.Context(), own.Writer, 9, 5)
		f.want(err, dedupe.ErrPruned)
		equal(f, "what is left", f.acts()[0].ID, "new")
		if !again {
			f.reopen()
		}
	}
	f.newEvent("newer", "{}")
	own, _ = f.logs()
	equal(f, "next", own.Next, 12)
	f.clock.Advance(past(retention.Audit))
	f.expire()
	own, _ = f.logs()
	equal(f, "first of none", own.First, 12)
	f.reopen()
	f.newEvent("last", "{}")
	own, _ = f.logs()
	equal(f, "next after all was dropped", own.Next, 13)
	rep, err := f.l.Check(f.Context())
	f.must(err)
	equal(f, "faults", fmt.Sprint(rep.Faults), "[]")
}

func actsRestored(f *fix) {
	if f.h.Restore == nil {
		f.Logf("restore is not tested: the harness has none")
		return
	}
	mixed(f)
	before, was := f.acts(), uint64(0)
	own, _ := f.logs()
	was = own.Writer
	var buf bytes.Buffer
	f.must(f.l.Backup(f.Context(), &buf))
	f.must(f.l.Close())
	f.l = f.h.Restore(f.TB, &buf, f.opts)
	f.ready()
	own, others := f.logs()
	equal(f, "acts of the new writer", own.Next, 0)
	equal(f, "other logs", len(others), 1)
	equal(f, "their writer", others[0].Writer, was)
	equal(f, "acts kept", len(f.actsOf(others[0], 7)), len(before))
	f.newEvent("after", "{}")
	equal(f, "acts of the new writer", len(f.acts()), 1)
}

// acts draws what a batch records beside its requests.
func (h *history) acts(t *rapid.T) (out []*dedupe.Act) {
	for range rapid.IntRange(0, 2).Draw(t, "acts") {
		out = append(out, &dedupe.Act{Kind: dedupe.ActOperated, Outcome: "reload", Detail: rapid.String().Draw(t, "detail"), By: by})
	}
	return out
}

// compareActs holds the engine's account against the model's, which has one
// act for each thing that happened.
func (h *history) compareActs() {
	h.Helper()
	got := h.fix.acts()
	model := *h.fix
	model.l = h.model
	want := model.acts()
	equal(h.fix, "acts", len(got), len(want))
	for i := range want {
		g, w := got[i], want[i]
		equal(h.fix, "event of an act", h.index(gotRef, g.Event), h.index(wantRef, w.Event))
		equal(h.fix, "related event of an act", h.index(gotRef, g.Related), h.index(wantRef, w.Related))
		w.Event, w.Related = g.Event, g.Related
		if diff := sameAct(g, w); diff != "" {
			h.Fatalf("act %d: %s", i, diff)
		}
	}
	h.accounted(got)
}

// accounted checks that the acts and what the ledger shows are the same:
// one acceptance per event, one act per attempt.
func (h *history) accounted(acts []dedupe.Act) {
	h.Helper()
	accepted, attempts := map[event.Ref]int{}, map[event.Ref]int{}
	for i := range acts {
		switch a := &acts[i]; {
		case a.Kind == dedupe.ActAccepted:
			accepted[a.Event]++
		case a.IsAttempt():
			attempts[a.Event]++
		}
	}
	equal(h.fix, "events accounted for", len(accepted), len(h.refs))
	for _, p := range h.refs {
		equal(h.fix, "acceptances of an event", accepted[p.got], 1)
		equal(h.fix, "attempts accounted for", attempts[p.got], len(h.attempts(p.got)))
	}
}
