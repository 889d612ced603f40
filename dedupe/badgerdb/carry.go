package badgerdb

import (
	"bytes"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

// What is open is taken out of the buckets that are about to go: bodies and
// claims first, which do not change and are copied in as many rounds as it
// takes; then, in the round that drops the buckets, the records that do change.

// openRefs lists the events that have an open delivery and may stand in a
// bucket to be dropped, ascending.
func (x *expiry) openRefs() ([]event.Ref, error) {
	db := x.db
	seen := map[event.Ref]bool{}
	whole := db.sched.Open(func(e dedupe.Entry) {
		if e.Ref.Compare(x.lastAffected(db.class(e.Class))) < 0 {
			seen[e.Ref] = true
		}
	})
	if !whole {
		clear(seen)
		err := db.scanOpen(x.ctx, db.head.low, x.lastAffected, func(o openDelivery) error {
			seen[o.entry.Ref] = true
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	for _, ref := range db.unread.list() { // it may be open: what of it can be read stays
		if _, _, err := db.find(x.txn, ref); errors.Is(err, dedupe.ErrNotFound) {
			db.unread.forget(ref)
			continue
		}
		seen[ref] = true
	}
	return slices.SortedFunc(maps.Keys(seen), event.Ref.Compare), nil
}

// copy copies claims and bodies of open events into buckets that stay, until
// none is left or the round has had its time. It reports whether there is
// anything to commit or left: then the buckets stay for another round.
func (x *expiry) copy(refs []event.Ref) (copied bool, err error) {
	if copied, err = x.copySome(refs); err == nil {
		err = x.putPart()
	}
	return copied, err
}

func (x *expiry) copySome(refs []event.Ref) (copied bool, err error) {
	for _, p := range x.db.claims {
		if p >= x.next.claims {
			break
		}
		if x.claims[p] {
			continue
		}
		n := x.out.Claims
		if err := x.copyClaims(p); err != nil {
			return copied, err
		}
		if copied = copied || x.out.Claims > n; !x.claims[p] {
			return true, nil
		}
	}
	for _, ref := range refs {
		if k, ok := x.copied[ref]; ok && k.t >= x.next.of(kindBody, k.class) {
			continue
		}
		if copied && x.late() {
			return true, nil
		}
		did, err := x.copyBody(ref)
		if err := x.db.passOver(ref, err); err != nil {
			return copied, err
		}
		copied = copied || did
	}
	return copied, nil
}

// lookEach is how many claims are read between two looks at the clock.
const lookEach = 256

// copyClaims copies the claims of open events out of a bucket that ended, from
// where the last round left off.
func (x *expiry) copyClaims(p uint32) error {
	low, whole := x.db.sched.Low()
	if whole && low.IsZero() {
		x.claims[p] = true
		return nil
	}
	opt := badger.DefaultIteratorOptions
	opt.Prefix = claimPrefix(p)
	read := x.db.kv.NewTransaction(false)
	defer read.Discard()
	it := read.NewIterator(opt)
	defer it.Close()
	from := opt.Prefix
	if x.seek != nil {
		from = x.seek
	}
	n := 0
	for it.Seek(from); it.Valid(); it.Next() {
		key := it.Item().KeyCopy(nil)
		if n++; n%lookEach == 0 && x.late() {
			x.seek = key
			return nil
		}
		val, err := it.Item().ValueCopy(nil)
		if err != nil {
			return engineErr(key, err)
		}
		c, err := decodeClaim(key, val)
		if err != nil { // it ended, and nobody can say whose it was
			if err := x.db.passOver(event.Ref{}, err); err != nil {
				return err
			}
			continue
		}
		if whole && c.Ref.Compare(low) < 0 {
			continue
		}
		held, err := x.db.heldOpen(read, c)
		if !held && err == nil {
			continue
		}
		if err := x.db.passOver(c.Ref, err); err != nil {
			return err // of an event that can't be read, a claim stays
		}
		// Into the next bucket, where the next run looks again. The expiry stays:
		// the claim ends with the open delivery that keeps it.
		to := uint32(x.now/x.db.cfg.ClaimBucket.Milliseconds()) + 1
		key = claimKey(to, c.Key)
		if err := x.set(key, sealClaim(key, &c)); err != nil {
			return err
		}
		x.db.noteClaimBucket(to)
		x.out.Claims++
	}
	x.claims[p], x.seek = true, nil
	return nil
}

// copyBody copies an open event's body when its bucket goes, false when it stays
// or was copied before.
func (x *expiry) copyBody(ref event.Ref) (bool, error) {
	db := x.db
	ev, p, err := db.find(x.txn, ref)
	if err != nil {
		return false, err
	}
	c := p.class
	if ev.Body.Length == 0 || p.bodyT >= x.next.of(kindBody, c.n) || p.bodyT < db.cuts.Load().of(kindBody, c.n) {
		return false, nil
	}
	to, err := x.pointer(ref, c)
	if err != nil {
		return false, err
	}
	if to.bodyT >= x.next.of(kindBody, c.n) {
		x.copied[ref] = partKey{kindBody, c.n, to.bodyT}
		return false, nil // by a run that did not come to its end
	}
	to.bodyT = uint32(x.now / c.body)
	x.copied[ref] = partKey{kindBody, c.n, to.bodyT}
	if err := x.carryBody(&ev, p, to); err != nil {
		return false, err
	}
	x.out.Carried++
	dedupe.Failpoint("expire.carry")
	return true, nil
}

// pointer is where an event's carried records stand.
func (x *expiry) pointer(ref event.Ref, c class) (carried, error) {
	to, err := readCarried(x.txn, ref)
	if errors.Is(err, dedupe.ErrNotFound) {
		return carried{class: c.n}, nil
	}
	return to, err
}

// carryOpen moves the records of open events out of the buckets that are about
// to go, and forgets what was carried before and is closed.
func (x *expiry) carryOpen(refs []event.Ref) error {
	for _, k := range x.open {
		if err := x.moveKey(k, x.db.syncT(time.UnixMilli(x.now))+1); err != nil {
			return err
		}
	}
	kept := make(map[event.Ref]bool, len(refs))
	for _, ref := range refs {
		kept[ref] = true
		if err := x.db.passOver(ref, x.carry(ref)); err != nil {
			return err
		}
	}
	return x.dropPointers(kept)
}

// carry moves one open event's records into today's bucket, where its present
// one goes.
func (x *expiry) carry(ref event.Ref) error {
	ev, p, err := x.db.find(x.txn, ref)
	if err != nil {
		return err
	}
	c := p.class
	if p.t >= x.next.of(kindEvent, c.n) {
		return nil
	}
	to, err := x.pointer(ref, c)
	if err != nil {
		return err
	}
	to.eventT = uint32(x.now / c.meta)
	if err := x.carryEvent(&ev, p, to.eventT); err != nil {
		return err
	}
	if _, ok := x.copied[ref]; !ok {
		x.out.Carried++
	}
	dedupe.Failpoint("expire.carry")
	return x.set(carriedKey(ref), sealCarried(carriedKey(ref), to))
}

// lastAffected is above every ref of a class that may stand in a bucket to be
// dropped: zero when nothing of the class goes.
func (x *expiry) lastAffected(c class) event.Ref {
	var ms int64
	was := x.db.cuts.Load()
	for _, kind := range []byte{kindEvent, kindBody} {
		if cut := x.next.of(kind, c.n); cut > was.of(kind, c.n) {
			ms = max(ms, int64(cut)*c.length(kind))
		}
	}
	return event.NewRef(uint64(ms), 0, 0)
}

func (x *expiry) carryEvent(ev *event.Event, p place, to uint32) error {
	n := p.class.n
	if _, err := x.move(eventKey(n, p.t, p.sub, ev.Ref), eventKey(n, to, subCarried, ev.Ref)); err != nil {
		return err
	}
	tallyFrom := eventKey(n, p.t, subTally, ev.Ref)
	t, err := readTally(x.txn, tallyFrom)
	if err := x.db.passOver(ev.Ref, err); err != nil {
		return err
	}
	if _, err := x.move(tallyFrom, eventKey(n, to, subTally, ev.Ref)); err != nil {
		return err
	}
	if ev.ID != "" {
		key := append(indexPrefix(n, to, ev.Source, ev.ID), ev.Ref[:]...)
		if err := x.set(key, newEnc(0).seal(key, 0)); err != nil {
			return err
		}
	}
	for _, name := range append(append([]string(nil), ev.Targets...), t.extra...) {
		if err := x.carryState(ev, p, to, name); err != nil {
			return err
		}
		dead, err := x.move(deadKey(n, p.t, name, ev.Ref), deadKey(n, to, name, ev.Ref))
		if err != nil {
			return err
		}
		if dead {
			x.dead[name]--
			x.kept[deadLetter{name, ev.Ref}] = true
		}
	}
	return nil
}

// carryState gives a carried delivery a record of its own, for its attempts
// stay where they are.
func (x *expiry) carryState(ev *event.Event, p place, to uint32, target string) error {
	d, err := readState(x.txn, ev, p, target)
	if err != nil {
		if err := x.db.passOver(ev.Ref, err); err != nil {
			return err
		}
		return x.set(stateKey(p.class.n, to, ev.Ref, target), spoiled)
	}
	if d.State == event.Pending && d.Attempts == 0 && d.Generation == 0 && d.DueAt.Equal(d.OpenedAt) {
		return nil // as every event implies it
	}
	key := stateKey(p.class.n, to, ev.Ref, target)
	e := newEnc(48)
	encodeState(e, &d)
	return x.set(key, e.seal(key, 0))
}

// move writes what stands under one key under another, false when nothing
// stands there.
func (x *expiry) move(from, key []byte) (bool, error) {
	payload, flags, err := x.payload(from)
	if errors.Is(err, dedupe.ErrNotFound) {
		return false, nil
	}
	if errors.Is(err, dedupe.ErrDamaged) {
		ref, _, _ := refOf(from)
		return true, errors.Join(x.db.passOver(ref, err), x.set(key, spoiled))
	}
	if err != nil {
		return false, err
	}
	e := newEnc(len(payload))
	e.raw(payload)
	return true, x.set(key, e.seal(key, flags))
}

// spoiled is the value of a record that takes the place of one that could not
// be read: it can't be either, so that damage that is carried is damage still.
var spoiled = []byte{}

// payload reads what stands under a key, and how it is written but for being
// compressed.
func (x *expiry) payload(key []byte) (payload []byte, flags byte, err error) {
	val, err := get(x.txn, key)
	if err == nil {
		payload, err = unseal(key, val)
	}
	if err != nil {
		return nil, 0, err
	}
	return payload, val[1] &^ flagCompressed, nil
}

// part is a chunk being put together in the bucket it is carried to, of what open
// events have of it. The bytes of others stay behind: zeros stand for them.
type part struct {
	class class
	key   []byte // nil: none
	from  []byte // the key it has now
	chunk []byte // what stands there; nil when it can't be read, and fault says why
	fault error
	b     []byte // what is carried of it
	was   int64  // what was written under key before takes: an earlier round's, or from another place
	whose []placed
}

// placed is an event and where it stands once a part is written.
type placed struct {
	ref event.Ref
	at  carried
}

// carryBody takes an event's bytes into the parts they stand in, and with the last
// of these says where they are.
func (x *expiry) carryBody(ev *event.Event, p place, to carried) error {
	first := ev.Body.Offset / chunkSize
	last := (ev.Body.Offset + ev.Body.Length - 1) / chunkSize
	for i := first; i <= last; i++ {
		key := bodyKey(p.class.n, to.bodyT, ev.Body.Request, uint16(i))
		from := bodyKey(p.class.n, p.bodyT, ev.Body.Request, uint16(i))
		if !bytes.Equal(key, x.part.key) || !bytes.Equal(from, x.part.from) {
			if err := x.beginPart(p.class, key, from); err != nil {
				return err
			}
		}
		if err := x.db.passOver(ev.Ref, x.part.fault); err != nil {
			return err
		}
		x.part.take(ev.Body.Offset-i*chunkSize, ev.Body.Length)
	}
	x.part.whose = append(x.part.whose, placed{ev.Ref, to})
	return nil
}

// beginPart writes the part before and begins one of a chunk.
func (x *expiry) beginPart(c class, key, from []byte) error {
	if err := x.putPart(); err != nil {
		return err
	}
	p := part{class: c, key: key, from: from}
	switch p.chunk, _, p.fault = x.payload(from); {
	case errors.Is(p.fault, dedupe.ErrNotFound):
		p.fault = damaged(from, "missing")
	case p.fault != nil && !errors.Is(p.fault, dedupe.ErrDamaged):
		return p.fault
	}
	p.b = make([]byte, len(p.chunk))
	switch val, err := get(x.txn, key); {
	case err == nil:
		p.was = int64(len(key) + len(val))
		if there, err := unseal(key, val); err == nil {
			copy(p.b, there)
		}
	case !errors.Is(err, dedupe.ErrNotFound):
		return err
	}
	x.part = p
	return nil
}

// take takes the bytes from offset on, as many of them as the chunk has.
func (p *part) take(offset, length int64) {
	n := int64(len(p.chunk))
	from, to := min(max(offset, 0), n), min(max(offset+length, 0), n)
	copy(p.b[from:to], p.chunk[from:to])
}

// putPart writes the part, and then where its events stand: a run that is cut
// between the two copies again.
func (x *expiry) putPart() error {
	p := x.part
	x.part = part{}
	if p.key == nil {
		return nil
	}
	val := spoiled
	if p.fault == nil {
		val = sealCompressed(p.key, p.b)
	}
	if p.fault == nil || p.was == 0 { // what others have of it stays
		if err := x.set(p.key, val); err != nil {
			return err
		}
		n := int64(len(p.key)+len(val)) - p.was
		x.db.growBody(p.key, n)
		x.carried[x.db.limitOf(&p.class)] += n
	}
	for _, w := range p.whose {
		key := carriedKey(w.ref)
		if err := x.set(key, sealCarried(key, w.at)); err != nil {
			return err
		}
	}
	return nil
}

// dropPointers forgets where carried events stood whose records go now.
func (x *expiry) dropPointers(kept map[event.Ref]bool) error {
	refs, err := carriedRefs(x.txn)
	if err != nil {
		return err
	}
	for _, ref := range refs {
		c, err := readCarried(x.txn, ref)
		if err != nil {
			if err := x.db.passOver(ref, err); err != nil {
				return err
			}
			continue // it stays, and says so
		}
		alive := c.eventT != 0 && c.eventT >= x.next.of(kindEvent, c.class) ||
			c.bodyT != 0 && c.bodyT >= x.next.of(kindBody, c.class)
		if kept[ref] || alive {
			continue
		}
		key := carriedKey(ref)
		if err := x.room(int64(len(key)) + entrySize); err != nil {
			return err
		}
		if err := x.txn.Delete(key); err != nil {
			return err
		}
	}
	return nil
}
