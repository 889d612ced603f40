package ledgertest

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

// keyTests hold what becomes of the keys of synchronous routes. The machine
// itself is dedupe's; here it is about what an engine adds: that a step is
// applied once, whole, durably, and to the record as it is.
func keyTests() []test {
	return []test{
		{"a key lives from claim to replay", keyLife},
		{"two claims in one batch: one forwards", keySameBatch},
		{"many claims at once: one forwards", keyRace},
		{"every step of a claim is fenced", keyFenced},
		{"an answer of any size is given back", keyAnswers},
		{"an answer spooled while it arrives is given back", keySpooled},
		{"an answer survives a reopen", func(f *fix) { keyRestart(f, f.reopen) }},
		{"an answer survives a kill", func(f *fix) { crashed(f, keyRestart) }},
		{"a claim that a reopen cut is unknown", func(f *fix) { keyCut(f, f.reopen) }},
		{"a claim that a kill cut is unknown", func(f *fix) { crashed(f, keyCut) }},
		{"a settled key answers, a retried one is free", keySettled},
		{"a key is new at its end and not before", keyExpiry},
		{"an unknown key outlives its window", keyHeld},
		{"expired keys give their space back", keySpace},
		{"keys are listed by what they are", keyLists},
		{"a refused step leaves the others", keyRefused},
		{"steps beside events and results", keyBeside},
		{"the account tells a key's life", keyActs},
	}
}

const keyLease = time.Minute

func keyOf(id string) dedupe.Key { return dedupe.KeyOf(dedupe.KindSync, source, "app", id) }

func (f *fix) claimKey(id, print string) *dedupe.KeyStep {
	return &dedupe.KeyStep{Kind: dedupe.StepClaim, Key: keyOf(id), Claim: &dedupe.KeyClaim{
		Source: source, Caller: "app", ID: id, Target: billing, Downstream: source + ":app:" + id, Print: event.HashOf([]byte(print)),
		Lease: keyLease, Window: window,
	}}
}

// steps commits steps in one batch.
func (f *fix) steps(ss ...*dedupe.KeyStep) {
	f.Helper()
	f.must(f.l.Commit(f.Context(), &dedupe.Batch{Keys: ss}))
	for _, s := range ss {
		f.must(s.Err)
	}
}

// claimed claims a key that must be free.
func (f *fix) claimed(id string) uint64 {
	f.Helper()
	s := f.claimKey(id, id)
	f.steps(s)
	equal(f, "verdict of claim "+id, s.Verdict, dedupe.KeyClaimed)
	return s.Record.Token
}

func storedAnswer(body []byte) *dedupe.KeyAnswer {
	return &dedupe.KeyAnswer{Status: 201, Header: []event.Field{{Name: "Content-Type", Value: "text/plain"}, {Name: "Etag", Value: `"1"`}},
		Length: int64(len(body)), Hash: event.HashOf(body), Body: body}
}

func (f *fix) answerKey(id string, token uint64, body []byte) *dedupe.KeyStep {
	f.Helper()
	s := &dedupe.KeyStep{Kind: dedupe.StepAnswer, Key: keyOf(id), Token: token, Answer: storedAnswer(body), ForwardedAt: f.clock.Now()}
	f.steps(s)
	return s
}

// concludeKey applies a step that brings nothing but a word.
func (f *fix) concludeKey(act dedupe.StepKind, id string, token uint64) dedupe.KeyVerdict {
	f.Helper()
	s := &dedupe.KeyStep{Kind: act, Key: keyOf(id), Token: token, Detail: "timeout"}
	if act == dedupe.StepSettle {
		s.Answer, s.By = storedAnswer([]byte("settled")), dedupe.By{Actor: "ops", Reason: "seen at the bank"}
	}
	f.steps(s)
	return s.Verdict
}

func (f *fix) syncKey(id string) dedupe.SyncKey {
	f.Helper()
	k, err := f.l.SyncKey(f.Context(), keyOf(id))
	f.must(err)
	return k
}

func (f *fix) keyGone(id string) {
	f.Helper()
	_, err := f.l.SyncKey(f.Context(), keyOf(id))
	f.want(err, dedupe.ErrNotFound)
}

// replayed is the stored body of a key, as a repeat is given it.
func (f *fix) replayed(id string) []byte {
	f.Helper()
	s := f.claimKey(id, id)
	f.steps(s)
	equal(f, "verdict of repeat "+id, s.Verdict, dedupe.KeyReplay)
	return f.keyBody(s.Record)
}

func (f *fix) keyBody(k dedupe.SyncKey) []byte {
	f.Helper()
	body := bytes.Clone(k.Answer.Body)
	for n := range k.Answer.Chunks() {
		b, err := f.l.SyncChunk(f.Context(), &k, n)
		f.must(err)
		body = append(body, b...)
	}
	equal(f, "length of the answer", int64(len(body)), k.Answer.Length)
	equal(f, "hash of the answer", event.HashOf(body), k.Answer.Hash)
	return body
}

func (f *fix) checked() dedupe.CheckReport {
	f.Helper()
	rep, err := f.l.Check(f.Context())
	f.must(err)
	if len(rep.Faults) > 0 {
		f.Fatalf("faults: %v", rep.Faults)
	}
	return rep
}

func keyLife(f *fix) {
	f.keyGone("k")
	token := f.claimed("k")
	if k := f.syncKey("k"); k.State != dedupe.KeyInFlight || k.Downstream != "shop:app:k" || k.Target != billing || !sameTime(k.Until, f.l.Now().Add(keyLease)) {
		f.Errorf("claimed: %+v", k)
	}
	other := f.claimKey("k", "another request")
	again := f.claimKey("k", "k")
	f.steps(other, again)
	equal(f, "another request", other.Verdict, dedupe.KeyMismatch)
	equal(f, "the same request", again.Verdict, dedupe.KeyBusy)
	f.clock.Advance(time.Second)
	f.answerKey("k", token, []byte("paid"))
	equal(f, "replay", string(f.replayed("k")), "paid")
	count := &dedupe.KeyStep{Kind: dedupe.StepReplayed, Key: keyOf("k"), Replays: 3}
	f.steps(count)
	k := f.syncKey("k")
	equal(f, "state", k.State, dedupe.KeyAnswered)
	equal(f, "replays", k.Replays, 3)
	equal(f, "header", fmt.Sprint(k.Answer.Header), fmt.Sprint(storedAnswer(nil).Header))
	var life []string
	for _, m := range k.Life {
		life = append(life, m.What.String())
	}
	equal(f, "life", fmt.Sprint(life), "[claimed forwarded answered]")
	equal(f, "keys checked", f.checked().Keys, 1)
}

func keySameBatch(f *fix) {
	a, b, c := f.claimKey("k", "k"), f.claimKey("k", "k"), f.claimKey("k", "other")
	f.steps(a, b, c)
	equal(f, "first", a.Verdict, dedupe.KeyClaimed)
	equal(f, "second", b.Verdict, dedupe.KeyBusy)
	equal(f, "other request", c.Verdict, dedupe.KeyMismatch)
	// All of a life in one batch.
	x := f.claimKey("x", "x")
	y := &dedupe.KeyStep{Kind: dedupe.StepAnswer, Key: keyOf("x"), Token: uint64(f.l.Now().UnixMilli()), Answer: storedAnswer([]byte("ok"))}
	z := f.claimKey("x", "x")
	f.steps(x, y, z)
	equal(f, "the answer in its claim's batch", y.Verdict, dedupe.KeyDone)
	equal(f, "the repeat in its batch", z.Verdict, dedupe.KeyReplay)
	equal(f, "its body", string(f.keyBody(z.Record)), "ok")
}

func keyRace(f *fix) {
	const callers = 32
	verdicts := make([]dedupe.KeyVerdict, callers)
	errs := make([]error, callers)
	var mu sync.Mutex // Commit is called serially
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			s := f.claimKey("k", "k")
			mu.Lock()
			defer mu.Unlock()
			errs[i] = f.l.Commit(f.Context(), &dedupe.Batch{Keys: []*dedupe.KeyStep{s}})
			verdicts[i] = s.Verdict
		})
	}
	wg.Wait()
	f.must(errors.Join(errs...))
	won := 0
	for _, v := range verdicts {
		if v == dedupe.KeyClaimed {
			won++
		} else {
			equal(f, "verdict of the others", v, dedupe.KeyBusy)
		}
	}
	equal(f, "claims", won, 1)
}

func keyFenced(f *fix) {
	first := f.claimed("k")
	equal(f, "release", f.concludeKey(dedupe.StepRelease, "k", first), dedupe.KeyDone)
	second := f.claimed("k")
	if second == first {
		f.Fatalf("two claims have the token %d", first)
	}
	for _, act := range []dedupe.StepKind{dedupe.StepRelease, dedupe.StepUnknown, dedupe.StepSpool} {
		equal(f, fmt.Sprintf("act %d of the first claim", act), f.concludeKey(act, "k", first), dedupe.KeyStale)
	}
	equal(f, "its answer", f.answerKey("k", first, []byte("late")).Verdict, dedupe.KeyStale)
	equal(f, "state", f.syncKey("k").State, dedupe.KeyInFlight)
	f.answerKey("k", second, []byte("paid"))
	equal(f, "a second answer", f.answerKey("k", second, []byte("paid again")).Verdict, dedupe.KeyStale)
	equal(f, "replay", string(f.replayed("k")), "paid")
}

// keySizes are the lengths at which something changes.
var keySizes = []int{0, 1, dedupe.MaxInline - 1, dedupe.MaxInline, dedupe.MaxInline + 1,
	dedupe.SyncChunk - 1, dedupe.SyncChunk, dedupe.SyncChunk + 1, 3*dedupe.SyncChunk + 7}

func keyAnswers(f *fix) {
	for i, n := range keySizes {
		id := fmt.Sprint("k", n)
		f.answerKey(id, f.claimed(id), []byte(pattern(n, i)))
	}
	for i, n := range keySizes {
		if got := f.replayed(fmt.Sprint("k", n)); string(got) != pattern(n, i) {
			f.Errorf("answer of %d bytes comes back with %d others", n, len(got))
		}
	}
	f.checked()
}

// spool writes body as its chunks arrive, then the answer that names them.
func (f *fix) spool(id string, token uint64, body []byte) {
	f.Helper()
	n := 0
	for part := range slices.Chunk(body, dedupe.SyncChunk) {
		s := &dedupe.KeyStep{Kind: dedupe.StepSpool, Key: keyOf(id), Token: token, Chunk: n, Data: part}
		f.steps(s)
		equal(f, "chunk", s.Verdict, dedupe.KeyDone)
		n++
	}
	a := storedAnswer(body)
	a.Body = nil
	s := &dedupe.KeyStep{Kind: dedupe.StepAnswer, Key: keyOf(id), Token: token, Answer: a}
	f.steps(s)
	equal(f, "answer", s.Verdict, dedupe.KeyDone)
}

func keySpooled(f *fix) {
	body := []byte(pattern(5*dedupe.SyncChunk+11, 3))
	// What an earlier claim spooled is not mixed in.
	first := f.claimed("k")
	f.steps(&dedupe.KeyStep{Kind: dedupe.StepSpool, Key: keyOf("k"), Token: first, Chunk: 0, Data: []byte("of another claim")})
	equal(f, "release", f.concludeKey(dedupe.StepRelease, "k", first), dedupe.KeyDone)
	f.spool("k", f.claimed("k"), body)
	if !bytes.Equal(f.replayed("k"), body) {
		f.Errorf("the spooled answer comes back changed")
	}
	f.checked()
	f.reopen()
	if !bytes.Equal(f.replayed("k"), body) {
		f.Errorf("the spooled answer comes back changed after a reopen")
	}
}

func keyRestart(f *fix, restart func()) {
	for i, n := range keySizes {
		id := fmt.Sprint("k", n)
		f.answerKey(id, f.claimed(id), []byte(pattern(n, i)))
	}
	free := f.claimed("free")
	f.concludeKey(dedupe.StepRelease, "free", free)
	f.concludeKey(dedupe.StepUnknown, "lost", f.claimed("lost"))
	restart()
	for i, n := range keySizes {
		if got := f.replayed(fmt.Sprint("k", n)); string(got) != pattern(n, i) {
			f.Errorf("answer of %d bytes comes back with %d others", n, len(got))
		}
	}
	if again := f.claimed("free"); again <= free {
		f.Errorf("a released key has the token %d after %d", again, free)
	}
	s := f.claimKey("lost", "lost")
	f.steps(s)
	equal(f, "an unknown key", s.Verdict, dedupe.KeyStuck)
	equal(f, "unknown in the stats", f.stats().Keys.Unknown, 1)
	f.checked()
}

func keyCut(f *fix, restart func()) {
	token := f.claimed("k")
	old := f.claimed("retried")
	restart()
	f.clock.Advance(keyLease) // an engine that others may share waits for it
	k := f.syncKey("k")
	equal(f, "state", k.State, dedupe.KeyUnknown)
	equal(f, "why", k.Why, dedupe.WhyLease)
	st := f.stats().Keys
	equal(f, "unknown in the stats", st.Unknown, 2)
	equal(f, "in flight in the stats", st.InFlight, 0)
	s := f.claimKey("k", "k")
	f.steps(s)
	equal(f, "verdict", s.Verdict, dedupe.KeyStuck)
	again := f.claimKey("retried", "retried")
	again.Claim.Idempotent = true
	f.steps(again)
	equal(f, "verdict with an idempotent target", again.Verdict, dedupe.KeyClaimed)
	if again.Record.Token <= old {
		f.Errorf("the second claim has the token %d after %d", again.Record.Token, old)
	}
	equal(f, "the answer of the claim that was cut", f.answerKey("retried", old, []byte("late")).Verdict, dedupe.KeyStale)
	f.answerKey("retried", again.Record.Token, []byte("paid"))
	// What the first claim's holder finds out is still the truth.
	equal(f, "the answer after the lease", f.answerKey("k", token, []byte("paid")).Verdict, dedupe.KeyDone)
	equal(f, "replay", string(f.replayed("k")), "paid")
}

func keySettled(f *fix) {
	tokens := map[string]uint64{}
	for _, id := range []string{"done", "retry", "busy"} {
		tokens[id] = f.claimed(id)
	}
	equal(f, "settling what is in flight", f.concludeKey(dedupe.StepSettle, "busy", 0), dedupe.KeyStale)
	f.clock.Advance(keyLease)
	equal(f, "settle", f.concludeKey(dedupe.StepSettle, "done", tokens["done"]), dedupe.KeyDone)
	equal(f, "retry", f.concludeKey(dedupe.StepRetry, "retry", tokens["retry"]), dedupe.KeyDone)
	equal(f, "settle again", f.concludeKey(dedupe.StepSettle, "done", 0), dedupe.KeyStale)
	f.reopen()
	equal(f, "what a settled key answers", string(f.replayed("done")), "settled")
	k := f.syncKey("done")
	equal(f, "state", k.State, dedupe.KeySettled)
	equal(f, "last of its life", k.Life[len(k.Life)-1].Detail, "ops: seen at the bank")
	f.claimed("retry")
	equal(f, "the first claim's answer", f.answerKey("retry", tokens["retry"], []byte("late")).Verdict, dedupe.KeyStale)
}

func keyExpiry(f *fix) {
	f.answerKey("k", f.claimed("k"), []byte("first"))
	f.clock.Advance(window - time.Second)
	f.expire()
	equal(f, "a second before the end", string(f.replayed("k")), "first")
	f.reopen()
	equal(f, "the same after a reopen", string(f.replayed("k")), "first")
	f.clock.Advance(time.Second)
	f.keyGone("k")
	s := f.claimKey("k", "another request by now")
	f.steps(s)
	equal(f, "at the end", s.Verdict, dedupe.KeyClaimed)
	f.answerKey("k", s.Record.Token, []byte("second"))
	f.expire()
	again := f.claimKey("k", "another request by now")
	f.steps(again)
	equal(f, "again", again.Verdict, dedupe.KeyReplay)
	equal(f, "its answer", string(f.keyBody(again.Record)), "second")
	f.clock.Advance(-48 * time.Hour) // a clock set back makes nothing new
	f.steps(again)
	equal(f, "with the clock set back", again.Verdict, dedupe.KeyReplay)
}

func keyHeld(f *fix) {
	f.concludeKey(dedupe.StepUnknown, "unknown", f.claimed("unknown"))
	f.claimed("lapsed")
	f.answerKey("answered", f.claimed("answered"), []byte("x"))
	for day := range 12 {
		f.clock.Advance(24 * time.Hour)
		if day%4 == 0 {
			f.reopen()
			f.clock.Advance(2 * time.Hour) // past the hold of a clock far ahead
		}
		f.expire()
		equal(f, fmt.Sprintf("day %d: unknown", day), f.stats().Keys.Unknown, 2)
		s := f.claimKey("unknown", "unknown")
		f.steps(s)
		equal(f, fmt.Sprintf("day %d: verdict", day), s.Verdict, dedupe.KeyStuck)
	}
	f.keyGone("answered")
	equal(f, "settle", f.concludeKey(dedupe.StepSettle, "unknown", 0), dedupe.KeyDone)
	equal(f, "retry", f.concludeKey(dedupe.StepRetry, "lapsed", 0), dedupe.KeyDone)
	f.expire()
	equal(f, "settled after the window", string(f.replayed("unknown")), "settled")
	f.clock.Advance(window)
	f.keyGone("unknown")
	f.checked()
}

func keySpace(f *fix) {
	if f.h.DiskUsage == nil {
		f.Logf("disk usage is not tested: the harness has none")
		return
	}
	first := ^uint64(0)
	for i := range 60 {
		id := fmt.Sprint("k", i)
		token := f.claimed(id)
		first = min(first, token)
		s := &dedupe.KeyStep{Kind: dedupe.StepAnswer, Key: keyOf(id), Token: token, Answer: storedAnswer([]byte(pattern(1<<20, i)))}
		f.steps(s)
	}
	full := f.h.DiskUsage(f.TB, f.l)
	if full < 60<<20 {
		f.Fatalf("60 MiB of answers take %d bytes", full)
	}
	f.clock.Advance(window + 25*time.Hour) // a day for the engine's buckets
	x := f.expire()
	equal(f, "keys dropped", x.Keys, 60)
	if last := f.claimed("k0"); last <= first {
		f.Errorf("token %d comes after %d, though its record was dropped", last, first)
	}
	f.reopen()
	if left := f.h.DiskUsage(f.TB, f.l); left > f.h.DiskSlack+full/10 {
		f.Errorf("%d of %d bytes are still taken", left, full)
	}
	f.checked()
}

func keyLists(f *fix) {
	const each = 7
	for i := range each {
		id := fmt.Sprint(i)
		f.answerKey("answered"+id, f.claimed("answered"+id), []byte("x"))
		f.concludeKey(dedupe.StepUnknown, "unknown"+id, f.claimed("unknown"+id))
		f.concludeKey(dedupe.StepRelease, "released"+id, f.claimed("released"+id))
		f.claimed("flight" + id)
		f.clock.Advance(time.Second)
	}
	list := func(flt dedupe.KeyFilter) []dedupe.SyncKey {
		return pages(f, 5, func(cursor string) (dedupe.Page[dedupe.SyncKey], error) {
			p, err := f.l.SyncKeys(f.Context(), flt, cursor, 5)
			if flt.Open && len(p.Items) > 5 {
				p.Items = p.Items[:5] // open ones are one page; pages checks its size
			}
			return p, err
		})
	}
	equal(f, "all", len(list(dedupe.KeyFilter{})), 4*each)
	for s := dedupe.KeyInFlight; s <= dedupe.KeyUnknown; s++ {
		got := list(dedupe.KeyFilter{State: s, Source: source, Caller: "app"})
		equal(f, "in state "+s.String(), len(got), each)
		for _, k := range got {
			equal(f, "state", k.State, s)
		}
	}
	equal(f, "of another source", len(list(dedupe.KeyFilter{Source: "other"})), 0)
	equal(f, "by ID", len(list(dedupe.KeyFilter{ID: "answered3"})), 1)
	p, err := f.l.SyncKeys(f.Context(), dedupe.KeyFilter{Open: true}, "", 5)
	f.must(err)
	equal(f, "open", len(p.Items), 2*each)
	if !slices.IsSortedFunc(p.Items, func(a, b dedupe.SyncKey) int { return a.ClaimedAt.Compare(b.ClaimedAt) }) {
		f.Errorf("open keys are not by their claims")
	}
	st := f.stats().Keys
	equal(f, "unknown in the stats", st.Unknown, each)
	equal(f, "in flight in the stats", st.InFlight, each)
	if !sameTime(st.Oldest, f.syncKey("unknown0").ClaimedAt) {
		f.Errorf("oldest unknown %v, want %v", st.Oldest, f.syncKey("unknown0").ClaimedAt)
	}
	if _, err := f.l.SyncKeys(f.Context(), dedupe.KeyFilter{}, "nonsense of a cursor", 5); err == nil {
		f.Logf("this engine takes any cursor")
	}
}

func keyRefused(f *fix) {
	bad := &dedupe.KeyStep{Kind: dedupe.StepAnswer, Key: keyOf("bad"), Token: 1,
		Answer: &dedupe.KeyAnswer{Status: 200, Length: 9, Body: []byte("short")}}
	good := f.claimKey("good", "good")
	f.must(f.l.Commit(f.Context(), &dedupe.Batch{Keys: []*dedupe.KeyStep{bad, good}}))
	f.want(bad.Err, dedupe.ErrTooLarge)
	equal(f, "the other", good.Verdict, dedupe.KeyClaimed)
	f.must(good.Err)
}

func keyBeside(f *fix) {
	req := one(f.item("evt_1", "body", billing), "body")
	s := f.claimKey("k", "k")
	f.must(f.l.Commit(f.Context(), &dedupe.Batch{Requests: []*dedupe.Request{req}, Keys: []*dedupe.KeyStep{s}}))
	equal(f, "event", req.Outcomes[0].Verdict, dedupe.New)
	equal(f, "key", s.Verdict, dedupe.KeyClaimed)
	res := f.result(f.leaseOne(billing), event.Delivered, 0)
	a := &dedupe.KeyStep{Kind: dedupe.StepAnswer, Key: keyOf("k"), Token: s.Record.Token, Answer: storedAnswer([]byte("ok"))}
	f.must(f.l.Commit(f.Context(), &dedupe.Batch{Results: []*dedupe.Result{res}, Keys: []*dedupe.KeyStep{a}}))
	equal(f, "delivery", f.delivery(req.Outcomes[0].Ref, billing).State, event.Delivered)
	equal(f, "replay", string(f.replayed("k")), "ok")
	// An event ID and a key of the same text are two things.
	equal(f, "event of the same ID", f.accept("k", "x").Verdict, dedupe.New)
	f.checked()
}

func keyActs(f *fix) {
	token := f.claimed("k")
	f.clock.Advance(keyLease)
	s := f.claimKey("k", "k")
	f.steps(s, f.claimKey("k", "other")) // the second changes nothing, so that nothing is told of it
	equal(f, "settle", f.concludeKey(dedupe.StepSettle, "k", 0), dedupe.KeyDone)
	paid := f.claimed("paid")
	f.answerKey("paid", paid, []byte("ok"))
	f.steps(&dedupe.KeyStep{Kind: dedupe.StepReplayed, Key: keyOf("paid"), Replays: 3})
	one := func(kind dedupe.ActKind, id, outcome string, token uint64) dedupe.Act {
		return dedupe.Act{Kind: kind, At: f.l.Now(), Source: source, Target: billing, ID: id, Outcome: outcome, Number: token}
	}
	want := []dedupe.Act{
		one(dedupe.ActKeyed, "k", "claimed", token), one(dedupe.ActKeyed, "k", "unknown", token), one(dedupe.ActSettled, "k", "done", token+1),
		one(dedupe.ActKeyed, "paid", "claimed", paid), one(dedupe.ActKeyed, "paid", "answered", paid), one(dedupe.ActKeyed, "paid", "replayed", 3),
	}
	want[0].At, want[0].Hash, want[0].Detail = start, event.HashOf([]byte("k")), "app"
	want[1].Detail = dedupe.WhyLease
	want[2].By, want[2].Status, want[2].Hash, want[2].Bytes, want[2].Detail = dedupe.By{Actor: "ops", Reason: "seen at the bank"}, 201, event.HashOf([]byte("settled")), 7, "timeout"
	want[3].Hash, want[3].Detail = event.HashOf([]byte("paid")), "app"
	want[4].Status, want[4].Hash, want[4].Bytes, want[4].Time = 201, event.HashOf([]byte("ok")), 2, f.clock.Now()
	acts := f.acts()
	equal(f, "acts", len(acts), len(want))
	for i := range acts {
		if diff := sameAct(acts[i], want[i]); diff != "" {
			f.Errorf("act %d: %s", i, diff)
		}
	}
}
