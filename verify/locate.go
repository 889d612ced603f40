package verify

import (
	"fmt"
	"net/http"
	"net/textproto"
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
	kindFormJSON
)

// kindNames are the words before the colon, in the order of the kinds they name.
var kindNames = [...]string{kindHeader: "header:", kindQuery: "query:", kindForm: "form:", kindJSON: "json:"}

// locator is a parsed place in a request.
type locator struct {
	kind kind
	name string // header (canonical), parameter or field
	path string // JSON path
}

// parseLocator parses one place, such as `json:data.id`.
func parseLocator(s string) (locator, error) {
	for k, prefix := range kindNames {
		rest, ok := strings.CutPrefix(s, prefix)
		if !ok {
			continue
		}
		return newLocator(kind(k), rest, s)
	}
	return locator{}, fmt.Errorf("locator %q: want header:NAME, query:NAME, form:FIELD or json:PATH", s)
}

func newLocator(k kind, rest, whole string) (locator, error) {
	l := locator{kind: k, name: rest}
	switch k {
	case kindHeader:
		if !validHeaderName(rest) {
			return l, fmt.Errorf("locator %q: not a header name", whole)
		}
		l.name = http.CanonicalHeaderKey(rest)
	case kindJSON:
		l.name, l.path = "", rest
	case kindForm:
		if field, path, ok := strings.Cut(rest, "|json:"); ok {
			l = locator{kind: kindFormJSON, name: field, path: path}
		}
	}
	if l.kind == kindJSON || l.kind == kindFormJSON {
		if !validPath(l.path) {
			return l, fmt.Errorf("locator %q: a JSON path is keys of letters, digits, _, - and $ with dots between", whole)
		}
	}
	if l.kind != kindJSON && (l.name == "" || strings.ContainsAny(l.name, "=|{}")) {
		return l, fmt.Errorf("locator %q: not a name", whole)
	}
	return l, nil
}

// validHeaderName reports whether s is an HTTP token without the underscore,
// which no header that passes has.
func validHeaderName(s string) bool {
	if s == "" {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if !isAlnum(c) && c != '-' && c != '.' {
			return false
		}
	}
	return textproto.TrimString(s) == s
}

// validPath keeps paths free of everything that the JSON library gives a meaning
// of its own: wildcards, queries, modifiers, escapes.
func validPath(p string) bool {
	if p == "" || p[0] == '.' || p[len(p)-1] == '.' || strings.Contains(p, "..") {
		return false
	}
	for i := range len(p) {
		c := p[i]
		if !isAlnum(c) && c != '_' && c != '-' && c != '$' && c != '.' {
			return false
		}
	}
	return true
}

func isAlnum(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

// String returns the locator as it is written in a row.
func (l locator) String() string {
	switch l.kind {
	case kindJSON:
		return "json:" + l.path
	case kindFormJSON:
		return "form:" + l.name + "|json:" + l.path
	default:
		return kindNames[l.kind] + l.name
	}
}

// needsJSON reports whether the locator can only be followed in a JSON body.
func (l locator) needsJSON() bool { return l.kind == kindJSON }

// presence is how often a value was found. Twice is never taken for once.
type presence uint8

const (
	absent presence = iota
	once
	many
)

// find follows the locator. JSON paths are followed in doc, which is the body or
// one element of it, and which the caller knows to be valid JSON.
func (l locator) find(x *exchange, doc []byte) (string, presence) {
	switch l.kind {
	case kindHeader:
		return single(x.req.Header[l.name])
	case kindQuery:
		return single(x.query()[l.name])
	case kindForm:
		return single(x.form()[l.name])
	case kindFormJSON:
		field, p := single(x.form()[l.name])
		if p != once || checkJSON([]byte(field)) != jsonValid {
			return "", absent
		}
		return scalar(gjson.Get(field, l.path))
	default:
		if doc == nil {
			return "", absent
		}
		return scalar(gjson.GetBytes(doc, l.path))
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
