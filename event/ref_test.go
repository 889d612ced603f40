package event_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/onceward/onceward/event"
)

const (
	maxMilli   = 1<<48 - 1
	maxCounter = 1<<event.CounterBits - 1
	maxWriter  = 1<<event.WriterBits - 1
)

func TestRefFields(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ms := rapid.Uint64Range(0, maxMilli).Draw(t, "ms")
		counter := rapid.Uint32Range(0, maxCounter).Draw(t, "counter")
		writer := rapid.Uint64Range(0, maxWriter).Draw(t, "writer")
		r := event.NewRef(ms, counter, writer)
		if r.Milli() != ms || r.Counter() != counter || r.Writer() != writer {
			t.Fatalf("NewRef(%d, %d, %d) = %d, %d, %d", ms, counter, writer, r.Milli(), r.Counter(), r.Writer())
		}
		if uint64(r.Time().UnixMilli()) != ms {
			t.Fatalf("Time of %d ms is %v", ms, r.Time())
		}
		for _, s := range []string{r.String(), strings.ToLower(r.String())} {
			if back, err := event.ParseRef(s); err != nil || back != r {
				t.Fatalf("ParseRef(%q) = %v, %v, want %v", s, back, err, r)
			}
		}
	})
}

func TestRefOrder(t *testing.T) {
	type fields struct {
		ms      uint64
		counter uint32
		writer  uint64
	}
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) fields {
			return fields{
				rapid.SampledFrom([]uint64{0, 1, 255, 256, 1 << 40, maxMilli}).Draw(t, name+" ms"),
				rapid.SampledFrom([]uint32{0, 1, 15, 16, 1 << 16, maxCounter}).Draw(t, name+" counter"),
				rapid.SampledFrom([]uint64{0, 1, 1 << 59, maxWriter}).Draw(t, name+" writer"),
			}
		}
		a, b := draw("a"), draw("b")
		want := slices.Compare([]uint64{a.ms, uint64(a.counter), a.writer}, []uint64{b.ms, uint64(b.counter), b.writer})
		ra, rb := event.NewRef(a.ms, a.counter, a.writer), event.NewRef(b.ms, b.counter, b.writer)
		if got := ra.Compare(rb); got != want {
			t.Fatalf("Compare of %+v and %+v = %d, want %d", a, b, got, want)
		}
		if got := strings.Compare(ra.String(), rb.String()); got != want {
			t.Fatalf("text of %+v and %+v compares as %d, want %d", a, b, got, want)
		}
	})
}

func TestRefNext(t *testing.T) {
	const writer = 0xabcdef
	for _, tt := range []struct {
		name string
		from event.Ref
		ms   uint64
		want event.Ref
	}{
		{"later", event.NewRef(10, 7, writer), 11, event.NewRef(11, 0, writer)},
		{"same millisecond", event.NewRef(10, 7, writer), 10, event.NewRef(10, 8, writer)},
		{"clock set back", event.NewRef(10, 7, writer), 3, event.NewRef(10, 8, writer)},
		{"counter used up", event.NewRef(10, maxCounter, writer), 10, event.NewRef(11, 0, writer)},
		{"counter used up, clock set back", event.NewRef(10, maxCounter, writer), 2, event.NewRef(11, 0, writer)},
		{"counter used up, later", event.NewRef(10, maxCounter, writer), 20, event.NewRef(20, 0, writer)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := tt.from.Next(tt.ms)
			if got != tt.want {
				t.Errorf("Next(%d) = %v, want %v", tt.ms, got, tt.want)
			}
			if got.Compare(tt.from) <= 0 {
				t.Errorf("%v does not follow %v", got, tt.from)
			}
		})
	}
}

func TestRefText(t *testing.T) {
	r := event.NewRef(1772357400000, 5, 42)
	b, err := json.Marshal(map[string]event.Ref{"ref": r})
	if err != nil {
		t.Fatal(err)
	}
	var back map[string]event.Ref
	if err := json.Unmarshal(b, &back); err != nil || back["ref"] != r {
		t.Errorf("%s reads back as %v, %v", b, back["ref"], err)
	}
	var zero event.Ref
	if err := zero.UnmarshalText(nil); err != nil || !zero.IsZero() {
		t.Errorf("empty text = %v, %v, want the zero Ref", zero, err)
	}
	if r.IsZero() {
		t.Error("a ref is zero")
	}
	kept := r
	if err := kept.UnmarshalText([]byte("nonsense")); err == nil || kept != r {
		t.Errorf("nonsense = %v, %v, want an error and the ref unchanged", kept, err)
	}
	for _, s := range []string{"", "x", r.String() + "0", r.String()[:25], "8" + r.String()[1:], strings.Repeat("I", 26), r.String()[:25] + "U", r.String()[:25] + "\n", " " + r.String()[1:]} {
		if got, err := event.ParseRef(s); err == nil {
			t.Errorf("ParseRef(%q) = %v, want an error", s, got)
		}
	}
}

func FuzzParseRef(f *testing.F) {
	for _, s := range []string{"", "01ARZ3NDEKTSV4RRFFQ69G5FAV", "01arz3ndektsv4rrffq69g5fav", "7ZZZZZZZZZZZZZZZZZZZZZZZZZ", "80000000000000000000000000"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := event.ParseRef(s)
		if err != nil {
			if !r.IsZero() {
				t.Errorf("ParseRef(%q) fails and gives %v", s, r)
			}
			return
		}
		if r.String() != strings.ToUpper(s) {
			t.Errorf("ParseRef(%q) reads back as %q", s, r.String())
		}
		if again := event.NewRef(r.Milli(), r.Counter(), r.Writer()); again != r {
			t.Errorf("the fields of %v make %v", r, again)
		}
	})
}

func TestHashText(t *testing.T) {
	h := event.HashOf([]byte("abc"))
	const want = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
	if h.String() != want {
		t.Errorf("HashOf = %s, want %s", h, want)
	}
	var back event.Hash
	if err := back.UnmarshalText([]byte(want)); err != nil || back != h {
		t.Errorf("read back as %s, %v", back, err)
	}
	for _, s := range []string{"", want[:62], want + "00", strings.Repeat("g", 64)} {
		if err := back.UnmarshalText([]byte(s)); err == nil {
			t.Errorf("%q is no error", s)
		}
	}
}
