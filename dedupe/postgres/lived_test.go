package postgres_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/dedupe/ledgertest"
	"github.com/onceward/onceward/event"
)

// life makes a ledger in which there is some of everything.
type life struct {
	t     *testing.T
	l     dedupe.Ledger
	clock *ledgertest.Clock
	ctx   context.Context
}

var lifeRetention = dedupe.Retention{Body: 24 * time.Hour, Meta: 4 * 24 * time.Hour, Audit: 4 * 24 * time.Hour}

func (f *life) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

// item is an event on its way in.
func (f *life) item(id string, body []byte, targets ...string) dedupe.Item {
	return dedupe.Item{
		Event: event.Event{
			Source: "shop", Provider: "test", ID: id, Type: "order.paid", ReceivedAt: f.clock.Now(), Method: "POST", Path: "/x", Query: "a=%ff",
			Header:   []event.Field{{Name: "X-Odd", Value: "a\x00\xff"}, {Name: "X-Odd", Value: ""}},
			BodyHash: event.HashOf(body), Body: event.Slice{Length: int64(len(body))}, Targets: targets, Trace: "00-1-2-01",
			Index: []event.Field{{Name: "customer", Value: "cus_" + id}},
		},
		RawID: id, HasClaim: id != "", Claim: dedupe.KeyOf(dedupe.KindID, "shop", "", id), Window: 48 * time.Hour, Conflict: dedupe.ConflictDeliver,
		Distinct: dedupe.DistinctKeys("", id, event.HashOf(body), "shop"),
		Guard:    dedupe.GuardFlag, GuardKey: dedupe.KeyOf(dedupe.KindGuard, "shop", "", string(body)),
	}
}

func (f *life) commit(b *dedupe.Batch) {
	f.t.Helper()
	f.must(f.l.Commit(f.ctx, b))
}

func (f *life) accept(keep dedupe.Retention, body []byte, items ...dedupe.Item) []dedupe.Outcome {
	f.t.Helper()
	req := &dedupe.Request{Body: body, Items: items, Retention: keep, Answer: event.Answer{Status: 202, Body: []byte("ok")}, Batch: len(items) > 1}
	f.commit(&dedupe.Batch{Requests: []*dedupe.Request{req}})
	f.must(req.Err)
	f.clock.Advance(time.Millisecond)
	return req.Outcomes
}

// finish ends what is due at a target, as f says of each.
func (f *life) finish(target string, as func(l *dedupe.Lease) *dedupe.Result) {
	f.t.Helper()
	leases, _, err := f.l.Lease(f.ctx, target, 1000, time.Minute)
	f.must(err)
	b := &dedupe.Batch{}
	var back []dedupe.Lease
	for i := range leases {
		if r := as(&leases[i]); r != nil {
			b.Results = append(b.Results, r)
		} else {
			back = append(back, leases[i])
		}
	}
	f.commit(b)
	f.must(f.l.Release(f.ctx, back...))
	f.clock.Advance(time.Second)
}

func (f *life) result(l *dedupe.Lease, s event.State) *dedupe.Result {
	r := &dedupe.Result{Lease: *l, State: s, Delay: time.Hour}
	r.Attempt = event.Attempt{Event: l.Delivery.Event, Target: l.Delivery.Target, Generation: l.Delivery.Generation, Number: l.Delivery.Attempts + 1,
		StartedAt: f.clock.Now(), Duration: 3*time.Millisecond + 7, Phases: event.Phases{Connect: time.Millisecond}, Status: 500, Outcome: event.Outcome5xx,
		Response: []byte("HTTP/1.1 500\r\n\xff"), State: s}
	if s == event.Delivered {
		r.Attempt.Status, r.Attempt.Outcome = 200, event.Outcome2xx
	}
	return r
}

// key claims a key, and answers it when body is not nil.
func (f *life) key(id string, body []byte) {
	k := dedupe.KeyOf(dedupe.KindSync, "pay", "app", id)
	claim := &dedupe.KeyStep{Kind: dedupe.StepClaim, Key: k, Claim: &dedupe.KeyClaim{Source: "pay", Caller: "app", ID: id, Target: "bank",
		Downstream: "pay:app:" + id, Print: event.HashOf([]byte(id)), Lease: time.Minute, Window: 240 * time.Hour}}
	f.commit(&dedupe.Batch{Keys: []*dedupe.KeyStep{claim}})
	if body != nil {
		f.commit(&dedupe.Batch{Keys: []*dedupe.KeyStep{{Kind: dedupe.StepAnswer, Key: k, Token: claim.Record.Token, ForwardedAt: f.clock.Now(),
			Answer: &dedupe.KeyAnswer{Status: 201, Header: []event.Field{{Name: "A", Value: "b"}}, Length: int64(len(body)), Hash: event.HashOf(body), Body: body}}}})
	}
}

// live goes through all of it; with hours between, so that retention has work.
func (f *life) live() {
	var keep dedupe.Retention
	once := dedupe.Retention{Once: true}
	old := f.accept(keep, []byte("old"), f.item("old", []byte("old"), "slow", "fast"))
	f.accept(keep, []byte("aabb"), f.part("b1", "aabb", 0, 2, "slow"), f.part("b2", "aabb", 2, 2))
	f.accept(once, []byte("spent"), f.item("spent", []byte("spent"), "fast"))
	f.finish("fast", func(l *dedupe.Lease) *dedupe.Result { return f.result(l, event.Delivered) })
	f.clock.Advance(30 * time.Hour) // past the bodies'
	f.expire()
	f.clock.Advance(80 * time.Hour) // past the events'
	f.expire()
	for i := range 12 {
		it := f.item(fmt.Sprint("o", i), fmt.Appendf(nil, "ordered %d", i), "lane", "fast")
		it.Event.Orders = []event.Order{event.OrderOf(fmt.Sprint("cus", i%3), i%3 == 2), 0}
		f.accept(keep, fmt.Appendf(nil, "ordered %d", i), it)
	}
	f.finish("lane", func(l *dedupe.Lease) *dedupe.Result { return f.result(l, event.Dead) }) // blocks two of three lanes
	n := 0
	f.finish("fast", func(l *dedupe.Lease) *dedupe.Result {
		n++
		return []*dedupe.Result{nil, f.result(l, event.Pending), f.result(l, event.Delivered), f.result(l, event.Dead), f.result(l, event.Cancelled)}[n%5]
	})
	big := bytes.Repeat([]byte("0123456789abcdef"), 80_000)
	f.accept(keep, big, f.item("big", big, "slow"))
	f.accept(keep, nil, f.item("empty", nil, "slow"))
	f.accept(keep, []byte("anonymous"), f.item("", []byte("anonymous")))
	f.accept(keep, []byte("ordered 3"), f.item("o3", []byte("ordered 3"), "fast"))       // a repeat
	f.accept(keep, []byte("another body"), f.item("o4", []byte("another body"), "fast")) // a conflict
	f.accept(once, []byte("xxyyzz"), f.part("x", "xxyyzz", 0, 2, "quick"), f.part("y", "xxyyzz", 2, 2, "slow"), f.part("z", "xxyyzz", 4, 2, "quick"))
	f.finish("quick", func(l *dedupe.Lease) *dedupe.Result { return f.result(l, event.Delivered) })
	by := dedupe.By{Actor: "ann", Reason: "because"}
	_, err := f.l.Replay(f.ctx, dedupe.Replay{Selection: dedupe.Selection{Filter: dedupe.Filter{Source: "shop"}}, Target: "fast", NewKey: true, By: by})
	f.must(err)
	_, err = f.l.Cancel(f.ctx, old[0].Ref, "fast", by)
	f.must(err)
	f.finish("fast", func(l *dedupe.Lease) *dedupe.Result {
		n++
		return []*dedupe.Result{nil, f.result(l, event.Delivered)}[n%2]
	})
	f.key("open", nil)
	f.key("small", []byte("{}"))
	f.key("long", bytes.Repeat([]byte("long"), 400_000))
	for i := range 3 {
		_, err := f.l.PutNote(f.ctx, dedupe.Note{Kind: "target", Name: fmt.Sprint("t", i), Value: []byte{0, byte(i)}})
		f.must(err)
	}
	act := &dedupe.Act{Kind: dedupe.ActRefused, Source: "shop", Number: 3, Outcome: "signature", Time: f.clock.Now()}
	f.commit(&dedupe.Batch{Acts: []*dedupe.Act{act}})
}

// part is an event that is a part of a request's body.
func (f *life) part(id, body string, at, n int, targets ...string) dedupe.Item {
	it := f.item(id, []byte(body[at:at+n]), targets...)
	it.Event.Body.Offset = int64(at)
	return it
}

func (f *life) expire() {
	logs, err := f.l.ActLogs(f.ctx)
	f.must(err)
	for _, l := range logs {
		f.must(f.l.SealActs(f.ctx, l.Writer, l.Next))
	}
	_, err = f.l.Expire(f.ctx)
	f.must(err)
}

// lived is an embedded ledger that lived, closed.
func lived(t *testing.T) (*embedded, *ledgertest.Clock) {
	t.Helper()
	clock := ledgertest.NewClock(time.Date(2026, 3, 1, 9, 30, 0, 0, time.UTC))
	e := startEmbedded(t, small(t.TempDir(), ledgertest.Options{Now: clock.Now, Retention: lifeRetention}))
	f := &life{t: t, l: e, clock: clock, ctx: context.Background()}
	f.live()
	f.must(e.Close())
	return e, clock
}
