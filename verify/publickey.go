package verify

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// minRSABits is the smallest RSA key that is taken.
const minRSABits = 2048

// pubKey is a public key made ready; exactly one kind of key is set.
type pubKey struct {
	Secret
	kid   string    // its ID in a key set; "" is any
	only  string    // the one JWT algorithm it is for; "" is any
	until time.Time // when its certificate ends; zero for none
	ecdsa *ecdsa.PublicKey
	ed    ed25519.PublicKey
	rsa   *rsa.PublicKey
}

// pubAuth verifies public-key signatures.
type pubAuth struct {
	sigScheme
	alg     Algorithm
	keys    []pubKey
	secrets []key      // where the template holds {secret}
	lookup  *keyLookup // nil where keys are configured only
}

func (p *PublicKey) compile(ids []composite, keys, secrets []Secret, opts map[string]string) (*pubAuth, error) {
	sch, err := p.Scheme.compile(ids)
	errs := []error{err}
	if !slices.Contains([]Algorithm{ECDSASHA1, ECDSASHA256, Ed25519, RSASHA1, RSASHA256, RSASHA512, RSAPSSSHA256}, p.Algorithm) {
		errs = append(errs, fmt.Errorf("algorithm %q: want ecdsa-sha256, ed25519, rsa-sha256, rsa-sha512, rsa-pss-sha256, ecdsa-sha1 or rsa-sha1", p.Algorithm))
	}
	a := &pubAuth{sigScheme: sch, alg: p.Algorithm}
	a.keys, err = makePublicKeys(keys, func(pk pubKey) error { return pk.fits(p.Algorithm) })
	errs = append(errs, err)
	if sch.has(partSecret) {
		a.secrets, err = makeKeys("secret", secrets, func(k *key) error {
			k.bytes = []byte(k.Value.Reveal())
			return nil
		})
		errs = append(errs, err)
	}
	if p.Keys != nil {
		a.lookup, err = p.Keys.compile(opts)
		errs = append(errs, err)
	}
	return a, errors.Join(errs...)
}

// makePublicKeys reads the configured keys, each in any of its spellings; a set
// counts as the keys in it.
func makePublicKeys(keys []Secret, fits func(pubKey) error) ([]pubKey, error) {
	var out []pubKey
	_, err := makeKeys("public key", keys, func(k *key) error {
		text := strings.TrimSpace(k.Value.Reveal())
		if !strings.HasPrefix(text, "{") {
			pk, err := parseAnyKey(text)
			if err == nil {
				err = fits(pk)
			}
			pk.Secret = k.Secret
			out = append(out, pk)
			return err
		}
		set, err := parseJWKS([]byte(text))
		for _, pk := range set {
			if fits(pk) == nil {
				pk.Secret = k.Secret
				out = append(out, pk)
			}
		}
		return err
	})
	return out, err
}

// parseAnyKey reads a key in any of its spellings.
func parseAnyKey(text string) (pubKey, error) {
	text = strings.TrimSpace(text)
	if raw, ok := rawEd25519(text); ok {
		return pubKey{ed: raw}, nil
	}
	var der []byte
	if block, rest := pem.Decode([]byte(text)); block != nil {
		if len(bytes.TrimSpace(rest)) > 0 || block.Type != "PUBLIC KEY" {
			return pubKey{}, errors.New("want exactly one PEM block PUBLIC KEY")
		}
		der = block.Bytes
	} else {
		// Some providers show PEM without its line breaks.
		bare := strings.TrimSuffix(strings.TrimPrefix(text, "-----BEGIN PUBLIC KEY-----"), "-----END PUBLIC KEY-----")
		var err error
		if der, err = base64.StdEncoding.DecodeString(strings.TrimSpace(bare)); err != nil {
			return pubKey{}, errors.New("is neither PEM nor base64")
		}
	}
	parsed, err := x509.ParsePKIXPublicKey(der)
	if err != nil {
		return pubKey{}, errors.New("is not a SubjectPublicKeyInfo")
	}
	return wrapKey(parsed)
}

// fits keeps a key of one kind from being used as another.
func (k *pubKey) fits(alg Algorithm) error {
	ok := false
	switch alg {
	case ECDSASHA1, ECDSASHA256:
		ok = k.ecdsa != nil
	case Ed25519:
		ok = k.ed != nil
	case RSASHA1, RSASHA256, RSASHA512, RSAPSSSHA256:
		ok = k.rsa != nil
	}
	if !ok {
		return fmt.Errorf("is not a key for %s", alg)
	}
	return nil
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
	if !a.ready(x) {
		return refuse(ReasonNoSecret, "no public key is configured and valid at this time")
	}
	if a.groups {
		return a.eachGroup(x, func(res Result) Result { return a.verifyRead(x, res) })
	}
	res := a.read(x)
	if res.Reason != OK {
		return res
	}
	return a.verifyRead(x, res)
}

// verifyRead compares what was read. All that costs nothing is looked at before a
// key is fetched.
func (a *pubAuth) verifyRead(x *exchange, res Result) Result {
	var sigs [maxCandidates][]byte
	n := 0
	for _, c := range x.cands.all() {
		if sig, ok := a.decode(c.text); ok {
			sigs[n] = sig
			n++
		}
	}
	if n == 0 {
		return unmatched(res, false)
	}
	if a.lookup != nil && len(a.keys) == 0 {
		if res.lacksTime {
			return refuse(ReasonSignatureMismatch, "there is no timestamp in the body; not verified")
		}
		if early := a.judge(res); early.Reason != OK {
			// What is out of time is not worth a fetch. It is not known to be
			// authentic, so nothing is said of that.
			early.Detail = "signed too long ago or in the future; not verified"
			return early
		}
	}
	keys, refusal := a.keysFor(x)
	if refusal.Reason != OK {
		return refusal
	}
	lacking := ""
	for t := range a.tmpls {
		for s := range max(1, len(a.secrets)) {
			if len(a.secrets) > 0 {
				if !a.secrets[s].active(x.req.Now) {
					continue
				}
				x.secret = a.secrets[s].bytes
			}
			msg, missing := a.message(x, t)
			if x.secret = nil; missing != "" {
				lacking = missing
				continue
			}
			for _, sig := range sigs[:n] {
				for i := range keys {
					if k := &keys[i]; k.active(x.req.Now) && k.check(a.alg, msg, sig) {
						res.Secret, res.Caller = k.ID, k.Caller
						if len(a.secrets) > 0 {
							res.Secret, res.Caller = a.secrets[s].ID, a.secrets[s].Caller
						}
						return a.judge(res)
					}
				}
			}
		}
	}
	if lacking != "" {
		return refuse(ReasonSignedPartMissing, "what the signature covers is absent or there twice: "+lacking)
	}
	return unmatched(res, true)
}

// keysFor returns the configured keys, or those fetched for this request.
func (a *pubAuth) keysFor(x *exchange) ([]pubKey, Result) {
	if a.lookup == nil || len(a.keys) > 0 {
		return a.keys, Result{Reason: OK}
	}
	kid := ""
	if a.lookup.kid != nil {
		var p presence
		if kid, _, p = a.lookup.kid.find(x); p != once || kid == "" {
			return nil, refuse(ReasonSignatureMalformed, "the ID of the key is absent or there twice")
		}
	}
	keys, res := a.lookup.find(x, kid)
	for i := range keys {
		if keys[i].fits(a.alg) != nil {
			return nil, refuse(ReasonSignatureMismatch, "the key fetched is of another kind")
		}
	}
	return keys, res
}

// find returns the keys of a request or why there are none.
func (k *keyLookup) find(x *exchange, kid string) ([]pubKey, Result) {
	url, p, ok := k.address(x)
	switch {
	case p == absent:
		return nil, refuse(ReasonSignatureMissing, "the address of the key is absent")
	case !ok:
		return nil, refuse(ReasonSignatureMismatch, "the address of the key is not one that is believed")
	}
	keys, err := k.keys(x.ctx, url, kid, x.req.Now)
	switch {
	case err != nil:
		return nil, refuse(ReasonKeyUnavailable, unavailable(err))
	case len(keys) == 0:
		return nil, refuse(ReasonSignatureMismatch, "there is no public key of that ID")
	case slices.ContainsFunc(keys, func(k pubKey) bool { return !k.until.IsZero() && x.req.Now.After(k.until) }):
		return nil, refuse(ReasonSignatureMismatch, "the certificate has ended")
	}
	return keys, Result{Reason: OK}
}

// unavailable says why there is no key in fixed words: addresses are what the
// sender chose.
func unavailable(err error) string {
	for _, known := range []error{errNoFetcher, errTooSoon} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	return "the public key can't be fetched"
}

// ready reports whether there is anything to verify with.
func (a *pubAuth) ready(x *exchange) bool {
	if a.has(partSecret) && !anyActive(a.secrets, x.req.Now) {
		return false
	}
	return a.lookup != nil || slices.ContainsFunc(a.keys, func(k pubKey) bool { return k.active(x.req.Now) })
}

// message returns what is signed: the digest, or for Ed25519 the bytes themselves.
func (a *pubAuth) message(x *exchange, tmpl int) (msg []byte, missing string) {
	t := a.tmpls[tmpl]
	if a.alg == Ed25519 {
		var b bytes.Buffer
		b.Grow(len(x.req.Body) + 128)
		missing = t.write(x, &b)
		return b.Bytes(), missing
	}
	h := a.alg.hash().New()
	missing = t.write(x, h)
	return h.Sum(nil), missing
}

// hash returns the digest of the algorithm.
func (alg Algorithm) hash() crypto.Hash {
	switch alg {
	case ECDSASHA1, RSASHA1:
		return crypto.SHA1
	case RSASHA512:
		return crypto.SHA512
	default:
		return crypto.SHA256
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
	case ECDSASHA1, ECDSASHA256:
		return ecdsa.VerifyASN1(k.ecdsa, msg, sig)
	case Ed25519:
		return len(sig) == ed25519.SignatureSize && ed25519.Verify(k.ed, msg, sig)
	case RSASHA1, RSASHA256, RSASHA512:
		return rsa.VerifyPKCS1v15(k.rsa, alg.hash(), msg, sig) == nil
	case RSAPSSSHA256:
		return rsa.VerifyPSS(k.rsa, crypto.SHA256, msg, sig, nil) == nil
	default:
		return false
	}
}

func (a *pubAuth) offline() bool {
	return len(a.keys) == 0 && a.lookup == nil || a.has(partSecret) && len(a.secrets) == 0
}
