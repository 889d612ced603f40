package cli

import (
	"crypto/rand"
	"encoding/hex"
	"strings"
	"time"

	"github.com/onceward/onceward/gateway"
	"github.com/onceward/onceward/verify"
)

// sourceVerifier is what signs for a source. With forge its secrets are of the
// same form and length and known to nobody.
func sourceVerifier(cfg *gateway.Config, src *gateway.SourceConfig, forge bool, now time.Time) (*verify.Verifier, error) {
	if why := src.Offline(); why != "" || src.Verifier() == nil {
		return nil, fail(exitConfig, "source %s is offline: %s", src.Name, why)
	}
	if !forge {
		return src.Verifier(), nil
	}
	row, ok := cfg.Provider(src.Provider)
	if !ok {
		return nil, fail(exitConfig, "source %s: no provider %q", src.Name, src.Provider)
	}
	vc := verify.Config{
		Row: row, Auth: src.Auth, PublicURL: src.PublicURL, Options: src.Options,
		Batch: src.Batch, Tolerance: time.Duration(src.Tolerance),
	}
	for _, s := range src.Secrets {
		if s.Value.Empty() || !s.NotAfter.IsZero() && !now.Before(s.NotAfter) {
			continue
		}
		value := verify.NewSecretString(lookalike(s.Value.Reveal()))
		vc.Secrets = append(vc.Secrets, verify.Secret{ID: s.ID, Value: value, Caller: s.Caller, NotBefore: s.NotBefore})
	}
	if len(vc.Secrets) == 0 {
		return nil, usage("source %s has no secret in the config; there is nothing to forge", src.Name)
	}
	v, err := verify.New(vc)
	if err != nil {
		return nil, fail(exitConfig, "source %s: %w", src.Name, err)
	}
	return v, nil
}

// lookalike is a random secret of the same form: each letter and digit after
// the prefix is replaced by another of its kind, so that encodings stay valid.
func lookalike(secret string) string {
	kinds := []string{"abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "0123456789"}
	if isHex(secret) {
		kinds = []string{"0123456789abcdef", "0123456789abcdefABCDEF"}
	}
	start := strings.LastIndexByte(secret, '_') + 1
	out := []byte(secret)
	noise := make([]byte, len(out))
	rand.Read(noise) // never fails
	for i := start; i < len(out); i++ {
		for _, kind := range kinds {
			if at := strings.IndexByte(kind, out[i]); at >= 0 {
				out[i] = kind[(at+1+int(noise[i])%(len(kind)-1))%len(kind)]
				break
			}
		}
	}
	return string(out)
}

func isHex(s string) bool {
	_, err := hex.DecodeString(s)
	return err == nil
}
