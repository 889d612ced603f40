package badgerdb_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/dedupe/badgerdb"
	"github.com/onceward/onceward/dedupe/ledgertest"
	"github.com/onceward/onceward/event"
)

// Deliveries that memory had no room for are read back between the rounds of a
// long run of retention, not after it.
func TestReadBackBetweenRounds(t *testing.T) {
	const open, room = 40, 8
	clock := ledgertest.NewClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	cfg := small(t.TempDir(), clock.Now)
	cfg.Retention = dedupe.Retention{Body: 24 * time.Hour, Meta: 24 * time.Hour, Audit: 24 * time.Hour}
	cfg.ScheduleCap = room
	db := startWith(t, cfg, func(*badgerdb.DB) {}) // retention runs by itself
	db.Hold(0)                                     // a round copies one body
	for i := range open {
		accept(t, db, request("s", fmt.Sprint("evt_", i), "a body", "t"))
	}
	var rounds atomic.Int32
	slow := make(chan struct{})
	wait := func(d time.Duration) {
		select {
		case <-slow:
		case <-time.After(d):
		}
	}
	db.OnSync(func(string) { // each takes a while, and rests as long
		rounds.Add(1)
		wait(100 * time.Millisecond)
	})
	clock.Advance(48 * time.Hour)
	for rounds.Load() < 2 {
		wait(time.Millisecond)
	}
	if n := deliver(t, db); n == 0 || n > room {
		t.Fatalf("%d deliveries were in memory, which has room for %d", n, room)
	}
	for deliver(t, db) == 0 {
		wait(10 * time.Millisecond)
	}
	n := rounds.Load()
	close(slow)
	t.Logf("read back after %d rounds", n)
	if n >= open/2 { // a run has more than there are open deliveries left
		t.Errorf("%d rounds went by before anything was read back", n)
	}
}

// deliver leases what can be leased for the target t and says it is delivered.
func deliver(t *testing.T, db *running) int {
	t.Helper()
	leases, _, err := db.Lease(t.Context(), "t", 1000, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	b := dedupe.Batch{}
	for _, l := range leases {
		b.Results = append(b.Results, &dedupe.Result{Lease: l, State: event.Delivered, NoAttempt: true})
	}
	if err := db.Commit(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	return len(leases)
}
