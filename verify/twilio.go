package verify

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"io"
	"net/url"
	"strings"
)

// customTwilio names the verification below in a row.
const customTwilio = "twilio"

// bodyDigest is the query parameter in which Twilio signs a body that is no form.
const bodyDigest = "bodySHA256"

// twilioAuth verifies Twilio's signature, which no family fits: it covers the URL
// as the sender wrote it, with or without the default port, and either the sorted
// form fields or, for other bodies, a digest that stands in the URL itself. The
// HMAC family computes each variant.
type twilioAuth struct{ *hmacAuth }

func compileTwilio(m *Mode, p parts) (authenticator, []key, error) {
	a, err := describedHMAC(m, p)
	return twilioAuth{a}, a.keys, err
}

func (a twilioAuth) verify(x *exchange) Result {
	if res := twilioBody(x); res.Reason != OK {
		return res
	}
	res := a.hmacAuth.verify(x)
	if res.Reason != ReasonSignatureMismatch {
		return res
	}
	sent := x.url
	if x.url = otherPort(sent); x.url != "" {
		x.cands.n = 0
		res = a.hmacAuth.verify(x)
	}
	x.url = sent
	return res
}

// twilioBody holds a body that is no form against the digest in the URL, which
// the signature covers. Without that digest such a body is covered by nothing.
func twilioBody(x *exchange) Result {
	if len(x.req.Body) == 0 {
		return Result{Reason: OK}
	}
	if isForm(x.req) {
		if x.form() == nil {
			return refuse(ReasonBodyMalformed, "the form can't be parsed")
		}
		return Result{Reason: OK}
	}
	_, query, _ := strings.Cut(x.url, "?")
	vals, err := url.ParseQuery(query)
	want, p := single(vals[bodyDigest])
	if err != nil || p != once {
		return refuse(ReasonSignatureMismatch, "the body is no form and the URL holds no digest of it")
	}
	sum := sha256.Sum256(x.req.Body)
	if subtle.ConstantTimeCompare([]byte(strings.ToLower(want)), []byte(hex.EncodeToString(sum[:]))) != 1 {
		return refuse(ReasonSignatureMismatch, "the body does not have the digest that the URL holds")
	}
	return Result{Reason: OK}
}

// otherPort returns the URL with its default port added, or with its port taken
// away; "" where the URL can't be read.
func otherPort(u string) string {
	scheme, rest, ok := strings.Cut(u, "://")
	if !ok {
		return ""
	}
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	host, tail := rest[:end], rest[end:]
	if i := strings.LastIndexByte(host, ':'); i >= 0 && !strings.Contains(host[i:], "]") {
		return scheme + "://" + host[:i] + tail
	}
	switch scheme {
	case "https":
		return scheme + "://" + host + ":443" + tail
	case "http":
		return scheme + "://" + host + ":80" + tail
	default:
		return ""
	}
}

// coversBody holds for both kinds of bodies.
func (twilioAuth) coversBody() bool { return true }

// writeSigned adds the body where it is covered by its digest only.
func (a twilioAuth) writeSigned(x *exchange, w io.Writer) bool {
	if !a.hmacAuth.writeSigned(x, w) {
		return false
	}
	if !isForm(x.req) {
		_, _ = w.Write(x.req.Body)
	}
	return true
}
