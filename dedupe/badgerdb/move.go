package badgerdb

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

// Source is a ledger whose gateway is stopped, being read whole for a move. It
// is opened as at a start, so that attempts that were cut are recorded; nothing
// else in it changes.
type Source struct {
	db *DB

	txn   *badger.Txn
	fault func(dedupe.Fault) error
	put   func(dedupe.Moved) error
	stop  error           // of fault: nothing more is read
	heads map[uint64]head // those read last
	ends  map[uint64]*dedupe.MovedWriter
	given map[event.Ref]bool // bodies of carried events
}

// OpenSource opens the ledger in cfg.Dir, which must be there, also when it was
// moved before. No gateway can open it until Close.
func OpenSource(ctx context.Context, cfg Config) (*Source, error) {
	cfg.fill()
	if _, err := os.Stat(ledgerDir(cfg.Dir)); err != nil {
		return nil, fmt.Errorf("no ledger in %q: %w", cfg.Dir, err)
	}
	db, err := open(cfg)
	if err != nil {
		return nil, err
	}
	db.idle = true
	if err := db.recordUnknown(ctx); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &Source{db: db}, nil
}

// ID names the ledger as it stands: with another one, or more in it, it changes.
func (s *Source) ID() string {
	return fmt.Sprintf("%015x/%d/%d", s.db.writer, s.db.events, s.db.nextAct)
}

// Events is how many events were ever accepted, for a measure of progress.
func (s *Source) Events() uint64 { return s.db.events }

// Check is the ledger's own; see dedupe.Upkeep.
func (s *Source) Check(ctx context.Context) (dedupe.CheckReport, error) { return s.db.Check(ctx) }

// Close gives the ledger back.
func (s *Source) Close() error { return s.db.Close() }

// Each gives every record to put, always in the same order. What is damaged is
// told to fault: with its nil the record is left out.
func (s *Source) Each(ctx context.Context, fault func(dedupe.Fault) error, put func(dedupe.Moved) error) error {
	return s.db.view(func(txn *badger.Txn) error {
		s.txn, s.fault, s.stop = txn, fault, nil
		s.heads, s.ends, s.given = map[uint64]head{}, map[uint64]*dedupe.MovedWriter{}, map[event.Ref]bool{}
		s.put = func(m dedupe.Moved) error {
			if err := ctx.Err(); err != nil {
				return err
			}
			return put(m)
		}
		for _, f := range [...]func() error{s.claims, s.carried, s.events, s.acts, s.notes, s.keys, s.writers} {
			if err := f(); err != nil {
				return err
			}
		}
		return nil
	})
}

// wrong tells of a record that is damaged; other errors it gives back.
func (s *Source) wrong(where string, err error) error {
	if s.stop != nil || !errors.Is(err, dedupe.ErrDamaged) {
		return err
	}
	s.stop = s.fault(dedupe.Fault{Where: where, What: err.Error()})
	return s.stop
}

// each calls f for every record below a prefix.
func (s *Source) each(prefix []byte, f func(key, val []byte) error) error {
	opt := badger.DefaultIteratorOptions
	opt.Prefix = prefix
	it := s.txn.NewIterator(opt)
	defer it.Close()
	for it.Rewind(); it.Valid(); it.Next() {
		key := it.Item().KeyCopy(nil)
		val, err := it.Item().ValueCopy(nil)
		if err != nil {
			err = engineErr(key, err)
		} else {
			err = f(key, val)
		}
		if err != nil {
			if err = s.wrong(keyText(key), err); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *Source) claims() error {
	for _, p := range s.db.claims {
		if p < s.db.cuts.Load().claims {
			continue // about to be dropped
		}
		err := s.each(claimPrefix(p), func(key, val []byte) error {
			c, err := decodeClaim(key, val)
			if err != nil {
				return err
			}
			if over, err := s.overruled(p, &c); err != nil || over {
				return err
			}
			return s.put(&dedupe.MovedClaim{Claim: c})
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// overruled reports whether another bucket has the claim that counts: a later
// one of its key, or the same, carried on.
func (s *Source) overruled(p uint32, c *dedupe.Claim) (bool, error) {
	for _, other := range s.db.claims {
		if other == p || other < s.db.cuts.Load().claims {
			continue
		}
		key := claimKey(other, c.Key)
		val, err := get(s.txn, key)
		if errors.Is(err, dedupe.ErrNotFound) {
			continue
		}
		if err != nil {
			return false, err
		}
		o, err := decodeClaim(key, val)
		if err != nil {
			return false, err
		}
		if n := o.Ref.Compare(c.Ref); n > 0 || n == 0 && other > p {
			return true, nil
		}
	}
	return false, nil
}

// carried gives the events that retention left behind because they were open.
func (s *Source) carried() error {
	refs, err := carriedRefs(s.txn)
	if err != nil {
		return err
	}
	g := group{Source: s}
	for _, ref := range refs {
		ev, p, err := s.db.find(s.txn, ref)
		if errors.Is(err, dedupe.ErrNotFound) || err == nil && p.sub != subCarried {
			continue // only its body was carried, or it is gone
		}
		if err == nil {
			s.given[ev.Body.Request] = true
			err = g.add(ev, p)
		}
		if err != nil {
			if err = s.wrong("event "+ref.String(), err); err != nil {
				return err
			}
		}
	}
	return g.end()
}

func (s *Source) events() error {
	for _, c := range *s.db.classes.Load() {
		g := group{Source: s, home: true}
		for _, t := range s.db.liveBuckets(s.txn, kindEvent, c, 1<<62) {
			err := s.each(append(bucketPrefix(kindEvent, c.n, t), subEvent), func(key, val []byte) error {
				ref, _, ok := refOf(key)
				if !ok {
					return damaged(key, "malformed key")
				}
				ev, batch, err := decodeEvent(key, val, ref)
				if err != nil {
					return err
				}
				p := place{class: c, t: t, sub: subEvent, batch: batch}
				if p.bodyT, err = s.db.bodyBucket(s.txn, &ev, c); err != nil {
					return err
				}
				return g.add(ev, p)
			})
			if err != nil {
				return err
			}
		}
		if err := g.end(); err != nil {
			return err
		}
	}
	return nil
}

// headBy is a batch's head, the zero one when it isn't kept.
func (s *Source) headBy(no uint64) (head, error) {
	if h, ok := s.heads[no]; ok {
		return h, nil
	}
	if len(s.heads) > 4096 {
		clear(s.heads)
	}
	h, err := s.db.readHead(s.txn, no)
	if errors.Is(err, dedupe.ErrNotFound) {
		h, err = head{}, nil
	}
	if err == nil {
		s.heads[no] = h
	}
	return h, err
}

// actsOf is the first act of a batch, and in whose log.
func (s *Source) actsOf(no uint64) (first int64, writer uint64, err error) {
	h, err := s.headBy(no)
	if err != nil || h.acted == 0 {
		return dedupe.NoBatch, h.writer, err
	}
	return int64(h.acts - h.acted), h.writer, nil
}

func (s *Source) writer(id uint64) *dedupe.MovedWriter {
	if s.ends[id] == nil {
		s.ends[id] = &dedupe.MovedWriter{Writer: id}
	}
	return s.ends[id]
}

// seen notes that a writer accepted an event.
func (s *Source) seen(ref event.Ref) {
	w := s.writer(ref.Writer())
	if w.First.IsZero() || ref.Compare(w.First) < 0 {
		w.First = ref
	}
	if ref.Compare(w.Last) > 0 {
		w.Last = ref
	}
}

func (s *Source) acts() error {
	cut := s.db.cuts.Load().of(kindActs, 0)
	next := map[uint64]uint64{}
	return s.each([]byte{kindActs, 0}, func(key, val []byte) error {
		if bucketNumber(key) < cut {
			return nil
		}
		r, err := decodeActs(key, val)
		if err != nil {
			return err
		}
		m := &dedupe.MovedActs{Writer: r.writer, First: r.first}
		if err := r.each(key, func(_ uint64, leaf []byte) bool { m.Leaves = append(m.Leaves, bytes.Clone(leaf)); return true }); err != nil {
			return err
		}
		for i, leaf := range m.Leaves {
			a, err := dedupe.DecodeAct(leaf)
			if err != nil {
				return damaged(key, fmt.Sprintf("act %d: %v", r.first+uint64(i), err))
			}
			m.At = a.At
		}
		if want, ok := next[r.writer]; ok && want != r.first {
			if err := s.wrong(keyText(key), missingAct(r.writer, want)); err != nil {
				return err
			}
		}
		next[r.writer] = r.first + uint64(len(m.Leaves))
		w := s.writer(r.writer)
		w.Acts = max(w.Acts, next[r.writer])
		h, err := s.headBy(r.batch)
		if err != nil {
			return err
		}
		s.ofHead(m, &h)
		return s.put(m)
	})
}

// ofHead adds what a batch's head says of its events.
func (s *Source) ofHead(m *dedupe.MovedActs, h *head) {
	if h.count == 0 {
		return
	}
	m.Lo, m.Hi, m.Events = h.first, h.last, h.count
	for _, p := range h.parts {
		keep := s.db.class(p.class).keep
		until := time.UnixMilli(h.at).Add(min(keep.Meta, keep.Body))
		if p.kind == kindEvent && (m.KeepUntil.IsZero() || until.Before(m.KeepUntil)) {
			m.KeepUntil = until
		}
	}
}

func (s *Source) notes() error {
	return s.each([]byte{kindNote}, func(key, val []byte) error {
		n, err := decodeNote(key, val)
		if err != nil {
			return err
		}
		if n.Kind == noteLedger && n.Name == noteHeld {
			return nil // the deliveries say it
		}
		n.UpdatedAt = whole(n.UpdatedAt)
		return s.put(&dedupe.MovedNote{Note: n})
	})
}

func (s *Source) keys() error {
	for _, p := range *s.db.syncs.Load() {
		err := s.each(syncPrefix(p), func(key, val []byte) error {
			k, err := s.db.openSyncKey(key, val)
			if err != nil {
				return err
			}
			chunks, err := s.chunks(p, &k)
			if err != nil {
				return err
			}
			if err := s.put(&dedupe.MovedKey{SyncKey: k}); err != nil {
				return err
			}
			for i := range chunks {
				if err := s.put(&dedupe.MovedChunk{Key: k.Key, Token: k.Token, Chunk: i, Data: chunks[i]}); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// chunks reads a long answer and holds it against its hash.
func (s *Source) chunks(p uint32, k *dedupe.SyncKey) (out [][]byte, err error) {
	if k.Answer.Status == 0 {
		return nil, nil
	}
	body := k.Answer.Body
	for i := range k.Answer.Chunks() {
		key := spoolKey(p, k.Key, k.Token, i)
		val, err := get(s.txn, key)
		if errors.Is(err, dedupe.ErrNotFound) {
			err = damaged(key, "missing")
		}
		var part []byte
		if err == nil {
			part, err = unseal(key, val)
		}
		if err != nil {
			return nil, err
		}
		out, body = append(out, part), append(body, part...)
	}
	if event.HashOf(body) != k.Answer.Hash {
		return nil, fmt.Errorf("%w: the answer to key %x does not have its hash", dedupe.ErrDamaged, k.Key)
	}
	return out, nil
}

// writers gives what was seen of each writer, and what this one says itself.
func (s *Source) writers() error {
	own := s.writer(s.db.writer)
	own.Mark, own.Batches, own.Accepted, own.Acts = s.db.head.time(), s.db.head.no, s.db.events, max(own.Acts, s.db.nextAct)
	if !own.First.IsZero() && s.db.lastRef.Compare(own.Last) > 0 {
		own.Last = s.db.lastRef
	}
	ids := make([]uint64, 0, len(s.ends))
	for id := range s.ends {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		if err := s.put(s.ends[id]); err != nil {
			return err
		}
	}
	return nil
}
