package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/dedupe/ledgertest"
	"github.com/onceward/onceward/dedupe/postgres"
	"github.com/onceward/onceward/event"
)

// running is a ledger with its background work.
type running struct {
	*postgres.DB
	cfg  postgres.Config
	stop func()
}

// Close stops the background work first, as the gateway does.
func (r *running) Close() error {
	r.stop()
	return r.DB.Close()
}

var schemas atomic.Int64

// fresh is a configuration with a schema of its own. It is dropped before and
// after where the server outlives the tests; one of our own goes as a whole.
func fresh(tb ledgertest.TB, url string, o ledgertest.Options) postgres.Config {
	tb.Helper()
	cfg := postgres.Config{
		URL: url, Schema: fmt.Sprintf("test_%d", schemas.Add(1)), Name: "one", MaxConns: 4, Migrate: true,
		Now: o.Now, Retention: o.Retention,
	}
	if os.Getenv("ONCEWARD_TEST_POSTGRES") != "" {
		drop(tb, cfg)
		tb.Cleanup(func() { drop(tb, cfg) })
	}
	return cfg
}

func drop(tb ledgertest.TB, cfg postgres.Config) {
	tb.Helper()
	ask(tb, cfg, "DROP SCHEMA IF EXISTS "+cfg.Schema+" CASCADE")
}

// ask runs SQL on a connection of its own.
func ask(tb ledgertest.TB, cfg postgres.Config, sql string, to ...any) {
	tb.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, cfg.URL)
	if err != nil {
		tb.Fatalf("connect: %v", err)
	}
	defer conn.Close(ctx)
	if len(to) > 0 {
		err = conn.QueryRow(ctx, sql).Scan(to...)
	} else {
		_, err = conn.Exec(ctx, sql)
	}
	if err != nil {
		tb.Fatalf("%s: %v", sql, err)
	}
}

func start(tb ledgertest.TB, cfg postgres.Config) *running {
	tb.Helper()
	db, err := postgres.Open(context.Background(), cfg)
	if err != nil {
		tb.Fatalf("open: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- db.Run(ctx) }()
	r := &running{DB: db, cfg: cfg, stop: sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil && !errors.Is(err, dedupe.ErrFatal) { // its name may have been taken
			tb.Errorf("run: %v", err)
		}
	})}
	tb.Cleanup(func() {
		if err := r.Close(); err != nil && !errors.Is(err, dedupe.ErrFatal) {
			tb.Errorf("close: %v", err)
		}
	})
	return r
}

// room is a database of the server with few schemas in it: what a ledger asks the
// server about itself takes as long as there are tables in the database. Where the
// server is not our own it is the one database.
func room(tb ledgertest.TB, url string) string {
	tb.Helper()
	if os.Getenv("ONCEWARD_TEST_POSTGRES") != "" {
		return url
	}
	rooms.Lock()
	defer rooms.Unlock()
	name := fmt.Sprint("room_", rooms.used/perRoom)
	if rooms.used%perRoom == 0 {
		ask(tb, postgres.Config{URL: url}, "CREATE DATABASE "+name)
	}
	rooms.used++
	return strings.Replace(url, "dbname=postgres", "dbname="+name, 1)
}

const perRoom = 16

var rooms struct {
	sync.Mutex
	used int
}

func TestConformance(t *testing.T) {
	url := server(t)
	histories := 25
	if testing.Short() {
		histories = 5
	}
	ledgertest.Run(t, harness(url, histories))
}

func harness(url string, histories int) ledgertest.Harness {
	return ledgertest.Harness{
		Open: func(tb ledgertest.TB, o ledgertest.Options) dedupe.Ledger {
			return start(tb, fresh(tb, room(tb, url), o))
		},
		Reopen: func(tb ledgertest.TB, l dedupe.Ledger) dedupe.Ledger {
			r := l.(*running)
			if err := r.Close(); err != nil {
				tb.Fatalf("close: %v", err)
			}
			return start(tb, r.cfg)
		},
		// As after a kill: the name is taken over from a process that never
		// closed.
		Crash: func(tb ledgertest.TB, l dedupe.Ledger) dedupe.Ledger { return start(tb, l.(*running).cfg) },
		Restore: func(tb ledgertest.TB, r io.Reader, o ledgertest.Options) dedupe.Ledger {
			cfg := fresh(tb, url, o)
			if err := postgres.Restore(tb.Context(), cfg, r); err != nil {
				tb.Fatalf("restore: %v", err)
			}
			return start(tb, cfg)
		},
		DiskUsage: func(tb ledgertest.TB, l dedupe.Ledger) (n int64) {
			ask(tb, l.(*running).cfg, `SELECT sum(pg_total_relation_size(c.oid))::bigint FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
				WHERE n.nspname = '`+l.(*running).cfg.Schema+`' AND c.relkind = 'r'`, &n)
			return n
		},
		Damage: func(tb ledgertest.TB, l dedupe.Ledger, ref event.Ref) dedupe.Ledger {
			ask(tb, l.(*running).cfg, fmt.Sprintf(`UPDATE %s.events SET rec = set_bit(rec, 99, 1 - get_bit(rec, 99)) WHERE ref = '%x'`, l.(*running).cfg.Schema, ref[:]))
			return l
		},
		DiskSlack:         8 << 20,
		InjectCommitError: func(l dedupe.Ledger, err error) { l.(*running).FailNext(err) },
		Histories:         histories,
	}
}
