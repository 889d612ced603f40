package forward

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

// A test is a signed, marked request with every step in its account, and leaves
// nothing in ledger, metrics or state.
func TestTargetTest(t *testing.T) {
	t.Parallel()
	wh, err := standardwebhooks.NewWebhook(testSecret)
	if err != nil {
		t.Fatal(err)
	}
	const token = "tok_canary_0123456789"
	srv := httptest.NewUnstartedServer(whole(func(w http.ResponseWriter, req *http.Request, body string) {
		if err := wh.Verify([]byte(body), req.Header); err != nil {
			t.Errorf("signature: %v", err)
		}
		var got struct{ Type, ID, Target string }
		if err := json.Unmarshal([]byte(body), &got); err != nil || got.Type != TestType || got.Target != "a" || "onceward:"+got.ID != req.Header.Get("Idempotency-Key") {
			t.Errorf("body %q, %v", body, err)
		}
		for name, want := range map[string]string{"Onceward-Test": "true", "Onceward-Attempt": "1", "Onceward-Event-Type": TestType, "Ce-Type": TestType, "Authorization": "Bearer " + token} {
			if got := req.Header.Get(name); got != want {
				t.Errorf("%s = %q, want %q", name, got, want)
			}
		}
		w.WriteHeader(http.StatusAccepted)
		_, _ = io.WriteString(w, "thanks for "+token)
	}))
	srv.EnableHTTP2 = true
	srv.StartTLS()
	t.Cleanup(srv.Close)
	roots := &tls.Config{RootCAs: x509.NewCertPool()}
	roots.RootCAs.AddCert(srv.Certificate())
	r := newRig(t, func(c *Config) {
		c.Resolver = nameServer(t, func(int64) []netip.Addr { return []netip.Addr{netip.MustParseAddr("127.0.0.1")} })
	})
	port := mustURL(t, srv.URL).Port()
	r.run(Target{Name: "a", URL: mustURL(t, "https://example.com:"+port+"/x"), TLS: roots, Shape: Shape{CloudEvents: true},
		Signing: []SigningSecret{mustSecret(t, testSecret)}, Headers: map[string]Secret{"Authorization": "Bearer " + token}})
	p, err := r.f.Test(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	if p.Status != 202 || p.Outcome != event.Outcome2xx || p.Error != "" || p.Proto != "HTTP/2.0" || !p.Signed || p.Site != "https://example.com:"+port {
		t.Errorf("probe %+v", p)
	}
	if p.Host != "example.com" || len(p.Addresses) != 1 || p.Address != "127.0.0.1:"+port || p.DNS <= 0 || p.Connect <= 0 || p.FirstByte <= 0 || p.Total < p.DNS+p.Connect {
		t.Errorf("steps %+v", p)
	}
	if p.TLS == nil || p.TLS.Version != "TLS 1.3" || p.TLS.Protocol != "h2" || p.TLS.Duration <= 0 || !p.TLS.NotAfter.Equal(srv.Certificate().NotAfter) || p.TLS.Subject == "" {
		t.Errorf("TLS %+v", p.TLS)
	}
	if strings.Contains(string(p.Head), token) || !strings.Contains(string(p.Head), "thanks for [redacted]") {
		t.Errorf("head %q", p.Head)
	}
	stats, err := r.store.Stats(t.Context())
	if err != nil || stats.Events != 0 || len(stats.Targets) != 0 {
		t.Errorf("ledger %+v, %v; want nothing", stats, err)
	}
	if st := r.f.Status()[0]; len(st.Attempts) != 0 && st.Attempts[event.Outcome2xx] != 0 || !st.LastSuccess.IsZero() {
		t.Errorf("status %+v, want no trace of the test", st)
	}
	if got := r.metric("onceward_delivery_attempts_total", "a", "outcome", "2xx"); got != 0 {
		t.Errorf("%v attempts were counted", got)
	}
}

// What goes wrong is in the account, at its step.
func TestTargetTestFails(t *testing.T) {
	t.Parallel()
	secure := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(secure.Close)
	sick := newServer(t, func(w http.ResponseWriter, _ *http.Request, _ string) { w.WriteHeader(503) })
	slow := make(chan struct{})
	hang := newServer(t, func(_ http.ResponseWriter, req *http.Request, _ string) {
		select {
		case <-slow:
		case <-req.Context().Done():
		}
	})
	t.Cleanup(func() { close(slow) })
	for _, tt := range []struct {
		url     string
		timeout time.Duration
		want    event.Outcome
		status  int
	}{
		{sick, 0, event.Outcome5xx, 503},
		{secure.URL, 0, event.OutcomeTLSError, 0},
		{"http://127.0.0.1:1/", 0, event.OutcomeConnectError, 0},
		{"http://169.254.169.254/", 0, event.OutcomeBlocked, 0},
		{"http://nowhere.test./", 0, event.OutcomeDNSError, 0},
		{hang, 200 * time.Millisecond, event.OutcomeTimeout, 0},
	} {
		r := newRig(t, func(c *Config) { c.Resolver = nameServer(t, func(int64) []netip.Addr { return nil }) })
		if err := r.f.SetTargets([]Target{{Name: "a", URL: mustURL(t, tt.url), Timeout: tt.timeout}}); err != nil {
			t.Fatal(err)
		}
		p, err := r.f.Test(t.Context(), "a")
		if err != nil || p.Outcome != tt.want || p.Status != tt.status || (p.Error == "") != (tt.status != 0) || p.TLS != nil || p.Total <= 0 {
			t.Errorf("%s: %+v, %v; want %s", tt.url, p, err, tt.want)
		}
	}
	r := newRig(t, nil)
	if _, err := r.f.Test(t.Context(), "gone"); !errors.Is(err, dedupe.ErrNotFound) {
		t.Errorf("unknown target: %v, want not found", err)
	}
}

// Two tests are two events.
func TestTargetTestsDiffer(t *testing.T) {
	t.Parallel()
	tgt := &Target{Name: "a"}
	now := time.Now()
	x, y := testEventFor(tgt, now).Event, testEventFor(tgt, now).Event
	if x.Key == y.Key || x.Ref == y.Ref || x.ID == y.ID {
		t.Errorf("%s %s %s and %s %s %s", x.Key, x.Ref, x.ID, y.Key, y.Ref, y.ID)
	}
	if at := x.Ref.Time(); at.UnixMilli() != now.UnixMilli() {
		t.Errorf("ref of %v, want %v", at, now)
	}
}
