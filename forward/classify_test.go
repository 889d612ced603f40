package forward

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"syscall"
	"testing"

	"github.com/onceward/onceward/event"
)

func TestJudge(t *testing.T) {
	t.Parallel()
	plain := &Target{}
	over := &Target{RetryOn: []int{302, 404, 425}, DeadOn: []int{429, 503}}
	for status := 200; status < 600; status++ {
		want := die
		switch {
		case status < 300:
			want = deliver
		case status == 408, status == 429, status >= 500:
			want = retry
		}
		if got := plain.judge(status, outcomeOf(status)); got != want {
			t.Errorf("judge(%d) = %d, want %d", status, got, want)
		}
		switch status {
		case 302, 404, 425:
			want = retry
		case 429, 503:
			want = die
		}
		if got := over.judge(status, outcomeOf(status)); got != want {
			t.Errorf("with overrides: judge(%d) = %d, want %d", status, got, want)
		}
	}
	for _, o := range event.Outcomes() {
		want := retry
		switch o {
		case event.Outcome2xx:
			want = deliver
		case event.Outcome3xx, event.Outcome4xx, event.OutcomeDamaged, event.OutcomeMissing, event.OutcomeGaveUp:
			want = die
		}
		if got := plain.judge(0, o); got != want {
			t.Errorf("judge(0, %s) = %d, want %d", o, got, want)
		}
	}
	for _, status := range []int{0, 99, 101, 199, 600, 999} {
		if got := plain.judge(status, outcomeOf(status)); got != retry {
			t.Errorf("judge(%d) = %d, want %d", status, got, retry)
		}
	}
}

// expired is a context whose deadline is past.
func expired(tb testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 0)
	tb.Cleanup(cancel)
	<-ctx.Done()
	return ctx
}

func ended(cause error) context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(cause)
	return ctx
}

func TestClassify(t *testing.T) {
	t.Parallel()
	live := context.Background()
	dial := func(err error) error { return &net.OpError{Op: "dial", Net: "tcp", Err: err} }
	for _, tt := range []struct {
		name string
		ctx  context.Context
		err  error
		want event.Outcome
		text string
	}{
		{"refused", live, dial(syscall.ECONNREFUSED), event.OutcomeConnectError, "connection refused"},
		{"reset", live, &net.OpError{Op: "read", Err: syscall.ECONNRESET}, event.OutcomeConnectError, "connection reset by peer"},
		{"closed", live, io.EOF, event.OutcomeConnectError, "connection closed before an answer"},
		{"half an answer", live, io.ErrUnexpectedEOF, event.OutcomeConnectError, "connection closed before an answer"},
		{"garbage", live, errors.New(`malformed HTTP response "s3cret"`), event.OutcomeConnectError, "connection failed"},
		{"no such host", live, dial(&net.DNSError{IsNotFound: true, Name: "s3cret"}), event.OutcomeDNSError, "no such host"},
		{"DNS too slow", expired(t), dial(&net.DNSError{IsTimeout: true}), event.OutcomeDNSError, "name look-up timed out"},
		{"DNS broken", live, dial(&net.DNSError{Err: "server misbehaving"}), event.OutcomeDNSError, "name look-up failed"},
		{"deadline", expired(t), context.DeadlineExceeded, event.OutcomeTimeout, "no answer in time"},
		{"dial too slow", live, dial(syscall.ETIMEDOUT), event.OutcomeTimeout, "no answer in time"},
		{"stop", ended(errInterrupted), context.Canceled, event.OutcomeInterrupted, "interrupted by our stop"},
		{"resend", ended(errResend), context.Canceled, event.OutcomeConnectError, "connection lost before an answer"},
		{"guard", live, dial(guard{}.check(netip.MustParseAddr("169.254.169.254"))), event.OutcomeBlocked, "address refused by the egress guard: 169.254.169.254: link-local"},
		{"unknown authority", live, &tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}, event.OutcomeTLSError, "certificate signed by unknown authority"},
		{"other host", live, &tls.CertificateVerificationError{Err: x509.HostnameError{Certificate: &x509.Certificate{}, Host: "a"}}, event.OutcomeTLSError, "certificate is for another host"},
		{"too old", live, &tls.CertificateVerificationError{Err: x509.CertificateInvalidError{Reason: x509.Expired}}, event.OutcomeTLSError, "certificate has expired or is not yet valid"},
		{"not TLS", live, http.ErrSchemeMismatch, event.OutcomeTLSError, "TLS handshake failed"},
		{"alert", live, &net.OpError{Op: "remote error", Err: errors.New("tls: bad certificate")}, event.OutcomeTLSError, "TLS handshake failed"},
		{"versions", live, errors.New("tls: no supported versions satisfy MinVersion and MaxVersion"), event.OutcomeTLSError, "TLS handshake failed"},
		{"wrapped", live, fmt.Errorf("round trip: %w", dial(syscall.ECONNREFUSED)), event.OutcomeConnectError, "connection refused"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, text := classify(tt.ctx, tt.err)
			if got != tt.want || text != tt.text {
				t.Errorf("classify(%v) = %s, %q, want %s, %q", tt.err, got, text, tt.want, tt.text)
			}
			if strings.Contains(text, "s3cret") {
				t.Errorf("text %q holds what the other side said", text)
			}
		})
	}
}
