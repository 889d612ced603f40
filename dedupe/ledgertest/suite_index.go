package ledgertest

import (
	"fmt"
	"slices"
	"time"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

// indexTests hold what is found by the fields that a source had extracted.
func indexTests() []test {
	return []test{
		{"events are found by an indexed field", indexFinds},
		{"name and value are exact", indexExact},
		{"with the other conditions of a filter", indexWith},
		{"a page begins where the one before ended", indexPages},
		{"indexed fields outlive a restart", indexRestart},
		{"what retention took is not found", indexRetention},
		{"an event that is carried is found", indexCarried},
		{"a replay by an indexed field", indexReplay},
	}
}

// indexed writes an event with indexed fields, given as name and value in turn.
func (f *fix) indexed(id, src string, fields ...string) event.Ref {
	f.Helper()
	it := f.item(id, "{}", billing)
	it.Event.Source = src
	it.Claim = dedupe.KeyOf(dedupe.KindID, src, "", id)
	for i := 0; i < len(fields); i += 2 {
		it.Event.Index = append(it.Event.Index, event.Field{Name: fields[i], Value: fields[i+1]})
	}
	o := f.acceptItem(it, "{}")
	equal(f, "verdict of "+id, o.Verdict, dedupe.New)
	return o.Ref
}

// wantFound fails unless the filter selects exactly these, in this order.
func (f *fix) wantFound(what string, flt dedupe.Filter, want ...event.Ref) {
	f.Helper()
	if got := recordRefs(f.events(flt, 3)); !slices.Equal(got, want) {
		f.Fatalf("%s: found %v, want %v", what, got, want)
	}
	var rows []event.Ref
	for _, r := range f.deliveries(flt, 3) {
		rows = append(rows, r.Delivery.Event)
	}
	if !slices.Equal(rows, want) {
		f.Fatalf("%s: deliveries of %v, want %v", what, rows, want)
	}
}

func indexFinds(f *fix) {
	a := f.indexed("evt_1", "shop", "customer", "cus_9", "plan", "pro")
	f.indexed("evt_2", "shop", "customer", "cus_8", "plan", "free")
	b := f.indexed("evt_3", "shop", "customer", "cus_9")
	c := f.indexed("evt_4", "till", "customer", "cus_9")
	f.newEvent("evt_5", "{}", billing)
	f.wantFound("of all sources", dedupe.Filter{Field: "customer", Value: "cus_9"}, c, b, a)
	f.wantFound("of one source", dedupe.Filter{Source: "shop", Field: "customer", Value: "cus_9"}, b, a)
	f.wantFound("by its second field", dedupe.Filter{Field: "plan", Value: "pro"}, a)
	want := []event.Field{{Name: "customer", Value: "cus_9"}, {Name: "plan", Value: "pro"}}
	if got := f.get(a).Event.Index; !slices.Equal(got, want) {
		f.Errorf("indexed fields read back as %v, want %v", got, want)
	}
	if got := f.events(dedupe.Filter{Field: "plan", Value: "pro"}, 1)[0].Event.Index; !slices.Equal(got, want) {
		f.Errorf("indexed fields are listed as %v, want %v", got, want)
	}
}

func indexExact(f *fix) {
	f.indexed("evt_1", "shop", "customer", "cus_9")
	empty := f.indexed("evt_2", "shop", "customer", "")
	odd := f.indexed("evt_3", "shop", "customer", "a\x00b\xff=é")
	for _, v := range []string{"cus_", "cus_99", "CUS_9", "*", "cus_*"} {
		f.wantFound("value "+v, dedupe.Filter{Field: "customer", Value: v})
	}
	for _, n := range []string{"custome", "customerc", "Customer", "*"} {
		f.wantFound("name "+n, dedupe.Filter{Field: n, Value: "cus_9"})
	}
	// What is before and behind the border of name and value must not run together.
	f.wantFound("a shifted border", dedupe.Filter{Field: "customerc", Value: "us_9"})
	f.wantFound("an empty value", dedupe.Filter{Field: "customer"}, empty)
	f.wantFound("any bytes", dedupe.Filter{Field: "customer", Value: "a\x00b\xff=é"}, odd)
}

func indexWith(f *fix) {
	a := f.indexed("evt_1", "shop", "customer", "cus_9")
	f.settle(billing, event.Dead)
	f.clock.Advance(time.Hour)
	b := f.indexed("evt_2", "shop", "customer", "cus_9")
	f.settle(billing, event.Delivered)
	f.indexed("evt_3", "shop", "customer", "cus_8")
	f.settle(billing, event.Dead)
	by := func(change func(*dedupe.Filter)) dedupe.Filter {
		flt := dedupe.Filter{Field: "customer", Value: "cus_9"}
		change(&flt)
		return flt
	}
	f.wantFound("dead ones", by(func(x *dedupe.Filter) { x.Status = event.StatusDead }), a)
	f.wantFound("from", by(func(x *dedupe.Filter) { x.From = start.Add(time.Minute) }), b)
	f.wantFound("to", by(func(x *dedupe.Filter) { x.To = start.Add(time.Minute) }), a)
	f.wantFound("by ID as well", by(func(x *dedupe.Filter) { x.Source, x.ID = "shop", "evt_2" }), b)
	f.wantFound("another one's ID", by(func(x *dedupe.Filter) { x.Source, x.ID = "shop", "evt_3" }))
	f.wantFound("type", by(func(x *dedupe.Filter) { x.Type = "order.*" }), b, a)
	f.wantFound("another type", by(func(x *dedupe.Filter) { x.Type = "customer.*" }))
	f.wantFound("target", by(func(x *dedupe.Filter) { x.Target = crm }))
	rows := f.deliveries(by(func(x *dedupe.Filter) { x.State = "dead" }), 10)
	if len(rows) != 1 || rows[0].Delivery.Event != a {
		f.Errorf("dead deliveries: %v, want that of %s", rows, a)
	}
}

func indexPages(f *fix) {
	var want []event.Ref
	for i := range 60 {
		ref := f.indexed(fmt.Sprint("evt_", i), "shop", "customer", fmt.Sprint("cus_", i%3))
		if i%3 == 1 {
			want = append(want, ref)
		}
		f.clock.Advance(45 * time.Minute) // over several buckets
	}
	slices.Reverse(want)
	for _, limit := range [...]int{1, 7, 20, 21, 500} {
		if got := recordRefs(f.events(dedupe.Filter{Field: "customer", Value: "cus_1"}, limit)); !slices.Equal(got, want) {
			f.Fatalf("pages of %d: %v, want %v", limit, got, want)
		}
	}
	p, err := f.l.Events(f.Context(), dedupe.Filter{Field: "customer", Value: "cus_1"}, "", 5)
	f.must(err)
	f.indexed("evt_new", "shop", "customer", "cus_1")
	p, err = f.l.Events(f.Context(), dedupe.Filter{Field: "customer", Value: "cus_1"}, p.Next, 5)
	f.must(err)
	if got := recordRefs(p.Items); !slices.Equal(got, want[5:10]) {
		f.Errorf("the page after an insert: %v, want %v", got, want[5:10])
	}
}

func indexRestart(f *fix) {
	a := f.indexed("evt_1", "shop", "customer", "cus_9")
	f.reopen()
	b := f.indexed("evt_2", "shop", "customer", "cus_9")
	if f.h.Crash != nil {
		f.l = f.h.Crash(f.TB, f.l)
		f.ready()
	}
	f.wantFound("after restarts", dedupe.Filter{Field: "customer", Value: "cus_9"}, b, a)
	rep, err := f.l.Check(f.Context())
	f.must(err)
	if len(rep.Faults) > 0 {
		f.Errorf("faults: %v", rep.Faults)
	}
}

func indexRetention(f *fix) {
	f.indexed("evt_1", "shop", "customer", "cus_9")
	f.settle(billing, event.Delivered)
	f.clock.Advance(past(retention.Meta))
	b := f.indexed("evt_2", "shop", "customer", "cus_9")
	f.settle(billing, event.Delivered)
	f.expire()
	f.wantFound("after retention", dedupe.Filter{Field: "customer", Value: "cus_9"}, b)
}

func indexCarried(f *fix) {
	a := f.indexed("evt_1", "shop", "customer", "cus_9")
	f.clock.Advance(retention.Meta / 2)
	b := f.indexed("evt_2", "shop", "customer", "cus_9")
	for range 3 {
		f.clock.Advance(past(retention.Meta) / 2)
		f.expire()
	}
	c := f.indexed("evt_3", "shop", "customer", "cus_9")
	f.indexed("evt_4", "shop", "customer", "cus_8")
	for range 2 {
		f.wantFound("carried", dedupe.Filter{Source: "shop", Field: "customer", Value: "cus_9"}, c, b, a)
		f.reopen()
	}
}

func indexReplay(f *fix) {
	a := f.indexed("evt_1", "shop", "customer", "cus_9")
	f.indexed("evt_2", "shop", "customer", "cus_8")
	f.settle(billing, event.Delivered)
	n, err := f.l.Replay(f.Context(), dedupe.Replay{Selection: dedupe.Selection{Filter: dedupe.Filter{Field: "customer", Value: "cus_9"}}, By: by})
	f.must(err)
	equal(f, "opened", n.Opened, 1)
	equal(f, "leased", f.leaseOne(billing).Delivery.Event, a)
}
