package client_test

import (
	"context"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/onceward/onceward/forward/client"
)

// step is what a scripted base does with one attempt.
type step struct {
	status int
	after  string // Retry-After
	err    error
	hang   bool // until the attempt's context ends
}

// script is a base that answers attempt by attempt, the last step for ever.
type script struct {
	steps []step

	mu     sync.Mutex
	at     []time.Duration // since start
	start  time.Time
	keys   []string
	bodies []string
}

func (s *script) RoundTrip(req *http.Request) (*http.Response, error) {
	var body []byte
	if req.Body != nil {
		var err error
		body, err = io.ReadAll(req.Body)
		req.Body.Close()
		if err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	st := s.steps[min(len(s.keys), len(s.steps)-1)]
	s.at = append(s.at, time.Since(s.start))
	s.keys = append(s.keys, wireKey(req.Header))
	s.bodies = append(s.bodies, string(body))
	s.mu.Unlock()
	if st.hang {
		<-req.Context().Done()
		return nil, req.Context().Err()
	}
	if st.err != nil {
		return nil, st.err
	}
	resp := &http.Response{StatusCode: st.status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("answer")), Request: req}
	if st.after != "" {
		resp.Header.Set("Retry-After", st.after)
	}
	return resp, nil
}

// wireKey is the key as a server would see it: names have no case there.
func wireKey(h http.Header) string {
	for name, v := range h {
		if strings.EqualFold(name, client.Header) {
			return v[0]
		}
	}
	return ""
}

func post(t *testing.T, ctx context.Context, body string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://pay.test/charge", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	return req
}

func TestSchedule(t *testing.T) {
	t.Parallel()
	refused := &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	for _, tt := range []struct {
		name   string
		cfg    client.Config
		steps  []step
		within time.Duration // the operation's deadline, 0 for none
		want   []time.Duration
		status int // 0 for an error
	}{
		{name: "at once", steps: []step{{status: 201}}, want: []time.Duration{0}, status: 201},
		{name: "exponential", steps: []step{{status: 503}}, want: []time.Duration{0, 500 * time.Millisecond, 1500 * time.Millisecond, 3500 * time.Millisecond, 7500 * time.Millisecond}, status: 503},
		{name: "bounded", cfg: client.Config{Initial: time.Second, Max: 3 * time.Second}, steps: []step{{status: 500}},
			want: []time.Duration{0, time.Second, 3 * time.Second, 6 * time.Second, 9 * time.Second}, status: 500},
		{name: "lands in the end", steps: []step{{err: refused}, {status: 408}, {status: 429}, {status: 200}},
			want: []time.Duration{0, 500 * time.Millisecond, 1500 * time.Millisecond, 3500 * time.Millisecond}, status: 200},
		{name: "seconds", steps: []step{{status: 429, after: "7"}, {status: 200}}, want: []time.Duration{0, 7 * time.Second}, status: 200},
		{name: "date", steps: []step{{status: 503, after: "Sat, 01 Jan 2000 00:00:09 GMT"}, {status: 200}}, want: []time.Duration{0, 9 * time.Second}, status: 200},
		{name: "past date", steps: []step{{status: 503, after: "Fri, 31 Dec 1999 23:59:59 GMT"}, {status: 200}}, want: []time.Duration{0, 500 * time.Millisecond}, status: 200},
		{name: "shorter than the backoff", cfg: client.Config{Initial: 5 * time.Second}, steps: []step{{status: 503, after: "1"}, {status: 200}}, want: []time.Duration{0, 5 * time.Second}, status: 200},
		{name: "garbage", steps: []step{{status: 503, after: "-5"}, {status: 503, after: "soon"}, {status: 200}}, want: []time.Duration{0, 500 * time.Millisecond, 1500 * time.Millisecond}, status: 200},
		{name: "asks for too long", steps: []step{{status: 503, after: "121"}, {status: 200}}, want: []time.Duration{0}, status: 503},
		{name: "asks for longer than time has", steps: []step{{status: 503, after: "99999999999999999999999"}, {status: 200}}, want: []time.Duration{0}, status: 503},
		{name: "longest", steps: []step{{status: 503, after: "120"}, {status: 200}}, want: []time.Duration{0, 2 * time.Minute}, status: 200},
		{name: "final answers", steps: []step{{status: 409}}, want: []time.Duration{0}, status: 409},
		{name: "not modified", steps: []step{{status: 304}}, want: []time.Duration{0}, status: 304},
		{name: "no status of HTTP", steps: []step{{status: 600}}, want: []time.Duration{0}, status: 600},
		{name: "one attempt", cfg: client.Config{Attempts: 1}, steps: []step{{status: 500}}, want: []time.Duration{0}, status: 500},
		{name: "attempts hang", cfg: client.Config{Attempts: 2, AttemptTimeout: 4 * time.Second}, steps: []step{{hang: true}, {status: 200}},
			want: []time.Duration{0, 4500 * time.Millisecond}, status: 200},
		{name: "all hang", cfg: client.Config{Attempts: 2, AttemptTimeout: 4 * time.Second}, steps: []step{{hang: true}}, want: []time.Duration{0, 4500 * time.Millisecond}},
		{name: "no time for another", steps: []step{{status: 503, after: "10"}}, within: 8 * time.Second, want: []time.Duration{0}, status: 503},
		{name: "deadline within an attempt", steps: []step{{hang: true}}, within: 8 * time.Second, want: []time.Duration{0}},
		{name: "broken answers", steps: []step{{err: io.ErrUnexpectedEOF}, {err: io.EOF}, {status: 200}}, want: []time.Duration{0, 500 * time.Millisecond, 1500 * time.Millisecond}, status: 200},
		{name: "unknown authority", steps: []step{{err: x509.UnknownAuthorityError{}}}, want: []time.Duration{0}},
		{name: "fault of the request", steps: []step{{err: errors.New("unsupported protocol scheme")}}, want: []time.Duration{0}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				base := &script{steps: tt.steps, start: time.Now()}
				if tt.cfg.Initial == 0 {
					tt.cfg.Initial = 500 * time.Millisecond
				}
				tt.cfg.Base, tt.cfg.Rand = base, func() float64 { return 1 }
				ctx := t.Context()
				if tt.within > 0 {
					var stop context.CancelFunc
					ctx, stop = context.WithTimeout(ctx, tt.within)
					defer stop()
				}
				resp, err := client.New(tt.cfg).RoundTrip(post(t, ctx, "amount=5"))
				if got := base.at; !slices.Equal(got, tt.want) {
					t.Errorf("attempts at %v, want %v", got, tt.want)
				}
				if tt.status == 0 {
					if err == nil {
						t.Fatalf("status %d, want an error", resp.StatusCode)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				defer resp.Body.Close()
				if text, err := io.ReadAll(resp.Body); err != nil || string(text) != "answer" || resp.StatusCode != tt.status {
					t.Errorf("answer %d %q, %v; want %d and a readable body", resp.StatusCode, text, err, tt.status)
				}
				for i := range base.keys {
					if base.keys[i] != base.keys[0] || base.bodies[i] != "amount=5" {
						t.Errorf("attempt %d has key %q and body %q, want %q as at first and the whole body", i+1, base.keys[i], base.bodies[i], base.keys[0])
					}
				}
			})
		})
	}
}

func TestJitter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		base := &script{steps: []step{{status: 503}}, start: time.Now()}
		parts := []float64{0.5, 0, 0.25}
		tr := client.New(client.Config{Base: base, Attempts: 4, Initial: time.Second, Rand: func() float64 {
			p := parts[0]
			parts = parts[1:]
			return p
		}})
		if _, err := tr.RoundTrip(post(t, t.Context(), "x")); err != nil {
			t.Fatal(err)
		}
		want := []time.Duration{0, 500 * time.Millisecond, 500 * time.Millisecond, 1500 * time.Millisecond}
		if !slices.Equal(base.at, want) {
			t.Errorf("attempts at %v, want %v", base.at, want)
		}
	})
}

func TestCancelWhileWaiting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		base := &script{steps: []step{{status: 503, after: "60"}}, start: time.Now()}
		ctx, stop := context.WithCancel(t.Context())
		time.AfterFunc(3*time.Second, stop)
		_, err := client.New(client.Config{Base: base}).RoundTrip(post(t, ctx, "x"))
		if !errors.Is(err, context.Canceled) || time.Since(base.start) != 3*time.Second || len(base.at) != 1 {
			t.Errorf("%v after %v and %d attempts, want canceled after 3s and one", err, time.Since(base.start), len(base.at))
		}
	})
}

// slow is a base whose answers have a body that takes a minute.
type slow struct{ ctx context.Context }

func (s *slow) RoundTrip(req *http.Request) (*http.Response, error) {
	s.ctx = req.Context()
	return &http.Response{StatusCode: 200, Header: http.Header{}, Request: req, Body: s}, nil
}

func (s *slow) Read(p []byte) (int, error) {
	select {
	case <-time.After(time.Minute):
		return copy(p, "slow answer"), io.EOF
	case <-s.ctx.Done():
		return 0, s.ctx.Err()
	}
}

func (*slow) Close() error { return nil }

// TestBodyOutlivesTimeout: the time-out of an attempt ends with the answer's
// header, and its context with the answer's body.
func TestBodyOutlivesTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		base := &slow{}
		resp, err := client.New(client.Config{Base: base, AttemptTimeout: time.Second}).RoundTrip(post(t, t.Context(), "x"))
		if err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(resp.Body); err != nil || string(text) != "slow answer" {
			t.Errorf("body %q, %v", text, err)
		}
		if base.ctx.Err() == nil {
			t.Error("the attempt's context goes on after the end of its answer")
		}
	})
}

var uuid4 = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)

func TestKeys(t *testing.T) {
	t.Parallel()
	base := &script{steps: []step{{status: 500}}}
	tr := client.New(client.Config{Base: base, Attempts: 3, Rand: func() float64 { return 0 }})
	seen := map[string]bool{}
	for range 200 {
		base.keys = nil
		req := post(t, t.Context(), "x")
		if _, err := tr.RoundTrip(req); err != nil {
			t.Fatal(err)
		}
		if len(base.keys) != 3 || base.keys[0] != base.keys[1] || base.keys[0] != base.keys[2] {
			t.Fatalf("keys of one operation: %q, want one for three attempts", base.keys)
		}
		if k := base.keys[0]; !uuid4.MatchString(k) || seen[k] {
			t.Fatalf("key %q is no random UUID of version 4, or was there before", k)
		}
		seen[base.keys[0]] = true
		if len(req.Header) != 0 {
			t.Fatalf("the caller's request was changed: %v", req.Header)
		}
	}
	base.keys = nil
	req := post(t, t.Context(), "x")
	req.Header.Set(client.Header, "order-17")
	if _, err := tr.RoundTrip(req); err != nil || !slices.Equal(base.keys, []string{"order-17", "order-17", "order-17"}) {
		t.Errorf("keys %q, %v; want the caller's own", base.keys, err)
	}
}

func TestMethods(t *testing.T) {
	t.Parallel()
	for method, want := range map[string]int{"POST": 2, "PUT": 2, "PATCH": 2, "DELETE": 2, "GET": 1, "HEAD": 1, "OPTIONS": 1, "PURGE": 1} {
		base := &script{steps: []step{{status: 503}}}
		tr := client.New(client.Config{Base: base, Attempts: 2, Rand: func() float64 { return 0 }})
		req, _ := http.NewRequestWithContext(t.Context(), method, "http://pay.test/", nil)
		if _, err := tr.RoundTrip(req); err != nil || len(base.keys) != want || (base.keys[0] != "") != (want == 2) {
			t.Errorf("%s: %d attempts with keys %q, %v; want %d", method, len(base.keys), base.keys, err, want)
		}
	}
}

func TestBodies(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("0123456789", 10)
	broken := errors.New("disk gone")
	for _, tt := range []struct {
		name   string
		body   io.Reader
		length int64
		get    bool
		want   []string
		err    string
	}{
		{name: "with GetBody, beyond the buffer", body: strings.NewReader(long), length: 100, get: true, want: []string{long, long, long}},
		{name: "with GetBody, of unknown length", body: strings.NewReader(long), length: -1, get: true, want: []string{long, long, long}},
		{name: "buffered", body: iotest.OneByteReader(strings.NewReader("abc")), length: -1, want: []string{"abc", "abc", "abc"}},
		{name: "buffered, known length", body: iotest.OneByteReader(strings.NewReader("abc")), length: 3, want: []string{"abc", "abc", "abc"}},
		{name: "buffered, zero means unknown", body: iotest.OneByteReader(strings.NewReader("abc")), want: []string{"abc", "abc", "abc"}},
		{name: "as long as the buffer", body: iotest.OneByteReader(strings.NewReader(long[:64])), length: -1, want: []string{long[:64], long[:64], long[:64]}},
		{name: "longer than the buffer", body: iotest.OneByteReader(strings.NewReader(long[:65])), length: -1, want: []string{long[:65]}},
		{name: "known to be longer", body: iotest.OneByteReader(strings.NewReader(long)), length: 100, want: []string{long}},
		{name: "empty", body: iotest.OneByteReader(strings.NewReader("")), length: -1, want: []string{"", "", ""}},
		{name: "reading fails", body: iotest.ErrReader(broken), length: -1, err: "disk gone"},
		{name: "reading fails late", body: io.MultiReader(strings.NewReader(long), iotest.ErrReader(broken)), length: -1, err: "disk gone"},
		{name: "length is wrong", body: iotest.OneByteReader(strings.NewReader("abc")), length: 4, err: "ContentLength says 4"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			base := &script{steps: []step{{status: 503}}}
			tr := client.New(client.Config{Base: base, Attempts: 3, MaxBody: 64, Rand: func() float64 { return 0 }})
			closed := &closeCounter{Reader: tt.body}
			req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://pay.test/", closed)
			req.ContentLength = tt.length
			if tt.get {
				req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(long)), nil }
			}
			_, err := tr.RoundTrip(req)
			if !slices.Equal(base.bodies, tt.want) {
				t.Errorf("bodies %q, want %q", base.bodies, tt.want)
			}
			if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("error %v, want %q", err, tt.err)
			}
			if len(tt.want) < 3 && closed.n == 0 && tt.err == "" {
				t.Error("the caller's body was not closed")
			}
		})
	}
}

type closeCounter struct {
	io.Reader
	n int
}

func (c *closeCounter) Close() error { c.n++; return nil }

// TestRedirect: a redirect that keeps the method is the same operation; one
// that makes it a GET is none.
func TestRedirect(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var got []string
	mux := http.NewServeMux()
	note := func(r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, r.Method+" "+r.URL.Path+" "+r.Header.Get(client.Header))
	}
	mux.HandleFunc("/307", func(w http.ResponseWriter, r *http.Request) {
		note(r)
		http.Redirect(w, r, "/end", http.StatusTemporaryRedirect)
	})
	mux.HandleFunc("/303", func(w http.ResponseWriter, r *http.Request) {
		note(r)
		http.Redirect(w, r, "/end", http.StatusSeeOther)
	})
	mux.HandleFunc("/end", func(w http.ResponseWriter, r *http.Request) { note(r) })
	server := httptest.NewServer(mux)
	defer server.Close()
	c := &http.Client{Transport: client.New(client.Config{Base: server.Client().Transport})}
	for _, body := range []io.Reader{strings.NewReader("x"), nil} {
		got = nil
		for _, path := range []string{"/307", "/303"} {
			req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+path, body)
			resp, err := c.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
		}
		if len(got) != 4 {
			t.Fatalf("requests %q, want four", got)
		}
		key := strings.TrimPrefix(got[0], "POST /307 ")
		if !uuid4.MatchString(key) || got[1] != "POST /end "+key {
			t.Errorf("redirected with its method: %q, want one key", got[:2])
		}
		if got[3] != "GET /end " {
			t.Errorf("redirected to a GET: %q, want no key", got[3])
		}
	}
}
