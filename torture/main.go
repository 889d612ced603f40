package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Where the runner and the tests, in processes of their own, meet.
const (
	resultsEnv = "TORTURE_RESULTS" // file that results are appended to
	buildsEnv  = "TORTURE_BUILDS"  // directory that keeps the gateway's builds
	tierEnv    = "TORTURE_TIER"    // C or N; N makes single tests larger
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "torture:", err)
		os.Exit(1)
	}
}

// runner goes through the tests of the suite again and again with new seeds.
type runner struct {
	long   bool
	until  time.Time // when long: no test starts later
	seed   uint64
	only   []string
	atOnce int
	plans  int           // of the simulation, played as well
	limit  time.Duration // of one test
	report string
	after  *Earlier // a report to go on from

	dir, bin string // for everything temporary; the compiled suite
	root     string // of the module

	mu       sync.Mutex
	failures []string
}

func run(ctx context.Context, args []string) error {
	r := &runner{}
	f := flag.NewFlagSet("torture", flag.ContinueOnError)
	f.BoolVar(&r.long, "n", false, "tier N: go on with new seeds until the time is up; else every test once")
	length := f.Duration("for", time.Hour, "how long tier N goes on")
	f.Uint64Var(&r.seed, "seed", 0, "seed of the first round, the next ones count on; 0 draws one")
	only := f.String("only", "", "comma-separated `words`: only tests that have one in their name, such as crash,power")
	f.IntVar(&r.atOnce, "at-once", 1, "how many tests run at the same time")
	f.DurationVar(&r.limit, "limit", 30*time.Minute, "how long one test may take; more for those that are told to be larger")
	f.IntVar(&r.plans, "plans", 0, "play that many plans of the simulation as well, before all else")
	after := f.String("after", "", "report `file` of an earlier run to go on from: it is counted in, and what failed in it runs first")
	failover := f.Bool("failover", false, "run gateways on a database that fails over in the middle of -for, and nothing else")
	chart := f.String("chart", "", "with -failover: `file` for a chart of it, from the module's root")
	f.StringVar(&r.report, "report", "docs/torture.md", "`file` for the report, from the module's root; - is the output alone")
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	if *only != "" {
		r.only = strings.Split(*only, ",")
	}
	if *after != "" {
		var err error
		if r.after, err = ReadReport(*after); err != nil {
			return err
		}
	}
	if r.atOnce < 1 {
		return fmt.Errorf("-at-once %d: want at least 1", r.atOnce)
	}
	if r.seed == 0 {
		r.seed = uint64(rand.Uint32())
	}
	if *failover {
		root, err := moduleRoot(ctx)
		if err != nil {
			return err
		}
		return failoverRun(ctx, root, *chart, *length, r.seed)
	}
	started := time.Now()
	if err := r.prepare(ctx); err != nil {
		return err
	}
	defer os.RemoveAll(r.dir)
	if err := r.simulate(ctx); err != nil {
		return err
	}
	r.until = time.Now().Add(*length)
	if err := r.rounds(ctx); err != nil {
		return err
	}
	return r.finish(started)
}

// prepare finds the module and compiles the suite.
func (r *runner) prepare(ctx context.Context) (err error) {
	if r.root, err = moduleRoot(ctx); err != nil {
		return err
	}
	if r.dir, err = os.MkdirTemp("", "onceward-torture-"); err != nil {
		return err
	}
	r.bin = filepath.Join(r.dir, "torture.test")
	cmd := exec.CommandContext(ctx, "go", "test", "-tags", "torture", "-c", "-o", r.bin, "./torture")
	cmd.Dir = r.root
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("compile the suite: %w\n%s", err, text)
	}
	return nil
}

func moduleRoot(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return "", fmt.Errorf("find the module: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// tests lists the tests of faults, and the controls, by name.
func (r *runner) tests(ctx context.Context) (faults, controls []string, err error) {
	out, err := r.command(ctx, "-test.list", "^Test").Output()
	if err != nil {
		return nil, nil, fmt.Errorf("list the tests: %w", err)
	}
	unit, err := r.unitTests(ctx)
	if err != nil {
		return nil, nil, err
	}
	for _, name := range strings.Fields(string(out)) {
		switch {
		case slices.Contains(unit, name) || !wanted(name, r.only):
		case strings.HasPrefix(name, "TestControl"):
			controls = append(controls, name)
		default:
			faults = append(faults, name)
		}
	}
	if len(faults)+len(controls) == 0 {
		return nil, nil, fmt.Errorf("no test has one of %q in its name", r.only)
	}
	return faults, controls, nil
}

// unitTests lists the tests that run with every `go test` and break nothing.
func (r *runner) unitTests(ctx context.Context) ([]string, error) {
	cmd := exec.CommandContext(ctx, "go", "test", "-list", "^Test", "./torture")
	cmd.Dir = r.root
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("list the unit tests: %w", err)
	}
	return strings.Fields(string(out)), nil
}

func wanted(name string, only []string) bool {
	for _, word := range only {
		if strings.Contains(strings.ToLower(name), strings.ToLower(strings.TrimSpace(word))) {
			return true
		}
	}
	return len(only) == 0
}

// simulate plays plans of the simulation, if it was told to. They take none of
// the time that the rounds have.
func (r *runner) simulate(ctx context.Context) error {
	if r.plans == 0 {
		return nil
	}
	args := []string{"test", "./simulation", "-run", "^TestPlans$", "-count", "1", "-timeout", "24h", "-plans", fmt.Sprint(r.plans), "-first", fmt.Sprint(r.seed)}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = r.root
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	err := cmd.Run()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		r.failures = append(r.failures, fmt.Sprintf("TestPlans: %v: `go %s`", err, strings.Join(args, " ")))
	}
	return Result{Fault: "plans of the simulation", Test: "TestPlans", Seed: r.seed, Cycles: r.plans}.Append(r.results())
}

// turn is a test with its seed.
type turn struct {
	test string
	seed uint64
}

// rounds runs every test once, the controls in the first round only, and before
// it what failed in an earlier run. A round has ended before the next begins.
func (r *runner) rounds(ctx context.Context) error {
	faults, controls, err := r.tests(ctx)
	if err != nil {
		return err
	}
	for n := uint64(0); ; n++ {
		var todo []turn
		if n == 0 && r.after != nil {
			for _, f := range r.after.failures {
				todo = append(todo, turn{f.test, f.seed})
			}
		}
		for _, name := range faults {
			todo = append(todo, turn{name, r.seed + n})
		}
		if n == 0 {
			for _, name := range controls {
				todo = append(todo, turn{name, r.seed})
			}
		}
		r.round(ctx, todo, n == 0)
		if ctx.Err() != nil || !r.long || time.Now().After(r.until) {
			return nil
		}
	}
}

// round runs tests, several at once; all of them when it is the first, else
// until the time is up.
func (r *runner) round(ctx context.Context, todo []turn, first bool) {
	var all sync.WaitGroup
	places := make(chan struct{}, r.atOnce)
	for _, p := range todo {
		places <- struct{}{}
		if ctx.Err() != nil || r.long && !first && time.Now().After(r.until) {
			break
		}
		all.Go(func() {
			defer func() { <-places }()
			r.one(ctx, p.test, p.seed)
		})
	}
	all.Wait()
}

// one runs a test in a process of its own. What it came to it says in the file
// of results; when it ends badly without, the failure is noted here.
func (r *runner) one(ctx context.Context, name string, seed uint64) {
	before := r.bad(name)
	cmd := r.command(ctx, "-test.run", "^"+name+"$", "-test.v", "-test.timeout", r.limit.String(), "-seed", fmt.Sprint(seed))
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	err := cmd.Run()
	if err == nil || ctx.Err() != nil {
		return
	}
	if r.bad(name) > before {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures = append(r.failures, fmt.Sprintf("%s: %v: `go test -tags torture ./torture -run '^%s$' -seed %d`", name, err, name, seed))
}

// bad counts the results so far of a test that ended badly.
func (r *runner) bad(name string) (n int) {
	all, _ := ReadResults(r.results())
	for _, res := range all {
		if res.Test == name && res.bad() {
			n++
		}
	}
	return n
}

func (r *runner) results() string { return filepath.Join(r.dir, "results.jsonl") }

func (r *runner) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, r.bin, args...)
	cmd.Dir = filepath.Join(r.root, "torture")
	cmd.SysProcAttr = apart()
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	cmd.Env = append(os.Environ(), resultsEnv+"="+r.results(), buildsEnv+"="+r.dir, tierEnv+"="+r.tier())
	return cmd
}

func (r *runner) tier() string {
	if r.long {
		return "N"
	}
	return "C"
}

// finish writes the report.
func (r *runner) finish(started time.Time) error {
	results, err := ReadResults(r.results())
	if err != nil {
		return err
	}
	rep := NewReport(r.root, r.tier(), started, results)
	rep.Failures, rep.Earlier = r.failures, r.after
	if r.report != "-" {
		if err := rep.Save(under(r.root, r.report)); err != nil {
			return err
		}
	}
	if err := rep.Write(os.Stdout); err != nil {
		return err
	}
	if !rep.OK() {
		return errors.New("promises were broken, or a control saw nothing; see the report")
	}
	return nil
}

// under is a path below root, unless it is absolute.
func under(root, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(root, path)
}

// NewReport puts a report of the module at root together, as of now.
func NewReport(root, tier string, started time.Time, results []Result) *Report {
	now := time.Now()
	return &Report{
		Date: now, Took: now.Sub(started), Commit: commitOf(root), Tier: tier, Results: results,
		Machine: fmt.Sprintf("%s/%s, %d cores, %s", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version()),
	}
}

// commitOf names the commit of the module at root, "-dirty" when anything but an
// earlier report differs from it.
func commitOf(root string) string {
	git := func(args ...string) (string, error) {
		cmd := exec.Command("git", args...)
		cmd.Dir = root
		out, err := cmd.Output()
		return strings.TrimSpace(string(out)), err
	}
	commit, err := git("describe", "--always", "--abbrev=12")
	if err != nil {
		return "unknown"
	}
	if changed, err := git("status", "--porcelain", "--", ".", ":(exclude)docs/torture.md"); err != nil || changed != "" {
		commit += "-dirty"
	}
	return commit
}

// Save writes the report to a file.
func (r *Report) Save(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return errors.Join(r.Write(f), f.Close())
}
