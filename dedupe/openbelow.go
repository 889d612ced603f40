package dedupe

import (
	"slices"

	"github.com/onceward/onceward/event"
)

// OpenBelow lists the refs, below one unless that is zero, that have an open
// delivery of target, or of any target with "": in no order, and some of them
// more than once. Of more than about limit it gives the newest, and cut is true.
// It is whole when memory holds every open delivery; otherwise it gives none.
func (s *Schedule) OpenBelow(target string, below event.Ref, limit int) (refs []event.Ref, cut, whole bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	top := topRefs{below: below, limit: limit}
	for name, q := range s.queues {
		if target != "" && target != name {
			continue
		}
		q.mu.Lock()
		whole := !q.more && !q.lacking
		if whole {
			q.newestFirst(func(e Entry) { top.add(e.Ref) })
		}
		q.mu.Unlock()
		if !whole {
			return nil, false, false
		}
	}
	return top.refs, top.cut, true
}

// newestFirst is each, the first attempts in the other order: they are the most
// and were accepted in order.
func (q *queue) newestFirst(f func(Entry)) {
	for i := len(q.fresh) - 1; i >= q.head; i-- {
		if !q.gone(q.fresh[i]) {
			f(q.fresh[i])
		}
	}
	q.eachBut(f)
}

// topRefs keeps the newest of the refs it is given.
type topRefs struct {
	below event.Ref
	limit int
	refs  []event.Ref
	cut   bool
	least event.Ref // refs below it are not among the newest
}

func (t *topRefs) add(ref event.Ref) {
	if !t.below.IsZero() && ref.Compare(t.below) >= 0 {
		return
	}
	if ref.Compare(t.least) < 0 {
		t.cut = true
		return
	}
	if t.refs = append(t.refs, ref); len(t.refs) >= 2*t.limit {
		slices.SortFunc(t.refs, func(a, b event.Ref) int { return b.Compare(a) })
		if t.refs = slices.Compact(t.refs); len(t.refs) > t.limit {
			t.refs, t.cut = t.refs[:t.limit], true
			t.least = t.refs[t.limit-1]
		}
	}
}
