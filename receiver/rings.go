package receiver

import (
	"container/list"
	"crypto/rand"
	"encoding/binary"
	"sync"

	"github.com/onceward/onceward/event"
)

// Bounds of the rings: per source and reason, and in all.
const (
	ringSize  = 50
	ringBytes = 16 << 20
)

// rings keep the latest refusals of every source and reason. Whatever an
// unproven sender does, they hold at most ringSize records per source and
// reason and ringBytes in all: the oldest go first.
type rings struct {
	mu    sync.Mutex
	all   list.List                // *Refusal, oldest first
	rings map[ring][]*list.Element // oldest first
	bytes int64
	last  event.Ref // ID of the latest
}

type ring struct{ source, reason string }

func (r *rings) init() {
	r.rings = map[ring][]*list.Element{}
	r.all.Init()
	var writer [8]byte
	_, _ = rand.Read(writer[:]) // never fails
	r.last = event.NewRef(0, 0, binary.BigEndian.Uint64(writer[:]))
}

// add names the refusal and keeps it.
func (r *rings) add(f *Refusal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = r.last.Next(uint64(max(f.At.UnixMilli(), 0)))
	f.ID = r.last.String()
	key := ring{f.Source, f.Reason}
	if len(r.rings[key]) == ringSize {
		r.drop(r.rings[key][0])
	}
	r.rings[key] = append(r.rings[key], r.all.PushBack(f))
	r.bytes += f.size()
	for r.bytes > ringBytes {
		r.drop(r.all.Front())
	}
}

// drop forgets an element that is the oldest of its ring.
func (r *rings) drop(e *list.Element) {
	f := r.all.Remove(e).(*Refusal)
	r.bytes -= f.size()
	key := ring{f.Source, f.Reason}
	q := r.rings[key]
	q[0] = nil
	if len(q) == 1 {
		delete(r.rings, key)
		return
	}
	r.rings[key] = q[1:]
}

// size is what a refusal holds in memory, roughly and not too little.
func (f *Refusal) size() int64 {
	n := 512 + cap(f.Body) + len(f.Path) + len(f.Detail)
	for i := range f.Header {
		n += 64 + len(f.Header[i].Name) + len(f.Header[i].Value)
	}
	return int64(n)
}

// Refusals lists what the rings hold, newest first. The records are shared
// and must not be changed.
func (r *Receiver) Refusals(f RefusalFilter) []Refusal {
	limit := f.Limit
	if limit <= 0 {
		limit = 100
	}
	r.rings.mu.Lock()
	defer r.rings.mu.Unlock()
	var out []Refusal
	for e := r.rings.all.Back(); e != nil && len(out) < limit; e = e.Prev() {
		have := e.Value.(*Refusal)
		if (f.Source == "" || f.Source == have.Source) && (f.Reason == "" || f.Reason == have.Reason) &&
			!have.At.Before(f.Since) {
			out = append(out, *have)
		}
	}
	return out
}
