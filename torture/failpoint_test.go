//go:build torture

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func containsAny(text string, words ...string) bool {
	for _, w := range words {
		if strings.Contains(text, w) {
			return true
		}
	}
	return false
}

// bootToDie starts a gateway that dies at the n-th passing of a step, and
// reports whether it did so in time; otherwise it is killed.
func bootToDie(ctx context.Context, r *Rig, step string, n int) (bool, error) {
	env := r.Proc.Env
	r.Proc.Env = append(env[:len(env):len(env)], fmt.Sprintf("ONCEWARD_FAILPOINT=%s:%d", step, n))
	defer func() { r.Proc.Env = env }()
	if err := r.Boot(ctx); err != nil && !errors.Is(err, errEnded) {
		return false, err
	}
	died, cancel := context.WithTimeout(ctx, time.Minute) // retention has little to carry, and beside other tests little time
	defer cancel()
	st, err := r.Died(died)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return false, r.Kill(ctx)
	}
	if err != nil {
		return false, err
	}
	if ws, ok := st.Sys().(syscall.WaitStatus); !ok || ws.Signal() != syscall.SIGKILL {
		return false, fmt.Errorf("died at step %s with %v, want killed", step, st)
	}
	return true, nil
}

// TestCrashSteps kills a gateway between each pair of durable steps, at their
// first and at a later passing.
func TestCrashSteps(t *testing.T) {
	t.Parallel()
	s := seed(t)
	random := rand.New(rand.NewPCG(s, 3000))
	res := &Result{Fault: "kill at every durable step", Seed: s}
	record(t, res)
	r := newChurn(t, s)
	ctx := within(t, 20*time.Minute)
	must(t, r.Boot(ctx))
	r.Load()
	must(t, Wait(ctx, time.Second))
	must(t, r.Kill(ctx))
	op := &operator{} // whose replays keep notes
	op.start(ctx, r)
	reached := map[string]int{}
	for _, step := range steps {
		later := 2 + random.IntN(6)
		if !long() && (strings.HasPrefix(step, "expire.") || strings.HasPrefix(step, "drop.")) {
			later = 2 // a round each
		}
		for _, n := range []int{1, later} {
			died, err := bootToDie(ctx, r, step, n)
			must(t, err)
			res.Cycles++
			if died {
				reached[step]++
			}
		}
		if reached[step] == 0 {
			t.Errorf("step %s was never reached: that proves nothing about it", step)
		}
	}
	op.stop()
	r.EndLoad()
	must(t, r.Boot(ctx))
	v, _ := settle(t, r, 0, 100)
	res.add(v)
	res.Note = fmt.Sprintf("died at %d steps as told: %v", len(reached), reached)
	if !v.OK() {
		t.Errorf("the gateway broke its promises:\n%s", v.String())
	}
}

// TestCrashFirstSteps kills a gateway while it makes its ledger: whatever is
// there then is taken up at the next start.
func TestCrashFirstSteps(t *testing.T) {
	t.Parallel()
	s := seed(t)
	res := &Result{Fault: "kill while a ledger is made", Seed: s}
	record(t, res)
	built(t, withHooks) // not in the time of the first
	for i, step := range firstSteps {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			ctx := within(t, time.Minute)
			r := newChurn(t, s+uint64(i))
			r.Load()
			died, err := bootToDie(ctx, r, step, 1)
			must(t, err)
			if !died {
				t.Errorf("step %s was not reached", step)
			}
			must(t, r.Boot(ctx))
			must(t, Wait(ctx, 300*time.Millisecond))
			r.EndLoad()
			v, _ := settle(t, r, 0, 10)
			res.cycle(1)
			res.add(v)
			if !v.OK() {
				t.Errorf("the gateway broke its promises:\n%s", v.String())
			}
		})
	}
}

// TestControlCrashSteps tells a gateway that answers before it commits to die
// between the two.
func TestControlCrashSteps(t *testing.T) {
	t.Parallel()
	s := seed(t)
	res := &Result{Fault: "kill before the commit, answers before it", Seed: s, Control: true}
	record(t, res)
	dir := keep(t)
	r := newRig(t, built(t, withHooks+","+earlyAck), Layout{Dir: dir, Data: filepath.Join(dir, "data")}, s)
	ctx := within(t, 2*time.Minute)
	r.Load()
	for n := range 3 {
		_, err := bootToDie(ctx, r, "commit.begin", 20+n)
		must(t, err)
		res.Cycles++
	}
	r.EndLoad()
	must(t, r.Boot(ctx))
	v, _ := settle(t, r, 0, 0)
	res.add(v)
	res.Seen = v.Lost > 0
	res.Note = fmt.Sprintf("%d kills, acknowledged %d, lost %d", res.Cycles, v.Acknowledged, v.Lost)
	if v.Lost == 0 {
		t.Errorf("nothing was lost: the suite would not see it\n%s", v.String())
	}
}
