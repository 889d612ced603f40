package simulation

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/onceward/onceward/event"
)

// arrival is one request that a target received, whole.
type arrival struct {
	target, source, id, ref, key string
	body                         event.Hash
	attempt                      int
	life                         int
	at, done                     time.Time // of the bubble; done is when the answer or the end of the connection came
	due                          time.Time // ledger time at arrival
	status                       int       // answered; 0 for none
	after                        time.Duration
}

// town is all targets and the network to them: pipes in memory.
type town struct {
	plan plan

	mu    sync.Mutex // guards what follows
	moods [len(targetNames)]mood
	log   []*arrival
	life  int
	clock func() time.Time // of the ledger
	conns map[net.Conn]bool
	work  sync.WaitGroup // one a connection
}

func newTown(p plan) *town { return &town{plan: p, conns: map[net.Conn]bool{}} }

// dial connects to a target, named by its host.
func (w *town) dial(_ context.Context, _, addr string) (net.Conn, error) {
	host, _, _ := strings.Cut(addr, ".")
	here, there := net.Pipe()
	w.mu.Lock()
	w.conns[there] = true
	life, clock := w.life, w.clock // of the process that dials: its last request may be read after its end
	w.mu.Unlock()
	w.work.Go(func() {
		w.serve(there, host, life, clock)
		w.mu.Lock()
		delete(w.conns, there)
		w.mu.Unlock()
		there.Close()
	})
	return here, nil
}

// close ends every connection.
func (w *town) close() {
	w.mu.Lock()
	for c := range w.conns {
		c.Close()
	}
	w.mu.Unlock()
	w.work.Wait()
}

func (w *town) setMood(target int, m mood) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.moods[target] = m
}

func (w *town) setLife(n int, clock func() time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.life, w.clock = n, clock
}

// arrivals is a copy of the log.
func (w *town) arrivals() []arrival {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := make([]arrival, len(w.log))
	for i, a := range w.log {
		out[i] = *a
	}
	return out
}

// serve answers the requests of one connection.
func (w *town) serve(c net.Conn, target string, life int, clock func() time.Time) {
	br := bufio.NewReader(c)
	for {
		req, err := http.ReadRequest(br)
		if err != nil {
			return
		}
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return
		}
		if w.answer(c, &arrival{target: target, life: life, due: clock()}, req, body) != nil {
			return
		}
	}
}

var errCut = errors.New("the target ends the connection")

func (w *town) answer(c net.Conn, a *arrival, req *http.Request, body []byte) error {
	h := req.Header
	a.source, a.id, a.ref = h.Get("Onceward-Source"), h.Get("Onceward-Event-Id"), h.Get("Onceward-Event")
	a.key, a.body, a.at = h.Get("Idempotency-Key"), event.HashOf(body), time.Now()
	a.attempt, _ = strconv.Atoi(h.Get("Onceward-Attempt"))
	w.mu.Lock()
	m := w.moods[targetIndex(a.target)]
	w.log = append(w.log, a)
	w.mu.Unlock()
	status, after, err := w.decide(m, a, c)
	if err == nil {
		head := fmt.Sprintf("HTTP/1.1 %d X\r\nContent-Length: 0\r\n", status)
		if after > 0 {
			head += fmt.Sprintf("Retry-After: %d\r\n", int(after.Seconds()))
		}
		_, err = io.WriteString(c, head+"\r\n")
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	a.done = time.Now()
	if err == nil { // the sender read it
		a.status, a.after = status, after
	}
	return err
}

// decide draws what the target does with a request.
func (w *town) decide(m mood, a *arrival, c net.Conn) (status int, after time.Duration, err error) {
	r := w.plan.draws(a.target, a.key, strconv.Itoa(a.attempt), strconv.Itoa(a.life))
	n := r.IntN(100)
	within := func(part int) bool {
		hit := n >= 0 && n < part
		n -= part
		return hit
	}
	switch {
	case within(m.Fail):
		return http.StatusInternalServerError, 0, nil
	case within(m.Later):
		return http.StatusTooManyRequests, time.Duration(1+r.IntN(40)) * time.Second, nil
	case within(m.Refuse):
		return http.StatusNotFound, 0, nil
	case within(m.Cut):
		return 0, 0, errCut
	case within(m.Hang):
		_, err := c.Read(make([]byte, 1)) // until the sender gives up
		return 0, 0, errors.Join(errCut, err)
	case within(m.Slow):
		time.Sleep(time.Duration(1+r.IntN(1500)) * time.Millisecond)
	}
	return http.StatusOK, 0, nil
}
