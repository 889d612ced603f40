package forward

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

// buildAt makes the request of a first attempt at a time.
func buildAt(tb testing.TB, t Target, ev *event.Event, body string, now time.Time) *http.Request {
	tb.Helper()
	t, err := t.normal()
	if err != nil {
		tb.Fatal(err)
	}
	return newBuilder(&t, "test").build(context.Background(), event.Delivery{Event: ev.Ref, Target: t.Name}, dedupe.Loaded{Event: ev, Body: []byte(body)}, now)
}

// newServer is a target in the clear that hands each request on whole.
func newServer(t *testing.T, f func(http.ResponseWriter, *http.Request, string)) string {
	t.Helper()
	srv := httptest.NewServer(whole(f))
	t.Cleanup(srv.Close)
	return srv.URL + "/"
}

func whole(f func(http.ResponseWriter, *http.Request, string)) http.HandlerFunc {
	return func(w http.ResponseWriter, req *http.Request) {
		b, _ := io.ReadAll(req.Body)
		f(w, req, string(b))
	}
}

// deliver sends one event to a target and returns its last attempt.
func deliverOne(t *testing.T, edit func(*Config), tgt Target, body string) event.Attempt {
	t.Helper()
	tgt.Name, tgt.Schedule = "a", Schedule{Initial: time.Hour, Max: time.Hour}
	r := newRig(t, edit)
	r.run(tgt)
	ref := r.admit(event.Event{Targets: []string{"a"}, Type: "x"}, body)
	await(t, "an attempt", func() bool { return len(r.attempts(ref)) > 0 })
	return r.attempts(ref)[0]
}

func TestUnixSocket(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "s")
	ln, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	seen := make(chan string, 4)
	srv := &http.Server{Handler: whole(func(_ http.ResponseWriter, req *http.Request, body string) {
		seen <- req.Method + " " + req.Host + req.URL.String() + " " + body[:min(len(body), 4)]
	})}
	go func() { _ = srv.Serve(ln) }()
	t.Cleanup(func() { _ = srv.Close() })
	tgt := Target{URL: mustURL(t, "http://localhost/hook?a=1"), Way: Way{Socket: socket}}
	for _, body := range []string{"body", strings.Repeat("long", maxPlain)} {
		if a := deliverOne(t, nil, tgt, body); a.Outcome != event.Outcome2xx {
			t.Fatalf("%s (%s), want 2xx", a.Outcome, a.Error)
		}
		if got, want := <-seen, "POST localhost/hook?a=1 "+body[:4]; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	tgt.Way.Socket += "gone"
	if a := deliverOne(t, nil, tgt, "x"); a.Outcome != event.OutcomeConnectError || a.State != event.Pending {
		t.Errorf("no socket: %s, %v; want connect_error and pending", a.Outcome, a.State)
	}
	if got := tgt.Site(); got != "unix:"+socket+"gone" {
		t.Errorf("site %q", got)
	}
	for _, bad := range []Target{
		{Way: Way{Socket: strings.Repeat("x", 108)}}, {Way: Way{Socket: "s", Proxy: mustURL(t, "http://p/")}},
		{Way: Way{Socket: "s"}, Allow: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}, {Way: Way{Proxy: mustURL(t, "ftp://p/")}},
	} {
		bad.Name, bad.URL = "a", mustURL(t, "http://localhost/")
		if _, err := bad.normal(); err == nil {
			t.Errorf("%+v was taken", bad.Way)
		}
	}
}

// proxy counts what it carries: requests in the clear, and tunnels.
type proxy struct {
	plain, tunnels atomic.Int64
	auth           atomic.Value
}

func (p *proxy) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	p.auth.Store(req.Header.Get("Proxy-Authorization"))
	if req.Method != http.MethodConnect {
		p.plain.Add(1)
		req.RequestURI = ""
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		defer resp.Body.Close()
		w.WriteHeader(resp.StatusCode)
		return
	}
	p.tunnels.Add(1)
	out, err := net.Dial("tcp", req.Host)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	in, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err)
	}
	defer in.Close()
	defer out.Close()
	_, _ = io.WriteString(in, "HTTP/1.1 200 OK\r\n\r\n")
	go func() { _, _ = io.Copy(out, rw) }()
	_, _ = io.Copy(in, out)
}

// A proxy is used when the target says so, and never because the environment
// does.
func TestProxy(t *testing.T) {
	p := &proxy{}
	proxySrv := httptest.NewServer(p)
	t.Cleanup(proxySrv.Close)
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "ALL_PROXY"} {
		t.Setenv(name, proxySrv.URL)
	}
	t.Setenv("NO_PROXY", "")
	var hits atomic.Int64
	handler := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hits.Add(1) })
	open, secure := httptest.NewServer(handler), httptest.NewTLSServer(handler)
	t.Cleanup(open.Close)
	t.Cleanup(secure.Close)
	roots := &tls.Config{RootCAs: x509.NewCertPool()}
	roots.RootCAs.AddCert(secure.Certificate())
	via := mustURL(t, proxySrv.URL)
	via.User = url.UserPassword("u", "p")
	for _, tt := range []struct {
		url            string
		proxy          *url.URL
		plain, tunnels int64
	}{{open.URL, nil, 0, 0}, {secure.URL, nil, 0, 0}, {open.URL, via, 1, 0}, {secure.URL, via, 1, 1}} {
		before := hits.Load()
		for _, body := range []string{"x", ""} {
			if a := deliverOne(t, nil, Target{URL: mustURL(t, tt.url), Way: Way{Proxy: tt.proxy}, TLS: roots}, body); a.Outcome != event.Outcome2xx {
				t.Fatalf("%s via %v: %s (%s)", tt.url, tt.proxy, a.Outcome, a.Error)
			}
			if body == "x" && (p.plain.Load() != tt.plain || p.tunnels.Load() != tt.tunnels) {
				t.Errorf("%s via %v: the proxy saw %d requests and %d tunnels, want %d and %d", tt.url, tt.proxy, p.plain.Load(), p.tunnels.Load(), tt.plain, tt.tunnels)
			}
		}
		if hits.Load() != before+2 {
			t.Errorf("%s via %v: the target saw %d requests, want 2", tt.url, tt.proxy, hits.Load()-before)
		}
		p.plain.Store(min(p.plain.Load(), 1))
		p.tunnels.Store(min(p.tunnels.Load(), 1))
	}
	if got, want := p.auth.Load(), "Basic "+base64.StdEncoding.EncodeToString([]byte("u:p")); got != want {
		t.Errorf("proxy was told %q, want %q", got, want)
	}
	bad := Target{URL: mustURL(t, "http://app.test/"), Way: Way{Proxy: mustURL(t, "http://169.254.169.254:3128")}}
	if a := deliverOne(t, nil, bad, "x"); a.Outcome != event.OutcomeBlocked {
		t.Errorf("proxy at a metadata address: %s (%s), want blocked", a.Outcome, a.Error)
	}
}

// authority makes certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.key = key
	return a
}

// nameServerOf answers look-ups of any name with these addresses.
func nameServerOf(t *testing.T, four, six []string) *net.Resolver {
	t.Helper()
	return answering(t, func(q dnsmessage.Type) []netip.Addr {
		list := map[dnsmessage.Type][]string{dnsmessage.TypeA: four, dnsmessage.TypeAAAA: six}[q]
		out := make([]netip.Addr, len(list))
		for i, s := range list {
			out[i] = netip.MustParseAddr(s)
		}
		return out
	})
}

func (a *authority) pool() *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(a.cert)
	return p
}

// issue makes a certificate for a name, and for loopback without one.
func (a *authority) issue(t *testing.T, name string) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	if name == "" {
		tmpl.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	} else {
		tmpl.DNSNames = []string{name}
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, a.cert, &key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// Client certificate, own authority, name and version are what the target's
// TLS says, and HTTP/2 is spoken where the target does.
func TestTargetTLS(t *testing.T) {
	t.Parallel()
	ours, theirs := newAuthority(t), newAuthority(t)
	seen := make(chan string, 8)
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) { seen <- req.Proto }))
	srv.TLS = &tls.Config{Certificates: []tls.Certificate{ours.issue(t, "app.internal")}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: ours.pool(), MaxVersion: tls.VersionTLS12}
	srv.EnableHTTP2 = true
	srv.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	srv.StartTLS()
	t.Cleanup(srv.Close)
	good := tls.Config{RootCAs: ours.pool(), ServerName: "app.internal", Certificates: []tls.Certificate{ours.issue(t, "gateway")}}
	for _, tt := range []struct {
		name string
		edit func(*tls.Config)
		want event.Outcome
	}{
		{"as it should be", func(*tls.Config) {}, event.Outcome2xx},
		{"no client certificate", func(c *tls.Config) { c.Certificates = nil }, event.OutcomeTLSError},
		{"client certificate of another authority", func(c *tls.Config) { c.Certificates = []tls.Certificate{theirs.issue(t, "gateway")} }, event.OutcomeTLSError},
		{"another authority", func(c *tls.Config) { c.RootCAs = theirs.pool() }, event.OutcomeTLSError},
		{"another name", func(c *tls.Config) { c.ServerName = "127.0.0.1" }, event.OutcomeTLSError},
		{"a version it doesn't speak", func(c *tls.Config) { c.MinVersion = tls.VersionTLS13 }, event.OutcomeTLSError},
	} {
		c := good.Clone()
		tt.edit(c)
		if a := deliverOne(t, nil, Target{URL: mustURL(t, srv.URL), TLS: c}, "x"); a.Outcome != tt.want {
			t.Errorf("%s: %s (%s), want %s", tt.name, a.Outcome, a.Error, tt.want)
		}
	}
	if got := <-seen; got != "HTTP/2.0" || len(seen) != 0 {
		t.Errorf("the target saw %s and %d more, want HTTP/2.0 once", got, len(seen))
	}
}

// What a target sends back of the credentials it got is not kept.
func TestAnswersHoldNoSecret(t *testing.T) {
	t.Parallel()
	const token, password = "tok_canary_0123456789", "pw canary 0123456789"
	basic := "Basic " + base64.StdEncoding.EncodeToString([]byte("u:"+password))
	for _, tt := range []struct {
		name    string
		headers map[string]Secret
		pad     int
	}{
		{"bearer", map[string]Secret{"Authorization": "Bearer " + token}, 0},
		{"basic", map[string]Secret{"Authorization": Secret(basic)}, 0},
		{"cut by the bound", map[string]Secret{"X-Key": token}, maxHeadKept},
	} {
		url := newServer(t, func(w http.ResponseWriter, req *http.Request, _ string) {
			sent := req.Header.Get("Authorization") + req.Header.Get("X-Key")
			if tt.pad == 0 {
				w.Header().Set("X-Echo", sent)
				_, _ = io.WriteString(w, "you sent "+sent+" that is "+password+" and "+token+" "+sent)
				return
			}
			// All places at which the bound can cut it.
			w.Header().Set("Date", "x")
			_, _ = io.WriteString(w, strings.Repeat(token, 300))
		})
		a := deliverOne(t, nil, Target{URL: mustURL(t, url), Headers: tt.headers}, "x")
		head := string(a.Response)
		var hidden []string
		for _, v := range tt.headers {
			hidden = append(hidden, parts(string(v))...)
		}
		for _, s := range hidden {
			if strings.Contains(head, s) || len(s) > minRedacted && strings.HasSuffix(head, s[:minRedacted]) {
				t.Errorf("%s: the account holds %q: %.200q", tt.name, s, head)
			}
		}
		if !strings.Contains(head, "[redacted]") || len(head) > maxHeadKept {
			t.Errorf("%s: %d bytes, %.80q; want the mark", tt.name, len(head), head)
		}
	}
}

// spellings are of metadata and other link-local addresses, as hosts of URLs.
var spellings = []string{
	"169.254.169.254", "169.254.169.254.", "169.254.170.2", "169.254.0.1", "169.254.43518", "169.16689662", "2852039166", "2852039166.",
	"0xa9fea9fe", "0xA9FEA9FE", "0xa9.0xfe.0xa9.0xfe", "0xa9.254.169.254", "169.0xfe.0xa9fe", "0251.0376.0251.0376", "0251.254.169.254",
	"00000251.0376.000251.0376", "025177524776", "169.254.0251.0376", "169.254.169.0376", "0251.0xfe.43518", "425.510.425.510", "1.2852039166",
	"[::ffff:169.254.169.254]", "[::ffff:a9fe:a9fe]", "[0:0:0:0:0:ffff:a9fe:a9fe]", "[::169.254.169.254]", "[::a9fe:a9fe]", "[0::a9fe:a9fe]",
	"[::ffff:0:169.254.169.254]", "[::ffff:0:a9fe:a9fe]", "[64:ff9b::169.254.169.254]", "[64:ff9b::a9fe:a9fe]", "[0064:ff9b:0:0:0:0:a9fe:a9fe]",
	"[64:ff9b:1::169.254.169.254]", "[64:ff9b:1:a9fe:a9:fe00::]", "[64:ff9b:1:a9:fe:a9fe::]", "[64:ff9b:1::a9:fea9:fe00:0]",
	"[2002:a9fe:a9fe::]", "[2002:a9fe:a9fe::1]", "[2002:A9FE:A9FE:0:0:0:0:1]", "[2001:0:a9fe:a9fe::]", "[2001:0:4136:e378:8000:63bf:5601:5601]",
	"[2001:db8::5efe:169.254.169.254]", "[2001:db8::200:5efe:a9fe:a9fe]", "[fd00:ec2::254]", "[fd00:0ec2:0:0:0:0:0:254]", "[fd00:ec2::23]", "[fd20:ce::254]",
	"[fe80::1]", "[fe80::a9fe:a9fe]", "[fe80::1%25lo]", "[febf:ffff::1]", "100.100.100.200", "[::ffff:100.100.100.200]", "168.63.129.16", "192.0.0.192",
	"[::ffff:192.0.0.192]", "metadata.google.internal", "metadata.google.internal.", "METADATA.GOOGLE.INTERNAL", "instance-data", "instance-data.ec2.internal",
	"metadata", "169.254.169.254.nip.example", "a9fea9fe.rbndr.example", "localtest.example",
	"①⑥⑨.②⑤④.①⑥⑨.②⑤④", "169。254。169。254",
}

// noName names hosts that Go asks no resolver for: of digits alone, or not of
// ASCII.
func noName(host string) bool {
	return strings.Trim(host, "0123456789.") == "" || strings.ContainsFunc(host, func(r rune) bool { return r >= 0x80 })
}

// However a metadata address is spelt, and although the resolver answers every
// name with it as lenient ones do for numbers, no connection is made: the
// guard sees the address.
func TestGuardEverySpelling(t *testing.T) {
	t.Parallel()
	if len(spellings) < 60 {
		t.Fatalf("%d spellings, want at least 60", len(spellings))
	}
	bad := func(int64) []netip.Addr { return []netip.Addr{netip.MustParseAddr("169.254.169.254")} }
	resolver := nameServer(t, bad)
	anything := []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}
	for _, host := range spellings {
		u, err := url.Parse("http://" + host + "/latest/meta-data/")
		if err != nil {
			t.Errorf("%s: %v", host, err)
			continue
		}
		for _, allow := range [][]netip.Prefix{nil, anything} {
			tgt, err := (Target{Name: "a", URL: u, Timeout: 10 * time.Second, Allow: allow}).normal()
			if err != nil {
				t.Errorf("%s: %v", host, err)
				continue
			}
			tr := newTransport(&tgt, nil, resolver)
			req := buildAt(t, tgt, testEvent(), "x", time.Now())
			resp, err := tr.RoundTrip(req)
			if err == nil {
				resp.Body.Close()
				t.Errorf("%s: answered %s", host, resp.Status)
				continue
			}
			if outcome, text := classify(req.Context(), err); outcome != event.OutcomeBlocked && (outcome != event.OutcomeDNSError || !noName(host)) {
				t.Errorf("%s: %s (%s), want blocked: %v", host, outcome, text, err)
			}
			tr.CloseIdleConnections()
		}
	}
}

// Of a name with good and bad addresses only the good ones are connected to;
// with bad ones alone it is blocked, whatever the family.
func TestGuardMixedAnswers(t *testing.T) {
	t.Parallel()
	var hits atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hits.Add(1) }))
	t.Cleanup(srv.Close)
	port := mustURL(t, srv.URL).Port()
	for _, tt := range []struct {
		name string
		four []string
		six  []string
		want event.Outcome
	}{
		{"bad AAAA, good A", []string{"127.0.0.1"}, []string{"fe80::1", "fd00:ec2::254", "::ffff:169.254.169.254"}, event.Outcome2xx},
		{"bad A before good A", []string{"169.254.169.254", "127.0.0.1"}, nil, event.Outcome2xx},
		{"bad A, bad AAAA", []string{"169.254.169.254", "0.0.0.0"}, []string{"64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::"}, event.OutcomeBlocked},
	} {
		resolver := nameServerOf(t, tt.four, tt.six)
		a := deliverOne(t, func(c *Config) { c.Resolver = resolver }, Target{URL: mustURL(t, "http://mix.test.:"+port+"/")}, "x")
		if a.Outcome != tt.want {
			t.Errorf("%s: %s (%s), want %s", tt.name, a.Outcome, a.Error, tt.want)
		}
	}
	if hits.Load() != 2 {
		t.Errorf("the target saw %d requests, want 2", hits.Load())
	}
}

// The connections that are kept are as many as attempts may run, and are used
// again. How many are opened is a matter of scheduling, as a dial that is under
// way goes on when a connection comes free; so the measure is a transport that
// keeps half as many and has to open two in every round.
func TestConnectionsAreKept(t *testing.T) {
	t.Parallel()
	var opened atomic.Int64
	secure := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	open := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for _, s := range []*httptest.Server{secure, open} {
		s.Config.ConnState = func(_ net.Conn, st http.ConnState) {
			if st == http.StateNew {
				opened.Add(1)
			}
		}
	}
	secure.StartTLS()
	open.Start()
	t.Cleanup(secure.Close)
	t.Cleanup(open.Close)
	roots := &tls.Config{RootCAs: x509.NewCertPool()}
	roots.RootCAs.AddCert(secure.Certificate())
	const rounds, atOnce = 40, 4
	for _, u := range []string{secure.URL, open.URL} {
		tgt, err := (Target{Name: "a", URL: mustURL(t, u), TLS: roots, Concurrency: atOnce}).normal()
		if err != nil {
			t.Fatal(err)
		}
		count := func(tr roundTripper) int64 {
			opened.Store(0)
			for range rounds {
				var wg sync.WaitGroup
				for range atOnce {
					wg.Go(func() {
						resp, err := tr.RoundTrip(buildAt(t, tgt, testEvent(), "x", time.Now()))
						if err != nil {
							t.Error(err)
							return
						}
						_, _ = io.Copy(io.Discard, resp.Body)
						resp.Body.Close()
					})
				}
				wg.Wait()
			}
			tr.CloseIdleConnections()
			return opened.Load()
		}
		kept := newTransport(&tgt, nil, nil)
		half := newStandard(&tgt, newDial(&tgt, nil, nil))
		half.MaxIdleConnsPerHost = atOnce / 2
		ours, control := count(kept), count(half)
		if ours*2 > control {
			t.Errorf("%s: %d connections for %d requests of %d at a time, and %d where half are kept", u, ours, rounds*atOnce, atOnce, control)
		}
		t.Logf("%s: %d connections, control %d", u, ours, control)
	}
}
