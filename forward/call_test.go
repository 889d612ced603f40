package forward

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onceward/onceward/event"
)

// calling is a forwarder with one target, for calls; it doesn't run.
func calling(t *testing.T, target Target, edit func(*Config)) *Forwarder {
	t.Helper()
	r := newRig(t, edit)
	if target.Name == "" {
		target.Name = "bank"
	}
	if err := r.f.SetTargets([]Target{target}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.f.CloseIdleConnections)
	return r.f
}

func aCall(body string) *Call {
	return &Call{Method: "POST", Path: "/charges", Query: "a=1&b=%20", Body: []byte(body), Source: "pay", Key: "pay:shop:k1", Trace: "00-1-2-01",
		Attempt: 2, ReceivedAt: time.Unix(1, 5), Header: []event.Field{{Name: "Content-Type", Value: "text/x"}, {Name: "Idempotency-Key", Value: "forged"},
			{Name: "Onceward-Source", Value: "forged"}, {Name: "Cookie", Value: "c"}}}
}

// A call carries what it should, once, and its path and query byte for byte.
func TestCallRequest(t *testing.T) {
	type seen struct {
		line, body string
		header     http.Header
	}
	got := make(chan seen, 1)
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		got <- seen{r.Method + " " + r.RequestURI, string(b), r.Header}
		w.Header().Set("X-Answer", "yes")
		w.WriteHeader(402)
		_, _ = w.Write([]byte("pay first"))
	})
	plainServer, tlsServer := httptest.NewServer(handler), httptest.NewTLSServer(handler)
	t.Cleanup(plainServer.Close)
	t.Cleanup(tlsServer.Close)
	roots := x509.NewCertPool()
	roots.AddCert(tlsServer.Certificate())
	for _, tt := range []struct{ name, base, path, query, want string }{
		{"appended", "/v1/", "/charges", "a=1&b=%20", "/v1/charges?a=1&b=%20"},
		{"no suffix", "/v1/", "", "", "/v1/"},
		{"bare target", "", "/charges", "", "/charges"},
		{"a slash alone", "/v1", "/", "", "/v1/"},
		{"escapes stay", "/v1", "/a%2Fb/c%20d%C3%A9", "q=%2f&&x", "/v1/a%2Fb/c%20d%C3%A9?q=%2f&&x"},
		{"doubled slashes stay", "/v1", "//x//y/", "", "/v1//x//y/"},
		{"both have a query", "/v1?token=t", "/x", "a=1", "/v1/x?token=t&a=1"},
	} {
		for _, server := range []*httptest.Server{plainServer, tlsServer} {
			for _, body := range []string{"", "the body"} {
				t.Run(tt.name, func(t *testing.T) {
					f := calling(t, Target{URL: mustURL(t, server.URL+tt.base), Headers: map[string]Secret{"Authorization": "Bearer s3cret"},
						TLS: &tls.Config{RootCAs: roots}}, nil)
					c := aCall(body)
					c.Path, c.Query = tt.path, tt.query
					resp, err := f.Call(t.Context(), "bank", c)
					if err != nil {
						t.Fatal(err)
					}
					answer, err := io.ReadAll(resp.Body)
					if err != nil || resp.Body.Close() != nil || resp.StatusCode != 402 || string(answer) != "pay first" || resp.Header.Get("X-Answer") != "yes" {
						t.Errorf("answer %d %q, %v", resp.StatusCode, answer, err)
					}
					s := <-got
					if s.line != "POST "+tt.want || s.body != body {
						t.Errorf("target got %q with %q, want POST %s", s.line, s.body, tt.want)
					}
					for name, want := range map[string]string{"Idempotency-Key": "pay:shop:k1", "Onceward-Source": "pay", "Onceward-Attempt": "2",
						"Traceparent": "00-1-2-01", "Authorization": "Bearer s3cret", "Content-Type": "text/x", "Cookie": "", "Accept-Encoding": "",
						"Onceward-Received-At": "1970-01-01T00:00:01.000000005Z"} {
						if v := s.header.Values(name); strings.Join(v, ",") != want {
							t.Errorf("%s: %q, want %q", name, v, want)
						}
					}
				})
			}
		}
	}
}

func TestCallSigned(t *testing.T) {
	secret, err := ParseSigningSecret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan http.Header, 1)
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got <- r.Header }))
	t.Cleanup(s.Close)
	f := calling(t, Target{URL: mustURL(t, s.URL), Signing: []SigningSecret{secret}}, nil)
	resp, err := f.Call(t.Context(), "bank", aCall("x"))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	h := <-got
	want := signatures([]SigningSecret{secret}, "pay:shop:k1", h.Get("Webhook-Timestamp"), []byte("x"))
	if h.Get("Webhook-Id") != "pay:shop:k1" || h.Get("Webhook-Signature") != want {
		t.Errorf("signed as %q %q", h.Get("Webhook-Id"), h.Get("Webhook-Signature"))
	}
}

// rawTarget serves each connection with f, which reads the request itself.
func rawTarget(t *testing.T, f func(net.Conn, *bufio.Reader)) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			f(conn, bufio.NewReader(conn))
			conn.Close()
		}
	}()
	t.Cleanup(func() { ln.Close(); <-done })
	return "http://" + ln.Addr().String()
}

// readRequest reads one, false when the caller has closed instead.
func readRequest(r *bufio.Reader) bool {
	req, err := http.ReadRequest(r)
	if err == nil {
		_, _ = io.Copy(io.Discard, req.Body)
	}
	return err == nil
}

func reset(conn net.Conn) {
	_ = conn.(*net.TCPConn).SetLinger(0)
	conn.Close()
}

// Whether the request went out is what decides between a free key and one of
// unknown outcome.
func TestCallErrors(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	refused := "http://" + closed.Addr().String()
	closed.Close()
	untrusted := httptest.NewTLSServer(http.NotFoundHandler())
	untrusted.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	t.Cleanup(untrusted.Close)
	plainHTTP := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(plainHTTP.Close)
	for _, tt := range []struct {
		name string
		url  string
		edit func(*Target)
		sent bool
		want event.Outcome
	}{
		{name: "refused", url: refused, want: event.OutcomeConnectError},
		{name: "refused with TLS", url: strings.Replace(refused, "http", "https", 1), want: event.OutcomeConnectError},
		{name: "no such name", url: "http://nothing.invalid./", want: event.OutcomeDNSError},
		{name: "certificate", url: untrusted.URL, want: event.OutcomeTLSError},
		{name: "no TLS there", url: strings.Replace(plainHTTP.URL, "http", "https", 1), want: event.OutcomeTLSError},
		{name: "egress guard", url: "http://169.254.169.254/", want: event.OutcomeBlocked},
		{name: "allow list", url: plainHTTP.URL, edit: func(tg *Target) { tg.Allow = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")} }, want: event.OutcomeBlocked},
		{name: "reset after the request", sent: true, want: event.OutcomeConnectError, url: rawTarget(t, func(c net.Conn, r *bufio.Reader) { readRequest(r); reset(c) })},
		{name: "closed after the request", sent: true, want: event.OutcomeConnectError, url: rawTarget(t, func(_ net.Conn, r *bufio.Reader) { readRequest(r) })},
		{name: "hangs", sent: true, want: event.OutcomeTimeout, url: rawTarget(t, func(_ net.Conn, r *bufio.Reader) { readRequest(r); _, _ = r.ReadByte() }),
			edit: func(tg *Target) { tg.Timeout = 50 * time.Millisecond }},
		{name: "half a head", sent: true, want: event.OutcomeConnectError, url: rawTarget(t, func(c net.Conn, r *bufio.Reader) { readRequest(r); _, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nX: ") })},
		{name: "no status of HTTP", sent: true, want: event.OutcomeConnectError, url: rawTarget(t, func(c net.Conn, r *bufio.Reader) {
			readRequest(r)
			_, _ = io.WriteString(c, "HTTP/1.1 999 Odd\r\nContent-Length: 0\r\n\r\n")
		})},
		{name: "switches protocols", sent: true, want: event.OutcomeConnectError, url: rawTarget(t, func(c net.Conn, r *bufio.Reader) {
			readRequest(r)
			_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n")
		})},
	} {
		t.Run(tt.name, func(t *testing.T) {
			target := Target{URL: mustURL(t, tt.url), Timeout: 5 * time.Second}
			if tt.edit != nil {
				tt.edit(&target)
			}
			f := calling(t, target, nil)
			resp, err := f.Call(t.Context(), "bank", aCall("body"))
			if err == nil {
				t.Fatalf("answered %d", resp.StatusCode)
			}
			var ce *CallError
			if !errors.As(err, &ce) || ce.Sent != tt.sent || ce.Outcome != tt.want {
				t.Errorf("%v, sent %v; want %s, %v", err, ce != nil && ce.Sent, tt.want, tt.sent)
			}
		})
	}
	f := calling(t, Target{URL: mustURL(t, plainHTTP.URL)}, nil)
	_, err = f.Call(t.Context(), "nobody", aCall(""))
	var ce *CallError
	if !errors.As(err, &ce) || ce.Sent || ce.Outcome != event.OutcomeMissing || f.CallTimeout("nobody") != 0 || f.CallTimeout("bank") != DefaultTimeout {
		t.Errorf("a target that is not there: %v", err)
	}
}

// A kept-alive connection that was closed meanwhile is found out where that can
// be known, and is never called free of effect where it can't; and never is one
// request two on the wire.
func TestCallStaleConnection(t *testing.T) {
	for _, secure := range []bool{false, true} {
		var requests atomic.Int32
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { requests.Add(1) }))
		if secure {
			s.StartTLS()
		} else {
			s.Start()
		}
		roots := x509.NewCertPool()
		if secure {
			roots.AddCert(s.Certificate())
		}
		f := calling(t, Target{URL: mustURL(t, s.URL), TLS: &tls.Config{RootCAs: roots}}, nil)
		var answered, unknown int32
		for i := range 30 {
			resp, err := f.Call(t.Context(), "bank", aCall(strings.Repeat("x", i%2)))
			var ce *CallError
			switch {
			case err == nil:
				answered++
				_, _ = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			case errors.As(err, &ce) && ce.Sent && secure: // Go's transport had not seen the end yet
				unknown++
			default:
				t.Fatalf("TLS %v, call %d: %v", secure, i, err)
			}
			s.CloseClientConnections()
		}
		if n := requests.Load(); n < answered || n > answered+unknown || answered < 10 {
			t.Errorf("TLS %v: %d requests, %d calls answered, %d unknown", secure, n, answered, unknown)
		}
		s.Close()
	}
}

// Answers in every framing come whole; the connection of an answer with more
// bytes than it said is not used again.
func TestCallAnswers(t *testing.T) {
	for _, tt := range []struct{ name, wire, body string }{
		{"length", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", "ok"},
		{"chunks and trailers", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-T\r\n\r\n2\r\nok\r\n0\r\nX-T: 1\r\n\r\n", "ok"},
		{"until the end", "HTTP/1.1 200 OK\r\n\r\nok", "ok"},
		{"informational first", "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", "ok"},
		{"twice", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 500 No\r\nContent-Length: 2\r\n\r\nno", "ok"},
		{"gzip", "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\n\x1f\x8b\x08", "\x1f\x8b\x08"},
		{"empty", "HTTP/1.1 204 No Content\r\n\r\n", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := calling(t, Target{URL: mustURL(t, rawTarget(t, func(c net.Conn, r *bufio.Reader) {
				for readRequest(r) {
					_, _ = io.WriteString(c, tt.wire)
					if tt.name == "until the end" {
						return
					}
				}
			}))}, nil)
			for range 2 {
				resp, err := f.Call(t.Context(), "bank", aCall("body"))
				if err != nil {
					t.Fatal(err)
				}
				b, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				if err != nil || string(b) != tt.body {
					t.Errorf("body %q, %v", b, err)
				}
			}
		})
	}
	// An answer that breaks off is an error of its body.
	f := calling(t, Target{URL: mustURL(t, rawTarget(t, func(c net.Conn, r *bufio.Reader) {
		readRequest(r)
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok")
	}))}, nil)
	resp, err := f.Call(t.Context(), "bank", aCall("body"))
	if err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(resp.Body); err == nil {
		t.Errorf("half an answer is taken for %q", b)
	}
	resp.Body.Close()
}

// A change of the target is in force with the next call.
func TestCallFollowsConfiguration(t *testing.T) {
	name := func(s string) *httptest.Server {
		return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, s) }))
	}
	one, two := name("one"), name("two")
	t.Cleanup(one.Close)
	t.Cleanup(two.Close)
	f := calling(t, Target{URL: mustURL(t, one.URL)}, nil)
	ask := func() string {
		resp, err := f.Call(context.Background(), "bank", aCall(""))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, _ := io.ReadAll(resp.Body)
		return string(b)
	}
	if got := ask(); got != "one" {
		t.Errorf("first: %q", got)
	}
	if err := f.SetTargets([]Target{{Name: "bank", URL: mustURL(t, two.URL)}}); err != nil {
		t.Fatal(err)
	}
	if got := ask(); got != "two" {
		t.Errorf("after the change: %q", got)
	}
}
