package forward

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/onceward/onceward/event"
)

// census counts the requests that reached a listener, by attempt.
type census struct {
	mu     sync.Mutex
	seen   map[string]int // delivery and attempt number
	faults []string
}

func newCensus() *census { return &census{seen: map[string]int{}} }

func (c *census) add(attempt string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen[attempt]++
}

func (c *census) fault(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults = append(c.faults, fmt.Sprintf(format, args...))
}

// listen serves each connection on its own goroutine until the test ends.
func listen(t *testing.T, l net.Listener, serve func(net.Conn)) {
	t.Helper()
	var conns sync.WaitGroup
	var mu sync.Mutex
	open := map[net.Conn]bool{}
	conns.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open[c] = true
			mu.Unlock()
			conns.Go(func() {
				defer c.Close()
				serve(c)
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		mu.Lock()
		for c := range open {
			_ = c.Close()
		}
		mu.Unlock()
		conns.Wait()
	})
}

// breaker1 speaks HTTP/1: it answers the first request of a connection and
// keeps it alive, reads the second whole and closes without a word. That is
// where Go's transport would send an idempotent request again.
func breaker1(seen *census, body string) func(net.Conn) {
	return func(c net.Conn) {
		var raw bytes.Buffer
		br := bufio.NewReader(io.TeeReader(c, &raw))
		for n := 0; ; n++ {
			raw.Reset()
			req, err := http.ReadRequest(br)
			if err != nil {
				return
			}
			got, err := io.ReadAll(req.Body)
			if err != nil {
				seen.fault("body: %v", err)
			}
			seen.add(req.Header.Get(headerDelivery) + " " + req.Header.Get(headerAttempt))
			checkWire(seen, req, raw.String(), string(got), body)
			if n > 0 {
				return
			}
			if _, err := io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"); err != nil {
				return
			}
		}
	}
}

func checkWire(seen *census, req *http.Request, raw, got, want string) {
	length := strings.Contains(raw, fmt.Sprintf("\r\nContent-Length: %d\r\n", len(want)))
	switch {
	case got != want:
		seen.fault("body = %q, want %q", got, want)
	case len(req.TransferEncoding) > 0:
		seen.fault("transfer encoding %q", req.TransferEncoding)
	case (want != "" || req.Method == http.MethodPost || req.Method == http.MethodPut) && !length:
		seen.fault("no Content-Length in %q", raw)
	case want == "" && req.Method == http.MethodGet && strings.Contains(raw, "Content-Length"):
		seen.fault("a length in %q", raw)
	case !strings.HasPrefix(req.Header.Get(headerKey), "shop:evt_"):
		seen.fault("key %q", req.Header.Get(headerKey))
	}
}

// wire forwards n events and holds what the listener saw against what the
// account says.
func wire(t *testing.T, seen *census, tgt Target, method, body string, n int) {
	t.Helper()
	r := newRig(t, nil)
	tgt.Name, tgt.Schedule, tgt.Breaker.Off = "a", fast, true
	r.run(tgt)
	refs := make([]event.Ref, n)
	for i := range refs {
		refs[i] = r.admit(event.Event{Targets: []string{"a"}, Method: method}, body)
	}
	want := map[string]int{}
	var failed int
	for _, ref := range refs {
		r.closed(ref, "a")
		d := r.delivery(ref, "a")
		if d.State != event.Delivered {
			t.Errorf("delivery is %v", d.State)
		}
		for _, a := range r.attempts(ref) {
			want[fmt.Sprintf("%s %d", d.DeliveryID(), a.Number)]++
			if a.Outcome != event.Outcome2xx {
				failed++
			}
		}
	}
	if failed < n/10 {
		t.Errorf("%d attempts failed of %d events: the listener broke too few connections", failed, n)
	}
	seen.mu.Lock()
	defer seen.mu.Unlock()
	for attempt, count := range want {
		if got := seen.seen[attempt]; got != count {
			t.Errorf("attempt %s: %d requests on the wire, %d recorded", attempt, got, count)
		}
	}
	for attempt := range seen.seen {
		if want[attempt] == 0 {
			t.Errorf("attempt %s was on the wire and is not recorded", attempt)
		}
	}
	for _, f := range seen.faults {
		t.Error(f)
	}
}

func TestOneRequestPerAttemptHTTP1(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, method, body string }{
		{"with body", http.MethodPost, `{"paid":true}`},
		{"empty body", http.MethodPost, ""},
		{"large body", http.MethodPost, strings.Repeat("b", 100_000)},
		{"GET", http.MethodGet, ""},
		{"PUT empty", http.MethodPut, ""},
		{"DELETE empty", http.MethodDelete, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			seen := newCensus()
			listen(t, l, breaker1(seen, tt.body))
			n := 1000
			if len(tt.body) > 1000 {
				n = 200
			}
			wire(t, seen, Target{URL: mustURL(t, "http://"+l.Addr().String()+"/"), Concurrency: 8}, tt.method, tt.body, n)
		})
	}
}

// Over TLS, where Go's transport carries HTTP/1, it is the same.
func TestOneRequestPerAttemptTLS(t *testing.T) {
	t.Parallel()
	srv := httptest.NewTLSServer(nil)
	defer srv.Close()
	client := srv.Client().Transport.(*http.Transport).TLSClientConfig
	for _, tt := range []struct{ name, method, body string }{
		{"with body", http.MethodPost, `{"paid":true}`},
		{"empty body", http.MethodPost, ""},
		{"GET", http.MethodGet, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: srv.TLS.Certificates})
			if err != nil {
				t.Fatal(err)
			}
			seen := newCensus()
			listen(t, l, breaker1(seen, tt.body))
			_, port, _ := net.SplitHostPort(l.Addr().String())
			tls := &tls.Config{RootCAs: client.RootCAs, ServerName: "example.com"}
			wire(t, seen, Target{URL: mustURL(t, "https://127.0.0.1:"+port+"/"), Concurrency: 4, TLS: tls}, tt.method, tt.body, 1000)
		})
	}
}

// breaker2 speaks HTTP/2 by hand: it answers every second request and breaks
// the others as how says.
func breaker2(seen *census, how, body string) func(net.Conn) {
	return func(c net.Conn) {
		if err := c.(*tls.Conn).Handshake(); err != nil {
			return
		}
		preface := make([]byte, len(http2.ClientPreface))
		if _, err := io.ReadFull(c, preface); err != nil {
			return
		}
		s := &stream2{c: c, f: http2.NewFramer(c, c), seen: seen, how: how, want: body}
		s.f.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
		if s.f.WriteSettings() != nil {
			return
		}
		for s.next() {
		}
	}
}

type stream2 struct {
	c      net.Conn
	f      *http2.Framer
	seen   *census
	how    string
	want   string
	got    bytes.Buffer
	n      int
	answer uint32 // the last stream that was answered
}

func (s *stream2) next() bool {
	frame, err := s.f.ReadFrame()
	if err != nil {
		return false
	}
	switch f := frame.(type) {
	case *http2.SettingsFrame:
		return f.IsAck() || s.f.WriteSettingsAck() == nil
	case *http2.PingFrame:
		return f.IsAck() || s.f.WritePing(true, f.Data) == nil
	case *http2.MetaHeadersFrame:
		var delivery, attempt string
		for _, h := range f.Fields {
			switch h.Name {
			case "onceward-delivery":
				delivery = h.Value
			case "onceward-attempt":
				attempt = h.Value
			}
		}
		s.seen.add(delivery + " " + attempt)
		s.got.Reset()
		return !f.StreamEnded() || s.end(f.StreamID)
	case *http2.DataFrame:
		s.got.Write(f.Data())
		return !f.StreamEnded() || s.end(f.StreamID)
	}
	return true
}

// end answers a whole request, or breaks it.
func (s *stream2) end(id uint32) bool {
	if s.got.String() != s.want {
		s.seen.fault("body = %q, want %q", s.got.String(), s.want)
	}
	s.n++
	if s.n%2 == 1 {
		s.answer = id
		var head bytes.Buffer
		if hpack.NewEncoder(&head).WriteField(hpack.HeaderField{Name: ":status", Value: "200"}) != nil {
			return false
		}
		return s.f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: head.Bytes(), EndHeaders: true, EndStream: true}) == nil
	}
	switch s.how {
	case "refuse":
		return s.f.WriteRSTStream(id, http2.ErrCodeRefusedStream) == nil
	case "protocol":
		return s.f.WriteRSTStream(id, http2.ErrCodeProtocol) == nil
	case "goaway":
		_ = s.f.WriteGoAway(s.answer, http2.ErrCodeNo, nil)
		return false
	}
	return false // close
}

// TestOneRequestPerAttemptHTTP2 breaks streams in each way after which the
// transport would send a request again if it could.
func TestOneRequestPerAttemptHTTP2(t *testing.T) {
	t.Parallel()
	srv := httptest.NewUnstartedServer(nil)
	srv.EnableHTTP2 = true
	srv.StartTLS()
	defer srv.Close()
	client := srv.Client().Transport.(*http.Transport).TLSClientConfig
	for _, how := range []string{"close", "refuse", "protocol", "goaway"} {
		for name, body := range map[string]string{"with body": `{"paid":true}`, "empty body": ""} {
			for _, method := range []string{http.MethodPost, http.MethodGet} {
				t.Run(how+" "+name+" "+method, func(t *testing.T) {
					t.Parallel()
					l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: srv.TLS.Certificates, NextProtos: []string{"h2"}})
					if err != nil {
						t.Fatal(err)
					}
					seen := newCensus()
					listen(t, l, breaker2(seen, how, body))
					_, port, _ := net.SplitHostPort(l.Addr().String())
					tls := &tls.Config{RootCAs: client.RootCAs, ServerName: "example.com"}
					// One at a time: a connection that breaks would take others with
					// it that the listener has not read.
					n := 250
					if how == "close" && method == http.MethodPost {
						n = 1000
					}
					wire(t, seen, Target{URL: mustURL(t, "https://127.0.0.1:"+port+"/"), Concurrency: 1, TLS: tls}, method, body, n)
				})
			}
		}
	}
}

// An empty POST to a TLS target that speaks HTTP/1 says its length.
func TestEmptyBodyOverTLS(t *testing.T) {
	t.Parallel()
	lengths := make(chan string, 1)
	srv := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		lengths <- fmt.Sprint(r.Proto, " ", r.Header.Get("Content-Length"), " ", r.ContentLength, " ", r.TransferEncoding)
	}))
	defer srv.Close()
	r := newRig(t, nil)
	r.run(Target{Name: "a", URL: mustURL(t, srv.URL), TLS: srv.Client().Transport.(*http.Transport).TLSClientConfig})
	r.admit(event.Event{Targets: []string{"a"}}, "")
	if got, want := <-lengths, "HTTP/1.1 0 0 []"; got != want {
		t.Errorf("request = %s, want %s", got, want)
	}
}
