package audit

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"
)

// Redacted stands where a redacted value stood.
const Redacted = "[redacted]"

// ErrHidden says that a body can't be shown with its fields redacted, because
// it is not JSON, and so not at all without the right to see it raw.
var ErrHidden = errors.New("body is not JSON, and its source redacts fields")

// Redaction are the fields of a source's bodies that are not shown. A nil
// Redaction redacts nothing.
type Redaction struct{ paths [][]string }

// NewRedaction takes paths of keys with dots between, such as data.object.card;
// it is nil without any. In a list a path goes on in every element, and after a
// position in that one. Of a key that stands several times each is meant.
func NewRedaction(paths []string) *Redaction {
	if len(paths) == 0 {
		return nil
	}
	r := &Redaction{}
	for _, p := range paths {
		r.paths = append(r.paths, strings.Split(p, "."))
	}
	return r
}

// Covers reports whether a value at path, or a part of it, is redacted.
func (r *Redaction) Covers(path string) bool {
	if r == nil {
		return false
	}
	keys := strings.Split(path, ".")
	for _, p := range r.paths {
		if overlap(p, keys) {
			return true
		}
	}
	return false
}

// overlap reports whether two paths can lead to one value or into each other.
// Positions of lists are passed over, since a path may name them or not.
func overlap(a, b []string) bool {
	for len(a) > 0 && len(b) > 0 {
		switch {
		case a[0] == b[0]:
			a, b = a[1:], b[1:]
		case position(a[0]):
			a = a[1:]
		case position(b[0]):
			b = b[1:]
		default:
			return false
		}
	}
	return true
}

func position(s string) bool { return strings.Trim(s, "0123456789") == "" }

// Body is a JSON body with the values at the paths replaced, whatever they are,
// and every other byte as it was. Another body is ErrHidden.
func (r *Redaction) Body(b []byte) ([]byte, error) {
	if r == nil {
		return b, nil
	}
	if !json.Valid(b) {
		return nil, ErrHidden
	}
	w := redactor{in: b, out: make([]byte, 0, len(b))}
	w.value(r.paths)
	return append(w.out, w.in[w.at:]...), nil
}

// redactor copies a valid JSON text.
type redactor struct {
	in, out []byte
	at      int // up to here it is copied
}

// value copies one value, of which what is at the paths is redacted.
func (w *redactor) value(paths [][]string) {
	w.space()
	for _, p := range paths {
		if len(p) == 0 {
			w.at = w.end()
			w.out = append(w.out, `"`+Redacted+`"`...)
			return
		}
	}
	switch c := w.in[w.at]; {
	case len(paths) == 0 || c != '{' && c != '[':
		w.copy(w.end())
	case c == '{':
		w.members('}', func(int) [][]string {
			start := w.at
			w.copy(w.end())
			var key string
			if err := json.Unmarshal(w.in[start:w.at], &key); err != nil {
				return [][]string{{}} // a key that can't be read may be any
			}
			w.space()
			w.copy(w.at + 1) // the colon
			return below(paths, func(k string) bool { return k == key })
		})
	default:
		w.members(']', func(i int) [][]string {
			at := strconv.Itoa(i)
			return append(below(paths, func(k string) bool { return k == at }), paths...)
		})
	}
}

// below are the rests of those paths whose next key is taken.
func below(paths [][]string, take func(string) bool) (out [][]string) {
	for _, p := range paths {
		if take(p[0]) {
			out = append(out, p[1:])
		}
	}
	return out
}

// members copies what is between two brackets; next stands before each member
// and copies up to its value.
func (w *redactor) members(closing byte, next func(i int) [][]string) {
	w.copy(w.at + 1)
	for i := 0; ; i++ {
		w.space()
		if w.in[w.at] == closing {
			w.copy(w.at + 1)
			return
		}
		w.value(next(i))
		w.space()
		if w.in[w.at] == ',' {
			w.copy(w.at + 1)
		}
	}
}

func (w *redactor) copy(to int) {
	w.out = append(w.out, w.in[w.at:to]...)
	w.at = to
}

func (w *redactor) space() {
	to := w.at
	for to < len(w.in) && strings.IndexByte(" \t\r\n", w.in[to]) >= 0 {
		to++
	}
	w.copy(to)
}

// end is the index after the value that begins here.
func (w *redactor) end() int {
	depth := 0
	for i := w.at; i < len(w.in); i++ {
		switch c := w.in[i]; {
		case c == '"':
			for i++; w.in[i] != '"'; i++ {
				if w.in[i] == '\\' {
					i++
				}
			}
			if depth == 0 {
				return i + 1
			}
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			if depth == 0 {
				return i
			}
			if depth--; depth == 0 {
				return i + 1
			}
		case depth == 0 && strings.IndexByte(", \t\r\n:", c) >= 0:
			return i
		}
	}
	return len(w.in)
}
