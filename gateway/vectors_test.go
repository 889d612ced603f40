package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pelletier/go-toml/v2"

	"github.com/onceward/onceward/verify"
)

// vectorCase is what a configuration needs of a provider's test vector.
type vectorCase struct {
	Provider, Case, Want, Auth, Method, URL, Body string
	Secret                                        *string
	Secrets                                       json.RawMessage
	PublicKey                                     string   `json:"public_key"`
	PublicKeys                                    []string `json:"public_keys"`
	WantAlt                                       []string `json:"want_alt"`
	PublicID                                      string   `json:"public_id"`
	CertPEM                                       string   `json:"cert_pem"`
	Certs                                         map[string]string
	JWKS                                          json.RawMessage
	Options, Headers                              map[string]json.RawMessage
	Now                                           float64
}

// TestEveryProviderConfigured writes, for every provider, the configuration
// that its first authentic vector needs, and verifies the vector with what the
// gateway makes of it: whatever a row wants can be said in the file.
func TestEveryProviderConfigured(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../testdata/vectors/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no vectors: %v", err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var cases []vectorCase
		if err := json.Unmarshal(b, &cases); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		i := slices.IndexFunc(cases, func(v vectorCase) bool { return v.Want == "ok" && len(v.WantAlt) == 0 })
		if i < 0 {
			t.Errorf("%s: nothing authentic", file)
			continue
		}
		if err := cases[i].configured(t); err != nil {
			t.Errorf("%s: %s: %v", cases[i].Provider, cases[i].Case, err)
		}
	}
}

// configured tries the modes that may be meant, and returns what the last one
// was missing, nil as soon as one verifies.
func (v *vectorCase) configured(t *testing.T) error {
	t.Helper()
	row, ok := verify.Lookup(v.Provider)
	if !ok {
		return errors.New("no such provider")
	}
	modes := []string{v.Auth}
	if v.Auth == "" {
		modes = nil
		for _, m := range row.Modes {
			modes = append(modes, m.Name)
		}
	}
	var errs []error
	for _, mode := range modes {
		for _, keys := range []string{"public_keys", "fetched"} {
			err := v.verifies(t, v.file(t, row, mode, keys == "public_keys"))
			if err == nil {
				return nil
			}
			errs = append(errs, fmt.Errorf("%s, %s: %w", mode, keys, err))
		}
	}
	return errors.Join(errs...)
}

// file is the configuration in TOML; with keys a key set is configured and not
// fetched.
func (v *vectorCase) file(t *testing.T, row verify.Row, mode string, keys bool) string {
	t.Helper()
	var secrets, public []string
	if v.Secret != nil {
		secrets = append(secrets, *v.Secret)
	}
	var list []string
	var labelled map[string]string
	if json.Unmarshal(v.Secrets, &list) != nil && json.Unmarshal(v.Secrets, &labelled) == nil {
		for _, s := range labelled {
			list = append(list, s)
		}
	}
	secrets = append(secrets, list...)
	for _, k := range append(slices.Clone(v.PublicKeys), v.PublicKey) {
		if k != "" {
			public = append(public, k)
		}
	}
	if keys && len(v.JWKS) > 0 && string(v.JWKS) != "null" {
		public = append(public, string(v.JWKS))
	}
	where, _, _ := strings.Cut(v.URL, "?")
	options := v.options(row)
	src := map[string]any{"name": "s", "provider": v.Provider, "auth": mode, "accept_unconfirmed": true, "targets": []string{},
		"secrets": secrets, "public_keys": public, "options": options}
	if raw, ok := v.Options["tolerance_s"]; ok {
		src["tolerance"] = string(raw) + "s"
	}
	if raw, ok := v.Options["notification_url"]; ok {
		where, _, _ = strings.Cut(plain(raw), "?")
	}
	if strings.Contains(where, "://") {
		src["public_url"] = where
	}
	roots := v.CertPEM
	for _, pem := range v.Certs {
		roots += pem
	}
	if strings.Contains(roots, "BEGIN CERTIFICATE") {
		src["roots"] = roots
	}
	b, err := toml.Marshal(map[string]any{"source": []any{src}})
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(b), "${", "$${")
}

func (v *vectorCase) options(row verify.Row) map[string]string {
	out := map[string]string{}
	for name, raw := range v.Options {
		if slices.Contains(row.Options, name) {
			out[name] = plain(raw)
		}
	}
	if v.PublicID != "" && slices.Contains(row.Options, "public_id") {
		out["public_id"] = v.PublicID
	}
	return out
}

func plain(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	return string(raw)
}

// verifies takes the configuration as the gateway does, and the vector's
// request with it.
func (v *vectorCase) verifies(t *testing.T, text string) error {
	t.Helper()
	cfg, fs := Parse("c.toml", []byte(text), testEnv)
	if fs.Failed() {
		return fs
	}
	gen, err := build(cfg, nil, func(string) verify.Fetcher { return v })
	if err != nil {
		return err
	}
	if gen.sources[0].Verifier == nil {
		return errors.New(gen.sources[0].Offline)
	}
	h := http.Header{}
	for name, raw := range v.Headers {
		var many []string
		if json.Unmarshal(raw, &many) != nil {
			many = []string{plain(raw)}
		}
		for _, s := range many {
			h.Add(name, s)
		}
	}
	_, query, _ := strings.Cut(v.URL, "?")
	method := v.Method
	if method == "" {
		method = http.MethodPost
	}
	res := gen.sources[0].Verifier.Verify(&verify.Request{Method: method, URL: v.URL, RawQuery: query, Header: h,
		Body: []byte(v.Body), Now: time.UnixMilli(int64(v.Now * 1000))})
	if res.Reason != verify.OK {
		return fmt.Errorf("%s: %s", res.Reason, res.Detail)
	}
	return nil
}

// Fetch implements verify.Fetcher with what the vector says is at an address.
func (v *vectorCase) Fetch(_ context.Context, address string) ([]byte, error) {
	for at, pem := range v.Certs {
		if strings.HasSuffix(address, at[strings.LastIndexByte(at, '/'):]) {
			return []byte(pem), nil
		}
	}
	switch {
	case v.CertPEM != "":
		return []byte(v.CertPEM), nil
	case len(v.JWKS) > 0 && string(v.JWKS) != "null":
		return v.JWKS, nil
	case v.Options["key_url_response"] != nil:
		return v.Options["key_url_response"], nil
	}
	return nil, errors.New("nothing there")
}
