package badgerdb

import (
	"context"
	"errors"
	"fmt"
	"sort"

	"github.com/dgraph-io/badger/v4"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

// Tail lists events as they were accepted; see dedupe.Account. Refs ascend in
// the order of commits, so a ref is all there is to a cursor: whoever has seen
// one has seen all before it.
func (db *DB) Tail(ctx context.Context, cursor string, limit int) (dedupe.Page[dedupe.Record], error) {
	page := dedupe.Page[dedupe.Record]{Items: []dedupe.Record{}, Next: cursor}
	if cursor == dedupe.TailEnd {
		db.mu.Lock()
		page.Next = db.lastRef.String()
		closed := db.closed
		db.mu.Unlock()
		if closed {
			return page, dedupe.ErrClosed
		}
		return page, nil
	}
	var after event.Ref
	if cursor != "" {
		var err error
		if after, err = event.ParseRef(cursor); err != nil {
			return page, fmt.Errorf("%w: %w", dedupe.ErrCursor, err)
		}
	}
	err := db.steady(func(txn *badger.Txn) error {
		page.Items, page.Next = page.Items[:0], cursor
		refs, err := db.following(ctx, txn, after, min(max(limit, 1), maxPage))
		for _, ref := range refs {
			ev, p, err := db.event(txn, ref)
			switch {
			case errors.Is(err, dedupe.ErrPruned):
				continue
			case err != nil:
				return err
			}
			rec, err := db.record(txn, ev, p)
			if err != nil {
				return err
			}
			page.Next = ref.String()
			rec.After = page.Next
			page.Items = append(page.Items, rec)
		}
		return err
	})
	if page.Next == "" { // nothing was ever accepted
		page.Next = event.Ref{}.String()
	}
	return page, err
}

// following lists up to limit refs after one, ascending, over all classes.
func (db *DB) following(ctx context.Context, txn *badger.Txn, after event.Ref, limit int) ([]event.Ref, error) {
	carried, err := carriedRefs(txn)
	if err != nil {
		return nil, err
	}
	var refs []event.Ref
	for _, ref := range carried {
		if ref.Compare(after) > 0 {
			refs = append(refs, ref)
		}
	}
	for _, c := range *db.classes.Load() {
		n := 0
		for _, t := range db.liveBuckets(txn, kindEvent, c, db.clock.now().UnixMilli()) {
			if t < c.metaT(after) || n >= limit {
				continue
			}
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			opt := badger.DefaultIteratorOptions
			opt.PrefetchValues = false
			opt.Prefix = append(bucketPrefix(kindEvent, c.n, t), subEvent)
			it := txn.NewIterator(opt)
			for it.Seek(append(append([]byte(nil), opt.Prefix...), after[:]...)); it.Valid() && n < limit; it.Next() {
				if ref, _, ok := refOf(it.Item().Key()); ok && ref.Compare(after) > 0 {
					refs = append(refs, ref)
					n++
				}
			}
			it.Close()
		}
	}
	sort.Slice(refs, func(i, j int) bool { return refs[i].Compare(refs[j]) < 0 })
	out := refs[:0]
	for i, ref := range refs { // a carried body's event still stands at home
		if i == 0 || ref != refs[i-1] {
			out = append(out, ref)
		}
	}
	return out[:min(len(out), limit)], nil
}
