package forward

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

type countingBody struct {
	r      io.Reader
	n      int
	closed bool
}

func (c *countingBody) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += n
	return n, err
}

func (c *countingBody) Close() error { c.closed = true; return nil }

func TestKeep(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		header http.Header
		body   string
		want   string // exact, or the beginning when it ends in …
		size   int
		read   int
	}{
		{"small", http.Header{"Content-Type": {"text/plain"}, "A": {"1", "2"}}, "hello", "HTTP/1.1 200 OK\r\nA: 1\r\nA: 2\r\nContent-Type: text/plain\r\n\r\nhello", 0, 5},
		{"credentials", http.Header{"Set-Cookie": {"sid=s3cret"}, "X-Auth-Token": {"s3cret"}, "Www-Authenticate": {"s3cret"}, "Authorization": {"s3cret"}, "X-Api-Key": {"s3cret"}}, "",
			"HTTP/1.1 200 OK\r\nAuthorization: [redacted]\r\nSet-Cookie: [redacted]\r\nWww-Authenticate: [redacted]\r\nX-Api-Key: [redacted]\r\nX-Auth-Token: [redacted]\r\n\r\n", 0, 0},
		{"long body", nil, strings.Repeat("b", 50_000), "HTTP/1.1 200 OK\r\n\r\nbbbb…", maxHeadKept, 50_000},
		{"endless body", nil, strings.Repeat("b", 1<<20), "HTTP/1.1 200 OK\r\n\r\nbbbb…", maxHeadKept, maxHeadKept - 19 + maxDrain},
		{"long header", http.Header{"A": {strings.Repeat("h", 10_000)}}, "body", "HTTP/1.1 200 OK\r\nA: hhhh…", maxHeadKept, 4},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			body := &countingBody{r: strings.NewReader(tt.body)}
			k := newKeeper(nil)
			got := string(k.keep(&http.Response{Proto: "HTTP/1.1", Status: "200 OK", StatusCode: 200, Header: tt.header, Body: body}))
			if begin, ok := strings.CutSuffix(tt.want, "…"); ok {
				if !strings.HasPrefix(got, begin) || len(got) != tt.size {
					t.Errorf("kept %d bytes %.80q, want %d and %q", len(got), got, tt.size, begin)
				}
			} else if got != tt.want {
				t.Errorf("kept %q, want %q", got, tt.want)
			}
			if body.n != tt.read || !body.closed {
				t.Errorf("read %d of the body, closed %v, want %d and true", body.n, body.closed, tt.read)
			}
			if strings.Contains(got, "s3cret") {
				t.Error("a credential was kept")
			}
		})
	}
}
