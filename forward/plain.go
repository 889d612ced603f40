package forward

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/onceward/onceward/event"
)

// plain carries requests to an http:// target. Go's Transport runs two
// goroutines a connection, which an attempt passes through four times; here
// the worker itself writes the request and reads the answer with net/http's
// own routines. What is sent is sent once by construction.
//
// Bodies over maxPlain go through a Transport: writing one while the target
// already answers, and reads no more, needs two goroutines.
type plain struct {
	dial  DialFunc
	large *http.Transport

	mu    sync.Mutex // guards the pool; held for bookkeeping only
	idle  []*plainConn
	timer *time.Timer // closes idle connections; nil when there are none
}

// maxPlain fits into the buffers of any kernel, so that writing it never
// waits for the target to read.
const maxPlain = 64 << 10

// roundTripper is what a queue needs of either.
type roundTripper interface {
	http.RoundTripper
	CloseIdleConnections()
}

var _ roundTripper = (*plain)(nil)

// plainConn is one connection and its buffers. It is in the pool or with one
// attempt.
type plainConn struct {
	net.Conn
	raw   syscall.RawConn // nil where the connection has none
	r     *bufio.Reader
	w     *bufio.Writer
	head  int64 // bytes that may still be read of an answer's head
	since time.Time

	life context.Context // ends what is done on it, as end does; nil: neither
	free func() bool     // from life
	end  time.Time
}

// under makes ctx and a moment the end of what is done on the connection next,
// unless the moment is zero. All attempts of a forwarder have one context, so that
// this sets a deadline, and makes no timer and no context for each.
func (c *plainConn) under(ctx context.Context, end time.Time) error {
	if end.IsZero() {
		return nil
	}
	if c.life != ctx {
		if c.free != nil && !c.free() {
			return c.life.Err()
		}
		c.life, c.free = ctx, context.AfterFunc(ctx, c.cut)
	}
	c.end = end
	if err := c.SetDeadline(end); err != nil {
		return err
	}
	return ctx.Err() // or this deadline could have taken the place of cut's
}

// cut ends what is done on the connection.
func (c *plainConn) cut() { _ = c.SetDeadline(time.Unix(1, 0)) }

// Close closes the connection.
func (c *plainConn) Close() error {
	if c.free != nil {
		c.free()
	}
	return c.Conn.Close()
}

var errAnswerHead = errors.New("head of the answer is too large")

// Read bounds the head of an answer.
func (c *plainConn) Read(p []byte) (int, error) {
	if c.head <= 0 {
		return 0, errAnswerHead
	}
	n, err := c.Conn.Read(p)
	c.head -= int64(n)
	return n, err
}

// alive reports whether the target has neither closed an idle connection nor
// sent what nobody asked for.
func (c *plainConn) alive() bool {
	if c.r.Buffered() > 0 {
		return false
	}
	if c.raw == nil {
		return true
	}
	var n int
	var fault error
	err := c.raw.Read(func(fd uintptr) bool {
		var b [1]byte
		n, _, fault = unix.Recvfrom(int(fd), b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		return true
	})
	return err == nil && n <= 0 && (errors.Is(fault, unix.EAGAIN) || errors.Is(fault, unix.EWOULDBLOCK))
}

// RoundTrip makes one attempt, which ends with the request's context: at most one
// request is on the wire.
func (p *plain) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.ContentLength > maxPlain {
		return p.large.RoundTrip(req)
	}
	ctx := req.Context()
	var t event.Phases
	c, err := p.take(req, time.Time{}, &t)
	if err != nil {
		return nil, err
	}
	if trace := httptrace.ContextClientTrace(ctx); trace != nil && trace.GotConn != nil {
		trace.GotConn(httptrace.GotConnInfo{Conn: c.Conn, Reused: !c.since.IsZero()})
	}
	return p.trip(c, req, &t, context.AfterFunc(ctx, c.cut))
}

// within is RoundTrip that ends at a moment as well, and says where the time went.
// The contexts of requests that follow each other should be one.
func (p *plain) within(req *http.Request, end time.Time, t *event.Phases) (*http.Response, error) {
	if req.ContentLength > maxPlain {
		return timed(p.large, req, end, t)
	}
	c, err := p.take(req, end, t)
	if err != nil {
		return nil, err
	}
	return p.trip(c, req, t, nil)
}

// trip makes the exchange on a connection. stop, if not nil, ends the hold that the
// request's context has on it, and is false once that has ended.
func (p *plain) trip(c *plainConn, req *http.Request, t *event.Phases, stop func() bool) (*http.Response, error) {
	resp, err := c.exchange(req, t)
	if err != nil {
		if stop != nil {
			stop()
		}
		c.Close()
		if why := req.Context().Err(); why != nil {
			err = why
		}
		return nil, err
	}
	body := &plainBody{ReadCloser: resp.Body, pool: p, conn: c, stop: stop, reuse: !resp.Close && resp.StatusCode != http.StatusSwitchingProtocols}
	body.ended = resp.Body == http.NoBody
	resp.Body = body
	return resp, nil
}

// exchange writes the request and reads the head of its final answer.
func (c *plainConn) exchange(req *http.Request, t *event.Phases) (*http.Response, error) {
	sent := req.Write(c.w)
	if sent == nil {
		sent = c.w.Flush()
	}
	wrote := time.Now()
	if sent != nil {
		// The target may have answered and closed before it read everything.
		end := time.Now().Add(time.Second)
		if c.life != nil && c.end.Before(end) {
			end = c.end
		}
		_ = c.SetReadDeadline(end)
	}
	c.head = maxAnswerHead
	if _, err := c.r.Peek(1); err != nil {
		return nil, errors.Join(sent, err)
	}
	t.FirstByte = time.Since(wrote)
	for range 8 { // informational answers come before the final one
		c.head = maxAnswerHead
		resp, err := http.ReadResponse(c.r, req)
		if err != nil {
			return nil, errors.Join(sent, err)
		}
		if resp.StatusCode >= 200 || resp.StatusCode == http.StatusSwitchingProtocols {
			resp.Close = resp.Close || sent != nil
			c.head = 1 << 62
			return resp, nil
		}
	}
	return nil, errors.New("too many informational answers")
}

// take is a connection from the pool, the one used last first, or a new one. Unless
// end is zero it is under the request's context until then.
func (p *plain) take(req *http.Request, end time.Time, t *event.Phases) (*plainConn, error) {
	now := time.Now()
	for {
		c := p.pop()
		if c == nil {
			break
		}
		// The deadline of the attempt before would be in the way of a look at it.
		if now.Sub(c.since) < idleTimeout && c.under(req.Context(), end) == nil && c.alive() {
			return c, nil
		}
		c.Close()
	}
	c, err := p.connect(req, end, t)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	if err := c.under(req.Context(), end); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

func (p *plain) connect(req *http.Request, end time.Time, t *event.Phases) (*plainConn, error) {
	ctx := req.Context()
	if !end.IsZero() {
		var stop context.CancelFunc
		ctx, stop = context.WithDeadline(ctx, end)
		defer stop()
	}
	host := req.URL.Host
	if req.URL.Port() == "" {
		host = net.JoinHostPort(req.URL.Hostname(), "80")
	}
	conn, err := timedDial(ctx, p.dial, host, t)
	if err != nil {
		return nil, err
	}
	return newPlainConn(conn), nil
}

func newPlainConn(conn net.Conn) *plainConn {
	c := &plainConn{Conn: conn, w: bufio.NewWriterSize(conn, bufferSize)}
	c.r = bufio.NewReaderSize(c, bufferSize)
	if sc, ok := conn.(syscall.Conn); ok {
		if raw, err := sc.SyscallConn(); err == nil {
			c.raw = raw
		}
	}
	return c
}

func (p *plain) pop() *plainConn {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.idle)
	if n == 0 {
		return nil
	}
	c := p.idle[n-1]
	p.idle[n-1] = nil
	p.idle = p.idle[:n-1]
	return c
}

// put gives a connection back. There are no more than workers.
func (p *plain) put(c *plainConn) {
	c.since = time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.idle = append(p.idle, c)
	if p.timer == nil {
		p.timer = time.AfterFunc(idleTimeout, p.expire)
	}
}

// expire closes what has been idle too long, oldest first.
func (p *plain) expire() {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for n < len(p.idle) && now.Sub(p.idle[n].since) >= idleTimeout {
		p.idle[n].Close()
		n++
	}
	p.idle = append(p.idle[:0], p.idle[n:]...)
	p.timer = nil
	if len(p.idle) > 0 {
		p.timer = time.AfterFunc(idleTimeout-now.Sub(p.idle[0].since), p.expire)
	}
}

// CloseIdleConnections closes the pool's connections.
func (p *plain) CloseIdleConnections() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.idle {
		c.Close()
	}
	p.idle = nil
	if p.timer != nil {
		p.timer.Stop()
		p.timer = nil
	}
	p.large.CloseIdleConnections()
}

// plainBody is the body of an answer. Closed after its end, the connection
// goes back to the pool; before it, it is closed.
type plainBody struct {
	io.ReadCloser
	pool  *plain
	conn  *plainConn
	stop  func() bool // as of trip
	reuse bool
	ended bool
}

func (b *plainBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		b.ended = true
	}
	return n, err
}

// Close ends the attempt's hold on the connection.
func (b *plainBody) Close() error {
	// A deadline that is being set for this attempt must not hit the next.
	if b.release() && b.ended && b.reuse {
		b.pool.put(b.conn)
		return nil
	}
	return b.conn.Close()
}

// release ends the request's hold on the connection, false when it has been cut.
func (b *plainBody) release() bool {
	if b.stop != nil {
		return b.stop()
	}
	return b.conn.life.Err() == nil
}
