package forward

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"math/big"
	"net/url"
	"strconv"
	"strings"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/interpreter"

	"github.com/onceward/onceward/event"
)

// Subject is an event as conditions see it. It is used by one goroutine and
// ends with Close.
type Subject struct {
	ev  *event.Event
	raw []byte

	held           int // bytes of whereBudget
	opened         bool
	body           any
	headers, query any
}

var _ interpreter.Activation = (*Subject)(nil)

// NewSubject makes a subject of an event and its exact bytes.
func NewSubject(ev *event.Event, body []byte) *Subject { return &Subject{ev: ev, raw: body} }

// Close ends the subject.
func (s *Subject) Close() {
	if s.held > 0 {
		whereBudget.give(s.held)
	}
	s.held, s.opened, s.body = 0, false, nil
}

// open parses the body.
func (s *Subject) open() error {
	if s.opened {
		return nil
	}
	if len(s.raw) > MaxWhereBody {
		return ErrWhereSize
	}
	s.held = len(s.raw)
	whereBudget.take(s.held)
	s.opened, s.body = true, document(s.raw)
	return nil
}

// ResolveName is the value of a variable.
func (s *Subject) ResolveName(name string) (any, bool) {
	switch name {
	case "source":
		return s.ev.Source, true
	case "type":
		return s.ev.Type, true
	case "id":
		return s.ev.ID, true
	case "method":
		return methodOf(s.ev), true
	case "headers":
		if s.headers == nil {
			s.headers = headerMap(s.ev.Header)
		}
		return s.headers, true
	case "query":
		if s.query == nil {
			s.query = queryMap(s.ev.Query)
		}
		return s.query, true
	case "body":
		return s.body, s.opened
	}
	return nil, false
}

// Parent is nil: there is nothing beside the event.
func (s *Subject) Parent() interpreter.Activation { return nil }

// headerMap joins the values of one name as HTTP does.
func headerMap(fields []event.Field) map[string]string {
	m := make(map[string]string, len(fields))
	for _, f := range fields {
		name := strings.ToLower(f.Name)
		if old, ok := m[name]; ok {
			m[name] = old + ", " + f.Value
			continue
		}
		m[name] = f.Value
	}
	return m
}

// queryMap leaves out what is no query.
func queryMap(raw string) map[string][]string {
	m, _ := url.ParseQuery(raw)
	return m
}

// document is the JSON document of raw, null when there is none. Of two equal
// keys the last counts.
func document(raw []byte) any {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if dec.Decode(&v) != nil {
		return types.NullValue
	}
	if _, err := dec.Token(); err != io.EOF {
		return types.NullValue
	}
	return exact(v)
}

// exact replaces the numbers of a document, in place.
func exact(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, el := range v {
			v[k] = exact(el)
		}
	case []any:
		for i, el := range v {
			v[i] = exact(el)
		}
	case json.Number:
		return number(string(v))
	case nil:
		return types.NullValue
	}
	return v
}

// maxExponent bounds the work that the text of a number may ask for.
const maxExponent = 400

// number is a JSON number without a loss that a comparison could not see. Whole
// numbers of 64 bits are themselves, however they are written; others that have
// a fraction are the nearest double. What is left, larger whole numbers and
// fractions so large that their double is whole, is its own text: it equals
// nothing but that text, and to compare it by size is an error.
func number(text string) any {
	if i, err := strconv.ParseInt(text, 10, 64); err == nil {
		return i
	}
	if u, err := strconv.ParseUint(text, 10, 64); err == nil {
		return u
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || math.Abs(f) >= math.MaxUint64 {
		return text
	}
	if f != math.Trunc(f) {
		return f
	}
	if !strings.ContainsAny(text, ".eE") {
		return text
	}
	return wholeNumber(text)
}

// wholeNumber is a number whose double is whole: it may be so itself.
func wholeNumber(text string) any {
	if i := strings.IndexAny(text, "eE"); i >= 0 {
		if strings.Trim(text[:i], "-0.") == "" {
			return int64(0) // to whatever power
		}
		if exp, err := strconv.Atoi(text[i+1:]); err != nil || exp > maxExponent || exp < -maxExponent {
			return text
		}
	}
	r, ok := new(big.Rat).SetString(text)
	switch {
	case !ok || !r.IsInt():
		return text
	case r.Num().IsInt64():
		return r.Num().Int64()
	case r.Num().IsUint64():
		return r.Num().Uint64()
	}
	return text
}
