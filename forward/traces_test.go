package forward

import (
	"context"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	otlp "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/onceward/onceward/event"
	"github.com/onceward/onceward/trace"
)

// Attempts of an event are in its trace, each with a span of its own; an event
// without one, or with what is none, sends none.
func TestTraceparentOfAttempts(t *testing.T) {
	t.Parallel()
	ev := testEvent()
	root, _ := trace.Parse(ev.Trace)
	seen := map[trace.SpanID]bool{root.Span: true}
	for i := range 5 {
		req := buildAt(t, Target{Name: "a", URL: mustURL(t, "http://a/")}, ev, "x", time.Unix(100, int64(i)))
		c, ok := trace.Parse(req.Header.Get("Traceparent"))
		if !ok || c.Trace != root.Trace || !c.Sampled || seen[c.Span] {
			t.Errorf("attempt %d: traceparent %q below %q", i, req.Header.Get("Traceparent"), ev.Trace)
		}
		seen[c.Span] = true
	}
	other := buildAt(t, Target{Name: "b", URL: mustURL(t, "http://b/")}, ev, "x", time.Unix(100, 0))
	if c, _ := trace.Parse(other.Header.Get("Traceparent")); seen[c.Span] {
		t.Error("two targets at one moment share a span")
	}
	for _, bad := range []string{"", "00-1-2-01", "evil\r\nX-A: b"} {
		ev.Trace = bad
		if got, ok := buildAt(t, Target{Name: "a", URL: mustURL(t, "http://a/")}, ev, "x", time.Now()).Header["Traceparent"]; ok {
			t.Errorf("trace %q was sent as %q", bad, got)
		}
	}
}

// collect keeps the spans that a recorder exports.
type collect struct {
	mu    sync.Mutex
	spans []*otlp.Span
}

func (c *collect) RoundTrip(req *http.Request) (*http.Response, error) {
	b, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	var data otlp.TracesData
	if err := proto.Unmarshal(b, &data); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.spans = append(c.spans, data.ResourceSpans[0].ScopeSpans[0].Spans...)
	return &http.Response{StatusCode: 200, Body: http.NoBody}, nil
}

// Every attempt is recorded under the span that the target was told, below the
// event's, with what came of it; an event whose trace is not sampled is not.
func TestAttemptSpans(t *testing.T) {
	t.Parallel()
	c := &collect{}
	rec, err := trace.New(trace.Config{Endpoint: "http://collector", Sample: 1, Transport: c})
	if err != nil {
		t.Fatal(err)
	}
	told := make(chan string, 8)
	var n int
	url := newServer(t, func(w http.ResponseWriter, req *http.Request, _ string) {
		told <- req.Header.Get("Traceparent")
		if n++; n == 1 {
			w.WriteHeader(503)
		}
	})
	r := newRig(t, func(cfg *Config) { cfg.Spans = rec })
	r.run(Target{Name: "a", URL: mustURL(t, url), Schedule: fast, Concurrency: 1})
	const traced = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0"
	ref := r.admit(event.Event{Source: "shop", ID: "evt_1", Type: "x", Targets: []string{"a"}, Trace: traced + "1"}, "one")
	r.closed(ref, "a")
	r.closed(r.admit(event.Event{Source: "shop", ID: "evt_2", Type: "x", Targets: []string{"a"}, Trace: traced + "0"}, "two"), "a")
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	stopped, cancel := context.WithCancel(context.Background())
	cancel()
	if err := rec.Run(stopped); err != nil { // exports what is left
		t.Fatal(err)
	}
	if len(c.spans) != 2 {
		t.Fatalf("%d spans, want one for each of two attempts", len(c.spans))
	}
	root, _ := trace.Parse(traced + "1")
	for i, s := range c.spans {
		sent, ok := trace.Parse(<-told)
		if !ok || string(s.SpanId) != string(sent.Span[:]) || string(s.TraceId) != string(root.Trace[:]) || string(s.ParentSpanId) != string(root.Span[:]) {
			t.Errorf("span %d is %x below %x, the target was told %v", i, s.SpanId, s.ParentSpanId, sent)
		}
		attrs := map[string]string{}
		for _, a := range s.Attributes {
			attrs[a.Key] = a.Value.GetStringValue()
			if v := a.Value.GetIntValue(); v != 0 {
				attrs[a.Key] = time.Duration(v).String()
			}
		}
		want := map[string]string{
			"http.request.method": "POST", "server.address": "127.0.0.1", "http.response.status_code": "503ns", "error.type": "5xx", "onceward.target": "a",
			"onceward.source": "shop", "onceward.event": ref.String(), "onceward.delivery": ref.String() + ".a.0", "onceward.attempt": "1ns", "onceward.state": "pending",
			"cloudevents.event_id": "evt_1", "cloudevents.event_type": "x",
		}
		failed := true
		if i == 1 {
			want["http.response.status_code"], want["onceward.attempt"], want["onceward.state"], want["http.request.resend_count"] = "200ns", "2ns", "delivered", "1ns"
			delete(want, "error.type")
			failed = false
		}
		if len(attrs) != len(want) {
			t.Errorf("span %d has %v, want %v", i, attrs, want)
		}
		for k, v := range want {
			if attrs[k] != v {
				t.Errorf("span %d: %s = %q, want %q", i, k, attrs[k], v)
			}
		}
		if s.Name != "deliver a" || s.Kind != otlp.Span_SPAN_KIND_CLIENT || (s.Status != nil) != failed || s.EndTimeUnixNano <= s.StartTimeUnixNano {
			t.Errorf("span %d: %v", i, s)
		}
	}
}
