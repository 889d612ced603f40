package ledgertest

import (
	"fmt"
	"time"

	"pgregory.net/rapid"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

// keySteps does the same steps of keys to the engine and to the model, of so
// few keys, prints and tokens that all transitions meet, and compares all that
// is said of them.
func (h *history) keySteps(t *rapid.T) {
	got, want := &dedupe.Batch{}, &dedupe.Batch{}
	for range rapid.IntRange(1, 4).Draw(t, "steps") {
		a := h.keyStep(t)
		b := *a
		got.Keys, want.Keys = append(got.Keys, a), append(want.Keys, &b)
	}
	h.must(h.l.Commit(h.Context(), got))
	h.must(h.model.Commit(h.Context(), want))
	for i, w := range want.Keys {
		g := got.Keys[i]
		equal(h.fix, fmt.Sprintf("verdict of act %d", w.Kind), g.Verdict, w.Verdict)
		if !g.Expired && !w.Expired { // one may have dropped it, the other not yet
			equal(h.fix, "renewed", g.Renewed, w.Renewed)
		}
		h.sameKey(g.Record, w.Record)
	}
	id := rapid.SampledFrom(keyIDs).Draw(t, "looked up")
	g, gerr := h.l.SyncKey(h.Context(), keyOf(id))
	w, werr := h.model.SyncKey(h.Context(), keyOf(id))
	equal(h.fix, "key is there", gerr == nil, werr == nil)
	if werr == nil {
		h.sameKey(g, w)
		if w.State == dedupe.KeyAnswered || w.State == dedupe.KeySettled {
			model := *h.fix
			model.l = h.model
			equal(h.fix, "answer", string(h.keyBody(g)), string(model.keyBody(w)))
		}
	}
	gs, ws := h.stats().Keys, h.modelStats().Keys
	equal(h.fix, "open keys", fmt.Sprint(gs.InFlight, gs.Unknown), fmt.Sprint(ws.InFlight, ws.Unknown))
}

func (h *history) modelStats() dedupe.Stats {
	st, err := h.model.Stats(h.Context())
	h.must(err)
	return st
}

var keyIDs = []string{"k1", "k2", "k3"}

func (h *history) keyStep(t *rapid.T) *dedupe.KeyStep {
	id := rapid.SampledFrom(keyIDs).Draw(t, "key")
	act := rapid.SampledFrom([]dedupe.StepKind{dedupe.StepClaim, dedupe.StepClaim, dedupe.StepAnswer, dedupe.StepRelease,
		dedupe.StepUnknown, dedupe.StepSettle, dedupe.StepRetry, dedupe.StepReplayed}).Draw(t, "act")
	s := &dedupe.KeyStep{Kind: act, Key: keyOf(id), Detail: "class", Replays: 2}
	switch act {
	case dedupe.StepClaim:
		s = h.claimKey(id, rapid.SampledFrom([]string{"p", "p", "q"}).Draw(t, "print"))
		s.Claim.Idempotent = rapid.Bool().Draw(t, "idempotent")
		s.Claim.Window = rapid.SampledFrom([]time.Duration{keyLease, time.Hour, 48 * time.Hour}).Draw(t, "window")
		s.Claim.Former = []dedupe.Key{dedupe.KeyOf(dedupe.KindSync, "old", "app", id)}
		if rapid.IntRange(0, 3).Draw(t, "renamed") == 0 {
			s.Key = s.Claim.Former[0] // a claim of the time before the name changed
		}
		return s
	case dedupe.StepAnswer:
		s.ForwardedAt = h.clock.Now()
		s.Answer = storedAnswer([]byte(pattern(rapid.SampledFrom([]int{0, 9, dedupe.MaxInline + 1}).Draw(t, "size"), 1)))
	case dedupe.StepSettle:
		s.Answer = storedAnswer([]byte("settled"))
	}
	s.Token = rapid.Uint64Range(0, 1).Draw(t, "token")
	if rapid.Bool().Draw(t, "present token") {
		if k, err := h.model.SyncKey(h.Context(), s.Key); err == nil {
			s.Token = k.Token
		}
	}
	return s
}

// sameKey compares what the engine and the model say of a key.
func (h *history) sameKey(g, w dedupe.SyncKey) {
	h.Helper()
	text := func(k dedupe.SyncKey) string {
		life := ""
		for _, m := range k.Life {
			life += fmt.Sprint(m.At.UnixMilli(), " ", m.What, " ", m.Detail, ";")
		}
		return fmt.Sprint(k.Key, k.Source, k.Caller, k.ID, k.Target, k.Downstream, k.Print, k.State, k.Token, k.Window, k.ClaimedAt.UnixMilli(),
			k.UpdatedAt.UnixMilli(), k.Expires.UnixMilli(), k.Replays, k.Why, k.Answer.Status, k.Answer.Header, k.Answer.Length, k.Answer.Hash, life)
	}
	if k := event.HashOf([]byte(text(g))); k != event.HashOf([]byte(text(w))) {
		h.Fatalf("key differs:\n got %s\nwant %s", text(g), text(w))
	}
}
