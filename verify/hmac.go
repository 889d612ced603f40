package verify

import (
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"
)

// maxDigest is the largest digest in bytes, with room for base64 padding.
const maxDigest = sha512.Size + 4

// new returns the constructor of the digest, nil where it is unknown.
func (d Digest) new() func() hash.Hash {
	switch d {
	case "", SHA256:
		return sha256.New
	case SHA1:
		return sha1.New
	case SHA384:
		return sha512.New384
	case SHA512:
		return sha512.New
	default:
		return nil
	}
}

// bytes turns the secret as people paste it into key bytes.
func (f SecretForm) bytes(s string) ([]byte, error) {
	switch f {
	case "", SecretRaw:
		return []byte(s), nil
	case SecretHex:
		b, err := hex.DecodeString(s)
		if err != nil {
			return nil, errors.New("is not hex")
		}
		return b, nil
	case SecretBase64, SecretWhsec:
		if f == SecretWhsec {
			s = strings.TrimPrefix(s, "whsec_")
		}
		b, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(s, "="))
		if err != nil || strings.ContainsAny(s, "\r\n") {
			return nil, fmt.Errorf("is not %s", f)
		}
		return b, nil
	default:
		return nil, fmt.Errorf("secret form %q: want raw, hex, base64 or whsec", f)
	}
}

// key is a secret made ready: its label, its time, and what computes under it.
type key struct {
	Secret
	bytes []byte
	// hashes holds keyed hashes that were used before and reset: a second use
	// spares the setting-up of the key.
	hashes *sync.Pool
}

// hmacAuth verifies an HMAC or a plain digest.
type hmacAuth struct {
	sigScheme
	plain bool
	keys  []key
}

// compile makes the family ready and reports all of its faults.
func (h *HMAC) compile(ids []composite, secrets []Secret) (*hmacAuth, error) {
	sch, err := h.Scheme.compile(ids)
	errs := []error{err}
	a := &hmacAuth{sigScheme: sch, plain: h.Plain}
	if h.Plain != a.tmpl.has(partSecret) && len(a.tmpl) > 0 {
		errs = append(errs, errors.New("signed: {secret} stands in the template of a plain digest and of nothing else"))
	}
	digest := h.Digest.new()
	if digest == nil {
		errs = append(errs, fmt.Errorf("digest %q: want sha1, sha256, sha384 or sha512", h.Digest))
		return a, errors.Join(errs...)
	}
	if _, err := h.Secret.bytes(""); err != nil {
		return a, errors.Join(append(errs, err)...)
	}
	a.keys, err = makeKeys("secret", secrets, func(s *key) error {
		b, err := h.Secret.bytes(s.Value.Reveal())
		if err != nil {
			return err
		}
		if len(b) == 0 {
			return errEmptySecret
		}
		s.bytes = b
		s.hashes = &sync.Pool{New: func() any {
			if h.Plain {
				return digest()
			}
			return hmac.New(digest, b)
		}}
		return nil
	})
	return a, errors.Join(append(errs, err)...)
}

// makeKeys labels the secrets, makes each ready, and reports every fault by label.
func makeKeys(what string, secrets []Secret, ready func(*key) error) ([]key, error) {
	keys := make([]key, 0, len(secrets))
	var errs []error
	for i, s := range secrets {
		if s.ID == "" {
			s.ID = strconv.Itoa(i + 1)
		}
		k := key{Secret: s}
		err := s.check()
		if err == nil {
			err = ready(&k)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s %q: %w", what, s.ID, err))
		}
		keys = append(keys, k)
	}
	return keys, errors.Join(errs...)
}

// verify computes the signature under each secret that is valid now and compares
// it with each one sent.
func (a *hmacAuth) verify(x *exchange) Result {
	if !anyActive(a.keys, x.req.Now) {
		return refuse(ReasonNoSecret, "no secret is configured and valid at this time")
	}
	res := a.read(x)
	if res.Reason != OK {
		return res
	}
	readable := false
	for i := range a.keys {
		k := &a.keys[i]
		if !k.active(x.req.Now) {
			continue
		}
		if missing := a.sign(x, k); missing != "" {
			return refuse(ReasonSignedPartMissing, "what the signature covers is absent or there twice: "+missing)
		}
		matched, decoded := a.match(x)
		readable = readable || decoded
		if matched {
			res.Secret, res.Caller = k.ID, k.Caller
			return a.judge(res)
		}
	}
	return unmatched(res, readable)
}

// unmatched is the result where no signature matched.
func unmatched(res Result, readable bool) Result {
	if readable {
		res.Reason, res.Detail = ReasonSignatureMismatch, "no secret or key matches the signature"
	} else {
		res.Reason, res.Detail = ReasonSignatureMalformed, "no signature is written in the expected encoding"
	}
	return res
}

func anyActive(keys []key, now time.Time) bool {
	for i := range keys {
		if keys[i].active(now) {
			return true
		}
	}
	return false
}

// sign computes the signature under k into x.sum.
func (a *hmacAuth) sign(x *exchange, k *key) (missing string) {
	h := k.hashes.Get().(hash.Hash)
	if a.plain {
		x.secret = k.bytes
	}
	missing = a.tmpl.write(x, h)
	x.secret = nil
	x.sum = h.Sum(x.sum[:0])
	h.Reset()
	k.hashes.Put(h)
	return missing
}

// match compares x.sum with every signature sent. All of them are compared,
// whichever matches.
func (a *hmacAuth) match(x *exchange) (matched, readable bool) {
	var got [2 * maxDigest]byte
	for _, c := range x.cands.all() {
		n, ok := a.enc.decodeInto(got[:], c)
		if !ok {
			continue
		}
		readable = true
		if hmac.Equal(x.sum, got[:n]) {
			matched = true
		}
	}
	return matched, readable
}

// writeSigned sends the bytes the signature covers to w, without any secret.
func (a *hmacAuth) writeSigned(x *exchange, w io.Writer) bool {
	return a.tmpl.write(x, w) == ""
}

// covers says what the signature protects.
func (a *hmacAuth) covers(l locator) bool { return a.tmpl.covers(l) || a.tmpl.has(partID) && l == a.id }

func (a *hmacAuth) coversBody() bool { return a.tmpl.has(partBody) }

func (a *hmacAuth) offline() bool { return len(a.keys) == 0 }
