package receiver

import (
	"math/rand/v2"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/onceward/onceward/event"
	"github.com/onceward/onceward/verify"
)

// TestPaths: a path is itself or itself with a slash, and nothing else leads
// to a source or to a redirect.
func TestPaths(t *testing.T) {
	t.Parallel()
	own := source(t, "none", func(s *Source) { s.Name, s.Path = "own", "/hooks/Own.v1" })
	f := setup(t, []*Source{source(t, "none"), own}, nil)
	for path, want := range map[string]int{
		"/in/none": 200, "/in/none/": 200, "/in/none?a=b": 200, "/in/none/?a=%2f": 200, "/hooks/Own.v1": 200, "/hooks/Own.v1/": 200,
		"/in/own": 404, "/in/None": 404, "/IN/none": 404, "/in//none": 404, "//in/none": 404, "/in/none//": 404,
		"/in/%6eone": 404, "/in%2fnone": 404, "/in/none%2f": 404, "/in/none%00": 404, "/in/none%20": 404, "/in/none;x": 404,
		"/in/./none": 404, "/in/x/../none": 404, "/in/%2e/none": 404, "/in/none/x": 404, "/in/none/..": 404, "/in/": 404, "/in": 404,
		"/": 404, "/*": 404, "/in/*": 404, "/in/:x": 404, "/in\\none": 404, "/hooks/own.v1": 404, "/hooks/Ownxv1": 404,
		"/livez/": 404, "/%6civez": 404, "/metrics": 404, "/debug/pprof/": 404, "/api/v1/events": 404,
	} {
		got := f.send(t, message{path: path, body: path})
		if got.status != want {
			t.Errorf("%s: got %d, want %d", path, got.status, want)
		}
	}
	if got := f.raw(t, "POST http://elsewhere/in/none HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\nz"); got.status != 200 {
		t.Errorf("absolute form: got %d, want 200", got.status)
	}
}

func TestQueryKeptRaw(t *testing.T) {
	t.Parallel()
	f := setup(t, []*Source{source(t, "none")}, nil)
	const query = "b=2&a=%41%zz&&c=a+b;d"
	f.send(t, message{path: "/in/none?" + query, body: "q"}).want(t, 200)
	if got := f.all(t)[0].Event.Query; got != query {
		t.Errorf("query %q, want %q", got, query)
	}
}

func TestSourceFaults(t *testing.T) {
	t.Parallel()
	admit := admitFunc(nil)
	for name, sources := range map[string][]*Source{
		"no name":       {{}},
		"upper case":    {{Name: "A"}},
		"dash first":    {{Name: "-a"}},
		"long":          {{Name: strings.Repeat("a", 64)}},
		"name twice":    {{Name: "a"}, {Name: "a", Path: "/b"}},
		"path twice":    {{Name: "a"}, {Name: "b", Path: "/in/a"}},
		"root":          {{Name: "a", Path: "/"}},
		"slash at end":  {{Name: "a", Path: "/a/"}},
		"no slash":      {{Name: "a", Path: "a"}},
		"doubled slash": {{Name: "a", Path: "/a//b"}},
		"dots":          {{Name: "a", Path: "/a/../b"}},
		"parameter":     {{Name: "a", Path: "/a/:b"}},
		"wildcard":      {{Name: "a", Path: "/a/*"}},
		"encoded":       {{Name: "a", Path: "/a%2fb"}},
		"live":          {{Name: "a", Path: "/livez"}},
		"ready":         {{Name: "a", Path: "/readyz"}},
	} {
		if _, err := New(Config{Admit: admit, Sources: sources}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := New(Config{}); err == nil {
		t.Error("no admitter: no error")
	}
	// All faults at once, and nothing swapped.
	r, err := New(Config{Admit: admit, Sources: []*Source{{Name: "a"}}})
	if err != nil {
		t.Fatal(err)
	}
	err = r.SetSources([]*Source{{Name: "B"}, {Name: "c", Path: "/*"}}, nil)
	if err == nil || !strings.Contains(err.Error(), `"B"`) || !strings.Contains(err.Error(), `"c"`) {
		t.Errorf("error %v, want both faults", err)
	}
	if s := r.SourceStats(); len(s) != 1 || s[0].Name != "a" || s[0].Path != "/in/a" || s[0].Offline == "" {
		t.Errorf("sources %+v, want the former ones", s)
	}
}

// TestGlob holds globMatch against a regular expression of the same meaning.
func TestGlob(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(1, 2))
	word := func(letters string, n int) string {
		b := make([]byte, rnd.IntN(n))
		for i := range b {
			b[i] = letters[rnd.IntN(len(letters))]
		}
		return string(b)
	}
	matched := 0
	for range 20_000 {
		glob, s := word("ab.*", 8), word("ab.", 10)
		want := regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(glob), `\*`, ".*") + "$").MatchString(s)
		if got := globMatch(glob, s); got != want {
			t.Fatalf("globMatch(%q, %q) = %v, want %v", glob, s, got, want)
		}
		if want {
			matched++
		}
	}
	if matched < 100 {
		t.Errorf("only %d matches: the test proves little", matched)
	}
}

func TestClientAddr(t *testing.T) {
	t.Parallel()
	trusted := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}
	for _, tt := range []struct {
		name, remote string
		forwarded    []string
		want         string
	}{
		{"direct", "192.0.2.1:5", nil, "192.0.2.1"},
		{"spoofed from an untrusted peer", "192.0.2.1:5", []string{"198.51.100.7"}, "192.0.2.1"},
		{"through a proxy", "10.0.0.1:5", []string{"198.51.100.7"}, "198.51.100.7"},
		{"spoofed through a proxy", "10.0.0.1:5", []string{"203.0.113.9, 198.51.100.7"}, "198.51.100.7"},
		{"spoofed in a line of its own", "10.0.0.1:5", []string{"203.0.113.9", "198.51.100.7"}, "198.51.100.7"},
		{"two proxies", "10.0.0.1:5", []string{"203.0.113.9, 198.51.100.7, 10.2.2.2"}, "198.51.100.7"},
		{"proxies only", "10.0.0.1:5", []string{"10.3.3.3,10.2.2.2"}, "10.3.3.3"},
		{"garbage", "10.0.0.1:5", []string{"203.0.113.9, <script>"}, "10.0.0.1"},
		{"empty", "10.0.0.1:5", []string{""}, "10.0.0.1"},
		{"mapped", "[::ffff:10.0.0.1]:5", []string{"198.51.100.7"}, "198.51.100.7"},
		{"with a port", "[fd00::1]:5", []string{"[2001:db8::1]:77"}, "2001:db8::1"},
		{"no address", "pipe", nil, ""},
	} {
		g := &generation{trusted: trusted}
		got := ""
		if a := g.clientAddr(tt.remote, tt.forwarded); a.IsValid() {
			got = a.String()
		}
		if got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestJoinPublic(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ base, called, want string }{
		{"https://h.example", "/in/a?x=1", "https://h.example/in/a?x=1"},
		{"https://h.example/", "/in/a", "https://h.example/in/a"},
		{"https://h.example/hook", "/in/a", "https://h.example/hook"},
		{"https://h.example/hook", "/in/a/?x=%41", "https://h.example/hook/?x=%41"},
		{"https://h.example/hook/", "/in/a/", "https://h.example/hook/"},
		{"https://h.example:8443", "/in/a", "https://h.example:8443/in/a"},
		{"https://h.example/hook", "/in/a?", "https://h.example/hook?"},
	} {
		if got := joinPublic(tt.base, tt.called); got != tt.want {
			t.Errorf("joinPublic(%q, %q) = %q, want %q", tt.base, tt.called, got, tt.want)
		}
	}
}

// TestSignedURL: a provider that signs the URL is believed about the proxy's
// host only when the proxy is trusted.
func TestSignedURL(t *testing.T) {
	t.Parallel()
	src := source(t, "twilio")
	f := setup(t, []*Source{src}, nil)
	sign := func(url, body string) message {
		return f.sign(t, src, signTwilio(url, body)).with("X-Forwarded-Proto: https", "X-Forwarded-Host: hooks.example")
	}
	public := sign("https://hooks.example/in/twilio", "MessageSid=1&MessageStatus=sent")
	f.send(t, public).want(t, 401)
	f.send(t, sign("http://"+f.addr+"/in/twilio", "MessageSid=2&MessageStatus=sent")).want(t, 200)

	loopback := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	if err := f.r.SetSources([]*Source{src}, loopback); err != nil {
		t.Fatal(err)
	}
	f.send(t, public).want(t, 200)
	f.send(t, sign("https://hooks.example/in/twilio?a=b", "MessageSid=3&MessageStatus=sent").at("/in/twilio?a=b")).want(t, 200)
	// The nearest proxy's word counts, not the one the sender wrote before it.
	f.send(t, sign("https://hooks.example/in/twilio", "MessageSid=4&MessageStatus=sent").
		replace("X-Forwarded-Host", "evil.example, hooks.example")).want(t, 200)
	f.send(t, sign("https://evil.example/in/twilio", "MessageSid=5&MessageStatus=sent").
		replace("X-Forwarded-Host", "evil.example, hooks.example")).want(t, 401)

	// A form that can't be read is told apart from a bad signature only by
	// senders that hold the secret.
	odd := public
	odd.body = "a=%zz"
	if got := f.send(t, odd).want(t, 401); got.body != string(answerRefused.body) {
		t.Errorf("answer %s", got.body)
	}

	fixed := source(t, "twilio", func(s *Source) { s.PublicURL = "https://fixed.example/hook" })
	if err := f.r.SetSources([]*Source{fixed}, loopback); err != nil {
		t.Fatal(err)
	}
	f.send(t, sign("https://fixed.example/hook?a=b", "MessageSid=6&MessageStatus=sent").at("/in/twilio?a=b")).want(t, 200)
	f.send(t, sign("https://hooks.example/in/twilio", "MessageSid=7&MessageStatus=sent")).want(t, 401)
}

// TestHeadersKept: only the list passes, and nothing the sender can do puts a
// credential or a hop's header on it.
func TestHeadersKept(t *testing.T) {
	t.Parallel()
	src := source(t, "github")
	f := setup(t, []*Source{src}, nil)
	m := f.sign(t, src, signGitHub("d1", "push", `{}`)).with(
		"X-Github-Enterprise-Host: a", "X-GitHub-Enterprise-Host: b", "X-GitHub-Hook-ID: 7", "Content-Encoding: identity",
		"Connection: X-GitHub-Hook-ID, keep-alive", "Idempotency-Key: mine", "Onceward-Event: forged", "Onceward-Test: 1",
		"Authorization: Bearer canary", "Cookie: canary", "Proxy-Authorization: canary", "X-Api-Key: canary", "Te: trailers",
		"Traceparent: 00-11111111111111111111111111111111-2222222222222222-01", "Baggage: a=b", "X-Real-Ip: 9.9.9.9")
	f.send(t, m).want(t, 200)
	ev := f.all(t)[0].Event
	var got []string
	for _, h := range ev.Header {
		got = append(got, h.Name+"="+h.Value)
	}
	want := []string{"Content-Encoding=identity", "Content-Type=application/json", "X-Github-Delivery=d1",
		"X-Github-Enterprise-Host=a", "X-Github-Enterprise-Host=b", "X-Github-Event=push",
		"X-Hub-Signature-256=" + m.value("X-Hub-Signature-256")}
	if !slices.Equal(got, want) {
		t.Errorf("kept\n%q, want\n%q", got, want)
	}
	if !ev.Flags.Has(event.FlagTest) {
		t.Error("a test from this machine isn't marked")
	}
	// Behind a trusted proxy on this machine the mark is anybody's.
	if err := f.r.SetSources([]*Source{src}, []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}); err != nil {
		t.Fatal(err)
	}
	f.send(t, f.sign(t, src, signGitHub("d2", "push", `{}`)).with("Onceward-Test: 1")).want(t, 200)
	if f.all(t)[0].Event.Flags.Has(event.FlagTest) {
		t.Error("a mark that came through a proxy is believed")
	}
}

// TestRowCannotPassCredentials: a row that lists what must not pass changes
// nothing.
func TestRowCannotPassCredentials(t *testing.T) {
	t.Parallel()
	c := compileSource(&Source{Name: "a", Row: verify.Row{
		EventHeaders:      []string{"x-event", "Authorization", "cookie", "X_Event", "Transfer-Encoding", "x-token", "Host"},
		SignatureHeaders:  []string{"X-Sig", "Proxy-Authorization"},
		CredentialHeaders: []string{"X-Token", "User-Agent"},
		CredentialParams:  []string{"json:token"},
	}})
	if want := []string{"Content-Encoding", "Content-Language", "Content-Type", "X-Event", "X-Sig"}; !slices.Equal(c.pass, want) {
		t.Errorf("pass %q, want %q", c.pass, want)
	}
	for _, name := range []string{"Authorization", "Cookie", "X-Token", "X-Sig", "User-Agent", "X-Other"} {
		if c.show[name] {
			t.Errorf("refusals show %s", name)
		}
	}
	if c.keepBody || !c.show["X-Event"] {
		t.Error("a body that may hold a credential is not shown, an event header is")
	}
}

// TestCredentialNeverKept: for schemes whose header is the credential itself,
// it is neither stored, shown nor logged.
func TestCredentialNeverKept(t *testing.T) {
	t.Parallel()
	gitlab := source(t, "gitlab")
	token := source(t, "token")
	keyed := source(t, "idempotency-key")
	f := setup(t, []*Source{gitlab, token, keyed}, nil)
	f.send(t, f.sign(t, token, signAny("1"))).want(t, 200)
	f.send(t, keyedMessage("alpha", "k", "b")).want(t, 200)
	const canary = "canary-6b1f"
	for _, path := range []string{"/in/gitlab", "/in/token", "/in/idempotency-key"} {
		f.send(t, message{path: path, body: "{}", lines: []string{"X-Gitlab-Token: " + canary, "Authorization: Bearer " + canary,
			"Webhook-Signature: v1," + canary, "X-Signature: " + canary, "X-Unheard-Of: " + canary, "Cookie: " + canary}}).want(t, 401)
	}
	for _, rec := range f.all(t) {
		for _, h := range rec.Event.Header {
			if strings.Contains(h.Value, "token-of") || strings.Contains(h.Value, testSecret) {
				t.Errorf("the event keeps %s", h.Name)
			}
		}
	}
	refusals := f.r.Refusals(RefusalFilter{})
	if len(refusals) != 3 {
		t.Fatalf("%d refusals, want 3", len(refusals))
	}
	for _, ref := range refusals {
		for _, h := range ref.Header {
			if strings.Contains(h.Value, canary) {
				t.Errorf("the refusal shows %s", h.Name)
			}
		}
	}
	for _, secret := range []string{canary, testSecret, "token-of-alpha"} {
		if strings.Contains(f.logs.String(), secret) {
			t.Errorf("the log holds %s", secret)
		}
	}
}
