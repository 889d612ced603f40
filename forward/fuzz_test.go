package forward

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// FuzzAnswer has a target answer anything: the attempt ends, what is kept of
// the answer is bounded and holds no credential.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"))
	f.Add([]byte("HTTP/1.1 503 X\r\nRetry-After: -1\r\nSet-Cookie: session=canary-cookie\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n"))
	f.Add([]byte("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n"))
	f.Add([]byte("HTTP/1.0 999 \r\n\r\n"))
	f.Add([]byte("\x00\xff"))
	f.Fuzz(func(t *testing.T, answer []byte) {
		here, there := net.Pipe()
		done := make(chan struct{})
		go func() {
			defer close(done)
			defer there.Close()
			there.SetDeadline(time.Now().Add(5 * time.Second))
			if _, err := http.ReadRequest(bufio.NewReader(there)); err == nil {
				there.Write(answer) // the other side may have had enough
			}
		}()
		target, err := Target{Name: "t", URL: mustURL(t, "http://target.test/"), Timeout: 2 * time.Second}.normal()
		if err != nil {
			t.Fatal(err)
		}
		tr := newTransport(&target, func(context.Context, string, string) (net.Conn, error) { return here, nil }, nil)
		defer tr.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://target.test/", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		req.GetBody = nil
		resp, err := tr.RoundTrip(req)
		if err == nil {
			kept := newKeeper(nil).keep(resp)
			if len(kept) > maxHeadKept {
				t.Errorf("%d bytes kept", len(kept))
			}
			if strings.Contains(string(resp.Header.Get("Set-Cookie")), "canary-cookie") && strings.Contains(string(kept), "canary-cookie") {
				t.Errorf("a cookie was kept: %q", kept)
			}
		} else if _, text := classify(ctx, err); len(text) > maxErrorText || strings.ContainsAny(text, "\r\n\x00") {
			t.Errorf("error text %q", text)
		}
		here.Close()
		<-done
	})
}
