package dedupe_test

import (
	"bytes"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

var update = flag.Bool("update", false, "write the golden file of the leaves anew")

const goldenActs = "testdata/acts1.golden"

// fullActs are acts that together set every field.
func fullActs() []dedupe.Act {
	ref, first := event.NewRef(1_790_000_000_000, 7, 0xabcdef), event.NewRef(1_790_000_000_000, 6, 0xabcdef)
	at := time.UnixMilli(1_790_000_000_123)
	wall := time.Unix(1_790_000_000, 123_456_789)
	ev := event.Event{Ref: ref, Source: "stripe", Provider: "stripe", ID: "evt_1", Type: "invoice.paid", Secret: "2026-11", ReceivedAt: wall,
		BodyHash: event.HashOf([]byte("{}")), Body: event.Slice{Length: 2}, Flags: event.FlagConflict | event.FlagTest, Related: first}
	it := dedupe.Item{Event: ev}
	r := dedupe.Result{
		Lease: dedupe.Lease{Delivery: event.Delivery{Event: ref, Target: "billing", Generation: 2}},
		Attempt: event.Attempt{Number: 5, StartedAt: wall, Duration: 1500, Status: 503, Outcome: event.Outcome5xx,
			Response: []byte("HTTP/1.1 503"), RetryIn: time.Second},
	}
	late := r
	late.Late = true
	attempted, _ := r.Act(event.Pending)
	dead, _ := r.Act(event.Dead)
	tooLate, _ := late.Act(event.Delivered)
	by := dedupe.By{Actor: "ann", Reason: "because"}
	acts := []dedupe.Act{
		dedupe.AcceptedAct(&ev),
		dedupe.SeenAct(&it, &dedupe.Decision{Verdict: dedupe.Repeat, First: dedupe.Claim{Ref: first}}),
		dedupe.SeenAct(&it, &dedupe.Decision{Verdict: dedupe.Rejected, First: dedupe.Claim{Ref: first}}),
		attempted, dead, tooLate,
		dedupe.ReplayedAct(&event.Delivery{Event: ref, Target: "billing", Generation: 3}, by),
		dedupe.CancelledAct(&event.Delivery{Event: ref, Target: "billing", Generation: 3}, by),
		{Kind: dedupe.ActRefused, Source: "stripe", Time: wall, Number: 12, Outcome: "signature_mismatch"},
		{Kind: dedupe.ActConfigured, Hash: event.HashOf([]byte("x")), Outcome: "loaded", Detail: "a\xffb", By: by},
	}
	for i := range acts {
		acts[i].At = at
	}
	return acts
}

// The leaves are what the log's hashes are taken of: a change of any byte here
// needs a new version, and code that still reads this one.
func TestLeavesAreGolden(t *testing.T) {
	var b strings.Builder
	for _, a := range fullActs() {
		fmt.Fprintf(&b, "%s %x\n", a.Kind, a.Append(nil))
	}
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(goldenActs, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(goldenActs)
	if err != nil {
		t.Fatal(err)
	}
	if b.String() != string(want) {
		t.Errorf("leaves are written differently:\n%s\nwant:\n%s", b.String(), want)
	}
	acts := fullActs()
	for i, line := range strings.Split(strings.TrimSpace(string(want)), "\n") {
		_, text, _ := strings.Cut(line, " ")
		leaf, err := hex.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		got, err := dedupe.DecodeAct(leaf)
		if err != nil {
			t.Fatalf("leaf %d: %v", i, err)
		}
		if !reflect.DeepEqual(got, acts[i]) {
			t.Errorf("leaf %d reads as\n%+v, want\n%+v", i, got, acts[i])
		}
	}
}

// An act has one leaf, and a leaf with any bit changed is another act or none.
func TestLeavesAreCanonical(t *testing.T) {
	for i, a := range fullActs() {
		leaf := a.Append(nil)
		for bit := range len(leaf) * 8 {
			bad := bytes.Clone(leaf)
			bad[bit/8] ^= 1 << (bit % 8)
			if got, err := dedupe.DecodeAct(bad); err == nil && reflect.DeepEqual(got, a) {
				t.Fatalf("act %d: with bit %d changed it reads the same", i, bit)
			}
		}
		for n := range leaf {
			if _, err := dedupe.DecodeAct(leaf[:n]); err == nil {
				t.Fatalf("act %d: its first %d bytes are taken for good", i, n)
			}
		}
		if _, err := dedupe.DecodeAct(append(leaf, 0)); err == nil {
			t.Fatalf("act %d: bytes after its end are taken for good", i)
		}
	}
	one := dedupe.Act{Kind: dedupe.ActOperated, At: time.UnixMilli(1), Number: 1}
	leaf := one.Append(nil)
	leaf[len(leaf)-1] = 0
	if got, err := dedupe.DecodeAct(leaf); err == nil {
		t.Errorf("a field that is there and zero reads as %+v", got)
	}
	long := dedupe.Act{Kind: dedupe.ActOperated, At: time.UnixMilli(1), Detail: strings.Repeat("x", 5000)}
	got, err := dedupe.DecodeAct(long.Append(nil))
	if err != nil || len(got.Detail) != dedupe.MaxActText {
		t.Errorf("a long text is kept with %d bytes, %v", len(got.Detail), err)
	}
}

func TestActKinds(t *testing.T) {
	for k := dedupe.ActAccepted; k <= dedupe.ActOperated; k++ {
		if back, err := dedupe.ParseActKind(k.String()); err != nil || back != k {
			t.Errorf("%v reads back as %v, %v", k, back, err)
		}
	}
	for _, s := range []string{"", "act(0)", "nonsense"} {
		if _, err := dedupe.ParseActKind(s); err == nil {
			t.Errorf("%q is a kind", s)
		}
	}
}

func TestPack(t *testing.T) {
	var p dedupe.ActPack
	acts := fullActs()
	for i := range acts {
		p.Add(&acts[i], acts[i].At)
	}
	n := 0
	err := dedupe.Unpack(p.Bytes(), func(leaf []byte) bool {
		if !bytes.Equal(leaf, acts[n].Append(nil)) {
			t.Errorf("act %d comes back otherwise", n)
		}
		n++
		return true
	})
	if err != nil || n != len(acts) || p.Len() != n {
		t.Errorf("%d of %d acts, %v", n, p.Len(), err)
	}
	if err := dedupe.Unpack(p.Bytes()[:len(p.Bytes())-1], func([]byte) bool { return true }); err == nil {
		t.Error("a pack that was cut is taken for good")
	}
	if p.Reset(); p.Len() != 0 || len(p.Bytes()) != 0 {
		t.Error("a reset pack is not empty")
	}
}

// What is no leaf is an error; what is one is written the same again.
func FuzzDecodeAct(f *testing.F) {
	for _, a := range fullActs() {
		f.Add(a.Append(nil))
	}
	f.Fuzz(func(t *testing.T, leaf []byte) {
		a, err := dedupe.DecodeAct(leaf)
		if err == nil && !bytes.Equal(a.Append(nil), leaf) {
			t.Errorf("%x is written as %x", leaf, a.Append(nil))
		}
		_ = dedupe.Unpack(leaf, func([]byte) bool { return true })
	})
}
