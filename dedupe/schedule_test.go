package dedupe_test

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

const schedTarget = "billing"

// shelf is a ledger's open deliveries of one target, from which a schedule
// with little room is refilled.
type shelf struct {
	t     *rapid.T
	now   time.Time
	s     *dedupe.Schedule
	open  map[event.Ref]dedupe.Entry
	held  map[event.Ref]dedupe.Lease
	until map[event.Ref]time.Time
	last  event.Ref
	all   []event.Ref

	generation uint16
}

func newShelf(t *rapid.T, limit int) *shelf {
	sh := &shelf{
		t: t, now: time.UnixMilli(1_000_000), open: map[event.Ref]dedupe.Entry{}, held: map[event.Ref]dedupe.Lease{},
		until: map[event.Ref]time.Time{}, last: event.NewRef(1_000_000, 0, 1),
	}
	sh.s = dedupe.NewSchedule(func() time.Time { return sh.now }, limit)
	return sh
}

func (sh *shelf) add(*rapid.T) {
	sh.last = sh.last.Next(uint64(sh.now.UnixMilli()))
	e := dedupe.Entry{Ref: sh.last, Due: sh.now.UnixMilli(), Opened: sh.now.UnixMilli()}
	sh.open[e.Ref] = e
	sh.all = append(sh.all, e.Ref)
	sh.s.Add(schedTarget, e)
}

// live reports whether the lease of ref stands by the clock.
func (sh *shelf) live(ref event.Ref) bool {
	_, held := sh.held[ref]
	return held && sh.until[ref].After(sh.now)
}

func (sh *shelf) lease(t *rapid.T) {
	sh.refill()
	ttl := rapid.SampledFrom([]time.Duration{time.Second, time.Minute, time.Hour}).Draw(t, "ttl")
	ls, _ := sh.s.Lease(schedTarget, rapid.IntRange(1, 4).Draw(t, "n"), ttl)
	for _, l := range ls {
		ref := l.Delivery.Event
		e, ok := sh.open[ref]
		switch {
		case !ok:
			t.Fatalf("leased %s, which is closed", ref)
		case sh.live(ref):
			t.Fatalf("leased %s twice", ref)
		case e.Due > sh.now.UnixMilli():
			t.Fatalf("leased %s %d ms early", ref, e.Due-sh.now.UnixMilli())
		case l.Delivery.Generation != e.Generation || l.Delivery.Attempts != e.Attempts:
			t.Fatalf("leased %+v, want generation %d after %d attempts", l.Delivery, e.Generation, e.Attempts)
		}
		sh.held[ref], sh.until[ref] = l, sh.now.Add(ttl)
	}
}

// refill reads back what the schedule left out, as an engine does.
func (sh *shelf) refill() {
	for _, target := range sh.s.Starved() {
		offer, done := sh.s.Refill(target)
		for _, ref := range sh.all {
			if e, ok := sh.open[ref]; ok {
				offer(e)
			}
		}
		done(true)
	}
}

func (sh *shelf) draw(t *rapid.T) (dedupe.Lease, bool) {
	for _, ref := range sh.all { // the oldest or a later one
		if l, ok := sh.held[ref]; ok && rapid.Bool().Draw(t, "take") {
			return l, true
		}
	}
	return dedupe.Lease{}, false
}

func (sh *shelf) finish(t *rapid.T) {
	l, ok := sh.draw(t)
	if !ok {
		t.Skip("no lease")
	}
	ref := l.Delivery.Event
	e, fenced := sh.s.Fence(l)
	if !fenced {
		if sh.live(ref) {
			t.Fatalf("the lease of %s was lost early", ref)
		}
		delete(sh.held, ref)
		return
	}
	if _, twice := sh.s.Fence(l); twice {
		t.Fatalf("%s was fenced twice", ref)
	}
	delete(sh.held, ref)
	if rapid.Bool().Draw(t, "again") {
		e.Attempts++
		e.Due = sh.now.Add(rapid.SampledFrom([]time.Duration{0, time.Second, time.Minute}).Draw(t, "delay")).UnixMilli()
		sh.open[ref] = e
		sh.s.Settle(l, event.Pending, e)
		return
	}
	delete(sh.open, ref)
	sh.s.Settle(l, event.Delivered, e)
}

func (sh *shelf) release(t *rapid.T) {
	l, ok := sh.draw(t)
	if !ok {
		t.Skip("no lease")
	}
	delete(sh.held, l.Delivery.Event)
	sh.s.Release(l)
}

// cancel closes an event's delivery, or opens it again.
func (sh *shelf) cancel(t *rapid.T) {
	if len(sh.all) == 0 {
		t.Skip("nothing to cancel")
	}
	ref := sh.all[rapid.IntRange(0, len(sh.all)-1).Draw(t, "which")]
	e, ok := sh.open[ref]
	if ok {
		delete(sh.open, ref)
		delete(sh.held, ref)
		sh.s.Cancel(schedTarget, ref, e.Generation)
		return
	}
	sh.generation++ // opened again, as by a replay
	sh.open[ref] = dedupe.Entry{Ref: ref, Due: sh.now.UnixMilli(), Opened: sh.now.UnixMilli(), Generation: sh.generation}
	sh.s.Add(schedTarget, sh.open[ref])
}

func (sh *shelf) advance(t *rapid.T) {
	sh.now = sh.now.Add(rapid.SampledFrom([]time.Duration{time.Millisecond, time.Second, time.Minute, 2 * time.Hour}).Draw(t, "by"))
}

func (sh *shelf) check(t *rapid.T) {
	st := sh.s.Stats()[schedTarget]
	leased := int64(0)
	for ref := range sh.open {
		if sh.live(ref) {
			leased++
		}
	}
	if st.Leased != leased || st.Pending != int64(len(sh.open))-leased {
		t.Fatalf("stats %d pending, %d leased; want %d, %d", st.Pending, st.Leased, int64(len(sh.open))-leased, leased)
	}
	if got := len(sh.s.Targets()); (got == 1) != (len(sh.open) > 0) {
		t.Fatalf("%d targets with %d open deliveries", got, len(sh.open))
	}
}

// TestSchedule holds that nothing is handed out twice, early or closed, that
// the counts are right, and that at last everything open is handed out,
// although memory has room for a few only.
func TestSchedule(t *testing.T) {
	for _, limit := range []int{1, 3, 1000} {
		t.Run(fmt.Sprint("room for ", limit), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				sh := newShelf(t, limit)
				t.Repeat(map[string]func(*rapid.T){
					"add": sh.add, "lease": sh.lease, "finish": sh.finish, "release": sh.release, "cancel": sh.cancel, "advance": sh.advance, "": sh.check,
				})
				sh.now = sh.now.Add(3 * time.Hour)
				sh.held = map[event.Ref]dedupe.Lease{}
				for rounds := 0; len(sh.open) > 0; rounds++ {
					if rounds > 10_000 {
						t.Fatalf("%d open deliveries are never handed out", len(sh.open))
					}
					sh.refill()
					ls, _ := sh.s.Lease(schedTarget, 5, time.Hour)
					for _, l := range ls {
						e, ok := sh.s.Fence(l)
						if _, open := sh.open[l.Delivery.Event]; !ok || !open {
							t.Fatalf("leased %s: fenced %v, open %v", l.Delivery.Event, ok, open)
						}
						delete(sh.open, l.Delivery.Event)
						sh.s.Settle(l, event.Dead, e)
					}
				}
				sh.check(t)
			})
		})
	}
}

func TestScheduleNext(t *testing.T) {
	now := time.UnixMilli(1_000_000)
	s := dedupe.NewSchedule(func() time.Time { return now }, 0)
	next := func() time.Duration {
		t.Helper()
		_, at := s.Lease(schedTarget, 0, time.Minute)
		if at.IsZero() {
			return -1
		}
		return at.Sub(now)
	}
	if got := next(); got != -1 {
		t.Errorf("next of an empty schedule in %v, want none", got)
	}
	ref := event.NewRef(1_000_000, 1, 1)
	s.Add(schedTarget, dedupe.Entry{Ref: ref, Due: now.Add(time.Second).UnixMilli()})
	if got := next(); got != time.Second {
		t.Errorf("next in %v, want a second", got)
	}
	now = now.Add(time.Second)
	ls, at := s.Lease(schedTarget, 1, time.Minute)
	if len(ls) != 1 || at.Sub(now) != time.Minute {
		t.Fatalf("%d leases, next in %v; want 1 and the lease's end", len(ls), at.Sub(now))
	}
	if !s.Extend(ls[0], time.Hour) {
		t.Fatal("not extended")
	}
	if got := next(); got != time.Hour {
		t.Errorf("next in %v after an extension, want an hour", got)
	}
	e, _ := s.Fence(ls[0])
	s.Settle(ls[0], event.Delivered, e)
	if got := next(); got != -1 {
		t.Errorf("next in %v when all is closed, want none", got)
	}
}

func TestScheduleManyLeases(t *testing.T) {
	now := time.UnixMilli(1_000_000)
	s := dedupe.NewSchedule(func() time.Time { return now }, 0)
	ref := event.NewRef(1_000_000, 1, 1)
	for i := range 5000 { // stale ends must not stand in the way, nor pile up
		ref = ref.Next(1_000_000)
		s.Add(schedTarget, dedupe.Entry{Ref: ref, Due: now.UnixMilli()})
		ls, _ := s.Lease(schedTarget, 1, time.Hour-time.Duration(i)*time.Second/2)
		if len(ls) != 1 || ls[0].Delivery.Event != ref {
			t.Fatalf("round %d: leases %v, want %s", i, ls, ref)
		}
		if i%10 == 0 {
			continue // stays leased
		}
		e, _ := s.Fence(ls[0])
		s.Settle(ls[0], event.Delivered, e)
	}
	st := s.Stats()[schedTarget]
	if st.Leased != 500 || st.Pending != 0 {
		t.Fatalf("stats = %+v, want 500 leased", st)
	}
	got := 0
	for range 5000 {
		now = now.Add(time.Second)
		ls, _ := s.Lease(schedTarget, 10, 24*time.Hour)
		got += len(ls)
	}
	if got != 500 {
		t.Errorf("%d leases came back, want 500", got)
	}
}

// TestReplaysYield: while others are due, one lease in eight is a replay's;
// when none are, all are.
func TestReplaysYield(t *testing.T) {
	now := time.UnixMilli(1_000_000)
	s := dedupe.NewSchedule(func() time.Time { return now }, 0)
	ref := event.NewRef(1_000_000, 1, 1)
	add := func(n int, gen uint16) {
		for range n {
			ref = ref.Next(1_000_000)
			s.Add(schedTarget, dedupe.Entry{Ref: ref, Due: now.UnixMilli(), Opened: now.UnixMilli(), Generation: gen})
		}
	}
	add(1000, 1)
	now = now.Add(time.Second)
	add(70, 0)
	count := func(n int) (live, replays int) {
		ls, _ := s.Lease(schedTarget, n, time.Hour)
		for _, l := range ls {
			if l.Delivery.Generation > 0 {
				replays++
			} else {
				live++
			}
		}
		return live, replays
	}
	if live, replays := count(80); live != 70 || replays != 10 {
		t.Errorf("of 80 leases %d are of new events and %d of replays, want 70 and 10", live, replays)
	}
	if live, replays := count(100); live != 0 || replays != 100 {
		t.Errorf("with nothing else due %d leases are of replays, want 100", replays)
	}
	if _, next := s.Lease(schedTarget, 0, time.Hour); next.After(now) {
		t.Errorf("the next is due at %v, want now", next)
	}
}
