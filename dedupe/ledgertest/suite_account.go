package ledgertest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

// accountTests hold what people are shown.
func accountTests() []test {
	return []test{
		{"events newest first in pages of any size", accountEvents},
		{"cursors are stable under inserts", accountStable},
		{"filters of events", accountFilters},
		{"filters of deliveries", accountDeliveries},
		{"filters of what was carried", accountCarried},
		{"what its first attempt closed is found by its state", accountClosed},
		{"a selective filter still comes to its end", accountSparse},
		{"cursors that are none", accountCursor},
		{"lookup", accountLookup},
		{"get", accountGet},
		{"attempts oldest first", accountAttempts},
		{"stats", accountStats},
		{"tallies", accountTally},
	}
}

func accountClosed(f *fix) {
	want := map[event.State]event.Ref{}
	for _, state := range [...]event.State{event.Delivered, event.Dead, event.Cancelled} {
		want[state] = f.newEvent("evt_"+state.String(), "{}", billing)
		r := f.result(f.leaseOne(billing), state, 0)
		r.Attempt.State = state
		f.finish(r)
	}
	for _, again := range [...]func(){func() {}, f.reopen} {
		again()
		for state, ref := range want {
			rows := f.deliveries(dedupe.Filter{State: state.String()}, 10)
			if len(rows) != 1 || rows[0].Delivery.Event != ref || rows[0].Delivery.State != state {
				f.Errorf("deliveries that are %s: %v, want that of %s", state, rows, ref)
			}
			if got := recordRefs(f.events(dedupe.Filter{Status: event.Status(state.String())}, 10)); !slices.Equal(got, []event.Ref{ref}) {
				f.Errorf("events that are %s: %v, want %s", state, got, ref)
			}
		}
	}
}

// populate writes n events over a few hours: sources a and b, types, targets
// and states in turn. It returns them oldest first.
func populate(f *fix, n int) []event.Ref {
	f.Helper()
	var all []event.Ref
	for i := range n {
		it := f.item(fmt.Sprint("evt_", i), "{}", [][]string{{billing}, {billing, crm}, nil}[i%3]...)
		it.Event.Source = []string{"a", "b"}[i%2]
		it.Claim = dedupe.KeyOf(dedupe.KindID, it.Event.Source, "", it.RawID)
		it.Event.Type = []string{"order.paid", "order.shipped", "customer.new", ""}[i%4]
		o := f.acceptItem(it, "{}")
		all = append(all, o.Ref)
		if i%5 == 0 {
			f.settle(billing, []event.State{event.Delivered, event.Dead}[i%2])
		}
		f.clock.Advance(time.Minute)
	}
	return all
}

func accountEvents(f *fix) {
	all := reversed(populate(f, 37))
	for _, limit := range [...]int{1, 2, 7, 36, 37, 38, 500} {
		got := recordRefs(f.events(dedupe.Filter{}, limit))
		if !slices.Equal(got, all) {
			f.Fatalf("pages of %d: %v, want %v", limit, got, all)
		}
	}
	f.reopen()
	for i, rec := range f.events(dedupe.Filter{}, 10) {
		one := f.get(all[i])
		if diff := sameEvent(rec.Event, one.Event); diff != "" {
			f.Fatalf("listed and single event differ: %s", diff)
		}
		equal(f, "status", rec.Status, one.Status)
		equal(f, "deliveries", fmt.Sprint(byTarget(rec.Deliveries)), fmt.Sprint(byTarget(one.Deliveries)))
	}
}

func accountStable(f *fix) {
	all := reversed(populate(f, 20))
	p, err := f.l.Events(f.Context(), dedupe.Filter{}, "", 8)
	f.must(err)
	d, err := f.l.Deliveries(f.Context(), dedupe.Filter{}, "", 8)
	f.must(err)
	rows := f.deliveries(dedupe.Filter{}, 100)
	got, gotRows := recordRefs(p.Items), d.Items
	for i := 0; p.Next != "" || d.Next != ""; i++ {
		f.newEvent(fmt.Sprint("new_", i), "{}", billing)
		if i == 1 {
			f.reopen()
		}
		if p.Next != "" {
			p, err = f.l.Events(f.Context(), dedupe.Filter{}, p.Next, 5)
			f.must(err)
			got = append(got, recordRefs(p.Items)...)
		}
		if d.Next != "" {
			d, err = f.l.Deliveries(f.Context(), dedupe.Filter{}, d.Next, 5)
			f.must(err)
			gotRows = append(gotRows, d.Items...)
		}
	}
	if !slices.Equal(got, all) {
		f.Errorf("events listed while others arrived: %v, want %v", got, all)
	}
	equal(f, "deliveries listed while others arrived", ids(gotRows), ids(rows))
}

func ids(rows []dedupe.DeliveryRow) string {
	var out []string
	for _, r := range rows {
		out = append(out, r.ID)
	}
	return strings.Join(out, " ")
}

// filters are tried on events and on deliveries.
func filters() []dedupe.Filter {
	at := func(m int) time.Time { return start.Add(time.Duration(m) * time.Minute) }
	return []dedupe.Filter{
		{}, {Source: "a"}, {Source: "none"}, {Type: "order.paid"}, {Type: "order.*"}, {Type: "*"}, {Type: "*er*w"}, {Type: "order"},
		{Status: event.StatusPending}, {Status: event.StatusDelivered}, {Status: event.StatusDead}, {Status: event.StatusUnrouted},
		{Status: event.StatusCancelled}, {Target: crm}, {Target: billing}, {Target: "none"}, {Source: "b", ID: "evt_7"},
		{Source: "a", ID: "evt_7"}, {Source: "a", ID: "evt_"}, {From: at(5)}, {To: at(5)}, {From: at(5), To: at(9)}, {From: at(9), To: at(5)},
		{Source: "b", Type: "order.*", Target: billing, From: at(3), To: at(30)},
		{State: "pending"}, {State: "dead"}, {State: "delivered", Target: billing}, {State: "leased"}, {State: "cancelled"},
		{Status: event.StatusDead, Target: crm}, {Status: event.StatusPending, Target: crm}, {Status: event.StatusPending, Source: "a"},
		{Status: event.StatusCancelled, Target: billing}, {Status: event.StatusDead, Type: "order.*", Source: "b"}, {Status: event.StatusPending, To: at(20)},
		{Status: event.StatusUnrouted, Source: "a"}, {Status: event.StatusUnrouted, Target: billing}, {Status: event.StatusPending, From: at(20), Target: billing},
		{State: "pending", Target: crm}, {State: "leased", Target: crm}, {State: "leased", Target: billing}, {State: "dead", Target: crm},
		{State: "pending", Status: event.StatusDead}, {State: "dead", Status: event.StatusPending}, {State: "cancelled", Target: crm},
		{State: "delivered", Status: event.StatusPending, Source: "b"},
	}
}

func accountFilters(f *fix) {
	all := reversed(populate(f, 40))
	_, err := f.l.Cancel(f.Context(), all[3], "", by)
	f.must(err)
	for _, flt := range filters() {
		if flt.State != "" {
			continue // of deliveries only
		}
		var want []event.Ref
		for _, ref := range all {
			if rec := f.get(ref); naive(flt, rec) && naiveStatus(flt, rec) && naiveTarget(flt, rec) {
				want = append(want, ref)
			}
		}
		for _, limit := range [...]int{3, 100} {
			if got := recordRefs(f.events(flt, limit)); !slices.Equal(got, want) {
				f.Errorf("%+v in pages of %d: %v, want %v", flt, limit, got, want)
			}
		}
	}
}

// naive is the filter in other words than the product's.
func naive(flt dedupe.Filter, rec dedupe.Record) bool {
	ev := rec.Event
	typeOK := map[string][]string{
		"": {"order.paid", "order.shipped", "customer.new", ""}, "*": {"order.paid", "order.shipped", "customer.new", ""},
		"order.*": {"order.paid", "order.shipped"}, "order.paid": {"order.paid"}, "*er*w": {"customer.new"}, "order": nil,
	}[flt.Type]
	inTime := !(ev.ReceivedAt.Before(flt.From) && !flt.From.IsZero()) && (flt.To.IsZero() || ev.ReceivedAt.Before(flt.To))
	return (flt.Source == "" || ev.Source == flt.Source) && slices.Contains(typeOK, ev.Type) &&
		(flt.ID == "" || ev.ID == flt.ID) && inTime
}

func naiveStatus(flt dedupe.Filter, rec dedupe.Record) bool {
	return flt.Status == "" || event.StatusOf(rec.Deliveries) == flt.Status
}

func naiveTarget(flt dedupe.Filter, rec dedupe.Record) bool {
	return flt.Target == "" || slices.ContainsFunc(rec.Deliveries, func(d event.Delivery) bool { return d.Target == flt.Target })
}

func accountDeliveries(f *fix) {
	all := reversed(populate(f, 40))
	f.lease(crm, 3)
	_, err := f.l.Cancel(f.Context(), all[3], "", by)
	f.must(err)
	_, err = f.l.Replay(f.Context(), dedupe.Replay{Selection: dedupe.Selection{Filter: dedupe.Filter{Status: event.StatusDead}}, NewKey: true})
	f.must(err)
	for _, flt := range filters() {
		var want []string
		for _, ref := range all {
			rec := f.get(ref)
			for _, d := range byTarget(rec.Deliveries) {
				if naive(flt, rec) && naiveStatus(flt, rec) && (flt.Target == "" || flt.Target == d.Target) && (flt.State == "" || flt.State == d.State.String()) {
					want = append(want, d.DeliveryID())
				}
			}
		}
		for _, limit := range [...]int{1, 3, 100} {
			rows := f.deliveries(flt, limit)
			if got := ids(ordered(rows)); got != strings.Join(want, " ") {
				f.Errorf("%+v in pages of %d: %v, want %v", flt, limit, got, want)
			}
			if !slices.IsSortedFunc(rows, func(a, b dedupe.DeliveryRow) int { return b.Event.Compare(a.Event) }) {
				f.Errorf("%+v: not newest first: %v", flt, ids(rows))
			}
		}
	}
	for _, r := range f.deliveries(dedupe.Filter{}, 100) {
		rec := f.get(r.Event)
		equal(f, "row's delivery", fmt.Sprint(r.Delivery), fmt.Sprint(f.delivery(r.Event, r.Target)))
		equal(f, "row's key", r.Key, r.Delivery.Key(&rec.Event))
		equal(f, "row's source", r.Source, rec.Event.Source)
		equal(f, "row's event ID", r.EventID, rec.Event.ID)
		equal(f, "row's type", r.Type, rec.Event.Type)
		equal(f, "row's time", r.ReceivedAt.Equal(rec.Event.ReceivedAt), true)
	}
}

// accountCarried holds that a listing finds what retention kept because it was
// open, under every state, and in its order.
func accountCarried(f *fix) {
	var all []event.Ref
	round := func(n int) []event.Ref {
		var refs []event.Ref
		for i := range 7 {
			refs = append(refs, f.newEvent(fmt.Sprintf("evt_%d_%d", n, i), "{}", billing, crm))
			f.clock.Advance(time.Minute)
		}
		byRef := map[event.Ref]dedupe.Lease{}
		for _, l := range f.lease(billing, 100) {
			byRef[l.Delivery.Event] = l
		}
		f.finish(f.result(byRef[refs[0]], event.Dead, 0), f.result(byRef[refs[1]], event.Dead, 0), f.result(byRef[refs[2]], event.Delivered, 0),
			f.result(byRef[refs[3]], event.Pending, 1000*time.Hour))
		_, err := f.l.Cancel(f.Context(), refs[0], crm, by)
		f.must(err)
		_, err = f.l.Cancel(f.Context(), refs[5], billing, by)
		f.must(err)
		_, err = f.l.Cancel(f.Context(), refs[6], "", by)
		f.must(err)
		return refs
	}
	first := round(0)
	f.clock.Advance(retention.Meta / 2)
	second := round(1)
	f.clock.Advance(past(retention.Meta) - retention.Meta/2)
	f.expire()
	all = append(all, first[1:6]...) // nothing of the others was open
	all = append(all, second...)
	all = append(all, round(2)...)
	check := func() {
		f.Helper()
		newest := reversed(all)
		for _, status := range [...]event.Status{"", event.StatusPending, event.StatusDead, event.StatusCancelled, event.StatusDelivered} {
			for _, state := range [...]string{"", "pending", "leased", "delivered", "dead", "cancelled"} {
				for _, target := range [...]string{"", billing, crm, "none"} {
					flt := dedupe.Filter{Status: status, State: state, Target: target}
					var want []string
					for _, ref := range newest {
						rec := f.get(ref)
						for _, d := range byTarget(rec.Deliveries) {
							if naiveStatus(flt, rec) && (target == "" || target == d.Target) && (state == "" || state == d.State.String()) {
								want = append(want, d.DeliveryID())
							}
						}
					}
					for _, limit := range [...]int{2, 100} {
						if got := ids(ordered(f.deliveries(flt, limit))); got != strings.Join(want, " ") {
							f.Errorf("%+v in pages of %d: %v, want %v", flt, limit, got, want)
						}
					}
				}
			}
		}
		equal(f, "events", fmt.Sprint(recordRefs(f.events(dedupe.Filter{}, 4))), fmt.Sprint(newest))
	}
	check()
	f.reopen()
	check()
	f.lease(crm, 4)
	check()
}

// ordered sorts the rows of each event by target; their order isn't promised.
func ordered(rows []dedupe.DeliveryRow) []dedupe.DeliveryRow {
	out := slices.Clone(rows)
	slices.SortStableFunc(out, func(a, b dedupe.DeliveryRow) int {
		if c := b.Event.Compare(a.Event); c != 0 {
			return c
		}
		return strings.Compare(a.Target, b.Target)
	})
	return out
}

func accountSparse(f *fix) {
	needle := f.item("needle", "{}", crm)
	needle.Event.Type = "rare"
	ref := f.acceptItem(needle, "{}").Ref
	for b := range 5 {
		var reqs []*dedupe.Request
		for i := range 600 {
			reqs = append(reqs, one(f.item(fmt.Sprintf("evt_%d_%d", b, i), "{}", billing), "{}"))
		}
		f.commit(reqs...)
		f.clock.Advance(time.Minute)
	}
	for _, flt := range [...]dedupe.Filter{{Type: "rare"}, {Target: crm}, {Source: source, ID: "needle"}, {To: start.Add(time.Second), Type: "r*"}} {
		if got := recordRefs(f.events(flt, 10)); !slices.Equal(got, []event.Ref{ref}) {
			f.Errorf("%+v: %v, want %s", flt, got, ref)
		}
	}
	equal(f, "deliveries of the rare target", len(f.deliveries(dedupe.Filter{Target: crm}, 10)), 1)
	equal(f, "all events", len(f.events(dedupe.Filter{}, 500)), 3001)
	p, err := f.l.Events(f.Context(), dedupe.Filter{}, "", 1<<30)
	f.must(err)
	if len(p.Items) > 2000 {
		f.Errorf("one page holds %d events: it isn't bounded", len(p.Items))
	}
}

func accountCursor(f *fix) {
	populate(f, 3)
	for _, cursor := range [...]string{"x", "01ARZ3NDEKTSV4RRFFQ69G5FA", "'; --", "\x00"} {
		if _, err := f.l.Events(f.Context(), dedupe.Filter{}, cursor, 5); err == nil {
			f.Errorf("events took cursor %q", cursor)
		}
		if _, err := f.l.Deliveries(f.Context(), dedupe.Filter{}, cursor, 5); err == nil {
			f.Errorf("deliveries took cursor %q", cursor)
		}
	}
}

func accountLookup(f *fix) {
	find := func(id string, sources ...string) []event.Ref {
		f.Helper()
		got, err := f.l.Lookup(f.Context(), sources, id)
		f.must(err)
		return got
	}
	put := func(src, id string) event.Ref {
		f.Helper()
		it := f.item(id, "{}")
		it.Event.Source, it.Claim = src, dedupe.KeyOf(dedupe.KindID, src, "", id)
		it.Event.ID, _ = dedupe.FrameID(id)
		return f.acceptItem(it, "{}").Ref
	}
	want := func(what string, got []event.Ref, refs ...event.Ref) {
		f.Helper()
		if !slices.Equal(got, refs) {
			f.Errorf("%s: %v, want %v", what, got, refs)
		}
	}
	long, odd := strings.Repeat("x", dedupe.MaxID+1), "id\nwith a line break"
	a1, b1 := put("a", "evt_1"), put("b", "evt_1")
	put("a", "evt_10")
	aLong, aOdd, aSlash := put("a", long), put("a", odd), put("a", "x/../y ü")
	want("in one source", find("evt_1", "a"), a1)
	want("in two", find("evt_1", "a", "b"), b1, a1)
	want("in two, other order", find("evt_1", "b", "a"), b1, a1)
	want("unknown source", find("evt_1", "c"))
	want("in every source", find("evt_1", ""), b1, a1)
	want("in one and every source", find("evt_1", "a", ""), b1, a1)
	want("unknown ID in every source", find("evt_2", ""))
	want("unknown ID", find("evt_2", "a", "b"))
	want("part of an ID", find("evt_", "a", "b"))
	want("in no source", find("evt_1"))
	want("long ID", find(long, "a"), aLong)
	want("ID with a line break", find(odd, "a"), aOdd)
	want("ID with a slash", find("x/../y ü", "a"), aSlash)

	f.clock.Advance(window + time.Minute)
	f.expire()
	want("after the claim is gone", find("evt_1", "a"), a1)
	a2 := put("a", "evt_1")
	want("two events of one ID", find("evt_1", "a"), a2, a1)
	f.reopen()
	want("after reopen", find("evt_1", "a", "b"), a2, b1, a1)
	want("in every source after reopen", find("evt_1", ""), a2, b1, a1)
	want("events of an ID alone", recordRefs(f.events(dedupe.Filter{ID: "evt_1"}, 10)), a2, b1, a1)
}

func accountGet(f *fix) {
	ref := f.newEvent("evt_1", "{}", billing)
	f.get(ref)
	foreign := event.NewRef(ref.Milli(), ref.Counter(), ref.Writer()^1)
	for name, none := range map[string]event.Ref{"zero": {}, "of another ledger": foreign, "not given yet": ref.Next(ref.Milli() + 60_000)} {
		_, err := f.l.Get(f.Context(), none)
		if err == nil {
			f.Fatalf("Get of a ref that is %s succeeded", name)
		}
		f.want(err, dedupe.ErrNotFound)
		_, err = f.l.Body(f.Context(), none)
		f.want(err, dedupe.ErrNotFound)
		_, err = f.l.Attempts(f.Context(), none)
		f.want(err, dedupe.ErrNotFound)
		_, err = f.l.Cancel(f.Context(), none, "", by)
		f.want(err, dedupe.ErrNotFound)
		if !none.IsZero() {
			_, err = f.l.Replay(f.Context(), dedupe.Replay{Selection: dedupe.Selection{Ref: none}})
			f.want(err, dedupe.ErrNotFound)
		}
	}
}

func accountAttempts(f *fix) {
	ref := f.newEvent("evt_1", "{}", billing, crm)
	equal(f, "attempts before any", len(f.attempts(ref)), 0)
	var want []event.Attempt
	for i := range 5 {
		target := []string{crm, billing}[i%2]
		res := f.result(f.leaseOne(target), event.Pending, time.Second)
		res.Attempt.Error = fmt.Sprint("attempt ", i)
		res.Attempt.Response = []byte(strings.Repeat("r", i*1000))
		f.finish(res)
		want = append(want, res.Attempt)
		f.clock.Advance(time.Minute)
	}
	f.newEvent("evt_2", "{}", "third")
	f.settle("third", event.Dead)
	check := func() {
		f.Helper()
		got := f.attempts(ref)
		equal(f, "attempts", len(got), len(want))
		for i := range got {
			if diff := sameAttempt(got[i], want[i]); diff != "" {
				f.Errorf("attempt %d: %s", i, diff)
			}
		}
	}
	check()
	f.reopen()
	check()
}

func accountStats(f *fix) {
	st := f.stats()
	equal(f, "events at first", st.Events, 0)
	equal(f, "last ref at first", st.LastRef.IsZero(), true)
	equal(f, "read only", st.ReadOnly, false)
	first := f.l.Now()
	for i := range 6 {
		f.newEvent(fmt.Sprint("evt_", i), "{}", billing)
		f.clock.Advance(time.Second)
	}
	ls := f.lease(billing, 4)
	f.finish(f.result(ls[0], event.Delivered, 0), f.result(ls[1], event.Dead, 0))
	st = f.stats()
	b := st.Targets[billing]
	equal(f, "pending", b.Pending, 2)
	equal(f, "leased", b.Leased, 2)
	equal(f, "dead", b.Dead, 1)
	if !sameTime(b.Oldest, first.Add(2*time.Second)) {
		f.Errorf("oldest = %v, want %v", b.Oldest, first.Add(2*time.Second))
	}
	equal(f, "events", st.Events, 6)
	equal(f, "batches", st.Batches, 7)
	for _, l := range ls[2:] {
		_, err := f.l.Cancel(f.Context(), l.Delivery.Event, "", by)
		f.must(err)
	}
	b = f.stats().Targets[billing]
	equal(f, "leased after cancel", b.Leased, 0)
	equal(f, "pending after cancel", b.Pending, 2)
	pending := f.events(dedupe.Filter{Status: event.StatusPending}, 10)
	_, err := f.l.Cancel(f.Context(), pending[1].Event.Ref, "", by)
	f.must(err)
	b = f.stats().Targets[billing]
	equal(f, "pending after another cancel", b.Pending, 1)
	if !sameTime(b.Oldest, first.Add(5*time.Second)) {
		f.Errorf("oldest after cancel = %v, want %v", b.Oldest, first.Add(5*time.Second))
	}
	f.reopen()
	st = f.stats()
	equal(f, "events after reopen", st.Events, 6)
	equal(f, "pending after reopen", st.Targets[billing].Pending, 1)
	equal(f, "dead after reopen", st.Targets[billing].Dead, 1)
}

func accountTally(f *fix) {
	ref := f.newEvent("evt_1", "{}")
	other := f.newEvent("evt_2", "{}")
	var reqs []*dedupe.Request
	for i := range 20 {
		body := []string{"{}", "{1}"}[i%2]
		reqs = append(reqs, one(f.item("evt_1", body), body))
	}
	f.commit(reqs...)
	f.accept("evt_1", "{}")
	check := func() {
		f.Helper()
		tally := f.get(ref).Tally
		equal(f, "repeats", tally.Repeats, 11)
		equal(f, "conflicts", tally.Conflicts, 10)
		equal(f, "other's tally", f.get(other).Tally, event.Tally{})
		equal(f, "tally in the list", f.events(dedupe.Filter{}, 10)[1].Tally.Repeats, 11)
	}
	check()
	f.reopen()
	check()
}
