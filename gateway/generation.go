package gateway

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/forward"
	"github.com/onceward/onceward/receiver"
	"github.com/onceward/onceward/verify"
)

// generation is what one configuration makes of sources and targets. It is
// built whole before anything of it is served.
type generation struct {
	cfg     *Config
	sources []*receiver.Source
	trusted []netip.Prefix
	targets []forward.Target
	keyed   map[string]keyed // by source; those whose keys are fetched
}

// build turns a checked configuration into a generation. Verifiers of old that
// hold fetched keys go on where nothing about them changed; fetch, which may
// be nil, makes what fetches the keys of a source.
func build(cfg *Config, old *generation, fetch func(source string) verify.Fetcher) (*generation, error) {
	gen := &generation{cfg: cfg, trusted: prefixes(cfg.TrustedProxies), keyed: map[string]keyed{}}
	for i := range cfg.Sources {
		s, err := cfg.Sources[i].build(cfg.Retention)
		if err == nil {
			s.Orders, err = cfg.orders()
		}
		if err == nil {
			s.Index, err = cfg.Sources[i].index()
		}
		if err == nil {
			s.Sync = cfg.Sources[i].sync(cfg)
			s.Verifier, err = gen.verifier(&cfg.Sources[i], old, fetch)
		}
		if err != nil {
			return nil, fmt.Errorf("source %q: %w", cfg.Sources[i].Name, err)
		}
		gen.sources = append(gen.sources, s)
	}
	for i := range cfg.Targets {
		t, err := cfg.Targets[i].build()
		t.TLS = gen.clientTLS(&cfg.Targets[i], old)
		if err != nil {
			return nil, fmt.Errorf("target %q: %w", cfg.Targets[i].Name, err)
		}
		gen.targets = append(gen.targets, t)
	}
	return gen, nil
}

// build is the source as the receiver takes it.
func (s *SourceConfig) build(general RetentionConfig) (*receiver.Source, error) {
	row := s.row
	out := &receiver.Source{
		Name: s.Name, Path: s.ListenPath(), Row: row, Offline: s.offline,
		Former: s.Formerly, Window: time.Duration(s.Window), Conflict: dedupe.Conflict(s.OnConflict),
		NoID: verify.NoID(s.NoID), Guard: guardOf(s.Guard), Retention: s.Retention.over(general),
		BodyLimit: int64(s.BodyLimit), Patience: time.Duration(row.Patience), PublicURL: s.PublicURL,
		MaxElements: s.MaxElements, Batch: s.Batch, TrustTrace: s.TrustTrace,
	}
	out.Retention.Once = s.StoreBody != nil && !*s.StoreBody
	if s.Key != "" {
		t, err := dedupe.ParseKeyTemplate(s.Key)
		if err != nil {
			return nil, err
		}
		out.Keys = t
	}
	for _, t := range s.Targets {
		out.Routes = append(out.Routes, receiver.Route{Target: t})
	}
	for _, r := range s.Routes {
		out.Routes = append(out.Routes, receiver.Route{Target: r.Target, Types: r.Types, Where: r.where != nil})
	}
	out.Conditions = s.conditions()
	return out, nil
}

// guardOf is the word of the file in the ledger's terms.
func guardOf(word string) dedupe.Guard {
	if word == string(verify.GuardOff) {
		return dedupe.GuardOff
	}
	return dedupe.Guard(word)
}

// build is the target as the forwarder takes it.
func (t *TargetConfig) build() (forward.Target, error) {
	u, socket, err := t.place()
	if err != nil {
		return forward.Target{}, err
	}
	out := forward.Target{
		Name: t.Name, Pull: t.Pull, URL: u, Timeout: time.Duration(t.Timeout), Concurrency: t.Concurrency,
		Schedule: t.schedule(), GiveUp: time.Duration(t.GiveUpAfter), DeadOn: t.DeadOn, RetryOn: t.RetryOn, PauseOn: t.PauseOn,
		Rate: forward.Rate{Count: t.Rate.Count, Per: t.Rate.Per, Burst: t.Burst}, Memory: int64(t.Memory), Breaker: t.breaker(),
		Former: t.Formerly, Allow: prefixes(t.Allow),
	}
	if len(t.Headers) > 0 || t.Auth.header() != "" {
		out.Headers = make(map[string]forward.Secret, len(t.Headers)+1)
	}
	for name, v := range t.Headers {
		out.Headers[name] = forward.Secret(v.Value.Reveal())
	}
	t.outbound(&out, socket)
	for _, s := range t.SigningSecrets {
		sec, err := forward.ParseSigningSecret(s.Value.Reveal())
		if err != nil {
			return forward.Target{}, fmt.Errorf("signing secret %q: %w", s.ID, err)
		}
		out.Signing = append(out.Signing, sec)
	}
	return out, nil
}

func prefixes(ps []Prefix) []netip.Prefix {
	var out []netip.Prefix
	for _, p := range ps {
		out = append(out, p.Prefix)
	}
	return out
}
