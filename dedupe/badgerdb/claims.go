package badgerdb

import (
	"errors"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/onceward/onceward/dedupe"
)

// findClaim is the claim that stands of a key: made by this batch, or earlier and
// not run out, or held by an event that is open still.
func (c *commit) findClaim(k dedupe.Key) (dedupe.Claim, bool, error) {
	for _, cl := range c.staged {
		if cl.Key == k {
			return cl, true, nil
		}
	}
	if cl, ok := c.claims[k]; ok && seesBatch {
		return cl, true, nil
	}
	newest, found, err := c.newestClaim(k)
	if err != nil || !found || c.now.Before(newest.Expires) || c.db.doubtful(&newest, c.now) {
		return newest, found, err
	}
	held, err := c.db.heldOpen(c.txn, newest)
	return newest, held, err
}

// doubtful reports whether a claim has run out only by a clock that started far
// ahead: while that is held to be wrong, the claim stands.
func (db *DB) doubtful(cl *dedupe.Claim, now time.Time) bool {
	return now.Before(db.holdUntil) && cl.Expires.After(db.holdMark)
}

// newestClaim is the last claim made of a key. An earlier one may stand in a
// later bucket, because it was carried there, and no longer counts.
func (c *commit) newestClaim(k dedupe.Key) (newest dedupe.Claim, found bool, err error) {
	txn := c.txn
	if !seesBatch {
		txn = c.db.kv.NewTransaction(false)
		defer txn.Discard()
	}
	for _, p := range c.db.claims {
		key := claimKey(p, k)
		val, err := get(txn, key)
		if errors.Is(err, dedupe.ErrNotFound) {
			continue
		}
		if err != nil {
			return newest, false, err
		}
		cl, err := decodeClaim(key, val)
		if err != nil {
			return newest, false, err
		}
		if !found || cl.Ref.Compare(newest.Ref) > 0 {
			newest, found = cl, true
		}
	}
	return newest, found, nil
}

// claim makes a claim, in the bucket of its end.
func (c *commit) claim(cl dedupe.Claim) error {
	p := uint32(cl.Expires.UnixMilli() / c.db.cfg.ClaimBucket.Milliseconds())
	key := claimKey(p, cl.Key)
	val := sealClaim(key, &cl)
	c.size += int64(len(key)+len(val)) + entrySize
	entry := badger.NewEntry(key, val)
	entry.ExpiresAt = c.db.farExpiry(c.now, cl.Window)
	if err := c.txn.SetEntry(entry); err != nil {
		return err
	}
	c.claims[cl.Key] = cl
	c.db.noteClaimBucket(p)
	return nil
}

// noteClaimBucket keeps the list of buckets that look-ups probe. mu is held.
func (db *DB) noteClaimBucket(p uint32) {
	i := len(db.claims)
	for i > 0 && db.claims[i-1] > p {
		i--
	}
	if i > 0 && db.claims[i-1] == p {
		return
	}
	db.claims = append(db.claims, 0)
	copy(db.claims[i+1:], db.claims[i:])
	db.claims[i] = p
}
