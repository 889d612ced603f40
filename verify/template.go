package verify

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// partKind is what one part of a signed template stands for.
type partKind uint8

const (
	partLiteral partKind = iota
	partBody
	partTimestamp
	partID
	partURL
	partURLDecoded
	partMethod
	partForm
	partSecret
	partLocator
)

// templateNames are the names a signed template may use beside locators.
var templateNames = map[string]partKind{
	"body": partBody, "timestamp": partTimestamp, "id": partID, "url": partURL,
	"url_decoded": partURLDecoded, "method": partMethod, "form": partForm, "secret": partSecret,
}

// part is one piece of a template.
type part struct {
	kind partKind
	lit  []byte
	loc  locator
}

// template is the parsed description of the signed bytes. It is made once at
// load; at request time its parts are written one after the other, and nothing
// that a request holds is ever read as a template.
type template []part

// parseTemplate parses literals and {names}. A literal brace can't be written:
// no known scheme signs one.
func parseTemplate(s string) (template, error) {
	var t template
	for rest := s; rest != ""; {
		i := strings.IndexAny(rest, "{}")
		if i < 0 {
			return append(t, part{lit: []byte(rest)}), nil
		}
		if i > 0 {
			t = append(t, part{lit: []byte(rest[:i])})
		}
		end := strings.IndexByte(rest, '}')
		if rest[i] == '}' || end < 0 {
			return nil, fmt.Errorf("template %q: unbalanced brace", s)
		}
		p, err := parsePart(rest[i+1 : end])
		if err != nil {
			return nil, fmt.Errorf("template %q: %w", s, err)
		}
		t = append(t, p)
		rest = rest[end+1:]
	}
	return t, nil
}

func parsePart(name string) (part, error) {
	if k, ok := templateNames[name]; ok {
		return part{kind: k}, nil
	}
	if strings.Contains(name, ":") {
		l, err := parseLocator(name)
		return part{kind: partLocator, loc: l}, err
	}
	return part{}, fmt.Errorf("unknown name {%s}: want body, timestamp, id, url, url_decoded, method, form, "+
		"header:X, query:x, json:a.b or form:x", name)
}

// has reports whether the template holds a part of that kind.
func (t template) has(k partKind) bool {
	return slices.ContainsFunc(t, func(p part) bool { return p.kind == k })
}

// covers reports whether the value the locator finds is among the signed bytes.
func (t template) covers(l locator) bool {
	for _, p := range t {
		switch {
		case p.kind == partBody && l.kind != kindHeader && l.kind != kindQuery,
			p.kind == partForm && (l.kind == kindForm || l.kind == kindFormJSON),
			(p.kind == partURL || p.kind == partURLDecoded) && l.kind == kindQuery,
			p.kind == partLocator && p.loc == l:
			return true
		}
	}
	return false
}

// write sends the signed bytes to every writer. It returns the name of the first
// part that is absent, or "".
func (t template) write(x *exchange, ws ...io.Writer) (missing string) {
	for i := range t {
		b, ok := t[i].bytes(x)
		if !ok {
			return t[i].loc.String()
		}
		for _, w := range ws {
			_, _ = w.Write(b) // hashes never fail
		}
	}
	return ""
}

// bytes returns what the part stands for; valid until the next call.
func (p *part) bytes(x *exchange) ([]byte, bool) {
	switch p.kind {
	case partLiteral:
		return p.lit, true
	case partBody:
		return x.req.Body, true
	case partSecret:
		return x.secret, true
	case partForm:
		x.buf = appendSortedForm(x.buf[:0], x.form())
		return x.buf, true
	case partLocator:
		s, found := p.loc.find(x, x.docFor(p.loc))
		x.buf = append(x.buf[:0], s...)
		return x.buf, found == once
	default:
		x.buf = append(x.buf[:0], p.text(x)...)
		return x.buf, true
	}
}

func (p *part) text(x *exchange) string {
	switch p.kind {
	case partTimestamp:
		return x.timestamp
	case partID:
		return x.id
	case partURL:
		return x.url
	case partURLDecoded:
		return decodeURL(x.url)
	default:
		return x.req.Method
	}
}

// docFor returns the document a locator needs, sparing the check of the body
// where it looks elsewhere.
func (x *exchange) docFor(l locator) []byte {
	if l.kind != kindJSON {
		return nil
	}
	return x.doc()
}

// decodedEscapes are the escapes that HubSpot decodes before it signs a URL.
var decodedEscapes = strings.NewReplacer("%3A", ":", "%3a", ":", "%2F", "/", "%2f", "/", "%3F", "?", "%3f", "?",
	"%40", "@", "%21", "!", "%24", "$", "%27", "'", "%28", "(", "%29", ")", "%2A", "*", "%2a", "*",
	"%2C", ",", "%2c", ",", "%3B", ";", "%3b", ";")

func decodeURL(u string) string { return decodedEscapes.Replace(u) }

// appendSortedForm appends the form's fields in the order of their names, each
// name followed by its distinct values in order, without separators.
func appendSortedForm(b []byte, form map[string][]string) []byte {
	names := make([]string, 0, len(form))
	for name := range form {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		vals := slices.Clone(form[name])
		slices.Sort(vals)
		for _, v := range slices.Compact(vals) {
			b = append(append(b, name...), v...)
		}
	}
	return b
}
