//go:build torture

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestSecondProcess starts a second gateway on the ledger of a first under
// load, again and again: it ends at once, names the one that has the ledger,
// and does it no harm. A lock that a kill left behind stops nobody.
func TestSecondProcess(t *testing.T) {
	t.Parallel()
	const starts = 20
	s := seed(t)
	res := &Result{Fault: "a second process on the ledger", Seed: s, Cycles: starts}
	record(t, res)
	ctx := within(t, 4*time.Minute)
	dir := keep(t)
	r := newRig(t, built(t, asShipped), Layout{Dir: dir, Data: filepath.Join(dir, "data")}, s)
	must(t, r.Boot(ctx))
	r.Load()
	slowest := time.Duration(0)
	for i := range starts {
		if i == starts/2 { // stale lock
			must(t, r.Kill(ctx))
			must(t, r.Boot(ctx))
		}
		slowest = max(slowest, second(t, ctx, r, dir))
	}
	r.EndLoad()
	v, _ := settle(t, r, 0, 50)
	res.add(v)
	res.Note = fmt.Sprintf("refused after %v at the latest", slowest.Round(time.Millisecond))
	if !v.OK() {
		t.Errorf("the first gateway was harmed:\n%s", v.String())
	}
}

// second starts another gateway with the same ledger and wants it refused.
func second(t *testing.T, ctx context.Context, r *Rig, dir string) time.Duration {
	t.Helper()
	other := t.TempDir()
	p, err := NewProc(r.Proc.Binary, Layout{Dir: other, Data: filepath.Join(dir, "data")}, r.sources, "127.0.0.1:1")
	must(t, err)
	began := time.Now()
	must(t, p.Start())
	end, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	st, err := p.Ended(end)
	must(t, err)
	took := time.Since(began)
	log, err := os.ReadFile(p.Log)
	must(t, err)
	pid := fmt.Sprintf("process %d", r.Proc.cmd.Process.Pid)
	if st.ExitCode() != 6 || !strings.Contains(string(log), pid) {
		t.Errorf("ended with %v, want exit code 6 and %q in\n%s", st, pid, log)
	}
	if took > 2*time.Second {
		t.Errorf("took %v, want at most %v", took, 2*time.Second)
	}
	return took
}

// TestControlSecondProcess gives the second gateway a directory of its own:
// nothing refuses it then, so that the refusals above are the lock's.
func TestControlSecondProcess(t *testing.T) {
	t.Parallel()
	s := seed(t)
	res := &Result{Fault: "a second process on another ledger", Seed: s, Control: true, Cycles: 1}
	record(t, res)
	ctx := within(t, time.Minute)
	dir := keep(t)
	r := newRig(t, built(t, asShipped), Layout{Dir: dir, Data: filepath.Join(dir, "data")}, s)
	must(t, r.Boot(ctx))
	other := t.TempDir()
	p, err := NewProc(r.Proc.Binary, Layout{Dir: other, Data: filepath.Join(other, "data")}, r.sources, "127.0.0.1:1")
	must(t, err)
	must(t, p.Start())
	err = p.WaitReady(ctx)
	res.Seen, res.Note = err == nil, "it serves"
	must(t, err)
	must(t, p.Kill())
}
