package audit

import (
	"encoding/json"
	"strings"
)

// maxNested is how deep JSON inside strings is looked into.
const maxNested = 3

// maskJSON replaces the values of credential fields, whatever they are, and
// keeps every other byte. It reads leniently, because what it gets is often
// only the beginning of a document, and no document at all comes out as it
// went in.
func maskJSON(s string, depth int) string {
	var b strings.Builder
	for i := 0; i < len(s); {
		quote := strings.IndexByte(s[i:], '"')
		if quote < 0 {
			b.WriteString(s[i:])
			break
		}
		b.WriteString(s[i : i+quote])
		i += quote
		end := stringEnd(s, i)
		token := s[i:end]
		val, isName := valueStart(s, end)
		switch {
		case !isName:
			b.WriteString(maskText(token, depth))
			i = end
		case Credential(unquote(token)):
			b.WriteString(s[i:val])
			i = valueEnd(s, val)
			b.WriteString(maskedValue(s[val:i]))
		default:
			b.WriteString(s[i:val])
			i = val
		}
	}
	return b.String()
}

// maskedValue keeps what can be no credential: null, booleans and nothing.
func maskedValue(v string) string {
	switch v {
	case "", "null", "true", "false", `""`:
		return v
	}
	return `"` + Masked + `"`
}

// maskText looks for JSON inside a string value.
func maskText(token string, depth int) string {
	if depth == 0 || len(token) < 4 || token[1] != '{' && token[1] != '[' {
		return token
	}
	inner := unquote(token)
	m := maskJSON(inner, depth-1)
	if m == inner {
		return token
	}
	out, err := json.Marshal(m)
	if err != nil {
		return `"` + Masked + `"`
	}
	return string(out)
}

// unquote is the text of a string token. Of one that was cut short it is the
// text up to the cut, less an escape the cut went through.
func unquote(token string) string {
	var out string
	for rest := token; ; {
		if json.Unmarshal([]byte(rest), &out) == nil || json.Unmarshal([]byte(rest+`"`), &out) == nil {
			return out
		}
		cut := strings.LastIndexByte(rest, '\\')
		if cut < len(token)-len(`\uXXXX\uXXXX`) || cut < 1 {
			return strings.Trim(token, `"`)
		}
		rest = rest[:cut]
	}
}

// stringEnd is the index after the closing quote of the string that opens at
// i, or the end of s.
func stringEnd(s string, i int) int {
	for i++; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(s)
}

// valueStart is the index of the value when a colon follows the string that
// ended at i.
func valueStart(s string, i int) (int, bool) {
	i = skipSpace(s, i)
	if i >= len(s) || s[i] != ':' {
		return 0, false
	}
	return skipSpace(s, i+1), true
}

func skipSpace(s string, i int) int {
	for i < len(s) && strings.IndexByte(" \t\r\n", s[i]) >= 0 {
		i++
	}
	return i
}

// valueEnd is the index after the value that starts at i: a string, a whole
// object or array, or anything up to the next separator.
func valueEnd(s string, i int) int {
	depth := 0
	for i < len(s) {
		switch c := s[i]; {
		case c == '"':
			i = stringEnd(s, i)
			if depth == 0 {
				return i
			}
			continue
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			if depth == 0 {
				return i
			}
			if depth--; depth == 0 {
				return i + 1
			}
		case depth == 0 && strings.IndexByte(", \t\r\n", c) >= 0:
			return i
		}
		i++
	}
	return len(s)
}
