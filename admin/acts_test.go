package admin_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/admin"
	"github.com/onceward/onceward/audit"
	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

// acts lists what was recorded of these kinds, oldest first.
func (b *bundle) acts(kinds string) []admin.Act {
	b.t.Helper()
	p, err := b.client.Acts(b.t.Context(), admin.ActFilter{Kind: kinds}, "", 500)
	if err != nil {
		b.t.Fatal(err)
	}
	var out []admin.Act
	for i := range p.Items {
		out = append(out, p.Items[len(p.Items)-1-i])
	}
	return out
}

// TestOperatorsActs: what changes something is recorded with who did it and
// why, whether it went well or not; what only reads is not.
func TestOperatorsActs(t *testing.T) {
	t.Parallel()
	b := setup(t, withRoles)
	ref := b.accept("stripe", "evt_1", "{}")
	b.reload = func() ([]admin.Fault, error) { return []admin.Fault{{Problem: "bad"}}, errors.New("bad") }
	reason := func(r *http.Request) { r.Header.Set(admin.ReasonHeader, url.PathEscape("wég <b>")) }
	b.do("POST", "/api/v1/events/evt_1/cancel", `{"reason":"wrong customer"}`, as("operator-token"))
	b.do("POST", "/api/v1/replays", `{"id":"evt_1","dry_run":true}`, as("operator-token"))
	b.do("POST", "/api/v1/replays", `{"id":"evt_1"}`, as("operator-token"), reason)
	b.do("POST", "/api/v1/reload", "", as(token), reason)
	b.do("POST", "/api/v1/audit/checkpoint", "", as(token))
	b.do("GET", "/api/v1/events", "", as(token))
	b.do("POST", "/api/v1/events/none/cancel", "{}", as("operator-token"))
	want := []string{
		"cancelled  operator-name wrong customer 0 " + ref.String(),
		"operated events/:id/cancel operator-name wrong customer 200 /api/v1/events/evt_1/cancel from 127.0.0.1",
		"replayed  operator-name wég <b> 0 " + ref.String(),
		`operated replays operator-name wég <b> 200 /api/v1/replays {"id":"evt_1"} from 127.0.0.1`,
		"operated reload admin wég <b> 400 /api/v1/reload from 127.0.0.1",
		"operated events/:id/cancel operator-name  404 /api/v1/events/none/cancel from 127.0.0.1",
	}
	got := b.acts("operated,cancelled,replayed")
	if len(got) != len(want) {
		t.Fatalf("%d acts, want %d: %+v", len(got), len(want), got)
	}
	for i, a := range got {
		about := a.Detail
		if !a.Ref.IsZero() {
			about = a.Ref.String()
		}
		if line := fmt.Sprintf("%s %s %s %s %d %s", a.Kind, a.Outcome, a.Actor, a.Reason, a.Status, about); line != want[i] {
			t.Errorf("act %d:\n got %q\nwant %q", i, line, want[i])
		}
	}
}

// TestFormsAreActs: what is done on a page is recorded like what is asked of the
// API.
func TestFormsAreActs(t *testing.T) {
	t.Parallel()
	b := setup(t, withRoles)
	ref := b.accept("stripe", "evt_1", "{}")
	session := b.signIn(t, "operator-token")
	form := url.Values{"reason": {"typed <on> a page"}}
	resp, body := b.do("POST", "/events/"+ref.String()+"/cancel", form.Encode(), session, func(r *http.Request) {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	})
	if resp.StatusCode >= 400 {
		t.Fatalf("cancel on the page: %d %s", resp.StatusCode, body)
	}
	b.do("POST", "/config/reload", "", session)
	var got []string
	for _, a := range b.acts("operated,cancelled") {
		got = append(got, strings.TrimSpace(fmt.Sprintf("%s %s %s: %s", a.Kind, a.Outcome, a.Actor, a.Reason)))
	}
	want := []string{"operated login operator-name:", "cancelled  operator-name: typed <on> a page", "operated events/:id/cancel operator-name: typed <on> a page"}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("acts %q, want %q", got, want)
	}
	if f := b.admin.Failures(); len(f) != 1 || f[0].Outcome != "forbidden" || f[0].Actor != "operator-name" {
		t.Errorf("failures %+v, want the reload that an operator may not", f)
	}
}

// signIn signs a browser in and returns what carries its cookie.
func (b *bundle) signIn(t *testing.T, token string) func(*http.Request) {
	t.Helper()
	resp, err := http.DefaultTransport.RoundTrip(b.form("/login", url.Values{"token": {token}}))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if len(resp.Cookies()) == 0 {
		t.Fatalf("sign in: %s gave no cookie", resp.Status)
	}
	return func(r *http.Request) {
		r.Header.Del("Authorization")
		r.AddCookie(resp.Cookies()[0])
	}
}

func (b *bundle) form(path string, v url.Values) *http.Request {
	b.t.Helper()
	r, err := http.NewRequestWithContext(b.t.Context(), http.MethodPost, b.url+path, strings.NewReader(v.Encode()))
	if err != nil {
		b.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return r
}

// TestFailuresAreCounted: failed logins and refusals of a role are counts per
// caller, of a bounded number of callers.
func TestFailuresAreCounted(t *testing.T) {
	t.Parallel()
	b := setup(t, withRoles)
	for range 3 {
		b.do("POST", "/api/v1/reload", "", as("viewer-token"))
	}
	b.do("GET", "/api/v1/events", "", func(r *http.Request) { r.Header.Del("Authorization") })
	for range 2 {
		b.do("GET", "/api/v1/events", "", as("nobodys-token-0123456789"))
	}
	for i := range 200 {
		ask(b.admin, fmt.Sprintf("10.0.%d.1:1000", i), "GET", "http://localhost/api/v1/events", as("nobodys"))
	}
	var lines []string
	total, others := uint64(0), uint64(0)
	for _, a := range b.admin.Failures() {
		total += a.Number
		if strings.HasSuffix(a.Detail, "from others") {
			others += a.Number
		}
		if !strings.Contains(a.Detail, "10.0.") {
			lines = append(lines, fmt.Sprintf("%s %s %d %s", a.Outcome, a.Actor, a.Number, a.Detail))
		}
		if strings.Contains(fmt.Sprint(a), "nobodys") {
			t.Errorf("an act holds the token: %+v", a)
		}
	}
	all := strings.Join(lines, "\n")
	for _, want := range []string{
		"forbidden viewer-name 3 needs the role admin", "login_failed  1 missing from 127.0.0.1/32", "login_failed  2 wrong from 127.0.0.1/32",
	} {
		if !strings.Contains(all, want) {
			t.Errorf("%q is not among\n%s", want, all)
		}
	}
	if total != 206 || others < 100 || len(lines) > 10 {
		t.Errorf("%d failures, %d of others: %v", total, others, lines)
	}
	if again := b.admin.Failures(); len(again) != 0 {
		t.Errorf("told twice: %+v", again)
	}
	if acts := b.acts("operated"); len(acts) != 0 {
		t.Errorf("a failure was written by itself: %+v", acts)
	}
}

// TestAccountOverTheAPI: what the client gets verifies.
func TestAccountOverTheAPI(t *testing.T) {
	t.Parallel()
	b := setup(t, withRoles)
	keys := b.keys
	ref := b.accept("stripe", "evt_1", "{}")
	ls, _, err := b.ledger.Lease(t.Context(), "billing", 1, time.Minute)
	if err != nil || len(ls) != 1 {
		t.Fatalf("Lease = %v, %v", ls, err)
	}
	res := &dedupe.Result{Lease: ls[0], State: event.Delivered, Attempt: event.Attempt{Event: ref, Target: "billing", Number: 1, Status: 200, Outcome: event.Outcome2xx, State: event.Delivered}}
	if err := b.ledger.Commit(t.Context(), &dedupe.Batch{Results: []*dedupe.Result{res}}); err != nil {
		t.Fatal(err)
	}
	k, err := b.client.AuditKey(t.Context())
	if err != nil || k.Key != keys.Public()[0] {
		t.Errorf("key %q, %v", k.Key, err)
	}
	cs, err := b.client.SignAudit(t.Context())
	if err != nil || len(cs) != 1 || cs[0].Size != 2 {
		t.Fatalf("checkpoints %+v, %v", cs, err)
	}
	if _, err := keys.Open(cs[0].Note); err != nil {
		t.Errorf("the checkpoint: %v", err)
	}
	var buf bytes.Buffer
	if err := b.client.ExportAudit(t.Context(), &buf); err != nil {
		t.Fatal(err)
	}
	rep, err := audit.Verify(&buf, audit.VerifyConfig{Keys: keys, Witnessed: []string{cs[0].Note}})
	if err != nil || len(rep.Faults) > 0 || rep.Acts != 2 || rep.Witnessed != 1 {
		t.Errorf("verified %+v, %v", rep, err)
	}
	r, err := b.client.Proof(t.Context(), "evt_1", "")
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := audit.VerifyReceipt(bytes.NewReader(text), keys); err != nil || got.Event.Ref != ref || got.Event.Attempts != 1 {
		t.Errorf("receipt %+v, %v", got.Event, err)
	}
	var api *admin.APIError
	if _, err := b.client.Proof(t.Context(), "evt_2", ""); !errors.As(err, &api) || api.Code != admin.CodeNotFound {
		t.Errorf("receipt of nothing: %v", err)
	}
	if _, err := b.client.Acts(t.Context(), admin.ActFilter{Kind: "nonsense"}, "", 0); !errors.As(err, &api) || api.Code != admin.CodeInvalid {
		t.Errorf("acts of no kind: %v", err)
	}
	bare := setup(t, func(c *admin.Config) { c.Audit = nil })
	if _, err := bare.client.AuditKey(t.Context()); !errors.As(err, &api) || api.Code != admin.CodeNotFound {
		t.Errorf("a gateway without an account: %v", err)
	}
}
