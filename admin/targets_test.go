package admin_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/admin"
	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

// controls stands for the forwarder's acts: it remembers them, and drains only
// when its channel is closed.
type controls struct {
	done    []string
	drained chan struct{}
}

func (c *controls) do(what, target string, by dedupe.By) error {
	c.done = append(c.done, fmt.Sprintf("%s %s by %s: %s", what, target, by.Actor, by.Reason))
	if target != "billing" {
		return fmt.Errorf("target %q: %w", target, dedupe.ErrNotFound)
	}
	return nil
}

func (c *controls) Pause(_ context.Context, target string, by dedupe.By) error {
	return c.do("pause", target, by)
}

func (c *controls) Resume(_ context.Context, target string, by dedupe.By) error {
	return c.do("resume", target, by)
}

func (c *controls) Drain(ctx context.Context, target string, by dedupe.By) error {
	if err := c.do("drain", target, by); err != nil {
		return err
	}
	select {
	case <-c.drained:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("drain: %w", ctx.Err())
	}
}

func TestControlTargets(t *testing.T) {
	t.Parallel()
	c := &controls{drained: make(chan struct{})}
	b := setup(t, func(cfg *admin.Config) { cfg.Control = c })
	if got, err := b.client.Pause(t.Context(), "billing", "deploy"); err != nil || got.Name != "billing" || got.Breaker.History == nil {
		t.Errorf("Pause = %+v, %v", got, err)
	}
	if _, err := b.client.Resume(t.Context(), "billing", ""); err != nil {
		t.Errorf("Resume: %v", err)
	}
	var api *admin.APIError
	if _, err := b.client.Drain(t.Context(), "billing", "move", 20*time.Millisecond); !errors.As(err, &api) || api.Code != admin.CodeBusy || !strings.Contains(api.Message, "is paused") {
		t.Errorf("a drain that takes too long: %v, want %s", err, admin.CodeBusy)
	}
	close(c.drained)
	if _, err := b.client.Drain(t.Context(), "billing", "move", 0); err != nil {
		t.Errorf("Drain: %v", err)
	}
	for _, err := range []error{
		second(b.client.Pause(t.Context(), "nobody", "")), second(b.client.Resume(t.Context(), "nobody", "")),
		second(b.client.Drain(t.Context(), "nobody", "", 0)), second(b.client.Target(t.Context(), "nobody")),
	} {
		if !errors.As(err, &api) || api.Code != admin.CodeNotFound {
			t.Errorf("a name that is no target: %v, want %s", err, admin.CodeNotFound)
		}
	}
	for _, err := range []error{
		second(b.client.Pause(t.Context(), "billing", strings.Repeat("x", 501))),
		second(b.client.Drain(t.Context(), "billing", "", time.Hour)),
		second(b.client.Drain(t.Context(), "billing", "", -1)),
	} {
		if !errors.As(err, &api) || api.Code != admin.CodeInvalid {
			t.Errorf("bad input: %v, want %s", err, admin.CodeInvalid)
		}
	}
	want := "pause billing by admin: deploy|resume billing by admin: |drain billing by admin: move|drain billing by admin: move|"
	if got := strings.Join(c.done, "|"); !strings.HasPrefix(got, want) {
		t.Errorf("done:\n%s\nwant first\n%s", got, want)
	}
	none := setup(t)
	if _, err := none.client.Pause(t.Context(), "billing", ""); !errors.As(err, &api) || api.Code != admin.CodeNotFound {
		t.Errorf("a gateway without controls: %v", err)
	}
}

func second[T any](_ T, err error) error { return err }

func TestCancelDelivery(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ref := b.accept("stripe", "evt_1", "{}")
	d, err := b.client.Event(t.Context(), "evt_1", "")
	if err != nil || len(d.Deliveries) == 0 {
		t.Fatalf("Event = %+v, %v", d, err)
	}
	id := d.Deliveries[0].ID
	if got, err := b.client.CancelDelivery(t.Context(), id, "mistake"); err != nil || got.Ref != ref || got.Cancelled != 1 {
		t.Errorf("CancelDelivery = %+v, %v", got, err)
	}
	if got, err := b.client.CancelDelivery(t.Context(), id, ""); err != nil || got.Cancelled != 0 {
		t.Errorf("again = %+v, %v; want none", got, err)
	}
	for id, want := range map[string]string{
		strings.TrimSuffix(id, "0") + "1": admin.CodeNotFound, // another generation
		ref.String() + ".nobody.0":        admin.CodeNotFound,
		"01ARZ3NDEKTSV4RRFFQ69G5FAV.a.0":  admin.CodeNotFound,
		"nonsense":                        admin.CodeInvalid,
		ref.String() + ".billing.x":       admin.CodeInvalid,
		ref.String() + ".billing.70000":   admin.CodeInvalid,
		ref.String() + "..0":              admin.CodeInvalid,
	} {
		var api *admin.APIError
		if _, err := b.client.CancelDelivery(t.Context(), id, ""); !errors.As(err, &api) || api.Code != want {
			t.Errorf("%s: %v, want %s", id, err, want)
		}
	}
}

func TestDropDeadLetters(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for i := range 3 {
		b.accept("stripe", fmt.Sprint("evt_", i), fmt.Sprintf(`{"n":%d}`, i))
	}
	var rs []*dedupe.Result
	targets := b.ledger.Targets()
	for _, name := range targets {
		ls, _, err := b.ledger.Lease(t.Context(), name, 100, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range ls {
			rs = append(rs, &dedupe.Result{Lease: l, State: event.Dead, NoAttempt: true})
		}
	}
	if err := b.ledger.Commit(t.Context(), &dedupe.Batch{Results: rs}); err != nil {
		t.Fatal(err)
	}
	per := len(targets)
	var api *admin.APIError
	for name, req := range map[string]admin.DropRequest{
		"no reason": {ID: "evt_0"}, "nothing": {Reason: "x"}, "both": {Reason: "x", ID: "evt_0", Filter: admin.Filter{Target: "a"}},
		"of the living": {Reason: "x", Filter: admin.Filter{State: "pending"}}, "bad time": {Reason: "x", Filter: admin.Filter{Since: "soon"}},
		"target beside": {Reason: "x", Target: "a", Filter: admin.Filter{Source: "stripe"}},
	} {
		if _, err := b.client.Drop(t.Context(), req); !errors.As(err, &api) || api.Code != admin.CodeInvalid {
			t.Errorf("%s: %v, want %s", name, err, admin.CodeInvalid)
		}
	}
	for _, step := range []struct {
		req  admin.DropRequest
		want int
	}{
		{admin.DropRequest{ID: "evt_0", DryRun: true}, per},
		{admin.DropRequest{ID: "evt_0", Target: targets[0]}, 1},
		{admin.DropRequest{ID: "evt_0", Target: targets[0]}, 0},
		{admin.DropRequest{Filter: admin.Filter{Source: "stripe"}, DryRun: true}, 3*per - 1},
		{admin.DropRequest{Filter: admin.Filter{ID: "evt_1", Source: "stripe"}}, per},
		{admin.DropRequest{Filter: admin.Filter{Source: "stripe"}}, 2*per - 1},
		{admin.DropRequest{Filter: admin.Filter{Source: "stripe"}}, 0},
	} {
		step.req.Reason = "bad deploy"
		if got, err := b.client.Drop(t.Context(), step.req); err != nil || got.Dropped != step.want || got.Next != "" {
			t.Errorf("Drop(%+v) = %+v, %v; want %d", step.req, got, err, step.want)
		}
	}
	if _, err := b.client.Drop(t.Context(), admin.DropRequest{ID: "nobody", Reason: "x"}); !errors.As(err, &api) || api.Code != admin.CodeNotFound {
		t.Errorf("of an event that isn't: %v", err)
	}
}
