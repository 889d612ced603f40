package gateway

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
	"github.com/onceward/onceward/receiver/conform"
)

// syncSource is a synchronous route for two callers, one of whom rotates its
// secret, and its target.
func syncSource(url, more, targetMore string) string {
	return fmt.Sprintf(`[[source]]
name = "pay"
provider = "idempotency-key"
mode = "sync"
auth = "bearer"
secrets = [
  { id = "old", caller = "shop", value = "shop-secret-0123456789" },
  { id = "new", caller = "shop", value = "shop-secret-9876543210" },
  { id = "other", caller = "app", value = "app-secret-0123456789a" },
]
targets = ["bank"]
%s
[[target]]
name = "bank"
url = %q
timeout = "5s"
%s
`, more, url, targetMore)
}

func bearer(secret string) http.Header { return http.Header{"Authorization": {"Bearer " + secret}} }

var (
	shop    = bearer("shop-secret-0123456789")
	shopNew = bearer("shop-secret-9876543210")
	app     = bearer("app-secret-0123456789a")
)

// bank is a target that counts executions.
func bank(t testing.TB) (*conform.Target, string) {
	t.Helper()
	b := &conform.Target{}
	srv := httptest.NewServer(b)
	srv.Config.ErrorLog = quiet()
	t.Cleanup(srv.Close)
	return b, srv.URL
}

func (r *running) base() string {
	ingest, _ := r.Addr()
	return "http://" + ingest + "/in/pay"
}

// post sends a keyed request and reads the whole answer.
func (r *running) pay(t *testing.T, path, key, body string, header http.Header) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.base()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for name, values := range header {
		req.Header[name] = values
	}
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	return r.send(t, req)
}

func problemOf(body string) string {
	var doc struct{ Type string }
	_ = json.Unmarshal([]byte(body), &doc) // no document is no type
	return strings.TrimPrefix(doc.Type, "urn:onceward:problem:")
}

// TestSyncConforms holds the gateway to the contract from outside, in both of
// its ways to treat a repeat that comes too early.
func TestSyncConforms(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, source, target string
		cfg                  conform.Config
	}{
		{"at once", "", "", conform.Config{}},
		{"waiting, keys required, idempotent target", "wait = \"10s\"\nrequire_key = true", "idempotent = true", conform.Config{Wait: true, RequireKey: true}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, url := bank(t)
			r := run(t, base(t.TempDir())+syncSource(url, tt.source, tt.target), Options{})
			tt.cfg.URL, tt.cfg.Header, tt.cfg.Other, tt.cfg.Steered = r.base(), shop, app, true
			rep, err := conform.Run(t.Context(), tt.cfg)
			if err != nil {
				t.Fatal(err)
			}
			for _, res := range rep.Results {
				if res.Outcome != "pass" {
					t.Errorf("%s: %s: %s", res.Outcome, res.Name, res.Detail)
				}
			}
			if rep.Passed < 30 {
				t.Errorf("%d scenarios passed, want at least 30", rep.Passed)
			}
		})
	}
}

// A proxy that does nothing for keys must not pass: else the scenarios would
// prove nothing.
func TestSyncConformsControl(t *testing.T) {
	t.Parallel()
	_, target := bank(t)
	u, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(p *httputil.ProxyRequest) { p.SetURL(u) }, ErrorLog: quiet()})
	t.Cleanup(proxy.Close)
	rep, err := conform.Run(t.Context(), conform.Config{URL: proxy.URL, Header: shop, Other: app, Steered: true})
	if err != nil {
		t.Fatal(err)
	}
	may := []string{"a request without a key"} // passes once, as through any proxy
	for _, res := range rep.Results {
		if res.Outcome != "fail" && !slices.Contains(may, res.Name) {
			t.Errorf("a bare proxy: %s: %s", res.Outcome, res.Name)
		}
	}
}

// TestSyncOnce is the promise: 64 callers send 1,000 keys, each of them all
// keys, and the target executes each once. With patience every caller gets the
// same bytes, without it those or a 409 and nothing else.
func TestSyncOnce(t *testing.T) {
	const callers = 64
	keys := 1000
	if testing.Short() {
		keys = 100
	}
	for _, wait := range []string{"", `wait = "10s"`} {
		t.Run("with "+wait, func(t *testing.T) {
			b, url := bank(t)
			r := run(t, base(t.TempDir())+syncSource(url, wait, ""), Options{})
			var mu sync.Mutex
			answers, busy := map[string]map[string]int{}, 0
			var wg sync.WaitGroup
			for c := range callers {
				wg.Go(func() {
					header := []http.Header{shop, shopNew}[c%2] // one caller, in the middle of a rotation
					for k := range keys {
						key := fmt.Sprint("k", (k+c/2)%keys)
						resp, body := r.pay(t, "/charges", key, `{"amount":1}`, header)
						mu.Lock()
						switch resp.StatusCode {
						case http.StatusOK:
							if answers[key] == nil {
								answers[key] = map[string]int{}
							}
							answers[key][body]++
						case http.StatusConflict:
							busy++
						default:
							t.Errorf("status %d: %s", resp.StatusCode, body)
						}
						mu.Unlock()
					}
				})
			}
			wg.Wait()
			if got := b.Total(); got != keys {
				t.Errorf("%d effects for %d keys", got, keys)
			}
			same := 0
			for key, bodies := range answers {
				if len(bodies) != 1 {
					t.Errorf("key %s has %d answers", key, len(bodies))
				}
				for _, n := range bodies {
					same += n
				}
			}
			if same+busy != callers*keys || wait != "" && busy > 0 {
				t.Errorf("%d answers and %d conflicts for %d requests", same, busy, callers*keys)
			}
			t.Logf("%d effects; %d answers, %d times 409", b.Total(), same, busy)
		})
	}
}

func quiet() *log.Logger { return slog.NewLogLogger(slog.DiscardHandler, slog.LevelError) }

// TestSyncSettled is the way of a key of unknown outcome: nobody runs it again,
// the operator sees it, and what the operator says is what repeats get.
func TestSyncSettled(t *testing.T) {
	b, url := bank(t)
	dir := t.TempDir()
	r := run(t, base(dir)+syncSource(url, "", ""), Options{})
	for _, key := range []string{"done", "retry"} {
		for range 3 {
			resp, body := r.pay(t, "/charges?cut=1", key, "x", shop)
			if resp.StatusCode != http.StatusBadGateway || problemOf(body) != "outcome-unknown" {
				t.Fatalf("%s: %d %s", key, resp.StatusCode, body)
			}
		}
	}
	if b.Total() != 2 {
		t.Fatalf("%d executions of 2 keys", b.Total())
	}
	page, err := r.ledger.SyncKeys(t.Context(), dedupe.KeyFilter{Open: true}, "", 10)
	if err != nil || len(page.Items) != 2 || page.Items[0].State != dedupe.KeyUnknown || page.Items[0].Why != "connect_error" {
		t.Fatalf("open keys: %+v, %v", page.Items, err)
	}
	body := []byte(`{"charge":"seen at the bank"}`)
	settle := &dedupe.KeyStep{Kind: dedupe.StepSettle, Key: dedupe.KeyOf(dedupe.KindSync, "pay", "shop", "done"), By: dedupe.By{Actor: "ops", Reason: "seen"},
		Answer: &dedupe.KeyAnswer{Status: 200, Length: int64(len(body)), Hash: event.HashOf(body), Body: body}}
	retry := &dedupe.KeyStep{Kind: dedupe.StepRetry, Key: dedupe.KeyOf(dedupe.KindSync, "pay", "shop", "retry"), By: dedupe.By{Actor: "ops"}}
	if err := r.writer.Step(t.Context(), settle, retry); err != nil || settle.Verdict != dedupe.KeyDone || retry.Verdict != dedupe.KeyDone {
		t.Fatalf("settle: %d, retry: %d, %v", settle.Verdict, retry.Verdict, err)
	}
	resp, got := r.pay(t, "/charges?cut=1", "done", "x", shop)
	if resp.StatusCode != 200 || got != string(body) || resp.Header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("settled: %d %q", resp.StatusCode, got)
	}
	resp, got = r.pay(t, "/charges", "retry", "another body by now", shop)
	if resp.StatusCode != 200 || resp.Header.Get("Idempotent-Replayed") != "" || b.Total() != 3 {
		t.Errorf("retried: %d %q, %d executions", resp.StatusCode, got, b.Total())
	}
}

// Where the target executes a key once, an unknown outcome is tried again, with
// the key that went out first.
func TestSyncIdempotentTarget(t *testing.T) {
	b, url := bank(t)
	r := run(t, base(t.TempDir())+syncSource(url, "", "idempotent = true"), Options{})
	for i := range 3 {
		resp, body := r.pay(t, "/charges?cut=1", "k", "x", shop)
		if resp.StatusCode != http.StatusBadGateway || problemOf(body) != "try-again" || resp.Header.Get("Retry-After") == "" {
			t.Fatalf("%d %s", resp.StatusCode, body)
		}
		if n := b.Executions("pay:shop:k"); n != i+1 {
			t.Errorf("try %d: the target saw the key %d times", i, n)
		}
	}
}

// A target that can't be reached has executed nothing: the key is free.
func TestSyncUnreachable(t *testing.T) {
	b := &conform.Target{}
	srv := httptest.NewUnstartedServer(b)
	addr := srv.Listener.Addr().String()
	srv.Listener.Close()
	r := run(t, base(t.TempDir())+syncSource("http://"+addr, "", ""), Options{})
	for range 2 {
		resp, body := r.pay(t, "/", "k", "x", shop)
		if resp.StatusCode != http.StatusServiceUnavailable || problemOf(body) != "target-unreachable" || resp.Header.Get("Retry-After") == "" {
			t.Fatalf("%d %s", resp.StatusCode, body)
		}
	}
	eventually(t, func() (free bool) { // a connection of another test may have the port for a while
		ln, err := net.Listen("tcp", addr)
		srv.Listener = ln
		return err == nil
	})
	srv.Start()
	t.Cleanup(srv.Close)
	if resp, body := r.pay(t, "/", "k", "x", shop); resp.StatusCode != http.StatusOK || b.Total() != 1 {
		t.Errorf("back again: %d %s, %d executions", resp.StatusCode, body, b.Total())
	}
}

// Answers that can't be kept are refused before anything of them is given, and
// the refusal is what repeats get: the target has executed the request.
func TestSyncTooLarge(t *testing.T) {
	b, url := bank(t)
	r := run(t, base(t.TempDir())+syncSource(url, `max_response = "64KiB"
max_spool = "1MiB"`, ""), Options{})
	for i := range 2 {
		resp, body := r.pay(t, fmt.Sprint("/?size=", 1<<20+1), "large", "x", shop)
		if resp.StatusCode != http.StatusBadGateway || problemOf(body) != "response-too-large" || (resp.Header.Get("Idempotent-Replayed") != "") != (i > 0) {
			t.Errorf("%d %s, replayed %q", resp.StatusCode, body, resp.Header.Get("Idempotent-Replayed"))
		}
		resp, body = r.pay(t, fmt.Sprint("/?size=", 1<<20), "fits", "x", shop)
		if resp.StatusCode != http.StatusOK || len(body) != 1<<20 {
			t.Errorf("%d with %d bytes", resp.StatusCode, len(body))
		}
	}
	if b.Total() != 2 {
		t.Errorf("%d executions", b.Total())
	}
}

// A request that takes no part in deduplication ends at the target when its caller
// leaves, with a body or without.
func TestSyncCallerLeaves(t *testing.T) {
	begun, ended := make(chan struct{}, 1), make(chan struct{}, 1)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body)
		begun <- struct{}{}
		<-req.Context().Done()
		ended <- struct{}{}
	}))
	defer srv.Close()
	r := run(t, base(t.TempDir())+syncSource(srv.URL, "", ""), Options{})
	for _, method := range []string{http.MethodGet, http.MethodPut} {
		ctx, leave := context.WithCancel(t.Context())
		req, err := http.NewRequestWithContext(ctx, method, r.base()+"/", strings.NewReader(map[string]string{http.MethodPut: "x"}[method]))
		if err != nil {
			t.Fatal(err)
		}
		req.Header = shop.Clone()
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			if resp, err := r.client.Do(req); err == nil {
				resp.Body.Close()
				t.Errorf("%s: answered %d", method, resp.StatusCode)
			}
		}()
		<-begun
		leave()
		<-gone
		select {
		case <-ended:
		case <-time.After(3 * time.Second): // the target's own time-out is 5 s
			t.Errorf("%s: the target is not told that the caller has left", method)
			<-ended
		}
	}
}

// A stop waits for calls whose callers have left, and stores their answers.
func TestSyncDrain(t *testing.T) {
	b, url := bank(t)
	dir := t.TempDir()
	toml := base(dir) + syncSource(url, "", "")
	r := run(t, toml, Options{})
	ctx, leave := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer leave()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.base()+"/?sleep=1s", strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = shop.Clone()
	req.Header.Set("Idempotency-Key", "k")
	if resp, err := r.client.Do(req); err == nil {
		t.Fatalf("answered %d before it could be", resp.StatusCode)
	}
	if err := r.stop(t); err != nil {
		t.Fatal(err)
	}
	r = run(t, toml, Options{})
	resp, body := r.pay(t, "/?sleep=1s", "k", "x", shop)
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Idempotent-Replayed") != "true" || b.Total() != 1 {
		t.Errorf("after a restart: %d %s, %d executions", resp.StatusCode, body, b.Total())
	}
}

// Calls that outlast the drain are cut, and their keys are unknown.
func TestSyncDrainCut(t *testing.T) {
	_, url := bank(t)
	dir := t.TempDir()
	toml := strings.Replace(base(dir), `drain = "5s"`, `drain = "1s"`, 1) + syncSource(url, "", "")
	r := run(t, toml, Options{})
	done := make(chan error, 1)
	go func() {
		req, err := http.NewRequest(http.MethodPost, r.base()+"/?sleep=4s", strings.NewReader("x"))
		if err != nil {
			done <- err
			return
		}
		req.Header = shop.Clone()
		req.Header.Set("Idempotency-Key", "k")
		resp, err := r.client.Do(req)
		if err == nil {
			resp.Body.Close()
		}
		done <- nil
	}()
	poll(t, "the call to be under way", func() bool {
		p, err := r.ledger.SyncKeys(t.Context(), dedupe.KeyFilter{Open: true}, "", 1)
		return err == nil && len(p.Items) == 1
	})
	if err := r.stop(t); err == nil || !strings.Contains(err.Error(), "cut") {
		t.Errorf("stop: %v, want that calls were cut", err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	r = run(t, toml, Options{})
	resp, body := r.pay(t, "/?sleep=4s", "k", "x", shop)
	if resp.StatusCode != http.StatusBadGateway || problemOf(body) != "outcome-unknown" {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
	k, err := r.ledger.SyncKey(t.Context(), dedupe.KeyOf(dedupe.KindSync, "pay", "shop", "k"))
	if err != nil || k.Why != "interrupted" {
		t.Errorf("key is %s because %q, %v; want interrupted", k.State, k.Why, err)
	}
}

// What repeats and what failed is in the metrics and on the key.
func TestSyncCounted(t *testing.T) {
	_, url := bank(t)
	r := run(t, base(t.TempDir())+syncSource(url, "", ""), Options{})
	for range 3 {
		r.pay(t, "/", "k", "x", shop)
	}
	r.pay(t, "/", "k", "y", shop)
	r.pay(t, "/", "", "y", shop)
	r.pay(t, "/?once=429", "freed", "x", shop)
	got := map[string]float64{}
	poll(t, "the replays to be written and counted", func() bool {
		k, err := r.ledger.SyncKey(t.Context(), dedupe.KeyOf(dedupe.KindSync, "pay", "shop", "k"))
		families, gerr := r.opts.Registry.Gather()
		if err != nil || gerr != nil {
			t.Fatal(err, gerr)
		}
		for _, f := range families {
			for _, m := range f.GetMetric() {
				if name := f.GetName(); strings.HasPrefix(name, "onceward_sync_keys") || name == "onceward_ingest_requests_total" {
					v := m.GetCounter().GetValue() + m.GetGauge().GetValue()
					for _, l := range m.GetLabel() {
						name += " " + l.GetValue()
					}
					got[name] = v
				}
			}
		}
		return k.Replays == 2 && got["onceward_sync_keys_total replayed pay"] > 0 // it is counted after it is written
	})
	for name, want := range map[string]float64{
		"onceward_sync_keys_total claimed pay": 2, "onceward_sync_keys_total forwarded pay": 2, "onceward_sync_keys_total answered pay": 1,
		"onceward_sync_keys_total replayed pay": 2, "onceward_sync_keys_total released pay": 1, "onceward_sync_keys_total unknown pay": 0,
		"onceward_sync_keys unknown": 0, "onceward_sync_keys in_flight": 0,
		"onceward_ingest_requests_total accepted pay": 1, "onceward_ingest_requests_total repeat pay": 2, "onceward_ingest_requests_total conflict pay": 1,
		"onceward_ingest_requests_total undeduplicated pay": 1, "onceward_ingest_requests_total released pay": 1,
	} {
		if v, ok := got[name]; !ok || v != want {
			t.Errorf("%s = %v (%v), want %v", name, v, ok, want)
		}
	}
}

// A provider's route: the key is the event ID, and the patience is the row's.
func TestSyncProvider(t *testing.T) {
	b, url := bank(t)
	r := run(t, base(t.TempDir())+fmt.Sprintf(`[[source]]
name = "pay"
provider = "standard_webhooks"
mode = "sync"
secrets = [%q]
targets = ["bank"]
[[target]]
name = "bank"
url = %q
`, secretA, url), Options{})
	if w := r.gen.Load().sources[0].Sync.Wait; w != 12*time.Second {
		t.Errorf("waits %v, want four fifths of the row's patience", w)
	}
	var first string
	for i := range 3 {
		resp, body := r.send(t, r.signed(t, "pay", "msg_1", "order.paid"))
		if resp.StatusCode != http.StatusOK || i > 0 && (body != first || resp.Header.Get("Idempotent-Replayed") != "true") {
			t.Errorf("%d: %d %q", i, resp.StatusCode, body)
		}
		first = body
	}
	if b.Total() != 1 || b.Executions("pay:msg_1") != 1 {
		t.Errorf("%d executions, %d of pay:msg_1", b.Total(), b.Executions("pay:msg_1"))
	}
}

// The connections of a thousand requests for one key.
func TestSyncThousandForOneKey(t *testing.T) {
	b, url := bank(t)
	r := run(t, base(t.TempDir())+syncSource(url, `wait = "20s"`, ""), Options{})
	r.client.Transport.(*http.Transport).MaxConnsPerHost = 1000
	r.client.Transport.(*http.Transport).MaxIdleConnsPerHost = 1000
	bodies := make(chan string, 1000)
	var wg sync.WaitGroup
	for range 1000 {
		wg.Go(func() {
			resp, body := r.pay(t, "/?sleep=200ms", "one", "x", shop)
			bodies <- fmt.Sprint(resp.StatusCode, " ", body)
		})
	}
	wg.Wait()
	close(bodies)
	seen := map[string]int{}
	for b := range bodies {
		seen[b]++
	}
	if len(seen) != 1 || b.Total() != 1 {
		t.Errorf("%d different answers, %d executions", len(seen), b.Total())
	}
}

// Callers that leave at any moment change nothing: every key has its one
// effect, and who asks again gets its answer.
func TestSyncCallersLeave(t *testing.T) {
	b, url := bank(t)
	r := run(t, base(t.TempDir())+syncSource(url, `wait = "10s"`, ""), Options{})
	const keys = 200
	var wg sync.WaitGroup
	for i := range keys {
		wg.Go(func() {
			key := fmt.Sprint("left-", i)
			for left := range 3 { // before it is claimed, while it is forwarded, while it is answered
				ctx, leave := context.WithTimeout(t.Context(), time.Duration(1+(i*7+left*13)%40)*time.Millisecond)
				req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.base()+"/?sleep=10ms", strings.NewReader("x"))
				if err != nil {
					t.Error(err)
				}
				req.Header = shop.Clone()
				req.Header.Set("Idempotency-Key", key)
				if resp, err := r.client.Do(req); err == nil {
					resp.Body.Close()
				}
				leave()
			}
			resp, body := r.pay(t, "/?sleep=10ms", key, "x", shop)
			if resp.StatusCode != http.StatusOK || !strings.Contains(body, "number 1 of its key") {
				t.Errorf("key %s: %d %s", key, resp.StatusCode, body)
			}
		})
	}
	wg.Wait()
	if n := b.Total(); n != keys {
		t.Errorf("%d executions of %d keys", n, keys)
	}
}

// Half a request is no request.
func TestSyncHalfABody(t *testing.T) {
	b, url := bank(t)
	r := run(t, base(t.TempDir())+syncSource(url, "", ""), Options{})
	ingest, _ := r.Addr()
	conn, err := net.Dial("tcp", ingest)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(conn, "POST /in/pay/ HTTP/1.1\r\nHost: x\r\nAuthorization: %s\r\nIdempotency-Key: half\r\nContent-Length: 10\r\n\r\nhalf", shop.Get("Authorization"))
	conn.Close()
	if resp, body := r.pay(t, "/", "half", "the whole!", shop); resp.StatusCode != http.StatusOK || resp.Header.Get("Idempotent-Replayed") != "" || b.Total() != 1 {
		t.Errorf("%d %s, %d executions", resp.StatusCode, body, b.Total())
	}
}

// Targets in every state of health: the caller gets a whole answer or a
// problem, and no request is made twice.
func TestSyncHostileTargets(t *testing.T) {
	for _, tt := range []struct {
		name, wire string // what the target writes; "" for nothing at all
		then       string // hang or reset; else it closes
		status     int
		want       string // body, or the problem's name
		why        string // of an unknown outcome
	}{
		{name: "hangs", then: "hang", status: 502, want: "outcome-unknown", why: "timeout"},
		{name: "drips", wire: "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nx", then: "hang", status: 502, want: "outcome-unknown", why: "answer_broken"},
		{name: "resets", then: "reset", status: 502, want: "outcome-unknown", why: "connect_error"},
		{name: "resets in the middle", wire: "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf", then: "reset", status: 502, want: "outcome-unknown", why: "answer_broken"},
		{name: "talks nonsense", wire: "220 smtp.example ESMTP\r\n", status: 502, want: "outcome-unknown", why: "connect_error"},
		{name: "answers twice", wire: "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 500 No\r\nContent-Length: 2\r\n\r\nno", status: 200, want: "ok"},
		{name: "informs first", wire: "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\nok", status: 201, want: "ok"},
		{name: "trailers", wire: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-T\r\n\r\n2\r\nok\r\n0\r\nX-T: 1\r\n\r\n", status: 200, want: "ok"},
		{name: "gzip", wire: "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Type: text/plain\r\nContent-Length: 3\r\n\r\n\x1f\x8b\x08", status: 200, want: "\x1f\x8b\x08"},
		{name: "no length", wire: "HTTP/1.1 200 OK\r\n\r\nok", status: 200, want: "ok"},
		{name: "no type", wire: "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>", status: 200, want: "<html>"},
		{name: "a stream of events", wire: "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n", then: "hang", status: 501, want: "streaming-unsupported"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var requests atomic.Int32
			end := make(chan struct{})
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			var serving sync.WaitGroup
			serving.Go(func() {
				for {
					conn, err := ln.Accept()
					if err != nil {
						return
					}
					serving.Go(func() {
						defer conn.Close()
						req, err := http.ReadRequest(bufio.NewReader(conn))
						if err != nil {
							return
						}
						_, _ = io.Copy(io.Discard, req.Body)
						requests.Add(1)
						_, _ = io.WriteString(conn, tt.wire)
						switch tt.then {
						case "hang":
							<-end
						case "reset":
							_ = conn.(*net.TCPConn).SetLinger(0)
						}
					})
				}
			})
			t.Cleanup(func() { close(end); ln.Close(); serving.Wait() })
			r := run(t, base(t.TempDir())+strings.Replace(syncSource("http://"+ln.Addr().String(), "", ""), `timeout = "5s"`, `timeout = "300ms"`, 1), Options{})
			r.client.Transport.(*http.Transport).DisableCompression = true // the bytes as they come
			for i := range 3 {
				resp, body := r.pay(t, "/", "k", "x", shop)
				if tt.want != body && tt.want != problemOf(body) || resp.StatusCode != tt.status {
					t.Errorf("%d: %d %q, want %d %s", i, resp.StatusCode, body, tt.status, tt.want)
				}
				if tt.name == "no type" && resp.Header.Get("Content-Type") != "" {
					t.Errorf("content type %q was guessed", resp.Header.Get("Content-Type"))
				}
			}
			if n := requests.Load(); n != 1 {
				t.Errorf("%d requests for one key", n)
			}
			k, err := r.ledger.SyncKey(t.Context(), dedupe.KeyOf(dedupe.KindSync, "pay", "shop", "k"))
			if err != nil || k.Why != tt.why {
				t.Errorf("key is %s because %q, %v; want %q", k.State, k.Why, err, tt.why)
			}
		})
	}
}
