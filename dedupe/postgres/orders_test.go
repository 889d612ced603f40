package postgres_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

// inOrder is a request for billing whose event is ordered by key.
func inOrder(id, key string) *dedupe.Request {
	r := request(id)
	r.Items[0].Event.Orders = []event.Order{event.OrderOf(key, false)}
	return r
}

func landed(l dedupe.Lease) *dedupe.Result {
	return &dedupe.Result{Lease: l, State: event.Delivered, Attempt: event.Attempt{Event: l.Delivery.Event, Target: "billing",
		Number: l.Delivery.Attempts + 1, StartedAt: time.Now(), Status: 200, Outcome: event.Outcome2xx, State: event.Delivered}}
}

// story is what senders and targets saw, on one clock that counts.
type story struct {
	now atomic.Int64
	mu  sync.Mutex // guards the rest
	// sent and told are when an event's request was sent, and when it was
	// answered.
	sent, told map[event.Ref]int64
	key        map[event.Ref]string
	at         map[event.Ref]int64 // when its delivery landed
	out        map[string]int      // deliveries of a key that are under way
	twice      int                 // times that one was under way beside another
}

// accept has m accept an event of key.
func (s *story) accept(t *testing.T, m *member, id, key string) {
	sent := s.now.Add(1)
	r := inOrder(id, key)
	if err := m.w.Accept(context.Background(), r); err != nil {
		t.Errorf("accept %s: %v", id, err)
		return
	}
	told := s.now.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	ref := r.Outcomes[0].Ref
	s.sent[ref], s.told[ref], s.key[ref] = sent, told, key
}

// begin and end bracket an attempt.
func (s *story) begin(d event.Delivery) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := s.key[d.Event]
	if s.out[key]++; s.out[key] > 1 {
		s.twice++
	}
}

func (s *story) end(d event.Delivery, landed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.out[s.key[d.Event]]--
	if landed {
		s.at[d.Event] = s.now.Add(1)
	}
}

// inversions counts the pairs of one key of which the one that was answered
// before the other was sent landed after it.
func inversions(s *story, at func(event.Ref) int64) (n int) {
	for a := range s.sent {
		for b := range s.sent {
			if s.key[a] == s.key[b] && s.told[a] < s.sent[b] && at(a) > at(b) {
				n++
			}
		}
	}
	return n
}

// TestOrderedFleet has four gateways accept events of few keys at once, and
// deliver them while others are killed with leases in their hands: of a key one
// delivery at a time is under way, and none lands before one that was
// acknowledged before it was sent.
func TestOrderedFleet(t *testing.T) {
	cfg := fresh(t, server(t), options())
	names := []string{"a", "b", "c", "d"}
	var ms [4]atomic.Pointer[member]
	for i, name := range names {
		ms[i].Store(join(t, cfg, name))
	}
	s := &story{sent: map[event.Ref]int64{}, told: map[event.Ref]int64{}, key: map[event.Ref]string{}, at: map[event.Ref]int64{}, out: map[string]int{}}
	const senders, each = 8, 15
	var accepting sync.WaitGroup
	for n := range senders {
		accepting.Go(func() {
			for i := range each {
				s.accept(t, ms[(n+i)%4].Load(), fmt.Sprint(n, "_", i), fmt.Sprint("key-", i%3))
			}
		})
	}
	accepting.Wait()
	if len(s.sent) != senders*each {
		t.Fatalf("%d events accepted, want %d", len(s.sent), senders*each)
	}
	var delivering sync.WaitGroup
	for i := range ms {
		delivering.Go(func() {
			r := rand.New(rand.NewPCG(1, uint64(i)))
			for kills := 0; ; {
				s.mu.Lock()
				through := len(s.at) == senders*each
				s.mu.Unlock()
				if through || t.Failed() {
					return
				}
				m := ms[i].Load()
				ls, _, err := m.Lease(context.Background(), "billing", 1+r.IntN(3), time.Minute)
				if err != nil {
					t.Errorf("lease: %v", err)
					return
				}
				for _, l := range ls {
					s.begin(l.Delivery)
				}
				if len(ls) > 0 && kills < 3 && r.IntN(4) == 0 {
					kills++
					for _, l := range ls {
						s.end(l.Delivery, false)
					}
					ms[i].Store(join(t, cfg, names[i])) // as after a kill
					continue
				}
				for _, l := range ls {
					s.end(l.Delivery, true)
					if err := m.w.Finish(context.Background(), landed(l)); err != nil {
						t.Errorf("finish: %v", err)
					}
				}
			}
		})
	}
	delivering.Wait()
	if s.twice != 0 {
		t.Errorf("%d times two deliveries of one key were under way at once", s.twice)
	}
	if n := inversions(s, func(r event.Ref) int64 { return s.at[r] }); n != 0 {
		t.Errorf("%d pairs landed in another order than they were accepted in", n)
	}
	// The control: had the last gone first, it would be seen.
	if inversions(s, func(r event.Ref) int64 { return -s.at[r] }) == 0 {
		t.Error("the reverse order is none: the test can't see inversions")
	}
}

// TestOrderIsThatOfCommits holds that an event which was given its ref first
// and committed last is delivered last. By refs, the control, it would go first.
func TestOrderIsThatOfCommits(t *testing.T) {
	cfg := fresh(t, server(t), options())
	cfg.Lock = time.Minute
	a, b := join(t, cfg, "a"), join(t, cfg, "b")
	let := a.behindRequest(t, inOrder("late", "k"))
	var want []event.Ref
	for n := range 3 {
		r := inOrder(fmt.Sprint("b", n), "k")
		if err := b.w.Accept(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		want = append(want, r.Outcomes[0].Ref)
	}
	late := let()
	if late.Compare(want[0]) > 0 {
		t.Fatalf("the late event has ref %s, above %s: the test makes no such commit", late, want[0])
	}
	want = append(want, late)
	var got []event.Ref
	for i := range want {
		m := []*member{a, b}[i%2]
		ls, _, err := m.Lease(t.Context(), "billing", 10, time.Minute)
		if err != nil || len(ls) != 1 {
			t.Fatalf("lease %d: %d, %v; want one", i, len(ls), err)
		}
		got = append(got, ls[0].Delivery.Event)
		if err := m.w.Finish(t.Context(), landed(ls[0])); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("delivered %v, want %v", got, want)
	}
	if slices.IsSortedFunc(got, event.Ref.Compare) {
		t.Error("by refs it is the same order: the test can't see the difference")
	}
}

// TestLeasesOfTheDead holds that what a dead gateway held is another one's as
// soon as its leases end by the ledger's clock, not before, and that all of it
// is delivered, once.
func TestLeasesOfTheDead(t *testing.T) {
	cfg := fresh(t, server(t), options())
	dead, alive := join(t, cfg, "dead"), join(t, cfg, "alive")
	const n, ttl = 20, 2 * time.Second
	for i := range n {
		dead.accept(t, fmt.Sprint("evt_", i))
	}
	held, _, err := dead.Lease(t.Context(), "billing", n, ttl)
	if err != nil || len(held) != n {
		t.Fatalf("leased %d of %d, %v", len(held), n, err)
	}
	until := map[event.Ref]time.Time{}
	end := held[0].Until
	for _, l := range held {
		until[l.Delivery.Event] = l.Until
	}
	early, next, err := alive.Lease(t.Context(), "billing", n, time.Minute)
	if err != nil || len(early) > 0 && alive.Now().Before(end) {
		t.Errorf("%d leases of two owners, %v", len(early), err)
	}
	if len(early) == 0 && next.After(end) {
		t.Errorf("the next is due at %v, after the leases' end at %v: the survivor comes late", next, end)
	}
	got := early
	for deadline := time.Now().Add(time.Minute); len(got) < n; {
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d came back", len(got), n)
		}
		ls, _, err := alive.Lease(t.Context(), "billing", n, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, ls...)
	}
	var rs []*dedupe.Result
	for _, l := range got {
		given := l.Until.Add(-time.Minute)
		if given.Before(until[l.Delivery.Event]) {
			t.Errorf("%s was given at %v, before its lease's end at %v", l.Delivery.Event, given, until[l.Delivery.Event])
		}
		rs = append(rs, landed(l))
	}
	if err := alive.w.Finish(t.Context(), rs...); err != nil {
		t.Fatal(err)
	}
	late := landed(held[0])
	if err := dead.w.Finish(t.Context(), late); err != nil || !late.Late {
		t.Errorf("the dead one's result: late is %v, %v", late.Late, err)
	}
	for ref := range until {
		rec, err := alive.Get(t.Context(), ref)
		if err != nil || rec.Status != event.StatusDelivered || rec.Deliveries[0].Attempts != 1 {
			t.Errorf("event %s is %v after %d attempts, %v; want delivered by one", ref, rec.Status, rec.Deliveries[0].Attempts, err)
		}
	}
}
