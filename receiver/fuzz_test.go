package receiver

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/event"
)

// FuzzForged: no body, header or query without the secret is ever admitted or
// answered with a 5xx, and what the ring keeps stays in its bounds.
func FuzzForged(f *testing.F) {
	f.Add("stripe", "Stripe-Signature", "t=1764504000,v1=00", "a=b", []byte(`{"id":"evt_1"}`))
	f.Add("github", "X-Hub-Signature-256", "sha256=00", "", []byte("null"))
	f.Add("slack", "X-Slack-Signature", "v0=00", "", []byte(`{"type":"url_verification","challenge":"x"}`))
	f.Add("twilio", "Content-Type", "application/x-www-form-urlencoded", "%zz", []byte("a=%zz"))
	f.Add("token", "Authorization", "Bearer ", "", []byte{0xff})
	f.Add("standard_webhooks", "Webhook-Id", "", "", []byte{})
	var sources []*Source
	for _, p := range []string{"stripe", "github", "slack", "twilio", "token", "standard_webhooks", "gitlab", "svix", "shopify"} {
		sources = append(sources, source(f, p))
	}
	r, err := New(Config{Admit: admitFunc(benchAdmit), Sources: sources, Now: func() time.Time { return noon }})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, provider, name, value, query string, body []byte) {
		req := httptest.NewRequest("POST", "/in/stripe", io.NopCloser(bytes.NewReader(body)))
		req.URL.Path = "/in/" + provider
		req.URL.RawQuery = query
		req.ContentLength = int64(len(body))
		req.Header[http.CanonicalHeaderKey(name)] = []string{value}
		w := httptest.NewRecorder()
		r.Handler().ServeHTTP(w, req)
		if w.Code/100 != 4 {
			t.Fatalf("got %d %s, want a 4xx", w.Code, w.Body)
		}
		if w.Header().Get("X-Content-Type-Options") != "nosniff" {
			t.Error("the answer may be sniffed")
		}
		if r.rings.bytes > ringBytes || r.budget.used.Load() != 0 {
			t.Errorf("%d bytes in rings, %d in flight", r.rings.bytes, r.budget.used.Load())
		}
	})
}

// FuzzClientAddr: the client's address is the peer or an address that a
// trusted proxy wrote; nothing left of an untrusted one counts.
func FuzzClientAddr(f *testing.F) {
	f.Add("10.0.0.1:1", "203.0.113.9, 198.51.100.7", "10.2.2.2")
	f.Add("192.0.2.1:1", "198.51.100.7", "")
	f.Add("", ",,", "[::1]:5")
	g := &generation{trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}
	f.Fuzz(func(t *testing.T, remote, first, second string) {
		got := g.clientAddr(remote, []string{first, second})
		if !g.trusts(addrOf(remote)) {
			if got != addrOf(remote) {
				t.Fatalf("an untrusted peer %q became %v", remote, got)
			}
			return
		}
		again := g.clientAddr(remote, []string{"203.0.113.99, " + first, second})
		if !g.trusts(got) && again != got {
			t.Fatalf("what the sender wrote in front changed %v to %v", got, again)
		}
	})
}

// FuzzHeaders: whatever a header holds, only listed names are kept, in order
// and unchanged, and a refusal never shows what it may not.
func FuzzHeaders(f *testing.F) {
	f.Add("X-Github-Event", "push", "close")
	f.Add("Authorization", "Bearer canary", "X-Github-Event")
	f.Add("x_github_event", "push", ",,")
	c := compileSource(source(f, "github"))
	f.Fuzz(func(t *testing.T, name, value, connection string) {
		name = http.CanonicalHeaderKey(name)
		h := http.Header{name: {value, value}, "Connection": {connection}}
		got := (&call{src: c, req: &http.Request{Header: h}}).passing()
		listed := contains(c.pass, name) && !namedByConnection([]string{connection}, name) && name != "Connection"
		want := []event.Field{{Name: name, Value: value}, {Name: name, Value: value}}
		if listed != (len(got) == 2) || listed && (got[0] != want[0] || got[1] != want[1]) {
			t.Fatalf("kept %q of %q, listed: %v", got, h, listed)
		}
		for _, line := range c.redacted(h) {
			if !c.show[name] && line.Name == name && len(value) > 20 && strings.Contains(line.Value, value) {
				t.Fatalf("a refusal shows %s", name)
			}
		}
	})
}
