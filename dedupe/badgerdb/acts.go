package badgerdb

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

// actSize is what one act takes at most, but for the long texts that only an
// operator's act or an odd sender has.
const actSize = 512

const actsKeySize = bucketSize + 8 + 8

// actsPrefix is the prefix of a writer's acts in one bucket. All acts stand in
// class 0: a log can only be cut from its begin, whatever the sources keep.
func actsPrefix(t uint32, writer uint64) []byte {
	return binary.BigEndian.AppendUint64(bucketPrefix(kindActs, 0, t), writer)
}

func actsKey(t uint32, writer, first uint64) []byte {
	return binary.BigEndian.AppendUint64(actsPrefix(t, writer), first)
}

// actRecord is the acts of one batch.
type actRecord struct {
	writer, first uint64
	batch         uint64
	pack          []byte
}

func sealActs(key []byte, batch uint64, pack []byte) []byte {
	e := enc{b: make([]byte, 0, len(pack)+10)}
	e.uint(batch)
	e.raw(pack)
	return sealCompressed(key, e.b)
}

func decodeActs(key, val []byte) (r actRecord, err error) {
	payload, err := unseal(key, val)
	if err != nil {
		return r, err
	}
	if len(key) != actsKeySize {
		return r, damaged(key, "malformed key")
	}
	d := &dec{b: payload}
	r = actRecord{writer: binary.BigEndian.Uint64(key[bucketSize:]), first: binary.BigEndian.Uint64(key[bucketSize+8:]), batch: d.uint()}
	if d.bad {
		return r, damaged(key, "payload does not decode")
	}
	r.pack = d.b
	return r, nil
}

// each calls f for the record's acts until it returns false.
func (r *actRecord) each(key []byte, f func(index uint64, leaf []byte) bool) error {
	i := r.first
	err := dedupe.Unpack(r.pack, func(leaf []byte) bool {
		i++
		return f(i-1, leaf)
	})
	if err != nil {
		return damaged(key, err.Error())
	}
	return nil
}

// count is the number of acts in a record.
func (r *actRecord) count(key []byte) (n uint64, err error) {
	err = r.each(key, func(uint64, []byte) bool { n++; return true })
	return n, err
}

// checkActs reads every act of a record.
func checkActs(key, val []byte) (n, batch uint64, err error) {
	r, err := decodeActs(key, val)
	if err != nil {
		return 0, 0, err
	}
	var bad error
	err = r.each(key, func(i uint64, leaf []byte) bool {
		n++
		if _, err := dedupe.DecodeAct(leaf); err != nil {
			bad = damaged(key, fmt.Sprintf("act %d: %v", i, err))
		}
		return true
	})
	return n, r.batch, errors.Join(err, bad)
}

// act records what follows from no request and no result.
func (c *commit) act(a dedupe.Act) error {
	if c.size+actSize+4*dedupe.MaxActText > c.db.maxBatch {
		if err := c.commit(); err != nil {
			return err
		}
		c.reset()
	}
	c.record(a)
	return nil
}

// record adds an act to the transaction.
func (c *commit) record(a dedupe.Act) {
	if c.db.mute {
		return
	}
	was := len(c.db.pack.Bytes())
	c.db.pack.Add(&a, c.now)
	c.size += int64(len(c.db.pack.Bytes()) - was)
}

// recordResult adds the act of a result, if it is one.
func (c *commit) recordResult(r *dedupe.Result, state event.State) {
	if a, ok := r.Act(state); ok {
		c.record(a)
	}
}

// putActs writes the acts of the transaction as one record.
func (c *commit) putActs() error {
	p := &c.db.pack
	if p.Len() == 0 {
		return nil
	}
	key := actsKey(c.db.headT(c.head.at), c.head.writer, c.head.acts)
	val := sealActs(key, c.head.no, p.Bytes())
	c.head.acted = uint64(p.Len())
	c.head.acts += c.head.acted
	c.sum.add(key, val)
	return c.txn.Set(key, val)
}

// actIterator reads records of acts, forwards or backwards.
func actIterator(txn *badger.Txn, reverse, values bool) *badger.Iterator {
	opt := badger.DefaultIteratorOptions
	opt.Prefix, opt.Reverse, opt.PrefetchValues = []byte{kindActs}, reverse, values
	return txn.NewIterator(opt)
}

// actSpan is a writer's acts in one bucket.
type actSpan struct {
	t           uint32
	writer      uint64
	first, next uint64
}

// actSpans lists what acts are kept, by bucket, then writer. next is the index
// of this writer's next act. Whether a span is whole is seen when it is read.
func (db *DB) actSpans(txn *badger.Txn, next uint64) ([]actSpan, error) {
	it := actIterator(txn, false, false)
	defer it.Close()
	var out []actSpan
	last := map[uint64]int{} // by writer: its newest span
	it.Seek(bucketPrefix(kindActs, 0, db.cuts.Load().of(kindActs, 0)))
	for it.Valid() {
		key := it.Item().KeyCopy(nil)
		if len(key) != actsKeySize {
			return nil, damaged(key, "malformed key")
		}
		s := actSpan{t: bucketNumber(key), writer: binary.BigEndian.Uint64(key[bucketSize:]), first: binary.BigEndian.Uint64(key[bucketSize+8:])}
		if i, ok := last[s.writer]; ok {
			out[i].next = s.first
		}
		last[s.writer] = len(out)
		out = append(out, s)
		it.Seek(append(actsKey(s.t, s.writer, ^uint64(0)), 0))
	}
	for w, i := range last {
		if w == db.writer {
			out[i].next = max(next, out[i].first)
			continue
		}
		var err error
		if out[i].next, err = lastAct(txn, out[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// lastAct is the index after the last act of a span, from its last record.
func lastAct(txn *badger.Txn, s actSpan) (uint64, error) {
	it := actIterator(txn, true, true)
	defer it.Close()
	if it.Seek(actsKey(s.t, s.writer, ^uint64(0))); !it.Valid() {
		return 0, missingAct(s.writer, s.first)
	}
	key := it.Item().KeyCopy(nil)
	val, err := it.Item().ValueCopy(nil)
	if err != nil {
		return 0, engineErr(key, err)
	}
	r, err := decodeActs(key, val)
	if err != nil {
		return 0, err
	}
	n, err := r.count(key)
	return r.first + n, err
}

// actCut is the first bucket of acts whose retention has not ended: the
// longest of all classes.
func (db *DB) actCut(now time.Time) uint32 {
	var keep time.Duration
	for _, c := range *db.classes.Load() {
		keep = max(keep, c.keep.Audit)
	}
	return uint32(max(0, now.Add(-keep).UnixMilli()/db.class(0).audit))
}

// ActLogs lists the writers; see dedupe.Acts.
func (db *DB) ActLogs(context.Context) ([]dedupe.ActLog, error) {
	db.mu.Lock()
	own := dedupe.ActLog{Writer: db.writer, Own: true, First: db.nextAct, Next: db.nextAct, Keep: db.nextAct}
	db.mu.Unlock()
	cut := db.actCut(db.clock.now())
	out := []dedupe.ActLog{}
	err := db.steady(func(txn *badger.Txn) error {
		out = out[:0]
		spans, err := db.actSpans(txn, own.Next)
		for _, s := range spans {
			i := slices.IndexFunc(out, func(l dedupe.ActLog) bool { return l.Writer == s.writer })
			if i < 0 {
				i = len(out)
				out = append(out, dedupe.ActLog{Writer: s.writer, Own: s.writer == own.Writer, First: s.first, Keep: s.first})
			}
			out[i].Next = s.next
			if s.t < cut {
				out[i].Keep = s.next
			}
		}
		return err
	})
	if !slices.ContainsFunc(out, func(l dedupe.ActLog) bool { return l.Own }) {
		out = append(out, own)
	}
	return out, err
}

// Acts reads a writer's acts in order; see dedupe.Acts.
func (db *DB) Acts(_ context.Context, writer, from uint64, limit int) ([]dedupe.LoggedAct, error) {
	next := uint64(0) // what must be there at least
	db.mu.Lock()
	if writer == db.writer {
		next = db.nextAct
	}
	db.mu.Unlock()
	var out []dedupe.LoggedAct
	err := db.steady(func(txn *badger.Txn) error {
		out = nil
		from := from
		spans, err := db.actSpansOf(txn, writer, next)
		if err != nil {
			return err
		}
		switch {
		case len(spans) > 0 && from < spans[0].first, len(spans) == 0 && from < next:
			return fmt.Errorf("act %d of writer %x: %w", from, writer, dedupe.ErrPruned)
		case len(spans) == 0 && writer != db.writer:
			return fmt.Errorf("acts of writer %x: %w", writer, dedupe.ErrNotFound)
		}
		for i := 0; i < len(spans) && len(out) < limit; i++ {
			if from >= spans[i].next {
				continue
			}
			if out, err = readActs(txn, spans[i], from, limit-len(out), out); err != nil {
				return err
			}
			from = out[len(out)-1].Index + 1
		}
		if len(out) < limit && from < next {
			return missingAct(writer, from)
		}
		return nil
	})
	return out, err
}

func missingAct(writer, index uint64) error {
	return fmt.Errorf("%w: act %d of writer %x is missing", dedupe.ErrDamaged, index, writer)
}

func (db *DB) actSpansOf(txn *badger.Txn, writer, next uint64) ([]actSpan, error) {
	all, err := db.actSpans(txn, next)
	return slices.DeleteFunc(all, func(s actSpan) bool { return s.writer != writer }), err
}

// readActs appends up to about limit acts of one span, which holds it, from
// index from on.
func readActs(txn *badger.Txn, s actSpan, from uint64, limit int, out []dedupe.LoggedAct) ([]dedupe.LoggedAct, error) {
	start := actsKey(s.t, s.writer, from)
	back := actIterator(txn, true, false)
	if back.Seek(start); back.Valid() { // the record that begins at from or before it
		start = back.Item().KeyCopy(nil)
	}
	back.Close()
	it := actIterator(txn, false, true)
	defer it.Close()
	want := len(out) + limit
	for it.Seek(start); len(out) < want && from < s.next; it.Next() {
		if !it.Valid() {
			return out, missingAct(s.writer, from)
		}
		key := it.Item().KeyCopy(nil)
		val, err := it.Item().ValueCopy(nil)
		if err != nil {
			return out, engineErr(key, err)
		}
		r, err := decodeActs(key, val)
		if err != nil {
			return out, err
		}
		if r.writer != s.writer || r.first > from {
			return out, missingAct(s.writer, from)
		}
		next := r.first
		err = r.each(key, func(i uint64, leaf []byte) bool {
			if next = i + 1; i >= from {
				out = append(out, dedupe.LoggedAct{Index: i, Leaf: leaf})
			}
			return true
		})
		if err != nil {
			return out, err
		}
		if next <= from { // it ends before from: the next one must hold it
			if next < from {
				return out, missingAct(s.writer, next)
			}
			continue
		}
		from = next
	}
	return out, nil
}

// EventActs finds an event's acts by the batches that wrote its records; see
// dedupe.Acts.
func (db *DB) EventActs(_ context.Context, ref event.Ref) (map[uint64][]dedupe.LoggedAct, error) {
	out := map[uint64][]dedupe.LoggedAct{}
	err := db.steady(func(txn *badger.Txn) error {
		clear(out)
		_, p, err := db.event(txn, ref)
		if err != nil {
			return err
		}
		batches := []uint64{p.batch}
		err = eachAttempt(txn, db.attemptBuckets(p.class, ref), ref, func(r recorded) {
			batches = append(batches, r.batch)
		})
		slices.Sort(batches)
		for _, no := range slices.Compact(batches) {
			if err == nil {
				err = db.actsOf(txn, no, ref, out)
			}
		}
		return err
	})
	return out, err
}

// actsOf adds what a batch recorded of one event.
func (db *DB) actsOf(txn *badger.Txn, no uint64, ref event.Ref, out map[uint64][]dedupe.LoggedAct) error {
	h, err := db.readHead(txn, no)
	if errors.Is(err, dedupe.ErrNotFound) && no < db.cuts.Load().heads {
		return nil // pruned
	}
	if err != nil {
		return missingHead(no, err)
	}
	key := actsKey(db.headT(h.at), h.writer, h.acts-h.acted)
	if bucketNumber(key) < db.cuts.Load().of(kindActs, 0) {
		return nil
	}
	val, err := get(txn, key)
	if errors.Is(err, dedupe.ErrNotFound) {
		return missingAct(h.writer, h.acts-h.acted)
	}
	if err != nil {
		return err
	}
	r, err := decodeActs(key, val)
	if err != nil {
		return err
	}
	var bad error
	err = r.each(key, func(i uint64, leaf []byte) bool {
		a, err := dedupe.DecodeAct(leaf)
		if err != nil {
			bad = damaged(key, fmt.Sprintf("act %d: %v", i, err))
		} else if a.OfEvent(ref) {
			out[h.writer] = append(out[h.writer], dedupe.LoggedAct{Index: i, Leaf: leaf})
		}
		return bad == nil
	})
	return errors.Join(err, bad)
}

// SealActs allows acts to be dropped; see dedupe.Acts.
func (db *DB) SealActs(_ context.Context, writer, at uint64) error {
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.closed {
		return dedupe.ErrClosed
	}
	db.sealed[writer] = max(db.sealed[writer], at)
	return nil
}

// planActs drops the buckets of acts whose retention has ended, the oldest
// first, up to the first that holds one that is not sealed.
func (x *expiry) planActs() error {
	db := x.db
	k := [2]byte{kindActs, 0}
	cut := db.actCut(time.UnixMilli(x.due))
	if cut <= x.next.first[k] {
		return nil
	}
	read := db.kv.NewTransaction(false) // x.txn allows one iterator at a time
	defer read.Discard()
	spans, err := db.actSpans(read, db.nextAct)
	if err != nil {
		return err
	}
	for _, s := range spans {
		if s.t < cut && s.next > db.sealed[s.writer] {
			cut = s.t
		}
	}
	last := ^uint32(0)
	for n := 0; len(spans) > 0 && spans[0].t < cut; spans = spans[1:] {
		t := spans[0].t
		if t == last {
			continue
		}
		if n++; n > x.most {
			cut, x.more = t, true
			break
		}
		x.drops = append(x.drops, bucketPrefix(kindActs, 0, t))
		x.gone.Buckets++
		last = t
	}
	x.next.first[k] = max(x.next.first[k], cut)
	return nil
}
