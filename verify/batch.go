package verify

import "github.com/tidwall/gjson"

// array returns where the batch's array begins in the body, or -1. The body must
// be valid JSON.
func (b *Batch) array(body []byte) int {
	if b.Path == "" {
		if i := skipSpace(body, 0); i < len(body) && body[i] == '[' {
			return i
		}
		return -1
	}
	r := gjson.GetBytes(body, b.Path)
	if !r.IsArray() || r.Index <= 0 || r.Index >= len(body) || body[r.Index] != '[' {
		return -1
	}
	return r.Index
}

// elements calls each for every element of the array that begins at body[i],
// with its exact bounds, until it returns false. The body must be valid JSON.
func elements(body []byte, i int, each func(start, end int) bool) {
	i = skipSpace(body, i+1)
	for i < len(body) && body[i] != ']' {
		end := skipValue(body, i)
		if !each(i, end) {
			return
		}
		if i = skipSpace(body, end); i < len(body) && body[i] == ',' {
			i = skipSpace(body, i+1)
		}
	}
}

// skipValue returns the end of the JSON value that begins at b[i].
func skipValue(b []byte, i int) int {
	switch b[i] {
	case '"':
		return skipString(b, i)
	case '[', '{':
		return skipNested(b, i)
	}
	for i < len(b) && b[i] != ',' && b[i] != ']' && b[i] != '}' && !isSpace(b[i]) {
		i++
	}
	return i
}

func skipString(b []byte, i int) int {
	for i++; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(b)
}

func skipNested(b []byte, i int) int {
	for depth := 0; i < len(b); {
		switch b[i] {
		case '"':
			i = skipString(b, i)
			continue
		case '[', '{':
			depth++
		case ']', '}':
			if depth--; depth == 0 {
				return i + 1
			}
		}
		i++
	}
	return len(b)
}

func skipSpace(b []byte, i int) int {
	for i < len(b) && isSpace(b[i]) {
		i++
	}
	return i
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }
