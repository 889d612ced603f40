//go:build torture && linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// injected wraps a gateway so that a call fails as told, or kills it: the tracer
// counts the calls of each thread by itself. It runs beside the gateway, which is
// the process that is started.
func injected(t *testing.T, dir, calls, how string) []string {
	t.Helper()
	path, err := exec.LookPath("strace")
	if err != nil {
		t.Fatalf("failing syncs need strace: %v", err)
	}
	wrap := []string{path, "-D", "-f", "-q", "-o", filepath.Join(dir, "strace"), "-e", "trace=" + calls, "-e", "inject=" + calls + ":" + how}
	if strings.HasPrefix(how, "error=") {
		wrap = append(wrap, "--seccomp-bpf") // stops at these calls alone; strace 6.1 sends no signal with it
	}
	return wrap
}

// TestSyncFails has the disk fail a sync, and every one after it, at several
// moments: the gateway says so to nobody's loss, ends with the exit code of a
// store that can't be used, and starts again as if nothing had been.
func TestSyncFails(t *testing.T) {
	t.Parallel()
	s := seed(t)
	res := &Result{Fault: "failing fdatasync, msync and fsync", Seed: s}
	record(t, res)
	built(t, asShipped) // not in the time of the first
	for i, tt := range []struct{ calls, when string }{
		{"fdatasync", "1+"}, {"fdatasync", "40+"}, {"fdatasync", "400+"}, {"fdatasync", "7+7"},
		{"fsync", "1+"}, {"fsync", "9+"}, {"msync", "1+"}, {"msync,fsync,fdatasync", "100+"},
	} {
		t.Run(tt.calls+" "+tt.when, func(t *testing.T) {
			t.Parallel()
			syncFails(t, s+uint64(i), tt.calls, "error=EIO:when="+tt.when, res)
		})
	}
}

func syncFails(t *testing.T, s uint64, calls, how string, res *Result) {
	t.Helper()
	ctx := within(t, 5*time.Minute)
	dir := keep(t)
	r := newRig(t, built(t, asShipped), Layout{Dir: dir, Data: filepath.Join(dir, "data")}, s)
	r.Proc.Wrap = injected(t, dir, calls, how)
	r.Load()
	if err := r.Boot(ctx); err != nil && !errors.Is(err, errEnded) {
		t.Fatal(err)
	}
	end, cancel := context.WithTimeout(ctx, 4*time.Minute)
	defer cancel()
	st, err := r.Died(end)
	must(t, err)
	if st.ExitCode() != 6 {
		t.Errorf("ended with %v, want exit code 6\n%s", st, r.Proc.logTail())
	}
	noMoreAnswers(t, r, dir)
	r.Proc.Wrap = nil
	must(t, r.Boot(ctx))
	must(t, Wait(ctx, 300*time.Millisecond))
	r.EndLoad()
	v, _ := settle(t, r, 0, 20)
	res.cycle(1)
	res.add(v)
	if !v.OK() {
		t.Errorf("the gateway broke its promises:\n%s", v.String())
	}
}

// noMoreAnswers wants no 2xx for an event after the first that was answered 5xx
// by the failing process: the sync is never tried again.
func noMoreAnswers(t *testing.T, r *Rig, dir string) {
	t.Helper()
	sent, err := r.Sender.Sent()
	must(t, err)
	failed := time.Duration(0)
	for _, a := range sent {
		if a.Status >= 500 && (failed == 0 || a.AnsweredAt < failed) {
			failed = a.AnsweredAt
		}
	}
	for _, a := range sent {
		if failed > 0 && a.Status/100 == 2 && a.SentAt > failed {
			t.Errorf("%s %s was sent %v after an answer had said that the ledger failed, and was answered %d", a.Source, a.ID, a.SentAt-failed, a.Status)
			break
		}
	}
	log, err := os.ReadFile(filepath.Join(dir, "strace"))
	must(t, err)
	if !strings.Contains(string(log), "(INJECTED)") {
		t.Error("no call was made to fail: that proves nothing")
	}
}

// TestKillAtSync kills a gateway as it asks for a sync, at the n-th time.
func TestKillAtSync(t *testing.T) {
	t.Parallel()
	s := seed(t)
	res := &Result{Fault: "kill as a sync is asked for", Seed: s}
	record(t, res)
	ctx := within(t, 8*time.Minute) // on a busy machine the last of them takes two
	dir := keep(t)
	r := newRig(t, built(t, asShipped), Layout{Dir: dir, Data: filepath.Join(dir, "data")}, s)
	r.Load()
	for i, when := range []int{3, 11, 60, 150} {
		r.Proc.Wrap = injected(t, dir, "fdatasync", fmt.Sprintf("signal=KILL:when=%d", when+int(s%7)))
		if err := r.Boot(ctx); err != nil && !errors.Is(err, errEnded) {
			t.Fatal(err)
		}
		end, cancel := context.WithTimeout(ctx, 5*time.Minute)
		st, err := r.Died(end)
		cancel()
		must(t, err)
		if ws, ok := st.Sys().(syscall.WaitStatus); !ok || ws.Signal() != syscall.SIGKILL {
			t.Errorf("kill %d: ended with %v", i, st)
		}
		res.Cycles++
	}
	r.EndLoad()
	r.Proc.Wrap = nil
	must(t, r.Boot(ctx))
	v, _ := settle(t, r, 0, 50)
	res.add(v)
	if !v.OK() {
		t.Errorf("the gateway broke its promises:\n%s", v.String())
	}
}

// TestControlSyncFails has a gateway that does not sync: no failing sync can
// stop it, which the test above would call a fault.
func TestControlSyncFails(t *testing.T) {
	t.Parallel()
	s := seed(t)
	res := &Result{Fault: "failing fdatasync, commits not synced", Seed: s, Control: true, Cycles: 1}
	record(t, res)
	bin := built(t, noSync)
	ctx := within(t, time.Minute)
	dir := keep(t)
	r := newRig(t, bin, Layout{Dir: dir, Data: filepath.Join(dir, "data")}, s)
	r.Proc.Wrap = injected(t, dir, "fdatasync", "error=EIO:when=40+")
	r.Load()
	must(t, r.Boot(ctx))
	must(t, Wait(ctx, 4*time.Second))
	r.EndLoad()
	sent, err := r.Sender.Sent()
	must(t, err)
	acked := 0
	for _, a := range sent {
		if a.Status/100 == 2 {
			acked++
		}
	}
	err = r.Kill(ctx)
	res.Seen, res.Acknowledged = err == nil, acked
	res.Note = fmt.Sprintf("still running, with %d events acknowledged and the syncs failing", acked)
	if !res.Seen || acked < 100 {
		t.Errorf("acknowledged %d, %v: the control shows nothing", acked, err)
	}
}
