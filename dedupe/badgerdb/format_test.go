package badgerdb

import (
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

var update = flag.Bool("update", false, "write the golden file of the record format anew")

const golden = "testdata/format1.golden"

// goldenPlain are records whose texts are not packed, as they were first written.
// Nothing writes them now.
const goldenPlain = "testdata/format1-plain.golden"

// samples are one record of each kind, every field set.
func samples() map[string]record {
	ref, first := event.NewRef(1_790_000_000_000, 7, 0xabcdef), event.NewRef(1_790_000_000_000, 6, 0xabcdef)
	at := time.Unix(1_790_000_000, 123_456_789)
	ev := event.Event{Ref: ref, Source: "stripe", Provider: "stripe", ID: "evt_1", Type: "invoice.paid", Caller: "app", Secret: "2026-11",
		Key: "stripe:evt_1", ReceivedAt: at, Method: "POST", Path: "/x", Query: "a=1", Header: []event.Field{{Name: "Content-Type", Value: "application/json"}},
		BodyHash: event.HashOf([]byte("{}")), Body: event.Slice{Request: first, Offset: 3, Length: 2}, Targets: []string{"billing", "crm"},
		Answer: event.Answer{Status: 202, ContentType: "text/plain", Body: []byte("ok")}, Trace: "00-1-2-01", Flags: event.FlagConflict | event.FlagTest, Related: first}
	d := event.Delivery{Event: ref, Target: "billing", Generation: 2, State: event.Dead, Attempts: 5, NewKey: true, DueAt: at, OpenedAt: at,
		UpdatedAt: at, LastStatus: 503, LastError: "5xx"}
	a := event.Attempt{Event: ref, Target: "billing", Generation: 2, Number: 5, StartedAt: at, Duration: 1500, Status: 503, Outcome: event.Outcome5xx,
		Error: "x", Response: []byte("HTTP/1.1 503"), State: event.Pending, RetryIn: 2000, Late: true}
	cl := dedupe.Claim{Key: dedupe.KeyOf(dedupe.KindID, "stripe", "", "evt_1"), Ref: ref, BodyHash: ev.BodyHash, Window: time.Hour,
		Expires: time.UnixMilli(1_790_003_600_000)}
	h := head{no: 9, prev: [32]byte{1, 2, 3}, writer: 0xabcdef, at: 1_790_000_000_000, first: first, last: ref, count: 2, events: 20, acts: 30, acted: 3, low: first,
		parts: []headPart{{kind: kindEvent, class: 1, t: 1239, count: 2, sum: [32]byte{4, 5}}}}
	c := class{n: 1, keep: dedupe.Retention{Body: time.Hour, Meta: 2 * time.Hour, Audit: 3 * time.Hour}, body: 10, meta: 20, audit: 30}
	cut := cuts{first: map[[2]byte]uint32{{kindBody, 1}: 4}, claims: 5, heads: 6, headsAt: 7, headT: 8}

	out := map[string]record{}
	put := func(name string, key []byte, val []byte) { out[name] = record{key, val} }
	seal := func(key []byte, f func(*enc)) []byte {
		e := newEnc(64)
		f(e)
		return e.seal(key, 0)
	}
	key := eventKey(1, 1239, subEvent, ref)
	put("event", key, seal(key, func(e *enc) { encodeEvent(e, 9, &ev) }))
	ordered := ev
	ordered.Orders = []event.Order{event.OrderOf("cus_1", false), 0}
	put("event-ordered", key, seal(key, func(e *enc) { encodeEvent(e, 9, &ordered) }))
	fields := ordered
	fields.Index = []event.Field{{Name: "customer", Value: "cus_9"}, {Name: "plan", Value: "pro"}}
	put("event-indexed", key, seal(key, func(e *enc) { encodeEvent(e, 9, &fields) }))
	key = fieldKey(1, 1239, fields.Index[0], ref)
	put("field", key, newEnc(0).seal(key, 0))
	key = stateKey(1, 1239, ref, "billing")
	put("state", key, seal(key, func(e *enc) { encodeState(e, &d) }))
	rec := recorded{Attempt: a, batch: 9, n: 1, at: at.Add(time.Second)}
	key = attemptKey(1, 1239, ref, "billing", 2, 5)
	put("attempt", key, seal(key, func(e *enc) { encodeAttempt(e, &rec) }))
	key = lateKey(attemptKey(1, 1239, ref, "billing", 2, 5), 9, 1)
	put("late-attempt", key, seal(key, func(e *enc) { encodeAttempt(e, &rec) }))
	timed := rec
	timed.Late, timed.Phases = false, event.Phases{DNS: 300 * time.Microsecond, TLS: 12 * time.Millisecond, FirstByte: 2 * time.Second}
	key = attemptKey(1, 1239, ref, "billing", 2, 6)
	put("timed-attempt", key, seal(key, func(e *enc) { encodeAttempt(e, &timed) }))
	var pack dedupe.ActPack
	for _, a := range []dedupe.Act{dedupe.AcceptedAct(&ev), {Kind: dedupe.ActOperated, Outcome: "reload", By: dedupe.By{Actor: "ann", Reason: "because"}}} {
		pack.Add(&a, at)
	}
	key = actsKey(51, 0xabcdef, 27)
	put("acts", key, sealActs(key, 9, pack.Bytes()))
	key = claimKey(2589, cl.Key)
	put("claim", key, sealClaim(key, &cl))
	key = headKey(51, 9)
	put("head", key, h.seal(key))
	key = eventKey(1, 1239, subTally, ref)
	t := tally{Tally: event.Tally{Repeats: 3, Conflicts: 1, LastAt: at}, extra: []string{"third"}}
	put("tally", key, t.seal(key))
	key = carriedKey(ref)
	put("carried", key, sealCarried(key, carried{class: 1, eventT: 1240, bodyT: 1241}))
	key = bodyKey(1, 1239, first, 0)
	put("body", key, sealCompressed(key, []byte(strings.Repeat("abcd", 100))))
	key = append(indexPrefix(1, 1239, "stripe", "evt_1"), ref[:]...)
	put("index", key, newEnc(0).seal(key, 0))
	key = deadKey(1, 1239, "billing", ref)
	put("dead", key, sealDead(key, 0))
	put("dead-ordered", key, sealDead(key, event.OrderOf("cus_1", false)))
	sk := dedupe.SyncKey{Key: dedupe.KeyOf(dedupe.KindSync, "pay", "shop", "k1"), Source: "pay", Caller: "shop", ID: "k1", Target: "bank",
		Downstream: "pay:shop:k1", Print: event.HashOf([]byte("x")), State: dedupe.KeyAnswered, Token: 3, Until: at, Window: time.Hour, ClaimedAt: at,
		UpdatedAt: at, Expires: at, Replays: 4, Why: "timeout", Answer: dedupe.KeyAnswer{Status: 201, Header: []event.Field{{Name: "Etag", Value: "1"}},
			Length: 2, Hash: event.HashOf([]byte("ok")), Body: []byte("ok")},
		Life: []dedupe.KeyMoment{{At: at, What: dedupe.MomentClaimed}, {At: at, What: dedupe.MomentAnswered, Detail: "201"}}}
	key = syncKey(20717, sk.Key)
	put("synckey", key, seal(key, func(e *enc) { encodeSyncKey(e, 9, &sk) }))
	key = spoolKey(20717, sk.Key, 3, 1)
	put("syncchunk", key, sealCompressed(key, []byte("short")))
	put("class", classMetaKey(1), c.seal(classMetaKey(1)))
	own := class{n: 2, own: "stripe", keep: dedupe.Retention{Body: time.Hour, Meta: 2 * time.Hour, Audit: 3 * time.Hour}, body: 10, meta: 20, audit: 30}
	put("class-own", classMetaKey(2), own.seal(classMetaKey(2)))
	put("cuts", cutsKey, cut.seal())
	key = noteKey("target", "billing")
	put("note", key, sealNote(key, &dedupe.Note{Kind: "target", Name: "billing", Version: 3, Value: []byte("{}"), UpdatedAt: at}))
	return out
}

// The format on disk is a promise: a change of any byte here needs a new
// version, and code that still reads this one.
func TestFormatIsGolden(t *testing.T) {
	got := samples()
	if *update {
		var b strings.Builder
		for _, name := range slices.Sorted(maps.Keys(got)) {
			fmt.Fprintf(&b, "%s %x %x\n", name, got[name].key, got[name].val)
		}
		if err := os.WriteFile(golden, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) != 3 {
			t.Fatalf("malformed line %q", line)
		}
		seen++
		if want := got[f[0]]; hex.EncodeToString(want.key) != f[1] || hex.EncodeToString(want.val) != f[2] {
			t.Errorf("%s is written differently:\n got %x %x\nwant %s %s", f[0], want.key, want.val, f[1], f[2])
		}
	}
	if seen != len(got) {
		t.Errorf("%d golden records, want %d", seen, len(got))
	}
}

// What was written in format 1 is read back whole, from the golden file.
func TestFormatIsRead(t *testing.T) {
	s := samples()
	ref := event.NewRef(1_790_000_000_000, 7, 0xabcdef)
	ev, batch, err := decodeEvent(s["event"].key, s["event"].val, ref)
	if err != nil || batch != 9 {
		t.Fatalf("event: batch %d, %v", batch, err)
	}
	e := newEnc(64)
	encodeEvent(e, 9, &ev)
	if !bytes.Equal(e.seal(s["event"].key, 0), s["event"].val) {
		t.Errorf("event reads as %+v", ev)
	}
	ordered, _, err := decodeEvent(s["event-ordered"].key, s["event-ordered"].val, ref)
	if err != nil || ordered.OrderAt("billing") != event.OrderOf("cus_1", false) || ordered.OrderAt("crm") != 0 || ev.Orders != nil {
		t.Errorf("ordered event: %v %v, without: %v", ordered.Orders, err, ev.Orders)
	}
	fields, _, err := decodeEvent(s["event-indexed"].key, s["event-indexed"].val, ref)
	if err != nil || !fields.IndexedAs("customer", "cus_9") || !fields.IndexedAs("plan", "pro") || fields.Flags != ev.Flags ||
		fields.OrderAt("billing") != event.OrderOf("cus_1", false) || ev.Index != nil {
		t.Errorf("indexed event: %+v %v", fields, err)
	}
	if string(sealDead(s["dead"].key, event.OrderOf("cus_1", true))) != string(s["dead"].val) {
		t.Error("a dead delivery that nobody waits for keeps its order")
	}
	h, err := decodeHead(s["head"].key, s["head"].val)
	if err != nil || h.no != 9 || len(h.parts) != 1 || h.parts[0].t != 1239 {
		t.Errorf("head: %+v %v", h, err)
	}
	if n, batch, err := checkActs(s["acts"].key, s["acts"].val); err != nil || n != 2 || batch != 9 {
		t.Errorf("acts: %d of batch %d, %v", n, batch, err)
	}
	for _, name := range []string{"attempt", "late-attempt"} {
		a, err := decodeAttempt(s[name].key, s[name].val)
		if err != nil || a.Target != "billing" || a.Generation != 2 || a.Number != 5 || !a.Late || a.batch != 9 || a.n != 1 || a.at.Sub(a.StartedAt) != time.Second {
			t.Errorf("%s: %+v %v", name, a, err)
		}
	}
	timed, err := decodeAttempt(s["timed-attempt"].key, s["timed-attempt"].val)
	if want := (event.Phases{DNS: 300 * time.Microsecond, TLS: 12 * time.Millisecond, FirstByte: 2 * time.Second}); err != nil || timed.Phases != want || timed.Late {
		t.Errorf("timed attempt: %+v %v", timed, err)
	}
	if d, err := decodeState(s["state"].key, s["state"].val, ref, "billing"); err != nil || d.Attempts != 5 || d.State != event.Dead || !d.NewKey {
		t.Errorf("state: %+v %v", d, err)
	}
	if c, err := decodeClaim(s["claim"].key, s["claim"].val); err != nil || c.Ref != ref || c.Window != time.Hour {
		t.Errorf("claim: %+v %v", c, err)
	}
	if n, err := decodeNote(s["note"].key, s["note"].val); err != nil || n.Kind != "target" || n.Name != "billing" || n.Version != 3 {
		t.Errorf("note: %+v %v", n, err)
	}
	k, batch, err := decodeSyncKey(s["synckey"].key, s["synckey"].val)
	e = newEnc(64)
	encodeSyncKey(e, batch, &k)
	if err != nil || batch != 9 || k.Token != 3 || !bytes.Equal(e.seal(s["synckey"].key, 0), s["synckey"].val) {
		t.Errorf("key of a synchronous route: %+v %v", k, err)
	}
	if b, err := unseal(s["body"].key, s["body"].val); err != nil || string(b) != strings.Repeat("abcd", 100) || len(s["body"].val) > 300 {
		t.Errorf("body: %d bytes stored, %v", len(s["body"].val), err)
	}
	own, err := decodeClass(s["class-own"].key, s["class-own"].val, 2)
	if err != nil || own.own != "stripe" || own.keep.Once || !bytes.Equal(own.seal(s["class-own"].key), s["class-own"].val) {
		t.Errorf("class of one source: %+v %v", own, err)
	}
	if c, err := decodeClass(s["class"].key, s["class"].val, 1); err != nil || c.own != "" {
		t.Errorf("class: %+v %v", c, err)
	}
	if c, err := decodeCuts(s["cuts"].val); err != nil || !reflect.DeepEqual(c, &cuts{first: map[[2]byte]uint32{{kindBody, 1}: 4}, claims: 5, heads: 6, headsAt: 7, headT: 8}) {
		t.Errorf("cuts: %+v %v", c, err)
	}
}

// Records without packed texts read as those with them do.
func TestPlainTextsAreRead(t *testing.T) {
	text, err := os.ReadFile(goldenPlain)
	if err != nil {
		t.Fatal(err)
	}
	now, seen := samples(), 0
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		key, err := hex.DecodeString(f[1])
		val, verr := hex.DecodeString(f[2])
		if err = errors.Join(err, verr); err != nil {
			t.Fatal(err)
		}
		seen++
		if was := val[1]; was&flagTexts != 0 {
			t.Errorf("%s has packed texts", f[0])
		}
		if key[0] == kindAttempt {
			want, _ := decodeAttempt(now[f[0]].key, now[f[0]].val)
			if got, err := decodeAttempt(key, val); err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%s reads as %+v, %v", f[0], got, err)
			}
			continue
		}
		ref := event.NewRef(1_790_000_000_000, 7, 0xabcdef)
		want, _, _ := decodeEvent(now[f[0]].key, now[f[0]].val, ref)
		if got, _, err := decodeEvent(key, val, ref); err != nil || !reflect.DeepEqual(got, want) || got.ID != "evt_1" {
			t.Errorf("%s reads as %+v, %v", f[0], got, err)
		}
		head, err := decodeEventHead(key, val)
		if err != nil || head.Key != "stripe:evt_1" {
			t.Errorf("head of %s reads as %+v, %v", f[0], head, err)
		}
	}
	if seen != 6 {
		t.Errorf("%d records", seen)
	}
}

// A record under another key, or with any bit changed, is damage.
func TestRecordsAreSealed(t *testing.T) {
	for name, r := range samples() {
		if _, err := unseal(append([]byte{'x'}, r.key...), r.val); err == nil {
			t.Errorf("%s under another key is taken for good", name)
		}
		for i := range len(r.val) * 8 {
			val := bytes.Clone(r.val)
			val[i/8] ^= 1 << (i % 8)
			if _, err := unseal(r.key, val); err == nil {
				t.Fatalf("%s with bit %d changed is taken for good", name, i)
			}
		}
	}
}

// No payload, however malformed, makes a decoder panic or allocate beyond its
// size.
func FuzzDecode(f *testing.F) {
	for _, r := range samples() {
		f.Add(r.key, r.val[envelopeSize:])
	}
	f.Fuzz(func(t *testing.T, key, payload []byte) {
		e := newEnc(len(payload))
		e.raw(payload)
		val := e.seal(key, flagTexts)
		_, _, _ = decodeEvent(key, val, event.Ref{})
		_, _ = decodeEventHead(key, val)
		_, _ = decodeAttempt(key, val)
		val = e.seal(key, 0)
		_, _, _ = decodeEvent(key, val, event.Ref{})
		_, _ = decodeEventHead(key, val)
		_, _ = decodeState(key, val, event.Ref{}, "t")
		_, _ = decodeAttempt(key, val)
		_, _ = decodeHead(key, val)
		_, _, _ = decodeSyncKey(key, val)
		_, _ = decodeTally(key, val)
		_, _ = decodeCarried(key, val)
		_, _ = decodeClass(key, val, 0)
		_, _ = decodeCuts(val)
		_, _, _ = checkActs(key, val)
		_, _ = decodeNote(key, val)
		_ = keyText(key)
		if len(key) >= 5 {
			_, _ = decodeClaim(key, val)
		}
	})
}
