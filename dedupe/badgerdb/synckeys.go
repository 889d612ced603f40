package badgerdb

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
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

// step applies one step of a key; see dedupe.Committer. refused is why claims
// are not taken now, nil when they are.
func (c *commit) step(s *dedupe.KeyStep, refused error) error {
	if refused != nil && s.Kind == dedupe.StepClaim {
		s.Err = refused
		return nil
	}
	need := stepSize(s)
	if c.size+need > c.db.maxBatch {
		if err := c.commit(); err != nil {
			return err
		}
		c.reset()
	}
	stood := map[dedupe.Key]uint32{}
	write, err := s.Apply(c.now, func(k dedupe.Key) (dedupe.SyncKey, bool, error) {
		at, found, err := c.db.readSyncKey(c.txn, k)
		if found {
			stood[k] = at.p
		}
		return at.rec, found, err
	})
	switch {
	case errors.Is(err, dedupe.ErrDamaged):
		c.db.metrics.damage.Inc()
		c.db.log.Error("key of a synchronous route can't be read, step refused", "error", err)
		s.Err = err
		return nil
	case errors.Is(err, dedupe.ErrTooLarge), errors.Is(err, dedupe.ErrNoClaim):
		s.Err = err
		return nil
	case err != nil:
		return err
	}
	if s.Kind == dedupe.StepSpool && s.Verdict == dedupe.KeyDone {
		key := spoolKey(stood[s.Key], s.Key, s.Token, s.Chunk)
		return c.set(key, sealBody(key, s.Data))
	}
	for _, a := range s.Acts() {
		c.record(a)
	}
	if !write {
		return nil
	}
	p, was := stood[s.Key]
	return c.writeSyncKey(&s.Record, p, was)
}

// stepSize is what a step takes in the transaction, with margin. Long bodies
// go ahead of it.
func stepSize(s *dedupe.KeyStep) int64 {
	n := int64(8192 + 2*actSize + 4*dedupe.MaxActText + len(s.Data))
	if s.Answer != nil {
		n += int64(min(len(s.Answer.Body), 2*chunkSize))
		for _, f := range s.Answer.Header {
			n += int64(len(f.Name) + len(f.Value) + 8)
		}
	}
	return n
}

// writeSyncKey writes a record into the bucket of its expiry and takes it out
// of the one it stood in: no key ever has two.
func (c *commit) writeSyncKey(rec *dedupe.SyncKey, stood uint32, was bool) error {
	p := c.db.syncT(rec.Expires)
	if past := c.db.syncT(c.now); p < past { // held beyond its end because it is open
		p = past + 1
	}
	if was && stood != p {
		if err := c.txn.Delete(syncKey(stood, rec.Key)); err != nil {
			return err
		}
		c.size += entrySize
	}
	if rec.Answer.Chunks() > 0 && rec.Answer.Body != nil {
		if err := c.spoolAll(rec, p); err != nil {
			return err
		}
		rec.Answer.Body = nil
	}
	key := syncKey(p, rec.Key)
	e := newEnc(512 + len(rec.Answer.Body))
	encodeSyncKey(e, c.head.no, rec)
	val := e.seal(key, 0)
	c.size += int64(len(key)+len(val)) + entrySize
	entry := badger.NewEntry(key, val)
	entry.ExpiresAt = c.db.farExpiry(c.now, rec.Window)
	if rec.State.Open() {
		entry = entry.WithMeta(metaOpen)
	}
	if err := c.txn.SetEntry(entry); err != nil {
		return err
	}
	c.db.noteSyncBucket(p)
	k, open := rec.Key, rec.State.Open()
	c.after = append(c.after, func() { c.db.noteOpen(k, open) })
	return nil
}

// spoolAll writes a whole body as chunks: with the record, or ahead of it in
// synced transactions of their own. Chunks without a record that names them
// are garbage of their bucket.
func (c *commit) spoolAll(rec *dedupe.SyncKey, p uint32) error {
	body := rec.Answer.Body
	ahead := int64(len(body)) > c.db.ahead
	for n := 0; n*chunkSize < len(body); n++ {
		key := spoolKey(p, rec.Key, rec.Token, n)
		val := sealBody(key, chunk(body, n))
		if !ahead {
			if err := c.set(key, val); err != nil {
				return err
			}
			continue
		}
		txn := c.db.kv.NewTransaction(true)
		if err := txn.Set(key, val); err != nil {
			txn.Discard()
			return err
		}
		if err := c.db.commitTxn(txn); err != nil {
			return err
		}
	}
	return nil
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

// keyStats counts the open keys. mu is held.
func (db *DB) keyStats() (st dedupe.KeyStats, err error) {
	if len(db.openKeys) == 0 {
		return st, nil
	}
	now := db.clock.now()
	err = db.view(func(txn *badger.Txn) error {
		for k := range db.openKeys {
			at, ok, err := db.readSyncKey(txn, k)
			if errors.Is(err, dedupe.ErrDamaged) || err == nil && !ok {
				continue
			}
			if err != nil {
				return err
			}
			if rec := at.rec.At(now); rec.State == dedupe.KeyInFlight {
				st.InFlight++
			} else if st.Unknown++; st.Oldest.IsZero() || rec.ClaimedAt.Before(st.Oldest) {
				st.Oldest = rec.ClaimedAt
			}
		}
		return nil
	})
	return st, err
}

// SyncKey reads one key as it stands now; see dedupe.KeyBook.
func (db *DB) SyncKey(_ context.Context, k dedupe.Key) (rec dedupe.SyncKey, err error) {
	now := db.clock.now()
	err = db.view(func(txn *badger.Txn) error {
		at, found, err := db.readSyncKey(txn, k)
		if err != nil {
			return err
		}
		if rec = at.rec.At(now); !found || rec.Expired(now) {
			return fmt.Errorf("key %x: %w", k, dedupe.ErrNotFound)
		}
		return nil
	})
	return rec, err
}

// SyncChunk reads one chunk of a stored answer; see dedupe.KeyBook.
func (db *DB) SyncChunk(_ context.Context, k *dedupe.SyncKey, n int) (out []byte, err error) {
	key := spoolKey(db.syncT(k.Expires), k.Key, k.Token, n)
	err = db.view(func(txn *badger.Txn) error {
		val, err := get(txn, key)
		if errors.Is(err, dedupe.ErrNotFound) {
			return damaged(key, fmt.Sprintf("chunk %d is missing", n))
		}
		if err == nil {
			out, err = unseal(key, val)
		}
		return err
	})
	return out, err
}

// SyncKeys lists keys by bucket and hash; see dedupe.KeyBook.
func (db *DB) SyncKeys(_ context.Context, f dedupe.KeyFilter, cursor string, limit int) (page dedupe.Page[dedupe.SyncKey], err error) {
	if f.Open {
		page.Items, err = db.listOpenKeys(f)
		return page, err
	}
	from, err := hex.DecodeString(cursor)
	if err != nil || len(from) != 0 && len(from) != syncKeySize-1 {
		return page, fmt.Errorf("cursor %q is not one of this listing", cursor)
	}
	limit = min(max(limit, 1), maxPage)
	now := db.clock.now()
	err = db.view(func(txn *badger.Txn) error {
		opt := badger.DefaultIteratorOptions
		opt.Prefix = []byte{kindSync}
		it := txn.NewIterator(opt)
		defer it.Close()
		seek := append([]byte{kindSync}, from...)
		if len(from) > 0 {
			seek = append(seek, 0) // the one after it
		}
		looked := 0
		for it.Seek(seek); it.Valid(); it.Next() {
			key := it.Item().KeyCopy(nil)
			rec, err := db.listedKey(it.Item(), key, now)
			if err != nil {
				return err
			}
			if !rec.Expired(now) && f.Match(&rec) {
				page.Items = append(page.Items, rec)
			}
			if looked++; len(page.Items) == limit || looked == db.cfg.ScanBudget {
				page.Next = hex.EncodeToString(key[1:])
				return nil
			}
		}
		return nil
	})
	return page, err
}

func (db *DB) listedKey(item *badger.Item, key []byte, now time.Time) (rec dedupe.SyncKey, err error) {
	val, err := item.ValueCopy(nil)
	if err != nil {
		return rec, engineErr(key, err)
	}
	rec, err = db.openSyncKey(key, val)
	return rec.At(now), err
}

// listOpenKeys reads the keys without a conclusion, earliest claim first.
func (db *DB) listOpenKeys(f dedupe.KeyFilter) (out []dedupe.SyncKey, err error) {
	db.mu.Lock()
	keys := make([]dedupe.Key, 0, len(db.openKeys))
	for k := range db.openKeys {
		keys = append(keys, k)
	}
	db.mu.Unlock()
	now := db.clock.now()
	err = db.view(func(txn *badger.Txn) error {
		for _, k := range keys {
			at, found, err := db.readSyncKey(txn, k)
			if err != nil {
				return err
			}
			if rec := at.rec.At(now); found && f.Match(&rec) {
				out = append(out, rec)
			}
		}
		return nil
	})
	slices.SortFunc(out, func(a, b dedupe.SyncKey) int {
		if c := a.ClaimedAt.Compare(b.ClaimedAt); c != 0 {
			return c
		}
		return bytes.Compare(a.Key[:], b.Key[:])
	})
	return out, err
}

// planKeys drops the buckets of keys that ended, and notes the open keys in
// them, which are moved before.
func (x *expiry) planKeys() error {
	db := x.db
	cut := db.syncT(time.UnixMilli(x.now))
	x.keysBelow = cut
	for _, p := range *db.syncs.Load() {
		if p >= cut {
			break
		}
		if err := x.countKeys(p); err != nil {
			return err
		}
		x.drops = append(x.drops, syncPrefix(p), spoolPrefix(p))
		x.gone.Buckets++
	}
	for k := range db.openKeys {
		at, found, err := db.readSyncKey(x.txn, k)
		if err != nil && !errors.Is(err, dedupe.ErrDamaged) {
			return err
		}
		if err != nil || !found || at.p >= cut {
			continue // a damaged one goes with its bucket; Check has named it
		}
		x.open = append(x.open, at)
		x.gone.Keys--
	}
	return nil
}

// countKeys counts the keys that go with a bucket.
func (x *expiry) countKeys(p uint32) error {
	opt := badger.DefaultIteratorOptions
	opt.PrefetchValues, opt.Prefix = false, syncPrefix(p)
	it := x.txn.NewIterator(opt)
	defer it.Close()
	for it.Rewind(); it.Valid(); it.Next() {
		x.gone.Keys++
	}
	return nil
}

// moveKey takes a record into another bucket, in one transaction, with the
// number of the batch that wrote it.
func (x *expiry) moveKey(at foundKey, to uint32) error {
	from := syncKey(at.p, at.rec.Key)
	val, err := get(x.txn, from)
	if err != nil {
		return err
	}
	payload, err := unseal(from, val)
	if err != nil {
		return err
	}
	if err := x.room(int64(len(payload)) + 4*entrySize); err != nil {
		return err
	}
	e := newEnc(len(payload))
	e.raw(payload)
	key := syncKey(to, at.rec.Key)
	entry := badger.NewEntry(key, e.seal(key, 0)).WithMeta(metaOpen)
	entry.ExpiresAt = x.db.farExpiry(time.UnixMilli(x.now), at.rec.Window)
	if err := x.txn.SetEntry(entry); err != nil {
		return err
	}
	x.db.noteSyncBucket(to)
	return x.txn.Delete(from)
}

// forgetKeys drops from memory the buckets that are gone.
func (x *expiry) forgetKeys() {
	left := slices.DeleteFunc(slices.Clone(*x.db.syncs.Load()), func(p uint32) bool { return p < x.keysBelow })
	x.db.syncs.Store(&left)
}

// keys checks every key, and every stored answer against its hash.
func (c *check) keys() error {
	err := c.each([]byte{kindSync}, func(key, val []byte) {
		rec, err := c.db.openSyncKey(key, val)
		if err != nil {
			c.fault(keyText(key), err.Error())
			return
		}
		c.report.Keys++
		if rec.Answer.Status == 0 {
			return
		}
		body := rec.Answer.Body
		for n := range rec.Answer.Chunks() {
			k := spoolKey(binary.BigEndian.Uint32(key[1:]), rec.Key, rec.Token, n)
			val, err := get(c.txn, k)
			var part []byte
			if err == nil {
				part, err = unseal(k, val)
			}
			if err != nil {
				c.fault(keyText(key), fmt.Sprintf("chunk %d of its answer: %v", n, err))
				return
			}
			body = append(body, part...)
		}
		if event.HashOf(body) != rec.Answer.Hash {
			c.fault(keyText(key), "its answer does not have its hash")
		}
	})
	if err != nil {
		return err
	}
	return c.each([]byte{kindSpool}, func(key, val []byte) {
		if _, err := unseal(key, val); err != nil {
			c.fault(keyText(key), err.Error())
		}
	})
}
