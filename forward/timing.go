package forward

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"
	"time"

	"github.com/onceward/onceward/event"
)

// exchange makes one round trip, that ends at a moment if not before, and notes its
// phases.
func exchange(tr roundTripper, req *http.Request, end time.Time, t *event.Phases) (*http.Response, error) {
	if own, ok := tr.(*plain); ok {
		return own.within(req, end, t)
	}
	return timed(tr, req, end, t)
}

// timed is a round trip of Go's transport, whose hooks say where the time went.
func timed(tr http.RoundTripper, req *http.Request, end time.Time, t *event.Phases) (*http.Response, error) {
	w := &watch{}
	ctx, stop := context.WithDeadline(req.Context(), end)
	resp, err := tr.RoundTrip(req.WithContext(httptrace.WithClientTrace(ctx, w.hooks())))
	*t = w.end()
	if err != nil {
		stop()
		return nil, err
	}
	resp.Body = &callBody{resp.Body, stop}
	return resp, nil
}

// timedDial opens a connection. What is not look-up counts as connecting.
func timedDial(ctx context.Context, dial DialFunc, host string, t *event.Phases) (net.Conn, error) {
	w := &watch{}
	began := time.Now()
	conn, err := dial(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{DNSStart: w.lookUp, DNSDone: w.lookedUp}), "tcp", host)
	took := time.Since(began)
	t.DNS = w.end().DNS
	t.Connect = max(took-t.DNS, 0)
	return conn, err
}

// watch times one request by the transport's hooks, which come from several
// goroutines, and some of them after the request has ended.
type watch struct {
	mu                    sync.Mutex // guards all below
	ended                 bool
	dns, dial, tls, wrote time.Time // of the last that began
	phases                event.Phases
}

// note runs f while the request is under way.
func (w *watch) note(f func(now time.Time)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.ended {
		f(time.Now())
	}
}

// end returns what was timed. A phase that never ended took until now.
func (w *watch) end() event.Phases {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
	for _, open := range []struct {
		since time.Time
		phase *time.Duration
	}{{w.dns, &w.phases.DNS}, {w.dial, &w.phases.Connect}, {w.tls, &w.phases.TLS}} {
		if !open.since.IsZero() && *open.phase == 0 {
			*open.phase = time.Since(open.since)
		}
	}
	return w.phases
}

func (w *watch) lookUp(httptrace.DNSStartInfo) {
	w.note(func(now time.Time) { w.dns = now })
}

func (w *watch) lookedUp(httptrace.DNSDoneInfo) {
	w.note(func(now time.Time) { w.phases.DNS = now.Sub(w.dns) })
}

func (w *watch) hooks() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		DNSStart: w.lookUp, DNSDone: w.lookedUp,
		ConnectStart: func(string, string) {
			w.note(func(now time.Time) {
				if w.dial.IsZero() { // of several addresses the first
					w.dial = now
				}
			})
		},
		ConnectDone: func(string, string, error) {
			w.note(func(now time.Time) { w.phases.Connect = now.Sub(w.dial) })
		},
		TLSHandshakeStart: func() { w.note(func(now time.Time) { w.tls = now }) },
		TLSHandshakeDone: func(tls.ConnectionState, error) {
			w.note(func(now time.Time) { w.phases.TLS = now.Sub(w.tls) })
		},
		WroteRequest: func(httptrace.WroteRequestInfo) { w.note(func(now time.Time) { w.wrote = now }) },
		GotFirstResponseByte: func() {
			w.note(func(now time.Time) {
				// It can come before the transport says that all is written.
				w.phases.FirstByte = time.Microsecond
				if !w.wrote.IsZero() {
					w.phases.FirstByte = max(now.Sub(w.wrote), time.Microsecond)
				}
			})
		},
	}
}
