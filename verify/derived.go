package verify

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"hash/crc32"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// maxListed bounds the headers a request may name as signed.
const maxListed = 64

// derive writes to x.buf what a part stands for that is not in the request as it
// is: the provider signs a form of it that can be made in one way only.
func (p *part) derive(x *exchange) bool {
	x.buf = x.buf[:0]
	switch p.kind {
	case partForm:
		x.buf = appendSortedForm(x.buf, x.form())
	case partBodyBase64:
		x.buf = base64.StdEncoding.AppendEncode(x.buf, x.req.Body)
	case partCRC32:
		x.buf = strconv.AppendUint(x.buf, uint64(crc32.ChecksumIEEE(x.req.Body)), 10)
	case partBodySHA256:
		sum := sha256.Sum256(x.req.Body)
		x.buf = append(x.buf, sum[:]...)
	case partBodyASCII:
		if !utf8.Valid(x.req.Body) {
			return false
		}
		for _, r := range string(x.req.Body) {
			x.buf = appendASCII(x.buf, r)
		}
	case partSortedQuery:
		x.buf = append(x.buf, x.query().Encode()...)
	case partFormJSON:
		return x.appendFormJSON()
	case partFormPHP:
		return x.appendFormPHP(p.name)
	case partSorted:
		return x.appendSorted(p.sorted)
	default:
		return x.appendListed(p.src)
	}
	return true
}

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

// field is one field of a form, in its place.
type field struct{ name, value string }

// fields returns a URL-encoded form in the order it was sent; ok is false where it
// is none or can't be parsed.
func (x *exchange) fields() (list []field, ok bool) {
	if !isForm(x.req) || x.form() == nil {
		return nil, false
	}
	for _, pair := range strings.Split(string(x.req.Body), "&") {
		if pair == "" {
			continue
		}
		k, v, _ := strings.Cut(pair, "=")
		name, err := url.QueryUnescape(k)
		val, verr := url.QueryUnescape(v)
		if err != nil || verr != nil {
			return nil, false
		}
		list = append(list, field{name, val})
	}
	return list, true
}

// appendFormJSON writes the form as a JSON object whose values are all strings,
// with a blank after commas and colons and everything beyond ASCII escaped. A
// field sent twice has no such form.
func (x *exchange) appendFormJSON() bool {
	list, ok := x.fields()
	if !ok {
		return false
	}
	seen := make(map[string]bool, len(list))
	x.buf = append(x.buf, '{')
	for i, f := range list {
		if seen[f.name] {
			return false
		}
		seen[f.name] = true
		if i > 0 {
			x.buf = append(x.buf, ", "...)
		}
		x.buf = appendASCIIJSON(x.buf, f.name)
		x.buf = append(x.buf, ": "...)
		x.buf = appendASCIIJSON(x.buf, f.value)
	}
	x.buf = append(x.buf, '}')
	return true
}

// appendASCIIJSON writes a JSON string in ASCII.
func appendASCIIJSON(b []byte, s string) []byte {
	b = append(b, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case r == '\n':
			b = append(b, '\\', 'n')
		case r == '\r':
			b = append(b, '\\', 'r')
		case r == '\t':
			b = append(b, '\\', 't')
		case r == '\b':
			b = append(b, '\\', 'b')
		case r == '\f':
			b = append(b, '\\', 'f')
		case r < 0x20 || r == 0x7f:
			b = fmt.Appendf(b, "\\u%04x", r)
		default:
			b = appendASCII(b, r)
		}
	}
	return append(b, '"')
}

// appendASCII writes what is beyond ASCII as JSON's escapes.
func appendASCII(b []byte, r rune) []byte {
	switch {
	case r < 0x80:
		return append(b, byte(r))
	case r > 0xffff:
		hi, lo := utf16.EncodeRune(r)
		return fmt.Appendf(b, "\\u%04x\\u%04x", hi, lo)
	default:
		return fmt.Appendf(b, "\\u%04x", r)
	}
}

// appendFormPHP writes all fields but one as PHP's serialize does an array of
// strings, sorted by name. A field sent twice has no such form.
func (x *exchange) appendFormPHP(without string) bool {
	form := x.form()
	if form == nil {
		return false
	}
	names := make([]string, 0, len(form))
	for name, vals := range form {
		if len(vals) != 1 {
			return false
		}
		if name != without {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	x.buf = fmt.Appendf(x.buf, "a:%d:{", len(names))
	for _, name := range names {
		x.buf = appendPHP(appendPHP(x.buf, name), form[name][0])
	}
	x.buf = append(x.buf, '}')
	return true
}

func appendPHP(b []byte, s string) []byte {
	b = append(b, "s:"...)
	b = strconv.AppendInt(b, int64(len(s)), 10)
	b = append(b, `:"`...)
	b = append(b, s...)
	return append(b, `";`...)
}

// appendSorted writes the values in the order of their text.
func (x *exchange) appendSorted(parts []part) bool {
	vals := make([]string, 0, len(parts))
	for i := range parts {
		b, ok := parts[i].bytes(x)
		if !ok {
			return false
		}
		vals = append(vals, string(b))
	}
	slices.Sort(vals)
	x.buf = x.buf[:0]
	for _, v := range vals {
		x.buf = append(x.buf, v...)
	}
	return true
}

// appendListed writes the values of the headers that the request names, with dots
// between. The names themselves have to be signed as well.
func (x *exchange) appendListed(src source) bool {
	list, _, p := src.find(x)
	if p == many {
		return false
	}
	names := strings.FieldsFunc(list, func(r rune) bool { return r == ' ' || r == ',' })
	if len(names) > maxListed {
		return false
	}
	x.buf = x.buf[:0]
	for i, name := range names {
		v, p := single(x.req.Header[http.CanonicalHeaderKey(name)])
		if p != once {
			return false
		}
		if i > 0 {
			x.buf = append(x.buf, '.')
		}
		x.buf = append(x.buf, v...)
	}
	return true
}
