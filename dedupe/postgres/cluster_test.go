package postgres_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
)

// serverURL is the database that the tests run against, "" when there is none.
var serverURL string

// absent says why there is none.
var absent string

// TestMain starts a private cluster on a Unix socket, unless
// ONCEWARD_TEST_POSTGRES names a database. With ONCEWARD_REQUIRE_POSTGRES a
// missing server is a failure.
func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	serverURL = os.Getenv("ONCEWARD_TEST_POSTGRES")
	if serverURL == "" {
		c, err := startCluster()
		if err != nil {
			absent = "no PostgreSQL to test with: " + err.Error() + "; install it or set ONCEWARD_TEST_POSTGRES"
		} else {
			defer c.stop()
			serverURL = c.url
		}
	}
	if serverURL == "" && os.Getenv("ONCEWARD_REQUIRE_POSTGRES") != "" {
		fmt.Fprintln(os.Stderr, absent)
		return 1
	}
	return m.Run()
}

// server is the URL of the database to test with.
func server(t testing.TB) string {
	t.Helper()
	if serverURL == "" {
		t.Skip(absent)
	}
	return serverURL
}

// cluster is a database server of our own.
type cluster struct {
	bin, dir, url string
	attr          *syscall.SysProcAttr
	cmd           *exec.Cmd
	log           *os.File
}

func startCluster() (*cluster, error) {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if err != nil || len(found) == 0 {
		return nil, errors.New("none in /usr/lib/postgresql")
	}
	dir, err := os.MkdirTemp("", "owpg") // short: a socket's path is
	if err != nil {
		return nil, err
	}
	c := &cluster{bin: filepath.Dir(found[len(found)-1]), dir: dir, attr: &syscall.SysProcAttr{}}
	if err := c.init(); err != nil {
		_ = os.RemoveAll(dir)
		return nil, err
	}
	return c, nil
}

func (c *cluster) init() error {
	if os.Geteuid() == 0 { // the server refuses to run as root
		cred, err := unprivileged()
		if err != nil {
			return err
		}
		c.attr.Credential = cred
		if err := os.Chown(c.dir, int(cred.Uid), int(cred.Gid)); err != nil {
			return err
		}
	}
	initdb := exec.Command(filepath.Join(c.bin, "initdb"), "-D", filepath.Join(c.dir, "data"), "-U", "onceward", "-A", "trust", "-E", "UTF8", "--locale=C", "-N")
	initdb.SysProcAttr, initdb.Dir = c.attr, c.dir
	if out, err := initdb.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, out)
	}
	c.url = fmt.Sprintf("host=%s user=onceward dbname=postgres", c.dir)
	return c.start()
}

// start starts the server and returns when it takes connections.
func (c *cluster) start() error {
	log, err := os.OpenFile(filepath.Join(c.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	c.log = log
	c.cmd = exec.Command(filepath.Join(c.bin, "postgres"), "-D", filepath.Join(c.dir, "data"), "-k", c.dir, "-h", "",
		"-c", "fsync=off", "-c", "max_connections=90", "-c", "max_locks_per_transaction=512")
	c.cmd.SysProcAttr, c.cmd.Dir, c.cmd.Stdout, c.cmd.Stderr = c.attr, c.dir, log, log
	if err := c.cmd.Start(); err != nil {
		return err
	}
	for range 3000 {
		if exec.Command(filepath.Join(c.bin, "pg_isready"), "-q", "-h", c.dir).Run() == nil {
			return nil
		}
	}
	text, _ := os.ReadFile(log.Name())
	return fmt.Errorf("the server is not ready: %s", text)
}

// end stops the server as sig says and waits for it.
func (c *cluster) end(sig syscall.Signal) {
	_ = c.cmd.Process.Signal(sig)
	_ = c.cmd.Wait()
	_ = c.log.Close()
}

func (c *cluster) stop() {
	c.end(syscall.SIGINT)
	_ = os.RemoveAll(c.dir)
}

func unprivileged() (*syscall.Credential, error) {
	u, err := user.Lookup("nobody")
	if err != nil {
		return nil, err
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return nil, err
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
}
