package badgerdb

import (
	"encoding/binary"
	"errors"
	"slices"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

var _ dedupe.KeyBook = (*DB)(nil)

// syncPerClaim is how many expiry buckets of keys make one of claims: keys
// hold whole answers, and are remembered for a day where claims are for weeks.
const syncPerClaim = 8

// metaOpen marks the entries of keys without a conclusion, so that a restart
// finds them without reading the values of all others.
const metaOpen = 1

func syncPrefix(p uint32) []byte { return binary.BigEndian.AppendUint32([]byte{kindSync}, p) }

func syncKey(p uint32, k dedupe.Key) []byte { return append(syncPrefix(p), k[:]...) }

// The chunks of an answer are cut as bodies are.
var _ = [1]struct{}{}[chunkSize-dedupe.SyncChunk]

const syncKeySize = 1 + 4 + 32

func spoolPrefix(p uint32) []byte { return binary.BigEndian.AppendUint32([]byte{kindSpool}, p) }

func spoolKey(p uint32, k dedupe.Key, token uint64, chunk int) []byte {
	b := binary.BigEndian.AppendUint64(append(spoolPrefix(p), k[:]...), token)
	return binary.BigEndian.AppendUint16(b, uint16(chunk))
}

// syncT is the expiry bucket of a ledger time.
func (db *DB) syncT(at time.Time) uint32 {
	return uint32(at.UnixMilli() / max(1, db.cfg.ClaimBucket.Milliseconds()/syncPerClaim))
}

func encodeSyncKey(e *enc, batch uint64, k *dedupe.SyncKey) {
	e.uint(batch)
	for _, s := range [...]string{k.Source, k.Caller, k.ID, k.Target, k.Downstream} {
		e.str(s)
	}
	e.raw(k.Print[:])
	e.uint(uint64(k.State))
	e.uint(k.Token)
	e.time(k.Until)
	e.int(k.Window.Milliseconds())
	e.time(k.ClaimedAt)
	e.time(k.UpdatedAt)
	e.time(k.Expires)
	e.uint(k.Replays)
	e.str(k.Why)
	a := &k.Answer
	e.uint(uint64(a.Status))
	e.uint(uint64(len(a.Header)))
	for _, f := range a.Header {
		e.str(f.Name)
		e.str(f.Value)
	}
	e.uint(uint64(a.Length))
	e.raw(a.Hash[:])
	if a.Chunks() == 0 {
		e.bytes(a.Body)
	}
	e.uint(uint64(len(k.Life)))
	for _, m := range k.Life {
		e.time(m.At)
		e.uint(uint64(m.What))
		e.str(m.Detail)
	}
}

// decodeSyncKey reads a key and the number of the batch that wrote it.
func decodeSyncKey(key, val []byte) (k dedupe.SyncKey, batch uint64, err error) {
	payload, err := unseal(key, val)
	if err != nil {
		return k, 0, err
	}
	if len(key) != syncKeySize {
		return k, 0, damaged(key, "malformed key")
	}
	copy(k.Key[:], key[5:])
	d := &dec{b: payload}
	batch = d.uint()
	k.Source, k.Caller, k.ID, k.Target, k.Downstream = d.str(), d.str(), d.str(), d.str(), d.str()
	d.raw(k.Print[:])
	k.State, k.Token, k.Until = dedupe.KeyState(d.uint()), d.uint(), d.time()
	k.Window = time.Duration(d.int()) * time.Millisecond
	k.ClaimedAt, k.UpdatedAt, k.Expires = d.time(), d.time(), d.time()
	k.Replays, k.Why = d.uint(), d.str()
	k.Answer.Status = int(d.uint())
	if n := d.count(); n > 0 {
		k.Answer.Header = make([]event.Field, n)
		for i := range k.Answer.Header {
			k.Answer.Header[i] = event.Field{Name: d.str(), Value: d.str()}
		}
	}
	k.Answer.Length = int64(d.uint())
	d.raw(k.Answer.Hash[:])
	if k.Answer.Chunks() == 0 {
		k.Answer.Body = d.bytes()
	}
	if n := d.count(); n > 0 {
		k.Life = make([]dedupe.KeyMoment, n)
		for i := range k.Life {
			k.Life[i] = dedupe.KeyMoment{At: d.time(), What: dedupe.Moment(d.uint()), Detail: d.str()}
		}
	}
	return k, batch, d.end(key)
}

// foundKey is a key and the bucket it stands in.
type foundKey struct {
	rec dedupe.SyncKey
	p   uint32
}

// readSyncKey looks a key up in every bucket. A lease given before this ledger
// was opened has ended: its holder held the ledger as well.
func (db *DB) readSyncKey(txn *badger.Txn, k dedupe.Key) (foundKey, bool, error) {
	all := *db.syncs.Load()
	for i := len(all) - 1; i >= 0; i-- {
		key := syncKey(all[i], k)
		val, err := get(txn, key)
		if errors.Is(err, dedupe.ErrNotFound) {
			continue
		}
		if err != nil {
			return foundKey{}, false, err
		}
		rec, err := db.openSyncKey(key, val)
		return foundKey{rec, all[i]}, err == nil, err
	}
	return foundKey{}, false, nil
}

func (db *DB) openSyncKey(key, val []byte) (dedupe.SyncKey, error) {
	rec, batch, err := decodeSyncKey(key, val)
	if batch <= db.startNo {
		rec.Until = time.Time{}
	}
	return rec, err
}

// farExpiry is when Badger itself may collect an entry, should its bucket
// never be dropped. It compares with the wall clock, so it is far.
func (db *DB) farExpiry(now time.Time, window time.Duration) uint64 {
	if wall := db.cfg.Now(); wall.After(now) {
		now = wall
	}
	return uint64(now.Add(window + farLimit).Unix())
}

// noteSyncBucket keeps the list of buckets that look-ups probe. mu is held.
func (db *DB) noteSyncBucket(p uint32) {
	all := *db.syncs.Load()
	i, found := slices.BinarySearch(all, p)
	if found {
		return
	}
	next := slices.Insert(slices.Clone(all), i, p)
	db.syncs.Store(&next)
}

// noteOpen keeps the set of keys without a conclusion. mu is held.
func (db *DB) noteOpen(k dedupe.Key, open bool) {
	if open {
		db.openKeys[k] = struct{}{}
		return
	}
	delete(db.openKeys, k)
}

// syncBuckets lists the expiry buckets that hold keys or chunks, ascending.
func syncBuckets(txn *badger.Txn) ([]uint32, error) {
	var out []uint32
	for _, kind := range []byte{kindSync, kindSpool} {
		opt := badger.DefaultIteratorOptions
		opt.PrefetchValues = false
		opt.Prefix = []byte{kind}
		it := txn.NewIterator(opt)
		for it.Rewind(); it.Valid(); {
			key := it.Item().KeyCopy(nil)
			if len(key) < 5 {
				it.Close()
				return nil, damaged(key, "malformed key")
			}
			p := binary.BigEndian.Uint32(key[1:])
			out = append(out, p)
			it.Seek(binary.BigEndian.AppendUint32([]byte{kind}, p+1))
		}
		it.Close()
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// loadOpenKeys finds the keys that earlier runs left without a conclusion. Only
// keys and their marks are read; those found are looked up again under the
// lock, because a step may have come between.
func (db *DB) loadOpenKeys() error {
	var found []dedupe.Key
	err := db.view(func(txn *badger.Txn) error {
		opt := badger.DefaultIteratorOptions
		opt.PrefetchValues = false
		opt.Prefix = []byte{kindSync}
		it := txn.NewIterator(opt)
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			if key := it.Item().Key(); it.Item().UserMeta() == metaOpen && len(key) == syncKeySize {
				found = append(found, dedupe.Key(key[5:]))
			}
		}
		return nil
	})
	if err != nil || len(found) == 0 {
		return err
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.view(func(txn *badger.Txn) error {
		for _, k := range found {
			at, ok, err := db.readSyncKey(txn, k)
			if errors.Is(err, dedupe.ErrDamaged) {
				db.log.Error("key of a synchronous route can't be read", "error", err)
				continue // whoever brings it is told; Check names it
			}
			if err != nil {
				return err
			}
			if ok {
				db.noteOpen(k, at.rec.State.Open())
			}
		}
		return nil
	})
}
