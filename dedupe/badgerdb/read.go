package badgerdb

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"

	"github.com/dgraph-io/badger/v4"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

// place is where an event's records stand.
type place struct {
	class class
	t     uint32 // of event, state, tally
	sub   byte   // subEvent, or subCarried
	bodyT uint32 // of its body; below the cut when that is pruned
	batch uint64 // that wrote the event
}

// find reads an event and where it stands. ErrNotFound says only that there
// is no record; absent tells why.
func (db *DB) find(txn *badger.Txn, ref event.Ref) (event.Event, place, error) {
	cut := db.cuts.Load()
	for _, c := range *db.classes.Load() {
		t := c.metaT(ref)
		if t < cut.of(kindEvent, c.n) {
			continue
		}
		key := eventKey(c.n, t, subEvent, ref)
		val, err := get(txn, key)
		if errors.Is(err, dedupe.ErrNotFound) {
			continue
		}
		if err != nil {
			return event.Event{}, place{}, err
		}
		ev, batch, err := decodeEvent(key, val, ref)
		p := place{class: c, t: t, sub: subEvent, batch: batch}
		if err == nil {
			p.bodyT, err = db.bodyBucket(txn, &ev, c)
		}
		return ev, p, err
	}
	return db.findCarried(txn, ref)
}

func (db *DB) findCarried(txn *badger.Txn, ref event.Ref) (event.Event, place, error) {
	c, err := readCarried(txn, ref)
	if err != nil {
		return event.Event{}, place{}, err
	}
	if c.eventT == 0 {
		return event.Event{}, place{}, dedupe.ErrNotFound
	}
	p := place{class: db.class(c.class), t: c.eventT, sub: subCarried}
	key := eventKey(c.class, c.eventT, subCarried, ref)
	val, err := get(txn, key)
	if err != nil {
		return event.Event{}, p, err
	}
	ev, batch, err := decodeEvent(key, val, ref)
	p.batch = batch
	if err == nil {
		p.bodyT, err = db.bodyBucket(txn, &ev, p.class)
	}
	return ev, p, err
}

func readCarried(txn *badger.Txn, ref event.Ref) (carried, error) {
	key := carriedKey(ref)
	val, err := get(txn, key)
	if err != nil {
		return carried{}, err
	}
	return decodeCarried(key, val)
}

// bodyBucket is the bucket of an event's body: at home, or carried.
func (db *DB) bodyBucket(txn *badger.Txn, ev *event.Event, c class) (uint32, error) {
	t := c.bodyT(ev.Body.Request)
	if t >= db.cuts.Load().of(kindBody, c.n) {
		return t, nil
	}
	at, err := readCarried(txn, ev.Ref)
	if errors.Is(err, dedupe.ErrNotFound) {
		return t, nil
	}
	if at.bodyT != 0 {
		t = at.bodyT
	}
	return t, err
}

// absent turns the absence of an event's record into its reason: never given,
// pruned, or damage.
func (db *DB) absent(txn *badger.Txn, ref event.Ref) error {
	h, err := db.headOf(txn, ref)
	if err != nil && !errors.Is(err, dedupe.ErrDamaged) && db.inDoubt(ref) {
		return fmt.Errorf("%w: event %s, if it was accepted, was lost before this ledger was salvaged, or pruned since", dedupe.ErrDamaged, ref)
	}
	if err != nil {
		return err
	}
	cut := db.cuts.Load()
	for _, p := range h.parts {
		c := db.class(p.class)
		if p.kind == kindEvent && c.metaT(ref) < cut.of(kindEvent, p.class) {
			return dedupe.ErrPruned
		}
	}
	return fmt.Errorf("%w: event %s was accepted in batch %d and its record is missing", dedupe.ErrDamaged, ref, h.no)
}

// event is find with absence explained.
func (db *DB) event(txn *badger.Txn, ref event.Ref) (event.Event, place, error) {
	ev, p, err := db.find(txn, ref)
	if errors.Is(err, dedupe.ErrNotFound) {
		err = db.absent(txn, ref)
	}
	if errors.Is(err, dedupe.ErrDamaged) {
		db.log.Error("ledger record is damaged", "ref", ref.String(), "error", err)
	}
	return ev, p, err
}

// body reads an event's exact bytes and checks them against its hash.
func (db *DB) body(txn *badger.Txn, ev *event.Event, p place) ([]byte, error) {
	if ev.Body.Length == 0 {
		return nil, checkBody(ev, nil)
	}
	if p.bodyT < db.cuts.Load().of(kindBody, p.class.n) {
		return nil, fmt.Errorf("body of event %s: %w", ev.Ref, dedupe.ErrPruned)
	}
	if spent, err := db.spent(txn, ev, p); err != nil || spent {
		return nil, cmp.Or(err, fmt.Errorf("body of event %s: %w", ev.Ref, dedupe.ErrPruned))
	}
	first := ev.Body.Offset / chunkSize
	last := (ev.Body.Offset + ev.Body.Length - 1) / chunkSize
	var out []byte
	for i := first; i <= last; i++ {
		chunk, err := db.chunk(txn, ev, p, uint16(i))
		if err != nil {
			return nil, err
		}
		if first == last {
			out = chunk
			break
		}
		out = append(out, chunk...)
	}
	from, whole := ev.Body.Offset-first*chunkSize, int64(len(out))
	if from+ev.Body.Length > whole {
		return nil, fmt.Errorf("%w: body of event %s is shorter than it was", dedupe.ErrDamaged, ev.Ref)
	}
	out = out[from : from+ev.Body.Length]
	if err := checkBody(ev, out); err != nil {
		return nil, err
	}
	if ev.Body.Length < whole {
		out = bytes.Clone(out) // and not keep all of it in memory
	}
	return out, nil
}

// chunk reads one chunk of an event's body. At home it never changes and may come
// from memory; where it was carried to, more of it may come later.
func (db *DB) chunk(txn *badger.Txn, ev *event.Event, p place, n uint16) ([]byte, error) {
	key := bodyKey(p.class.n, p.bodyT, ev.Body.Request, n)
	home := p.bodyT == p.class.bodyT(ev.Body.Request)
	if home {
		if b, ok := db.chunks.get(key); ok {
			return b, nil
		}
	}
	val, err := get(txn, key)
	if errors.Is(err, dedupe.ErrNotFound) {
		return nil, damaged(key, "missing")
	}
	if err != nil {
		return nil, err
	}
	b, err := unseal(key, val)
	if err == nil && home && ev.Body.Length < int64(len(b)) { // others have a part of it
		db.chunks.put(key, b)
	}
	return b, err
}

func checkBody(ev *event.Event, body []byte) error {
	if event.HashOf(body) != ev.BodyHash {
		return fmt.Errorf("%w: body of event %s does not have its hash", dedupe.ErrDamaged, ev.Ref)
	}
	return nil
}

// Load returns event and body, from memory while they are hot.
func (db *DB) Load(_ context.Context, ref event.Ref) (dedupe.Loaded, error) {
	if l, ok := db.hot.get(ref); ok {
		return l, nil
	}
	var out dedupe.Loaded
	err := db.steady(func(txn *badger.Txn) error {
		ev, p, err := db.event(txn, ref)
		if err != nil {
			return err
		}
		out.Event = &ev
		out.Body, err = db.body(txn, &ev, p)
		return err
	})
	return out, err
}

// Body is the event's exact bytes.
func (db *DB) Body(ctx context.Context, ref event.Ref) ([]byte, error) {
	l, err := db.Load(ctx, ref)
	return l.Body, err
}

// Get reads one event with what happened to it.
func (db *DB) Get(_ context.Context, ref event.Ref) (dedupe.Record, error) {
	var rec dedupe.Record
	err := db.steady(func(txn *badger.Txn) error {
		ev, p, err := db.event(txn, ref)
		if err != nil {
			return err
		}
		rec, err = db.record(txn, ev, p)
		return err
	})
	return rec, err
}

// record adds deliveries and tally to an event.
func (db *DB) record(txn *badger.Txn, ev event.Event, p place) (dedupe.Record, error) {
	rec := dedupe.Record{Event: ev}
	t, err := readTally(txn, eventKey(p.class.n, p.t, subTally, ev.Ref))
	if err != nil {
		return rec, err
	}
	rec.Tally = t.Tally
	rec.Deliveries, err = db.deliveries(txn, &ev, p, t.extra)
	rec.Status = event.StatusOf(rec.Deliveries)
	rec.BodyGone = ev.Body.Length > 0 && (p.bodyT < db.cuts.Load().of(kindBody, p.class.n) || p.class.keep.Spent(rec.Deliveries))
	return rec, err
}

// readTally reads an event's tally, the zero one when nothing was counted.
func readTally(txn *badger.Txn, key []byte) (tally, error) {
	val, err := get(txn, key)
	if errors.Is(err, dedupe.ErrNotFound) {
		return tally{}, nil
	}
	if err != nil {
		return tally{}, err
	}
	return decodeTally(key, val)
}

// deliveries reads the state of every delivery of an event; extra are targets
// it was given after admission.
func (db *DB) deliveries(txn *badger.Txn, ev *event.Event, p place, extra []string) ([]event.Delivery, error) {
	out := make([]event.Delivery, 0, len(ev.Targets)+len(extra))
	for i := range len(ev.Targets) + len(extra) {
		name := ""
		if i < len(ev.Targets) {
			name = ev.Targets[i]
		} else {
			name = extra[i-len(ev.Targets)]
		}
		d, err := readState(txn, ev, p, name)
		if err != nil {
			return nil, err
		}
		if d.State == event.Pending {
			d.State = db.sched.State(name, ev.Ref)
		}
		out = append(out, d)
	}
	return out, nil
}

// readState reads one delivery. Without a record of its own it stands as its
// first attempt left it, or is pending and was never attempted.
func readState(txn *badger.Txn, ev *event.Event, p place, target string) (event.Delivery, error) {
	key := stateKey(p.class.n, p.t, ev.Ref, target)
	val, err := get(txn, key)
	if errors.Is(err, dedupe.ErrNotFound) {
		return readFolded(txn, ev.Ref, p, target)
	}
	if err != nil {
		return event.Delivery{}, err
	}
	return decodeState(key, val, ev.Ref, target)
}

// readFolded reads a delivery that has no record of its own.
func readFolded(txn *badger.Txn, ref event.Ref, p place, target string) (event.Delivery, error) {
	first := firstDelivery(ref, target)
	if p.sub != subEvent || !p.class.folds() {
		return first, nil
	}
	key := attemptKey(p.class.n, p.class.auditT(ref), ref, target, 0, 1)
	val, err := get(txn, key)
	if errors.Is(err, dedupe.ErrNotFound) {
		return first, nil
	}
	if err != nil {
		return first, err
	}
	a, err := decodeAttempt(key, val)
	if err != nil || a.State.Open() {
		return first, err
	}
	return a.delivery(), nil
}

// firstDelivery is the delivery that an accepted event implies.
func firstDelivery(ref event.Ref, target string) event.Delivery {
	return event.Delivery{Event: ref, Target: target, State: event.Pending, DueAt: ref.Time(), OpenedAt: ref.Time()}
}

// heldOpen reports whether a claim that has expired still stands.
func (db *DB) heldOpen(txn *badger.Txn, c dedupe.Claim) (bool, error) {
	ev, p, err := db.find(txn, c.Ref)
	if errors.Is(err, dedupe.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	rec, err := db.record(txn, ev, p)
	return c.HeldBy(rec.Deliveries), err
}

// Attempts lists one event's attempts in the order in which they were
// recorded.
func (db *DB) Attempts(_ context.Context, ref event.Ref) ([]event.Attempt, error) {
	var found []recorded
	err := db.steady(func(txn *badger.Txn) error {
		found = found[:0]
		_, p, err := db.event(txn, ref)
		if err != nil {
			return err
		}
		return eachAttempt(txn, db.attemptBuckets(p.class, ref), ref, func(r recorded) { found = append(found, r) })
	})
	slices.SortFunc(found, func(a, b recorded) int { return a.before(&b) })
	out := make([]event.Attempt, len(found))
	for i := range found {
		out[i] = found[i].Attempt
	}
	return out, err
}

type attemptPlace struct {
	class uint8
	ts    []uint32
}

// attemptBuckets are the buckets in which an event's attempts may stand: its
// own, or after that was dropped any later one.
func (db *DB) attemptBuckets(c class, ref event.Ref) attemptPlace {
	home := c.auditT(ref)
	first := db.cuts.Load().of(kindAttempt, c.n)
	if home >= first {
		return attemptPlace{c.n, []uint32{home}}
	}
	out := attemptPlace{class: c.n}
	for t := first; t <= uint32(db.clock.now().UnixMilli()/c.audit); t++ {
		out.ts = append(out.ts, t)
	}
	return out
}

func eachAttempt(txn *badger.Txn, at attemptPlace, ref event.Ref, f func(recorded)) error {
	for _, t := range at.ts {
		opt := badger.DefaultIteratorOptions
		opt.Prefix = attemptPrefix(at.class, t, ref)
		it := txn.NewIterator(opt)
		for it.Rewind(); it.Valid(); it.Next() {
			key := it.Item().KeyCopy(nil)
			val, err := it.Item().ValueCopy(nil)
			if err == nil {
				var r recorded
				if r, err = decodeAttempt(key, val); err == nil {
					f(r)
				}
			}
			if err != nil {
				it.Close()
				return err
			}
		}
		it.Close()
	}
	return nil
}

// Lookup finds events by the provider's ID, newest first.
func (db *DB) Lookup(_ context.Context, sources []string, id string) ([]event.Ref, error) {
	var out []event.Ref
	err := db.steady(func(txn *badger.Txn) error {
		out = out[:0]
		for _, s := range db.named(sources) {
			out = append(out, db.indexed(txn, s, id)...)
		}
		return nil
	})
	sort.Slice(out, func(i, j int) bool { return out[i].Compare(out[j]) > 0 })
	return out, err
}

// indexed reads the index of every kept bucket, oldest first.
func (db *DB) indexed(txn *badger.Txn, source, id string) []event.Ref {
	framed, _ := dedupe.FrameID(id)
	var out []event.Ref
	last := db.clock.now().UnixMilli()
	for _, c := range *db.classes.Load() {
		for _, t := range db.liveBuckets(txn, kindEvent, c, last) {
			opt := badger.DefaultIteratorOptions
			opt.PrefetchValues = false
			opt.Prefix = indexPrefix(c.n, t, source, framed)
			it := txn.NewIterator(opt)
			for it.Rewind(); it.Valid(); it.Next() {
				var ref event.Ref
				if n := copy(ref[:], it.Item().Key()[len(opt.Prefix):]); n == len(ref) {
					out = append(out, ref)
				}
			}
			it.Close()
		}
	}
	return out
}
