package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/dedupe/postgres"
	"github.com/onceward/onceward/event"
)

// bouncer starts a pooler in transaction mode before the test's server: each
// transaction may be another server connection's, and those have been others'.
func bouncer(t *testing.T, url string) string {
	t.Helper()
	bin, err := exec.LookPath("pgbouncer")
	if err != nil {
		if os.Getenv("ONCEWARD_REQUIRE_PGBOUNCER") != "" {
			t.Fatal("no pgbouncer to test with")
		}
		t.Skip("no pgbouncer to test with: install it")
	}
	pc, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "owpb") // short: a socket's path is
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	attr := &syscall.SysProcAttr{}
	if os.Geteuid() == 0 { // it refuses to run as root
		u, err := user.Lookup("nobody")
		if err != nil {
			t.Fatal(err)
		}
		uid, _ := strconv.ParseUint(u.Uid, 10, 32)
		gid, _ := strconv.ParseUint(u.Gid, 10, 32)
		attr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		if err := os.Chown(dir, int(uid), int(gid)); err != nil {
			t.Fatal(err)
		}
	}
	users, ini := filepath.Join(dir, "users"), filepath.Join(dir, "ini")
	write := func(path, text string) {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(users, fmt.Sprintf("%q \"\"\n", pc.User))
	write(ini, fmt.Sprintf(`[databases]
%s = host=%s port=%d user=%s dbname=%s
[pgbouncer]
listen_addr =
listen_port = 6432
unix_socket_dir = %s
auth_type = trust
auth_file = %s
pool_mode = transaction
default_pool_size = 5
server_round_robin = 1
logfile = %s
`, pc.Database, pc.Host, pc.Port, pc.User, pc.Database, dir, users, filepath.Join(dir, "log")))
	cmd := exec.Command(bin, "-q", ini)
	cmd.SysProcAttr, cmd.Dir = attr, dir
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Signal(syscall.SIGINT); _ = cmd.Wait() })
	through := fmt.Sprintf("host=%s port=6432 user=%s dbname=%s", dir, pc.User, pc.Database)
	limit, done := context.WithTimeout(t.Context(), time.Minute)
	defer done()
	for tick := time.NewTicker(20 * time.Millisecond); ; {
		conn, err := pgx.Connect(limit, through)
		if err == nil {
			_ = conn.Close(limit)
			tick.Stop()
			return through
		}
		select {
		case <-tick.C:
		case <-limit.Done():
			log, _ := os.ReadFile(filepath.Join(dir, "log"))
			t.Fatalf("the pooler takes no connection: %v\n%s", err, log)
		}
	}
}

// TestBouncer holds that a fleet behind a pooler in transaction mode does all
// that it does without one, with exec mode describe.
func TestBouncer(t *testing.T) {
	through := bouncer(t, server(t))
	cfg := fresh(t, server(t), options())
	cfg.URL, cfg.ExecMode = through, postgres.ExecDescribe
	ms := []*member{join(t, cfg, "a"), join(t, cfg, "b")}
	const ids = 400
	got := newTold()
	flood(t.Context(), ms, ids, got)
	if len(got.refs) != ids || got.twice() != 0 {
		t.Errorf("%d of %d IDs answered, %d accepted twice", len(got.refs), ids, got.twice())
	}
	sent := deliver(t, ms)
	if len(sent) != ids {
		t.Errorf("%d of %d events were sent", len(sent), ids)
	}
	var one event.Ref
	for ref, times := range sent {
		if one = ref; times != 1 {
			t.Errorf("event %s was sent %d times", ref, times)
		}
	}
	if n, err := ms[0].Replay(t.Context(), dedupe.Replay{Selection: dedupe.Selection{Ref: one}}); err != nil || n.Opened != 1 {
		t.Errorf("replay: %d opened, %v", n.Opened, err)
	}
	for what, f := range map[string]func() error{
		"retention": func() error { _, err := ms[0].Expire(t.Context()); return err },
		"figures":   func() error { _, err := ms[1].Stats(t.Context()); return err },
		"measuring": func() error { return ms[1].Measure(t.Context()) },
		"a page":    func() error { _, err := ms[1].Events(t.Context(), dedupe.Filter{}, "", 50); return err },
		"a search": func() error {
			_, err := ms[1].Events(t.Context(), dedupe.Filter{Field: "a", Value: "b"}, "", 50)
			return err
		},
		"a note": func() error {
			_, err := ms[0].PutNote(t.Context(), dedupe.Note{Kind: "k", Name: "n", Value: []byte("v")})
			return err
		},
		"a check": func() error {
			rep, err := ms[0].Check(t.Context())
			if err == nil && (rep.Events != ids || len(rep.Faults) != 0) {
				err = fmt.Errorf("%d events, faults %v", rep.Events, rep.Faults)
			}
			return err
		},
	} {
		if err := f(); err != nil {
			t.Errorf("%s through the pooler: %v", what, err)
		}
	}
}

// TestBouncerControl is the same with named prepared statements, which are a
// connection's own: the pooler is seen to change connections.
func TestBouncerControl(t *testing.T) {
	through := bouncer(t, server(t))
	cfg := fresh(t, server(t), options())
	cfg.URL, cfg.ExecMode = through, postgres.ExecPrepare
	var err error
	for i := 0; i < 20 && err == nil; i++ { // each prepares by name what the one before did
		var db *postgres.DB
		cfg.Name = fmt.Sprint("gateway-", i)
		if db, err = postgres.Open(t.Context(), cfg); err == nil {
			err = db.Commit(t.Context(), &dedupe.Batch{Requests: []*dedupe.Request{request(fmt.Sprint(i))}})
			_ = db.Close()
		}
	}
	if err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("named statements through a pooler in transaction mode: %v, want the database to know none of them", err)
	}
}
