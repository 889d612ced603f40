package badgerdb

import (
	"sync"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

// hotCache keeps what was just committed until its first attempts are made,
// so that they need not read it back. It is bounded by bytes, oldest out
// first.
type hotCache struct {
	limit int64

	mu    sync.Mutex // guards all below
	items map[event.Ref]hotItem
	order []event.Ref
	next  int // first of order not evicted
	size  int64
}

type hotItem struct {
	dedupe.Loaded
	cost int64
	open int // deliveries not yet closed
}

func newHotCache(limit int64) *hotCache {
	return &hotCache{limit: limit, items: map[event.Ref]hotItem{}}
}

func (h *hotCache) put(ev *event.Event, body []byte) {
	cost := int64(len(body)) + 1024
	if cost > h.limit/4 || len(ev.Targets) == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.items[ev.Ref] = hotItem{dedupe.Loaded{Event: ev, Body: body}, cost, len(ev.Targets)}
	h.order = append(h.order, ev.Ref)
	h.size += cost
	for h.size > h.limit || h.next > 1024 && h.next > len(h.order)/2 {
		h.shift()
	}
}

// shift evicts the oldest, or tidies the order. mu is held.
func (h *hotCache) shift() {
	if h.next > 1024 && h.next > len(h.order)/2 {
		h.order = append(h.order[:0], h.order[h.next:]...)
		h.next = 0
		return
	}
	if h.next < len(h.order) {
		h.drop(h.order[h.next])
		h.next++
	}
}

func (h *hotCache) drop(ref event.Ref) {
	if it, ok := h.items[ref]; ok {
		h.size -= it.cost
		delete(h.items, ref)
	}
}

func (h *hotCache) get(ref event.Ref) (dedupe.Loaded, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	it, ok := h.items[ref]
	return it.Loaded, ok
}

// settled forgets an event after an attempt at its last target was recorded;
// a retry reads it back.
func (h *hotCache) settled(ref event.Ref) {
	h.mu.Lock()
	defer h.mu.Unlock()
	it, ok := h.items[ref]
	if !ok {
		return
	}
	if it.open--; it.open <= 0 {
		h.drop(ref)
		// Skip what is gone, so that order does not outgrow items.
		for h.next < len(h.order) {
			if _, live := h.items[h.order[h.next]]; live {
				break
			}
			h.next++
		}
		if h.next == len(h.order) {
			h.order, h.next = h.order[:0], 0
		}
		return
	}
	h.items[ref] = it
}

// forget drops an event at once.
func (h *hotCache) forget(ref event.Ref) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.drop(ref)
}

// slice is an event's part of a body.
func slice(body []byte, s event.Slice) []byte {
	return body[s.Offset : s.Offset+s.Length : s.Offset+s.Length]
}
