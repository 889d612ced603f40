package inbox_test

import (
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"modernc.org/sqlite"

	"github.com/onceward/onceward/dedupe/inbox"
)

// The driver registers itself as "sqlite".
var _ = sqlite.Driver{}

// postgresBin is where Debian keeps the server's programs.
const postgresBin = "/usr/lib/postgresql/15/bin"

// database is one that tests run against.
type database struct {
	dialect inbox.Dialect
	dsn     string
}

func (d database) open(t testing.TB) *sql.DB {
	t.Helper()
	db, err := d.connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func (d database) connect() (*sql.DB, error) {
	if d.dialect == inbox.SQLite {
		return sql.Open("sqlite", d.dsn)
	}
	cfg, err := pgx.ParseConfig(d.dsn)
	if err != nil {
		return nil, err
	}
	return stdlib.OpenDB(*cfg), nil
}

// sqliteIn is a database in a file of dir. Immediate transactions wait for
// each other instead of failing when they first write.
func sqliteIn(dir string) database {
	return database{inbox.SQLite, "file:" + filepath.Join(dir, "target.db") +
		"?_txlock=immediate&_pragma=busy_timeout(20000)&_pragma=journal_mode(WAL)&_pragma=synchronous(NORMAL)"}
}

// each runs f against every database there is.
func each(t *testing.T, f func(t *testing.T, d database)) {
	t.Helper()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		f(t, sqliteIn(t.TempDir()))
	})
	t.Run("postgresql", func(t *testing.T) {
		t.Parallel()
		f(t, postgres(t))
	})
}

// postgres starts a server of its own on a socket, without a network port.
func postgres(t *testing.T) database {
	t.Helper()
	if _, err := os.Stat(filepath.Join(postgresBin, "postgres")); err != nil {
		if os.Getenv("ONCEWARD_REQUIRE_POSTGRES") != "" {
			t.Fatal("PostgreSQL is not installed in " + postgresBin)
		}
		t.Skip("PostgreSQL is not installed in " + postgresBin)
	}
	dir, err := os.MkdirTemp("", "inbox") // short: a socket's path is
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	attr := withParent(syscall.SIGQUIT)
	if os.Geteuid() == 0 { // the server refuses to run as root
		attr.Credential = unprivileged(t)
		if err := os.Chown(dir, int(attr.Credential.Uid), int(attr.Credential.Gid)); err != nil {
			t.Fatal(err)
		}
	}
	data := filepath.Join(dir, "data")
	initdb := exec.Command(filepath.Join(postgresBin, "initdb"), "-D", data, "-U", "inbox", "-A", "trust", "-E", "UTF8", "--locale=C", "-N")
	initdb.SysProcAttr, initdb.Dir = attr, dir
	if out, err := initdb.CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v\n%s", err, out)
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	server := exec.Command(filepath.Join(postgresBin, "postgres"), "-D", data, "-k", dir, "-h", "", "-c", "fsync=off", "-c", "max_connections=60")
	server.SysProcAttr, server.Dir, server.Stdout, server.Stderr = attr, dir, log, log
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Signal(syscall.SIGINT)
		_ = server.Wait()
		log.Close()
	})
	ready(t, dir, log.Name())
	return database{inbox.PostgreSQL, fmt.Sprintf("host=%s user=inbox dbname=postgres", dir)}
}

// ready returns when the server takes connections; pg_isready is asked until
// then.
func ready(t *testing.T, dir, log string) {
	t.Helper()
	for range 2000 {
		if exec.Command(filepath.Join(postgresBin, "pg_isready"), "-q", "-h", dir).Run() == nil {
			return
		}
	}
	text, _ := os.ReadFile(log)
	t.Fatalf("the server is not ready:\n%s", text)
}

func unprivileged(t *testing.T) *syscall.Credential {
	t.Helper()
	u, err := user.Lookup("nobody")
	if err != nil {
		t.Fatal(err)
	}
	uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
	gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
	if err1 != nil || err2 != nil {
		t.Fatalf("user nobody has the IDs %s and %s", u.Uid, u.Gid)
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}

func box(t testing.TB, cfg inbox.Config, db *sql.DB) *inbox.Inbox {
	t.Helper()
	b, err := inbox.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Create(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	return b
}
