package badgerdb

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"sort"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

// head is what a batch says of itself.
type head struct {
	no          uint64 // dense, from 1
	prev        [32]byte
	writer      uint64
	at          int64     // ledger ms
	first, last event.Ref // of the new events; zero when there were none
	count       uint64    // of new events
	events      uint64    // of the ledger up to and with this batch
	acts        uint64    // of the writer up to and with this batch
	acted       uint64    // of this batch
	low         event.Ref // no delivery below it was open, as last computed; zero: not known
	parts       []headPart

	hash [32]byte // of the encoded head
}

// headPart covers the records of a batch that stand in one bucket and never
// change.
type headPart struct {
	kind  byte // kindEvent, kindAttempt or kindActs
	class uint8
	t     uint32
	count uint64
	sum   [32]byte
}

func (h *head) seal(key []byte) []byte {
	e := newEnc(256)
	e.uint(h.no)
	e.raw(h.prev[:])
	e.uint(h.writer)
	e.int(h.at)
	e.raw(h.first[:])
	e.raw(h.last[:])
	e.uint(h.count)
	e.uint(h.events)
	e.uint(h.acts)
	e.uint(h.acted)
	e.raw(h.low[:])
	e.uint(uint64(len(h.parts)))
	for _, p := range h.parts {
		e.raw([]byte{p.kind, p.class})
		e.uint(uint64(p.t))
		e.uint(p.count)
		e.raw(p.sum[:])
	}
	h.hash = sha256.Sum256(e.b[envelopeSize:])
	return e.seal(key, 0)
}

func decodeHead(key, val []byte) (h head, err error) {
	payload, err := unseal(key, val)
	if err != nil {
		return h, err
	}
	h.hash = sha256.Sum256(payload)
	d := &dec{b: payload}
	h.no = d.uint()
	d.raw(h.prev[:])
	h.writer = d.uint()
	h.at = d.int()
	d.raw(h.first[:])
	d.raw(h.last[:])
	h.count, h.events = d.uint(), d.uint()
	h.acts, h.acted = d.uint(), d.uint()
	d.raw(h.low[:])
	n := d.count()
	for range n {
		var kc [2]byte
		p := headPart{}
		d.raw(kc[:])
		p.kind, p.class, p.t, p.count = kc[0], kc[1], uint32(d.uint()), d.uint()
		d.raw(p.sum[:])
		h.parts = append(h.parts, p)
	}
	if err := d.end(key); err != nil {
		return h, err
	}
	if len(key) != headKeySize || binary.BigEndian.Uint64(key[5:]) != h.no {
		return h, damaged(key, "number does not match its key")
	}
	return h, nil
}

// covers reports whether the batch gave ref.
func (h *head) covers(ref event.Ref) bool {
	return h.count > 0 && ref.Writer() == h.writer && ref.Compare(h.first) >= 0 && ref.Compare(h.last) <= 0
}

// summer adds up, per bucket, what a head says of its batch.
type summer struct {
	parts map[partKey][]record
}

type partKey struct {
	kind  byte
	class uint8
	t     uint32
}

type record struct{ key, val []byte }

func (s *summer) add(key, val []byte) {
	if s.parts == nil {
		s.parts = map[partKey][]record{}
	}
	k := partKey{key[0], key[1], bucketNumber(key)}
	s.parts[k] = append(s.parts[k], record{key, val})
}

func (s *summer) sums() []headPart {
	out := make([]headPart, 0, len(s.parts))
	for k, recs := range s.parts {
		sort.Slice(recs, func(i, j int) bool { return bytes.Compare(recs[i].key, recs[j].key) < 0 })
		h := sha256.New()
		for _, r := range recs {
			sumRecord(h, r.key, r.val)
		}
		p := headPart{kind: k.kind, class: k.class, t: k.t, count: uint64(len(recs))}
		h.Sum(p.sum[:0])
		out = append(out, p)
	}
	sort.Slice(out, func(i, j int) bool {
		a, b := out[i], out[j]
		if a.kind != b.kind {
			return a.kind < b.kind
		}
		if a.class != b.class {
			return a.class < b.class
		}
		return a.t < b.t
	})
	return out
}

func sumRecord(h interface{ Write([]byte) (int, error) }, key, val []byte) {
	var frame [8]byte
	binary.BigEndian.PutUint32(frame[:4], uint32(len(key)))
	binary.BigEndian.PutUint32(frame[4:], uint32(len(val)))
	h.Write(frame[:])
	h.Write(key)
	h.Write(val)
}

// headBucket is a time bucket of heads and the first number in it.
type headBucket struct {
	t     uint32
	first uint64
}

// headBuckets lists the kept buckets of heads, ascending.
func headBuckets(txn *badger.Txn, cut uint32) ([]headBucket, error) {
	opt := badger.DefaultIteratorOptions
	opt.PrefetchValues = false
	opt.Prefix = []byte{kindHead}
	it := txn.NewIterator(opt)
	defer it.Close()
	var out []headBucket
	for it.Seek(headPrefix(cut)); it.Valid(); {
		key := it.Item().KeyCopy(nil)
		if len(key) != headKeySize {
			return nil, damaged(key, "malformed key")
		}
		t := binary.BigEndian.Uint32(key[1:])
		out = append(out, headBucket{t, binary.BigEndian.Uint64(key[5:])})
		it.Seek(headPrefix(t + 1))
	}
	return out, nil
}

// headT is the bucket of a head written at a ledger time.
func (db *DB) headT(at int64) uint32 { return uint32(at / db.class(0).audit) }

// readHead reads one head; absent is ErrNotFound.
func (db *DB) readHead(txn *badger.Txn, no uint64) (head, error) {
	var in *headBucket
	all := *db.headIndex.Load()
	for i := range all {
		if all[i].first <= no {
			in = &all[i]
		}
	}
	if in == nil {
		return head{}, dedupe.ErrNotFound
	}
	key := headKey(in.t, no)
	val, err := get(txn, key)
	if err != nil {
		return head{}, err
	}
	return decodeHead(key, val)
}

// lastHead reads the newest head, the zero one of an empty ledger.
func lastHead(txn *badger.Txn) (head, error) {
	opt := badger.DefaultIteratorOptions
	opt.Reverse, opt.PrefetchValues, opt.Prefix = true, false, []byte{kindHead}
	it := txn.NewIterator(opt)
	defer it.Close()
	it.Seek([]byte{kindHead, 0xff})
	if !it.Valid() {
		return head{}, nil
	}
	key := it.Item().KeyCopy(nil)
	val, err := it.Item().ValueCopy(nil)
	if err != nil {
		return head{}, engineErr(key, err)
	}
	return decodeHead(key, val)
}

// headOf finds the batch that gave ref, ErrNotFound when none did, ErrPruned
// when its head is gone.
func (db *DB) headOf(txn *badger.Txn, ref event.Ref) (head, error) {
	db.mu.Lock()
	newest := db.head.no
	db.mu.Unlock()
	lo, hi := db.cuts.Load().heads, newest
	if lo == 0 {
		lo = 1
	}
	var best head
	for lo <= hi {
		mid := lo + (hi-lo)/2
		h, err := db.readHead(txn, mid)
		if errors.Is(err, dedupe.ErrNotFound) {
			return head{}, fmt.Errorf("%w: head %d is missing", dedupe.ErrDamaged, mid)
		}
		if err != nil {
			return head{}, err
		}
		if h.covers(ref) {
			return h, nil
		}
		if int64(ref.Milli()) < h.at || (int64(ref.Milli()) == h.at && h.count > 0 && ref.Compare(h.first) < 0) {
			hi = mid - 1
		} else {
			best, lo = h, mid+1
		}
	}
	// Heads of one millisecond, with and without events, may stand between.
	for no := best.no; no > 0 && no+64 > best.no; no-- {
		h, err := db.readHead(txn, no)
		if err != nil || h.at < int64(ref.Milli()) {
			break
		}
		if h.covers(ref) {
			return h, nil
		}
	}
	if cut := db.cuts.Load(); cut.heads > 1 && ref.Milli() < uint64(cut.headsAt) && ref.Writer() == db.writer {
		return head{}, dedupe.ErrPruned
	}
	return head{}, dedupe.ErrNotFound
}

func (h *head) time() time.Time { return time.UnixMilli(h.at) }
