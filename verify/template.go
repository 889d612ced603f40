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
	partPath
	partBodyBase64
	partCRC32
	partFormJSON
	partFormPHP
	partSortedQuery
	partBodySHA256
	partBodyASCII
	partSorted
	partListed
	partNone
	partLocator
)

// templateNames are the names a signed template may use beside locators.
var templateNames = map[string]partKind{
	"body": partBody, "timestamp": partTimestamp, "id": partID, "url": partURL,
	"url_decoded": partURLDecoded, "method": partMethod, "form": partForm, "secret": partSecret,
	"path": partPath, "body_base64": partBodyBase64, "crc32": partCRC32, "form_json": partFormJSON,
	"sorted_query": partSortedQuery, "body_sha256": partBodySHA256, "body_ascii": partBodyASCII,
}

// templateWords are the words that stand before places in a template.
var templateWords = map[string]partKind{
	"form_php": partFormPHP, "sorted": partSorted, "listed": partListed, "none": partNone,
}

// part is one piece of a template.
type part struct {
	kind   partKind
	lit    []byte
	src    source // of a locator, a listed or a none
	name   string // the field a form_php leaves out
	sorted []part // of a sorted
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
	if word, arg, ok := strings.Cut(name, ":"); ok {
		if k, ok := templateWords[word]; ok {
			return parseWord(k, arg)
		}
		src, err := parsePlaces(name)
		return part{kind: partLocator, src: src}, err
	}
	if strings.Contains(name, "??") {
		src, err := parsePlaces(name)
		return part{kind: partLocator, src: src}, err
	}
	return part{}, fmt.Errorf("unknown name {%s}: want body, timestamp, id, url, method, form, path, secret "+
		"or another documented one, or a locator such as header:X", name)
}

// parsePlaces parses places of which `body` is one.
func parsePlaces(s string) (source, error) {
	list := strings.Split(s, "??")
	for i, one := range list {
		if list[i] = strings.TrimSpace(one); list[i] == "body" {
			list[i] = "body:"
		}
	}
	return parseSource(strings.Join(list, "??"))
}

func parseWord(k partKind, arg string) (part, error) {
	p := part{kind: k, name: arg}
	var err error
	switch k {
	case partFormPHP:
		if arg == "" {
			err = fmt.Errorf("form_php: wants the field that is left out")
		}
	case partSorted:
		for _, one := range strings.Split(arg, ",") {
			var sub part
			if sub, err = parsePart(strings.TrimSpace(one)); err != nil {
				return p, err
			}
			p.sorted = append(p.sorted, sub)
		}
	default:
		p.src, err = parsePlaces(arg)
	}
	return p, err
}

// has reports whether the template holds a part of that kind.
func (t template) has(k partKind) bool {
	return slices.ContainsFunc(t, func(p part) bool { return p.kind == k || template(p.sorted).has(k) })
}

// coversBody reports whether all of the body is among the signed bytes.
func (t template) coversBody() bool {
	for _, p := range t {
		switch p.kind {
		case partBody, partBodyBase64, partBodySHA256, partBodyASCII, partForm, partFormJSON, partFormPHP:
			return true
		case partLocator:
			if slices.ContainsFunc(p.src, func(l locator) bool { return l.kind == kindBody && l.path == "" }) {
				return true
			}
		}
	}
	return false
}

// covers reports whether the value the locator finds is among the signed bytes.
func (t template) covers(l locator) bool {
	for _, p := range t {
		switch p.kind {
		case partBody, partBodyBase64, partBodySHA256, partBodyASCII:
			if l.inBody() {
				return true
			}
		case partForm, partFormJSON, partFormPHP:
			if l.kind == kindForm {
				return true
			}
		case partURL, partURLDecoded, partPath, partSortedQuery:
			if l.kind == kindQuery {
				return true
			}
		case partSorted:
			if template(p.sorted).covers(l) {
				return true
			}
		case partLocator:
			for _, s := range p.src {
				if s.same(l) || s.kind == kindBody && s.path == "" && l.inBody() || s.contains(l) {
					return true
				}
			}
		}
	}
	return false
}

// contains reports whether m looks inside what l finds.
func (l locator) contains(m locator) bool {
	return strings.HasPrefix(m.whole, l.whole+"|")
}

// write sends the signed bytes to every writer. It returns the name of the first
// part that is absent, or "".
func (t template) write(x *exchange, ws ...io.Writer) (missing string) {
	for i := range t {
		b, ok := t[i].bytes(x)
		if !ok {
			return t[i].label()
		}
		for _, w := range ws {
			_, _ = w.Write(b) // hashes never fail
		}
	}
	return ""
}

// label names the part for the operator.
func (p *part) label() string {
	switch p.kind {
	case partLocator, partListed, partNone:
		return p.src.String()
	case partFormJSON, partFormPHP, partForm:
		return "the form"
	default:
		return "a part"
	}
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
	case partLocator:
		s, _, found := p.src.find(x)
		x.buf = append(x.buf[:0], s...)
		return x.buf, found == once
	case partNone:
		_, _, found := p.src.find(x)
		return nil, found == absent
	case partTimestamp, partID, partURL, partURLDecoded, partMethod, partPath:
		x.buf = append(x.buf[:0], p.text(x)...)
		return x.buf, true
	default:
		ok := p.derive(x)
		return x.buf, ok
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
	case partPath:
		return requestTarget(x.url)
	default:
		return x.req.Method
	}
}

// docFor returns the document a locator needs, sparing the check of the body
// where it looks elsewhere.
func (x *exchange) docFor(l locator) []byte {
	if l.kind != kindJSON && l.kind != kindKey {
		return nil
	}
	return x.doc()
}

// decodedEscapes are the escapes that HubSpot decodes before it signs a URL.
var decodedEscapes = strings.NewReplacer("%3A", ":", "%3a", ":", "%2F", "/", "%2f", "/", "%3F", "?", "%3f", "?",
	"%40", "@", "%21", "!", "%24", "$", "%27", "'", "%28", "(", "%29", ")", "%2A", "*", "%2a", "*",
	"%2C", ",", "%2c", ",", "%3B", ";", "%3b", ";")

func decodeURL(u string) string { return decodedEscapes.Replace(u) }

// requestTarget returns the path and query of a URL.
func requestTarget(u string) string {
	p := urlPath(u)
	if _, q, ok := strings.Cut(u, "?"); ok {
		return p + "?" + q
	}
	return p
}
