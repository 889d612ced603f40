package badgerdb

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/dgraph-io/badger/v4"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

// liveBuckets lists the kept buckets of a kind and class that hold anything,
// up to the one of ledger time lastMS.
func (db *DB) liveBuckets(txn *badger.Txn, kind byte, c class, lastMS int64) []uint32 {
	first := db.cuts.Load().of(kind, c.n)
	return buckets(txn, kind, c.n, first, uint32(lastMS/c.length(kind)))
}

// buckets lists the buckets in [first, last] that hold anything, by hopping
// from one to the next.
func buckets(txn *badger.Txn, kind byte, class uint8, first, last uint32) []uint32 {
	opt := badger.DefaultIteratorOptions
	opt.PrefetchValues = false
	opt.Prefix = []byte{kind, class}
	it := txn.NewIterator(opt)
	defer it.Close()
	var out []uint32
	for it.Seek(bucketPrefix(kind, class, first)); it.Valid(); {
		key := it.Item().Key()
		if len(key) < bucketSize {
			break
		}
		t := bucketNumber(key)
		if t > last {
			break
		}
		out = append(out, t)
		it.Seek(bucketPrefix(kind, class, t+1))
	}
	return out
}

// claimBuckets lists the expiry buckets that hold claims, ascending.
func claimBuckets(txn *badger.Txn) ([]uint32, error) {
	opt := badger.DefaultIteratorOptions
	opt.PrefetchValues = false
	opt.Prefix = []byte{kindClaim}
	it := txn.NewIterator(opt)
	defer it.Close()
	var out []uint32
	for it.Rewind(); it.Valid(); {
		key := it.Item().Key()
		if len(key) < 5 {
			return nil, damaged(it.Item().KeyCopy(nil), "malformed key")
		}
		p := binary.BigEndian.Uint32(key[1:])
		out = append(out, p)
		it.Seek(claimPrefix(p + 1))
	}
	return out, nil
}

// openDelivery is one that a scan found.
type openDelivery struct {
	target string
	entry  dedupe.Entry
}

// scanOpen calls f for every open delivery of the events from ref from up to
// and with last of their class, bucket by bucket, and for carried ones whatever
// their ref.
// It joins event and state records, both in order of refs, in one pass. What
// can't be read is said and passed over.
func (db *DB) scanOpen(ctx context.Context, from event.Ref, last func(class) event.Ref, f func(openDelivery) error) error {
	return db.view(func(txn *badger.Txn) error {
		if err := db.scanCarried(txn, f); err != nil {
			return err
		}
		for _, c := range *db.classes.Load() {
			end := last(c)
			for _, t := range db.liveBuckets(txn, kindEvent, c, int64(end.Milli())) {
				if t < c.metaT(from) {
					continue
				}
				j := newJoin(db, txn, c, t, from)
				err := j.run(ctx, end, f)
				j.close()
				if err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// upTo is one end for every class.
func upTo(last event.Ref) func(class) event.Ref {
	return func(class) event.Ref { return last }
}

// scanCarried reads the open deliveries of carried events. There are few.
func (db *DB) scanCarried(txn *badger.Txn, f func(openDelivery) error) error {
	refs, err := carriedRefs(txn)
	if err != nil {
		return err
	}
	for _, ref := range refs {
		ev, p, err := db.find(txn, ref)
		if errors.Is(err, dedupe.ErrNotFound) || err == nil && p.sub != subCarried {
			continue // only its body was carried, or it is gone
		}
		if err == nil {
			err = db.openOf(txn, &ev, p, f)
		}
		if err := db.passOver(ref, err); err != nil {
			return err
		}
	}
	return nil
}

// openOf calls f for the open deliveries of a carried event.
func (db *DB) openOf(txn *badger.Txn, ev *event.Event, p place, f func(openDelivery) error) error {
	t, err := readTally(txn, eventKey(p.class.n, p.t, subTally, ev.Ref))
	if err := db.passOver(ev.Ref, err); err != nil {
		return err
	}
	for _, name := range slices.Concat(ev.Targets, t.extra) {
		d, err := readState(txn, ev, p, name)
		if err != nil {
			err = db.passDelivery(ev, name, err)
		} else if d.State.Open() {
			err = f(openDelivery{name, entryAt(p.class, ev, d)})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// entryAt is the schedule's entry of a delivery.
func entryAt(c class, ev *event.Event, d event.Delivery) dedupe.Entry {
	e := dedupe.EntryOf(d)
	e.Class, e.Size, e.Order = c.n, uint32(ev.Body.Length), ev.OrderAt(d.Target)
	return e
}

// carriedRefs lists the refs that have a carried record, ascending.
func carriedRefs(txn *badger.Txn) ([]event.Ref, error) {
	opt := badger.DefaultIteratorOptions
	opt.PrefetchValues = false
	opt.Prefix = []byte{kindCarried}
	it := txn.NewIterator(opt)
	defer it.Close()
	var out []event.Ref
	for it.Rewind(); it.Valid(); it.Next() {
		var ref event.Ref
		if len(it.Item().Key()) != 1+len(ref) {
			return nil, damaged(it.Item().KeyCopy(nil), "malformed key")
		}
		copy(ref[:], it.Item().Key()[1:])
		out = append(out, ref)
	}
	return out, nil
}

// join walks the events of one bucket, their delivery states and their
// attempts side by side.
type join struct {
	db       *DB
	class    class
	events   *badger.Iterator
	states   *badger.Iterator
	attempts *badger.Iterator // nil where no attempt stands for a state
	lost     []string         // targets of which the state of an event's delivery can't be read
}

func newJoin(db *DB, txn *badger.Txn, c class, t uint32, from event.Ref) *join {
	open := func(sub byte) *badger.Iterator {
		opt := badger.DefaultIteratorOptions
		opt.Prefix = append(bucketPrefix(kindEvent, c.n, t), sub)
		it := txn.NewIterator(opt)
		it.Seek(append(append([]byte(nil), opt.Prefix...), from[:]...))
		return it
	}
	j := &join{db: db, class: c, events: open(subEvent), states: open(subState)}
	if c.folds() {
		opt := badger.DefaultIteratorOptions
		opt.PrefetchValues = false // most are looked at by key only
		opt.Prefix = []byte{kindAttempt, c.n}
		j.attempts = txn.NewIterator(opt)
		if start := event.NewRef(uint64(t)*uint64(c.meta), 0, 0); from.Compare(start) < 0 {
			from = start
		}
		j.attempts.Seek(attemptPrefix(c.n, c.auditT(from), from))
	}
	return j
}

func (j *join) close() {
	j.events.Close()
	j.states.Close()
	if j.attempts != nil {
		j.attempts.Close()
	}
}

func (j *join) run(ctx context.Context, last event.Ref, f func(openDelivery) error) error {
	for n := 0; j.events.Valid(); j.events.Next() {
		key := j.events.Item().KeyCopy(nil)
		ref, _, ok := refOf(key)
		if !ok {
			if err := j.db.passOver(ref, damaged(key, "malformed key")); err != nil {
				return err
			}
			continue
		}
		if ref.Compare(last) > 0 {
			return nil
		}
		if n++; n%1024 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		ev, err := j.event(key, ref)
		if err == nil {
			err = j.deliveries(&ev, f)
		}
		if err := j.db.passHere(ref, err); err != nil {
			return err
		}
	}
	return nil
}

// event reads the event it stands on.
func (j *join) event(key []byte, ref event.Ref) (event.Event, error) {
	val, err := j.events.Item().ValueCopy(nil)
	if err != nil {
		return event.Event{}, engineErr(key, err)
	}
	ev, _, err := decodeEvent(key, val, ref)
	return ev, err
}

// deliveries merges an event's targets with the states recorded for it.
func (j *join) deliveries(ev *event.Event, f func(openDelivery) error) error {
	j.lost = j.lost[:0]
	states, err := j.statesOf(ev.Ref)
	if err != nil {
		return err
	}
	var closed []string
	if slices.ContainsFunc(ev.Targets, func(name string) bool { _, ok := states[name]; return !ok }) {
		if closed, err = j.closedBy(ev.Ref, states); err != nil {
			return err
		}
	}
	for _, name := range j.lost { // those behind it in order wait on, as if it were dead
		j.db.sched.Block(name, ev.Ref, ev.OrderAt(name))
	}
	for _, name := range ev.Targets {
		if _, ok := states[name]; !ok && !slices.Contains(closed, name) {
			if err := j.emit(ev, firstDelivery(ev.Ref, name), f); err != nil {
				return err
			}
		}
	}
	for _, d := range states {
		if d.State.Open() {
			if err := j.emit(ev, d, f); err != nil {
				return err
			}
		}
	}
	return nil
}

func (j *join) emit(ev *event.Event, d event.Delivery, f func(openDelivery) error) error {
	return f(openDelivery{d.Target, entryAt(j.class, ev, d)})
}

// statesOf reads the states of ref, the iterator standing at or before them. One
// that can't be read is not open here.
func (j *join) statesOf(ref event.Ref) (map[string]event.Delivery, error) {
	var out map[string]event.Delivery
	for ; j.states.Valid(); j.states.Next() {
		key := j.states.Item().KeyCopy(nil)
		at, name, ok := refOf(key)
		if !ok {
			if err := j.db.passOver(at, damaged(key, "malformed key")); err != nil {
				return nil, err
			}
			continue
		}
		if c := bytes.Compare(at[:], ref[:]); c > 0 {
			break
		} else if c < 0 {
			continue // of a carried event, whose record has another kind
		}
		d, err := j.state(key, at, string(name))
		if err != nil {
			j.lost = append(j.lost, string(name))
		}
		if err := j.db.passHere(ref, err); err != nil {
			return nil, err
		}
		if out == nil {
			out = map[string]event.Delivery{}
		}
		out[string(name)] = d
	}
	return out, nil
}

// state reads the state it stands on.
func (j *join) state(key []byte, ref event.Ref, target string) (event.Delivery, error) {
	val, err := j.states.Item().ValueCopy(nil)
	if err != nil {
		err = engineErr(key, err)
	}
	d := event.Delivery{}
	if err == nil {
		d, err = decodeState(key, val, ref, target)
	}
	if err != nil {
		d = event.Delivery{Event: ref, Target: target, State: event.Cancelled}
	}
	return d, err
}

// closedBy names the targets without a state for which ref's first attempt closed
// the delivery, the iterator standing at or before them, and those for which it
// can't be read.
func (j *join) closedBy(ref event.Ref, states map[string]event.Delivery) (targets []string, err error) {
	if j.attempts == nil {
		return nil, nil
	}
	// Attempts of events whose deliveries all have a state were left out.
	if at, ok := attemptRef(j.attempts); ok && at.Compare(ref) < 0 {
		if j.attempts.Next(); j.attempts.Valid() {
			if at, ok := attemptRef(j.attempts); !ok || at.Compare(ref) < 0 {
				j.attempts.Seek(attemptPrefix(j.class.n, j.class.auditT(ref), ref))
			}
		}
	}
	for ; j.attempts.Valid(); j.attempts.Next() {
		if at, ok := attemptRef(j.attempts); !ok || at != ref {
			return targets, nil
		}
		key := j.attempts.Item().KeyCopy(nil)
		_, target, gen, ok := parseAttemptKey(key)
		if !ok {
			if err := j.db.passHere(ref, damaged(key, "malformed key")); err != nil {
				return nil, err
			}
			continue
		}
		if _, has := states[target]; has || gen != 0 || !bytes.Equal(key, attemptKey(j.class.n, bucketNumber(key), ref, target, 0, 1)) {
			continue
		}
		val, err := j.attempts.Item().ValueCopy(nil)
		if err != nil {
			err = engineErr(key, err)
		}
		var a recorded
		if err == nil {
			a, err = decodeAttempt(key, val)
		}
		if err != nil {
			j.lost = append(j.lost, target)
		}
		if err != nil || !a.State.Open() {
			targets = append(targets, target)
		}
		if err := j.db.passHere(ref, err); err != nil {
			return nil, err
		}
	}
	return targets, nil
}

func attemptRef(it *badger.Iterator) (ref event.Ref, ok bool) {
	if !it.Valid() {
		return ref, false
	}
	key := it.Item().Key()
	if len(key) < bucketSize+16 {
		return ref, false
	}
	copy(ref[:], key[bucketSize:])
	return ref, true
}

// rebuild reads the open deliveries of earlier runs back into the schedule.
// Those committed meanwhile come by themselves: their refs are later than
// last, the newest of the earlier runs.
func (db *DB) rebuild(ctx context.Context, from, last event.Ref) error {
	if err := db.countDead(last); err != nil {
		return fmt.Errorf("count dead deliveries: %w", err)
	}
	n := 0
	err := db.scanOpen(ctx, from, upTo(last), func(o openDelivery) error {
		n++
		db.hold(&o.entry)
		db.sched.Add(o.target, o.entry)
		return nil
	})
	if err != nil {
		return fmt.Errorf("read open deliveries: %w", err)
	}
	db.sched.FreeLanes()
	close(db.rebuilt)
	db.log.Info("schedule rebuilt", "open_deliveries", n)
	return nil
}

// countDead counts the dead letters per target, and tells the schedule of
// those that others wait for. One that came after last was counted when it died;
// those up to it can't be leased before.
func (db *DB) countDead(last event.Ref) error {
	return db.view(func(txn *badger.Txn) error {
		for _, c := range *db.classes.Load() {
			for _, t := range db.liveBuckets(txn, kindEvent, c, 1<<62) {
				err := db.eachDead(txn, c, t, "", func(target string, ref event.Ref, o event.Order) bool {
					if ref.Compare(last) <= 0 {
						db.sched.Dead(target, 1)
						db.sched.Block(target, ref, o)
					}
					return true
				})
				if err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// eachDead calls f for the dead deliveries of one bucket, of one target or of
// all, until it returns false. Only of those that others wait for is more read
// than the key.
func (db *DB) eachDead(txn *badger.Txn, c class, t uint32, target string, f func(string, event.Ref, event.Order) bool) error {
	opt := badger.DefaultIteratorOptions
	opt.PrefetchValues = false
	opt.Prefix = append(bucketPrefix(kindEvent, c.n, t), subDead)
	head := len(opt.Prefix)
	if target != "" {
		opt.Prefix = append(append(opt.Prefix, target...), 0)
	}
	it := txn.NewIterator(opt)
	defer it.Close()
	for it.Rewind(); it.Valid(); it.Next() {
		key := it.Item().Key()
		i := bytes.IndexByte(key[head:], 0)
		if i < 0 || len(key) != head+i+1+16 {
			if err := db.passOver(event.Ref{}, damaged(it.Item().KeyCopy(nil), "malformed key")); err != nil {
				return err
			}
			continue
		}
		var ref event.Ref
		copy(ref[:], key[head+i+1:])
		name := string(key[head : head+i])
		o, err := deadOrder(it.Item())
		if err != nil {
			o, err = db.orderOf(txn, name, ref, err)
		}
		if err != nil {
			return err
		}
		if !f(name, ref, o) {
			return nil
		}
	}
	return nil
}

// deadOrder is the order kept with a dead delivery, 0 when there is none.
func deadOrder(item *badger.Item) (o event.Order, err error) {
	if item.ValueSize() <= envelopeSize {
		return 0, nil
	}
	key := item.KeyCopy(nil)
	val, err := item.ValueCopy(nil)
	if err != nil {
		return 0, engineErr(key, err)
	}
	payload, err := unseal(key, val)
	if err != nil {
		return 0, err
	}
	d := &dec{b: payload}
	o = d.order()
	return o, d.end(key)
}

// refill reads back what did not fit into memory.
func (db *DB) refill(ctx context.Context, target string) error {
	db.mu.Lock()
	from, last := db.head.low, db.lastRef
	db.mu.Unlock()
	offer, done := db.sched.Refill(target)
	err := db.scanOpen(ctx, from, upTo(last), func(o openDelivery) error {
		if o.target == target {
			db.hold(&o.entry)
			offer(o.entry)
		}
		return nil
	})
	done(err == nil)
	return err
}
