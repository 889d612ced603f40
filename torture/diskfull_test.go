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
	fullReserve = 128 << 20
	fullBallast = 32 << 20
	fullSize    = 640 << 20
)

// TestDiskFull fills a small ext4 disk under the ledger.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	fills(t, &Result{Fault: "disk full, small ext4"}, func(ctx context.Context, dir string) (mount string, close func(context.Context) error) {
		disk, err := NewDisk(ctx, dir, fullSize)
		must(t, err)
		return disk.Mount, disk.Close
	})
}

// TestDiskFullMemory fills a file system in memory: there is nothing in it but
// what the ledger and the test put there.
func TestDiskFullMemory(t *testing.T) {
	t.Parallel()
	fills(t, &Result{Fault: "disk full, tmpfs"}, func(ctx context.Context, dir string) (string, func(context.Context) error) {
		return inMemory(t, ctx, dir)
	})
}

// inMemory mounts a file system in memory. It belongs into a mount namespace of
// its own.
func inMemory(t *testing.T, ctx context.Context, dir string) (mount string, unmount func(context.Context) error) {
	t.Helper()
	mount = filepath.Join(dir, "mnt")
	must(t, os.MkdirAll(mount, 0o700))
	must(t, execute(ctx, "mount", "-t", "tmpfs", "-o", fmt.Sprintf("size=%d", fullSize), "tmpfs", mount))
	return mount, func(ctx context.Context) error { return execute(ctx, "umount", "-l", mount) }
}

// fills runs the test in a mount namespace of its own.
func fills(t *testing.T, res *Result, mount func(context.Context, string) (string, func(context.Context) error)) {
	t.Helper()
	s := seed(t)
	bin := built(t, asShipped)
	if !isolated(t, bin, s) {
		return
	}
	res.Seed, res.Cycles = s, 2
	record(t, res)
	ctx := within(t, 4*time.Minute)
	dir := keep(t)
	at, close := mount(ctx, dir)
	t.Cleanup(func() { must(t, close(within(t, time.Minute))) })
	fill(t, ctx, onDisk(t, bin, s, dir, at, fullReserve, fullBallast), &eater{dir: at}, res)
}

func onDisk(t *testing.T, bin string, s uint64, dir, mount string, reserve, ballast int) *Rig {
	t.Helper()
	r, err := NewRig(RigConfig{Binary: bin, Seed: s, Layout: Layout{
		Dir: dir, Data: mount + "/data", Reserve: fmt.Sprint(reserve), Ballast: fmt.Sprint(ballast)}})
	must(t, err)
	t.Cleanup(func() {
		if err := r.Close(); err != nil && !t.Failed() {
			t.Error(err)
		}
	})
	return r
}

// fill fills the disk under load: below the reserve intake is answered 503 and
// deliveries go on; with next to nothing left the process lives; when there is
// space again it takes events by itself; and it neither dies nor loses anything
// when it is started on the full disk.
func fill(t *testing.T, ctx context.Context, r *Rig, eater *eater, res *Result) {
	t.Helper()
	must(t, r.Boot(ctx))
	r.Target.Hold(true) // so that there is something to deliver below the reserve
	r.Load()
	must(t, Wait(ctx, time.Second))
	must(t, eater.leave(fullReserve*3/4))
	must(t, answers(ctx, r, http.StatusServiceUnavailable))
	before := landed(t, r) // none
	r.Target.Hold(false)
	must(t, poll(ctx, 50*time.Millisecond, func() (bool, error) { return landed(t, r) > before, nil }))

	must(t, eater.leave(2<<20))
	must(t, Wait(ctx, 3*time.Second))
	must(t, answers(ctx, r, http.StatusServiceUnavailable))

	must(t, eater.give())
	freed := time.Now()
	must(t, answers(within(t, 10*time.Second), r, http.StatusOK))
	res.Note = fmt.Sprintf("takes events again %v after there was space", time.Since(freed).Round(time.Millisecond))
	fmt.Println(res.Fault+":", res.Note)

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

// fullStop is how long a stop in order may take on a full disk: the drain time
// of 5 s, 2 s in which results may still find room, a second for the last act, and
// what else there is.
const fullStop = 15 * time.Second

// TestStopOnFullDisk has a gateway told to stop with less than half its reserve
// left, while results wait for room and senders go on: they are answered 503, it
// ends in order and in time, and what it had acknowledged is there when there is
// space again.
func TestStopOnFullDisk(t *testing.T) {
	t.Parallel()
	s := seed(t)
	bin := built(t, asShipped)
	if !isolated(t, bin, s) {
		return
	}
	res := &Result{Fault: "stop on a full disk", Seed: s, Cycles: 1}
	record(t, res)
	ctx := within(t, 2*time.Minute)
	dir := keep(t)
	mount, unmount := inMemory(t, ctx, dir)
	t.Cleanup(func() { must(t, unmount(within(t, time.Minute))) })
	r, eater := onDisk(t, bin, s, dir, mount, fullReserve, fullBallast), &eater{dir: mount}
	must(t, r.Boot(ctx))
	r.Target.Hold(true)
	r.Load()
	must(t, answers(ctx, r, http.StatusOK))
	must(t, Wait(ctx, time.Second))
	must(t, eater.leave(fullReserve/4))
	must(t, answers(ctx, r, http.StatusServiceUnavailable))
	must(t, eater.leave(fullReserve/4)) // the ballast went
	before := landed(t, r)
	r.Target.Hold(false)
	must(t, poll(ctx, 50*time.Millisecond, func() (bool, error) { return landed(t, r) > before, nil }))
	must(t, answers(ctx, r, http.StatusServiceUnavailable)) // results wait, and hold up nobody

	l := &r.Lives[len(r.Lives)-1]
	began := time.Now()
	err := r.Proc.Stop(within(t, 2*fullStop))
	took := time.Since(began)
	l.End = r.Clock()
	r.Sender.Down()
	must(t, err)
	if took > fullStop {
		t.Errorf("the stop took %v, want at most %v", took, fullStop)
	}
	must(t, r.Target.WaitIdle(ctx))
	res.Note = fmt.Sprintf("ended in order %v after it was told to", took.Round(time.Millisecond))
	fmt.Println(res.Fault+":", res.Note)
	must(t, eater.give())
	must(t, r.Boot(ctx))
	must(t, answers(ctx, r, http.StatusOK))
	r.EndLoad()
	v, _ := settle(t, r, r.Clock(), 20)
	if !v.OK() {
		t.Errorf("the gateway broke its promises:\n%s", v.String())
	}
	res.add(v)
}

// landed is how many requests the targets took.
func landed(t *testing.T, r *Rig) (n int) {
	t.Helper()
	all, err := r.Target.Requests()
	must(t, err)
	for _, q := range all {
		if q.Status/100 == 2 {
			n++
		}
	}
	return n
}

// TestControlDiskFull has a gateway that does not look at the space that is
// left: the full disk kills it, which the tests above would call a fault.
func TestControlDiskFull(t *testing.T) {
	t.Parallel()
	s := seed(t)
	bin := built(t, unguarded)
	if !isolated(t, bin, s) {
		return
	}
	res := &Result{Fault: "disk full, guard off", Seed: s, Control: true, Cycles: 1}
	record(t, res)
	ctx := within(t, 2*time.Minute)
	dir := keep(t)
	mount, unmount := inMemory(t, ctx, dir)
	t.Cleanup(func() { must(t, unmount(within(t, time.Minute))) })
	r := onDisk(t, bin, s, dir, mount, fullReserve, fullBallast)
	must(t, r.Boot(ctx))
	r.Load()
	must(t, (&eater{dir: mount}).leave(1<<20))
	st, err := r.Died(ctx)
	must(t, err)
	r.EndLoad()
	res.Seen, res.Note = !st.Success(), fmt.Sprintf("the process ended with %v", st)
	fmt.Println("control, guard off:", res.Note)
	if st.Success() || st.ExitCode() == 6 {
		t.Errorf("ended with %v: the control shows nothing", st)
	}
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

// leave takes or gives until that many bytes are free. Where the gateway took
// some first, nothing is eaten, and it is tried again.
func (e *eater) leave(bytes int64) error {
	f, err := os.OpenFile(filepath.Join(e.dir, "eaten"), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	for range 1000 {
		if err = e.eat(f, bytes); !errors.Is(err, syscall.ENOSPC) {
			return err
		}
	}
	return err
}

func (e *eater) eat(f *os.File, bytes int64) error {
	var st syscall.Statfs_t
	if err := syscall.Statfs(e.dir, &st); err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	size := info.Size() + int64(st.Bavail)*st.Bsize - bytes
	if size <= info.Size() {
		return f.Truncate(max(size, 0))
	}
	return syscall.Fallocate(int(f.Fd()), 0, 0, size)
}

func (e *eater) give() error { return os.Remove(filepath.Join(e.dir, "eaten")) }
