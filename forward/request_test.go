package forward

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

var testRef = event.NewRef(1_796_000_000_000, 7, 0xabcdef)

func testEvent() *event.Event {
	return &event.Event{
		Ref: testRef, Source: "shop", ID: "evt_1", Type: "order.paid", Key: "shop:evt_1", Method: http.MethodPost,
		ReceivedAt: time.Date(2026, 11, 30, 13, 0, 0, 120, time.FixedZone("CET", 3600)),
		Trace:      "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
	}
}

// build makes the request of the third attempt.
func build(tb testing.TB, t Target, ev *event.Event, body string) *http.Request {
	tb.Helper()
	if t.URL == nil {
		t.URL = mustURL(tb, "http://app.internal/hook")
	}
	t.Name = "a"
	t, err := t.normal()
	if err != nil {
		tb.Fatal(err)
	}
	d := event.Delivery{Event: ev.Ref, Target: "a", Generation: 1, Attempts: 2}
	return newBuilder(&t, "1.2.3").build(context.Background(), d, dedupe.Loaded{Event: ev, Body: []byte(body)}, time.Unix(1_700_000_000, 0))
}

func TestRequestHeaders(t *testing.T) {
	t.Parallel()
	ev := testEvent()
	ev.Header = []event.Field{{Name: "content-type", Value: "application/json"}, {Name: "X-Many", Value: "1"}, {Name: "x-many", Value: "2"}}
	ev.Flags = event.FlagTest
	req := build(t, Target{Headers: map[string]Secret{"authorization": "Bearer abc"}}, ev, "{}")
	want := http.Header{
		"Idempotency-Key":      {"shop:evt_1"},
		"Onceward-Event":       {testRef.String()},
		"Onceward-Source":      {"shop"},
		"Onceward-Event-Id":    {"evt_1"},
		"Onceward-Event-Type":  {"order.paid"},
		"Onceward-Delivery":    {testRef.String() + ".a.1"},
		"Onceward-Attempt":     {"3"},
		"Onceward-Received-At": {"2026-11-30T12:00:00.000000120Z"},
		"Onceward-Test":        {"true"},
		"Traceparent":          req.Header["Traceparent"],
		"User-Agent":           {"Onceward/1.2.3"},
		"Authorization":        {"Bearer abc"},
		"Content-Type":         {"application/json"},
		"X-Many":               {"1", "2"},
	}
	if len(req.Header) != len(want) {
		t.Errorf("%d headers %v, want %d", len(req.Header), req.Header, len(want))
	}
	for k, v := range want {
		if got := req.Header[k]; !slices.Equal(got, v) {
			t.Errorf("%s = %q, want %q", k, got, v)
		}
	}
	if req.Method != http.MethodPost || req.URL.String() != "http://app.internal/hook" || req.ContentLength != 2 || req.GetBody != nil {
		t.Errorf("request = %s %s, length %d", req.Method, req.URL, req.ContentLength)
	}
}

// What a sender sends reaches the target only where it may, and never in the
// place of what the gateway says.
func TestSenderCantOverride(t *testing.T) {
	t.Parallel()
	const evil = "sender-says"
	for _, name := range []string{
		"Idempotency-Key", "idempotency-key", "X-Idempotency-Key", "IDEMPOTENCY-KEY", "Idempotency_Key",
		"Onceward-Event", "onceward-event", "Onceward-Source", "Onceward-Event-Id", "Onceward-Event-Type", "Onceward-Delivery",
		"Onceward-Attempt", "Onceward-Received-At", "Onceward-Test", "onceward-anything", "ONCEWARD-X", "Onceward_Event",
		"Traceparent", "traceparent", "Tracestate", "Baggage",
		"Connection", "Keep-Alive", "Proxy-Connection", "Proxy-Authorization", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "Expect",
		"Host", "Content-Length", "Cookie", "Set-Cookie", "Accept-Encoding", "X_Forwarded_User", "X-Auth_User",
		"Bad Name", "Bad:Name", "Bad\r\nName", "", "Naïve", "X-Hop",
	} {
		ev := testEvent()
		ev.ID, ev.Type, ev.Trace = "", "", ""
		ev.Header = []event.Field{{Name: name, Value: evil}, {Name: "connection", Value: "close, x-hop"}, {Name: "X-Good", Value: "good"}}
		req := build(t, Target{}, ev, "{}")
		for k, vals := range req.Header {
			if slices.Contains(vals, evil) {
				t.Errorf("%q reached the target as %q", name, k)
			}
		}
		if got := req.Header.Get("X-Good"); got != "good" {
			t.Errorf("with %q: X-Good = %q, want good", name, got)
		}
		if got := req.Header.Get("Idempotency-Key"); got != "shop:evt_1" {
			t.Errorf("with %q: key = %q", name, got)
		}
		if req.Host != "app.internal" || req.Close || len(req.TransferEncoding) != 0 {
			t.Errorf("with %q: host %q, close %v, encoding %q", name, req.Host, req.Close, req.TransferEncoding)
		}
	}
	for _, value := range []string{"a\r\nOnceward-Test: true", "a\nb", "a\x00b", "a\rb", "a\x7fb"} {
		ev := testEvent()
		ev.Header = []event.Field{{Name: "X-A", Value: value}}
		if got, ok := build(t, Target{}, ev, "{}").Header["X-A"]; ok {
			t.Errorf("value %q passed as %q", value, got)
		}
	}
}

func TestSignedRequest(t *testing.T) {
	t.Parallel()
	sender := []event.Field{
		{Name: "webhook-id", Value: "sender"}, {Name: "webhook-timestamp", Value: "sender"},
		{Name: "webhook-signature", Value: "sender"}, {Name: "webhook-extra", Value: "sender"},
	}
	ev := testEvent()
	ev.Header = sender
	plain := build(t, Target{}, ev, "{}")
	for _, f := range sender {
		if got := plain.Header.Get(f.Name); got != "sender" {
			t.Errorf("unsigned: %s = %q, want the sender's", f.Name, got)
		}
	}
	second := "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
	req := build(t, Target{Signing: []SigningSecret{mustSecret(t, testSecret), mustSecret(t, second)}}, ev, "{}")
	id := testRef.String()
	want := wantSignature(t, testSecret, id, "1700000000", "{}") + " " + wantSignature(t, second, id, "1700000000", "{}")
	for name, want := range map[string]string{"Webhook-Id": id, "Webhook-Timestamp": "1700000000", "Webhook-Signature": want, "Webhook-Extra": ""} {
		if got := req.Header.Get(name); got != want {
			t.Errorf("signed: %s = %q, want %q", name, got, want)
		}
	}
}

func TestHeaderValues(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ id, want string }{
		{"evt_1", "evt_1"},
		{"a b", "a%20b"},
		{"100%", "100%25"},
		{"a\r\nOnceward-Test: true", "a%0D%0AOnceward-Test:%20true"},
		{"naïve", "na%C3%AFve"},
		{"\xff\x00", "%FF%00"},
		{"日本", "%E6%97%A5%E6%9C%AC"},
	} {
		ev := testEvent()
		ev.ID, ev.Type = tt.id, tt.id
		req := build(t, Target{}, ev, "{}")
		for _, name := range []string{headerEventID, headerType} {
			got := req.Header.Get(name)
			if got != tt.want {
				t.Errorf("%s of %q = %q, want %q", name, tt.id, got, tt.want)
			}
			if back, err := url.PathUnescape(got); err != nil || back != tt.id {
				t.Errorf("%s of %q reads back as %q, %v", name, tt.id, back, err)
			}
		}
	}
	ev := testEvent()
	ev.ID, ev.Type, ev.Trace = "", "", ""
	req := build(t, Target{}, ev, "{}")
	for _, name := range []string{headerEventID, headerType, headerTrace, headerTest} {
		if got, ok := req.Header[name]; ok {
			t.Errorf("%s = %q, want none", name, got)
		}
	}
}

func FuzzRequestHeaders(f *testing.F) {
	f.Add("evt", "type", "X-A", "v", "a=1")
	f.Add("a\r\nb", "\x00", "Onceward-Event", "x\ny", "a b#\x01\xff")
	f.Fuzz(func(t *testing.T, id, kind, name, value, query string) {
		ev := testEvent()
		ev.ID, ev.Type, ev.Key, ev.Query = id, kind, id, query
		ev.Header = []event.Field{{Name: name, Value: value}}
		req := build(t, Target{}, ev, "{}")
		for k, vals := range req.Header {
			if !httpguts.ValidHeaderFieldName(k) || strings.Contains(k, "_") {
				t.Errorf("header name %q", k)
			}
			for _, v := range vals {
				if !httpguts.ValidHeaderFieldValue(v) {
					t.Errorf("%s = %q", k, v)
				}
			}
		}
		if got := req.Header.Get(headerEvent); got != testRef.String() {
			t.Errorf("%s = %q", headerEvent, got)
		}
		if uri := req.URL.RequestURI(); strings.ContainsFunc(uri, func(r rune) bool { return r <= ' ' || r == 0x7f || r == '#' }) {
			t.Errorf("request target %q", uri)
		}
	})
}

func TestRequestURL(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ target, query, want string }{
		{"http://a/hook", "", "/hook"},
		{"http://a", "", "/"},
		{"http://a/hook", "a=1", "/hook?a=1"},
		{"http://a/hook?own=x", "", "/hook?own=x"},
		{"http://a/hook?own=x", "a=1&a=2", "/hook?own=x&a=1&a=2"},
		{"http://a/hook", "a=%2F+b%20c&&=&;x", "/hook?a=%2F+b%20c&&=&;x"},
		{"http://a/hook", "\xff\xfe=é", "/hook?\xff\xfe=é"},
		{"http://a/hook", "a b\r\n#c", "/hook?a%20b%0D%0A%23c"},
		{"http://a/a%2Fb/../c", "", "/a%2Fb/../c"},
	} {
		ev := testEvent()
		ev.Query, ev.Path = tt.query, "/ignored"
		if got := build(t, Target{URL: mustURL(t, tt.target)}, ev, "{}").URL.RequestURI(); got != tt.want {
			t.Errorf("%s with %q = %q, want %q", tt.target, tt.query, got, tt.want)
		}
	}
}

func TestRequestMethod(t *testing.T) {
	t.Parallel()
	for method, want := range map[string]string{"": "POST", "POST": "POST", "PUT": "PUT", "GET": "GET", "PATCH": "PATCH"} {
		ev := testEvent()
		ev.Method = method
		if got := build(t, Target{}, ev, "{}").Method; got != want {
			t.Errorf("method of %q = %s, want %s", method, got, want)
		}
	}
}

// A request without a body leaves Go's transport, which speaks TLS, nothing to
// find out by reading, and nothing to send again.
func TestEmptyRequest(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		method string
		safe   bool
	}{{"POST", false}, {"PUT", false}, {"DELETE", false}, {"PATCH", false}, {"GET", true}, {"HEAD", true}, {"OPTIONS", true}} {
		ev := testEvent()
		ev.Method = tt.method
		req := build(t, Target{URL: mustURL(t, "https://a/")}, ev, "")
		_, canonical := req.Header["Idempotency-Key"]
		_, lower := req.Header[strings.ToLower(headerKey)]
		none := req.Body == http.NoBody
		if none == tt.safe || canonical != tt.safe || lower == tt.safe || slices.Equal(req.TransferEncoding, []string{"identity"}) != tt.safe || req.GetBody != nil {
			t.Errorf("%s: no body %v, key %v, in lower case %v, encoding %q", tt.method, none, canonical, lower, req.TransferEncoding)
		}
	}
}

func TestTargetChecks(t *testing.T) {
	t.Parallel()
	good := func() Target { return Target{Name: "a", URL: mustURL(t, "http://a/hook")} }
	for _, tt := range []struct {
		name string
		edit func(*Target)
		want string // part of the error; "" for none
	}{
		{"good", func(*Target) {}, ""},
		{"https", func(t *Target) { t.URL.Scheme = "https" }, ""},
		{"no name", func(t *Target) { t.Name = "" }, "no name"},
		{"no URL", func(t *Target) { t.URL = nil }, "absolute"},
		{"relative", func(t *Target) { t.URL = &url.URL{Path: "/x"} }, "absolute"},
		{"no host name", func(t *Target) { t.URL.Host = ":80" }, "absolute"},
		{"ftp", func(t *Target) { t.URL.Scheme = "ftp" }, "scheme"},
		{"user info", func(t *Target) { t.URL.User = url.UserPassword("u", "s3cret") }, "user info"},
		{"fragment", func(t *Target) { t.URL.Fragment = "x" }, "fragment"},
		{"timeout", func(t *Target) { t.Timeout = -1 }, "timeout"},
		{"long timeout", func(t *Target) { t.Timeout = time.Hour }, "timeout"},
		{"concurrency", func(t *Target) { t.Concurrency = 5000 }, "concurrency"},
		{"factor", func(t *Target) { t.Schedule.Factor = 0.5 }, "schedule"},
		{"max below initial", func(t *Target) { t.Schedule = Schedule{Initial: time.Minute, Max: time.Second} }, "schedule"},
		{"give-up", func(t *Target) { t.GiveUp = -1 }, "give-up"},
		{"status", func(t *Target) { t.RetryOn = []int{200} }, "status 200"},
		{"both", func(t *Target) { t.RetryOn, t.DeadOn = []int{404}, []int{404} }, "named twice"},
		{"our header", func(t *Target) { t.Headers = map[string]Secret{"onceward-event": "s3cret"} }, "set by the gateway"},
		{"key header", func(t *Target) { t.Headers = map[string]Secret{"idempotency-key": "s3cret"} }, "set by the gateway"},
		{"header name", func(t *Target) { t.Headers = map[string]Secret{"a b": "s3cret"} }, "not a header name"},
		{"header value", func(t *Target) { t.Headers = map[string]Secret{"A": "s3cret\n"} }, "control"},
		{"webhook header", func(t *Target) { t.Headers = map[string]Secret{"Webhook-Id": "x"} }, ""},
		{"webhook header, signed", func(t *Target) {
			t.Headers, t.Signing = map[string]Secret{"Webhook-Id": "x"}, []SigningSecret{{key: make([]byte, 24)}}
		}, "set by the gateway"},
		{"empty secret", func(t *Target) { t.Signing = []SigningSecret{{}} }, "empty secret"},
	} {
		tgt := good()
		tt.edit(&tgt)
		_, err := tgt.normal()
		switch {
		case tt.want == "" && err != nil:
			t.Errorf("%s: %v, want none", tt.name, err)
		case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		case err != nil && strings.Contains(err.Error(), "s3cret"):
			t.Errorf("%s: error holds a secret: %v", tt.name, err)
		}
	}
	f := newRig(t, nil).f
	former := good()
	former.Name, former.Former = "b", []string{"a"}
	if err := f.SetTargets([]Target{good(), former}); err == nil || !strings.Contains(err.Error(), `"a" is given twice`) {
		t.Errorf("a name that is also a former one: %v", err)
	}
	if got := f.Status(); len(got) != 0 {
		t.Errorf("a refused set left %v", got)
	}
}
