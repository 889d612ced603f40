package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/dedupe/ledgertest"
	"github.com/onceward/onceward/event"
)

// gathered is the sum of a metric's samples whose labels have a value, any
// when it is "".
func gathered(t *testing.T, reg *prometheus.Registry, name, label string) (sum float64, found bool) {
	t.Helper()
	all, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			has := label == ""
			for _, l := range m.GetLabel() {
				has = has || l.GetValue() == label
			}
			if has {
				found = true
				sum += m.GetGauge().GetValue() + m.GetCounter().GetValue()
			}
		}
	}
	return sum, found
}

// TestMeasured holds that the figures tell a database that goes wrong from one
// that does not.
func TestMeasured(t *testing.T) {
	cfg := fresh(t, server(t), options())
	reg := prometheus.NewRegistry()
	cfg.Registerer = reg
	db := start(t, cfg)
	old := func() float64 { v, _ := gathered(t, reg, "onceward_postgres_oldest_transaction_seconds", ""); return v }
	horizon := func() float64 {
		v, _ := gathered(t, reg, "onceward_postgres_horizon_age_transactions", "")
		return v
	}
	conn, err := pgx.Connect(t.Context(), cfg.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	tx, err := conn.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "SELECT txid_current()"); err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		if err := db.Commit(t.Context(), &dedupe.Batch{Requests: []*dedupe.Request{request(fmt.Sprint(i))}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Measure(t.Context()); err != nil {
		t.Fatal(err)
	}
	held, behind := old(), horizon()
	if held <= 0 || behind < 20 {
		t.Errorf("a transaction that is open through 20 commits: its age is %v s, and it holds back %v transactions", held, behind)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	limit := time.NewTimer(time.Minute) // what cleans up looks at old rows as well, for a moment
	defer limit.Stop()
	for horizon() >= behind {
		if err := db.Measure(t.Context()); err != nil {
			t.Fatal(err)
		}
		select {
		case <-limit.C:
			t.Fatalf("a minute after its end still %v transactions are held back, %v before", horizon(), behind)
		default:
		}
	}
	lead, _ := gathered(t, reg, "onceward_postgres_partition_lead_seconds", "")
	width, _ := gathered(t, reg, "onceward_postgres_partition_width_seconds", "")
	if width != 86400 || lead > 0 && lead > 4*width {
		t.Errorf("partitions of %v s are made %v s ahead", width, lead)
	}
	ask(t, cfg, "DELETE FROM "+cfg.Schema+".partitions WHERE hi > (SELECT min(hi) FROM "+cfg.Schema+".partitions)")
	if err := db.Measure(t.Context()); err != nil {
		t.Fatal(err)
	}
	if short, _ := gathered(t, reg, "onceward_postgres_partition_lead_seconds", ""); short > width {
		t.Errorf("with the partition of today alone the lead is %v s", short)
	}
}

// TestAlertsNameMetrics: what the shipped rules ask for is there, and each rule
// has a case in which it fires.
func TestAlertsNameMetrics(t *testing.T) {
	cfg := fresh(t, server(t), options())
	reg := prometheus.NewRegistry()
	cfg.Registerer = reg
	db := start(t, cfg)
	if err := db.Measure(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := dedupe.NewWriter(dedupe.WriterConfig{Ledger: db, Registerer: reg}); err != nil {
		t.Fatal(err)
	}
	const path = "../../docs/alerts/onceward-postgres.rules"
	rules, err := os.ReadFile(path + ".yml")
	if err != nil {
		t.Fatal(err)
	}
	cases, err := os.ReadFile(path + ".test.yml")
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile(`onceward_[a-z_]+`).FindAllString(string(rules), -1)
	if len(names) < 8 {
		t.Errorf("the rules name %d metrics", len(names))
	}
	for _, name := range names {
		if _, ok := gathered(t, reg, name, ""); !ok {
			t.Errorf("the rules ask for %s, which a gateway doesn't have", name)
		}
	}
	for _, m := range regexp.MustCompile(`- alert: (\w+)`).FindAllStringSubmatch(string(rules), -1) {
		if !strings.Contains(string(cases), "name: "+m[1]+" fires") || !strings.Contains(string(cases), "name: "+m[1]+" is silent") {
			t.Errorf("no case has %s fire and be silent", m[1])
		}
	}
	scale, err := os.ReadFile("../../docs/scale.md")
	if err != nil {
		t.Fatal(err)
	}
	others, err := os.ReadFile("../../docs/alerts/onceward.rules.yml")
	if err != nil {
		t.Fatal(err)
	}
	rules = append(rules, others...)
	for _, name := range regexp.MustCompile("`Onceward[A-Z]\\w+`").FindAllString(string(scale), -1) {
		if !strings.Contains(string(rules), "- alert: "+strings.Trim(name, "`")) {
			t.Errorf("docs/scale.md speaks of the alert %s, which there is not", name)
		}
	}
}

// TestRetentionInTurn holds that of several gateways one runs retention at a
// time, and that it is run.
func TestRetentionInTurn(t *testing.T) {
	clock := ledgertest.NewClock(time.Date(2026, 3, 1, 9, 30, 0, 0, time.UTC))
	o := options()
	o.Now = clock.Now
	cfg := fresh(t, server(t), o)
	a, b := join(t, cfg, "a"), join(t, cfg, "b")
	if err := a.w.Accept(t.Context(), request("old")); err != nil {
		t.Fatal(err)
	}
	deliver(t, []*member{a})
	turn := func() (n int) {
		t.Helper()
		for _, m := range []*member{a, b, a, b} {
			ran, err := m.ExpireInTurn(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if ran {
				n++
			}
		}
		return n
	}
	if n := turn(); n != 1 {
		t.Errorf("retention ran %d times at one moment, want once", n)
	}
	clock.Advance(70 * 24 * time.Hour)
	if n := turn(); n != 1 {
		t.Errorf("retention ran %d times after seventy days, want once", n) // the hold of a far clock is for starts alone
	}
	if p, err := b.Events(t.Context(), dedupe.Filter{}, "", 10); err != nil || len(p.Items) != 0 {
		t.Errorf("%d events are there after their end, %v", len(p.Items), err)
	}
}

// TestDropBesideReader holds that a partition that is just read is not dropped
// at the cost of those who write: it stays until the next time.
func TestDropBesideReader(t *testing.T) {
	clock := ledgertest.NewClock(time.Date(2026, 3, 1, 9, 30, 0, 0, time.UTC))
	o := options()
	o.Now = clock.Now
	cfg := fresh(t, server(t), o)
	db := join(t, cfg, "a")
	if err := db.w.Accept(t.Context(), request("old")); err != nil {
		t.Fatal(err)
	}
	deliver(t, []*member{db})
	clock.Advance(70 * 24 * time.Hour)
	conn, err := pgx.Connect(t.Context(), cfg.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var n int
	if err := tx.QueryRow(t.Context(), "SELECT count(*) FROM "+cfg.Schema+".events").Scan(&n); err != nil || n != 1 {
		t.Fatalf("%d events, %v", n, err)
	}
	ctx, stop := context.WithCancel(t.Context())
	wrote := make(chan error, 1)
	go func() { // intake goes on all the while
		for i := 0; ; i++ {
			if ctx.Err() != nil {
				wrote <- nil
				return
			}
			if err := db.w.Accept(t.Context(), request(fmt.Sprint("new_", i))); err != nil {
				wrote <- err
				return
			}
		}
	}()
	if _, err := db.Expire(t.Context()); err != nil {
		t.Errorf("retention beside a reader: %v", err)
	}
	stop()
	if err := <-wrote; err != nil {
		t.Errorf("intake beside it: %v", err)
	}
	old := func() bool {
		_, err := db.Get(t.Context(), event.NewRef(uint64(time.Date(2026, 3, 1, 9, 30, 0, 0, time.UTC).UnixMilli()), 0, db.Writer()))
		if err != nil && !errors.Is(err, dedupe.ErrPruned) {
			t.Errorf("read the old event: %v", err)
		}
		return err == nil
	}
	if !old() {
		t.Error("a partition was dropped under its reader")
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Expire(t.Context()); err != nil {
		t.Errorf("retention: %v", err)
	}
	if old() {
		t.Error("a partition that nothing reads any more is still there")
	}
}

// TestSpaceBesideReader holds that the space of what was deleted comes back also
// beside a transaction that sees it and ends a moment later.
func TestSpaceBesideReader(t *testing.T) {
	clock := ledgertest.NewClock(time.Date(2026, 3, 1, 9, 30, 0, 0, time.UTC))
	o := options()
	o.Now = clock.Now
	cfg := fresh(t, server(t), o)
	db := start(t, cfg)
	body := make([]byte, 2<<20)
	for i := range body {
		body[i] = byte(i * i >> 7)
	}
	for i := range 10 {
		claim := keyStep(fmt.Sprint(i))
		if err := db.Commit(t.Context(), &dedupe.Batch{Keys: []*dedupe.KeyStep{claim}}); err != nil {
			t.Fatal(err)
		}
		answer := &dedupe.KeyStep{Kind: dedupe.StepAnswer, Key: claim.Key, Token: claim.Record.Token, ForwardedAt: clock.Now(),
			Answer: &dedupe.KeyAnswer{Status: 200, Length: int64(len(body)), Hash: event.HashOf(body), Body: body}}
		if err := db.Commit(t.Context(), &dedupe.Batch{Keys: []*dedupe.KeyStep{answer}}); err != nil || answer.Err != nil {
			t.Fatal(err, answer.Err)
		}
	}
	size := func() (n int64) {
		ask(t, cfg, "SELECT pg_total_relation_size('"+cfg.Schema+".sync_chunks')", &n)
		return n
	}
	full := size()
	clock.Advance(48 * time.Hour)
	conn, err := pgx.Connect(t.Context(), cfg.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	tx, err := conn.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err != nil {
		t.Fatal(err)
	}
	var n int
	if err := tx.QueryRow(t.Context(), "SELECT count(*) FROM "+cfg.Schema+".sync_keys").Scan(&n); err != nil || n != 10 {
		t.Fatalf("%d keys, %v", n, err)
	}
	time.AfterFunc(300*time.Millisecond, func() { _ = tx.Rollback(context.Background()) })
	if x, err := db.Expire(t.Context()); err != nil || x.Keys != 10 {
		t.Fatalf("%d keys ended, %v", x.Keys, err)
	}
	if left := size(); full < 20<<20 || left > full/10 {
		t.Errorf("%d of %d bytes are still taken", left, full)
	}
}
