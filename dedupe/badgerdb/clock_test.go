package badgerdb_test

import (
	"testing"
	"time"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/dedupe/ledgertest"
)

func TestClockFarAheadHoldsExpiry(t *testing.T) {
	clock := ledgertest.NewClock(time.Now())
	cfg := small(t.TempDir(), clock.Now)
	cfg.Retention = dedupe.Retention{Body: time.Hour, Meta: time.Hour, Audit: time.Hour}
	db := start(t, cfg)
	accept(t, db, request("s", "1", "b"))
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	clock.Advance(48 * time.Hour)
	db = start(t, cfg)
	if x, err := db.Expire(t.Context()); err != nil || !x.Held {
		t.Fatalf("expire: %+v %v, want it held", x, err)
	}
	clock.Advance(61 * time.Minute)
	if x, err := db.Expire(t.Context()); err != nil || x.Held || x.Buckets == 0 {
		t.Fatalf("an hour later: %+v %v, want buckets dropped", x, err)
	}
}

// A clock set back neither reuses a ref nor moves time backwards.
func TestClockSetBack(t *testing.T) {
	clock := ledgertest.NewClock(time.Now())
	cfg := small(t.TempDir(), clock.Now)
	db := start(t, cfg)
	a := request("s", "1", "b", "t")
	accept(t, db, a)
	before := db.Now()
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	clock.Advance(-72 * time.Hour)
	db = start(t, cfg)
	b := request("s", "2", "b", "t")
	accept(t, db, b)
	if a.Outcomes[0].Ref.Compare(b.Outcomes[0].Ref) >= 0 || db.Now().Before(before) {
		t.Errorf("refs %s then %s, clock %s then %s", a.Outcomes[0].Ref, b.Outcomes[0].Ref, before, db.Now())
	}
	ls, _, err := db.Lease(t.Context(), "t", 10, time.Minute)
	if err != nil || len(ls) != 2 {
		t.Errorf("%d leases, want both deliveries due: %v", len(ls), err)
	}
}

// A clock that starts far ahead must not make the ledger forget: a claim that
// stood at the mark stands while expiry is held. One that had run out by then
// does not come back.
func TestClockFarAheadForgetsNothing(t *testing.T) {
	clock := ledgertest.NewClock(time.Now())
	cfg := small(t.TempDir(), clock.Now)
	db := start(t, cfg)
	old := request("s", "old", "b")
	accept(t, db, old)
	clock.Advance(2 * time.Hour) // its window is an hour
	a := request("s", "1", "b")
	accept(t, db, a)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	clock.Advance(25 * time.Hour)
	db = start(t, cfg)
	verdict := func(id string) dedupe.Verdict {
		r := request("s", id, "b")
		accept(t, db, r)
		return r.Outcomes[0].Verdict
	}
	if got := verdict("1"); got != dedupe.Repeat {
		t.Errorf("a claim that stood before the jump: %v, want a repeat", got)
	}
	if got := verdict("old"); got != dedupe.New {
		t.Errorf("a claim that had run out before the jump: %v, want new", got)
	}
	clock.Advance(61 * time.Minute)
	if got := verdict("1"); got != dedupe.New {
		t.Errorf("after the hold: %v, want new", got)
	}
}

// A ledger that only stood idle is not one whose clock ran ahead.
func TestIdleKeepsTime(t *testing.T) {
	clock := ledgertest.NewClock(time.Now())
	db := start2(t, small(t.TempDir(), clock.Now))
	defer db.Close()
	if err := db.Commit(t.Context(), &dedupe.Batch{Requests: []*dedupe.Request{request("s", "1", "b")}}); err != nil {
		t.Fatal(err)
	}
	for range 24 {
		clock.Advance(time.Hour)
		if err := db.KeepTime(); err != nil {
			t.Fatal(err)
		}
	}
	if st, err := db.Stats(t.Context()); err != nil || st.Batches != 1+24 {
		t.Errorf("a day of idling made %d batches, %v; want 1 and one an hour", st.Batches, err)
	}
}
