package verify

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"strings"
)

// minRSABits is the smallest RSA key that is taken.
const minRSABits = 2048

// pubKey is a public key made ready.
type pubKey struct {
	Secret
	ecdsa *ecdsa.PublicKey
	ed    ed25519.PublicKey
	rsa   *rsa.PublicKey
}

// pubAuth verifies public-key signatures.
type pubAuth struct {
	sigScheme
	alg  Algorithm
	keys []pubKey
}

func (p *PublicKey) compile(ids []composite, keys []Secret) (*pubAuth, error) {
	sch, err := p.Scheme.compile(ids)
	errs := []error{err}
	if sch.tmpl.has(partSecret) {
		errs = append(errs, errors.New("signed: {secret} stands in the template of a plain digest and of nothing else"))
	}
	switch p.Algorithm {
	case ECDSASHA256, Ed25519, RSASHA256, RSASHA512, RSAPSSSHA256:
	default:
		errs = append(errs, fmt.Errorf("algorithm %q: want ecdsa-sha256, ed25519, rsa-sha256, rsa-sha512 or rsa-pss-sha256", p.Algorithm))
	}
	a := &pubAuth{sigScheme: sch, alg: p.Algorithm}
	_, err = makeKeys("public key", keys, func(k *key) error {
		pk, err := parsePublicKey(p.Algorithm, k.Value.Reveal())
		pk.Secret = k.Secret
		a.keys = append(a.keys, pk)
		return err
	})
	return a, errors.Join(append(errs, err)...)
}

// parsePublicKey reads a key in any of its spellings and holds it against the
// algorithm, so that a key of one kind is never used as another.
func parsePublicKey(alg Algorithm, text string) (pubKey, error) {
	text = strings.TrimSpace(text)
	if alg == Ed25519 {
		if raw, ok := rawEd25519(text); ok {
			return pubKey{ed: raw}, nil
		}
	}
	var der []byte
	if block, rest := pem.Decode([]byte(text)); block != nil {
		if len(bytes.TrimSpace(rest)) > 0 || block.Type != "PUBLIC KEY" {
			return pubKey{}, errors.New("want exactly one PEM block PUBLIC KEY")
		}
		der = block.Bytes
	} else {
		var err error
		if der, err = base64.StdEncoding.DecodeString(text); err != nil {
			return pubKey{}, errors.New("is neither PEM nor base64")
		}
	}
	parsed, err := x509.ParsePKIXPublicKey(der)
	if err != nil {
		return pubKey{}, errors.New("is not a SubjectPublicKeyInfo")
	}
	return fitKey(alg, parsed)
}

func fitKey(alg Algorithm, parsed any) (pubKey, error) {
	switch k := parsed.(type) {
	case *ecdsa.PublicKey:
		if alg == ECDSASHA256 {
			return pubKey{ecdsa: k}, nil
		}
	case ed25519.PublicKey:
		if alg == Ed25519 {
			return pubKey{ed: k}, nil
		}
	case *rsa.PublicKey:
		if k.N.BitLen() < minRSABits {
			return pubKey{}, fmt.Errorf("is an RSA key of %d bits, want %d", k.N.BitLen(), minRSABits)
		}
		if alg == RSASHA256 || alg == RSASHA512 || alg == RSAPSSSHA256 {
			return pubKey{rsa: k}, nil
		}
	}
	return pubKey{}, fmt.Errorf("is not a key for %s", alg)
}

// rawEd25519 reads the 32 bytes of a key in hex or base64, after an optional whpk_.
func rawEd25519(s string) (ed25519.PublicKey, bool) {
	s = strings.TrimPrefix(s, "whpk_")
	if b, err := hex.DecodeString(s); err == nil && len(b) == ed25519.PublicKeySize {
		return b, true
	}
	b, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(s, "="))
	return b, err == nil && len(b) == ed25519.PublicKeySize
}

func (a *pubAuth) verify(x *exchange) Result {
	if !a.anyActive(x) {
		return refuse(ReasonNoSecret, "no public key is configured and valid at this time")
	}
	res := a.read(x)
	if res.Reason != OK {
		return res
	}
	msg, missing := a.message(x)
	if missing != "" {
		return refuse(ReasonSignedPartMissing, "what the signature covers is absent or there twice: "+missing)
	}
	readable := false
	for _, c := range x.cands.all() {
		sig, ok := a.decode(c)
		if !ok {
			continue
		}
		readable = true
		for i := range a.keys {
			k := &a.keys[i]
			if k.active(x.req.Now) && k.check(a.alg, msg, sig) {
				res.Secret, res.Caller = k.ID, k.Caller
				return a.judge(res)
			}
		}
	}
	return unmatched(res, readable)
}

func (a *pubAuth) anyActive(x *exchange) bool {
	for i := range a.keys {
		if a.keys[i].active(x.req.Now) {
			return true
		}
	}
	return false
}

// message returns what is signed: the digest, or for Ed25519 the bytes themselves.
func (a *pubAuth) message(x *exchange) (msg []byte, missing string) {
	switch a.alg {
	case Ed25519:
		var b bytes.Buffer
		b.Grow(len(x.req.Body) + 128)
		missing = a.tmpl.write(x, &b)
		return b.Bytes(), missing
	case RSASHA512:
		h := sha512.New()
		missing = a.tmpl.write(x, h)
		return h.Sum(nil), missing
	default:
		h := sha256.New()
		missing = a.tmpl.write(x, h)
		return h.Sum(nil), missing
	}
}

// decode decodes a signature in the one spelling an encoder writes.
func (a *pubAuth) decode(s string) ([]byte, bool) {
	if s == "" || strings.ContainsAny(s, "\r\n") {
		return nil, false
	}
	var b []byte
	var err error
	switch a.enc {
	case Base64:
		b, err = base64.StdEncoding.Strict().DecodeString(s)
	case Base64URL:
		b, err = base64.RawURLEncoding.Strict().DecodeString(strings.TrimRight(s, "="))
	default:
		b, err = hex.DecodeString(s)
	}
	return b, err == nil
}

// check verifies one signature under one key. Public keys are no secrets, so the
// primitives' own time is fine.
func (k *pubKey) check(alg Algorithm, msg, sig []byte) bool {
	switch alg {
	case ECDSASHA256:
		return ecdsa.VerifyASN1(k.ecdsa, msg, sig)
	case Ed25519:
		return len(sig) == ed25519.SignatureSize && ed25519.Verify(k.ed, msg, sig)
	case RSASHA256:
		return rsa.VerifyPKCS1v15(k.rsa, crypto.SHA256, msg, sig) == nil
	case RSASHA512:
		return rsa.VerifyPKCS1v15(k.rsa, crypto.SHA512, msg, sig) == nil
	case RSAPSSSHA256:
		return rsa.VerifyPSS(k.rsa, crypto.SHA256, msg, sig, nil) == nil
	default:
		return false
	}
}

func (a *pubAuth) writeSigned(x *exchange, w io.Writer) bool { return a.tmpl.write(x, w) == "" }

func (a *pubAuth) covers(l locator) bool {
	return a.tmpl.covers(l) || a.tmpl.has(partID) && l == a.id
}

func (a *pubAuth) coversBody() bool { return a.tmpl.has(partBody) }

func (a *pubAuth) offline() bool { return len(a.keys) == 0 }
