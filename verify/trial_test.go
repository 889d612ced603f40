package verify

import (
	"crypto"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// secretFor returns a secret of the form the mode takes.
func secretFor(m Mode) string {
	switch {
	case m.Basic != nil:
		return "user:password"
	case m.HMAC != nil && m.HMAC.Secret == SecretWhsec:
		return "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	case m.HMAC != nil && m.HMAC.Secret == SecretHex:
		return strings.Repeat("0badf00d", 8)
	case m.HMAC != nil && m.HMAC.Secret == SecretBase64:
		return "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	default:
		return "a secret of some length"
	}
}

// keyKind returns the algorithm among those of signers whose key does for alg.
func keyKind(alg Algorithm) Algorithm {
	switch alg {
	case ECDSASHA1:
		return ECDSASHA256
	case RSASHA1, RSASHA512:
		return RSASHA256
	default:
		return alg
	}
}

var optionFault = regexp.MustCompile(`option ([a-z0-9_-]+):`)

// trialConfig is a config in which the mode is ready: with a secret, with public
// keys where pairs are given, and with every option that it can't do without.
func trialConfig(t testing.TB, row Row, m Mode, pairs map[Algorithm]crypto.Signer) Config {
	t.Helper()
	cfg := Config{Row: row, Auth: m.Name, Options: map[string]string{}}
	if takes, _ := m.takes(); takes {
		cfg.Secrets = secrets(secretFor(m))
	}
	if m.PublicKey != nil && pairs != nil {
		cfg.PublicKeys = secrets(pemKey(t, pairs[keyKind(m.PublicKey.Algorithm)].Public()))
	}
	for range 10 {
		_, err := New(cfg)
		if err == nil {
			return cfg
		}
		found := false
		for _, match := range optionFault.FindAllStringSubmatch(err.Error(), -1) {
			if name := match[1]; slices.Contains(row.Options, name) {
				found = true
				if cfg.Options[name] = "sample-" + strings.ReplaceAll(name, "_", "-"); name == optionAESKey {
					cfg.Options[name] = strings.Repeat("A", 43)
				}
			}
		}
		if !found {
			t.Fatalf("%s %s: %v", row.Name, m.Name, err)
		}
	}
	t.Fatalf("%s %s: there is no end to its options", row.Name, m.Name)
	return cfg
}

// partOfBodySigned reports whether the signature is over pieces of the body, of
// which a hostile one may have none.
func partOfBodySigned(m Mode) bool {
	s := m.scheme()
	if m.Token != nil {
		return !strings.HasPrefix(m.Token.In, "header:") && !strings.HasPrefix(m.Token.In, "query:")
	}
	return s != nil && (strings.Contains(s.Signed, "{json:") || strings.Contains(s.Signed, "{form") || strings.Contains(s.Signed, "{xml:") || strings.Contains(s.Signed, "{sorted:"))
}
