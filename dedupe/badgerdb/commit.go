package badgerdb

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

const (
	// entrySize is what an entry takes in a transaction beside key and value,
	// so that the limits on bytes also keep the one on their number.
	entrySize = 100
	// lowEvery is how often the mark below which nothing is open is computed.
	lowEvery = 2 * time.Second
)

// Commit writes one batch; see dedupe.Committer. Below half the reserve it
// writes nothing, not even results: they wait with the caller, who may stop.
func (db *DB) Commit(_ context.Context, b *dedupe.Batch) error {
	if !db.disk.roomy() {
		return errNoRoom
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	if err := db.writable(); err != nil {
		return err
	}
	refused := db.disk.admit()
	c := db.begin()
	for _, req := range b.Requests {
		if req.Err = refused; refused != nil {
			continue
		}
		if err := c.request(req); err != nil {
			return db.fail(err)
		}
	}
	for _, r := range b.Results {
		if err := c.result(r); err != nil {
			return db.fail(err)
		}
	}
	for _, a := range b.Acts {
		if err := c.act(*a); err != nil {
			return db.fail(err)
		}
	}
	for _, s := range b.Keys {
		if err := c.step(s, refused); err != nil {
			return db.fail(err)
		}
	}
	if err := c.commit(); err != nil {
		return db.fail(err)
	}
	return nil
}

// errNoRoom is what a batch gets that may touch the last of the disk.
var errNoRoom = fmt.Errorf("%w: %w", dedupe.ErrOverloaded, dedupe.ErrDiskLow)

// fail marks the ledger unusable: after a failed write or sync nobody can say
// what is on disk, and syncing again may lie. mu is held.
func (db *DB) fail(err error) error {
	if db.failed == nil {
		db.failed = fmt.Errorf("%w: %w", dedupe.ErrFatal, err)
		if !db.posed {
			noteFailure(db.cfg.Dir, err)
		}
		db.log.Error("ledger write failed, nothing more is written until it is reopened", "error", err)
	}
	return db.failed
}

// commit is a transaction being put together. db.mu is held throughout.
type commit struct {
	db   *DB
	txn  *badger.Txn
	now  time.Time
	head head
	sum  summer
	size int64
	seq  uint16 // of attempts in this transaction

	claims  map[dedupe.Key]dedupe.Claim
	staged  []dedupe.Claim // of the request being decided
	events  map[event.Ref]*event.Event
	tallies map[event.Ref]*pendingTally
	sources *knownSources // nil: no new one
	pack    pack          // of bodies, not written yet

	opened  []opened
	hot     []dedupe.Loaded
	settled []settled
	over    []ended
	after   []func()
}

type opened struct {
	target string
	entry  dedupe.Entry
}

type settled struct {
	lease dedupe.Lease
	state event.State
	next  dedupe.Entry
}

// ended is a lease whose result is written; counted says that the delivery
// counts its attempt.
type ended struct {
	lease   *dedupe.Lease
	counted bool
}

type pendingTally struct {
	key []byte
	tally
}

func (db *DB) begin() *commit {
	c := &commit{db: db}
	c.reset()
	return c
}

func (c *commit) reset() {
	*c = commit{
		db: c.db, txn: c.db.kv.NewTransaction(true), now: c.db.clock.now(),
		claims: map[dedupe.Key]dedupe.Claim{}, events: map[event.Ref]*event.Event{},
		tallies: map[event.Ref]*pendingTally{},
		pack:    pack{b: c.db.packed[:0]},
	}
	c.head = head{no: c.db.head.no + 1, prev: c.db.head.hash, writer: c.db.writer, at: c.now.UnixMilli(),
		events: c.db.events, acts: c.db.nextAct, low: c.db.head.low}
	c.db.pack.Reset()
}

func (c *commit) set(key, val []byte) error {
	c.size += int64(len(key)+len(val)) + entrySize
	return c.txn.Set(key, val)
}

// request decides and writes one request, whole.
func (c *commit) request(req *dedupe.Request) error {
	decisions, err := c.decide(req)
	if errors.Is(err, dedupe.ErrDamaged) {
		// Reading a claim failed: to call the event new could be a lie.
		c.db.metrics.damage.Inc()
		c.db.log.Error("claim can't be read, request refused", "source", req.Items[0].Event.Source, "error", err)
		req.Err = err
		return nil
	}
	if err != nil {
		return err
	}
	need := c.estimate(req, decisions)
	if need > c.db.maxBatch {
		req.Err = fmt.Errorf("%w: about %d bytes, at most %d", dedupe.ErrTooLarge, need, c.db.maxBatch)
		return nil
	}
	if c.size+int64(len(c.pack.b))+need > c.db.maxBatch {
		if err := c.commit(); err != nil {
			return err
		}
		c.reset()
		// What was decided stands: no other writer came between.
	}
	return c.write(req, decisions)
}

// decide asks dedupe.Decide for every item, each seeing the claims of those
// before it.
func (c *commit) decide(req *dedupe.Request) ([]dedupe.Decision, error) {
	c.staged = c.staged[:0]
	out := make([]dedupe.Decision, len(req.Items))
	last := c.db.lastRef
	for i := range req.Items {
		ref := last.Next(uint64(c.now.UnixMilli()))
		d, err := dedupe.Decide(&req.Items[i], req.Batch, ref, c.now, c.findClaim)
		if err != nil {
			return nil, err
		}
		if d.Verdict == dedupe.New {
			last = ref
		}
		c.staged = append(c.staged, d.Claims...)
		out[i] = d
	}
	return out, nil
}

func (c *commit) write(req *dedupe.Request, ds []dedupe.Decision) error {
	req.Outcomes = make([]dedupe.Outcome, len(ds))
	source := ""
	if len(req.Items) > 0 { // all are of one source
		source = req.Items[0].Event.Source
	}
	cl, err := c.db.classFor(c.txn, source, req.Retention)
	if err != nil {
		return err
	}
	var at event.Slice // where the body stands
	for i := range ds {
		d := &ds[i]
		if d.Verdict != dedupe.New {
			if req.Outcomes[i], err = c.seen(&req.Items[i], d); err != nil {
				return err
			}
			continue
		}
		if at.Request.IsZero() {
			if at, err = c.body(cl, d.Event.Ref, req.Body); err != nil {
				return err
			}
		}
		part := slice(req.Body, d.Event.Body)
		d.Event.Body.Request = at.Request
		d.Event.Body.Offset += at.Offset
		d.Event.Answer = req.Answer
		if err := c.accept(cl, d, part); err != nil {
			return err
		}
		req.Outcomes[i] = dedupe.Outcome{Verdict: dedupe.New, Ref: d.Event.Ref, ID: d.Event.ID, Answer: req.Answer, Flags: d.Event.Flags}
		if !d.First.Ref.IsZero() { // a conflict that is delivered is counted on the first
			if err := c.count(d.First.Ref, dedupe.Differs, d.Event.ReceivedAt); err != nil {
				return err
			}
		}
	}
	return nil
}

// accept writes a new event, its index entries and its claims, and notes its
// deliveries.
func (c *commit) accept(cl class, d *dedupe.Decision, part []byte) error {
	ev := d.Event
	t := cl.metaT(ev.Ref)
	key := eventKey(cl.n, t, subEvent, ev.Ref)
	e := newEnc(320)
	encodeEvent(e, c.head.no, &ev)
	val := e.seal(key, 0)
	if err := c.set(key, val); err != nil {
		return err
	}
	c.sum.add(key, val)
	if ev.ID != "" {
		if err := c.know(&ev); err != nil {
			return err
		}
		key := append(indexPrefix(cl.n, t, ev.Source, ev.ID), ev.Ref[:]...)
		if err := c.set(key, newEnc(0).seal(key, 0)); err != nil {
			return err
		}
	}
	for _, f := range ev.Index {
		key := fieldKey(cl.n, t, f, ev.Ref)
		if err := c.set(key, newEnc(0).seal(key, 0)); err != nil {
			return err
		}
	}
	for i := range d.Claims {
		if err := c.claim(d.Claims[i]); err != nil {
			return err
		}
	}
	if c.head.count == 0 {
		c.head.first = ev.Ref
	}
	c.record(dedupe.AcceptedAct(&ev))
	c.head.last = ev.Ref
	c.head.count++
	c.head.events++
	c.db.lastRef = ev.Ref
	c.events[ev.Ref] = &ev
	for i, name := range ev.Targets {
		entry := dedupe.EntryOf(firstDelivery(ev.Ref, name))
		if len(ev.Orders) > 0 {
			entry.Order = ev.Orders[i]
		}
		entry.Class, entry.Size = cl.n, uint32(ev.Body.Length)
		c.opened = append(c.opened, opened{name, entry})
	}
	if len(ev.Targets) > 0 {
		c.hot = append(c.hot, dedupe.Loaded{Event: &ev, Body: part})
	}
	return nil
}

// farLimit is how long after its window a claim is left to Badger's own
// collection, should its bucket never be dropped. Badger compares with the
// wall clock, so it must be far.
const farLimit = 400 * 24 * time.Hour

// seen answers an item that an earlier event stands for.
func (c *commit) seen(it *dedupe.Item, d *dedupe.Decision) (dedupe.Outcome, error) {
	out := dedupe.Outcome{Verdict: d.Verdict, Ref: d.First.Ref, ID: it.Event.ID}
	first, ok := c.events[d.First.Ref]
	if !ok {
		ev, _, err := c.db.find(c.txn, d.First.Ref)
		switch {
		case err == nil:
			first = &ev
		case errors.Is(err, dedupe.ErrDamaged):
			// The claim is good, so the answer is: seen. Say that its event is not.
			c.db.metrics.damage.Inc()
			c.db.log.Error("event of a claim is damaged", "ref", d.First.Ref.String(), "error", err)
		case !errors.Is(err, dedupe.ErrNotFound):
			return out, err
		}
	}
	if first != nil {
		out.ID, out.Answer = first.ID, first.Answer
	}
	c.record(dedupe.SeenAct(it, d))
	return out, c.count(d.First.Ref, d.Verdict, it.Event.ReceivedAt)
}

// count adds to an event's tally. An event that retention took has none.
func (c *commit) count(ref event.Ref, v dedupe.Verdict, at time.Time) error {
	p := c.tallies[ref]
	if p == nil {
		key, err := c.tallyKey(ref)
		if errors.Is(err, dedupe.ErrNotFound) || errors.Is(err, dedupe.ErrDamaged) {
			return nil
		}
		if err != nil {
			return err
		}
		t, err := readTally(c.txn, key)
		if err != nil && !errors.Is(err, dedupe.ErrDamaged) {
			return err
		}
		p = &pendingTally{key: key, tally: t}
		c.tallies[ref] = p
		c.size += 128
	}
	switch v {
	case dedupe.Repeat, dedupe.Replayed:
		p.Repeats++
	case dedupe.Differs, dedupe.Rejected:
		p.Conflicts++
	}
	p.LastAt = at
	return nil
}

func (c *commit) tallyKey(ref event.Ref) ([]byte, error) {
	_, at, err := c.db.find(c.txn, ref)
	if err != nil {
		return nil, err
	}
	return eventKey(at.class.n, at.t, subTally, ref), nil
}

// commit writes tallies and head, syncs, and only then tells the schedule.
func (c *commit) commit() error {
	if err := c.putPack(); err != nil {
		return err
	}
	for _, t := range c.tallies {
		if err := c.set(t.key, t.seal(t.key)); err != nil {
			return err
		}
	}
	if c.size == 0 {
		c.txn.Discard()
		c.settle()
		return nil
	}
	c.low()
	if err := c.putActs(); err != nil {
		return err
	}
	c.head.parts = c.sum.sums()
	key := headKey(c.db.headT(c.head.at), c.head.no)
	if err := c.txn.Set(key, c.head.seal(key)); err != nil {
		return err
	}
	if err := c.db.beforeSync(); err != nil {
		return err
	}
	dedupe.Failpoint("commit.begin")
	if err := c.db.commitTxn(c.txn); err != nil {
		return err
	}
	dedupe.Failpoint("commit.done")
	c.apply()
	return nil
}

// noteHeadBucket keeps the index of head buckets. mu is held.
func (db *DB) noteHeadBucket() {
	t := db.headT(db.head.at)
	all := *db.headIndex.Load()
	if n := len(all); n > 0 && all[n-1].t == t {
		return
	}
	next := append(append([]headBucket(nil), all...), headBucket{t, db.head.no})
	db.headIndex.Store(&next)
}

// low renews the mark from which a restart looks for open deliveries.
func (c *commit) low() {
	db := c.db
	select {
	case <-db.rebuilt:
	default:
		return // the old mark holds until everything is scheduled
	}
	if c.now.Sub(db.lowAt) < lowEvery {
		return
	}
	db.lowAt = c.now
	low, whole := db.sched.Low()
	if !whole {
		return
	}
	if low.IsZero() {
		low = db.lastRef.Next(0)
		if c.head.count > 0 {
			low = c.head.first
		}
	}
	for _, o := range c.opened {
		if o.entry.Ref.Compare(low) < 0 {
			low = o.entry.Ref
		}
	}
	c.head.low = db.unread.before(low)
}

func (c *commit) apply() {
	db := c.db
	db.head, db.events, db.nextAct = c.head, c.head.events, c.head.acts
	db.noteHeadBucket()
	if c.sources != nil {
		db.sources.Store(c.sources)
	}
	for _, l := range c.hot {
		db.hot.put(l.Event, l.Body)
	}
	c.settle()
	for _, o := range c.opened {
		db.sched.Add(o.target, o.entry)
	}
	for _, f := range c.after {
		f()
	}
	select {
	case db.committed <- struct{}{}:
	default:
	}
}

func (c *commit) settle() {
	for _, l := range c.over {
		c.db.wire.end(l.lease, l.counted)
	}
	for _, s := range c.settled {
		c.db.sched.Settle(s.lease, s.state, s.next)
		c.db.hot.settled(s.lease.Delivery.Event)
	}
}
