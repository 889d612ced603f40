package trace

import (
	"context"
	"encoding/hex"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestContext(t *testing.T) {
	t.Parallel()
	const text = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	c, ok := Parse(text)
	if !ok || !c.Sampled || hex.EncodeToString(c.Trace[:]) != text[3:35] || hex.EncodeToString(c.Span[:]) != text[36:52] || c.String() != text {
		t.Errorf("%q read as %+v, %v and written as %q", text, c, ok, c)
	}
	for _, good := range []string{
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-ff",
		"cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-what-the-future-brings",
	} {
		if _, ok := Parse(good); !ok {
			t.Errorf("%q was refused", good)
		}
	}
	for _, bad := range []string{
		"", "00", text[:54], text + "-x", text + "x", "ff" + text[2:], "00-00000000000000000000000000000000-b7ad6b7169203331-01",
		"00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01", strings.ToUpper(text), "00-0af7651916cd43dd8448eb211c80319g-b7ad6b7169203331-01",
		"cc" + text[2:] + "x", "00_0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "0 -0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0g",
	} {
		if c, ok := Parse(bad); ok || !c.IsZero() {
			t.Errorf("%q was taken as %+v", bad, c)
		}
	}
	seen := map[SpanID]bool{}
	for range 1000 {
		c := NewRoot(true)
		if c.IsZero() || seen[c.Span] {
			t.Fatalf("root %v is zero or was given before", c)
		}
		seen[c.Span] = true
	}
	if kid := c.Child(); kid.Trace != c.Trace || kid.Span == c.Span || !kid.Sampled {
		t.Errorf("child %v of %v", kid, c)
	}
	a, b := c.ChildOf("d.1", 5), c.ChildOf("d.1", 5)
	if a != b || a == c || a == c.ChildOf("d.1", 6) || a == c.ChildOf("d.2", 5) || a.Trace != c.Trace {
		t.Errorf("children %v and %v", a, b)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	f.Add("cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-x")
	f.Fuzz(func(t *testing.T, s string) {
		c, ok := Parse(s)
		if !ok {
			return
		}
		if again, ok := Parse(c.String()); !ok || again != c || c.String()[3:52] != s[3:52] {
			t.Errorf("%q read as %v", s, c)
		}
	})
}

// collector is an OTLP receiver that keeps what it gets.
type collector struct {
	mu     sync.Mutex
	spans  []*otlp.Span
	posts  int
	header http.Header
	path   string
	answer func(post int) (status int, retryAfter string)
}

func (c *collector) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	b, err := io.ReadAll(req.Body)
	var data otlp.TracesData
	if err == nil {
		err = proto.Unmarshal(b, &data)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.posts++
	c.header, c.path = req.Header, req.URL.Path
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	if c.answer != nil {
		if status, after := c.answer(c.posts); status != 200 {
			w.Header().Set("Retry-After", after)
			w.WriteHeader(status)
			return
		}
	}
	for _, rs := range data.ResourceSpans {
		for _, ss := range rs.ScopeSpans {
			c.spans = append(c.spans, ss.Spans...)
		}
	}
}

// transport calls the collector without a network, so that tests may run on a
// synthetic clock.
func (c *collector) RoundTrip(req *http.Request) (*http.Response, error) {
	rec := httptest.NewRecorder()
	c.ServeHTTP(rec, req)
	return rec.Result(), nil
}

// got is how many posts and spans there were.
func (c *collector) got() (posts, spans int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.posts, len(c.spans)
}

// count is one of the counters.
func count(t *testing.T, reg *prometheus.Registry, result string) float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil || len(families) != 1 {
		t.Fatalf("%v, %v", families, err)
	}
	for _, m := range families[0].GetMetric() {
		if m.GetLabel()[0].GetValue() == result {
			return m.GetCounter().GetValue()
		}
	}
	t.Fatalf("no result %q", result)
	return 0
}

func span(n int64) *Span {
	s := &Span{Name: "deliver app", Kind: Client, Context: NewRoot(true), Start: time.Unix(1, 0), End: time.Unix(2, 5)}
	s.Num("n", n)
	return s
}

// run starts a recorder and returns how to stop it.
func run(t *testing.T, cfg Config) (r *Recorder, stop func()) {
	t.Helper()
	r, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	return r, sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

// A span arrives over HTTP as the protocol has it, with all that it holds.
func TestExport(t *testing.T) {
	t.Parallel()
	c := &collector{}
	srv := httptest.NewServer(c)
	t.Cleanup(srv.Close)
	r, stop := run(t, Config{Endpoint: srv.URL + "/base/", Sample: 1, Service: "onceward", Version: "1.2", Headers: map[string]string{"X-Token": "tok"}})
	s := &Span{Name: "POST /in/{source}", Kind: Server, Context: NewRoot(true), Parent: SpanID{1}, Link: NewRoot(false), Start: time.Unix(1, 0), End: time.Unix(2, 5), Error: "refused"}
	s.Text("a", "x\xffy")
	s.Text("none", "")
	s.Num("n", -3)
	r.Record(s)
	r.Record(&Span{Context: NewRoot(false)}) // not sampled
	stop()
	if _, n := c.got(); n != 1 {
		t.Fatalf("%d spans, want 1", n)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.spans[0]
	if m.Name != s.Name || m.Kind != otlp.Span_SPAN_KIND_SERVER || string(m.TraceId) != string(s.Context.Trace[:]) || string(m.SpanId) != string(s.Context.Span[:]) ||
		string(m.ParentSpanId) != string(s.Parent[:]) || m.StartTimeUnixNano != 1e9 || m.EndTimeUnixNano != 2e9+5 || len(m.Links) != 1 ||
		string(m.Links[0].TraceId) != string(s.Link.Trace[:]) || m.Status.GetCode() != otlp.Status_STATUS_CODE_ERROR || m.Status.GetMessage() != "refused" {
		t.Errorf("span %v", m)
	}
	if len(m.Attributes) != 2 || m.Attributes[0].Value.GetStringValue() != "x\uFFFDy" || m.Attributes[1].Value.GetIntValue() != -3 {
		t.Errorf("attributes %v", m.Attributes)
	}
	if c.path != "/base/v1/traces" || c.header.Get("Content-Type") != "application/x-protobuf" || c.header.Get("X-Token") != "tok" {
		t.Errorf("posted to %s with %v", c.path, c.header)
	}
}

// Spans leave after five seconds, or when a batch is full.
func TestBatches(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &collector{}
		r, stop := run(t, Config{Endpoint: "http://collector", Sample: 1, Transport: c})
		defer stop()
		for i := range int64(batchSize + 10) {
			r.Record(span(i))
		}
		synctest.Wait()
		if posts, n := c.got(); posts != 1 || n != batchSize {
			t.Errorf("%d posts of %d spans, want one full batch at once", posts, n)
		}
		time.Sleep(every)
		synctest.Wait()
		if posts, n := c.got(); posts != 2 || n != batchSize+10 {
			t.Errorf("%d posts of %d spans, want the rest after %v", posts, n, every)
		}
	})
}

// A collector that never answers costs who records nothing: what finds no room
// is dropped and counted, and a stop waits for seconds, not for ever.
func TestNeverWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewRegistry()
		r, stop := run(t, Config{Endpoint: "http://collector", Sample: 1, Registerer: reg, Transport: hanging{}})
		began := time.Now()
		const n = 10_000
		for i := range int64(n) {
			r.Record(span(i))
			if i == batchSize-1 {
				synctest.Wait() // the first batch hangs at the collector
			}
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("recording took %v", took)
		}
		if got := count(t, reg, "dropped"); got != n-batchSize-queueSize {
			t.Errorf("%v dropped, want %d", got, n-batchSize-queueSize)
		}
		stop()
		if took := time.Since(began); took > 2*lastWords {
			t.Errorf("the stop took %v", took)
		}
		if sum := count(t, reg, "dropped") + count(t, reg, "failed") + count(t, reg, "exported"); sum != n {
			t.Errorf("%v spans are accounted for, want %d", sum, n)
		}
	})
}

type hanging struct{}

func (hanging) RoundTrip(req *http.Request) (*http.Response, error) {
	<-req.Context().Done()
	return nil, req.Context().Err()
}

// What the collector asks for again is sent again, after the pause it asks for;
// what it would never take is not.
func TestRetries(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name             string
		answer           func(post int) (int, string)
		posts            int
		exported, failed float64
		least            time.Duration
	}{
		{"busy once", func(p int) (int, string) { return map[bool]int{true: 503, false: 200}[p == 1], "7" }, 2, 1, 0, 7 * time.Second},
		{"asks for too long", func(p int) (int, string) { return map[bool]int{true: 429, false: 200}[p == 1], "86400" }, 2, 1, 0, maxPause},
		{"asks for nothing sensible", func(p int) (int, string) { return map[bool]int{true: 429, false: 200}[p == 1], "-5" }, 2, 1, 0, time.Second},
		{"busy for ever", func(int) (int, string) { return 502, "" }, tries, 0, 1, 3 * time.Second},
		{"never", func(int) (int, string) { return 400, "" }, 1, 0, 1, 0},
		{"redirect", func(int) (int, string) { return 307, "" }, 1, 0, 1, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c, reg := &collector{answer: tt.answer}, prometheus.NewRegistry()
				r, stop := run(t, Config{Endpoint: "http://collector", Sample: 1, Transport: c, Registerer: reg})
				defer stop()
				r.Record(span(1))
				time.Sleep(every)
				synctest.Wait()
				began := time.Now()
				for posts := 0; posts < tt.posts; posts, _ = c.got() {
					time.Sleep(time.Second)
				}
				if took := time.Since(began); took < tt.least {
					t.Errorf("the last try came after %v, want at least %v", took, tt.least)
				}
				time.Sleep(time.Minute)
				if posts, _ := c.got(); posts != tt.posts || count(t, reg, "exported") != tt.exported || count(t, reg, "failed") != tt.failed {
					t.Errorf("%d posts, %v exported, %v failed; want %+v", posts, count(t, reg, "exported"), count(t, reg, "failed"), tt)
				}
			})
		})
	}
}

// A stop exports what is left.
func TestStopExports(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &collector{}
		r, stop := run(t, Config{Endpoint: "http://collector", Sample: 1, Transport: c})
		for i := range int64(2*batchSize + 3) {
			r.Record(span(i))
		}
		began := time.Now()
		stop()
		if _, n := c.got(); n != 2*batchSize+3 || time.Since(began) != 0 {
			t.Errorf("%d spans after %v, want all at once", n, time.Since(began))
		}
	})
}

func TestSample(t *testing.T) {
	t.Parallel()
	var none *Recorder
	none.Record(span(1))
	if none.On() || !none.Root().Sampled {
		t.Error("without a recorder nothing is on, and roots are sampled")
	}
	for _, share := range []float64{0, 0.1, 0.5, 1} {
		r, err := New(Config{Endpoint: "http://c", Sample: share})
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		const all = 20_000
		for range all {
			c := r.Root()
			if c.Sampled {
				n++
			}
			if r.Sampled(c.Trace) != c.Sampled {
				t.Fatal("two decisions about one trace differ")
			}
		}
		if got := float64(n) / all; math.Abs(got-share) > 0.02 || (share == 0 || share == 1) && got != share {
			t.Errorf("%v of all, want %v", got, share)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []Config{
		{}, {Endpoint: "collector:4318"}, {Endpoint: "ftp://c"}, {Endpoint: "http://u:canary@c"}, {Endpoint: "http://c?token=canary"}, {Endpoint: "http:///x"},
		{Endpoint: "http://c", Sample: -0.1}, {Endpoint: "http://c", Sample: 1.1}, {Endpoint: "http://c", Sample: math.NaN()},
	} {
		if _, err := New(c); err == nil || strings.Contains(err.Error(), "canary") {
			t.Errorf("%+v: %v", c, err)
		}
	}
	for text, want := range map[string]string{"http://c": "http://c/v1/traces", "http://c/": "http://c/v1/traces", "https://c:1/x/v1/traces": "https://c:1/x/v1/traces"} {
		if u, err := ParseEndpoint(text); err != nil || u.String() != want {
			t.Errorf("%s: %v, %v; want %s", text, u, err, want)
		}
	}
}

// The way of a context through an attempt costs no memory but the text.
func TestContextAllocates(t *testing.T) {
	const text = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	var out string
	n := testing.AllocsPerRun(100, func() {
		c, _ := Parse(text)
		out = c.ChildOf("01ARZ3NDEKTSV4RRFFQ69G5FAV.billing.0", 1_700_000_000_000_000_000).String()
	})
	if n > 1 || out == "" {
		t.Errorf("%v allocations, want 1", n)
	}
}

// BenchmarkRecord is what a span costs who records it: nothing without a
// recorder.
func BenchmarkRecord(b *testing.B) {
	on, err := New(Config{Endpoint: "http://c", Sample: 1})
	if err != nil {
		b.Fatal(err)
	}
	s := span(1)
	for name, r := range map[string]*Recorder{"off": nil, "full": on} {
		b.Run(name, func(b *testing.B) {
			var n atomic.Int64
			for b.Loop() {
				r.Record(s)
				n.Add(1)
			}
		})
	}
}
