package badgerdb

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"

	"github.com/dgraph-io/badger/v4"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

// maxFaults bounds a report; the last entry says that there are more.
const maxFaults = 1000

// Check reads everything: the tables' own checksums, the chain of heads, every
// record's checksum, every bucket's records against the heads, and every body
// against its event's hash.
func (db *DB) Check(ctx context.Context) (dedupe.CheckReport, error) {
	c := &check{db: db, ctx: ctx, report: dedupe.CheckReport{Faults: []dedupe.Fault{}}}
	c.tables()
	// Cuts are read before the snapshot: a bucket dropped meanwhile is not held
	// against it.
	err := db.view(func(txn *badger.Txn) error {
		c.txn = txn
		if err := c.heads(); err != nil {
			return err
		}
		for _, cl := range *db.classes.Load() {
			for _, kind := range []byte{kindEvent, kindAttempt, kindBody, kindActs} {
				if err := c.kind(kind, cl); err != nil {
					return err
				}
			}
		}
		if err := c.claims(); err != nil {
			return err
		}
		if err := c.keys(); err != nil {
			return err
		}
		return c.notes()
	})
	return c.report, err
}

type check struct {
	db     *DB
	ctx    context.Context
	txn    *badger.Txn
	report dedupe.CheckReport
	want   map[partKey]map[uint64]headPart // by bucket and batch
}

func (c *check) fault(where, what string) {
	switch n := len(c.report.Faults); {
	case n < maxFaults:
		c.report.Faults = append(c.report.Faults, dedupe.Fault{Where: where, What: what})
	case n == maxFaults:
		c.report.Faults = append(c.report.Faults, dedupe.Fault{Where: "report", What: "more faults are not listed"})
	}
}

// tables verifies the files of all tables. One that is compacted away meanwhile
// is passed over.
func (c *check) tables() {
	for _, info := range c.db.kv.Tables() {
		if path, err := c.db.verifyLive(info.ID); err != nil {
			c.fault(path, err.Error())
		}
	}
}

// each calls f for every record below a prefix.
func (c *check) each(prefix []byte, f func(key, val []byte)) error {
	opt := badger.DefaultIteratorOptions
	opt.Prefix = prefix
	it := c.txn.NewIterator(opt)
	defer it.Close()
	n := 0
	for it.Rewind(); it.Valid(); it.Next() {
		if n++; n%4096 == 0 && c.db.over(c.ctx) != nil {
			return c.db.over(c.ctx)
		}
		key := it.Item().KeyCopy(nil)
		val, err := it.Item().ValueCopy(nil)
		if err != nil {
			c.fault(keyText(key), err.Error())
			continue
		}
		f(key, val)
	}
	return nil
}

// heads checks the chain and notes what each head says of its records.
func (c *check) heads() error {
	c.want = map[partKey]map[uint64]headPart{}
	var prev head
	err := c.each([]byte{kindHead}, func(key, val []byte) {
		h, err := decodeHead(key, val)
		if err != nil {
			c.fault(keyText(key), err.Error())
			return
		}
		c.report.Heads++
		if prev.no != 0 && h.no != prev.no+1 {
			c.fault(keyText(key), fmt.Sprintf("batches %d to %d are missing before it", prev.no+1, h.no-1))
		} else if prev.no != 0 && h.prev != prev.hash {
			c.fault(keyText(key), "does not follow the head before it")
		} else if prev.no != 0 && h.writer == prev.writer && h.acts != prev.acts+h.acted {
			c.fault(keyText(key), fmt.Sprintf("counts %d acts after %d and %d of its own", h.acts, prev.acts, h.acted))
		}
		prev = h
		for _, p := range h.parts {
			k := partKey{p.kind, p.class, p.t}
			if c.want[k] == nil {
				c.want[k] = map[uint64]headPart{}
			}
			c.want[k][h.no] = p
		}
	})
	return err
}

type found struct {
	count uint64
	sum   hash.Hash
}

// kind checks every kept bucket of a kind and class.
func (c *check) kind(kind byte, cl class) error {
	seen := map[uint32]bool{}
	for _, t := range c.db.liveBuckets(c.txn, kind, cl, 1<<61) {
		seen[t] = true
		if err := c.bucket(kind, cl, t); err != nil {
			return err
		}
	}
	first := c.db.cuts.Load().of(kind, cl.n)
	for k, batches := range c.want {
		if k.kind == kind && k.class == cl.n && k.t >= first && !seen[k.t] {
			c.fault(fmt.Sprintf("bucket %c%d.%d", kind, k.class, k.t), fmt.Sprintf("missing with the records of %d batches", len(batches)))
		}
	}
	return nil
}

func (c *check) bucket(kind byte, cl class, t uint32) error {
	got := map[uint64]*found{}
	err := c.each(bucketPrefix(kind, cl.n, t), func(key, val []byte) {
		batch, fixed, err := c.one(key, val)
		if err != nil {
			c.fault(keyText(key), err.Error())
			return
		}
		if !fixed {
			return
		}
		f := got[batch]
		if f == nil {
			f = &found{sum: sha256.New()}
			got[batch] = f
		}
		f.count++
		sumRecord(f.sum, key, val)
	})
	if err != nil {
		return err
	}
	if t < c.db.cuts.Load().of(kind, cl.n) {
		return nil // dropped meanwhile
	}
	for no, want := range c.want[partKey{kind, cl.n, t}] {
		f := got[no]
		switch {
		case f == nil || f.count != want.count:
			n := uint64(0)
			if f != nil {
				n = f.count
			}
			c.fault(fmt.Sprintf("batch %d", no), fmt.Sprintf("%d of its %d %s records are there", n, want.count, kindName(kind)))
		case [32]byte(f.sum.Sum(nil)) != want.sum:
			c.fault(fmt.Sprintf("batch %d", no), fmt.Sprintf("its %s records are not the ones written", kindName(kind)))
		}
		delete(got, no)
	}
	for no := range got {
		if no >= c.db.cuts.Load().heads {
			c.fault(fmt.Sprintf("batch %d", no), fmt.Sprintf("has %s records that no head names", kindName(kind)))
		}
	}
	return nil
}

func kindName(kind byte) string {
	return map[byte]string{kindEvent: "event", kindAttempt: "attempt", kindBody: "body", kindActs: "act"}[kind]
}

// one checks a record of a bucket; fixed says that heads cover it.
func (c *check) one(key, val []byte) (batch uint64, fixed bool, err error) {
	switch key[0] {
	case kindAttempt:
		c.report.Attempts++
		a, err := decodeAttempt(key, val)
		return a.batch, true, err
	case kindActs:
		n, batch, err := checkActs(key, val)
		c.report.Acts += n
		return batch, true, err
	case kindBody:
		_, err = unseal(key, val)
		return 0, false, err
	}
	sub := key[bucketSize]
	if sub != subEvent && sub != subCarried {
		_, err = unseal(key, val)
		return 0, false, err
	}
	ref, _, ok := refOf(key)
	if !ok {
		return 0, false, damaged(key, "malformed key")
	}
	c.report.Events++
	ev, batch, err := decodeEvent(key, val, ref)
	if err == nil {
		err = c.event(&ev)
	}
	return batch, sub == subEvent, err
}

// event checks that an event can be found as readers do, and its body. What the
// snapshot does not show, because it was dropped or carried since, is looked for
// as it is now.
func (c *check) event(ev *event.Event) error {
	err := c.readable(c.txn, ev)
	if err != nil && !errors.Is(err, dedupe.ErrPruned) {
		err = c.db.steady(func(txn *badger.Txn) error { return c.readable(txn, ev) })
	}
	if errors.Is(err, dedupe.ErrPruned) {
		return nil
	}
	if err == nil {
		c.report.Bodies++
	}
	return err
}

// readable reads an event with all that belongs to it.
func (c *check) readable(txn *badger.Txn, ev *event.Event) error {
	_, p, err := c.db.find(txn, ev.Ref)
	if errors.Is(err, dedupe.ErrNotFound) {
		err = c.db.absent(txn, ev.Ref)
	}
	if err != nil {
		return fmt.Errorf("event %s can't be looked up: %w", ev.Ref, err)
	}
	if _, err := c.db.record(txn, *ev, p); err != nil {
		return err
	}
	_, err = c.db.body(txn, ev, p)
	return err
}

func (c *check) claims() error {
	return c.each([]byte{kindClaim}, func(key, val []byte) {
		cl, err := decodeClaim(key, val)
		if err != nil {
			c.fault(keyText(key), err.Error())
			return
		}
		c.report.Claims++
		if binary.BigEndian.Uint32(key[1:]) < c.db.cuts.Load().claims {
			return
		}
		_, _, err = c.db.find(c.txn, cl.Ref)
		if errors.Is(err, dedupe.ErrNotFound) {
			err = c.db.absent(c.txn, cl.Ref)
		}
		if err != nil && !errors.Is(err, dedupe.ErrPruned) {
			c.fault(keyText(key), "its event: "+err.Error())
		}
	})
}

func (c *check) notes() error {
	return c.each([]byte{kindNote}, func(key, val []byte) {
		if _, err := decodeNote(key, val); err != nil {
			c.fault(keyText(key), err.Error())
		}
	})
}
