package badgerdb_test

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/dedupe/badgerdb"
	"github.com/onceward/onceward/dedupe/ledgertest"
	"github.com/onceward/onceward/event"
)

// read reads a whole ledger for a move; fault decides about what is damaged.
func read(t *testing.T, cfg badgerdb.Config, fault func(dedupe.Fault) error) (recs []dedupe.Moved, err error) {
	t.Helper()
	src, err := badgerdb.OpenSource(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	err = src.Each(t.Context(), fault, func(m dedupe.Moved) error {
		recs = append(recs, m)
		return nil
	})
	if cerr := src.Close(); cerr != nil {
		t.Fatal(cerr)
	}
	return recs, err
}

// A damaged record is named and ends the reading, or is left out and counted;
// what stands beside it is read all the same.
func TestMoveNamesDamage(t *testing.T) {
	for kind, is := range map[string]func(key []byte) bool{
		"claim":   func(key []byte) bool { return key[0] == 'd' },
		"event":   func(key []byte) bool { return key[0] == 'e' && key[6] == 'e' },
		"body":    func(key []byte) bool { return key[0] == 'b' },
		"acts":    func(key []byte) bool { return key[0] == 'u' },
		"note":    func(key []byte) bool { return key[0] == 'n' },
		"nothing": func([]byte) bool { return false },
	} {
		t.Run(kind, func(t *testing.T) {
			cfg, _ := filled(t, 5)
			db := start(t, cfg)
			if _, err := db.PutNote(t.Context(), dedupe.Note{Kind: "k", Name: "n"}); err != nil {
				t.Fatal(err)
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			whole, err := read(t, cfg, func(f dedupe.Fault) error { return errors.New(f.What) })
			if err != nil {
				t.Fatal(err)
			}
			harmed := change(t, cfg, is)
			var faults []dedupe.Fault
			stopped := errors.New("stopped")
			_, err = read(t, cfg, func(f dedupe.Fault) error { faults = append(faults, f); return stopped })
			if kind == "nothing" {
				if err != nil || harmed {
					t.Errorf("unharmed: %v", err)
				}
				return
			}
			if !errors.Is(err, stopped) || len(faults) != 1 || !strings.Contains(faults[0].Where, kind) {
				t.Errorf("error = %v, faults = %v; want one, of the %s", err, faults, kind)
			}
			faults = nil
			rest, err := read(t, cfg, func(f dedupe.Fault) error { faults = append(faults, f); return nil })
			if err != nil || len(faults) != 1 {
				t.Errorf("left out: %v, faults %v", err, faults)
			}
			gone := 1
			if kind == "event" {
				gone = 3 // with its body and its delivery
			}
			if len(rest) != len(whole)-gone {
				t.Errorf("%d records of %d are left, want %d less", len(rest), len(whole), gone)
			}
			for _, m := range rest {
				if ev, ok := m.(*dedupe.MovedEvent); ok && kind == "body" && ev.BodyGone {
					return
				}
			}
			if kind == "body" {
				t.Error("no event says that its body is gone")
			}
		})
	}
}

// change flips a bit of the first record that is looked for.
func change(t *testing.T, cfg badgerdb.Config, is func(key []byte) bool) (done bool) {
	t.Helper()
	kv, err := badger.Open(badger.DefaultOptions(filepath.Join(cfg.Dir, "ledger")).WithCompression(options.None).WithLogger(nil))
	if err != nil {
		t.Fatal(err)
	}
	err = kv.Update(func(txn *badger.Txn) error {
		it := txn.NewIterator(badger.DefaultIteratorOptions)
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			if key := it.Item().KeyCopy(nil); is(key) {
				val, err := it.Item().ValueCopy(nil)
				if err != nil {
					return err
				}
				val[len(val)-1] ^= 1
				done = true
				return txn.Set(key, val)
			}
		}
		return nil
	})
	if err := errors.Join(err, kv.Close()); err != nil {
		t.Fatal(err)
	}
	return done
}

// Of a key that was claimed anew, and of a claim that was carried, the one that
// counts is given; what a restored ledger holds is due never.
func TestMoveGivesWhatCounts(t *testing.T) {
	backup, refs := backedUp(t, 5)
	cfg := small(filepath.Join(t.TempDir(), "new"), time.Now)
	if _, err := badgerdb.Restore(context.Background(), cfg, bytes.NewReader(backup), false); err != nil {
		t.Fatal(err)
	}
	recs, err := read(t, cfg, func(f dedupe.Fault) error { return errors.New(f.What) })
	if err != nil {
		t.Fatal(err)
	}
	held, writers := 0, map[uint64]*dedupe.MovedWriter{}
	for _, m := range recs {
		switch m := m.(type) {
		case *dedupe.MovedDelivery:
			if m.State == event.Pending && m.DueAt.Equal(dedupe.HeldUntil) {
				held++
			}
		case *dedupe.MovedWriter:
			writers[m.Writer] = m
		}
	}
	if held != 5 {
		t.Errorf("%d deliveries are held, want 5", held)
	}
	if len(writers) != 2 || writers[refs[0].Writer()] == nil || writers[refs[0].Writer()].First != refs[0] {
		t.Errorf("writers %v, want the old one and the new", writers)
	}

	clock := ledgertest.NewClock(time.Now())
	cfg = small(t.TempDir(), clock.Now)
	cfg.ClaimBucket = time.Hour
	db := start(t, cfg)
	var want event.Ref
	for range 3 { // its window is an hour, so that each is new
		r := request("s", "again", "body")
		accept(t, db, r)
		want = r.Outcomes[0].Ref
		clock.Advance(90 * time.Minute)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	recs, err = read(t, cfg, func(f dedupe.Fault) error { return errors.New(f.What) })
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, m := range recs {
		if c, ok := m.(*dedupe.MovedClaim); ok {
			if n++; c.Ref != want {
				t.Errorf("the claim is of %s, want the last one, %s", c.Ref, want)
			}
		}
	}
	if n != 1 {
		t.Errorf("%d claims of one key, want 1", n)
	}
}
