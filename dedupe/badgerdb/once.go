package badgerdb

import (
	"errors"

	"github.com/dgraph-io/badger/v4"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

// spent reports whether an event's body is gone because it is of no more use.
func (db *DB) spent(txn *badger.Txn, ev *event.Event, p place) (bool, error) {
	if !p.class.keep.Once {
		return false, nil
	}
	t, err := readTally(txn, eventKey(p.class.n, p.t, subTally, ev.Ref))
	if err != nil {
		return false, err
	}
	ds, err := db.deliveries(txn, ev, p, t.extra)
	return p.class.keep.Spent(ds), err
}

// spend deletes the body of an event whose delivery d was just closed, if no
// other delivery and no other event of the same request has a use for it.
func (c *commit) spend(at place, d *event.Delivery) error {
	if !at.class.keep.Once || d.State != event.Delivered && d.State != event.Cancelled {
		return nil
	}
	ev, p, err := c.db.find(c.txn, d.Event)
	if errors.Is(err, dedupe.ErrNotFound) || errors.Is(err, dedupe.ErrDamaged) {
		return nil // retention has it
	}
	if err != nil || ev.Body.Length == 0 {
		return err
	}
	spent, err := c.db.spent(c.txn, &ev, p)
	if errors.Is(err, dedupe.ErrDamaged) {
		return nil // it stays: another delivery of the event can't be read
	}
	if err != nil || !spent {
		return err
	}
	c.after = append(c.after, func() { c.db.hot.forget(d.Event) })
	places, err := c.sharers(&ev, p)
	if err != nil {
		return err
	}
	for _, t := range places {
		if err := c.dropBody(at.class, t, ev.Body.Request); err != nil {
			return err
		}
	}
	return nil
}

// sharers are the buckets that hold the body of ev's request, none while another
// of its events has a use for it, or may have. The events of a request have refs
// that follow each other.
func (c *commit) sharers(ev *event.Event, p place) ([]uint32, error) {
	out := []uint32{p.bodyT}
	look := func(ref event.Ref) (shares, done bool, err error) {
		sib, at, err := c.db.find(c.txn, ref)
		switch {
		case errors.Is(err, dedupe.ErrNotFound):
			// One that retention took says nothing of those after it.
			return p.class.metaT(ref) < c.db.cuts.Load().of(kindEvent, p.class.n), false, nil
		case errors.Is(err, dedupe.ErrDamaged):
			return true, false, nil
		case err != nil || sib.Body.Request != ev.Body.Request:
			return false, false, err
		}
		if done, err = c.db.spent(c.txn, &sib, at); errors.Is(err, dedupe.ErrDamaged) {
			return true, false, nil
		}
		if sib.Body.Length > 0 && at.bodyT != p.bodyT {
			out = append(out, at.bodyT)
		}
		return true, done, err
	}
	for ref := ev.Ref.Next(0); ; ref = ref.Next(0) { // those behind it first: they are likelier open
		shares, done, err := look(ref)
		if err != nil || shares && !done {
			return nil, err
		}
		if !shares {
			break
		}
	}
	for ref := ev.Body.Request; ref.Compare(ev.Ref) < 0; ref = ref.Next(0) {
		if _, done, err := look(ref); err != nil || !done {
			return nil, err
		}
	}
	return out, nil
}

// dropBody deletes the chunks of a request's body in one bucket.
func (c *commit) dropBody(cl class, t uint32, request event.Ref) error {
	if t < c.db.cuts.Load().of(kindBody, cl.n) {
		return nil
	}
	opt := badger.DefaultIteratorOptions
	opt.PrefetchValues = false
	opt.Prefix = append(bucketPrefix(kindBody, cl.n, t), request[:]...)
	it := c.txn.NewIterator(opt)
	var keys [][]byte
	var size int64
	for it.Rewind(); it.Valid(); it.Next() {
		keys = append(keys, it.Item().KeyCopy(nil))
		size += int64(len(it.Item().Key())) + it.Item().ValueSize()
	}
	it.Close()
	for _, key := range keys {
		c.size += int64(len(key)) + entrySize
		if err := c.txn.Delete(key); err != nil {
			return err
		}
	}
	if c.db.counted(&cl) {
		c.db.bodies[partKey{kindBody, cl.n, t}] -= size
	}
	return nil
}
