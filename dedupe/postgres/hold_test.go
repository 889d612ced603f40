package postgres_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/dedupe/badgerdb"
	"github.com/onceward/onceward/dedupe/ledgertest"
	"github.com/onceward/onceward/dedupe/postgres"
	"github.com/onceward/onceward/event"
)

// tool finds a program of PostgreSQL's.
func tool(t *testing.T, name string) string {
	t.Helper()
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/" + name)
	if err == nil && len(found) > 0 {
		return found[len(found)-1]
	}
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatalf("%s belongs to the server that is tested with: %v", name, err)
	}
	return path
}

// database makes one beside the server's own, and returns its name.
func database(t *testing.T, url, name string) string {
	t.Helper()
	cfg := postgres.Config{URL: url}
	ask(t, cfg, "DROP DATABASE IF EXISTS "+name)
	ask(t, cfg, "CREATE DATABASE "+name)
	t.Cleanup(func() { ask(t, cfg, "DROP DATABASE "+name+" WITH (FORCE)") })
	pc, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	return "host=" + pc.Host + " user=" + pc.User + " dbname=" + name
}

// The recipe of docs/scale.md: dumped while a gateway runs, restored into
// another database, made a ledger of its own, looked at, gone on with.
func TestDumpedAndRestoredByTheDatabase(t *testing.T) {
	url := server(t)
	clock := ledgertest.NewClock(time.Date(2026, 3, 1, 9, 30, 0, 0, time.UTC))
	cfg := fresh(t, url, ledgertest.Options{Now: clock.Now, Retention: lifeRetention})
	f := &life{t: t, l: start(t, cfg), clock: clock, ctx: t.Context()}
	f.live()
	file := filepath.Join(t.TempDir(), "ledger.dump")
	run := func(name string, args ...string) {
		t.Helper()
		if out, err := exec.Command(tool(t, name), args...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", name, err, out)
		}
	}
	run("pg_dump", "--format=custom", "--schema="+cfg.Schema, "--file="+file, "--dbname="+url)
	lost := f.accept(dedupe.Retention{}, []byte("lost"), f.item("lost", []byte("lost"), "slow"))[0]
	f.must(f.l.Close())

	again := cfg
	again.URL = database(t, url, "restored_by_hand")
	run("pg_restore", "--dbname="+again.URL, "--exit-on-error", file)
	// The gateway's last heartbeat is in the dump, and a moment ago.
	if _, err := postgres.Hold(t.Context(), again); !errors.Is(err, postgres.ErrAlive) {
		t.Errorf("hold beside a gateway that may be alive: error = %v, want ErrAlive", err)
	}
	ask(t, again, "UPDATE "+cfg.Schema+".gateways SET heartbeat = heartbeat - 61000")
	n, err := postgres.Hold(t.Context(), again)
	if err != nil || n < 10 {
		t.Fatalf("held %d deliveries, %v", n, err)
	}
	r := start(t, again)
	f.l = r
	for _, target := range f.l.Targets() {
		if ls, _, err := f.l.Lease(f.ctx, target, 1000, time.Minute); err != nil || len(ls) != 0 {
			t.Errorf("%d deliveries of %s are leased although they are held: %v", len(ls), target, err)
		}
	}
	if rep, err := r.Check(f.ctx); err != nil || len(rep.Faults) > 0 {
		t.Errorf("check: %v, %v", rep.Faults, err)
	}
	said := func() (held []dedupe.Concern) {
		t.Helper()
		if err := r.Measure(f.ctx); err != nil {
			t.Fatal(err)
		}
		st, err := r.Stats(f.ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range st.Concerns {
			if c.Name == "held" {
				held = append(held, c)
			}
		}
		return held
	}
	if c := said(); len(c) != 1 || c[0].Name != "held" || !strings.HasPrefix(c[0].Text, fmt.Sprint(n, " deliveries")) {
		t.Errorf("what the ledger says of the hold: %+v", c)
	}
	// The ref that was lost may be given to nobody else.
	if got := f.accept(dedupe.Retention{}, []byte("lost"), f.item("lost", []byte("lost"), "new target"))[0]; got.Verdict != dedupe.New || got.Ref.Writer() == lost.Ref.Writer() {
		t.Errorf("what came after the dump, again: %+v; want it to be new, of another writer than %x", got, lost.Ref.Writer())
	}
	if got := f.accept(dedupe.Retention{}, []byte("ordered 3"), f.item("o3", []byte("ordered 3"), "fast"))[0]; got.Verdict != dedupe.Repeat {
		t.Errorf("what the dump knows, again: %+v; want a repeat", got)
	}
	logs, err := f.l.ActLogs(f.ctx)
	if err != nil || len(logs) != 2 {
		t.Errorf("logs: %+v, %v; want the old writer's and the new one's", logs, err)
	}
	resumed, err := postgres.Resume(f.ctx, again)
	if err != nil || resumed != n {
		t.Errorf("resumed %d deliveries, %v; want the %d that were held", resumed, err, n)
	}
	if c := said(); len(c) != 0 {
		t.Errorf("after the hold the ledger says %+v", c)
	}
	made := 0
	clock.Advance(1000 * 24 * time.Hour) // the test's clock is not the database's
	for _, target := range f.l.Targets() {
		f.finish(target, func(l *dedupe.Lease) *dedupe.Result { made++; return f.result(l, event.Delivered) })
	}
	if made < 10 {
		t.Errorf("%d deliveries were made after it", made)
	}
}

// A dump of a ledger makes the same ledger elsewhere, which holds what was open.
func TestDumpedAndLoaded(t *testing.T) {
	url := server(t)
	e, clock := lived(t)
	src, err := badgerdb.OpenSource(t.Context(), e.cfg)
	if err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	w, err := dedupe.NewDumpWriter(&file, dedupe.DumpHead{ID: "d"})
	if err != nil {
		t.Fatal(err)
	}
	if err := src.Each(t.Context(), noFault, w.Put); err != nil {
		t.Fatal(err)
	}
	if _, err := w.End(); err != nil {
		t.Fatal(err)
	}
	if err := src.Close(); err != nil {
		t.Fatal(err)
	}
	cfg := fresh(t, url, ledgertest.Options{Now: clock.Now, Retention: lifeRetention})
	load := func(from []byte) error {
		l, err := postgres.NewLoader(t.Context(), cfg, "d")
		if err != nil {
			return err
		}
		defer l.Close()
		r, err := dedupe.NewDumpReader(bytes.NewReader(from))
		if err != nil {
			return err
		}
		tally, err := r.Each(func(m dedupe.Moved) error { return l.Put(context.Background(), m) })
		if err == nil {
			_, err = l.Finish(t.Context(), tally, true)
		}
		return err
	}
	// Cut in the middle, and the whole of it again.
	if err := load(file.Bytes()[:file.Len()/2]); !errors.Is(err, dedupe.ErrDamaged) {
		t.Errorf("half a dump: error = %v, want ErrDamaged", err)
	}
	if err := load(file.Bytes()); err != nil {
		t.Fatal(err)
	}
	l := start(t, cfg)
	again := startEmbedded(t, e.cfg)
	got, want := said(t, l), said(t, again)
	drop := func(s string) bool { return strings.HasPrefix(s, "delivery") }
	if len(got) != len(want) {
		t.Fatalf("%d lines, want %d", len(got), len(want))
	}
	for i := range got {
		if got[i] != want[i] && !drop(got[i]) { // when they are due has changed
			t.Errorf("line %d differs:\n got %s\nwant %s", i, got[i], want[i])
		}
	}
	for _, target := range l.Targets() {
		if ls, _, err := l.Lease(t.Context(), target, 1000, time.Minute); err != nil || len(ls) != 0 {
			t.Errorf("%d deliveries of %s are leased although they are held: %v", len(ls), target, err)
		}
	}
	l.cfg.ResumeDeliveries = true
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	clock.Advance(1000 * 24 * time.Hour) // the test's clock is not the database's
	l = start(t, l.cfg)
	if ls, _, err := l.Lease(t.Context(), "slow", 1000, time.Minute); err != nil || len(ls) == 0 {
		t.Errorf("%d deliveries are leased after they were resumed: %v", len(ls), err)
	}
}
