package main

import (
	"slices"
	"strings"
	"testing"
	"time"
)

const ms = time.Millisecond

// history is a small run in which every promise was kept: three events, the
// github one with two bodies, one kill at 100 ms with two deliveries open.
func history() Evidence {
	a, b := strings.Repeat("a", 64), strings.Repeat("b", 64)
	sent := func(source, id, hash string, at time.Duration, ref string, repeat bool) Sent {
		return Sent{Source: source, ID: id, Hash: hash, SentAt: at, Status: 200, AnsweredAt: at + ms, Ref: ref, Repeat: repeat}
	}
	got := func(target, source, id, hash string, attempt, status int, at time.Duration) Request {
		return Request{Target: target, Source: source, EventID: id, Hash: hash, Key: source + ":" + id, Attempt: attempt, At: at, Status: status}
	}
	stored := func(ref, source, id, hash string, attempts map[string]int) Stored {
		s := Stored{Ref: ref, Source: source, ID: id, Hash: hash, Key: source + ":" + id}
		for t, n := range attempts {
			s.Deliveries = append(s.Deliveries, StoredDelivery{Target: t, State: "delivered", Attempts: n})
		}
		return s
	}
	return Evidence{
		Sources: Sources(),
		Lives:   []Life{{Start: 0, Ready: 5 * ms, End: 100 * ms, Killed: true}, {Start: 110 * ms, Ready: 150 * ms, End: 4000 * ms}},
		Sent: []Sent{
			sent("stripe", "s1", a, 10*ms, "R1", false),
			sent("stripe", "s1", a, 20*ms, "R1", true),
			sent("stripe", "s1", b, 30*ms, "R1", true), // a conflict, acknowledged
			sent("github", "g1", a, 40*ms, "R2", false),
			sent("github", "g1", b, 50*ms, "R3", false), // a conflict, an event of its own
			{Source: "standard", ID: "w1", Hash: a, SentAt: 99 * ms},
			sent("standard", "w1", a, 160*ms, "R4", true), // was committed, the answer got lost
		},
		Requests: []Request{
			got("billing", "stripe", "s1", a, 1, 503, 12*ms),
			got("billing", "stripe", "s1", a, 2, 200, 60*ms),
			got("billing", "github", "g1", a, 1, 200, 42*ms),
			got("crm", "github", "g1", a, 1, 200, 98*ms),
			got("crm", "github", "g1", a, 2, 200, 170*ms), // the kill took the result of the first
			got("billing", "github", "g1~"+b[:16], b, 1, 200, 180*ms),
			got("crm", "github", "g1~"+b[:16], b, 1, 200, 200*ms),
			got("crm", "standard", "w1", a, 1, 200, 155*ms),
		},
		Stored: []Stored{
			stored("R1", "stripe", "s1", a, map[string]int{"billing": 2}),
			stored("R2", "github", "g1", a, map[string]int{"billing": 1, "crm": 2}),
			stored("R3", "github", "g1~"+b[:16], b, map[string]int{"billing": 1, "crm": 1}),
			stored("R4", "standard", "w1", a, map[string]int{"crm": 1}),
		},
	}
}

// A power cut may take the note of an attempt that was sent, a kill may not.
func TestJudgePowerCut(t *testing.T) {
	t.Parallel()
	e := history()
	e.Until = 4000 * ms
	e.Requests[4].Attempt = 1
	for i, d := range e.Stored[1].Deliveries {
		if d.Target == "crm" {
			e.Stored[1].Deliveries[i].Attempts = 1
		}
	}
	if v := Judge(e); v.Miscount != 0 {
		t.Errorf("%d miscounts after a power cut:\n%s", v.Miscount, v.String())
	}
	e.Until = 0
	if v := Judge(e); v.Miscount == 0 {
		t.Error("the same after a kill was not faulted")
	}
}

func TestJudgeGood(t *testing.T) {
	t.Parallel()
	v := Judge(history())
	if !v.OK() {
		t.Errorf("a good history was faulted:\n%s", v.String())
	}
	if v.Acknowledged != 4 || v.Stored != 4 || v.Requests != 8 || v.Copies != 1 {
		t.Errorf("got acknowledged %d, stored %d, requests %d, copies %d; want 4, 4, 8, 1", v.Acknowledged, v.Stored, v.Requests, v.Copies)
	}
	if v.FirstOrphan != 30*ms || v.LastOrphan != 50*ms || v.SlowestStart != 40*ms {
		t.Errorf("got first orphan %v, last %v, start %v; want 30ms, 50ms, 40ms", v.FirstOrphan, v.LastOrphan, v.SlowestStart)
	}
}

// TestJudgeCatches changes the good history in one way at a time: each must
// be counted under its own name.
func TestJudgeCatches(t *testing.T) {
	t.Parallel()
	other := strings.Repeat("c", 64)
	for _, tt := range []struct {
		name   string
		change func(*Evidence)
		count  func(*Verdict) int
	}{
		{"event missing in the account", func(e *Evidence) { e.Stored = e.Stored[1:] }, lost},
		{"event never delivered", func(e *Evidence) { e.Requests = e.Requests[2:] }, lost},
		{"delivered to one of two targets", func(e *Evidence) { e.Requests = slices.Delete(e.Requests, 6, 7) }, lost},
		{"only refused by the target", func(e *Evidence) { e.Requests[1].Status = 503 }, lost},
		{"second body of a delivering source missing", func(e *Evidence) {
			e.Stored = slices.Delete(e.Stored, 2, 3)
			e.Requests = slices.Delete(e.Requests, 5, 7)
		}, lost},
		{"dead in the account", func(e *Evidence) { e.Stored[0].Deliveries[0].State = "dead" }, lost},
		{"no delivery in the account", func(e *Evidence) { e.Stored[0].Deliveries = nil }, lost},
		{"unanswered, stored, not delivered", func(e *Evidence) {
			e.Sent, e.Requests = e.Sent[:6], e.Requests[:7]
		}, func(v *Verdict) int { return v.Torn }},
		{"stored twice", func(e *Evidence) {
			s := e.Stored[0]
			s.Ref = "R9"
			e.Stored = append(e.Stored, s)
		}, twice},
		{"one ID stored with two bodies", func(e *Evidence) { e.Stored[2].ID = "g1" }, twice},
		{"answered as new twice", func(e *Evidence) { e.Sent[1].Repeat = false }, twice},
		{"answered with two refs", func(e *Evidence) { e.Sent[1].Ref = "R9" }, twice},
		{"answered with a ref that is not the stored one", func(e *Evidence) { e.Sent[6].Ref = "R9" }, twice},
		{"key changed between attempts", func(e *Evidence) { e.Requests[1].Key = "stripe:s1~r1" }, keys},
		{"key empty", func(e *Evidence) { e.Requests[1].Key = "" }, keys},
		{"key differs from the account's", func(e *Evidence) { e.Stored[0].Key = "stripe:other" }, keys},
		{"two events with one key", func(e *Evidence) {
			e.Stored[3].Key, e.Requests[7].Key = e.Stored[0].Key, e.Stored[0].Key
		}, keys},
		{"delivered bytes changed", func(e *Evidence) { e.Requests[1].Hash = other }, func(v *Verdict) int { return v.Bytes }},
		{"stored bytes changed", func(e *Evidence) { e.Stored[0].Hash = other }, func(v *Verdict) int { return v.Bytes }},
		{"the conflict's bytes stored instead", func(e *Evidence) {
			e.Stored[0].Hash = e.Sent[2].Hash
			e.Requests[0].Hash, e.Requests[1].Hash = e.Sent[2].Hash, e.Sent[2].Hash
		}, func(v *Verdict) int { return v.Bytes }},
		{"delivered again without a crash", func(e *Evidence) {
			r := e.Requests[1]
			r.At = 70 * ms
			e.Requests = append(e.Requests, r)
		}, func(v *Verdict) int { return v.Again }},
		{"more attempts shown than made", func(e *Evidence) { e.Stored[0].Deliveries[0].Attempts = 3 },
			func(v *Verdict) int { return v.Miscount }},
		{"attempt before the last not shown", func(e *Evidence) { e.Stored[0].Deliveries[0].Attempts = 0 },
			func(v *Verdict) int { return v.Miscount }},
		{"attempt of a living process not shown", func(e *Evidence) { e.Stored[3].Deliveries[0].Attempts = 0 },
			func(v *Verdict) int { return v.Miscount }},
		{"attempt number given again", func(e *Evidence) { e.Requests[1].Attempt = 1 },
			func(v *Verdict) int { return v.Miscount }},
		{"attempt of a killed process not shown", func(e *Evidence) {
			e.Stored[1] = Stored{Ref: "R2", Source: "github", ID: "g1", Hash: e.Stored[1].Hash, Key: "github:g1", Deliveries: []StoredDelivery{
				{Target: "billing", State: "delivered", Attempts: 1}, {Target: "crm", State: "delivered", Attempts: 1}}}
		}, func(v *Verdict) int { return v.Miscount }},
		{"attempt number given again after a kill", func(e *Evidence) { e.Requests[4].Attempt = 1 },
			func(v *Verdict) int { return v.Miscount }},
		{"attempt number left out", func(e *Evidence) { e.Requests[4].Attempt = 3 },
			func(v *Verdict) int { return v.Miscount }},
		{"delivered and never sent", func(e *Evidence) {
			e.Requests = append(e.Requests, Request{Target: "crm", Source: "standard", EventID: "w9", Key: "standard:w9", At: 300 * ms, Status: 200})
		}, func(v *Verdict) int { return v.Strange }},
		{"stored and never sent", func(e *Evidence) {
			e.Stored = append(e.Stored, Stored{Ref: "R9", Source: "standard", ID: "w9", Key: "standard:w9"})
		}, func(v *Verdict) int { return v.Strange }},
		{"orphans move too late", func(e *Evidence) {
			orphansLate(e, MaxOrphanDelay+100*ms)
		}, func(v *Verdict) int { return v.Stuck }},
		{"orphans move too late beside answers, in a hurry", func(e *Evidence) {
			e.Hurried = true
			orphansLate(e, MaxOrphanDelay+100*ms)
			busy(e, e.Lives[1].Ready, e.Requests[4].At)
		}, func(v *Verdict) int { return v.Stuck }},
		{"orphans move too late in silence, in a hurry", func(e *Evidence) {
			e.Hurried = true
			orphansLate(e, MaxOrphanDelay+MaxSilence+200*ms)
		}, func(v *Verdict) int { return v.Stuck }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e := history()
			tt.change(&e)
			v := Judge(e)
			if tt.count(&v) == 0 || v.OK() || len(v.Faults) == 0 {
				t.Errorf("not caught:\n%s", v.String())
			}
		})
	}
}

// orphansLate has everything after the restart reach the targets later.
func orphansLate(e *Evidence, by time.Duration) {
	e.Lives[1].End += by
	for i := 4; i < len(e.Requests); i++ {
		e.Requests[i].At += by
	}
}

// busy has the gateway answer a sender again and again.
func busy(e *Evidence, from, to time.Duration) {
	again := e.Sent[1]
	for at := from; at < to; at += 50 * ms {
		again.SentAt, again.AnsweredAt = at, at+ms
		e.Sent = append(e.Sent, again)
	}
}

// TestJudgeSilence has orphans of a hurried gateway that move late after a
// restart, while nothing else moved either.
func TestJudgeSilence(t *testing.T) {
	t.Parallel()
	e := history()
	e.Hurried = true
	orphansLate(&e, MaxOrphanDelay+MaxSilence-500*ms)
	if v := Judge(e); !v.OK() {
		t.Errorf("a gateway that stood still was faulted:\n%s", v.String())
	}
}

func lost(v *Verdict) int  { return v.Lost }
func twice(v *Verdict) int { return v.Twice }
func keys(v *Verdict) int  { return v.Keys }

// Short events may be gone when they are delivered, and not before; replayed
// ones may come again, with the same key and bytes.
func TestJudgeShortAndReplayed(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		change func(*Evidence)
		ok     bool
	}{
		{"short, delivered and gone", func(e *Evidence) { e.Sources[0].Short, e.Stored = true, e.Stored[1:] }, true},
		{"short, never delivered", func(e *Evidence) { e.Sources[0].Short, e.Requests = true, e.Requests[2:] }, false},
		{"short, still pending", func(e *Evidence) {
			e.Sources[0].Short = true
			e.Stored[0].Deliveries[0].State = "pending"
		}, false},
		{"replayed", func(e *Evidence) {
			e.Sources[0].Replayed = true
			r := e.Requests[1]
			r.At = 70 * ms
			e.Requests = append(e.Requests, r)
		}, true},
		{"replayed with another key", func(e *Evidence) {
			e.Sources[0].Replayed = true
			r := e.Requests[1]
			r.Key, r.At = "stripe:s1~r1", 70*ms
			e.Requests = append(e.Requests, r)
		}, false},
	} {
		e := history()
		tt.change(&e)
		if v := Judge(e); v.OK() != tt.ok {
			t.Errorf("%s: OK is %v\n%s", tt.name, v.OK(), v.String())
		}
	}
}

// TestJudgeUntil has the power cut between an answer and the end: what was
// answered after it may be gone, what was answered before it may not.
func TestJudgeUntil(t *testing.T) {
	t.Parallel()
	gone := func(until time.Duration) Verdict {
		e := history()
		e.Lives, e.Until = e.Lives[:1], until
		e.Sent, e.Requests, e.Stored = e.Sent[:1], nil, nil
		return Judge(e)
	}
	if v := gone(11 * ms); !v.OK() || v.Acknowledged != 0 {
		t.Errorf("answered at the cut: counted as acknowledged:\n%s", v.String())
	}
	if v := gone(11*ms + 1); v.Lost != 1 || v.Acknowledged != 1 {
		t.Errorf("answered before the cut: not counted as lost:\n%s", v.String())
	}
}

// TestJudgeCut has a target answer while the power is cut: the mark of that is
// gone, and the number is given again.
func TestJudgeCut(t *testing.T) {
	t.Parallel()
	for gone, want := range map[time.Duration]bool{107 * ms: true, 0: false} {
		e := history()
		e.Until, e.Lives[0].Gone = 100*ms, gone
		e.Requests[3].At, e.Requests[4].Attempt = 105*ms, 1
		if v := Judge(e); v.OK() != want {
			t.Errorf("gone at %v: OK is %v, want %v\n%s", gone, v.OK(), want, v.String())
		}
	}
}

// TestJudgeStuck has a process that lived long and moved nothing, and one
// that was killed before it could.
func TestJudgeStuck(t *testing.T) {
	t.Parallel()
	const last = MaxOrphanDelay + 3000*ms
	for end, want := range map[time.Duration]int{MaxOrphanDelay + 2000*ms: 1, 500 * ms: 0} {
		e := history()
		e.Lives = append(e.Lives[:1], Life{Start: 110 * ms, Ready: 150 * ms, End: end, Killed: true},
			Life{Start: last, Ready: last + 10*ms, End: last + 4000*ms})
		for i := 4; i < len(e.Requests); i++ {
			e.Requests[i].At = last + 20*ms
		}
		e.Sent[6].SentAt, e.Sent[6].AnsweredAt = last+15*ms, last+16*ms
		if v := Judge(e); v.Stuck != want || v.Lost != 0 {
			t.Errorf("second process ended at %v: stuck %d, want %d\n%s", end, v.Stuck, want, v.String())
		}
	}
}

func TestVerdictBoundsFaults(t *testing.T) {
	t.Parallel()
	var v Verdict
	for range maxFaults + 5 {
		v.fault("x")
	}
	if len(v.Faults) != maxFaults || !strings.Contains(v.String(), "and 5 more") {
		t.Errorf("got %d faults and\n%s", len(v.Faults), v.String())
	}
}
