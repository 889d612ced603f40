package verify

import (
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// customContentful names the verification below in a row.
const customContentful = "contentful"

const contentfulList = "X-Contentful-Signed-Headers"

// contentfulAuth verifies Contentful's request verification, which no template
// fits: which headers are signed is listed in a header of the request, sorted and
// folded to lower case, and that list has to name itself and the timestamp, or a
// sender could leave both out.
type contentfulAuth struct{ *hmacAuth }

func compileContentful(m *Mode, p parts) (authenticator, []key, error) {
	a, err := describedHMAC(m, p)
	return contentfulAuth{a}, a.keys, err
}

func (a contentfulAuth) verify(x *exchange) Result {
	if !anyActive(a.keys, x.req.Now) {
		return refuse(ReasonNoSecret, "no secret is configured and valid at this time")
	}
	res := a.read(x)
	if res.Reason != OK {
		return res
	}
	text, detail := contentfulText(x)
	if detail != "" {
		return refuse(ReasonSignatureMismatch, detail)
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
			return a.judge(res)
		}
	}
	return unmatched(res, readable)
}

// contentfulText is the canonical request: method, path with its query escaped,
// the signed headers, the body, a line each.
func contentfulText(x *exchange) (text, detail string) {
	list, p := single(x.req.Header[contentfulList])
	if p != once || len(list) > maxSignatureLen {
		return "", "the list of signed headers is absent, there twice or too long"
	}
	names := strings.Split(strings.ToLower(list), ",")
	for i := range names {
		names[i] = strings.TrimSpace(names[i])
	}
	slices.Sort(names)
	if len(names) > maxListed || !slices.Contains(names, strings.ToLower(contentfulList)) || !slices.Contains(names, "x-contentful-timestamp") {
		return "", "the list of signed headers does not name itself and the timestamp"
	}
	lines := make([]string, 0, len(names))
	for _, name := range names {
		v, p := single(x.req.Header[http.CanonicalHeaderKey(name)])
		if p != once {
			return "", "a signed header is absent or there twice"
		}
		lines = append(lines, name+":"+strings.TrimSpace(v))
	}
	target := urlPath(x.url)
	if _, query, ok := strings.Cut(x.url, "?"); ok {
		target += "?" + url.QueryEscape(query)
	}
	return strings.Join([]string{x.req.Method, target, strings.Join(lines, ";"), string(x.req.Body)}, "\n"), ""
}

// covers holds for the body; which headers are signed is the sender's choice.
func (contentfulAuth) covers(l locator) bool { return l.inBody() }

func (contentfulAuth) coversBody() bool { return true }

func (contentfulAuth) writeSigned(x *exchange, w io.Writer) bool {
	text, detail := contentfulText(x)
	if detail == "" {
		_, _ = io.WriteString(w, text)
	}
	return detail == ""
}
