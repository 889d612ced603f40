package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"
)

// RigConfig is what a Rig is made of.
type RigConfig struct {
	Binary string
	Layout Layout
	Seed   uint64

	Sources []Source // nil is Sources
}

// Rig is a gateway with a sender before it and a target behind it. It is
// used from one goroutine.
type Rig struct {
	Proc   *Proc
	Sender *Sender
	Target *Target
	Clock  Clock
	Lives  []Life

	sources []Source
	logs    []*os.File

	stopTarget context.CancelFunc
	stopLoad   context.CancelFunc // nil while nothing is sent
	load       sync.WaitGroup
	target     sync.WaitGroup
	errs       chan error // of the sender and the target
}

// hurry is in the environment of a gateway whose buckets are to be of a second.
const hurry = "ONCEWARD_HURRY=1"

// NewRig makes a rig and starts its target; the gateway is started by Boot.
func NewRig(cfg RigConfig) (*Rig, error) {
	r := &Rig{Clock: NewClock(), sources: cfg.Sources, errs: make(chan error, 16)}
	if r.sources == nil {
		r.sources = Sources()
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for the target: %w", err)
	}
	var sent, received *os.File
	for name, f := range map[string]**os.File{"sent.jsonl": &sent, "received.jsonl": &received} {
		if *f, err = os.Create(filepath.Join(cfg.Layout.Dir, name)); err != nil {
			return nil, errors.Join(fmt.Errorf("create log: %w", err), l.Close())
		}
		r.logs = append(r.logs, *f)
	}
	r.Target = NewTarget(TargetConfig{Clock: r.Clock, Log: received, Refuse: 8, Late: time.Minute})
	r.Sender = NewSender(SenderConfig{
		Sources: r.sources, Seed: cfg.Seed, Run: strconv.FormatUint(cfg.Seed, 36), Clock: r.Clock, Log: sent,
	})
	if r.Proc, err = NewProc(cfg.Binary, cfg.Layout, r.sources, l.Addr().String()); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	ctx, cancel := context.WithCancel(context.Background())
	r.stopTarget = cancel
	r.target.Go(func() { r.errs <- r.Target.Serve(ctx, l) })
	return r, nil
}

// Load starts sending.
func (r *Rig) Load() {
	ctx, cancel := context.WithCancel(context.Background())
	r.stopLoad = cancel
	r.load.Go(func() { r.errs <- r.Sender.Run(ctx) })
}

// EndLoad stops sending and waits for the requests under way.
func (r *Rig) EndLoad() {
	if r.stopLoad != nil {
		r.stopLoad()
		r.load.Wait()
		r.stopLoad = nil
	}
}

// Start starts the gateway and does not wait for it.
func (r *Rig) Start() error {
	r.Lives = append(r.Lives, Life{Start: r.Clock()})
	return r.Proc.Start()
}

// Boot starts the gateway, waits until it is ready and tells the sender.
func (r *Rig) Boot(ctx context.Context) error {
	if err := r.Start(); err != nil {
		return err
	}
	if err := r.Proc.WaitReady(ctx); err != nil {
		return err
	}
	r.Lives[len(r.Lives)-1].Ready = r.Clock()
	r.Sender.Up("http://" + r.Proc.Public)
	return nil
}

// Kill ends the gateway with SIGKILL and returns when everything it had sent
// is in the target's log.
func (r *Rig) Kill(ctx context.Context) error {
	l := &r.Lives[len(r.Lives)-1]
	l.End, l.Killed = r.Clock(), true
	err := r.Proc.Kill()
	r.Sender.Down()
	return errors.Join(err, r.Target.WaitIdle(ctx))
}

// Died waits until the gateway has ended by itself, as Kill does for one that
// is killed.
func (r *Rig) Died(ctx context.Context) (*os.ProcessState, error) {
	st, err := r.Proc.Ended(ctx)
	if err != nil {
		return nil, err
	}
	l := &r.Lives[len(r.Lives)-1]
	l.End, l.Killed = r.Clock(), true
	r.Sender.Down()
	return st, r.Target.WaitIdle(ctx)
}

// Close ends everything the rig started.
func (r *Rig) Close() error {
	err := r.Proc.Kill()
	r.Sender.Down()
	r.EndLoad()
	r.stopTarget()
	r.target.Wait()
	for _, f := range r.logs {
		err = errors.Join(err, f.Close())
	}
	for {
		select {
		case e := <-r.errs:
			err = errors.Join(err, e)
		default:
			return err
		}
	}
}

// Evidence reads the account and both logs. The gateway must be running and
// have nothing pending; until is the moment of a power cut, or zero.
func (r *Rig) Evidence(ctx context.Context, until time.Duration) (Evidence, error) {
	e := Evidence{Sources: r.sources, Lives: append([]Life(nil), r.Lives...), Until: until, Hurried: slices.Contains(r.Proc.Env, hurry)}
	var errs [3]error
	e.Stored, errs[0] = r.Proc.Account(ctx)
	e.Sent, errs[1] = r.Sender.Sent()
	e.Requests, errs[2] = r.Target.Requests()
	e.Lives[len(e.Lives)-1].End = r.Clock()
	return e, errors.Join(errs[:]...)
}

// Quiesce returns when the gateway has nothing pending, and no replay that
// would make it so.
func (r *Rig) Quiesce(ctx context.Context) error {
	return poll(ctx, 50*time.Millisecond, func() (bool, error) {
		if n, err := r.Proc.Replaying(ctx); n > 0 || err != nil {
			return false, err
		}
		n, err := r.Proc.Pending(ctx)
		return n == 0, err
	})
}

// poll calls done every so often until it says so, fails, or ctx is done.
func poll(ctx context.Context, every time.Duration, done func() (bool, error)) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		if ok, err := done(); ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// Wait lets time pass.
func Wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
