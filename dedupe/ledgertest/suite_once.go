package ledgertest

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"time"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

// onceTests hold when the bytes of a Once retention go, and when not.
func onceTests() []test {
	return []test{
		{"the body goes with the last delivery", onceDelivered},
		{"a dead delivery keeps the body", onceDead},
		{"a cancelled delivery gives it up", onceCancelled},
		{"an event without targets keeps it", onceUnrouted},
		{"others keep theirs", onceOthers},
		{"a shared body stays while an element needs it", onceBatch},
		{"an element that is carried keeps it", onceCarried},
		{"disk is not filled by spent bodies", onceDisk},
	}
}

// once writes a request of which the bytes are kept only until delivered.
func (f *fix) once(id, body string, targets ...string) event.Ref {
	f.Helper()
	r := one(f.item(id, body, targets...), body)
	r.Retention.Once = true
	f.commit(r)
	return r.Outcomes[0].Ref
}

// wantSpent fails unless only the bytes of an event are gone.
func (f *fix) wantSpent(ref event.Ref, body string) {
	f.Helper()
	_, err := f.l.Body(f.Context(), ref)
	f.want(err, dedupe.ErrPruned)
	_, err = f.l.Load(f.Context(), ref)
	f.want(err, dedupe.ErrPruned)
	rec := f.get(ref)
	equal(f, "body gone", rec.BodyGone, true)
	equal(f, "hash", rec.Event.BodyHash, event.HashOf([]byte(body)))
	equal(f, "length", rec.Event.Body.Length, int64(len(body)))
	n, err := f.l.Replay(f.Context(), dedupe.Replay{Selection: dedupe.Selection{Ref: ref}, By: by})
	f.must(err)
	equal(f, "replay", n, dedupe.ReplayCount{Events: 1, Pruned: 1})
}

func (f *fix) wantKept(ref event.Ref, body string) {
	f.Helper()
	equal(f, "body", string(f.body(ref)), body)
	equal(f, "body gone", f.get(ref).BodyGone, false)
}

// wantSound fails when the ledger finds fault with itself.
func (f *fix) wantSound() {
	f.Helper()
	rep, err := f.l.Check(f.Context())
	f.must(err)
	if len(rep.Faults) > 0 {
		f.Fatalf("faults: %v", rep.Faults)
	}
}

func onceDelivered(f *fix) {
	ref := f.once("evt_1", "the body", billing, crm)
	f.settle(billing, event.Delivered)
	f.wantKept(ref, "the body")
	l := f.leaseOne(crm)
	f.finish(f.result(l, event.Pending, time.Second)) // tried once more
	f.wantKept(ref, "the body")
	f.clock.Advance(time.Minute)
	f.settle(crm, event.Delivered)
	f.wantSpent(ref, "the body")
	f.wantSound()
	f.reopen()
	f.wantSpent(ref, "the body")
	equal(f, "attempts", len(f.attempts(ref)), 3)
	equal(f, "a repeat", f.accept("evt_1", "the body", billing).Verdict, dedupe.Repeat)
	f.wantSound()
}

func onceDead(f *fix) {
	ref := f.once("evt_1", "the body", billing, crm)
	f.settle(billing, event.Delivered)
	f.settle(crm, event.Dead)
	f.wantKept(ref, "the body")
	f.reopen()
	n, err := f.l.Replay(f.Context(), dedupe.Replay{Selection: dedupe.Selection{Ref: ref}, Target: crm, By: by})
	f.must(err)
	equal(f, "opened", n.Opened, 1)
	f.settle(crm, event.Delivered)
	f.wantSpent(ref, "the body")

	dropped := f.once("evt_2", "the other", billing)
	f.settle(billing, event.Dead)
	f.wantKept(dropped, "the other")
	_, err = f.l.Drop(f.Context(), dropped, "", by)
	f.must(err)
	f.wantSpent(dropped, "the other")
	f.wantSound()
}

func onceCancelled(f *fix) {
	ref := f.once("evt_1", "the body", billing, crm)
	_, err := f.l.Cancel(f.Context(), ref, billing, by)
	f.must(err)
	f.wantKept(ref, "the body")
	_, err = f.l.Cancel(f.Context(), ref, "", by)
	f.must(err)
	f.wantSpent(ref, "the body")
	f.wantSound()
}

func onceUnrouted(f *fix) {
	ref := f.once("evt_1", "the body")
	f.wantKept(ref, "the body")
	f.reopen()
	f.wantKept(ref, "the body")
}

func onceOthers(f *fix) {
	kept := f.newEvent("evt_1", "kept", billing)
	ref := f.once("evt_2", "spent", billing)
	after := f.newEvent("evt_3", "kept as well", billing)
	f.settle(billing, event.Delivered)
	f.wantSpent(ref, "spent")
	f.wantKept(kept, "kept")
	f.wantKept(after, "kept as well")
	f.wantSound()
}

// onceElements writes one request of n events, each a slice of its body.
func (f *fix) onceElements(n int) (refs []event.Ref, bodies []string) {
	f.Helper()
	r := &dedupe.Request{Batch: true, Retention: dedupe.Retention{Once: true}}
	for i := range n {
		body := fmt.Sprintf("element %d", i)
		it := f.item(fmt.Sprintf("evt_%s_%d", f.clock.Now().Format("150405"), i), body, billing)
		it.Event.Body.Offset = int64(len(r.Body))
		r.Body = append(r.Body, body...)
		r.Items, bodies = append(r.Items, it), append(bodies, body)
	}
	f.commit(r)
	for _, o := range r.Outcomes {
		refs = append(refs, o.Ref)
	}
	return refs, bodies
}

func onceBatch(f *fix) {
	before := f.once("before", "before", crm)
	refs, bodies := f.onceElements(4)
	f.once("after", "after", crm)
	leases := map[event.Ref]dedupe.Lease{}
	for _, l := range f.lease(billing, long) {
		leases[l.Delivery.Event] = l
	}
	for done, i := range []int{2, 0, 3, 1} {
		f.finish(f.result(leases[refs[i]], event.Delivered, 0))
		if done == 1 {
			f.wantSound()
		}
		f.wantSpent(refs[i], bodies[i])
	}
	for i := range refs {
		f.wantSpent(refs[i], bodies[i])
	}
	f.wantKept(before, "before")
	f.wantSound()

	f.clock.Advance(time.Minute)
	refs, bodies = f.onceElements(3)
	leases = map[event.Ref]dedupe.Lease{}
	for _, l := range f.lease(billing, long) {
		leases[l.Delivery.Event] = l
	}
	f.finish(f.result(leases[refs[0]], event.Delivered, 0), f.result(leases[refs[2]], event.Dead, 0))
	f.wantKept(refs[1], bodies[1])
	f.finish(f.result(leases[refs[1]], event.Delivered, 0))
	f.wantKept(refs[2], bodies[2])
	f.reopen()
	f.wantKept(refs[2], bodies[2])
	f.wantSpent(refs[0], bodies[0])
	f.wantSound()
}

func onceCarried(f *fix) {
	refs, bodies := f.onceElements(3)
	leases := map[event.Ref]dedupe.Lease{}
	for _, l := range f.lease(billing, long) {
		leases[l.Delivery.Event] = l
	}
	f.finish(f.result(leases[refs[1]], event.Delivered, 0))
	f.must(f.l.Release(f.Context(), leases[refs[0]], leases[refs[2]]))
	for range 4 {
		f.clock.Advance(past(retention.Meta) / 2)
		f.expire()
	}
	f.wantKept(refs[0], bodies[0])
	f.finish(f.result(f.lease(billing, 1)[0], event.Delivered, 0))
	f.wantSpent(refs[0], bodies[0])
	f.wantKept(refs[2], bodies[2])
	f.settle(billing, event.Delivered)
	f.wantSpent(refs[2], bodies[2])
	f.reopen()
	f.wantSpent(refs[0], bodies[0])
	f.wantSound()
}

func onceDisk(f *fix) {
	if f.h.DiskUsage == nil {
		f.Logf("the engine doesn't say what disk it takes")
		return
	}
	empty := f.h.DiskUsage(f.TB, f.l)
	var text strings.Builder // no compression makes less of it
	for i := 0; text.Len() < f.h.ChunkSize*3; i++ {
		fmt.Fprintf(&text, "%x", sha256.Sum256([]byte(fmt.Sprint(i))))
	}
	for i := range 8 {
		f.once(fmt.Sprint("evt_", i), text.String(), billing)
		f.settle(billing, event.Delivered)
	}
	f.clock.Advance(past(retention.Body))
	f.expire()
	f.reopen()
	if used := f.h.DiskUsage(f.TB, f.l); used > empty+f.h.DiskSlack {
		f.Errorf("%d bytes of disk, %d when it was empty", used, empty)
	}
	f.wantSound()
}
