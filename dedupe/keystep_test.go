package dedupe_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

var keyStart = time.Date(2026, 3, 1, 9, 30, 0, 0, time.UTC)

// firstToken is what a claim at keyStart gets.
var firstToken = uint64(keyStart.UnixMilli())

// books is the one record a step machine is tried on.
type books struct {
	rec   dedupe.SyncKey
	there bool
	now   time.Time
}

func (b *books) find(k dedupe.Key) (dedupe.SyncKey, bool, error) {
	if b.there && b.rec.Key == k {
		return b.rec, true, nil
	}
	return dedupe.SyncKey{}, false, nil
}

// apply does what an engine does.
func (b *books) apply(t *testing.T, s dedupe.KeyStep) dedupe.KeyStep {
	t.Helper()
	write, err := s.Apply(b.now, b.find)
	if err != nil {
		t.Fatalf("step %d: %v", s.Kind, err)
	}
	if write {
		b.rec, b.there = s.Record, true
	}
	return s
}

var (
	keyName  = dedupe.KeyOf(dedupe.KindSync, "pay", "shop", "k1")
	printOne = event.HashOf([]byte("one"))
	printTwo = event.HashOf([]byte("two"))
)

func claimStep(print event.Hash, idempotent bool) dedupe.KeyStep {
	return dedupe.KeyStep{Kind: dedupe.StepClaim, Key: keyName, Claim: &dedupe.KeyClaim{
		Source: "pay", Caller: "shop", ID: "k1", Target: "bank", Downstream: "pay:shop:k1", Print: print,
		Lease: time.Minute, Window: time.Hour, Idempotent: idempotent,
	}}
}

func answerOf(body string) *dedupe.KeyAnswer {
	return &dedupe.KeyAnswer{Status: 201, Length: int64(len(body)), Hash: event.HashOf([]byte(body)), Body: []byte(body)}
}

func concludeStep(act dedupe.StepKind, token uint64) dedupe.KeyStep {
	s := dedupe.KeyStep{Kind: act, Key: keyName, Token: token, Detail: "timeout", Replays: 1}
	if act == dedupe.StepAnswer || act == dedupe.StepSettle {
		s.Answer = answerOf("paid")
	}
	return s
}

// The states a key can be in, each with how it gets there. Two are not
// recorded as such: the lapsed lease and the ended window.
var keyPlaces = []struct {
	name string
	to   func(t *testing.T, b *books)
}{
	{"absent", func(*testing.T, *books) {}},
	{"in flight", func(t *testing.T, b *books) { b.apply(t, claimStep(printOne, false)) }},
	{"lapsed", func(t *testing.T, b *books) { b.apply(t, claimStep(printOne, false)); b.now = b.now.Add(time.Minute) }},
	{"answered", func(t *testing.T, b *books) {
		b.apply(t, claimStep(printOne, false))
		b.apply(t, concludeStep(dedupe.StepAnswer, firstToken))
	}},
	{"released", func(t *testing.T, b *books) {
		b.apply(t, claimStep(printOne, false))
		b.apply(t, concludeStep(dedupe.StepRelease, firstToken))
	}},
	{"unknown", func(t *testing.T, b *books) {
		b.apply(t, claimStep(printOne, false))
		b.apply(t, concludeStep(dedupe.StepUnknown, firstToken))
	}},
	{"settled", func(t *testing.T, b *books) {
		b.apply(t, claimStep(printOne, false))
		b.apply(t, concludeStep(dedupe.StepUnknown, firstToken))
		b.apply(t, concludeStep(dedupe.StepSettle, firstToken))
	}},
	{"expired", func(t *testing.T, b *books) {
		b.apply(t, claimStep(printOne, false))
		b.apply(t, concludeStep(dedupe.StepAnswer, firstToken))
		b.now = b.now.Add(time.Hour)
	}},
	{"unknown past its window", func(t *testing.T, b *books) {
		b.apply(t, claimStep(printOne, false))
		b.apply(t, concludeStep(dedupe.StepUnknown, firstToken))
		b.now = b.now.Add(2 * time.Hour)
	}},
}

// TestKeyTransitions holds every step in every state against one table:
// verdict, state after it (0: not written), whether its token is the first.
func TestKeyTransitions(t *testing.T) {
	const (
		claimed, replay, busy, mismatch = dedupe.KeyClaimed, dedupe.KeyReplay, dedupe.KeyBusy, dedupe.KeyMismatch
		stuck, done, stale              = dedupe.KeyStuck, dedupe.KeyDone, dedupe.KeyStale
		flight, answered, released      = dedupe.KeyInFlight, dedupe.KeyAnswered, dedupe.KeyReleased
		unknown, settled                = dedupe.KeyUnknown, dedupe.KeySettled
	)
	type cell struct {
		verdict dedupe.KeyVerdict
		state   dedupe.KeyState // 0: nothing is written
		token   int             // 1: the first claim's, 2: a later one
	}
	no := cell{verdict: stale}
	steps := []struct {
		name string
		step dedupe.KeyStep
		want [9]cell // in the order of keyPlaces
	}{
		{"claim", claimStep(printOne, false), [9]cell{
			{claimed, flight, 1}, {busy, 0, 0}, {stuck, unknown, 1}, {replay, 0, 0}, {claimed, flight, 2},
			{stuck, 0, 0}, {replay, 0, 0}, {claimed, flight, 2}, {stuck, 0, 0}}},
		{"claim, idempotent target", claimStep(printOne, true), [9]cell{
			{claimed, flight, 1}, {busy, 0, 0}, {claimed, flight, 2}, {replay, 0, 0}, {claimed, flight, 2},
			{claimed, flight, 2}, {replay, 0, 0}, {claimed, flight, 2}, {claimed, flight, 2}}},
		{"claim, other request", claimStep(printTwo, true), [9]cell{
			{claimed, flight, 1}, {mismatch, 0, 0}, {mismatch, 0, 0}, {mismatch, 0, 0}, {claimed, flight, 2},
			{mismatch, 0, 0}, {mismatch, 0, 0}, {claimed, flight, 2}, {mismatch, 0, 0}}},
		{"spool", concludeStep(dedupe.StepSpool, firstToken), [9]cell{
			no, {done, 0, 0}, {done, 0, 0}, no, no, {done, 0, 0}, no, no, no}},
		{"answer", concludeStep(dedupe.StepAnswer, firstToken), [9]cell{
			no, {done, answered, 1}, {done, answered, 1}, no, no, {done, answered, 1}, no, no, no}},
		{"answer, fenced", concludeStep(dedupe.StepAnswer, 7), [9]cell{no, no, no, no, no, no, no, no, no}},
		{"release", concludeStep(dedupe.StepRelease, firstToken), [9]cell{
			no, {done, released, 1}, {done, released, 1}, no, no, {done, released, 1}, no, no, no}},
		{"release, fenced", concludeStep(dedupe.StepRelease, 7), [9]cell{no, no, no, no, no, no, no, no, no}},
		{"unknown", concludeStep(dedupe.StepUnknown, firstToken), [9]cell{
			no, {done, unknown, 1}, {done, unknown, 1}, no, no, {done, unknown, 1}, no, no, no}},
		{"unknown, fenced", concludeStep(dedupe.StepUnknown, 7), [9]cell{no, no, no, no, no, no, no, no, no}},
		{"settle", concludeStep(dedupe.StepSettle, 0), [9]cell{
			no, no, {done, settled, 2}, no, no, {done, settled, 2}, no, no, {done, settled, 2}}},
		{"settle, seen otherwise", concludeStep(dedupe.StepSettle, 7), [9]cell{no, no, no, no, no, no, no, no, no}},
		{"retry", concludeStep(dedupe.StepRetry, firstToken), [9]cell{
			no, no, {done, released, 2}, no, no, {done, released, 2}, no, no, {done, released, 2}}},
		{"retry, seen otherwise", concludeStep(dedupe.StepRetry, 7), [9]cell{no, no, no, no, no, no, no, no, no}},
		{"replayed", concludeStep(dedupe.StepReplayed, 0), [9]cell{
			no, no, no, {done, answered, 1}, no, no, {done, settled, 2}, no, no}},
	}
	for _, tt := range steps {
		for i, at := range keyPlaces {
			t.Run(tt.name+" when "+at.name, func(t *testing.T) {
				b := &books{now: keyStart}
				at.to(t, b)
				s := tt.step
				write, err := s.Apply(b.now, b.find)
				if err != nil {
					t.Fatal(err)
				}
				want := tt.want[i]
				if s.Verdict != want.verdict || write != (want.state != 0) {
					t.Fatalf("verdict %d, written %v; want %d, %v", s.Verdict, write, want.verdict, want.state != 0)
				}
				if write && (s.Record.State != want.state || (s.Record.Token > firstToken) != (want.token == 2) || s.Record.Token < firstToken) {
					t.Errorf("%s with token %d, want %s with token number %d", s.Record.State, s.Record.Token, want.state, want.token)
				}
				again := tt.step // an engine may run it again
				if w, err := again.Apply(b.now, b.find); err != nil || w != write || fmt.Sprint(again.Record) != fmt.Sprint(s.Record) {
					t.Errorf("applied again it says something else: %v, %v", w, err)
				}
			})
		}
	}
}

// What an operator settled is remembered for a whole window, what a target
// answered for the rest of the first.
func TestKeyExpiry(t *testing.T) {
	b := &books{now: keyStart}
	c := b.apply(t, claimStep(printOne, false))
	b.now = b.now.Add(30 * time.Second)
	a := b.apply(t, concludeStep(dedupe.StepAnswer, c.Record.Token))
	if want := keyStart.Add(time.Hour); !a.Record.Expires.Equal(want) {
		t.Errorf("answered: expires %v, want %v", a.Record.Expires, want)
	}
	b = &books{now: keyStart}
	b.apply(t, claimStep(printOne, false))
	b.apply(t, concludeStep(dedupe.StepUnknown, firstToken))
	b.now = b.now.Add(48 * time.Hour)
	s := b.apply(t, concludeStep(dedupe.StepSettle, firstToken))
	if want := b.now.Add(time.Hour); !s.Record.Expires.Equal(want) {
		t.Errorf("settled late: expires %v, want %v", s.Record.Expires, want)
	}
	if late := b.apply(t, concludeStep(dedupe.StepAnswer, firstToken)); late.Verdict != dedupe.KeyStale {
		t.Errorf("an answer after the settlement = %d, want stale", late.Verdict)
	}
}

func TestKeyFormerNames(t *testing.T) {
	b := &books{now: keyStart}
	b.apply(t, claimStep(printOne, false))
	b.apply(t, concludeStep(dedupe.StepAnswer, firstToken))
	s := claimStep(printOne, false)
	c := *s.Claim
	c.Source, c.Downstream, c.Former = "payments", "payments:shop:k1", []dedupe.Key{keyName}
	s.Claim, s.Key = &c, dedupe.KeyOf(dedupe.KindSync, "payments", "shop", "k1")
	got := b.apply(t, s)
	if got.Verdict != dedupe.KeyReplay || got.Key != keyName {
		t.Errorf("under the new name: verdict %d, key of the old one %v", got.Verdict, got.Key == keyName)
	}
	b.now = b.now.Add(2 * time.Hour)
	if got = b.apply(t, s); got.Verdict != dedupe.KeyClaimed || got.Key == keyName {
		t.Errorf("after the old one expired: verdict %d, key of the old one %v", got.Verdict, got.Key == keyName)
	}
}

// A second try of an unknown outcome must go out with the key of the first.
func TestKeyKeepsDownstream(t *testing.T) {
	b := &books{now: keyStart}
	b.apply(t, claimStep(printOne, true))
	b.apply(t, concludeStep(dedupe.StepUnknown, firstToken))
	s := claimStep(printOne, true)
	c := *s.Claim
	c.Downstream = "another template"
	s.Claim = &c
	if got := b.apply(t, s); got.Record.Downstream != "pay:shop:k1" || got.Renewed != dedupe.KeyUnknown {
		t.Errorf("tried again as %q, renewed %s", got.Record.Downstream, got.Renewed)
	}
	b.apply(t, concludeStep(dedupe.StepRelease, b.rec.Token))
	if got := b.apply(t, s); got.Record.Downstream != "another template" {
		t.Errorf("a free key goes out as %q", got.Record.Downstream)
	}
}

func TestKeyLifeIsBounded(t *testing.T) {
	b := &books{now: keyStart}
	for i := range 100 {
		b.apply(t, claimStep(printOne, false))
		s := concludeStep(dedupe.StepRelease, b.rec.Token)
		s.ForwardedAt = b.now
		if got := b.apply(t, s); got.Verdict != dedupe.KeyDone {
			t.Fatalf("round %d: verdict %d", i, got.Verdict)
		}
		b.now = b.now.Add(time.Second)
	}
	life := b.rec.Life
	if len(life) != 24 || life[0].What != dedupe.MomentClaimed || !life[0].At.Equal(keyStart) || life[23].What != dedupe.MomentReleased {
		t.Errorf("life has %d moments, the first %+v, the last %+v", len(life), life[0], life[len(life)-1])
	}
	if !b.rec.ClaimedAt.Equal(keyStart) {
		t.Errorf("claimed at %v, want the first time", b.rec.ClaimedAt)
	}
}

func TestKeyStepFaults(t *testing.T) {
	b := &books{now: keyStart}
	short := claimStep(printOne, false)
	c := *short.Claim
	c.Window = c.Lease - 1
	short.Claim = &c
	for name, tt := range map[string]struct {
		step dedupe.KeyStep
		want error
	}{
		"no key":              {dedupe.KeyStep{Kind: dedupe.StepRelease}, dedupe.ErrNoClaim},
		"no act":              {dedupe.KeyStep{Key: keyName}, dedupe.ErrNoClaim},
		"no claim":            {dedupe.KeyStep{Kind: dedupe.StepClaim, Key: keyName}, dedupe.ErrNoClaim},
		"window under lease":  {short, dedupe.ErrNoClaim},
		"no answer":           {dedupe.KeyStep{Kind: dedupe.StepAnswer, Key: keyName}, dedupe.ErrNoClaim},
		"length is another":   {dedupe.KeyStep{Kind: dedupe.StepAnswer, Key: keyName, Answer: &dedupe.KeyAnswer{Length: 3, Body: []byte("ab")}}, dedupe.ErrTooLarge},
		"short and spooled":   {dedupe.KeyStep{Kind: dedupe.StepAnswer, Key: keyName, Answer: &dedupe.KeyAnswer{Length: 3}}, dedupe.ErrTooLarge},
		"settled with much":   {dedupe.KeyStep{Kind: dedupe.StepSettle, Key: keyName, Answer: &dedupe.KeyAnswer{Length: dedupe.MaxInline + 1}}, dedupe.ErrTooLarge},
		"chunk over the size": {dedupe.KeyStep{Kind: dedupe.StepSpool, Key: keyName, Data: make([]byte, dedupe.SyncChunk+1)}, dedupe.ErrTooLarge},
	} {
		if _, err := tt.step.Apply(b.now, b.find); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", name, err, tt.want)
		}
	}
	broken := func(dedupe.Key) (dedupe.SyncKey, bool, error) { return dedupe.SyncKey{}, false, dedupe.ErrDamaged }
	s := claimStep(printOne, false)
	if write, err := s.Apply(keyStart, broken); write || !errors.Is(err, dedupe.ErrDamaged) {
		t.Errorf("a record that can't be read: %v, %v", write, err)
	}
}

func TestKeyNames(t *testing.T) {
	for s := dedupe.KeyInFlight; s <= dedupe.KeySettled; s++ {
		got, ok := dedupe.ParseKeyState(s.String())
		var back dedupe.KeyState
		if !ok || got != s || back.UnmarshalText([]byte(s.String())) != nil || back != s {
			t.Errorf("%s does not read back", s)
		}
	}
	for m := dedupe.MomentClaimed; m <= dedupe.MomentSettled; m++ {
		var back dedupe.Moment
		if back.UnmarshalText([]byte(m.String())) != nil || back != m {
			t.Errorf("%s does not read back", m)
		}
	}
	if _, ok := dedupe.ParseKeyState(""); ok || new(dedupe.KeyState).UnmarshalText([]byte("x")) == nil || new(dedupe.Moment).UnmarshalText(nil) == nil {
		t.Error("nonsense is a state")
	}
}
