package ledgertest

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

// upkeepTests hold what operators do to a ledger.
func upkeepTests() []test {
	return []test{
		{"replay opens a new generation with the same key", replayKey},
		{"replay with a new key", replayNewKey},
		{"replay skips what is open", replayOpen},
		{"replay of one target", replayTarget},
		{"replay by filter, in bounded calls", replayFilter},
		{"a dry run counts the same and changes nothing", replayDry},
		{"reroute", replayReroute},
		{"a replay and its note are one", replayKeep},
		{"replay and cancel again and again", replayCancel},
		{"cancel", cancel},
		{"check finds no fault in a healthy ledger", check},
		{"backup", backup},
		{"health", health},
	}
}

func (f *fix) replay(r dedupe.Replay) dedupe.ReplayCount {
	f.Helper()
	n, err := f.l.Replay(f.Context(), r)
	f.must(err)
	return n
}

func replayKey(f *fix) {
	ref := f.newEvent("evt_1", "{}", billing)
	f.settle(billing, event.Dead)
	key := f.get(ref).Event.Key
	for gen := uint16(1); gen <= 3; gen++ {
		f.clock.Advance(time.Minute)
		n := f.replay(dedupe.Replay{Selection: dedupe.Selection{Ref: ref}})
		equal(f, "events", n.Events, 1)
		equal(f, "opened", n.Opened, 1)
		equal(f, "open", n.Open, 0)
		d := f.delivery(ref, billing)
		equal(f, "generation", d.Generation, gen)
		equal(f, "state", d.State, event.Pending)
		equal(f, "attempts", d.Attempts, 0)
		if !sameTime(d.OpenedAt, f.l.Now()) {
			f.Errorf("opened at %v, want %v", d.OpenedAt, f.l.Now())
		}
		equal(f, "dead", f.stats().Targets[billing].Dead, 0)
		if gen == 2 {
			f.reopen()
		}
		rec := f.get(ref)
		l := f.leaseOne(billing)
		equal(f, "leased generation", l.Delivery.Generation, gen)
		equal(f, "key", l.Delivery.Key(&rec.Event), key)
		loaded, err := f.l.Load(f.Context(), ref)
		f.must(err)
		equal(f, "body", string(loaded.Body), "{}")
		f.finish(f.result(l, []event.State{event.Delivered, event.Dead, event.Cancelled}[gen-1], 0))
	}
	as := f.attempts(ref)
	equal(f, "attempts of all generations", len(as), 4)
	for i, a := range as {
		equal(f, "generation of an attempt", int(a.Generation), i)
		equal(f, "number of an attempt", a.Number, 1)
	}
}

func replayNewKey(f *fix) {
	ref := f.newEvent("evt_1", "{}", billing)
	f.settle(billing, event.Delivered)
	for gen := 1; gen <= 2; gen++ {
		equal(f, "opened", f.replay(dedupe.Replay{Selection: dedupe.Selection{Ref: ref}, NewKey: true}).Opened, 1)
		f.reopen()
		rec, l := f.get(ref), f.leaseOne(billing)
		equal(f, "key", l.Delivery.Key(&rec.Event), fmt.Sprintf("shop:evt_1~r%d", gen))
		f.finish(f.result(l, event.Delivered, 0))
		equal(f, "event's own key", f.get(ref).Event.Key, "shop:evt_1")
	}
}

func replayOpen(f *fix) {
	ref := f.newEvent("evt_1", "{}", billing, crm, "third")
	f.settle(billing, event.Delivered)
	f.leaseOne(crm)
	n := f.replay(dedupe.Replay{Selection: dedupe.Selection{Ref: ref}})
	equal(f, "opened", n.Opened, 1)
	equal(f, "open", n.Open, 2)
	equal(f, "leased one", f.delivery(ref, crm).Generation, 0)
	equal(f, "pending one", f.delivery(ref, "third").Generation, 0)
	n = f.replay(dedupe.Replay{Selection: dedupe.Selection{Ref: ref}})
	equal(f, "opened by a second replay", n.Opened, 0)
	equal(f, "open by then", n.Open, 3)
}

func replayTarget(f *fix) {
	ref := f.newEvent("evt_1", "{}", billing, crm)
	f.settle(billing, event.Dead)
	f.settle(crm, event.Dead)
	equal(f, "opened", f.replay(dedupe.Replay{Selection: dedupe.Selection{Ref: ref}, Target: crm}).Opened, 1)
	equal(f, "the other", f.delivery(ref, billing).State, event.Dead)
	equal(f, "the one", f.delivery(ref, crm).State, event.Pending)
	equal(f, "no such target", f.replay(dedupe.Replay{Selection: dedupe.Selection{Ref: ref}, Target: "none"}).Opened, 0)
}

// replayAll replays in calls of limit events and adds the counts up.
func (f *fix) replayAll(r dedupe.Replay, limit int) dedupe.ReplayCount {
	f.Helper()
	var sum dedupe.ReplayCount
	r.Limit, r.Cursor = limit, ""
	for calls := 0; ; calls++ {
		n := f.replay(r)
		if n.Events > limit {
			f.Fatalf("a call bounded to %d events replayed %d", limit, n.Events)
		}
		sum.Events, sum.Opened = sum.Events+n.Events, sum.Opened+n.Opened
		sum.Open, sum.Pruned = sum.Open+n.Open, sum.Pruned+n.Pruned
		if n.Next == "" {
			return sum
		}
		if calls > 10_000 {
			f.Fatalf("replay never ends")
		}
		r.Cursor = n.Next
	}
}

// mixed writes 30 events to both targets: of billing a third dead, a third
// delivered, a third open; of crm all delivered.
func mixed(f *fix) {
	f.Helper()
	for i := range 30 {
		f.newEvent(fmt.Sprint("evt_", i), "{}", billing, crm)
		f.clock.Advance(time.Second)
	}
	f.settle(crm, event.Delivered)
	var rs []*dedupe.Result
	for i, l := range f.lease(billing, long) {
		rs = append(rs, f.result(l, []event.State{event.Dead, event.Delivered, event.Pending}[i%3], time.Hour))
	}
	f.finish(rs...)
}

func replayFilter(f *fix) {
	mixed(f)
	sel := dedupe.Selection{Filter: dedupe.Filter{Status: event.StatusDead, Target: billing}}
	n := f.replayAll(dedupe.Replay{Selection: sel}, 4)
	equal(f, "events", n.Events, 10)
	equal(f, "opened", n.Opened, 10)
	equal(f, "dead", f.stats().Targets[billing].Dead, 0)
	equal(f, "pending", f.stats().Targets[billing].Pending, 20)
	equal(f, "pending of the other target", f.stats().Targets[crm].Pending, 0)
	equal(f, "due now", len(f.lease(billing, long)), 10)
	n = f.replayAll(dedupe.Replay{Selection: sel}, 4)
	equal(f, "events of a second run", n.Events, 0)

	n = f.replayAll(dedupe.Replay{Selection: dedupe.Selection{Filter: dedupe.Filter{State: "delivered", Target: billing, Source: source}}}, 1000)
	equal(f, "opened by state", n.Opened, 10)
	n = f.replayAll(dedupe.Replay{Selection: dedupe.Selection{Filter: dedupe.Filter{From: start.Add(10 * time.Second), To: start.Add(12 * time.Second)}}}, 1000)
	equal(f, "events by time", n.Events, 2)
	equal(f, "opened by time", n.Opened, 2) // crm's; billing's are all open
	equal(f, "open by time", n.Open, 2)
}

func replayDry(f *fix) {
	mixed(f)
	before := f.events(dedupe.Filter{}, 100)
	for _, r := range [...]dedupe.Replay{
		{}, {Target: billing}, {Selection: dedupe.Selection{Filter: dedupe.Filter{Status: event.StatusDead}}},
		{Selection: dedupe.Selection{Ref: before[4].Event.Ref}}, {Selection: dedupe.Selection{Filter: dedupe.Filter{ID: "evt_3", Source: source}}},
	} {
		dry := r
		dry.DryRun = true
		would := f.replayAll(dry, 7)
		equal(f, "dry run again", f.replayAll(dry, 100), would)
		if len(f.lease(billing, long))+len(f.lease(crm, long)) != 0 {
			f.Fatalf("a dry run opened deliveries")
		}
		equal(f, "records after a dry run", fmt.Sprint(f.events(dedupe.Filter{}, 100)), fmt.Sprint(before))
		did := f.replayAll(r, 7)
		equal(f, "counts", did, would)
		if did.Opened == 0 {
			f.Errorf("%+v opened nothing: the comparison shows nothing", r)
		}
		equal(f, "opened by a second run", f.replayAll(r, 7).Opened, 0)
		f.settle(billing, event.Dead)
		f.settle(crm, event.Delivered)
		before = f.events(dedupe.Filter{}, 100)
	}
}

func replayReroute(f *fix) {
	ref := f.newEvent("evt_1", `{"n":1}`, billing, crm)
	f.settle(billing, event.Dead)
	f.settle(crm, event.Dead)
	var asked []event.Ref
	n := f.replay(dedupe.Replay{
		Selection: dedupe.Selection{Ref: ref},
		Reroute: func(ev *event.Event, body func() ([]byte, error)) []string {
			asked = append(asked, ev.Ref)
			b, err := body()
			equal(f, "its body", string(b), `{"n":1}`)
			equal(f, "fault of its body", err, nil)
			return []string{crm, "warehouse"}
		},
	})
	equal(f, "events asked about", fmt.Sprint(asked), fmt.Sprint([]event.Ref{ref}))
	equal(f, "opened", n.Opened, 2)
	check := func() {
		f.Helper()
		equal(f, "no longer routed", f.delivery(ref, billing).State, event.Dead)
		equal(f, "routed as before", f.delivery(ref, crm).State, event.Pending)
		equal(f, "routed anew", f.delivery(ref, "warehouse").State, event.Pending)
		equal(f, "deliveries", len(f.get(ref).Deliveries), 3)
		equal(f, "the event's targets stay", fmt.Sprint(f.get(ref).Event.Targets), fmt.Sprint([]string{billing, crm}))
	}
	check()
	f.reopen()
	check()
	l := f.leaseOne("warehouse")
	f.finish(f.result(l, event.Delivered, 0))
	equal(f, "landed", f.delivery(ref, "warehouse").State, event.Delivered)
	rows := f.deliveries(dedupe.Filter{Target: "warehouse"}, 10)
	equal(f, "rows of the new target", len(rows), 1)

	unrouted := f.newEvent("evt_2", "{}")
	n = f.replay(dedupe.Replay{Selection: dedupe.Selection{Ref: unrouted}, Reroute: func(*event.Event, func() ([]byte, error)) []string { return []string{billing} }})
	equal(f, "opened of an unrouted event", n.Opened, 1)
	equal(f, "its status", f.get(unrouted).Status, event.StatusPending)
	equal(f, "its lease", f.leaseOne(billing).Delivery.Event, unrouted)
}

// replayCancel closes deliveries while the schedule still holds them.
func replayCancel(f *fix) {
	blocker := f.newEvent("evt_0", "{}", billing)
	ref := f.newEvent("evt_1", "{}", billing)
	for gen := uint16(0); gen < 5; gen++ {
		n, err := f.l.Cancel(f.Context(), ref, billing, by)
		f.must(err)
		equal(f, "cancelled", n, 1)
		equal(f, "pending", f.stats().Targets[billing].Pending, 1)
		equal(f, "opened", f.replay(dedupe.Replay{Selection: dedupe.Selection{Ref: ref}}).Opened, 1)
		equal(f, "pending", f.stats().Targets[billing].Pending, 2)
	}
	ls := f.lease(billing, long)
	if got := refs(ls); !slices.Equal(got, []event.Ref{blocker, ref}) {
		f.Fatalf("leased %v, want each once", got)
	}
	for _, l := range ls {
		if l.Delivery.Event == ref {
			equal(f, "generation", l.Delivery.Generation, 5)
		}
	}
	n, err := f.l.Cancel(f.Context(), ref, "", by)
	f.must(err)
	equal(f, "cancelled while leased", n, 1)
	f.clock.Advance(2 * ttl)
	f.settle(billing, event.Delivered)
	equal(f, "state", f.delivery(ref, billing).State, event.Cancelled)
	equal(f, "attempts recorded", len(f.attempts(ref)), 0)
}

func cancel(f *fix) {
	ref := f.newEvent("evt_1", "{}", billing, crm, "third")
	f.settle("third", event.Delivered)
	f.leaseOne(crm)
	n, err := f.l.Cancel(f.Context(), ref, "none", by)
	f.must(err)
	equal(f, "of a target the event hasn't", n, 0)
	n, err = f.l.Cancel(f.Context(), ref, billing, by)
	f.must(err)
	equal(f, "of one target", n, 1)
	equal(f, "status", f.get(ref).Status, event.StatusPending)
	n, err = f.l.Cancel(f.Context(), ref, "", by)
	f.must(err)
	equal(f, "of the rest", n, 1)
	n, err = f.l.Cancel(f.Context(), ref, "", by)
	f.must(err)
	equal(f, "again", n, 0)
	rec := f.get(ref)
	equal(f, "status", rec.Status, event.StatusCancelled)
	for _, d := range rec.Deliveries {
		want := event.Cancelled
		if d.Target == "third" {
			want = event.Delivered
		}
		equal(f, d.Target, d.State, want)
		equal(f, d.Target+" due time is zero", d.DueAt.IsZero(), true)
	}
	f.clock.Advance(2 * ttl)
	f.reopen()
	equal(f, "leases", len(f.lease(billing, long))+len(f.lease(crm, long)), 0)
	equal(f, "repeat of a cancelled event", f.accept("evt_1", "{}", billing).Verdict, dedupe.Repeat)
}

func check(f *fix) {
	rep, err := f.l.Check(f.Context())
	f.must(err)
	equal(f, "faults of an empty ledger", len(rep.Faults), 0)
	mixed(f)
	equal(f, "opened", f.replay(dedupe.Replay{Target: crm}).Opened, 30)
	big := pattern(3*f.h.ChunkSize+7, 1)
	f.newEvent("big", big)
	for _, again := range [...]bool{false, true} {
		rep, err = f.l.Check(f.Context())
		f.must(err)
		if len(rep.Faults) > 0 {
			f.Fatalf("faults: %v", rep.Faults)
		}
		equal(f, "events", rep.Events, 31)
		equal(f, "bodies", rep.Bodies, 31)
		equal(f, "attempts", rep.Attempts, 60)
		equal(f, "claims", rep.Claims, 31)
		if rep.Heads == 0 {
			f.Errorf("no heads counted")
		}
		if !again {
			f.reopen()
		}
	}
}

func backup(f *fix) {
	mixed(f)
	var buf bytes.Buffer
	f.must(f.l.Backup(f.Context(), &buf))
	if buf.Len() == 0 {
		f.Fatalf("an empty backup")
	}
	broken := errors.New("no space on the backup's disk")
	if err := f.l.Backup(f.Context(), failingWriter{broken}); !errors.Is(err, broken) {
		f.Errorf("backup to a failing writer: %v, want %v", err, broken)
	}
	if f.h.Restore == nil {
		f.Logf("restore is not tested: the harness has none")
		return
	}
	want := f.events(dedupe.Filter{}, 100)
	f.must(f.l.Close())
	f.l = f.h.Restore(f.TB, &buf, f.opts)
	f.ready()
	got := f.events(dedupe.Filter{}, 100)
	equal(f, "events restored", len(got), len(want))
	for i := range got {
		if diff := sameEvent(got[i].Event, want[i].Event); diff != "" {
			f.Fatalf("restored event: %s", diff)
		}
		equal(f, "status", got[i].Status, want[i].Status)
		equal(f, "body", string(f.body(got[i].Event.Ref)), "{}")
	}
	equal(f, "a repeat after restore", f.accept("evt_0", "{}").Verdict, dedupe.Repeat)
	fresh := f.newEvent("after", "{}", billing)
	if fresh.Writer() == want[0].Event.Ref.Writer() || fresh.Compare(want[0].Event.Ref) <= 0 {
		f.Errorf("ref after restore %s: want a later one of another writer than %s", fresh, want[0].Event.Ref)
	}
	f.clock.Advance(2 * time.Hour)
	equal(f, "open deliveries restored", len(f.lease(billing, long)), 11)
}

type failingWriter struct{ err error }

func (w failingWriter) Write([]byte) (int, error) { return 0, w.err }

func health(f *fix) {
	f.must(f.l.Health(f.Context()))
	f.newEvent("evt_1", "{}", billing)
	f.must(f.l.Health(f.Context()))
	f.must(f.l.Close())
	if err := f.l.Health(f.Context()); err == nil {
		f.Errorf("a closed ledger is healthy")
	}
	_, err := f.l.Get(f.Context(), event.Ref{1})
	f.want(err, dedupe.ErrClosed)
	_, _, err = f.l.Lease(f.Context(), billing, 1, ttl)
	f.want(err, dedupe.ErrClosed)
	if err := f.l.Commit(f.Context(), &dedupe.Batch{Requests: []*dedupe.Request{one(f.item("evt_2", "{}"), "{}")}}); err == nil {
		f.Errorf("a closed ledger took a batch")
	}
}
