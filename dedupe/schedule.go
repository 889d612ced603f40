package dedupe

import (
	"container/heap"
	"sort"
	"sync"
	"time"

	"github.com/onceward/onceward/event"
)

// Entry is one open delivery as the schedule keeps it: 56 bytes, no pointers.
type Entry struct {
	Ref        event.Ref
	Order      event.Order // what it is ordered by at its target; 0 for nothing
	Due        int64       // ledger time of the next attempt, Unix ms
	Opened     int64       // ledger time at which this generation was opened, Unix ms
	Attempts   uint32
	Size       uint32 // of the event's body; bodies are far smaller than it can say
	Generation uint16
	NewKey     bool
	Class      uint8 // the engine's own note of where the event's records stand
}

// Delivery is the entry as a leased delivery of target.
func (e Entry) Delivery(target string) event.Delivery {
	return event.Delivery{
		Event: e.Ref, Target: target, Generation: e.Generation, State: event.Leased, Attempts: e.Attempts,
		NewKey: e.NewKey, DueAt: time.UnixMilli(e.Due), OpenedAt: time.UnixMilli(e.Opened),
	}
}

// DefaultScheduleCap is how many open deliveries of one target are held in
// memory. What is beyond stays in the ledger and is read back as room comes.
const DefaultScheduleCap = 200_000

// Schedule holds when each open delivery is due, for engines that one process
// owns: a queue per target, first attempts in commit order, retries by due
// time, replays when there is time, leases, and lanes of deliveries that wait for each other. It is memory
// only; an engine rebuilds it from its records.
// All methods are safe for concurrent use, and no target waits for another.
type Schedule struct {
	now func() time.Time // the ledger clock
	cap int

	mu     sync.RWMutex // guards all below, but not the queues
	queues map[string]*queue
	held   bool // lanes are held
}

// NewSchedule makes an empty schedule on the ledger clock now. limit is the
// number of entries kept per target; 0 is DefaultScheduleCap.
func NewSchedule(now func() time.Time, limit int) *Schedule {
	if limit <= 0 {
		limit = DefaultScheduleCap
	}
	return &Schedule{now: now, cap: limit, queues: map[string]*queue{}}
}

// queue is one target's part.
type queue struct {
	wake chan struct{}

	mu        sync.Mutex // guards all below; held for bookkeeping only
	fresh     []Entry    // first attempts, in order; head is the first one left
	head      int
	retry     dueHeap
	again     dueHeap // first attempts of replays; they yield to the others
	turn      uint    // of leases, to give replays their share
	leased    map[event.Ref]lease
	expiry    []leaseEnd // a heap by end; those of leases that ended otherwise are stale
	cancelled map[generation]struct{}
	tokens    uint64
	open      int64 // all open deliveries, also those not in memory
	dead      int64
	more      bool                   // the ledger holds open deliveries that memory does not
	moreDue   int64                  // the earliest of them, as far as known
	known     map[event.Ref]struct{} // set while a refill runs: what memory holds
	spilled   bool                   // something was left out while it ran

	lanes
}

type lease struct {
	entry  Entry
	token  uint64
	until  int64
	pinned bool // its result is being committed
}

// generation names an entry that was cancelled while it waited; it is passed
// over when its turn comes.
type generation struct {
	ref event.Ref
	n   uint16
}

type dueHeap []Entry

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].Due < h[j].Due }
func (h dueHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *dueHeap) Push(x any)        { *h = append(*h, x.(Entry)) }
func (h *dueHeap) Pop() any {
	old := *h
	e := old[len(old)-1]
	*h = old[:len(old)-1]
	return e
}

func (s *Schedule) queue(target string) *queue {
	s.mu.RLock()
	q := s.queues[target]
	s.mu.RUnlock()
	if q != nil {
		return q
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if q = s.queues[target]; q == nil {
		q = &queue{wake: make(chan struct{}, 1), leased: map[event.Ref]lease{}, cancelled: map[generation]struct{}{}}
		q.hold = s.held
		s.queues[target] = q
	}
	return q
}

// Wake receives a value when deliveries of target may have become due.
func (s *Schedule) Wake(target string) <-chan struct{} { return s.queue(target).wake }

// Targets lists the targets that have open deliveries, sorted.
func (s *Schedule) Targets() []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var out []string
	for name, q := range s.queues {
		q.mu.Lock()
		open := q.open
		q.mu.Unlock()
		if open > 0 {
			out = append(out, name)
		}
	}
	sort.Strings(out)
	return out
}

// Add schedules a delivery that was opened: a new event's, a replay's, or one
// found in the ledger at start.
func (s *Schedule) Add(target string, e Entry) {
	q := s.queue(target)
	q.mu.Lock()
	q.open++
	q.place(e, s.cap)
	q.mu.Unlock()
	q.signal()
}

func (q *queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default: // one is waiting already
	}
}

// place keeps e in memory if there is room, else in place of a retry that is
// due later, else leaves it to the ledger.
func (q *queue) place(e Entry, limit int) {
	if e.Order != 0 {
		q.line(e, limit)
		return
	}
	if q.known != nil {
		q.known[e.Ref] = struct{}{}
	}
	if q.held() >= limit && !q.shed() {
		last := len(q.retry) - 1
		if last < 0 || q.retry[last].Order != 0 || q.retry[last].Due <= e.Due {
			q.leave(e)
			return
		}
		out := q.retry[last]
		heap.Remove(&q.retry, last)
		q.leave(out)
	}
	q.enqueue(e)
}

// giveBack makes what was leased and not attempted a candidate again.
func (q *queue) giveBack(e Entry) {
	if e.Generation > 0 && e.Attempts == 0 {
		heap.Push(&q.again, e)
		return
	}
	heap.Push(&q.retry, e)
}

// enqueue makes e a candidate for a lease.
func (q *queue) enqueue(e Entry) {
	if e.Generation > 0 && e.Attempts == 0 {
		heap.Push(&q.again, e)
		return
	}
	if e.Attempts == 0 && (len(q.fresh) == q.head || q.fresh[len(q.fresh)-1].Due <= e.Due) {
		q.fresh = append(q.fresh, e)
		return
	}
	heap.Push(&q.retry, e)
}

func (q *queue) leave(e Entry) {
	if !q.more || e.Due < q.moreDue {
		q.moreDue = e.Due
	}
	q.more, q.spilled = true, true
	if q.known != nil {
		delete(q.known, e.Ref)
	}
}

func (q *queue) held() int {
	return len(q.fresh) - q.head + len(q.retry) + len(q.again) + len(q.leased) + q.waiting
}

// Lease takes up to n due deliveries of target for ttl, earliest first. next
// is when the earliest delivery not taken now falls due or the earliest lease
// ends, zero when there is neither.
func (s *Schedule) Lease(target string, n int, ttl time.Duration) (leases []Lease, next time.Time) {
	now := s.now().UnixMilli()
	until := now + ttl.Milliseconds()
	q := s.queue(target)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.reclaim(now)
	for len(leases) < n {
		e, ok := q.pop(now)
		if !ok {
			break
		}
		q.tokens++
		q.leased[e.Ref] = lease{entry: e, token: q.tokens, until: until}
		q.ends(leaseEnd{e.Ref, q.tokens, until})
		leases = append(leases, Lease{Delivery: e.Delivery(target), Token: q.tokens, Until: time.UnixMilli(until), Size: int64(e.Size)})
	}
	if due, ok := q.nextDue(); ok {
		next = time.UnixMilli(due)
	}
	return leases, next
}

// pop removes the earliest entry that is due.
func (q *queue) pop(now int64) (Entry, bool) {
	for {
		e, from, ok := q.choose(now)
		switch {
		case !ok:
			return Entry{}, false
		case from == nil:
			q.advance()
		default:
			heap.Pop(from)
		}
		if q.gone(e) {
			delete(q.cancelled, generation{e.Ref, e.Generation})
			continue
		}
		return e, true
	}
}

// replayShare is how many leases there are for one of a replay while other
// deliveries are due as well.
const replayShare = 8

// choose is the delivery that is leased next and the heap it stands on, nil
// for the first attempts in order: the earliest one due, those of replays only
// when no other is, and in their share.
func (q *queue) choose(now int64) (e Entry, from *dueHeap, ok bool) {
	live, fresh, ok := q.peek()
	ok = ok && live.Due <= now
	replay := len(q.again) > 0 && q.again[0].Due <= now
	if ok && replay {
		q.turn++
	}
	switch {
	case replay && (!ok || q.turn%replayShare == 0):
		return q.again[0], &q.again, true
	case fresh:
		return live, nil, ok
	}
	return live, &q.retry, ok
}

func (q *queue) gone(e Entry) bool {
	if len(q.cancelled) == 0 {
		return false
	}
	_, gone := q.cancelled[generation{e.Ref, e.Generation}]
	return gone
}

func (q *queue) peek() (e Entry, fresh, ok bool) {
	hasFresh := q.head < len(q.fresh)
	switch {
	case hasFresh && (len(q.retry) == 0 || q.fresh[q.head].Due <= q.retry[0].Due):
		return q.fresh[q.head], true, true
	case len(q.retry) > 0:
		return q.retry[0], false, true
	}
	return Entry{}, false, false
}

func (q *queue) advance() {
	q.head++
	if q.head == len(q.fresh) {
		q.fresh, q.head = q.fresh[:0], 0
	} else if q.head >= 4096 && q.head*2 >= len(q.fresh) {
		q.fresh = append(q.fresh[:0], q.fresh[q.head:]...)
		q.head = 0
	}
}

func (q *queue) nextDue() (int64, bool) {
	e, _, ok := q.peek()
	due := e.Due
	if len(q.again) > 0 && (!ok || q.again[0].Due < due) {
		due, ok = q.again[0].Due, true
	}
	for len(q.expiry) > 0 {
		if _, live := q.live(q.expiry[0]); live {
			break
		}
		q.expiry = popEnd(q.expiry)
	}
	if len(q.expiry) > 0 && (!ok || q.expiry[0].until < due) {
		due, ok = q.expiry[0].until, true
	}
	return due, ok
}

// Fence reports whether the lease still stands and, if so, holds it until
// Settle, so that its delivery can't be leased again while the result is
// being written. A second result of the same lease finds it taken.
func (s *Schedule) Fence(l Lease) (Entry, bool) {
	q := s.queue(l.Delivery.Target)
	q.mu.Lock()
	defer q.mu.Unlock()
	cur, ok := q.leased[l.Delivery.Event]
	if !ok || cur.token != l.Token || cur.pinned { // pinned: the same batch ends it already
		return Entry{}, false
	}
	cur.pinned = true
	q.leased[l.Delivery.Event] = cur
	return cur.entry, true
}

// Settle ends a fenced lease after its result is durable: with state Pending
// next is scheduled again, else the delivery is closed.
func (s *Schedule) Settle(l Lease, state event.State, next Entry) {
	q := s.queue(l.Delivery.Target)
	q.mu.Lock()
	cur, ok := q.leased[l.Delivery.Event]
	if !ok || cur.token != l.Token { // cancelled while it was written
		q.mu.Unlock()
		return
	}
	delete(q.leased, l.Delivery.Event)
	woken := state.Open()
	switch {
	case cur.entry.Order != 0:
		next.Order = cur.entry.Order
		woken = q.passed(cur.entry, state, next) || woken
	case state.Open():
		q.place(next, s.cap)
	}
	if !state.Open() {
		q.open--
		if state == event.Dead {
			q.dead++
		}
	}
	q.mu.Unlock()
	if woken {
		q.signal()
	}
}

// Release gives a lease back; its delivery is due as it was before. A lost
// lease is ignored.
func (s *Schedule) Release(l Lease) {
	q := s.queue(l.Delivery.Target)
	q.mu.Lock()
	cur, ok := q.leased[l.Delivery.Event]
	if ok && cur.token == l.Token && !cur.pinned {
		delete(q.leased, l.Delivery.Event)
		q.giveBack(cur.entry)
	}
	q.mu.Unlock()
	q.signal()
}

// Extend prolongs a lease by ttl from now, false when it was lost.
func (s *Schedule) Extend(l Lease, ttl time.Duration) bool {
	until := s.now().Add(ttl).UnixMilli()
	q := s.queue(l.Delivery.Target)
	q.mu.Lock()
	defer q.mu.Unlock()
	cur, ok := q.leased[l.Delivery.Event]
	if !ok || cur.token != l.Token {
		return false
	}
	cur.until = until
	q.leased[l.Delivery.Event] = cur
	q.ends(leaseEnd{l.Delivery.Event, l.Token, until})
	return true
}

// Cancel closes an open delivery. Its lease, if it is under one, is lost.
func (s *Schedule) Cancel(target string, ref event.Ref, gen uint16) {
	q := s.queue(target)
	q.mu.Lock()
	q.open--
	var woken bool
	if l, ok := q.leased[ref]; ok && l.entry.Generation == gen {
		delete(q.leased, ref)
		woken = l.entry.Order != 0 && q.passed(l.entry, event.Cancelled, Entry{})
	} else {
		q.cancelled[generation{ref, gen}] = struct{}{}
		woken = q.vacate(ref, gen)
	}
	q.mu.Unlock()
	if woken {
		q.signal()
	}
}

// Dead counts a dead delivery found at start (+1) or opened again (-1).
func (s *Schedule) Dead(target string, n int64) {
	q := s.queue(target)
	q.mu.Lock()
	q.dead += n
	q.mu.Unlock()
}

// DeadOf is how many deliveries of target are dead, of all targets with "".
func (s *Schedule) DeadOf(target string) (n int64) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for name, q := range s.queues {
		if target == "" || target == name {
			q.mu.Lock()
			n += q.dead
			q.mu.Unlock()
		}
	}
	return n
}

// State is Leased while the delivery is under a lease, else Pending.
func (s *Schedule) State(target string, ref event.Ref) event.State {
	q := s.queue(target)
	q.mu.Lock()
	defer q.mu.Unlock()
	if l, ok := q.leased[ref]; ok && l.until > s.now().UnixMilli() {
		return event.Leased
	}
	return event.Pending
}

// Stats counts every target's deliveries.
func (s *Schedule) Stats() map[string]TargetStats {
	s.mu.RLock()
	defer s.mu.RUnlock()
	out := make(map[string]TargetStats, len(s.queues))
	now := s.now().UnixMilli()
	for name, q := range s.queues {
		q.mu.Lock()
		st := TargetStats{Dead: q.dead}
		for _, l := range q.leased {
			if l.pinned || l.until > now {
				st.Leased++
			}
		}
		st.Pending = max(q.open-st.Leased, 0)
		st.Behind, st.BlockedKeys = q.counts()
		oldest := int64(0)
		q.each(func(e Entry) {
			if oldest == 0 || e.Opened < oldest {
				oldest = e.Opened
			}
		})
		if oldest != 0 {
			st.Oldest = time.UnixMilli(oldest)
		}
		q.mu.Unlock()
		if st != (TargetStats{}) {
			out[name] = st
		}
	}
	return out
}

func (q *queue) each(f func(Entry)) {
	for _, e := range q.fresh[q.head:] {
		if !q.gone(e) {
			f(e)
		}
	}
	q.eachBut(f)
}

// eachBut is each without the first attempts in order.
func (q *queue) eachBut(f func(Entry)) {
	for _, waiting := range [...][]Entry{q.retry, q.again} {
		for _, e := range waiting {
			if !q.gone(e) {
				f(e)
			}
		}
	}
	q.eachWaiting(f)
	for _, l := range q.leased {
		f(l.entry)
	}
}

// Low is the smallest ref that has an open delivery, the zero Ref when none
// has. It is false when memory does not hold every open delivery.
func (s *Schedule) Low() (event.Ref, bool) {
	var low event.Ref
	whole := s.Open(func(e Entry) {
		if low.IsZero() || e.Ref.Compare(low) < 0 {
			low = e.Ref
		}
	})
	return low, whole
}

// Open calls f for every open delivery in memory. It is false when memory does
// not hold every one. f must not call the schedule.
func (s *Schedule) Open(f func(Entry)) (whole bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	whole = true
	for _, q := range s.queues {
		q.mu.Lock()
		whole = whole && !q.more && !q.lacking
		q.each(f)
		q.mu.Unlock()
	}
	return whole
}
