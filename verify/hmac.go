package verify

import (
	"cmp"
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
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/text/unicode/norm"
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
	case SecretNFKD:
		return norm.NFKD.Bytes([]byte(s)), nil
	case SecretHex:
		b, err := hex.DecodeString(s)
		if err != nil {
			return nil, errors.New("is not hex")
		}
		return b, nil
	case SecretSHA1, SecretSHA256:
		if s == "" {
			return nil, nil
		}
		if f == SecretSHA1 {
			sum := sha1.Sum([]byte(s))
			return sum[:], nil
		}
		sum := sha256.Sum256([]byte(s))
		return sum[:], nil
	case SecretBase64, SecretWhsec:
		if f == SecretWhsec {
			s = whsecText(strings.TrimPrefix(s, "v1,"))
		}
		b, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(s, "="))
		if err != nil || strings.ContainsAny(s, "\r\n") {
			return nil, fmt.Errorf("is not %s", f)
		}
		return b, nil
	default:
		return nil, fmt.Errorf("secret form %q: want raw, hex, base64, whsec, nfkd, sha1 or sha256", f)
	}
}

// whsecText is the base64 of a secret that begins with whsec_, or with the
// provider's own word in place of whsec. The alphabet has no underscore, so that
// nothing is cut that could be part of the key.
func whsecText(s string) string {
	word, rest, ok := strings.Cut(s, "_")
	if !ok || word == "" || strings.Trim(word, "abcdefghijklmnopqrstuvwxyz") != "" {
		return s
	}
	return rest
}

// key is a secret made ready: its label, its time, and what computes under it.
type key struct {
	Secret
	bytes []byte
	// hashes holds, for each digest, keyed hashes that were used before and reset:
	// a second use spares the setting-up of the key.
	hashes []*sync.Pool
}

// hmacAuth verifies an HMAC or a plain digest.
type hmacAuth struct {
	sigScheme
	plain   bool
	keys    []key
	digestT source         // where the digest is named; nil for one digest
	names   map[string]int // what the names mean, as indices of key.hashes
}

// compile makes the family ready and reports all of its faults.
func (h *HMAC) compile(ids []composite, secrets []Secret) (*hmacAuth, error) {
	sch := h.Scheme
	sch.Prefix = strings.ReplaceAll(sch.Prefix, "{digest}", string(cmp.Or(h.Digest, SHA256)))
	c, err := sch.compile(ids)
	errs := []error{err}
	a := &hmacAuth{sigScheme: c, plain: h.Plain}
	if h.Plain && len(a.tmpls) > 0 && !a.has(partSecret) {
		errs = append(errs, errors.New("signed: a plain digest holds {secret}"))
	}
	digests, err := a.compileDigests(h)
	errs = append(errs, err)
	if _, err := h.Secret.bytes(""); err != nil {
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return a, err
	}
	a.keys, err = a.makeKeys(h, secrets, digests)
	return a, err
}

func (a *hmacAuth) makeKeys(h *HMAC, secrets []Secret, digests []func() hash.Hash) ([]key, error) {
	return makeKeys("secret", secrets, func(s *key) error {
		b, err := h.Secret.bytes(s.Value.Reveal())
		if err != nil {
			return err
		}
		if len(b) == 0 {
			return errEmptySecret
		}
		s.bytes = append(b, h.Suffix...)
		for _, digest := range digests {
			s.hashes = append(s.hashes, a.pool(digest, s.bytes))
		}
		return nil
	})
}

func (a *hmacAuth) pool(digest func() hash.Hash, key []byte) *sync.Pool {
	return &sync.Pool{New: func() any {
		if a.plain {
			return digest()
		}
		return hmac.New(digest, key)
	}}
}

// compileDigests returns the digest's constructors: first the default, then those
// that the request may name.
func (a *hmacAuth) compileDigests(h *HMAC) ([]func() hash.Hash, error) {
	list := []Digest{h.Digest}
	var errs []error
	if h.DigestIn != "" || len(h.Digests) > 0 {
		var err error
		if a.digestT, err = parseSource(h.DigestIn); err != nil {
			errs = append(errs, wrap("digest_in", err))
		}
		a.names = map[string]int{}
		for name, d := range h.Digests {
			a.names[name] = len(list)
			list = append(list, d)
		}
	}
	out := make([]func() hash.Hash, len(list))
	for i, d := range list {
		if out[i] = d.new(); out[i] == nil {
			errs = append(errs, fmt.Errorf("digest %q: want sha1, sha256, sha384 or sha512", d))
		}
	}
	return out, errors.Join(errs...)
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
	if a.groups {
		return a.eachGroup(x, func(res Result) Result { return a.verifyRead(x, res) })
	}
	res := a.read(x)
	if res.Reason != OK {
		return res
	}
	return a.verifyRead(x, res)
}

// verifyRead compares what was read with each template under each secret.
func (a *hmacAuth) verifyRead(x *exchange, res Result) Result {
	digest, ok := a.digest(x)
	if !ok {
		return refuse(ReasonSignatureMalformed, "the digest named is not one that is taken")
	}
	readable, fits, lacking := false, false, ""
	for t := range a.tmpls {
		for i := range a.keys {
			k := &a.keys[i]
			if !k.active(x.req.Now) {
				continue
			}
			if missing := a.sign(x, k, t, digest); missing != "" {
				lacking = cmp.Or(lacking, missing)
				break
			}
			fits = true
			matched, decoded := a.match(x, k)
			readable = readable || decoded
			if matched {
				res.Secret, res.Caller = k.ID, k.Caller
				return a.judge(res)
			}
		}
	}
	if !fits {
		return refuse(ReasonSignedPartMissing, "what the signature covers is absent or there twice: "+lacking)
	}
	return unmatched(res, readable)
}

// digest returns which of the digests the request names.
func (a *hmacAuth) digest(x *exchange) (int, bool) {
	if a.digestT == nil {
		return 0, true
	}
	name, _, p := a.digestT.find(x)
	if p == absent {
		return 0, true
	}
	i, ok := a.names[name]
	return i, ok && p == once
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

// sign computes the signature of a template under k into x.sum.
func (a *hmacAuth) sign(x *exchange, k *key, tmpl, digest int) (missing string) {
	h := k.hashes[digest].Get().(hash.Hash)
	x.secret = k.bytes
	missing = a.tmpls[tmpl].write(x, h)
	x.secret = nil
	x.sum = h.Sum(x.sum[:0])
	h.Reset()
	k.hashes[digest].Put(h)
	return missing
}

// match compares x.sum with every signature sent. All of them are compared,
// whichever matches.
func (a *hmacAuth) match(x *exchange, k *key) (matched, readable bool) {
	var got [2 * maxDigest]byte
	for _, c := range x.cands.all() {
		n, ok := a.enc.decodeInto(got[:], c.text)
		if !ok {
			continue
		}
		readable = true
		if hmac.Equal(x.sum, got[:n]) && (c.label == "" || c.label == k.ID || !labelled(a.keys, c.label)) {
			matched = true
		}
	}
	return matched, readable
}

// labelled reports whether a secret has that label.
func labelled(keys []key, label string) bool {
	return slices.ContainsFunc(keys, func(k key) bool { return k.ID == label })
}

// writeSigned sends the bytes the signature covers to w, without any secret.
func (c *sigScheme) writeSigned(x *exchange, w io.Writer) bool {
	secret := x.secret
	x.secret = nil
	defer func() { x.secret = secret }()
	for _, t := range c.tmpls {
		var b counter
		if b.w = io.Discard; t.write(x, &b) == "" {
			return t.write(x, w) == ""
		}
	}
	return false
}

func (a *hmacAuth) offline() bool { return len(a.keys) == 0 }
