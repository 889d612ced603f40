//go:build browser

package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	cdlog "github.com/chromedp/cdproto/log"
	cdpage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/onceward/onceward/admin"
	"github.com/onceward/onceward/gateway"
	"github.com/onceward/onceward/verify"
)

// The tests of the operator's pages in a real browser. They need Chromium and
// run by `go test -tags browser ./cli -run Browser`.

const browserStripe = "whsec_C2FVsBQIhrscChlQIMVb5sSYspob7oDt"

// site is a running gateway with targets that do as they are told, and a
// browser beside it.
type site struct {
	t       *testing.T
	gw      *gateway.Gateway
	cfg     *gateway.Config
	dir     string
	base    string
	ingest  string
	tokens  map[string]string // by role
	answers sync.Map          // status that a target answers, by its name
	seen    *complaints
}

// complaints is what a browser said against the pages.
type complaints struct {
	mu   sync.Mutex
	list []string
}

func (c *complaints) add(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list = append(c.list, fmt.Sprintf(format, args...))
}

func (c *complaints) take() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := c.list
	c.list = nil
	return out
}

const browserConfig = `
listen = "127.0.0.1:0"
[admin]
listen = "127.0.0.1:0"
[[admin.token]]
name = "eve"
role = "viewer"
hash = "%[1]s"
[[admin.token]]
name = "oncall"
role = "operator"
hash = "%[2]s"
[store]
path = "%[3]s"
reserve = "1MiB"
ballast = "4KiB"
[retention]
body = "60d"
[[source]]
name = "stripe"
provider = "stripe"
index = { customer = "data.object.customer" }
secrets = [{ id = "2026-11", not_before = 2025-11-01T00:00:00Z, value = "` + browserStripe + `" }, { id = "2026-05", value = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", not_after = 2026-06-01T00:00:00Z }]
targets = ["billing", "crm"]
[[source]]
name = "github"
provider = "github"
secrets = ["0123456789abcdef0123456789abcdef"]
targets = ["deploys"]
[[source]]
name = "anything"
provider = "none"
targets = ["billing"]
[[source]]
name = "kept-for-later"
provider = "none"
targets = []
[[source]]
name = "shopify"
provider = "shopify"
secrets = ["${env:SHOPIFY_SECRET}"]
targets = ["crm"]
[[target]]
name = "billing"
url = "%[4]s/billing"
initial = "50ms"
max = "1h"
[[target]]
name = "crm"
url = "%[4]s/crm"
signing_secrets = ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"]
[[target]]
name = "deploys"
url = "%[4]s/deploys"
headers = { X-Team = "deploys" }
[[target]]
name = "warehouse"
url = "%[4]s/warehouse"
`

// openSite starts a gateway and its targets. Targets answer 200 until told
// otherwise.
func openSite(t *testing.T) *site {
	t.Helper()
	s := &site{t: t, dir: t.TempDir(), tokens: map[string]string{"viewer": "viewer-token-0123456789", "operator": "operator-token-0123456789"}}
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if v, ok := s.answers.Load(strings.Trim(r.URL.Path, "/")); ok {
			v.(http.HandlerFunc)(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"status":"ok"}`)
	}))
	t.Cleanup(target.Close)
	path := filepath.Join(s.dir, "config.toml")
	text := fmt.Sprintf(browserConfig, gateway.TokenHash(s.tokens["viewer"]), gateway.TokenHash(s.tokens["operator"]),
		filepath.ToSlash(s.dataDir()), target.URL)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	env := gateway.Env{Lookup: func(string) (string, bool) { return "", false }}
	cfg, faults := gateway.Load(path, env)
	if err := faults.Err(); err != nil {
		t.Fatal(err)
	}
	gw, err := gateway.New(cfg, gateway.Options{ConfigPath: path, Env: env, Version: "1.2.3", Words: pageWords()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- gw.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("gateway: %v", err)
		}
	})
	select {
	case <-gw.Ready():
	case err := <-ended:
		t.Fatalf("gateway: %v", err)
	}
	in, adm := gw.Addr()
	s.gw, s.cfg, s.ingest, s.base = gw, cfg, "http://"+in, "http://"+adm
	if s.tokens["admin"], err = admin.ReadToken(cfg.TokenFile()); err != nil {
		t.Fatal(err)
	}
	return s
}

// dataDir is where the ledger is: in a new directory, or in one that is there
// already, which ONCEWARD_LEDGER names.
func (s *site) dataDir() string {
	if dir := os.Getenv("ONCEWARD_LEDGER"); dir != "" {
		return dir
	}
	return filepath.Join(s.dir, "data")
}

// answer makes a target answer with a status and text from now on.
func (s *site) answer(target string, status int, text string) {
	s.answers.Store(target, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		fmt.Fprint(w, text)
	}))
}

// send delivers one signed request to a source and returns the status.
func (s *site) send(source, id, typ, body string, change ...func(*http.Request)) int {
	s.t.Helper()
	src, ok := s.cfg.Source(source)
	if !ok {
		s.t.Fatalf("no source %q", source)
	}
	url := s.ingest + src.ListenPath()
	signed, err := src.Verifier().Sign(verify.SignRequest{Now: time.Now(), ID: id, Type: typ, URL: url, Body: []byte(body)})
	if err != nil {
		s.t.Fatal(err)
	}
	req, err := http.NewRequest(signed.Method, url, bytes.NewReader(signed.Body))
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header = signed.Header
	for _, f := range change {
		f(req)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	return resp.StatusCode
}

// stripeEvent sends one Stripe event of a customer.
func (s *site) stripeEvent(id, typ, customer string) int {
	return s.send("stripe", id, typ, fmt.Sprintf(`{"id":%q,"object":"event","type":%q,"livemode":true,"created":1795917181,"data":{"object":{"id":"in_1","customer":%q,"amount_due":12900,"row":1152921506151679042,"note":"Größe L"}}}`, id, typ, customer))
}

// settle waits until the API says that nothing is open for a target.
func (s *site) settle(target string) {
	s.t.Helper()
	c, err := admin.NewClient(admin.ClientConfig{Addr: s.base, Token: s.tokens["admin"]})
	if err != nil {
		s.t.Fatal(err)
	}
	defer c.Close()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); <-tick.C {
		all, err := c.Targets(s.t.Context())
		if err != nil {
			s.t.Fatal(err)
		}
		for _, t := range all {
			if t.Name == target && t.Pending+t.Leased == 0 {
				return
			}
		}
	}
	s.t.Fatalf("deliveries to %s stay open", target)
}

// browser starts Chromium and listens to what it says against the pages.
func (s *site) browser() context.Context {
	s.t.Helper()
	opts := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.NoSandbox, chromedp.DisableGPU, chromedp.UserDataDir(s.t.TempDir()),
		chromedp.Flag("disable-quic", true), chromedp.Flag("no-first-run", true), chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true))
	alloc, cancel := chromedp.NewExecAllocator(context.Background(), opts...)
	s.t.Cleanup(cancel)
	ctx, cancelTab := chromedp.NewContext(alloc)
	s.t.Cleanup(cancelTab)
	ctx, cancelTime := context.WithTimeout(ctx, 3*time.Minute)
	s.t.Cleanup(cancelTime)
	s.seen = &complaints{}
	var current atomic.Value
	current.Store("")
	err := chromedp.Listen(ctx, func(ev any) {
		switch e := ev.(type) {
		case *cdpage.EventFrameNavigated:
			current.Store(e.Frame.URL)
		case *cdlog.EventEntryAdded:
			if strings.Contains(e.Entry.Text, "status of 4") { // a page that means to answer so
				return
			}
			s.seen.add("%s: log: %s %s", current.Load(), e.Entry.Level, e.Entry.Text)
		case *runtime.EventExceptionThrown:
			s.seen.add("%s: exception: %s", current.Load(), e.ExceptionDetails.Text)
		case *runtime.EventConsoleAPICalled:
			s.seen.add("%s: console: %s", current.Load(), e.Type)
		case *cdpage.EventJavascriptDialogOpening:
			s.seen.add("%s: dialog: %s", current.Load(), e.Message)
			go func() {
				_, _ = chromedp.Call(ctx, cdpage.HandleJavaScriptDialog, cdpage.HandleJavaScriptDialogParams{Accept: true})
			}()
		}
	})
	if err != nil {
		s.t.Fatalf("browser: %v", err)
	}
	call(s, ctx, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: 1280, Height: 800, DeviceScaleFactor: 1})
	call(s, ctx, cdlog.Enable, cdp.Empty{})
	call(s, ctx, runtime.Enable, cdp.Empty{})
	call(s, ctx, cdpage.Enable, cdpage.EnableParams{})
	return ctx
}

// call sends one command of the protocol.
func call[P, R any](s *site, ctx context.Context, cmd cdp.Command[P, R], params P) {
	s.t.Helper()
	if _, err := chromedp.Call(ctx, cmd, params); err != nil {
		s.t.Fatalf("browser: %s: %v", cmd.Method, err)
	}
}

func (s *site) do(ctx context.Context, actions ...chromedp.Action[chromedp.Void]) {
	s.t.Helper()
	if err := chromedp.Do(ctx, actions...); err != nil {
		s.t.Fatalf("browser: %v", err)
	}
}

// get runs one action for its value.
func get[T any](s *site, ctx context.Context, a chromedp.Action[T]) T {
	s.t.Helper()
	v, err := chromedp.Run(ctx, a)
	if err != nil {
		s.t.Fatalf("browser: %v", err)
	}
	return v
}

// login signs in with the form.
func (s *site) login(ctx context.Context, role string) {
	s.t.Helper()
	s.do(ctx, chromedp.Navigate(s.base+"/login"), chromedp.SendKeys(chromedp.CSS("#token"), s.tokens[role]))
	s.press(ctx, `form.card button`)
	if at := s.where(ctx); at != "/" {
		s.t.Fatalf("after signing in the browser is at %s: %s", at, s.text(ctx, "main"))
	}
}

// press clicks and waits for the page that comes of it.
func (s *site) press(ctx context.Context, selector string) {
	s.t.Helper()
	if _, err := chromedp.RunResponse(ctx, chromedp.Click(chromedp.CSS(selector))); err != nil {
		s.t.Fatalf("press %s: %v", selector, err)
	}
}

// open goes to a path and returns the status of its answer.
func (s *site) open(ctx context.Context, path string) int64 {
	s.t.Helper()
	return get(s, ctx, chromedp.NavigateResponse(s.base+path)).Status
}

func (s *site) where(ctx context.Context) string {
	s.t.Helper()
	return strings.TrimPrefix(get(s, ctx, chromedp.Location()), s.base)
}

func (s *site) text(ctx context.Context, selector string) string {
	s.t.Helper()
	return get(s, ctx, chromedp.Text(chromedp.CSS(selector)))
}

// comes opens a page again until it holds a text: what the gateway counts shows
// a second later.
func (s *site) comes(ctx context.Context, path, want string) {
	s.t.Helper()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		s.open(ctx, path)
		if strings.Contains(s.text(ctx, "main"), want) {
			return
		}
	}
	s.has(ctx, want)
}

// becomes waits until a part of the page holds a text, without opening it again.
func (s *site) becomes(ctx context.Context, selector, want string) {
	s.t.Helper()
	got := ""
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if got = s.text(ctx, selector); strings.Contains(got, want) {
			return
		}
	}
	s.t.Fatalf("%s does not come to say %q: %s", selector, want, got)
}

// has fails unless the page holds all of these texts.
func (s *site) has(ctx context.Context, want ...string) {
	s.t.Helper()
	got := s.text(ctx, "main")
	for _, w := range want {
		if !strings.Contains(got, w) {
			s.t.Errorf("%s does not say %q:\n%s", s.where(ctx), w, got)
		}
	}
}

// quiet fails if the browser said anything against the pages.
func (s *site) quiet() {
	s.t.Helper()
	for _, c := range s.seen.take() {
		s.t.Error(c)
	}
}

// newLocal serves a handler and returns its address.
func newLocal(t *testing.T, h http.Handler) string {
	t.Helper()
	ts := httptest.NewServer(h)
	t.Cleanup(ts.Close)
	return ts.URL
}
