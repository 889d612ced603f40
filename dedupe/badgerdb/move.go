package badgerdb

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
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

// group is the events of one request, whose refs follow each other. Its body
// is put together from their parts.
type group struct {
	*Source
	home    bool // of events where they were accepted
	request event.Ref
	until   time.Time
	body    []byte
	has     bool // some of it is there
}

// add gives an event with all that belongs to it. Damage of its own is told
// and not returned.
func (g *group) add(ev event.Event, p place) error {
	if ev.Body.Request != g.request {
		if err := g.end(); err != nil {
			return err
		}
		*g = group{Source: g.Source, home: g.home, request: ev.Body.Request}
	}
	rec, err := g.db.record(g.txn, ev, p)
	if err != nil {
		return err
	}
	kept := ev.Ref.Time()
	if p.sub == subCarried {
		kept = time.UnixMilli(int64(p.t) * p.class.meta)
	}
	gone, err := g.part(&ev, p, &rec, kept)
	if err != nil {
		return err
	}
	batch, _, err := g.actsOf(p.batch)
	if err != nil {
		return err
	}
	g.seen(ev.Ref)
	if err := g.put(&dedupe.MovedEvent{Event: ev, Batch: batch, Keep: p.class.keep, Kept: kept, BodyGone: gone, Tally: rec.Tally}); err != nil {
		return err
	}
	for _, d := range rec.Deliveries {
		if d.State == event.Leased {
			d.State = event.Pending
		}
		if d.State.Open() && !g.db.held.IsZero() && ev.Ref.Compare(g.db.held) <= 0 {
			d.DueAt = dedupe.HeldUntil
		}
		d.DueAt, d.OpenedAt, d.UpdatedAt = whole(d.DueAt), whole(d.OpenedAt), whole(d.UpdatedAt)
		if err := g.put(&dedupe.MovedDelivery{Delivery: d}); err != nil {
			return err
		}
	}
	return g.attempts(ev.Ref, p)
}

// part adds an event's bytes to the body, or says that they are gone.
func (g *group) part(ev *event.Event, p place, rec *dedupe.Record, kept time.Time) (gone bool, err error) {
	if rec.BodyGone {
		return true, nil
	}
	b, err := g.db.body(g.txn, ev, p)
	if errors.Is(err, dedupe.ErrPruned) {
		return true, nil
	}
	if err == nil && g.home && g.given[ev.Body.Request] {
		err = fmt.Errorf("%w: parts of its body stand in two places", dedupe.ErrDamaged)
	}
	if err != nil {
		return true, g.wrong("body of event "+ev.Ref.String(), err)
	}
	end := ev.Body.Offset + ev.Body.Length
	if n := end - int64(len(g.body)); n > 0 {
		g.body = append(g.body, make([]byte, n)...)
	}
	copy(g.body[ev.Body.Offset:end], b)
	if p.bodyT != p.class.bodyT(ev.Body.Request) {
		kept = time.UnixMilli(int64(p.bodyT) * p.class.body)
	}
	if until := kept.Add(p.class.keep.Body); until.After(g.until) {
		g.until = until
	}
	g.has = true
	return false, nil
}

// end gives the body, if there is one.
func (g *group) end() error {
	if !g.has {
		return nil
	}
	g.has = false
	return g.put(&dedupe.MovedBody{Request: g.request, Until: g.until, Data: g.body})
}

func (g *group) attempts(ref event.Ref, p place) error {
	var found []recorded
	if err := eachAttempt(g.txn, g.db.attemptBuckets(p.class, ref), ref, func(r recorded) { found = append(found, r) }); err != nil {
		return g.wrong("attempts of event "+ref.String(), err)
	}
	slices.SortFunc(found, func(a, b recorded) int { return a.before(&b) })
	for i := range found {
		batch, writer, err := g.actsOf(found[i].batch)
		if err != nil {
			return err
		}
		if err := g.put(&dedupe.MovedAttempt{Attempt: found[i].Attempt, Order: i, Writer: writer, Batch: batch}); err != nil {
			return err
		}
	}
	return nil
}

// whole is a time to the millisecond.
func whole(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return time.UnixMilli(t.UnixMilli())
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

func movedPath(dir string) string { return filepath.Join(dir, "moved") }

// movedMark says where a ledger goes on.
type movedMark struct {
	To string    `json:"to"`
	At time.Time `json:"at"`
}

// MarkMoved makes gateways refuse the ledger: it goes on elsewhere, as to says.
func (s *Source) MarkMoved(to string) error {
	b, err := json.Marshal(movedMark{to, s.db.cfg.Now().UTC()})
	if err != nil {
		return err
	}
	f, err := os.OpenFile(movedPath(s.db.cfg.Dir), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("mark the ledger as moved: %w", err)
	}
	_, err = f.Write(append(b, '\n'))
	if err = errors.Join(err, f.Sync(), f.Close(), syncDir(s.db.cfg.Dir)); err != nil {
		return fmt.Errorf("mark the ledger as moved: %w", err)
	}
	return nil
}

// notMoved is an error when the ledger goes on elsewhere.
func notMoved(dir string) error {
	path := movedPath(dir)
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var m movedMark
	if err == nil {
		err = json.Unmarshal(b, &m)
	}
	if err != nil {
		return fmt.Errorf("open ledger %q: %w; %s can't be read: %w", dir, dedupe.ErrMoved, path, err)
	}
	return fmt.Errorf("open ledger %q: %w to %s at %s and goes on there; to go on with this one as it was then, and never with both, remove %s",
		dir, dedupe.ErrMoved, m.To, m.At.Format(time.RFC3339), path)
}
