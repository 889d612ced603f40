package dedupe

import (
	"bytes"
	"errors"
	"reflect"
	"testing"
	"time"
)

// dumped is a small dump and what is in it.
func dumped(t *testing.T) ([]byte, []Moved) {
	t.Helper()
	var buf bytes.Buffer
	w, err := NewDumpWriter(&buf, DumpHead{ID: "x", Of: "a test", At: time.Unix(1, 0).UTC()})
	if err != nil {
		t.Fatal(err)
	}
	var recs []Moved
	for _, k := range kinds() {
		for _, m := range []Moved{filled(k), newMoved(k)} {
			recs = append(recs, m)
			if err := w.Put(m); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := w.End(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes(), recs
}

func undump(b []byte) (recs []Moved, head DumpHead, err error) {
	r, err := NewDumpReader(bytes.NewReader(b))
	if err != nil {
		return nil, head, err
	}
	_, err = r.Each(func(m Moved) error { recs = append(recs, m); return nil })
	return recs, r.Head(), err
}

func TestDump(t *testing.T) {
	b, want := dumped(t)
	got, head, err := undump(b)
	if err != nil || head.Of != "a test" || head.ID != "x" || !head.At.Equal(time.Unix(1, 0)) {
		t.Fatalf("head %+v, %v", head, err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %d records, want the %d that were written", len(got), len(want))
	}
}

// A dump that was cut, or changed, anywhere is not taken.
func TestDumpIsChecked(t *testing.T) {
	b, _ := dumped(t)
	first := bytes.IndexByte(b[len(dumpMagic):], '\n') + len(dumpMagic) + 1
	for n := range len(b) {
		if _, _, err := undump(b[:n]); err == nil {
			t.Fatalf("cut after %d of %d bytes, it is taken", n, len(b))
		}
		if n < first && n >= len(dumpMagic) {
			continue // what it says of itself is not covered: nothing is made of it
		}
		c := bytes.Clone(b)
		c[n] ^= 1
		if _, _, err := undump(c); err == nil {
			t.Fatalf("with byte %d of %d changed, it is taken", n, len(b))
		}
	}
	if _, _, err := undump(append(bytes.Clone(b), 0)); !errors.Is(err, ErrDamaged) {
		t.Errorf("with a byte behind it: error = %v, want ErrDamaged", err)
	}
	// A record that is left out with all of its frame is missed at the end.
	size := 8 + len(AppendMoved(nil, filled(KindClaims)))
	if _, _, err := undump(append(bytes.Clone(b[:first]), b[first+size:]...)); !errors.Is(err, ErrDamaged) {
		t.Errorf("without its first record: error = %v, want ErrDamaged", err)
	}
	newer := bytes.Replace(b, []byte(`"format":1`), []byte(`"format":9`), 1)
	if _, _, err := undump(newer); !errors.Is(err, ErrNewer) {
		t.Errorf("of a newer format: error = %v, want ErrNewer", err)
	}
}
