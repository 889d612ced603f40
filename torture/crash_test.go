//go:build torture

package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

var (
	seedFlag   = flag.Uint64("seed", 0, "seed of everything random; 0 draws one and prints it")
	reportFlag = flag.String("report", "", "`file`, from the module's root, to write the report to")
)

// The builds of the gateway: as shipped, and those that break one promise so
// that the suite can show it would see it.
const (
	asShipped = ""
	earlyAck  = "onceward_unsafe_early_ack" // 2xx before the commit
	noSync    = "onceward_unsafe_nosync"    // commits that are not synced
)

const (
	shippedEnv = "TORTURE_BINARY"           // a gateway to test in place of this module's
	isolateEnv = "TORTURE_NAMESPACE_BINARY" // what a test in a process of its own is to run
)

// started is when this process of tests began, binDir where it keeps builds.
var (
	started = time.Now()
	binDir  string
)

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(mainCode(m))
}

// mainCode runs the tests and, where it was asked for, writes the report.
func mainCode(m *testing.M) int {
	dir, err := os.MkdirTemp("", "onceward-torture-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if binDir = os.Getenv(buildsEnv); binDir == "" {
		binDir = dir
	}
	if os.Getenv(resultsEnv) == "" {
		os.Setenv(resultsEnv, filepath.Join(dir, "results.jsonl"))
	}
	code := m.Run()
	if *reportFlag == "" {
		return code
	}
	results, err := ReadResults(os.Getenv(resultsEnv))
	if err == nil {
		rep := NewReport("..", "C", started, results)
		if code != 0 && rep.OK() {
			rep.Failures = []string{"a test failed before it came to a result; its output says why"}
		}
		err = rep.Save(under("..", *reportFlag))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// long reports whether this is tier N.
func long() bool { return os.Getenv(tierEnv) == "N" }

// record adds what the test came to, when it ends, to the results. The test's
// name and whether it failed are filled in.
func record(t *testing.T, r *Result) {
	t.Helper()
	r.Test = t.Name()
	t.Cleanup(func() {
		r.Failed = t.Failed()
		if err := r.Append(os.Getenv(resultsEnv)); err != nil {
			t.Error(err)
		}
	})
}

// counting guards the results of tests that are several at once.
var counting sync.Mutex

// add counts a verdict in.
func (r *Result) add(v Verdict) {
	counting.Lock()
	defer counting.Unlock()
	r.Acknowledged += v.Acknowledged
	r.Lost += v.Lost
	r.Twice += v.Twice
}

// cycle counts n more.
func (r *Result) cycle(n int) {
	counting.Lock()
	defer counting.Unlock()
	r.Cycles += n
}

// builds makes each build once, by its path.
var (
	building sync.Mutex
	builds   = map[string]func() error{}
)

// build is the gateway with build tags, made once, unless the environment
// names a built one.
func build(tags string) (string, error) {
	if path := os.Getenv(isolateEnv); path != "" {
		return path, nil
	}
	if path := os.Getenv(shippedEnv); path != "" && tags == asShipped {
		return path, nil
	}
	out := filepath.Join(binDir, "onceward-"+strings.ReplaceAll(tags, ",", "-"))
	building.Lock()
	once, known := builds[out]
	if !known {
		once = sync.OnceValue(func() error { return goBuild(out, tags) })
		builds[out] = once
	}
	building.Unlock()
	return out, once()
}

// goBuild builds the gateway, unless another process of the runner's has. One
// builds at a time: what they share is compiled once.
func goBuild(out, tags string) error {
	lock, err := os.OpenFile(filepath.Join(binDir, "building"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close() // which unlocks
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("wait for another build: %w", err)
	}
	if _, err := os.Stat(out); err == nil {
		return nil
	}
	cmd := exec.Command("go", "build", "-tags", tags, "-o", out, ".")
	cmd.Dir = ".."
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the gateway with tags %q: %w\n%s", tags, err, text)
	}
	return nil
}

func built(t *testing.T, tags string) string {
	t.Helper()
	path, err := build(tags)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func seed(t *testing.T) uint64 {
	t.Helper()
	s := *seedFlag
	if s == 0 {
		s = uint64(rand.Uint32())
	}
	fmt.Printf("%s: seed %d (-seed %d replays its choices)\n", t.Name(), s, s)
	return s
}

func count(t *testing.T, env string, otherwise int) int {
	t.Helper()
	text := os.Getenv(env)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("%s=%q: want a number from 1", env, text)
	}
	return n
}

// within bounds one step, so that a gateway that hangs fails the test that
// saw it. It holds for clean-ups as well.
func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), d)
	t.Cleanup(cancel)
	return ctx
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// keep is a directory that is left behind, and named, when the test fails.
func keep(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "onceward-"+strings.ReplaceAll(t.Name(), "/", "-")+"-")
	must(t, err)
	t.Cleanup(func() {
		silent(t, dir)
		if t.Failed() {
			t.Logf("logs and ledger of the failed run: %s", dir)
			return
		}
		os.RemoveAll(dir)
	})
	return dir
}

func newRig(t *testing.T, bin string, at Layout, seed uint64) *Rig {
	t.Helper()
	r, err := NewRig(RigConfig{Binary: bin, Layout: at, Seed: seed})
	must(t, err)
	t.Cleanup(func() {
		if err := r.Close(); err != nil && !t.Failed() {
			t.Errorf("close the rig: %v", err)
		}
	})
	return r
}

func between(r *rand.Rand, lo, hi time.Duration) time.Duration {
	return lo + time.Duration(r.Int64N(int64(hi-lo)))
}

// crash kills a loaded gateway that many times over one data directory, and
// every eighth time its successor as well while it starts. It returns with
// the gateway running and the sender stopped.
func crash(t *testing.T, r *Rig, random *rand.Rand, cycles int) (inStart int) {
	t.Helper()
	ctx := within(t, time.Duration(cycles+30)*10*time.Second)
	must(t, r.Boot(ctx))
	r.Load()
	for i := range cycles {
		must(t, Wait(ctx, between(random, 50*time.Millisecond, 800*time.Millisecond)))
		must(t, r.Kill(ctx))
		if i%8 == 7 {
			must(t, r.Start())
			must(t, Wait(ctx, between(random, 5*time.Millisecond, 150*time.Millisecond)))
			must(t, r.Kill(ctx))
			inStart++
		}
		if i == cycles-1 {
			r.EndLoad()
		}
		must(t, r.Boot(ctx))
	}
	return inStart
}

func TestCrashLoop(t *testing.T) { // alone: it measures how long a start takes
	cycles := count(t, "TORTURE_CYCLES", 60)
	if long() {
		cycles = count(t, "TORTURE_CYCLES", 200)
	}
	s := seed(t)
	res := &Result{Fault: "kill -9 under load", Seed: s, Cycles: cycles}
	record(t, res)
	dir := keep(t)
	r := newRig(t, built(t, asShipped), Layout{Dir: dir, Data: filepath.Join(dir, "data")}, s)
	inStart := crash(t, r, rand.New(rand.NewPCG(s, 1000)), cycles)

	v, resent := settle(t, r, 0, 200)
	res.add(v)
	res.Note = fmt.Sprintf("slowest start %v, deliveries left open moved %v after it at the latest", v.SlowestStart.Round(time.Millisecond), v.FirstOrphan.Round(time.Millisecond))
	must(t, r.Proc.Stop(within(t, 20*time.Second)))

	fmt.Printf("%skills under load %d, while starting %d, re-sent at the end %d, all known\n", v.String(), cycles, inStart, resent)
	if !v.OK() {
		t.Error("the gateway broke its promises; see above")
	}
	if v.SlowestStart > 5*time.Second {
		t.Errorf("start took %v, want at most 5s", v.SlowestStart)
	}
	if v.Acknowledged < cycles {
		t.Errorf("only %d events were acknowledged in %d cycles: that proves little", v.Acknowledged, cycles)
	}
}

// settle waits until nothing is pending, sends a sample again, has the
// gateway check its own ledger, and judges. With no sample it only judges.
// until is the moment of a power cut, or zero.
func settle(t *testing.T, r *Rig, until time.Duration, sample int) (v Verdict, resent int) {
	t.Helper()
	r.Target.Release()
	must(t, r.Quiesce(within(t, 2*time.Minute)))
	e, err := r.Evidence(within(t, time.Minute), until)
	must(t, err)
	if sample == 0 {
		return Judge(e), 0
	}
	resent = resend(t, r, e, sample)
	e, err = r.Evidence(within(t, time.Minute), until)
	must(t, err)
	if out, err := r.Proc.Ask(within(t, time.Minute), "ledger", "check"); err != nil {
		t.Errorf("ledger check: %v\n%s", err, out)
	}
	accounted(t, r)
	return Judge(e), resent
}

// accounted has the audit log verified, and holds it against the events.
func accounted(t *testing.T, r *Rig) {
	t.Helper()
	ctx := within(t, 2*time.Minute)
	if out, err := r.Proc.Ask(ctx, "audit", "verify"); err != nil {
		t.Errorf("audit verify: %v\n%s", err, out)
	}
	events, err := r.Proc.Account(ctx)
	must(t, err)
	var gone []string // what is recorded of short events outlives them
	for _, s := range r.sources {
		if s.Short {
			gone = append(gone, s.Name)
		}
	}
	events = slices.DeleteFunc(events, func(e Stored) bool { return slices.Contains(gone, e.Source) })
	accepted, err := r.Proc.Accepted(ctx, gone...)
	must(t, err)
	for i, f := range Unaccounted(events, accepted) {
		if i == 10 {
			break
		}
		t.Error(f)
	}
}

// resend sends a sample again: every one must be recognised, and nothing of
// it may reach a target.
func resend(t *testing.T, r *Rig, e Evidence, sample int) int {
	t.Helper()
	before := r.Target.Count()
	n, err := r.Resend(e, sample)
	if err != nil {
		t.Errorf("repeats after the last restart: %v", err)
	}
	must(t, r.Quiesce(within(t, time.Minute)))
	if after := r.Target.Count(); after != before {
		t.Errorf("%d repeats made %d requests at the targets, want none", n, after-before)
	}
	return n
}

// TestControlEarlyAck shows that the suite sees a gateway that answers before
// it has committed.
func TestControlEarlyAck(t *testing.T) {
	t.Parallel()
	res := &Result{Fault: "kill -9, answers before the commit", Control: true}
	record(t, res)
	v := control(t, earlyAck, res)
	res.Seen = v.Lost > 0
	fmt.Printf("control, answers before the commit: kills %d, acknowledged %d, lost %d\n", controlCycles, v.Acknowledged, v.Lost)
	if v.Lost == 0 {
		t.Errorf("a gateway that answers before it commits lost nothing: the suite would not see a loss\n%s", v.String())
	}
}

// TestControlKillCannotSeeNoSync shows why there are power cuts: a process that is
// killed leaves its unsynced writes to the kernel, and the loss stays unseen.
func TestControlKillCannotSeeNoSync(t *testing.T) {
	t.Parallel()
	res := &Result{Fault: "kill -9, commits not synced: must stay unseen, which is why there are power cuts", Control: true}
	record(t, res)
	v := control(t, noSync, res)
	res.Seen = v.Lost == 0
	fmt.Printf("commits not synced, kills alone: kills %d, acknowledged %d, lost %d\n", controlCycles, v.Acknowledged, v.Lost)
	if v.Lost != 0 {
		t.Errorf("kills alone lost events of a gateway that does not sync: that is another fault\n%s", v.String())
	}
}

const controlCycles = 3

// control is a short crash loop with a build that breaks a promise.
func control(t *testing.T, tag string, res *Result) Verdict {
	t.Helper()
	s := seed(t)
	res.Seed, res.Cycles = s, controlCycles
	dir := keep(t)
	r := newRig(t, built(t, tag), Layout{Dir: dir, Data: filepath.Join(dir, "data")}, s)
	crash(t, r, rand.New(rand.NewPCG(s, 1000)), controlCycles)
	v, _ := settle(t, r, 0, 0)
	res.add(v)
	res.Note = fmt.Sprintf("%d kills, acknowledged %d, lost %d", controlCycles, v.Acknowledged, v.Lost)
	return v
}
