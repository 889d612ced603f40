package verify

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/gjson"
)

// judge holds the claims against the row, then the body and the URL against the
// claims, then the times. Details name claims as the row writes them.
func (a *jwtAuth) judge(x *exchange, claims []byte, res Result) Result {
	for i := range a.claims {
		if r := &a.claims[i]; !r.holds(x, claims) {
			return spoil(res, ReasonClaimMismatch, "the token's claim "+r.name+" is absent or not what it should be")
		}
	}
	if detail := a.checkHashes(x, claims); detail != "" {
		return spoil(res, ReasonSignatureMismatch, detail)
	}
	return a.checkTimes(x, claims, res)
}

// holds reports whether the claim, or one element of it, has the value.
func (r *claimRule) holds(x *exchange, claims []byte) bool {
	got := gjson.GetBytes(claims, r.path)
	want := r.want
	if r.url {
		want = x.url
	}
	if r.any {
		return got.Exists() && got.Type != gjson.Null
	}
	list := []gjson.Result{got}
	if got.IsArray() {
		list = got.Array()
	}
	return slices.ContainsFunc(list, func(v gjson.Result) bool {
		s, p := scalar(v)
		return p == once && subtle.ConstantTimeCompare([]byte(s), []byte(want)) == 1
	})
}

// checkHashes says what the token vouches for and the request is not.
func (a *jwtAuth) checkHashes(x *exchange, claims []byte) string {
	if a.BodyHash != "" {
		sum := sha256.Sum256(x.req.Body)
		want := a.hashText(sum[:])
		switch got := gjson.GetBytes(claims, a.BodyHash); {
		case a.NoHashEmpty && len(x.req.Body) == 0:
			if got.Exists() {
				return "the token vouches for a body and there is none"
			}
		case !got.Exists() && a.BodyHashOptional:
		case got.Type != gjson.String || subtle.ConstantTimeCompare([]byte(a.foldHash(got.Str)), []byte(want)) != 1:
			return "the body is not the one the token vouches for"
		}
	}
	if a.URLHash != "" {
		sum := sha256.Sum256([]byte(x.url))
		if gjson.GetBytes(claims, a.URLHash).Str != hex.EncodeToString(sum[:]) {
			return "the URL is not the one the token vouches for"
		}
	}
	if a.QueryHash != "" {
		sum := sha256.Sum256([]byte(canonicalQuery(x.req.Method, x.url)))
		if gjson.GetBytes(claims, a.QueryHash).Str != hex.EncodeToString(sum[:]) {
			return "the query is not the one the token vouches for"
		}
	}
	return ""
}

func (a *jwtAuth) hashText(sum []byte) string { return a.HashEncoding.encode(sum) }

// foldHash takes hex in either case; other encodings have one spelling.
func (a *jwtAuth) foldHash(s string) string {
	if a.HashEncoding == Base64 || a.HashEncoding == Base64URL {
		return s
	}
	return strings.ToLower(s)
}

// checkTimes judges exp, nbf and iat. A token without any of them has no age.
func (a *jwtAuth) checkTimes(x *exchange, claims []byte, res Result) Result {
	leeway := time.Duration(a.Leeway)
	now := x.req.Now
	for _, name := range []string{"exp", "nbf", "iat"} {
		v := gjson.GetBytes(claims, name)
		if !v.Exists() {
			if name == "iat" && a.MaxAge > 0 {
				return spoil(res, ReasonTimestampMissing, "the token does not say when it was made")
			}
			continue
		}
		if v.Type != gjson.Number || v.Num < 0 || v.Num > lastSecond {
			return spoil(res, ReasonTimestampMalformed, "a time in the token is not a number of seconds")
		}
		at := time.Unix(0, 0).Add(time.Duration(v.Num * float64(time.Second)))
		if v.Num > float64(1<<33) {
			at = time.Unix(int64(v.Num), 0)
		}
		switch {
		case name == "exp" && now.After(at.Add(leeway)):
			return spoil(res, ReasonTimestampOld, "the token has ended")
		case name == "nbf" && now.Before(at.Add(-leeway)):
			return spoil(res, ReasonTimestampFuture, "the token is not valid yet")
		case name == "iat":
			res.Skew, res.HasSkew = now.Sub(at), true
			if r := checkAge(res.Skew, time.Duration(a.MaxAge)); r != OK {
				return spoil(res, r, "the token was made too long ago or in the future")
			}
		}
	}
	return res
}

// canonicalQuery is Atlassian's canonical form of a request: method, path and the
// query's parameters but jwt, sorted, repeated values sorted and joined.
func canonicalQuery(method, rawURL string) string {
	path := strings.TrimSuffix(urlPath(rawURL), "/")
	if path == "" {
		path = "/"
	}
	path = strings.ReplaceAll(path, "&", "%26")
	_, raw, _ := strings.Cut(rawURL, "?")
	vals, err := url.ParseQuery(raw)
	if err != nil {
		return ""
	}
	var pairs []string
	for name, list := range vals {
		if name == "jwt" {
			continue
		}
		enc := make([]string, len(list))
		for i, v := range list {
			enc[i] = escape3986(v)
		}
		slices.Sort(enc)
		pairs = append(pairs, escape3986(name)+"="+strings.Join(enc, ","))
	}
	slices.Sort(pairs)
	return strings.ToUpper(method) + "&" + path + "&" + strings.Join(pairs, "&")
}

// escape3986 escapes all but the unreserved characters of RFC 3986.
func escape3986(s string) string {
	return strings.ReplaceAll(url.QueryEscape(s), "+", "%20")
}

// writeSigned sends what the token vouches for: the body, as far as it does, and
// the claims, which hold the time.
func (a *jwtAuth) writeSigned(x *exchange, w io.Writer) bool {
	if !a.coversBody() {
		return false
	}
	_, _ = w.Write(x.req.Body)
	return true
}

func (a *jwtAuth) coversBody() bool {
	return a.Detached || a.BodyHash != "" && !a.BodyHashOptional || len(a.in) > 0 && a.in[0].kind == kindBody
}

func (a *jwtAuth) covers(l locator) bool {
	switch {
	case l.kind == kindClaim:
		return true
	case l.kind == kindQuery:
		return a.URLHash != "" || a.QueryHash != "" || slices.ContainsFunc(a.claims, func(r claimRule) bool { return r.url })
	default:
		return l.inBody() && a.coversBody()
	}
}
