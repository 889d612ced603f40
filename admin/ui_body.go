package admin

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"strings"
	"unicode/utf8"
)

// maxShownBody is how much of a body a page shows.
const maxShownBody = 256 << 10

// maxShownHex is how much of a body the hex view shows: each byte takes four
// characters there.
const maxShownHex = 64 << 10

// indentJSON lays JSON out one member a line and changes nothing else: every
// token stands as it came, numbers above all. It reads leniently, since what
// it gets may be cut off; what is no JSON at all comes back as it is, with
// false.
func indentJSON(s string) (string, bool) {
	t := strings.TrimLeft(s, " \t\r\n")
	if t == "" || t[0] != '{' && t[0] != '[' {
		return s, false
	}
	var b strings.Builder
	depth := 0
	line := func() {
		b.WriteByte('\n')
		for range min(depth, 64) {
			b.WriteString("  ")
		}
	}
	for i := 0; i < len(t); {
		switch c := t[i]; c {
		case ' ', '\t', '\r', '\n':
			i++
		case '{', '[':
			b.WriteByte(c)
			i++
			if j := i + len(t[i:]) - len(strings.TrimLeft(t[i:], " \t\r\n")); j < len(t) && t[j] == closing(c) {
				b.WriteByte(t[j])
				i = j + 1
				continue
			}
			depth++
			line()
		case '}', ']':
			depth = max(depth-1, 0)
			line()
			b.WriteByte(c)
			i++
		case ',':
			b.WriteByte(c)
			i++
			line()
		case ':':
			b.WriteString(": ")
			i++
		case '"':
			end := stringToken(t, i)
			b.WriteString(t[i:end])
			i = end
		default:
			end := i + strings.IndexAny(t[i:]+" ", " \t\r\n{}[],:\"")
			b.WriteString(t[i:end])
			i = end
		}
	}
	return b.String(), true
}

func closing(c byte) byte {
	if c == '{' {
		return '}'
	}
	return ']'
}

// stringToken is where the string that begins at i ends, or the text does.
func stringToken(s string, i int) int {
	for j := i + 1; j < len(s); j++ {
		switch s[j] {
		case '\\':
			j++
		case '"':
			return j + 1
		}
	}
	return len(s)
}

// formLines is an encoded form one parameter a line, as it was encoded.
func formLines(s string) string { return strings.ReplaceAll(s, "&", "&\n") }

// hexDump is bytes as offset, two groups of eight, and text.
func hexDump(b []byte) string {
	var out strings.Builder
	out.Grow(len(b) * 5)
	for off := 0; off < len(b); off += 16 {
		row := b[off:min(off+16, len(b))]
		fmt.Fprintf(&out, "%08x  ", off)
		for i := range 16 {
			if i < len(row) {
				out.WriteString(hex.EncodeToString(row[i : i+1]))
			} else {
				out.WriteString("  ")
			}
			out.WriteByte(' ')
			if i == 7 {
				out.WriteByte(' ')
			}
		}
		out.WriteByte(' ')
		for _, c := range row {
			if c < ' ' || c > '~' {
				c = '.'
			}
			out.WriteByte(c)
		}
		out.WriteByte('\n')
	}
	return out.String()
}

// bodyKind says what a body looks like.
func bodyKind(b []byte) string {
	t := bytes.TrimLeft(b, " \t\r\n")
	switch {
	case len(b) == 0:
		return "empty"
	case !utf8.Valid(b):
		return "not UTF-8"
	case len(t) > 0 && (t[0] == '{' || t[0] == '['):
		return "UTF-8 JSON"
	case len(t) > 0 && t[0] == '<':
		return "UTF-8 XML"
	}
	return "UTF-8 text"
}

// cutUTF8 is at most n bytes of b that end between two characters.
func cutUTF8(b []byte, n int) []byte {
	if len(b) <= n {
		return b
	}
	for i := n; i > n-utf8.UTFMax && i > 0; i-- {
		if utf8.RuneStart(b[i]) {
			return b[:i]
		}
	}
	return b[:n]
}
