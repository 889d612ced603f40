package badgerdb

import (
	"bytes"
	"errors"
	"slices"

	"github.com/dgraph-io/badger/v4"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

// The index of event IDs begins with the source, so that an ID alone is found by
// trying every source there is or was. Their names are kept in one record, which
// is written with the first event of each.

// maxSources is how many names are kept.
const maxSources = 256

// knownSources are the sources of all events from a ref on. Those of older events
// are not known: the ledger is of a version that kept none, or was salvaged.
type knownSources struct {
	from  event.Ref
	names []string // sorted
}

var sourcesKey = metaKey("sources")

func (k *knownSources) seal() []byte {
	e := newEnc(64)
	e.raw(k.from[:])
	e.uint(uint64(len(k.names)))
	for _, name := range k.names {
		e.str(name)
	}
	return e.seal(sourcesKey, 0)
}

// loadSources reads them, nil when none are kept.
func loadSources(txn *badger.Txn) (*knownSources, error) {
	val, err := get(txn, sourcesKey)
	if errors.Is(err, dedupe.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	payload, err := unseal(sourcesKey, val)
	if err != nil {
		return nil, err
	}
	d := &dec{b: payload}
	k := &knownSources{}
	d.raw(k.from[:])
	for range d.count() {
		k.names = append(k.names, d.str())
	}
	return k, d.end(sourcesKey)
}

// know keeps the name of a new event's source. When there are more than fit, it
// begins anew: the events before are looked for one by one.
func (c *commit) know(ev *event.Event) error {
	old := c.sources
	if old == nil {
		old = c.db.sources.Load()
	}
	next := &knownSources{from: ev.Ref}
	if old != nil {
		if _, ok := slices.BinarySearch(old.names, ev.Source); ok {
			return nil
		}
		if len(old.names) < maxSources {
			next.from, next.names = old.from, slices.Clone(old.names)
		}
	}
	next.names = append(next.names, ev.Source)
	slices.Sort(next.names)
	if err := c.set(sourcesKey, next.seal()); err != nil {
		return err
	}
	c.sources = next
	return nil
}

// named are the sources named, with all that are known where one is "".
func (db *DB) named(sources []string) []string {
	known := db.sources.Load()
	if known == nil || !slices.Contains(sources, "") {
		return sources
	}
	all := slices.Concat(sources, known.names)
	slices.Sort(all)
	return slices.Compact(all)
}

// withID are the places to look for events of an ID, whatever their source: the
// index of IDs as far as the sources are known, and all that is older.
func (db *DB) withID(s *classScan, id string) []newest {
	framed, _ := dedupe.FrameID(id)
	older := *s
	older.kind = []byte{subEvent}
	known := db.sources.Load()
	if known == nil {
		return []newest{&older}
	}
	if older.below.IsZero() || known.from.Compare(older.below) < 0 {
		older.below = known.from
	}
	s.spread = func(t uint32) [][]byte { return db.idPrefixes(s, t, known.names, framed) }
	return []newest{s, &older}
}

// idPrefixes are those of the entries that one bucket has of an ID, one for each
// source.
func (db *DB) idPrefixes(s *classScan, t uint32, sources []string, id string) [][]byte {
	bucket := bucketPrefix(kindEvent, s.class.n, t)
	opt := badger.DefaultIteratorOptions
	opt.PrefetchValues = false
	opt.Prefix = append(bytes.Clone(bucket), subIndex)
	it := s.txn.NewIterator(opt)
	defer it.Close()
	var out [][]byte
	for _, source := range sources {
		db.metrics.looked.Inc()
		p := indexPrefix(s.class.n, t, source, id)
		if it.Seek(p); it.ValidForPrefix(p) {
			out = append(out, p[len(bucket):])
		}
	}
	return out
}
