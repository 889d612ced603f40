package badgerdb

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

// maxDrops is how many buckets go in one round, so that intake never waits
// long for one.
const maxDrops = 2

// Expire drops the buckets whose retention has passed and the claims whose
// window has, whole, after carrying out of them what is still open. It does so
// in rounds, each under the writer's lock: intake waits for one round, normally
// well under a second, and goes on between two.
func (db *DB) Expire(ctx context.Context) (dedupe.Expired, error) {
	out := dedupe.Expired{}
	select {
	case <-db.rebuilt:
	default:
		out.Held = true // what is open is not known yet
		return out, nil
	}
	before := db.disk.measure()
	more, err := true, error(nil)
	for more && err == nil {
		if more, err = db.expireRound(ctx, &out); err == nil {
			err = ctx.Err()
		}
	}
	if after := db.disk.measure(); after < before {
		out.Bytes = before - after
	}
	result := "ok"
	switch {
	case out.Held:
		result = "held"
	case err != nil:
		result = "error"
	}
	db.metrics.expire.WithLabelValues(result).Inc()
	return out, err
}

// expireRound does one round and reports whether another is due.
func (db *DB) expireRound(ctx context.Context, out *dedupe.Expired) (more bool, err error) {
	db.mu.Lock()
	defer db.mu.Unlock()
	if err := db.writable(); err != nil {
		return false, err
	}
	now := db.clock.now()
	if now.Before(db.holdUntil) {
		out.Held = true
		return false, nil
	}
	x := &expiry{db: db, ctx: ctx, now: now.UnixMilli(), next: db.cuts.Load().clone(), out: out, dead: map[string]int64{},
		freed: map[deadLetter]event.Order{}, kept: map[deadLetter]bool{}}
	err = x.run()
	return x.more, err
}

// expiry is one run. db.mu is held throughout.
type expiry struct {
	db    *DB
	ctx   context.Context
	now   int64
	next  *cuts // the boundaries after it
	drops [][]byte
	more  bool // another round is due
	out   *dedupe.Expired
	dead  map[string]int64           // dead letters that go, less those carried
	freed map[deadLetter]event.Order // those that others wait for
	kept  map[deadLetter]bool        // the ones that are carried

	txn  *badger.Txn
	size int64
}

// deadLetter names a dead delivery.
type deadLetter struct {
	target string
	ref    event.Ref
}

func (x *expiry) run() error {
	x.txn = x.db.kv.NewTransaction(true)
	defer func() { x.txn.Discard() }()
	if err := x.plan(); err != nil {
		return err
	}
	if len(x.drops) == 0 {
		return nil
	}
	if err := x.carryOpen(); err != nil {
		return fmt.Errorf("carry open events: %w", err)
	}
	if err := x.set(cutsKey, x.next.seal()); err != nil {
		return err
	}
	dedupe.Failpoint("expire.cut")
	if err := x.db.commitTxn(x.txn); err != nil {
		return x.db.fail(err)
	}
	dedupe.Failpoint("expire.cut.done")
	x.db.cuts.Store(x.next)
	x.forget()
	return x.db.drop(x.drops)
}

// plan finds what is droppable and sets the new boundaries.
func (x *expiry) plan() error {
	db := x.db
	var keepHeads time.Duration
	for _, c := range *db.classes.Load() {
		keepHeads = max(keepHeads, c.keep.Audit, c.keep.Meta)
		// Attempts last, for they may stand for the state of their delivery.
		for _, kind := range []byte{kindBody, kindEvent, kindAttempt} {
			cut := uint32(max(0, (x.now-c.retention(kind).Milliseconds())/c.length(kind)))
			if kind == kindBody {
				cut = max(cut, db.sizeCut(x.txn, c))
			}
			whole, err := x.planKind(kind, c, cut)
			if err != nil {
				return err
			}
			if !whole {
				x.more = true
				return nil
			}
		}
	}
	if err := x.planClaims(); err != nil {
		return err
	}
	if err := x.planActs(); err != nil {
		return err
	}
	if err := x.planKeys(); err != nil {
		return err
	}
	return x.planHeads(keepHeads)
}

// planKind drops the buckets of a kind and class below cut, false when some are
// left to another round.
func (x *expiry) planKind(kind byte, c class, cut uint32) (whole bool, err error) {
	k := [2]byte{kind, c.n}
	if cut <= x.next.first[k] {
		return true, nil
	}
	whole = true
	ts := buckets(x.txn, kind, c.n, 0, cut-1)
	if room := maxDrops - len(x.drops); len(ts) > room {
		if room <= 0 {
			return false, nil
		}
		cut, ts, whole = ts[room], ts[:room], false
	}
	for _, t := range ts {
		x.drops = append(x.drops, bucketPrefix(kind, c.n, t))
		x.out.Buckets++
		if err := x.countDead(kind, c, t); err != nil {
			return false, err
		}
	}
	x.next.first[k] = cut
	return whole, nil
}

// countDead notes the dead letters of a bucket that goes.
func (x *expiry) countDead(kind byte, c class, t uint32) error {
	if kind != kindEvent {
		return nil
	}
	return eachDead(x.txn, c, t, "", func(target string, ref event.Ref, o event.Order) bool {
		if x.dead[target]++; o != 0 {
			x.freed[deadLetter{target, ref}] = o
		}
		return true
	})
}

// planClaims carries the claims of open events out of buckets that ended.
func (x *expiry) planClaims() error {
	db := x.db
	cut := uint32(x.now / db.cfg.ClaimBucket.Milliseconds())
	if cut <= x.next.claims {
		return nil
	}
	low, whole := db.sched.Low()
	for _, p := range db.claims {
		if p >= cut {
			break
		}
		if !whole || !low.IsZero() {
			if err := x.carryClaims(p, low, whole); err != nil {
				return err
			}
		}
		x.drops = append(x.drops, claimPrefix(p))
		x.out.Buckets++
	}
	x.next.claims = cut
	return nil
}

func (x *expiry) carryClaims(p uint32, low event.Ref, whole bool) error {
	opt := badger.DefaultIteratorOptions
	opt.Prefix = claimPrefix(p)
	read := x.db.kv.NewTransaction(false)
	defer read.Discard()
	it := read.NewIterator(opt)
	defer it.Close()
	for it.Rewind(); it.Valid(); it.Next() {
		key := it.Item().KeyCopy(nil)
		val, err := it.Item().ValueCopy(nil)
		if err != nil {
			return engineErr(key, err)
		}
		c, err := decodeClaim(key, val)
		if err != nil {
			return err
		}
		if whole && c.Ref.Compare(low) < 0 {
			continue
		}
		held, err := x.db.heldOpen(read, c)
		if err != nil {
			return err
		}
		if !held {
			continue
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
	return nil
}

// planHeads drops the buckets of heads that are older than everything they
// describe, but never the newest head.
func (x *expiry) planHeads(keep time.Duration) error {
	db := x.db
	all := *db.headIndex.Load()
	length := db.class(0).audit
	cut := uint32(max(0, (x.now-keep.Milliseconds())/length))
	if len(all) == 0 || all[0].t >= cut {
		return nil
	}
	if all[len(all)-1].t < cut {
		// All are old: a fresh head keeps the chain, the clock and the mark.
		if err := db.emptyBatch(); err != nil {
			return err
		}
		all = *db.headIndex.Load()
	}
	for _, b := range all {
		if b.t >= cut {
			x.next.heads, x.next.headT = b.first, b.t
			x.next.headsAt = int64(b.t) * length
			break
		}
		x.drops = append(x.drops, headPrefix(b.t))
		x.out.Buckets++
	}
	return nil
}

// emptyBatch writes a head and nothing else.
func (db *DB) emptyBatch() error {
	c := db.begin()
	c.size = 1
	if err := c.commit(); err != nil {
		return db.fail(err)
	}
	return nil
}

// carryOpen copies open events, and open events' bodies, out of the buckets
// that are about to go, and forgets what was carried before and is closed.
func (x *expiry) carryOpen() error {
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
			return err
		}
	}
	for _, ref := range slices.SortedFunc(maps.Keys(seen), event.Ref.Compare) {
		if err := x.carry(ref); err != nil {
			return err
		}
	}
	return x.dropPointers(seen)
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

// carry moves one open event's records into today's buckets, where its
// present ones go.
func (x *expiry) carry(ref event.Ref) error {
	db := x.db
	ev, p, err := db.find(x.txn, ref)
	if err != nil {
		return err
	}
	c := p.class
	goes := p.t < x.next.of(kindEvent, c.n)
	bodyGoes := p.bodyT < x.next.of(kindBody, c.n) && p.bodyT >= db.cuts.Load().of(kindBody, c.n) && ev.Body.Length > 0
	if !goes && !bodyGoes {
		return nil
	}
	to := carried{class: c.n}
	if old, err := readCarried(x.txn, ref); err == nil {
		to = old
	} else if !errors.Is(err, dedupe.ErrNotFound) {
		return err
	}
	if goes {
		to.eventT = uint32(x.now / c.meta)
		if err := x.carryEvent(&ev, p, to.eventT); err != nil {
			return err
		}
	}
	if bodyGoes {
		to.bodyT = uint32(x.now / c.body)
		if err := x.carryBody(&ev, p, to.bodyT); err != nil {
			return err
		}
	}
	x.out.Carried++
	dedupe.Failpoint("expire.carry")
	key := carriedKey(ref)
	return x.set(key, sealCarried(key, to))
}

func (x *expiry) carryEvent(ev *event.Event, p place, to uint32) error {
	n := p.class.n
	if _, err := x.move(eventKey(n, p.t, p.sub, ev.Ref), eventKey(n, to, subCarried, ev.Ref)); err != nil {
		return err
	}
	tallyFrom := eventKey(n, p.t, subTally, ev.Ref)
	t, err := readTally(x.txn, tallyFrom)
	if err != nil {
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
		return err
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
	val, err := get(x.txn, from)
	if errors.Is(err, dedupe.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	payload, err := unseal(from, val)
	if err != nil {
		return false, err
	}
	e := newEnc(len(payload))
	e.raw(payload)
	return true, x.set(key, e.seal(key, 0))
}

// carryBody copies the chunks an event needs.
func (x *expiry) carryBody(ev *event.Event, p place, to uint32) error {
	first := ev.Body.Offset / chunkSize
	last := (ev.Body.Offset + ev.Body.Length - 1) / chunkSize
	for i := first; i <= last; i++ {
		from := bodyKey(p.class.n, p.bodyT, ev.Body.Request, uint16(i))
		val, err := get(x.txn, from)
		if err != nil {
			return err
		}
		payload, err := unseal(from, val)
		if err != nil {
			return err
		}
		key := bodyKey(p.class.n, to, ev.Body.Request, uint16(i))
		val = sealBody(key, payload)
		if err := x.set(key, val); err != nil {
			return err
		}
		x.db.addBody(key, val)
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
			return err
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

func (x *expiry) set(key, val []byte) error {
	if err := x.room(int64(len(key)+len(val)) + entrySize); err != nil {
		return err
	}
	return x.txn.Set(key, val)
}

// room makes room for n bytes in the run's transaction: it starts another when
// one is full. What is carried twice is carried once.
func (x *expiry) room(n int64) error {
	if x.size+n > x.db.maxBatch {
		if err := x.db.commitTxn(x.txn); err != nil {
			return x.db.fail(err)
		}
		dedupe.Failpoint("expire.room")
		x.txn, x.size = x.db.kv.NewTransaction(true), 0
	}
	x.size += n
	return nil
}

// forget drops what memory knows of dropped buckets.
func (x *expiry) forget() {
	db := x.db
	for target, n := range x.dead {
		db.sched.Dead(target, -n)
	}
	for d, o := range x.freed {
		if !x.kept[d] {
			db.sched.Unblock(d.target, d.ref, o)
		}
	}
	for k := range db.bodies {
		if k.t < x.next.of(kindBody, k.class) {
			delete(db.bodies, k)
		}
	}
	claims := db.claims[:0:0]
	for _, p := range db.claims {
		if p >= x.next.claims {
			claims = append(claims, p)
		}
	}
	db.claims = claims
	x.forgetKeys()
	heads := (*db.headIndex.Load())[:0:0]
	for _, b := range *db.headIndex.Load() {
		if b.t >= x.next.headT {
			heads = append(heads, b)
		}
	}
	db.headIndex.Store(&heads)
}

// drop drops prefixes and makes sure that they are gone: Badger returns
// quietly after a compaction that failed. mu is held.
func (db *DB) drop(prefixes [][]byte) error {
	for range 3 {
		if err := db.kv.DropPrefix(prefixes...); err != nil {
			return db.fail(err)
		}
		if err := db.wal.find(); err != nil { // a drop begins another log
			return db.fail(err)
		}
		dedupe.Failpoint("drop.done")
		left := prefixes[:0:0]
		err := db.view(func(txn *badger.Txn) error {
			for _, p := range prefixes {
				opt := badger.DefaultIteratorOptions
				opt.PrefetchValues, opt.Prefix = false, p
				it := txn.NewIterator(opt)
				if it.Rewind(); it.Valid() {
					left = append(left, p)
				}
				it.Close()
			}
			return nil
		})
		if err != nil {
			return err
		}
		if len(left) == 0 {
			return nil
		}
		prefixes = left
	}
	return fmt.Errorf("retention: %d buckets could not be dropped; they are tried again", len(prefixes))
}

// dropLeftovers drops what a stop between the new boundaries and the drop
// left behind.
func (db *DB) dropLeftovers() error {
	db.mu.Lock()
	defer db.mu.Unlock()
	cut := db.cuts.Load()
	var left [][]byte
	err := db.view(func(txn *badger.Txn) error {
		for k, first := range cut.first {
			if first == 0 {
				continue
			}
			for _, t := range buckets(txn, k[0], k[1], 0, first-1) {
				left = append(left, bucketPrefix(k[0], k[1], t))
			}
		}
		for _, p := range db.claims {
			if p < cut.claims {
				left = append(left, claimPrefix(p))
			}
		}
		return nil
	})
	if err != nil || len(left) == 0 {
		return err
	}
	return db.drop(left)
}
