package forward

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/onceward/onceward/event"
)

// Call is one request of a synchronous route, made while its caller waits.
type Call struct {
	// Path is the raw path after the source's own, appended to the target's,
	// and Query the raw query, joined to the target's.
	Method, Path, Query string
	Header              []event.Field // of the caller, as far as they may pass
	Body                []byte
	// Key is the Idempotency-Key, "" for a request without one; Trace the
	// traceparent.
	Source, Key, Trace string
	Attempt            uint32 // from 1; 0 for a request without a key
	ReceivedAt         time.Time
}

// CallError is why a Call has no answer.
type CallError struct {
	// Sent says that something of the request may have reached the target.
	// False means that nothing did, and so that it was not executed.
	Sent    bool
	Outcome event.Outcome
	Text    string // holds no secret and nothing of request or answer
}

// Error is the outcome with its text.
func (e *CallError) Error() string { return string(e.Outcome) + ": " + e.Text }

// caller makes the calls of one target. Its connections are its own: calls
// and deliveries don't wait for each other.
type caller struct {
	target    *Target
	build     *builder
	transport roundTripper
}

// Call makes one attempt: at most one request on the wire, under the target's
// time-out, with its headers, signatures and egress guard, redirects not
// followed. The answer may have any final status; its body must be closed, and
// reading it is under the same time-out. Every error is a *CallError.
func (f *Forwarder) Call(ctx context.Context, target string, c *Call) (*http.Response, error) {
	to := f.callerOf(target)
	if to == nil {
		return nil, &CallError{Outcome: event.OutcomeMissing, Text: "no such target is configured"}
	}
	ctx, stop := context.WithTimeout(ctx, to.target.Timeout)
	resp, err := to.do(ctx, c, f.cfg.Now())
	if err != nil {
		stop()
		return nil, err
	}
	resp.Body = &callBody{resp.Body, stop}
	return resp, nil
}

// CallTimeout is how long a call to the target may take, 0 when there is no
// such target.
func (f *Forwarder) CallTimeout(target string) time.Duration {
	if to := f.callerOf(target); to != nil {
		return to.target.Timeout
	}
	return 0
}

// CloseIdleConnections closes the connections that calls have left open.
func (f *Forwarder) CloseIdleConnections() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.callers {
		c.transport.CloseIdleConnections()
	}
}

// callerOf is the caller of a target as it is configured now.
func (f *Forwarder) callerOf(name string) *caller {
	f.mu.Lock()
	defer f.mu.Unlock()
	t, c := f.targets[name], f.callers[name]
	switch {
	case t == nil || t.Pull:
		return nil
	case c != nil && c.target == t:
		return c
	case c != nil:
		c.transport.CloseIdleConnections()
	}
	c = &caller{target: t, build: newBuilder(t, f.cfg.Version), transport: counted(newTransport(t, f.cfg.Dial, f.cfg.Resolver))}
	f.callers[name] = c
	return c
}

// do sends the request once. A kept-alive connection that turns out to be
// closed before anything was written to it is replaced by a new one.
func (c *caller) do(ctx context.Context, call *Call, now time.Time) (*http.Response, error) {
	for try := 0; ; try++ {
		w := &follower{}
		req, err := c.build.call(w.with(ctx), call, now)
		if err != nil {
			return nil, &CallError{Outcome: event.OutcomeConnectError, Text: err.Error()}
		}
		resp, err := c.transport.RoundTrip(req)
		if err == nil && resp.StatusCode >= 200 && resp.StatusCode < 600 {
			return resp, nil
		}
		if err == nil {
			resp.Body.Close()
			return nil, &CallError{Sent: true, Outcome: event.OutcomeConnectError, Text: "status of the answer is not one of HTTP's"}
		}
		sent := w.wrote(ctx)
		if !sent && w.reused.Load() && try == 0 && ctx.Err() == nil {
			continue
		}
		outcome, text := classify(req.Context(), err)
		return nil, &CallError{Sent: sent, Outcome: outcome, Text: text}
	}
}

// call makes the request of a call.
func (b *builder) call(ctx context.Context, c *Call, now time.Time) (*http.Request, error) {
	s := headers{
		h:    make(http.Header, ownHeaders+len(c.Header)+len(b.fixed)),
		vals: make([]string, 0, ownHeaders+len(c.Header)),
	}
	s.pass(c.Header, &b.target.Shape, len(b.target.Signing) > 0)
	if _, ok := s.h[headerAgent]; !ok {
		s.h[headerAgent] = b.agent
	}
	for key, vals := range b.fixed {
		s.h[key] = vals
	}
	if c.Key != "" {
		s.set(headerKey, visible(c.Key))
		s.set(headerAttempt, strconv.FormatUint(uint64(c.Attempt), 10))
	}
	s.set(headerSource, visible(c.Source))
	s.set(headerReceivedAt, c.ReceivedAt.UTC().Format(receivedLayout))
	s.set(headerTrace, visible(c.Trace))
	if len(b.target.Signing) > 0 {
		id, ts := visible(c.Key), unixSeconds(now.Unix())
		if id == "" {
			id = visible(c.Trace)
		}
		s.set(headerWebhookID, id)
		s.set(headerWebhookTimestamp, ts)
		s.set(headerWebhookSignature, signatures(b.target.Signing, id, ts, c.Body))
	}
	u := b.url
	if err := appendPath(&u, c.Path); err != nil {
		return nil, err
	}
	u.RawQuery = joinQuery(u.RawQuery, c.Query)
	req := (&http.Request{
		Method: c.Method, URL: &u, Host: u.Host, Header: s.h,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}).WithContext(ctx)
	return b.once(req, c.Body), nil
}

// appendPath appends a raw path to u's. One slash stands between them.
func appendPath(u *url.URL, raw string) error {
	if raw == "" {
		return nil
	}
	plain, err := url.PathUnescape(raw)
	if err != nil {
		return errors.New("path is not percent-encoded as it should be")
	}
	own, ownRaw := u.Path, u.EscapedPath()
	if strings.HasPrefix(raw, "/") {
		own, ownRaw = strings.TrimSuffix(own, "/"), strings.TrimSuffix(ownRaw, "/")
	}
	u.Path, u.RawPath = own+plain, ownRaw+raw
	return nil
}

// callBody ends a call's time-out with its body.
type callBody struct {
	io.ReadCloser
	stop context.CancelFunc
}

func (b *callBody) Close() error {
	err := b.ReadCloser.Close()
	b.stop()
	return err
}

// counted makes a transport whose connections know how much was written to
// them.
func counted(rt roundTripper) roundTripper {
	wrap := func(dial DialFunc) DialFunc {
		return func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dial(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return &countedConn{Conn: conn}, nil
		}
	}
	switch t := rt.(type) {
	case *plain:
		t.dial, t.large.DialContext = wrap(t.dial), wrap(t.large.DialContext)
	case *http.Transport:
		t.DialContext = wrap(t.DialContext)
	default:
		panic(fmt.Sprintf("forward: no counted %T", rt))
	}
	return rt
}

// countedConn counts the bytes that went to the network.
type countedConn struct {
	net.Conn
	written atomic.Int64
}

func (c *countedConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.written.Add(int64(n))
	return n, err
}

// SyscallConn is the connection's own, for looking whether it is alive.
func (c *countedConn) SyscallConn() (syscall.RawConn, error) {
	if sc, ok := c.Conn.(syscall.Conn); ok {
		return sc.SyscallConn()
	}
	return nil, errors.ErrUnsupported
}

// follower follows one request onto its connections.
type follower struct {
	conn   atomic.Pointer[countedConn]
	before int64 // written when the request got its connection
	lost   atomic.Bool
	reused atomic.Bool
}

// with is ctx for the watched request.
func (w *follower) with(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: w.got})
}

// got is told of each connection before the request is written to it. A
// second one is given only where the first took nothing, or to end the request.
func (w *follower) got(info httptrace.GotConnInfo) {
	conn := info.Conn
	if t, ok := conn.(*tls.Conn); ok {
		conn = t.NetConn()
	}
	c, ok := conn.(*countedConn)
	if first := w.conn.Load(); !ok || first != nil {
		w.lost.Store(!ok || first.written.Load() != w.before)
		return
	}
	w.before = c.written.Load()
	w.reused.Store(info.Reused)
	w.conn.Store(c)
}

// wrote reports whether anything of the request may have gone out. In doubt
// it did: on a connection that other requests share theirs count as well, and
// of one that was cut by ctx the transport may still be writing.
func (w *follower) wrote(ctx context.Context) bool {
	c := w.conn.Load()
	if c == nil {
		return w.lost.Load()
	}
	return w.lost.Load() || ctx.Err() != nil || c.written.Load() != w.before
}
