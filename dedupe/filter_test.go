package dedupe_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

func TestGlob(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pattern := rapid.StringOfN(rapid.SampledFrom([]rune("ab.*")), 0, 7, -1).Draw(t, "pattern")
		s := rapid.StringOfN(rapid.SampledFrom([]rune("ab.*")), 0, 7, -1).Draw(t, "s")
		parts := strings.Split(pattern, "*")
		for i, p := range parts {
			parts[i] = regexp.QuoteMeta(p)
		}
		want := regexp.MustCompile(`\A(?s:` + strings.Join(parts, ".*") + `)\z`).MatchString(s)
		if got := dedupe.Glob(pattern, s); got != want {
			t.Fatalf("Glob(%q, %q) = %v, want %v", pattern, s, got, want)
		}
	})
}

func TestFilter(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	rec := &dedupe.Record{
		Event: event.Event{Source: "shop", Type: "order.paid", ID: "evt", ReceivedAt: at,
			Index: []event.Field{{Name: "customer", Value: "cus_9"}, {Name: "note", Value: ""}}},
		Status:     event.StatusDead,
		Deliveries: []event.Delivery{{Target: "billing", State: event.Dead}, {Target: "crm", State: event.Delivered}},
	}
	for _, tt := range []struct {
		name            string
		f               dedupe.Filter
		record          bool
		billing, crmToo bool
	}{
		{"all", dedupe.Filter{}, true, true, true},
		{"source", dedupe.Filter{Source: "shop"}, true, true, true},
		{"other source", dedupe.Filter{Source: "sho"}, false, false, false},
		{"type", dedupe.Filter{Type: "order.*"}, true, true, true},
		{"other type", dedupe.Filter{Type: "order"}, false, false, false},
		{"status", dedupe.Filter{Status: event.StatusDead}, true, true, true},
		{"other status", dedupe.Filter{Status: event.StatusPending}, false, false, false},
		{"target", dedupe.Filter{Target: "billing"}, true, true, false},
		{"other target", dedupe.Filter{Target: "none"}, false, false, false},
		{"state is of deliveries", dedupe.Filter{State: "delivered"}, true, false, true},
		{"ID", dedupe.Filter{ID: "evt"}, true, true, true},
		{"other ID", dedupe.Filter{ID: "ev"}, false, false, false},
		{"field", dedupe.Filter{Field: "customer", Value: "cus_9"}, true, true, true},
		{"field of another value", dedupe.Filter{Field: "customer", Value: "cus_"}, false, false, false},
		{"empty field", dedupe.Filter{Field: "note"}, true, true, true},
		{"no such field", dedupe.Filter{Field: "plan"}, false, false, false},
		{"from is inclusive", dedupe.Filter{From: at}, true, true, true},
		{"from later", dedupe.Filter{From: at.Add(1)}, false, false, false},
		{"to is exclusive", dedupe.Filter{To: at}, false, false, false},
		{"to later", dedupe.Filter{To: at.Add(1)}, true, true, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.f.MatchRecord(rec); got != tt.record {
				t.Errorf("MatchRecord = %v, want %v", got, tt.record)
			}
			if got := tt.f.MatchDelivery(rec, &rec.Deliveries[0]); got != tt.billing {
				t.Errorf("MatchDelivery(billing) = %v, want %v", got, tt.billing)
			}
			if got := tt.f.MatchDelivery(rec, &rec.Deliveries[1]); got != tt.crmToo {
				t.Errorf("MatchDelivery(crm) = %v, want %v", got, tt.crmToo)
			}
		})
	}
	long := strings.Repeat("x", dedupe.MaxID+1)
	rec.Event.ID, _ = dedupe.FrameID(long)
	if !(dedupe.Filter{ID: long}).MatchRecord(rec) || !(dedupe.Filter{ID: rec.Event.ID}).MatchRecord(rec) {
		t.Error("a hashed ID is not found by the ID as received, or as shown")
	}
}

func TestSettle(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	was := event.Delivery{Target: "billing", Generation: 2, State: event.Leased, Attempts: 3, DueAt: now, OpenedAt: now, LastStatus: 500, LastError: "5xx"}
	for _, tt := range []struct {
		name string
		res  dedupe.Result
		want event.Delivery
	}{
		{"landed", dedupe.Result{State: event.Delivered, Attempt: event.Attempt{Status: 204, Outcome: event.Outcome2xx}},
			event.Delivery{State: event.Delivered, Attempts: 4, LastStatus: 204}},
		{"again", dedupe.Result{State: event.Pending, Delay: time.Minute, Attempt: event.Attempt{Outcome: event.OutcomeTimeout}},
			event.Delivery{State: event.Pending, Attempts: 4, DueAt: now.Add(time.Minute), LastError: "timeout"}},
		{"again at once", dedupe.Result{State: event.Leased, Delay: -time.Minute, Attempt: event.Attempt{Status: 503, Outcome: event.Outcome5xx}},
			event.Delivery{State: event.Pending, Attempts: 4, DueAt: now, LastStatus: 503, LastError: "5xx"}},
		{"postponed", dedupe.Result{State: event.Pending, Delay: time.Minute, NoAttempt: true},
			event.Delivery{State: event.Pending, Attempts: 3, DueAt: now.Add(time.Minute), LastStatus: 500, LastError: "5xx"}},
		{"given up", dedupe.Result{State: event.Dead, NoAttempt: true, Attempt: event.Attempt{Outcome: event.OutcomeMissing}},
			event.Delivery{State: event.Dead, Attempts: 3, LastError: "target_missing"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			want := tt.want
			want.Target, want.Generation, want.OpenedAt, want.UpdatedAt = "billing", 2, was.OpenedAt, now
			if got := tt.res.Settle(was, now); got != want {
				t.Errorf("Settle = %+v, want %+v", got, want)
			}
		})
	}
	again := dedupe.Reopen(was, true, now)
	if want := (event.Delivery{Target: "billing", Generation: 3, NewKey: true, DueAt: now, OpenedAt: now, UpdatedAt: now}); again != want {
		t.Errorf("Reopen = %+v, want %+v", again, want)
	}
}
