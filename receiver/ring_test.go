package receiver

import (
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/event"
	"github.com/onceward/onceward/verify"
)

func signTwilio(url, body string) verify.SignRequest {
	return verify.SignRequest{URL: url, Body: []byte(body), Header: map[string][]string{"Content-Type": {"application/x-www-form-urlencoded"}}}
}

func signGitHub(id, typ, body string) verify.SignRequest {
	return verify.SignRequest{ID: id, Type: typ, Body: []byte(body)}
}

func signAny(body string) verify.SignRequest { return verify.SignRequest{Body: []byte(body)} }

func (m message) at(path string) message {
	m.path = path
	return m
}

func TestRefusalRecord(t *testing.T) {
	t.Parallel()
	src := source(t, "stripe")
	f := setup(t, []*Source{src}, nil)
	m := f.sign(t, src, signAny(jsonBody("evt_1")))
	f.now.Store(noon.Add(time.Hour).UnixNano())
	f.send(t, m.with("User-Agent: Stripe/1.0", "X-Key: abc")).want(t, 401)
	got := f.r.Refusals(RefusalFilter{Source: "stripe"})
	if len(got) != 1 {
		t.Fatalf("%d refusals, want 1", len(got))
	}
	ref := got[0]
	if _, err := event.ParseRef(ref.ID); err != nil {
		t.Errorf("ID %q: %v", ref.ID, err)
	}
	sum := event.HashOf([]byte(m.body))
	if ref.Reason != "timestamp_old" || ref.Remote != "127.0.0.1" || ref.Method != "POST" || ref.Path != "/in/stripe" ||
		!ref.At.Equal(noon.Add(time.Hour)) || ref.BodyLength != int64(len(m.body)) || ref.BodySHA256 != hex.EncodeToString(sum[:]) ||
		string(ref.Body) != m.body || !ref.HasSkew || ref.Skew != time.Hour || ref.Detail == "" {
		t.Errorf("refusal %+v", ref)
	}
	shown := map[string]string{}
	for _, h := range ref.Header {
		shown[h.Name] = h.Value
	}
	if shown["User-Agent"] != "Stripe/1.0" || shown["X-Key"] != "[3 bytes]" ||
		shown["Stripe-Signature"] != fmt.Sprintf("[%d bytes]", len(m.value("Stripe-Signature"))) {
		t.Errorf("headers %v", shown)
	}
	if log := f.logs.String(); !strings.Contains(log, "ingest.refused") || strings.Contains(log, "invoice.paid") ||
		strings.Contains(log, m.value("Stripe-Signature")) {
		t.Error("the log must name the refusal and hold neither body nor signature")
	}
	f.send(t, message{path: "/in/" + strings.Repeat("x", 400)}).want(t, 404)
	unknown := f.r.Refusals(RefusalFilter{Reason: "unknown_source"})
	if len(unknown) != 1 || len(unknown[0].Path) != maxShownPath || unknown[0].Source != "" || unknown[0].Header != nil {
		t.Errorf("unknown source kept as %+v", unknown)
	}
	for name, filter := range map[string]RefusalFilter{
		"other source": {Source: "x"}, "other reason": {Reason: "method"}, "later": {Since: noon.Add(2 * time.Hour)},
	} {
		if got := f.r.Refusals(filter); len(got) != 0 {
			t.Errorf("%s: %d refusals, want none", name, len(got))
		}
	}
	if got := f.r.Refusals(RefusalFilter{Limit: 1}); len(got) != 1 || got[0].Reason != "unknown_source" {
		t.Errorf("newest is %+v", got)
	}
}

// TestRingBounds: a million forged requests leave the bounds where they are.
func TestRingBounds(t *testing.T) {
	t.Parallel()
	var r rings
	r.init()
	big := make([]byte, maxKeptBody)
	for i := range 1_000_000 {
		f := &Refusal{At: noon.Add(time.Duration(i)), Source: "source"[:i%7], Reason: "reason-of-many"[:i%13], Skew: time.Duration(i)}
		if i%3 == 0 {
			f.Body = big
		}
		r.add(f)
		if r.bytes > ringBytes {
			t.Fatalf("%d bytes after %d refusals, want at most %d", r.bytes, i+1, ringBytes)
		}
	}
	held, per := int64(0), map[ring]int{}
	for e := r.all.Front(); e != nil; e = e.Next() {
		f := e.Value.(*Refusal)
		held += f.size()
		per[ring{f.Source, f.Reason}]++
	}
	if held != r.bytes {
		t.Errorf("%d bytes held, %d accounted", held, r.bytes)
	}
	for key, n := range per {
		if n > ringSize || n != len(r.rings[key]) {
			t.Errorf("%v holds %d refusals, its ring %d, want at most %d", key, n, len(r.rings[key]), ringSize)
		}
	}
	if held < ringBytes/2 {
		t.Errorf("only %d bytes held: the bound was not tried", held)
	}
	if r.all.Back().Value.(*Refusal).Skew != 999_999 {
		t.Error("the newest is gone")
	}
}

// TestRingSize: every source and reason keeps its latest and no more, whatever
// the others do.
func TestRingSize(t *testing.T) {
	t.Parallel()
	var r Receiver
	r.rings.init()
	for i := range 1000 {
		r.rings.add(&Refusal{At: noon, Source: "a", Reason: "x", Detail: fmt.Sprint(i)})
		if i%100 == 0 {
			r.rings.add(&Refusal{At: noon, Source: "b", Reason: "x"})
		}
	}
	a, b := r.Refusals(RefusalFilter{Source: "a", Limit: 1000}), r.Refusals(RefusalFilter{Source: "b"})
	if len(a) != ringSize || len(b) != 10 || a[0].Detail != "999" || a[ringSize-1].Detail != "950" {
		t.Errorf("%d and %d refusals kept, want %d and 10", len(a), len(b), ringSize)
	}
	ids := map[string]bool{}
	for _, f := range append(a, b...) {
		ids[f.ID] = true
	}
	if len(ids) != ringSize+10 {
		t.Errorf("%d IDs for %d refusals", len(ids), ringSize+10)
	}
}

// TestForgedFlood: forged requests with IDs of their own change neither the
// ledger nor the number of series, and the log stays quiet.
func TestForgedFlood(t *testing.T) {
	t.Parallel()
	src := source(t, "github")
	f := setup(t, []*Source{src}, nil)
	before := seriesCount(t, f)
	for i := range 500 {
		f.send(t, message{
			method: []string{"POST", fmt.Sprintf("M%d", i)}[i%2], path: []string{"/in/github", fmt.Sprintf("/in/s%d", i)}[i/2%2],
			body:  fmt.Sprintf(`{"id":"%d"}`, i),
			lines: []string{fmt.Sprintf("X-GitHub-Delivery: d%d", i), fmt.Sprintf("X-GitHub-Event: e%d", i), "X-Hub-Signature-256: sha256=" + strings.Repeat("0", 64)},
		})
	}
	if after := seriesCount(t, f); after != before {
		t.Errorf("%d series after the flood, %d before", after, before)
	}
	if n := f.events(t); n != 0 {
		t.Errorf("%d events, want none", n)
	}
	if n := strings.Count(f.logs.String(), `"WARN"`); n > 5 {
		t.Errorf("%d warnings for 500 requests", n)
	}
	f.now.Store(noon.Add(11 * time.Second).UnixNano())
	f.send(t, message{path: "/in/github", body: "{}", lines: []string{"X-Hub-Signature-256: sha256=" + strings.Repeat("0", 64)}})
	if !strings.Contains(f.logs.String(), `"held_back":124`) {
		t.Error("the next line doesn't say how many were held back")
	}
	var total float64
	for _, reason := range reasons() {
		total += f.metric(t, "onceward_ingest_refused_total", "source", "github", "reason", reason)
	}
	total += f.metric(t, "onceward_ingest_refused_total", "source", unknownSource, "reason", reasonUnknownSource)
	if total != 501 {
		t.Errorf("%v refusals counted, want 501", total)
	}
}

func seriesCount(t *testing.T, f *fixture) int {
	t.Helper()
	families, err := f.reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, fam := range families {
		n += len(fam.GetMetric())
	}
	return n
}

func TestSourceStats(t *testing.T) {
	t.Parallel()
	src := source(t, "github")
	f := setup(t, []*Source{src}, nil)
	m := f.sign(t, src, signGitHub("d1", "push", `{}`))
	f.send(t, m)
	f.now.Store(noon.Add(time.Minute).UnixNano())
	f.send(t, m)
	f.send(t, m.without("X-Hub-Signature-256"))
	s := f.r.SourceStats()[0]
	if s.Name != "github" || s.Provider != "github" || s.Auth != "signature" || s.Path != "/in/github" || s.Offline != "" ||
		s.Counts["accepted"] != 1 || s.Counts["repeat"] != 1 || s.Counts["refused"] != 1 || s.Refused["signature_missing"] != 1 ||
		!s.LastAccepted.Equal(noon) {
		t.Errorf("stats %+v", s)
	}
	if n := f.metric(t, "onceward_source_last_accepted_timestamp_seconds", "source", "github"); n != float64(noon.Unix()) {
		t.Errorf("last accepted %v, want %d: a repeat is nothing new", n, noon.Unix())
	}
}
