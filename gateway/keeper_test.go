package gateway

import (
	"context"
	"testing"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/dedupe/ledgertest"
	"github.com/onceward/onceward/event"
)

// memory is a ledger in memory as the gateway takes one.
type memory struct{ *ledgertest.Memory }

func (memory) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// What operators cancel is counted by target: what was open, and no more.
func TestKeeperCountsCancelled(t *testing.T) {
	t.Parallel()
	mem := ledgertest.NewMemory(ledgertest.Config{})
	counts := map[string]int{}
	k := keeper{memory{mem}, func(target string, n int) { counts[target] += n }, false}
	body := []byte("{}")
	req := &dedupe.Request{Body: body, Items: []dedupe.Item{{RawID: "evt_1", Event: event.Event{
		Source: "s", ID: "evt_1", Targets: []string{"a", "b", "c"}, BodyHash: event.HashOf(body), Body: event.Slice{Length: 2},
	}}}}
	if err := mem.Commit(t.Context(), &dedupe.Batch{Requests: []*dedupe.Request{req}}); err != nil {
		t.Fatal(err)
	}
	ref := req.Outcomes[0].Ref
	ls, _, err := mem.Lease(t.Context(), "b", 1, 1e9)
	if err != nil || len(ls) != 1 {
		t.Fatal(ls, err)
	}
	if err := mem.Commit(t.Context(), &dedupe.Batch{Results: []*dedupe.Result{{Lease: ls[0], State: event.Delivered, NoAttempt: true}}}); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		target string
		want   int
	}{{"a", 1}, {"a", 0}, {"b", 0}, {"", 1}, {"", 0}} {
		if n, err := k.Cancel(t.Context(), ref, step.target, dedupe.By{}); err != nil || n != step.want {
			t.Errorf("Cancel(%q) = %d, %v; want %d", step.target, n, err, step.want)
		}
	}
	if counts["a"] != 1 || counts["b"] != 0 || counts["c"] != 1 {
		t.Errorf("counted %v, want a and c once", counts)
	}
	if _, err := k.Cancel(t.Context(), event.NewRef(1, 1, 1), "", dedupe.By{}); err == nil {
		t.Error("an event that isn't is no error")
	}
}
