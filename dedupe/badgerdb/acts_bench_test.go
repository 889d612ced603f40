package badgerdb_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/dedupe/badgerdb"
	"github.com/onceward/onceward/event"
)

// BenchmarkActs accepts and delivers with and without the account, batch by
// batch in turns, and reports the ratio of the rates: 1 is no cost. Run it with
// -benchtime 200x or more.
func BenchmarkActs(b *testing.B) {
	with, without := benchLedger(b), benchLedger(b)
	without.Mute()
	accept, finish := [2][]time.Duration{}, [2][]time.Duration{}
	for i := range b.N {
		for j, db := range [...]*badgerdb.DB{with, without} {
			if i%2 == 1 { // neither is always first
				j = 1 - j
				db = [...]*badgerdb.DB{with, without}[j]
			}
			a, f := benchRound(b, db, i)
			accept[j], finish[j] = append(accept[j], a), append(finish[j], f)
		}
	}
	b.ReportMetric(ratio(accept), "accept-ratio")
	b.ReportMetric(ratio(finish), "deliver-ratio")
}

// ratio is the rate with acts by the rate without, of the medians.
func ratio(took [2][]time.Duration) float64 {
	for _, t := range took {
		slices.Sort(t)
	}
	return float64(took[1][len(took[1])/2]) / float64(took[0][len(took[0])/2])
}

func benchLedger(b *testing.B) *badgerdb.DB {
	b.Helper()
	cfg := small(b.TempDir(), time.Now)
	cfg.MemTable = 0
	db, err := badgerdb.Open(cfg)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = db.Close() })
	return db
}

// benchRound accepts a batch of events and ends the first attempt of each.
func benchRound(b *testing.B, db *badgerdb.DB, round int) (accept, finish time.Duration) {
	b.Helper()
	const events = 64
	body := `{"pad":"` + strings.Repeat("abcdefg123", 50) + strings.Repeat("0", 500) + `"}`
	batch := &dedupe.Batch{}
	for i := range events {
		batch.Requests = append(batch.Requests, request("bench", fmt.Sprintf("evt_%d_%d", round, i), body, "billing"))
	}
	began := time.Now()
	if err := db.Commit(b.Context(), batch); err != nil {
		b.Fatal(err)
	}
	accept = time.Since(began)
	leases, _, err := db.Lease(b.Context(), "billing", events, time.Minute)
	if err != nil || len(leases) != events {
		b.Fatalf("%d leases, %v", len(leases), err)
	}
	done := &dedupe.Batch{}
	for _, l := range leases {
		done.Results = append(done.Results, &dedupe.Result{Lease: l, State: event.Delivered, Attempt: event.Attempt{
			Event: l.Delivery.Event, Target: l.Delivery.Target, Number: 1, StartedAt: began, Duration: time.Millisecond, Status: 200,
			Outcome: event.Outcome2xx, Response: []byte("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{\"ok\":true}"), State: event.Delivered,
		}})
	}
	began = time.Now()
	if err := db.Commit(b.Context(), done); err != nil {
		b.Fatal(err)
	}
	return accept, time.Since(began)
}
