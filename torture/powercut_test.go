//go:build torture && linux

package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// diskSize is the size of the image; it is sparse.
const diskSize = 1 << 30

// isolated runs the test once more against bin, in a process with a mount
// namespace of its own, and reports whether this is that process.
func isolated(t *testing.T, bin string, s uint64) bool {
	t.Helper()
	const marker = "TORTURE_IN_NAMESPACE"
	if os.Getenv(marker) == t.Name() {
		return true
	}
	if os.Getenv("TORTURE_NO_POWERCUT") == "1" {
		fmt.Printf("%s: left out, TORTURE_NO_POWERCUT=1: power cuts are NOT tested\n", t.Name())
		return false
	}
	if os.Geteuid() != 0 {
		t.Fatal("power cuts need root and loop devices; TORTURE_NO_POWERCUT=1 leaves them out")
	}
	self, err := os.Executable()
	must(t, err)
	cmd := exec.CommandContext(t.Context(), self, "-test.run=^"+t.Name()+"$", "-test.v", "-seed", strconv.FormatUint(s, 10))
	cmd.Env = append(os.Environ(), marker+"="+t.Name(), isolateEnv+"="+bin)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	InNamespace(cmd)
	if err := cmd.Run(); err != nil {
		t.Errorf("in its own mount namespace: %v", err)
	}
	return false
}

// outcome is what one power cut left.
type outcome struct {
	Verdict
	// refused says why the gateway would not start again: it noticed a loss
	// by itself, which a build that syncs must never come to. None of what was
	// acknowledged can be read then, and all of it counts as lost.
	refused error
}

// cut runs one gateway on a fresh disk, cuts its power under load, and judges
// what is there when the power is back; sample as for settle.
func cut(t *testing.T, bin string, s uint64, n, sample int) outcome {
	t.Helper()
	ctx := within(t, 2*time.Minute)
	random := rand.New(rand.NewPCG(s, uint64(n)))
	dir := keep(t)
	disk, err := NewDisk(ctx, dir, diskSize)
	must(t, err)
	mounted := true
	t.Cleanup(func() {
		if mounted {
			disk.Close(ctx)
		}
	})
	r, err := NewRig(RigConfig{Binary: bin, Layout: Layout{Dir: dir, Data: disk.Mount + "/data"}, Seed: s + uint64(n)})
	must(t, err)
	closed := false
	t.Cleanup(func() {
		if !closed {
			r.Close()
		}
	})
	must(t, r.Boot(ctx))
	r.Load()
	must(t, answers(ctx, r, http.StatusOK)) // a cut before anything is acknowledged proves nothing
	must(t, Wait(ctx, between(random, 100*time.Millisecond, 450*time.Millisecond)))

	at := r.Clock()
	must(t, disk.Cut([...]uint32{CutUnflushed, CutFlushed}[n%2]))
	if err := r.Kill(ctx); err != nil && !errors.Is(err, errEnded) {
		t.Fatal(err)
	}
	r.Lives[0].End, r.Lives[0].Gone = at, r.Clock()
	r.EndLoad()
	must(t, disk.Remount(ctx))

	var out outcome
	if err := r.Boot(ctx); errors.Is(err, errEnded) {
		out.refused = err
		sent, err := r.Sender.Sent()
		must(t, err)
		out.Verdict = Judge(Evidence{Sources: r.sources, Sent: sent, Until: at})
	} else {
		must(t, err)
		out.Verdict, _ = settle(t, r, at, sample)
	}
	closed = true
	if err := r.Close(); err != nil && out.refused == nil {
		t.Error(err)
	}
	mounted = false
	must(t, disk.Close(ctx))
	return out
}

func TestPowerCut(t *testing.T) {
	t.Parallel()
	cuts := count(t, "TORTURE_CUTS", 20)
	if long() {
		cuts = count(t, "TORTURE_CUTS", 100)
	}
	s := seed(t)
	bin := built(t, asShipped)
	if !isolated(t, bin, s) {
		return
	}
	res := &Result{Fault: "power cut under load", Seed: s, Cycles: cuts}
	record(t, res)
	for i := range cuts {
		t.Run(fmt.Sprintf("cut %d", i), func(t *testing.T) {
			o := cut(t, bin, s, i, 20)
			if o.refused != nil {
				t.Fatalf("the gateway did not start when the power was back: %v", o.refused)
			}
			res.add(o.Verdict)
			if !o.OK() {
				t.Errorf("the gateway broke its promises:\n%s", o.String())
			}
		})
	}
	fmt.Printf("power cuts %d, acknowledged before them %d, lost %d, accepted twice %d\n", cuts, res.Acknowledged, res.Lost, res.Twice)
	if res.Acknowledged < cuts {
		t.Errorf("only %d events were acknowledged before %d cuts: that proves little", res.Acknowledged, cuts)
	}
}

// TestControlNoSync shows that the suite sees a gateway that does not sync
// what it has committed.
func TestControlNoSync(t *testing.T) {
	t.Parallel()
	s := seed(t)
	bin := built(t, noSync)
	if !isolated(t, bin, s) {
		return
	}
	const cuts = 3
	res := &Result{Fault: "power cut, commits not synced", Seed: s, Control: true, Cycles: cuts}
	record(t, res)
	var refused int
	for i := range cuts {
		t.Run(fmt.Sprintf("cut %d", i), func(t *testing.T) {
			o := cut(t, bin, s, i, 0)
			res.add(o.Verdict)
			if o.refused == nil {
				return
			}
			refused++
			if !strings.Contains(o.refused.Error(), "exit status 6") {
				t.Errorf("the gateway did not start for another reason than its ledger: %v", o.refused)
			}
			text := strings.TrimSpace(o.refused.Error())
			t.Log(text[strings.LastIndexByte(text, '\n')+1:])
		})
	}
	res.Seen = res.Lost > 0
	res.Note = fmt.Sprintf("%d power cuts, acknowledged %d, lost %d; %d ledgers noticed by themselves and did not open", cuts, res.Acknowledged, res.Lost, refused)
	fmt.Println("control, commits not synced:", res.Note)
	if res.Lost == 0 {
		t.Errorf("a gateway that does not sync lost nothing in %d power cuts: the suite would not see a loss", cuts)
	}
}

// TestDiskCut shows what the cut itself does: synced bytes stay, others go.
func TestDiskCut(t *testing.T) {
	t.Parallel()
	if !isolated(t, "", 0) {
		return
	}
	ctx := within(t, time.Minute)
	for _, flag := range []uint32{CutUnflushed, CutFlushed} {
		disk, err := NewDisk(ctx, keep(t), diskSize)
		must(t, err)
		path := func(name string) string { return filepath.Join(disk.Mount, name) }
		write := func(name string, sync bool) {
			f, err := os.Create(path(name))
			must(t, err)
			defer f.Close()
			_, err = f.WriteString(name)
			must(t, err)
			if sync {
				must(t, f.Sync())
			}
		}
		write("synced", true)
		write("unsynced", false)
		must(t, disk.Cut(flag))
		if err := os.WriteFile(path("later"), nil, 0o600); err == nil {
			t.Errorf("flag %d: the disk still took a file after the cut", flag)
		}
		must(t, disk.Remount(ctx))
		if b, err := os.ReadFile(path("synced")); err != nil || string(b) != "synced" {
			t.Errorf("flag %d: synced file: got %q, %v", flag, b, err)
		}
		if b, _ := os.ReadFile(path("unsynced")); len(b) > 0 {
			t.Errorf("flag %d: unsynced bytes outlived the cut: %q", flag, b)
		}
		must(t, disk.Close(ctx))
	}
}
