package verify

import (
	"reflect"
	"strings"
	"testing"

	"github.com/pelletier/go-toml/v2"
)

// TestRowsAsTOML prints every row and reads it back: a built-in row is a start for
// one's own.
func TestRowsAsTOML(t *testing.T) {
	t.Parallel()
	for _, row := range Providers() {
		text, err := toml.Marshal(row)
		if err != nil {
			t.Errorf("%s: %v", row.Name, err)
			continue
		}
		var got Row
		dec := toml.NewDecoder(strings.NewReader(string(text))).DisallowUnknownFields()
		if err := dec.Decode(&got); err != nil {
			t.Errorf("%s: %v in\n%s", row.Name, err, text)
			continue
		}
		if !reflect.DeepEqual(normal(got), normal(row)) {
			t.Errorf("%s: became\n%+v\nfrom\n%s", row.Name, got, text)
		}
		if err := got.Validate(); err != nil {
			t.Errorf("%s: as TOML: %v", row.Name, err)
		}
	}
}

// normal makes empty and absent lists the same.
func normal(r Row) Row {
	var walk func(v reflect.Value)
	walk = func(v reflect.Value) {
		switch v.Kind() {
		case reflect.Pointer:
			if !v.IsNil() {
				walk(v.Elem())
			}
		case reflect.Struct:
			for i := range v.NumField() {
				walk(v.Field(i))
			}
		case reflect.Slice:
			if v.Len() == 0 {
				v.SetZero()
			}
			for i := range v.Len() {
				walk(v.Index(i))
			}
		case reflect.Map:
			if v.Len() == 0 {
				v.SetZero()
			}
		}
	}
	r = r.clone()
	walk(reflect.ValueOf(&r))
	return r
}
