package forward

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/onceward/onceward/event"
)

func TestHeaderLists(t *testing.T) {
	t.Parallel()
	sender := []event.Field{
		{Name: "Content-Type", Value: "application/json"}, {Name: "Content-Encoding", Value: "gzip"}, {Name: "User-Agent", Value: "Stripe/1.0"},
		{Name: "Stripe-Signature", Value: "t=1,v1=x"}, {Name: "X-Github-Event", Value: "push"}, {Name: "X-Github-Delivery", Value: "d1"},
		{Name: "Authorization", Value: "Bearer sender"}, {Name: "Cookie", Value: "a=b"}, {Name: "Onceward-Event", Value: "evil"},
		{Name: "X_Under", Value: "evil"}, {Name: "Te", Value: "trailers"},
	}
	body := []string{"Content-Encoding", "Content-Type"}
	for _, tt := range []struct {
		name        string
		allow, deny []string
		want        []string
	}{
		{"none", nil, nil, append(slices.Clone(body), "Stripe-Signature", "User-Agent", "X-Github-Delivery", "X-Github-Event")},
		{"allow one", []string{"stripe-signature"}, nil, append(slices.Clone(body), "Stripe-Signature")},
		{"allow a beginning", []string{"x-github-*"}, nil, append(slices.Clone(body), "X-Github-Delivery", "X-Github-Event")},
		{"allow all is what may pass", []string{"*"}, nil, append(slices.Clone(body), "Stripe-Signature", "User-Agent", "X-Github-Delivery", "X-Github-Event")},
		{"deny one", nil, []string{"STRIPE-signature"}, append(slices.Clone(body), "User-Agent", "X-Github-Delivery", "X-Github-Event")},
		{"deny wins", []string{"X-Github-*"}, []string{"x-github-delivery"}, append(slices.Clone(body), "X-Github-Event")},
		{"deny what describes the body", nil, []string{"content-*", "x-*", "stripe-*"}, []string{"User-Agent"}},
		{"deny all", nil, []string{"*"}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			ev := testEvent()
			ev.Header = sender
			req := build(t, Target{Shape: Shape{HeadersAllow: tt.allow, HeadersDeny: tt.deny}}, ev, "{}")
			var got []string
			for key, vals := range req.Header {
				if slices.ContainsFunc(sender, func(f event.Field) bool { return slices.Contains(vals, f.Value) }) {
					got = append(got, key)
				}
			}
			slices.Sort(got)
			if !slices.Equal(got, tt.want) {
				t.Errorf("passed %q, want %q", got, tt.want)
			}
			if req.Header.Get("Idempotency-Key") != "shop:evt_1" || req.Header.Get("Onceward-Event") != testRef.String() {
				t.Errorf("the gateway's own headers are %v", req.Header)
			}
		})
	}
	for _, p := range []string{"Authorization", "cookie", "Connection", "Idempotency-Key", "Onceward-Event", "traceparent", "x_a", "a b", "", "x*y", "Host"} {
		if err := CheckHeaderPattern(p); err == nil {
			t.Errorf("pattern %q was taken", p)
		}
	}
}

func TestMethodOverride(t *testing.T) {
	t.Parallel()
	if got := build(t, Target{Shape: Shape{Method: "PUT"}}, testEvent(), "{}").Method; got != "PUT" {
		t.Errorf("method %q, want PUT", got)
	}
	_, err := (Target{Name: "a", URL: mustURL(t, "http://a/"), Shape: Shape{Method: "CONNECT"}}).normal()
	if err == nil || !strings.Contains(err.Error(), "PATCH") {
		t.Errorf("CONNECT: %v, want an error that names the methods", err)
	}
}

// cloudEvent reads a request as the HTTP binding of CloudEvents 1.0 has it, in
// binary mode: attributes are headers with the prefix ce-, percent-decoded;
// the media type is Content-Type.
func cloudEvent(t *testing.T, h http.Header) map[string]string {
	t.Helper()
	out := map[string]string{"datacontenttype": h.Get("Content-Type")}
	for key, vals := range h {
		name, ok := strings.CutPrefix(strings.ToLower(key), "ce-")
		if !ok {
			continue
		}
		if len(vals) != 1 || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789") != "" {
			t.Errorf("attribute %q = %q", name, vals)
			continue
		}
		out[name] = percentDecode(t, vals[0])
	}
	return out
}

// percentDecode is the decoding of the binding, byte by byte.
func percentDecode(t *testing.T, s string) string {
	t.Helper()
	var out []byte
	for i := 0; i < len(s); i++ {
		if s[i] <= ' ' || s[i] >= 0x7f || s[i] == '"' {
			t.Errorf("%q is not encoded", s)
		}
		if s[i] != '%' {
			out = append(out, s[i])
			continue
		}
		var b byte
		if _, err := fmt.Sscanf(s[i+1:i+3], "%02X", &b); err != nil {
			t.Fatalf("%q: %v", s, err)
		}
		out, i = append(out, b), i+2
	}
	return string(out)
}

func TestCloudEvents(t *testing.T) {
	t.Parallel()
	shape := Shape{CloudEvents: true}
	ev := testEvent()
	ev.Header = []event.Field{{Name: "content-type", Value: "application/json; charset=utf-8"}, {Name: "Ce-Id", Value: "evil"}, {Name: "ce-extra", Value: "evil"}}
	for _, typ := range []string{"order.paid", `a "b" 100% é日`, ""} {
		ev.Type = typ
		req := build(t, Target{Shape: shape}, ev, `{"a":1}`)
		want := map[string]string{
			"specversion": "1.0", "id": testRef.String(), "source": "/onceward/shop", "type": typ, "time": "2026-11-30T12:00:00.00000012Z",
			"datacontenttype": "application/json; charset=utf-8",
		}
		if typ == "" {
			want["type"] = "onceward.event"
		}
		if got := cloudEvent(t, req.Header); !reflect.DeepEqual(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		if at, err := time.Parse(time.RFC3339, req.Header.Get("Ce-Time")); err != nil || !at.Equal(ev.ReceivedAt) {
			t.Errorf("time %v, %v; want %v", at, err, ev.ReceivedAt)
		}
		if req.ContentLength != 7 || req.Header.Get("Idempotency-Key") != "shop:evt_1" {
			t.Errorf("body of %d bytes under %q", req.ContentLength, req.Header.Get("Idempotency-Key"))
		}
	}
	if got := build(t, Target{}, ev, "{}").Header.Get("Ce-Extra"); got != "evil" {
		t.Errorf("as it came: ce-extra %q, want the sender's", got)
	}
	if _, err := (Target{Name: "a", URL: mustURL(t, "http://a/"), Shape: shape, Headers: map[string]Secret{"ce-id": "x"}}).normal(); err == nil {
		t.Error("a target's own ce-id was taken")
	}
}

// Whatever the shape, the event and its bytes stay what they are, and the bytes
// go out as they are.
func TestShapesChangeNoEvent(t *testing.T) {
	t.Parallel()
	bodies := make(chan string, 8)
	srv := newServer(t, func(w http.ResponseWriter, req *http.Request, body string) { bodies <- req.Method + " " + body })
	shapes := []Shape{{}, {CloudEvents: true}, {Method: "PUT"}, {HeadersDeny: []string{"*"}}, {HeadersAllow: []string{"x-a"}, CloudEvents: true, Method: "PATCH"}}
	var ts []Target
	ev := event.Event{Source: "shop", ID: "1", Type: "x", Method: "POST", Query: "a=1&a=2", Header: []event.Field{{Name: "X-A", Value: "1"}, {Name: "Ce-Id", Value: "2"}}}
	for i, s := range shapes {
		name := fmt.Sprintf("t%d", i)
		ev.Targets = append(ev.Targets, name)
		ts = append(ts, Target{Name: name, URL: mustURL(t, srv), Schedule: fast, Shape: s})
	}
	r := newRig(t, nil)
	const body = "{\"n\":1152921504606851679, \"n\" : 1 }\r\n\x00\xff"
	ref := r.admit(ev, body)
	before, err := r.store.Get(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	was := fmt.Sprintf("%+v", before.Event)
	r.run(ts...)
	var got []string
	for _, tgt := range ts {
		r.closed(ref, tgt.Name)
		got = append(got, <-bodies)
	}
	slices.Sort(got)
	if want := []string{"PATCH " + body, "POST " + body, "POST " + body, "POST " + body, "PUT " + body}; !slices.Equal(got, want) {
		t.Errorf("targets got %q, want %q", got, want)
	}
	after, err := r.store.Get(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	if now := fmt.Sprintf("%+v", after.Event); now != was {
		t.Errorf("the event was %s\nand is %s", was, now)
	}
	if b, err := r.store.Body(t.Context(), ref); err != nil || string(b) != body {
		t.Errorf("body %q, %v", b, err)
	}
}

// While secrets rotate, who knows either verifies with the library of the
// specification; who knows neither, or gets another byte, does not.
func TestSignatureAgainstLibrary(t *testing.T) {
	t.Parallel()
	old, next := testSecret, "whsec_"+base64.StdEncoding.EncodeToString([]byte(strings.Repeat("n", 32)))
	other := "whsec_" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("o", 32)))
	for _, secrets := range [][]string{{old}, {old, next}, {next, old}, {next}} {
		tgt := Target{Name: "a", URL: mustURL(t, "http://a/")}
		for _, s := range secrets {
			tgt.Signing = append(tgt.Signing, mustSecret(t, s))
		}
		for _, body := range []string{"", `{"a":1}`, "\x00\xff\r\n"} {
			req := buildAt(t, tgt, testEvent(), body, time.Now())
			for _, s := range []string{old, next, other} {
				wh, err := standardwebhooks.NewWebhook(s)
				if err != nil {
					t.Fatal(err)
				}
				if err := wh.Verify([]byte(body), req.Header); (err == nil) != slices.Contains(secrets, s) {
					t.Errorf("signed by %d secrets, verified with %.12s…: %v", len(secrets), s, err)
				}
				if err := wh.Verify([]byte(body+" "), req.Header); err == nil {
					t.Error("another body verified")
				}
			}
		}
	}
}
