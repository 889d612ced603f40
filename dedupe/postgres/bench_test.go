package postgres_test

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/dedupe/ledgertest"
	"github.com/onceward/onceward/dedupe/postgres"
	"github.com/onceward/onceward/dedupe/postgres/pgtest"
	"github.com/onceward/onceward/event"
)

var (
	benchEvents = flag.Int("events", 4000, "events of one measurement of BenchmarkFleet")
	benchRounds = flag.Int("rounds", 3, "measurements of each kind, in turn; the best one counts")
	benchSteady = flag.Int("steady", 40_000, "events of BenchmarkSteady")
)

// costs are what the server has done so far.
type costs struct{ statements, wal, syncs float64 }

// durable is a server that syncs, as one in production does, and counts.
func durable(b *testing.B) *pgtest.Cluster {
	b.Helper()
	return pgtest.Own(b, "fsync=on", "full_page_writes=on", "shared_preload_libraries=pg_stat_statements", "max_wal_size=4GB")
}

func spent(b *testing.B, url string) (c costs) {
	b.Helper()
	conn, err := pgx.Connect(b.Context(), url)
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close(context.Background())
	if _, err := conn.Exec(b.Context(), "CREATE EXTENSION IF NOT EXISTS pg_stat_statements"); err != nil {
		b.Fatal(err)
	}
	err = conn.QueryRow(b.Context(), `SELECT (SELECT COALESCE(sum(calls), 0) FROM pg_stat_statements)::float8,
		pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::float8, (SELECT wal_sync FROM pg_stat_wal)::float8`).Scan(&c.statements, &c.wal, &c.syncs)
	if err != nil {
		b.Fatal(err)
	}
	return c
}

// fleet runs f on n gateways of a new ledger and closes them, so that the server
// has counted all.
func fleet(b *testing.B, url string, n int, f func(ms []*benched)) {
	b.Helper()
	cfg := postgres.Config{URL: url, Schema: pgtest.NewSchema(), Migrate: true, Retention: options().Retention}
	var ms []*benched
	for i := range n {
		cfg.Name = fmt.Sprint("gateway-", i)
		ms = append(ms, joinBench(b, cfg))
	}
	f(ms)
	for _, m := range ms {
		m.end()
	}
	drop(b, cfg)
}

// benched is a gateway of a benchmark.
type benched struct {
	*postgres.DB
	w   *dedupe.Writer
	end func()
}

func joinBench(b *testing.B, cfg postgres.Config) *benched {
	b.Helper()
	db, err := postgres.Open(b.Context(), cfg)
	if err != nil {
		b.Fatal(err)
	}
	w, err := dedupe.NewWriter(dedupe.WriterConfig{Ledger: db})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	return &benched{db, w, func() {
		cancel()
		if err := <-done; err != nil {
			b.Error(err)
		}
		if err := db.Close(); err != nil {
			b.Error(err)
		}
	}}
}

// senders is how many requests wait at each gateway.
const senders = 128

// accept sends n events to gateways, of round so that they are new.
func accept(b *testing.B, ms []*benched, n int, round string) time.Duration {
	var wg sync.WaitGroup
	var next atomic.Int64
	began := time.Now()
	for _, m := range ms {
		for range senders {
			wg.Go(func() {
				for i := next.Add(1); i <= int64(n); i = next.Add(1) {
					req := request(fmt.Sprint(round, "_", i))
					req.Body = append(req.Body, make([]byte, 1024)...)
					req.Items[0].Event.Body.Length, req.Items[0].Event.BodyHash = int64(len(req.Body)), event.HashOf(req.Body)
					if err := m.w.Accept(b.Context(), req); err != nil {
						b.Errorf("accept: %v", err)
						return
					}
				}
			})
		}
	}
	wg.Wait()
	return time.Since(began)
}

// land leases and lands all that is open.
func land(b *testing.B, ms []*benched) (leasing, took time.Duration) {
	var wg sync.WaitGroup
	var mu sync.Mutex
	began := time.Now()
	for _, m := range ms {
		wg.Go(func() {
			for {
				at := time.Now()
				ls, _, err := m.Lease(b.Context(), "billing", 200, time.Minute)
				mu.Lock()
				leasing += time.Since(at)
				mu.Unlock()
				if err != nil || len(ls) == 0 {
					if err != nil {
						b.Errorf("lease: %v", err)
					}
					return
				}
				var rs []*dedupe.Result
				for _, l := range ls {
					rs = append(rs, &dedupe.Result{Lease: l, State: event.Delivered, Attempt: event.Attempt{Event: l.Delivery.Event, Target: "billing",
						Number: 1, StartedAt: time.Now(), Status: 200, Outcome: event.Outcome2xx, State: event.Delivered}})
				}
				if err := m.w.Finish(b.Context(), rs...); err != nil {
					b.Errorf("finish: %v", err)
					return
				}
			}
		})
	}
	wg.Wait()
	return leasing / time.Duration(len(ms)), time.Since(began)
}

// alone writes events as a program does that has a transaction for each: the
// same rows, in one exchange with the server.
func alone(b *testing.B, url, schema string, n, conns int, round string) time.Duration {
	b.Helper()
	pc, err := pgxpool.ParseConfig(url)
	if err != nil {
		b.Fatal(err)
	}
	pc.MaxConns = int32(conns)
	pool, err := pgxpool.NewWithConfig(b.Context(), pc)
	if err != nil {
		b.Fatal(err)
	}
	defer pool.Close()
	var wg sync.WaitGroup
	var next atomic.Int64
	body := make([]byte, 1024+32)
	began := time.Now()
	for range conns {
		wg.Go(func() {
			for i := next.Add(1); i <= int64(n); i = next.Add(1) {
				id := fmt.Sprint(round, "_", i)
				key, hash := dedupe.KeyOf(dedupe.KindID, "shop", "", id), event.HashOf(body)
				now := time.Now().UnixMilli()
				ref := event.NewRef(uint64(now), uint32(i), 9)
				ev := event.Event{Ref: ref, Source: "shop", ID: id, ReceivedAt: time.Now(), BodyHash: hash, Targets: []string{"billing"}}
				q := &pgx.Batch{}
				q.Queue("begin")
				q.Queue("INSERT INTO "+schema+".claims VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING", key[:], [16]byte(ref), hash[:], 86400000, now+86400000)
				q.Queue("INSERT INTO "+schema+".events VALUES ($1, 'shop', $2, 0, $1, $3, 86400000, 86400000, 86400000, false, false, 0, 0, 0, $4)", [16]byte(ref), []byte(id), now, postgres.PackEvent(&ev))
				q.Queue("INSERT INTO "+schema+".bodies VALUES ($1, $2, $3)", [16]byte(ref), now+86400000, body)
				q.Queue("INSERT INTO "+schema+".pending VALUES ($1, 'billing', $1, 0, false, 0, $2, 0, $2, $2, 0, '', 10, false, 0, 0, 0, 0, 0, 0, 0, 0, 0)", [16]byte(ref), now)
				q.Queue("INSERT INTO "+schema+".batches VALUES (9, $1, 1, $2, $3, $3, 1, 0, $4)", i+now*1_000_000, now, [16]byte(ref), make([]byte, 150))
				q.Queue("commit")
				if err := pool.SendBatch(b.Context(), q).Close(); err != nil {
					b.Errorf("write alone: %v", err)
					return
				}
			}
		})
	}
	wg.Wait()
	return time.Since(began)
}

func perSecond(n int, took time.Duration) float64 { return float64(n) / took.Seconds() }

// BenchmarkFleet measures accepting and landing by 1, 2 and 4 gateways, against
// one transaction for each event, in turn so that one machine's other work
// meets all alike. Only the ratios are of this program.
func BenchmarkFleet(b *testing.B) {
	url := durable(b).URL
	best := map[string]float64{}
	keep := func(name string, v float64) { best[name] = max(best[name], v) }
	n := *benchEvents
	for b.Loop() {
		for round := range *benchRounds {
			name := fmt.Sprint("r", round, "_", time.Now().UnixNano())
			fleet(b, url, 1, func(ms []*benched) { // its tables are those of a ledger
				schema := ms[0].Schema()
				for _, conns := range []int{16, 64} {
					keep("alone/s", perSecond(n/4, alone(b, url, schema, n/4, conns, fmt.Sprint(name, conns))))
				}
			})
			for _, g := range []int{1, 2, 4} {
				before := spent(b, url)
				fleet(b, url, g, func(ms []*benched) { keep(fmt.Sprintf("accept-%d/s", g), perSecond(n, accept(b, ms, n, name))) })
				after := spent(b, url)
				best[fmt.Sprintf("stmts-%d/event", g)] = (after.statements - before.statements) / float64(n)
				best[fmt.Sprintf("wal-%d-B/event", g)] = (after.wal - before.wal) / float64(n)
				best[fmt.Sprintf("syncs-%d/event", g)] = (after.syncs - before.syncs) / float64(n)
				fleet(b, url, g, func(ms []*benched) {
					accept(b, ms, n, name)
					leasing, took := land(b, ms)
					keep(fmt.Sprintf("lease-%d/s", g), perSecond(n, leasing))
					keep(fmt.Sprintf("land-%d/s", g), perSecond(n, took))
				})
			}
		}
	}
	group := max(best["accept-1/s"], best["accept-2/s"], best["accept-4/s"])
	b.ReportMetric(group/best["alone/s"], "group÷alone")
	for name, v := range best {
		b.ReportMetric(v, name)
	}
}

// BenchmarkSteady lets twenty days go by, with a twentieth of the events each,
// landed, and dropped eight days later: rates and sizes of the tables whose rows
// come and go have to stay what they were.
func BenchmarkSteady(b *testing.B) {
	url := durable(b).URL
	day := 24 * time.Hour
	for b.Loop() {
		clock := ledgertest.NewClock(time.Date(2026, 3, 1, 9, 30, 0, 0, time.UTC))
		cfg := postgres.Config{URL: url, Schema: pgtest.NewSchema(), Migrate: true, Name: "a", Now: clock.Now,
			Retention: dedupe.Retention{Body: 8 * day, Meta: 8 * day, Audit: 8 * day}}
		m := joinBench(b, cfg)
		const days = 20
		n := *benchSteady / days
		var rates, lands []float64
		var sizes, pendings []int64
		for d := range days {
			rates = append(rates, perSecond(n, accept(b, []*benched{m}, n, fmt.Sprint("day", d))))
			_, took := land(b, []*benched{m})
			lands = append(lands, perSecond(n, took))
			clock.Advance(day)
			if _, err := m.Expire(b.Context()); err != nil {
				b.Fatal(err)
			}
			var claims, pending int64
			ask(b, cfg, "SELECT pg_total_relation_size('"+cfg.Schema+".claims')", &claims)
			ask(b, cfg, "SELECT pg_total_relation_size('"+cfg.Schema+".pending')", &pending)
			sizes, pendings = append(sizes, claims), append(pendings, pending)
		}
		first, last := slices.Max(rates[:5]), slices.Max(rates[days-5:])
		b.ReportMetric(last/first, "accept-end÷begin")
		b.ReportMetric(slices.Max(lands[days-5:])/slices.Max(lands[:5]), "land-end÷begin")
		b.ReportMetric(last, "accept/s")
		b.ReportMetric(float64(sizes[days-1])/float64(sizes[days/2]), "claims-end÷middle")
		b.ReportMetric(float64(pendings[days-1])/float64(pendings[days/2]), "pending-end÷middle")
		m.end()
		drop(b, cfg)
	}
}
