package ledgertest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

// orderTests hold that deliveries with one order are attempted one after the
// other.
func orderTests() []test {
	return []test{
		{"one of a key at a time, in commit order", orderOne},
		{"the elements of a batch are in order", orderBatch},
		{"a retry holds up its own key alone", orderRetry},
		{"a released or lost lease keeps its place", orderRelease},
		{"a dead delivery blocks its key", orderDead},
		{"a dead delivery is passed over where it is to be", orderSkip},
		{"a cancelled delivery makes room", orderCancel},
		{"a replay goes to the tail of its key", orderReplay},
		{"a dropped dead letter unblocks its key", orderDrop},
		{"retention of the dead unblocks their key", orderExpire},
		{"orders survive a reopen", func(f *fix) { orderRestart(f, f.reopen) }},
		{"orders survive a kill", func(f *fix) { crashed(f, orderRestart) }},
		{"ten thousand keys over restarts, without an inversion", orderMany},
	}
}

// ordered writes an event for billing, ordered by key.
func (f *fix) ordered(id, key string, skip bool) event.Ref {
	f.Helper()
	it := f.item(id, "{}", billing)
	it.Event.Orders = []event.Order{event.OrderOf(key, skip)}
	o := f.acceptItem(it, "{}")
	equal(f, "verdict of "+id, o.Verdict, dedupe.New)
	return o.Ref
}

// leases fails unless exactly these can be leased, and returns the leases.
func (f *fix) leases(what string, want ...event.Ref) []dedupe.Lease {
	f.Helper()
	ls := f.lease(billing, long)
	want = slices.Clone(want)
	slices.SortFunc(want, event.Ref.Compare)
	if got := refs(ls); !slices.Equal(got, want) {
		f.Fatalf("%s: leased %v, want %v", what, got, want)
	}
	return ls
}

func (f *fix) deliver(ls ...dedupe.Lease) {
	f.Helper()
	var rs []*dedupe.Result
	for _, l := range ls {
		rs = append(rs, f.result(l, event.Delivered, 0))
	}
	f.finish(rs...)
}

func orderOne(f *fix) {
	a1, a2, b1, a3 := f.ordered("a1", "a", false), f.ordered("a2", "a", false), f.ordered("b1", "b", false), f.ordered("a3", "a", false)
	free := f.newEvent("free", "{}", billing)
	it := f.item("both", "{}", crm, billing)
	it.Event.Orders = []event.Order{0, event.OrderOf("a", false)}
	both := f.acceptItem(it, "{}").Ref
	ev := f.get(both).Event
	equal(f, "order read back", ev.OrderAt(billing), event.OrderOf("a", false))
	equal(f, "and at the other target", ev.OrderAt(crm), event.Order(0))
	equal(f, "orders of an event without", len(f.get(free).Event.Orders), 0)
	equal(f, "another target", f.leaseOne(crm).Delivery.Event, both)

	ls := f.leases("at first", a1, b1, free)
	st := f.stats().Targets[billing]
	equal(f, "behind another", st.Behind, 3)
	f.leases("while they are leased")
	for _, l := range ls {
		if l.Delivery.Event != a1 {
			f.deliver(l)
		}
	}
	f.leases("when another key is through")
	for i, l := range ls {
		if l.Delivery.Event == a1 {
			ls = ls[i : i+1]
			break
		}
	}
	for _, next := range []event.Ref{a2, a3, both} {
		f.deliver(ls...)
		ls = f.leases("one after the other", next)
	}
	f.deliver(ls...)
	f.leases("at the end")
}

func orderBatch(f *fix) {
	body := "abcdef"
	r := &dedupe.Request{Body: []byte(body), Batch: true}
	for i := range 6 {
		it := f.item(fmt.Sprint("e", i), body[i:i+1], billing)
		it.Event.Body.Offset = int64(i)
		it.Event.Orders = []event.Order{event.OrderOf("a", false)}
		r.Items = append(r.Items, it)
	}
	f.commit(r)
	for _, o := range r.Outcomes {
		f.deliver(f.leases("an element", o.Ref)...)
	}
}

func orderRetry(f *fix) {
	a1, a2, b1 := f.ordered("a1", "a", false), f.ordered("a2", "a", false), f.ordered("b1", "b", false)
	ls := f.leases("at first", a1, b1)
	slices.SortFunc(ls, func(a, b dedupe.Lease) int { return a.Delivery.Event.Compare(b.Delivery.Event) })
	f.finish(f.result(ls[0], event.Pending, 10*time.Minute), f.result(ls[1], event.Delivered, 0))
	b2, c1 := f.ordered("b2", "b", false), f.ordered("c1", "c", false)
	f.deliver(f.leases("while a waits", b2, c1)...)
	_, next, err := f.l.Lease(f.Context(), billing, 1, ttl)
	f.must(err)
	if got := next.Sub(f.l.Now()); got <= 9*time.Minute || got > 10*time.Minute {
		f.Errorf("next in %v, want the retry in 10m", got)
	}
	f.clock.Advance(10 * time.Minute)
	f.deliver(f.leases("when it is due", a1)...)
	f.deliver(f.leases("after it", a2)...)
}

func orderRelease(f *fix) {
	a1, a2 := f.ordered("a1", "a", false), f.ordered("a2", "a", false)
	f.must(f.l.Release(f.Context(), f.leases("at first", a1)...))
	ls := f.leases("after a release", a1)
	f.clock.Advance(2 * ttl)
	again := f.leases("after the lease ran out", a1)
	f.deliver(ls...) // late
	f.leases("after the late result")
	f.deliver(again...)
	f.deliver(f.leases("after the result", a2)...)
}

func orderDead(f *fix) {
	a1, a2, b1 := f.ordered("a1", "a", false), f.ordered("a2", "a", false), f.ordered("b1", "b", false)
	for _, l := range f.leases("at first", a1, b1) {
		f.finish(f.result(l, event.Dead, 0))
	}
	b2, c1 := f.ordered("b2", "b", false), f.ordered("c1", "c", false)
	f.deliver(f.leases("behind the dead", c1)...)
	equal(f, "keys blocked", f.stats().Targets[billing].BlockedKeys, 2)
	f.clock.Advance(time.Hour)
	f.leases("an hour later")
	equal(f, "state of the one behind", f.delivery(a2, billing).State, event.Pending)
	_, err := f.l.Replay(f.Context(), dedupe.Replay{Selection: dedupe.Selection{Ref: a1}, By: by})
	f.must(err)
	f.deliver(f.leases("when one dead is replayed", a2)...)
	f.deliver(f.leases("the replay, at the tail", a1)...)
	f.leases("the other key")
	equal(f, "keys blocked then", f.stats().Targets[billing].BlockedKeys, 1)
	_, err = f.l.Cancel(f.Context(), b2, billing, by)
	f.must(err)
	b3 := f.ordered("b3", "b", false)
	f.leases("behind a cancelled one and a dead one")
	_, err = f.l.Replay(f.Context(), dedupe.Replay{Selection: dedupe.Selection{Filter: dedupe.Filter{State: "dead"}}, By: by})
	f.must(err)
	f.deliver(f.leases("when the other is replayed", b3)...)
	f.deliver(f.leases("and at last", b1)...)
}

func orderSkip(f *fix) {
	a1, a2, a3 := f.ordered("a1", "a", true), f.ordered("a2", "a", true), f.ordered("a3", "a", false)
	f.finish(f.result(f.leases("at first", a1)[0], event.Dead, 0))
	f.finish(f.result(f.leases("behind the dead", a2)[0], event.Dead, 0))
	f.finish(f.result(f.leases("behind both", a3)[0], event.Dead, 0))
	f.ordered("a4", "a", true)
	f.leases("behind one that blocks")
}

func orderCancel(f *fix) {
	var all []event.Ref
	for i := range 6 {
		all = append(all, f.ordered(fmt.Sprint("a", i), "a", false))
	}
	cancel := func(ref event.Ref) {
		f.Helper()
		n, err := f.l.Cancel(f.Context(), ref, "", by)
		f.must(err)
		equal(f, "cancelled", n, 1)
	}
	cancel(all[1]) // waits
	ls := f.leases("at first", all[0])
	cancel(all[0]) // leased
	f.deliver(ls...)
	ls = f.leases("after the first two", all[2])
	f.finish(f.result(ls[0], event.Pending, time.Hour))
	cancel(all[2]) // due later
	f.must(f.l.Release(f.Context(), f.leases("after the third", all[3])...))
	cancel(all[3]) // due now
	cancel(all[4])
	f.deliver(f.leases("the last", all[5])...)
	f.clock.Advance(2 * time.Hour)
	f.leases("at the end")
}

func orderReplay(f *fix) {
	a1, a2 := f.ordered("a1", "a", false), f.ordered("a2", "a", false)
	f.deliver(f.leases("at first", a1)...)
	f.deliver(f.leases("then", a2)...)
	a3, a4 := f.ordered("a3", "a", false), f.ordered("a4", "a", false)
	f.clock.Advance(time.Second)
	replay := func(ref event.Ref) {
		f.Helper()
		n, err := f.l.Replay(f.Context(), dedupe.Replay{Selection: dedupe.Selection{Ref: ref}, By: by})
		f.must(err)
		equal(f, "opened", n.Opened, 1)
		f.clock.Advance(time.Second)
	}
	replay(a2)
	replay(a1)
	a5 := f.ordered("a5", "a", false)
	for _, want := range []event.Ref{a3, a4, a2, a1, a5} {
		f.deliver(f.leases("in turn", want)...)
	}
}

func orderDrop(f *fix) {
	a1, a2 := f.ordered("a1", "a", false), f.ordered("a2", "a", false)
	f.finish(f.result(f.leases("at first", a1)[0], event.Dead, 0))
	f.leases("behind the dead")
	n, err := f.l.Drop(f.Context(), a1, billing, by)
	f.must(err)
	equal(f, "dropped", n, 1)
	f.deliver(f.leases("when it is dropped", a2)...)
}

func orderExpire(f *fix) {
	a1 := f.ordered("a1", "a", false)
	f.finish(f.result(f.leases("at first", a1)[0], event.Dead, 0))
	f.clock.Advance(past(retention.Meta) / 2)
	a2 := f.ordered("a2", "a", false)
	f.expire()
	f.leases("while the dead is kept")
	f.clock.Advance(past(retention.Meta)/2 + time.Hour)
	f.ordered("b1", "b", false) // a batch, so that the clock is known
	f.expire()
	_, err := f.l.Get(f.Context(), a1)
	f.want(err, dedupe.ErrPruned)
	ls := f.lease(billing, long)
	if !slices.Contains(refs(ls), a2) {
		f.Errorf("leased %v when the dead is gone, want %v among them", refs(ls), a2)
	}
}

func orderRestart(f *fix, restart func()) {
	a1, a2, a3 := f.ordered("a1", "a", false), f.ordered("a2", "a", false), f.ordered("a3", "a", false)
	d1, d2 := f.ordered("d1", "d", false), f.ordered("d2", "d", false)
	s1, s2 := f.ordered("s1", "s", true), f.ordered("s2", "s", true)
	r1 := f.ordered("r1", "r", false)
	for _, l := range f.leases("at first", a1, d1, s1, r1) {
		switch l.Delivery.Event {
		case a1:
			f.finish(f.result(l, event.Pending, time.Hour))
		case r1:
			f.deliver(l)
		default:
			f.finish(f.result(l, event.Dead, 0))
		}
	}
	f.clock.Advance(time.Second)
	r2 := f.ordered("r2", "r", false)
	f.clock.Advance(time.Second)
	_, err := f.l.Replay(f.Context(), dedupe.Replay{Selection: dedupe.Selection{Ref: r1}, By: by})
	f.must(err)
	restart()
	equal(f, "keys blocked", f.stats().Targets[billing].BlockedKeys, 1)
	f.leases("after a restart", s2, r2) // and stay leased
	restart()
	ls := f.leases("after another", s2, r2)
	f.deliver(ls...)
	f.deliver(f.leases("the replay", r1)...)
	f.clock.Advance(time.Hour)
	f.deliver(f.leases("the retry", a1)...)
	restart()
	f.deliver(f.leases("after it", a2)...)
	f.deliver(f.leases("and at last", a3)...)
	_, err = f.l.Drop(f.Context(), d1, "", by)
	f.must(err)
	restart()
	f.deliver(f.leases("when the dead was dropped", d2)...)
	restart()
	f.leases("at the end")
}

// orderMany delivers events of ten thousand keys over restarts, with retries
// and deaths, and counts attempts that came before an earlier one of their
// key was through. The control is the same run with the orders left out.
func orderMany(f *fix) {
	const keys, each = 10_000, 3
	equal(f, "attempts out of turn", orderRun(f, keys, each, true), 0)
	if n := orderRun(f, 200, each, false); n == 0 {
		f.Errorf("without orders nothing is out of turn either: this test proves nothing")
	}
}

// orderRun returns the attempts that were out of turn.
func orderRun(f *fix, keys, each int, tell bool) (inversions int) {
	r := rand.New(rand.NewPCG(1, uint64(keys)))
	run := fmt.Sprint("run", keys, "_")
	want := make([][]event.Ref, keys) // by key, what is not through
	keyOf := map[event.Ref]int{}
	for n := range each {
		f.orderCommit(r, run, n, want, keyOf, tell)
		f.clock.Advance(time.Second)
	}
	for round := 0; len(keyOf) > 0; round++ {
		if round > 100*each {
			f.Fatalf("%d deliveries are never through", len(keyOf))
		}
		var rs []*dedupe.Result
		ls, _, err := f.l.Lease(f.Context(), billing, keys/2, ttl)
		f.must(err)
		for _, l := range ls {
			key, mine := keyOf[l.Delivery.Event]
			if !mine {
				continue
			}
			if want[key][0] != l.Delivery.Event {
				inversions++
			}
			switch r.IntN(10) {
			case 0:
				rs = append(rs, f.result(l, event.Pending, time.Duration(r.IntN(2))*time.Minute))
			case 1: // its lease is lost, or ends with the process
			default:
				state := event.Delivered
				if r.IntN(20) == 0 {
					state = event.Dead // the orders here let those behind go on
				}
				rs = append(rs, f.result(l, state, 0))
				delete(keyOf, l.Delivery.Event)
				want[key] = slices.DeleteFunc(want[key], func(ref event.Ref) bool { return ref == l.Delivery.Event })
			}
		}
		f.finish(rs...)
		f.clock.Advance(time.Minute)
		f.orderRestart(round)
	}
	return inversions
}

// orderCommit writes one event of every key, keys in any order.
func (f *fix) orderCommit(r *rand.Rand, run string, n int, want [][]event.Ref, keyOf map[event.Ref]int, tell bool) {
	f.Helper()
	perm := r.Perm(len(want))
	for len(perm) > 0 {
		part := perm[:min(len(perm), 500)]
		perm = perm[len(part):]
		var reqs []*dedupe.Request
		for _, key := range part {
			it := f.item(run+strings.Repeat("x", n)+fmt.Sprint(key), "{}", billing)
			if tell {
				it.Event.Orders = []event.Order{event.OrderOf(run+fmt.Sprint(key), true)}
			}
			reqs = append(reqs, one(it, "{}"))
		}
		f.commit(reqs...)
		for i, key := range part {
			ref := reqs[i].Outcomes[0].Ref
			want[key] = append(want[key], ref)
			keyOf[ref] = key
		}
	}
}

// orderRestart restarts the ledger now and then.
func (f *fix) orderRestart(round int) {
	f.Helper()
	switch {
	case round%4 == 1:
		f.reopen()
	case round%4 == 3 && f.h.Crash != nil:
		f.l = f.h.Crash(f.TB, f.l)
		f.ready()
	}
}
