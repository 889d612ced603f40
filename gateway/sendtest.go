package gateway

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/onceward/onceward/admin"
	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/verify"
)

const (
	testHeader      = "Onceward-Test" // marks the event as no provider's
	sendTestTimeout = 15 * time.Second
	maxTestAnswer   = 4 << 10
)

// sendTest sends one signed event, marked as a test, to a source of this very
// gateway, over its public listener. It goes the way of every event. A source
// that is not there is dedupe.ErrNotFound.
func (g *Gateway) sendTest(ctx context.Context, source string) (admin.SourceTest, error) {
	out := admin.SourceTest{Source: source, At: g.opts.Now().UTC()}
	s, ok := g.gen.Load().cfg.Source(source)
	if !ok {
		return out, fmt.Errorf("source %q: %w", source, dedupe.ErrNotFound)
	}
	if s.Verifier() == nil {
		out.Problem = "the source is offline: " + s.Offline()
		return out, nil
	}
	out.EventID = "test_" + hex.EncodeToString(randomBytes(10))
	at := "http://" + nearby(g.ingest.Addr()) + s.ListenPath()
	signed, err := s.Verifier().Sign(verify.SignRequest{
		Now: g.opts.Now(), ID: out.EventID, Type: "test", URL: cmp.Or(s.PublicURL, at), Header: http.Header{testHeader: {"true"}},
	})
	if err != nil {
		out.Problem = err.Error()
		return out, nil
	}
	return g.postTest(ctx, at, signed, out)
}

func (g *Gateway) postTest(ctx context.Context, at string, signed verify.SignedRequest, out admin.SourceTest) (admin.SourceTest, error) {
	ctx, cancel := context.WithTimeout(ctx, sendTestTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, signed.Method, at, bytes.NewReader(signed.Body))
	if err != nil {
		return out, fmt.Errorf("test of source %q: %w", out.Source, err)
	}
	req.Header = signed.Header
	client := &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true, DialContext: (&net.Dialer{}).DialContext},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	resp, err := client.Do(req)
	if err != nil {
		out.Problem = "the public listener did not answer"
		g.log.Warn("test event not sent", "source", out.Source, "error", err)
		return out, nil
	}
	defer resp.Body.Close()
	out.Status = resp.StatusCode
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxTestAnswer))
	out.Answer = string(answer)
	var said struct {
		Ref string `json:"ref"`
	}
	if json.Unmarshal(answer, &said) == nil { // a row may answer in another way
		out.Ref = said.Ref
	}
	if err != nil {
		out.Problem = "the answer broke off"
	}
	return out, nil
}

// nearby is the address of a listener as this machine reaches it.
func nearby(addr net.Addr) string {
	host, port, err := net.SplitHostPort(addr.String())
	if err != nil {
		return addr.String()
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port)
}
