package badgerdb

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

// planKeys drops the buckets of keys that ended, and notes the open keys in
// them, which are moved before.
func (x *expiry) planKeys() error {
	db := x.db
	cut := db.syncT(time.UnixMilli(x.due))
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
