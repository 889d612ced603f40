package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Postgres is a database server of the suite's own: started, stopped as a crash
// does and promoted, always with the same directory, on a Unix socket there
// alone. It is used from one goroutine.
type Postgres struct {
	Dir string // of data, socket and log; its path is short, as a socket's must be

	bin  string // directory of the server's programs
	attr *syscall.SysProcAttr
	cmd  *exec.Cmd
	done chan error // receives the server's end, once
}

// NewPostgres makes a database that is not started. Close removes it.
func NewPostgres(ctx context.Context) (*Postgres, error) {
	p, err := emptyPostgres()
	if err != nil {
		return nil, err
	}
	if err := p.program(ctx, "initdb", "-D", p.data(), "-U", "onceward", "-A", "trust", "-E", "UTF8", "--locale=C", "-N"); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

func emptyPostgres() (*Postgres, error) {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres") // the pattern is a good one
	if len(found) == 0 {
		return nil, errors.New("no PostgreSQL in /usr/lib/postgresql: install the package postgresql")
	}
	dir, err := os.MkdirTemp("", "owpg")
	if err != nil {
		return nil, fmt.Errorf("make the database's directory: %w", err)
	}
	p := &Postgres{Dir: dir, bin: filepath.Dir(found[len(found)-1])}
	if p.attr, err = unprivileged(dir, syscall.SIGQUIT); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return p, nil
}

// Standby makes a copy of the running server that follows it under a name once
// it is started.
func (p *Postgres) Standby(ctx context.Context, name string) (*Postgres, error) {
	s, err := emptyPostgres()
	if err != nil {
		return nil, err
	}
	conn := fmt.Sprintf("host=%s user=onceward application_name=%s", p.Dir, name)
	if err := s.program(ctx, "pg_basebackup", "-D", s.data(), "-d", conn, "-X", "stream", "-c", "fast", "-R", "-C", "-S", name); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (p *Postgres) data() string { return filepath.Join(p.Dir, "data") }

// DSN is how gateways reach the first of the servers that can be written to.
func DSN(servers ...*Postgres) string {
	var dirs []string
	for _, s := range servers {
		dirs = append(dirs, s.Dir)
	}
	return fmt.Sprintf("host=%s user=onceward dbname=postgres target_session_attrs=read-write", strings.Join(dirs, ","))
}

// Start starts the server and returns when it takes connections.
func (p *Postgres) Start(ctx context.Context) error {
	log, err := os.OpenFile(filepath.Join(p.Dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open the database's log: %w", err)
	}
	defer log.Close() // the process has its own
	cmd := exec.Command(filepath.Join(p.bin, "postgres"), "-D", p.data(), "-k", p.Dir, "-h", "",
		"-c", "max_connections=100", "-c", "max_locks_per_transaction=512")
	cmd.Dir, cmd.SysProcAttr, cmd.Stdout, cmd.Stderr = p.Dir, p.attr, log, log
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start the database: %w", err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	p.cmd, p.done = cmd, done
	return poll(ctx, 20*time.Millisecond, func() (bool, error) {
		select {
		case err := <-p.done:
			p.done <- err
			return false, fmt.Errorf("start the database: it ended: %v\n%s", err, p.logTail())
		default:
		}
		return p.program(ctx, "pg_isready", "-q", "-h", p.Dir) == nil, nil
	})
}

// Stop ends the server with a signal and waits until it is gone: SIGQUIT is the
// stop that leaves everything to recovery, as a crash does.
func (p *Postgres) Stop(ctx context.Context, sig syscall.Signal) error {
	if p.cmd == nil {
		return nil
	}
	if err := p.cmd.Process.Signal(sig); err != nil {
		return fmt.Errorf("stop the database: %w", err)
	}
	select {
	case <-p.done:
		p.cmd = nil
		return nil
	case <-ctx.Done():
		return fmt.Errorf("stop the database: %w\n%s", ctx.Err(), p.logTail())
	}
}

// Set changes a setting of the running server that needs no restart.
func (p *Postgres) Set(ctx context.Context, name, value string) error {
	if _, err := p.Query(ctx, fmt.Sprintf("ALTER SYSTEM SET %s = '%s'", name, value)); err != nil {
		return err
	}
	_, err := p.Query(ctx, "SELECT pg_reload_conf()")
	return err
}

// Promote makes a standby the server that is written to.
func (p *Postgres) Promote(ctx context.Context) error {
	_, err := p.Query(ctx, "SELECT pg_promote(true, 60)")
	return err
}

// Query answers an SQL statement as text, columns separated by |.
func (p *Postgres) Query(ctx context.Context, sql string) (string, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(p.bin, "psql"), "-h", p.Dir, "-U", "onceward", "-d", "postgres", "-XAtq", "-v", "ON_ERROR_STOP=1", "-c", sql)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("ask the database %q: %w: %s", sql, err, stderr.String())
	}
	return strings.TrimSpace(string(out)), nil
}

// Close ends the server and removes what it kept.
func (p *Postgres) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return errors.Join(p.Stop(ctx, syscall.SIGQUIT), os.RemoveAll(p.Dir))
}

// program runs one of the server's own programs to its end.
func (p *Postgres) program(ctx context.Context, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, filepath.Join(p.bin, name), args...)
	cmd.Dir, cmd.SysProcAttr = p.Dir, p.attr
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, out)
	}
	return nil
}

// logTail is the end of the server's own output, for error texts.
func (p *Postgres) logTail() string {
	b, _ := os.ReadFile(filepath.Join(p.Dir, "log"))
	return string(b[max(0, len(b)-2000):])
}
