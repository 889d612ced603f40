package forward

import (
	"context"
	"crypto/tls"
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
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12},
	}
	if t.TLS != nil {
		tr.TLSClientConfig = t.TLS.Clone()
	}
	if t.URL.Scheme == "http" {
		return &plain{dial: dial, large: tr}
	}
	return tr
}
