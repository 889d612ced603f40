package forward

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"syscall"

	"github.com/onceward/onceward/event"
)

// The causes with which an attempt's context ends other than its deadline.
var (
	errInterrupted = errors.New("interrupted by our stop")
	errResend      = errors.New("the transport would have sent the request again")
)

// verdict is what an attempt's outcome means for its delivery.
type verdict uint8

const (
	deliver verdict = iota + 1
	retry
	die
	hold // pause the target; the delivery stays pending
)

// outcomeOf classes an HTTP status. A status no server may send is an answer
// that can't be understood.
func outcomeOf(status int) event.Outcome {
	switch {
	case status >= 200 && status < 300:
		return event.Outcome2xx
	case status >= 300 && status < 400:
		return event.Outcome3xx
	case status >= 400 && status < 500:
		return event.Outcome4xx
	case status >= 500 && status < 600:
		return event.Outcome5xx
	}
	return event.OutcomeConnectError
}

// judge is the decision table: 2xx delivers; 408, 429, 5xx and everything
// without a usable answer are retried; other 4xx and 3xx are dead at once. The
// target's overrides come first.
func (t *Target) judge(status int, outcome event.Outcome) verdict {
	if status != 0 && outcome != event.Outcome2xx {
		switch {
		case slices.Contains(t.PauseOn, status):
			return hold
		case slices.Contains(t.RetryOn, status):
			return retry
		case slices.Contains(t.DeadOn, status):
			return die
		}
	}
	switch outcome {
	case event.Outcome2xx:
		return deliver
	case event.Outcome4xx:
		if status == http.StatusRequestTimeout || status == http.StatusTooManyRequests {
			return retry
		}
		return die
	case event.Outcome3xx, event.OutcomeDamaged, event.OutcomeMissing, event.OutcomeGaveUp:
		return die
	}
	// A refused address is a fault of the configuration: it is retried, so
	// that mending the configuration in time loses nothing.
	return retry
}

// sick reports whether an attempt speaks against the target rather than
// against the event: what is retried does, and so do the answers of a server
// that isn't the one meant or doesn't know us, unless the configuration says
// that they are about the event.
func (t *Target) sick(status int, outcome event.Outcome, v verdict) bool {
	switch {
	case v == retry:
		return outcome != event.OutcomeInterrupted
	case v != die || slices.Contains(t.DeadOn, status):
		return false
	case outcome == event.Outcome3xx:
		return true
	}
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusGone:
		return true
	}
	return false
}

// classify turns the error of a round trip under ctx into an outcome and a
// short text that holds nothing of the request, the answer or the URL.
func classify(ctx context.Context, err error) (event.Outcome, string) {
	var (
		dns  *net.DNSError
		nerr net.Error
		cert *tls.CertificateVerificationError
	)
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errInterrupted):
		return event.OutcomeInterrupted, "interrupted by our stop"
	case errors.Is(cause, errResend):
		return event.OutcomeConnectError, "connection lost before an answer"
	case errors.Is(err, ErrBlocked):
		return event.OutcomeBlocked, clip(blockedText(err))
	case errors.As(err, &dns):
		return event.OutcomeDNSError, dnsText(dns)
	case errors.Is(cause, context.DeadlineExceeded), errors.As(err, &nerr) && nerr.Timeout():
		return event.OutcomeTimeout, "no answer in time"
	case errors.As(err, &cert):
		return event.OutcomeTLSError, certText(cert.Err)
	case tlsFault(err):
		return event.OutcomeTLSError, "TLS handshake failed"
	}
	return event.OutcomeConnectError, connectText(err)
}

func tlsFault(err error) bool {
	var (
		record tls.RecordHeaderError
		alert  tls.AlertError
		op     *net.OpError
		ech    *tls.ECHRejectionError
	)
	if errors.As(err, &record) || errors.As(err, &alert) || errors.As(err, &ech) || errors.Is(err, http.ErrSchemeMismatch) {
		return true
	}
	// crypto/tls reports alerts, received or sent, as operations of these
	// names; other faults of a handshake begin with its name.
	return errors.As(err, &op) && (op.Op == "remote error" || op.Op == "local error") || strings.HasPrefix(err.Error(), "tls: ")
}

func dnsText(err *net.DNSError) string {
	switch {
	case err.IsNotFound:
		return "no such host"
	case err.IsTimeout:
		return "name look-up timed out"
	}
	return "name look-up failed"
}

func certText(err error) string {
	var (
		authority x509.UnknownAuthorityError
		host      x509.HostnameError
		invalid   x509.CertificateInvalidError
	)
	switch {
	case errors.As(err, &authority):
		return "certificate signed by unknown authority"
	case errors.As(err, &host):
		return "certificate is for another host"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "certificate has expired or is not yet valid"
	}
	return "certificate is not valid"
}

func connectText(err error) string {
	var errno syscall.Errno
	switch {
	case errors.As(err, &errno):
		return errno.Error()
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "connection closed before an answer"
	}
	return "connection failed"
}

const maxErrorText = 200

// clip keeps an error text short and printable.
func clip(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < 0x20 || r == 0x7f {
			return -1
		}
		return r
	}, s)
	if len(s) > maxErrorText {
		s = strings.ToValidUTF8(s[:maxErrorText], "")
	}
	return s
}
