package gateway

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/onceward/onceward/receiver"
	"github.com/onceward/onceward/verify"
)

// outbound answers in place of the internet.
type outbound func(*http.Request) (int, string, error)

func (f outbound) RoundTrip(req *http.Request) (*http.Response, error) {
	status, body, err := f(req)
	if err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)), Request: req}, nil
}

// lines of a log, safe for concurrent use.
type logLines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logLines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

func (l *logLines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// counted is the value of one counter.
func counted(t *testing.T, c prometheus.Collector) float64 {
	t.Helper()
	reg := prometheus.NewRegistry()
	reg.MustRegister(c)
	families, err := reg.Gather()
	if err != nil || len(families) != 1 {
		t.Fatal(families, err)
	}
	return families[0].GetMetric()[0].GetCounter().GetValue()
}

// call sends a request with one header to a source.
func (r *running) call(t *testing.T, source, header, value, body string) *http.Response {
	t.Helper()
	ingest, _ := r.Addr()
	req, err := http.NewRequest(http.MethodPost, "http://"+ingest+"/in/"+source, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set(header, value)
	resp, _ := r.send(t, req)
	return resp
}

// asanaEvent is a body with one event, signed.
func (r *running) asanaEvent(t *testing.T, source, secret, gid string) int {
	t.Helper()
	body := fmt.Sprintf(`{"events":[{"resource":{"gid":%q,"resource_type":"task"},"action":"changed","created_at":"2026-11-30T00:00:00Z"}]}`, gid)
	mac := hmac.New(sha256.New, []byte(secret))
	io.WriteString(mac, body)
	return r.call(t, source, "X-Hook-Signature", hex.EncodeToString(mac.Sum(nil)), body).StatusCode
}

const handed = "b537207f20cbfa02357cf448134da559e8bd39d61597dcd5631b8012eae53e81"

func asana(name, more string) string {
	return fmt.Sprintf("[[source]]\nname = %q\nprovider = \"asana\"\naccept_unconfirmed = true\ntargets = []\n%s\n", name, more)
}

// TestCaptured takes the secret once: it is durable before the answer, used at
// once and after a restart, and no later request can put another in its place.
func TestCaptured(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	text := base(dir) + asana("tasks", `registration = "pending"`)
	logs := &logLines{}
	r := run(t, text, Options{Log: slog.New(slog.NewTextHandler(logs, nil))})
	if got := r.asanaEvent(t, "tasks", handed, "1"); got == http.StatusOK {
		t.Fatal("an event was taken before the secret came")
	}
	resp := r.call(t, "tasks", "X-Hook-Secret", handed, "{}")
	if resp.StatusCode != http.StatusOK || resp.Header.Get("X-Hook-Secret") != handed {
		t.Fatalf("registration answered %s", resp.Status)
	}
	path := filepath.Join(dir, "captured", "tasks.secret")
	if b, err := os.ReadFile(path); err != nil || string(b) != handed {
		t.Errorf("kept %q, %v", b, err)
	}
	for p, want := range map[string]fs.FileMode{path: 0o600, filepath.Dir(path): 0o700 | fs.ModeDir} {
		if info, err := os.Stat(p); err != nil || info.Mode() != want {
			t.Errorf("%s: %v, %v", p, info.Mode(), err)
		}
	}
	if got := r.asanaEvent(t, "tasks", handed, "1"); got != http.StatusOK {
		t.Errorf("an event under the captured secret is answered %d", got)
	}
	if resp := r.call(t, "tasks", "X-Hook-Secret", "another-secret-of-somebody", "{}"); resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("a second registration is answered %s", resp.Status)
	}
	if got := r.setup().Sources[0].Secrets; len(got) != 1 || got[0].ID != capturedLabel || time.Since(got[0].Written) > time.Minute {
		t.Errorf("the pages name the secrets %+v, want the one handed over, written now", got)
	}
	if err := (handover{r.Gateway}).Capture("tasks", verify.NewSecretString("another-secret-of-somebody")); !errors.Is(err, receiver.ErrCaptured) {
		t.Errorf("a second capture: %v", err)
	}
	if n := counted(t, r.met.captured.WithLabelValues("tasks")); n != 1 {
		t.Errorf("counted %v captures", n)
	}
	if err := r.stop(t); err != nil {
		t.Fatal(err)
	}
	if s := logs.String(); !strings.Contains(s, path) || strings.Contains(s, handed) {
		t.Errorf("the log lacks the path or holds the secret:\n%s", s)
	}

	again := run(t, base(dir)+asana("work", `formerly = ["tasks"]`), Options{})
	if got := again.asanaEvent(t, "work", handed, "2"); got != http.StatusOK {
		t.Errorf("after a restart and under a new name an event is answered %d", got)
	}
	if got := again.asanaEvent(t, "work", "another-secret-of-somebody", "3"); got != http.StatusUnauthorized {
		t.Errorf("another secret is answered %d", got)
	}
	_, fs := Parse("c.toml", []byte(text), testEnv)
	if fs.Failed() || !strings.Contains(fs.Error(), "a secret was handed over already") {
		t.Errorf("check says %v", fs)
	}
}

// TestCaptureOnlyWhilePending takes no secret of a source that doesn't wait
// for one, and none that is no secret of its provider.
func TestCaptureOnlyWhilePending(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := run(t, base(dir)+asana("tasks", `secrets = ["${env:A}"]`), Options{})
	if resp := r.call(t, "tasks", "X-Hook-Secret", handed, "{}"); resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("answered %s", resp.Status)
	}
	if err := (handover{r.Gateway}).Capture("tasks", verify.NewSecretString(handed)); !errors.Is(err, receiver.ErrCaptured) {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "captured")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("something was kept: %v", err)
	}
	if err := (handover{r.Gateway}).Capture("gone", verify.NewSecretString(handed)); err == nil {
		t.Error("kept for no source")
	}
}

// TestKeepCaptured never overwrites, and lets one of many win.
func TestKeepCaptured(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "captured", "a.secret")
	var kept atomic.Int32
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			switch err := keepCaptured(path, verify.NewSecretString(fmt.Sprint("secret-", i))); {
			case err == nil:
				kept.Add(1)
			case !errors.Is(err, fs.ErrExist):
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if kept.Load() != 1 {
		t.Errorf("%d were kept", kept.Load())
	}
	if left, err := os.ReadDir(filepath.Dir(path)); err != nil || len(left) != 2 || left[1].Name() != "a.secret.sum" {
		t.Errorf("left %v, %v", left, err)
	}
	if _, err := readCaptured(path); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readCaptured(path); err == nil {
		t.Error("an empty secret was read")
	}
}

// signedKeys is a provider whose keys are fetched.
const signedKeys = `[[provider]]
name = "signer"
id = ["json:id"]
[[provider.modes]]
name = "signature"
public_key = { algorithm = "ed25519", sig = "header:X-Sig", signed = "{body}", keys = { kind = "jwks", url = "https://keys.signer.example/jwks" } }
`

const signerSource = "[[source]]\nname = \"signer\"\nprovider = \"signer\"\ntargets = []\n"

// TestKeysFetched fetches keys once, answers 503 while they can't be had, and
// keeps what it has over reloads.
func TestKeysFetched(t *testing.T) {
	t.Parallel()
	pub, priv, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	jwks := fmt.Sprintf(`{"keys":[{"kty":"OKP","crv":"Ed25519","x":%q}]}`, base64.RawURLEncoding.EncodeToString(pub))
	var asked, up atomic.Int32
	rt := outbound(func(req *http.Request) (int, string, error) {
		asked.Add(1)
		if req.URL.String() != "https://keys.signer.example/jwks" {
			t.Errorf("asked %s", req.URL)
		}
		if up.Load() == 0 {
			return 0, "", errors.New("down")
		}
		return http.StatusOK, jwks, nil
	})
	var behind atomic.Int64
	behind.Store(int64(2 * time.Minute))
	path := filepath.Join(t.TempDir(), "config.toml")
	head := base(t.TempDir())
	text := head + signedKeys + signerSource
	replace(t, path, text)
	now := func() time.Time { return time.Now().Add(-time.Duration(behind.Load())) }
	r := run(t, text, Options{ConfigPath: path, Outbound: rt, Now: now})
	event := func(id string) *http.Response {
		t.Helper()
		body := fmt.Sprintf(`{"id":%q}`, id)
		return r.call(t, "signer", "X-Sig", hex.EncodeToString(ed25519.Sign(priv, []byte(body))), body)
	}
	for range 3 {
		if resp := event("1"); resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" {
			t.Fatalf("without keys: answered %s", resp.Status)
		}
	}
	if asked.Load() != 1 {
		t.Errorf("the key server was asked %d times in a minute", asked.Load())
	}
	up.Store(1)
	behind.Store(0)
	if resp := event("1"); resp.StatusCode != http.StatusOK {
		t.Fatalf("answered %s", resp.Status)
	}
	up.Store(0)
	replace(t, path, text+source("stripe", "stripe", "${env:A}")+target("http://127.0.0.1:9/"))
	if faults, err := r.Reload(t.Context()); err != nil {
		t.Fatal(faults, err)
	}
	if resp := event("2"); resp.StatusCode != http.StatusOK {
		t.Errorf("after a reload: answered %s", resp.Status)
	}
	if asked.Load() != 2 {
		t.Errorf("asked %d times, want 2", asked.Load())
	}
	if resp := r.call(t, "signer", "X-Sig", strings.Repeat("00", 64), `{"id":"3"}`); resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("a wrong signature is answered %s", resp.Status)
	}
	replace(t, path, strings.ReplaceAll(text, "{body}", "{body}{method}"))
	if faults, err := r.Reload(t.Context()); err != nil {
		t.Fatal(faults, err)
	}
	if resp := event("4"); resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("another row goes on with the old one's keys: %s", resp.Status)
	}
	for outcome, want := range map[string]float64{"ok": 1, "failed": 2} {
		if n := counted(t, r.met.fetches.WithLabelValues("signer", outcome)); n != want {
			t.Errorf("counted %v %s, want %v", n, outcome, want)
		}
	}
}

// confirming is a provider that wants an address called.
const confirming = `[[provider]]
name = "topic"
id = ["json:id"]
[[provider.modes]]
name = "token"
token = { in = "header:X-Token" }
[[provider.handshake]]
name = "subscription"
method = "POST"
detect = ["json:confirm"]
verify = true
confirm = "json:confirm"
confirm_hosts = ["api.topic.example"]
`

// TestConfirmed calls the address after the answer, on the hosts of the row
// only and for authentic requests only.
func TestConfirmed(t *testing.T) {
	t.Parallel()
	called := make(chan string, 8)
	rt := outbound(func(req *http.Request) (int, string, error) {
		called <- req.Method + " " + req.URL.String()
		return http.StatusOK, "", nil
	})
	logs := &logLines{}
	r := run(t, base(t.TempDir())+confirming+source("topic", "topic", "${env:A}")+target("http://127.0.0.1:9/"),
		Options{Outbound: rt, Log: slog.New(slog.NewTextHandler(logs, nil))})
	for url, secret := range map[string]string{"https://api.topic.example.evil/c": secretA, "https://api.topic.example/forged": secretB} {
		if resp := r.call(t, "topic", "X-Token", secret, `{"confirm":"`+url+`"}`); resp.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s: answered %s", url, resp.Status)
		}
	}
	if resp := r.call(t, "topic", "X-Token", secretA, `{"confirm":"https://api.topic.example/c?Token=t0ps3cret"}`); resp.StatusCode != http.StatusOK {
		t.Fatalf("answered %s", resp.Status)
	}
	select {
	case got := <-called:
		if got != "GET https://api.topic.example/c?Token=t0ps3cret" {
			t.Errorf("called %s", got)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("nothing was called")
	}
	if err := r.stop(t); err != nil {
		t.Fatal(err)
	}
	if len(called) > 0 {
		t.Errorf("called %s as well", <-called)
	}
	if n := counted(t, r.met.confirms.WithLabelValues("topic", "ok")); n != 1 {
		t.Errorf("counted %v", n)
	}
	if s := logs.String(); !strings.Contains(s, "source.confirmed") || strings.Contains(s, "t0ps3cret") {
		t.Errorf("log:\n%s", s)
	}
}

// TestConfirmer tries again while that may help, gives up, bounds what waits,
// and loses nothing without saying so.
func TestConfirmer(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		answers []int // 0 is a broken connection
		tries   int
		outcome string
		took    time.Duration
	}{
		{"at once", []int{204}, 1, "ok", 0},
		{"after a while", []int{0, 503, 200}, 3, "ok", 6 * time.Second},
		{"never", []int{500, 500, 500, 500, 500}, 4, "failed", 36 * time.Second},
		{"refused", []int{403, 200}, 1, "failed", 0},
		{"sent elsewhere", []int{302, 200}, 1, "failed", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var tries atomic.Int32
				c, met := confirmerOf(t, outbound(func(*http.Request) (int, string, error) {
					if status := tt.answers[tries.Add(1)-1]; status != 0 {
						return status, "", nil
					}
					return 0, "", errors.New("broken")
				}))
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error, 1)
				go func() { done <- c.Run(ctx) }()
				began := time.Now()
				start, err := c.reserve("s", "https://api.topic.example/")
				if err != nil {
					t.Fatal(err)
				}
				start()
				for len(c.slots) > 0 {
					synctest.Wait()
					if len(c.slots) > 0 {
						<-time.After(time.Second)
					}
				}
				if n := int(tries.Load()); n != tt.tries || time.Since(began) != tt.took {
					t.Errorf("%d tries in %v, want %d in %v", n, time.Since(began), tt.tries, tt.took)
				}
				if n := counted(t, met.confirms.WithLabelValues("s", tt.outcome)); n != 1 {
					t.Errorf("counted %v %s", n, tt.outcome)
				}
				cancel()
				if err := <-done; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func confirmerOf(t *testing.T, rt http.RoundTripper) (*confirmer, *instruments) {
	t.Helper()
	met, err := newInstruments(prometheus.NewRegistry(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	return newConfirmer(rt, slog.New(slog.DiscardHandler), met), met
}

// TestConfirmerFull takes no more than fit, and counts what a stop leaves.
func TestConfirmerFull(t *testing.T) {
	t.Parallel()
	c, met := confirmerOf(t, outbound(func(req *http.Request) (int, string, error) {
		<-req.Context().Done()
		return 0, "", req.Context().Err()
	}))
	for range maxConfirmations {
		start, err := c.reserve("s", "https://api.topic.example/")
		if err != nil {
			t.Fatal(err)
		}
		start()
	}
	if _, err := c.reserve("s", "https://api.topic.example/"); !errors.Is(err, errConfirmationsFull) {
		t.Errorf("one more: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Run(ctx); err != nil {
		t.Fatal(err)
	}
	failed, dropped := counted(t, met.confirms.WithLabelValues("s", "failed")), counted(t, met.confirms.WithLabelValues("s", "dropped"))
	if failed != maxConfirmations || dropped != 1 || len(c.slots) != 0 {
		t.Errorf("%v failed, %v dropped, %d still wait", failed, dropped, len(c.slots))
	}
}

func TestPublic(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"93.184.216.34", "1.1.1.1", "172.32.0.1", "2606:4700::1111", "2a00:1450:4001::1", "::ffff:1.1.1.1"} {
		if !public(netip.MustParseAddr(s)) {
			t.Errorf("%s is not public", s)
		}
	}
	for _, s := range []string{
		"0.0.0.0", "10.1.2.3", "100.64.0.1", "127.0.0.1", "127.255.255.254", "169.254.169.254", "172.16.0.1", "172.31.255.255",
		"192.0.0.1", "192.0.2.1", "192.168.1.1", "198.18.0.1", "198.51.100.1", "203.0.113.1", "224.0.0.1", "240.0.0.1", "255.255.255.255",
		"::", "::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::7f00:1", "64:ff9b::7f00:1", "64:ff9b:1::1", "100::1", "fc00::1", "fd12::1",
		"fe80::1", "fe80::1%eth0", "fec0::1", "ff02::1", "2001::1", "2001:db8::1", "2002:7f00:1::", "3fff::1", "2606:4700::1%eth0",
	} {
		if public(netip.MustParseAddr(s)) {
			t.Errorf("%s is public", s)
		}
	}
	if public(netip.Addr{}) {
		t.Error("no address is public")
	}
}

// TestPublicTransport refuses by the address that is connected to, whatever
// the name said, and asks no proxy.
func TestPublicTransport(t *testing.T) {
	srv := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("called") }))
	defer srv.Close()
	t.Setenv("HTTPS_PROXY", srv.URL)
	for _, url := range []string{srv.URL, strings.Replace(srv.URL, "127.0.0.1", "localhost", 1)} {
		_, err := verify.NewHTTPFetcher(publicTransport()).Fetch(t.Context(), url)
		if !errors.Is(err, errNotPublic) {
			t.Errorf("%s: %v", url, err)
		}
	}
	if publicTransport().Proxy != nil {
		t.Error("a proxy is asked")
	}
}
