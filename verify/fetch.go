package verify

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// Bounds of fetching keys.
const (
	// MaxFetch is the largest document with keys in bytes.
	MaxFetch = 64 << 10
	// FetchTimeout is how long one may take.
	FetchTimeout = 5 * time.Second
)

// Fetcher gets a document with public keys. The URL is https, on a host that a row
// names; an implementation follows no redirect, asks no proxy it was not told of,
// and returns at most [MaxFetch] bytes within [FetchTimeout] or an error. It is
// called from many goroutines.
type Fetcher interface {
	Fetch(ctx context.Context, url string) ([]byte, error)
}

// HTTPFetcher is the Fetcher for production. The transport decides which
// addresses may be dialled. The zero value is not ready: make it with
// [NewHTTPFetcher].
type HTTPFetcher struct{ client *http.Client }

var _ Fetcher = (*HTTPFetcher)(nil)

// NewHTTPFetcher makes a fetcher that sends its requests through rt.
func NewHTTPFetcher(rt http.RoundTripper) *HTTPFetcher {
	return &HTTPFetcher{client: &http.Client{
		Transport:     rt,
		Timeout:       FetchTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

var errNotHTTPS = errors.New("is not https")

// Fetch implements Fetcher.
func (f *HTTPFetcher) Fetch(ctx context.Context, url string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, FetchTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, fmt.Errorf("fetch keys: %w", err)
	}
	if req.URL.Scheme != "https" {
		return nil, fmt.Errorf("fetch keys from %s: %w", req.URL.Host, errNotHTTPS)
	}
	resp, err := f.client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("fetch keys: %w", err)
	}
	defer func() { _ = resp.Body.Close() }() // nothing of it is left to lose
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("fetch keys from %s: status %d", req.URL.Host, resp.StatusCode)
	}
	b, err := io.ReadAll(io.LimitReader(resp.Body, MaxFetch+1))
	if err != nil {
		return nil, fmt.Errorf("fetch keys from %s: %w", req.URL.Host, err)
	}
	if len(b) > MaxFetch {
		return nil, fmt.Errorf("fetch keys from %s: more than %d bytes", req.URL.Host, MaxFetch)
	}
	return b, nil
}
