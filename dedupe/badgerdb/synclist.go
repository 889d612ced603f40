package badgerdb

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/onceward/onceward/dedupe"
)

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
	err = db.steady(func(txn *badger.Txn) error {
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
	err = db.steady(func(txn *badger.Txn) error {
		page = dedupe.Page[dedupe.SyncKey]{}
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
	err = db.steady(func(txn *badger.Txn) error {
		out = out[:0]
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
