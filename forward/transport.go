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
// target, the environment's proxies are ignored, nothing is decompressed, and
// HTTP/2 is spoken only where TLS negotiates it.
func newTransport(t *Target, dial DialFunc, resolver *net.Resolver) roundTripper {
	if dial == nil {
		d := &net.Dialer{
			Timeout:        min(dialTimeout, t.Timeout),
			FallbackDelay:  fallbackDialer,
			Resolver:       resolver,
			ControlContext: guard{allow: t.Allow}.control,
		}
		dial = d.DialContext
		if t.Way.Socket != "" {
			dial = (&net.Dialer{Timeout: d.Timeout}).DialContext
		}
	}
	if t.Way.Socket != "" {
		inner := dial
		dial = func(ctx context.Context, _, _ string) (net.Conn, error) { return inner(ctx, "unix", t.Way.Socket) }
	}
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
	if !t.standard() {
		return &plain{dial: dial, large: tr}
	}
	return tr
}
