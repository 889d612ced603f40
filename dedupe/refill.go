package dedupe

import "github.com/onceward/onceward/event"

// Starved lists targets whose open deliveries in the ledger should be read
// back now: there is room, or one that was left out is due.
func (s *Schedule) Starved() []string {
	now := s.now().UnixMilli()
	s.mu.RLock()
	defer s.mu.RUnlock()
	var out []string
	for name, q := range s.queues {
		q.mu.Lock()
		if q.known == nil && (q.more && (q.held() < s.cap/2 || q.moreDue <= now && q.held() < s.cap) || q.lacks(s.cap)) {
			out = append(out, name)
		}
		q.mu.Unlock()
	}
	return out
}

// Refill begins reading a target's open deliveries back from the ledger.
// offer is called for each one found, in any order, and ignores those that
// memory holds; done ends it, whole says whether everything was offered.
func (s *Schedule) Refill(target string) (offer func(Entry), done func(whole bool)) {
	q := s.queue(target)
	q.mu.Lock()
	q.known = make(map[event.Ref]struct{}, q.held())
	q.each(func(e Entry) { q.known[e.Ref] = struct{}{} })
	q.spilled = false
	q.moreDue = 1<<63 - 1
	q.recount(s.cap)
	q.mu.Unlock()
	offer = func(e Entry) {
		q.mu.Lock()
		defer q.mu.Unlock()
		if _, held := q.known[e.Ref]; held {
			return
		}
		if q.gone(e) {
			return
		}
		if e.Order != 0 {
			q.offered(e)
			return
		}
		q.place(e, s.cap)
	}
	done = func(whole bool) {
		q.mu.Lock()
		q.known = nil
		q.more = q.spilled || !whole
		q.recounted(whole)
		q.mu.Unlock()
		q.signal()
	}
	return offer, done
}
