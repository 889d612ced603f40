package badgerdb

import (
	"testing"

	"github.com/onceward/onceward/event"
)

// What shares a record stands in one bucket and goes with it: of another
// millisecond, which may be in another bucket, of another class, or too large for
// what is left, a body begins another.
func TestPackHolds(t *testing.T) {
	var p pack
	cl, other := class{n: 1}, class{n: 2}
	first := event.NewRef(1_790_000_000_000, 7, 1)
	body := make([]byte, packedSize)
	if !p.begin(cl, first, body) {
		t.Fatal("a body of the largest size shares no record")
	}
	if at, ok := p.add(cl, first.Next(first.Milli()), body); !ok || at != packedSize {
		t.Errorf("the next of its millisecond stands at %d, %v", at, ok)
	}
	for name, add := range map[string]func() bool{
		"another millisecond": func() bool { _, ok := p.add(cl, event.NewRef(first.Milli()+1, 0, 1), body); return ok },
		"another class":       func() bool { _, ok := p.add(other, first, body); return ok },
		"a larger body":       func() bool { _, ok := p.add(cl, first, make([]byte, packedSize+1)); return ok },
		"an empty body":       func() bool { _, ok := p.add(cl, first, nil); return ok },
	} {
		if add() {
			t.Errorf("%s shares the record", name)
		}
	}
	for range 2 {
		if _, ok := p.add(cl, first, body); !ok {
			t.Error("there is room for four of the largest")
		}
	}
	if _, ok := p.add(cl, first, body[:1]); ok {
		t.Error("a byte more than there is room for shares the record")
	}
	cl.keep.Once = true
	if p = (pack{}); p.begin(cl, first, body) {
		t.Error("a body that goes with its deliveries shares a record")
	}
}
