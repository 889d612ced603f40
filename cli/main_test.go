package cli_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/onceward/onceward/cli"
	"github.com/onceward/onceward/dedupe/postgres/pgtest"
)

// deadline bounds every wait for something that must happen.
const deadline = 20 * time.Second

// TestMain lets the scripts run the program itself, as a process of its own.
func TestMain(m *testing.M) {
	testscript.Main(pgtest.Main{M: m}, map[string]func(){"onceward": onceward})
}

func onceward() {
	if file := os.Getenv("PIDFILE"); file != "" {
		if err := os.WriteFile(file, []byte(strconv.Itoa(os.Getpid())), 0o600); err != nil {
			panic(err)
		}
	}
	config, err := os.ReadFile(os.Getenv("SHIPPED_CONFIG"))
	if err != nil {
		panic(err)
	}
	os.Exit(cli.Main(context.Background(), os.Args[1:], cli.IO{
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Env: os.LookupEnv, Config: config,
		Samples: os.DirFS(os.Getenv("MODULE_ROOT")),
	}))
}

func TestScripts(t *testing.T) {
	shipped, err := filepath.Abs("../config.toml")
	if err != nil {
		t.Fatal(err)
	}
	vectors, err := filepath.Abs("../testdata/vectors")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "../testdata/script",
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("SHIPPED_CONFIG", shipped)
			env.Setenv("VECTORS", vectors)
			env.Setenv("MODULE_ROOT", filepath.Dir(shipped))
			env.Setenv("TMPDIR", filepath.Join(env.WorkDir, ".tmp"))
			env.Values[targetsKey{}] = map[string]*recorder{}
			return os.MkdirAll(filepath.Join(env.WorkDir, ".tmp"), 0o700)
		},
		Condition: func(cond string) (bool, error) {
			if cond != "postgres" {
				return false, fmt.Errorf("unknown condition %q", cond)
			}
			_, err := pgtest.Find()
			if err != nil && pgtest.Required() {
				return false, err
			}
			return err == nil, nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"code":     cmdCode,
			"freeport": cmdFreeport,
			"until":    cmdUntil,
			"target":   cmdTarget,
			"saw":      cmdSaw,
			"gone":     cmdGone,
			"signal":   cmdSignal,
			"append":   cmdAppend,
			"grab":     cmdGrab,
			"database": cmdDatabase,
			"psql":     cmdPsql,
		},
	})
}

// cmdCode runs a program and wants an exit code: code N PROGRAM ARGS...
func cmdCode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: code N program args...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	if got := exitCode(ts.Exec(args[1], args[2:]...)); got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

func exitCode(err error) int {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return exit.ExitCode()
	}
	return -1
}

// cmdFreeport puts a free loopback address into a variable: freeport NAME. The
// port is below the range from which the system takes ports for itself.
func cmdFreeport(ts *testscript.TestScript, _ bool, args []string) {
	for range 100 {
		addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(15000+rand.IntN(15000)))
		ln, err := net.Listen("tcp", addr)
		if err != nil {
			continue
		}
		ts.Check(ln.Close())
		ts.Setenv(args[0], addr)
		return
	}
	ts.Fatalf("no free port")
}

// cmdUntil runs a program again and again until its output matches, or time is
// up: until PATTERN PROGRAM ARGS...
func cmdUntil(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: until pattern program args...")
	}
	re, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(deadline); time.Now().Before(end); <-tick.C {
		_ = ts.Exec(args[1], args[2:]...) // its output decides
		if re.MatchString(ts.ReadFile("stdout")) || re.MatchString(ts.ReadFile("stderr")) {
			return
		}
	}
	ts.Fatalf("no match for %q in %v", args[0], deadline)
}

// recorder is a target that counts by idempotency key and answers as told.
type recorder struct {
	mu     sync.Mutex
	status int
	keys   map[string]int
	bodies map[string]bool
}

type targetsKey struct{}

// cmdTarget starts a target, or changes what it answers: target NAME [STATUS].
// Its URL is in the variable NAME.
func cmdTarget(ts *testscript.TestScript, _ bool, args []string) {
	all := ts.Value(targetsKey{}).(map[string]*recorder)
	status := http.StatusOK
	if len(args) > 1 {
		var err error
		status, err = strconv.Atoi(args[1])
		ts.Check(err)
	}
	if r := all[args[0]]; r != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.status = status
		return
	}
	r := &recorder{status: status, keys: map[string]int{}, bodies: map[string]bool{}}
	all[args[0]] = r
	srv := httptest.NewServer(r)
	ts.Defer(srv.Close)
	ts.Setenv(args[0], srv.URL)
}

func (r *recorder) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil || req.Header.Get("Idempotency-Key") == "" {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	r.keys[req.Header.Get("Idempotency-Key")]++
	r.bodies[string(body)] = true
	w.WriteHeader(r.status)
}

// cmdSaw waits until a target has seen so many keys and requests, no more:
// saw NAME KEYS REQUESTS
func cmdSaw(ts *testscript.TestScript, _ bool, args []string) {
	r := ts.Value(targetsKey{}).(map[string]*recorder)[args[0]]
	want := args[1] + " " + args[2]
	got := ""
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(deadline); time.Now().Before(end); <-tick.C {
		if got = r.count(); got == want {
			return
		}
	}
	ts.Fatalf("target saw %s (keys, requests), want %s", got, want)
}

func (r *recorder) count() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, c := range r.keys {
		n += c
	}
	return fmt.Sprintf("%d %d", len(r.keys), n)
}

// cmdGone wants nothing to match a pattern of files: gone PATTERN
func cmdGone(ts *testscript.TestScript, _ bool, args []string) {
	found, err := filepath.Glob(ts.MkAbs(args[0]))
	ts.Check(err)
	if len(found) > 0 {
		ts.Fatalf("left behind: %s", strings.Join(found, ", "))
	}
}

// cmdSignal signals a program that was started with PIDFILE: signal TERM FILE
func cmdSignal(ts *testscript.TestScript, _ bool, args []string) {
	sig := map[string]syscall.Signal{"TERM": syscall.SIGTERM, "INT": syscall.SIGINT, "HUP": syscall.SIGHUP}[args[0]]
	pid, err := strconv.Atoi(ts.ReadFile(args[1]))
	ts.Check(err)
	ts.Check(syscall.Kill(pid, sig))
}

// cmdAppend writes a file to the end of another: append TO FROM
func cmdAppend(ts *testscript.TestScript, _ bool, args []string) {
	all := ts.ReadFile(args[0]) + ts.ReadFile(args[1])
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(all), 0o600))
}

// cmdGrab puts what a pattern's group finds in the last output, of both kinds, into a variable:
// grab NAME PATTERN
func cmdGrab(ts *testscript.TestScript, _ bool, args []string) {
	found := regexp.MustCompile("(?m)" + args[1]).FindStringSubmatch(ts.ReadFile("stdout") + ts.ReadFile("stderr"))
	if len(found) != 2 {
		ts.Fatalf("no match for %q", args[1])
	}
	ts.Setenv(args[0], found[1])
}

// cmdDatabase puts the name of a database, and of a schema of the script's own,
// into variables: database DSN SCHEMA
func cmdDatabase(ts *testscript.TestScript, _ bool, args []string) {
	url, err := pgtest.Find()
	ts.Check(err)
	schema := pgtest.NewSchema()
	ts.Setenv(args[0], url)
	ts.Setenv(args[1], schema)
	ts.Defer(func() {
		_, err := pgtest.Query(url, "DROP SCHEMA IF EXISTS "+schema+" CASCADE")
		ts.Check(err)
	})
}

// cmdPsql runs SQL in the database and prints what comes: psql SQL
func cmdPsql(ts *testscript.TestScript, _ bool, args []string) {
	url, err := pgtest.Find()
	ts.Check(err)
	out, err := pgtest.Query(url, args[0])
	ts.Check(err)
	fmt.Fprintln(ts.Stdout(), out)
}
