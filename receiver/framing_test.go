package receiver

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// framingCases are header blocks and whether they may pass.
var framingCases = []struct {
	name, text string
	ok         bool
}{
	{"plain", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nab", true},
	{"two in a row", "POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\nabGET / HTTP/1.1\r\n\r\n", true},
	{"a body that looks like a block", "POST / HTTP/1.1\r\nContent-Length: 48\r\n\r\nContent-Length: 1\nTransfer-Encoding: chunked\n x\n", true},
	{"chunked", "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n", true},
	{"blanks around the length", "POST / HTTP/1.1\r\nContent-Length:\t 2 \r\n\r\nab", true},
	{"no length", "GET / HTTP/1.0\r\nHost: x\r\n\r\n", true},
	{"long line", "GET / HTTP/1.1\r\nX-Long: " + strings.Repeat("a", 9000) + "\r\n\r\n", true},
	{"names alike", "POST / HTTP/1.1\r\nContent-Lengths: 1\r\nContent_Length: 1\r\nX-Transfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n", true},

	{"both, length first", "POST / HTTP/1.1\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n", false},
	{"both, coding first", "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n", false},
	{"both, other case", "POST / HTTP/1.1\r\ncOnTeNt-LeNgTh: 2\r\ntransfer-encoding: x\r\n\r\n", false},
	{"both, in the second request", "POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\nabPOST / HTTP/1.1\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n", false},
	{"two lengths", "POST / HTTP/1.1\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n", false},
	{"the same length twice", "POST / HTTP/1.1\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\n", false},
	{"a list of lengths", "POST / HTTP/1.1\r\nContent-Length: 2, 2\r\n\r\n", false},
	{"signed length", "POST / HTTP/1.1\r\nContent-Length: +2\r\n\r\n", false},
	{"empty length", "POST / HTTP/1.1\r\nContent-Length:\r\n\r\n", false},
	{"endless length", "POST / HTTP/1.1\r\nContent-Length: 9999999999999999999\r\n\r\n", false},
	{"padded length", "POST / HTTP/1.1\r\nContent-Length: " + strings.Repeat("0", 90) + "2\r\n\r\n", false},
	{"two codings", "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n", false},
	{"coding of old", "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", false},
	{"bare LF", "POST / HTTP/1.1\r\nHost: x\nContent-Length: 2\r\n\r\n", false},
	{"bare LF ends the block", "POST / HTTP/1.1\r\nHost: x\r\n\n", false},
	{"bare LF ends the request line", "POST / HTTP/1.1\nHost: x\r\n\r\n", false},
	{"folded", "POST / HTTP/1.1\r\nX-A: a\r\n b\r\n\r\n", false},
	{"folded by a tab", "POST / HTTP/1.1\r\nContent-Length: 2\r\n\tTransfer-Encoding: chunked\r\n\r\n", false},
}

// scanIn scans text in pieces and returns how much of it passed.
func scanIn(text string, piece int) int {
	var f framing
	for at := 0; at < len(text); at += piece {
		p := text[at:min(len(text), at+piece)]
		if ok := f.scan([]byte(p)); ok < len(p) {
			return at + ok
		}
	}
	return len(text)
}

func TestFraming(t *testing.T) {
	t.Parallel()
	for _, tt := range framingCases {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			whole := scanIn(tt.text, len(tt.text))
			if (whole == len(tt.text)) != tt.ok {
				t.Errorf("%d of %d bytes passed, want all: %v", whole, len(tt.text), tt.ok)
			}
			for piece := 1; piece < len(tt.text); piece++ {
				if got := scanIn(tt.text, piece); got != whole {
					t.Fatalf("in pieces of %d: %d bytes passed, in one %d", piece, got, whole)
				}
			}
		})
	}
}

// TestFramingRefusal: what is refused is answered 400 after the answer to the
// request before it, and what follows is never read.
func TestFramingRefusal(t *testing.T) {
	t.Parallel()
	f := setup(t, []*Source{source(t, "none")}, nil)
	good := "POST /in/none HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\ngood"
	follows := "POST /in/none HTTP/1.1\r\nHost: x\r\nContent-Length: 8\r\n\r\nsmuggled"
	refused := 0
	for _, tt := range framingCases {
		if tt.ok {
			continue
		}
		refused++
		conn := f.dial(t)
		if _, err := io.WriteString(conn, good+strings.Replace(tt.text, "POST / ", "POST /in/none ", 1)+"0\r\n\r\n"+follows); err != nil {
			t.Fatal(err)
		}
		br := bufio.NewReader(conn)
		first, err := readReply(br, "POST")
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		first.want(t, 200)
		for second := (reply{}); err == nil; {
			if second, err = readReply(br, "POST"); err == nil && (second.status != 400 || !second.closed) {
				t.Errorf("%s: got %d, closed %v, want 400 and closed", tt.name, second.status, second.closed)
			}
		}
		conn.Close()
	}
	if refused < 15 {
		t.Errorf("only %d blocks were refused", refused)
	}
	if n := f.events(t); n != 1 {
		t.Errorf("%d events, want the good one and no other", n)
	}
}

// TestOldRequests: connections of requests older than HTTP/1.1 end with the
// answer, and OPTIONS * is a path of nobody.
func TestOldRequests(t *testing.T) {
	t.Parallel()
	f := setup(t, []*Source{source(t, "none")}, nil)
	if got := f.raw(t, "POST /in/none HTTP/1.0\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nab").want(t, 200); !got.closed {
		t.Error("the connection of an HTTP/1.0 request stays open")
	}
	f.raw(t, "OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n").want(t, 404)
}

// FuzzFraming holds framing against net/http: a request that net/http reads
// whole has one meaning, and framing stands at its end; and what passes does
// not depend on how the bytes were cut.
func FuzzFraming(f *testing.F) {
	for i, tt := range framingCases {
		f.Add([]byte(tt.text), i+1)
	}
	f.Fuzz(func(t *testing.T, text []byte, piece int) {
		whole := scanIn(string(text), max(1, len(text)))
		if got := scanIn(string(text), 1+(piece&63)); got != whole {
			t.Fatalf("in pieces %d bytes passed, in one %d", got, whole)
		}
		src := bytes.NewReader(text)
		br := bufio.NewReader(src)
		var fr framing
		for at := 0; ; {
			req, err := http.ReadRequest(br)
			if err != nil {
				return
			}
			if _, err := io.Copy(io.Discard, req.Body); err != nil {
				return
			}
			end := len(text) - src.Len() - br.Buffered()
			if at = fits(t, &fr, text[at:end], req, at); at < 0 {
				return
			}
		}
	})
}

// fits scans the bytes of a request that net/http read whole and returns
// where the next begins, -1 when framing ends the connection here.
func fits(t *testing.T, fr *framing, raw []byte, req *http.Request, at int) int {
	t.Helper()
	if fr.scan(raw) < len(raw) {
		return -1
	}
	block, _, _ := bytes.Cut(raw, []byte("\r\n\r\n"))
	lower := string(bytes.ToLower(block))
	if strings.Contains(lower, "\ncontent-length:") && strings.Contains(lower, "\ntransfer-encoding:") {
		t.Fatalf("both lengths passed: %q", block)
	}
	if len(req.TransferEncoding) > 0 {
		if !fr.opaque {
			t.Fatalf("a coded body is looked into: %q", raw)
		}
		return -1
	}
	if fr.body != 0 || fr.inBlock || fr.n != 0 || fr.opaque {
		t.Fatalf("after %q framing stands at %s", raw, fmt.Sprintf("%+v", fr))
	}
	return at + len(raw)
}

// BenchmarkFraming is what looking at a usual request costs.
func BenchmarkFraming(b *testing.B) {
	text := []byte("POST /in/stripe HTTP/1.1\r\nHost: hooks.example.com\r\nUser-Agent: Stripe/1.0 (+https://stripe.com/docs/webhooks)\r\n" +
		"Content-Type: application/json; charset=utf-8\r\nAccept: */*; q=0.5, application/xml\r\nCache-Control: no-cache\r\n" +
		"Stripe-Signature: t=1764504000,v1=" + strings.Repeat("0", 64) + "\r\nContent-Length: 1000\r\n\r\n" + strings.Repeat("x", 1000))
	var f framing
	for b.Loop() {
		if f.scan(text) < len(text) {
			b.Fatal("refused")
		}
	}
}

// readsConn counts the reads of a connection.
type readsConn struct {
	net.Conn
	reads atomic.Int32
}

func (c *readsConn) Read(p []byte) (int, error) {
	c.reads.Add(1)
	return c.Conn.Read(p)
}

// readsListener gives out the connections it counts.
type readsListener struct {
	net.Listener
	conns chan *readsConn
}

func (l *readsListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &readsConn{Conn: conn}
	l.conns <- c
	return c, nil
}

// While a request is answered its connection is read only where somebody wants to
// know of a sender that hangs up; the requests after it are read all the same, also
// those that came with it.
func TestHangUp(t *testing.T) {
	t.Parallel()
	for _, deaf := range []bool{true, false} {
		t.Run(fmt.Sprint("deaf ", deaf), func(t *testing.T) {
			t.Parallel()
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			counted := &readsListener{ln, make(chan *readsConn, 1)}
			entered, left := make(chan struct{}), make(chan bool, 1)
			srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				body, err := io.ReadAll(req.Body)
				if err != nil {
					t.Error(err)
				}
				if string(body) == "wait" {
					c := <-counted.conns
					reads := c.reads.Load()
					close(entered)
					hung := false
					select {
					case <-req.Context().Done():
						hung = true
					case <-time.After(300 * time.Millisecond):
					}
					if more := c.reads.Load() - reads; deaf && more != 0 {
						t.Errorf("%d reads while the request is answered", more)
					}
					left <- hung
				}
				_, _ = w.Write(body)
			})}
			served := make(chan error, 1)
			go func() { served <- srv.Serve(newLimiter(counted, 8, func() bool { return deaf })) }()
			defer func() {
				srv.Close()
				<-served
			}()

			conn, err := net.Dial("tcp", ln.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			post := func(body string) string {
				return fmt.Sprintf("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
			}
			r := bufio.NewReader(conn)
			for _, batch := range [][]string{{"one"}, {""}, {"two", "three", ""}, {"four"}} {
				for i, body := range batch {
					batch[i] = post(body)
				}
				if _, err := io.WriteString(conn, strings.Join(batch, "")); err != nil {
					t.Fatal(err)
				}
				for _, want := range batch {
					resp, err := http.ReadResponse(r, nil)
					if err != nil {
						t.Fatal(err)
					}
					got, err := io.ReadAll(resp.Body)
					if err != nil || !strings.HasSuffix(want, "\r\n\r\n"+string(got)) {
						t.Errorf("answer %q, %v to %q", got, err, want)
					}
				}
			}
			if _, err := io.WriteString(conn, post("wait")); err != nil {
				t.Fatal(err)
			}
			<-entered
			conn.Close()
			if noticed := <-left; noticed == deaf {
				t.Errorf("the sender hung up, noticed: %v", noticed)
			}
		})
	}
}
