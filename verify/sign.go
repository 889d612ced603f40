package verify

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// ErrCannotSign says that a mode's requests can't be made with what there is: it
// has no secret valid now, or only the provider holds the private key.
var ErrCannotSign = errors.New("cannot sign for this provider")

// SignRequest says what to sign.
type SignRequest struct {
	// Now becomes the timestamp.
	Now time.Time
	// ID and Type are set as headers where the row has them there.
	ID, Type string
	// Method defaults to the row's first; URL is needed where it is signed.
	Method, URL string
	// Header is copied and added to.
	Header http.Header
	// Body is signed as it is. Nil makes the smallest body that holds ID and Type
	// where the row looks for them.
	Body []byte
	// Secret names the secret by label; empty takes the first valid at Now.
	Secret string
	// PrivateKey signs for public-key modes.
	PrivateKey crypto.Signer
}

// SignedRequest is a request that the same verifier finds authentic.
type SignedRequest struct {
	Method, URL string
	Header      http.Header
	Body        []byte
}

// Sign makes an authentic request, for trying a source without its provider. The
// error wraps [ErrCannotSign] where there is nothing to sign with.
func (v *Verifier) Sign(r SignRequest) (SignedRequest, error) {
	out := v.draft(r)
	if err := v.fulfil(&out); err != nil {
		return out, err
	}
	x := &exchange{options: v.options, req: &Request{Method: out.Method, URL: out.URL, Header: out.Header, Body: out.Body, Now: r.Now}}
	_, x.req.RawQuery, _ = strings.Cut(out.URL, "?")
	x.url = v.signedURL(x.req)
	var err error
	switch a := v.auth.(type) {
	case *hmacAuth:
		err = v.signHMAC(a, x, r)
	case stripeAuth:
		err = v.signHMAC(a.hmacAuth, x, r)
	case twilioAuth:
		signTwilioBody(x)
		err = v.signHMAC(a.hmacAuth, x, r)
	case *pubAuth:
		err = a.signWith(x, r)
	case *tokenAuth:
		err = a.put(x, v.pick(r))
	case *basicAuth:
		err = putBasic(x, v.pick(r))
	case *jwtAuth:
		err = a.put(x, v.pick(r))
	case noneAuth:
	default:
		err = fmt.Errorf("%w: the scheme of %s is verified only", ErrCannotSign, v.row.Name)
	}
	out.URL = x.req.URL
	return out, err
}

// draft is the request before it is signed.
func (v *Verifier) draft(r SignRequest) SignedRequest {
	out := SignedRequest{Method: r.Method, URL: r.URL, Header: r.Header.Clone(), Body: r.Body}
	if out.Header == nil {
		out.Header = http.Header{}
	}
	if out.Method == "" {
		out.Method = v.row.methods()[0]
	}
	ct := "application/json"
	if out.Body == nil {
		out.Body, ct = v.row.SampleBody(r.ID, r.Type)
	}
	if out.Header.Get("Content-Type") == "" && len(out.Body) > 0 {
		out.Header.Set("Content-Type", ct)
	}
	for _, set := range []struct {
		alts []composite
		val  string
	}{{v.read.id, r.ID}, {v.read.typ, r.Type}} {
		if l, ok := firstHeader(set.alts); ok && set.val != "" {
			out.Header.Set(l.name, set.val)
		}
	}
	return out
}

// pick returns the secret to sign with, nil where there is none.
func (v *Verifier) pick(r SignRequest) *key {
	for i := range v.keys {
		k := &v.keys[i]
		if r.Secret == k.ID || r.Secret == "" && k.active(r.Now) {
			return k
		}
	}
	return nil
}

var errNoKey = fmt.Errorf("%w: no secret of that label, or none valid now", ErrCannotSign)

// fulfil sets the headers that every request of the mode has.
func (v *Verifier) fulfil(out *SignedRequest) error {
	for i := range v.require {
		c := &v.require[i]
		if c.skip || c.not || !c.exact {
			continue
		}
		if c.src[0].kind != kindHeader {
			return fmt.Errorf("%w: %s is not made here", ErrCannotSign, c.src)
		}
		out.Header.Set(c.src[0].name, c.value)
	}
	return nil
}

// stamp sets the timestamp and the signed ID.
func (c *sigScheme) stamp(x *exchange) error {
	if c.hasTS {
		x.timestamp = formatTime(x.req.Now, c.unit)
		if c.tsKey == "" {
			if err := put(x, c.ts[0], x.timestamp); err != nil {
				return err
			}
		}
	}
	if c.id.name != "" {
		var p presence
		if x.id, p = c.id.find(x, nil); p != once || x.id == "" {
			return fmt.Errorf("%w: the ID is signed and there is none", ErrCannotSign)
		}
	}
	return nil
}

// formatTime writes a time as parseTimestamp reads it.
func formatTime(t time.Time, unit Unit) string {
	switch unit {
	case Milliseconds:
		return strconv.FormatInt(t.UnixMilli(), 10)
	case RFC3339:
		return t.UTC().Format(time.RFC3339)
	case HTTPDate:
		return t.UTC().Format(http.TimeFormat)
	default:
		return strconv.FormatInt(t.Unix(), 10)
	}
}

// place writes the signature where the verifier looks for it.
func (c *sigScheme) place(x *exchange, sig string) error {
	switch c.format {
	case FormatKV:
		if sig = c.key + "=" + sig; c.tsKey != "" {
			sig = c.tsKey + "=" + x.timestamp + c.sep[:1] + sig
		}
	case FormatList:
		sig = c.key + "," + sig
	case FormatPositional:
		sig = x.timestamp + c.sep[:1] + sig
	default:
		sig = c.prefix + sig
	}
	return put(x, c.places[0].src[0], sig)
}

// put sets a header or a query parameter. Signatures inside a body are made by
// their provider alone.
func put(x *exchange, l locator, val string) error {
	if len(l.steps) > 0 {
		return fmt.Errorf("%w: %s is packed", ErrCannotSign, l)
	}
	switch l.kind {
	case kindHeader:
		x.req.Header.Set(strings.Replace(l.name, "#", "1", 1), val)
		return nil
	case kindQuery:
		addQuery(x, l.name, val)
		return nil
	default:
		return fmt.Errorf("%w: %s is inside the body", ErrCannotSign, l)
	}
}

func addQuery(x *exchange, name, val string) {
	sep := "?"
	if strings.Contains(x.req.URL, "?") {
		sep = "&"
	}
	pair := url.QueryEscape(name) + "=" + url.QueryEscape(val)
	x.req.URL += sep + pair
	_, x.req.RawQuery, _ = strings.Cut(x.req.URL, "?")
	x.haveVals = false
}

func (v *Verifier) signHMAC(a *hmacAuth, x *exchange, r SignRequest) error {
	k := v.pick(r)
	if k == nil {
		return errNoKey
	}
	if err := a.stamp(x); err != nil {
		return err
	}
	if a.digestT != nil {
		return fmt.Errorf("%w: the digest is the sender's choice", ErrCannotSign)
	}
	if err := fill(x, a.tmpls[0]); err != nil {
		return err
	}
	if missing := a.sign(x, k, 0, 0); missing != "" {
		return fmt.Errorf("%w: %s is signed and absent", ErrCannotSign, missing)
	}
	return a.place(x, a.enc.encode(x.sum))
}

// signTwilioBody puts the digest of a body that is no form into the URL.
func signTwilioBody(x *exchange) {
	if len(x.req.Body) > 0 && !isForm(x.req) {
		sum := sha256.Sum256(x.req.Body)
		addQuery(x, bodyDigest, hex.EncodeToString(sum[:]))
		base, _, _ := strings.Cut(x.url, "?")
		x.url = base + "?" + x.req.RawQuery
	}
}

func (a *tokenAuth) put(x *exchange, k *key) error {
	if k == nil {
		return errNoKey
	}
	if a.each != "" {
		return fmt.Errorf("%w: every element carries the token", ErrCannotSign)
	}
	if a.in[0].kind != kindHeader {
		return put(x, a.in[0], k.Value.Reveal())
	}
	return put(x, a.in[0], a.prefix+k.Value.Reveal())
}

func putBasic(x *exchange, k *key) error {
	if k == nil {
		return errNoKey
	}
	x.req.Header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(k.Value.Reveal())))
	return nil
}

// signWith signs with a private key that the caller holds.
func (a *pubAuth) signWith(x *exchange, r SignRequest) error {
	if r.PrivateKey == nil {
		return fmt.Errorf("%w: only the provider holds the private key", ErrCannotSign)
	}
	if err := a.stamp(x); err != nil {
		return err
	}
	if len(a.secrets) > 0 {
		x.secret = a.secrets[0].bytes
	}
	msg, missing := a.message(x, 0)
	if missing != "" {
		return fmt.Errorf("%w: %s is signed and absent", ErrCannotSign, missing)
	}
	var opts crypto.SignerOpts = a.alg.hash()
	switch a.alg {
	case Ed25519:
		opts = crypto.Hash(0)
	case RSAPSSSHA256:
		opts = &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash, Hash: crypto.SHA256}
	}
	sig, err := r.PrivateKey.Sign(rand.Reader, msg, opts)
	if err != nil {
		return fmt.Errorf("sign with private key: %w", err)
	}
	return a.place(x, a.enc.encode(sig))
}

// fill gives the request what is signed beside the body and has no meaning of its
// own, such as a nonce.
func fill(x *exchange, t template) error {
	for i := range t {
		if err := fill(x, t[i].sorted); err != nil {
			return err
		}
		if t[i].kind != partLocator {
			continue
		}
		if _, _, p := t[i].src.find(x); p != absent {
			continue
		}
		l := t[i].src[0]
		l.steps = nil
		if l.kind != kindHeader && l.kind != kindQuery {
			return fmt.Errorf("%w: %s is signed and absent", ErrCannotSign, l)
		}
		if err := put(x, l, "sample"); err != nil {
			return err
		}
	}
	return nil
}

// put makes a token under a shared secret.
func (a *jwtAuth) put(x *exchange, k *key) error {
	if k == nil {
		return errNoKey
	}
	alg := ""
	for _, name := range a.Algorithms {
		if strings.HasPrefix(name, "HS") {
			alg = name
			break
		}
	}
	if alg == "" || a.Detached || a.in[0].kind == kindBody {
		return fmt.Errorf("%w: only the provider holds the private key", ErrCannotSign)
	}
	now := x.req.Now.Unix()
	claims := jwt.MapClaims{"iat": now, "nbf": now, "exp": now + 300}
	for _, r := range a.claims {
		switch _, set := claims[r.name]; {
		case r.url:
			claims[r.name] = x.url
		case !r.any:
			claims[r.name] = r.want
		case !set:
			claims[r.name] = "1"
		}
	}
	if a.BodyHash != "" && !(a.NoHashEmpty && len(x.req.Body) == 0) {
		sum := sha256.Sum256(x.req.Body)
		claims[a.BodyHash] = a.hashText(sum[:])
	}
	if a.URLHash != "" {
		sum := sha256.Sum256([]byte(x.url))
		claims[a.URLHash] = hex.EncodeToString(sum[:])
	}
	if a.QueryHash != "" {
		sum := sha256.Sum256([]byte(canonicalQuery(x.req.Method, x.url)))
		claims[a.QueryHash] = hex.EncodeToString(sum[:])
	}
	text, err := jwt.NewWithClaims(jwt.GetSigningMethod(alg), claims).SignedString(k.bytes)
	if err != nil {
		return fmt.Errorf("sign token: %w", err)
	}
	if a.in[0].kind == kindHeader {
		text = a.Prefix + text
	}
	return put(x, a.in[0], text)
}

// CanSign reports whether requests in the given mode (empty is the default) can
// be made with the configured secret alone.
func (r Row) CanSign(mode string) bool {
	m, err := r.pickMode(mode)
	if err != nil || m.PublicKey != nil || m.Custom != "" && m.Custom != customStripe && m.Custom != customTwilio || m.Token != nil && m.Token.Each != "" {
		return false
	}
	if m.JWT != nil {
		secrets, _ := m.takes()
		return secrets && !m.JWT.Detached && putable(m.JWT.In)
	}
	if m.Token != nil {
		return putable(m.Token.In)
	}
	s := m.scheme()
	if s == nil {
		return true
	}
	tmpl, err := parseTemplate(s.Signed)
	if err != nil || m.HMAC.DigestIn != "" || m.Decrypt != "" || !putable(s.Sig) || !fillable(tmpl) {
		return false
	}
	return s.Timestamp == "" || strings.HasPrefix(s.Timestamp, "sig:") || putable(s.Timestamp)
}

// fillable reports whether what is signed can be made for any body.
func fillable(t template) bool {
	return !slices.ContainsFunc(t, func(p part) bool {
		switch p.kind {
		case partListed, partFormJSON, partFormPHP:
			return true
		case partSorted:
			return !fillable(p.sorted)
		case partLocator:
			return !slices.ContainsFunc(p.src, func(l locator) bool {
				return l.kind == kindHeader || l.kind == kindQuery || l.kind == kindOption || l.kind == kindText || l.kind == kindBody && l.path == ""
			})
		default:
			return false
		}
	})
}

// putable reports whether the first place is one that a request can be given.
func putable(at string) bool {
	src, err := parseSource(at)
	return err == nil && (src[0].kind == kindHeader || src[0].kind == kindQuery) && len(src[0].steps) == 0
}
