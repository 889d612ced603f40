package verify

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// maxEcho bounds what a handshake gives back of one value.
const maxEcho = 4 << 10

// condition holds where the locator finds something, or finds exactly the value.
type condition struct {
	loc   locator
	value string
	exact bool
}

// echoKind is what a handshake does with a value before it gives it back.
type echoKind uint8

const (
	echoLiteral echoKind = iota
	echoPlain
	echoHMAC
	echoHMACBase64
	echoSHA256
)

var echoNames = [...]string{echoHMAC: "hmac:", echoHMACBase64: "hmac-base64:", echoSHA256: "sha256:"}

type echoPart struct {
	kind echoKind
	lit  string
	loc  locator
}

type namedEcho struct {
	name  string
	parts []echoPart
}

// handshake is a rule made ready.
type handshake struct {
	rule    Handshake
	detect  []condition
	compare []struct {
		loc  locator
		want [sha256.Size]byte
	}
	body   []echoPart
	json   []namedEcho
	header []namedEcho
}

// compile makes the rule ready. With opts nil, comparisons are parsed and their
// options are not looked up.
func (h Handshake) compile(opts map[string]string) (*handshake, error) {
	c := &handshake{rule: h}
	var errs []error
	bad := func(err error) { errs = append(errs, err) }
	for _, d := range h.Detect {
		at, value, exact := strings.Cut(d, "=")
		loc, err := parseLocator(at)
		bad(wrap("detect", err))
		c.detect = append(c.detect, condition{loc, value, exact})
	}
	if len(h.Detect) == 0 && (h.Method == "" || h.Method == http.MethodPost) {
		bad(errors.New("detect: nothing tells the handshake from an event"))
	}
	bad(c.compileCompare(opts))
	if !h.Verify && len(h.Compare) == 0 && !h.Open {
		bad(errors.New("neither verifies nor compares, and does not say open"))
	}
	if h.Body != "" && len(h.JSON) > 0 {
		bad(errors.New("body and json exclude each other"))
	}
	var err error
	c.body, err = parseEcho(h.Body)
	bad(err)
	c.json, err = parseEchoes(h.JSON)
	bad(err)
	c.header, err = parseEchoes(h.Header)
	bad(err)
	if h.Status != 0 && (h.Status < 200 || h.Status > 299) {
		bad(fmt.Errorf("status %d: want 2xx", h.Status))
	}
	if strings.Contains(h.ContentType, "html") || strings.Contains(h.ContentType, "svg") {
		bad(fmt.Errorf("content type %q: what a sender chose is never answered as a page", h.ContentType))
	}
	return c, wrap(fmt.Sprintf("handshake %q", h.Name), errors.Join(errs...))
}

func (c *handshake) compileCompare(opts map[string]string) error {
	var errs []error
	for _, s := range c.rule.Compare {
		at, option, ok := strings.Cut(s, "=")
		if !ok || option == "" {
			errs = append(errs, fmt.Errorf("compare %q: want locator=option", s))
			continue
		}
		loc, err := parseLocator(at)
		errs = append(errs, wrap("compare", err))
		if opts != nil && opts[option] == "" {
			errs = append(errs, fmt.Errorf("option %s: the handshake needs it", option))
		}
		c.compare = append(c.compare, struct {
			loc  locator
			want [sha256.Size]byte
		}{loc, sha256.Sum256([]byte(opts[option]))})
	}
	return errors.Join(errs...)
}

func parseEchoes(m map[string]string) ([]namedEcho, error) {
	var out []namedEcho
	var errs []error
	for name, tmpl := range m {
		parts, err := parseEcho(tmpl)
		errs = append(errs, err)
		out = append(out, namedEcho{name, parts})
	}
	return out, errors.Join(errs...)
}

// parseEcho parses literals and {locator}, {hmac:locator} and so on.
func parseEcho(s string) ([]echoPart, error) {
	var parts []echoPart
	for rest := s; rest != ""; {
		i := strings.IndexAny(rest, "{}")
		if i < 0 {
			return append(parts, echoPart{lit: rest}), nil
		}
		if i > 0 {
			parts = append(parts, echoPart{lit: rest[:i]})
		}
		end := strings.IndexByte(rest, '}')
		if rest[i] == '}' || end < 0 {
			return nil, fmt.Errorf("answer %q: unbalanced brace", s)
		}
		p := echoPart{kind: echoPlain}
		at := rest[i+1 : end]
		for k, name := range echoNames {
			if tail, ok := strings.CutPrefix(at, name); ok && name != "" {
				p.kind, at = echoKind(k), tail
				break
			}
		}
		var err error
		if p.loc, err = parseLocator(at); err != nil {
			return nil, fmt.Errorf("answer %q: %w", s, err)
		}
		parts = append(parts, p)
		rest = rest[end+1:]
	}
	return parts, nil
}

// matches reports whether the request is this handshake.
func (c *handshake) matches(x *exchange) bool {
	if c.rule.Method != "" && c.rule.Method != x.req.Method {
		return false
	}
	for _, d := range c.detect {
		s, p := d.loc.find(x, x.docFor(d.loc))
		if p != once || d.exact && s != d.value {
			return false
		}
	}
	return true
}

// run compares and answers. Every failure is the same reason.
func (c *handshake) run(x *exchange, res Result, keys []key) Result {
	failed := false
	for _, cmp := range c.compare {
		s, p := cmp.loc.find(x, x.docFor(cmp.loc))
		sum := sha256.Sum256([]byte(s))
		if subtle.ConstantTimeCompare(sum[:], cmp.want[:]) != 1 || p != once || s == "" {
			failed = true
		}
	}
	if failed {
		return spoil(res, ReasonHandshakeFailed, "what the handshake has to say is not what is configured")
	}
	answer, ok := c.answer(x, activeKey(keys, x))
	if !ok {
		return spoil(res, ReasonHandshakeFailed, "what the handshake should echo is absent, there twice or too long")
	}
	res.Reason, res.Handshake, res.Events = OK, answer, nil
	return res
}

func activeKey(keys []key, x *exchange) *key {
	for i := range keys {
		if keys[i].active(x.req.Now) {
			return &keys[i]
		}
	}
	return nil
}

func (c *handshake) answer(x *exchange, k *key) (*Answer, bool) {
	a := &Answer{Status: c.rule.Status, ContentType: c.rule.ContentType, Header: map[string]string{"X-Content-Type-Options": "nosniff"}}
	if a.Status == 0 {
		a.Status = http.StatusOK
	}
	for _, h := range c.header {
		s, ok := render(h.parts, x, k)
		if !ok || strings.ContainsFunc(s, func(r rune) bool { return r < 0x20 || r == 0x7f }) {
			return nil, false
		}
		a.Header[h.name] = s
	}
	if len(c.json) > 0 {
		fields := make(map[string]string, len(c.json))
		for _, f := range c.json {
			s, ok := render(f.parts, x, k)
			if !ok {
				return nil, false
			}
			fields[f.name] = s
		}
		a.Body, _ = json.Marshal(fields) // a map of strings always encodes
		if a.ContentType == "" {
			a.ContentType = "application/json"
		}
		return a, true
	}
	s, ok := render(c.body, x, k)
	if a.Body = []byte(s); a.ContentType == "" {
		a.ContentType = "text/plain; charset=utf-8"
	}
	return a, ok
}

// render writes the parts; ok is false where a value is absent, empty, there
// twice or too long, or a key is needed and there is none.
func render(parts []echoPart, x *exchange, k *key) (string, bool) {
	var b strings.Builder
	for _, p := range parts {
		if p.kind == echoLiteral {
			b.WriteString(p.lit)
			continue
		}
		s, found := p.loc.find(x, x.docFor(p.loc))
		if found != once || s == "" || len(s) > maxEcho {
			return "", false
		}
		out, ok := p.kind.apply(s, k)
		if !ok {
			return "", false
		}
		b.WriteString(out)
	}
	return b.String(), true
}

func (e echoKind) apply(s string, k *key) (string, bool) {
	switch e {
	case echoPlain:
		return s, true
	case echoSHA256:
		sum := sha256.Sum256([]byte(s))
		return hex.EncodeToString(sum[:]), true
	}
	if k == nil {
		return "", false
	}
	mac := hmac.New(sha256.New, []byte(k.Value.Reveal()))
	_, _ = mac.Write([]byte(s))
	if e == echoHMACBase64 {
		return base64.StdEncoding.EncodeToString(mac.Sum(nil)), true
	}
	return hex.EncodeToString(mac.Sum(nil)), true
}
