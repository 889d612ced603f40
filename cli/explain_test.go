package cli

import (
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/admin"
	"github.com/onceward/onceward/event"
	"github.com/onceward/onceward/verify"
)

func TestCapture(t *testing.T) {
	a := &app{now: func() time.Time { return time.Unix(100, 0) }}
	for _, tt := range []struct {
		name, text string
		f          explainFlags
		body, url  string
		now        int64
		notes      int
		bad        bool
	}{
		{name: "lines of LF", text: "POST /in/x?a=1 HTTP/1.1\nHost: a.test\nX: 1\n\nbody\n", body: "body\n", url: "https://a.test/in/x?a=1", now: 100},
		{name: "lines of CR LF", text: "POST /in/x HTTP/1.1\r\nHost: a.test\r\n\r\n\r\nbody", body: "\r\nbody", url: "https://a.test/in/x", now: 100},
		{name: "the length leaves a line end out", text: "POST / HTTP/1.1\nHost: a.test\nContent-Length: 4\n\nbody\n", body: "body", url: "https://a.test/", now: 100, notes: 1},
		{name: "the length says more", text: "POST / HTTP/1.1\nHost: a.test\nContent-Length: 9\n\nbody", body: "body", url: "https://a.test/", now: 100, notes: 1},
		{name: "the length says less", text: "POST / HTTP/1.1\nHost: a.test\nContent-Length: 2\n\nbody", body: "body", url: "https://a.test/", now: 100, notes: 1},
		{name: "chunked", text: "POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n", body: "body", url: "https://a.test/", now: 100},
		{name: "this machine", text: "POST / HTTP/1.1\nHost: 127.0.0.1:8080\n\n", url: "http://127.0.0.1:8080/", now: 100},
		{name: "a URL of one's own", text: "POST / HTTP/1.1\nHost: a.test\n\n", f: explainFlags{url: "https://b.test/y?z=1", at: "7"}, url: "https://b.test/y?z=1", now: 7},
		{name: "RFC 3339", text: "POST / HTTP/1.1\nHost: a.test\n\n", f: explainFlags{at: "1970-01-01T00:00:09Z"}, url: "https://a.test/", now: 9},
		{name: "as a target got it", text: "POST / HTTP/1.1\nHost: a.test\nOnceward-Received-At: 1970-01-01T00:00:08Z\n\n", url: "https://a.test/", now: 8},
		{name: "vector", text: ` {"url":"https://a.test/x?q","headers":{"a":["1","2"],"b":"3"},"body":"{}","now":5.5}`, body: "{}", url: "https://a.test/x?q", now: 5},
		{name: "no end of the head", text: "POST / HTTP/1.1\nHost: a.test\n", bad: true},
		{name: "no request", text: "hello\n\n", bad: true},
		{name: "empty", text: "", bad: true},
		{name: "two vectors", text: "[{},{}]", bad: true},
		{name: "header of a number", text: `{"headers":{"a":1}}`, bad: true},
		{name: "broken vector", text: `{"url":`, bad: true},
		{name: "broken chunks", text: "POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\nzz", bad: true},
		{name: "no time", text: "POST / HTTP/1.1\nHost: a.test\n\n", f: explainFlags{at: "noon"}, bad: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, err := a.capture([]byte(tt.text), tt.f)
			if (err != nil) != tt.bad {
				t.Fatalf("error %v, want one: %t", err, tt.bad)
			}
			if tt.bad {
				return
			}
			if string(c.req.Body) != tt.body || c.req.URL != tt.url || c.req.Now.Unix() != tt.now || len(c.notes) != tt.notes {
				t.Errorf("got %q, %s, %d, notes %q", c.req.Body, c.req.URL, c.req.Now.Unix(), c.notes)
			}
		})
	}
	c, err := a.capture([]byte(`{"headers":{"a":["1","2"]}}`), explainFlags{})
	if err != nil || len(c.req.Header["A"]) != 2 || c.req.Method != "POST" {
		t.Errorf("got %v, %v", c.req, err)
	}
}

// TestExplainSeeded makes one mistake each in a request file and wants it first.
func TestExplainSeeded(t *testing.T) {
	env := map[string]string{"RIGHT": "whsec_C2FVsBQIhrscChlQIMVb5sSYspob7oDt", "SPACE": " whsec_C2FVsBQIhrscChlQIMVb5sSYspob7oDt", "WRONG": "whsec_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"}
	signed, _, code := runApp(t, `{"id":"evt_1","type":"invoice.paid","n":1.50}`, env, "sign", "stripe", "--secret-env", "RIGHT", "--body", "-", "--request")
	if code != 0 {
		t.Fatal("can't sign")
	}
	noLength := strings.Replace(signed, "Content-Length: 45\r\n", "", 1)
	if noLength == signed {
		t.Fatalf("no length in %q", signed)
	}
	for _, tt := range []struct{ name, text, secret, want string }{
		{"space", signed, "SPACE", "secret_space"},
		{"newline added", noLength + "\n", "RIGHT", "newline_added"},
		{"re-serialised", strings.Replace(noLength, `"n":1.50`, `"n": 1.5`, 1), "RIGHT", "body_reserialised"},
		{"no signature", strings.Replace(signed, "Stripe-Signature", "X-Other", 1), "RIGHT", "no_signature"},
		{"another secret", signed, "WRONG", "unknown"},
	} {
		out, errs, code := runApp(t, tt.text, env, "verify", "--explain", "-", "--provider", "stripe", "--secret-env", tt.secret)
		_, causes, _ := strings.Cut(out, "\n")
		first, _, _ := strings.Cut(causes, "\n")
		if code != exitFailed || !strings.HasPrefix(first, "1. ") || !strings.HasSuffix(first, "("+tt.want+")") {
			if tt.want == "unknown" && code == exitFailed && !strings.Contains(out, ". cause:") {
				continue // nothing can be proved; what is said are guesses
			}
			t.Errorf("%s: code %d, first %q, want %s\n%s%s", tt.name, code, first, tt.want, out, errs)
		}
		for _, secret := range env {
			if strings.Contains(out+errs, strings.TrimSpace(secret)) {
				t.Errorf("%s: the secret is printed", tt.name)
			}
		}
	}
}

// TestExplainNotes: what lies with this command, and not with the request, is said
// beside the explanation.
func TestExplainNotes(t *testing.T) {
	env := map[string]string{"RIGHT": "whsec_C2FVsBQIhrscChlQIMVb5sSYspob7oDt"}
	signed, _, _ := runApp(t, "{}", env, "sign", "stripe", "--secret-env", "RIGHT", "--body", "-", "--request")
	explain := []string{"verify", "--explain", "-", "--provider", "stripe", "--secret-env", "RIGHT"}
	late := time.Unix(1767225600, 0).Add(48 * time.Hour)
	out, errs, code := runAppAt(t, late, signed, env, explain...)
	if code != exitFailed || !strings.HasPrefix(out, "refused: timestamp_old") || !strings.Contains(errs, "--at") {
		t.Errorf("late: code %d: %s%s", code, out, errs)
	}
	out, errs, code = runAppAt(t, late, signed, env, append(explain, "--at", "1767225600")...)
	if code != exitDone || errs != "" || !strings.HasPrefix(out, "authentic") {
		t.Errorf("late, with --at: code %d: %s%s", code, out, errs)
	}
	part := base64.RawURLEncoding.EncodeToString
	token := "POST / HTTP/1.1\nHost: a.test\nAuthorization: Bearer " + part([]byte(`{"alg":"RS256","kid":"k1"}`)) + "." +
		part([]byte(`{"iss":"chat@system.gserviceaccount.com","aud":"me","exp":1767229200}`)) + ".AAAA\n\n{}"
	out, errs, code = runApp(t, token, nil, "verify", "--explain", "-", "--provider", "google_chat", "--option", "audience=me")
	if code != exitFailed || !strings.HasPrefix(out, "refused: key_unavailable") || !strings.Contains(errs, "by the gateway only") {
		t.Errorf("fetched keys: code %d: %s%s", code, out, errs)
	}
}

func TestRefusalCauses(t *testing.T) {
	fields := func(pairs ...string) []event.Field {
		var out []event.Field
		for i := 0; i < len(pairs); i += 2 {
			out = append(out, event.Field{Name: pairs[i], Value: pairs[i+1]})
		}
		return out
	}
	skew := func(s float64) *float64 { return &s }
	for _, tt := range []struct {
		name, provider string
		r              admin.Refusal
		want           string // in the first cause
	}{
		{"old", "stripe", admin.Refusal{Reason: "timestamp_old", Skew: skew(7200), Header: fields("Stripe-Signature", "[80 bytes]")}, "2h before it arrived"},
		{"ahead", "stripe", admin.Refusal{Reason: "timestamp_future", Skew: skew(-900), Header: fields("Stripe-Signature", "[80 bytes]")}, "15m in the future"},
		{"milliseconds", "stripe", admin.Refusal{Reason: "timestamp_future", Skew: skew(-1.7e12), Header: fields("Stripe-Signature", "[80 bytes]")}, "milliseconds"},
		{"another provider", "stripe", admin.Refusal{Reason: "signature_missing", Header: fields("X-Shopify-Hmac-Sha256", "[44 bytes]")}, "Shopify"},
		{"SHA-1 only", "github", admin.Refusal{Reason: "signature_missing", Header: fields("X-Hub-Signature", "[45 bytes]")}, "X-Hub-Signature"},
		{"another length", "github", admin.Refusal{Reason: "signature_malformed", Header: fields("X-Hub-Signature-256", "[45 bytes]")}, "45 characters, and GitHub's have 71"},
		{"compressed", "github", admin.Refusal{Reason: "signature_mismatch", Header: fields("X-Hub-Signature-256", "[71 bytes]", "Content-Encoding", "gzip")}, "Content-Encoding gzip"},
		{"cut", "github", admin.Refusal{Reason: "signature_mismatch", BodyBytes: 5, BodySHA256: "aa", Header: fields("X-Hub-Signature-256", "[71 bytes]", "Content-Length", "9")}, "Content-Length is 9"},
		{"empty", "github", admin.Refusal{Reason: "signature_mismatch", Method: "POST", Header: fields("X-Hub-Signature-256", "[71 bytes]")}, "empty"},
		{"byte order mark", "github", admin.Refusal{Reason: "signature_mismatch", BodyBytes: 5, Body: "\ufeff{}", Header: fields("X-Hub-Signature-256", "[71 bytes]")}, "byte order mark"},
		{"line end", "github", admin.Refusal{Reason: "signature_mismatch", BodyBytes: 3, Body: "{}\n", Header: fields("X-Hub-Signature-256", "[71 bytes]")}, "line end"},
		{"no source", "", admin.Refusal{Reason: "unknown_source"}, "no source listens"},
	} {
		row, _ := verify.Lookup(tt.provider)
		got := refusalCauses(tt.r, row)
		if len(got) == 0 || !strings.Contains(got[0], tt.want) {
			t.Errorf("%s: got %q, want %q first", tt.name, got, tt.want)
		}
	}
}

// TestRefusalAdvice: every reason has something to say.
func TestRefusalAdvice(t *testing.T) {
	for _, r := range verify.Reasons() {
		if got := refusalAdvice(string(r)); (got == "") != (r == verify.OK) {
			t.Errorf("%s: %q", r, got)
		}
	}
}

// FuzzCapture: no file makes it panic, and what it reads of HTTP is never more than
// the file.
func FuzzCapture(f *testing.F) {
	f.Add([]byte("POST /in/x HTTP/1.1\nHost: a.test\nContent-Length: 4\n\nbody\n"))
	f.Add([]byte(`{"url":"x","headers":{"a":"b"},"now":1e300}`))
	f.Add([]byte("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"))
	a := &app{now: time.Now}
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := a.capture(text, explainFlags{})
		if err == nil && c.vector == nil && len(c.req.Body) > len(text) {
			t.Errorf("%d bytes of body from %d", len(c.req.Body), len(text))
		}
	})
}
