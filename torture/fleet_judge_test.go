package main

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// fleetHistory is a small run of two gateways in which every promise was kept:
// the one is killed at 100 ms with a result not yet committed, the database is
// away from 200 to 300 ms.
func fleetHistory() FleetEvidence {
	a := strings.Repeat("a", 64)
	sent := func(to, id string, at, status int, ref string, repeat bool) Sent {
		return Sent{To: to, Source: "stripe", ID: id, Hash: a, SentAt: ms * time.Duration(at), Status: status, AnsweredAt: ms * time.Duration(at+2), Ref: ref, Repeat: repeat}
	}
	got := func(from, id string, attempt, status, at int) Request {
		return Request{From: from, Target: "billing", Source: "stripe", EventID: id, Hash: a, Key: "stripe:" + id, Attempt: attempt, At: ms * time.Duration(at), Status: status}
	}
	stored := func(ref, id string, attempts int) Stored {
		return Stored{Ref: ref, Source: "stripe", ID: id, Hash: a, Key: "stripe:" + id,
			Deliveries: []StoredDelivery{{Target: "billing", State: "delivered", Attempts: attempts}}}
	}
	return FleetEvidence{
		Evidence: Evidence{
			Sources: Sources(),
			Sent: []Sent{
				sent("A", "e1", 10, 200, "R1", false), sent("B", "e1", 11, 200, "R1", true),
				sent("A", "e2", 50, 200, "R2", false), sent("B", "e2", 60, 200, "R2", true),
				sent("A", "e3", 150, 200, "R3", false), sent("B", "e3", 220, 503, "", false),
				sent("A", "e3", 230, 503, "", false), sent("B", "e3", 320, 200, "R3", true),
			},
			Requests: []Request{
				got("a", "e1", 1, 503, 20), got("b", "e1", 2, 200, 30),
				got("a", "e2", 1, 200, 98), got("b", "e2", 2, 200, 140), // the kill took the result of the first
				got("b", "e3", 1, 200, 199), got("a", "e3", 2, 200, 310), // the outage took it
			},
			Stored: []Stored{stored("R1", "e1", 2), stored("R2", "e2", 2), stored("R3", "e3", 2)},
		},
		Gateways: map[string][]Life{
			"a": {{Start: 0, Ready: 5 * ms, End: 100 * ms, Gone: 101 * ms, Killed: true}, {Start: 110 * ms, Ready: 130 * ms}},
			"b": {{Start: 0, Ready: 5 * ms}},
		},
		Outages: []Outage{{Began: 200 * ms, Gone: 205 * ms, Back: 300 * ms, Ready: 305 * ms}},
	}
}

func TestJudgeFleetGood(t *testing.T) {
	t.Parallel()
	e := fleetHistory()
	v := JudgeFleet(e)
	if !v.OK() {
		t.Errorf("a good history was faulted:\n%s", v.String())
	}
	if v.Acknowledged != 3 || v.Copies != 2 || v.Refused != 2 || v.Silent != 2 {
		t.Errorf("got acknowledged %d, copies %d, refused %d, silent %d; want 3, 2, 2, 2", v.Acknowledged, v.Copies, v.Refused, v.Silent)
	}
}

// TestJudgeFleetCatches changes the good history in one way at a time.
func TestJudgeFleetCatches(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		change func(*FleetEvidence)
		count  func(*FleetVerdict) int
	}{
		{"acknowledged and gone", func(e *FleetEvidence) { e.Stored = e.Stored[:2] }, func(v *FleetVerdict) int { return v.Lost }},
		{"acknowledged and never delivered", func(e *FleetEvidence) { e.Requests = e.Requests[:4] }, func(v *FleetVerdict) int { return v.Lost }},
		{"new at both gateways", func(e *FleetEvidence) {
			e.Sent[1].Repeat, e.Sent[1].Ref = false, "R9"
			s := e.Stored[0]
			s.Ref = "R9"
			e.Stored = append(e.Stored, s)
		}, func(v *FleetVerdict) int { return v.Twice }},
		{"another key on the second try", func(e *FleetEvidence) { e.Requests[3].Key = "stripe:other" }, func(v *FleetVerdict) int { return v.Keys }},
		{"sent again by the other with nothing killed", func(e *FleetEvidence) { e.Requests[0].Status = 200 }, func(v *FleetVerdict) int { return v.Unexplained }},
		{"sent again, and another gateway was killed", func(e *FleetEvidence) { e.Requests[2].From = "b" }, func(v *FleetVerdict) int { return v.Unexplained }},
		{"sent again before the kill", func(e *FleetEvidence) { e.Requests[3].At = 99 * ms }, func(v *FleetVerdict) int { return v.Unexplained }},
		{"sent again after a kill long after", func(e *FleetEvidence) {
			for range maxOpen + 1 {
				r := e.Requests[0]
				r.EventID, r.At = "e0", 99*ms
				e.Requests = append(e.Requests, r)
			}
		}, func(v *FleetVerdict) int { return v.Unexplained }},
		{"2xx without a database", func(e *FleetEvidence) { e.Sent[5].Status, e.Sent[5].Repeat, e.Sent[5].Ref = 200, true, "R3" },
			func(v *FleetVerdict) int { return v.Unfounded }},
		{"an error of another kind", func(e *FleetEvidence) { e.Sent[5].Status = 500 }, func(v *FleetVerdict) int { return v.Odd }},
		{"an attempt's number again", func(e *FleetEvidence) { e.Requests[3].Attempt = 1 }, func(v *FleetVerdict) int { return v.Miscount }},
		{"an attempt that is not in the account", func(e *FleetEvidence) { e.Stored[1].Deliveries[0].Attempts = 1 }, func(v *FleetVerdict) int { return v.Miscount }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e := fleetHistory()
			e.Requests = slices.Clone(e.Requests)
			tt.change(&e)
			if v := JudgeFleet(e); tt.count(&v) == 0 || v.OK() {
				t.Errorf("not noticed:\n%s", v.String())
			}
		})
	}
}
