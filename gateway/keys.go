package gateway

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"reflect"

	"github.com/onceward/onceward/verify"
)

// keyed is a verifier whose keys are fetched, and what it was made from.
type keyed struct {
	made     verify.Config // without Fetcher and Roots
	roots    string
	verifier *verify.Verifier
}

// verifier is the verifier of a source in this generation: the one that was
// checked, or, where keys are fetched or a secret was handed over since, one
// that is made for it. What old fetched is used on where the source is the
// same: neither a reload nor a capture makes a key server's bad hour worse.
func (gen *generation) verifier(s *SourceConfig, old *generation, fetch func(string) verify.Fetcher) (*verify.Verifier, error) {
	fetches := fetchesKeys(s.row, s.Auth)
	if s.verifier == nil || !fetches && !hands(s.row) {
		return s.verifier, nil
	}
	made, _, err := s.verifierConfig(gen.cfg)
	if err != nil {
		return nil, err
	}
	k := keyed{made: made, roots: s.Roots}
	k.made.Roots = nil
	if old != nil {
		if was, ok := old.keyed[s.Name]; ok && was.roots == k.roots && reflect.DeepEqual(was.made, k.made) {
			gen.keyed[s.Name] = was
			return was.verifier, nil
		}
	}
	if fetches && fetch != nil {
		made.Fetcher = fetch(s.Name)
	}
	if k.verifier, err = verify.New(made); err != nil {
		return nil, err
	}
	if fetches {
		gen.keyed[s.Name] = k
	}
	return k.verifier, nil
}

// fetchesKeys reports whether that mode of the row has its keys fetched.
func fetchesKeys(row verify.Row, mode string) bool {
	for _, m := range row.Modes {
		if m.Name == mode {
			return m.PublicKey != nil && m.PublicKey.Keys != nil || m.JWT != nil && m.JWT.Keys != nil
		}
	}
	return false
}

// keyFetcher fetches the keys of one source, and says what became of it.
type keyFetcher struct {
	source string
	next   verify.Fetcher
	log    *slog.Logger
	met    *instruments
}

func (g *Gateway) fetcher(source string) verify.Fetcher {
	return &keyFetcher{source: source, next: verify.NewHTTPFetcher(g.opts.Outbound), log: g.log, met: g.met}
}

// Fetch implements verify.Fetcher. How often it is called is bounded by the
// verifier. Of the address only the host is logged.
func (f *keyFetcher) Fetch(ctx context.Context, address string) ([]byte, error) {
	b, err := f.next.Fetch(ctx, address)
	if err != nil {
		f.met.fetches.WithLabelValues(f.source, "failed").Inc()
		f.log.Warn("keys not fetched", "event", "keys.fetch_failed", "source", f.source, "host", hostOf(address), "error", withoutURL(err))
		return nil, fmt.Errorf("source %q: %w", f.source, err)
	}
	f.met.fetches.WithLabelValues(f.source, "ok").Inc()
	f.log.Info("keys fetched", "event", "keys.fetched", "source", f.source, "host", hostOf(address), "bytes", len(b))
	return b, nil
}

// hostOf is the host of an address, "" where it has none.
func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Hostname()
}
