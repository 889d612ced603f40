package badgerdb

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"strings"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

// maxCandidates bounds a list of refs taken from an index before a listing
// falls back to scanning.
const maxCandidates = 100_000

// maxPage bounds a page whatever was asked for.
const maxPage = 1000

// clockSlack is how far ledger time and the wall clock may have been apart: a
// listing from a moment on stops looking this much earlier.
const clockSlack = 48 * time.Hour

// newest yields refs in descending order from one place.
type newest interface {
	peek() (event.Ref, bool)
	next()
	close()
}

// refList is a newest over a sorted list.
type refList []event.Ref

func (l *refList) peek() (event.Ref, bool) {
	if len(*l) == 0 {
		return event.Ref{}, false
	}
	return (*l)[0], true
}
func (l *refList) next()  { *l = (*l)[1:] }
func (l *refList) close() {}

// classScan is a newest over the event records of a class, bucket by bucket, or
// over the entries of an indexed field's value.
type classScan struct {
	txn     *badger.Txn
	class   class
	kind    []byte   // what of a bucket: subEvent, or a fieldPrefix
	buckets []uint32 // left to do, newest last
	below   event.Ref
	it      *badger.Iterator
}

func (s *classScan) peek() (event.Ref, bool) {
	for {
		if s.it == nil {
			if len(s.buckets) == 0 {
				return event.Ref{}, false
			}
			s.open(s.buckets[len(s.buckets)-1])
			s.buckets = s.buckets[:len(s.buckets)-1]
		}
		if s.it.Valid() {
			var ref event.Ref
			if key := s.it.Item().Key(); len(key) == bucketSize+len(s.kind)+len(ref) {
				copy(ref[:], key[bucketSize+len(s.kind):])
				return ref, true
			}
		}
		s.close()
	}
}

// open stands on the newest event of a bucket that is below s.below.
func (s *classScan) open(t uint32) {
	opt := badger.DefaultIteratorOptions
	opt.Reverse, opt.PrefetchValues = true, false
	opt.Prefix = append(bucketPrefix(kindEvent, s.class.n, t), s.kind...)
	s.it = s.txn.NewIterator(opt)
	seek := append([]byte(nil), opt.Prefix...)
	if s.below.IsZero() || s.class.metaT(s.below) > t {
		s.it.Seek(append(seek, 0xff))
		return
	}
	at := append(seek, s.below[:]...)
	s.it.Seek(at)
	if s.it.Valid() && string(s.it.Item().Key()) == string(at) {
		s.it.Next()
	}
}

func (s *classScan) next() { s.it.Next() }

func (s *classScan) close() {
	if s.it != nil {
		s.it.Close()
		s.it = nil
	}
}

// merged yields the refs of several places in one descending order.
type merged []newest

func (m merged) next() (event.Ref, bool) {
	var best event.Ref
	from := -1
	for i, s := range m {
		if ref, ok := s.peek(); ok && (from < 0 || ref.Compare(best) > 0) {
			best, from = ref, i
		}
	}
	if from < 0 {
		return best, false
	}
	for _, s := range m { // the same ref may stand in two places while a bucket is carried
		if ref, ok := s.peek(); ok && ref == best {
			s.next()
		}
	}
	return best, true
}

func (m merged) close() {
	for _, s := range m {
		s.close()
	}
}

// walk yields the refs that a filter may select, newest first, below a
// cursor: from an index where one fits, else all.
func (db *DB) walk(txn *badger.Txn, f dedupe.Filter, below event.Ref) (merged, error) {
	if refs, ok, err := db.candidates(txn, f); err != nil || ok {
		return merged{descending(refs, below)}, err
	}
	carried, err := carriedRefs(txn)
	if err != nil {
		return nil, err
	}
	m := merged{descending(carried, below)} // they are few, and in no index of fields
	kind := []byte{subEvent}
	if f.Field != "" {
		kind = fieldPrefix(f.Field, f.Value)
	}
	for _, c := range *db.classes.Load() {
		m = append(m, &classScan{txn: txn, class: c, kind: kind, below: below,
			buckets: db.liveBuckets(txn, kindEvent, c, db.clock.now().UnixMilli())})
	}
	return m, nil
}

func descending(refs []event.Ref, below event.Ref) *refList {
	sort.Slice(refs, func(i, j int) bool { return refs[i].Compare(refs[j]) > 0 })
	out := refList{}
	for i, r := range refs {
		if i > 0 && r == refs[i-1] || !below.IsZero() && r.Compare(below) >= 0 {
			continue
		}
		out = append(out, r)
	}
	return &out
}

// candidates lists every ref that an indexed part of the filter allows.
func (db *DB) candidates(txn *badger.Txn, f dedupe.Filter) ([]event.Ref, bool, error) {
	if f.ID != "" && f.Source != "" {
		return db.indexed(txn, f.Source, f.ID), true, nil
	}
	if f.Field != "" || f.State != event.Dead.String() && f.Status != event.StatusDead {
		return nil, false, nil
	}
	var refs []event.Ref
	for _, c := range *db.classes.Load() {
		for _, t := range db.liveBuckets(txn, kindEvent, c, 1<<62) {
			err := eachDead(txn, c, t, f.Target, func(_ string, ref event.Ref, _ event.Order) bool {
				refs = append(refs, ref)
				return len(refs) <= maxCandidates
			})
			if err != nil {
				return nil, false, err
			}
		}
	}
	return refs, len(refs) <= maxCandidates, nil
}

// visit calls f for the records a filter's unchanging part selects, newest
// first, until f returns false. It returns the ref to go on below, zero at
// the end.
func (db *DB) visit(ctx context.Context, f dedupe.Filter, below event.Ref, visit func(*dedupe.Record) bool) (event.Ref, error) {
	var at event.Ref
	err := db.view(func(txn *badger.Txn) error {
		refs, err := db.walk(txn, f, below)
		if err != nil {
			return err
		}
		defer refs.close()
		for n := 0; ; n++ {
			ref, ok := refs.next()
			if !ok || !f.From.IsZero() && ref.Time().Before(f.From.Add(-clockSlack)) {
				at = event.Ref{}
				return nil
			}
			if n >= db.cfg.ScanBudget || ctx.Err() != nil {
				return ctx.Err()
			}
			rec, err := db.listed(txn, f, ref)
			if err != nil {
				return err
			}
			if rec != nil && !visit(rec) {
				return nil
			}
			at = ref
		}
	})
	return at, err
}

// listed reads a record for a listing, nil when the filter's unchanging part
// does not select it.
func (db *DB) listed(txn *badger.Txn, f dedupe.Filter, ref event.Ref) (*dedupe.Record, error) {
	ev, p, err := db.find(txn, ref)
	if errors.Is(err, dedupe.ErrNotFound) {
		return nil, nil // dropped since the index was read
	}
	if err != nil {
		return nil, fmt.Errorf("event %s: %w", ref, err)
	}
	if !f.MatchEvent(&ev) {
		return nil, nil
	}
	rec, err := db.record(txn, ev, p)
	return &rec, err
}

// Events lists events, newest first.
func (db *DB) Events(ctx context.Context, f dedupe.Filter, cursor string, limit int) (dedupe.Page[dedupe.Record], error) {
	page := dedupe.Page[dedupe.Record]{Items: []dedupe.Record{}}
	below, _, err := parseCursor(cursor)
	if err != nil {
		return page, err
	}
	limit = min(limit, maxPage)
	at, err := db.visit(ctx, f, below, func(rec *dedupe.Record) bool {
		if len(page.Items) == limit {
			return false
		}
		if f.MatchRecord(rec) {
			page.Items = append(page.Items, *rec)
		}
		return true
	})
	if !at.IsZero() {
		page.Next = at.String()
	}
	return page, err
}

// Deliveries lists deliveries, newest event first.
func (db *DB) Deliveries(ctx context.Context, f dedupe.Filter, cursor string, limit int) (dedupe.Page[dedupe.DeliveryRow], error) {
	page := dedupe.Page[dedupe.DeliveryRow]{Items: []dedupe.DeliveryRow{}}
	below, skip, err := parseCursor(cursor)
	if err != nil {
		return page, err
	}
	limit = min(limit, maxPage)
	inside := below
	if skip != "" { // the page before ended inside this event
		below = below.Next(0)
	}
	full := ""
	at, err := db.visit(ctx, f, below, func(rec *dedupe.Record) bool {
		if rec.Event.Ref != inside {
			skip = ""
		}
		for i := range rec.Deliveries {
			d := &rec.Deliveries[i]
			if skip != "" {
				if d.Target == skip {
					skip = ""
				}
				continue
			}
			if !f.MatchDelivery(rec, d) {
				continue
			}
			if len(page.Items) == limit {
				return false
			}
			page.Items = append(page.Items, row(rec, d))
			full = rec.Event.Ref.String() + "." + d.Target
		}
		return true
	})
	switch {
	case len(page.Items) == limit && full != "":
		page.Next = full
	case !at.IsZero():
		page.Next = at.String()
	}
	return page, err
}

func row(rec *dedupe.Record, d *event.Delivery) dedupe.DeliveryRow {
	ev := &rec.Event
	return dedupe.DeliveryRow{Delivery: *d, ID: d.DeliveryID(), Key: d.Key(ev), Source: ev.Source, EventID: ev.ID,
		Type: ev.Type, ReceivedAt: ev.ReceivedAt}
}

// parseCursor reads "ref" or "ref.target".
func parseCursor(s string) (event.Ref, string, error) {
	if s == "" {
		return event.Ref{}, "", nil
	}
	text, target, _ := strings.Cut(s, ".")
	ref, err := event.ParseRef(text)
	if err != nil {
		return ref, "", fmt.Errorf("cursor: %w", err)
	}
	return ref, target, nil
}
