package admin_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/onceward/onceward/admin"
	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

// A test of a target is handed on with its answer masked; a target that fails
// it is a result, one that is unknown an error.
func TestTargetTest(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *admin.Config) {
		c.TestTarget = func(_ context.Context, name string) (admin.TargetTest, error) {
			if name != "billing" {
				return admin.TargetTest{}, fmt.Errorf("target %q: %w", name, dedupe.ErrNotFound)
			}
			return admin.TargetTest{Target: name, Outcome: event.OutcomeDNSError, Response: "HTTP/1.1 200 OK\r\nSet-Cookie: CANARY\r\n\r\n"}, nil
		}
	})
	got, err := b.client.TestTarget(t.Context(), "billing")
	if err != nil || got.Outcome != event.OutcomeDNSError || strings.Contains(got.Response, "CANARY") {
		t.Errorf("%+v, %v; want the outcome, masked", got, err)
	}
	var api *admin.APIError
	if _, err := b.client.TestTarget(t.Context(), "gone"); !errors.As(err, &api) || api.Status != http.StatusNotFound || api.Code != admin.CodeNotFound {
		t.Errorf("unknown target: %v", err)
	}
	if _, err := setup(t).client.TestTarget(t.Context(), "billing"); !errors.As(err, &api) || api.Code != admin.CodeNotFound {
		t.Errorf("without tests: %v", err)
	}
}
