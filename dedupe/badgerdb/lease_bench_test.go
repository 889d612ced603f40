package badgerdb_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/dedupe"
)

// BenchmarkLeaseAfterFinished holds the rate of leasing and finishing with
// 300,000 finished deliveries in the ledger against the rate at its start:
// what is done must not weigh on what is to be done. It reports the median of
// the ratios. It takes a minute a round:
//
//	go test -run '^$' -bench LeaseAfterFinished -benchtime 3x ./dedupe/badgerdb
func BenchmarkLeaseAfterFinished(b *testing.B) {
	const finished, probe = 300_000, 20_000
	var ratios, first, last []float64
	for range b.N {
		cfg := small(b.TempDir(), time.Now)
		cfg.MemTable = 0
		run := start(b, cfg)
		n := 0
		more := func(count int) float64 {
			admitMany(b, run, &n, count)
			began := time.Now()
			drain(b, run)
			return float64(count) / time.Since(began).Seconds()
		}
		at := more(probe)
		for n < finished {
			more(probe)
		}
		after := more(probe)
		if open := openOf(b, run); open != 0 {
			b.Fatalf("%d deliveries are open at the end", open)
		}
		ratios, first, last = append(ratios, after/at), append(first, at), append(last, after)
		if err := run.Close(); err != nil {
			b.Fatal(err)
		}
	}
	median := func(v []float64) float64 {
		slices.Sort(v)
		return v[len(v)/2]
	}
	b.ReportMetric(median(ratios), "ratio")
	b.ReportMetric(median(first), "at-start/s")
	b.ReportMetric(median(last), "after-300k/s")
	b.ReportMetric(0, "ns/op")
}

// admitMany accepts count events from number *n on.
func admitMany(b *testing.B, db *running, n *int, count int) {
	b.Helper()
	pad := strings.Repeat("abcdefgh", 60)
	for end := *n + count; *n < end; {
		batch := &dedupe.Batch{}
		for range min(500, end-*n) {
			*n++
			batch.Requests = append(batch.Requests, request("bench", fmt.Sprint("evt_", *n), fmt.Sprintf(`{"id":%d,"pad":%q}`, *n, pad), "t"))
		}
		if err := db.Commit(b.Context(), batch); err != nil {
			b.Fatal(err)
		}
	}
}
