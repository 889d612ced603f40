package admin_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/admin"
	"github.com/onceward/onceward/audit"
	"github.com/onceward/onceward/dedupe"
)

// keep runs the log beside the pages, until the test ends.
func keep(t *testing.T, log *audit.Log) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- log.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// settled opens the page Audit until no verification is under way.
func (r *reader) settled() string {
	r.b.t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if _, body := r.get("/audit"); !strings.Contains(body, "under way") {
			return body
		}
	}
	r.b.t.Fatal("the verification does not end")
	return ""
}

// TestVerifyFromPage: the account is verified by a button of the page, for who
// may, and where it was tampered with the page names the place.
func TestVerifyFromPage(t *testing.T) {
	t.Parallel()
	var log *audit.Log
	b := setup(t, withRoles, func(c *admin.Config) { log = c.Audit })
	for i := range 40 {
		b.accept("stripe", fmt.Sprint("evt_", i), "{}")
	}
	r, viewer := signIn(b, "operator-token"), signIn(b, "viewer-token")
	if _, body := r.get("/audit"); !strings.Contains(body, "Nobody asked for one") || !strings.Contains(body, `action="/audit/verify"`) {
		t.Errorf("before: %s", body)
	}
	if _, body := viewer.get("/audit"); strings.Contains(body, `action="/audit/verify"`) {
		t.Error("a viewer is offered the button")
	}
	for _, path := range []string{"/audit/verify", "/audit/verify/stop"} {
		if status, _ := viewer.post(path, nil); status != 403 {
			t.Errorf("%s by a viewer = %d", path, status)
		}
	}
	// Nothing runs the log yet: the verification waits, and is the only one.
	if status, body := r.post("/audit/verify", nil); status != 200 || !strings.Contains(body, "under way") || !strings.Contains(body, `hx-get="/audit/verifying"`) {
		t.Errorf("asked for = %d %s", status, body)
	}
	if status, body := r.post("/audit/verify", nil); status != 409 || !strings.Contains(body, "being verified already") {
		t.Errorf("a second one = %d %s", status, body)
	}
	if status, body := viewer.get("/audit/verifying"); status != 200 || !strings.Contains(body, "under way") || strings.Contains(body, "<html") || strings.Contains(body, "Stop") {
		t.Errorf("the part = %d %s", status, body)
	}
	keep(t, log)
	if body := r.settled(); !strings.Contains(body, "as they were recorded, from the very first") || strings.Contains(body, "hx-get") || !strings.Contains(body, "asked for by operator-name") {
		t.Errorf("verified: %s", body)
	}
	logs, err := b.ledger.ActLogs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	acts, err := b.ledger.Acts(t.Context(), logs[0].Writer, 20, 1)
	if err != nil {
		t.Fatal(err)
	}
	act, err := dedupe.DecodeAct(acts[0].Leaf)
	if err != nil {
		t.Fatal(err)
	}
	act.ID = "evt_<forged>"
	b.ledger.TamperAct(logs[0].Writer, 20, act.Append(nil))
	r.post("/audit/verify", nil)
	body := r.settled()
	for _, want := range []string{"not as recorded", "1 fault", "acts 0 to", "are not those that were signed"} {
		if !strings.Contains(body, want) {
			t.Errorf("tampered with, the page does not say %q: %s", want, body)
		}
	}
	if body := viewer.settled(); !strings.Contains(body, "not as recorded") {
		t.Errorf("a viewer is not told: %s", body)
	}
	if got := b.acts("operated"); !strings.Contains(fmt.Sprint(got), "audit/verify") {
		t.Errorf("who asked for it is not in the account: %+v", got)
	}
}

// TestRepeatsOnPage: what came under an event's ID again is listed on its page,
// each with its time and what proved it, for every role.
func TestRepeatsOnPage(t *testing.T) {
	t.Parallel()
	b := setup(t, withRoles)
	ref := b.accept("stripe", "evt_1", "{}")
	viewer := signIn(b, "viewer-token")
	if _, body := viewer.get("/events/" + ref.String()); strings.Contains(body, "came under this ID") {
		t.Error("an event that came once lists repeats")
	}
	first := b.clock.now()
	for range 21 {
		b.accept("stripe", "evt_1", "{}")
	}
	last := b.clock.now()
	b.accept("stripe", "evt_1", `{"other":true}`)
	status, body := viewer.get("/events/" + ref.String())
	if status != 200 || strings.Count(body, ">same body</span>") != 19 || strings.Count(body, `s warn">other body</span>`) != 1 {
		t.Errorf("the page lists %d and %d: %s", strings.Count(body, ">same body</span>"), strings.Count(body, `s warn">other body</span>`), body)
	}
	for _, want := range []string{last.Format("15:04:05.000"), "its signature", "And 2 before or in between", "/audit?kind=repeated%2Cconflicting&amp;ref=" + ref.String()} {
		if !strings.Contains(body, want) {
			t.Errorf("the page does not say %q: %s", want, body)
		}
	}
	if strings.Contains(body, first.Format("15:04:05.000")+"</t") {
		t.Error("the oldest is listed: the list is not bounded")
	}
	_, body = viewer.get("/audit?kind=repeated%2Cconflicting&ref=" + ref.String())
	if n := strings.Count(body, `href="/events/`+ref.String()); n != 23 || !strings.Contains(body, `name="ref" value="`+ref.String()+`"`) || !strings.Contains(body, "Acts: repeated, conflicting</h2>") {
		t.Errorf("the account lists %d of them: %s", n, body)
	}
	none := setup(t, func(c *admin.Config) { c.Audit, c.Record = nil, nil })
	ref = none.accept("stripe", "evt_1", "{}")
	none.accept("stripe", "evt_1", "{}")
	if status, body := signIn(none, token).get("/events/" + ref.String()); status != 200 || !strings.Contains(body, "Received twice") {
		t.Errorf("without a log = %d %s", status, body)
	}
}

// TestSecretAges: each secret shows from when on it is known to be what it is,
// and one of which nothing says so shows no age.
func TestSecretAges(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	day := 24 * time.Hour
	b := setup(t, func(c *admin.Config) {
		c.Setup = func() admin.Setup {
			return admin.Setup{Sources: []admin.SourceSetup{{Name: "stripe", Secrets: []admin.SecretSetup{
				{ID: "in-force", NotBefore: now.Add(-90 * day), Written: now.Add(-2 * day)},
				{ID: "file", Written: now.Add(-12 * day)},
				{ID: "coming", NotBefore: now.Add(day), Written: now.Add(-3 * day)},
				{ID: "env"},
				{ID: "missing", Written: now.Add(-4 * day), Missing: true},
			}}}}
		}
	})
	_, body := signIn(b, token).get("/sources?name=stripe")
	for id, want := range map[string]string{"in-force": "90 d<span class=\"sub\">by its not_before", "file": "12 d<span class=\"sub\">by its file", "coming": "3 d<span class=\"sub\">by its file", "env": "not known", "missing": "not known"} {
		_, row, _ := strings.Cut(body, ">"+id)
		row, _, _ = strings.Cut(row, "</tr>")
		if !strings.Contains(row, want) {
			t.Errorf("%s: want %q in %s", id, want, row)
		}
	}
}
