package badgerdb_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/dedupe/ledgertest"
)

// BenchmarkBacklog is one run of retention over what a week left behind, in buckets
// of an hour: as it is, and with two buckets in every round. max-ms is the longest
// round, for which intake waits.
func BenchmarkBacklog(b *testing.B) {
	for name, short := range map[string]time.Duration{"paced": time.Second, "two": 0} {
		b.Run(name, func(b *testing.B) {
			var rounds int
			var most time.Duration
			for b.Loop() {
				b.StopTimer()
				clock := ledgertest.NewClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
				cfg := small(b.TempDir(), clock.Now)
				cfg.Retention = dedupe.Retention{Body: 24 * time.Hour, Meta: 24 * time.Hour, Audit: 24 * time.Hour}
				cfg.ClaimBucket, cfg.MemTable = 8*24*time.Hour, 16<<20
				db := start2(b, cfg)
				for hour := range 7 * 24 {
					var reqs []*dedupe.Request
					for i := range 500 {
						reqs = append(reqs, request("s", fmt.Sprintf("evt_%d_%d", hour, i), text(hour*500+i, 1000)))
					}
					if err := db.Commit(b.Context(), &dedupe.Batch{Requests: reqs}); err != nil {
						b.Fatal(err)
					}
					clock.Advance(time.Hour)
				}
				clock.Advance(40 * time.Hour)
				db.Short(short)
				round := db.Rounds()
				b.StartTimer()
				for more := true; more; rounds++ {
					began := time.Now()
					var err error
					if more, err = round(b.Context()); err != nil {
						b.Fatal(err)
					}
					most = max(most, time.Since(began))
				}
				b.StopTimer()
				if err := db.Close(); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
			b.ReportMetric(float64(rounds)/float64(b.N), "rounds")
			b.ReportMetric(float64(most.Milliseconds()), "max-ms")
		})
	}
}
