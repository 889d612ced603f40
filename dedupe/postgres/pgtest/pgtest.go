// Package pgtest starts a private PostgreSQL server for tests: on a Unix socket,
// as an unprivileged user, in a directory that is removed at the end. A test
// binary has at most one, started by the first test that asks; tests have
// schemas of their own in it.
//
// ONCEWARD_TEST_POSTGRES names a database to use in its place. Where no server
// is installed tests that need one are skipped, and fail if
// ONCEWARD_REQUIRE_POSTGRES is set.
package pgtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
)

// TB is what is needed of a test.
type TB interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
	Skip(args ...any)
	Cleanup(func())
}

// shared is the one server of this test binary.
var shared struct {
	once    sync.Once
	cluster *Cluster
	url     string
	err     error
}

var schemas atomic.Int64

// Main is a testing.M whose Run stops the server that its tests had started.
type Main struct{ M interface{ Run() int } }

// Run runs the tests.
func (m Main) Run() int {
	code := m.M.Run()
	shared.once.Do(func() {}) // nobody starts one any more
	if shared.cluster != nil {
		shared.cluster.Stop()
	}
	return code
}

// Find is the database to test with, or why there is none.
func Find() (url string, err error) {
	shared.once.Do(func() {
		if shared.url = os.Getenv("ONCEWARD_TEST_POSTGRES"); shared.url != "" {
			return
		}
		if shared.cluster, shared.err = Start(); shared.err == nil {
			shared.url = shared.cluster.URL
		}
	})
	return shared.url, shared.err
}

// Required reports whether a missing server is a failure.
func Required() bool { return os.Getenv("ONCEWARD_REQUIRE_POSTGRES") != "" }

// URL is Find for a test, which ends when there is none.
func URL(t TB) string {
	t.Helper()
	url, err := Find()
	if err != nil {
		absent(t, err)
	}
	return url
}

// Own starts a server of the test's own, which it may stop and start.
func Own(t TB, settings ...string) *Cluster {
	t.Helper()
	c, err := Start(settings...)
	if err != nil {
		absent(t, err)
	}
	t.Cleanup(c.Stop)
	return c
}

// absent ends a test that needs a server: there is none because of err.
func absent(t TB, err error) {
	t.Helper()
	why := "no PostgreSQL to test with: " + err.Error() + "; install it or set ONCEWARD_TEST_POSTGRES"
	if Required() {
		t.Fatal(why)
	}
	t.Skip(why)
}

// Schema is a schema's name that no other test has, dropped at the end.
func Schema(t TB) string {
	t.Helper()
	name := NewSchema()
	t.Cleanup(func() { SQL(t, "DROP SCHEMA IF EXISTS "+name+" CASCADE") })
	return name
}

// NewSchema is a schema's name that no other test has.
func NewSchema() string { return fmt.Sprintf("test_%d_%d", os.Getpid(), schemas.Add(1)) }

// SQL is Query for a test.
func SQL(t TB, sql string) string {
	t.Helper()
	out, err := Query(URL(t), sql)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Query runs statements in a database and returns what they print, without
// headers.
func Query(url, sql string) (string, error) {
	psql := "psql"
	if bin, err := installed(); err == nil {
		psql = filepath.Join(bin, psql)
	}
	cmd := exec.Command(psql, "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d", url, "-c", "SET client_min_messages = warning", "-c", sql)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("psql: %s: %w: %s", sql, err, out)
	}
	return strings.TrimSpace(string(out)), nil
}
