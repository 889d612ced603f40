package admin_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/onceward/onceward/admin"
	"github.com/onceward/onceward/audit"
	"github.com/onceward/onceward/dedupe/ledgertest"
)

// ask sends a request through the handler alone, from any address.
func ask(a *admin.Admin, remote, method, target string, change ...func(*http.Request)) *httptest.ResponseRecorder {
	req := httptest.NewRequest(method, target, nil)
	req.RemoteAddr = remote
	for _, f := range change {
		f(req)
	}
	rec := httptest.NewRecorder()
	a.Handler().ServeHTTP(rec, req)
	return rec
}

func header(name string, values ...string) func(*http.Request) {
	return func(r *http.Request) { r.Header[name] = values }
}

const (
	home      = "127.0.0.1:4000"
	elsewhere = "192.0.2.7:4000"
	status    = "http://localhost/api/v1/version"
)

func TestAuth(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		value []string
		want  int
	}{
		{"right", []string{"Bearer " + token}, 200},
		{"scheme in lower case", []string{"bearer " + token}, 200},
		{"scheme in upper case", []string{"BEARER " + token}, 200},
		{"none", nil, 401},
		{"wrong", []string{"Bearer " + token[1:]}, 401},
		{"prefix", []string{"Bearer " + token[:len(token)-1]}, 401},
		{"longer", []string{"Bearer " + token + "x"}, 401},
		{"other case", []string{"Bearer " + strings.ToUpper(token)}, 401},
		{"its hash", []string{fmt.Sprintf("Bearer %x", admin.HashToken(token))}, 401},
		{"empty", []string{""}, 401},
		{"scheme alone", []string{"Bearer"}, 401},
		{"scheme and space", []string{"Bearer "}, 401},
		{"no scheme", []string{token}, 401},
		{"basic", []string{"Basic " + token}, 401},
		{"two headers", []string{"Bearer " + token, "Bearer " + token}, 401},
		{"two tokens", []string{"Bearer " + token + ", Bearer " + token}, 401},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			rec := ask(b.admin, home, "GET", status, func(r *http.Request) {
				if tt.value != nil {
					r.Header["Authorization"] = tt.value
				}
			})
			if rec.Code != tt.want {
				t.Errorf("status = %d, want %d", rec.Code, tt.want)
			}
			if tt.want == 401 && rec.Header().Get("WWW-Authenticate") != `Bearer realm="onceward"` {
				t.Errorf("WWW-Authenticate = %q", rec.Header().Get("WWW-Authenticate"))
			}
			if strings.Contains(rec.Body.String()+b.log.String(), token[:12]) {
				t.Error("answer or log holds the token")
			}
		})
	}
}

func TestAuthAnswersAreAlike(t *testing.T) {
	t.Parallel()
	b := setup(t)
	none := ask(b.admin, elsewhere, "GET", status)
	for name, v := range map[string]string{"wrong": "Bearer x", "malformed": "x"} {
		got := ask(b.admin, elsewhere, "GET", status, header("Authorization", v))
		if got.Body.String() != none.Body.String() || fmt.Sprint(got.Header()) != fmt.Sprint(none.Header()) {
			t.Errorf("%s: the answer differs from that to no token:\n%v %s\n%v %s", name, got.Header(), got.Body, none.Header(), none.Body)
		}
	}
}

// wrong is a login with another token.
func wrong(r *http.Request) { r.Header.Set("Authorization", "Bearer wrong") }

func right(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) }

func TestLoginsAreLimited(t *testing.T) {
	t.Parallel()
	b := setup(t)
	codes := map[int]int{}
	for range 1000 {
		codes[ask(b.admin, elsewhere, "GET", status, wrong).Code]++
	}
	if codes[401] != 10 || codes[429] != 990 {
		t.Errorf("1,000 wrong tokens got %v, want 10 times 401 and then 429", codes)
	}
	rec := ask(b.admin, "192.0.2.7:5000", "GET", status, right)
	if rec.Code != 429 || rec.Header().Get("Retry-After") != "60" {
		t.Errorf("the right token from there = %d, want 429 for a minute", rec.Code)
	}
	if rec := ask(b.admin, "192.0.2.8:4000", "GET", status, right); rec.Code != 200 {
		t.Errorf("the right token from elsewhere = %d, want 200", rec.Code)
	}
	if n := strings.Count(b.log.String(), "\n"); n != 2 {
		t.Errorf("%d log lines for it, want 2:\n%s", n, b.log)
	}
	b.clock.add(61 * time.Second)
	if rec := ask(b.admin, elsewhere, "GET", status, right); rec.Code != 200 {
		t.Errorf("a minute later = %d, want 200", rec.Code)
	}
	// A request without a token is no login.
	for range 20 {
		ask(b.admin, "192.0.2.9:4000", "GET", status)
	}
	if rec := ask(b.admin, "192.0.2.9:4000", "GET", status, right); rec.Code != 200 {
		t.Errorf("after requests without a token = %d, want 200", rec.Code)
	}
}

func TestLoginsAreLimitedByNetwork(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for i := range 10 {
		ask(b.admin, fmt.Sprintf("[2001:db8::%x]:1", i), "GET", status, wrong)
	}
	for remote, want := range map[string]int{"[2001:db8::ffff:1]:1": 429, "[2001:db8:0:1::1]:1": 200, "[::ffff:192.0.2.1]:1": 200} {
		if rec := ask(b.admin, remote, "GET", status, right); rec.Code != want {
			t.Errorf("%s: %d, want %d", remote, rec.Code, want)
		}
	}
}

func TestLimiterMemoryIsBounded(t *testing.T) {
	t.Parallel()
	b := setup(t)
	addr := netip.MustParseAddr("10.0.0.0")
	for range 3 * admin.MaxAddresses {
		addr = addr.Next()
		ask(b.admin, netip.AddrPortFrom(addr, 1).String(), "GET", status, wrong)
		b.clock.add(time.Millisecond)
	}
	if n := admin.RememberedForTest(b.admin); n > admin.MaxAddresses {
		t.Errorf("%d addresses are remembered, want at most %d", n, admin.MaxAddresses)
	}
	// The newest are kept, also over others' tries: who is at it now stays
	// limited.
	for range 9 {
		ask(b.admin, netip.AddrPortFrom(addr, 1).String(), "GET", status, wrong)
	}
	other := addr
	for range admin.MaxAddresses / 2 {
		other = other.Next()
		ask(b.admin, netip.AddrPortFrom(other, 1).String(), "GET", status, wrong)
	}
	if rec := ask(b.admin, netip.AddrPortFrom(addr, 1).String(), "GET", status, wrong); rec.Code != 429 {
		t.Errorf("the latest address = %d, want 429", rec.Code)
	}
}

func TestLimitedAnswerIsHeldBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := ledgertest.NewMemory(ledgertest.Config{})
		acc, err := audit.New(audit.Config{Reader: m, Keeper: m})
		if err != nil {
			t.Fatal(err)
		}
		a, err := admin.New(admin.Config{Account: acc, Receiver: &edge{}, Forward: &edge{}, Gatherer: prometheus.NewRegistry(),
			TokenHash: admin.HashToken(token), Ready: func() error { return nil },
			Reload: func(context.Context) ([]admin.Fault, error) { return nil, nil }})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 12 {
			start := time.Now()
			rec := ask(a, elsewhere, "GET", status, wrong)
			want := time.Duration(0)
			if i >= 10 {
				want = 250 * time.Millisecond
			}
			if got := time.Since(start); got != want {
				t.Errorf("try %d: %d after %v, want %v", i, rec.Code, got, want)
			}
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		start := time.Now()
		ask(a, elsewhere, "GET", status, wrong, func(r *http.Request) { *r = *r.WithContext(gone) })
		if got := time.Since(start); got != 0 {
			t.Errorf("a caller that is gone was held for %v", got)
		}
	})
}

func TestHosts(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *admin.Config) {
		c.Listen, c.Hosts = "gateway.internal:8081", []string{"Ops.Example.", "[2001:db8::5]"}
	})
	for host, want := range map[string]int{
		"localhost": 200, "localhost:8081": 200, "LOCALHOST:1": 200, "localhost.": 200, "127.0.0.1:8081": 200, "[::1]:8081": 200,
		"[::1]": 200, "gateway.internal": 200, "gateway.internal:9": 200, "ops.example:8081": 200, "[2001:db8::5]:8081": 200,
		"evil.example": 421, "localhost.evil.example": 421, "127.0.0.1.evil.example:8081": 421, "evil.example:8081": 421, "": 421,
		"192.0.2.1": 421, "[::2]:8081": 421, "[::1": 421, "127.0.0.2": 421, "0.0.0.0:8081": 421, "localhost:8081:1": 421,
		"xn--localhost": 421, "2130706433": 421, "127.1": 421,
	} {
		rec := ask(b.admin, home, "GET", status, right, func(r *http.Request) { r.Host = host })
		if rec.Code != want {
			t.Errorf("Host %q: %d, want %d", host, rec.Code, want)
		}
	}
	// A name of others gets no further with or without a token, but to the
	// bare probes.
	for path, want := range map[string]int{"/": 421, "/metrics": 421, "/livez": 200, "/readyz": 200} {
		rec := ask(b.admin, home, "GET", "http://evil.example"+path)
		if rec.Code != want {
			t.Errorf("%s of evil.example: %d, want %d", path, rec.Code, want)
		}
	}
	local := context.WithValue(t.Context(), http.LocalAddrContextKey, net.Addr(&net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 8081}))
	rec := ask(b.admin, home, "GET", status, right, func(r *http.Request) {
		*r = *r.WithContext(local)
		r.Host = "192.0.2.1:8081"
	})
	if rec.Code != 200 {
		t.Errorf("the address the connection came in on: %d, want 200", rec.Code)
	}
}

func TestCrossSite(t *testing.T) {
	t.Parallel()
	b := setup(t)
	reloads := 0
	b.reload = func() ([]admin.Fault, error) { reloads++; return nil, nil }
	const reload = "http://localhost/api/v1/reload"
	for name, tt := range map[string]struct {
		method, target string
		change         func(*http.Request)
		want           int
	}{
		"cross-site":             {"POST", reload, header("Sec-Fetch-Site", "cross-site"), 403},
		"same-site, other port":  {"POST", reload, header("Sec-Fetch-Site", "same-site"), 403},
		"old browser":            {"POST", reload, header("Origin", "https://evil.example"), 403},
		"sandboxed":              {"POST", reload, header("Origin", "null"), 403},
		"cross-site, no route":   {"POST", "http://localhost/none", header("Sec-Fetch-Site", "cross-site"), 403},
		"cross-site, not a POST": {"DELETE", reload, header("Sec-Fetch-Site", "cross-site"), 403},
		"same origin":            {"POST", reload, header("Sec-Fetch-Site", "same-origin"), 200},
		"no browser":             {"POST", reload, func(*http.Request) {}, 200},
		"reading":                {"GET", status, header("Sec-Fetch-Site", "cross-site"), 200},
	} {
		if rec := ask(b.admin, home, tt.method, tt.target, right, tt.change); rec.Code != tt.want {
			t.Errorf("%s: %d %s, want %d", name, rec.Code, rec.Body, tt.want)
		}
	}
	if reloads != 2 {
		t.Errorf("%d reloads were done, want the 2 allowed ones", reloads)
	}
	// No preflight is answered: another site's scripts never get to ask.
	rec := ask(b.admin, home, "OPTIONS", reload, header("Origin", "https://evil.example"))
	for name := range rec.Header() {
		if strings.HasPrefix(name, "Access-Control-") {
			t.Errorf("a preflight got %s", name)
		}
	}
}

func TestSecurityHeadersEverywhere(t *testing.T) {
	t.Parallel()
	b, broken := setup(t), setup(t, func(c *admin.Config) { c.Receiver = &panicking{} })
	ref := b.accept("stripe", "evt_1", "{}")
	want := map[string]string{
		"Cache-Control":                "no-store",
		"Content-Security-Policy":      "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
		"Cross-Origin-Opener-Policy":   "same-origin",
		"Cross-Origin-Resource-Policy": "same-origin",
		"Referrer-Policy":              "no-referrer",
		"X-Content-Type-Options":       "nosniff",
		"X-Frame-Options":              "DENY",
	}
	for _, tt := range []struct {
		name, method, target string
		change               func(*http.Request)
		status               int
	}{
		{"page", "GET", "http://localhost/", wrong, 401},
		{"probe", "GET", "http://localhost/livez", wrong, 200},
		{"probe by HEAD", "HEAD", "http://localhost/readyz", wrong, 200},
		{"metrics", "GET", "http://localhost/metrics", wrong, 200},
		{"list", "GET", "http://localhost/api/v1/events", right, 200},
		{"body", "GET", "http://localhost/api/v1/events/" + ref.String() + "/body", right, 200},
		{"no token", "GET", status, func(*http.Request) {}, 401},
		{"no route", "GET", "http://localhost/none", right, 404},
		{"method", "POST", status, right, 405},
		{"host", "GET", "http://evil.example/", right, 421},
		{"cross-site", "POST", status, header("Sec-Fetch-Site", "cross-site"), 403},
		{"panic", "GET", "http://localhost/api/v1/sources", right, 500},
	} {
		a := b.admin
		if tt.name == "panic" {
			a = broken.admin
		}
		rec := ask(a, home, tt.method, tt.target, tt.change)
		if rec.Code != tt.status {
			t.Errorf("%s: status %d, want %d", tt.name, rec.Code, tt.status)
		}
		for h, v := range want {
			if h == "Content-Security-Policy" && tt.name == "page" {
				v = "default-src 'none'; style-src 'self'; img-src 'self'; script-src 'self'; connect-src 'self'; " +
					"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
			}
			if got := rec.Header()[h]; len(got) != 1 || got[0] != v {
				t.Errorf("%s: %s = %q, want %q", tt.name, h, got, v)
			}
		}
		if ct := rec.Header().Get("Content-Type"); strings.Contains(ct, "html") != (tt.name == "page") || ct == "" {
			t.Errorf("%s: Content-Type = %q", tt.name, ct)
		}
	}
}

func TestMetricsPage(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, tt := range []struct {
		name, remote string
		change       func(*http.Request)
		want         int
	}{
		{"here", home, func(*http.Request) {}, 200},
		{"here, IPv6", "[::1]:1", func(*http.Request) {}, 200},
		{"here, mapped", "[::ffff:127.0.0.1]:1", func(*http.Request) {}, 200},
		{"elsewhere", elsewhere, func(*http.Request) {}, 401},
		{"elsewhere with the token", elsewhere, right, 200},
		{"elsewhere, claiming to be here", elsewhere, header("X-Forwarded-For", "127.0.0.1"), 401},
		{"a proxy here, for someone else", home, header("X-Forwarded-For", "192.0.2.7"), 401},
		{"a proxy here, standard header", home, header("Forwarded", "for=192.0.2.7"), 401},
		{"no address", "", func(*http.Request) {}, 401},
	} {
		rec := ask(b.admin, tt.remote, "GET", "http://localhost/metrics", tt.change)
		if rec.Code != tt.want || (tt.want == 200) != strings.Contains(rec.Body.String(), "onceward_admin_requests_total") {
			t.Errorf("%s: %d, want %d", tt.name, rec.Code, tt.want)
		}
	}
}

// series counts the label sets of our instruments.
func series(t *testing.T, reg prometheus.Gatherer) int {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, f := range families {
		n += len(f.GetMetric())
	}
	return n
}

func TestLabelsAreConstant(t *testing.T) {
	t.Parallel()
	b := setup(t)
	random := rand.New(rand.NewPCG(1, 2))
	word := func() string { return fmt.Sprintf("%x", random.Uint64()) }
	round := func(n int) {
		for range n {
			ask(b.admin, home, "GET", "http://localhost/"+word(), right)
			ask(b.admin, home, "GET", "http://localhost/api/v1/events/"+word(), right)
			ask(b.admin, home, "GET", "http://localhost/api/v1/events?"+word()+"=1", right)
			ask(b.admin, home, strings.ToUpper(word()), "http://localhost/api/v1/events", right)
			ask(b.admin, home, "GET", "http://"+word()+".example/", right)
		}
	}
	round(1)
	before := series(t, b.reg)
	round(2000)
	if after := series(t, b.reg); after != before {
		t.Errorf("10,000 random requests took the series from %d to %d", before, after)
	}
}

func TestPathTricks(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, path := range []string{
		"//api/v1/status", "/api//v1/status", "/api/v1/../v1/status", "/livez/../api/v1/status", "/%61pi/v1/status", "/api%2fv1%2fstatus",
		"/livez%2f..%2fapi/v1/status", "/livez/%2e%2e/api/v1/status", "/./api/v1/status", "/api/v1/status/", "/API/v1/status",
		"/api/v1/status%00", "/api\\v1\\status", "/livez;/api/v1/status", "/metrics/../api/v1/status", "/api/v1/events/..%2f..%2fstatus",
		"/api/v1/events/%2e%2e/status", "/api/v1/events/..;/status",
	} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(b.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", path)
		buf := make([]byte, 15)
		if _, err := conn.Read(buf); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		conn.Close()
		if got := string(buf[9:12]); got != "404" && got != "401" && got != "400" {
			t.Errorf("%s without a token: %s", path, buf)
		}
	}
}

func TestClientAddresses(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, port, _ := strings.Cut(strings.TrimPrefix(b.url, "http://"), ":")
	for _, addr := range []string{":" + port, "0.0.0.0:" + port, "127.0.0.1:" + port, "localhost:" + port, b.url, b.url + "/"} {
		c, err := admin.NewClient(admin.ClientConfig{Addr: addr, Token: token})
		if err != nil {
			t.Errorf("%s: NewClient: %v", addr, err)
			continue
		}
		if _, err := c.Version(t.Context()); err != nil {
			t.Errorf("%s: Version: %v", addr, err)
		}
		c.Close()
	}
	for _, addr := range []string{"", "ftp://x", "http://u:p@x", "http://x/path", "http://x?a=b", "http://", "a b:1", "http://[::1"} {
		if _, err := admin.NewClient(admin.ClientConfig{Addr: addr}); err == nil {
			t.Errorf("NewClient(%q) gave no error", addr)
		}
	}
}

func TestClientErrors(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var api *admin.APIError
	if _, err := b.clientWith("CANARY").Version(t.Context()); !errors.As(err, &api) || api.Code != admin.CodeUnauthorized ||
		strings.Contains(err.Error(), "CANARY") {
		t.Errorf("with a wrong token Version error = %v, want %s", err, admin.CodeUnauthorized)
	}
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/api/v1/status":
			http.Redirect(w, r, b.url+"/api/v1/status", http.StatusFound)
		case "/api/v1/version":
			fmt.Fprint(w, "<html>")
		default:
			http.NotFound(w, r)
		}
	}))
	defer other.Close()
	c, err := admin.NewClient(admin.ClientConfig{Addr: other.URL, Token: token})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for name, call := range map[string]func() error{
		"redirect":  func() error { _, err := c.Status(t.Context()); return err },
		"no JSON":   func() error { _, err := c.Version(t.Context()); return err },
		"other 404": func() error { _, err := c.Event(t.Context(), "x", ""); return err },
	} {
		if err := call(); !errors.Is(err, admin.ErrUnreachable) {
			t.Errorf("%s: error = %v, want ErrUnreachable", name, err)
		}
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.client.Version(gone); !errors.Is(err, context.Canceled) || errors.Is(err, admin.ErrUnreachable) {
		t.Errorf("cancelled: error = %v, want context.Canceled alone", err)
	}
}
