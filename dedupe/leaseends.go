package dedupe

import (
	"cmp"
	"slices"

	"github.com/onceward/onceward/event"
)

// leaseEnd is when a lease ends, unless it ended otherwise or was extended.
type leaseEnd struct {
	ref   event.Ref
	token uint64
	until int64
}

// reclaim puts deliveries of ended leases back.
func (q *queue) reclaim(now int64) {
	for len(q.expiry) > 0 {
		end := q.expiry[0]
		if l, live := q.live(end); live {
			if end.until > now {
				return
			}
			delete(q.leased, end.ref)
			q.giveBack(l.entry)
		}
		q.expiry = popEnd(q.expiry)
	}
}

// live is the lease that end ends, unless it ended otherwise, was extended, or
// its result is being written: then Settle ends it.
func (q *queue) live(end leaseEnd) (lease, bool) {
	l, ok := q.leased[end.ref]
	return l, ok && l.token == end.token && l.until == end.until && !l.pinned
}

// ends notes when a lease ends, and forgets the stale ends before they
// outnumber the leases.
func (q *queue) ends(end leaseEnd) {
	if len(q.expiry) > 1024 && len(q.expiry) > 2*len(q.leased) {
		kept := q.expiry[:0]
		for _, e := range q.expiry {
			if _, live := q.live(e); live {
				kept = append(kept, e)
			}
		}
		slices.SortFunc(kept, func(a, b leaseEnd) int { return cmp.Compare(a.until, b.until) })
		q.expiry = kept
	}
	q.expiry = pushEnd(q.expiry, end)
}

// pushEnd and popEnd are a heap without the allocations of container/heap.
func pushEnd(h []leaseEnd, end leaseEnd) []leaseEnd {
	h = append(h, end)
	for i := len(h) - 1; i > 0; {
		up := (i - 1) / 2
		if h[up].until <= h[i].until {
			break
		}
		h[up], h[i] = h[i], h[up]
		i = up
	}
	return h
}

func popEnd(h []leaseEnd) []leaseEnd {
	last := len(h) - 1
	h[0] = h[last]
	h = h[:last]
	for i := 0; ; {
		down := 2*i + 1
		if down >= last {
			return h
		}
		if down+1 < last && h[down+1].until < h[down].until {
			down++
		}
		if h[i].until <= h[down].until {
			return h
		}
		h[i], h[down] = h[down], h[i]
		i = down
	}
}
