package dedupe

import (
	"encoding/binary"
	"fmt"
	"reflect"
	"time"
)

// A moved record is its kind, and the fields of its type in their order:
// numbers as varints, texts and lists with their length before them, times as
// nanoseconds since 1970, 0 for the zero time. A dump's format changes with the
// types; see TestMovedLayout.

var timeType = reflect.TypeFor[time.Time]()

// AppendMoved appends a record's one encoding.
func AppendMoved(b []byte, m Moved) []byte {
	return appendValue(append(b, byte(m.kind())), reflect.ValueOf(m).Elem())
}

// DecodeMoved reads what AppendMoved wrote.
func DecodeMoved(b []byte) (Moved, error) {
	if len(b) == 0 {
		return nil, fmt.Errorf("%w: empty record", ErrDamaged)
	}
	m := newMoved(MovedKind(b[0]))
	if m == nil {
		return nil, fmt.Errorf("%w: record of %s", ErrDamaged, MovedKind(b[0]))
	}
	d := &leafReader{b: b[1:]}
	readValue(d, reflect.ValueOf(m).Elem())
	if d.bad || len(d.b) != 0 {
		return nil, fmt.Errorf("%w: a record of %s does not decode", ErrDamaged, m.kind())
	}
	return m, nil
}

func appendValue(b []byte, v reflect.Value) []byte {
	if v.Type() == timeType {
		t := v.Interface().(time.Time)
		if t.IsZero() {
			return binary.AppendVarint(b, 0)
		}
		return binary.AppendVarint(b, t.UnixNano())
	}
	switch v.Kind() {
	case reflect.Bool:
		if v.Bool() {
			return append(b, 1)
		}
		return append(b, 0)
	case reflect.Int, reflect.Int64:
		return binary.AppendVarint(b, v.Int())
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return binary.AppendUvarint(b, v.Uint())
	case reflect.String:
		return append(binary.AppendUvarint(b, uint64(v.Len())), v.String()...)
	case reflect.Array: // of bytes
		n := len(b)
		b = append(b, make([]byte, v.Len())...)
		reflect.Copy(reflect.ValueOf(b[n:]), v)
		return b
	case reflect.Slice:
		b = binary.AppendUvarint(b, uint64(v.Len()))
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return append(b, v.Bytes()...)
		}
		for i := range v.Len() {
			b = appendValue(b, v.Index(i))
		}
		return b
	case reflect.Struct:
		for i := range v.NumField() {
			b = appendValue(b, v.Field(i))
		}
		return b
	}
	panic("no encoding of " + v.Type().String()) // TestMovedLayout meets every type
}

func readValue(d *leafReader, v reflect.Value) {
	if v.Type() == timeType {
		if n := d.int(); n != 0 {
			v.Set(reflect.ValueOf(time.Unix(0, n)))
		}
		return
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(d.upTo(1) == 1)
	case reflect.Int, reflect.Int64:
		v.SetInt(d.int())
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		n := d.uint()
		if v.OverflowUint(n) {
			d.fail()
			return
		}
		v.SetUint(n)
	case reflect.String:
		v.SetString(string(d.part()))
	case reflect.Array:
		raw := make([]byte, v.Len())
		d.raw(raw)
		reflect.Copy(v, reflect.ValueOf(raw))
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			if p := d.part(); len(p) > 0 {
				v.SetBytes(append([]byte(nil), p...))
			}
			return
		}
		n := d.uint()
		if n > uint64(len(d.b)) { // each takes a byte at least
			d.fail()
			return
		}
		if n > 0 {
			v.Set(reflect.MakeSlice(v.Type(), int(n), int(n)))
		}
		for i := range int(n) {
			readValue(d, v.Index(i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			readValue(d, v.Field(i))
		}
	}
}

// part is bytes with their length before them.
func (d *leafReader) part() []byte {
	n := d.uint()
	if n > uint64(len(d.b)) {
		d.fail()
		return nil
	}
	p := d.b[:n:n]
	d.b = d.b[n:]
	return p
}
