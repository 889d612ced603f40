package admin_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/onceward/onceward/admin"
	"github.com/onceward/onceward/audit"
	"github.com/onceward/onceward/dedupe/ledgertest"
)

func TestRedactedBodies(t *testing.T) {
	t.Parallel()
	led := ledgertest.NewMemory(ledgertest.Config{})
	b := setup(t, func(c *admin.Config) {
		acc, err := audit.New(audit.Config{Reader: led, Keeper: led, Redact: func(source string) *audit.Redaction {
			if source == "stripe" {
				return audit.NewRedaction([]string{"data.card"})
			}
			return nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		c.Account = acc
		c.Tokens = []admin.Token{{Name: "ann", Role: admin.RoleOperator, Hash: admin.HashToken("operator-token-0123456789")}}
	})
	b.ledger = led
	b.edge.refusals = []admin.Refusal{{ID: "r1", Source: "stripe", Reason: "signature_mismatch", Body: `{"data":{"card":"CANARY"`, BodyBytes: 24},
		{ID: "r2", Source: "stripe", Reason: "signature_mismatch", Body: `{"data":{"card":"CANARY"},"n":7}`, BodyBytes: 32}}
	const body = `{"data":{"card":"CANARY","n":1152921506151679042}}`
	b.accept("stripe", "json", body)
	b.accept("stripe", "form", "card=CANARY")
	b.accept("github", "other", body)
	boss, ann := signIn(b, token), signIn(b, "operator-token-0123456789")
	asAnn := func(r *http.Request) { r.Header.Set("Authorization", "Bearer operator-token-0123456789") }

	for _, path := range []string{"/events/json", "/events/json?view=raw", "/events/json?view=hex", "/events/json/raw", "/events/form", "/events/form?view=raw",
		"/events/form/raw", "/refusals?id=r1", "/refusals?id=r2"} {
		if _, page := ann.get(path); strings.Contains(page, "CANARY") || strings.Contains(page, "43 41 4e 41 52 59") {
			t.Errorf("an operator sees at %s: %s", path, page)
		}
	}
	if _, page := ann.get("/events/json"); !strings.Contains(page, "[redacted]") || !strings.Contains(page, "1152921506151679042") {
		t.Errorf("the pretty view: %s", page)
	}
	for path, want := range map[string]string{"/events/json": "[redacted]", "/events/json?view=raw": "CANARY", "/events/json?view=hex": "CANARY",
		"/events/json/raw": "CANARY", "/events/form": "CANARY", "/refusals?id=r1": "CANARY"} {
		if _, page := boss.get(path); !strings.Contains(page, want) {
			t.Errorf("an admin sees no %s at %s: %s", want, path, page)
		}
	}
	if _, page := boss.get("/events/json"); strings.Contains(page, "CANARY") {
		t.Errorf("the pretty view of an admin: %s", page)
	}
	resp, got := b.do("GET", "/api/v1/events/json/body", "", asAnn)
	if resp.StatusCode != 200 || got != `{"data":{"card":"[redacted]","n":1152921506151679042}}` || resp.Header.Get("Onceward-Redacted") != "true" {
		t.Errorf("an operator's body = %d %s", resp.StatusCode, got)
	}
	if resp, got := b.do("GET", "/api/v1/events/form/body", "", asAnn); resp.StatusCode != 403 {
		t.Errorf("an operator's body that is not JSON = %d %s", resp.StatusCode, got)
	}
	if resp, got := b.do("GET", "/api/v1/events/other/body", "", asAnn); got != body || resp.Header.Get("Onceward-Redacted") != "" {
		t.Errorf("a body of another source: %s", got)
	}
	if _, got := b.do("GET", "/api/v1/events/json/body", ""); got != body {
		t.Errorf("an admin's body: %s", got)
	}
	for _, id := range []string{"r1", "r2"} {
		if resp, got := b.do("GET", "/api/v1/refusals/"+id, "", asAnn); resp.StatusCode != 200 || strings.Contains(got, "CANARY") {
			t.Errorf("an operator's refusal = %d %s", resp.StatusCode, got)
		}
	}
	for _, who := range []struct {
		change []func(*http.Request)
		exact  int
	}{{nil, 3}, {[]func(*http.Request){asAnn}, 1}} {
		_, got := b.do("GET", "/api/v1/tail?exact=true", "", who.change...)
		if n := strings.Count(got, `"exact":{`); n != who.exact || strings.Count(got, `"withheld":true`) != 3-who.exact {
			t.Errorf("exact events: %d, want %d: %s", n, who.exact, got)
		}
	}
}
