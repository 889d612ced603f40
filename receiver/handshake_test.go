package receiver

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/onceward/onceward/verify"
)

// registering is a source that waits for its secret.
func registering(t *testing.T) *Source {
	t.Helper()
	v := verifier(t, verify.Config{Options: map[string]string{"registration_pending": "true"}}, "asana")
	return &Source{Name: "asana", Verifier: v}
}

const handedSecret = "b537207f20cbfa02357cf448134da559e8bd39d61597dcd5631b8012eae53e81"

// TestCapture keeps before it answers; what can't be kept is not answered.
func TestCapture(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		err    error
		absent bool
		status int
		echo   string
	}{
		{name: "kept", status: 200, echo: handedSecret},
		{name: "there is one", err: ErrCaptured, status: 401},
		{name: "disk", err: errors.New("disk"), status: 503},
		{name: "nobody to keep it", absent: true, status: 503},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			hand := &handRecorder{err: tt.err}
			f := setup(t, []*Source{registering(t)}, func(c *Config) {
				if !tt.absent {
					c.Handover = hand
				}
			})
			got := f.send(t, message{path: "/in/asana", body: "{}", lines: []string{"X-Hook-Secret: " + handedSecret}}).want(t, tt.status)
			if got.header.Get("X-Hook-Secret") != tt.echo {
				t.Errorf("echoed %q, want %q", got.header.Get("X-Hook-Secret"), tt.echo)
			}
			if !tt.absent && hand.of("asana") != handedSecret {
				t.Errorf("handed over %q", hand.of("asana"))
			}
			if f.events(t) != 0 {
				t.Error("a handshake left an event")
			}
			for _, r := range f.r.Refusals(RefusalFilter{}) {
				if strings.Contains(string(r.Body), handedSecret) || len(r.Body) > 0 {
					t.Errorf("the refusal keeps the body: %q", r.Body)
				}
				for _, h := range r.Header {
					if strings.Contains(h.Value, handedSecret) {
						t.Errorf("the refusal shows %s", h.Name)
					}
				}
			}
			if strings.Contains(f.logs.String(), handedSecret) {
				t.Error("the log holds the secret")
			}
		})
	}
}

// TestHandshakeMethods lets methods in for handshakes alone, HEAD and OPTIONS
// among them, and the query as it came.
func TestHandshakeMethods(t *testing.T) {
	t.Parallel()
	row := verify.Row{
		Name: "probe", Methods: []string{"POST", "GET"},
		Modes: []verify.Mode{{Name: "token", Token: &verify.Token{In: "query:token"}}},
		ID:    []string{"query:id"},
		Handshake: []verify.Handshake{
			{Name: "head", Method: "HEAD", Open: true},
			{Name: "options", Method: "OPTIONS", Detect: []string{"header:WebHook-Request-Origin"}, Open: true,
				Header: map[string]string{"WebHook-Allowed-Origin": "{header:WebHook-Request-Origin}"}},
		},
	}
	row.Methods = append(row.Methods, "HEAD", "OPTIONS")
	v, err := verify.New(verify.Config{Row: row, Secrets: []verify.Secret{{Value: verify.NewSecretString("0123456789abcdef")}}})
	if err != nil {
		t.Fatal(err)
	}
	f := setup(t, []*Source{{Name: "probe", Verifier: v}}, nil)
	f.send(t, message{method: "HEAD", path: "/in/probe"}).want(t, 200)
	got := f.send(t, message{method: "OPTIONS", path: "/in/probe", lines: []string{"WebHook-Request-Origin: sender.example"}}).want(t, 200)
	if got.header.Get("WebHook-Allowed-Origin") != "sender.example" {
		t.Errorf("got %v", got.header)
	}
	f.send(t, message{method: "PUT", path: "/in/probe"}).want(t, 405)
	const query = "id=%41+b&token=0123456789abcdef&z=%zz"
	f.send(t, message{method: "GET", path: "/in/probe?" + query}).want(t, 200)
	if ev := f.all(t)[0].Event; ev.Query != query || ev.Method != "GET" || ev.ID != "A b" {
		t.Errorf("stored %s ?%s as %q", ev.Method, ev.Query, ev.ID)
	}
}

// gated answers when it is told to.
type gated struct {
	once    sync.Once
	entered chan struct{}
	release chan struct{}
	err     error
}

func (g *gated) Fetch(ctx context.Context, _ string) ([]byte, error) {
	g.once.Do(func() { close(g.entered) })
	select {
	case <-g.release:
		return nil, g.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// fetching is a source whose keys come from a server that answers late.
func fetching(t *testing.T, name string, fetch verify.Fetcher) *Source {
	t.Helper()
	row := verify.Row{
		Name: name, ID: []string{"json:id"},
		Modes: []verify.Mode{{Name: "signature", PublicKey: &verify.PublicKey{Algorithm: verify.Ed25519,
			Scheme: verify.Scheme{Sig: "header:X-Sig", Signed: "{body}"}, Keys: &verify.KeySource{Kind: "jwks", URL: "https://keys.example/jwks"}}}},
	}
	v, err := verify.New(verify.Config{Row: row, Fetcher: fetch})
	if err != nil {
		t.Fatal(err)
	}
	return &Source{Name: name, Verifier: v}
}

var signedByAnybody = message{path: "/in/keys", body: `{"id":"1"}`, lines: []string{"X-Sig: " + strings.Repeat("ab", 64)}}

// TestSlowKeyServer has one source wait for its keys: it takes only so many
// requests meanwhile, and the others go on.
func TestSlowKeyServer(t *testing.T) {
	t.Parallel()
	slow := &gated{entered: make(chan struct{}), release: make(chan struct{}), err: errors.New("down")}
	f := setup(t, []*Source{fetching(t, "keys", slow), {Name: "other", Verifier: verifier(t, verify.Config{}, "none")}}, nil)
	var wg sync.WaitGroup
	statuses := make(chan int, maxWaiting)
	wg.Go(func() { statuses <- f.send(t, signedByAnybody).status })
	<-slow.entered
	for range maxWaiting - 1 {
		wg.Go(func() { statuses <- f.send(t, signedByAnybody).status })
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for f.r.states["keys"].waiting.requests.Load() < maxWaiting {
		<-tick.C
	}
	got := f.send(t, signedByAnybody).want(t, 503)
	if got.header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	f.send(t, message{path: "/in/other", body: `{"id":"2"}`}).want(t, 200)
	close(slow.release)
	wg.Wait()
	for range maxWaiting {
		if status := <-statuses; status != 503 {
			t.Errorf("without keys: got %d, want 503", status)
		}
	}
	if n, b := f.r.states["keys"].waiting.requests.Load(), f.r.states["keys"].waiting.bytes.Load(); n != 0 || b != 0 {
		t.Errorf("%d requests and %d bytes still wait", n, b)
	}
	if n := f.metric(t, "onceward_ingest_refused_total", "source", "keys", "reason", "key_unavailable"); n != maxWaiting {
		t.Errorf("counted %v", n)
	}
}

// TestWaitingBytes bounds what waiting requests hold, and lets a large one in
// when it is alone.
func TestWaitingBytes(t *testing.T) {
	t.Parallel()
	var w waiting
	if !w.enter(200, 100) {
		t.Fatal("a large request found no place")
	}
	if w.enter(1, 100) {
		t.Error("another one did")
	}
	w.leave(200)
	if !w.enter(60, 100) || w.enter(60, 100) || !w.enter(40, 100) {
		t.Error("bytes are not bounded")
	}
}

// TestEchoAndFail gives back the headers a provider wants to see, with an event
// and with its repeat, and fails a handshake as its row says.
func TestEchoAndFail(t *testing.T) {
	t.Parallel()
	row := verify.Row{
		Name: "echoing", ID: []string{"json:id"}, EchoHeaders: []string{"X-Client-Id"}, Options: []string{"code"}, Methods: []string{"POST", "GET"},
		Modes: []verify.Mode{{Name: "token", Token: &verify.Token{In: "header:X-Token"}}},
		Handshake: []verify.Handshake{{Name: "code", Method: "GET", Detect: []string{"query:code"}, Compare: []string{"query:code=code"},
			Status: 204, Fail: 404}},
	}
	v, err := verify.New(verify.Config{Row: row, Options: map[string]string{"code": "right"},
		Secrets: []verify.Secret{{Value: verify.NewSecretString("0123456789abcdef")}}})
	if err != nil {
		t.Fatal(err)
	}
	f := setup(t, []*Source{{Name: "echoing", Verifier: v}}, nil)
	f.send(t, message{method: "GET", path: "/in/echoing?code=right"}).want(t, 204)
	if got := f.send(t, message{method: "GET", path: "/in/echoing?code=wrong"}).want(t, 404); got.body != "" {
		t.Errorf("a failed handshake is answered %q", got.body)
	}
	event := message{path: "/in/echoing", body: `{"id":"1"}`, lines: []string{"X-Client-Id: c7"}}
	for range 2 {
		got := f.send(t, event.with("X-Token: 0123456789abcdef")).want(t, 200)
		if got.header.Get("X-Client-Id") != "c7" {
			t.Errorf("got %v", got.header)
		}
	}
	if got := f.send(t, event.with("X-Token: fedcba9876543210")).want(t, 401); got.header.Get("X-Client-Id") != "" {
		t.Errorf("a refusal gives back %v", got.header)
	}
}
