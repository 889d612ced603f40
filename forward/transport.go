package forward

import (
	"context"
	"net"
	"net/http"
	"time"
)

const (
	dialTimeout = 10 * time.Second
	// idleTimeout closes an unused connection before the servers in common
	// use do (2 s and more): a request on a connection that its server is
	// closing is an attempt lost.
	idleTimeout    = 1500 * time.Millisecond
	maxAnswerHead  = 64 << 10
	bufferSize     = 8 << 10
	maxDrain       = 64 << 10
	maxHeadKept    = 4 << 10
	fallbackDialer = 300 * time.Millisecond
	pingTimeout    = 15 * time.Second
)

// DialFunc opens a connection, as net.Dialer.DialContext does.
type DialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// newTransport is a target's own transport: nothing is shared with another
// target.
func newTransport(t *Target, dial DialFunc, resolver *net.Resolver) roundTripper {
	dial = newDial(t, dial, resolver)
	tr := newStandard(t, dial)
	if !t.standard() {
		return &plain{dial: dial, large: tr}
	}
	return tr
}

// newDial opens a target's connections: past the egress guard, or to its
// socket. Dial, when not nil, takes the place of the dialer.
func newDial(t *Target, dial DialFunc, resolver *net.Resolver) DialFunc {
	d := &net.Dialer{Timeout: min(dialTimeout, t.Timeout)}
	if t.Way.Socket != "" {
		if dial == nil {
			dial = d.DialContext
		}
		return func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx, "unix", t.Way.Socket) }
	}
	if dial != nil {
		return dial
	}
	d.FallbackDelay, d.Resolver, d.ControlContext = fallbackDialer, resolver, guard{allow: t.Allow}.control
	return d.DialContext
}

// newStandard is Go's transport: the environment's proxies are ignored, nothing
// is decompressed, and HTTP/2 is spoken only where TLS negotiates it.
func newStandard(t *Target, dial DialFunc) *http.Transport {
	tr := &http.Transport{
		DialContext:            dial,
		DisableCompression:     true,
		ForceAttemptHTTP2:      true,
		MaxIdleConns:           0,
		MaxIdleConnsPerHost:    t.Concurrency,
		IdleConnTimeout:        idleTimeout,
		MaxResponseHeaderBytes: maxAnswerHead,
		ReadBufferSize:         bufferSize,
		WriteBufferSize:        bufferSize,
		TLSClientConfig:        t.clientTLS(),
		TLSHandshakeTimeout:    min(dialTimeout, t.Timeout),
		// A connection whose other end is gone is found out by a ping, and not
		// by the time-outs of all that is on it.
		HTTP2: &http.HTTP2Config{SendPingTimeout: pingTimeout, PingTimeout: pingTimeout},
	}
	if t.Way.Proxy != nil {
		tr.Proxy = http.ProxyURL(t.Way.Proxy)
	}
	return tr
}
