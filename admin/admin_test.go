package admin_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/onceward/onceward/admin"
	"github.com/onceward/onceward/audit"
	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/dedupe/ledgertest"
	"github.com/onceward/onceward/event"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const token = "correct-horse-battery-staple-0123456789abcdef"

// clock is a wall clock that moves when told to.
type clock struct {
	mu sync.Mutex
	t  time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

// edge stands for the public edge and the forwarder.
type edge struct {
	sources  []admin.Source
	refusals []admin.Refusal
	targets  []admin.Target
}

func (e *edge) SourceStats() []admin.Source { return e.sources }
func (e *edge) Status() []admin.Target      { return e.targets }

func (e *edge) Refusals(q admin.RefusalQuery) []admin.Refusal {
	var out []admin.Refusal
	for _, r := range e.refusals {
		if len(out) < q.Limit && (q.Source == "" || q.Source == r.Source) && (q.Reason == "" || q.Reason == r.Reason) && !r.At.Before(q.Since) {
			out = append(out, r)
		}
	}
	return out
}

type bundle struct {
	t      *testing.T
	clock  *clock
	ledger *ledgertest.Memory
	edge   *edge
	reg    *prometheus.Registry
	log    *lockedBuffer
	ready  error
	reload func() ([]admin.Fault, error)
	admin  *admin.Admin
	url    string
	client *admin.Client
	keys   audit.Keys // of the account
}

// lockedBuffer takes log lines from several goroutines.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// keyBook lets the account settle keys.
type keyBook struct{ *ledgertest.Memory }

func (k keyBook) Step(ctx context.Context, ss ...*dedupe.KeyStep) error {
	return k.Commit(ctx, &dedupe.Batch{Keys: ss})
}

// setup serves an Admin over a ledger in memory on a real listener.
func setup(t *testing.T, change ...func(*admin.Config)) *bundle {
	t.Helper()
	b := &bundle{t: t, clock: &clock{t: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}, log: &lockedBuffer{}, reg: prometheus.NewRegistry()}
	b.ledger = ledgertest.NewMemory(ledgertest.Config{Now: b.clock.now})
	b.edge = &edge{
		sources: []admin.Source{{Name: "stripe", Path: "/in/stripe", Provider: "stripe"}, {Name: "github", Path: "/in/github", Provider: "github"}},
		targets: []admin.Target{{Name: "crm", URL: "http://127.0.0.1:9001"}, {Name: "billing", URL: "http://127.0.0.1:9000"}},
	}
	b.reload = func() ([]admin.Fault, error) { return nil, nil }
	acc, err := audit.New(audit.Config{Reader: b.ledger, Keeper: b.ledger, SyncKeys: keyBook{b.ledger}, Now: b.clock.now})
	if err != nil {
		t.Fatal(err)
	}
	key, _, err := audit.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	if b.keys, err = audit.ParseKeys(key.Public()); err != nil {
		t.Fatal(err)
	}
	log, err := audit.NewLog(audit.LogConfig{Ledger: b.ledger, Key: key, Now: b.clock.now})
	if err != nil {
		t.Fatal(err)
	}
	jobs, err := audit.NewJobs(audit.JobsConfig{Keeper: b.ledger, Notes: b.ledger, Now: b.clock.now})
	if err != nil {
		t.Fatal(err)
	}
	cfg := admin.Config{
		Jobs: jobs, Audit: log, Record: func(ctx context.Context, acts ...*dedupe.Act) error {
			return b.ledger.Commit(ctx, &dedupe.Batch{Acts: acts})
		},
		Account: acc, Receiver: b.edge, Forward: b.edge, TokenHash: admin.HashToken(token), Now: b.clock.now,
		Reload:     func(context.Context) ([]admin.Fault, error) { return b.reload() },
		Ready:      func() error { return b.ready },
		Route:      func(*event.Event, func() ([]byte, error)) []string { return []string{"crm"} },
		Registerer: b.reg, Gatherer: b.reg, Log: slog.New(slog.NewJSONHandler(b.log, nil)),
		Build: admin.Build{Version: "1.2.3", Go: "go1"}, FailDelay: -1,
	}
	for _, f := range change {
		f(&cfg)
	}
	if b.admin, err = admin.New(cfg); err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- b.admin.Serve(ctx, ln) }()
	b.url = "http://" + ln.Addr().String()
	b.client = b.clientWith(token)
	t.Cleanup(func() {
		b.client.Close()
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return b
}

func (b *bundle) clientWith(token string) *admin.Client {
	b.t.Helper()
	c, err := admin.NewClient(admin.ClientConfig{Addr: b.url, Token: token})
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(c.Close)
	return c
}

// accept puts one event into the ledger.
func (b *bundle) accept(source, id, body string, index ...event.Field) event.Ref {
	b.t.Helper()
	req := &dedupe.Request{Body: []byte(body), Items: []dedupe.Item{{
		Event: event.Event{
			Source: source, Provider: source, ID: id, Type: "thing.done", ReceivedAt: b.clock.now(), Method: "POST",
			Header:   []event.Field{{Name: "X-Signature", Value: "CANARY-SIGNATURE"}},
			BodyHash: event.HashOf([]byte(body)), Body: event.Slice{Length: int64(len(body))}, Targets: []string{"billing"},
			Index: index,
		},
		RawID: id, HasClaim: true, Claim: dedupe.KeyOf(dedupe.KindID, source, "", id), Window: time.Hour,
	}}}
	if err := b.ledger.Commit(b.t.Context(), &dedupe.Batch{Requests: []*dedupe.Request{req}}); err != nil {
		b.t.Fatal(err)
	}
	b.clock.add(time.Second)
	return req.Outcomes[0].Ref
}

// kill makes the next delivery of billing dead, with one attempt.
func (b *bundle) kill() {
	b.t.Helper()
	ls, _, err := b.ledger.Lease(b.t.Context(), "billing", 1, time.Minute)
	if err != nil || len(ls) != 1 {
		b.t.Fatalf("Lease = %d leases, %v", len(ls), err)
	}
	r := &dedupe.Result{Lease: ls[0], State: event.Dead, Attempt: event.Attempt{
		Event: ls[0].Delivery.Event, Target: "billing", Number: 1, StartedAt: b.clock.now(), Status: 404,
		Outcome: event.Outcome4xx, State: event.Dead,
	}}
	if err := b.ledger.Commit(b.t.Context(), &dedupe.Batch{Results: []*dedupe.Result{r}}); err != nil {
		b.t.Fatal(err)
	}
}

// do sends one request with the token and returns status and body.
func (b *bundle) do(method, path, body string, change ...func(*http.Request)) (*http.Response, string) {
	b.t.Helper()
	req, err := http.NewRequestWithContext(b.t.Context(), method, b.url+path, strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	for _, f := range change {
		f(req)
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		b.t.Fatal(err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return resp, string(got)
}

// wantCode asserts an error of one status and code, in the one shape.
func (b *bundle) wantCode(name string, resp *http.Response, body string, status int, code string) {
	b.t.Helper()
	var got struct {
		Error struct{ Code, Message string }
	}
	if err := json.Unmarshal([]byte(body), &got); err != nil {
		b.t.Errorf("%s: body %q is not JSON: %v", name, body, err)
		return
	}
	if resp.StatusCode != status || got.Error.Code != code || got.Error.Message == "" {
		b.t.Errorf("%s: got %d %s, want %d with code %s", name, resp.StatusCode, body, status, code)
	}
}

func TestEventRoutes(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx := t.Context()
	// Everything a body may hold comes back as it was: no text, no JSON.
	body := "\xff\xfe\x00{\"token\":\"x\"}\r\n<script>"
	ref := b.accept("stripe", "evt_1", body)
	b.kill()
	odd := b.accept("github", "a/b %2F?#ü..", "{}")
	for _, id := range []string{ref.String(), "evt_1"} {
		d, err := b.client.Event(ctx, id, "")
		if err != nil || d.Ref != ref || d.Status != event.StatusDead || len(d.Deliveries) != 1 || len(d.Attempted) != 1 {
			t.Errorf("Event(%s) = %+v, %v", id, d, err)
		}
		if strings.Contains(fmt.Sprintf("%+v", d), "CANARY") {
			t.Errorf("Event(%s) shows a credential: %+v", id, d)
		}
		var buf bytes.Buffer
		if n, err := b.client.Body(ctx, id, "", &buf); err != nil || n != int64(len(body)) || buf.String() != body {
			t.Errorf("Body(%s) = %d bytes %q, %v; want %q", id, n, buf.String(), err, body)
		}
		if at, err := b.client.Attempts(ctx, id, "stripe"); err != nil || len(at) != 1 || at[0].Outcome != event.Outcome4xx {
			t.Errorf("Attempts(%s) = %+v, %v", id, at, err)
		}
	}
	if d, err := b.client.Event(ctx, "a/b %2F?#ü..", "github"); err != nil || d.Ref != odd {
		t.Errorf("Event of an odd ID = %v, %v; want %v", d.Ref, err, odd)
	}
	page, err := b.client.Events(ctx, admin.Filter{Source: "stripe", Status: "dead"}, "", 0)
	if err != nil || len(page.Items) != 1 || page.Items[0].Ref != ref || page.Next != "" {
		t.Errorf("Events = %+v, %v", page, err)
	}
	first, err := b.client.Events(ctx, admin.Filter{Since: "1h"}, "", 1)
	if err != nil || len(first.Items) != 1 || first.Items[0].Ref != odd || first.Next == "" {
		t.Fatalf("Events first page = %+v, %v", first, err)
	}
	second, err := b.client.Events(ctx, admin.Filter{Since: "1h"}, first.Next, 1)
	if err != nil || len(second.Items) != 1 || second.Items[0].Ref != ref {
		t.Errorf("Events second page = %+v, %v", second, err)
	}
	rows, err := b.client.Deliveries(ctx, admin.Filter{State: "dead"}, "", 10)
	if err != nil || len(rows.Items) != 1 || rows.Items[0].Ref != ref || rows.Items[0].Key != "stripe:evt_1" {
		t.Errorf("Deliveries = %+v, %v", rows, err)
	}
	resp, _ := b.do("GET", "/api/v1/events/evt_1/body", "")
	if h := resp.Header; h.Get("Content-Type") != "application/octet-stream" || h.Get("X-Content-Type-Options") != "nosniff" ||
		h.Get("Content-Disposition") != `attachment; filename="`+ref.String()+`.bin"` {
		t.Errorf("body headers = %v", h)
	}
}

func TestEventRoutesBadInput(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.accept("stripe", "both", "{}")
	b.accept("github", "both", "{}")
	unknown := event.NewRef(1, 2, 3).String()
	for _, tt := range []struct {
		method, path, body string
		status             int
		code               string
	}{
		{"GET", "/api/v1/events?cursor=nonsense", "", 400, admin.CodeInvalid},
		{"GET", "/api/v1/events?limit=0", "", 400, admin.CodeInvalid},
		{"GET", "/api/v1/events?limit=501", "", 400, admin.CodeInvalid},
		{"GET", "/api/v1/events?since=yesterday", "", 400, admin.CodeInvalid},
		{"GET", "/api/v1/events?sauce=x", "", 400, admin.CodeInvalid},
		{"GET", "/api/v1/events?status=open", "", 400, admin.CodeInvalid},
		{"GET", "/api/v1/deliveries?state=open", "", 400, admin.CodeInvalid},
		{"GET", "/api/v1/deliveries?cursor=AAAAAAAAAAAAAAAAAAAA", "", 400, admin.CodeInvalid},
		{"GET", "/api/v1/events/evt_9", "", 404, admin.CodeNotFound},
		{"GET", "/api/v1/events/" + unknown, "", 404, admin.CodeNotFound},
		{"GET", "/api/v1/events/both", "", 409, admin.CodeAmbiguous},
		{"GET", "/api/v1/events/both?source=none", "", 404, admin.CodeNotFound},
		{"GET", "/api/v1/events/both?sauce=stripe", "", 400, admin.CodeInvalid},
		{"GET", "/api/v1/events/evt_9/body", "", 404, admin.CodeNotFound},
		{"GET", "/api/v1/events/evt_9/attempts", "", 404, admin.CodeNotFound},
		{"POST", "/api/v1/events/evt_9/cancel", "", 404, admin.CodeNotFound},
		{"POST", "/api/v1/events/both/cancel?source=stripe", "{", 400, admin.CodeInvalid},
		{"POST", "/api/v1/events/both/cancel?source=stripe", `{"sauce":1}`, 400, admin.CodeInvalid},
		{"POST", "/api/v1/replays", "", 400, admin.CodeInvalid},
		{"POST", "/api/v1/replays", "{}", 400, admin.CodeInvalid},
		{"POST", "/api/v1/replays", "{}{}", 400, admin.CodeInvalid},
		{"POST", "/api/v1/replays", `{"dry":true}`, 400, admin.CodeInvalid},
		{"POST", "/api/v1/replays", `{"id":"both","filter":{"source":"stripe"}}`, 400, admin.CodeInvalid},
		{"POST", "/api/v1/replays", `{"source":"stripe"}`, 400, admin.CodeInvalid},
		{"POST", "/api/v1/replays", `{"filter":{"status":"open"}}`, 400, admin.CodeInvalid},
		{"POST", "/api/v1/replays", `{"filter":{"source":"stripe"},"cursor":"x"}`, 400, admin.CodeInvalid},
		{"POST", "/api/v1/replays", `{"id":"both"}`, 409, admin.CodeAmbiguous},
		{"POST", "/api/v1/replays", `{"id":"evt_9"}`, 404, admin.CodeNotFound},
		{"POST", "/api/v1/replays", `{"id":"` + strings.Repeat("x", 70_000) + `"}`, 413, admin.CodeTooLarge},
		{"GET", "/api/v1/refusals?limit=x", "", 400, admin.CodeInvalid},
		{"GET", "/api/v1/refusals?since=x", "", 400, admin.CodeInvalid},
		{"GET", "/api/v1/refusals?cursor=x", "", 400, admin.CodeInvalid},
		{"GET", "/api/v1/refusals/none", "", 404, admin.CodeNotFound},
		{"GET", "/api/v1/health?loud", "", 400, admin.CodeInvalid},
		{"POST", "/api/v1/replays", `{"filter":{"source":"stripe"},"rate":"fast"}`, 400, admin.CodeInvalid},
		{"POST", "/api/v1/replays", `{"id":"both","source":"stripe","job":true}`, 400, admin.CodeInvalid},
		{"POST", "/api/v1/replays", `{"filter":{"source":"stripe"},"dry_run":true,"job":true}`, 400, admin.CodeInvalid},
		{"GET", "/api/v1/replays?limit=1", "", 400, admin.CodeInvalid},
		{"GET", "/api/v1/replays/none", "", 404, admin.CodeNotFound},
		{"POST", "/api/v1/replays/none/cancel", "", 404, admin.CodeNotFound},
		{"DELETE", "/api/v1/replays", "", 405, admin.CodeMethod},
		{"DELETE", "/api/v1/events/both", "", 405, admin.CodeMethod},
		{"GET", "/api/v1/nothing", "", 404, admin.CodeNotFound},
		{"GET", "/api/v1/events/both/", "", 404, admin.CodeNotFound},
	} {
		resp, body := b.do(tt.method, tt.path, tt.body)
		b.wantCode(tt.method+" "+tt.path[:min(len(tt.path), 80)]+" "+tt.body[:min(len(tt.body), 60)], resp, body, tt.status, tt.code)
	}
}

// TestRetiredSource: an event is found by its ID though its source is configured no
// more.
func TestRetiredSource(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ref := b.accept("retired", "evt_old", "{}")
	if ev, err := b.client.Event(t.Context(), "evt_old", ""); err != nil || ev.Ref != ref {
		t.Errorf("its ID alone: %v, %v", ev.Ref, err)
	}
	if _, err := b.client.Event(t.Context(), "evt_old", "stripe"); err == nil {
		t.Error("it is found in another source")
	}
}

func TestAmbiguousIDListsRefs(t *testing.T) {
	t.Parallel()
	b := setup(t)
	one, two := b.accept("stripe", "both", "{}"), b.accept("github", "both", "{}")
	_, err := b.client.Event(t.Context(), "both", "")
	var api *admin.APIError
	if !errors.As(err, &api) || api.Code != admin.CodeAmbiguous || api.Status != 409 ||
		!strings.Contains(api.Message, one.String()) || !strings.Contains(api.Message, two.String()) {
		t.Errorf("Event error = %v, want one that lists %s and %s", err, one, two)
	}
	if d, err := b.client.Event(t.Context(), "both", "github"); err != nil || d.Ref != two {
		t.Errorf("Event in github = %v, %v; want %v", d.Ref, err, two)
	}
}

func TestDamagedAndPruned(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx := t.Context()
	damaged := b.accept("stripe", "evt_1", "{}")
	if err := b.ledger.Damage(damaged); err != nil {
		t.Fatal(err)
	}
	pruned := b.accept("stripe", "evt_2", "{}")
	if _, err := b.client.Cancel(ctx, pruned.String(), "", ""); err != nil {
		t.Fatal(err)
	}
	b.clock.add(31 * 24 * time.Hour)
	if _, err := b.ledger.Expire(ctx); err != nil {
		t.Fatal(err)
	}
	for ref, want := range map[event.Ref]string{damaged: admin.CodeDamaged, pruned: admin.CodePruned} {
		var api *admin.APIError
		if _, err := b.client.Body(ctx, ref.String(), "", io.Discard); !errors.As(err, &api) || api.Code != want {
			t.Errorf("Body error = %v, want code %s", err, want)
		}
	}
	if d, err := b.client.Event(ctx, pruned.String(), ""); err != nil || !d.BodyPruned {
		t.Errorf("Event = pruned %v, %v; want it without its body", d.BodyPruned, err)
	}
}

func TestCancelAndReplay(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx := t.Context()
	ref := b.accept("stripe", "evt_1", "{}")
	if r, err := b.client.Cancel(ctx, "evt_1", "", "crm"); err != nil || r.Cancelled != 0 {
		t.Errorf("Cancel of another target = %+v, %v; want none", r, err)
	}
	if r, err := b.client.Cancel(ctx, "evt_1", "stripe", "billing"); err != nil || r.Cancelled != 1 || r.Ref != ref {
		t.Errorf("Cancel = %+v, %v; want one", r, err)
	}
	dry, err := b.client.Replay(ctx, admin.ReplayRequest{ID: "evt_1", DryRun: true})
	if err != nil || dry.Opened != 1 || !dry.DryRun {
		t.Errorf("dry Replay = %+v, %v; want one opened", dry, err)
	}
	if d, err := b.client.Event(ctx, "evt_1", ""); err != nil || d.Status != event.StatusCancelled {
		t.Errorf("after a dry run the event is %v, %v; want it untouched", d.Status, err)
	}
	if r, err := b.client.Replay(ctx, admin.ReplayRequest{ID: ref.String(), NewKey: true}); err != nil || r.Opened != 1 || r.DryRun {
		t.Errorf("Replay = %+v, %v; want one opened", r, err)
	}
	d, err := b.client.Event(ctx, "evt_1", "")
	if err != nil || d.Status != event.StatusPending || d.Deliveries[0].Key != "stripe:evt_1~r1" {
		t.Errorf("replayed event = %+v, %v", d, err)
	}
	if r, err := b.client.Replay(ctx, admin.ReplayRequest{ID: "evt_1"}); err != nil || r.Opened != 0 || r.Open != 1 {
		t.Errorf("Replay of an open delivery = %+v, %v; want it skipped", r, err)
	}
	if r, err := b.client.Replay(ctx, admin.ReplayRequest{Filter: admin.Filter{Source: "stripe"}, Reroute: true}); err != nil || r.Opened != 1 {
		t.Errorf("rerouted Replay = %+v, %v; want one opened", r, err)
	}
	if d, err := b.client.Event(ctx, "evt_1", ""); err != nil || len(d.Deliveries) != 2 {
		t.Errorf("rerouted event has %d deliveries, %v; want one for crm too", len(d.Deliveries), err)
	}
}

func TestRerouteNeedsRoutes(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *admin.Config) { c.Route = nil })
	b.accept("stripe", "evt_1", "{}")
	var api *admin.APIError
	if _, err := b.client.Replay(t.Context(), admin.ReplayRequest{ID: "evt_1", Reroute: true}); !errors.As(err, &api) || api.Code != admin.CodeInvalid {
		t.Errorf("Replay error = %v, want %s", err, admin.CodeInvalid)
	}
}

func TestStateRoutes(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx := t.Context()
	b.accept("stripe", "evt_1", "{}")
	b.kill()
	b.accept("stripe", "evt_2", "{}")
	b.clock.add(time.Minute)
	b.edge.targets = b.edge.targets[:1] // billing is no longer configured
	src, err := b.client.Sources(ctx)
	if err != nil || len(src) != 2 || src[0].Name != "stripe" {
		t.Errorf("Sources = %+v, %v", src, err)
	}
	tgt, err := b.client.Targets(ctx)
	if err != nil || len(tgt) != 2 || tgt[0].Name != "billing" || !tgt[0].Missing || tgt[0].Pending != 1 || tgt[0].Dead != 1 ||
		tgt[0].OldestAge < 60 || tgt[1].Missing {
		t.Errorf("Targets = %+v, %v", tgt, err)
	}
	st, err := b.client.Status(ctx)
	if err != nil || !st.Ready || st.Ledger.Events != 2 || len(st.Sources) != 2 || len(st.Targets) != 2 || st.Build.Version != "1.2.3" {
		t.Errorf("Status = %+v, %v", st, err)
	}
	if v, err := b.client.Version(ctx); err != nil || v.Version != "1.2.3" {
		t.Errorf("Version = %+v, %v", v, err)
	}
	if h, err := b.client.Health(ctx); err != nil || !h.OK || len(h.Probes) < 4 {
		t.Errorf("Health = %+v, %v", h, err)
	}
	if err := b.client.Ready(ctx); err != nil {
		t.Errorf("Ready = %v", err)
	}
	b.ready = errors.New("draining")
	if h, err := b.client.Health(ctx); err != nil || h.OK || h.Probes[0].Detail != "draining" {
		t.Errorf("Health when draining = %+v, %v", h, err)
	}
	if st, err := b.client.Status(ctx); err != nil || st.Ready || st.Problem != "draining" {
		t.Errorf("Status when draining = %+v, %v", st, err)
	}
	if err := b.client.Ready(ctx); err == nil {
		t.Error("Ready when draining gave no error")
	}
	if resp, body := b.do("GET", "/readyz", ""); resp.StatusCode != 503 || body != "not ready\n" {
		t.Errorf("/readyz = %d %q, want a bare 503", resp.StatusCode, body)
	}
	if resp, body := b.do("GET", "/livez", ""); resp.StatusCode != 200 || body != "ok\n" {
		t.Errorf("/livez = %d %q, want 200", resp.StatusCode, body)
	}
	if resp, body := b.do("GET", "/api/v1/health", ""); resp.StatusCode != 503 || strings.Contains(body, "draining") {
		t.Errorf("bare health = %d %q, want 503 without probes", resp.StatusCode, body)
	}
	if resp, body := b.do("GET", "/", ""); resp.StatusCode != 401 || !strings.Contains(body, "onceward admin token new") {
		t.Errorf("/ = %d %q", resp.StatusCode, body)
	}
}

func TestJSONHasNoNulls(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.accept("stripe", "evt_1", "{}")
	for _, path := range []string{"/status", "/sources", "/targets", "/refusals", "/events", "/events/evt_1", "/events/evt_1/attempts",
		"/deliveries", "/events?source=none", "/health?verbose"} {
		if resp, body := b.do("GET", "/api/v1"+path, ""); resp.StatusCode != 200 || strings.Contains(body, "null") {
			t.Errorf("%s = %d %s, want lists and maps in place of null", path, resp.StatusCode, body)
		}
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx := t.Context()
	now := b.clock.now()
	skew := -400.5
	b.edge.refusals = []admin.Refusal{
		{ID: "r2", At: now, Source: "stripe", Reason: "timestamp_old", Path: "/in/stripe?token=CANARY", Skew: &skew,
			Header: []event.Field{{Name: "Authorization", Value: "CANARY"}, {Name: "Cookie", Value: "[9 bytes]"}}, Body: `{"api_key":"CANARY","a":1}`},
		{ID: "r1", At: now.Add(-2 * time.Hour), Source: "github", Reason: "signature_missing"},
	}
	all, err := b.client.Refusals(ctx, admin.RefusalFilter{})
	if err != nil || len(all) != 2 || all[0].ID != "r2" || all[0].Body != "" {
		t.Errorf("Refusals = %+v, %v", all, err)
	}
	for _, f := range []admin.RefusalFilter{{Source: "stripe"}, {Reason: "timestamp_old"}, {Since: "1h"}, {Limit: 1}} {
		if got, err := b.client.Refusals(ctx, f); err != nil || len(got) != 1 || got[0].ID != "r2" {
			t.Errorf("Refusals(%+v) = %+v, %v; want r2", f, got, err)
		}
	}
	r, err := b.client.Refusal(ctx, "r2")
	if err != nil || r.Skew == nil || *r.Skew != skew || r.Header[1].Value != "[9 bytes]" || r.Body != `{"api_key":"[masked]","a":1}` {
		t.Errorf("Refusal = %+v, %v", r, err)
	}
	if strings.Contains(fmt.Sprintf("%+v %+v", all, r), "CANARY") {
		t.Errorf("a refusal shows a credential: %+v", r)
	}
	if b.edge.refusals[0].Header[0].Value != "CANARY" {
		t.Error("masking changed the receiver's own record")
	}
}

func TestReload(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.reload = func() ([]admin.Fault, error) { return []admin.Fault{{Problem: "short secret", Warning: true}}, nil }
	if r, err := b.client.Reload(t.Context()); err != nil || len(r.Warnings) != 1 || r.Warnings[0].Problem != "short secret" {
		t.Errorf("Reload = %+v, %v; want the warning", r, err)
	}
	b.reload = func() ([]admin.Fault, error) {
		return []admin.Fault{{Line: 3, Column: 2, Problem: "no such provider"}, {Line: 9, Problem: "no such target"}}, errors.New("2 faults")
	}
	_, err := b.client.Reload(t.Context())
	var api *admin.APIError
	if !errors.As(err, &api) || api.Code != admin.CodeConfig || api.Status != 400 || len(api.Faults) != 2 || api.Faults[0].Line != 3 {
		t.Errorf("Reload error = %+v, want both faults", err)
	}
	for _, path := range []string{"/-/reload", "/api/v1/-/reload"} {
		resp, body := b.do("POST", path, "")
		b.wantCode(path, resp, body, 400, admin.CodeConfig)
	}
}

func TestOneReloadAtATime(t *testing.T) {
	t.Parallel()
	b := setup(t)
	entered, leave := make(chan struct{}), make(chan struct{})
	b.reload = func() ([]admin.Fault, error) {
		close(entered)
		<-leave
		return nil, nil
	}
	first := make(chan error, 1)
	go func() {
		_, err := b.client.Reload(t.Context())
		first <- err
	}()
	<-entered
	var api *admin.APIError
	if _, err := b.client.Reload(t.Context()); !errors.As(err, &api) || api.Code != admin.CodeBusy {
		t.Errorf("second Reload error = %v, want %s", err, admin.CodeBusy)
	}
	close(leave)
	if err := <-first; err != nil {
		t.Errorf("first Reload: %v", err)
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ref := b.accept("stripe", "evt_1", "{}")
	if rep, err := b.client.Check(t.Context()); err != nil || rep.Events != 1 || rep.Faults == nil || len(rep.Faults) != 0 {
		t.Errorf("Check = %+v, %v", rep, err)
	}
	if err := b.ledger.Damage(ref); err != nil {
		t.Fatal(err)
	}
	if rep, err := b.client.Check(t.Context()); err != nil || len(rep.Faults) != 1 {
		t.Errorf("Check of a damaged ledger = %+v, %v; want one fault", rep, err)
	}
}

func TestClosedLedgerIsAStoreError(t *testing.T) {
	t.Parallel()
	b := setup(t)
	if err := b.ledger.Close(); err != nil {
		t.Fatal(err)
	}
	var api *admin.APIError
	if _, err := b.client.Status(t.Context()); !errors.As(err, &api) || api.Code != admin.CodeStore || api.Status != 503 {
		t.Errorf("Status error = %v, want %s", err, admin.CodeStore)
	}
	if h, err := b.client.Health(t.Context()); err != nil || h.OK {
		t.Errorf("Health = %+v, %v; want it unwell", h, err)
	}
}

func TestNewRefusesWeakConfigs(t *testing.T) {
	t.Parallel()
	m := ledgertest.NewMemory(ledgertest.Config{})
	acc, err := audit.New(audit.Config{Reader: m, Keeper: m})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	reg := prometheus.NewRegistry()
	good := func() admin.Config {
		return admin.Config{Account: acc, Receiver: &edge{}, Forward: &edge{}, Gatherer: reg,
			Reload: func(context.Context) ([]admin.Fault, error) { return nil, nil }, Ready: func() error { return nil }}
	}
	for name, change := range map[string]func(*admin.Config){
		"no token":         func(*admin.Config) {},
		"empty token":      func(c *admin.Config) { c.TokenHash = admin.HashToken("") },
		"both":             func(c *admin.Config) { c.TokenHash, c.TokenFile = admin.HashToken("x"), file("both", "x") },
		"no such file":     func(c *admin.Config) { c.TokenFile = filepath.Join(dir, "none") },
		"empty file":       func(c *admin.Config) { c.TokenFile = file("empty", "") },
		"a line end alone": func(c *admin.Config) { c.TokenFile = file("nl", "\n") },
		"two lines":        func(c *admin.Config) { c.TokenFile = file("two", "SECRET\nSECRET\n") },
		"white space":      func(c *admin.Config) { c.TokenFile = file("space", " SECRET") },
		"no account":       func(c *admin.Config) { c.TokenHash, c.Account = admin.HashToken("x"), nil },
		"no reload":        func(c *admin.Config) { c.TokenHash, c.Reload = admin.HashToken("x"), nil },
	} {
		cfg := good()
		change(&cfg)
		if _, err := admin.New(cfg); err == nil || strings.Contains(err.Error(), "SECRET") {
			t.Errorf("%s: New error = %v, want one without the token", name, err)
		}
	}
	for name, text := range map[string]string{"plain": "tok", "one line": "tok\n", "CRLF": "tok\r\n"} {
		cfg := good()
		cfg.TokenFile = file(name, text)
		a, err := admin.New(cfg)
		if err != nil {
			t.Errorf("%s: New: %v", name, err)
			continue
		}
		rec := httptest.NewRecorder()
		req := httptest.NewRequest("GET", "http://localhost/api/v1/version", nil)
		req.Header.Set("Authorization", "Bearer tok")
		a.Handler().ServeHTTP(rec, req)
		if rec.Code != 200 {
			t.Errorf("%s: version = %d, want 200", name, rec.Code)
		}
	}
	if len(admin.HashToken("x")) != sha256.Size || admin.HashToken("x") == admin.HashToken("y") {
		t.Error("HashToken does not tell tokens apart")
	}
}

// panicking is an edge whose state cannot be read.
type panicking struct{ edge }

func (*panicking) SourceStats() []admin.Source { panic("CANARY") }

func TestPanicIsA500(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *admin.Config) { c.Receiver = &panicking{} })
	resp, body := b.do("GET", "/api/v1/sources", "")
	b.wantCode("panic", resp, body, 500, admin.CodeInternal)
	if strings.Contains(body, "CANARY") || !strings.Contains(b.log.String(), "CANARY") {
		t.Errorf("body %q and log %q: want the cause in the log alone", body, b.log)
	}
}

func TestServeDrains(t *testing.T) {
	t.Parallel()
	entered, leave := make(chan struct{}), make(chan struct{})
	c := &clock{t: time.Unix(1e9, 0)}
	m := ledgertest.NewMemory(ledgertest.Config{Now: c.now})
	acc, err := audit.New(audit.Config{Reader: m, Keeper: m})
	if err != nil {
		t.Fatal(err)
	}
	a, err := admin.New(admin.Config{Account: acc, Receiver: &edge{}, Forward: &edge{}, Gatherer: prometheus.NewRegistry(),
		TokenHash: admin.HashToken(token), Ready: func() error { return nil },
		Reload: func(context.Context) ([]admin.Fault, error) {
			close(entered)
			<-leave
			return nil, nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served, called := make(chan error, 1), make(chan error, 1)
	go func() { served <- a.Serve(ctx, ln) }()
	client, err := admin.NewClient(admin.ClientConfig{Addr: ln.Addr().String(), Token: token})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	go func() {
		_, err := client.Reload(context.WithoutCancel(ctx))
		called <- err
	}()
	<-entered
	cancel()
	refusesBy(t, ln.Addr().String(), time.Now().Add(10*time.Second))
	select {
	case err := <-served:
		t.Fatalf("Serve returned %v with a request under way", err)
	default:
	}
	close(leave)
	if err := <-called; err != nil {
		t.Errorf("the request under way: %v", err)
	}
	if err := <-served; err != nil {
		t.Errorf("Serve = %v", err)
	}
	if _, err := client.Version(t.Context()); !errors.Is(err, admin.ErrUnreachable) {
		t.Errorf("after the stop Version error = %v, want ErrUnreachable", err)
	}
}

// refusesBy waits until nothing takes connections at addr any more.
func refusesBy(t *testing.T, addr string, end time.Time) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for time.Now().Before(end) {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			return
		}
		conn.Close()
		<-tick.C
	}
	t.Fatal("the listener still takes connections")
}

func TestReloadOutlivesItsCaller(t *testing.T) {
	t.Parallel()
	var seen error
	b := setup(t, func(c *admin.Config) {
		c.Reload = func(ctx context.Context) ([]admin.Fault, error) {
			seen = ctx.Err()
			return nil, nil
		}
	})
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	rec := ask(b.admin, home, "POST", "http://localhost/api/v1/reload", right, func(r *http.Request) { *r = *r.WithContext(gone) })
	if rec.Code != 200 || seen != nil {
		t.Errorf("reload for a caller that is gone: %d, its context %v; want it done whole", rec.Code, seen)
	}
}

func TestEveryAPIRouteNeedsTheToken(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.accept("stripe", "evt_1", "{}")
	var checked []string
	for _, route := range []string{
		"GET /api/v1/events", "GET /api/v1/events/evt_1", "GET /api/v1/events/evt_1/body", "GET /api/v1/events/evt_1/attempts",
		"POST /api/v1/events/evt_1/cancel", "GET /api/v1/deliveries", "POST /api/v1/replays", "GET /api/v1/sources",
		"GET /api/v1/targets", "GET /api/v1/refusals", "GET /api/v1/refusals/x", "GET /api/v1/status", "GET /api/v1/health",
		"POST /api/v1/deliveries/x.a.0/cancel", "POST /api/v1/deadletters/drop", "GET /api/v1/targets/x", "POST /api/v1/targets/x/pause",
		"POST /api/v1/targets/x/resume", "POST /api/v1/targets/x/drain",
		"GET /api/v1/version", "POST /api/v1/reload", "POST /api/v1/-/reload", "POST /-/reload", "POST /api/v1/check",
		"POST /api/v1/targets/billing/test", "GET /api/v1/keys", "GET /api/v1/keys/x", "POST /api/v1/keys/x/settle",
		"GET /api/v1/replays", "GET /api/v1/replays/x", "POST /api/v1/replays/x/cancel",
		"GET /api/v1/events/evt_1/proof", "GET /api/v1/audit", "GET /api/v1/audit/key", "GET /api/v1/audit/export", "POST /api/v1/audit/checkpoint", "GET /api/v1/tail", "GET /api/v1/backup", "GET /api/v1/transfers",
	} {
		method, path, _ := strings.Cut(route, " ")
		resp, body := b.do(method, path, "", func(r *http.Request) { r.Header.Del("Authorization") })
		b.wantCode(route, resp, body, 401, admin.CodeUnauthorized)
		checked = append(checked, route)
	}
	if got := admin.RoutesForTest(b.admin); !slices.Equal(got, sorted(checked, "evt_1", ":id", "refusals/x", "refusals/:id", "targets/billing/", "targets/:name/", "x.a.0", ":id", "targets/x", "targets/:name", "keys/x", "keys/:id", "replays/x", "replays/:id")) {
		t.Errorf("routes that need the token are\n%v\nchecked were\n%v", got, checked)
	}
}

func sorted(in []string, replace ...string) []string {
	r := strings.NewReplacer(replace...)
	out := make([]string, len(in))
	for i, s := range in {
		out[i] = r.Replace(s)
	}
	slices.Sort(out)
	return out
}
