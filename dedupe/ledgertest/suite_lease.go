package ledgertest

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

// leaseTests hold how deliveries are handed out and ended.
func leaseTests() []test {
	return []test{
		{"earliest first and no more than asked for", leaseOrder},
		{"no delivery is under two live leases", leaseOnce},
		{"many forwarders at once", leaseRace},
		{"a lost lease is due again", leaseLost},
		{"leases of different length", leaseLengths},
		{"release", leaseRelease},
		{"extend", leaseExtend},
		{"retries by due time", leaseRetry},
		{"results", leaseResults},
		{"a result without an attempt", leaseNoAttempt},
		{"a late result changes nothing and is recorded", leaseFence},
		{"one lease ends once", leaseTwice},
		{"a result after a cancel is late", leaseCancelled},
		{"targets with open deliveries", leaseTargets},
		{"load", leaseLoad},
	}
}

func leaseOrder(f *fix) {
	var want []event.Ref
	for i := range 10 {
		want = append(want, f.newEvent(fmt.Sprint("evt_", i), "{}", billing))
		f.clock.Advance(time.Second)
	}
	var got []event.Ref
	for _, n := range [...]int{0, 1, 3, 100} {
		ls := f.lease(billing, n)
		if len(ls) > n {
			f.Fatalf("%d leases, asked for %d", len(ls), n)
		}
		for _, l := range ls {
			equal(f, "state", l.Delivery.State, event.Leased)
			equal(f, "target", l.Delivery.Target, billing)
			if !sameTime(l.Until, f.l.Now().Add(ttl)) {
				f.Errorf("lease until %v, want %v", l.Until, f.l.Now().Add(ttl))
			}
			got = append(got, l.Delivery.Event)
		}
	}
	if !slices.Equal(got, want) {
		f.Errorf("leased %v, want %v", got, want)
	}
	equal(f, "leases of a target that has none", len(f.lease("nobody", 10)), 0)
	_, next, err := f.l.Lease(f.Context(), "nobody", 10, ttl)
	f.must(err)
	equal(f, "next of a target that has none", next.IsZero(), true)
}

func leaseOnce(f *fix) {
	ref := f.newEvent("evt_1", "{}", billing, crm)
	l := f.leaseOne(billing)
	equal(f, "second lease", len(f.lease(billing, long)), 0)
	equal(f, "state while leased", f.delivery(ref, billing).State, event.Leased)
	equal(f, "the other target", f.delivery(ref, crm).State, event.Pending)
	f.clock.Advance(ttl - time.Second)
	equal(f, "a second before its end", len(f.lease(billing, long)), 0)
	f.leaseOne(crm)
	f.finish(f.result(l, event.Delivered, 0))
	f.clock.Advance(2 * ttl)
	equal(f, "after it landed", len(f.lease(billing, long)), 0)
}

func leaseRace(f *fix) {
	const events, forwarders = 300, 8
	var reqs []*dedupe.Request
	for i := range events {
		reqs = append(reqs, one(f.item(fmt.Sprint("evt_", i), "{}", billing), "{}"))
	}
	f.commit(reqs...)
	var mu sync.Mutex
	seen := map[event.Ref]int{}
	var wg sync.WaitGroup
	for range forwarders {
		wg.Go(func() {
			for {
				ls, _, err := f.l.Lease(f.Context(), billing, 7, ttl)
				if err != nil || len(ls) == 0 {
					return
				}
				mu.Lock()
				for _, l := range ls {
					seen[l.Delivery.Event]++
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	equal(f, "deliveries leased", len(seen), events)
	for ref, n := range seen {
		equal(f, "leases of "+ref.String(), n, 1)
	}
}

func leaseLost(f *fix) {
	ref := f.newEvent("evt_1", "{}", billing)
	first := f.leaseOne(billing)
	_, next, err := f.l.Lease(f.Context(), billing, 1, ttl)
	f.must(err)
	if !sameTime(next, first.Until) {
		f.Errorf("next = %v, want the end of the lease, %v", next, first.Until)
	}
	f.clock.Advance(ttl + time.Second)
	equal(f, "state after its end", f.delivery(ref, billing).State, event.Pending)
	second := f.leaseOne(billing)
	equal(f, "same event", second.Delivery.Event, ref)
	equal(f, "same generation", second.Delivery.Generation, first.Delivery.Generation)
	if second.Token == first.Token {
		f.Errorf("two leases share token %d", first.Token)
	}
	f.finish(f.result(second, event.Delivered, 0))
	equal(f, "state", f.delivery(ref, billing).State, event.Delivered)
}

func leaseLengths(f *fix) {
	a := f.newEvent("evt_a", "{}", billing)
	b := f.newEvent("evt_b", "{}", billing)
	for _, d := range [...]time.Duration{time.Hour, time.Minute} {
		ls, _, err := f.l.Lease(f.Context(), billing, 1, d)
		f.must(err)
		equal(f, "leases", len(ls), 1)
	}
	f.clock.Advance(2 * time.Minute)
	got := refs(f.lease(billing, long))
	if !slices.Equal(got, []event.Ref{b}) {
		f.Fatalf("leased %v after the shorter lease ended, want %s", got, b)
	}
	f.clock.Advance(time.Hour)
	if got := refs(f.lease(billing, long)); !slices.Equal(got, []event.Ref{a, b}) {
		f.Errorf("leased %v after both ended, want both", got)
	}
}

func leaseRelease(f *fix) {
	ref := f.newEvent("evt_1", "{}", billing)
	l := f.leaseOne(billing)
	f.must(f.l.Release(f.Context(), l))
	equal(f, "state", f.delivery(ref, billing).State, event.Pending)
	second := f.leaseOne(billing)
	equal(f, "attempts", second.Delivery.Attempts, 0)
	f.must(f.l.Release(f.Context(), l)) // lost: ignored
	equal(f, "leases after a stale release", len(f.lease(billing, long)), 0)
	equal(f, "attempts recorded", len(f.attempts(ref)), 0)
	f.finish(f.result(second, event.Delivered, 0))
	f.must(f.l.Release(f.Context(), second))
	equal(f, "leases after the release of a closed one", len(f.lease(billing, long)), 0)
	equal(f, "state", f.delivery(ref, billing).State, event.Delivered)
}

func leaseExtend(f *fix) {
	ref := f.newEvent("evt_1", "{}", billing)
	l := f.leaseOne(billing)
	f.clock.Advance(ttl - time.Second)
	ok, err := f.l.Extend(f.Context(), l, ttl)
	f.must(err)
	equal(f, "extended", ok, true)
	f.clock.Advance(ttl - time.Second)
	equal(f, "leases while extended", len(f.lease(billing, long)), 0)
	equal(f, "state while extended", f.delivery(ref, billing).State, event.Leased)
	f.clock.Advance(2 * time.Second)
	second := f.leaseOne(billing)
	ok, err = f.l.Extend(f.Context(), l, ttl)
	f.must(err)
	equal(f, "lost lease extended", ok, false)
	f.finish(f.result(second, event.Delivered, 0))
	ok, err = f.l.Extend(f.Context(), second, ttl)
	f.must(err)
	equal(f, "ended lease extended", ok, false)
}

func leaseRetry(f *fix) {
	delays := [...]time.Duration{40 * time.Second, 10 * time.Second, 30 * time.Second, 20 * time.Second}
	var all []event.Ref
	for i := range delays {
		all = append(all, f.newEvent(fmt.Sprint("evt_", i), "{}", billing))
	}
	var rs []*dedupe.Result
	for i, l := range f.lease(billing, long) {
		rs = append(rs, f.result(l, event.Pending, delays[i]))
	}
	f.finish(rs...)
	at := f.l.Now()
	for _, i := range [...]int{1, 3, 2, 0} {
		ls, next, err := f.l.Lease(f.Context(), billing, long, time.Hour)
		f.must(err)
		equal(f, "leases before the next is due", len(ls), 0)
		if !sameTime(next, at.Add(delays[i])) {
			f.Fatalf("next = %v after the results, want %v", next.Sub(at), delays[i])
		}
		f.clock.Advance(next.Sub(f.l.Now()) + time.Millisecond)
		ls, _, err = f.l.Lease(f.Context(), billing, long, time.Hour)
		f.must(err)
		if got := refs(ls); !slices.Equal(got, all[i:i+1]) {
			f.Fatalf("leased %v, want %s", got, all[i])
		}
		equal(f, "attempts", ls[0].Delivery.Attempts, 1)
	}
}

func leaseResults(f *fix) {
	for _, state := range [...]event.State{event.Pending, event.Delivered, event.Dead, event.Cancelled} {
		id := "evt_" + state.String()
		ref := f.newEvent(id, "{}", billing)
		before := f.stats().Targets[billing]
		f.clock.Advance(time.Second)
		res := f.result(f.leaseOne(billing), state, time.Hour)
		f.finish(res)
		equal(f, id+" late", res.Late, false)
		d := f.delivery(ref, billing)
		equal(f, id+" state", d.State, state)
		equal(f, id+" attempts", d.Attempts, 1)
		equal(f, id+" status", d.LastStatus, res.Attempt.Status)
		wantError := string(res.Attempt.Outcome)
		if state == event.Delivered {
			wantError = ""
		}
		equal(f, id+" error", d.LastError, wantError)
		if want := f.l.Now().Add(time.Hour); state == event.Pending && !sameTime(d.DueAt, want) {
			f.Errorf("%s due at %v, want %v", id, d.DueAt, want)
		}
		equal(f, id+" due time is zero", d.DueAt.IsZero(), state != event.Pending)
		if !sameTime(d.UpdatedAt, f.l.Now()) {
			f.Errorf("%s updated at %v, want %v", id, d.UpdatedAt, f.l.Now())
		}
		as := f.attempts(ref)
		equal(f, id+" attempts recorded", len(as), 1)
		want := res.Attempt
		if diff := sameAttempt(as[0], want); diff != "" {
			f.Errorf("%s attempt: %s", id, diff)
		}
		after := f.stats().Targets[billing]
		if state == event.Dead {
			before.Dead++
		}
		equal(f, id+" dead counted", after.Dead, before.Dead)
		f.clock.Advance(time.Minute)
	}
	f.reopen()
	st := f.stats().Targets[billing]
	equal(f, "pending after reopen", st.Pending, 1)
	equal(f, "dead after reopen", st.Dead, 1)
}

// sameAttempt describes how two attempts differ, "" when they don't.
func sameAttempt(got, want event.Attempt) string {
	if !sameTime(got.StartedAt, want.StartedAt) {
		return fmt.Sprintf("started at %v, want %v", got.StartedAt, want.StartedAt)
	}
	got.StartedAt, want.StartedAt = time.Time{}, time.Time{}
	if g, w := fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want); g != w {
		return "got " + g + ", want " + w
	}
	return ""
}

func leaseNoAttempt(f *fix) {
	ref := f.newEvent("evt_1", "{}", billing)
	f.finish(f.result(f.leaseOne(billing), event.Pending, 0))
	res := f.result(f.leaseOne(billing), event.Pending, time.Minute)
	res.NoAttempt, res.Attempt = true, event.Attempt{}
	f.finish(res)
	d := f.delivery(ref, billing)
	equal(f, "attempts", d.Attempts, 1)
	equal(f, "state", d.State, event.Pending)
	equal(f, "error of the last attempt", d.LastError, string(event.Outcome5xx))
	equal(f, "status of the last attempt", d.LastStatus, 503)
	equal(f, "leases before it is due", len(f.lease(billing, long)), 0)
	f.clock.Advance(time.Minute)
	res = f.result(f.leaseOne(billing), event.Dead, 0)
	res.NoAttempt, res.Attempt = true, event.Attempt{Outcome: event.OutcomeMissing}
	f.finish(res)
	d = f.delivery(ref, billing)
	equal(f, "state", d.State, event.Dead)
	equal(f, "error", d.LastError, string(event.OutcomeMissing))
	equal(f, "attempts", d.Attempts, 1)
	equal(f, "attempts recorded", len(f.attempts(ref)), 1)
}

func leaseFence(f *fix) {
	ref := f.newEvent("evt_1", "{}", billing)
	lost := f.leaseOne(billing)
	f.clock.Advance(ttl + time.Second)
	live := f.leaseOne(billing)
	for _, state := range [...]event.State{event.Delivered, event.Dead, event.Pending} {
		late := f.result(lost, state, time.Hour)
		f.finish(late)
		equal(f, "late", late.Late, true)
		d := f.delivery(ref, billing)
		equal(f, "state after a late result", d.State, event.Leased)
		equal(f, "attempts after a late result", d.Attempts, 0)
		equal(f, "leases after a late result", len(f.lease(billing, long)), 0)
	}
	ok := f.result(live, event.Delivered, 0)
	f.finish(ok)
	equal(f, "late", ok.Late, false)
	d := f.delivery(ref, billing)
	equal(f, "state", d.State, event.Delivered)
	equal(f, "attempts", d.Attempts, 1)
	late := f.result(lost, event.Dead, 0)
	f.finish(late)
	equal(f, "late after it landed", late.Late, true)
	equal(f, "state", f.delivery(ref, billing).State, event.Delivered)

	as := f.attempts(ref)
	equal(f, "attempts recorded", len(as), 5)
	for i, a := range as {
		equal(f, fmt.Sprintf("attempt %d late", i), a.Late, i != 3)
	}
	forged := f.result(dedupe.Lease{Delivery: live.Delivery, Token: math.MaxUint64, Until: live.Until}, event.Dead, 0)
	f.finish(forged)
	equal(f, "late with a token nobody gave", forged.Late, true)
	equal(f, "dead", f.stats().Targets[billing].Dead, 0)
}

func leaseTwice(f *fix) {
	ref := f.newEvent("evt_1", "{}", billing)
	l := f.leaseOne(billing)
	a, b := f.result(l, event.Pending, time.Minute), f.result(l, event.Dead, 0)
	f.finish(a, b)
	equal(f, "first result late", a.Late, false)
	equal(f, "second result late", b.Late, true)
	d := f.delivery(ref, billing)
	equal(f, "state", d.State, event.Pending)
	equal(f, "attempts", d.Attempts, 1)
	equal(f, "attempts recorded", len(f.attempts(ref)), 2)
	f.clock.Advance(time.Minute)
	f.leaseOne(billing)
}

func leaseCancelled(f *fix) {
	ref := f.newEvent("evt_1", "{}", billing)
	l := f.leaseOne(billing)
	n, err := f.l.Cancel(f.Context(), ref, "", by)
	f.must(err)
	equal(f, "cancelled", n, 1)
	res := f.result(l, event.Delivered, 0)
	f.finish(res)
	equal(f, "late", res.Late, true)
	equal(f, "state", f.delivery(ref, billing).State, event.Cancelled)
	equal(f, "attempt recorded", len(f.attempts(ref)), 1)
	f.clock.Advance(2 * ttl)
	equal(f, "leases", len(f.lease(billing, long)), 0)
	f.reopen()
	equal(f, "leases after reopen", len(f.lease(billing, long)), 0)
}

func leaseTargets(f *fix) {
	equal(f, "at first", len(f.l.Targets()), 0)
	f.newEvent("evt_1", "{}", crm, billing)
	want := []string{billing, crm}
	check := func(what string) {
		f.Helper()
		got := slices.Clone(f.l.Targets())
		slices.Sort(got)
		if !slices.Equal(got, want) {
			f.Errorf("targets %s: %v, want %v", what, got, want)
		}
	}
	check("with open deliveries")
	f.lease(billing, long)
	check("with a lease")
	f.clock.Advance(2 * ttl)
	f.settle(billing, event.Dead)
	want = []string{crm}
	check("with one closed")
	f.reopen()
	check("after reopen")
	f.settle(crm, event.Delivered)
	want = nil
	check("with all closed")
}

func leaseLoad(f *fix) {
	ref := f.newEvent("evt_1", "the body", billing)
	loaded, err := f.l.Load(f.Context(), ref)
	f.must(err)
	equal(f, "body", string(loaded.Body), "the body")
	equal(f, "event", loaded.Event.Ref, ref)
	for _, none := range [...]event.Ref{{}, event.NewRef(ref.Milli(), ref.Counter(), ref.Writer()^1), ref.Next(ref.Milli() + 1000)} {
		_, err := f.l.Load(f.Context(), none)
		f.want(err, dedupe.ErrNotFound)
	}
}
