package admin_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/onceward/onceward/admin"
	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

// withRoles adds one token for each lower role; their text is role + "-token".
func withRoles(c *admin.Config) {
	for _, r := range []admin.Role{admin.RoleViewer, admin.RoleOperator} {
		c.Tokens = append(c.Tokens, admin.Token{Name: r.String() + "-name", Role: r, Hash: admin.HashToken(r.String() + "-token")})
	}
}

func as(token string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) }
}

// TestRoles holds every route to the least role that it takes.
func TestRoles(t *testing.T) {
	t.Parallel()
	b := setup(t, withRoles)
	b.accept("stripe", "evt_1", "{}")
	viewer, operator, all := "viewer-token", "operator-token", token
	for route, least := range map[string]string{
		"GET /api/v1/events": viewer, "GET /api/v1/events/evt_1": viewer, "GET /api/v1/events/evt_1/attempts": viewer,
		"GET /api/v1/deliveries": viewer, "GET /api/v1/sources": viewer, "GET /api/v1/targets": viewer,
		"GET /api/v1/refusals": viewer, "GET /api/v1/refusals/x": viewer, "GET /api/v1/status": viewer,
		"GET /api/v1/health": viewer, "GET /api/v1/version": viewer,
		"GET /api/v1/events/evt_1/body": operator, "POST /api/v1/events/evt_1/cancel": operator, "POST /api/v1/replays": operator, "GET /api/v1/replays": viewer, "GET /api/v1/replays/x": viewer, "POST /api/v1/replays/x/cancel": operator, "POST /api/v1/targets/billing/test": operator,
		"GET /api/v1/audit": viewer, "GET /api/v1/audit/key": viewer, "GET /api/v1/events/evt_1/proof": viewer,
		"POST /api/v1/audit/checkpoint": operator, "GET /api/v1/audit/export": all, "GET /api/v1/backup": all, "GET /api/v1/transfers": viewer,
		"POST /api/v1/reload": all, "POST /api/v1/-/reload": all, "POST /-/reload": all, "POST /api/v1/check": all,
	} {
		method, path, _ := strings.Cut(route, " ")
		enough := false
		for _, tok := range []string{viewer, operator, all} {
			enough = enough || tok == least
			resp, body := b.do(method, path, "", as(tok))
			refused := resp.StatusCode == http.StatusForbidden && strings.Contains(body, admin.CodeForbidden)
			if refused == enough {
				t.Errorf("%s as %s: %d %s", route, tok, resp.StatusCode, body)
			}
			if strings.Contains(body, tok) {
				t.Errorf("%s as %s: the answer holds the token", route, tok)
			}
		}
	}
}

// TestViewerSeesNoBody: neither the sender's, nor a target's answer, nor a
// refused one.
func TestViewerSeesNoBody(t *testing.T) {
	t.Parallel()
	b := setup(t, withRoles)
	ref := b.accept("stripe", "evt_1", `{"card":"CANARY-BODY"}`)
	ls, _, err := b.ledger.Lease(t.Context(), "billing", 1, 1e9)
	if err != nil || len(ls) != 1 {
		t.Fatalf("Lease = %v, %v", ls, err)
	}
	res := &dedupe.Result{Lease: ls[0], State: event.Delivered, Attempt: event.Attempt{
		Event: ref, Target: "billing", Number: 1, Status: 200, Outcome: event.Outcome2xx, State: event.Delivered,
		Response: []byte("HTTP/1.1 200 OK\r\n\r\nCANARY-ANSWER"),
	}}
	if err := b.ledger.Commit(t.Context(), &dedupe.Batch{Results: []*dedupe.Result{res}}); err != nil {
		t.Fatal(err)
	}
	b.edge.refusals = []admin.Refusal{{ID: "r1", Source: "stripe", Reason: "signature_mismatch", Body: "CANARY-REFUSED", BodyBytes: 14}}
	for path, canary := range map[string]string{"/api/v1/events/evt_1": "CANARY-ANSWER", "/api/v1/events/evt_1/attempts": "CANARY-ANSWER",
		"/api/v1/events/evt_1/body": "CANARY-BODY", "/api/v1/refusals/r1": "CANARY-REFUSED"} {
		if _, viewer := b.do("GET", path, "", as("viewer-token")); strings.Contains(viewer, canary) {
			t.Errorf("%s shows a viewer %s", path, canary)
		}
		if _, operator := b.do("GET", path, "", as("operator-token")); !strings.Contains(operator, canary) {
			t.Errorf("%s hides %s from an operator: %s", path, canary, operator)
		}
	}
}

func TestSetTokens(t *testing.T) {
	t.Parallel()
	b := setup(t, withRoles)
	code := func(tok string) int {
		resp, _ := b.do("GET", "/api/v1/version", "", as(tok))
		return resp.StatusCode
	}
	hash := admin.HashToken
	for name, bad := range map[string][]admin.Token{
		"no name":   {{Role: admin.RoleViewer, Hash: hash("x")}},
		"no role":   {{Name: "x", Hash: hash("x")}},
		"high role": {{Name: "x", Role: 9, Hash: hash("x")}},
		"no hash":   {{Name: "x", Role: admin.RoleViewer}},
		"empty":     {{Name: "x", Role: admin.RoleViewer, Hash: hash("")}},
		"own name":  {{Name: "admin", Role: admin.RoleViewer, Hash: hash("x")}},
		"own token": {{Name: "x", Role: admin.RoleViewer, Hash: hash(token)}},
		"same name": {{Name: "x", Role: admin.RoleViewer, Hash: hash("x")}, {Name: "x", Role: admin.RoleViewer, Hash: hash("y")}},
	} {
		if err := b.admin.SetTokens(bad); err == nil || code("viewer-token") != 200 || code("x") != 401 {
			t.Errorf("%s: SetTokens = %v, or it changed something", name, err)
		}
	}
	if err := b.admin.SetTokens([]admin.Token{{Name: "x", Role: admin.RoleViewer, Hash: hash("x")}}); err != nil {
		t.Fatal(err)
	}
	if code("x") != 200 || code("viewer-token") != 401 || code(token) != 200 {
		t.Errorf("after SetTokens: new %d, replaced %d, own %d", code("x"), code("viewer-token"), code(token))
	}
}

func TestRoleNames(t *testing.T) {
	t.Parallel()
	for i, name := range admin.RoleNames() {
		r, ok := admin.ParseRole(name)
		var back admin.Role
		if !ok || int(r) != i+1 || r.String() != name || back.UnmarshalText([]byte(name)) != nil || back != r {
			t.Errorf("role %q reads back as %v, %v", name, r, ok)
		}
	}
	for _, name := range []string{"", "none", "Admin", "root"} {
		if r, ok := admin.ParseRole(name); ok || r != 0 {
			t.Errorf("ParseRole(%q) = %v", name, r)
		}
	}
	var none admin.Role
	if none.String() != "none" || admin.Role(77).String() != "none" || none.UnmarshalText([]byte("x")) == nil {
		t.Error("what is no role has the name of one")
	}
}
