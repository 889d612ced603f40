package badgerdb_test

import (
	"fmt"
	"testing"

	"github.com/dgraph-io/badger/v4"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/dedupe/badgerdb"
	"github.com/onceward/onceward/event"
)

// byID lists the events of an ID, whatever their source.
func byID(t *testing.T, db dedupe.Account, id string) []event.Ref {
	t.Helper()
	page, err := db.Events(t.Context(), dedupe.Filter{ID: id}, "", 10)
	if err != nil || page.Next != "" {
		t.Fatalf("events of %s: next %q, %v", id, page.Next, err)
	}
	var out []event.Ref
	for i := range page.Items {
		out = append(out, page.Items[i].Event.Ref)
	}
	return out
}

// forget takes the names of the sources out of a ledger, as one has none that an
// earlier version wrote.
func forget(t *testing.T, dir string) {
	t.Helper()
	n := 0
	touch(t, dir, 'm', func(txn *badger.Txn, key, _ []byte) error {
		if string(key) != "msources" {
			return nil
		}
		n++
		return txn.Delete(key)
	})
	if n != 1 {
		t.Fatalf("%d records name the sources", n)
	}
}

// An event is found by its ID alone in a ledger that knows no source, or not all:
// what came before the names were kept is looked through.
func TestIDAloneInOldLedger(t *testing.T) {
	t.Parallel()
	cfg, refs := filled(t, 6)
	forget(t, cfg.Dir)
	db := start(t, cfg)
	if got := byID(t, db, "evt_2"); len(got) != 1 || got[0] != refs[2] {
		t.Errorf("no source is known: found %v, want %s", got, refs[2])
	}
	again, other := request("new", "evt_9", "{}", "t"), request("other", "evt_2", "{}", "t")
	accept(t, db, again, other)
	for range 2 {
		if got := byID(t, db, "evt_2"); len(got) != 2 || got[0] != other.Outcomes[0].Ref || got[1] != refs[2] {
			t.Errorf("found %v, want the one before and the one after the names were kept", got)
		}
		if got := byID(t, db, "evt_9"); len(got) != 1 {
			t.Errorf("found %v, want one", got)
		}
		if got, err := db.Lookup(t.Context(), []string{""}, "evt_9"); err != nil || len(got) != 1 {
			t.Errorf("looked up %v, %v", got, err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		db = start(t, cfg)
	}
}

// What a salvage finds of the names may be old: it is not relied on.
func TestIDAloneAfterSalvage(t *testing.T) {
	t.Parallel()
	cfg, _ := filled(t, 6)
	var old []byte
	named := func(change func(txn *badger.Txn, key, val []byte) error) {
		touch(t, cfg.Dir, 'm', func(txn *badger.Txn, key, val []byte) error {
			if string(key) != "msources" {
				return nil
			}
			return change(txn, key, val)
		})
	}
	named(func(_ *badger.Txn, _, val []byte) error { old = val; return nil })
	db := start(t, cfg)
	late := request("late", "evt_late", "{}", "t")
	accept(t, db, late)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	named(func(txn *badger.Txn, key, _ []byte) error { return txn.Set(key, old) })
	to := t.TempDir()
	if _, err := badgerdb.Salvage(t.Context(), cfg, to); err != nil {
		t.Fatal(err)
	}
	cfg.Dir = to
	db = start(t, cfg)
	if got := byID(t, db, "evt_late"); len(got) != 1 || got[0] != late.Outcomes[0].Ref {
		t.Errorf("found %v, want %s", got, late.Outcomes[0].Ref)
	}
}

// However many sources there were, each event is found by its ID alone.
func TestIDAloneOfManySources(t *testing.T) {
	t.Parallel()
	db := start(t, small(t.TempDir(), nil))
	const n = 600
	for i := 0; i < n; i += 100 {
		var reqs []*dedupe.Request
		for j := range 100 {
			reqs = append(reqs, request(fmt.Sprint("s", i+j), fmt.Sprint("evt_", i+j), "{}", "t"))
		}
		accept(t, db, reqs...)
	}
	for i := range n {
		if got := byID(t, db, fmt.Sprint("evt_", i)); len(got) != 1 {
			t.Fatalf("evt_%d: found %v, want one", i, got)
		}
	}
}
