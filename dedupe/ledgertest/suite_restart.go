package ledgertest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

// restartTests hold what outlives a process.
func restartTests() []test {
	return []test{
		{"a reopened ledger continues the schedule", func(f *fix) { restartSchedule(f, f.reopen) }},
		{"a killed ledger continues the schedule", func(f *fix) { crashed(f, restartSchedule) }},
		{"all that was committed is there after a reopen", func(f *fix) { restartAll(f, f.reopen) }},
		{"all that was committed is there after a kill", func(f *fix) { crashed(f, restartAll) }},
		{"an attempt cut by a restart is unknown", func(f *fix) { restartUnknown(f, f.reopen) }},
		{"an attempt cut by a kill is unknown", func(f *fix) { crashed(f, restartUnknown) }},
		{"an empty ledger reopens", restartEmpty},
		{"a start far ahead of the mark holds expiry", restartHold},
		{"no write is ahead of ledger time after a reopen", func(f *fix) { restartMark(f, f.reopen) }},
		{"no write is ahead of ledger time after a kill", func(f *fix) { crashed(f, restartMark) }},
	}
}

// crashed runs a test with kills in place of orderly restarts.
func crashed(f *fix, run func(*fix, func())) {
	if f.h.Crash == nil {
		f.Logf("a kill is not tested: the harness has none")
		return
	}
	run(f, func() {
		f.Helper()
		f.l = f.h.Crash(f.TB, f.l)
		f.ready()
	})
}

func restartSchedule(f *fix, restart func()) {
	var all []event.Ref
	for i := range 6 {
		all = append(all, f.newEvent(fmt.Sprint("evt_", i), "{}", billing))
		f.clock.Advance(time.Second)
	}
	ls := f.lease(billing, 5)
	f.finish(
		f.result(ls[0], event.Delivered, 0), f.result(ls[1], event.Dead, 0),
		f.result(ls[2], event.Pending, 10*time.Minute), f.result(ls[3], event.Cancelled, 0),
	)
	// ls[4] stays leased, all[5] pending.
	restart()
	got := f.lease(billing, long)
	if !slices.Equal(refs(got), all[4:]) {
		f.Fatalf("leased %v after a restart, want %v", refs(got), all[4:])
	}
	for _, l := range got {
		equal(f, "attempts", l.Delivery.Attempts, 0)
	}
	_, next, err := f.l.Lease(f.Context(), billing, 1, ttl)
	f.must(err)
	if next.IsZero() {
		f.Errorf("no next time although deliveries are open")
	}
	f.finish(f.result(got[0], event.Delivered, 0), f.result(got[1], event.Delivered, 0))
	f.clock.Advance(10 * time.Minute)
	restart()
	l := f.leaseOne(billing)
	equal(f, "retry", l.Delivery.Event, all[2])
	equal(f, "its attempts", l.Delivery.Attempts, 1)
	if !sameTime(l.Delivery.OpenedAt, f.get(all[2]).Deliveries[0].OpenedAt) {
		f.Errorf("opened at %v when leased, %v when read", l.Delivery.OpenedAt, f.get(all[2]).Deliveries[0].OpenedAt)
	}
	f.finish(f.result(l, event.Delivered, 0))
	equal(f, "attempts recorded", len(f.attempts(all[2])), 2)
	restart()
	equal(f, "leases at the end", len(f.lease(billing, long)), 0)
	equal(f, "targets at the end", len(f.l.Targets()), 0)
}

func restartAll(f *fix, restart func()) {
	want := map[event.Ref]string{}
	var batches uint64
	for round := range 5 {
		for i := range 20 {
			id := fmt.Sprintf("evt_%d_%d", round, i)
			body := pattern(i*700, i)
			want[f.newEvent(id, body, billing)] = body
		}
		f.settle(billing, event.Delivered)
		st := f.stats()
		if st.Batches <= batches {
			f.Fatalf("batch number went from %d to %d", batches, st.Batches)
		}
		batches = st.Batches
		restart()
		st = f.stats()
		equal(f, "batches", st.Batches, batches)
		equal(f, "events", st.Events, uint64(len(want)))
		for ref, body := range want {
			if string(f.body(ref)) != body {
				f.Fatalf("event %s has another body after a restart", ref)
			}
			equal(f, "status", f.get(ref).Status, event.StatusDelivered)
			equal(f, "attempts", len(f.attempts(ref)), 1)
		}
		for i := range 20 {
			equal(f, "repeat", f.accept(fmt.Sprintf("evt_%d_%d", round, i), pattern(i*700, i), billing).Verdict, dedupe.Repeat)
		}
		equal(f, "leases", len(f.lease(billing, long)), 0)
		batches = f.stats().Batches
	}
	rep, err := f.l.Check(f.Context())
	f.must(err)
	if len(rep.Faults) > 0 {
		f.Errorf("faults after restarts: %v", rep.Faults)
	}
	equal(f, "events checked", rep.Events, 100)
}

func restartEmpty(f *fix) {
	f.reopen()
	f.reopen()
	equal(f, "events", len(f.events(dedupe.Filter{}, 10)), 0)
	f.newEvent("evt_1", "{}", billing)
}

func restartHold(f *fix) {
	ref := f.newEvent("evt_1", "{}")
	f.must(f.l.Commit(f.Context(), &dedupe.Batch{Requests: []*dedupe.Request{one(f.item("evt_2", "{}"), "{}")}}))
	equal(f, "held at first", f.stats().ClockHold, false)
	f.must(f.l.Close())
	f.clock.Advance(past(retention.Meta) + time.Hour)
	f.reopen()
	equal(f, "held after a start far ahead", f.stats().ClockHold, true)
	equal(f, "expiry held", f.expire().Held, true)
	f.get(ref)
	f.clock.Advance(time.Hour + time.Minute)
	equal(f, "held an hour later", f.stats().ClockHold, false)
	equal(f, "expiry held an hour later", f.expire().Held, false)
	_, err := f.l.Get(f.Context(), ref)
	f.want(err, dedupe.ErrPruned)
}

// restartMark holds that whatever changes a delivery moves the mark: with a clock that was
// set back meanwhile, a delivery opened again would fall due hours later.
func restartMark(f *fix, restart func()) {
	ref := f.newEvent("evt_1", "{}", billing)
	other := f.newEvent("evt_2", "{}", billing)
	f.settle(billing, event.Delivered)
	for _, write := range []struct {
		what string
		do   func()
	}{
		{"a replay", func() { equal(f, "opened", f.replay(dedupe.Replay{Selection: dedupe.Selection{Ref: ref}}).Opened, 1) }},
		{"a result", func() { f.finish(f.result(f.leaseOne(billing), event.Delivered, 0)) }},
		{"another replay", func() { equal(f, "opened", f.replay(dedupe.Replay{Selection: dedupe.Selection{Ref: other}}).Opened, 1) }},
		{"a cancel", func() {
			n, err := f.l.Cancel(f.Context(), other, "", dedupe.By{})
			f.must(err)
			equal(f, "cancelled", n, 1)
		}},
	} {
		f.clock.Advance(10 * time.Hour)
		before := f.l.Now().Truncate(time.Millisecond)
		write.do()
		f.clock.Advance(-10 * time.Hour)
		restart()
		if now := f.l.Now(); now.Before(before) {
			f.Errorf("%s: ledger time went back from %v to %v", write.what, before, now)
		}
		if write.what == "a replay" {
			equal(f, "leased after the replay", f.leaseOne(billing).Delivery.Event, ref)
			restart() // which gives it back
		}
	}
}

// restartUnknown holds that an attempt of which no result was committed is
// shown, once, as an attempt of unknown outcome, and that nothing else is.
func restartUnknown(f *fix, restart func()) {
	names := []string{"delivered", "retried", "dead", "late", "released", "waiting", "cut", "cut again"}
	at := map[string]event.Ref{}
	for _, n := range names {
		at[n] = f.newEvent(n, "{}", billing)
		f.clock.Advance(time.Second)
	}
	ls := f.lease(billing, len(names))
	byName := map[string]dedupe.Lease{}
	for i, n := range names {
		byName[n] = ls[i]
		if n != "waiting" {
			f.must(f.l.Begin(f.Context(), ls[i]))
		}
	}
	f.finish(f.result(byName["cut again"], event.Pending, 0))
	again := f.leaseOne(billing)
	f.must(f.l.Begin(f.Context(), again))
	f.must(f.l.Begin(f.Context(), again)) // said twice, it is one attempt
	f.must(f.l.Release(f.Context(), byName["released"], byName["waiting"]))
	f.finish(f.result(byName["delivered"], event.Delivered, 0), f.result(byName["retried"], event.Pending, time.Hour),
		f.result(byName["dead"], event.Dead, 0))
	// A lease that is lost: its attempt is recorded late and counts for nothing.
	f.clock.Advance(2 * ttl)
	for _, l := range f.lease(billing, len(names)) {
		f.must(f.l.Release(f.Context(), l))
	}
	f.finish(f.result(byName["late"], event.Delivered, 0))
	started := f.clock.Now()

	restart()
	check := func() {
		f.Helper()
		for n, want := range map[string]string{
			"delivered": "2xx", "retried": "5xx", "dead": "5xx", "late": "2xx late", "released": "", "waiting": "",
			"cut": "unknown", "cut again": "5xx unknown",
		} {
			var got []string
			for i, a := range f.attempts(at[n]) {
				equal(f, "number of an attempt of "+n, int(a.Number), i+1)
				got = append(got, string(a.Outcome))
				if a.Late {
					got = append(got, "late")
				}
				if a.Outcome != event.OutcomeUnknown {
					continue
				}
				if a.StartedAt.After(started) || a.StartedAt.Before(start) || a.State != event.Pending || a.Error == "" {
					f.Errorf("unknown attempt of %s: %+v", n, a)
				}
			}
			equal(f, "attempts of "+n, strings.Join(got, " "), want)
		}
	}
	check()
	equal(f, "attempts counted", f.delivery(at["cut"], billing).Attempts, 1)
	equal(f, "attempts counted", f.delivery(at["cut again"], billing).Attempts, 2)
	equal(f, "attempts counted", f.delivery(at["waiting"], billing).Attempts, 0)
	got := f.lease(billing, long) // all but those closed, and the one that waits
	equal(f, "leased after it", len(got), 5)
	for _, l := range got {
		f.must(f.l.Release(f.Context(), l))
	}
	restart() // it is not shown a second time
	check()
}
