package badgerdb

import (
	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

const (
	// chunkSize is how a body is cut; each chunk is one value.
	chunkSize = 512 << 10
	// aheadSize is the body size above which chunks go ahead of the batch in
	// synced transactions of their own.
	aheadSize = 1 << 20
)

// body writes a request's bytes: with the batch, or ahead of it. It returns where
// they stand.
func (c *commit) body(cl class, ref event.Ref, body []byte) (at event.Slice, err error) {
	if offset, ok := c.pack.add(cl, ref, body); ok {
		return event.Slice{Request: c.pack.ref, Offset: offset}, nil
	}
	if err := c.putPack(); err != nil {
		return at, err
	}
	at.Request = ref
	if c.pack.begin(cl, ref, body) {
		return at, nil
	}
	if int64(len(body)) > c.db.ahead {
		return at, c.bodyAhead(cl, ref, body)
	}
	return at, c.putBody(cl, ref, body)
}

// putBody writes bytes under the ref of the first event that has some of them.
func (c *commit) putBody(cl class, ref event.Ref, body []byte) error {
	t := cl.bodyT(ref)
	for i := 0; i*chunkSize < len(body); i++ {
		key := bodyKey(cl.n, t, ref, uint16(i))
		val := sealCompressed(key, chunk(body, i))
		if err := c.set(key, val); err != nil {
			return err
		}
		c.db.addBody(key, val)
	}
	return nil
}

func chunk(body []byte, i int) []byte {
	return body[i*chunkSize : min(len(body), (i+1)*chunkSize)]
}

// bodyAhead writes chunks as synced transactions. They mean nothing until the
// batch with the event is committed.
func (c *commit) bodyAhead(cl class, ref event.Ref, body []byte) error {
	t := cl.bodyT(ref)
	txn := c.db.kv.NewTransaction(true)
	defer func() { txn.Discard() }()
	room := c.db.maxBatch
	for i := 0; i*chunkSize < len(body); i++ {
		key := bodyKey(cl.n, t, ref, uint16(i))
		val := sealCompressed(key, chunk(body, i))
		c.db.addBody(key, val)
		if room -= int64(len(val)); room < 0 {
			dedupe.Failpoint("ahead.chunk")
			if err := c.db.commitTxn(txn); err != nil {
				return err
			}
			txn, room = c.db.kv.NewTransaction(true), c.db.maxBatch-int64(len(val))
		}
		if err := txn.Set(key, val); err != nil {
			return err
		}
	}
	if err := c.db.commitTxn(txn); err != nil {
		return err
	}
	dedupe.Failpoint("ahead.done")
	return nil
}
