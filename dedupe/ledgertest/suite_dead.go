package ledgertest

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

// deadTests hold what becomes of dead letters.
func deadTests() []test {
	return []test{
		{"dropped dead letters are cancelled", dropDead},
		{"a dropped dead letter can be replayed", dropReplayed},
		{"what is dropped stays dropped after a restart", func(f *fix) { dropRestart(f, f.reopen) }},
		{"what is dropped stays dropped after a kill", func(f *fix) { crashed(f, dropRestart) }},
		{"phases of attempts are kept", phasesKept},
		{"a lease says how large the body is", leaseSize},
	}
}

func (f *fix) drop(ref event.Ref, target string) int {
	f.Helper()
	n, err := f.l.Drop(f.Context(), ref, target, by)
	f.must(err)
	return n
}

func (f *fix) deadOf(target string) int64 {
	f.Helper()
	st, err := f.l.Stats(f.Context())
	f.must(err)
	return st.Targets[target].Dead
}

func dropDead(f *fix) {
	ref := f.newEvent("evt_1", "{}", billing, crm, "third", "fourth")
	other := f.newEvent("evt_2", "{}", billing)
	f.settle(billing, event.Dead)
	f.settle(billing, event.Dead)
	f.settle(crm, event.Dead)
	f.settle("third", event.Delivered)
	equal(f, "of a target the event hasn't", f.drop(ref, "none"), 0)
	equal(f, "of one that was delivered", f.drop(ref, "third"), 0)
	equal(f, "of one that is open", f.drop(ref, "fourth"), 0)
	equal(f, "of one target", f.drop(ref, billing), 1)
	equal(f, "dead of billing", f.deadOf(billing), 1)
	equal(f, "of the rest", f.drop(ref, ""), 1)
	equal(f, "again", f.drop(ref, ""), 0)
	equal(f, "dead of crm", f.deadOf(crm), 0)
	want := map[string]event.State{billing: event.Cancelled, crm: event.Cancelled, "third": event.Delivered, "fourth": event.Pending}
	for _, d := range f.get(ref).Deliveries {
		equal(f, d.Target, d.State, want[d.Target])
		if d.State == event.Cancelled {
			equal(f, d.Target+" attempts", d.Attempts, 1)
		}
	}
	equal(f, "the other event's", f.get(other).Deliveries[0].State, event.Dead)
	page, err := f.l.Deliveries(f.Context(), dedupe.Filter{State: "dead"}, "", 10)
	f.must(err)
	if len(page.Items) != 1 || page.Items[0].Event != other {
		f.Errorf("dead letters = %+v, want the other event's alone", page.Items)
	}
	if _, err := f.l.Drop(f.Context(), event.NewRef(1, 1, 1), "", by); !errors.Is(err, dedupe.ErrNotFound) {
		f.Errorf("of an event that isn't: %v", err)
	}
}

func dropReplayed(f *fix) {
	ref := f.newEvent("evt_1", "{}", billing)
	f.settle(billing, event.Dead)
	equal(f, "dropped", f.drop(ref, ""), 1)
	n, err := f.l.Replay(f.Context(), dedupe.Replay{Selection: dedupe.Selection{Ref: ref}, By: by})
	f.must(err)
	equal(f, "opened", n.Opened, 1)
	equal(f, "dead", f.deadOf(billing), 0)
	f.settle(billing, event.Dead)
	equal(f, "dead again", f.deadOf(billing), 1)
}

func dropRestart(f *fix, again func()) {
	ref := f.newEvent("evt_1", "{}", billing, crm)
	f.settle(billing, event.Dead)
	f.settle(crm, event.Dead)
	equal(f, "dropped", f.drop(ref, billing), 1)
	again()
	equal(f, "dead of billing", f.deadOf(billing), 0)
	equal(f, "dead of crm", f.deadOf(crm), 1)
	for _, d := range f.get(ref).Deliveries {
		equal(f, d.Target, d.State, map[string]event.State{billing: event.Cancelled, crm: event.Dead}[d.Target])
	}
	rep, err := f.l.Check(f.Context())
	f.must(err)
	equal(f, "faults", len(rep.Faults), 0)
}

// phasesKept tries every set of phases, short and long.
func phasesKept(f *fix) {
	var want []event.Phases
	ref := f.newEvent("evt_1", "{}", billing)
	for set := range 16 {
		var p event.Phases
		for i, to := range []*time.Duration{&p.DNS, &p.Connect, &p.TLS, &p.FirstByte} {
			if set&(1<<i) != 0 {
				*to = time.Duration(1+set*set*set*1000+i) * time.Microsecond
			}
		}
		l := f.leaseOne(billing)
		r := f.result(l, event.Pending, 0)
		r.Attempt.Phases = p
		f.finish(r)
		want = append(want, p)
	}
	f.reopen()
	as, err := f.l.Attempts(f.Context(), ref)
	f.must(err)
	equal(f, "attempts", len(as), len(want))
	for i := range min(len(as), len(want)) {
		equal(f, fmt.Sprint("phases of attempt ", i+1), as[i].Phases, want[i])
	}
}

// leaseSize tries a first attempt, a lease given back, a retry, a replay and a
// restart.
func leaseSize(f *fix) {
	body := strings.Repeat("b", 1234)
	ref := f.newEvent("evt_1", body, billing)
	hold := func(what string) dedupe.Lease {
		f.Helper()
		l := f.leaseOne(billing)
		equal(f, what+": size", l.Size, int64(len(body)))
		return l
	}
	l := hold("first attempt")
	f.must(f.l.Release(f.Context(), l))
	hold("given back")
	f.reopen()
	f.settle(billing, event.Pending)
	f.clock.Advance(2 * ttl)
	hold("retry")
	f.reopen()
	f.settle(billing, event.Delivered)
	_, err := f.l.Replay(f.Context(), dedupe.Replay{Selection: dedupe.Selection{Ref: ref}, By: by})
	f.must(err)
	hold("replay")
}
