package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// TestPlanShots: the mix is as promised for every size, repeats repeat what
// went before, and a conflict differs from it.
func TestPlanShots(t *testing.T) {
	ps, err := demoProviders()
	if err != nil {
		t.Fatal(err)
	}
	for n := minDemoEvents; n <= 200; n++ {
		shots, err := planShots(ps, n, rand.New(rand.NewPCG(1, uint64(n))))
		if err != nil {
			t.Fatal(err)
		}
		count := map[fate]int{}
		bodies := map[storyKey]string{}
		for i, s := range shots {
			count[s.want]++
			key := storyKey{s.provider.source, s.id}
			before, known := bodies[key]
			switch s.want {
			case fateAccepted, fateRefused:
				if known {
					t.Errorf("%d of %d: ID %s was sent before", i, n, s.id)
				}
			case fateRepeat:
				if before != string(s.body) {
					t.Errorf("%d of %d: a repeat with another body", i, n)
				}
			case fateConflict:
				if !known || before == string(s.body) {
					t.Errorf("%d of %d: a conflict needs a known ID and another body", i, n)
				}
			}
			if s.want == fateAccepted {
				bodies[key] = string(s.body)
			}
		}
		want := map[fate]int{fateRepeat: n / 5, fateRefused: 2, fateConflict: 1, fateAccepted: n - n/5 - 3}
		if !reflect.DeepEqual(count, want) {
			t.Errorf("%d events: %v, want %v", n, count, want)
		}
	}
}

// TestDemoChecksNoticeEveryNumber: no count can be off by one unseen.
func TestDemoChecksNoticeEveryNumber(t *testing.T) {
	s := senderCount{sent: 60, accepted: 45, repeats: 12, conflicts: 1, refused: 2}
	g := gatewayCount{accepted: 45, repeats: 12, conflicts: 1, refused: 2, deliveries: 45, delivered: 45, attempts: 67, failures: 22}
	d := targetCount{requests: 67, effects: 45, again: 5}
	if wrong := mismatches(s, g, d); len(wrong) > 0 {
		t.Fatalf("consistent counts are called wrong: %v", wrong)
	}
	off := func(name string, s senderCount, g gatewayCount, d targetCount) {
		if len(mismatches(s, g, d)) == 0 {
			t.Errorf("%s off by one goes unnoticed", name)
		}
	}
	for i, change := range []func(*senderCount){
		func(s *senderCount) { s.sent++ }, func(s *senderCount) { s.accepted++ }, func(s *senderCount) { s.repeats++ },
		func(s *senderCount) { s.conflicts++ }, func(s *senderCount) { s.refused++ }, func(s *senderCount) { s.sent++; s.errors++ },
	} {
		c := s
		change(&c)
		off("sender's number "+string(rune('1'+i)), c, g, d)
	}
	for i, change := range []func(*gatewayCount){
		func(g *gatewayCount) { g.accepted++ }, func(g *gatewayCount) { g.repeats++ }, func(g *gatewayCount) { g.conflicts++ },
		func(g *gatewayCount) { g.refused++ }, func(g *gatewayCount) { g.deliveries++ }, func(g *gatewayCount) { g.delivered-- },
		func(g *gatewayCount) { g.attempts++ }, func(g *gatewayCount) { g.failures++ },
	} {
		c := g
		change(&c)
		off("gateway's number "+string(rune('1'+i)), s, c, d)
	}
	for _, c := range []targetCount{{requests: 68, effects: 45}, {requests: 67, effects: 46}} {
		off("target's number", s, g, c)
	}
}

func mismatches(s senderCount, g gatewayCount, d targetCount) []string {
	var out []string
	for _, c := range demoChecks(s, g, d) {
		if !c.ok() {
			out = append(out, c.String())
		}
	}
	return out
}

// TestDemoSaysMismatch: a sum that does not hold is said, and ends with 1.
func TestDemoSaysMismatch(t *testing.T) {
	var out bytes.Buffer
	v := &demoView{now: time.Now, out: &out, p: palette{on: true}}
	v.check(check{addend{"accepted", 3}, []addend{{"effects", 4}}})
	if got, want := out.String(), "\x1b[31m✗ accepted = effects: 3 ≠ 4  MISMATCH\x1b[0m"; !strings.Contains(got, want) {
		t.Errorf("got %q, want it to hold %q", got, want)
	}
}

// TestDemoTarget: work is done once per key, whatever goes wrong on the way.
func TestDemoTarget(t *testing.T) {
	target, err := newDemoTarget()
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- target.Run(ctx) }()
	client := &http.Client{Timeout: 200 * time.Millisecond, Transport: &http.Transport{DisableKeepAlives: true}}
	requests := 0
	for n := range 12 {
		want := append(mishapsOf(n), allWell, allWell) // and once more, after it went well
		for try, mis := range want {
			requests++
			got := deliver(t, client, target.url(), string(rune('a'+n)))
			if ok := got == http.StatusNoContent; ok != (mis == allWell) {
				t.Errorf("event %d, try %d (mishap %d): answer %d", n, try, mis, got)
			}
		}
	}
	if got := target.count(); got.requests != requests || got.effects != 12 || got.again == 0 {
		t.Errorf("count %+v, want %d requests, 12 effects and some that came again", got, requests)
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("the target ended with %v", err)
	}
}

// deliver returns the status, or 0 when no answer came.
func deliver(t *testing.T, client *http.Client, url, key string) int {
	t.Helper()
	// A reader that the client cannot rewind: it must not send again by itself.
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, io.NopCloser(strings.NewReader("x")))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Idempotency-Key", key)
	resp, err := client.Do(req)
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	return resp.StatusCode
}

// watched is a writer that says when some text has come by.
type watched struct {
	mu   sync.Mutex
	all  bytes.Buffer
	text string
	seen chan struct{}
}

func (w *watched) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := strings.Contains(w.all.String(), w.text)
	w.all.Write(b)
	if !before && strings.Contains(w.all.String(), w.text) {
		close(w.seen)
	}
	return len(b), nil
}

func (w *watched) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.all.String()
}

// TestDemoStaysUpAndLeavesNothing: after the table the commands it names work
// against it; no secret is in what it printed or logged; the end of its context
// ends it well and takes its directory with it. Not parallel: it sets TMPDIR.
func TestDemoStaysUpAndLeavesNothing(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	ctx, interrupt := context.WithCancel(t.Context())
	out := &watched{text: "onceward refusals list", seen: make(chan struct{})}
	ended := make(chan error, 1)
	a := &app{IO: IO{Stdout: out, Stderr: out, Env: noEnv}, now: time.Now}
	go func() { ended <- a.demo(ctx, demoFlags{fast: true, events: 20}) }()
	select {
	case <-out.seen:
	case err := <-ended:
		t.Fatalf("the demo ended before its time: %v\n%s", err, out)
	}
	dirs, err := filepath.Glob(filepath.Join(tmp, "onceward-demo-*"))
	if err != nil || len(dirs) != 1 {
		t.Fatalf("directories %v, error %v; want one", dirs, err)
	}
	lookAround(t, filepath.Join(dirs[0], "config.toml"))
	secrets := secretsOf(t, dirs[0])
	log, err := os.ReadFile(filepath.Join(dirs[0], "gateway.log"))
	if err != nil {
		t.Fatal(err)
	}
	interrupt()
	if err := <-ended; err != nil {
		t.Errorf("the demo ended with %v", err)
	}
	for name, s := range secrets {
		if strings.Contains(out.String(), s) || strings.Contains(string(log), s) {
			t.Errorf("the secret in %s was printed or logged", name)
		}
	}
	left, err := os.ReadDir(tmp)
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, error %v", left, err)
	}
}

// lookAround runs the commands that the demo proposes.
func lookAround(t *testing.T, config string) {
	t.Helper()
	env := func(name string) (string, bool) { return config, name == "ONCEWARD_CONFIG" }
	run := func(args ...string) string {
		var out, faults bytes.Buffer
		if code := Main(t.Context(), args, IO{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &faults, Env: env}); code != exitDone {
			t.Errorf("%v: exit code %d: %s", args, code, faults.String())
		}
		return out.String()
	}
	run("status")
	run("refusals", "list")
	var events []struct{ Status string }
	if err := json.Unmarshal([]byte(run("events", "list", "-o", "json", "--all")), &events); err != nil || len(events) != 13 {
		t.Errorf("%d events, error %v; want 13", len(events), err)
	}
	got := run("trigger", "stripe", "invoice.paid", "--repeat", "1", "-o", "jsonl")
	if strings.Count(got, `"answer":"accepted"`) != 1 || strings.Count(got, `"answer":"repeat"`) != 1 {
		t.Errorf("trigger: %s", got)
	}
}

// secretsOf reads every secret of a running demo.
func secretsOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "secrets", "*"))
	if err != nil || len(files) != 4 {
		t.Fatalf("secret files %v, error %v; want 4", files, err)
	}
	out := map[string]string{}
	for _, file := range append(files, filepath.Join(dir, "data", "admin.token")) {
		b, err := os.ReadFile(file)
		if err != nil || len(b) < 16 {
			t.Fatalf("%s: %d bytes, error %v", file, len(b), err)
		}
		out[filepath.Base(file)] = strings.TrimSpace(string(b))
	}
	return out
}
