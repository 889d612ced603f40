package badgerdb

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/onceward/onceward/event"
)

// phrasesNow and phrasesSum are the list of phrases as records have it. A change of
// anything but an addition at the end, with which both change, makes every event
// unreadable.
const (
	phrasesNow = 117
	phrasesSum = "51c148fc308cab6d1dad14b6a8ef384dbfb6659451d09d75a7e11fef9700385e"
)

func TestPhrasesStay(t *testing.T) {
	if len(phrases) > maxPhrases {
		t.Errorf("%d phrases, at most %d have a byte", len(phrases), maxPhrases)
	}
	if len(phrases) != phrasesNow {
		t.Errorf("%d phrases, want %d", len(phrases), phrasesNow)
	}
	sum := sha256.Sum256([]byte(fmt.Sprintf("%q", phrases[:phrasesNow])))
	if got := hex.EncodeToString(sum[:]); got != phrasesSum {
		t.Errorf("the first %d phrases changed: sum %s", phrasesNow, got)
	}
	seen := map[string]bool{}
	for _, p := range phrases {
		if len(p) < 2 || seen[p] {
			t.Errorf("%q saves nothing", p)
		}
		seen[p] = true
	}
}

// textsToTry are texts of every kind there is in a record, and some that look like
// what packing makes of them.
var textsToTry = []string{
	"", "a", "stripe", "evt_1", "stripe:evt_1", "Content-Type", "application/json; charset=utf-8", "Content-type",
	"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
	"t=1790000000,v1=43cea31d395a39843b3a69536becd9ee148e38759361ca78297630486faaf331",
	"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nDate: Tue, 01 Dec 2026 19:02:52 GMT\r\n\r\n",
	"DEADBEEFDEADBEEFDEADBEEF", "deadbeefdeadbee", strings.Repeat("ab", 1000), strings.Repeat("0", 511),
	"\x00\x80\xfc\xfd\xfe\xff", "\xfe", "\xfe\x05abc", "\xff", "ünïcödé", strings.Repeat("\xff", 300), "日本語のテキスト",
	"feedfacefeedface", strings.Repeat("x", 70_000), strings.Repeat("f", 300_000),
}

func roundTrip(t interface{ Errorf(string, ...any) }, k known, s string) (size int) {
	e := newEnc(64)
	e.known = k
	e.text(s)
	e.text("behind")
	d := &dec{b: e.b[envelopeSize:], texts: true, known: k}
	if got := d.text(); got != s || d.bad {
		t.Errorf("%.200q reads as %.200q", s, got)
	}
	if got := d.text(); got != "behind" || d.end(nil) != nil {
		t.Errorf("what stands behind %.200q reads as %q", s, got)
	}
	return len(e.b) - envelopeSize
}

// Every text reads back as it was, and takes no more than it did and the byte or two
// of its length.
func TestTextsReadBack(t *testing.T) {
	for _, k := range []known{{}, {source: "stripe", id: "evt_1"}, {source: "a", id: "b"}, {source: "stripe", id: "stripe"}} {
		for _, s := range textsToTry {
			if n := roundTrip(t, k, s); n > len(s)+3+8 {
				t.Errorf("%.100q takes %d bytes", s, n)
			}
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		piece := rapid.OneOf(rapid.SampledFrom(phrases[:]), rapid.StringMatching("[0-9a-f]{0,40}"), rapid.SampledFrom(textsToTry[:14]),
			rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }))
		s := strings.Join(rapid.SliceOf(piece).Draw(t, "text"), "")
		k := known{source: piece.Draw(t, "source"), id: piece.Draw(t, "id")}
		roundTrip(t, k, s)
	})
}

// An event as a provider sends it takes less than two thirds of what its fields do.
func TestTextsSave(t *testing.T) {
	ref := event.NewRef(1_790_000_000_000, 7, 0xabcdef)
	ev := event.Event{
		Ref: ref, Source: "stripe", Provider: "stripe", ID: "evt_1PgafmB7WZ01zgkWTtu1mMPB", Type: "charge.succeeded", Secret: "1",
		Key: "stripe:evt_1PgafmB7WZ01zgkWTtu1mMPB", ReceivedAt: ref.Time(), Method: "POST", Body: event.Slice{Request: ref, Length: 1324},
		Header: []event.Field{{Name: "Content-Type", Value: "application/json"}, {Name: "User-Agent", Value: "Stripe/1.0 (+https://stripe.com/docs/webhooks)"},
			{Name: "Stripe-Signature", Value: textsToTry[9]}},
		Targets: []string{"billing"}, Trace: textsToTry[8],
	}
	e := newEnc(640)
	encodeEvent(e, 100, &ev)
	fields := 16 + 32 + 16 + 9 + 12 // of fixed length, and numbers
	for _, s := range []string{ev.Source, ev.Provider, ev.ID, ev.Type, ev.Secret, ev.Key, ev.Method, ev.Targets[0], ev.Trace} {
		fields += 1 + len(s)
	}
	for _, f := range ev.Header {
		fields += 2 + len(f.Name) + len(f.Value)
	}
	if n := len(e.b) - envelopeSize; n*3 > fields*2 {
		t.Errorf("%d bytes for %d of fields", n, fields)
	}
}

// FuzzTexts: whatever is said to be packed is read within bounds, and what is read
// packs again to what reads the same.
func FuzzTexts(f *testing.F) {
	for _, s := range textsToTry[:20] {
		k := known{source: "stripe", id: "evt_1"}
		f.Add(string(k.pack(nil, s)), "stripe", "evt_1")
	}
	f.Fuzz(func(t *testing.T, packed, source, id string) {
		k := known{source: source, id: id}
		if b, ok := k.unpack(nil, []byte(packed)); ok {
			if len(b) > maxText {
				t.Errorf("%d bytes", len(b))
			}
			roundTrip(t, k, string(b))
		}
		roundTrip(t, k, packed)
	})
}

func BenchmarkTexts(b *testing.B) {
	k := known{source: "stripe", id: "evt_1PgafmB7WZ01zgkWTtu1mMPB"}
	text := textsToTry[9] + textsToTry[10] + "stripe:evt_1PgafmB7WZ01zgkWTtu1mMPB" + "Stripe/1.0 (+https://stripe.com/docs/webhooks)"
	b.SetBytes(int64(len(text)))
	var out []byte
	for b.Loop() {
		out = k.pack(out[:0], text)
	}
	b.ReportMetric(float64(len(out))/float64(len(text)), "size")
}

// BenchmarkEventHead reads what a list looks at of each event, from a record as it is
// written and from one of the first ledgers.
func BenchmarkEventHead(b *testing.B) {
	text, err := os.ReadFile(goldenPlain)
	if err != nil {
		b.Fatal(err)
	}
	var plain record
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); f[0] == "event" {
			plain.key, _ = hex.DecodeString(f[1])
			plain.val, _ = hex.DecodeString(f[2])
		}
	}
	for name, r := range map[string]record{"packed": samples()["event"], "plain": plain} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := decodeEventHead(r.key, r.val); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
