package verify

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"
)

// vectorAliases are names of options in vectors for what rows call otherwise.
var vectorAliases = map[string]string{"no_secret_yet": "registration_pending", "pending": "registration_pending"}

// verifier makes the verifier the vector asks for.
func (v *vector) verifier(row Row, req *Request) (*Verifier, error) {
	cfg := Config{Row: row, Auth: v.Auth, Options: map[string]string{}, Fetcher: vectorFetcher{v}}
	if v.Secret != nil {
		cfg.Secrets = append(cfg.Secrets, Secret{Value: NewSecretString(*v.Secret)})
	}
	cfg.Secrets = append(cfg.Secrets, v.Secrets...)
	for _, s := range append(slices.Clone(v.PublicKeys), v.PublicKey) {
		if s != "" {
			cfg.PublicKeys = append(cfg.PublicKeys, Secret{Value: NewSecretString(s)})
		}
	}
	cfg.Roots = v.roots()
	if err := v.options(row, &cfg); err != nil {
		return nil, err
	}
	if cfg.Auth != "" {
		m, err := row.pickMode(cfg.Auth)
		if err == nil {
			cfg = v.keyed(cfg, m)
		}
		return New(cfg)
	}
	return v.pickVerifier(row, cfg, req)
}

// roots are the certificates that the vector says are trusted, nil for the
// system's.
func (v *vector) roots() *x509.CertPool {
	if _, trusted := v.Options["trust"]; !trusted && v.CertPEM == "" {
		return nil
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(v.CertPEM))
	for _, pem := range v.Certs {
		pool.AppendCertsFromPEM([]byte(pem))
	}
	return pool
}

// keyed gives a mode that takes public keys and fetches none the vector's key set.
func (v *vector) keyed(cfg Config, m Mode) Config {
	if _, public := m.takes(); public && !m.fetches() && v.hasJWKS() {
		cfg.PublicKeys = append(slices.Clone(cfg.PublicKeys), Secret{Value: NewSecretString(string(v.JWKS))})
	}
	return cfg
}

func (v *vector) hasJWKS() bool { return len(v.JWKS) > 0 && string(v.JWKS) != "null" }

// fetches reports whether the mode has keys fetched.
func (m *Mode) fetches() bool {
	return m.PublicKey != nil && m.PublicKey.Keys != nil || m.JWT != nil && m.JWT.Keys != nil
}

// pickVerifier chooses the mode of a vector that names none. One that a source
// would have to name comes only where no other takes the vector's settings.
func (v *vector) pickVerifier(row Row, cfg Config, req *Request) (*Verifier, error) {
	ver, err := v.pickAmong(row, false, cfg, req)
	if err == nil {
		return ver, nil
	}
	if ver, other := v.pickAmong(row, true, cfg, req); other == nil {
		return ver, nil
	}
	return nil, err
}

func (v *vector) pickAmong(row Row, explicit bool, cfg Config, req *Request) (*Verifier, error) {
	var fits *Verifier
	var errs []error
	for _, m := range row.Modes {
		secrets, public := m.takes()
		if m.Explicit != explicit {
			continue
		}
		if len(cfg.Secrets) > 0 && !secrets || len(cfg.PublicKeys) > 0 && !public {
			continue
		}
		one := v.keyed(cfg, m)
		one.Auth = m.Name
		ver, err := New(one)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if res := ver.Verify(req); res.Reason != ReasonSignatureMissing && res.Reason != ReasonNoSecret && res.Detail != detailNoVersion {
			return ver, nil
		}
		if fits == nil {
			fits = ver
		}
	}
	if fits != nil {
		return fits, nil
	}
	if len(errs) == 0 {
		return nil, errors.New("no mode of the provider takes these keys")
	}
	return nil, errors.Join(errs...)
}

// options takes over the settings that this row has; others describe the vector
// for implementations that have them.
func (v *vector) options(row Row, cfg *Config) error {
	if v.PublicID != "" && slices.Contains(row.Options, "public_id") {
		cfg.Options["public_id"] = v.PublicID
	}
	for name, raw := range v.Options {
		text := rawText(raw)
		if alias, ok := vectorAliases[name]; ok && !slices.Contains(row.Options, name) {
			name = alias
		}
		switch {
		case name == "tolerance_s":
			d, err := time.ParseDuration(text + "s")
			if err != nil {
				return fmt.Errorf("option tolerance_s: %w", err)
			}
			cfg.Tolerance = d
		case name == "notification_url":
			cfg.PublicURL, _, _ = strings.Cut(text, "?")
		case name == "version" && slices.ContainsFunc(row.Modes, func(m Mode) bool { return m.Name == text }):
			cfg.Auth = text
		case slices.Contains(row.Options, name):
			cfg.Options[name] = text
		}
	}
	return nil
}

// vectorFetcher gives what the vector says a fetch would give.
type vectorFetcher struct{ v *vector }

var errNoSuchKey = errors.New("the vector holds nothing of that address")

// Fetch implements Fetcher.
func (f vectorFetcher) Fetch(_ context.Context, address string) ([]byte, error) {
	for at, pem := range f.v.Certs {
		if sameAddress(at, address) {
			return []byte(pem), nil
		}
	}
	switch {
	case f.v.CertPEM != "":
		return []byte(f.v.CertPEM), nil
	case f.v.hasJWKS():
		return f.v.JWKS, nil
	}
	if raw, ok := f.v.Options["key_url_response"]; ok {
		return raw, nil
	}
	return nil, errNoSuchKey
}

// sameAddress compares two addresses with dots in their paths resolved.
func sameAddress(a, b string) bool {
	u, err := url.Parse(a)
	w, werr := url.Parse(b)
	return err == nil && werr == nil && strings.EqualFold(u.Host, w.Host) && path.Clean(u.Path) == path.Clean(w.Path)
}

// VectorVerifier makes the verifier that one case of a vector file asks for, for
// tests that send vectors through more than this package. The text is the case's
// JSON.
func VectorVerifier(text []byte, row Row) (*Verifier, error) {
	var v vector
	if err := json.Unmarshal(text, &v); err != nil {
		return nil, fmt.Errorf("read vector: %w", err)
	}
	return v.verifier(row, v.request())
}
