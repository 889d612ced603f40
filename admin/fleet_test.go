package admin_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/onceward/onceward/admin"
)

// The gateways that share the ledger are in the status and on Overview, and one
// that differs is trouble; none are shown where there is one alone.
func TestGatewaysDiffer(t *testing.T) {
	t.Parallel()
	all := []admin.Gateway{
		{Name: "a", Own: true, Config: "1", Version: "v1", Share: 0.5},
		{Name: "b", Config: "1", Version: "v1", Share: 0.5},
		{Name: "c", Config: "1", Version: "v1", Dead: true, Age: 40},
	}
	b := setup(t, func(c *admin.Config) {
		c.Gateways = func() []admin.Gateway { return append([]admin.Gateway{}, all...) }
	})
	session := b.signIn(t, token)
	overview := func() string {
		t.Helper()
		_, page := (&reader{b: b}).get("/", session)
		return page
	}
	problems := func() (out []string) {
		t.Helper()
		s, err := b.client.Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, g := range s.Gateways {
			out = append(out, g.Name+" "+g.Problem)
		}
		return out
	}
	const differs = "Gateway b runs another configuration than a"
	if got := strings.Join(problems(), ", "); got != "a , b , c has not been heard of for 40 s" {
		t.Errorf("when all agree: %s", got)
	}
	if page := overview(); !strings.Contains(page, "a (this one), b, c has not been heard of") || strings.Contains(page, differs) {
		t.Error("Overview doesn't list the gateways, or says that they differ")
	}
	all[1].Config = "2"
	if got := strings.Join(problems(), ", "); !strings.Contains(got, "b runs another configuration") {
		t.Errorf("when b differs: %s", got)
	}
	if page := overview(); !strings.Contains(page, differs) {
		t.Error("Overview doesn't say that b differs")
	}
	all[1].Config, all[1].Version = "1", "v2"
	if got := strings.Join(problems(), ", "); !strings.Contains(got, "b runs another version, v2") {
		t.Errorf("when b is another version: %s", got)
	}
	if page := overview(); strings.Contains(page, differs) {
		t.Error("another version is said to be another configuration")
	}
	alone := setup(t)
	if s, err := alone.client.Status(t.Context()); err != nil || len(s.Gateways) != 0 {
		t.Errorf("on a ledger of one: %v, %v", s.Gateways, err)
	}
	if status, page := (&reader{b: alone}).get("/", alone.signIn(t, token)); status != http.StatusOK || strings.Contains(page, "this one") {
		t.Error("on a ledger of one Overview lists gateways")
	}
}
