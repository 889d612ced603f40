package gateway

import (
	"encoding"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/onceward/onceward/verify"
)

// decoder fills structs from a tree by their toml tags. Unlike a decoder that
// stops at the first value of a wrong type it goes on and reports them all.
type decoder struct{ rep *report }

var (
	timeType   = reflect.TypeFor[time.Time]()
	secretType = reflect.TypeFor[SecretConfig]()
	textType   = reflect.TypeFor[encoding.TextUnmarshaler]()
	sizeType   = reflect.TypeFor[Size]()
	spanType   = reflect.TypeFor[verify.Duration]()
)

// value fills v from n.
func (d *decoder) value(n *node, v reflect.Value) {
	switch {
	case v.Type() == timeType:
		d.time(n, v)
	case v.Type() == secretType && n.kind == kindString:
		v.Set(reflect.ValueOf(SecretConfig{Value: verify.NewSecretString(n.text), unset: len(n.unset) > 0, written: n.written}))
	case v.Type() == sizeType && n.kind == kindInt:
		d.text(n, v)
	case v.Type() == spanType:
		var span Duration
		d.value(n, reflect.ValueOf(&span).Elem())
		v.SetInt(int64(span))
	case v.Kind() == reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		d.value(n, v.Elem())
	case reflect.PointerTo(v.Type()).Implements(textType) && v.Type() != secretType:
		if d.want(n, kindString) {
			d.text(n, v)
		}
	default:
		d.plain(n, v)
	}
}

// plain fills v by its kind.
func (d *decoder) plain(n *node, v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		if d.want(n, kindTable) {
			d.table(n, v)
		}
	case reflect.Slice:
		if d.want(n, kindArray) {
			v.Set(reflect.MakeSlice(v.Type(), len(n.list), len(n.list)))
			for i, el := range n.list {
				d.value(el, v.Index(i))
			}
		}
	case reflect.Map:
		if d.want(n, kindTable) {
			v.Set(reflect.MakeMap(v.Type()))
			for _, k := range n.keys {
				el := reflect.New(v.Type().Elem()).Elem()
				d.value(n.table[k], el)
				v.SetMapIndex(reflect.ValueOf(k), el)
			}
		}
	case reflect.String:
		if d.want(n, kindString) {
			v.SetString(n.text)
		}
	case reflect.Bool:
		if d.want(n, kindBool) {
			v.SetBool(n.text == "true")
		}
	case reflect.Int:
		d.int(n, v)
	case reflect.Int64: // the row's own spelling of a Size
		var size Size
		d.value(n, reflect.ValueOf(&size).Elem())
		v.SetInt(int64(size))
	case reflect.Float64:
		d.float(n, v)
	default:
		panic("gateway: no TOML for " + v.Type().String())
	}
}

// want reports a value of a wrong type.
func (d *decoder) want(n *node, k kind) bool {
	if n.kind == k {
		return true
	}
	d.rep.at(n, "is "+n.kind.String(), "want "+k.String())
	n.bad = true
	return false
}

// table fills a struct and reports the keys it has no field for.
func (d *decoder) table(n *node, v reflect.Value) {
	fields := map[string]reflect.Value{}
	names := fieldsOf(v, fields)
	for _, k := range n.keys {
		el := n.table[k]
		if f, ok := fields[k]; ok {
			d.value(el, f)
			continue
		}
		at := el
		if el.key != nil {
			at = el.key
		}
		d.rep.at(at, "unknown key "+strconv.Quote(k), meant(k, names, "known here: "+strings.Join(names, ", ")))
	}
	if v.Type() == secretType {
		el := n.get("value")
		if el == nil {
			d.rep.at(n, "has no value", `write value = "${env:NAME}"`)
			n.bad = true
			return
		}
		s := v.Addr().Interface().(*SecretConfig)
		s.unset, s.written = len(el.unset) > 0, el.written
	}
}

// fieldsOf fills in the fields of a struct by their keys, those of embedded
// structs among them, and returns the keys in order.
func fieldsOf(v reflect.Value, fields map[string]reflect.Value) (names []string) {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("toml"), ",")
		switch {
		case name != "":
			fields[name] = v.Field(i)
			names = append(names, name)
		case f.Anonymous && f.IsExported() && f.Type.Kind() == reflect.Struct:
			names = append(names, fieldsOf(v.Field(i), fields)...)
		}
	}
	return names
}

func (d *decoder) text(n *node, v reflect.Value) {
	if err := v.Addr().Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(n.text)); err != nil {
		d.rep.at(n, shown(n)+" is not valid", err.Error())
		n.bad = true
	}
}

func (d *decoder) int(n *node, v reflect.Value) {
	if !d.want(n, kindInt) {
		return
	}
	i, err := strconv.ParseInt(n.text, 0, 64)
	if err != nil || i > math.MaxInt32 || i < math.MinInt32 {
		d.rep.at(n, shown(n)+" is too large", "")
		return
	}
	v.SetInt(i)
}

func (d *decoder) float(n *node, v reflect.Value) {
	if n.kind != kindInt && !d.want(n, kindFloat) {
		return
	}
	f, err := strconv.ParseFloat(strings.ReplaceAll(n.text, "_", ""), 64)
	if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
		d.rep.at(n, shown(n)+" is not a finite number", "")
		return
	}
	v.SetFloat(f)
}

// time takes a TOML date and time with a zone, or the same as a string.
func (d *decoder) time(n *node, v reflect.Value) {
	if n.kind != kindString && !d.want(n, kindTime) {
		return
	}
	t, err := time.Parse(time.RFC3339, strings.Replace(n.text, " ", "T", 1))
	if err != nil {
		d.rep.at(n, shown(n)+" is not valid", "want a date and time with a zone, such as 2026-01-31T09:00:00Z")
		return
	}
	v.Set(reflect.ValueOf(t))
}

// shown is a value as it may be shown: quoted, or the reference it came from.
func shown(n *node) string {
	if len(n.unset) > 0 {
		return n.set
	}
	if n.expanded {
		return n.set + " (expanded)"
	}
	if n.kind == kindString {
		return strconv.Quote(n.text)
	}
	return n.text
}
