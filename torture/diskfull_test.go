//go:build torture && linux

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

const (
	fullReserve = 256 << 20
	fullBallast = 64 << 20
)

// TestDiskFull fills the ledger's disk under load: below the reserve intake is
// answered 503 and deliveries go on; with next to nothing left the process
// lives; when there is space again it takes events by itself; and it neither
// dies nor loses anything when it is started on the full disk.
func TestDiskFull(t *testing.T) {
	s := seed(t)
	bin := built(t, asShipped)
	if !isolated(t, bin, s) {
		return
	}
	res := &Result{Fault: "disk full", Seed: s, Cycles: 1}
	record(t, res)
	ctx := within(t, 3*time.Minute)
	dir := keep(t)
	disk, err := NewDisk(ctx, dir, 2<<30)
	must(t, err)
	t.Cleanup(func() { must(t, disk.Close(within(t, time.Minute))) })
	r, err := NewRig(RigConfig{Binary: bin, Seed: s, Layout: Layout{
		Dir: dir, Data: disk.Mount + "/data", Reserve: fmt.Sprint(fullReserve), Ballast: fmt.Sprint(fullBallast)}})
	must(t, err)
	t.Cleanup(func() { must(t, r.Close()) })
	must(t, r.Boot(ctx))
	r.Load()
	must(t, Wait(ctx, time.Second))

	eater := &eater{dir: disk.Mount}
	must(t, eater.leave(fullReserve*3/4))
	must(t, answers(ctx, r, http.StatusServiceUnavailable))
	low := r.Target.Count()
	must(t, Wait(ctx, time.Second))
	t.Logf("below the reserve: %d requests at the targets in a second", r.Target.Count()-low)

	must(t, eater.leave(2<<20))
	must(t, Wait(ctx, 3*time.Second))
	must(t, answers(ctx, r, http.StatusServiceUnavailable))

	must(t, eater.give())
	freed := time.Now()
	must(t, answers(within(t, 10*time.Second), r, http.StatusOK))
	fmt.Printf("disk full: takes events again %v after there was space\n", time.Since(freed).Round(time.Millisecond))

	must(t, eater.leave(1<<20))
	must(t, r.Kill(ctx))
	r.EndLoad()
	must(t, eater.leave(1<<20)) // what the process had held is full again too
	if err := startOnFull(ctx, r); err != nil {
		t.Error(err)
	}
	must(t, eater.give())
	must(t, r.Boot(ctx))
	v, _ := settle(t, r, r.Clock(), 20)
	if !v.OK() {
		t.Errorf("the gateway broke its promises:\n%s", v.String())
	}
	res.add(v)
}

// startOnFull starts the gateway with no space left: it may run and refuse, or
// end with the exit code of a store that can't be used, but not be killed.
func startOnFull(ctx context.Context, r *Rig) error {
	if err := r.Start(); err != nil {
		return err
	}
	defer func() { r.Lives[len(r.Lives)-1].End, r.Lives[len(r.Lives)-1].Killed = r.Clock(), true }()
	select {
	case err := <-r.Proc.done:
		r.Proc.cmd = nil
		if code := exitCode(err); code != 6 {
			return fmt.Errorf("start on a full disk ended with %v, want exit code 6", err)
		}
		return nil
	case <-time.After(3 * time.Second): // it lives
	case <-ctx.Done():
		return ctx.Err()
	}
	return r.Proc.Kill()
}

func exitCode(err error) int {
	var exit interface{ ExitCode() int }
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	return -1
}

// answers waits until the sender got an answer with that status, sent from now
// on.
func answers(ctx context.Context, r *Rig, status int) error {
	from := r.Clock()
	err := poll(ctx, 50*time.Millisecond, func() (bool, error) {
		sent, err := r.Sender.Sent()
		if err != nil {
			return false, err
		}
		for i := len(sent) - 1; i >= 0 && sent[i].AnsweredAt > from; i-- {
			if sent[i].SentAt > from && sent[i].Status == status {
				return true, nil
			}
		}
		return false, nil
	})
	if err != nil {
		return fmt.Errorf("no answer %d: %w\n%s", status, err, r.Proc.logTail())
	}
	return nil
}

// eater takes space from a file system.
type eater struct{ dir string }

// leave takes or gives until that many bytes are free.
func (e *eater) leave(bytes int64) error {
	var st syscall.Statfs_t
	if err := syscall.Statfs(e.dir, &st); err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(e.dir, "eaten"), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	size := info.Size() + int64(st.Bavail)*st.Bsize - bytes
	if size <= info.Size() {
		return f.Truncate(max(size, 0))
	}
	err = syscall.Fallocate(int(f.Fd()), 0, 0, size)
	if errors.Is(err, syscall.ENOSPC) { // the gateway was faster
		return nil
	}
	return err
}

func (e *eater) give() error { return os.Remove(filepath.Join(e.dir, "eaten")) }
