package pgtest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// Cluster is a database server of our own.
type Cluster struct {
	URL string // of its database, for a superuser
	Bin string // where the programs of PostgreSQL are
	Dir string // of its socket, its log and its data

	settings []string
	attr     *syscall.SysProcAttr
	cmd      *exec.Cmd
	log      *os.File
}

// installed is where the newest installed version's programs are.
func installed() (bin string, err error) {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if err != nil || len(found) == 0 {
		return "", errors.New("none in /usr/lib/postgresql")
	}
	return filepath.Dir(found[len(found)-1]), nil
}

// Start makes a server and starts it, with settings that are given as name=value.
// Without any it is fast and survives its own crash, not the machine's.
func Start(settings ...string) (*Cluster, error) {
	bin, err := installed()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "owpg") // short: a socket's path is
	if err != nil {
		return nil, err
	}
	c := &Cluster{Bin: bin, Dir: dir, settings: settings, attr: &syscall.SysProcAttr{}}
	if err := c.init(); err != nil {
		_ = os.RemoveAll(dir)
		return nil, err
	}
	return c, nil
}

func (c *Cluster) init() error {
	if os.Geteuid() == 0 { // the server refuses to run as root
		cred, err := unprivileged()
		if err != nil {
			return err
		}
		c.attr.Credential = cred
		if err := os.Chown(c.Dir, int(cred.Uid), int(cred.Gid)); err != nil {
			return err
		}
	}
	initdb := exec.Command(filepath.Join(c.Bin, "initdb"), "-D", c.data(), "-U", "onceward", "-A", "trust", "-E", "UTF8", "--locale=C", "-N")
	initdb.SysProcAttr, initdb.Dir = c.attr, c.Dir
	if out, err := initdb.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, out)
	}
	c.URL = fmt.Sprintf("host=%s user=onceward dbname=postgres", c.Dir)
	return c.Restart()
}

func (c *Cluster) data() string { return filepath.Join(c.Dir, "data") }

// Restart starts the server that was stopped and returns when it takes
// connections.
func (c *Cluster) Restart() error {
	log, err := os.OpenFile(filepath.Join(c.Dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	c.log = log
	args := []string{"-D", c.data(), "-k", c.Dir, "-h", ""}
	for _, s := range append([]string{"fsync=off", "full_page_writes=off", "jit=off", "max_connections=90", "max_locks_per_transaction=512"}, c.settings...) {
		args = append(args, "-c", s)
	}
	c.cmd = exec.Command(filepath.Join(c.Bin, "postgres"), args...)
	c.cmd.SysProcAttr, c.cmd.Dir, c.cmd.Stdout, c.cmd.Stderr = c.attr, c.Dir, log, log
	if err := c.cmd.Start(); err != nil {
		return err
	}
	for range 3000 {
		if exec.Command(filepath.Join(c.Bin, "pg_isready"), "-q", "-h", c.Dir).Run() == nil {
			return nil
		}
	}
	text, _ := os.ReadFile(log.Name())
	return fmt.Errorf("the server is not ready: %s", text)
}

// Kill stops the server as a crash does.
func (c *Cluster) Kill() { c.end(syscall.SIGQUIT) }

// Standby stops the server and starts it again as one that takes no writes.
func (c *Cluster) Standby() error {
	c.end(syscall.SIGINT)
	signal := filepath.Join(c.data(), "standby.signal")
	if err := os.WriteFile(signal, nil, 0o600); err != nil {
		return err
	}
	if cred := c.attr.Credential; cred != nil {
		if err := os.Chown(signal, int(cred.Uid), int(cred.Gid)); err != nil {
			return err
		}
	}
	return c.Restart()
}

// Stop stops the server and removes it.
func (c *Cluster) Stop() {
	c.end(syscall.SIGINT)
	_ = os.RemoveAll(c.Dir)
}

// end stops the server as sig says and waits for it.
func (c *Cluster) end(sig syscall.Signal) {
	_ = c.cmd.Process.Signal(sig)
	_ = c.cmd.Wait()
	_ = c.log.Close()
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
