package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// FleetConfig is what a Fleet is made of.
type FleetConfig struct {
	Binary   string
	Dir      string // of configs and logs
	DSN      string // of the database
	Schema   string // "" is one named for the seed
	Gateways int
	Seed     uint64
}

// Fleet is several gateways on one database, with one sender before them and
// the targets behind them. It is used from one goroutine.
type Fleet struct {
	Members []*Member
	Sender  *Sender
	Clock   Clock
	Outages []Outage

	sources []Source
	logs    []*os.File
	serving sync.WaitGroup
	errs    chan error // of the targets

	sentBefore int // requests in the sender's log when the last outage began
}

// Member is one gateway of a fleet. Its requests go to an address of its own,
// so that the target's log says whose they are.
type Member struct {
	Name   string
	Proc   *Proc
	Target *Target
	Lives  []Life

	stopTarget context.CancelFunc
}

// Outage is a time without a database. The moments are in order.
type Outage struct {
	Began time.Duration // just before it was stopped
	Gone  time.Duration // it was gone
	Back  time.Duration // just before it was started again, or another promoted
	Ready time.Duration // it took what gateways write
}

// NewFleet makes a fleet and starts its targets; Boot starts the gateways.
func NewFleet(cfg FleetConfig) (*Fleet, error) {
	f := &Fleet{Clock: NewClock(), sources: Sources(), errs: make(chan error, 64)}
	sent, err := f.log(cfg.Dir, "sent.jsonl")
	if err != nil {
		return nil, err
	}
	received, err := f.log(cfg.Dir, "received.jsonl")
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	f.Sender = NewSender(SenderConfig{
		Sources: f.sources, Workers: doorWorkers * cfg.Gateways, Seed: cfg.Seed, Run: strconv.FormatUint(cfg.Seed, 36), Clock: f.Clock, Log: sent,
	})
	if cfg.Schema == "" {
		cfg.Schema = fmt.Sprintf("fleet_%d", cfg.Seed)
	}
	for i := range cfg.Gateways {
		m, err := f.member(cfg, fmt.Sprint("gateway-", i), received)
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		f.Members = append(f.Members, m)
	}
	return f, nil
}

func (f *Fleet) log(dir, name string) (*os.File, error) {
	file, err := os.Create(filepath.Join(dir, name))
	if err != nil {
		return nil, fmt.Errorf("create log: %w", err)
	}
	f.logs = append(f.logs, file)
	return file, nil
}

// member makes one gateway and starts the target at its own address.
func (f *Fleet) member(cfg FleetConfig, name string, received *os.File) (*Member, error) {
	dir := filepath.Join(cfg.Dir, name)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the gateway's directory: %w", err)
	}
	dsn := filepath.Join(dir, "dsn.secret")
	if err := os.WriteFile(dsn, []byte(cfg.DSN), 0o600); err != nil {
		return nil, fmt.Errorf("write config: %w", err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for the target: %w", err)
	}
	store := fmt.Sprintf("[store]\ndriver = \"postgres\"\ndsn = %q\nschema = %q\ngateway = %q\nmigrate = true\n", "${file:"+dsn+"}", cfg.Schema, name)
	p, err := NewProc(cfg.Binary, Layout{Dir: dir, Store: store, Token: filepath.Join(cfg.Dir, "admin.token")}, f.sources, l.Addr().String())
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	m := &Member{Name: name, Proc: p, Target: NewTarget(TargetConfig{Clock: f.Clock, Log: received, Refuse: 8, From: name})}
	ctx, cancel := context.WithCancel(context.Background())
	m.stopTarget = cancel
	f.serving.Go(func() { f.errs <- m.Target.Serve(ctx, l) })
	return m, nil
}

// Boot starts every gateway, the first before the others: it makes the schema.
func (f *Fleet) Boot(ctx context.Context) error {
	if err := f.Start(ctx, f.Members[0]); err != nil {
		return err
	}
	for _, m := range f.Members[1:] {
		if err := f.launch(m); err != nil {
			return err
		}
	}
	return f.WaitReady(ctx)
}

func (f *Fleet) launch(m *Member) error {
	m.Lives = append(m.Lives, Life{Start: f.Clock()})
	return m.Proc.Start()
}

// Start starts one gateway and waits until it is ready.
func (f *Fleet) Start(ctx context.Context, m *Member) error {
	if err := f.launch(m); err != nil {
		return err
	}
	return f.ready(ctx, m)
}

func (f *Fleet) ready(ctx context.Context, m *Member) error {
	if err := m.Proc.WaitReady(ctx); err != nil {
		return fmt.Errorf("%s: %w", m.Name, err)
	}
	if l := &m.Lives[len(m.Lives)-1]; l.Ready == 0 {
		l.Ready = f.Clock()
	}
	return nil
}

// WaitReady returns when every gateway is ready.
func (f *Fleet) WaitReady(ctx context.Context) error {
	for _, m := range f.Members {
		if err := f.ready(ctx, m); err != nil {
			return err
		}
	}
	return nil
}

// Kill ends one gateway with SIGKILL and returns when everything it had sent
// is in the target's log.
func (f *Fleet) Kill(ctx context.Context, m *Member) error {
	l := &m.Lives[len(m.Lives)-1]
	l.End, l.Killed = f.Clock(), true
	if err := m.Proc.Kill(); err != nil {
		return fmt.Errorf("%s: %w", m.Name, err)
	}
	err := m.Target.WaitIdle(ctx)
	l.Gone = f.Clock()
	return err
}

// Died waits until a gateway has ended by itself, with the exit code of a ledger
// that failed.
func (f *Fleet) Died(ctx context.Context, m *Member) error {
	st, err := m.Proc.Ended(ctx)
	if err != nil {
		return fmt.Errorf("%s: %w", m.Name, err)
	}
	l := &m.Lives[len(m.Lives)-1]
	l.End, l.Gone, l.Killed = f.Clock(), f.Clock(), true
	if st.ExitCode() != 6 {
		return fmt.Errorf("%s: %w: %v, want exit code 6\n%s", m.Name, errEnded, st, m.Proc.logTail())
	}
	return nil
}

// Renew kills and starts every gateway in turn: what one leased in an outage,
// without hearing that it had, goes back then and not at the lease's end.
func (f *Fleet) Renew(ctx context.Context) error {
	for _, m := range f.Members {
		if err := f.Kill(ctx, m); err != nil {
			return err
		}
		if err := f.Start(ctx, m); err != nil {
			return err
		}
	}
	return nil
}

// Cut stops the database as a crash does.
func (f *Fleet) Cut(ctx context.Context, db *Postgres) error {
	began := f.Clock()
	f.sentBefore = f.Sender.log.len()
	err := db.Stop(ctx, syscall.SIGQUIT)
	f.Outages = append(f.Outages, Outage{Began: began, Gone: f.Clock()})
	return err
}

// Return calls back, which brings a database, and ends the outage.
func (f *Fleet) Return(ctx context.Context, back func(context.Context) error) error {
	o := &f.Outages[len(f.Outages)-1]
	o.Back = f.Clock()
	err := back(ctx)
	o.Ready = f.Clock()
	return err
}

// Refused returns when each of these gateways has answered 503 so many times
// since the last outage began.
func (f *Fleet) Refused(ctx context.Context, n int, members ...*Member) error {
	gone, from, seen := f.Outages[len(f.Outages)-1].Gone, f.sentBefore, map[string]int{}
	return poll(ctx, 50*time.Millisecond, func() (bool, error) {
		fresh := f.Sender.log.since(from)
		from += len(fresh)
		for _, s := range fresh {
			if s.Status == http.StatusServiceUnavailable && s.SentAt > gone {
				seen[s.To]++
			}
		}
		for _, m := range members {
			if seen[m.base()] < n {
				return false, nil
			}
		}
		return true, nil
	})
}

func (m *Member) base() string { return "http://" + m.Proc.Public }

func (f *Fleet) bases() (out []string) {
	for _, m := range f.Members {
		out = append(out, m.base())
	}
	return out
}

// Quiesce returns when no delivery is open.
func (f *Fleet) Quiesce(ctx context.Context) error {
	return poll(ctx, 100*time.Millisecond, func() (bool, error) {
		n, err := f.Members[0].Proc.Pending(ctx)
		return n == 0, err
	})
}

// Evidence reads the account through one gateway, and the logs. The gateways
// must have nothing pending.
func (f *Fleet) Evidence(ctx context.Context, through *Member) (FleetEvidence, error) {
	e := FleetEvidence{Gateways: map[string][]Life{}, Outages: f.Outages}
	e.Sources = f.sources
	var err, err2 error
	e.Stored, err = through.Proc.Account(ctx)
	e.Sent, err2 = f.Sender.Sent()
	err = errors.Join(err, err2)
	for _, m := range f.Members {
		rs, err2 := m.Target.Requests()
		e.Requests, err = append(e.Requests, rs...), errors.Join(err, err2)
		e.Gateways[m.Name] = append([]Life(nil), m.Lives...)
	}
	return e, err
}

// Any is a gateway by chance.
func (f *Fleet) Any(r *rand.Rand) *Member { return f.Members[r.IntN(len(f.Members))] }

// Close ends everything the fleet started.
func (f *Fleet) Close() error {
	var err error
	for _, m := range f.Members {
		err = errors.Join(err, m.Proc.Kill())
		m.stopTarget()
	}
	f.serving.Wait()
	for _, file := range f.logs {
		err = errors.Join(err, file.Close())
	}
	for {
		select {
		case e := <-f.errs:
			err = errors.Join(err, e)
		default:
			return err
		}
	}
}
