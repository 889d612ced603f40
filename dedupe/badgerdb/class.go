package badgerdb

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

// class is a retention policy and the bucket lengths that follow from it.
// Once made it never changes; another retention is another class.
type class struct {
	n    uint8
	keep dedupe.Retention
	own  string // the source it is of alone, because the size of its bodies is limited; "" for all others
	// bucket lengths in ms
	meta, body, audit int64
}

// bucketsPerRetention makes a bucket a 24th of its retention: so much longer
// than asked data stay at most.
const bucketsPerRetention = 24

func (db *DB) newClass(n uint8, keep dedupe.Retention, own string) class {
	length := func(d time.Duration) int64 { return max(d/bucketsPerRetention, db.cfg.MinBucket).Milliseconds() }
	c := class{n: n, keep: keep, own: own, meta: length(keep.Meta), body: length(keep.Body), audit: length(keep.Audit)}
	if own != "" {
		c.body = db.cfg.MinBucket.Milliseconds() // a limit is kept to within one bucket
	}
	return c
}

func classMetaKey(n uint8) []byte { return metaKey(fmt.Sprintf("class/%03d", n)) }

func (c *class) seal(key []byte) []byte {
	e := newEnc(48)
	for _, v := range []int64{c.keep.Body.Milliseconds(), c.keep.Meta.Milliseconds(), c.keep.Audit.Milliseconds(), c.body, c.meta, c.audit} {
		e.int(v)
	}
	if c.keep.Once || c.own != "" { // nothing where it is not asked for
		e.bool(c.keep.Once)
	}
	if c.own != "" {
		e.str(c.own)
	}
	return e.seal(key, 0)
}

func decodeClass(key, val []byte, n uint8) (class, error) {
	payload, err := unseal(key, val)
	if err != nil {
		return class{}, err
	}
	d := &dec{b: payload}
	ms := func() time.Duration { return time.Duration(d.int()) * time.Millisecond }
	c := class{n: n, keep: dedupe.Retention{Body: ms(), Meta: ms(), Audit: ms()}, body: d.int(), meta: d.int(), audit: d.int()}
	if len(d.b) > 0 {
		c.keep.Once = d.bool()
	}
	if len(d.b) > 0 {
		c.own = d.str()
	}
	if err := d.end(key); err != nil {
		return class{}, err
	}
	if c.body <= 0 || c.meta <= 0 || c.audit <= 0 {
		return class{}, damaged(key, "bucket length is not positive")
	}
	return c, nil
}

// sharedClasses is how many of the classes are never of one source alone, so
// that another retention always finds one.
const sharedClasses = 64

// classFor is the class of a source's retention, made in txn if it is new. A
// source with a limit of its own shares no class, unless there are too many. mu
// is held.
func (db *DB) classFor(txn *badger.Txn, source string, r dedupe.Retention) (class, error) {
	if r.Body <= 0 {
		r.Body = db.cfg.Retention.Body
	}
	if r.Meta <= 0 {
		r.Meta = db.cfg.Retention.Meta
	}
	if r.Audit <= 0 {
		r.Audit = db.cfg.Retention.Audit
	}
	all := *db.classes.Load()
	own := ""
	if db.limits[source] > 0 {
		own = source
	}
	find := func() int { return slices.IndexFunc(all, func(c class) bool { return c.keep == r && c.own == own }) }
	at := find()
	if at < 0 && own != "" && len(all) > math.MaxUint8-sharedClasses {
		own = "" // bounded with the others, which is better than not taken
		at = find()
	}
	if at >= 0 {
		return all[at], nil
	}
	if len(all) > math.MaxUint8 {
		return class{}, fmt.Errorf("ledger has %d retention classes, no more fit", len(all))
	}
	c := db.newClass(uint8(len(all)), r, own)
	key := classMetaKey(c.n)
	if err := txn.Set(key, c.seal(key)); err != nil {
		return class{}, err
	}
	dedupe.Failpoint("class.made")
	next := append(append([]class(nil), all...), c)
	db.classes.Store(&next)
	return c, nil
}

func (db *DB) class(n uint8) class { return (*db.classes.Load())[n] }

func (c *class) metaT(ref event.Ref) uint32 { return uint32(int64(ref.Milli()) / c.meta) }
func (c *class) bodyT(ref event.Ref) uint32 { return uint32(int64(ref.Milli()) / c.body) }

func (c *class) auditT(ref event.Ref) uint32 { return uint32(int64(ref.Milli()) / c.audit) }

// folds reports whether attempts of this class outlive their events: then the
// attempt that closes a delivery at the first try stands for its state.
func (c *class) folds() bool {
	return c.keep.Audit == c.keep.Meta || c.keep.Audit.Milliseconds() >= c.keep.Meta.Milliseconds()+c.meta
}

// length is the bucket length of a kind in ms.
func (c *class) length(kind byte) int64 {
	switch kind {
	case kindBody:
		return c.body
	case kindAttempt, kindActs:
		return c.audit
	}
	return c.meta
}

// retention is how long a kind is kept.
func (c *class) retention(kind byte) time.Duration {
	switch kind {
	case kindBody:
		return c.keep.Body
	case kindAttempt, kindActs:
		return c.keep.Audit
	}
	return c.keep.Meta
}

// cuts are the pruned boundaries: everything below is dropped, or about to be.
type cuts struct {
	first   map[[2]byte]uint32 // by kind and class: the first bucket kept
	claims  uint32             // first claim bucket kept
	heads   uint64             // first head kept; 0: all
	headsAt int64              // its ledger ms
	headT   uint32             // its bucket
}

func (c *cuts) clone() *cuts {
	out := *c
	out.first = make(map[[2]byte]uint32, len(c.first))
	for k, v := range c.first {
		out.first[k] = v
	}
	return &out
}

func (c *cuts) of(kind byte, class uint8) uint32 { return c.first[[2]byte{kind, class}] }

var cutsKey = metaKey("cuts")

func (c *cuts) seal() []byte {
	e := newEnc(64)
	e.uint(uint64(len(c.first)))
	for k, v := range c.first {
		e.raw(k[:])
		e.uint(uint64(v))
	}
	e.uint(uint64(c.claims))
	e.uint(c.heads)
	e.int(c.headsAt)
	e.uint(uint64(c.headT))
	return e.seal(cutsKey, 0)
}

func decodeCuts(val []byte) (*cuts, error) {
	payload, err := unseal(cutsKey, val)
	if err != nil {
		return nil, err
	}
	d := &dec{b: payload}
	c := &cuts{first: map[[2]byte]uint32{}}
	for range d.count() {
		var k [2]byte
		d.raw(k[:])
		c.first[k] = uint32(d.uint())
	}
	c.claims, c.heads, c.headsAt, c.headT = uint32(d.uint()), d.uint(), d.int(), uint32(d.uint())
	return c, d.end(cutsKey)
}
