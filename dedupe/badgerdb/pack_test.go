package badgerdb_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
	"github.com/klauspost/compress/s2"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/dedupe/ledgertest"
	"github.com/onceward/onceward/event"
)

// text is a body of n bytes like no other.
func text(i, n int) string {
	s := fmt.Sprintf(`{"id":"evt_%d","object":"event","amount":%d}`, i, i*7919)
	return strings.Repeat(s, n/len(s)+1)[:n]
}

// mixed are requests of many kinds and sizes, to be committed at once.
func mixed() (reqs []*dedupe.Request, bodies []string) {
	add := func(source, body string, keep dedupe.Retention) {
		r := request(source, fmt.Sprint("evt_", len(reqs)), body, "t")
		r.Retention = keep
		reqs, bodies = append(reqs, r), append(bodies, body)
	}
	for i := range 60 {
		add(fmt.Sprint("s", i%3), text(i, 900+i), dedupe.Retention{})
	}
	add("s1", "", dedupe.Retention{})
	add("s1", text(61, 9<<10), dedupe.Retention{}) // too large to share
	add("s1", text(62, 700<<10), dedupe.Retention{})
	for i := range 9 {
		add("s1", text(63+i, 8<<10), dedupe.Retention{})
	}
	for i := range 4 {
		add("s2", text(72+i, 500), dedupe.Retention{Body: time.Duration(i%2+1) * 24 * time.Hour})
	}
	add("s4", text(76, 500), dedupe.Retention{Once: true})
	add("s4", text(77, 500), dedupe.Retention{Once: true})
	return reqs, bodies
}

// storedBodies are the bytes that a closed ledger has in each record of a body, by
// class.
func storedBodies(t *testing.T, dir string) map[byte][][]byte {
	t.Helper()
	kv, err := badger.Open(badger.DefaultOptions(filepath.Join(dir, "ledger")).WithCompression(options.None).WithLogger(nil))
	if err != nil {
		t.Fatal(err)
	}
	out := map[byte][][]byte{}
	err = kv.View(func(txn *badger.Txn) error {
		opt := badger.DefaultIteratorOptions
		opt.Prefix = []byte("b")
		it := txn.NewIterator(opt)
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			val, err := it.Item().ValueCopy(nil)
			if err != nil {
				return err
			}
			b := val[6:]
			if val[1] == 1 {
				if b, err = s2.Decode(nil, b); err != nil {
					return err
				}
			}
			class := it.Item().Key()[1]
			out[class] = append(out[class], b)
		}
		return nil
	})
	if err := errors.Join(err, kv.Close()); err != nil {
		t.Fatal(err)
	}
	return out
}

// Small bodies of one transaction share records, and each event has its own bytes.
func TestBodiesShareRecords(t *testing.T) {
	cfg := small(t.TempDir(), ledgertest.NewClock(time.Now()).Now)
	cfg.HotBytes, cfg.MemTable = 1, 16<<20 // bodies are read from disk, and all fit into one transaction
	db := start(t, cfg)
	reqs, bodies := mixed()
	accept(t, db, reqs...)
	check := func() {
		t.Helper()
		for i, r := range reqs {
			ref := r.Outcomes[0].Ref
			b, err := db.Body(t.Context(), ref)
			if err != nil || string(b) != bodies[i] {
				t.Fatalf("event %d: %d bytes of %d, %v", i, len(b), len(bodies[i]), err)
			}
			if cap(b) > 2*len(b)+16 && len(b) < 8<<10 {
				t.Errorf("event %d: %d bytes keep %d in memory", i, len(b), cap(b))
			}
			rec, err := db.Get(t.Context(), ref)
			if err != nil || rec.Event.Body.Length != int64(len(bodies[i])) {
				t.Errorf("event %d: %+v, %v", i, rec.Event.Body, err)
			}
		}
		if r, err := db.Check(t.Context()); err != nil || len(r.Faults) > 0 {
			t.Errorf("check: %+v, %v", r, err)
		}
	}
	check()
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	// 60 of 900 to 960 bytes fill two records; 9 of 8 KiB fill two and begin a third;
	// of two classes in turns each body stands alone, and so do those dropped one by one.
	got := storedBodies(t, cfg.Dir)
	for class, want := range []int{2 + 1 + 2 + 3, 2, 2, 2} {
		if n := len(got[byte(class)]); n != want {
			t.Errorf("class %d: %d records of bodies, want %d", class, n, want)
		}
	}
	db = start(t, cfg)
	check()
}

// The bytes of two commits do not share a record.
func TestBodiesOfTwoCommits(t *testing.T) {
	cfg := small(t.TempDir(), ledgertest.NewClock(time.Now()).Now)
	db := start(t, cfg)
	accept(t, db, request("s", "evt_1", "one"), request("s", "evt_2", "two"))
	accept(t, db, request("s", "evt_3", "three"))
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if n := len(storedBodies(t, cfg.Dir)[0]); n != 2 {
		t.Errorf("%d records of bodies, want 2", n)
	}
}

// A shared record that is damaged is the damage of each of its events.
func TestSharedBodyDamaged(t *testing.T) {
	cfg := small(t.TempDir(), time.Now)
	db := start(t, cfg)
	reqs := []*dedupe.Request{request("s", "evt_1", text(1, 900), "t"), request("s", "evt_2", text(2, 900), "t"), request("s", "evt_3", text(3, 9000), "t")}
	accept(t, db, reqs...)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	change(t, cfg, func(key []byte) bool { return key[0] == 'b' })
	db = start(t, cfg)
	for i, r := range reqs {
		_, err := db.Body(t.Context(), r.Outcomes[0].Ref)
		if harmed := i < 2; errors.Is(err, dedupe.ErrDamaged) != harmed || !harmed && err != nil {
			t.Errorf("event %d: %v", i, err)
		}
	}
	if r, err := db.Check(t.Context()); err != nil || len(r.Faults) < 3 {
		t.Errorf("check: %+v, %v; want the record and both events", r, err)
	}
}

// Of what an open event shares with others its own bytes alone are carried, also
// over several rounds, and what they take is counted as it is after a restart.
func TestSharedBodyCarried(t *testing.T) {
	for _, hold := range []time.Duration{0, time.Hour} {
		t.Run(fmt.Sprint(hold), func(t *testing.T) {
			clock := ledgertest.NewClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
			db := unattended(t, clock, 24*time.Hour, 0)
			db.Hold(hold) // a round copies one body, or all
			limits := map[string]int64{"s": 1 << 30}
			db.LimitBodies(limits)
			const n = 20
			var reqs []*dedupe.Request
			for i := range n {
				reqs = append(reqs, request("s", fmt.Sprint("evt_", i), text(i, 1000), "t"))
			}
			accept(t, db, reqs...)
			home := db.BodySizes()["s"]
			leases, _, err := db.Lease(t.Context(), "t", n, time.Hour)
			if err != nil || len(leases) != n {
				t.Fatalf("leased %d, %v", len(leases), err)
			}
			open := map[event.Ref]bool{}
			for i, l := range leases {
				r := &dedupe.Result{Lease: l, State: event.Delivered, Attempt: event.Attempt{
					Event: l.Delivery.Event, Target: "t", Number: 1, StartedAt: clock.Now(), Status: 200, Outcome: event.Outcome2xx, State: event.Delivered}}
				if i%5 == 2 {
					open[l.Delivery.Event] = true
					r.State, r.Attempt.State, r.Attempt.Status, r.Attempt.Outcome = event.Pending, event.Pending, 503, event.Outcome5xx
				}
				if err := db.Commit(t.Context(), &dedupe.Batch{Results: []*dedupe.Result{r}}); err != nil {
					t.Fatal(err)
				}
			}
			var size int64
			for day := range 3 { // carried again and again
				clock.Advance(48 * time.Hour)
				if _, err := db.Expire(t.Context()); err != nil {
					t.Fatal(err)
				}
				for i, r := range reqs {
					b, err := db.Body(t.Context(), r.Outcomes[0].Ref)
					if !open[r.Outcomes[0].Ref] {
						if !errors.Is(err, dedupe.ErrPruned) {
							t.Errorf("day %d, event %d: %v, want ErrPruned", day, i, err)
						}
					} else if err != nil || string(b) != text(i, 1000) {
						t.Errorf("day %d, event %d: %q, %v", day, i, b, err)
					}
				}
				if size = db.BodySizes()["s"]; size <= 0 || size >= home {
					t.Errorf("day %d: bodies take %d bytes, want less than the %d at home", day, size, home)
				}
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			kept := bytes.Join(slices.Concat(slices.Collect(maps.Values(storedBodies(t, db.cfg.Dir)))...), nil)
			for i, r := range reqs {
				if has, want := bytes.Contains(kept, []byte(text(i, 1000))), open[r.Outcomes[0].Ref]; has != want {
					t.Errorf("event %d: its bytes are stored: %v, want %v", i, has, want)
				}
				if !open[r.Outcomes[0].Ref] && bytes.Contains(kept, []byte(text(i, 30)[:20])) {
					t.Errorf("event %d: some of its bytes are stored", i)
				}
			}
			again := start(t, db.cfg)
			again.LimitBodies(limits)
			if got := again.BodySizes()["s"]; got != size {
				t.Errorf("after a restart: bodies take %d bytes, want %d", got, size)
			}
		})
	}
}

// Events that share a record and were carried to different buckets, because a run
// went on past the end of one, have their bytes when they meet again.
func TestSharedBodyFromTwoPlaces(t *testing.T) {
	clock := ledgertest.NewClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	db := unattended(t, clock, 24*time.Hour, 0)
	db.Hold(0) // a round copies one body
	var reqs []*dedupe.Request
	for i := range 6 {
		reqs = append(reqs, request("s", fmt.Sprint("evt_", i), text(i, 1000), "t"))
	}
	accept(t, db, reqs...)
	for range 3 {
		clock.Advance(72 * time.Hour)
		round := db.Rounds()
		for more := true; more; clock.Advance(90 * time.Minute) {
			var err error
			if more, err = round(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		for i, r := range reqs {
			if b, err := db.Body(t.Context(), r.Outcomes[0].Ref); err != nil || string(b) != text(i, 1000) {
				t.Errorf("event %d: %d bytes, %v", i, len(b), err)
			}
		}
	}
	clock.Advance(72 * time.Hour)
	db.Hold(time.Hour) // all at once, from many places to one
	if _, err := db.Expire(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i, r := range reqs {
		if b, err := db.Body(t.Context(), r.Outcomes[0].Ref); err != nil || string(b) != text(i, 1000) {
			t.Errorf("event %d: %d bytes, %v", i, len(b), err)
		}
	}
	if r, err := db.Check(t.Context()); err != nil || len(r.Faults) > 0 {
		t.Errorf("check: %+v, %v", r, err)
	}
}

// Where one event of a record was carried to, another may come later: what was
// read there in between is not what stands there then.
func TestSharedBodyComesLater(t *testing.T) {
	clock := ledgertest.NewClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	db := unattended(t, clock, 90*time.Minute, 0) // in buckets of an hour
	db.Hold(0)                                    // a round copies one body
	a, b := request("s", "evt_1", text(1, 1000), "t"), request("s", "evt_2", text(2, 1000), "t")
	accept(t, db, a, b)
	check := func() {
		t.Helper()
		for i, r := range []*dedupe.Request{a, b} {
			if got, err := db.Body(t.Context(), r.Outcomes[0].Ref); err != nil || string(got) != text(i+1, 1000) {
				t.Errorf("event %d: %d bytes, %v", i+1, len(got), err)
			}
		}
	}
	at := func(hour, minute int) {
		clock.Advance(time.Date(2026, 3, 1, hour, minute, 0, 0, time.UTC).Sub(clock.Now()))
	}
	run := func() {
		t.Helper()
		if _, err := db.Expire(t.Context()); err != nil {
			t.Fatal(err)
		}
		check()
	}
	at(14, 45)
	round := db.Rounds()
	for more, first := true, true; more; first = false {
		var err error
		if more, err = round(t.Context()); err != nil {
			t.Fatal(err)
		}
		if first {
			at(15, 5) // the other one goes to the next bucket
		}
	}
	check()
	at(17, 10) // the bucket of 14 goes, to that of 17
	run()
	at(17, 40) // and now that of 15
	run()
}

// A move gives every shared body once, with all of its events.
func TestMoveSharedBodies(t *testing.T) {
	cfg := small(t.TempDir(), ledgertest.NewClock(time.Now()).Now)
	cfg.MemTable = 16 << 20
	db := start(t, cfg)
	reqs, bodies := mixed()
	accept(t, db, reqs...)
	want := map[event.Ref]string{}
	for i, r := range reqs {
		want[r.Outcomes[0].Ref] = bodies[i]
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	recs, err := read(t, cfg, func(f dedupe.Fault) error { return errors.New(f.What) })
	if err != nil {
		t.Fatal(err)
	}
	given, events := map[event.Ref][]byte{}, []*dedupe.MovedEvent{}
	for _, m := range recs {
		switch m := m.(type) {
		case *dedupe.MovedBody:
			if given[m.Request] != nil {
				t.Errorf("body of %s is given twice", m.Request)
			}
			given[m.Request] = m.Data
		case *dedupe.MovedEvent:
			events = append(events, m)
		}
	}
	if len(events) != len(want) {
		t.Errorf("%d events, want %d", len(events), len(want))
	}
	for _, m := range events {
		s := m.Event.Body
		if s.Length == 0 {
			continue
		}
		if data := given[s.Request]; int64(len(data)) < s.Offset+s.Length || string(data[s.Offset:s.Offset+s.Length]) != want[m.Event.Ref] {
			t.Errorf("event %s: its bytes are not in the %d given", m.Event.ID, len(data))
		}
	}
}
