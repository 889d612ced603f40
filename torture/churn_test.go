//go:build torture

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// withHooks is a gateway that can be told to die at a step and to make buckets
// of seconds; it keeps every promise.
const withHooks = "onceward_failpoints"

// newChurn is a rig whose gateway drops buckets all the time, and bodies of the
// short sources before their time as well.
func newChurn(t *testing.T, s uint64) *Rig {
	t.Helper()
	dir := keep(t)
	r, err := NewRig(RigConfig{Binary: built(t, withHooks), Seed: s, Sources: ChurnSources(),
		Layout: Layout{Dir: dir, Data: filepath.Join(dir, "data"), BodySize: "4MiB"}})
	must(t, err)
	r.Proc.Env = []string{hurry}
	t.Cleanup(func() {
		if err := r.Close(); err != nil && !t.Failed() {
			t.Errorf("close the rig: %v", err)
		}
	})
	return r
}

// operator reloads and replays while a gateway runs, until it is told to stop.
type operator struct {
	reloads, replays atomic.Int64
	wg               sync.WaitGroup
	cancel           context.CancelFunc
}

func (o *operator) start(ctx context.Context, r *Rig) {
	ctx, o.cancel = context.WithCancel(ctx)
	p := *r.Proc // the process is killed and replaced by the test's goroutine alone
	o.wg.Go(func() {
		for ctx.Err() == nil {
			// The gateway is killed under many of these: what counts is that some
			// come through.
			if _, err := p.Command(ctx, "reload"); err == nil {
				o.reloads.Add(1)
			}
			if _, err := p.Command(ctx, "replay", "--source", "again", "--status", "delivered", "--yes"); err == nil {
				o.replays.Add(1)
			}
			_ = Wait(ctx, 10*time.Millisecond)
		}
	})
}

func (o *operator) stop() {
	o.cancel()
	o.wg.Wait()
}

// TestCrashChurn kills a gateway with everything under way: intake, forwarding,
// replays, reloads, retention that carries and drops, and starts.
func TestCrashChurn(t *testing.T) {
	t.Parallel()
	cycles := count(t, "TORTURE_CHURN", 15)
	if long() {
		cycles = count(t, "TORTURE_CHURN", 100)
	}
	s := seed(t)
	res := &Result{Fault: "kill -9 with replay, reload and retention under way", Seed: s, Cycles: cycles}
	record(t, res)
	random := rand.New(rand.NewPCG(s, 2000))
	r := newChurn(t, s)
	ctx := within(t, time.Duration(cycles+30)*10*time.Second)
	must(t, r.Boot(ctx))
	r.Load()
	op := &operator{}
	op.start(ctx, r)
	for i := range cycles {
		must(t, Wait(ctx, between(random, 400*time.Millisecond, 2*time.Second)))
		if i%4 == 0 {
			r.Proc.Signal(syscall.SIGHUP)
		}
		must(t, r.Kill(ctx))
		must(t, r.Boot(ctx))
	}
	// The last process lives until it has carried something.
	must(t, poll(ctx, 100*time.Millisecond, func() (bool, error) {
		log, err := os.ReadFile(r.Proc.Log)
		return carriedSome.Match(log), err
	}))
	op.stop()
	r.EndLoad()
	v, resent := settle(t, r, 0, 100)
	res.add(v)
	res.Note = fmt.Sprintf("%d reloads and %d replays came through, %d events re-sent at the end, all known", op.reloads.Load(), op.replays.Load(), resent)
	fmt.Printf("%s%s\n", v.String(), res.Note)
	if !v.OK() {
		t.Error("the gateway broke its promises; see above")
	}
	if op.reloads.Load() == 0 || op.replays.Load() == 0 {
		t.Error("no reload or no replay came through: that proves little")
	}
	drops(t, r)
}

var carriedSome = regexp.MustCompile(`\bcarried"?[=:][1-9]`)

// drops wants retention to have dropped buckets.
func drops(t *testing.T, r *Rig) {
	t.Helper()
	log, err := os.ReadFile(r.Proc.Log)
	must(t, err)
	if !containsAny(string(log), "retention dropped buckets") {
		t.Error("retention dropped nothing: that proves little")
	}
}
