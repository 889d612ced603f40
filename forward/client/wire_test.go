package client_test

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/onceward/onceward/forward/client"
)

// breaker answers the first request of a connection and closes it after
// reading the second, as a server does whose keep-alive ran out.
type breaker struct {
	seen atomic.Int64
	mu   sync.Mutex
	keys []string
}

func (b *breaker) serve(conn net.Conn) {
	defer conn.Close()
	r := bufio.NewReader(conn)
	for n := 1; ; n++ {
		req, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, req.Body)
		b.seen.Add(1)
		b.mu.Lock()
		b.keys = append(b.keys, req.Header.Get(client.Header))
		b.mu.Unlock()
		if n == 2 {
			return
		}
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
	}
}

func listen(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go serve(conn)
		}
	}()
	return "http://" + l.Addr().String()
}

// requests sends n requests, one after the other, through rt.
func requests(t *testing.T, rt http.RoundTripper, url, method, body string, n int) {
	t.Helper()
	for range n {
		req, _ := http.NewRequestWithContext(t.Context(), method, url, nil)
		if body != "" {
			req, _ = http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
		}
		if _, is := rt.(*http.Transport); is {
			req.Header.Set(client.Header, "k")
		}
		resp, err := rt.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
}

// TestOneAttemptOneRequest: at a server that closes kept-alive connections
// after reading, attempts told are requests seen.
func TestOneAttemptOneRequest(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, method, body string }{{"body", "POST", "amount=5"}, {"empty POST", "POST", ""}, {"DELETE", "DELETE", ""}} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := &breaker{}
			url := listen(t, b.serve)
			var told, broken atomic.Int64
			base := &http.Transport{}
			defer base.CloseIdleConnections()
			tr := client.New(client.Config{Base: base, Rand: func() float64 { return 0 }, Observe: func(a client.Attempt) {
				told.Add(1)
				if a.Err != nil {
					broken.Add(1)
				}
			}})
			requests(t, tr, url, tt.method, tt.body, 500)
			if told.Load() != b.seen.Load() || broken.Load() < 100 {
				t.Errorf("%d attempts told, %d requests seen, %d broken", told.Load(), b.seen.Load(), broken.Load())
			}
			byKey := map[string]int{}
			for _, k := range b.keys {
				byKey[k]++
			}
			if len(byKey) != 500 {
				t.Errorf("%d keys for 500 operations", len(byKey))
			}
		})
	}
}

// TestTransportAloneResends is the control: net/http's transport makes more
// requests than it was asked for.
func TestTransportAloneResends(t *testing.T) {
	t.Parallel()
	b := &breaker{}
	url := listen(t, b.serve)
	base := &http.Transport{}
	defer base.CloseIdleConnections()
	requests(t, base, url, "POST", "amount=5", 500)
	if seen := b.seen.Load(); seen < 600 {
		t.Errorf("%d requests seen for 500 asked for: the server breaks no connection", seen)
	}
}

// TestHTTP2 holds the same over HTTP/2, where a server refuses streams and
// resets connections, and bodies of any kind arrive whole.
func TestHTTP2(t *testing.T) {
	t.Parallel()
	var seen atomic.Int64
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		if r.ProtoMajor != 2 || r.Header.Get(client.Header) == "" || len(text) != len("amount=5") && len(text) != 0 {
			t.Errorf("got %s with key %q and %d bytes", r.Proto, r.Header.Get(client.Header), len(text))
		}
		if seen.Add(1)%3 == 0 {
			panic(http.ErrAbortHandler) // resets the stream
		}
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	var told atomic.Int64
	tr := client.New(client.Config{Base: server.Client().Transport, Rand: func() float64 { return 0 }, Observe: func(client.Attempt) { told.Add(1) }})
	requests(t, tr, server.URL, "POST", "amount=5", 100)
	requests(t, tr, server.URL, "POST", "", 100)
	if told.Load() != seen.Load() || seen.Load() < 250 {
		t.Errorf("%d attempts told, %d requests seen, want the same and more than 250", told.Load(), seen.Load())
	}
}

// TestHTTP2Refused: a stream that the server refused on one connection is not
// sent on another by the transport itself.
func TestHTTP2Refused(t *testing.T) {
	t.Parallel()
	for _, body := range []string{"amount=5", ""} {
		var headers atomic.Int64
		url, base := refusing(t, &headers)
		var told atomic.Int64
		tr := client.New(client.Config{Base: base, Attempts: 4, Rand: func() float64 { return 0 }, Observe: func(client.Attempt) { told.Add(1) }})
		req, _ := http.NewRequestWithContext(t.Context(), "POST", url, strings.NewReader(body))
		if resp, err := tr.RoundTrip(req); err == nil {
			t.Fatalf("status %d from a server that refuses every stream", resp.StatusCode)
		}
		if told.Load() != 4 || headers.Load() != 4 {
			t.Errorf("body %q: %d attempts told, %d header frames on the wire, want 4 of each", body, told.Load(), headers.Load())
		}
	}
}

// refusing is an HTTP/2 server that refuses every stream.
func refusing(t *testing.T, headers *atomic.Int64) (string, *http.Transport) {
	t.Helper()
	model := httptest.NewUnstartedServer(nil)
	model.StartTLS()
	t.Cleanup(model.Close)
	cert := model.TLS.Certificates[0]
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"h2"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go refuse(conn, headers)
		}
	}()
	base := model.Client().Transport.(*http.Transport).Clone()
	base.ForceAttemptHTTP2 = true
	t.Cleanup(base.CloseIdleConnections)
	return "https://" + l.Addr().String(), base
}

// refuse speaks as much HTTP/2 as it takes: SETTINGS, and RST_STREAM with
// REFUSED_STREAM for every HEADERS frame.
func refuse(conn net.Conn, headers *atomic.Int64) {
	defer conn.Close()
	preface := make([]byte, len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))
	if _, err := io.ReadFull(conn, preface); err != nil {
		return
	}
	_, _ = conn.Write([]byte{0, 0, 0, 4, 0, 0, 0, 0, 0})
	for {
		var head [9]byte
		if _, err := io.ReadFull(conn, head[:]); err != nil {
			return
		}
		n := int64(head[0])<<16 | int64(head[1])<<8 | int64(head[2])
		if _, err := io.CopyN(io.Discard, conn, n); err != nil {
			return
		}
		switch {
		case head[3] == 1: // HEADERS
			headers.Add(1)
			_, _ = conn.Write(append(append([]byte{0, 0, 4, 3, 0}, head[5:9]...), 0, 0, 0, 7))
		case head[3] == 4 && head[4] == 0: // SETTINGS, acknowledged
			_, _ = conn.Write([]byte{0, 0, 0, 4, 1, 0, 0, 0, 0})
		}
	}
}

// TestUntrusted: a certificate that fails is not tried again, and a refused
// connection is.
func TestUntrusted(t *testing.T) {
	t.Parallel()
	server := httptest.NewTLSServer(http.NotFoundHandler())
	server.Config.ErrorLog = nil
	defer server.Close()
	closed := httptest.NewServer(nil)
	closed.Close()
	for url, want := range map[string]int{server.URL: 1, closed.URL: 3, strings.Replace(server.URL, "https", "ftp", 1): 1} {
		n := 0
		tr := client.New(client.Config{Attempts: 3, Base: &http.Transport{}, Rand: func() float64 { return 0 }, Observe: func(client.Attempt) { n++ }})
		req, _ := http.NewRequestWithContext(t.Context(), "POST", url, bytes.NewReader([]byte("x")))
		if _, err := tr.RoundTrip(req); err == nil || n != want {
			t.Errorf("%s: %v after %d attempts, want an error after %d", url, err, n, want)
		}
	}
}
