package forward

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onceward/onceward/event"
)

// life is a context that counts who waits for its end.
type life struct {
	context.Context
	waiting atomic.Int64
}

// Value hides the context below, whose own list would be used.
func (l *life) Value(any) any { return nil }

func (l *life) AfterFunc(f func()) (stop func() bool) {
	l.waiting.Add(1)
	end := context.AfterFunc(l.Context, f)
	return func() bool {
		if !end() {
			return false
		}
		l.waiting.Add(-1)
		return true
	}
}

func living(t *testing.T) (*life, context.CancelFunc) {
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	return &life{Context: ctx}, cancel
}

// plainTo is a transport to a server, and a count of the connections it made.
func plainTo(t *testing.T, h http.HandlerFunc) (tr *plain, url string, conns *atomic.Int64) {
	conns = &atomic.Int64{}
	s := httptest.NewUnstartedServer(h)
	s.Config.ConnState = func(_ net.Conn, st http.ConnState) {
		if st == http.StateNew {
			conns.Add(1)
		}
	}
	s.Start()
	t.Cleanup(s.Close)
	target := Target{URL: mustURL(t, s.URL), Timeout: 10 * time.Second, Concurrency: 1}
	tr = newTransport(&target, (&net.Dialer{}).DialContext, nil).(*plain)
	t.Cleanup(tr.CloseIdleConnections)
	return tr, s.URL, conns
}

func post(ctx context.Context, t *testing.T, tr *plain, url string, limit time.Duration) error {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	var phases event.Phases
	resp, err := tr.within(req, time.Now().Add(limit), &phases)
	if err == nil {
		err = resp.Body.Close()
	}
	return err
}

func answer200(http.ResponseWriter, *http.Request) {}

// The moment at which an attempt would have ended is none at which the next one
// ends, nor does it cost that one its connection.
func TestPlainOutlivesAnAttempt(t *testing.T) {
	tr, url, conns := plainTo(t, answer200)
	ctx, _ := living(t)
	for i, limit := range []time.Duration{30 * time.Millisecond, time.Second, time.Second} {
		if err := post(ctx, t, tr, url, limit); err != nil {
			t.Fatalf("attempt %d: %v", i, err)
		}
		time.Sleep(100 * time.Millisecond)
	}
	if n := conns.Load(); n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
	if n := ctx.waiting.Load(); n != 1 {
		t.Errorf("%d wait for the end of the context, want the connection alone", n)
	}
}

// A target that does not answer in time ends the attempt, and its connection no
// longer waits for anything.
func TestPlainEndsInTime(t *testing.T) {
	hold := make(chan struct{})
	tr, url, _ := plainTo(t, func(http.ResponseWriter, *http.Request) { <-hold })
	defer close(hold)
	ctx, _ := living(t)
	err := post(ctx, t, tr, url, 50*time.Millisecond)
	if outcome, _ := classify(ctx, err); outcome != event.OutcomeTimeout {
		t.Errorf("%v is taken for %s", err, outcome)
	}
	if n := ctx.waiting.Load(); n != 0 {
		t.Errorf("%d still wait for the end of the context", n)
	}
}

// The end of the context ends an attempt at once, and what was idle then is not
// used again.
func TestPlainEndsWithItsContext(t *testing.T) {
	hold := make(chan struct{})
	began := make(chan struct{}, 1)
	tr, url, conns := plainTo(t, func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/held" {
			began <- struct{}{}
			<-hold
		}
	})
	defer close(hold)
	ctx, cancel := living(t)
	if err := post(ctx, t, tr, url, time.Second); err != nil {
		t.Fatal(err)
	}
	go func() { <-began; cancel() }()
	if err := post(ctx, t, tr, url+"/held", time.Minute); !errors.Is(err, context.Canceled) {
		t.Errorf("an attempt under way: %v", err)
	}
	if err := post(ctx, t, tr, url, time.Minute); !errors.Is(err, context.Canceled) {
		t.Errorf("one after the end: %v", err)
	}
	next, _ := living(t)
	if err := post(next, t, tr, url, time.Second); err != nil || conns.Load() != 2 {
		t.Errorf("under another context: %v, %d connections", err, conns.Load())
	}
}

// What was idle when its context ended sends nothing more under that one, and is not
// taken under another.
func TestPlainIdleEndsWithItsContext(t *testing.T) {
	var hits atomic.Int64
	tr, url, conns := plainTo(t, func(http.ResponseWriter, *http.Request) { hits.Add(1) })
	for name, again := range map[string]bool{"the same context": true, "another context": false} {
		hits.Store(0)
		conns.Store(0)
		ctx, cancel := context.WithCancel(t.Context())
		if err := post(ctx, t, tr, url, time.Second); err != nil {
			t.Fatal(err)
		}
		cancel()
		time.Sleep(20 * time.Millisecond) // until the connection was told
		if again {
			if err := post(ctx, t, tr, url, time.Second); !errors.Is(err, context.Canceled) || hits.Load() != 1 {
				t.Errorf("%s: %v, %d requests came", name, err, hits.Load())
			}
			continue
		}
		if err := post(t.Context(), t, tr, url, time.Second); err != nil || conns.Load() != 2 {
			t.Errorf("%s: %v, %d connections, want 2", name, err, conns.Load())
		}
	}
}
