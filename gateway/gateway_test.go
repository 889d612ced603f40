package gateway

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/dedupe/postgres/pgtest"
	"github.com/onceward/onceward/verify"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(pgtest.Main{M: m}) }

const (
	secretA = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
	secretB = "whsec_ZmVkY2JhOTg3NjU0MzIxMGZlZGNiYTk4NzY1NDMyMTA="
)

// base is a configuration on free ports over a directory.
func base(dir string) string {
	return fmt.Sprintf(`listen = "127.0.0.1:0"
drain = "5s"
admin = { listen = "127.0.0.1:0" }
store = { path = %q, reserve = "1MiB", ballast = "4KiB" }
retention = { body = "60d" }
`, dir)
}

// source is one signed source of every shape that the tests use.
func source(name, provider string, secrets ...string) string {
	return fmt.Sprintf("[[source]]\nname = %q\nprovider = %q\nsecrets = [\"%s\"]\ntargets = [\"app\"]\n", name, provider, strings.Join(secrets, `", "`))
}

func target(url string) string {
	return fmt.Sprintf("[[target]]\nname = \"app\"\nurl = %q\ninitial = \"10ms\"\nmax = \"20ms\"\n", url)
}

var testEnv = envOf("A", secretA, "B", secretB, "PLAIN", "0123456789abcdef")

// parsed is a configuration that must have no errors.
func parsed(t *testing.T, toml string) *Config {
	t.Helper()
	cfg, fs := Parse("c.toml", []byte(toml), testEnv)
	if fs.Failed() {
		t.Fatalf("config:\n%v", fs)
	}
	return cfg
}

// running is a gateway that was started.
type running struct {
	*Gateway
	cfg    *Config
	client *http.Client
	cancel context.CancelFunc
	ended  chan error
}

// run starts a gateway and stops it when the test ends.
func run(t *testing.T, toml string, o Options) *running {
	t.Helper()
	return runConfig(t, parsed(t, toml), o)
}

func runConfig(t *testing.T, cfg *Config, o Options) *running {
	t.Helper()
	o.Env = testEnv
	g, err := New(cfg, o)
	if err != nil {
		t.Fatal(err)
	}
	return runGateway(t, g, cfg)
}

func runGateway(t *testing.T, g *Gateway, cfg *Config) *running {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{Gateway: g, cfg: cfg, cancel: cancel, ended: make(chan error, 1), client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}}
	ended := r.ended
	go func() { ended <- g.Run(ctx) }()
	t.Cleanup(r.client.CloseIdleConnections)
	select {
	case <-g.Ready():
	case err := <-ended:
		t.Fatalf("not ready: %v", err)
	case <-time.After(30 * time.Second):
		t.Fatal("not ready in 30 s")
	}
	t.Cleanup(func() {
		if err := r.stop(t); err != nil {
			t.Errorf("run: %v", err)
		}
	})
	return r
}

// stop ends the gateway and returns what Run returned; only the first call
// does anything.
func (r *running) stop(t *testing.T) error {
	t.Helper()
	if r.ended == nil {
		return nil
	}
	ended := r.ended
	r.ended = nil
	r.cancel()
	r.client.CloseIdleConnections()
	select {
	case err := <-ended:
		return err
	case <-time.After(30 * time.Second):
		t.Fatal("not stopped in 30 s")
		return nil
	}
}

// signed makes an authentic request for a source.
func (r *running) signed(t *testing.T, source, id, typ string) *http.Request {
	t.Helper()
	src, ok := r.cfg.Source(source)
	if !ok {
		t.Fatalf("no source %q", source)
	}
	ingest, _ := r.Addr()
	url := "http://" + ingest + src.ListenPath()
	s, err := src.Verifier().Sign(verify.SignRequest{Now: time.Now(), ID: id, Type: typ, URL: url})
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequest(s.Method, url, bytes.NewReader(s.Body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = s.Header
	return req
}

// send sends and reads the whole answer.
func (r *running) send(t *testing.T, req *http.Request) (*http.Response, string) {
	t.Helper()
	resp, err := r.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(b)
}

// hit is one request that a target saw.
type hit struct {
	key, attempt, source, id string
	body                     string
}

// listener is a target that tells what it saw, and answers as it is told.
func listener(t *testing.T, answer func(hit) int) (url string, hits <-chan hit) {
	t.Helper()
	ch := make(chan hit, 1024)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		b, _ := io.ReadAll(req.Body)
		h := hit{req.Header.Get("Idempotency-Key"), req.Header.Get("Onceward-Attempt"), req.Header.Get("Onceward-Source"), req.Header.Get("Onceward-Event-Id"), string(b)}
		ch <- h
		w.WriteHeader(answer(h))
	}))
	t.Cleanup(srv.Close)
	return srv.URL, ch
}

func next(t *testing.T, hits <-chan hit) hit {
	t.Helper()
	select {
	case h := <-hits:
		return h
	case <-time.After(20 * time.Second):
		t.Fatal("the target saw nothing for 20 s")
		return hit{}
	}
}

func ok(hit) int { return http.StatusOK }

// TestEndToEnd sends a signed event of four providers through the whole
// product: the target gets the exact bytes under one key on every attempt, and
// a repeat is told the first answer and goes nowhere.
func TestEndToEnd(t *testing.T) {
	t.Parallel()
	url, hits := listener(t, func(h hit) int {
		if h.attempt != "3" {
			return http.StatusServiceUnavailable
		}
		return http.StatusOK
	})
	toml := base(t.TempDir())
	providers := map[string]string{"stripe": "${env:A}", "github": "${env:A}", "slack": "${env:A}", "standard_webhooks": "${env:A}"}
	for p, secret := range providers {
		toml += source(p, p, secret)
	}
	r := run(t, toml+target(url), Options{})
	sent := map[string]string{} // body by key
	for p := range providers {
		id := "evt_" + p
		req := r.signed(t, p, id, "thing.happened")
		body, err := io.ReadAll(req.Body)
		if err != nil {
			t.Fatal(err)
		}
		req.Body = io.NopCloser(bytes.NewReader(body))
		again := req.Clone(t.Context())
		again.Body = io.NopCloser(bytes.NewReader(body))
		first, answer := r.send(t, req)
		if first.StatusCode != http.StatusOK || first.Header.Get("Idempotent-Replayed") != "" {
			t.Fatalf("%s: answered %s %v", p, first.Status, first.Header)
		}
		second, repeat := r.send(t, again)
		if second.StatusCode != first.StatusCode || repeat != answer || second.Header.Get("Idempotent-Replayed") != "true" {
			t.Errorf("%s: a repeat was answered %s %v %q, want the first answer %q", p, second.Status, second.Header, repeat, answer)
		}
		sent[p+":"+id] = string(body)
	}
	attempts := map[string]string{}
	for range 3 * len(providers) {
		h := next(t, hits)
		if want, ok := sent[h.key]; !ok || h.body != want {
			t.Errorf("target got %q under %q, want %q", h.body, h.key, want)
		}
		if h.key != h.source+":"+h.id {
			t.Errorf("key %q of source %q and ID %q", h.key, h.source, h.id)
		}
		attempts[h.key] += h.attempt
	}
	for key := range sent {
		if attempts[key] != "123" {
			t.Errorf("%s: attempts %q, want 123", key, attempts[key])
		}
	}
	if err := r.stop(t); err != nil {
		t.Fatal(err)
	}
	select {
	case h := <-hits:
		t.Errorf("one more request than attempts: %+v", h)
	default:
	}
}

func TestRefusedLeavesNothing(t *testing.T) {
	t.Parallel()
	url, hits := listener(t, ok)
	r := run(t, base(t.TempDir())+source("stripe", "stripe", "${env:A}")+target(url), Options{})
	req := r.signed(t, "stripe", "evt_1", "x")
	req.Header.Set("Stripe-Signature", strings.Replace(req.Header.Get("Stripe-Signature"), "v1=", "v1=00", 1))
	if resp, _ := r.send(t, req); resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("a forged request was answered %s", resp.Status)
	}
	if resp, _ := r.send(t, r.signed(t, "stripe", "evt_1", "x")); resp.StatusCode != http.StatusOK || resp.Header.Get("Idempotent-Replayed") != "" {
		t.Errorf("the true one was answered %s, %v: the forged one burned its ID", resp.Status, resp.Header)
	}
	if h := next(t, hits); h.key != "stripe:evt_1" || h.attempt != "1" {
		t.Errorf("target got %+v", h)
	}
}

// TestAdmin asks the operator's listener with the token that was made.
func TestAdmin(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "new", "data")
	var log safeBuffer
	r := run(t, base(dir)+source("stripe", "stripe", "${env:A}")+source("off", "github", "${env:NOPE}")+target("http://127.0.0.1:9/"),
		Options{Log: slog.New(slog.NewJSONHandler(&log, nil)), Version: "v0"})
	info, err := os.Stat(dir)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("data directory: %v, %v", info.Mode(), err)
	}
	token, err := os.ReadFile(r.cfg.TokenFile())
	if err != nil {
		t.Fatal(err)
	}
	if info, err = os.Stat(r.cfg.TokenFile()); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("token file: %v, %v", info.Mode(), err)
	}
	if log.contains(strings.TrimSpace(string(token))) || log.contains(secretA) {
		t.Error("the log holds a secret")
	}
	_, admin := r.Addr()
	get := func(path, token string) (int, string) {
		req, err := http.NewRequest(http.MethodGet, "http://"+admin+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if token != "" {
			req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(token))
		}
		resp, body := r.send(t, req)
		return resp.StatusCode, body
	}
	if code, _ := get("/api/v1/status", ""); code != http.StatusUnauthorized {
		t.Errorf("status without a token: %d", code)
	}
	if code, body := get("/api/v1/status", string(token)); code != http.StatusOK || !strings.Contains(body, `"name":"off"`) || !strings.Contains(body, "none of its secrets is set") {
		t.Errorf("status: %d %s", code, body)
	}
	r.send(t, r.signed(t, "stripe", "evt_1", "x"))
	_, metrics := get("/metrics", "")
	for _, want := range []string{
		`onceward_build_info{goversion=`, "onceward_config_last_reload_successful 1\n", `onceward_config_info{hash="` + r.cfg.Hash() + `"} 1`,
		"onceward_store_events_total 1\n", "onceward_store_read_only 0\n", `onceward_delivery_pending{target="app"} 1`, `onceward_dead_letters{target="app"} 0`,
		`onceward_delivery_oldest_pending_age_seconds{target="app"}`, "onceward_store_sequence ", "go_goroutines",
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("metrics lack %s", want)
		}
	}
	ingest, _ := r.Addr()
	resp, err := r.client.Post("http://"+ingest+"/in/off", "application/json", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" {
		t.Errorf("an offline source answered %s, %v", resp.Status, resp.Header)
	}
}

// TestLocked starts a second gateway on the same ledger: it says who holds
// it, and the first goes on.
func TestLocked(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	url, hits := listener(t, ok)
	toml := base(dir) + source("stripe", "stripe", "${env:A}") + target(url)
	r := run(t, toml, Options{})
	second, err := New(parsed(t, toml), Options{})
	if err != nil {
		t.Fatal(err)
	}
	err = second.Run(t.Context())
	if !errors.Is(err, dedupe.ErrLocked) || !strings.Contains(err.Error(), strconv.Itoa(os.Getpid())) {
		t.Errorf("got %v, want ErrLocked with process %d", err, os.Getpid())
	}
	select {
	case <-second.Ready():
		t.Error("the second gateway is ready")
	default:
	}
	if resp, _ := r.send(t, r.signed(t, "stripe", "evt_1", "x")); resp.StatusCode != http.StatusOK {
		t.Errorf("the first gateway answers %s", resp.Status)
	}
	next(t, hits)
}

// TestDrain stops a gateway with a request half read and an attempt half
// answered: readiness goes first, both finish, and nothing is lost.
func TestDrain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	release := make(chan struct{})
	url, hits := listener(t, func(hit) int { <-release; return http.StatusOK })
	letGo := sync.OnceFunc(func() { close(release) })
	t.Cleanup(letGo)
	r := run(t, base(dir)+source("stripe", "stripe", "${env:A}")+target(url)+"concurrency = 1\n", Options{})
	r.send(t, r.signed(t, "stripe", "evt_1", "x"))
	next(t, hits) // in flight now

	ingest, admin := r.Addr()
	conn, err := net.Dial("tcp", ingest)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	req := r.signed(t, "stripe", "evt_2", "x")
	body, _ := io.ReadAll(req.Body)
	fmt.Fprintf(conn, "POST /in/stripe HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: %d\r\n", len(body))
	req.Header.Write(conn)
	io.WriteString(conn, "\r\n")
	answers := bufio.NewReader(conn)
	if line, err := answers.ReadString('\n'); err != nil || !strings.Contains(line, "100 Continue") {
		t.Fatalf("got %q, %v", line, err)
	}
	answers.ReadString('\n')

	ended := r.ended
	r.ended = nil
	r.cancel()
	poll(t, "readiness goes", func() bool {
		resp, err := r.client.Get("http://" + admin + "/readyz")
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusServiceUnavailable
	})
	poll(t, "the public listener closes", func() bool {
		c, err := net.Dial("tcp", ingest)
		if err == nil {
			c.Close()
		}
		return err != nil
	})
	conn.Write(body)
	resp, err := http.ReadResponse(answers, nil)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("the request in flight got %v, %v", resp, err)
	}
	letGo()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}

	url2, hits2 := listener(t, ok)
	again := run(t, base(dir)+source("stripe", "stripe", "${env:A}")+target(url2), Options{})
	if h := next(t, hits2); h.key != "stripe:evt_2" || h.attempt != "1" {
		t.Errorf("after the restart the target got %+v, want evt_2 alone", h)
	}
	if resp, _ := again.send(t, again.signed(t, "stripe", "evt_1", "x")); resp.Header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("evt_1 is not a repeat after the restart: %v", resp.Header)
	}
}

// TestRestartsUnderLoad stops and starts a gateway on one ledger while
// senders go on: whatever was answered 200 reaches the target, under one key
// and with one body.
func TestRestartsUnderLoad(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	seen := map[string]string{}
	url, hits := listener(t, ok)
	collected := make(chan struct{})
	stopCollecting := make(chan struct{})
	go func() {
		defer close(collected)
		for {
			select {
			case h := <-hits:
				mu.Lock()
				if was, again := seen[h.key]; again && was != h.body {
					t.Errorf("%s came with two bodies", h.key)
				}
				seen[h.key] = h.body
				mu.Unlock()
			case <-stopCollecting:
				return
			}
		}
	}()
	toml := base(t.TempDir()) + source("stripe", "stripe", "${env:A}") + target(url)
	acked := map[string]bool{}
	for cycle := range 5 {
		r := run(t, toml, Options{})
		enough := make(chan struct{}, 64)
		var wg sync.WaitGroup
		for s := range 4 {
			wg.Go(func() {
				for i := range 1000 {
					id := fmt.Sprintf("evt_%d_%d_%d", cycle, s, i)
					if r.post(id) != nil {
						return // the gateway is gone
					}
					mu.Lock()
					acked["stripe:"+id] = true
					mu.Unlock()
					select {
					case enough <- struct{}{}:
					default:
					}
				}
			})
		}
		for range 40 {
			<-enough
		}
		if err := r.stop(t); err != nil {
			t.Fatalf("cycle %d: %v", cycle, err)
		}
		wg.Wait()
	}
	run(t, toml, Options{})
	poll(t, "all that was answered 200 lands", func() bool {
		mu.Lock()
		defer mu.Unlock()
		for key := range acked {
			if _, landed := seen[key]; !landed {
				return false
			}
		}
		return true
	})
	close(stopCollecting)
	<-collected
	t.Logf("%d events over 5 restarts", len(acked))
}

// TestInterrupted stops a gateway whose target hangs past the deadline: the
// delivery is still open, and goes out again under the same key.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	release := make(chan struct{})
	url, hits := listener(t, func(hit) int { <-release; return http.StatusOK })
	t.Cleanup(func() { close(release) })
	toml := strings.Replace(base(dir), `"5s"`, `"1s"`, 1) + source("stripe", "stripe", "${env:A}")
	r := run(t, toml+target(url), Options{})
	r.send(t, r.signed(t, "stripe", "evt_1", "x"))
	first := next(t, hits)
	stopped := time.Now()
	if err := r.stop(t); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(stopped); took > 8*time.Second {
		t.Errorf("stopping took %v with a drain of 1 s", took)
	}
	url2, hits2 := listener(t, ok)
	run(t, toml+target(url2), Options{})
	if h := next(t, hits2); h.key != first.key || h.body != first.body || h.attempt != "2" {
		t.Errorf("got %+v, want attempt 2 under %q", h, first.key)
	}
}

// broken is a ledger whose commits fail: all, or those that hold results.
type broken struct {
	ledger
	resultsOnly bool
}

func (b broken) Commit(ctx context.Context, batch *dedupe.Batch) error {
	if b.resultsOnly && len(batch.Results) == 0 {
		return b.ledger.Commit(ctx, batch)
	}
	return fmt.Errorf("sync: input/output error: %w", dedupe.ErrFatal)
}

// TestLedgerFails lets the first commit fail: nobody is told 2xx, and Run ends
// with the error.
func TestLedgerFails(t *testing.T) {
	t.Parallel()
	cfg := parsed(t, base(t.TempDir())+source("stripe", "stripe", "${env:A}")+target("http://127.0.0.1:9/"))
	g, err := New(cfg, Options{})
	if err != nil {
		t.Fatal(err)
	}
	g.open = func(ctx context.Context) (ledger, error) {
		l, err := g.openLedger(ctx)
		return broken{l, false}, err
	}
	r := &running{Gateway: g, cfg: cfg, client: &http.Client{}}
	ended := make(chan error, 1)
	go func() { ended <- g.Run(t.Context()) }()
	<-g.Ready()
	if resp, _ := r.send(t, r.signed(t, "stripe", "evt_1", "x")); resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("answered %s without a commit", resp.Status)
	}
	r.client.CloseIdleConnections()
	if err := <-ended; !errors.Is(err, dedupe.ErrFatal) {
		t.Errorf("run ended with %v, want ErrFatal", err)
	}
}

// TestResultFails lets the commit of an attempt's result fail while another
// attempt is in flight: Run ends with the error and doesn't wait for results
// that can't be written; the next start sends again under the same key.
func TestResultFails(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	second := make(chan struct{})
	url, hits := listener(t, func(h hit) int {
		if h.id == "evt_2" {
			<-second
		}
		return http.StatusOK
	})
	t.Cleanup(func() { close(second) })
	toml := strings.Replace(base(dir), `"5s"`, `"1s"`, 1) + source("stripe", "stripe", "${env:A}")
	cfg := parsed(t, toml+target(url))
	g, err := New(cfg, Options{})
	if err != nil {
		t.Fatal(err)
	}
	g.open = func(ctx context.Context) (ledger, error) {
		l, err := g.openLedger(ctx)
		return broken{l, true}, err
	}
	r := &running{Gateway: g, cfg: cfg, client: &http.Client{}}
	ended := make(chan error, 1)
	go func() { ended <- g.Run(t.Context()) }()
	<-g.Ready()
	r.send(t, r.signed(t, "stripe", "evt_2", "x"))
	next(t, hits)
	r.send(t, r.signed(t, "stripe", "evt_1", "x"))
	next(t, hits)
	r.client.CloseIdleConnections()
	select {
	case err := <-ended:
		if !errors.Is(err, dedupe.ErrFatal) {
			t.Errorf("run ended with %v, want ErrFatal", err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("run goes on without a ledger")
	}
	url2, hits2 := listener(t, ok)
	run(t, toml+target(url2), Options{})
	keys := map[string]bool{next(t, hits2).key: true, next(t, hits2).key: true}
	if !keys["stripe:evt_1"] || !keys["stripe:evt_2"] {
		t.Errorf("sent again: %v", keys)
	}
}

// TestStopWhileStarting ends a gateway before it began.
func TestStopWhileStarting(t *testing.T) {
	t.Parallel()
	g, err := New(parsed(t, base(t.TempDir())), Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := g.Run(ctx); err != nil {
		t.Error(err)
	}
	if in, ad := g.Addr(); in != "" || ad != "" {
		t.Errorf("it listened on %s and %s", in, ad)
	}
}

// TestPortTaken reports the address, and leaves the ledger free.
func TestPortTaken(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	dir := t.TempDir()
	g, err := New(parsed(t, strings.Replace(base(dir), "127.0.0.1:0", ln.Addr().String(), 1)), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Run(t.Context()); err == nil || !strings.Contains(err.Error(), ln.Addr().String()) {
		t.Errorf("got %v, want the address that is taken", err)
	}
	run(t, base(dir), Options{})
}

// poll asks again and again until cond holds.
func poll(t *testing.T, what string, cond func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(20 * time.Second)
	for !cond() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("%s: not in 20 s", what)
		}
	}
}

// safeBuffer is a log that a test reads while it is written.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) contains(text string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Contains(s.b.String(), text)
}
