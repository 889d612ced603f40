package receiver

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

// maxStreams bounds the requests under way on one HTTP/2 connection.
const maxStreams = 100

// serverTLS is the configuration of the public listener: ours on top of what
// was given.
func serverTLS(given *tls.Config) *tls.Config {
	c := given.Clone()
	c.MinVersion = max(c.MinVersion, tls.VersionTLS12)
	c.NextProtos = []string{"h2", "http/1.1"}
	return c
}

// secure is a listener that shakes hands on every connection before the server
// sees it, each on a goroutine of its own. HTTP/2 comes out as it is; HTTP/1
// comes out framed, above the decryption, as it does without TLS. A connection
// without a handshake in time gives its slot back.
//
// It closes as the limiter does: what the kernel has taken still shakes hands
// and is served, and counts as busy meanwhile.
type secure struct {
	*limiter
	cfg     *tls.Config
	timeout time.Duration
	log     *slog.Logger
	ready   chan net.Conn
	failed  chan error // why accepting ended; after the last connection
	over    chan struct{}
	running sync.WaitGroup
}

func newSecure(l *limiter, cfg *tls.Config, timeout time.Duration, log *slog.Logger) *secure {
	s := &secure{limiter: l, cfg: cfg, timeout: timeout, log: log, ready: make(chan net.Conn), failed: make(chan error, 1), over: make(chan struct{})}
	s.running.Go(s.run)
	return s
}

// run accepts until the listener is closed, and then until the last handshake
// has ended.
func (s *secure) run() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	s.running.Go(func() {
		<-s.over
		stop()
	})
	var shaking sync.WaitGroup
	for {
		conn, err := s.take()
		switch {
		case errors.Is(err, net.ErrClosed):
			shaking.Wait()
			s.failed <- err
			return
		case err != nil: // of files, for one, there may be enough again soon
			s.log.Warn("accept connection", "event", "ingest.accept_failed", "error", err)
			s.pause()
		default:
			s.busy.Add(1)
			shaking.Go(func() { s.shake(ctx, conn) })
		}
	}
}

// acceptPause is how long a failed accept is not repeated.
const acceptPause = 50 * time.Millisecond

func (s *secure) pause() {
	timer := time.NewTimer(acceptPause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.done:
	}
}

// shake makes a TLS connection of conn and hands it on, or closes it.
func (s *secure) shake(ctx context.Context, conn net.Conn) {
	ctx, stop := context.WithTimeout(ctx, s.timeout)
	defer stop()
	c := tls.Server(conn, s.cfg)
	if err := c.HandshakeContext(ctx); err != nil {
		s.refuse(conn, err)
		return
	}
	h2 := c.ConnectionState().NegotiatedProtocol == "h2"
	var out net.Conn = c
	if !h2 {
		out = &framed{Conn: c, deaf: s.deaf, busy: true} // from now on track counts
	}
	select {
	case s.ready <- out:
		if h2 {
			s.busy.Add(-1) // its requests are net/http's to wait for
		}
	case <-s.over:
		s.drop(conn)
	}
}

// refuse ends a connection without a handshake. Who speaks HTTP in the clear
// is told so.
func (s *secure) refuse(conn net.Conn, err error) {
	var record tls.RecordHeaderError
	if errors.As(err, &record) && record.Conn != nil && looksLikeHTTP(record.RecordHeader) {
		_ = conn.SetWriteDeadline(time.Now().Add(time.Second))
		_, _ = io.WriteString(conn, "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\nContent-Length: 21\r\n\r\nthis port speaks TLS\n")
	}
	s.log.Debug("no TLS handshake", "remote", conn.RemoteAddr().String(), "error", err)
	s.drop(conn)
}

func looksLikeHTTP(head [5]byte) bool {
	switch string(head[:4]) {
	case "GET ", "HEAD", "POST", "PUT ", "OPTI", "DELE", "PATC":
		return true
	}
	return false
}

// drop closes a connection that the server has never seen.
func (s *secure) drop(conn net.Conn) {
	_ = conn.Close()
	s.busy.Add(-1)
	<-s.slots
}

// Accept is the next connection that has shaken hands.
func (s *secure) Accept() (net.Conn, error) {
	select {
	case c := <-s.ready:
		return c, nil
	case err := <-s.failed:
		s.failed <- err
		return nil, err
	}
}

// end closes the socket, gives up what has not been accepted, and returns when
// every goroutine has ended.
func (s *secure) end() {
	_ = s.Listener.Close() // the limiter may have done so
	close(s.over)
	s.running.Wait()
}

// overTLS is what a request says of its connection when it came framed: that
// there was TLS.
var overTLS = &tls.ConnectionState{HandshakeComplete: true}

// secured marks the requests of a listener that speaks nothing but TLS.
func secured(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.TLS == nil {
			req.TLS = overTLS
		}
		h.ServeHTTP(w, req)
	})
}
