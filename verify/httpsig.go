package verify

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// customHTTPSignature names the verification below in a row.
const customHTTPSignature = "http-signature"

// httpSigAuth verifies HTTP signatures as an expired draft has them, which no
// template fits: the request lists what is signed, among it pseudo-headers, and the
// body only through a digest in a header. The public-key family describes the
// algorithm, the keys and the time; a signature that leaves out target or digest is
// refused, or the rest of the request could be anything.
type httpSigAuth struct{ *pubAuth }

func compileHTTPSignature(m *Mode, p parts) (authenticator, []key, error) {
	a, err := describedPublicKey(m, p)
	return httpSigAuth{a}, nil, err
}

func (a httpSigAuth) verify(x *exchange) Result {
	if !a.ready(x) {
		return refuse(ReasonNoSecret, "no public key is configured and valid at this time")
	}
	text, res := a.textAt(x, &a.places[0])
	if res.Reason != OK {
		return res
	}
	if text == "" {
		return refuse(ReasonSignatureMissing, "there is no signature")
	}
	params, ok := signatureParams(text, a.prefix)
	if !ok {
		return refuse(ReasonSignatureMalformed, "the signature is not a list of parameters")
	}
	sig, ok := a.decode(params["signature"])
	if !ok {
		return refuse(ReasonSignatureMalformed, "no signature is written in the expected encoding")
	}
	if res = a.readTime(x); res.Reason != OK {
		return res
	}
	signed, detail := signedLines(x, strings.Fields(params["headers"]), a.hasTS)
	if detail != "" {
		return refuse(ReasonSignedPartMissing, detail)
	}
	x.sigText, x.sigSep = "keyid="+params["keyid"], "\n"
	keys, refusal := a.keysFor(x)
	if refusal.Reason != OK {
		return refusal
	}
	msg := []byte(signed)
	if a.alg != Ed25519 {
		h := a.alg.hash().New()
		_, _ = h.Write(msg) // hashes never fail
		msg = h.Sum(nil)
	}
	for i := range keys {
		if k := &keys[i]; k.active(x.req.Now) && k.check(a.alg, msg, sig) {
			res.Secret, res.Caller = k.ID, k.Caller
			return a.judge(res)
		}
	}
	return unmatched(res, true)
}

// signatureParams reads name="value" pairs with commas between. Names are folded
// to lower case; a name that comes twice is a fault.
func signatureParams(text, prefix string) (map[string]string, bool) {
	if len(text) >= len(prefix) && strings.EqualFold(text[:len(prefix)], prefix) {
		text = text[len(prefix):]
	}
	out := map[string]string{}
	for text = strings.TrimSpace(text); text != ""; {
		name, rest, ok := strings.Cut(text, "=")
		if !ok || !strings.HasPrefix(rest, `"`) {
			return nil, false
		}
		val, tail, ok := strings.Cut(rest[1:], `"`)
		name = strings.ToLower(strings.TrimSpace(name))
		if _, twice := out[name]; !ok || twice {
			return nil, false
		}
		out[name] = val
		if text = strings.TrimSpace(tail); text != "" {
			if text, ok = strings.CutPrefix(text, ","); !ok {
				return nil, false
			}
			text = strings.TrimSpace(text)
		}
	}
	return out, true
}

// signedLines is what the listed headers come to.
func signedLines(x *exchange, names []string, dated bool) (text, detail string) {
	if len(names) > maxListed || !slices.Contains(names, "(request-target)") || !slices.Contains(names, "digest") ||
		dated && !slices.Contains(names, "date") {
		return "", "the signature leaves out the target, the digest or the date"
	}
	if !digestFits(x) {
		return "", "the digest is absent, there twice or of another body"
	}
	lines := make([]string, 0, len(names))
	for _, name := range names {
		var val string
		p := once
		switch name {
		case "(request-target)":
			val = strings.ToLower(x.req.Method) + " " + requestTarget(x.url)
		case "host":
			u, err := url.Parse(x.url)
			if err != nil {
				return "", "the URL can't be parsed"
			}
			val = u.Hostname()
		default:
			val, p = single(x.req.Header[http.CanonicalHeaderKey(name)])
		}
		if p != once {
			return "", "a signed header is absent or there twice"
		}
		lines = append(lines, name+": "+val)
	}
	return strings.Join(lines, "\n"), ""
}

// digestFits holds the body against the digest that is signed in its place.
func digestFits(x *exchange) bool {
	s, p := single(x.req.Header["Digest"])
	alg, val, ok := strings.Cut(s, "=")
	sum := sha256.Sum256(x.req.Body)
	want := base64.StdEncoding.EncodeToString(sum[:])
	return p == once && ok && strings.EqualFold(alg, "sha-256") && subtle.ConstantTimeCompare([]byte(val), []byte(want)) == 1
}

// covers holds for the body and the target; headers are the sender's choice.
func (httpSigAuth) covers(l locator) bool { return l.inBody() || l.kind == kindQuery }

func (httpSigAuth) coversBody() bool { return true }

func (httpSigAuth) writeSigned(x *exchange, w io.Writer) bool {
	_, _ = io.WriteString(w, requestTarget(x.url))
	_, _ = w.Write(x.req.Body)
	return true
}
