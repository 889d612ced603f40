package admin_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/admin"
	"github.com/onceward/onceward/audit"
	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/dedupe/ledgertest"
	"github.com/onceward/onceward/event"
)

const sessionName = "__Host-onceward"

// reader is a browser without a screen: it follows redirects and keeps
// cookies as one would that trusts loopback.
type reader struct {
	b      *bundle
	cookie *http.Cookie
}

// get opens a page.
func (r *reader) get(path string, change ...func(*http.Request)) (int, string) {
	return r.send(http.MethodGet, path, nil, change...)
}

// post sends a form as a page of ours does.
func (r *reader) post(path string, form url.Values, change ...func(*http.Request)) (int, string) {
	return r.send(http.MethodPost, path, form, change...)
}

func (r *reader) send(method, path string, form url.Values, change ...func(*http.Request)) (int, string) {
	r.b.t.Helper()
	for range 5 {
		req, err := http.NewRequest(method, r.b.url+path, strings.NewReader(form.Encode()))
		if err != nil {
			r.b.t.Fatal(err)
		}
		if method == http.MethodPost {
			req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		}
		req.Header.Set("Sec-Fetch-Site", "same-origin")
		if r.cookie != nil {
			req.AddCookie(r.cookie)
		}
		for _, f := range change {
			f(req)
		}
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			r.b.t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil {
			r.b.t.Fatal(err)
		}
		for _, c := range resp.Cookies() {
			r.cookie = c
		}
		if resp.StatusCode != http.StatusSeeOther {
			return resp.StatusCode, string(body)
		}
		method, path, form = http.MethodGet, resp.Header.Get("Location"), nil
	}
	r.b.t.Fatalf("%s leads in a circle", path)
	return 0, ""
}

// signIn opens a session with a token.
func signIn(b *bundle, token string) *reader {
	b.t.Helper()
	r := &reader{b: b}
	if status, body := r.post("/login", url.Values{"token": {token}, "next": {"/"}}); status != 200 || !strings.Contains(body, "Sign out") {
		b.t.Fatalf("sign in = %d %s", status, body)
	}
	return r
}

func TestLogin(t *testing.T) {
	t.Parallel()
	b := setup(t)
	r := signIn(b, token)
	c := r.cookie
	if c.Name != sessionName || !c.Secure || !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/" || c.Domain != "" || c.MaxAge != 8*3600 {
		t.Errorf("cookie = %+v", c)
	}
	if len(c.Value) < 43 || strings.Contains(c.Value, token) {
		t.Errorf("cookie value %q is short, or holds the token", c.Value)
	}
	stranger := &reader{b: b}
	for _, path := range []string{"/", "/events", "/config", "/refusals?source=x"} {
		status, body := stranger.get(path)
		if status != 401 || !strings.Contains(body, `name="token"`) || !strings.Contains(body, `value="`+strings.ReplaceAll(path, "&", "&amp;")+`"`) {
			t.Errorf("%s for a stranger = %d %s", path, status, body)
		}
	}
	for name, value := range map[string]string{"wrong": "x", "empty": "", "hash": fmt.Sprintf("%x", admin.HashToken(token))} {
		s := &reader{b: b}
		if status, body := s.post("/login", url.Values{"token": {value}}); status != 401 && status != 400 || s.cookie != nil || strings.Contains(body, "Sign out") {
			t.Errorf("%s token: %d, cookie %v", name, status, s.cookie)
		}
	}
	if strings.Contains(b.log.String(), token[:12]) || strings.Contains(b.log.String(), c.Value) {
		t.Error("the log holds a token or a session")
	}
	// The API takes no cookie: it has no forms, and needs no guard for them.
	if resp, _ := b.do("GET", "/api/v1/version", "", func(q *http.Request) { q.Header.Del("Authorization"); q.AddCookie(c) }); resp.StatusCode != 401 {
		t.Errorf("the API took a cookie: %d", resp.StatusCode)
	}
}

func TestSessionEnds(t *testing.T) {
	t.Parallel()
	b := setup(t, withRoles)
	status := func(r *reader) int { s, _ := r.get("/"); return s }
	late, out, revoked := signIn(b, token), signIn(b, token), signIn(b, "viewer-token")
	kept := *out.cookie
	if s, _ := out.post("/logout", nil); s != 200 || out.cookie.MaxAge >= 0 {
		t.Errorf("after signing out: %d, cookie %+v", s, out.cookie)
	}
	out.cookie = &kept
	if s := status(out); s != 401 {
		t.Errorf("a session that was left still answers %d", s)
	}
	if s := status(revoked); s != 200 {
		t.Fatalf("viewer = %d", s)
	}
	if err := b.admin.SetTokens(nil); err != nil {
		t.Fatal(err)
	}
	if s := status(revoked); s != 401 {
		t.Errorf("a session of a token that is gone answers %d", s)
	}
	b.clock.add(8*time.Hour - time.Second)
	if s := status(late); s != 200 {
		t.Errorf("just before eight hours: %d", s)
	}
	b.clock.add(time.Second)
	if s := status(late); s != 401 {
		t.Errorf("after eight hours: %d", s)
	}
}

func TestLoginFormIsLimited(t *testing.T) {
	t.Parallel()
	b := setup(t)
	r := &reader{b: b}
	for i := range 10 {
		if status, _ := r.post("/login", url.Values{"token": {"wrong"}}); status != 401 {
			t.Fatalf("try %d = %d", i, status)
		}
	}
	if status, body := r.post("/login", url.Values{"token": {token}}); status != 429 || r.cookie != nil {
		t.Errorf("the eleventh = %d %s", status, body)
	}
	b.clock.add(time.Minute)
	signIn(b, token)
}

func TestLoginGoesOnOnlyHere(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, next := range []string{"//evil.example/", "https://evil.example/", "/\\evil.example", "javascript:alert(1)", "/login", "", "/\t/evil.example", "/x\r\ny: z", "evil"} {
		r := &reader{b: b}
		if status, body := r.post("/login", url.Values{"token": {token}, "next": {next}}); status != 200 || !strings.Contains(body, "All quiet") && !strings.Contains(body, "Ready.") {
			t.Errorf("next %q led elsewhere: %d", next, status)
		}
	}
	r := &reader{b: b}
	if status, body := r.post("/login", url.Values{"token": {token}, "next": {"/events?type=a%2Fb"}}); status != 200 || !strings.Contains(body, "type = a/b") {
		t.Errorf("a page of ours was not gone on to: %d", status)
	}
}

// TestNotKept: a browser that drops the cookie is told why, not asked again.
func TestNotKept(t *testing.T) {
	t.Parallel()
	b := setup(t)
	c := &http.Client{} // keeps nothing
	resp, err := c.PostForm(b.url+"/login", url.Values{"token": {token}})
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	if resp.StatusCode != 401 || !strings.Contains(string(body), "dropped the session") {
		t.Errorf("= %d %s", resp.StatusCode, body)
	}
}

// TestLinkFromElsewhere: the cookie is not sent along; the page asks again by
// itself, once.
func TestLinkFromElsewhere(t *testing.T) {
	t.Parallel()
	b := setup(t)
	r := &reader{b: b}
	if status, body := r.get("/events", func(q *http.Request) { q.Header.Set("Sec-Fetch-Site", "cross-site") }); status != 401 || !strings.Contains(body, `http-equiv="refresh"`) {
		t.Errorf("from elsewhere = %d %s", status, body)
	}
	if _, body := r.get("/events"); strings.Contains(body, `http-equiv="refresh"`) {
		t.Error("the page asks again for ever")
	}
	in := signIn(b, token)
	if status, _ := in.post("/config/reload", nil, func(q *http.Request) { q.Header.Set("Sec-Fetch-Site", "cross-site") }); status != 403 {
		t.Errorf("a form of another site = %d", status)
	}
}

// uiPages are all pages that need no event.
var uiPages = []string{"/", "/events", "/refusals", "/sources", "/targets", "/dead", "/replays", "/keys", "/audit", "/config"}

// TestPageRoles holds every page and form to the least role that it takes.
func TestPageRoles(t *testing.T) {
	t.Parallel()
	b := setup(t, withRoles)
	ref := b.accept("stripe", "evt_1", `{"card":"CANARY-BODY"}`)
	b.edge.refusals = []admin.Refusal{{ID: "r1", Source: "stripe", Reason: "signature_mismatch", Body: "CANARY-REFUSED", BodyBytes: 14}}
	readers := map[string]*reader{"viewer": signIn(b, "viewer-token"), "operator": signIn(b, "operator-token"), "admin": signIn(b, token)}
	rank := map[string]int{"viewer": 1, "operator": 2, "admin": 3}
	least := map[string]string{
		"GET /events/" + ref.String(): "viewer", "GET /events/newer": "viewer", "GET /events/" + ref.String() + "/raw": "operator",
		"GET /events/" + ref.String() + "/cancel": "operator", "GET /replay": "operator",
		"POST /events/" + ref.String() + "/cancel": "operator", "POST /replay": "operator", "POST /config/reload": "admin",
		"GET /targets/act?name=crm&do=pause": "operator", "POST /targets/act": "operator", "POST /targets/test": "operator",
		"GET /sources/test?name=stripe": "operator", "POST /sources/test": "operator", "POST /audit/sign": "operator", "POST /replays/cancel": "operator", "GET /replays/list": "viewer", "POST /keys/settle": "operator", "GET /audit/export": "admin", "GET /events/" + ref.String() + "/proof": "viewer",
		"GET /events/" + ref.String() + "/receipt": "viewer", "GET /dead/drop": "operator", "POST /dead/drop": "operator",
	}
	for _, p := range uiPages {
		least["GET "+p] = "viewer"
	}
	for route, role := range least {
		method, path, _ := strings.Cut(route, " ")
		for name, r := range readers {
			status, body := r.send(method, path, nil)
			if refused := status == 403; refused != (rank[name] < rank[role]) {
				t.Errorf("%s as %s = %d", route, name, status)
			}
			if name == "viewer" && strings.Contains(body, "CANARY") {
				t.Errorf("%s shows a viewer a body", route)
			}
		}
	}
	for _, path := range []string{"/events/" + ref.String() + "?view=raw", "/events/" + ref.String() + "?view=hex", "/events/" + ref.String(), "/refusals"} {
		if _, body := readers["viewer"].get(path); strings.Contains(body, "CANARY") || strings.Contains(body, "43 41 4e 41") {
			t.Errorf("%s shows a viewer a body", path)
		}
	}
	if _, body := readers["operator"].get("/events/" + ref.String() + "?view=raw"); !strings.Contains(body, "CANARY-BODY") {
		t.Error("an operator does not see the body")
	}
	if _, body := readers["operator"].get("/refusals"); !strings.Contains(body, "CANARY-REFUSED") {
		t.Error("an operator does not see the refused body")
	}
}

// hostile are texts that would do harm in a page that is not careful.
var hostile = []string{
	`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `'-alert(1)-'`, `javascript:alert(1)`, `{{.}}`, "a\u202eb", "a\x00b\x1b[31m", "\xff\xfe", `</pre></title><svg onload=alert(1)>`,
}

// TestHostileTexts: whatever an event, an answer or an address holds stands in
// the pages as text.
func TestHostileTexts(t *testing.T) {
	t.Parallel()
	for i, h := range hostile {
		b := setup(t)
		text := strings.ToValidUTF8(h, "\uFFFD")
		req := &dedupe.Request{Body: []byte(h), Items: []dedupe.Item{{
			Event: event.Event{Source: "stripe", Provider: "stripe", ID: fmt.Sprint("evt_", i), Type: text, Secret: text, Caller: text, Key: text, Trace: text, ReceivedAt: b.clock.now(), Method: text, Path: text, Query: text,
				Header: []event.Field{{Name: text, Value: text}}, BodyHash: event.HashOf([]byte(h)), Body: event.Slice{Length: int64(len(h))}, Targets: []string{"billing"}},
			RawID: "x", HasClaim: true, Claim: dedupe.KeyOf(dedupe.KindID, "stripe", "", "x"), Window: time.Hour,
		}}}
		if err := b.ledger.Commit(t.Context(), &dedupe.Batch{Requests: []*dedupe.Request{req}}); err != nil {
			t.Fatal(err)
		}
		b.killWith(text, "HTTP/1.1 500 X\r\nX: "+h+"\r\n\r\n"+h)
		b.edge.refusals = []admin.Refusal{{ID: "r1", Source: text, Reason: "signature_mismatch", Detail: text, Remote: text, Method: text, Path: text, Header: []event.Field{{Name: text, Value: text}}, Body: text, BodyBytes: 9}}
		b.edge.sources = append(b.edge.sources, admin.Source{Name: "x", Offline: text})
		r := signIn(b, token)
		ref := req.Outcomes[0].Ref.String()
		q := url.QueryEscape(h)
		for _, path := range []string{"/", "/events", "/events/" + ref, "/events/" + ref + "?view=raw", "/events/" + ref + "?view=hex", "/events/" + ref + "?view=headers",
			"/refusals", "/refusals?source=" + q + "&reason=" + q, "/sources?name=x", "/targets", "/dead", "/dead?target=" + q, "/events?q=" + q, "/events?type=" + q, "/events?since=" + q,
			"/replay?id=" + q, "/replay?id=" + ref, "/events/" + url.PathEscape(h), "/sources?name=" + q, "/login?next=" + q, "/?range=" + q, "/keys?id=" + q, "/keys?state=" + q + "&source=" + q + "&caller=" + q, "/keys/one?ref=" + q, "/audit?kind=all", "/audit?actor=" + q, "/audit?target=" + q, "/audit?kind=" + q, "/events/" + ref + "/proof"} {
			_, body := r.get(path)
			for _, bad := range []string{"<script>alert", "<img src=x", "<svg onload", "\u202e", "\x00", "\x1b", "\xff", `href="javascript:`, `src="javascript:`, `action="javascript:`, `'-alert(1)-'"`} {
				if strings.Contains(body, bad) {
					t.Errorf("%s with %q holds %q", path, h, bad)
				}
			}
			if !strings.Contains(body, "</html>") {
				t.Errorf("%s with %q is cut: %s", path, h, body)
			}
		}
	}
}

// killWith makes the next delivery of billing dead, with a last attempt that
// failed and was answered so.
func (b *bundle) killWith(fault, answer string) {
	b.t.Helper()
	ls, _, err := b.ledger.Lease(b.t.Context(), "billing", 1, time.Minute)
	if err != nil || len(ls) != 1 {
		b.t.Fatalf("Lease = %d leases, %v", len(ls), err)
	}
	r := &dedupe.Result{Lease: ls[0], State: event.Dead, Attempt: event.Attempt{
		Event: ls[0].Delivery.Event, Target: "billing", Number: 1, StartedAt: b.clock.now(), Status: 500, Error: fault,
		Outcome: event.Outcome5xx, State: event.Dead, Response: []byte(answer),
	}}
	if err := b.ledger.Commit(b.t.Context(), &dedupe.Batch{Results: []*dedupe.Result{r}}); err != nil {
		b.t.Fatal(err)
	}
}

// TestReplayFromPage: first what it would do, then a reason, then it is done.
func TestReplayFromPage(t *testing.T) {
	t.Parallel()
	b := setup(t, withRoles)
	ref := b.accept("stripe", "evt_1", "{}")
	b.kill()
	r := signIn(b, "operator-token")
	state := func() event.State {
		rec, err := b.ledger.Get(t.Context(), ref)
		if err != nil {
			t.Fatal(err)
		}
		return rec.Deliveries[0].State
	}
	if status, body := r.get("/replay?state=dead&target=billing"); status != 200 || !strings.Contains(body, "Replay 1 delivery") || state() != event.Dead {
		t.Errorf("dry run = %d, state %s: %s", status, state(), body)
	}
	form := url.Values{"state": {"dead"}, "target": {"billing"}}
	if status, body := r.post("/replay", form); status != 400 || !strings.Contains(body, "Say in a few words why") || state() != event.Dead {
		t.Errorf("without a reason = %d, state %s: %s", status, state(), body)
	}
	form.Set("reason", "billing is back")
	form.Set("rate", "fast")
	if status, body := r.post("/replay", form); status != 400 || !strings.Contains(body, "rate") || state() != event.Dead {
		t.Errorf("with a rate that is none = %d, state %s: %s", status, state(), body)
	}
	form.Set("rate", "20/s")
	if status, body := r.post("/replay", form); status != 200 || !strings.Contains(body, "at most 20/s") || !strings.Contains(body, "billing is back") {
		t.Errorf("a job = %d: %s", status, body)
	}
	_, list := r.get("/replays/list")
	_, id, _ := strings.Cut(list, "/replays?cancel=")
	id, _, _ = strings.Cut(id, `"`)
	if status, body := r.post("/replays/cancel", url.Values{"id": {id}}); status != 400 || !strings.Contains(body, "Say in a few words why") {
		t.Errorf("cancelling without a reason = %d: %s", status, body)
	}
	if status, body := r.post("/replays/cancel", url.Values{"id": {id}, "reason": {"wrong ones"}}); status != 200 || !strings.Contains(body, "cancelled") {
		t.Errorf("cancelling = %d: %s", status, body)
	}
	one := url.Values{"id": {ref.String()}, "reason": {"billing is back"}}
	if status, body := r.post("/replay", one); status != 200 || !strings.Contains(body, "1 delivery of 1 event") || state() != event.Pending {
		t.Errorf("one event = %d, state %s: %s", status, state(), body)
	}
	if log := b.log.String(); !strings.Contains(log, `"actor":"operator-name"`) || !strings.Contains(log, "billing is back") {
		t.Errorf("the log does not say who and why: %s", log)
	}
	cancel := "/events/" + ref.String() + "/cancel"
	if status, _ := r.post(cancel, url.Values{}); status != 400 || state() != event.Pending {
		t.Errorf("cancelled without a reason: %d, %s", status, state())
	}
	if status, _ := r.post(cancel, url.Values{"reason": {"no longer wanted"}, "target": {"billing"}}); status != 200 || state() != event.Cancelled {
		t.Errorf("cancel = %d, state %s", status, state())
	}
	if status, _ := r.post(cancel, url.Values{"reason": {"x"}}); status != 200 {
		t.Errorf("cancelling what is closed = %d", status)
	}
}

func TestReloadFromPage(t *testing.T) {
	t.Parallel()
	var faults []admin.Fault
	var failed error
	b := setup(t, func(c *admin.Config) {
		c.Setup = func() admin.Setup {
			return admin.Setup{File: "config.toml", Hash: "0123456789abcdef", Text: "listen = \":8080\"\n"}
		}
		c.Reload = func(context.Context) ([]admin.Fault, error) { return faults, failed }
	})
	r := signIn(b, token)
	if status, body := r.post("/config/reload", nil); status != 200 || !strings.Contains(body, "The config on disk is in effect") || !strings.Contains(body, "listen = ") {
		t.Errorf("reload = %d %s", status, body)
	}
	faults, failed = []admin.Fault{{Line: 4, Column: 2, Key: "sorce", Problem: `unknown key "sorce"`, Remedy: `did you mean "source"?`}}, fmt.Errorf("1 fault")
	if status, body := r.post("/config/reload", nil); status != 400 || !strings.Contains(body, "line 4:2") || !strings.Contains(body, "did you mean") {
		t.Errorf("a reload that failed = %d %s", status, body)
	}
}

// TestFindEvent: by ref and by the provider's ID; what is not there, and what
// is there twice.
func TestFindEvent(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ref := b.accept("stripe", "evt_1", "{}")
	b.accept("stripe", "both", "{}")
	b.accept("github", "both", "{}")
	r := signIn(b, token)
	for _, q := range []string{"evt_1", ref.String(), " evt_1 "} {
		if status, body := r.get("/events?q=" + url.QueryEscape(q)); status != 200 || !strings.Contains(body, "<h1>thing.done</h1>") {
			t.Errorf("looking for %q = %d", q, status)
		}
	}
	if _, body := r.get("/events?q=nothing"); !strings.Contains(body, "no event has the ref") {
		t.Errorf("what is not there: %s", body)
	}
	if _, body := r.get("/events?q=both"); strings.Count(body, "<td role=\"cell\" class=\"ty\">") != 2 {
		t.Errorf("what is there twice: %s", body)
	}
	if status, body := r.get("/events?since=yesterday"); status != 400 || !strings.Contains(body, `aria-invalid="true"`) {
		t.Errorf("a bad time = %d", status)
	}
	if _, body := r.get("/events?type=none"); !strings.Contains(body, "No event matches") || !strings.Contains(body, "drop the type") {
		t.Errorf("nothing found: %s", body)
	}
}

func TestNewerEvents(t *testing.T) {
	t.Parallel()
	b := setup(t)
	first := b.accept("stripe", "evt_1", "{}")
	r := signIn(b, token)
	part := func(query string) string {
		status, body := r.get("/events/newer?" + query)
		if status != 200 {
			t.Fatalf("%s = %d", query, status)
		}
		return body
	}
	if got := part("after=" + first.String()); strings.TrimSpace(got) != "" {
		t.Errorf("nothing newer = %q", got)
	}
	b.accept("stripe", "evt_2", "{}")
	b.accept("github", "evt_3", "{}")
	if got := part("after=" + first.String()); !strings.Contains(got, "2 newer") {
		t.Errorf("two newer = %q", got)
	}
	if got := part("after=" + first.String() + "&source=github"); !strings.Contains(got, "1 newer") || !strings.Contains(got, "source=github") {
		t.Errorf("one newer of github = %q", got)
	}
}

// TestStatic: files are cached for good under a name that changes with them.
func TestStatic(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, page := (&reader{b: b}).get("/login")
	found := 0
	for _, part := range strings.Split(page, `"`) {
		if !strings.HasPrefix(part, "/static/") {
			continue
		}
		found++
		resp, body := b.do("GET", part, "", func(r *http.Request) { r.Header.Del("Authorization") })
		if resp.StatusCode != 200 || !strings.Contains(resp.Header.Get("Cache-Control"), "immutable") || len(body) < 100 {
			t.Errorf("%s = %d, %d bytes, %v", part, resp.StatusCode, len(body), resp.Header)
		}
		if resp, _ := b.do("GET", strings.Replace(part, "/static/", "/static/0", 1), ""); resp.StatusCode != 404 {
			t.Errorf("%s under another hash = %d", part, resp.StatusCode)
		}
	}
	if found != 4 {
		t.Errorf("the page names %d files, want 4", found)
	}
}

// switches is a Controller that writes down what it was told.
type switches struct {
	told []string
	err  error
}

func (s *switches) note(what, target string, by dedupe.By) error {
	s.told = append(s.told, what+" "+target+" by "+by.Actor+": "+by.Reason)
	return s.err
}

func (s *switches) Pause(_ context.Context, target string, by dedupe.By) error {
	return s.note("pause", target, by)
}

func (s *switches) Resume(_ context.Context, target string, by dedupe.By) error {
	return s.note("resume", target, by)
}

func (s *switches) Drain(_ context.Context, target string, by dedupe.By) error {
	return s.note("drain", target, by)
}

func TestControlFromPage(t *testing.T) {
	t.Parallel()
	sw := &switches{}
	b := setup(t, withRoles, func(c *admin.Config) {
		c.Control = sw
		c.TestTarget = func(_ context.Context, name string) (admin.TargetTest, error) {
			return admin.TargetTest{Target: name, Status: 503, Outcome: event.Outcome5xx, Response: "HTTP/1.1 503 X\r\nSet-Cookie: CANARY\r\n"}, nil
		}
	})
	r := signIn(b, "operator-token")
	for _, do := range []string{"pause", "resume", "drain"} {
		if status, body := r.get("/targets/act?name=crm&do=" + do); status != 200 || !strings.Contains(body, `name="reason"`) {
			t.Errorf("asking to %s = %d", do, status)
		}
		form := url.Values{"name": {"crm"}, "do": {do}}
		if status, body := r.post("/targets/act", form); status != 400 || !strings.Contains(body, "Say in a few words why") || len(sw.told) != 0 {
			t.Errorf("%s without a reason = %d, told %v", do, status, sw.told)
		}
		form.Set("reason", "maintenance")
		if status, _ := r.post("/targets/act", form); status != 200 || len(sw.told) != 1 || sw.told[0] != do+" crm by operator-name: maintenance" {
			t.Errorf("%s = %d, told %v", do, status, sw.told)
		}
		sw.told = nil
	}
	for _, query := range []string{"name=crm&do=explode", "name=nobody&do=pause", ""} {
		if status, _ := r.get("/targets/act?" + query); status != 404 {
			t.Errorf("%s = %d", query, status)
		}
	}
	sw.err = context.DeadlineExceeded
	if status, body := r.post("/targets/act", url.Values{"name": {"crm"}, "do": {"drain"}, "reason": {"x"}}); status != 409 || !strings.Contains(body, "still under way") {
		t.Errorf("a drain that takes too long = %d %s", status, body)
	}
	if status, body := r.post("/targets/test", url.Values{"name": {"crm"}}); status != 200 || !strings.Contains(body, "answered 503") || strings.Contains(body, "CANARY") {
		t.Errorf("test = %d %s", status, body)
	}
}

// TestTargetStates: paused is no trouble while nothing waits for it, an open breaker
// is.
func TestTargetStates(t *testing.T) {
	t.Parallel()
	b := setup(t)
	r := signIn(b, token)
	b.edge.targets[0].Paused, b.edge.targets[0].PausedBy, b.edge.targets[0].PauseReason = true, "eve", "tea"
	if _, body := r.get("/"); !strings.Contains(body, "by “eve”") || strings.Contains(body, "needs you") {
		t.Errorf("a paused target: %s", body)
	}
	b.edge.targets[1].Breaker = admin.Breaker{State: "open", ProbeAt: b.clock.now().Add(time.Minute), History: []admin.BreakerChange{{At: b.clock.now(), State: "open", Reason: "20 failures in a row"}}}
	if _, body := r.get("/"); !strings.Contains(body, "1 thing needs you") || !strings.Contains(body, "The breaker is open; the next probe is at 12:01:00") {
		t.Errorf("an open breaker: %s", body)
	}
	if _, body := r.get("/targets?name=billing"); !strings.Contains(body, "20 failures in a row") {
		t.Errorf("its history: %s", body)
	}
	b.edge.targets[0].Paused = false
	b.edge.targets[1].Breaker = admin.Breaker{}
	b.edge.targets[1].Paused, b.edge.targets[1].PausedBy, b.edge.targets[1].PauseReason = true, "eve", "tea"
	b.accept("stripe", "evt_1", "{}")
	if _, body := r.get("/"); !strings.Contains(body, "1 thing needs you") || !strings.Contains(body, "is paused, and 1 delivery waits") || !strings.Contains(body, "“tea”, says eve. Nothing is sent to it until it is resumed.") {
		t.Errorf("a paused target that a delivery waits for: %s", body)
	}
}

// concerned is a ledger that says things of itself.
type concerned struct {
	dedupe.Account
	say []dedupe.Concern
	bad event.Ref
}

func (c *concerned) Stats(ctx context.Context) (dedupe.Stats, error) {
	st, err := c.Account.Stats(ctx)
	st.Concerns = c.say
	return st, err
}

// Events of a concerned ledger have a hole where bad stands.
func (c *concerned) Events(ctx context.Context, f dedupe.Filter, cursor string, limit int) (dedupe.Page[dedupe.Record], error) {
	page, err := c.Account.Events(ctx, f, cursor, limit)
	if i := slices.IndexFunc(page.Items, func(r dedupe.Record) bool { return r.Event.Ref == c.bad }); i >= 0 {
		page.Items = page.Items[:i]
		return page, &dedupe.EventError{Ref: c.bad, Err: dedupe.ErrDamaged}
	}
	return page, err
}

// TestUnreadableEvent: one event that can't be read hides no other one, and the page
// says which it is and what to do.
func TestUnreadableEvent(t *testing.T) {
	t.Parallel()
	ledger := &concerned{}
	b := setup(t, func(c *admin.Config) {
		var err error
		if c.Account, err = audit.New(audit.Config{Reader: ledger, Keeper: ledgertest.NewMemory(ledgertest.Config{})}); err != nil {
			t.Fatal(err)
		}
	})
	ledger.Account = b.ledger
	b.accept("stripe", "evt_before", "{}")
	ledger.bad = b.accept("stripe", "evt_bad", "{}")
	b.accept("stripe", "evt_after", "{}")
	_, body := signIn(b, token).get("/events")
	for _, want := range []string{"evt_before", "evt_after", "1 event here can't be read", ledger.bad.String(), "onceward ledger check"} {
		if !strings.Contains(strings.NewReplacer("<span>", "", "</span>", "", "&#39;", "'").Replace(body), want) {
			t.Errorf("the page does not say %q: %s", want, body)
		}
	}
	var damaged *admin.APIError
	if _, err := b.client.Events(t.Context(), admin.Filter{}, "", 10); !errors.As(err, &damaged) || damaged.Code != admin.CodeDamaged {
		t.Errorf("a program that lists is told %v", err)
	}
}

// unsigned is a ledger whose acts can't be read.
type unsigned struct{ *ledgertest.Memory }

func (unsigned) ActLogs(context.Context) ([]dedupe.ActLog, error) {
	return nil, fmt.Errorf("act 7: %w", dedupe.ErrDamaged)
}

// TestBrokenAudit: a log that can't be read or signed is said on Overview, and the
// page Audit says what to do in place of failing.
func TestBrokenAudit(t *testing.T) {
	t.Parallel()
	var log *audit.Log
	b := setup(t, func(c *admin.Config) {
		key, _, err := audit.GenerateKey()
		if err != nil {
			t.Fatal(err)
		}
		if log, err = audit.NewLog(audit.LogConfig{Ledger: unsigned{ledgertest.NewMemory(ledgertest.Config{})}, Key: key}); err != nil {
			t.Fatal(err)
		}
		c.Audit = log
	})
	r := signIn(b, token)
	if status, body := r.get("/audit"); status != 200 || !strings.Contains(body, "act 7") || !strings.Contains(body, "onceward audit verify") {
		t.Errorf("the page Audit = %d %s", status, body)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := log.Run(ctx); err != nil { // one round, as at a stop
		t.Fatal(err)
	}
	if _, body := r.get("/"); !strings.Contains(body, "The audit log can&#39;t be signed") || !strings.Contains(body, "act 7") {
		t.Errorf("Overview: %s", body)
	}
}

// TestConcerns: what the ledger says that needs somebody is on Overview, with what to
// do, and in the status.
func TestConcerns(t *testing.T) {
	t.Parallel()
	say := []dedupe.Concern{{Name: "dead_rows", Text: "The table pending has <many> dead rows.", Do: "Vacuum it."}, dedupe.HeldConcern(3, "onceward ledger resume")}
	b := setup(t, func(c *admin.Config) {
		m := ledgertest.NewMemory(ledgertest.Config{})
		acc, err := audit.New(audit.Config{Reader: &concerned{Account: m, say: say}, Keeper: m})
		if err != nil {
			t.Fatal(err)
		}
		c.Account = acc
	})
	r := signIn(b, token)
	_, body := r.get("/")
	for _, want := range []string{"2 things need you", "The table pending has &lt;many&gt; dead rows", "Vacuum it.", "3 deliveries that were open when the ledger was copied are held", "end the hold: onceward ledger resume."} {
		if !strings.Contains(body, want) {
			t.Errorf("Overview does not say %q: %s", want, body)
		}
	}
	if _, body := r.get("/events"); !strings.Contains(body, "database") || !strings.Contains(body, "held") {
		t.Errorf("the other pages do not hint at it: %s", body)
	}
	st, err := b.client.Status(t.Context())
	if err != nil || !slices.Equal(st.Ledger.Concerns, say) {
		t.Errorf("status: %+v, %v", st.Ledger.Concerns, err)
	}
}

func TestDropFromPage(t *testing.T) {
	t.Parallel()
	b := setup(t, withRoles)
	ref := b.accept("stripe", "evt_1", "{}")
	b.kill()
	r := signIn(b, "operator-token")
	state := func() event.State {
		rec, err := b.ledger.Get(t.Context(), ref)
		if err != nil {
			t.Fatal(err)
		}
		return rec.Deliveries[0].State
	}
	if status, body := r.get("/dead/drop?target=billing"); status != 200 || !strings.Contains(body, "Drop 1 delivery") || state() != event.Dead {
		t.Errorf("dry run = %d, %s: %s", status, state(), body)
	}
	if status, _ := r.post("/dead/drop", url.Values{"target": {"billing"}}); status != 400 || state() != event.Dead {
		t.Errorf("without a reason = %d, %s", status, state())
	}
	if status, body := r.post("/dead/drop", url.Values{"target": {"billing"}, "reason": {"never existed"}}); status != 200 || !strings.Contains(body, "off the list") || state() != event.Cancelled {
		t.Errorf("drop = %d, %s: %s", status, state(), body)
	}
	if status, body := r.get("/dead"); status != 200 || !strings.Contains(body, "No dead letters") {
		t.Errorf("afterwards = %d", status)
	}
}

// TestAuditPages: the log's state, acts with who and why, and a receipt that
// names the event.
func TestAuditPages(t *testing.T) {
	t.Parallel()
	b := setup(t, withRoles)
	ref := b.accept("stripe", "evt_1", "{}")
	r := signIn(b, "operator-token")
	if status, body := r.get("/audit"); status != 200 || !strings.Contains(body, "newer</span>") || !strings.Contains(body, "operator-name") {
		t.Errorf("audit = %d %s", status, body)
	}
	if status, body := r.post("/audit/sign", nil); status != 200 || !strings.Contains(body, "signed whole") {
		t.Errorf("sign = %d %s", status, body)
	}
	if status, body := r.get("/audit?kind=accepted"); status != 200 || !strings.Contains(body, "evt_1") {
		t.Errorf("acts of a kind = %d %s", status, body)
	}
	if status, body := r.get("/audit?kind=all&actor=nobody"); status != 200 || !strings.Contains(body, "<b>No act") {
		t.Errorf("acts of nobody = %d %s", status, body)
	}
	if status, body := r.get("/audit?since=%22%3Cx%3E"); status != 400 || !strings.Contains(body, `aria-invalid="true"`) || strings.Contains(body, "<x>") {
		t.Errorf("a bad time = %d %s", status, body)
	}
	if status, body := r.get("/events/" + ref.String() + "/proof"); status != 200 || !strings.Contains(body, "Checkpoint") || !strings.Contains(body, "evt_1") {
		t.Errorf("proof = %d %s", status, body)
	}
	if status, body := r.get("/events/" + ref.String() + "/receipt"); status != 200 || !strings.Contains(body, `"event_id": "evt_1"`) {
		t.Errorf("receipt = %d %s", status, body)
	}
	none := setup(t, func(c *admin.Config) { c.Audit, c.Record = nil, nil })
	if status, body := signIn(none, token).get("/audit"); status != 200 || !strings.Contains(body, "keeps no audit log") {
		t.Errorf("without a log = %d %s", status, body)
	}
}

func TestFindByField(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *admin.Config) {
		c.Setup = func() admin.Setup {
			return admin.Setup{Sources: []admin.SourceSetup{{Name: "stripe", Fields: []string{"customer"}}}}
		}
	})
	b.accept("stripe", "evt_1", "{}", event.Field{Name: "customer", Value: "cus_9&<b>"})
	b.accept("stripe", "evt_2", "{}", event.Field{Name: "customer", Value: "cus_8"})
	r := signIn(b, token)
	_, body := r.get("/events")
	for _, want := range []string{`name="where"`, `<option value="customer=">`, `href="/events?where=customer%3Dcus_9%26%3cb%3e"`, "cus_9&amp;&lt;b&gt;", ">Fields</th>"} {
		if !strings.Contains(body, want) {
			t.Errorf("no %s on the page: %s", want, body)
		}
	}
	_, body = r.get("/events?where=customer%3Dcus_9%26%3cb%3e")
	if strings.Count(body, `class="ty"`) != 1 || strings.Contains(body, "cus_8") || !strings.Contains(body, "where = customer=cus_9") {
		t.Errorf("searching by field: %s", body)
	}
	if _, body := r.get("/events?where=customer%3Dnone"); !strings.Contains(body, "drop the field") {
		t.Errorf("nothing found: %s", body)
	}
	if status, body := r.get("/events?where=customer"); status != 400 || !strings.Contains(body, "want NAME=VALUE") {
		t.Errorf("a field without a value = %d %s", status, body)
	}
	if _, body := r.get("/events/evt_2"); !strings.Contains(body, `<dt>customer</dt><dd class="m"><a href="/events?where=customer%3Dcus_8">cus_8</a>`) {
		t.Errorf("an event with a field: %s", body)
	}
	page, err := b.client.Events(t.Context(), admin.Filter{Where: "customer=cus_8"}, "", 10)
	if err != nil || len(page.Items) != 1 || page.Items[0].Index["customer"] != "cus_8" {
		t.Errorf("over the API: %+v %v", page, err)
	}
}

// claimUnknown leaves a key of unknown outcome.
func (b *bundle) claimUnknown(id string) {
	b.t.Helper()
	key := dedupe.KeyOf(dedupe.KindSync, "pay", "app", id)
	claim := &dedupe.KeyStep{Kind: dedupe.StepClaim, Key: key, Claim: &dedupe.KeyClaim{Source: "pay", Caller: "app", ID: id, Target: "billing",
		Downstream: "pay:app:" + id, Print: event.HashOf([]byte(id)), Lease: time.Minute, Window: time.Hour}}
	if err := b.ledger.Commit(b.t.Context(), &dedupe.Batch{Keys: []*dedupe.KeyStep{claim}}); err != nil || claim.Err != nil {
		b.t.Fatal(err, claim.Err)
	}
	lost := &dedupe.KeyStep{Kind: dedupe.StepUnknown, Key: key, Token: claim.Record.Token, Detail: "timeout"}
	if err := b.ledger.Commit(b.t.Context(), &dedupe.Batch{Keys: []*dedupe.KeyStep{lost}}); err != nil || lost.Err != nil {
		b.t.Fatal(err, lost.Err)
	}
}

// TestSettleFromPage: a key of unknown outcome waits on its page until somebody
// says, for a reason, what became of it.
func TestSettleFromPage(t *testing.T) {
	t.Parallel()
	b := setup(t, withRoles)
	b.claimUnknown(`pay-<1>`)
	r := signIn(b, "operator-token")
	_, list := r.get("/keys")
	_, ref, ok := strings.Cut(list, "/keys/one?ref=")
	if !ok || !strings.Contains(list, "pay-&lt;1&gt;") || !strings.Contains(list, "unknown") {
		t.Fatalf("keys: %s", list)
	}
	ref, _, _ = strings.Cut(ref, `"`)
	_, page := r.get("/keys/one?ref=" + ref)
	_, seen, ok := strings.Cut(page, `name="token" value="`)
	if seen, _, _ = strings.Cut(seen, `"`); !ok || !strings.Contains(page, "Settle it") {
		t.Fatalf("key: %s", page)
	}
	if _, body := signIn(b, "viewer-token").get("/keys/one?ref=" + ref); strings.Contains(body, "Settle it") {
		t.Error("a viewer is offered to settle")
	}
	form := url.Values{"ref": {ref}, "token": {seen}, "as": {"done"}, "status": {"201"}, "body": {"ok"}}
	for name, change := range map[string][2]string{"no reason": {"reason", ""}, "no word": {"as", "perhaps"}, "no status": {"status", "99"}} {
		bad := url.Values{"reason": {"seen at the bank"}}
		for k, v := range form {
			bad[k] = v
		}
		bad.Set(change[0], change[1])
		if status, body := r.post("/keys/settle", bad); status != 400 || !strings.Contains(body, `role="alert"`) {
			t.Errorf("%s = %d", name, status)
		}
	}
	form.Set("reason", "seen at the bank")
	stale := url.Values{"token": {seen + "1"}}
	for k, v := range form {
		if k != "token" {
			stale[k] = v
		}
	}
	if status, _ := r.post("/keys/settle", stale); status < 400 {
		t.Errorf("a key that moved on was settled: %d", status)
	}
	if status, body := r.post("/keys/settle", form); status != 200 || !strings.Contains(body, "settled") || !strings.Contains(body, "201") {
		t.Errorf("settle = %d %s", status, body)
	}
	if _, body := r.get("/keys"); !strings.Contains(body, "Every key has its conclusion") {
		t.Errorf("afterwards: %s", body)
	}
	if _, body := r.get("/keys?state=settled"); !strings.Contains(body, "pay-&lt;1&gt;") {
		t.Errorf("by state: %s", body)
	}
}
