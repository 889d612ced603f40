package admin_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/onceward/onceward/admin"
	"github.com/onceward/onceward/audit"
)

// TestReplayJobs: over the API a job is begun, looked at and ended, and says
// who did it; without a runner it stays where it is.
func TestReplayJobs(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.accept("stripe", "evt_1", "{}")
	ctx := t.Context()
	j, err := b.client.StartReplay(ctx, admin.ReplayRequest{Filter: admin.Filter{Source: "stripe"}, Target: "billing", Rate: "20/s", Reason: "fixed"})
	if err != nil {
		t.Fatal(err)
	}
	if j.State != audit.JobCounting || j.Actor != "admin" || j.Reason != "fixed" || j.Target != "billing" || j.Rate.String() != "20/s" || j.Filter.Source != "stripe" {
		t.Errorf("job %+v", j)
	}
	if got, err := b.client.ReplayJob(ctx, j.ID); err != nil || got.ID != j.ID {
		t.Errorf("one job: %+v, %v", got, err)
	}
	if all, err := b.client.ReplayJobs(ctx); err != nil || len(all) != 1 || all[0].ID != j.ID {
		t.Errorf("all jobs: %+v, %v", all, err)
	}
	if got, err := b.client.CancelReplay(ctx, j.ID); err != nil || got.State != audit.JobCancelled {
		t.Errorf("cancelled: %+v, %v", got, err)
	}
	for range audit.MaxJobs {
		if _, err := b.client.StartReplay(ctx, admin.ReplayRequest{Filter: admin.Filter{Source: "stripe"}}); err != nil {
			t.Fatal(err)
		}
	}
	var api *admin.APIError
	if _, err := b.client.StartReplay(ctx, admin.ReplayRequest{Filter: admin.Filter{Source: "stripe"}}); !errors.As(err, &api) || api.Code != admin.CodeBusy {
		t.Errorf("one too many: %v", err)
	}
	if _, err := b.client.StartReplay(ctx, admin.ReplayRequest{}); !errors.As(err, &api) || api.Code != admin.CodeInvalid || !strings.Contains(api.Message, "condition") {
		t.Errorf("without conditions: %v", err)
	}
}

func TestNoReplayJobs(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *admin.Config) { c.Jobs = nil })
	for _, route := range []string{"GET /api/v1/replays", "GET /api/v1/replays/x", "POST /api/v1/replays/x/cancel"} {
		method, path, _ := strings.Cut(route, " ")
		resp, body := b.do(method, path, "")
		b.wantCode(route, resp, body, 404, admin.CodeNotFound)
	}
}
