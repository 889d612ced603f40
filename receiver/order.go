package receiver

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/onceward/onceward/event"
	"github.com/onceward/onceward/verify"
)

// Field reads one value of an authentic event.
type Field struct {
	name string // of an event's own field, header or parameter
	kind fieldKind
	path verify.Path
}

type fieldKind uint8

const (
	fieldBody fieldKind = iota
	fieldEvent
	fieldHeader
	fieldQuery
)

// ParseField reads what names a field: source, type, id or caller for what is
// known of the event, header:NAME, query:NAME, and else a path in the JSON
// body, which body: may stand before.
func ParseField(s string) (Field, error) {
	switch s {
	case "source", "type", "id", "caller":
		return Field{kind: fieldEvent, name: s}, nil
	case "":
		return Field{}, fmt.Errorf("no field is named")
	}
	if name, ok := strings.CutPrefix(s, "header:"); ok {
		if !httpguts.ValidHeaderFieldName(name) {
			return Field{}, fmt.Errorf("%q is not a header name", name)
		}
		return Field{kind: fieldHeader, name: http.CanonicalHeaderKey(name)}, nil
	}
	if name, ok := strings.CutPrefix(s, "query:"); ok {
		if name == "" {
			return Field{}, fmt.Errorf("no parameter is named")
		}
		return Field{kind: fieldQuery, name: name}, nil
	}
	path, err := verify.ParsePath(strings.TrimPrefix(s, "body:"))
	return Field{path: path}, err
}

// value is what the field holds, "" when it holds nothing, or several.
func (f *Field) value(ev *event.Event, header http.Header, body []byte) string {
	switch f.kind {
	case fieldEvent:
		return own(ev, f.name)
	case fieldHeader:
		if v := header[f.name]; len(v) == 1 {
			return v[0]
		}
		return ""
	case fieldQuery:
		q, _ := url.ParseQuery(ev.Query) // what can't be parsed is not there
		if v := q[f.name]; len(v) == 1 {
			return v[0]
		}
		return ""
	}
	s, _ := f.path.Find(body)
	return s
}

func own(ev *event.Event, name string) string {
	switch name {
	case "source":
		return ev.Source
	case "type":
		return ev.Type
	case "id":
		return ev.ID
	}
	return ev.Caller
}

// Order says what a target's events are ordered by: those with the same value
// are delivered one after the other. An event without one is not ordered.
type Order struct {
	By   Field
	Skip bool // those behind a dead one go on
}

// orders are what ev is ordered by at each of its targets, nil when it is at
// none.
func (s *Source) orders(ev *event.Event, header http.Header, body []byte) (out []event.Order) {
	if len(s.Orders) == 0 {
		return nil
	}
	for i, name := range ev.Targets {
		o, ok := s.Orders[name]
		if !ok {
			continue
		}
		if key := o.By.value(ev, header, body); key != "" {
			if out == nil {
				out = make([]event.Order, len(ev.Targets))
			}
			out[i] = event.OrderOf(key, o.Skip)
		}
	}
	return out
}
