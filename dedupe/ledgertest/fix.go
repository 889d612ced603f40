package ledgertest

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

// The names most tests use.
const (
	source  = "shop"
	billing = "billing"
	crm     = "crm"
	ttl     = time.Minute
	window  = 24 * time.Hour
	long    = 1 << 20 // more leases than any test has deliveries
)

// retention of most tests: short, so that what is to be dropped is.
var retention = dedupe.Retention{Body: 24 * time.Hour, Meta: 10 * 24 * time.Hour, Audit: 10 * 24 * time.Hour}

// by is who does what an operator does.
var by = dedupe.By{Actor: "tester", Reason: "because"}

// fix is a fresh ledger and its clock.
type fix struct {
	TB
	h     Harness
	clock *Clock
	opts  Options
	l     dedupe.Ledger
	moved bool // from where others wrote
}

func newFix(tb TB, h Harness) *fix {
	clock := NewClock(start)
	f := &fix{TB: tb, h: h, clock: clock, opts: Options{Now: clock.Now, Retention: retention}}
	f.l = h.Open(tb, f.opts)
	f.ready()
	return f
}

// ready waits until the schedule is read back.
func (f *fix) ready() {
	f.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	limit := time.NewTimer(30 * time.Second)
	defer limit.Stop()
	for {
		st, err := f.l.Stats(f.Context())
		f.must(err)
		if !st.Rebuilding {
			return
		}
		select {
		case <-tick.C:
		case <-limit.C:
			f.Fatalf("the schedule was not read back within 30 s")
		}
	}
}

func (f *fix) reopen() {
	f.Helper()
	f.l = f.h.Reopen(f.TB, f.l)
	f.ready()
}

func (f *fix) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatalf("unexpected error: %v", err)
	}
}

func (f *fix) want(err, target error) {
	f.Helper()
	if !errors.Is(err, target) {
		f.Fatalf("error = %v, want %v", err, target)
	}
}

// equal fails unless got and want are the same; what names them.
func equal[T comparable](f *fix, what string, got, want T) {
	f.Helper()
	if got != want {
		f.Fatalf("%s = %v, want %v", what, got, want)
	}
}

// item is an event of source with an ID, a body and targets, on its way in.
func (f *fix) item(id, body string, targets ...string) dedupe.Item {
	it := dedupe.Item{
		Event: event.Event{
			Source: source, Provider: "test", ID: id, Type: "order.paid", ReceivedAt: f.clock.Now(), Method: "POST",
			BodyHash: event.HashOf([]byte(body)), Body: event.Slice{Length: int64(len(body))}, Targets: targets,
		},
		RawID: id, HasClaim: id != "", Window: window, Conflict: dedupe.ConflictAck,
	}
	if it.HasClaim {
		it.Claim = dedupe.KeyOf(dedupe.KindID, source, "", id)
	} else {
		it.Event.Flags = event.FlagNoID | event.FlagUndeduped
	}
	return it
}

// conflict gives an item its policy for the same ID with another body.
func conflict(it *dedupe.Item, policy dedupe.Conflict, former ...string) {
	it.Conflict, it.Distinct = policy, nil
	if policy == dedupe.ConflictDeliver {
		it.Distinct = dedupe.DistinctKeys(it.Event.Caller, it.RawID, it.Event.BodyHash, append([]string{it.Event.Source}, former...)...)
	}
}

// one is a request with a single item.
func one(it dedupe.Item, body string) *dedupe.Request {
	return &dedupe.Request{Body: []byte(body), Items: []dedupe.Item{it}}
}

// commit writes requests in one batch.
func (f *fix) commit(reqs ...*dedupe.Request) {
	f.Helper()
	f.must(f.l.Commit(f.Context(), &dedupe.Batch{Requests: reqs}))
	for _, r := range reqs {
		equal(f, "outcomes of a request", len(r.Outcomes), len(r.Items))
	}
}

// accept writes one event in a batch of its own.
func (f *fix) accept(id, body string, targets ...string) dedupe.Outcome {
	f.Helper()
	return f.acceptItem(f.item(id, body, targets...), body)
}

func (f *fix) acceptItem(it dedupe.Item, body string) dedupe.Outcome {
	f.Helper()
	r := one(it, body)
	f.commit(r)
	return r.Outcomes[0]
}

// newEvent writes one event that must be new.
func (f *fix) newEvent(id, body string, targets ...string) event.Ref {
	f.Helper()
	o := f.accept(id, body, targets...)
	equal(f, "verdict of "+id, o.Verdict, dedupe.New)
	return o.Ref
}

func (f *fix) lease(target string, n int) []dedupe.Lease {
	f.Helper()
	ls, _, err := f.l.Lease(f.Context(), target, n, ttl)
	f.must(err)
	return ls
}

// leaseOne takes the only delivery of target that is due.
func (f *fix) leaseOne(target string) dedupe.Lease {
	f.Helper()
	ls := f.lease(target, long)
	if len(ls) != 1 {
		f.Fatalf("%d leases of %s, want 1", len(ls), target)
	}
	return ls[0]
}

// result ends a lease with an attempt as the forwarder records it.
func (f *fix) result(l dedupe.Lease, state event.State, delay time.Duration) *dedupe.Result {
	a := event.Attempt{
		Event: l.Delivery.Event, Target: l.Delivery.Target, Generation: l.Delivery.Generation, Number: l.Delivery.Attempts + 1,
		StartedAt: f.clock.Now(), Duration: 1500 * time.Microsecond, Phases: event.Phases{FirstByte: 900 * time.Microsecond},
		Status: 200, Outcome: event.Outcome2xx,
		Response: []byte("HTTP/1.1 200 OK\r\n\r\nfine"), State: state,
	}
	if state != event.Delivered {
		a.Status, a.Outcome, a.RetryIn = 503, event.Outcome5xx, delay
		a.Response = []byte("HTTP/1.1 503 Service Unavailable\r\n\r\n")
	}
	return &dedupe.Result{Lease: l, State: state, Delay: delay, Attempt: a}
}

// finish writes results in one batch.
func (f *fix) finish(rs ...*dedupe.Result) {
	f.Helper()
	f.must(f.l.Commit(f.Context(), &dedupe.Batch{Results: rs}))
}

// settle leases all that is due of target and ends it in state.
func (f *fix) settle(target string, state event.State) {
	f.Helper()
	var rs []*dedupe.Result
	for _, l := range f.lease(target, long) {
		rs = append(rs, f.result(l, state, 0))
	}
	f.finish(rs...)
}

func (f *fix) get(ref event.Ref) dedupe.Record {
	f.Helper()
	rec, err := f.l.Get(f.Context(), ref)
	f.must(err)
	return rec
}

// delivery is one delivery of an event as the ledger shows it.
func (f *fix) delivery(ref event.Ref, target string) event.Delivery {
	f.Helper()
	for _, d := range f.get(ref).Deliveries {
		if d.Target == target {
			return d
		}
	}
	f.Fatalf("event %s has no delivery for %s", ref, target)
	return event.Delivery{}
}

func (f *fix) body(ref event.Ref) []byte {
	f.Helper()
	b, err := f.l.Body(f.Context(), ref)
	f.must(err)
	return b
}

func (f *fix) attempts(ref event.Ref) []event.Attempt {
	f.Helper()
	as, err := f.l.Attempts(f.Context(), ref)
	f.must(err)
	return as
}

func (f *fix) stats() dedupe.Stats {
	f.Helper()
	st, err := f.l.Stats(f.Context())
	f.must(err)
	return st
}

// expire runs retention as a gateway does that keeps the account's seals.
func (f *fix) expire() dedupe.Expired {
	f.Helper()
	f.sealAll()
	x, err := f.l.Expire(f.Context())
	f.must(err)
	return x
}

// events lists all events a filter selects in pages of limit.
func (f *fix) events(flt dedupe.Filter, limit int) []dedupe.Record {
	f.Helper()
	return pages(f, limit, func(cursor string) (dedupe.Page[dedupe.Record], error) {
		return f.l.Events(f.Context(), flt, cursor, limit)
	})
}

// deliveries lists all deliveries a filter selects in pages of limit.
func (f *fix) deliveries(flt dedupe.Filter, limit int) []dedupe.DeliveryRow {
	f.Helper()
	return pages(f, limit, func(cursor string) (dedupe.Page[dedupe.DeliveryRow], error) {
		return f.l.Deliveries(f.Context(), flt, cursor, limit)
	})
}

func pages[T any](f *fix, limit int, list func(cursor string) (dedupe.Page[T], error)) []T {
	f.Helper()
	var out []T
	seen := map[string]bool{}
	for cursor := ""; ; {
		p, err := list(cursor)
		f.must(err)
		if len(p.Items) > limit {
			f.Fatalf("a page of %d holds %d", limit, len(p.Items))
		}
		out = append(out, p.Items...)
		if p.Next == "" {
			return out
		}
		if seen[p.Next] {
			f.Fatalf("cursor %q comes twice: the list never ends", p.Next)
		}
		seen[p.Next] = true
		cursor = p.Next
	}
}

// refs are those of leases, sorted.
func refs(ls []dedupe.Lease) []event.Ref {
	var out []event.Ref
	for _, l := range ls {
		out = append(out, l.Delivery.Event)
	}
	slices.SortFunc(out, event.Ref.Compare)
	return out
}

// recordRefs are those of records, in order.
func recordRefs(rs []dedupe.Record) []event.Ref {
	var out []event.Ref
	for _, r := range rs {
		out = append(out, r.Event.Ref)
	}
	return out
}

func reversed(rs []event.Ref) []event.Ref {
	out := slices.Clone(rs)
	slices.Reverse(out)
	return out
}

// sameTime is equality to the millisecond, which is what engines keep.
func sameTime(a, b time.Time) bool {
	if a.IsZero() || b.IsZero() {
		return a.IsZero() == b.IsZero()
	}
	return a.UnixMilli() == b.UnixMilli()
}

// sameEvent describes how two events differ, "" when they don't.
func sameEvent(got, want event.Event) string {
	if !got.ReceivedAt.Equal(want.ReceivedAt) {
		return fmt.Sprintf("received at %v, want %v", got.ReceivedAt, want.ReceivedAt)
	}
	if !bytes.Equal(got.Answer.Body, want.Answer.Body) {
		return fmt.Sprintf("answer %q, want %q", got.Answer.Body, want.Answer.Body)
	}
	if !slices.Equal(got.Header, want.Header) || !slices.Equal(got.Targets, want.Targets) {
		return fmt.Sprintf("header and targets %v %v, want %v %v", got.Header, got.Targets, want.Header, want.Targets)
	}
	if !slices.Equal(got.Orders, want.Orders) {
		return fmt.Sprintf("orders %v, want %v", got.Orders, want.Orders)
	}
	if !slices.Equal(got.Index, want.Index) {
		return fmt.Sprintf("indexed fields %v, want %v", got.Index, want.Index)
	}
	for _, ev := range [...]*event.Event{&got, &want} {
		ev.ReceivedAt, ev.Answer.Body, ev.Header, ev.Targets, ev.Orders, ev.Index = time.Time{}, nil, nil, nil, nil, nil
	}
	if g, w := fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want); g != w {
		return "got  " + g + "\nwant " + w
	}
	return ""
}

// byTarget sorts deliveries, whose order inside an event isn't promised.
func byTarget(ds []event.Delivery) []event.Delivery {
	out := slices.Clone(ds)
	slices.SortFunc(out, func(a, b event.Delivery) int { return cmp.Compare(a.Target, b.Target) })
	return out
}
