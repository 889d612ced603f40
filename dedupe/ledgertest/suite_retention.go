package ledgertest

import (
	"fmt"
	"slices"
	"time"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

// retentionTests hold what goes, when, and what must not.
func retentionTests() []test {
	return []test{
		{"bodies go first, then the rest", retentionOrder},
		{"what is younger stays", retentionYounger},
		{"a request's own retention", retentionOwn},
		{"a delivery stays closed when its attempts go first", retentionAudit},
		{"open events are carried, never dropped", retentionOpen},
		{"an open element keeps the shared body", retentionShared},
		{"a body that is gone is not replayed", retentionReplay},
		{"a replayed event is open again", retentionReopened},
		{"disk comes back", retentionDisk},
	}
}

// past is when all of an age must be gone: engines drop whole buckets.
func past(keep time.Duration) time.Duration { return keep + keep/4 + 2*time.Hour }

func retentionOrder(f *fix) {
	ref := f.newEvent("evt_1", "the body", billing)
	f.settle(billing, event.Delivered)
	f.clock.Advance(retention.Body - time.Minute)
	f.expire()
	equal(f, "body before its end", string(f.body(ref)), "the body")
	equal(f, "body gone before its end", f.get(ref).BodyGone, false)

	f.clock.Advance(past(retention.Body) - retention.Body)
	f.expire()
	check := func() {
		f.Helper()
		_, err := f.l.Body(f.Context(), ref)
		f.want(err, dedupe.ErrPruned)
		_, err = f.l.Load(f.Context(), ref)
		f.want(err, dedupe.ErrPruned)
		rec := f.get(ref)
		equal(f, "body gone", rec.BodyGone, true)
		equal(f, "hash of a body that is gone", rec.Event.BodyHash, event.HashOf([]byte("the body")))
		equal(f, "status", rec.Status, event.StatusDelivered)
		equal(f, "attempts", len(f.attempts(ref)), 1)
		equal(f, "body gone in the list", f.events(dedupe.Filter{}, 10)[0].BodyGone, true)
		found, err := f.l.Lookup(f.Context(), []string{source}, "evt_1")
		f.must(err)
		equal(f, "found", len(found), 1)
	}
	check()
	f.reopen()
	f.clock.Advance(retention.Meta - past(retention.Body) - time.Hour)
	f.expire()
	check()

	f.clock.Advance(past(retention.Meta) - retention.Meta + 3*time.Hour)
	f.expire()
	gone := func() {
		f.Helper()
		for what, call := range map[string]func() error{
			"Get":      func() error { _, err := f.l.Get(f.Context(), ref); return err },
			"Body":     func() error { _, err := f.l.Body(f.Context(), ref); return err },
			"Load":     func() error { _, err := f.l.Load(f.Context(), ref); return err },
			"Attempts": func() error { _, err := f.l.Attempts(f.Context(), ref); return err },
			"Cancel":   func() error { _, err := f.l.Cancel(f.Context(), ref, "", by); return err },
			"Replay": func() error {
				_, err := f.l.Replay(f.Context(), dedupe.Replay{Selection: dedupe.Selection{Ref: ref}})
				return err
			},
		} {
			if err := call(); err == nil {
				f.Fatalf("%s of a pruned event succeeded", what)
			} else {
				f.want(err, dedupe.ErrPruned)
			}
		}
		equal(f, "events listed", len(f.events(dedupe.Filter{}, 10)), 0)
		equal(f, "deliveries listed", len(f.deliveries(dedupe.Filter{}, 10)), 0)
		found, err := f.l.Lookup(f.Context(), []string{source}, "evt_1")
		f.must(err)
		equal(f, "found", len(found), 0)
	}
	gone()
	f.reopen()
	gone()
	rep, err := f.l.Check(f.Context())
	f.must(err)
	if len(rep.Faults) > 0 {
		f.Errorf("pruning looks like damage: %v", rep.Faults)
	}
	equal(f, "events accepted in all", f.stats().Events, 1)
	equal(f, "the ID is new", f.accept("evt_1", "the body", billing).Verdict, dedupe.New)
}

func retentionYounger(f *fix) {
	var all []event.Ref
	for i := range 96 { // four days, an event an hour
		all = append(all, f.newEvent(fmt.Sprint("evt_", i), fmt.Sprint("body ", i), billing))
		f.settle(billing, event.Delivered)
		f.clock.Advance(time.Hour)
		if i%7 == 0 {
			f.expire()
		}
	}
	f.expire()
	for i, ref := range all {
		age := f.l.Now().Sub(ref.Time())
		rec := f.get(ref)
		switch {
		case age < retention.Body:
			equal(f, fmt.Sprint("body ", i), string(f.body(ref)), fmt.Sprint("body ", i))
		case age > past(retention.Body):
			equal(f, fmt.Sprintf("body %d gone", i), rec.BodyGone, true)
		}
		if _, err := f.l.Body(f.Context(), ref); rec.BodyGone != (err != nil) {
			f.Errorf("event %d: body gone is %v, reading it says %v", i, rec.BodyGone, err)
		}
		equal(f, "attempts", len(f.attempts(ref)), 1)
	}
	if got := recordRefs(f.events(dedupe.Filter{}, 10)); !slices.Equal(got, reversed(all)) {
		f.Errorf("events listed: %v, want %v", got, reversed(all))
	}
}

func retentionOwn(f *fix) {
	put := func(id string, r dedupe.Retention) event.Ref {
		f.Helper()
		req := one(f.item(id, id), id)
		req.Retention = r
		f.commit(req)
		return req.Outcomes[0].Ref
	}
	day := 24 * time.Hour
	short := put("short", dedupe.Retention{Body: 6 * time.Hour, Meta: day, Audit: day})
	usual := put("usual", dedupe.Retention{})
	long := put("long", dedupe.Retention{Body: 20 * day, Meta: 40 * day, Audit: 40 * day})
	half := put("half", dedupe.Retention{Body: 5 * day})
	step := func(at time.Duration, pruned []event.Ref, bodyless []event.Ref) {
		f.Helper()
		f.clock.Advance(start.Add(at).Sub(f.clock.Now()))
		f.expire()
		for name, ref := range map[string]event.Ref{"short": short, "usual": usual, "long": long, "half": half} {
			rec, err := f.l.Get(f.Context(), ref)
			if slices.Contains(pruned, ref) {
				if err == nil {
					f.Fatalf("%v on, %s is still there", at, name)
				}
				f.want(err, dedupe.ErrPruned)
				continue
			}
			f.must(err)
			equal(f, fmt.Sprintf("%v on, body of %s gone", at, name), rec.BodyGone, slices.Contains(bodyless, ref))
		}
	}
	step(5*time.Hour, nil, nil)
	step(past(6*time.Hour), nil, []event.Ref{short})
	step(past(day), []event.Ref{short}, []event.Ref{usual})
	f.reopen()
	step(past(5*day), []event.Ref{short}, []event.Ref{usual, half})
	step(past(10*day), []event.Ref{short, usual, half}, nil)
	step(past(20*day), []event.Ref{short, usual, half}, []event.Ref{long})
	step(past(40*day), []event.Ref{short, usual, half, long}, nil)
}

func retentionOpen(f *fix) {
	big := pattern(2*f.h.ChunkSize+1, 3)
	open := f.newEvent("open", big, billing, crm)
	closed := f.newEvent("closed", "closed", crm)
	f.settle(crm, event.Delivered)
	l := f.leaseOne(billing)
	f.finish(f.result(l, event.Pending, time.Hour))
	carried := 0
	for day := 1; day <= 25; day++ {
		f.clock.Advance(24 * time.Hour)
		carried += f.expire().Carried
		if day%10 == 0 {
			f.reopen()
			f.clock.Advance(2 * time.Hour) // past the hold of a clock far ahead
		}
		loaded, err := f.l.Load(f.Context(), open)
		f.must(err)
		if string(loaded.Body) != big {
			f.Fatalf("day %d: the body of an open event changed", day)
		}
		rec := f.get(open)
		equal(f, "status", rec.Status, event.StatusPending)
		equal(f, "deliveries", len(rec.Deliveries), 2)
		equal(f, "the closed delivery", f.delivery(open, crm).State, event.Delivered)
		equal(f, "attempts", f.delivery(open, billing).Attempts, 1)
		found, err := f.l.Lookup(f.Context(), []string{source}, "open")
		f.must(err)
		equal(f, "found", len(found), 1)
		equal(f, "listed", len(f.events(dedupe.Filter{ID: "open", Source: source}, 10)), 1)
		equal(f, "its delivery listed", len(f.deliveries(dedupe.Filter{Target: billing}, 10)), 1)
	}
	if carried == 0 {
		f.Errorf("nothing was said to be carried")
	}
	_, err := f.l.Get(f.Context(), closed)
	f.want(err, dedupe.ErrPruned)
	l = f.leaseOne(billing)
	equal(f, "leased", l.Delivery.Event, open)
	f.finish(f.result(l, event.Delivered, 0))
	equal(f, "status", f.get(open).Status, event.StatusDelivered)
	rep, err := f.l.Check(f.Context())
	f.must(err)
	if len(rep.Faults) > 0 {
		f.Errorf("carrying looks like damage: %v", rep.Faults)
	}
	for range 3 {
		f.clock.Advance(past(retention.Meta))
		f.expire()
	}
	_, err = f.l.Get(f.Context(), open)
	f.want(err, dedupe.ErrPruned)
}

func retentionShared(f *fix) {
	req := &dedupe.Request{Body: []byte("onetwothree"), Batch: true, Items: []dedupe.Item{
		f.item("el_1", "one", crm), f.item("el_2", "two", billing), f.item("el_3", "three", crm),
	}}
	req.Items[1].Event.Body.Offset, req.Items[2].Event.Body.Offset = 3, 6
	f.commit(req)
	f.settle(crm, event.Delivered)
	for range 4 {
		f.clock.Advance(past(retention.Body))
		f.expire()
		equal(f, "body of the open element", string(f.body(req.Outcomes[1].Ref)), "two")
	}
	f.reopen()
	loaded, err := f.l.Load(f.Context(), req.Outcomes[1].Ref)
	f.must(err)
	equal(f, "body of the open element", string(loaded.Body), "two")
	for i, id := range [...]string{"one", "two", "three"} { // there and whole, or said to be gone
		b, err := f.l.Body(f.Context(), req.Outcomes[i].Ref)
		rec := f.get(req.Outcomes[i].Ref)
		equal(f, "gone and unreadable", rec.BodyGone, err != nil)
		if err == nil {
			equal(f, "body", string(b), id)
		} else {
			f.want(err, dedupe.ErrPruned)
		}
	}
	f.settle(billing, event.Delivered)
	equal(f, "status", f.get(req.Outcomes[1].Ref).Status, event.StatusDelivered)
}

func retentionReplay(f *fix) {
	old := f.newEvent("old", "old", billing)
	f.settle(billing, event.Dead)
	f.clock.Advance(past(retention.Body))
	f.expire()
	young := f.newEvent("young", "young", billing)
	f.settle(billing, event.Dead)
	n := f.replay(dedupe.Replay{Selection: dedupe.Selection{Ref: old}})
	equal(f, "body pruned", n.Pruned, 1)
	equal(f, "opened", n.Opened, 0)
	equal(f, "state", f.delivery(old, billing).State, event.Dead)
	for _, dry := range [...]bool{true, false} {
		n = f.replay(dedupe.Replay{DryRun: dry})
		equal(f, "events", n.Events, 2)
		equal(f, "opened", n.Opened, 1)
		equal(f, "body pruned", n.Pruned, 1)
	}
	equal(f, "leased", f.leaseOne(billing).Delivery.Event, young)
}

func retentionReopened(f *fix) {
	ref := f.newEvent("evt_1", "the body", billing)
	f.settle(billing, event.Dead)
	f.clock.Advance(retention.Body - time.Hour)
	equal(f, "opened", f.replay(dedupe.Replay{Selection: dedupe.Selection{Ref: ref}}).Opened, 1)
	for range 3 {
		f.clock.Advance(past(retention.Meta))
		f.expire()
		loaded, err := f.l.Load(f.Context(), ref)
		f.must(err)
		equal(f, "body", string(loaded.Body), "the body")
	}
	f.reopen()
	l := f.leaseOne(billing)
	equal(f, "generation", l.Delivery.Generation, 1)
	f.finish(f.result(l, event.Delivered, 0))
}

func retentionDisk(f *fix) {
	if f.h.DiskUsage == nil {
		f.Logf("disk use is not tested: the harness can't tell it")
		return
	}
	empty := f.h.DiskUsage(f.TB, f.l)
	const n, size = 1024, 64 << 10
	for i := range n / 16 {
		var reqs []*dedupe.Request
		for j := range 16 {
			body := pattern(size, i*16+j)
			reqs = append(reqs, one(f.item(fmt.Sprintf("evt_%d_%d", i, j), body, billing), body))
		}
		f.commit(reqs...)
		f.clock.Advance(time.Minute)
	}
	f.settle(billing, event.Delivered)
	full := f.h.DiskUsage(f.TB, f.l)
	if full-empty < n*size {
		f.Fatalf("%d bytes on disk after %d were stored", full-empty, n*size)
	}
	f.clock.Advance(past(retention.Body))
	f.expire()
	after := f.h.DiskUsage(f.TB, f.l)
	if after-empty > f.h.DiskSlack {
		f.Errorf("%d bytes more than empty after the bodies' end, want at most %d", after-empty, f.h.DiskSlack)
	}
	f.clock.Advance(past(retention.Meta))
	f.expire()
	if after := f.h.DiskUsage(f.TB, f.l); after-empty > f.h.DiskSlack {
		f.Errorf("%d bytes more than empty after the end of all, want at most %d", after-empty, f.h.DiskSlack)
	}
	f.newEvent("after", "after")
}

// retentionAudit holds that what is known of an attempt may go before the
// event, at once or never, and the delivery is closed all the same.
func retentionAudit(f *fix) {
	const day, meta = 24 * time.Hour, 240 * time.Hour
	for i, audit := range []time.Duration{time.Hour, day, meta - time.Hour, meta, meta + time.Hour, meta + day, 3 * meta} {
		req := one(f.item(fmt.Sprint("evt_", i), "{}", billing, crm), "{}")
		req.Retention = dedupe.Retention{Body: meta, Meta: meta, Audit: audit}
		f.commit(req)
		ref := req.Outcomes[0].Ref
		f.settle(billing, event.Delivered)
		f.settle(crm, event.Dead)
		seen := func(when string) {
			f.Helper()
			equal(f, fmt.Sprint("billing, audit ", audit, ", ", when), f.delivery(ref, billing).State, event.Delivered)
			equal(f, fmt.Sprint("crm, audit ", audit, ", ", when), f.delivery(ref, crm).State, event.Dead)
			equal(f, "attempts counted", f.delivery(ref, crm).Attempts, 1)
		}
		seen("at first")
		for range 9 {
			f.clock.Advance(day)
			f.expire()
			seen("later")
		}
		f.reopen()
		seen("after a restart")
		equal(f, "leases", len(f.lease(billing, long)), 0)
	}
}
