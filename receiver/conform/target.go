package conform

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// Target is a target for conformance runs. Each answer names the execution it
// comes from, so that no two are the same. Query parameters of a request say
// how it behaves:
//
//	status=N      answers with that status
//	sleep=500ms   waits before it answers
//	once=N        answers with status N the first time for a key, then 200
//	size=N        answers with a body of N bytes
//	cut=1         breaks the connection off after reading the request
//
// The zero value is ready to use and safe for concurrent use.
type Target struct {
	mu   sync.Mutex // guards the rest
	n    int
	seen map[string]int // executions by Idempotency-Key
}

// Executions is how often the target executed a key: every request it read,
// but those it answered with 425 or 429.
func (t *Target) Executions(key string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.seen[key]
}

// Total is how many requests the target executed.
func (t *Target) Total() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.n
}

func (t *Target) count(key string, executed bool) (n, of int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.seen == nil {
		t.seen = map[string]int{}
	}
	if executed {
		t.n++
		t.seen[key]++
	}
	return t.n, t.seen[key]
}

// ServeHTTP executes a request.
func (t *Target) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	q := r.URL.Query()
	status := http.StatusOK
	if n, err := strconv.Atoi(q.Get("status")); err == nil {
		status = n
	}
	key := r.Header.Get("Idempotency-Key")
	if n, err := strconv.Atoi(q.Get("once")); err == nil && t.first(key) {
		status = n
	}
	n, of := t.count(key, status != http.StatusTooEarly && status != http.StatusTooManyRequests)
	if d, err := time.ParseDuration(q.Get("sleep")); err == nil {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-r.Context().Done():
			return
		}
	}
	if q.Get("cut") != "" {
		panic(http.ErrAbortHandler)
	}
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Location", fmt.Sprintf("/executions/%d", n))
	h.Set("Set-Cookie", "session=secret")
	h.Set("X-Private", "not for callers")
	w.WriteHeader(status)
	if size, err := strconv.Atoi(q.Get("size")); err == nil {
		for left := size; left > 0; left -= 1 << 10 {
			_, _ = w.Write(pad[:min(left, len(pad))])
		}
		return
	}
	fmt.Fprintf(w, "execution %d, number %d of its key, %s %s, %d bytes\n", n, of, r.Method, r.URL.RequestURI(), len(body))
}

var pad = make([]byte, 1<<10)

// first reports whether a key comes for the first time; it is remembered apart
// from executions.
func (t *Target) first(key string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.seen == nil {
		t.seen = map[string]int{}
	}
	mark := "once " + key
	t.seen[mark]++
	return t.seen[mark] == 1
}
