package gateway

import (
	"bytes"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
)

// otlpReceiver is a collector on loopback.
type otlpReceiver struct {
	mu    sync.Mutex
	spans []*otlp.Span
	token string
	hang  chan struct{} // not nil: answers when it is closed
}

func (c *otlpReceiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	b, err := io.ReadAll(req.Body)
	var data otlp.TracesData
	if err != nil || req.URL.Path != "/v1/traces" || proto.Unmarshal(b, &data) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	if c.hang != nil {
		<-c.hang
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.token = req.Header.Get("X-Token")
	for _, rs := range data.ResourceSpans {
		for _, ss := range rs.ScopeSpans {
			c.spans = append(c.spans, ss.Spans...)
		}
	}
}

// An event's way is one trace at the collector: the request that brought it,
// and its attempts below; a stop exports all of it.
func TestTraces(t *testing.T) {
	t.Parallel()
	c := &otlpReceiver{}
	srv := httptest.NewServer(c)
	t.Cleanup(srv.Close)
	app, hits := listener(t, func(h hit) int {
		if h.attempt == "1" {
			return http.StatusServiceUnavailable
		}
		return http.StatusOK
	})
	toml := base(t.TempDir()) + source("stripe", "stripe", "${env:A}") + target(app) + "[traces]\nendpoint = \"" + srv.URL + "\"\nheaders = { X-Token = \"${env:PLAIN}\" }\n"
	r := run(t, toml, Options{Version: "1.2.3"})
	req := r.signed(t, "stripe", "evt_1", "invoice.paid")
	req.Header.Set("Traceparent", "00-11111111111111111111111111111111-2222222222222222-01")
	r.send(t, req)
	next(t, hits)
	next(t, hits)
	forged := r.signed(t, "stripe", "evt_2", "x")
	forged.Header.Set("Stripe-Signature", "t=1,v1=00")
	if resp, _ := r.send(t, forged); resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("forged: %s", resp.Status)
	}
	if err := r.stop(t); err != nil {
		t.Fatal(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var way, refused *otlp.Span
	var attempts []*otlp.Span
	for _, s := range c.spans {
		switch {
		case s.Name == "POST /in/stripe" && attrOf(s, "onceward.outcome") == "accepted":
			way = s
		case s.Name == "POST /in/stripe":
			refused = s
		case s.Name == "deliver app":
			attempts = append(attempts, s)
		}
	}
	if len(c.spans) != 4 || way == nil || refused == nil || len(attempts) != 2 {
		t.Fatalf("%d spans: %v", len(c.spans), c.spans)
	}
	if len(way.ParentSpanId) != 0 || len(way.Links) != 1 || hex.EncodeToString(way.Links[0].TraceId) != strings.Repeat("1", 32) ||
		attrOf(way, "cloudevents.event_id") != "evt_1" || attrOf(way, "onceward.source") != "stripe" {
		t.Errorf("request: %v", way)
	}
	for _, a := range attempts {
		if string(a.TraceId) != string(way.TraceId) || string(a.ParentSpanId) != string(way.SpanId) || attrOf(a, "onceward.event") != attrOf(way, "onceward.event") {
			t.Errorf("attempt %v is not below the request", a)
		}
	}
	if attrOf(refused, "onceward.outcome") != "refused" || attrOf(refused, "onceward.event") != "" {
		t.Errorf("refused: %v", refused)
	}
	if c.token != "0123456789abcdef" {
		t.Errorf("the collector was told %q", c.token)
	}
	all := bytes.Buffer{}
	for _, s := range c.spans {
		all.WriteString(s.String())
	}
	if strings.Contains(all.String(), "v1=") || strings.Contains(all.String(), "whsec") {
		t.Error("spans hold a signature or a secret")
	}
}

func attrOf(s *otlp.Span, key string) string {
	for _, a := range s.Attributes {
		if a.Key == key {
			return a.Value.GetStringValue()
		}
	}
	return ""
}

// A collector that doesn't answer keeps neither intake nor deliveries, and a
// stop not for long.
func TestCollectorHangs(t *testing.T) {
	t.Parallel()
	c := &otlpReceiver{hang: make(chan struct{})}
	srv := httptest.NewServer(c)
	t.Cleanup(srv.Close)
	t.Cleanup(func() { close(c.hang) })
	app, hits := listener(t, ok)
	r := run(t, base(t.TempDir())+source("stripe", "stripe", "${env:A}")+target(app)+"[traces]\nendpoint = \""+srv.URL+"\"\n", Options{})
	for i := range 100 {
		if err := r.post("evt_" + string(rune('a'+i%26)) + strings.Repeat("x", i)); err != nil {
			t.Fatal(err)
		}
		next(t, hits)
	}
	began := time.Now()
	if err := r.stop(t); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("the stop took %v", took)
	}
}

func TestTracesConfig(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ toml, want string }{
		{"[traces]\nendpoint = \"http://127.0.0.1:4318\"\nsample = 0.1\n", ""},
		{"[traces]\n", "1:2: traces: traces have no endpoint;"},
		{"[traces]\nendpoint = \"127.0.0.1:4318\"\n", "2:12: traces.endpoint: the endpoint is not usable; want an http or https URL"},
		{"[traces]\nendpoint = \"http://u:canary@h\"\n", "2:12: traces.endpoint: the endpoint is not usable;"},
		{"[traces]\nendpoint = \"http://169.254.169.254\"\n", "2:12: traces.endpoint: the endpoint is at a link-local"},
		{"[traces]\nendpoint = \"http://h\"\nsample = 0\n", "3:10: traces.sample: sample is out of bounds;"},
		{"[traces]\nendpoint = \"http://h\"\nsample = 1.5\n", "3:10: traces.sample: sample is out of bounds;"},
		{"[traces]\nendpoint = \"http://h\"\nheaders = { Content-Type = \"x\" }\n", "3:28: traces.headers.Content-Type: this header is set by the gateway;"},
		{"[traces]\nendpoint = \"${env:NOPE}\"\n", "2:12: traces.endpoint: ${env:NOPE} is not set;"},
	} {
		cfg, fs := Parse("c.toml", []byte(tt.toml), envOf("TOKEN", "canary"))
		if got := lines(fs); !strings.HasPrefix(got, tt.want) || tt.want == "" && got != "" || strings.Contains(got, "canary") {
			t.Errorf("%s: got %q, want %q", tt.toml, got, tt.want)
		}
		_ = cfg
	}
	cfg, _ := Parse("c.toml", []byte("[traces]\nendpoint = \"${env:E}\"\nheaders = { X-Token = \"${env:TOKEN}\" }\n"), envOf("TOKEN", "canary-token", "E", "http://canary/"))
	var b bytes.Buffer
	if err := cfg.Print(&b); err != nil || strings.Contains(b.String(), "canary") || !strings.Contains(b.String(), "sample = 1") {
		t.Errorf("%v\n%s", err, &b)
	}
	same, _ := Parse("c.toml", []byte("[traces]\nendpoint = \"${env:E}\"\nheaders = { X-Token = \"${env:TOKEN}\" }\n"), envOf("TOKEN", "canary-token", "E", "http://canary/"))
	other, _ := Parse("c.toml", []byte("[traces]\nendpoint = \"${env:E}\"\nheaders = { X-Token = \"${env:TOKEN}\" }\n"), envOf("TOKEN", "another", "E", "http://canary/"))
	if cfg.Traces.identity() == other.Traces.identity() || cfg.Traces.identity() != same.Traces.identity() {
		t.Error("identity does not tell settings apart by their values")
	}
}
