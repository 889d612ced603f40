package badgerdb

import (
	"sync"

	"github.com/onceward/onceward/event"
)

// Small bodies of requests that follow each other in a transaction stand in one
// record, under the ref of the first, as the elements of a batch do. Events of one
// provider are much alike, so that compressed together they take a fraction of
// what each takes alone; and what is written once is written again by each flush
// and merge of the engine. With half as much written for an event, intake became a
// sixth faster.
const (
	// packSize is how much of bodies one record holds: so much is read and
	// uncompressed for one of them, and so much is lost when it is damaged.
	packSize = 32 << 10
	// packedSize is the largest body that shares a record.
	packedSize = packSize / 4
)

// pack is the record being put together. Its events have refs that follow each
// other and are of one millisecond, so that they stand in one bucket and leave it
// together.
type pack struct {
	class class
	ref   event.Ref // of the first event
	b     []byte
}

// packs reports whether a body may share a record. One that goes as soon as its
// own deliveries are over can't wait for others.
func packs(cl *class, body []byte) bool {
	return len(body) > 0 && len(body) <= packedSize && !cl.keep.Once
}

// begin makes body the first of a pack, false when it has to stand alone. The pack
// is empty.
func (p *pack) begin(cl class, ref event.Ref, body []byte) bool {
	if !packs(&cl, body) {
		return false
	}
	p.class, p.ref, p.b = cl, ref, append(p.b[:0], body...)
	return true
}

// add appends a body to a pack that was begun, and says at which offset, or false
// when it has no place in it.
func (p *pack) add(cl class, ref event.Ref, body []byte) (offset int64, ok bool) {
	n := len(p.b)
	if n == 0 || !packs(&cl, body) || n+len(body) > packSize || cl.n != p.class.n || ref.Milli() != p.ref.Milli() {
		return 0, false
	}
	p.b = append(p.b, body...)
	return int64(n), true
}

// putPack writes the pack, if there is one.
func (c *commit) putPack() error {
	p := &c.pack
	if len(p.b) == 0 {
		return nil
	}
	err := c.putBody(p.class, p.ref, p.b) // which copies them
	c.db.packed = p.b
	p.b = p.b[:0]
	return err
}

// chunkCache keeps the last chunks read of which an event has a part, uncompressed:
// the next event read is likely to have another. They are not changed.
type chunkCache struct {
	mu   sync.Mutex // guards all below
	kept [8]keptChunk
	next int
}

type keptChunk struct {
	key string
	b   []byte
}

func (c *chunkCache) get(key []byte) ([]byte, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.kept {
		if k := &c.kept[i]; k.b != nil && k.key == string(key) {
			return k.b, true
		}
	}
	return nil, false
}

func (c *chunkCache) put(key, b []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kept[c.next] = keptChunk{string(key), b}
	c.next = (c.next + 1) % len(c.kept)
}
