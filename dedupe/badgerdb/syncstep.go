package badgerdb

import (
	"errors"

	"github.com/dgraph-io/badger/v4"

	"github.com/onceward/onceward/dedupe"
)

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
		return c.set(key, sealCompressed(key, s.Data))
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
		val := sealCompressed(key, chunk(body, n))
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
