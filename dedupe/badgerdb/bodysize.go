package badgerdb

import (
	"cmp"
	"context"
	"slices"

	"github.com/dgraph-io/badger/v4"

	"github.com/onceward/onceward/event"
)

// How much of the disk bodies may take: those of one source that has a limit, and
// those of each retention class that all other sources share. Both are kept by
// dropping body buckets before their time, the oldest first, after what is open
// was carried out of them. The newest bucket always stays.

// LimitBodies sets how much of the disk the bodies of a source may take, by its
// name; without an entry it is bounded with those it shares a retention with. A
// limit holds for what comes after it was first set: older bodies stand with those
// of other sources, and go as they do.
func (db *DB) LimitBodies(limits map[string]int64) {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.limits = limits
}

// BodySizes is what the bodies of each source with a limit take now.
func (db *DB) BodySizes() map[string]int64 {
	db.mu.Lock()
	defer db.mu.Unlock()
	out := make(map[string]int64, len(db.limits))
	for source, limit := range db.limits {
		if limit > 0 {
			out[source] = 0
		}
	}
	for k, n := range db.bodies {
		own := db.class(k.class).own
		if _, ok := out[own]; ok {
			out[own] += n
		}
	}
	return out
}

// limited names the bodies that share a limit: those of a source, or of a class.
type limited struct {
	own   string
	class uint8
}

// limitOf is what limits the bodies of a class.
func (db *DB) limitOf(c *class) limited {
	if c.own != "" && db.limits[c.own] > 0 {
		return limited{own: c.own}
	}
	return limited{class: c.n}
}

// noteSizes takes from a run what of each limit was open. That and half as much
// comes on top of the limit until the next cut: or every run would copy the same
// bodies, which can't go, from one bucket into the next. mu is held.
func (db *DB) noteSizes(s *sweep) {
	for l := range s.cut {
		db.openBodies[l] = s.carried[l]
	}
}

// bodyBucket is one of those that share a limit.
type bodyBucket struct {
	class uint8
	t     uint32
	end   int64 // ms
	size  int64
}

// sizeCut is the first body bucket of a class that may stay when bodies have a
// size limit: the newest ones that fit, and always those of the moment due, in
// milliseconds, and later. mu is held.
func (db *DB) sizeCut(txn *badger.Txn, c class, due int64) uint32 {
	room := db.cfg.BodySize
	family := []class{c}
	if limit := db.limits[c.own]; c.own != "" && limit > 0 {
		room = limit
		family = slices.DeleteFunc(slices.Clone(*db.classes.Load()), func(o class) bool { return o.own != c.own })
	}
	if room <= 0 {
		return 0
	}
	room += db.openBodies[db.limitOf(&c)] * 3 / 2
	var all []bodyBucket
	now := db.clock.now().UnixMilli()
	for _, f := range family {
		for _, t := range db.liveBuckets(txn, kindBody, f, now) {
			all = append(all, bodyBucket{f.n, t, (int64(t) + 1) * f.body, db.bodies[partKey{kindBody, f.n, t}]})
		}
	}
	slices.SortStableFunc(all, func(a, b bodyBucket) int { return cmp.Compare(b.end, a.end) })
	cut := uint32(0)
	for i, b := range all {
		if room -= b.size; room < 0 && i > 0 && b.class == c.n {
			cut = max(cut, b.t+1)
		}
	}
	return min(cut, uint32(due/c.body)) // what is written now stays
}

// counted reports whether the bodies of a class are added up. mu is held.
func (db *DB) counted(c *class) bool { return db.cfg.BodySize > 0 || c.own != "" }

// countBodies adds up what the bodies of earlier runs take. It reads keys
// only, and only where their size matters.
func (db *DB) countBodies(ctx context.Context) error {
	sizes := map[partKey]int64{}
	err := db.view(func(txn *badger.Txn) error {
		for _, c := range *db.classes.Load() {
			if !db.counted(&c) {
				continue
			}
			if err := db.countClass(ctx, txn, c.n, sizes); err != nil {
				return err
			}
		}
		return nil
	})
	db.mu.Lock()
	defer db.mu.Unlock()
	for k, n := range sizes {
		db.bodies[k] += n
	}
	return err
}

func (db *DB) countClass(ctx context.Context, txn *badger.Txn, class uint8, sizes map[partKey]int64) error {
	opt := badger.DefaultIteratorOptions
	opt.PrefetchValues = false
	opt.Prefix = []byte{kindBody, class}
	it := txn.NewIterator(opt)
	defer it.Close()
	for it.Rewind(); it.Valid(); it.Next() {
		key := it.Item().Key()
		var ref event.Ref
		if len(key) < bucketSize+len(ref) {
			continue
		}
		if copy(ref[:], key[bucketSize:]); ref.Compare(db.startLast) <= 0 { // later ones are counted as they come
			sizes[partKey{kindBody, class, bucketNumber(key)}] += int64(len(key)) + it.Item().ValueSize()
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

// addBody counts a body that is written. mu is held.
func (db *DB) addBody(key, val []byte) { db.growBody(key, int64(len(key)+len(val))) }

// growBody counts n bytes more under the key of a body. mu is held.
func (db *DB) growBody(key []byte, n int64) {
	if c := db.class(key[1]); db.counted(&c) {
		db.bodies[partKey{kindBody, key[1], bucketNumber(key)}] += n
	}
}
