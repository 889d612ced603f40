package client

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"math"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"
)

// transient reports whether what came of an attempt may be different next
// time. connected says that the attempt had a connection: whatever went wrong
// after that, the connection is to blame.
func transient(resp *http.Response, err error, connected bool) bool {
	if err == nil {
		return resp.StatusCode == http.StatusRequestTimeout || resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode >= 500 && resp.StatusCode < 600
	}
	if untrusted(err) {
		return false
	}
	var network net.Error
	var errno syscall.Errno
	return connected || errors.Is(err, errResend) || errors.As(err, &network) || errors.As(err, &errno) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed)
}

// untrusted reports that the other end is not who it should be, or speaks no
// TLS: trying again is no help, and no good.
func untrusted(err error) bool {
	var (
		verification *tls.CertificateVerificationError
		record       tls.RecordHeaderError
		alert        tls.AlertError
		authority    x509.UnknownAuthorityError
		hostname     x509.HostnameError
		invalid      x509.CertificateInvalidError
	)
	return errors.As(err, &verification) || errors.As(err, &record) || errors.As(err, &alert) ||
		errors.As(err, &authority) || errors.As(err, &hostname) || errors.As(err, &invalid)
}

// backoff is the wait after the n-th failed attempt: full jitter under an
// exponential bound.
func (t *Transport) backoff(n int) time.Duration {
	bound := float64(t.cfg.Initial) * math.Pow(2, float64(n-1))
	return time.Duration(t.cfg.Rand() * min(bound, float64(t.cfg.Max)))
}

// retryAfter reads a Retry-After value, seconds or an HTTP date. Garbage, a
// negative number and a past date are 0.
func retryAfter(value string, now time.Time) time.Duration {
	value = strings.TrimSpace(value)
	if value == "" {
		return 0
	}
	var secs int64
	for i := 0; i < len(value); i++ {
		c := value[i]
		if c < '0' || c > '9' {
			at, err := http.ParseTime(value)
			if err != nil {
				return 0
			}
			return max(at.Sub(now), 0)
		}
		secs = min(secs*10+int64(c-'0'), math.MaxInt64/int64(time.Second)/20)
	}
	return time.Duration(secs) * time.Second
}
