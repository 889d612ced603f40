package ledgertest

import (
	"fmt"
	"strings"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

// textTests hold that texts from outside are bytes: an engine keeps any, gives
// them back as they were, and looks for any.
func textTests() []test {
	return []test{
		{"an event with odd texts", textEvent},
		{"an attempt with odd texts", textAttempt},
		{"an act with odd texts", textAct},
		{"a key with odd texts", textKey},
		{"a search for odd texts", textSearch},
	}
}

// oddTexts are such as a column for text may not take, or take for another.
var oddTexts = [...]string{
	"a\x00b", "\x00", "\xff\xfe", "\xed\xa0\x80", `\x00\000\`, `'; -- "`, "a\r\nb", "é😀", strings.Repeat("\x00x", 500),
}

func textEvent(f *fix) {
	var want []event.Event
	for _, text := range oddTexts {
		it := f.item("evt_1", "{}", billing)
		ev := &it.Event
		ev.ID, it.RawID, it.Claim = text, text, dedupe.KeyOf(dedupe.KindID, source, "", text)
		ev.Type, ev.Caller, ev.Secret, ev.Key, ev.Path, ev.Query, ev.Trace = text, text, text, text, text, text, text
		ev.Header = []event.Field{{Name: "X-Odd", Value: text}}
		ev.Index = []event.Field{{Name: "odd", Value: text}}
		req := one(it, "{}")
		req.Answer = event.Answer{Status: 202, ContentType: text, Body: []byte(text)}
		f.commit(req)
		ref := req.Outcomes[0].Ref
		ev.Ref, ev.Answer, ev.Body.Request = ref, req.Answer, ref
		want = append(want, *ev)
	}
	for _, again := range [...]func(){func() {}, f.reopen} {
		again()
		for _, ev := range want {
			if diff := sameEvent(f.get(ev.Ref).Event, ev); diff != "" {
				f.Fatalf("an event with %.20q is read back otherwise: %s", ev.Type, diff)
			}
			for _, flt := range [...]dedupe.Filter{{Type: ev.Type}, {Field: "odd", Value: ev.Type}} {
				f.wantFound(fmt.Sprintf("%.20q", ev.Type), flt, ev.Ref)
			}
		}
	}
}

func textAttempt(f *fix) {
	for _, text := range oddTexts {
		for _, state := range [...]event.State{event.Pending, event.Dead} {
			ref := f.newEvent("evt_"+state.String()+text, "{}", billing)
			r := f.result(f.leaseOne(billing), state, 0)
			r.Attempt.Outcome, r.Attempt.Error, r.Attempt.Response = event.OutcomeNacked, text, []byte(text)
			f.finish(r)
			as := f.attempts(ref)
			equal(f, "attempts", len(as), 1)
			equal(f, "error", as[0].Error, text)
			equal(f, "response", string(as[0].Response), text)
			if state == event.Pending {
				f.settle(billing, event.Delivered)
			}
		}
	}
}

func textAct(f *fix) {
	for _, text := range oddTexts {
		ref := f.newEvent("evt_"+text, "{}", billing)
		n, err := f.l.Cancel(f.Context(), ref, "", dedupe.By{Actor: text, Reason: text})
		f.must(err)
		equal(f, "cancelled", n, 1)
		act := &dedupe.Act{Kind: dedupe.ActRefused, Source: source, Number: 3, Outcome: "signature", Time: f.clock.Now(), Detail: text}
		f.must(f.l.Commit(f.Context(), &dedupe.Batch{Acts: []*dedupe.Act{act}}))
	}
	f.reopen()
	cancelled, refused := map[string]bool{}, map[string]bool{}
	for _, a := range f.acts() {
		cancelled[a.Actor] = cancelled[a.Actor] || a.Kind == dedupe.ActCancelled && a.Actor == a.Reason
		refused[a.Detail] = refused[a.Detail] || a.Kind == dedupe.ActRefused
	}
	for _, text := range oddTexts {
		if !cancelled[text] || !refused[text] {
			f.Errorf("acts by %.20q and about it: read back %v, %v", text, cancelled[text], refused[text])
		}
	}
}

func textKey(f *fix) {
	for _, text := range oddTexts {
		s := f.claimKey(text, text)
		s.Claim.Caller, s.Claim.Downstream = text, text
		f.steps(s)
		equal(f, "verdict", s.Verdict, dedupe.KeyClaimed)
	}
	f.reopen()
	for _, text := range oddTexts {
		k := f.syncKey(text)
		equal(f, "caller", k.Caller, text)
		equal(f, "ID", k.ID, text)
		equal(f, "downstream key", k.Downstream, text)
	}
}

func textSearch(f *fix) {
	ref := f.newEvent("evt_1", "{}", billing)
	f.settle(billing, event.Dead)
	for _, text := range oddTexts {
		for _, flt := range [...]dedupe.Filter{
			{Source: text}, {Type: text}, {Target: text}, {ID: text}, {Field: text, Value: text}, {Status: event.Status(text)}, {State: text},
			{Target: text, State: "dead"}, {Target: text, State: "pending"}, {Source: text, Status: event.StatusDead}, {Source: text, ID: "evt_1"},
		} {
			if flt.State == "" { // which a list of events passes over
				equal(f, fmt.Sprintf("events found by %.20q", text), len(f.events(flt, 10)), 0)
			}
			equal(f, fmt.Sprintf("deliveries found by %.20q", text), len(f.deliveries(flt, 10)), 0)
			n, err := f.l.Replay(f.Context(), dedupe.Replay{Selection: dedupe.Selection{Filter: flt}, By: by})
			f.must(err)
			equal(f, fmt.Sprintf("opened by %.20q", text), n.Opened, 0)
		}
		refs, err := f.l.Lookup(f.Context(), []string{text}, "evt_1")
		f.must(err)
		equal(f, "found in that source", len(refs), 0)
		refs, err = f.l.Lookup(f.Context(), []string{source}, text)
		f.must(err)
		equal(f, "found by that ID", len(refs), 0)
		n, err := f.l.Replay(f.Context(), dedupe.Replay{Selection: dedupe.Selection{Ref: ref}, Target: text, By: by})
		f.must(err)
		equal(f, "opened at that target", n.Opened, 0)
		ls, _, err := f.l.Lease(f.Context(), text, 10, ttl)
		f.must(err)
		equal(f, "leased of that target", len(ls), 0)
		for _, change := range [...]func() (int, error){
			func() (int, error) { return f.l.Cancel(f.Context(), ref, text, by) },
			func() (int, error) { return f.l.Drop(f.Context(), ref, text, by) },
		} {
			n, err := change()
			f.must(err)
			equal(f, "changed at that target", n, 0)
		}
	}
}
