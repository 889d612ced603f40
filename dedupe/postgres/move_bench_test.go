package postgres_test

import (
	"flag"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/dedupe/badgerdb"
	"github.com/onceward/onceward/dedupe/ledgertest"
	"github.com/onceward/onceward/event"
)

var moveEvents = flag.Int("move.events", 2000, "how many events BenchmarkMove moves")

// BenchmarkMove moves an embedded ledger of events with a body of 1 KiB, a claim,
// and a delivery that took one attempt; every tenth is open.
func BenchmarkMove(b *testing.B) {
	url := server(b)
	e := startEmbedded(b, small(b.TempDir(), ledgertest.Options{}))
	body := make([]byte, 1024)
	for n := 0; n < *moveEvents; {
		req := &dedupe.Batch{}
		for range min(500, *moveEvents-n) {
			copy(body, fmt.Sprintf("%08d", n))
			id, bytes := fmt.Sprint("evt_", n), append([]byte(nil), body...)
			req.Requests = append(req.Requests, &dedupe.Request{Body: bytes, Items: []dedupe.Item{{
				Event: event.Event{Source: "s", Provider: "test", ID: id, Type: "t", ReceivedAt: time.Now(), Method: "POST", BodyHash: event.HashOf(bytes),
					Body: event.Slice{Length: int64(len(bytes))}, Targets: []string{"t"}},
				RawID: id, HasClaim: true, Claim: dedupe.KeyOf(dedupe.KindID, "s", "", id), Window: 24 * time.Hour, Conflict: dedupe.ConflictAck,
			}}})
			n++
		}
		if err := e.Commit(b.Context(), req); err != nil {
			b.Fatal(err)
		}
		leases, _, err := e.Lease(b.Context(), "t", 450, time.Minute)
		if err != nil {
			b.Fatal(err)
		}
		done := &dedupe.Batch{}
		for i := range leases {
			done.Results = append(done.Results, &dedupe.Result{Lease: leases[i], State: event.Delivered, Attempt: event.Attempt{Event: leases[i].Delivery.Event,
				Target: "t", Number: 1, StartedAt: time.Now(), Status: 200, Outcome: event.Outcome2xx, State: event.Delivered}})
		}
		if err := e.Commit(b.Context(), done); err != nil {
			b.Fatal(err)
		}
	}
	if err := e.Close(); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		src, err := badgerdb.OpenSource(b.Context(), e.cfg)
		if err != nil {
			b.Fatal(err)
		}
		if err := move(b, src, src.ID(), fresh(b, url, ledgertest.Options{})); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(*moveEvents)*float64(b.N)/b.Elapsed().Seconds(), "events/s")
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	b.ReportMetric(float64(m.Sys)/(1<<20), "MiB-of-the-system")
}
