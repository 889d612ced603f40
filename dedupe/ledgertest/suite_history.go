package ledgertest

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

// rapidTB lends a random history what a Harness needs of a test.
type rapidTB struct{ *rapid.T }

// TempDir is removed with the history.
func (r rapidTB) TempDir() string {
	dir, err := os.MkdirTemp("", "ledgertest")
	if err != nil {
		r.Fatalf("make a directory: %v", err)
	}
	r.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// Histories does the same random things to the engine and to a Memory and
// compares all they say.
func Histories(t *testing.T, h Harness) {
	if checks := flag.Lookup("rapid.checks"); h.Histories > 0 && checks != nil {
		was := checks.Value.String()
		if err := checks.Value.Set(strconv.Itoa(h.Histories)); err != nil {
			t.Fatalf("set the number of histories: %v", err)
		}
		t.Cleanup(func() { _ = checks.Value.Set(was) })
	}
	rapid.Check(t, func(rt *rapid.T) {
		newHistory(rapidTB{rt}, h).run()
	})
}

// history is an engine and a model that have lived through the same.
type history struct {
	*fix
	rt    *rapid.T
	model *Memory
	refs  []pair[event.Ref] // events, oldest first
	held  []pair[dedupe.Lease]
	known time.Time // the last time that both sides keep
}

// pair is the engine's and the model's of the same thing.
type pair[T any] struct{ got, want T }

// histRetention is so long that a history drops no event: engines do it at
// other times than the model. Claims expire all the more.
var histRetention = dedupe.Retention{Body: 100_000 * time.Hour, Meta: 100_000 * time.Hour, Audit: 100_000 * time.Hour}

func newHistory(tb rapidTB, h Harness) *history {
	clock := NewClock(start)
	f := &fix{TB: tb, h: h, clock: clock, opts: Options{Now: clock.Now, Retention: histRetention}}
	f.l = h.Open(tb, f.opts)
	f.ready()
	return &history{fix: f, rt: tb.T, known: clock.Now(), model: NewMemory(Config{Now: clock.Now, Retention: histRetention})}
}

func (h *history) run() {
	do := map[string]func(*rapid.T){
		"accept":  h.accept,
		"lease":   h.lease,
		"finish":  h.finish,
		"release": h.release,
		"extend":  h.extend,
		"replay":  h.replay,
		"cancel":  h.cancel,
		"expire":  h.expire,
		"advance": h.advance,
		"reopen":  h.reopen,
		"list":    h.list,
		"keys":    h.keySteps,
		"":        h.sample,
	}
	if h.h.Move != nil {
		do["move"] = h.move
	}
	h.mark()
	for name, act := range do {
		if name != "" && name != "advance" {
			do[name] = func(t *rapid.T) {
				act(t)
				h.mark()
			}
		}
	}
	h.rt.Repeat(do)
	if h.h.Move != nil {
		h.move(h.rt)
	}
	for i := range h.refs {
		h.compare(i)
	}
	h.compareStats()
	h.compareActs()
}

// mark has both sides commit something. A ledger may know that it was in use later
// than by its last batch, and after a kill that decides whether it trusts its clock.
func (h *history) mark() {
	h.Helper()
	h.known = h.clock.Now()
	for _, l := range [...]dedupe.Committer{h.l, h.model} {
		h.must(l.Commit(h.Context(), &dedupe.Batch{Acts: []*dedupe.Act{{Kind: dedupe.ActOperated, Outcome: "mark", By: by}}}))
	}
}

// ref finds the engine's ref of an event by the model's.
func (h *history) index(side func(pair[event.Ref]) event.Ref, ref event.Ref) int {
	return slices.IndexFunc(h.refs, func(p pair[event.Ref]) bool { return side(p) == ref })
}

func gotRef(p pair[event.Ref]) event.Ref  { return p.got }
func wantRef(p pair[event.Ref]) event.Ref { return p.want }

// ordinals are the places of refs in the order of acceptance.
func (h *history) ordinals(side func(pair[event.Ref]) event.Ref, refs []event.Ref) []int {
	out := make([]int, len(refs))
	for i, r := range refs {
		out[i] = h.index(side, r)
	}
	return out
}

func (h *history) accept(t *rapid.T) {
	got, want := &dedupe.Batch{Acts: h.acts(t)}, &dedupe.Batch{}
	want.Acts = got.Acts
	for range rapid.IntRange(1, 4).Draw(t, "requests") {
		a := h.request(t)
		b := *a
		got.Requests, want.Requests = append(got.Requests, a), append(want.Requests, &b)
	}
	h.must(h.l.Commit(h.Context(), got))
	h.must(h.model.Commit(h.Context(), want))
	for i := range got.Requests {
		equal(h.fix, "outcomes", len(got.Requests[i].Outcomes), len(want.Requests[i].Outcomes))
		for j, w := range want.Requests[i].Outcomes {
			h.outcome(got.Requests[i].Outcomes[j], w)
		}
	}
}

func (h *history) outcome(g, w dedupe.Outcome) {
	h.Helper()
	equal(h.fix, "verdict", g.Verdict, w.Verdict)
	if w.Verdict == dedupe.New {
		h.refs = append(h.refs, pair[event.Ref]{g.Ref, w.Ref})
	}
	equal(h.fix, "event of the outcome", h.index(gotRef, g.Ref), h.index(wantRef, w.Ref))
	equal(h.fix, "outcome", fmt.Sprint(g.ID, g.Answer, g.Flags), fmt.Sprint(w.ID, w.Answer, w.Flags))
}

// request draws a request out of so few IDs and bodies that they meet again.
func (h *history) request(t *rapid.T) *dedupe.Request {
	req := &dedupe.Request{Answer: event.Answer{Status: rapid.SampledFrom([]int{0, 200, 202}).Draw(t, "status")}}
	n := 1
	if rapid.IntRange(0, 3).Draw(t, "kind") == 0 {
		n, req.Batch = rapid.IntRange(2, 5).Draw(t, "elements"), true
	}
	for range n {
		body := rapid.SampledFrom([]string{"", "a", "bb", "ccc"}).Draw(t, "body")
		id := rapid.SampledFrom([]string{"", "1", "2", "3", "4"}).Draw(t, "id")
		targets := rapid.SampledFrom([][]string{nil, {billing}, {crm}, {billing, crm}}).Draw(t, "targets")
		it := h.item(id, body, targets...)
		it.Event.Body.Offset = int64(len(req.Body))
		it.Event.Source = rapid.SampledFrom([]string{"a", "b"}).Draw(t, "source")
		if it.HasClaim {
			it.Claim = dedupe.KeyOf(dedupe.KindID, it.Event.Source, "", id)
		}
		it.Window = rapid.SampledFrom([]time.Duration{time.Minute, time.Hour, 24 * time.Hour}).Draw(t, "window")
		conflict(&it, rapid.SampledFrom([]dedupe.Conflict{dedupe.ConflictAck, dedupe.ConflictDeliver, dedupe.ConflictReject}).Draw(t, "conflict"))
		it.Guard = rapid.SampledFrom([]dedupe.Guard{dedupe.GuardOff, dedupe.GuardFlag, dedupe.GuardDrop}).Draw(t, "guard")
		it.GuardKey = dedupe.KeyOf(dedupe.KindGuard, it.Event.Source, "", body)
		if rapid.IntRange(0, 3).Draw(t, "renamed") == 0 {
			it.Former = []dedupe.Key{dedupe.KeyOf(dedupe.KindID, "a", "", id), dedupe.KeyOf(dedupe.KindID, "b", "", id)}
			conflict(&it, it.Conflict, "a", "b")
		}
		req.Body = append(req.Body, body...)
		req.Items = append(req.Items, it)
	}
	return req
}

func drawTarget(t *rapid.T) string {
	return rapid.SampledFrom([]string{billing, crm}).Draw(t, "target")
}

// lease takes all that is due, so that both sides must take the same.
func (h *history) lease(t *rapid.T) {
	target := drawTarget(t)
	length := rapid.SampledFrom([]time.Duration{time.Second, time.Minute, 2 * time.Hour}).Draw(t, "ttl")
	due := map[int]bool{}
	now := h.model.Now()
	for i, p := range h.refs {
		rec, err := h.model.Get(h.Context(), p.want)
		h.must(err)
		for _, d := range rec.Deliveries {
			if d.Target == target && d.State == event.Pending && d.DueAt.UnixMilli() <= now.UnixMilli() {
				due[i] = true
			}
		}
	}
	got, _, err := h.l.Lease(h.Context(), target, long, length)
	h.must(err)
	want, _, err := h.model.Lease(h.Context(), target, long, length)
	h.must(err)
	replayed := func(l dedupe.Lease) bool { return l.Delivery.Generation > 0 && l.Delivery.Attempts == 0 } // these may yield
	for _, part := range [...][]dedupe.Lease{
		slices.DeleteFunc(slices.Clone(got), replayed),
		slices.DeleteFunc(slices.Clone(got), func(l dedupe.Lease) bool { return !replayed(l) }),
	} {
		if !slices.IsSortedFunc(part, func(a, b dedupe.Lease) int { return a.Delivery.DueAt.Compare(b.Delivery.DueAt) }) {
			h.Fatalf("leases are not earliest first: %v", part)
		}
	}
	equal(h.fix, "leases of what is due", len(got), len(due))
	equal(h.fix, "leases of the model", len(want), len(due))
	for _, g := range got {
		at := h.index(gotRef, g.Delivery.Event)
		if !due[at] {
			h.Fatalf("event %d is leased and not due", at)
		}
		delete(due, at)
		i := slices.IndexFunc(want, func(w dedupe.Lease) bool { return h.index(wantRef, w.Delivery.Event) == at })
		if i < 0 {
			h.Fatalf("event %d is leased twice or not by the model", at)
		}
		h.same(at, g.Delivery, want[i].Delivery)
		h.held = append(h.held, pair[dedupe.Lease]{g, want[i]})
	}
}

// same compares two deliveries of event number at.
func (h *history) same(at int, g, w event.Delivery) {
	h.Helper()
	if !sameTime(g.DueAt, w.DueAt) || !sameTime(g.OpenedAt, w.OpenedAt) || !sameTime(g.UpdatedAt, w.UpdatedAt) {
		h.Fatalf("event %d: times of a delivery differ:\n got %+v\nwant %+v", at, g, w)
	}
	w.Event, w.DueAt, w.OpenedAt, w.UpdatedAt = g.Event, g.DueAt, g.OpenedAt, g.UpdatedAt
	equal(h.fix, fmt.Sprintf("delivery of event %d", at), g, w)
}

// pick takes some of the leases that were handed out, live or lost.
func (h *history) pick(t *rapid.T) []pair[dedupe.Lease] {
	if len(h.held) == 0 {
		t.Skip("no leases")
	}
	var out []pair[dedupe.Lease]
	for range rapid.IntRange(1, 4).Draw(t, "leases") {
		out = append(out, h.held[rapid.IntRange(0, len(h.held)-1).Draw(t, "lease")])
	}
	return out
}

func (h *history) finish(t *rapid.T) {
	got, want := &dedupe.Batch{}, &dedupe.Batch{}
	for _, l := range h.pick(t) {
		state := rapid.SampledFrom([]event.State{event.Pending, event.Delivered, event.Dead, event.Cancelled}).Draw(t, "state")
		delay := rapid.SampledFrom([]time.Duration{0, time.Second, time.Hour}).Draw(t, "delay")
		a, b := h.result(l.got, state, delay), h.result(l.want, state, delay)
		if rapid.IntRange(0, 4).Draw(t, "attempt") == 0 {
			a.NoAttempt, b.NoAttempt = true, true
		}
		got.Results, want.Results = append(got.Results, a), append(want.Results, b)
	}
	h.must(h.l.Commit(h.Context(), got))
	h.must(h.model.Commit(h.Context(), want))
	for i := range got.Results {
		equal(h.fix, "late", got.Results[i].Late, want.Results[i].Late)
	}
}

func (h *history) release(t *rapid.T) {
	for _, l := range h.pick(t) {
		h.must(h.l.Release(h.Context(), l.got))
		h.must(h.model.Release(h.Context(), l.want))
	}
}

func (h *history) extend(t *rapid.T) {
	length := rapid.SampledFrom([]time.Duration{time.Second, time.Minute, 2 * time.Hour}).Draw(t, "ttl")
	for _, l := range h.pick(t) {
		got, err := h.l.Extend(h.Context(), l.got, length)
		h.must(err)
		want, err := h.model.Extend(h.Context(), l.want, length)
		h.must(err)
		equal(h.fix, "extended", got, want)
	}
}

// event draws one of the events.
func (h *history) event(t *rapid.T) pair[event.Ref] {
	if len(h.refs) == 0 {
		t.Skip("no events")
	}
	return h.refs[rapid.IntRange(0, len(h.refs)-1).Draw(t, "event")]
}

func (h *history) replay(t *rapid.T) {
	r := dedupe.Replay{
		By: by, NewKey: rapid.Bool().Draw(t, "new key"), DryRun: rapid.IntRange(0, 3).Draw(t, "dry") == 0,
		Target: rapid.SampledFrom([]string{"", billing, crm}).Draw(t, "target"),
	}
	if rapid.IntRange(0, 3).Draw(t, "reroute") == 0 {
		to := rapid.SampledFrom([][]string{nil, {billing}, {crm, "third"}}).Draw(t, "routes")
		r.Reroute = func(*event.Event, func() ([]byte, error)) []string { return to }
	}
	model := r
	if rapid.Bool().Draw(t, "one") {
		p := h.event(t)
		r.Selection.Ref, model.Selection.Ref = p.got, p.want
	} else {
		r.Selection.Filter = dedupe.Filter{
			Source: rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "source"),
			Status: rapid.SampledFrom([]event.Status{"", event.StatusDead, event.StatusDelivered}).Draw(t, "status"),
		}
		model.Selection.Filter = r.Selection.Filter
	}
	got, err := h.l.Replay(h.Context(), r)
	h.must(err)
	want, err := h.model.Replay(h.Context(), model)
	h.must(err)
	equal(h.fix, "replayed", got, want)
}

func (h *history) cancel(t *rapid.T) {
	p := h.event(t)
	target := rapid.SampledFrom([]string{"", billing, crm}).Draw(t, "target")
	got, err := h.l.Cancel(h.Context(), p.got, target, by)
	h.must(err)
	want, err := h.model.Cancel(h.Context(), p.want, target, by)
	h.must(err)
	equal(h.fix, "cancelled", got, want)
}

func (h *history) expire(*rapid.T) {
	got := h.fix.expire()
	_, err := h.model.Expire(h.Context())
	h.must(err)
	equal(h.fix, "carried", got.Carried, 0)
}

func (h *history) advance(t *rapid.T) {
	h.clock.Advance(rapid.SampledFrom([]time.Duration{
		time.Millisecond, time.Second, 59 * time.Second, time.Minute, time.Hour - time.Minute, time.Hour, 23 * time.Hour, 24 * time.Hour,
	}).Draw(t, "by"))
}

// reopen restarts both sides, the engine at times by a kill. The leases are
// forgotten: they belonged to the process. After a day in which nothing was
// written, a kill may leave an engine in doubt of its clock, which the model
// never is: then both are closed.
func (h *history) reopen(t *rapid.T) {
	if kill := h.h.Crash != nil && rapid.Bool().Draw(t, "kill"); kill && h.clock.Now().Sub(h.known) < 23*time.Hour {
		h.l = h.h.Crash(h.TB, h.l)
		h.ready()
	} else {
		h.must(h.model.Close()) // both know then when they were last open
		h.fix.reopen()
	}
	h.model = h.model.Reopen()
	h.held = nil
	h.compareActs()
	h.clock.Advance(keyLease) // then the leases of keys have ended on every engine
}

// move has the engine's ledger moved into another one, which must know all that
// this one knew. As after a restart the leases are gone.
func (h *history) move(*rapid.T) {
	h.must(h.model.Close())
	h.l = h.h.Move(h.TB, h.l)
	h.moved = true
	h.ready()
	h.model = h.model.Reopen()
	h.held = nil
	h.compareActs()
	h.clock.Advance(keyLease)
	for i := range h.refs {
		h.compare(i)
	}
	h.compareStats()
}

func (h *history) list(t *rapid.T) {
	flt := dedupe.Filter{
		Source: rapid.SampledFrom([]string{"", "a"}).Draw(t, "source"),
		Status: rapid.SampledFrom([]event.Status{"", event.StatusPending, event.StatusDead, event.StatusDelivered, event.StatusUnrouted}).Draw(t, "status"),
		Target: rapid.SampledFrom([]string{"", billing, "third"}).Draw(t, "target"),
	}
	limit := rapid.IntRange(1, 9).Draw(t, "limit")
	model := *h.fix
	model.l = h.model
	equal(h.fix, "events listed",
		fmt.Sprint(h.ordinals(gotRef, recordRefs(h.events(flt, limit)))),
		fmt.Sprint(h.ordinals(wantRef, recordRefs(model.events(flt, limit)))))
	flt.State = rapid.SampledFrom([]string{"", "pending", "leased", "dead", "cancelled"}).Draw(t, "state")
	equal(h.fix, "deliveries listed", h.rows(gotRef, h.deliveries(flt, limit)), h.rows(wantRef, model.deliveries(flt, limit)))

	id := rapid.SampledFrom([]string{"1", "2", "3", "4"}).Draw(t, "id")
	got, err := h.l.Lookup(h.Context(), []string{"a", "b"}, id)
	h.must(err)
	want, err := h.model.Lookup(h.Context(), []string{"a", "b"}, id)
	h.must(err)
	equal(h.fix, "looked up", fmt.Sprint(h.ordinals(gotRef, got)), fmt.Sprint(h.ordinals(wantRef, want)))
	h.compareStats()
}

func (h *history) rows(side func(pair[event.Ref]) event.Ref, rows []dedupe.DeliveryRow) string {
	out := ""
	for _, r := range ordered(rows) {
		out += fmt.Sprintf("%d %s %d %s, ", h.index(side, r.Event), r.Target, r.Generation, r.State)
	}
	return out
}

func (h *history) compareStats() {
	h.Helper()
	got, want := h.stats(), dedupe.Stats{}
	want, err := h.model.Stats(h.Context())
	h.must(err)
	equal(h.fix, "events accepted", got.Events, want.Events)
	for _, target := range [...]string{billing, crm, "third"} {
		g, w := got.Targets[target], want.Targets[target]
		if !sameTime(g.Oldest, w.Oldest) {
			h.Fatalf("oldest of %s = %v, want %v", target, g.Oldest, w.Oldest)
		}
		g.Oldest = w.Oldest
		equal(h.fix, "stats of "+target, g, w)
	}
	targets := slices.Clone(h.l.Targets())
	slices.Sort(targets)
	equal(h.fix, "targets", fmt.Sprint(targets), fmt.Sprint(h.model.Targets()))
}

// sample compares a few events after each step.
func (h *history) sample(t *rapid.T) {
	if len(h.refs) == 0 {
		return
	}
	for range 3 {
		h.compare(rapid.IntRange(0, len(h.refs)-1).Draw(t, "sample"))
	}
	h.compare(len(h.refs) - 1)
}

// compare holds all the engine says of event number i against the model.
func (h *history) compare(i int) {
	h.Helper()
	got := h.get(h.refs[i].got)
	want, err := h.model.Get(h.Context(), h.refs[i].want)
	h.must(err)
	gotEvent, wantEvent := got.Event, want.Event
	equal(h.fix, "related event", h.index(gotRef, gotEvent.Related), h.index(wantRef, wantEvent.Related))
	wantEvent.Ref, wantEvent.Related = gotEvent.Ref, gotEvent.Related
	wantEvent.Body.Request, wantEvent.Body.Offset = gotEvent.Body.Request, gotEvent.Body.Offset // each ledger's own affair
	if wantEvent.ID == "" {
		wantEvent.Key = gotEvent.Source + ":" + gotEvent.Ref.String()
	}
	if diff := sameEvent(gotEvent, wantEvent); diff != "" {
		h.Fatalf("event %d: %s", i, diff)
	}
	equal(h.fix, fmt.Sprintf("status of event %d", i), got.Status, want.Status)
	equal(h.fix, "repeats", got.Tally.Repeats, want.Tally.Repeats)
	equal(h.fix, "conflicts", got.Tally.Conflicts, want.Tally.Conflicts)
	equal(h.fix, "deliveries", len(got.Deliveries), len(want.Deliveries))
	wantDeliveries := byTarget(want.Deliveries)
	for j, d := range byTarget(got.Deliveries) {
		h.same(i, d, wantDeliveries[j])
	}
	equal(h.fix, "body gone", got.BodyGone, want.BodyGone)
	wantBody, err := h.model.Body(h.Context(), h.refs[i].want)
	h.must(err)
	equal(h.fix, fmt.Sprintf("body of event %d", i), string(h.body(h.refs[i].got)), string(wantBody))
	gotAttempts := h.attempts(h.refs[i].got)
	wantAttempts, err := h.model.Attempts(h.Context(), h.refs[i].want)
	h.must(err)
	equal(h.fix, "attempts", len(gotAttempts), len(wantAttempts))
	for j, w := range wantAttempts {
		w.Event = h.refs[i].got
		if diff := sameAttempt(gotAttempts[j], w); diff != "" {
			h.Fatalf("attempt %d of event %d: %s", j, i, diff)
		}
	}
}
