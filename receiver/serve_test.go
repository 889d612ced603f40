package receiver

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/verify"
)

// TestStorm: of 64 senders of the same event at the same moment one brings
// it, and all are told the same.
func TestStorm(t *testing.T) {
	t.Parallel()
	src := source(t, "github")
	f := setup(t, []*Source{src}, nil)
	for round := range 20 {
		m := f.sign(t, src, signGitHub(fmt.Sprint("d", round), "push", `{"a":1}`))
		var wg sync.WaitGroup
		var first atomic.Int64
		bodies := make([]string, 64)
		for i := range bodies {
			wg.Go(func() {
				got := f.send(t, m)
				if got.status != 200 {
					t.Errorf("got %d %s", got.status, got.body)
				}
				if got.header.Get("Idempotent-Replayed") == "" {
					first.Add(1)
				}
				bodies[i] = got.body
			})
		}
		wg.Wait()
		if n := first.Load(); n != 1 {
			t.Fatalf("round %d: %d of 64 were told to be the first, want 1", round, n)
		}
		for _, b := range bodies {
			if b != bodies[0] {
				t.Fatalf("answers %s and %s to the same event", bodies[0], b)
			}
		}
	}
	if n := f.events(t); n != 20 {
		t.Errorf("%d events, want 20", n)
	}
}

// TestConflictStorm: two bodies under one ID at the same moment are one event
// and its conflict, never two events and never none.
func TestConflictStorm(t *testing.T) {
	t.Parallel()
	src := source(t, "github")
	f := setup(t, []*Source{src}, nil)
	var wg sync.WaitGroup
	for i := range 40 {
		m := f.sign(t, src, signGitHub("d1", "push", fmt.Sprintf(`{"a":%d}`, i%2)))
		wg.Go(func() { f.send(t, m).want(t, 200) })
	}
	wg.Wait()
	if n := f.events(t); n != 1 {
		t.Errorf("%d events, want 1", n)
	}
}

// TestSwapUnderLoad swaps generations while requests run: none fails, each
// sees one generation, counters and rings go on.
func TestSwapUnderLoad(t *testing.T) {
	t.Parallel()
	// The two generations differ in the secret, the target and the answer.
	make1 := func(name, secret string) *Source {
		return &Source{
			Name: "hmac", Routes: []Route{{Target: name}}, Answer: verify.Answer{Body: []byte(name)},
			Verifier: verifier(t, verify.Config{
				Secrets: []verify.Secret{
					{ID: name, Value: verify.NewSecretString(secret)},
					// Both take what either signs, as while rotating.
					{ID: "shared", Value: verify.NewSecretString(testSecret)},
				},
				Options: map[string]string{"id": "json:id"},
			}, "hmac"),
		}
	}
	gens := []*Source{make1("one", "secret-of-generation-1"), make1("two", "secret-of-generation-2")}
	f := setup(t, gens[:1], nil)
	f.send(t, message{path: "/in/hmac", body: "{}"}).want(t, 401)

	const senders, each = 8, 100
	var wg sync.WaitGroup
	stop := make(chan struct{})
	swaps := 0
	swapped := make(chan struct{})
	go func() {
		defer close(swapped)
		for ; ; swaps++ {
			select {
			case <-stop:
				return
			default:
			}
			if err := f.r.SetSources(gens[swaps%2:swaps%2+1], nil); err != nil {
				t.Error(err)
			}
		}
	}()
	for s := range senders {
		wg.Go(func() {
			for i := range each {
				id := fmt.Sprintf("e%d-%d", s, i)
				m := f.sign(t, gens[0], verify.SignRequest{Secret: "shared", Body: fmt.Appendf(nil, `{"id":%q}`, id)})
				if got := f.send(t, m); got.status != 200 {
					t.Errorf("got %d %s", got.status, got.body)
				}
			}
		})
	}
	wg.Wait()
	close(stop)
	<-swapped
	all := f.all(t)
	if len(all) != senders*each {
		t.Fatalf("%d events, want %d", len(all), senders*each)
	}
	seen := map[string]int{}
	for _, rec := range all {
		if name := rec.Event.Targets[0]; name != string(rec.Event.Answer.Body) {
			t.Errorf("event for %s was answered by %s: two generations in one request", name, rec.Event.Answer.Body)
		} else {
			seen[name]++
		}
	}
	if seen["one"] == 0 || seen["two"] == 0 || swaps < 10 {
		t.Errorf("%v over %d swaps: the test proves little", seen, swaps)
	}
	if s := f.r.SourceStats()[0]; s.Counts["accepted"] != senders*each || s.Counts["refused"] != 1 {
		t.Errorf("counts %v were lost over swaps", s.Counts)
	}
	if n := len(f.r.Refusals(RefusalFilter{})); n != 1 {
		t.Errorf("%d refusals kept, want 1", n)
	}
}

// TestSwapUnderWay: a request that began before its source was taken away
// ends as it began.
func TestSwapUnderWay(t *testing.T) {
	t.Parallel()
	enter, leave := make(chan struct{}), make(chan struct{})
	f := setup(t, []*Source{source(t, "none")}, func(c *Config) {
		ledger := c.Admit
		c.Admit = admitFunc(func(ctx context.Context, r *dedupe.Request) error {
			close(enter)
			<-leave
			return ledger.Accept(ctx, r)
		})
	})
	done := make(chan reply, 1)
	go func() { done <- f.send(t, message{path: "/in/none", body: "x"}) }()
	<-enter
	if err := f.r.SetSources(nil, nil); err != nil {
		t.Fatal(err)
	}
	f.send(t, message{path: "/in/none", body: "x"}).want(t, 404)
	close(leave)
	(<-done).want(t, 200)
}

// TestHungUpIsAdmitted: what was received of a sender that hangs up before its
// answer is admitted all the same, also where net/http notices.
func TestHungUpIsAdmitted(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"plain":   "Content-Length: 1\r\n\r\nx",
		"chunked": "Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			enter, leave, accepted := make(chan struct{}), make(chan struct{}), make(chan error, 1)
			f := setup(t, []*Source{source(t, "none")}, func(c *Config) {
				ledger := c.Admit
				c.Admit = admitFunc(func(ctx context.Context, r *dedupe.Request) error {
					close(enter)
					<-leave
					select {
					case <-ctx.Done():
					case <-time.After(200 * time.Millisecond): // for net/http to notice
					}
					err := ledger.Accept(ctx, r)
					accepted <- err
					return err
				})
			})
			conn := f.dial(t)
			if _, err := io.WriteString(conn, "POST /in/none HTTP/1.1\r\nHost: x\r\n"+body); err != nil {
				t.Fatal(err)
			}
			<-enter
			conn.Close()
			close(leave)
			if err := <-accepted; err != nil {
				t.Error(err)
			}
			if n := f.events(t); n != 1 {
				t.Errorf("%d events, want 1", n)
			}
		})
	}
}

// TestDrain: senders that keep their connections are told to close them, what
// is under way is answered, and nobody's accepted request is cut.
func TestDrain(t *testing.T) {
	t.Parallel()
	src := source(t, "none")
	enter, leave := make(chan struct{}), make(chan struct{})
	f := setup(t, []*Source{src}, func(c *Config) {
		ledger := c.Admit
		c.Admit = admitFunc(func(ctx context.Context, r *dedupe.Request) error {
			if string(r.Body) == "slow" {
				close(enter)
				<-leave
			}
			return ledger.Accept(ctx, r)
		})
	})
	slow := make(chan reply, 1)
	go func() { slow <- f.send(t, message{path: "/in/none", body: "slow"}) }()
	<-enter
	var wg sync.WaitGroup
	var answered atomic.Int64
	warm := make(chan struct{}, 8)
	for s := range 8 {
		wg.Go(func() {
			conn := f.dial(t)
			defer conn.Close()
			br := bufio.NewReader(conn)
			for i := 0; ; i++ {
				m := message{path: "/in/none", body: fmt.Sprintf("%d-%d", s, i)}
				if _, err := io.WriteString(conn, m.head(f.addr)+m.body); err != nil {
					t.Errorf("sender %d, request %d: %v", s, i, err)
					return
				}
				got, err := readReply(br, "POST")
				if err != nil || got.status != 200 {
					t.Errorf("sender %d, request %d: %d, %v", s, i, got.status, err)
					return
				}
				answered.Add(1)
				if i == 0 {
					warm <- struct{}{}
				}
				if got.closed {
					return
				}
			}
		})
	}
	for range 8 {
		<-warm
	}
	f.stop()
	wg.Wait()
	select {
	case err := <-f.done:
		t.Fatalf("Serve returned %v with a request under way", err)
	default:
	}
	close(leave)
	(<-slow).want(t, 200)
	err := <-f.done
	f.done <- err
	if err != nil {
		t.Errorf("Serve returned %v", err)
	}
	if n := f.events(t); int64(n) != answered.Load()+1 {
		t.Errorf("%d events, %d answered: none may be lost or invented", n, answered.Load()+1)
	}
	if conn, err := net.Dial("tcp", f.addr); err == nil {
		conn.Close()
		t.Error("the listener still accepts")
	}
}

// TestStopUnused: a connection on which nothing was ever sent does not hold up a
// stop; one that sends its first request during the stop is answered.
func TestStopUnused(t *testing.T) {
	t.Parallel()
	f := setup(t, []*Source{source(t, "none")}, func(c *Config) { c.DrainTimeout = 3 * time.Second })
	unused, late := f.dial(t), f.dial(t)
	defer unused.Close()
	defer late.Close()
	if r := f.send(t, message{path: "/in/none", body: "before"}); r.status != http.StatusOK { // by then both are accepted
		t.Fatal(r.status)
	}
	f.stop()
	time.Sleep(500 * time.Millisecond) // nothing new is accepted any more
	m := message{path: "/in/none", body: "late"}
	if _, err := io.WriteString(late, m.head(f.addr)+m.body); err != nil {
		t.Fatal(err)
	}
	if resp, err := http.ReadResponse(bufio.NewReader(late), nil); err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("the late request: %v, %v", resp, err)
	}
	err := <-f.done
	f.done <- err
	if err != nil {
		t.Errorf("Serve returned %v", err)
	}
}

// TestDrainTimeout: a request that takes too long is cut, and Serve says so.
func TestDrainTimeout(t *testing.T) {
	t.Parallel()
	enter, leave := make(chan struct{}), make(chan struct{})
	f := setup(t, []*Source{source(t, "none")}, func(c *Config) {
		c.DrainTimeout = 50 * time.Millisecond
		c.Admit = admitFunc(func(context.Context, *dedupe.Request) error {
			close(enter)
			<-leave
			return dedupe.ErrClosed
		})
	})
	conn := f.dial(t)
	defer conn.Close()
	m := message{path: "/in/none", body: "x"}
	if _, err := io.WriteString(conn, m.head("x")+m.body); err != nil {
		t.Fatal(err)
	}
	<-enter
	f.stop()
	err := <-f.done
	f.done <- err
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Serve returned %v, want the deadline", err)
	}
	if b, err := io.ReadAll(conn); err == nil && strings.Contains(string(b), "200") {
		t.Errorf("got %q", b)
	}
	close(leave)
}

// TestServeFails: a listener that breaks ends Serve with its error.
func TestServeFails(t *testing.T) {
	t.Parallel()
	r, err := New(Config{Admit: admitFunc(nil)})
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln.Close()
	if err := r.Serve(t.Context(), ln); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Serve returned %v, want that the listener is closed", err)
	}
}

func TestReady(t *testing.T) {
	t.Parallel()
	var ready atomic.Bool
	f := setup(t, nil, func(c *Config) {
		c.Ready = func() error {
			if !ready.Load() {
				return errors.New("canary: disk is low")
			}
			return nil
		}
	})
	get := func(path string) reply { return f.send(t, message{method: "GET", path: path}) }
	if got := get("/readyz").want(t, 503); got.body != "not ready\n" {
		t.Errorf("body %q shows more than yes or no", got.body)
	}
	get("/livez").want(t, 200)
	ready.Store(true)
	get("/readyz").want(t, 200)
	f.r.draining.Store(true)
	get("/readyz").want(t, 503)
	get("/livez").want(t, 200)
}

// TestMaxConns: further connections wait for one to close and are then served.
func TestMaxConns(t *testing.T) {
	t.Parallel()
	f := setup(t, []*Source{source(t, "none")}, func(c *Config) { c.MaxConns = 2 })
	m := message{path: "/in/none", body: "x"}
	var held []net.Conn
	for range 2 {
		conn := f.dial(t)
		held = append(held, conn)
		if _, err := io.WriteString(conn, m.head("x")+m.body); err != nil {
			t.Fatal(err)
		}
		if _, err := readReply(bufio.NewReader(conn), "POST"); err != nil {
			t.Fatal(err)
		}
	}
	third := f.dial(t)
	defer third.Close()
	if _, err := io.WriteString(third, m.head("x")+m.body); err != nil {
		t.Fatal(err)
	}
	answered := make(chan error, 1)
	go func() {
		_, err := readReply(bufio.NewReader(third), "POST")
		answered <- err
	}()
	select {
	case err := <-answered:
		t.Fatalf("a third connection was served beside two: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	for _, conn := range held {
		conn.Close()
	}
	if err := <-answered; err != nil {
		t.Errorf("the waiting connection was not served: %v", err)
	}
}

// TestNoRedirectClient walks the whole surface with a client that would
// follow.
func TestNoRedirectClient(t *testing.T) {
	t.Parallel()
	f := setup(t, []*Source{source(t, "none")}, nil)
	tr := &http.Transport{}
	defer tr.CloseIdleConnections()
	client := &http.Client{Transport: tr, CheckRedirect: func(req *http.Request, _ []*http.Request) error {
		return fmt.Errorf("redirected to %s", req.URL)
	}}
	for _, path := range []string{"/in/none", "/in/none/", "/in//none", "/in/none//", "/livez", "/", "/in"} {
		res, err := client.Post("http://"+f.addr+path, "text/plain", strings.NewReader(path))
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		res.Body.Close()
	}
}
