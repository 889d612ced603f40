package badgerdb

import (
	"context"
	"fmt"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

const (
	// minDrops is how many buckets go in the first round. A drop costs a flush and
	// a compaction, however little is in it, so after a round shorter than
	// shortRound the next takes twice as many, up to maxDrops, and after one longer
	// than twice that half as many: else small buckets could come faster than they
	// go, and what days of standing still left behind would go one flush after the
	// other (BenchmarkBacklog).
	minDrops, maxDrops = 2, 64
	shortRound         = time.Second
	// maxHold is how long a round copies before intake has its turn.
	maxHold = 100 * time.Millisecond
)

// Expire drops the buckets whose retention has passed and the claims whose
// window has, whole, after carrying out of them what is still open. It does so
// in rounds, each under the writer's lock: intake waits for one round, normally
// well under a second, and has as long between two as the last one took.
func (db *DB) Expire(ctx context.Context) (dedupe.Expired, error) {
	return db.expire(ctx, sleep)
}

// expire is Expire, with what is done between two rounds: rest has to last as
// long as it is told. No bucket is dropped meanwhile.
func (db *DB) expire(ctx context.Context, rest func(context.Context, time.Duration) error) (dedupe.Expired, error) {
	db.expiring.Lock() // one run at a time: what it reports is its own
	defer db.expiring.Unlock()
	s := newSweep()
	out := &s.out
	select {
	case <-db.rebuilt:
	default:
		out.Held = true // what is open is not known yet
		return *out, nil
	}
	before := db.disk.measure()
	more, err := true, error(nil)
	for more && err == nil {
		var took time.Duration
		more, took, err = db.expireRound(ctx, s)
		switch {
		case err == nil && more:
			err = rest(ctx, took)
		case err == nil:
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
	return *out, err
}

// sweep is what the rounds of one Expire share.
type sweep struct {
	// due is the ledger time at the begin, in milliseconds: what becomes droppable
	// later is left to another run. Else a run that takes longer than bodies are
	// kept would copy its own copies, and have no end.
	due     int64
	out     dedupe.Expired
	most    int                   // how many buckets may go in a round
	seek    []byte                // in the bucket of claims whose open ones are being carried
	claims  map[uint32]bool       // buckets of which all were
	copied  map[event.Ref]partKey // the buckets that have bodies of open events by now
	cut     map[limited]bool      // what went by its size
	carried map[limited]int64     // bytes of bodies
}

func newSweep() *sweep {
	return &sweep{most: minDrops, claims: map[uint32]bool{}, copied: map[event.Ref]partKey{}, cut: map[limited]bool{}, carried: map[limited]int64{}}
}

// pace sets how many buckets go in the next round by how long this one held the
// lock.
func (s *sweep) pace(took, short time.Duration) {
	switch {
	case took < short:
		s.most = min(2*s.most, maxDrops)
	case took > 2*short:
		s.most = max(s.most/2, minDrops)
	}
}

// expireRound does one round and reports whether another is due, and how long
// this one held the lock.
func (db *DB) expireRound(ctx context.Context, s *sweep) (more bool, took time.Duration, err error) {
	db.mu.Lock()
	defer db.mu.Unlock()
	began := time.Now()
	defer func() { took = time.Since(began) }()
	if err := db.writable(); err != nil {
		return false, 0, err
	}
	now := db.clock.now()
	if now.Before(db.holdUntil) {
		s.out.Held = true
		return false, 0, nil
	}
	if s.due == 0 {
		s.due = now.UnixMilli()
	}
	x := &expiry{db: db, ctx: ctx, sweep: s, began: began, now: now.UnixMilli(), next: db.cuts.Load().clone(),
		dead: map[string]int64{}, freed: map[deadLetter]event.Order{}, kept: map[deadLetter]bool{}}
	err = x.run()
	if err == nil && !x.more {
		db.noteSizes(s)
	}
	return x.more, 0, err
}

// expiry is one round. db.mu is held throughout.
type expiry struct {
	*sweep
	db        *DB
	ctx       context.Context
	began     time.Time
	now       int64
	next      *cuts // the boundaries after it
	drops     [][]byte
	more      bool                       // another round is due
	gone      dedupe.Expired             // what the drop takes
	open      []foundKey                 // keys that are moved before it
	keysBelow uint32                     // buckets of keys below it go
	dead      map[string]int64           // dead letters that go, less those carried
	freed     map[deadLetter]event.Order // those that others wait for
	kept      map[deadLetter]bool        // the ones that are carried

	txn  *badger.Txn
	size int64
	part part // being copied; none between rounds
}

// deadLetter names a dead delivery.
type deadLetter struct {
	target string
	ref    event.Ref
}

// run makes a round: one that copies what does not change, as much as there is
// time for, or when nothing of it is left, one that carries the rest and drops.
// Copies are read only after the drop, so that rounds may lie between the two.
func (x *expiry) run() error {
	x.txn = x.db.kv.NewTransaction(true)
	defer func() { x.txn.Discard() }()
	if err := x.plan(); err != nil {
		return err
	}
	if len(x.drops) == 0 {
		return nil
	}
	refs, err := x.openRefs()
	if err != nil {
		return fmt.Errorf("find open events: %w", err)
	}
	copied, err := x.copy(refs)
	if err != nil {
		return fmt.Errorf("copy what is open: %w", err)
	}
	if copied {
		x.more = true
		return x.commit()
	}
	if err := x.carryOpen(refs); err != nil {
		return fmt.Errorf("carry open events: %w", err)
	}
	if err := x.set(cutsKey, x.next.seal()); err != nil {
		return err
	}
	dedupe.Failpoint("expire.cut")
	if err := x.commit(); err != nil {
		return err
	}
	dedupe.Failpoint("expire.cut.done")
	x.db.cuts.Store(x.next)
	x.out.Buckets += x.gone.Buckets
	x.out.Keys += x.gone.Keys
	x.forget()
	if err := x.db.drop(x.drops); err != nil {
		return err
	}
	x.pace(time.Since(x.began), x.db.short)
	return nil
}

func (x *expiry) commit() error {
	if err := x.db.commitTxn(x.txn); err != nil {
		return x.db.fail(err)
	}
	return nil
}

// late reports whether the round has had its time: others should have the lock.
func (x *expiry) late() bool { return time.Since(x.began) >= x.db.turn }

// plan finds what is droppable and sets the new boundaries.
func (x *expiry) plan() error {
	db := x.db
	var keepHeads time.Duration
	for _, c := range *db.classes.Load() {
		keepHeads = max(keepHeads, c.keep.Audit, c.keep.Meta)
		// Attempts last, for they may stand for the state of their delivery.
		for _, kind := range []byte{kindBody, kindEvent, kindAttempt} {
			cut := uint32(max(0, (x.due-c.retention(kind).Milliseconds())/c.length(kind)))
			if kind == kindBody {
				if size := db.sizeCut(x.txn, c, x.due); size > cut && size > x.next.of(kind, c.n) {
					x.cut[db.limitOf(&c)] = true
					cut = size
				}
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
	if room := x.most - len(x.drops); len(ts) > room {
		if room <= 0 {
			return false, nil
		}
		cut, ts, whole = ts[room], ts[:room], false
	}
	for _, t := range ts {
		x.drops = append(x.drops, bucketPrefix(kind, c.n, t))
		x.gone.Buckets++
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
	return x.db.eachDead(x.txn, c, t, "", func(target string, ref event.Ref, o event.Order) bool {
		if x.dead[target]++; o != 0 {
			x.freed[deadLetter{target, ref}] = o
		}
		return true
	})
}

// planClaims drops the buckets of claims whose windows have ended.
func (x *expiry) planClaims() error {
	db := x.db
	cut := uint32(x.due / db.cfg.ClaimBucket.Milliseconds())
	if cut <= x.next.claims {
		return nil
	}
	for _, p := range db.claims {
		if p >= cut {
			break
		}
		if len(x.drops) >= x.most {
			cut, x.more = p, true
			break
		}
		x.drops = append(x.drops, claimPrefix(p))
		x.gone.Buckets++
	}
	x.next.claims = cut
	return nil
}

// planHeads drops the buckets of heads that are older than everything they
// describe, but never the newest head.
func (x *expiry) planHeads(keep time.Duration) error {
	db := x.db
	all := *db.headIndex.Load()
	length := db.class(0).audit
	cut := uint32(max(0, (x.due-keep.Milliseconds())/length))
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
		x.gone.Buckets++
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
		if err := x.commit(); err != nil {
			return err
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
