package dedupe_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

// ranked is an open delivery's place in the order in which deliveries were
// opened, as the model counts it.
type ranked struct {
	dedupe.Entry
	rank int
}

// yard is a ledger's ordered deliveries of one target, and what may be leased
// of them, by a model that knows no bounds of memory.
type yard struct {
	limit int
	now   time.Time
	s     *dedupe.Schedule
	open  map[event.Ref]ranked
	dead  map[event.Ref]ranked
	held  map[event.Ref]dedupe.Lease
	until map[event.Ref]time.Time
	order map[event.Ref]event.Order
	all   []event.Ref
	last  event.Ref
	ranks int
	// blind is the control: the schedule is not told of orders.
	blind bool
}

func newYard(limit int) *yard {
	y := &yard{
		limit: limit, now: time.UnixMilli(1_000_000), open: map[event.Ref]ranked{}, dead: map[event.Ref]ranked{},
		held: map[event.Ref]dedupe.Lease{}, until: map[event.Ref]time.Time{}, order: map[event.Ref]event.Order{},
		last: event.NewRef(1_000_000, 0, 1),
	}
	y.s = dedupe.NewSchedule(func() time.Time { return y.now }, limit)
	return y
}

func (y *yard) give(e dedupe.Entry) dedupe.Entry {
	if y.blind {
		e.Order = 0
	}
	return e
}

func (y *yard) opened(e dedupe.Entry) {
	y.ranks++
	y.open[e.Ref] = ranked{e, y.ranks}
	y.s.Add(schedTarget, y.give(e))
}

func (y *yard) add(t *rapid.T) {
	for range rapid.SampledFrom([]int{1, 1, 3, 24}).Draw(t, "events") {
		y.last = y.last.Next(uint64(y.now.UnixMilli()))
		key := rapid.IntRange(0, 4).Draw(t, "key")
		o := event.Order(0)
		if key > 0 {
			o = event.OrderOf(fmt.Sprint(key), key == 1)
		}
		y.order[y.last] = o
		y.all = append(y.all, y.last)
		y.opened(dedupe.Entry{Ref: y.last, Order: o, Due: y.now.UnixMilli(), Opened: y.now.UnixMilli()})
	}
}

// mayGo says why a delivery must not be leased, "" when it may.
func (y *yard) mayGo(e ranked) string {
	if e.Order == 0 {
		return ""
	}
	for _, o := range y.open {
		if o.Order.Lane() == e.Order.Lane() && o.rank < e.rank {
			return fmt.Sprintf("%s (%d) is before it (%d)", o.Ref, o.rank, e.rank)
		}
	}
	for _, d := range y.dead {
		if d.Order.Lane() == e.Order.Lane() && d.Order.Blocks() {
			return fmt.Sprintf("%s is dead and blocks it", d.Ref)
		}
	}
	return ""
}

func (y *yard) live(ref event.Ref) bool {
	_, held := y.held[ref]
	return held && y.until[ref].After(y.now)
}

func (y *yard) lease(t *rapid.T) {
	if rapid.Bool().Draw(t, "refill") {
		y.refill(t, rapid.Bool().Draw(t, "whole"))
	}
	ttl := rapid.SampledFrom([]time.Duration{time.Second, time.Hour}).Draw(t, "ttl")
	y.leaseAll(t, rapid.IntRange(1, 6).Draw(t, "n"), ttl)
}

func (y *yard) leaseAll(t *rapid.T, n int, ttl time.Duration) int {
	ls, _ := y.s.Lease(schedTarget, n, ttl)
	for _, l := range ls {
		ref := l.Delivery.Event
		e, ok := y.open[ref]
		switch {
		case !ok:
			t.Fatalf("leased %s, which is closed", ref)
		case y.live(ref):
			t.Fatalf("leased %s twice", ref)
		case e.Due > y.now.UnixMilli():
			t.Fatalf("leased %s early", ref)
		}
		if why := y.mayGo(e); why != "" {
			t.Fatalf("leased %s out of turn: %s", ref, why)
		}
		y.held[ref], y.until[ref] = l, y.now.Add(ttl)
	}
	return len(ls)
}

// shuffled are all refs ever given, in some order.
func (y *yard) shuffled(t *rapid.T) []event.Ref {
	out := slices.Clone(y.all)
	seed := rapid.Uint64().Draw(t, "order")
	if seed%3 == 0 {
		return out
	}
	r := rand.New(rand.NewPCG(seed, 1))
	r.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}

// refill offers what is open, in any order.
func (y *yard) refill(t *rapid.T, whole bool) {
	for _, target := range y.s.Starved() {
		offer, done := y.s.Refill(target)
		for _, ref := range y.shuffled(t) {
			if e, ok := y.open[ref]; ok && (whole || ref[9]%2 == 0) {
				offer(y.give(e.Entry))
			}
		}
		done(whole)
	}
}

func (y *yard) finish(t *rapid.T) {
	refs := make([]event.Ref, 0, len(y.held))
	for ref := range y.held {
		refs = append(refs, ref)
	}
	if len(refs) == 0 {
		t.Skip("no lease")
	}
	slices.SortFunc(refs, event.Ref.Compare)
	ref := rapid.SampledFrom(refs).Draw(t, "lease")
	l := y.held[ref]
	delete(y.held, ref)
	e, fenced := y.s.Fence(l)
	if !fenced {
		return
	}
	was := y.open[ref]
	switch what := rapid.SampledFrom([]string{"delivered", "delivered", "retry", "dead", "release"}).Draw(t, "ends"); what {
	case "retry":
		e.Attempts++
		e.Due = y.now.Add(rapid.SampledFrom([]time.Duration{0, time.Minute}).Draw(t, "delay")).UnixMilli()
		y.open[ref] = ranked{e, was.rank}
		if y.blind {
			y.open[ref] = ranked{dedupe.Entry{Ref: ref, Order: was.Order, Due: e.Due, Opened: e.Opened, Attempts: e.Attempts, Generation: e.Generation}, was.rank}
		}
		e.Order = 0 // engines make the entry of the record, which has none
		y.s.Settle(l, event.Pending, e)
	case "dead":
		delete(y.open, ref)
		y.dead[ref] = was
		y.s.Settle(l, event.Dead, e)
	case "delivered", "release":
		delete(y.open, ref)
		y.s.Settle(l, event.Delivered, e)
	}
}

// operate cancels an open delivery, opens a closed one again, or drops a dead
// one.
func (y *yard) operate(t *rapid.T) {
	if len(y.all) == 0 {
		t.Skip("nothing there")
	}
	ref := rapid.SampledFrom(y.all).Draw(t, "which")
	if e, ok := y.open[ref]; ok {
		if rapid.Bool().Draw(t, "cancel") {
			delete(y.open, ref)
			delete(y.held, ref)
			y.s.Cancel(schedTarget, ref, e.Generation)
		}
		return
	}
	if d, ok := y.dead[ref]; ok && rapid.Bool().Draw(t, "drop") {
		delete(y.dead, ref)
		y.s.Unblock(schedTarget, ref, d.Order)
		return
	}
	delete(y.dead, ref)
	gen := uint16(y.ranks + 1)
	y.opened(dedupe.Entry{Ref: ref, Order: y.order[ref], Due: y.now.UnixMilli(), Opened: y.now.UnixMilli(), Generation: gen})
	// Of replays in one millisecond the earlier event goes first.
	var again []ranked
	for _, e := range y.open {
		if e.Generation > 0 && e.Opened == y.now.UnixMilli() {
			again = append(again, e)
		}
	}
	slices.SortFunc(again, func(a, b ranked) int { return a.Ref.Compare(b.Ref) })
	ranks := make([]int, 0, len(again))
	for _, e := range again {
		ranks = append(ranks, e.rank)
	}
	slices.SortFunc(ranks, cmp.Compare)
	for i, e := range again {
		e.rank = ranks[i]
		y.open[e.Ref] = e
	}
	y.now = y.now.Add(time.Millisecond) // an event of the same millisecond would go before a replay
}

// restart makes a new schedule of what is open and dead, in any order, and
// leases while it is read back.
func (y *yard) restart(t *rapid.T) {
	if y.blind {
		t.Skip("the control has no restart")
	}
	y.held = map[event.Ref]dedupe.Lease{}
	y.s = dedupe.NewSchedule(func() time.Time { return y.now }, y.limit)
	y.s.HoldLanes()
	for ref, d := range y.dead {
		y.s.Block(schedTarget, ref, d.Order)
	}
	for i, ref := range y.shuffled(t) {
		if e, ok := y.open[ref]; ok {
			y.s.Add(schedTarget, e.Entry)
		}
		if i == len(y.all)/2 {
			y.leaseAll(t, 3, time.Hour)
		}
	}
	y.s.FreeLanes()
}

func (y *yard) advance(t *rapid.T) {
	y.now = y.now.Add(rapid.SampledFrom([]time.Duration{time.Millisecond, time.Second, 2 * time.Hour}).Draw(t, "by"))
}

// drain ends the history: everything that nothing dead blocks is handed out,
// and each blocked lane goes on once its dead are dropped.
func (y *yard) drain(t *rapid.T) {
	y.now = y.now.Add(3 * time.Hour)
	y.held = map[event.Ref]dedupe.Lease{}
	for rounds := 0; ; rounds++ {
		if rounds > 5_000 {
			t.Fatalf("%d open deliveries are never handed out, %+v", len(y.open), y.s.Stats()[schedTarget])
		}
		y.refill(t, true)
		if y.leaseAll(t, 8, time.Hour) == 0 && !y.movable() {
			break
		}
		for ref, l := range y.held {
			e, _ := y.s.Fence(l)
			y.s.Settle(l, event.Delivered, e)
			delete(y.open, ref)
			delete(y.held, ref)
		}
	}
	if len(y.dead) == 0 {
		if len(y.open) > 0 {
			t.Fatalf("%d deliveries wait for nothing", len(y.open))
		}
		return
	}
	for ref, d := range y.dead {
		y.s.Unblock(schedTarget, ref, d.Order)
		delete(y.dead, ref)
	}
	y.drain(t)
}

// movable reports whether something may be leased.
func (y *yard) movable() bool {
	for _, e := range y.open {
		if y.mayGo(e) == "" {
			return true
		}
	}
	return false
}

func (y *yard) actions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"add": y.add, "lease": y.lease, "lease more": y.lease, "finish": y.finish, "finish more": y.finish, "operate": y.operate,
		"advance": y.advance, "restart": y.restart,
	}
}

// TestLanes holds that of the deliveries with one order the first goes first,
// whatever is retried, dead, replayed, cancelled, read back or left out of
// memory, that a blocked lane blocks itself alone, and that at last all of
// them go.
func TestLanes(t *testing.T) {
	for _, limit := range []int{1, 3, 20, 100_000} {
		t.Run(fmt.Sprint("room for ", limit), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				y := newYard(limit)
				t.Repeat(y.actions())
				y.drain(t)
			})
		})
	}
}

// TestLanesBlind is the control: a schedule that is not told of the order
// breaks it, and the model sees that.
func TestLanesBlind(t *testing.T) {
	y := newYard(1000)
	y.blind = true
	o := event.OrderOf("a", false)
	for range 2 {
		y.last = y.last.Next(uint64(y.now.UnixMilli()))
		y.order[y.last] = o
		y.opened(dedupe.Entry{Ref: y.last, Order: o, Due: y.now.UnixMilli(), Opened: y.now.UnixMilli()})
	}
	ls, _ := y.s.Lease(schedTarget, 2, time.Hour)
	if len(ls) != 2 || y.mayGo(y.open[ls[1].Delivery.Event]) == "" {
		t.Errorf("%d leases, and the model finds nothing wrong", len(ls))
	}
	told := newYard(1000)
	for ref, e := range y.open {
		told.order[ref] = o
		told.s.Add(schedTarget, e.Entry)
	}
	if ls, _ := told.s.Lease(schedTarget, 2, time.Hour); len(ls) != 1 {
		t.Errorf("%d leases of one order at once, want 1", len(ls))
	}
}

// TestLaneCounts holds what people see of lanes.
func TestLaneCounts(t *testing.T) {
	y := newYard(0)
	o := event.OrderOf("a", false)
	for range 4 {
		y.last = y.last.Next(uint64(y.now.UnixMilli()))
		y.opened(dedupe.Entry{Ref: y.last, Order: o, Due: y.now.UnixMilli(), Opened: y.now.UnixMilli()})
	}
	ls, _ := y.s.Lease(schedTarget, 9, time.Hour)
	if len(ls) != 1 {
		t.Fatalf("%d leases, want 1", len(ls))
	}
	if st := y.s.Stats()[schedTarget]; st.Pending != 3 || st.Behind != 3 || st.BlockedKeys != 0 {
		t.Errorf("stats %+v, want 3 behind", st)
	}
	e, _ := y.s.Fence(ls[0])
	y.s.Settle(ls[0], event.Dead, e)
	if st := y.s.Stats()[schedTarget]; st.Pending != 3 || st.Behind != 3 || st.BlockedKeys != 1 || st.Dead != 1 {
		t.Errorf("stats %+v, want 3 behind one dead", st)
	}
	<-y.s.Wake(schedTarget)
	y.s.Unblock(schedTarget, e.Ref, o)
	select {
	case <-y.s.Wake(schedTarget):
	default:
		t.Error("nobody is woken when a lane goes on")
	}
}
