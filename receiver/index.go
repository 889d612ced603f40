package receiver

import (
	"net/http"

	"github.com/onceward/onceward/event"
	"github.com/onceward/onceward/verify"
)

// The bounds of indexed fields.
const (
	MaxIndexed      = 8   // fields of one source
	MaxIndexedValue = 256 // bytes of a value; a longer one is left out
)

// Index are the fields that a source's events are found by, prepared. Nil
// means that there are none.
type Index struct {
	names  []string // in their order
	fields []Field
	paths  []verify.Path // of those in the body, zero for the others
}

// NewIndex prepares the fields of those names, which are as many.
func NewIndex(names []string, fields []Field) *Index {
	x := &Index{names: names, fields: fields, paths: make([]verify.Path, len(fields))}
	for i := range fields {
		if fields[i].kind == fieldBody {
			x.paths[i] = fields[i].path
		}
	}
	return x
}

// of are the fields of an event, and how many were left out because their
// value is no scalar or too long. What an event doesn't hold is not a field.
func (x *Index) of(ev *event.Event, header http.Header, body []byte) (out []event.Field, left int) {
	if x == nil {
		return nil, 0
	}
	var values [MaxIndexed]string
	var there [MaxIndexed]bool
	verify.FindEach(body, x.paths, func(i int, value string, scalar bool) {
		values[i], there[i] = value, scalar
		if !scalar {
			left++
		}
	})
	for i, name := range x.names {
		if f := &x.fields[i]; f.kind != fieldBody {
			values[i] = f.value(ev, header, nil)
			there[i] = values[i] != ""
		}
		switch {
		case !there[i]:
		case len(values[i]) > MaxIndexedValue:
			left++
		default:
			if out == nil {
				out = make([]event.Field, 0, len(x.names))
			}
			out = append(out, event.Field{Name: name, Value: values[i]})
		}
	}
	return out, left
}
