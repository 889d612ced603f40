package receiver

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
	"github.com/onceward/onceward/verify"
)

func TestAccepted(t *testing.T) {
	src := source(t, "stripe")
	f := setup(t, []*Source{src}, nil)
	m := f.sign(t, src, verify.SignRequest{Body: []byte(jsonBody("evt_1"))})
	first := f.send(t, m.with("Traceparent: 00-11111111111111111111111111111111-2222222222222222-00",
		"Authorization: Bearer x", "Cookie: a=b", "X_Odd: 1", "X-Other: 2", "User-Agent: Stripe/1.0")).want(t, 200)
	var got struct{ Status, Event_id, Ref string }
	if err := json.Unmarshal([]byte(first.body), &got); err != nil {
		t.Fatal(err)
	}
	all := f.all(t)
	if len(all) != 1 {
		t.Fatalf("ledger has %d events, want 1", len(all))
	}
	ev := all[0].Event
	if got.Status != "accepted" || got.Event_id != "evt_1" || got.Ref != ev.Ref.String() {
		t.Errorf("answer %s, want event evt_1 and ref %s", first.body, ev.Ref)
	}
	if first.header.Get("Content-Type") != "application/json" || first.header.Get("X-Content-Type-Options") != "nosniff" ||
		first.header.Get("Idempotent-Replayed") != "" || first.closed {
		t.Errorf("headers %v", first.header)
	}
	var names []string
	for _, h := range ev.Header {
		names = append(names, h.Name)
	}
	if got, want := strings.Join(names, " "), "Content-Type Stripe-Signature User-Agent"; got != want {
		t.Errorf("kept headers %q, want %q", got, want)
	}
	if ev.Source != "stripe" || ev.Provider != "stripe" || ev.ID != "evt_1" || ev.Type != "invoice.paid" ||
		ev.Secret != "main" || ev.Key != "stripe:evt_1" || ev.Method != "POST" || !ev.ReceivedAt.Equal(noon) ||
		ev.BodyHash != event.HashOf([]byte(m.body)) || ev.Caller != "" || ev.Flags != 0 {
		t.Errorf("event %+v", ev)
	}
	if len(ev.Trace) != 55 || strings.Contains(ev.Trace, "1111111111") {
		t.Errorf("trace %q is not a root of our own", ev.Trace)
	}
	body, err := f.mem.Body(t.Context(), ev.Ref)
	if err != nil || string(body) != m.body {
		t.Errorf("stored body %q, %v", body, err)
	}

	again := f.send(t, m).want(t, 200)
	if again.body != first.body || again.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("repeat answered %s with %v, want the first answer", again.body, again.header)
	}
	if n := f.events(t); n != 1 {
		t.Errorf("%d events after a repeat, want 1", n)
	}
	if n := f.metric(t, "onceward_dedupe_hits_total", "source", "stripe"); n != 1 {
		t.Errorf("%v dedupe hits, want 1", n)
	}
	if n := f.metric(t, "onceward_verify_secret_used_total", "source", "stripe", "secret", "main"); n != 2 {
		t.Errorf("secret used %v times, want 2", n)
	}
}

// TestAnswerTable has one row for every row of the table of answers.
func TestAnswerTable(t *testing.T) {
	t.Parallel()
	none := source(t, "none", func(s *Source) { s.Row = verify.Row{} })
	noID := source(t, "none", func(s *Source) { s.Name, s.NoID = "strict", verify.NoIDRefuse })
	small := source(t, "none", func(s *Source) { s.Name, s.BodyLimit = "small", 10 })
	hook := source(t, "github")
	slack := source(t, "slack")
	keyed := source(t, "idempotency-key")
	offline := &Source{Name: "offline", Row: hook.Verifier.Row(), Offline: "its secret is not set"}
	f := setup(t, []*Source{none, noID, small, hook, slack, keyed, offline}, nil)
	github := f.sign(t, hook, verify.SignRequest{ID: "d1", Type: "push", Body: []byte(`{"a":1}`)})
	challenge := f.sign(t, slack, verify.SignRequest{Body: []byte(`{"type":"url_verification","challenge":"c<b>1"}`)})
	for _, tt := range []struct {
		name   string
		m      message
		status int
		body   string // "" is not looked at
		header map[string]string
		closed bool
	}{
		{name: "accepted", m: github, status: 200},
		{name: "repeat", m: github, status: 200, header: map[string]string{"Idempotent-Replayed": "true"}},
		{name: "handshake", m: challenge, status: 200, body: "c<b>1",
			header: map[string]string{"Content-Type": "text/plain", "X-Content-Type-Options": "nosniff"}},
		{name: "unsigned handshake", m: challenge.without("X-Slack-Signature"), status: 401},
		{name: "forged", m: github.replace("X-Hub-Signature-256", "sha256="+strings.Repeat("0", 64)), status: 401,
			body: `{"error":"not authentic"}`, header: map[string]string{"Www-Authenticate": `Webhook realm="onceward"`}},
		{name: "unsigned", m: github.without("X-Hub-Signature-256"), status: 401},
		{name: "no id refused", m: message{path: "/in/strict", body: "x"}, status: 400, closed: true},
		{name: "unknown source", m: message{path: "/in/nobody"}, status: 404, body: `{"error":"not found"}`},
		{name: "root", m: message{path: "/"}, status: 404},
		{name: "method", m: message{method: "GET", path: "/in/none"}, status: 405, header: map[string]string{"Allow": "POST"}},
		{name: "odd method", m: message{method: "BREW", path: "/in/none"}, status: 405, header: map[string]string{"Allow": "POST"}},
		{name: "options", m: message{method: "OPTIONS", path: "/in/none"}, status: 405},
		{name: "head", m: message{method: "HEAD", path: "/in/none"}, status: 405},
		{name: "too large", m: message{path: "/in/small", body: "12345678901"}, status: 413, closed: true},
		{name: "encoded", m: message{path: "/in/none", lines: []string{"Content-Encoding: gzip"}, body: "\x1f\x8b"}, status: 415},
		{name: "encoded twice", m: message{path: "/in/none", lines: []string{"Content-Encoding: identity", "Content-Encoding: gzip"}}, status: 415},
		{name: "identity", m: message{path: "/in/none", lines: []string{"Content-Encoding: identity"}, body: "plain"}, status: 200},
		{name: "offline", m: message{path: "/in/offline", body: "{}"}, status: 503, header: map[string]string{"Retry-After": "60"}},
		{name: "live", m: message{method: "GET", path: "/livez"}, status: 200, body: "ok\n"},
		{name: "ready", m: message{method: "GET", path: "/readyz"}, status: 200, body: "ok\n"},
		{name: "live post", m: message{path: "/livez"}, status: 405, header: map[string]string{"Allow": "GET, HEAD"}},
		{name: "keyed first", m: keyedMessage("alpha", "k1", "a"), status: 200},
		{name: "keyed conflict", m: keyedMessage("alpha", "k1", "b"), status: 422},
		{name: "keyed other caller", m: keyedMessage("beta", "k1", "b"), status: 200},
		{name: "keyed without key", m: keyedMessage("alpha", "", "b"), status: 400, closed: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := f.send(t, tt.m)
			if got.status != tt.status {
				t.Fatalf("got %d %s, want %d", got.status, got.body, tt.status)
			}
			if tt.body != "" && got.body != tt.body {
				t.Errorf("body %q, want %q", got.body, tt.body)
			}
			for name, want := range tt.header {
				if have := got.header.Get(name); have != want {
					t.Errorf("%s: %q, want %q", name, have, want)
				}
			}
			if got.closed != tt.closed {
				t.Errorf("connection closed %v, want %v", got.closed, tt.closed)
			}
			if loc := got.header.Get("Location"); loc != "" || got.status/100 == 3 {
				t.Errorf("redirected to %q", loc)
			}
		})
	}
}

func keyedMessage(caller, key, body string) message {
	token := map[string]string{"alpha": "token-of-alpha-000001", "beta": "token-of-beta-0000002"}[caller]
	m := message{path: "/in/idempotency-key", body: body, lines: []string{"Authorization: Bearer " + token}}
	if key != "" {
		m = m.with(`Idempotency-Key: "` + key + `"`)
	}
	return m
}

// TestLedgerErrors: whatever the ledger says, the sender is asked to come
// back, and no 2xx goes out.
func TestLedgerErrors(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		err     error
		status  int
		retry   string
		outcome string
	}{
		{dedupe.ErrOverloaded, 503, "5", "overloaded"},
		{dedupe.ErrDiskLow, 503, "30", "overloaded"},
		{dedupe.ErrFatal, 503, "30", "error"},
		{dedupe.ErrClosed, 503, "30", "error"},
		{fmt.Errorf("commit: %w", dedupe.ErrDamaged), 503, "30", "error"},
		{context.DeadlineExceeded, 503, "5", "overloaded"},
		{errors.New("something else"), 503, "30", "error"},
		{dedupe.ErrTooLarge, 413, "", "refused"},
		{nil, 503, "30", "error"}, // and no outcomes
	} {
		t.Run(fmt.Sprint(tt.err), func(t *testing.T) {
			t.Parallel()
			src := source(t, "none")
			f := setup(t, []*Source{src}, func(c *Config) {
				c.Admit = admitFunc(func(context.Context, *dedupe.Request) error { return tt.err })
			})
			got := f.send(t, message{path: "/in/none", body: `{}`}).want(t, tt.status)
			if r := got.header.Get("Retry-After"); r != tt.retry {
				t.Errorf("Retry-After %q, want %q", r, tt.retry)
			}
			if n := f.metric(t, "onceward_ingest_requests_total", "source", "none", "outcome", tt.outcome); n != 1 {
				t.Errorf("outcome %s counted %v times, want 1", tt.outcome, n)
			}
		})
	}
}

// TestResend: an event answered 5xx is accepted when it is sent again as it
// was.
func TestResend(t *testing.T) {
	t.Parallel()
	src := source(t, "stripe")
	failed := false
	f := setup(t, []*Source{src}, func(c *Config) {
		ledger := c.Admit
		c.Admit = admitFunc(func(ctx context.Context, r *dedupe.Request) error {
			if !failed {
				failed = true
				return dedupe.ErrOverloaded
			}
			return ledger.Accept(ctx, r)
		})
	})
	m := f.sign(t, src, verify.SignRequest{Body: []byte(jsonBody("evt_9"))})
	f.send(t, m).want(t, 503)
	if got := f.send(t, m).want(t, 200); got.header.Get("Idempotent-Replayed") != "" {
		t.Error("the second sending was taken for a repeat")
	}
}

func TestPatience(t *testing.T) {
	t.Parallel()
	src := source(t, "none", func(s *Source) { s.Patience = 100 * time.Millisecond })
	f := setup(t, []*Source{src}, func(c *Config) {
		c.Admit = admitFunc(func(ctx context.Context, _ *dedupe.Request) error {
			<-ctx.Done()
			return ctx.Err()
		})
	})
	began := time.Now()
	f.send(t, message{path: "/in/none", body: `{}`}).want(t, 503)
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("answered after %v, want within the provider's patience", took)
	}
}

func TestPanic(t *testing.T) {
	t.Parallel()
	src := source(t, "none")
	f := setup(t, []*Source{src}, func(c *Config) {
		c.Admit = admitFunc(func(context.Context, *dedupe.Request) error { panic("canary-body-in-panic") })
	})
	f.send(t, message{path: "/in/none", body: `{}`}).want(t, 500)
	if n := f.metric(t, "onceward_ingest_panics_total"); n != 1 {
		t.Errorf("%v panics counted, want 1", n)
	}
	if strings.Contains(f.logs.String(), "canary-body-in-panic") || !strings.Contains(f.logs.String(), "ingest.panic") {
		t.Error("the log must say that a request panicked, and not quote what was thrown")
	}
	if n := f.metric(t, "onceward_ingest_in_flight_requests"); n != 0 {
		t.Errorf("%v requests in flight, want 0", n)
	}
	if n := f.r.budget.used.Load(); n != 0 {
		t.Errorf("%d body bytes in flight, want 0", n)
	}
}

func TestRowAnswers(t *testing.T) {
	t.Parallel()
	row := source(t, "hmac").Verifier.Row()
	row.Answer = verify.Answer{Status: 202, ContentType: "text/xml", Body: []byte("<ok/>"), Header: map[string]string{"x-seen": "1"}}
	row.Refusal = &verify.Answer{Header: map[string]string{"X-Why": "no"}}
	row.OverloadStatus = 429
	v, err := verify.New(verify.Config{Row: row, Secrets: []verify.Secret{{Value: verify.NewSecretString(testSecret)}}})
	if err != nil {
		t.Fatal(err)
	}
	src := &Source{Name: "hmac", Verifier: v}
	busy := false
	f := setup(t, []*Source{src}, func(c *Config) {
		ledger := c.Admit
		c.Admit = admitFunc(func(ctx context.Context, r *dedupe.Request) error {
			if busy {
				return dedupe.ErrOverloaded
			}
			return ledger.Accept(ctx, r)
		})
	})
	m := f.sign(t, src, verify.SignRequest{Body: []byte(`{"id":"1"}`)})
	first := f.send(t, m).want(t, 202)
	if first.body != "<ok/>" || first.header.Get("Content-Type") != "text/xml" || first.header.Get("X-Seen") != "1" {
		t.Errorf("answer %q with %v", first.body, first.header)
	}
	// The repeat is told what the first was told, although the row changed.
	row.Answer = verify.Answer{}
	v, err = verify.New(verify.Config{Row: row, Secrets: []verify.Secret{{Value: verify.NewSecretString(testSecret)}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.r.SetSources([]*Source{{Name: "hmac", Verifier: v}}, nil); err != nil {
		t.Fatal(err)
	}
	if again := f.send(t, m).want(t, 202); again.body != first.body || again.header.Get("Content-Type") != "text/xml" {
		t.Errorf("repeat answered %q with %v", again.body, again.header)
	}
	refused := f.send(t, message{path: "/in/hmac", body: "{}"}).want(t, 401)
	if refused.body != "" || refused.header.Get("X-Why") != "no" || refused.header.Get("Www-Authenticate") != "" {
		t.Errorf("refusal %q with %v, want the row's", refused.body, refused.header)
	}
	busy = true
	f.send(t, m).want(t, 429)
}

// TestHandshakeMethod: a method that a row takes for handshakes alone brings
// no event, however well it is signed.
func TestHandshakeMethod(t *testing.T) {
	t.Parallel()
	row := source(t, "hmac").Verifier.Row()
	row.Options = append(row.Options, "verify_token")
	row.Handshake = []verify.Handshake{{
		Name: "subscribe", Method: "GET", Detect: []string{"query:challenge"}, Compare: []string{"query:token=verify_token"},
		Body: "{query:challenge}",
	}}
	v, err := verify.New(verify.Config{
		Row: row, Secrets: []verify.Secret{{Value: verify.NewSecretString(testSecret)}},
		Options: map[string]string{"verify_token": "the-token-we-chose"},
	})
	if err != nil {
		t.Fatal(err)
	}
	src := &Source{Name: "hmac", Verifier: v}
	f := setup(t, []*Source{src}, nil)
	got := f.send(t, message{method: "GET", path: "/in/hmac?challenge=%3Cscript%3E&token=the-token-we-chose"}).want(t, 200)
	if got.body != "<script>" || !strings.HasPrefix(got.header.Get("Content-Type"), "text/plain") ||
		got.header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("handshake answered %q as %q", got.body, got.header.Get("Content-Type"))
	}
	f.send(t, message{method: "GET", path: "/in/hmac?challenge=1&token=guess"}).want(t, 401)
	signed := f.sign(t, src, verify.SignRequest{Body: []byte(`{}`)})
	signed.method = "GET"
	got = f.send(t, signed).want(t, 405)
	if got.header.Get("Allow") != "POST, GET" {
		t.Errorf("Allow %q", got.header.Get("Allow"))
	}
	f.send(t, message{method: "PUT", path: "/in/hmac?challenge=1&token=the-token-we-chose"}).want(t, 405)
	if n := f.events(t); n != 0 {
		t.Errorf("%d events, want none", n)
	}
	if n := f.metric(t, "onceward_ingest_requests_total", "source", "hmac", "outcome", "handshake"); n != 1 {
		t.Errorf("%v handshakes counted, want 1", n)
	}
}

// TestSecretOutOfTime: a source none of whose secrets is valid now is offline,
// and the sender is asked to come back.
func TestSecretOutOfTime(t *testing.T) {
	t.Parallel()
	src := source(t, "github")
	src.Verifier = verifier(t, verify.Config{
		Secrets: []verify.Secret{{Value: verify.NewSecretString(testSecret), NotAfter: noon.Add(time.Minute)}},
	}, "github")
	f := setup(t, []*Source{src}, nil)
	m := f.sign(t, src, signGitHub("d1", "push", "{}"))
	f.send(t, m).want(t, 200)
	f.now.Store(noon.Add(time.Hour).UnixNano())
	if got := f.send(t, m).want(t, 503); got.header.Get("Retry-After") == "" {
		t.Errorf("headers %v", got.header)
	}
	if s := f.r.SourceStats()[0]; s.Counts["offline"] != 1 || s.Refused["no_secret"] != 1 {
		t.Errorf("stats %+v", s)
	}
}

func TestConflicts(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		policy dedupe.Conflict
		status int
		events uint64
		same   bool
	}{
		{dedupe.ConflictAck, 200, 1, true},
		{dedupe.ConflictDeliver, 200, 2, false},
		{dedupe.ConflictReject, 422, 1, false},
	} {
		t.Run(string(tt.policy), func(t *testing.T) {
			t.Parallel()
			src := source(t, "github", func(s *Source) { s.Conflict = tt.policy })
			f := setup(t, []*Source{src}, nil)
			first := f.send(t, f.sign(t, src, verify.SignRequest{ID: "d1", Body: []byte(`{"a":1}`)})).want(t, 200)
			other := f.send(t, f.sign(t, src, verify.SignRequest{ID: "d1", Body: []byte(`{"a":2}`)})).want(t, tt.status)
			if (other.body == first.body) != tt.same {
				t.Errorf("answers %s and %s, want the same: %v", first.body, other.body, tt.same)
			}
			if n := f.events(t); n != tt.events {
				t.Errorf("%d events, want %d", n, tt.events)
			}
			if n := f.metric(t, "onceward_dedupe_body_conflicts_total", "source", "github"); n != 1 {
				t.Errorf("%v conflicts counted, want 1", n)
			}
			if !strings.Contains(f.logs.String(), "ingest.conflict") {
				t.Error("a conflict must be logged")
			}
		})
	}
}

func TestReplayGuard(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		verifier verify.Guard // "" is the row's, which is flag
		source   dedupe.Guard
		events   uint64
		flagged  bool
	}{
		{verify.GuardOff, "", 2, false},
		{"", "", 2, true},
		{"", dedupe.GuardFlag, 2, true},
		{"", dedupe.GuardDrop, 1, false},
		{verify.GuardDrop, "", 1, false},
	} {
		t.Run(fmt.Sprintf("verifier %q source %q", tt.verifier, tt.source), func(t *testing.T) {
			t.Parallel()
			src := source(t, "github", func(s *Source) { s.Guard = tt.source })
			src.Verifier = verifier(t, verify.Config{
				Guard: tt.verifier, Secrets: []verify.Secret{{Value: verify.NewSecretString(testSecret)}},
			}, "github")
			f := setup(t, []*Source{src}, nil)
			m := f.sign(t, src, verify.SignRequest{ID: "d1", Type: "push", Body: []byte(`{"a":1}`)})
			first := f.send(t, m).want(t, 200)
			again := f.send(t, m.replace("X-GitHub-Delivery", "d2")).want(t, 200)
			if n := f.events(t); n != tt.events {
				t.Errorf("%d events, want %d", n, tt.events)
			}
			if dropped := tt.events == 1; dropped != (again.body == first.body) {
				t.Errorf("answers %s and %s", first.body, again.body)
			}
			if got := f.all(t)[0].Event.Flags.Has(event.FlagGuard); got != tt.flagged {
				t.Errorf("newest event flagged: %v", got)
			}
		})
	}
}

func TestWithoutID(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		policy verify.NoID
		events uint64
		flags  event.Flags
		key    string
	}{
		{verify.NoIDBodyHash, 1, event.FlagNoID, "none:h:" + event.HashOf([]byte("same")).String()},
		{verify.NoIDDeliver, 2, event.FlagNoID | event.FlagUndeduped, ""},
		{verify.NoIDRefuse, 0, 0, ""},
	} {
		t.Run(string(tt.policy), func(t *testing.T) {
			t.Parallel()
			src := source(t, "none", func(s *Source) { s.NoID = tt.policy })
			f := setup(t, []*Source{src}, nil)
			f.send(t, message{path: "/in/none", body: "same"})
			f.send(t, message{path: "/in/none", body: "same"})
			if n := f.events(t); n != tt.events {
				t.Fatalf("%d events, want %d", n, tt.events)
			}
			if tt.events == 0 {
				return
			}
			ev := f.all(t)[0].Event
			if ev.Flags != tt.flags || ev.ID != "" {
				t.Errorf("flags %v and ID %q, want %v and none", ev.Flags.Names(), ev.ID, tt.flags.Names())
			}
			if want := firstOf(tt.key, "none:"+ev.Ref.String()); ev.Key != want {
				t.Errorf("key %q, want %q", ev.Key, want)
			}
		})
	}
}

// TestWindows: an ID is remembered for the window, a body for as long as the
// provider retries and not longer.
func TestWindows(t *testing.T) {
	t.Parallel()
	src := source(t, "shopify", func(s *Source) { s.Window = 72 * time.Hour }) // it retries for four hours
	got := make(chan dedupe.Item, 1)
	f := setup(t, []*Source{src}, func(c *Config) {
		c.Admit = admitFunc(func(ctx context.Context, r *dedupe.Request) error {
			got <- r.Items[0]
			return benchAdmit(ctx, r)
		})
	})
	for id, want := range map[string]time.Duration{"d1": 72 * time.Hour, "": 4 * time.Hour} {
		f.send(t, f.sign(t, src, verify.SignRequest{ID: id, Type: "orders/paid", Body: []byte(`{}`)})).want(t, 200)
		if it := <-got; it.Window != want || !it.HasClaim {
			t.Errorf("ID %q is remembered for %v, want %v", id, it.Window, want)
		}
	}
}

// TestSameBodyTwoTypes: an event without an ID is its body and its type, also
// to the target.
func TestSameBodyTwoTypes(t *testing.T) {
	t.Parallel()
	src := source(t, "github")
	f := setup(t, []*Source{src}, nil)
	for _, typ := range []string{"push", "ping", "push"} {
		f.send(t, f.sign(t, src, verify.SignRequest{Type: typ, Body: []byte(`{}`)})).want(t, 200)
	}
	all := f.all(t)
	if len(all) != 2 || all[0].Event.Key == all[1].Event.Key {
		t.Fatalf("got %d events with keys %q and %q, want 2 with keys of their own", len(all), all[0].Event.Key, all[len(all)-1].Event.Key)
	}
}

func TestFormerName(t *testing.T) {
	t.Parallel()
	old := source(t, "github")
	f := setup(t, []*Source{old}, nil)
	m := f.sign(t, old, verify.SignRequest{ID: "d1", Body: []byte(`{"a":1}`)})
	first := f.send(t, m).want(t, 200)
	renamed := source(t, "github", func(s *Source) { s.Name, s.Former = "code", []string{"github"} })
	if err := f.r.SetSources([]*Source{renamed}, nil); err != nil {
		t.Fatal(err)
	}
	f.send(t, m).want(t, 404)
	m.path = "/in/code"
	if again := f.send(t, m).want(t, 200); again.body != first.body || again.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("answered %s, want the answer given under the former name, %s", again.body, first.body)
	}
}

func TestLongID(t *testing.T) {
	t.Parallel()
	src := source(t, "github")
	f := setup(t, []*Source{src}, nil)
	id := strings.Repeat("x", 600)
	got := f.send(t, f.sign(t, src, verify.SignRequest{ID: id, Body: []byte(`{}`)})).want(t, 200)
	framed, _ := dedupe.FrameID(id)
	if !strings.Contains(got.body, `"event_id":"`+framed+`"`) || !f.all(t)[0].Event.Flags.Has(event.FlagIDHashed) {
		t.Errorf("answer %s, want ID %s, flagged", got.body, framed)
	}
}

func batchSource(t *testing.T, key *ecdsa.PrivateKey, change ...func(*Source)) *Source {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	s := &Source{Name: "sendgrid", Routes: []Route{{Target: "mail"}, {Target: "drops", Types: []string{"drop*"}}}}
	for _, c := range change {
		c(s)
	}
	s.Verifier = verifier(t, verify.Config{
		Batch:      s.Batch,
		PublicKeys: []verify.Secret{{ID: "pub", Value: verify.NewSecretString(base64.StdEncoding.EncodeToString(der))}},
	}, "sendgrid")
	return s
}

func TestBatch(t *testing.T) {
	t.Parallel()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	sign := func(f *fixture, s *Source, body string) message {
		return f.sign(t, s, verify.SignRequest{Body: []byte(body), PrivateKey: key})
	}
	t.Run("split", func(t *testing.T) {
		t.Parallel()
		src := batchSource(t, key)
		f := setup(t, []*Source{src}, nil)
		body := `[ {"sg_event_id":"a","event":"open"},{"sg_event_id":"b","event":"dropped"}, {"sg_event_id":"a","event":"open"} ,{"event":"x"}]`
		first := f.send(t, sign(f, src, body)).want(t, 200)
		if n := f.events(t); n != 3 {
			t.Fatalf("%d events, want 3: the same ID twice is a repeat", n)
		}
		again := f.send(t, sign(f, src, body)).want(t, 200)
		if again.body != first.body || again.header.Get("Idempotent-Replayed") != "true" {
			t.Errorf("repeat answered %s, want %s", again.body, first.body)
		}
		var got struct {
			Status string
			Events []string
			Count  int
		}
		if err := json.Unmarshal([]byte(first.body), &got); err != nil || got.Count != 4 || len(got.Events) != 4 || got.Events[0] != got.Events[2] {
			t.Errorf("answer %s, %v", first.body, err)
		}
		for _, rec := range f.all(t) {
			b, err := f.mem.Body(t.Context(), rec.Event.Ref)
			if err != nil || !strings.Contains(body, string(b)) || b[0] != '{' || b[len(b)-1] != '}' {
				t.Errorf("body %q, %v: want an exact slice", b, err)
			}
			if want := 1 + strings.Count(rec.Event.Type, "drop"); len(rec.Event.Targets) != want {
				t.Errorf("%s goes to %q, want %d targets", rec.Event.Type, rec.Event.Targets, want)
			}
		}
	})
	t.Run("missing id is never a reason to refuse", func(t *testing.T) {
		t.Parallel()
		src := batchSource(t, key, func(s *Source) { s.NoID = verify.NoIDRefuse })
		f := setup(t, []*Source{src}, nil)
		f.send(t, sign(f, src, `[{"event":"x"}]`)).want(t, 200)
		if ev := f.all(t)[0].Event; !ev.Flags.Has(event.FlagNoID | event.FlagUndeduped) {
			t.Errorf("flags %v", ev.Flags.Names())
		}
	})
	t.Run("conflict is never rejected", func(t *testing.T) {
		t.Parallel()
		src := batchSource(t, key, func(s *Source) { s.Conflict = dedupe.ConflictReject })
		f := setup(t, []*Source{src}, nil)
		f.send(t, sign(f, src, `[{"sg_event_id":"a","n":1}]`)).want(t, 200)
		f.send(t, sign(f, src, `[{"sg_event_id":"a","n":2},{"sg_event_id":"b"}]`)).want(t, 200)
		if n := f.events(t); n != 2 {
			t.Errorf("%d events, want 2", n)
		}
	})
	t.Run("empty", func(t *testing.T) {
		t.Parallel()
		src := batchSource(t, key)
		f := setup(t, []*Source{src}, nil)
		if got := f.send(t, sign(f, src, `[]`)).want(t, 200); got.body != `{"status":"accepted","events":[],"count":0}` {
			t.Errorf("answer %s", got.body)
		}
		if n := f.events(t); n != 0 {
			t.Errorf("%d events, want none", n)
		}
	})
	t.Run("keep", func(t *testing.T) {
		t.Parallel()
		src := batchSource(t, key, func(s *Source) { s.Batch = "keep" })
		f := setup(t, []*Source{src}, nil)
		f.send(t, sign(f, src, `[{"sg_event_id":"a"},{"sg_event_id":"b"}]`)).want(t, 200)
		if all := f.all(t); len(all) != 1 || !all[0].Event.Flags.Has(event.FlagKeepBatch) {
			t.Errorf("%d events, want the batch as one", len(all))
		}
	})
	t.Run("too many", func(t *testing.T) {
		t.Parallel()
		src := batchSource(t, key, func(s *Source) { s.MaxElements = 3 })
		f := setup(t, []*Source{src}, nil)
		f.send(t, sign(f, src, `[{},{},{},{}]`)).want(t, 413)
		f.send(t, sign(f, src, `[{"sg_event_id":"1"},{"sg_event_id":"2"},{"sg_event_id":"3"}]`)).want(t, 200)
	})
	t.Run("malformed", func(t *testing.T) {
		t.Parallel()
		src := batchSource(t, key)
		f := setup(t, []*Source{src}, nil)
		for _, body := range []string{`{}`, `null`, `[`, strings.Repeat("[", 600), `[1,]`, ``} {
			f.send(t, sign(f, src, body)).want(t, 400)
		}
		// The same bytes unsigned say nothing about their form.
		f.send(t, sign(f, src, `{}`).without("X-Twilio-Email-Event-Webhook-Signature")).want(t, 401)
	})
	t.Run("answer is bounded", func(t *testing.T) {
		t.Parallel()
		src := batchSource(t, key)
		f := setup(t, []*Source{src}, nil)
		var b strings.Builder
		for i := range 900 {
			fmt.Fprintf(&b, `,{"sg_event_id":"e%d"}`, i)
		}
		got := f.send(t, sign(f, src, "["+b.String()[1:]+"]")).want(t, 200)
		if len(got.body) > 4096 || !strings.HasSuffix(got.body, `,"count":900}`) {
			t.Errorf("answer of %d bytes ends in %q", len(got.body), got.body[len(got.body)-20:])
		}
		if n := f.events(t); n != 900 {
			t.Errorf("%d events, want 900", n)
		}
	})
}

// TestRefusalsAlike: the answer to a request that does not verify is the same
// in every byte but the date, whatever was wrong with it.
func TestRefusalsAlike(t *testing.T) {
	t.Parallel()
	src := source(t, "stripe")
	src.Verifier = verifier(t, verify.Config{Secrets: []verify.Secret{{Value: verify.NewSecretString("whsec_0000000000000000000")}}}, "stripe")
	f := setup(t, []*Source{src}, nil)
	m := f.sign(t, src, verify.SignRequest{Body: []byte(jsonBody("evt_1"))})
	stale := f.sign(t, src, verify.SignRequest{Body: []byte(jsonBody("evt_1"))})
	sig := m.value("Stripe-Signature")
	seen := map[string]bool{}
	var first string
	for name, tt := range map[string]struct {
		m    message
		move time.Duration
	}{
		"missing":   {m: m.without("Stripe-Signature")},
		"empty":     {m: m.replace("Stripe-Signature", "")},
		"garbage":   {m: m.replace("Stripe-Signature", "garbage")},
		"forged":    {m: m.replace("Stripe-Signature", sig[:len(sig)-4]+"0000")},
		"doubled":   {m: m.with("Stripe-Signature: " + sig)},
		"no time":   {m: m.replace("Stripe-Signature", sig[strings.Index(sig, "v1="):])},
		"bad time":  {m: m.replace("Stripe-Signature", "t="+strings.Repeat("9", 400)+","+sig[strings.Index(sig, "v1="):])},
		"old":       {m: stale, move: time.Hour},
		"future":    {m: stale, move: -time.Hour},
		"body":      {m: message{path: m.path, lines: m.lines, body: m.body + " "}},
		"only v0":   {m: m.replace("Stripe-Signature", strings.Replace(sig, "v1=", "v0=", 1))},
		"other alg": {m: m.replace("Stripe-Signature", strings.Replace(sig, "v1=", "v1=sha512:", 1))},
	} {
		f.now.Store(noon.Add(tt.move).UnixNano())
		raw := f.rawText(t, tt.m)
		if first == "" {
			first = raw
		}
		if raw != first {
			t.Errorf("%s: answered\n%s\nwant\n%s", name, raw, first)
		}
	}
	if !strings.HasPrefix(first, "HTTP/1.1 401 ") {
		t.Errorf("answer %s", first)
	}
	for _, ref := range f.r.Refusals(RefusalFilter{}) {
		seen[ref.Reason] = true
	}
	if len(seen) < 5 {
		t.Errorf("only the reasons %v occurred: the table does not cover enough", seen)
	}
	if n := f.events(t); n != 0 {
		t.Errorf("%d events, want none", n)
	}
}

// rawText is the answer as bytes, without its date.
func (f *fixture) rawText(t *testing.T, m message) string {
	t.Helper()
	got := f.send(t, m)
	if got.header.Get("Date") == "" {
		t.Error("answer has no date")
	}
	got.header.Del("Date")
	var b strings.Builder
	fmt.Fprintf(&b, "HTTP/1.1 %d %s\n", got.status, http.StatusText(got.status))
	_ = got.header.Write(&b)
	return b.String() + fmt.Sprint(got.closed) + "\n" + got.body
}

func TestAppendJSON(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"", "evt_1", `a"b`, `a\b`, "a\nb", "a\x00b", "ü", "\xff\xfe", "</script>", "\u2028", "\x7f"} {
		want, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		if got := string(appendJSON(nil, s)); got != string(want) && s != "\x7f" {
			t.Errorf("appendJSON(%q) = %s, want %s", s, got, want)
		}
		var back string
		if err := json.Unmarshal(appendJSON(nil, s), &back); err != nil {
			t.Errorf("appendJSON(%q) is no JSON: %v", s, err)
		}
	}
}
