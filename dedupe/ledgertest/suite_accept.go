package ledgertest

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

// acceptTests hold what an engine does with what arrives.
func acceptTests() []test {
	return []test{
		{"event, claim and deliveries appear together", acceptNew},
		{"every field of an event comes back", acceptFields},
		{"a repeat gets the first answer", acceptRepeat},
		{"repeats inside one batch", acceptSameBatch},
		{"conflict policies", acceptConflict},
		{"a delivered conflict is remembered for its own window", acceptLapse},
		{"conflicts in a batch request are never rejected", acceptBatchConflict},
		{"replay guard", acceptGuard},
		{"without a claim every arrival is an event", acceptUndeduped},
		{"former names of a source", acceptFormer},
		{"elements are slices of one body", acceptSlices},
		{"body sizes", acceptSizes},
		{"a large batch", acceptLarge},
		{"refs ascend", acceptOrder},
		{"a later read sees a commit", acceptRead},
	}
}

func acceptNew(f *fix) {
	before := f.stats()
	ref := f.newEvent("evt_1", `{"a":1}`, billing, crm)
	rec := f.get(ref)
	equal(f, "status", rec.Status, event.StatusPending)
	equal(f, "deliveries", len(rec.Deliveries), 2)
	for _, d := range rec.Deliveries {
		equal(f, "state", d.State, event.Pending)
		equal(f, "generation", d.Generation, 0)
		equal(f, "attempts", d.Attempts, 0)
		equal(f, "delivery's event", d.Event, ref)
		if !sameTime(d.OpenedAt, f.l.Now()) || !sameTime(d.DueAt, f.l.Now()) {
			f.Errorf("opened at %v, due at %v, want both at %v", d.OpenedAt, d.DueAt, f.l.Now())
		}
	}
	equal(f, "body", string(f.body(ref)), `{"a":1}`)
	equal(f, "key", rec.Event.Key, "shop:evt_1")
	for _, target := range [...]string{billing, crm} {
		select {
		case <-f.l.Wake(target):
		default:
			f.Errorf("no wake for %s after a new delivery", target)
		}
		equal(f, "leased event", f.leaseOne(target).Delivery.Event, ref)
	}
	after := f.stats()
	equal(f, "events accepted", after.Events, before.Events+1)
	equal(f, "batches", after.Batches, before.Batches+1)
	equal(f, "last ref", after.LastRef, ref)

	none := f.newEvent("evt_2", "{}")
	equal(f, "status without targets", f.get(none).Status, event.StatusUnrouted)
}

func acceptFields(f *fix) {
	body := "\x00\xff body \r\n"
	it := f.item("evt_ü", body, crm, billing)
	it.Event.Type = "order.paid/größe"
	it.Event.Caller, it.Event.Secret = "team-a", "2026-11"
	it.Event.ReceivedAt = f.clock.Now().Add(-3 * time.Second)
	it.Event.Method, it.Event.Path, it.Event.Query = "PUT", "/a%2Fb", "x=1&x=%20&=&y"
	it.Event.Header = []event.Field{{Name: "Content-Type", Value: "text/plain"}, {Name: "X-A", Value: "1"}, {Name: "x-a", Value: ""}, {Name: "X-A", Value: "\xff"}}
	it.Event.Trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	it.Event.Flags = event.FlagTest | event.FlagIDHashed
	req := one(it, body)
	req.Answer = event.Answer{Status: 202, ContentType: "text/plain", Body: []byte("ok\x00")}
	f.commit(req)
	want := it.Event
	want.Ref, want.Key = req.Outcomes[0].Ref, "shop:sha256:"+event.HashOf([]byte("shop:evt_ü")).String()
	want.Body.Request, want.Answer = want.Ref, req.Answer
	equal(f, "flags of the outcome", req.Outcomes[0].Flags, want.Flags)
	check := func(what string) {
		f.Helper()
		if diff := sameEvent(f.get(want.Ref).Event, want); diff != "" {
			f.Fatalf("Get %s: %s", what, diff)
		}
		loaded, err := f.l.Load(f.Context(), want.Ref)
		f.must(err)
		if diff := sameEvent(*loaded.Event, want); diff != "" {
			f.Fatalf("Load %s: %s", what, diff)
		}
		equal(f, "loaded body", string(loaded.Body), body)
	}
	check("after commit")
	f.reopen()
	check("after reopen")
}

func acceptRepeat(f *fix) {
	req := one(f.item("evt_1", "{}", billing), "{}")
	req.Answer = event.Answer{Status: 201, ContentType: "application/json", Body: []byte(`{"first":true}`)}
	f.commit(req)
	first := req.Outcomes[0]
	for n := uint64(1); n <= 3; n++ {
		f.clock.Advance(time.Minute)
		again := one(f.item("evt_1", "{}", billing, crm), "{}")
		again.Answer = event.Answer{Status: 500}
		f.commit(again)
		o := again.Outcomes[0]
		equal(f, "verdict", o.Verdict, dedupe.Repeat)
		equal(f, "ref", o.Ref, first.Ref)
		equal(f, "ID", o.ID, "evt_1")
		equal(f, "answer", fmt.Sprint(o.Answer), fmt.Sprint(req.Answer))
		rec := f.get(first.Ref)
		equal(f, "repeats counted", rec.Tally.Repeats, n)
		equal(f, "conflicts counted", rec.Tally.Conflicts, 0)
		equal(f, "last seen is set", rec.Tally.LastAt.IsZero(), false)
		equal(f, "deliveries", len(rec.Deliveries), 1)
	}
	equal(f, "events accepted", f.stats().Events, 1)
	equal(f, "leases", len(f.lease(billing, long))+len(f.lease(crm, long)), 1)
}

func acceptSameBatch(f *fix) {
	a, b := one(f.item("evt_1", "{}", billing), "{}"), one(f.item("evt_1", "{}", billing), "{}")
	twice := &dedupe.Request{
		Body: []byte("{}{}"), Batch: true,
		Items: []dedupe.Item{f.item("evt_2", "{}", billing), f.item("evt_2", "{}", billing), f.item("evt_1", "{}", billing)},
	}
	twice.Items[1].Event.Body.Offset = 2
	f.commit(a, b, twice)
	equal(f, "first", a.Outcomes[0].Verdict, dedupe.New)
	equal(f, "second", b.Outcomes[0].Verdict, dedupe.Repeat)
	equal(f, "second's ref", b.Outcomes[0].Ref, a.Outcomes[0].Ref)
	equal(f, "element", twice.Outcomes[0].Verdict, dedupe.New)
	equal(f, "same element again", twice.Outcomes[1].Verdict, dedupe.Repeat)
	equal(f, "its ref", twice.Outcomes[1].Ref, twice.Outcomes[0].Ref)
	equal(f, "element of another request", twice.Outcomes[2].Verdict, dedupe.Repeat)
	equal(f, "events", f.stats().Events, 2)
	equal(f, "repeats of evt_1", f.get(a.Outcomes[0].Ref).Tally.Repeats, 2)
	equal(f, "leases", len(f.lease(billing, long)), 2)
}

// acceptLapse holds that a conflict that was delivered is remembered for its
// own window: the claim it was in conflict with ends before.
func acceptLapse(f *fix) {
	f.newEvent("evt", "one")
	f.clock.Advance(window - time.Minute)
	other := f.item("evt", "two")
	conflict(&other, dedupe.ConflictDeliver)
	o := f.acceptItem(other, "two")
	equal(f, "conflict", o.Verdict, dedupe.New)
	f.clock.Advance(2 * time.Minute)
	again := f.acceptItem(other, "two")
	equal(f, "the conflict again, its first being over", again.Verdict, dedupe.Repeat)
	equal(f, "its ref", again.Ref, o.Ref)
	third := f.item("evt", "one")
	conflict(&third, dedupe.ConflictDeliver)
	equal(f, "the first again, its window being over", f.acceptItem(third, "one").Verdict, dedupe.New)
	equal(f, "the conflict in conflict with it", f.acceptItem(other, "two").Verdict, dedupe.Repeat)
	f.clock.Advance(window)
	equal(f, "the conflict after its own window", f.acceptItem(other, "two").Verdict, dedupe.New)
}

func acceptConflict(f *fix) {
	for _, tt := range [...]struct {
		policy dedupe.Conflict
		want   dedupe.Verdict
	}{
		{dedupe.ConflictAck, dedupe.Differs}, {dedupe.ConflictReject, dedupe.Rejected}, {dedupe.ConflictDeliver, dedupe.New},
	} {
		id := "evt_" + string(tt.policy)
		first := f.newEvent(id, "one", billing)
		other := f.item(id, "two", billing)
		conflict(&other, tt.policy)
		o := f.acceptItem(other, "two")
		equal(f, id+" verdict", o.Verdict, tt.want)
		equal(f, id+" conflicts counted", f.get(first).Tally.Conflicts, 1)
		equal(f, id+" first body", string(f.body(first)), "one")
		if tt.want != dedupe.New {
			equal(f, id+" ref", o.Ref, first)
			continue
		}
		hash := event.HashOf([]byte("two"))
		distinct := id + "~" + hex.EncodeToString(hash[:8])
		rec := f.get(o.Ref)
		equal(f, id+" ID", rec.Event.ID, distinct)
		equal(f, id+" outcome ID", o.ID, distinct)
		equal(f, id+" key", rec.Event.Key, "shop:"+distinct)
		equal(f, id+" flags", rec.Event.Flags, event.FlagConflict)
		equal(f, id+" outcome flags", o.Flags, event.FlagConflict)
		equal(f, id+" related", rec.Event.Related, first)
		equal(f, id+" body", string(f.body(o.Ref)), "two")
		again := f.acceptItem(other, "two")
		equal(f, id+" other body again", again.Verdict, dedupe.Repeat)
		equal(f, id+" other body again, ref", again.Ref, o.Ref)
		equal(f, id+" its repeats", f.get(o.Ref).Tally.Repeats, 1)
	}
	equal(f, "leases", len(f.lease(billing, long)), 4)
}

func acceptBatchConflict(f *fix) {
	first := f.newEvent("evt_1", "one", billing)
	req := &dedupe.Request{Body: []byte("twonew"), Batch: true, Items: []dedupe.Item{f.item("evt_1", "two", billing), f.item("evt_2", "new", billing)}}
	req.Items[0].Conflict = dedupe.ConflictReject
	req.Items[1].Event.Body.Offset = 3
	f.commit(req)
	equal(f, "conflict in a batch", req.Outcomes[0].Verdict, dedupe.Differs)
	equal(f, "its ref", req.Outcomes[0].Ref, first)
	equal(f, "the element beside it", req.Outcomes[1].Verdict, dedupe.New)
	equal(f, "its body", string(f.body(req.Outcomes[1].Ref)), "new")
}

func acceptGuard(f *fix) {
	guarded := func(id string, g dedupe.Guard) dedupe.Item {
		it := f.item(id, "{}", billing)
		it.Guard, it.GuardKey = g, dedupe.KeyOf(dedupe.KindGuard, source, "", "signed bytes")
		return it
	}
	first := f.acceptItem(guarded("evt_1", dedupe.GuardFlag), "{}")
	equal(f, "first", first.Verdict, dedupe.New)
	equal(f, "first's flags", first.Flags, 0)
	flagged := f.acceptItem(guarded("evt_2", dedupe.GuardFlag), "{}")
	equal(f, "flagged", flagged.Verdict, dedupe.New)
	equal(f, "its flags", flagged.Flags, event.FlagGuard)
	equal(f, "its related", f.get(flagged.Ref).Event.Related, first.Ref)
	dropped := f.acceptItem(guarded("evt_3", dedupe.GuardDrop), "{}")
	equal(f, "dropped", dropped.Verdict, dedupe.Replayed)
	equal(f, "its ref", dropped.Ref, first.Ref)
	equal(f, "off", f.acceptItem(guarded("evt_4", dedupe.GuardOff), "{}").Verdict, dedupe.New)
	equal(f, "repeat of a flagged one", f.acceptItem(guarded("evt_2", dedupe.GuardFlag), "{}").Verdict, dedupe.Repeat)
	// A dropped replay took no claim: its ID is new when the bytes are.
	other := f.item("evt_3", "[]", billing)
	equal(f, "the dropped ID with other bytes", f.acceptItem(other, "[]").Verdict, dedupe.New)
	equal(f, "leases", len(f.lease(billing, long)), 4)
}

func acceptUndeduped(f *fix) {
	var all []event.Ref
	for range 3 {
		o := f.accept("", "{}", billing)
		equal(f, "verdict", o.Verdict, dedupe.New)
		equal(f, "key", f.get(o.Ref).Event.Key, "shop:"+o.Ref.String())
		all = append(all, o.Ref)
	}
	if got := refs(f.lease(billing, long)); !slices.Equal(got, all) {
		f.Errorf("leased %v, want %v", got, all)
	}
	body := f.item("", "{}", billing)
	body.HasClaim, body.Claim = true, dedupe.KeyOf(dedupe.KindBody, source, "", event.HashOf([]byte("{}")).String())
	equal(f, "keyed by body", f.acceptItem(body, "{}").Verdict, dedupe.New)
	equal(f, "keyed by body again", f.acceptItem(body, "{}").Verdict, dedupe.Repeat)
}

func acceptFormer(f *fix) {
	old := f.item("evt_1", "{}", billing)
	old.Event.Source, old.Claim = "old", dedupe.KeyOf(dedupe.KindID, "old", "", "evt_1")
	first := f.acceptItem(old, "{}")
	renamed := f.item("evt_1", "{}", billing)
	renamed.Former = []dedupe.Key{dedupe.KeyOf(dedupe.KindID, "older", "", "evt_1"), old.Claim}
	o := f.acceptItem(renamed, "{}")
	equal(f, "repeat under the new name", o.Verdict, dedupe.Repeat)
	equal(f, "ref", o.Ref, first.Ref)
	renamed.Former = nil
	equal(f, "without the former name", f.acceptItem(renamed, "{}").Verdict, dedupe.New)
}

func acceptSlices(f *fix) {
	body := `[{"n":1},{"n":22},"",{"n":1}]`
	req := &dedupe.Request{Body: []byte(body), Batch: true}
	for i, s := range [...][2]int64{{1, 7}, {9, 8}, {19, 0}, {21, 7}} {
		part := body[s[0] : s[0]+s[1]]
		it := f.item(fmt.Sprint("el_", i), part, billing)
		it.Event.Body.Offset = s[0]
		req.Items = append(req.Items, it)
	}
	f.newEvent("el_0", `{"n":1}`, billing) // so that the first element isn't the body's owner
	f.commit(req)
	equal(f, "first element", req.Outcomes[0].Verdict, dedupe.Repeat)
	check := func() {
		f.Helper()
		for i := 1; i < 4; i++ {
			ev := f.get(req.Outcomes[i].Ref).Event
			equal(f, "stored under", ev.Body.Request, req.Outcomes[1].Ref)
			part := body[ev.Body.Offset : ev.Body.Offset+ev.Body.Length]
			equal(f, "slice", string(f.body(ev.Ref)), part)
			equal(f, "hash", event.HashOf([]byte(part)), ev.BodyHash)
		}
	}
	check()
	f.reopen()
	check()
}

// pattern is a body of n random bytes, the same for the same n and seed.
func pattern(n, seed int) string {
	var key [32]byte
	binary.BigEndian.PutUint64(key[:], uint64(n))
	binary.BigEndian.PutUint64(key[8:], uint64(seed))
	b := make([]byte, n)
	_, _ = rand.NewChaCha8(key).Read(b) // never fails
	return string(b)
}

func acceptSizes(f *fix) {
	c, limit := f.h.ChunkSize, f.h.BodyLimit
	sizes := []int{0, 1, c - 1, c, c + 1, 2 * c, 2*c + 1, 4<<20 + 1, limit - 1, limit}
	got := map[int]event.Ref{}
	for _, n := range sizes {
		if n <= limit {
			got[n] = f.newEvent(fmt.Sprint("size_", n), pattern(n, 0), billing)
		}
	}
	small := f.newEvent("after", "small")
	check := func() {
		f.Helper()
		for n, ref := range got {
			if string(f.body(ref)) != pattern(n, 0) {
				f.Fatalf("a body of %d bytes came back changed", n)
			}
		}
		equal(f, "the event after", string(f.body(small)), "small")
	}
	check()
	f.reopen()
	check()
	rep, err := f.l.Check(f.Context())
	f.must(err)
	if len(rep.Faults) > 0 {
		f.Errorf("faults after bodies of all sizes: %v", rep.Faults)
	}
	for n := range got {
		equal(f, "repeat of a body", f.accept(fmt.Sprint("size_", n), pattern(n, 0), billing).Verdict, dedupe.Repeat)
	}
}

func acceptLarge(f *fix) {
	const n = dedupe.DefaultMaxItems
	var reqs []*dedupe.Request
	for i := range n {
		reqs = append(reqs, one(f.item(fmt.Sprint("evt_", i), pattern(300, i), billing, crm), pattern(300, i)))
	}
	f.commit(reqs...)
	for i, r := range reqs {
		equal(f, "verdict", r.Outcomes[0].Verdict, dedupe.New)
		equal(f, "body", string(f.body(r.Outcomes[0].Ref)) == pattern(300, i), true)
	}
	equal(f, "leases", len(f.lease(billing, long)), n)
	whole := &dedupe.Request{Batch: true, Body: []byte(pattern(n, 7))}
	for i := range n {
		it := f.item(fmt.Sprint("el_", i), string(whole.Body[i:i+1]), billing)
		it.Event.Body.Offset = int64(i)
		whole.Items = append(whole.Items, it)
	}
	f.commit(whole)
	equal(f, "events", f.stats().Events, 2*n)
	equal(f, "leases of the elements", len(f.lease(billing, long)), n)
}

func acceptOrder(f *fix) {
	last := f.newEvent("evt_0", "{}")
	step := func(what string, n int) {
		f.Helper()
		ref := f.newEvent(fmt.Sprint("evt_", n), "{}")
		if ref.Compare(last) <= 0 {
			f.Fatalf("%s: ref %s does not follow %s", what, ref, last)
		}
		equal(f, "writer", ref.Writer(), last.Writer())
		last = ref
	}
	step("same millisecond", 1)
	f.clock.Advance(time.Hour)
	step("an hour on", 2)
	f.clock.Advance(-2 * time.Hour)
	before := f.l.Now()
	step("clock set back", 3)
	f.reopen()
	if f.l.Now().Before(before.Truncate(time.Millisecond)) {
		f.Errorf("ledger time went back from %v to %v", before, f.l.Now())
	}
	step("reopened with the clock set back", 4)
	f.clock.Advance(3 * time.Hour)
	step("clock right again", 5)
}

func acceptRead(f *fix) {
	for i := range 50 {
		id := fmt.Sprint("evt_", i)
		ref := f.newEvent(id, id, billing)
		found, err := f.l.Lookup(f.Context(), []string{source}, id)
		f.must(err)
		if !slices.Equal(found, []event.Ref{ref}) {
			f.Fatalf("Lookup(%s) = %v, want %s", id, found, ref)
		}
		p, err := f.l.Events(f.Context(), dedupe.Filter{}, "", 1)
		f.must(err)
		if len(p.Items) != 1 || p.Items[0].Event.Ref != ref {
			f.Fatalf("newest event is not %s: %v", ref, p.Items)
		}
	}
}
