package receiver

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
	"github.com/onceward/onceward/verify"
)

// TestBodySizes sends bodies around every bound, with and without a declared
// length, and looks at the bytes that were stored.
func TestBodySizes(t *testing.T) {
	t.Parallel()
	const limit = 100_000
	src := source(t, "none", func(s *Source) { s.BodyLimit = limit })
	f := setup(t, []*Source{src}, nil)
	for _, size := range []int{0, 1, firstStep - 1, firstStep, firstStep + 1, 4*firstStep - 1, 4 * firstStep, 4*firstStep + 1,
		limit - 1, limit, limit + 1, 3 * limit} {
		for _, chunked := range []bool{false, true} {
			body := strings.Repeat("x", size)
			want := 200
			if size > limit {
				want = 413
			}
			var got reply
			if chunked {
				got = f.raw(t, chunkedHead+chunks(body, 1000)+"0\r\n\r\n")
			} else {
				got = f.send(t, message{path: "/in/none", body: body})
			}
			if got.status != want {
				t.Errorf("%d bytes, chunked %v: got %d, want %d", size, chunked, got.status, want)
				continue
			}
			if want == 200 {
				ev := f.all(t)[0].Event
				if ev.BodyHash != event.HashOf([]byte(body)) {
					t.Errorf("%d bytes, chunked %v: another body was stored", size, chunked)
				}
			}
			if chunked && !got.closed {
				t.Errorf("%d bytes: the connection of a chunked request stays open", size)
			}
		}
	}
	if n := f.r.budget.used.Load(); n != 0 {
		t.Errorf("%d body bytes in flight at rest, want 0", n)
	}
}

const chunkedHead = "POST /in/none HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"

func chunks(body string, size int) string {
	var b strings.Builder
	for len(body) > 0 {
		n := min(size, len(body))
		fmt.Fprintf(&b, "%x\r\n%s\r\n", n, body[:n])
		body = body[n:]
	}
	return b.String()
}

// TestDeclaredTooLarge is answered before any of the body is sent.
func TestDeclaredTooLarge(t *testing.T) {
	t.Parallel()
	f := setup(t, []*Source{source(t, "none")}, nil)
	got := f.raw(t, "POST /in/none HTTP/1.1\r\nHost: x\r\nContent-Length: 1048577\r\nExpect: 100-continue\r\n\r\n").want(t, 413)
	if !got.closed {
		t.Error("the connection stays open although a body may follow")
	}
}

// TestEndlessChunks: a body that never ends is cut at the limit.
func TestEndlessChunks(t *testing.T) {
	t.Parallel()
	f := setup(t, []*Source{source(t, "none", func(s *Source) { s.BodyLimit = 64 << 10 })}, nil)
	conn := f.dial(t)
	defer conn.Close()
	sent := make(chan int, 1)
	go func() {
		n, _ := io.WriteString(conn, chunkedHead)
		one := chunks(strings.Repeat("x", 4096), 4096)
		for err := error(nil); err == nil && n < 1<<30; {
			var k int
			k, err = io.WriteString(conn, one)
			n += k
		}
		sent <- n
	}()
	got, err := readReply(bufio.NewReader(conn), "POST")
	if err != nil {
		t.Fatal(err)
	}
	got.want(t, 413)
	conn.Close()
	if n := <-sent; n >= 1<<30 {
		t.Errorf("the gateway took %d bytes", n)
	}
}

// TestLyingLength: a body shorter than declared is never an event; what
// follows a body is never part of it.
func TestLyingLength(t *testing.T) {
	t.Parallel()
	f := setup(t, []*Source{source(t, "none")}, nil)
	conn := f.dial(t)
	defer conn.Close()
	if _, err := io.WriteString(conn, "POST /in/none HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nshort"); err != nil {
		t.Fatal(err)
	}
	if err := conn.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	got, err := readReply(bufio.NewReader(conn), "POST")
	if err != nil {
		t.Fatal(err)
	}
	if got.want(t, 400); !got.closed {
		t.Error("the connection stays open")
	}
	if n := f.events(t); n != 0 {
		t.Errorf("%d events of a body cut short, want none", n)
	}
	f.raw(t, "POST /in/none HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n12345 and more").want(t, 200)
	if ev := f.all(t)[0].Event; ev.BodyHash != event.HashOf([]byte("12345")) {
		t.Error("bytes after the declared length were taken for the body")
	}
	// net/http itself refuses framings that contradict themselves.
	for _, lines := range []string{"Content-Length: 5\r\nContent-Length: 6\r\n", "Content-Length: +5\r\n", "Content-Length: -1\r\n",
		"Content-Length: 5, 5\r\n", "Transfer-Encoding: chunked, identity\r\n"} {
		got := f.raw(t, "POST /in/none HTTP/1.1\r\nHost: x\r\n"+lines+"\r\n12345")
		if got.status != 400 && got.status != 501 || !got.closed {
			t.Errorf("%q: got %d, closed %v", lines, got.status, got.closed)
		}
	}
	for _, bad := range []string{"zz\r\nhello\r\n", "5\r\nhelloXX", "ffffffffffffffffff\r\nx"} {
		if got := f.raw(t, chunkedHead+bad+"0\r\n\r\n"); got.status != 400 || !got.closed {
			t.Errorf("chunk %q: got %d, closed %v, want 400 and closed", bad, got.status, got.closed)
		}
	}
}

// TestBothLengths: after a request framed both ways, nothing that follows on
// the connection is read as a request.
func TestBothLengths(t *testing.T) {
	t.Parallel()
	f := setup(t, []*Source{source(t, "none")}, nil)
	conn := f.dial(t)
	defer conn.Close()
	smuggled := "POST /in/none HTTP/1.1\r\nHost: x\r\nContent-Length: 8\r\n\r\nsmuggled"
	text := "POST /in/none HTTP/1.1\r\nHost: x\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + smuggled
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	br := bufio.NewReader(conn)
	got, err := readReply(br, "POST")
	if err != nil || got.status != 400 || !got.closed {
		t.Fatalf("first answer %+v, %v: want 400 and closed", got, err)
	}
	if second, err := readReply(br, "POST"); err == nil {
		t.Fatalf("the smuggled request was answered %d", second.status)
	}
	for _, rec := range f.all(t) {
		if rec.Event.BodyHash == event.HashOf([]byte("smuggled")) {
			t.Error("the smuggled request became an event")
		}
	}
}

// TestSlowBody: a body that doesn't come in time is answered 408, a header
// block that doesn't ends the connection.
func TestSlowBody(t *testing.T) {
	t.Parallel()
	f := setup(t, []*Source{source(t, "none")}, func(c *Config) {
		c.HeaderTimeout, c.BodyTimeout = 200*time.Millisecond, 300*time.Millisecond
	})
	for _, text := range []string{
		"POST /in/none HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n12",
		chunkedHead + "2\r\n12\r\n",
	} {
		if got := f.raw(t, text).want(t, 408); !got.closed {
			t.Error("the connection stays open")
		}
	}
	conn := f.dial(t)
	defer conn.Close()
	if _, err := io.WriteString(conn, "POST /in/none HTTP/1.1\r\nHost: x\r\nX-Slow"); err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(conn); err != nil || strings.Contains(string(b), "200") {
		t.Errorf("slow header block got %q, %v", b, err)
	}
	if n := f.metric(t, "onceward_ingest_refused_total", "source", "none", "reason", "body_timeout"); n != 2 {
		t.Errorf("%v time-outs counted, want 2", n)
	}
}

// TestBodyBudget: what all bodies hold together is bounded, and the bound
// answers 503 and not with memory.
func TestBodyBudget(t *testing.T) {
	t.Parallel()
	enter, leave := make(chan struct{}), make(chan struct{})
	f := setup(t, []*Source{source(t, "none")}, func(c *Config) {
		c.BodyBytesInFlight = 100_000
		ledger := c.Admit
		c.Admit = admitFunc(func(ctx context.Context, r *dedupe.Request) error {
			if len(r.Body) > 50_000 {
				enter <- struct{}{}
				<-leave
			}
			return ledger.Accept(ctx, r)
		})
	})
	done := make(chan reply, 1)
	go func() { done <- f.send(t, message{path: "/in/none", body: strings.Repeat("a", 60_000)}) }()
	<-enter
	got := f.send(t, message{path: "/in/none", body: strings.Repeat("b", 60_000)}).want(t, 503)
	if got.header.Get("Retry-After") == "" || !got.closed {
		t.Errorf("headers %v", got.header)
	}
	f.send(t, message{path: "/in/none", body: strings.Repeat("c", 1_000)}).want(t, 200)
	close(leave)
	(<-done).want(t, 200)
	if n := f.r.budget.used.Load(); n != 0 {
		t.Errorf("%d body bytes in flight at rest, want 0", n)
	}
}

// TestRefusedBodyIsRead: a sender that reads no answer before all of its body is
// written, and is slow about it, gets its 503 and not a broken connection.
func TestRefusedBodyIsRead(t *testing.T) {
	t.Parallel()
	f := setup(t, []*Source{source(t, "none")}, func(c *Config) { c.BodyBytesInFlight = 1_000 })
	conn := f.dial(t)
	defer conn.Close()
	const size, parts = 600_000, 20
	tick := time.NewTicker(50 * time.Millisecond) // a second in all: net/http itself lingers for half of one
	defer tick.Stop()
	if _, err := fmt.Fprintf(conn, "POST /in/none HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n", size); err != nil {
		t.Fatal(err)
	}
	for i := range parts {
		if _, err := io.WriteString(conn, strings.Repeat("a", size/parts)); err != nil {
			t.Fatalf("cut after %d of %d parts: %v", i, parts, err)
		}
		<-tick.C
	}
	b, err := io.ReadAll(conn)
	if err != nil || !strings.HasPrefix(string(b), "HTTP/1.1 503 ") || !strings.Contains(string(b), "Retry-After: ") {
		t.Errorf("got %q, %v, want 503", b, err)
	}
}

// TestDribblers: senders that declare the limit and send next to nothing hold
// a first step each, and others are served.
func TestDribblers(t *testing.T) {
	t.Parallel()
	src := source(t, "none")
	f := setup(t, []*Source{src}, func(c *Config) { c.BodyBytesInFlight = 2 << 20 })
	const n = 300
	for range n {
		conn := f.dial(t)
		defer conn.Close()
		if _, err := io.WriteString(conn, "POST /in/none HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\nx"); err != nil {
			t.Fatal(err)
		}
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for f.metric(t, "onceward_ingest_in_flight_requests") < n {
		select {
		case <-tick.C:
		case <-t.Context().Done():
			t.Fatal("the dribblers never arrived")
		}
	}
	if held := f.r.budget.used.Load(); held > n*firstStep {
		t.Errorf("%d senders of one byte hold %d bytes", n, held)
	}
	f.send(t, message{path: "/in/none", body: strings.Repeat("x", 100_000)}).want(t, 200)
}

// TestHeaderFlood: a header block over the bound is refused by the server.
func TestHeaderFlood(t *testing.T) {
	t.Parallel()
	f := setup(t, []*Source{source(t, "none")}, nil)
	f.send(t, message{path: "/in/none", lines: []string{"X-Big: " + strings.Repeat("x", 40<<10)}}).want(t, 431)
	var many []string
	for i := range 8000 {
		many = append(many, fmt.Sprintf("X-%d: y", i))
	}
	f.send(t, message{path: "/in/none", lines: many}).want(t, 431)
	f.send(t, message{path: "/in/none", lines: many[:1000]}).want(t, 200)
	if n := len(f.all(t)[0].Event.Header); n > maxFields {
		t.Errorf("%d header lines kept", n)
	}
}

func TestReadBodyErrors(t *testing.T) {
	t.Parallel()
	f := setup(t, []*Source{source(t, "none")}, nil)
	broken := errors.New("reset")
	for _, tt := range []struct {
		name string
		body io.Reader
		size int64
		want error
	}{
		{"one byte at a time", iotest.OneByteReader(strings.NewReader("12345")), 5, nil},
		{"end with the data", iotest.DataErrReader(strings.NewReader("12345")), 5, nil},
		{"end with the data, not declared", iotest.DataErrReader(strings.NewReader("12345")), -1, nil},
		{"cut", strings.NewReader("123"), 5, errBodyBroken},
		{"reset", io.MultiReader(strings.NewReader("123"), iotest.ErrReader(broken)), 5, errBodyBroken},
		{"time-out", iotest.TimeoutReader(iotest.OneByteReader(strings.NewReader("12345"))), 5, errBodyBroken},
		{"over the limit", bytes.NewReader(make([]byte, 11)), -1, errBodyTooLarge},
		{"declared over the limit", bytes.NewReader(make([]byte, 11)), 11, errBodyTooLarge},
	} {
		body, held, err := f.r.readBody(&http.Request{Body: io.NopCloser(tt.body), ContentLength: tt.size}, 10)
		if !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
		}
		if tt.want == nil && string(body) != "12345" {
			t.Errorf("%s: read %q", tt.name, body)
		}
		f.r.budget.give(held)
	}
	if n := f.r.budget.used.Load(); n != 0 {
		t.Errorf("%d bytes held at the end, want 0", n)
	}
}

// TestHostile: whatever comes, the answer is a 4xx and nothing is stored.
func TestHostile(t *testing.T) {
	t.Parallel()
	stripe, github, std := source(t, "stripe"), source(t, "github"), source(t, "standard_webhooks")
	f := setup(t, []*Source{stripe, github, std}, nil)
	hook := f.sign(t, github, verify.SignRequest{ID: "d1", Type: "push", Body: []byte(`{"a":1}`)})
	pay := f.sign(t, stripe, verify.SignRequest{Body: []byte(jsonBody("evt_1"))})
	msg := f.sign(t, std, verify.SignRequest{ID: "msg_1", Body: []byte(`{"type":"a"}`)})
	sig, mac := pay.value("Stripe-Signature"), hook.value("X-Hub-Signature-256")
	rest := sig[strings.Index(sig, "v1="):]
	body := func(m message, b string) message { m.body = b; return m }
	for name, m := range map[string]message{
		"unsigned":                   hook.without("X-Hub-Signature-256"),
		"forged":                     hook.replace("X-Hub-Signature-256", "sha256="+strings.Repeat("a", 64)),
		"short mac":                  hook.replace("X-Hub-Signature-256", mac[:20]),
		"empty mac":                  hook.replace("X-Hub-Signature-256", "sha256="),
		"not hex":                    hook.replace("X-Hub-Signature-256", "sha256="+strings.Repeat("z", 64)),
		"doubled":                    hook.with("X-Hub-Signature-256: " + mac),
		"joined":                     hook.replace("X-Hub-Signature-256", mac+","+mac),
		"body changed":               body(hook, `{"a":2}`),
		"body with bom":              body(hook, "\xef\xbb\xbf"+hook.body),
		"body with newline":          body(hook, hook.body+"\n"),
		"body gone":                  body(hook, ""),
		"null":                       body(hook, "null"),
		"invalid utf-8":              body(hook, "\xff\xfe\xfd"),
		"nul":                        body(hook, "\x00\x00"),
		"gzip without saying so":     body(hook, "\x1f\x8b\x08\x00\x00"),
		"deep":                       body(pay, strings.Repeat(`{"a":`, 100_000)),
		"10,000 signatures":          pay.replace("Stripe-Signature", "t=1"+strings.Repeat(",v1=00", 2500)+strings.Repeat(",v1="+strings.Repeat("ab", 32), 100)),
		"400-digit time":             pay.replace("Stripe-Signature", "t="+strings.Repeat("9", 400)+","+rest),
		"negative time":              pay.replace("Stripe-Signature", "t=-1,"+rest),
		"time in words":              pay.replace("Stripe-Signature", "t=now,"+rest),
		"float time":                 pay.replace("Stripe-Signature", "t=1.5e9,"+rest),
		"two times":                  pay.replace("Stripe-Signature", "t=1,"+sig),
		"no secret's":                pay.replace("Stripe-Signature", "t=1764504000,v1="+strings.Repeat("0", 64)),
		"other id":                   msg.replace("Webhook-Id", "msg_2"),
		"no id":                      msg.without("Webhook-Id"),
		"two ids":                    msg.with("Webhook-Id: msg_2"),
		"id of another":              msg.replace("Webhook-Id", "msg_1.1764504000"),
		"list of 5,000":              msg.replace("Webhook-Signature", strings.TrimSpace(strings.Repeat("v1,AA== ", 3500))),
		"unknown version":            msg.replace("Webhook-Signature", "v9,"+strings.TrimPrefix(msg.value("Webhook-Signature"), "v1,")),
		"signature without version":  msg.replace("Webhook-Signature", strings.TrimPrefix(msg.value("Webhook-Signature"), "v1,")),
		"underscore for a dash":      hook.without("X-Hub-Signature-256").with("X_Hub_Signature_256: " + mac),
		"signature in the query":     {path: hook.path + "?X-Hub-Signature-256=" + mac, body: hook.body},
		"signature as a cookie":      hook.without("X-Hub-Signature-256").with("Cookie: X-Hub-Signature-256=" + mac),
		"signature as a method name": {method: "SHA256", path: hook.path, body: hook.body},
	} {
		got := f.send(t, m)
		if got.status/100 != 4 {
			t.Errorf("%s: got %d %s, want a 4xx", name, got.status, got.body)
		}
	}
	// What no client library would send.
	for name, text := range map[string]string{
		"nul in header":     "POST /in/github HTTP/1.1\r\nHost: x\r\nX-A: \x00\r\nContent-Length: 0\r\n\r\n",
		"bare cr":           "POST /in/github HTTP/1.1\r\nHost: x\r\nX-A: a\rb\r\nContent-Length: 0\r\n\r\n",
		"space before :":    "POST /in/github HTTP/1.1\r\nHost: x\r\nX-A : a\r\nContent-Length: 0\r\n\r\n",
		"no host":           "POST /in/github HTTP/1.1\r\nContent-Length: 0\r\n\r\n",
		"two hosts":         "POST /in/github HTTP/1.1\r\nHost: a\r\nHost: b\r\nContent-Length: 0\r\n\r\n",
		"no version":        "POST /in/github\r\n\r\n",
		"http/2 preface":    "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"nul in path":       "POST /in/git\x00hub HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n",
		"connect":           "CONNECT /in/github HTTP/1.1\r\nHost: x\r\n\r\n",
		"absolute other":    "POST http://elsewhere/in/nobody HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n",
		"tls on plain port": "\x16\x03\x01\x00\x05hello\r\n\r\n",
	} {
		got := f.raw(t, text)
		if (got.status/100 != 4 && got.status != 505) || got.status == 200 {
			t.Errorf("%s: got %d %s, want a 4xx", name, got.status, got.body)
		}
	}
	if n := f.events(t); n != 0 {
		t.Errorf("%d events, want none", n)
	}
	if n := f.metric(t, "onceward_ingest_panics_total"); n != 0 {
		t.Errorf("%v panics", n)
	}
}

// TestOddButAuthentic: an authentic body is taken as it is, whatever it holds.
func TestOddButAuthentic(t *testing.T) {
	t.Parallel()
	github, hmac := source(t, "github"), source(t, "hmac")
	hmac.Verifier = verifier(t, verify.Config{
		Secrets: []verify.Secret{{Value: verify.NewSecretString(testSecret)}}, Options: map[string]string{"id": "json:id"},
	}, "hmac")
	f := setup(t, []*Source{github, hmac}, nil)
	for i, body := range []string{"", "null", "\xef\xbb\xbf{}", "\x00\x01", "\xff\xfe", "<xml/>", strings.Repeat("[", 5000), `{"a":1,"a":2}`, "a=b&c=d"} {
		for _, ct := range []string{"application/json", "text/plain", "multipart/form-data; boundary=x", "application/x-unheard-of", "", ";;;"} {
			m := f.sign(t, github, verify.SignRequest{ID: fmt.Sprintf("d%d%s", i, ct), Body: []byte(body)}).replace("Content-Type", ct)
			f.send(t, m).want(t, 200)
			rec := f.all(t)[0]
			got, err := f.mem.Body(t.Context(), rec.Event.Ref)
			if err != nil || string(got) != body {
				t.Errorf("stored %q, %v, want %q", got, err, body)
			}
		}
	}
	for _, tt := range []struct{ body, id string }{
		{`{"id":12345678901234567890123}`, "12345678901234567890123"},
		{`{"id":9007199254740993}`, "9007199254740993"},
		{`{"id":1.0}`, "1.0"},
		{`{"id":" x "}`, " x "},
		{`{"id":"a","id":"b"}`, "a"},
		{`{"id":null}`, ""},
		{`{"id":{}}`, ""},
		{`{"id":[1]}`, ""},
		{`{"id":""}`, ""},
		{`{}`, ""},
	} {
		f.send(t, f.sign(t, hmac, verify.SignRequest{Body: []byte(tt.body)})).want(t, 200)
		if ev := f.all(t)[0].Event; ev.ID != tt.id || ev.Flags.Has(event.FlagNoID) != (tt.id == "") {
			t.Errorf("%s: ID %q with %v, want %q", tt.body, ev.ID, ev.Flags.Names(), tt.id)
		}
	}
	if n := f.metric(t, "onceward_ingest_requests_total", "source", "hmac", "outcome", "repeat"); n != 0 {
		t.Errorf("%v of different bodies were taken for repeats", n)
	}
}
