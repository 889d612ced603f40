package badgerdb

import (
	"bytes"
	"slices"
	"sort"
	"time"

	"github.com/dgraph-io/badger/v4"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

// clockSlack is how far ledger time and the wall clock may have been apart: a
// listing between two moments looks this much earlier and later.
const clockSlack = 48 * time.Hour

// maxOpen is how many open deliveries a walk takes from the schedule at once,
// more than one page can look at.
const maxOpen = 4096

// fewDead is how many dead deliveries are looked at rather than the entries of
// an indexed field.
const fewDead = 1000

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

// descending is the list of refs below one, each once.
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

// strand is a newest over the keys that begin with a prefix and a ref.
type strand struct {
	it     *badger.Iterator
	prefix int
	looked prometheus.Counter
}

func newStrand(txn *badger.Txn, prefix []byte, below event.Ref, looked prometheus.Counter) *strand {
	opt := badger.DefaultIteratorOptions
	opt.Reverse, opt.PrefetchValues, opt.Prefix = true, false, prefix
	s := &strand{it: txn.NewIterator(opt), prefix: len(prefix), looked: looked}
	if below.IsZero() {
		s.it.Seek(append(bytes.Clone(prefix), 0xff))
		return s
	}
	s.it.Seek(append(bytes.Clone(prefix), below[:]...))
	if ref, ok := s.peek(); ok && ref == below {
		s.next()
	}
	return s
}

func (s *strand) peek() (ref event.Ref, ok bool) {
	if !s.it.Valid() {
		return ref, false
	}
	key := s.it.Item().Key()
	if len(key) < s.prefix+len(ref) {
		return ref, false
	}
	copy(ref[:], key[s.prefix:])
	return ref, true
}

func (s *strand) next() {
	at, _ := s.peek()
	for ref := at; ref == at; {
		s.it.Next()
		s.looked.Inc()
		var ok bool
		if ref, ok = s.peek(); !ok {
			return
		}
	}
}

func (s *strand) close() { s.it.Close() }

// classScan is a newest over what the event buckets of a class hold of one
// kind, from the newest bucket down to the one of floor. Entries of carried
// events are passed over: they stand in a bucket that is not that of their ref.
type classScan struct {
	db      *DB
	txn     *badger.Txn
	class   class
	kind    []byte                  // what is read of a bucket
	spread  func(t uint32) [][]byte // the prefixes of one bucket, if kind is not the only one
	buckets []uint32                // left to do, newest last
	below   event.Ref
	floor   event.Ref

	t       uint32 // the bucket that is open
	strands []*strand
	tallies *strand // of that bucket, once it was needed
}

func (s *classScan) peek() (event.Ref, bool) {
	for {
		if ref, ok := s.top(); ok {
			if ref.Compare(s.floor) >= 0 {
				return ref, true
			}
			s.buckets = nil
		}
		s.close()
		n := len(s.buckets)
		if n == 0 {
			return event.Ref{}, false
		}
		t := s.buckets[n-1]
		s.buckets = s.buckets[:n-1]
		if s.below.IsZero() || t <= s.class.metaT(s.below) {
			s.open(t)
		}
	}
}

// top is the newest ref of the open bucket.
func (s *classScan) top() (best event.Ref, ok bool) {
	for _, st := range s.strands {
		if ref, has := st.peek(); has && s.class.metaT(ref) == s.t && (!ok || ref.Compare(best) > 0) {
			best, ok = ref, true
		}
	}
	return best, ok
}

func (s *classScan) open(t uint32) {
	s.t = t
	prefixes := [][]byte{s.kind}
	if s.spread != nil {
		prefixes = s.spread(t)
	}
	for _, p := range prefixes {
		s.strands = append(s.strands, newStrand(s.txn, append(bucketPrefix(kindEvent, s.class.n, t), p...), s.start(), s.db.metrics.looked))
	}
}

// start is where the open bucket is entered: below the page before, if that
// ended in it.
func (s *classScan) start() event.Ref {
	if s.class.metaT(s.below) > s.t {
		return event.Ref{}
	}
	return s.below
}

func (s *classScan) next() {
	at, _ := s.top()
	for _, st := range s.strands {
		if ref, ok := st.peek(); ok && ref == at {
			st.next()
		}
	}
}

func (s *classScan) close() {
	for _, st := range s.strands {
		st.close()
	}
	s.strands = nil
	if s.tallies != nil {
		s.tallies.close()
		s.tallies = nil
	}
}

// of reports whether it reads records of kind sub.
func (s *classScan) of(sub byte) bool { return len(s.kind) == 1 && s.kind[0] == sub }

// read decodes the event it stands on, nil when a filter's unchanging part does
// not select it or its targets say that the rest can't. Most are passed over by
// what stands at the head of their record.
func (s *classScan) read(f *dedupe.Filter, ref event.Ref) (*event.Event, place, error) {
	item := s.strands[0].it.Item()
	p := place{class: s.class, t: s.t, sub: subEvent}
	var ev *event.Event
	err := item.Value(func(val []byte) error {
		key := item.Key()
		head, err := decodeEventHead(key, val)
		if err != nil || !f.MatchEvent(&head) {
			return err
		}
		full, batch, err := decodeEvent(key, val, ref)
		if err == nil {
			ev, p.batch = &full, batch
		}
		return err
	})
	if err != nil || ev == nil {
		return nil, p, err
	}
	if fits, err := s.routed(f, ev); err != nil || !fits {
		return nil, p, err
	}
	p.bodyT, err = s.db.bodyBucket(s.txn, ev, s.class)
	return ev, p, err
}

// routed reports whether an event's targets let a filter select it.
func (s *classScan) routed(f *dedupe.Filter, ev *event.Event) (bool, error) {
	if f.Status == event.StatusUnrouted && len(ev.Targets) > 0 {
		return false, nil
	}
	if f.Target == "" || slices.Contains(ev.Targets, f.Target) {
		return true, nil
	}
	extra, err := s.extra(ev.Ref)
	return slices.Contains(extra, f.Target), err
}

// extra are the targets an event was given after admission. Refs are asked for
// in descending order.
func (s *classScan) extra(ref event.Ref) ([]string, error) {
	if s.tallies == nil {
		s.tallies = newStrand(s.txn, append(bucketPrefix(kindEvent, s.class.n, s.t), subTally), s.start(), s.db.metrics.looked)
	}
	for {
		switch at, ok := s.tallies.peek(); {
		case !ok || at.Compare(ref) < 0:
			return nil, nil
		case at == ref:
			key := s.tallies.it.Item().KeyCopy(nil)
			val, err := s.tallies.it.Item().ValueCopy(nil)
			if err != nil {
				return nil, engineErr(key, err)
			}
			t, err := decodeTally(key, val)
			return t.extra, err
		}
		s.tallies.next()
	}
}

// cancelled reports whether one of the states it stands on, those of ref, is
// cancelled, and passes over them.
func (s *classScan) cancelled(ref event.Ref) (some bool, err error) {
	st := s.strands[0]
	for at, ok := st.peek(); ok && at == ref; at, ok = st.peek() {
		key := st.it.Item().KeyCopy(nil)
		val, err := st.it.Item().ValueCopy(nil)
		if err != nil {
			return false, engineErr(key, err)
		}
		d, err := decodeState(key, val, ref, "")
		if err != nil {
			return false, err
		}
		some = some || d.State == event.Cancelled
		st.it.Next()
		s.db.metrics.looked.Inc()
	}
	return some, nil
}

// walk is the refs that a filter may select, newest first, out of several
// places.
type walk struct {
	places []newest
	cut    bool // there are more than the places hold
}

// peek is the newest ref and the scan it comes from, nil if it is from a list.
func (w *walk) peek() (best event.Ref, from *classScan, ok bool) {
	for _, s := range w.places {
		if ref, has := s.peek(); has && (!ok || ref.Compare(best) > 0) {
			best, ok = ref, true
			from, _ = s.(*classScan)
		}
	}
	return best, from, ok
}

// pass goes on below ref. It may stand in two places while a bucket is carried.
func (w *walk) pass(ref event.Ref) {
	for _, s := range w.places {
		if at, ok := s.peek(); ok && at == ref {
			s.next()
		}
	}
}

func (w *walk) close() {
	for _, s := range w.places {
		s.close()
	}
}

// walk begins at the refs below a cursor: from an index where one fits, from
// the schedule for what is open, else all.
func (db *DB) walk(txn *badger.Txn, f *dedupe.Filter, below event.Ref) (*walk, error) {
	if f.ID != "" && f.Source != "" {
		refs := db.indexed(txn, f.Source, f.ID)
		db.metrics.looked.Add(float64(len(refs)))
		return &walk{places: []newest{descending(refs, below)}}, nil
	}
	if !f.To.IsZero() {
		if end := event.NewRef(uint64(max(0, f.To.Add(clockSlack).UnixMilli())), 0, 0); below.IsZero() || end.Compare(below) < 0 {
			below = end
		}
	}
	var floor event.Ref
	if target, open := wantsOpen(f); open && f.ID == "" {
		if refs, cut, ok := db.openBelow(target, below); ok {
			return &walk{places: []newest{descending(refs, below)}, cut: cut}, nil
		}
		db.mu.Lock()
		floor = db.head.low // nothing below it is open but what was carried
		db.mu.Unlock()
	}
	w := &walk{places: []newest{newStrand(txn, []byte{kindCarried}, below, db.metrics.looked)}}
	for _, c := range *db.classes.Load() {
		s := &classScan{db: db, txn: txn, class: c, below: below, floor: floor, buckets: db.liveBuckets(txn, kindEvent, c, db.clock.now().UnixMilli())}
		if f.ID != "" {
			w.places = append(w.places, db.withID(s, f.ID)...)
			continue
		}
		db.index(s, f)
		w.places = append(w.places, s)
	}
	return w, nil
}

// index chooses what a scan reads of each bucket.
func (db *DB) index(s *classScan, f *dedupe.Filter) {
	target, dead := wantsDead(f)
	switch {
	case dead && (f.Field == "" || db.sched.DeadOf(target) <= fewDead):
		s.spread = func(t uint32) [][]byte { return deadPrefixes(s.txn, s.class, t, target) }
	case f.Field != "":
		s.kind = fieldPrefix(f.Field, f.Value)
	case f.Status == event.StatusCancelled || f.State == event.Cancelled.String():
		s.kind = []byte{subState} // a delivery that was cancelled has one
	default:
		s.kind = []byte{subEvent}
	}
}

// wantsOpen reports whether a filter selects only what has an open delivery, to
// target or with "" to any.
func wantsOpen(f *dedupe.Filter) (target string, open bool) {
	if f.State == event.Pending.String() || f.State == event.Leased.String() {
		return f.Target, true
	}
	return "", f.Status == event.StatusPending
}

// wantsDead is the same of dead deliveries.
func wantsDead(f *dedupe.Filter) (target string, dead bool) {
	if f.State == event.Dead.String() {
		return f.Target, true
	}
	return "", f.Status == event.StatusDead
}

// openBelow takes from the schedule what is open below a ref, the newest first
// when there are many; cut says that there is more. It is false when memory
// does not hold all that is open.
func (db *DB) openBelow(target string, below event.Ref) (refs []event.Ref, cut, ok bool) {
	select {
	case <-db.rebuilt:
	default:
		return nil, false, false
	}
	refs, cut, ok = db.sched.OpenBelow(target, below, maxOpen)
	for _, ref := range db.unread.list() { // it may be open
		if below.IsZero() || ref.Compare(below) < 0 {
			refs = append(refs, ref)
		}
	}
	return refs, cut, ok
}

// deadPrefixes are those of the dead letters of one bucket, one for each target.
func deadPrefixes(txn *badger.Txn, c class, t uint32, target string) [][]byte {
	prefix := func(name []byte) []byte { return append(append([]byte{subDead}, name...), 0) }
	if target != "" {
		return [][]byte{prefix([]byte(target))}
	}
	opt := badger.DefaultIteratorOptions
	opt.PrefetchValues = false
	opt.Prefix = append(bucketPrefix(kindEvent, c.n, t), subDead)
	it := txn.NewIterator(opt)
	defer it.Close()
	var out [][]byte
	for it.Rewind(); it.Valid(); {
		name, _, ok := bytes.Cut(it.Item().KeyCopy(nil)[len(opt.Prefix):], []byte{0})
		if !ok {
			break // no key of ours; a check of the ledger names it
		}
		out = append(out, prefix(name))
		it.Seek(append(append(bytes.Clone(opt.Prefix), name...), 1))
	}
	return out
}
