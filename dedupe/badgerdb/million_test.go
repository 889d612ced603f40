package badgerdb_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/dedupe/badgerdb"
	"github.com/onceward/onceward/event"
)

// BenchmarkMillion fills a ledger with a million events of 1 KiB, a tenth of
// them still open, takes its files as a kill would leave them, and reports how
// long the ledger takes to be ready, what a page costs, and what disk is left
// after everything has expired. It takes minutes:
//
//	go test -run '^$' -bench Million -benchtime 1x -timeout 30m ./dedupe/badgerdb
//
// MILLION_DIR keeps the killed ledger there, to start a gateway on.
func BenchmarkMillion(b *testing.B) {
	const events, open = 1_000_000, 100_000
	offset := time.Duration(0)
	now := func() time.Time { return time.Now().Add(offset) }
	cfg := badgerdb.Config{Dir: filepath.Join(b.TempDir(), "full"), Now: now, Reserve: 64 << 20, Ballast: -1}
	db := start(b, cfg)
	started := time.Now()
	fill(b, db, events, open)
	b.ReportMetric(events/time.Since(started).Seconds(), "filled/s")
	killed := cfg
	killed.Dir = filepath.Join(b.TempDir(), "killed")
	snapshot(b, cfg.Dir, killed.Dir)
	if dir := os.Getenv("MILLION_DIR"); dir != "" {
		snapshot(b, cfg.Dir, dir)
	}
	if err := db.Close(); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(allocated(b, killed.Dir))/(1<<20), "MiB")

	started = time.Now()
	db2, err := badgerdb.Open(killed)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(time.Since(started).Milliseconds()), "ready-ms")
	if err := db2.Close(); err != nil {
		b.Fatal(err)
	}
	started = time.Now()
	db = start(b, killed) // returns when the schedule is whole
	b.ReportMetric(float64(time.Since(started).Milliseconds()), "schedule-ms")
	pages(b, db)
	finds(b, db, events)

	offset = 20 * time.Hour // twice, so that the clock is not held as far ahead
	for range 60 {
		offset += 20 * time.Hour
		if _, err := db.Expire(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	offset += 500 * 24 * time.Hour
	drain(b, db)
	seal(b, db)
	started = time.Now()
	if _, err := db.Expire(b.Context()); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(time.Since(started).Milliseconds()), "expire-ms")
	if err := db.Close(); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(allocated(b, killed.Dir))/(1<<20), "MiB-expired")
	b.ReportMetric(0, "ns/op")
}

// customers is how many the events of the benchmark have in turn.
const customers = 50_000

// fill accepts n events and delivers all but the last open ones.
func fill(b *testing.B, db *running, n, open int) {
	b.Helper()
	pad := strings.Repeat("abcdefgh", 60) + strings.Repeat("0", 540)
	for i := 0; i < n; i += 500 {
		batch := &dedupe.Batch{}
		for j := range 500 {
			r := request("bench", fmt.Sprint("evt_", i+j), fmt.Sprintf(`{"id":%d,"pad":%q}`, i+j, pad), "t")
			r.Items[0].Window = 30 * 24 * time.Hour
			r.Items[0].Event.Index = []event.Field{{Name: "customer", Value: fmt.Sprint("cus_", (i+j)%customers)}, {Name: "plan", Value: "pro"}}
			batch.Requests = append(batch.Requests, r)
		}
		if i < n-open {
			batch.Results = results(b, db)
		}
		if err := db.Commit(b.Context(), batch); err != nil {
			b.Fatal(err)
		}
	}
	for rs := results(b, db); len(rs) > 0 && openOf(b, db) > int64(open); rs = results(b, db) {
		if err := db.Commit(b.Context(), &dedupe.Batch{Results: rs}); err != nil {
			b.Fatal(err)
		}
	}
}

func results(b *testing.B, db *running) []*dedupe.Result {
	b.Helper()
	ls, _, err := db.Lease(b.Context(), "t", 500, time.Hour)
	if err != nil {
		b.Fatal(err)
	}
	var out []*dedupe.Result
	for _, l := range ls {
		out = append(out, &dedupe.Result{Lease: l, State: event.Delivered, Attempt: event.Attempt{
			Event: l.Delivery.Event, Target: "t", Number: 1, StartedAt: time.Now(), Status: 200, Outcome: event.Outcome2xx,
			Response: []byte("HTTP/1.1 200 OK\r\n\r\n"), State: event.Delivered}})
	}
	return out
}

func openOf(b *testing.B, db *running) int64 {
	b.Helper()
	st, err := db.Stats(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	return st.Targets["t"].Pending + st.Targets["t"].Leased
}

func drain(b *testing.B, db *running) {
	b.Helper()
	for rs := results(b, db); len(rs) > 0; rs = results(b, db) {
		if err := db.Commit(b.Context(), &dedupe.Batch{Results: rs}); err != nil {
			b.Fatal(err)
		}
	}
}

// seal says of all acts that a checkpoint has them, as a gateway's account does;
// without one they are kept for ever.
func seal(b *testing.B, db *running) {
	b.Helper()
	logs, err := db.ActLogs(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	for _, l := range logs {
		if err := db.SealActs(b.Context(), l.Writer, l.Next); err != nil {
			b.Fatal(err)
		}
	}
}

// pages reports what the newest 50 cost, events and dead letters.
func pages(b *testing.B, db *running) {
	b.Helper()
	const rounds = 20
	started := time.Now()
	for range rounds {
		p, err := db.Events(b.Context(), dedupe.Filter{}, "", 50)
		if err != nil || len(p.Items) != 50 {
			b.Fatal(len(p.Items), err)
		}
	}
	b.ReportMetric(float64(time.Since(started).Microseconds())/rounds, "page-µs")
	started = time.Now()
	for i := range rounds {
		refs, err := db.Lookup(b.Context(), []string{"bench"}, fmt.Sprint("evt_", i*40_000))
		if err != nil || len(refs) != 1 {
			b.Fatal(refs, err)
		}
	}
	b.ReportMetric(float64(time.Since(started).Microseconds())/rounds, "lookup-µs")
}

// finds reports what a page of one customer's events costs, and of a value that
// all events have.
func finds(b *testing.B, db *running, n int) {
	b.Helper()
	const rounds = 20
	for _, tt := range []struct {
		metric string
		field  func(int) event.Field
		want   int
	}{
		{"where-µs", func(i int) event.Field { return event.Field{Name: "customer", Value: fmt.Sprint("cus_", i*2_000)} }, min(50, n/customers)},
		{"where-all-µs", func(int) event.Field { return event.Field{Name: "plan", Value: "pro"} }, 50},
		{"where-none-µs", func(int) event.Field { return event.Field{Name: "plan", Value: "none"} }, 0},
	} {
		started := time.Now()
		for i := range rounds {
			f := tt.field(i)
			p, err := db.Events(b.Context(), dedupe.Filter{Field: f.Name, Value: f.Value}, "", 50)
			if err != nil || len(p.Items) != tt.want {
				b.Fatal(f, len(p.Items), err)
			}
		}
		b.ReportMetric(float64(time.Since(started).Microseconds())/rounds, tt.metric)
	}
}
