package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// mishap is a way in which the demo's target fails.
type mishap int

// What can go wrong at a target. The last one is the reason why a delivery needs
// an idempotency key: the work is done and the answer never arrives.
const (
	allWell mishap = iota
	busy           // answers 503
	hangs          // answers nothing for longer than the gateway waits
	resets         // breaks the connection before the work
	forgets        // does the work, then breaks the connection
)

// mishapsOf says how the n-th event (from 0) goes wrong, try by try. Most don't.
func mishapsOf(n int) []mishap {
	switch {
	case n == 9 || n == 30:
		return []mishap{hangs}
	case n%9 == 2:
		return []mishap{busy, busy}
	case n%9 == 5:
		return []mishap{resets}
	case n%9 == 7:
		return []mishap{forgets}
	}
	return nil
}

// demoTarget is a service behind the gateway: it does its work once per
// idempotency key, fails now and then, and keeps its own count.
type demoTarget struct {
	listener net.Listener
	server   *http.Server
	quit     chan struct{} // closed when the target stops: hanging requests end

	// mu guards the count.
	mu       sync.Mutex
	requests int
	again    int            // requests for work that was done already
	tries    map[string]int // by idempotency key
	plan     map[string][]mishap
	done     map[string]bool
}

// targetCount is what the target saw, by its own account.
type targetCount struct {
	requests, effects, again int
}

// newDemoTarget listens on a free loopback port.
func newDemoTarget() (*demoTarget, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for the target: %w", err)
	}
	t := &demoTarget{
		listener: ln, quit: make(chan struct{}),
		tries: map[string]int{}, plan: map[string][]mishap{}, done: map[string]bool{},
	}
	t.server = &http.Server{Handler: t, ReadHeaderTimeout: 5 * time.Second}
	return t, nil
}

func (t *demoTarget) url() string { return "http://" + t.listener.Addr().String() + "/orders" }

// Run serves until ctx ends.
func (t *demoTarget) Run(ctx context.Context) error {
	ended := make(chan error, 1)
	go func() { ended <- t.server.Serve(t.listener) }()
	<-ctx.Done()
	close(t.quit)
	err := t.server.Close()
	if serveErr := <-ended; !errors.Is(serveErr, http.ErrServerClosed) {
		err = errors.Join(err, serveErr)
	}
	return err
}

// ServeHTTP does the work of one event, or fails as planned.
func (t *demoTarget) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	switch t.begin(r.Header.Get("Idempotency-Key")) {
	case busy:
		http.Error(w, "try again later", http.StatusServiceUnavailable)
	case hangs:
		select {
		case <-r.Context().Done():
		case <-t.quit:
		}
	case resets, forgets:
		reset(w)
	default:
		w.WriteHeader(http.StatusNoContent)
	}
}

// begin counts a request and does its work, unless that was done before or goes
// wrong now.
func (t *demoTarget) begin(key string) mishap {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.requests++
	if _, known := t.plan[key]; !known {
		t.plan[key] = mishapsOf(len(t.plan))
	}
	now := allWell
	if try := t.tries[key]; try < len(t.plan[key]) {
		now = t.plan[key][try]
	}
	t.tries[key]++
	if now == allWell || now == forgets {
		if t.done[key] {
			t.again++
		}
		t.done[key] = true
	}
	return now
}

func (t *demoTarget) count() targetCount {
	t.mu.Lock()
	defer t.mu.Unlock()
	return targetCount{t.requests, len(t.done), t.again}
}

// reset breaks the connection without an answer.
func reset(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}
