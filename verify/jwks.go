package verify

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"time"
)

// maxRSABits keeps a hostile key from making verification slow.
const maxRSABits = 8192

// maxKeys bounds the keys of one set.
const maxKeys = 64

// jwk is one key of a set.
type jwk struct {
	Kty, Kid, Alg, Use, Crv string
	N, E, X, Y              string
}

// parseJWKS reads a key set or a single key. Keys of kinds that are not known are
// left out, as RFC 7517 wants; a set without any key is an error.
func parseJWKS(b []byte) ([]pubKey, error) {
	var set struct {
		Keys []jwk
		jwk
	}
	if err := json.Unmarshal(b, &set); err != nil {
		return nil, errors.New("the key set is not JSON")
	}
	if set.Kty != "" {
		set.Keys = append(set.Keys, set.jwk)
	}
	if len(set.Keys) > maxKeys {
		return nil, fmt.Errorf("the key set has more than %d keys", maxKeys)
	}
	var out []pubKey
	for _, k := range set.Keys {
		if pk, err := k.public(); err == nil && (k.Use == "" || k.Use == "sig") {
			out = append(out, pk)
		}
	}
	if len(out) == 0 {
		return nil, errors.New("the key set holds no key for signatures")
	}
	return out, nil
}

// public returns the key; one that is no proper key is an error.
func (k jwk) public() (pubKey, error) {
	pk := pubKey{kid: k.Kid, only: k.Alg}
	switch k.Kty {
	case "RSA":
		n, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(k.N, "="))
		e, eerr := base64.RawURLEncoding.DecodeString(strings.TrimRight(k.E, "="))
		if err != nil || eerr != nil || len(e) == 0 || len(e) > 4 {
			return pk, errors.New("is no RSA key")
		}
		pk.rsa = &rsa.PublicKey{N: new(big.Int).SetBytes(n), E: int(new(big.Int).SetBytes(e).Int64())}
		return pk, checkRSA(pk.rsa)
	case "EC":
		return k.ec(pk)
	case "OKP":
		x, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(k.X, "="))
		if err != nil || k.Crv != "Ed25519" || len(x) != ed25519.PublicKeySize {
			return pk, errors.New("is no Ed25519 key")
		}
		pk.ed = x
		return pk, nil
	default:
		return pk, errors.New("is of another kind")
	}
}

func (k jwk) ec(pk pubKey) (pubKey, error) {
	curve := map[string]elliptic.Curve{"P-256": elliptic.P256(), "P-384": elliptic.P384(), "P-521": elliptic.P521()}[k.Crv]
	if curve == nil {
		return pk, errors.New("is on another curve")
	}
	size := (curve.Params().BitSize + 7) / 8
	point := []byte{4}
	for _, s := range []string{k.X, k.Y} {
		b, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(s, "="))
		if err != nil || len(b) != size {
			return pk, errors.New("is no point of its curve")
		}
		point = append(point, b...)
	}
	var err error
	if pk.ecdsa, err = ecdsa.ParseUncompressedPublicKey(curve, point); err != nil {
		return pk, errors.New("is no point of its curve")
	}
	return pk, nil
}

func checkRSA(k *rsa.PublicKey) error {
	if n := k.N.BitLen(); n < minRSABits || n > maxRSABits {
		return fmt.Errorf("is an RSA key of %d bits, want %d to %d", n, minRSABits, maxRSABits)
	}
	return nil
}

// parseCertificate reads a certificate and its chain, and holds it against its
// dates, its name and, where the row demands it, the trusted roots.
func (k *keyLookup) parseCertificate(b []byte, now time.Time) (pubKey, error) {
	var certs []*x509.Certificate
	for block, rest := pem.Decode(b); block != nil && len(certs) < 8; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return pubKey{}, errors.New("the certificate can't be read")
		}
		certs = append(certs, c)
	}
	if len(certs) == 0 {
		return pubKey{}, errors.New("there is no certificate")
	}
	leaf := certs[0]
	if now.Before(leaf.NotBefore) || now.After(leaf.NotAfter) {
		return pubKey{}, errors.New("the certificate is not valid at this time")
	}
	if !madeOutTo(leaf, k.src.Name) {
		return pubKey{}, errors.New("the certificate is made out to somebody else")
	}
	if k.src.Chain {
		pool := x509.NewCertPool()
		for _, c := range certs[1:] {
			pool.AddCert(c)
		}
		opts := x509.VerifyOptions{Roots: k.roots, Intermediates: pool, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}
		if _, err := leaf.Verify(opts); err != nil {
			return pubKey{}, errors.New("the certificate has no chain to a trusted root")
		}
	}
	pk, err := wrapKey(leaf.PublicKey)
	pk.until = leaf.NotAfter
	return pk, err
}

// madeOutTo reports whether the certificate names want among its DNS names or, as
// older ones do, as its common name.
func madeOutTo(c *x509.Certificate, want string) bool {
	if want == "" {
		return true
	}
	for _, name := range append([]string{c.Subject.CommonName}, c.DNSNames...) {
		name = strings.ToLower(name)
		if name == want || strings.HasPrefix(want, ".") && strings.HasSuffix(name, want) && len(name) > len(want) {
			return true
		}
	}
	return false
}

// wrapKey takes a parsed key of any kind that is used for signatures.
func wrapKey(parsed any) (pubKey, error) {
	switch k := parsed.(type) {
	case *ecdsa.PublicKey:
		return pubKey{ecdsa: k}, nil
	case ed25519.PublicKey:
		return pubKey{ed: k}, nil
	case *rsa.PublicKey:
		return pubKey{rsa: k}, checkRSA(k)
	default:
		return pubKey{}, errors.New("is a key of another kind")
	}
}
