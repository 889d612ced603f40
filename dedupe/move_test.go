package dedupe

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/event"
)

// filled is a record of a kind in which no field is zero.
func filled(k MovedKind) Moved {
	m := newMoved(k)
	n := 0
	fill(reflect.ValueOf(m).Elem(), &n)
	return m
}

func fill(v reflect.Value, n *int) {
	*n++
	switch {
	case v.Type() == timeType:
		v.Set(reflect.ValueOf(time.Unix(0, int64(*n)<<20)))
	case v.Kind() == reflect.Bool:
		v.SetBool(true)
	case v.CanInt():
		v.SetInt(int64(*n))
	case v.CanUint():
		v.SetUint(uint64(*n % 250))
	case v.Kind() == reflect.String:
		v.SetString(fmt.Sprintf("text\x00\xff%d", *n))
	case v.Kind() == reflect.Array:
		for i := range v.Len() {
			v.Index(i).SetUint(uint64(*n+i) % 256)
		}
	case v.Kind() == reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range 2 {
			fill(v.Index(i), n)
		}
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), n)
		}
	}
}

func kinds() (out []MovedKind) {
	for k := MovedKind(1); newMoved(k) != nil; k++ {
		out = append(out, k)
	}
	return out
}

func TestMovedCodec(t *testing.T) {
	if len(kinds()) != movedKinds || len(movedNames) != movedKinds+1 {
		t.Fatalf("%d kinds can be made, %d have names, there are %d", len(kinds()), len(movedNames)-1, movedKinds)
	}
	for _, k := range kinds() {
		for _, m := range []Moved{filled(k), newMoved(k)} {
			enc := AppendMoved(nil, m)
			got, err := DecodeMoved(enc)
			if err != nil {
				t.Fatalf("%s: %v", k, err)
			}
			if !reflect.DeepEqual(got, m) {
				t.Errorf("%s: got %+v, want %+v", k, got, m)
			}
			for n := range len(enc) {
				if _, err := DecodeMoved(enc[:n]); !errors.Is(err, ErrDamaged) {
					t.Fatalf("%s cut after %d of %d bytes: error = %v, want ErrDamaged", k, n, len(enc), err)
				}
			}
			if _, err := DecodeMoved(append(bytes.Clone(enc), 0)); !errors.Is(err, ErrDamaged) {
				t.Errorf("%s with a byte behind it: error = %v, want ErrDamaged", k, err)
			}
		}
	}
}

// Every field counts: a record in which one is lost has another encoding.
func TestMovedCodecKeepsEveryField(t *testing.T) {
	for _, k := range kinds() {
		whole := AppendMoved(nil, filled(k))
		n := 0
		lose(reflect.TypeOf(filled(k)).Elem(), nil, func(path []int) {
			m := filled(k)
			f := reflect.ValueOf(m).Elem().FieldByIndex(path)
			f.SetZero()
			n++
			if bytes.Equal(AppendMoved(nil, m), whole) {
				t.Errorf("%s: the encoding doesn't tell whether field %v is there", k, path)
			}
		})
		if n == 0 {
			t.Errorf("%s: no field was looked at", k)
		}
	}
}

func lose(typ reflect.Type, path []int, f func([]int)) {
	for i := range typ.NumField() {
		at := append(append([]int(nil), path...), i)
		if ft := typ.Field(i).Type; ft.Kind() == reflect.Struct && ft != timeType {
			lose(ft, at, f)
			continue
		}
		f(at)
	}
}

// A dump's format follows from the types. Whoever changes one of them changes
// the format: raise dumpFormat, and the text below.
func TestMovedLayout(t *testing.T) {
	var b strings.Builder
	for _, k := range kinds() {
		fmt.Fprintf(&b, "%d%s", k, layout(reflect.TypeOf(newMoved(k)).Elem()))
	}
	const want = "2bd4f0"
	if got := event.HashOf([]byte(b.String())).String()[:6]; got != want {
		t.Errorf("layout of the records = %s, want %s: is dumpFormat raised? They are:\n%s", got, want, b.String())
	}
}

func layout(typ reflect.Type) string {
	switch {
	case typ == timeType:
		return "t"
	case typ.Kind() == reflect.Struct:
		out := "{"
		for i := range typ.NumField() {
			out += typ.Field(i).Name + layout(typ.Field(i).Type) + ";"
		}
		return out + "}"
	case typ.Kind() == reflect.Slice:
		return "[]" + layout(typ.Elem())
	case typ.Kind() == reflect.Array:
		return fmt.Sprintf("[%d]%s", typ.Len(), layout(typ.Elem()))
	}
	return typ.Kind().String()
}

func TestMoveTally(t *testing.T) {
	var recs []Moved
	for _, k := range kinds() {
		recs = append(recs, filled(k), newMoved(k))
	}
	tally := func(recs []Moved) *MoveTally {
		out := &MoveTally{}
		for _, m := range recs {
			out.Add(m)
		}
		return out
	}
	whole := tally(recs)
	back := make([]Moved, 0, len(recs))
	for i := range recs {
		back = append(back, recs[len(recs)-1-i])
	}
	if kind := whole.Differs(tally(back)); kind != "" {
		t.Errorf("in another order the %s differ", kind)
	}
	if whole.Records() != uint64(len(recs)) {
		t.Errorf("records = %d, want %d", whole.Records(), len(recs))
	}
	for i, m := range recs {
		less := append(append([]Moved(nil), recs[:i]...), recs[i+1:]...)
		if kind := whole.Differs(tally(less)); kind != m.kind().String() {
			t.Errorf("without a record of %s, %q differ", m.kind(), kind)
		}
		other := append(less, recs[(i+1)%len(recs)])
		if whole.Differs(tally(other)) == "" {
			t.Errorf("with another record in the place of one of %s nothing differs", m.kind())
		}
	}
	if got := whole.Counts(); len(got) != movedKinds || got[0].Records != 2 || got[0].Hash == (event.Hash{}) {
		t.Errorf("counts = %+v", got)
	}
}
