package ledgertest

import (
	"errors"
	"slices"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

// damageTests hold that one event that can't be read is named, and takes nothing
// else with it.
func damageTests() []test {
	return []test{
		{"a listing goes on behind a damaged event", damageList},
		{"a repeat of a damaged event is answered as one", damageRepeat},
	}
}

// damaged writes six events to one target, all delivered but the one that is
// dead, and damages the record of the fourth. Without a harness that can, ok is
// false.
func (f *fix) damaged() (refs []event.Ref, bad event.Ref, ok bool) {
	f.Helper()
	if f.h.Damage == nil {
		f.Logf("damage is not tested: the harness does none")
		return nil, event.Ref{}, false
	}
	for _, id := range []string{"evt_1", "evt_2", "evt_3", "evt_4", "evt_5", "evt_6"} {
		refs = append(refs, f.newEvent(id, "{}", billing))
	}
	f.settle(billing, event.Dead)
	bad = refs[3]
	f.l = f.h.Damage(f.TB, f.l, bad)
	return slices.Delete(slices.Clone(refs), 3, 4), bad, true
}

// beyond lists all pages of a filter as whoever looks past damage does: behind the
// event that an error names it goes on.
func beyond[T any](f *fix, list func(cursor string) (dedupe.Page[T], error)) (items []T, damaged []event.Ref) {
	f.Helper()
	for cursor := ""; ; {
		p, err := list(cursor)
		items = append(items, p.Items...)
		var at *dedupe.EventError
		switch {
		case err == nil:
			cursor = p.Next
		case errors.As(err, &at) && errors.Is(err, dedupe.ErrDamaged):
			damaged = append(damaged, at.Ref)
			cursor = at.Ref.String()
		default:
			f.Fatalf("a page with a damaged event: %v, want damage that names it", err)
		}
		if cursor == "" || len(items)+len(damaged) > 100 {
			return items, damaged
		}
	}
}

func damageList(f *fix) {
	good, bad, ok := f.damaged()
	if !ok {
		return
	}
	slices.Reverse(good)
	for _, flt := range []dedupe.Filter{{}, {Source: source}, {Type: "order.*"}, {Status: event.StatusDead}, {State: "dead"}, {State: "dead", Target: billing}} {
		for _, limit := range []int{1, 2, 100} {
			recs, damaged := beyond(f, func(cursor string) (dedupe.Page[dedupe.Record], error) {
				return f.l.Events(f.Context(), flt, cursor, limit)
			})
			if got := recordRefs(recs); !slices.Equal(got, good) || !slices.Equal(damaged, []event.Ref{bad}) {
				f.Errorf("events of %+v by %d: %v and damaged %v, want %v and %s", flt, limit, got, damaged, good, bad)
			}
			rows, damaged := beyond(f, func(cursor string) (dedupe.Page[dedupe.DeliveryRow], error) {
				return f.l.Deliveries(f.Context(), flt, cursor, limit)
			})
			var got []event.Ref
			for _, r := range rows {
				got = append(got, r.Delivery.Event)
			}
			if !slices.Equal(got, good) || !slices.Equal(damaged, []event.Ref{bad}) {
				f.Errorf("deliveries of %+v by %d: %v and damaged %v, want %v and %s", flt, limit, got, damaged, good, bad)
			}
		}
	}
	refs, err := f.l.Lookup(f.Context(), []string{source}, "evt_4")
	if f.must(err); !slices.Equal(refs, []event.Ref{bad}) {
		f.Errorf("the ID of the damaged event finds %v, want %s", refs, bad)
	}
	_, err = f.l.Get(f.Context(), bad)
	f.want(err, dedupe.ErrDamaged)
	_, err = f.l.Load(f.Context(), bad)
	f.want(err, dedupe.ErrDamaged)
	rep, err := f.l.Check(f.Context())
	if f.must(err); len(rep.Faults) == 0 {
		f.Errorf("a check finds no fault")
	}
}

// The claim of a damaged event is good: what comes with its ID is a repeat, and
// what is written in one batch with that is written.
func damageRepeat(f *fix) {
	_, bad, ok := f.damaged()
	if !ok {
		return
	}
	again, fresh := one(f.item("evt_4", "{}", billing), "{}"), one(f.item("evt_7", "{}", billing), "{}")
	f.commit(again, fresh)
	equal(f, "verdict of the repeat", again.Outcomes[0].Verdict, dedupe.Repeat)
	equal(f, "its event", again.Outcomes[0].Ref, bad)
	equal(f, "its ID", again.Outcomes[0].ID, "evt_4")
	equal(f, "verdict of the other one", fresh.Outcomes[0].Verdict, dedupe.New)
}
