package verify

import (
	"io"
	"net/url"
	"slices"
	"strings"
)

// customPlivo names the verification below in a row.
const customPlivo = "plivo"

const plivoNonce = "X-Plivo-Signature-V3-Nonce"

// plivoAuth verifies Plivo's signature V3, which no template fits: the parameters
// of the query and of the form are sorted and put together in one way for GET and
// in another for POST, with separators that come and go with what is there.
type plivoAuth struct{ *hmacAuth }

func compilePlivo(m *Mode, p parts) (authenticator, []key, error) {
	a, err := describedHMAC(m, p)
	return plivoAuth{a}, a.keys, err
}

func (a plivoAuth) verify(x *exchange) Result {
	if !anyActive(a.keys, x.req.Now) {
		return refuse(ReasonNoSecret, "no secret is configured and valid at this time")
	}
	res := a.read(x)
	if res.Reason != OK {
		return res
	}
	text, detail := plivoText(x)
	if detail != "" {
		return refuse(ReasonSignedPartMissing, detail)
	}
	readable := false
	for i := range a.keys {
		k := &a.keys[i]
		if !k.active(x.req.Now) {
			continue
		}
		x.sum = k.mac(x.sum[:0], text)
		matched, decoded := a.match(x, k)
		readable = readable || decoded
		if matched {
			res.Secret, res.Caller = k.ID, k.Caller
			return res
		}
	}
	return unmatched(res, readable)
}

// plivoText is what the signature covers. A body that is no form is covered by
// nothing and so refused.
func plivoText(x *exchange) (text, detail string) {
	nonce, p := single(x.req.Header[plivoNonce])
	if p != once || nonce == "" {
		return "", "the nonce is absent or there twice"
	}
	if len(x.req.Body) > 0 && x.form() == nil {
		return "", "the body is no form, and nothing covers it"
	}
	base, raw, _ := strings.Cut(x.url, "?")
	query, err := url.ParseQuery(raw)
	if err != nil {
		return "", "the query can't be parsed"
	}
	if base == "" || strings.Count(base, "/") == 2 {
		base += "/"
	}
	form := x.form()
	if x.req.Method == "GET" {
		all := url.Values{}
		for _, vals := range []url.Values{query, form} {
			for name, list := range vals {
				all[name] = append(all[name], list...)
			}
		}
		if len(all) > 0 {
			base += "?" + sortedPairs(all, "=", "&")
		}
		return base + "." + nonce, ""
	}
	if len(query) > 0 || len(form) > 0 {
		base += "?" + sortedPairs(query, "=", "&")
	}
	if len(query) > 0 && len(form) > 0 {
		base += "."
	}
	return base + sortedPairs(form, "", "") + "." + nonce, ""
}

// sortedPairs puts parameters together in the order of their names and values.
func sortedPairs(vals url.Values, equals, between string) string {
	var pairs []string
	names := make([]string, 0, len(vals))
	for name := range vals {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		list := slices.Clone(vals[name])
		slices.Sort(list)
		for _, v := range list {
			pairs = append(pairs, name+equals+v)
		}
	}
	return strings.Join(pairs, between)
}

func (plivoAuth) covers(l locator) bool {
	return l.kind == kindForm || l.kind == kindQuery || l.kind == kindHeader && l.name == plivoNonce
}

func (plivoAuth) coversBody() bool { return true }

func (plivoAuth) writeSigned(x *exchange, w io.Writer) bool {
	text, detail := plivoText(x)
	if detail == "" {
		_, _ = io.WriteString(w, text)
	}
	return detail == ""
}
