package dedupe

import (
	"slices"

	"github.com/onceward/onceward/event"
)

// lanes are a queue's deliveries that wait for each other. Of the deliveries
// with one order only the first is among those that can be leased; the others
// stand behind it until it is closed. What is left to the ledger for want of
// room is always behind what is in memory.
type lanes struct {
	hold    bool             // nothing moves up: what was opened before is still being read
	byOrder map[uint64]*lane // those that hold anything
	waiting int              // deliveries that stand behind another
	lacking bool             // the ledger holds ordered deliveries that memory does not
	hungry  bool             // and one of them may be the first of its lane
	rest    mark             // the first of those whose lane memory doesn't know
	next    mark             // the same, as the refill under way finds it
	offers  []Entry          // what that one has read
	room    int              // and how many of those there is room for
}

// lane is the deliveries with one order.
type lane struct {
	busy    bool
	first   Entry // with busy: the one that can be leased, or is
	waiting []Entry
	dead    map[event.Ref]struct{} // that block it
	rest    mark                   // the first of those that memory doesn't hold
	next    mark                   // the same, as the refill under way finds it
}

// seat is the place of a delivery in its lane: deliveries of an admission
// stand in commit order, those of a replay behind all that was opened before.
type seat struct {
	opened int64
	replay bool
	ref    event.Ref
}

func seatOf(e Entry) seat { return seat{e.Opened, e.Generation > 0, e.Ref} }

func (s seat) before(o seat) bool {
	switch {
	case s.opened != o.opened:
		return s.opened < o.opened
	case s.replay != o.replay:
		return o.replay
	}
	return s.ref.Compare(o.ref) < 0
}

// mark is the earliest of some seats, none at first.
type mark struct {
	seat
	set bool
}

func (m *mark) include(s seat) {
	if !m.set || s.before(m.seat) {
		*m = mark{s, true}
	}
}

// past reports whether s is at or behind the mark.
func (m mark) past(s seat) bool { return m.set && !s.before(m.seat) }

// HoldLanes keeps ordered deliveries from being leased until FreeLanes: an
// engine that leases while it still reads back what was open must hold them,
// or a later one could go first.
func (s *Schedule) HoldLanes() { s.setLanes(true) }

// FreeLanes ends HoldLanes: everything that was open has been added, and the
// dead that block were told with Block.
func (s *Schedule) FreeLanes() { s.setLanes(false) }

func (s *Schedule) setLanes(hold bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = hold
	for _, q := range s.queues {
		q.mu.Lock()
		q.hold = hold
		q.moveUp()
		q.mu.Unlock()
		q.signal()
	}
}

// Block tells of a dead delivery found at start that those behind it wait
// for. Whether it does is said by its order.
func (s *Schedule) Block(target string, ref event.Ref, o event.Order) {
	if !o.Blocks() {
		return
	}
	q := s.queue(target)
	q.mu.Lock()
	q.block(q.lane(o), ref)
	q.mu.Unlock()
}

// Unblock tells that a delivery is dead no more, or is gone. Those behind it
// go on unless another one blocks them.
func (s *Schedule) Unblock(target string, ref event.Ref, o event.Order) {
	if o == 0 {
		return
	}
	q := s.queue(target)
	q.mu.Lock()
	woken := q.unblock(o, ref)
	q.mu.Unlock()
	if woken {
		q.signal()
	}
}

func (q *queue) block(l *lane, ref event.Ref) {
	if l.dead == nil {
		l.dead = map[event.Ref]struct{}{}
	}
	l.dead[ref] = struct{}{}
}

func (q *queue) unblock(o event.Order, ref event.Ref) bool {
	l := q.byOrder[o.Lane()]
	if l == nil {
		return false
	}
	delete(l.dead, ref)
	return q.settleLane(o.Lane(), l)
}

// lane is the lane of an order, made if need be.
func (q *queue) lane(o event.Order) *lane {
	l := q.byOrder[o.Lane()]
	if l == nil {
		if q.byOrder == nil {
			q.byOrder = map[uint64]*lane{}
		}
		l = &lane{}
		q.byOrder[o.Lane()] = l
	}
	return l
}

// line puts a delivery that was opened into its lane, if there is room and
// nothing before it was left to the ledger. A replay of the dead one that
// blocked the lane ends that.
func (q *queue) line(e Entry, limit int) {
	if e.Generation > 0 {
		q.unblock(e.Order, e.Ref)
	}
	l, s := q.byOrder[e.Order.Lane()], seatOf(e)
	for {
		if q.rest.past(s) || l != nil && l.rest.past(s) {
			q.omit(e)
			return
		}
		if q.held() < limit {
			break
		}
		if !q.shed() {
			q.omit(e)
			return
		}
	}
	if q.known != nil {
		q.known[e.Ref] = struct{}{}
	}
	q.stand(e)
	q.settleLane(e.Order.Lane(), q.lane(e.Order))
}

// stand puts e into its lane, in order.
func (q *queue) stand(e Entry) {
	l, s := q.lane(e.Order), seatOf(e)
	i := len(l.waiting)
	for i > 0 && s.before(seatOf(l.waiting[i-1])) {
		i--
	}
	l.waiting = slices.Insert(l.waiting, i, e)
	q.waiting++
}

// omit leaves e to the ledger.
func (q *queue) omit(e Entry) {
	q.lacking = true
	if q.known != nil {
		delete(q.known, e.Ref)
	}
	if l := q.byOrder[e.Order.Lane()]; l != nil {
		l.rest.include(seatOf(e))
		l.next.include(seatOf(e))
		q.settleLane(e.Order.Lane(), l)
		return
	}
	q.rest.include(seatOf(e))
	q.next.include(seatOf(e))
}

// settleLane moves up who can, and forgets a lane that holds nothing. It
// reports whether someone moved up.
func (q *queue) settleLane(order uint64, l *lane) (moved bool) {
	for !q.hold && !l.busy && len(l.dead) == 0 && len(l.waiting) > 0 {
		e := l.waiting[0]
		if q.gone(e) {
			delete(q.cancelled, generation{e.Ref, e.Generation})
			q.shift(l)
			continue
		}
		if s := seatOf(e); l.rest.past(s) || q.rest.past(s) { // what is before it is in the ledger
			q.hungry = q.hungry || l.rest.past(s)
			return moved
		}
		q.shift(l)
		l.busy, l.first, moved = true, e, true
		q.enqueue(e)
	}
	if !l.busy && len(l.waiting) == 0 && len(l.dead) == 0 {
		if l.rest.set {
			q.hungry = true
		} else {
			delete(q.byOrder, order)
		}
	}
	return moved
}

// shift removes the first who waits.
func (q *queue) shift(l *lane) {
	l.waiting = l.waiting[1:]
	if len(l.waiting) == 0 {
		l.waiting = nil
	}
	q.waiting--
}

// passed ends the lease of a lane's first delivery: it is tried again as next,
// is dead and may block those behind it, or makes room for them. It reports
// whether someone moved up.
func (q *queue) passed(e Entry, state event.State, next Entry) bool {
	l := q.lane(e.Order)
	if state.Open() {
		l.busy, l.first = true, next
		q.enqueue(next)
		return false
	}
	l.busy = false
	if state == event.Dead && e.Order.Blocks() {
		q.block(l, e.Ref)
	}
	return q.settleLane(e.Order.Lane(), l)
}

// vacate makes room behind a lane's first delivery that was cancelled without
// a lease.
func (q *queue) vacate(ref event.Ref, gen uint16) bool {
	for order, l := range q.byOrder {
		if l.busy && l.first.Ref == ref && l.first.Generation == gen {
			l.busy = false
			return q.settleLane(order, l)
		}
	}
	return false
}

// worthShedding is how long a lane must be to make room for others: shedding
// looks at every lane, so it must pay.
const worthShedding = 16

// shed leaves to the ledger what stands behind the dead, or else half of the
// longest lane, false when there is nothing of either kind.
func (q *queue) shed() (some bool) {
	var longest *lane
	for _, l := range q.byOrder {
		switch {
		case len(l.dead) > 0 && len(l.waiting) > 0:
			q.drop(l, 0)
			some = true
		case len(l.waiting) >= worthShedding && (longest == nil || len(l.waiting) > len(longest.waiting)):
			longest = l
		}
	}
	if !some && longest != nil {
		q.drop(longest, len(longest.waiting)/2)
		some = true
	}
	return some
}

// lacks reports whether ordered deliveries should be read back now.
func (q *queue) lacks(limit int) bool {
	if !q.lacking || q.hold {
		return false
	}
	if q.hungry || !q.rest.set {
		return q.hungry
	}
	live := q.held()
	for _, l := range q.byOrder {
		if len(l.dead) > 0 {
			live -= len(l.waiting)
		}
	}
	return live < max(limit/2, 1)
}

// recount begins finding anew which deliveries memory lacks.
func (q *queue) recount(limit int) {
	q.hungry, q.next, q.offers = false, mark{}, nil
	for _, l := range q.byOrder {
		l.next = mark{}
	}
	if !q.lacking {
		return
	}
	for q.held() > limit-limit/4 && q.shed() {
	}
	q.room = max(limit-q.held(), limit/8, 1)
}

// offered notes a delivery that the ledger holds and memory does not. Nothing
// is made of it before all were offered.
func (q *queue) offered(e Entry) {
	l, s := q.byOrder[e.Order.Lane()], seatOf(e)
	if q.next.past(s) || l != nil && (l.next.past(s) || len(l.dead) > 0) {
		q.omit(e)
		return
	}
	q.known[e.Ref] = struct{}{}
	if q.offers = append(q.offers, e); len(q.offers) >= 2*q.room {
		q.pick()
	}
}

// pick keeps of what was offered the earliest there is room for, and of one
// lane not so many that it takes the room of others.
func (q *queue) pick() {
	slices.SortFunc(q.offers, func(a, b Entry) int {
		if seatOf(a).before(seatOf(b)) {
			return -1
		}
		return 1
	})
	share, of, kept := max(q.room/8, worthShedding), map[uint64]int{}, q.offers[:0]
	for _, e := range q.offers {
		order := e.Order.Lane()
		if len(kept) < q.room && of[order] < share {
			of[order]++
			kept = append(kept, e)
			continue
		}
		if of[order] > 0 {
			q.lane(e.Order) // it will hold those kept
		}
		q.omit(e)
	}
	q.offers = kept
}

// recounted ends it. When not all were offered, nothing was learnt.
func (q *queue) recounted(whole bool) {
	if whole {
		q.pick()
		q.rest = q.next
		for _, l := range q.byOrder {
			l.rest = l.next
		}
		for _, e := range q.offers {
			q.stand(e)
		}
	}
	q.offers = nil
	q.moveUp()
}

// moveUp settles every lane, and gives up what stands behind a delivery that
// is only in the ledger: it would take room and could not go.
func (q *queue) moveUp() {
	q.lacking = q.rest.set
	for order, l := range q.byOrder {
		n := len(l.waiting)
		for n > 0 && !q.hold && (q.rest.past(seatOf(l.waiting[n-1])) || l.rest.past(seatOf(l.waiting[n-1]))) {
			n--
		}
		if n < len(l.waiting) {
			q.drop(l, n)
		}
		q.lacking = q.lacking || l.rest.set
		q.settleLane(order, l)
	}
}

// drop leaves the deliveries of a lane from the n-th on to the ledger.
func (q *queue) drop(l *lane, n int) {
	for _, e := range l.waiting[n:] {
		if q.known != nil {
			delete(q.known, e.Ref)
		}
		if q.gone(e) {
			delete(q.cancelled, generation{e.Ref, e.Generation})
			continue
		}
		l.rest.include(seatOf(e))
		l.next.include(seatOf(e))
	}
	q.waiting -= len(l.waiting) - n
	l.waiting = slices.Clip(l.waiting[:n])
	q.lacking = q.lacking || l.rest.set
}

// eachWaiting calls f for every delivery that stands behind another.
func (q *queue) eachWaiting(f func(Entry)) {
	for _, l := range q.byOrder {
		for _, e := range l.waiting {
			if !q.gone(e) {
				f(e)
			}
		}
	}
}

// counts are the deliveries that stand behind another and the lanes that a
// dead one blocks.
func (q *queue) counts() (behind, blocked int64) {
	for _, l := range q.byOrder {
		if len(l.dead) > 0 {
			blocked++
		}
	}
	return int64(q.waiting), blocked
}
