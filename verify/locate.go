package verify

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
)

// kind is the part of a request that a locator looks in.
type kind uint8

const (
	kindHeader kind = iota
	kindQuery
	kindForm
	kindJSON
	kindBody
	kindParent
	kindXML
	kindKey
	kindClaim
	kindSig
	kindText
	kindPath
	kindOption
	kindURL
	kindPlain
)

// kindNames are the words before the colon, in the order of the kinds they name.
var kindNames = [...]string{
	kindHeader: "header:", kindQuery: "query:", kindForm: "form:", kindJSON: "json:", kindBody: "body:",
	kindParent: "parent:", kindXML: "xml:", kindKey: "key:", kindClaim: "claim:", kindSig: "sig:",
	kindText: "text:", kindPath: "path:", kindOption: "option:", kindURL: "url:",
	kindPlain: "plain:",
}

// locator is a parsed place in a request.
type locator struct {
	kind  kind
	name  string // header (canonical), parameter, field, names of keys
	path  string // JSON path as gjson reads it
	whole string // as it is written
	steps []step // what is done with the value found
}

// parseLocator parses one place, such as `json:data.id`.
func parseLocator(s string) (locator, error) {
	head, tail, more := strings.Cut(s, "|")
	for k, prefix := range kindNames {
		rest, ok := strings.CutPrefix(head, prefix)
		if !ok {
			continue
		}
		l, err := newLocator(kind(k), rest, s)
		if err == nil && more {
			l.steps, err = parseSteps(tail, s)
		}
		return l, err
	}
	return locator{whole: s}, fmt.Errorf("locator %q: want header:NAME, query:NAME, form:FIELD, json:PATH or another kind", s)
}

func newLocator(k kind, rest, whole string) (locator, error) {
	l := locator{kind: k, name: rest, whole: whole}
	switch k {
	case kindHeader:
		if !validHeaderName(strings.TrimSuffix(rest, "#")) {
			return l, fmt.Errorf("locator %q: not a header name", whole)
		}
		l.name = http.CanonicalHeaderKey(rest)
		l.whole = kindNames[k] + l.name + strings.TrimPrefix(whole, kindNames[k]+rest)
	case kindJSON, kindBody, kindParent, kindClaim:
		l.name = ""
		if rest == "" && k == kindBody {
			return l, nil // the whole body
		}
		var ok bool
		if l.path, ok = jsonPath(rest); !ok {
			return l, fmt.Errorf("locator %q: a JSON path is keys of letters, digits, _, -, $, @, :, / and * with dots between", whole)
		}
		return l, nil
	case kindURL, kindPath, kindPlain:
		if rest != "" {
			return l, fmt.Errorf("locator %q: takes no name", whole)
		}
		return l, nil
	}
	if l.name == "" || strings.ContainsAny(l.name, "=|{}") {
		return l, fmt.Errorf("locator %q: not a name", whole)
	}
	return l, nil
}

// validHeaderName reports whether s is an HTTP token without the underscore,
// which no header that passes has.
func validHeaderName(s string) bool {
	for i := range len(s) {
		if c := s[i]; !isAlnum(c) && c != '-' && c != '.' {
			return false
		}
	}
	return s != ""
}

// jsonPath turns a path into the JSON library's spelling. Everything to which the
// library gives a meaning of its own is refused or escaped: queries, modifiers,
// escapes. The asterisk keeps its meaning.
func jsonPath(p string) (string, bool) {
	if p == "" || p[0] == '.' || p[len(p)-1] == '.' || strings.Contains(p, "..") {
		return "", false
	}
	var b strings.Builder
	for i := range len(p) {
		switch c := p[i]; {
		case isAlnum(c), c == '_', c == '-', c == '$', c == '.', c == '*':
			b.WriteByte(c)
		case c == '@', c == ':', c == '/', c == ' ', c == '~':
			b.WriteByte('\\')
			b.WriteByte(c)
		default:
			return "", false
		}
	}
	return b.String(), true
}

func isAlnum(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

// String returns the locator as it is written in a row.
func (l locator) String() string { return l.whole }

// same reports whether two locators find the same.
func (l locator) same(m locator) bool { return l.whole == m.whole }

// needsJSON reports whether the locator can only be followed in a JSON body.
func (l locator) needsJSON() bool {
	return l.kind == kindJSON || l.kind == kindBody || l.kind == kindParent || l.kind == kindKey
}

// inBody reports whether what the locator finds is part of the body.
func (l locator) inBody() bool {
	return l.needsJSON() || l.kind == kindForm || l.kind == kindXML
}

// presence is how often a value was found. Twice is never taken for once.
type presence uint8

const (
	absent presence = iota
	once
	many
)

// find follows the locator. JSON paths are followed in doc, which is the body or
// one element of it, and which the caller knows to be valid JSON.
func (l *locator) find(x *exchange, doc []byte) (string, presence) {
	var s string
	p := absent
	if r, ok := l.lookup(x, doc); ok {
		if len(l.steps) > 0 && l.steps[0].kind == stepSHA256 && r.Exists() {
			s, p = r.Raw, once
			if r.Type == gjson.String {
				s = r.Str
			}
		} else {
			s, p = scalar(r)
		}
	} else {
		s, p = l.plain(x, doc)
	}
	for i := range l.steps {
		if p != once {
			return "", p
		}
		s, p = l.steps[i].apply(s)
	}
	return s, p
}

// lookup follows the kinds that are JSON paths; ok is false for all others.
func (l *locator) lookup(x *exchange, doc []byte) (r gjson.Result, ok bool) {
	switch l.kind {
	case kindJSON:
	case kindBody:
		if l.path == "" {
			return r, false
		}
		doc = x.doc()
	case kindParent:
		doc = x.parent
	case kindClaim:
		doc = x.claims
	default:
		return r, false
	}
	if doc == nil {
		return r, true
	}
	return gjson.GetBytes(doc, l.path), true
}

// plain follows all other kinds.
func (l *locator) plain(x *exchange, doc []byte) (string, presence) {
	switch l.kind {
	case kindHeader:
		return single(x.req.Header[l.name])
	case kindQuery:
		return single(x.query()[l.name])
	case kindForm:
		return single(x.form()[l.name])
	case kindXML:
		if doc == nil {
			doc = x.plainBody()
		}
		return findXML(doc, l.name)
	case kindKey:
		return findKey(doc, l.name)
	case kindSig:
		return findEntry(x.sigText, x.sigSep, l.name)
	case kindText:
		return l.name, once
	case kindPath:
		return urlPath(x.url), once
	case kindBody:
		return string(x.req.Body), once
	case kindPlain:
		if x.plain == nil {
			return "", absent
		}
		return string(x.plain), once
	case kindURL:
		base, _, _ := strings.Cut(x.url, "?")
		return base, once
	case kindOption:
		s, ok := x.options[l.name]
		if !ok {
			return "", absent
		}
		return s, once
	default:
		return "", absent
	}
}

// single returns the one value there is.
func single(vs []string) (string, presence) {
	switch len(vs) {
	case 0:
		return "", absent
	case 1:
		return vs[0], once
	default:
		return "", many
	}
}

// scalar returns a JSON value as text: strings decoded, numbers and booleans as
// they are written; null, objects and arrays are nothing.
func scalar(r gjson.Result) (string, presence) {
	switch r.Type {
	case gjson.String:
		return r.Str, once
	case gjson.Number, gjson.True, gjson.False:
		return r.Raw, once
	default:
		return "", absent
	}
}

// findKey returns the first top-level key among the names.
func findKey(doc []byte, names string) (string, presence) {
	found := ""
	list := strings.Split(names, ",")
	gjson.ParseBytes(doc).ForEach(func(key, _ gjson.Result) bool {
		if key.Type == gjson.String && keyAmong(list, key.Str) {
			found = key.Str
			return false
		}
		return true
	})
	if found == "" {
		return "", absent
	}
	return found, once
}

func keyAmong(list []string, key string) bool {
	if strings.HasPrefix(list[0], "!") {
		return !slices.ContainsFunc(list, func(n string) bool { return keyIs(strings.TrimPrefix(n, "!"), key) })
	}
	return slices.ContainsFunc(list, func(n string) bool { return keyIs(n, key) })
}

func keyIs(name, key string) bool {
	switch {
	case strings.HasPrefix(name, "*"):
		return strings.HasSuffix(key, name[1:])
	case strings.HasSuffix(name, "*"):
		return strings.HasPrefix(key, name[:len(name)-1])
	default:
		return name == key
	}
}

// findEntry returns the value of a key in a signature's list.
func findEntry(text, sep, name string) (string, presence) {
	val, p := "", absent
	for more := text != ""; more; {
		var entry string
		entry, text, more = strings.Cut(text, sep)
		if key, v, ok := strings.Cut(strings.Trim(entry, " \t"), "="); ok && key == name {
			if p == once {
				return "", many
			}
			val, p = v, once
		}
	}
	return val, p
}

// urlPath returns the path of a URL.
func urlPath(u string) string {
	if _, rest, ok := strings.Cut(u, "://"); ok {
		i := strings.IndexAny(rest, "/?#")
		if i < 0 {
			return "/"
		}
		u = rest[i:]
	}
	u, _, _ = strings.Cut(u, "?")
	if u == "" {
		return "/"
	}
	return u
}

// source is a list of places of which the first that has something counts.
type source []locator

// parseSource parses places with `??` between.
func parseSource(s string) (source, error) {
	var out source
	for _, one := range strings.Split(s, "??") {
		l, err := parseLocator(strings.TrimSpace(one))
		if err != nil {
			return nil, err
		}
		out = append(out, l)
	}
	return out, nil
}

// find follows the places in order.
func (s source) find(x *exchange) (val string, at *locator, p presence) {
	for i := range s {
		if val, p = s[i].find(x, x.docFor(s[i])); p != absent {
			return val, &s[i], p
		}
	}
	return "", nil, absent
}

// String returns the places as they are written in a row.
func (s source) String() string {
	names := make([]string, len(s))
	for i, l := range s {
		names[i] = l.String()
	}
	return strings.Join(names, " ?? ")
}
