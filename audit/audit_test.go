package audit_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/onceward/onceward/audit"
	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/dedupe/ledgertest"
	"github.com/onceward/onceward/event"
)

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

type bundle struct {
	t      *testing.T
	clock  *clock
	ledger *ledgertest.Memory
	acc    *audit.Account
}

func setup(t *testing.T) *bundle {
	t.Helper()
	c := &clock{t: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	m := ledgertest.NewMemory(ledgertest.Config{Now: c.now})
	acc, err := audit.New(audit.Config{Reader: m, Keeper: m, Now: c.now})
	if err != nil {
		t.Fatal(err)
	}
	return &bundle{t: t, clock: c, ledger: m, acc: acc}
}

// accept puts one event into the ledger and moves the clock on a second.
func (b *bundle) accept(source, id, typ, body string, change ...func(*dedupe.Item)) event.Ref {
	b.t.Helper()
	it := dedupe.Item{
		Event: event.Event{
			Source: source, Provider: "generic", ID: id, Type: typ, ReceivedAt: b.clock.now(), Method: "POST",
			BodyHash: event.HashOf([]byte(body)), Body: event.Slice{Length: int64(len(body))}, Targets: []string{"billing"},
		},
		RawID: id, HasClaim: true, Claim: dedupe.KeyOf(dedupe.KindID, source, "", id), Window: time.Hour,
	}
	for _, f := range change {
		f(&it)
	}
	req := &dedupe.Request{Body: []byte(body), Items: []dedupe.Item{it}}
	if err := b.ledger.Commit(b.t.Context(), &dedupe.Batch{Requests: []*dedupe.Request{req}}); err != nil {
		b.t.Fatal(err)
	}
	b.clock.add(time.Second)
	return req.Outcomes[0].Ref
}

// settle ends the next delivery of target with one attempt.
func (b *bundle) settle(target string, state event.State, response string) {
	b.t.Helper()
	ls, _, err := b.ledger.Lease(b.t.Context(), target, 1, time.Minute)
	if err != nil || len(ls) != 1 {
		b.t.Fatalf("Lease = %d leases, %v", len(ls), err)
	}
	d := ls[0].Delivery
	r := &dedupe.Result{Lease: ls[0], State: state, Attempt: event.Attempt{
		Event: d.Event, Target: target, Generation: d.Generation, Number: d.Attempts + 1, StartedAt: b.clock.now(),
		Duration: 1500 * time.Millisecond, Status: 500, Outcome: event.Outcome5xx, Response: []byte(response), State: state,
	}}
	if err := b.ledger.Commit(b.t.Context(), &dedupe.Batch{Results: []*dedupe.Result{r}}); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bundle) query(kind audit.Kind, raw string) audit.Query {
	b.t.Helper()
	v, err := url.ParseQuery(raw)
	if err != nil {
		b.t.Fatal(err)
	}
	q, err := audit.ParseQuery(kind, v, b.clock.now())
	if err != nil {
		b.t.Fatal(err)
	}
	return q
}

func TestNewNeedsBothSides(t *testing.T) {
	t.Parallel()
	m := ledgertest.NewMemory(ledgertest.Config{})
	for name, cfg := range map[string]audit.Config{"none": {}, "no keeper": {Reader: m}, "no reader": {Keeper: m}} {
		if _, err := audit.New(cfg); err == nil {
			t.Errorf("%s: New gave no error", name)
		}
	}
}

func TestResolve(t *testing.T) {
	t.Parallel()
	b := setup(t)
	one := b.accept("stripe", "evt_1", "a", "{}")
	old := b.accept("stripe", "evt_2", "a", "{}")
	other := b.accept("github", "evt_2", "a", "{}")
	long := b.accept("github", strings.Repeat("x", 600), "a", "{}", func(it *dedupe.Item) {
		it.Event.ID, _ = dedupe.FrameID(it.RawID)
	})
	// A provider whose IDs look like refs of ours.
	looks := event.NewRef(5, 6, 7).String()
	lookalike := b.accept("github", looks, "a", "{}")
	all := []string{"stripe", "github"}
	for _, tt := range []struct {
		name    string
		id      string
		sources []string
		want    event.Ref
	}{
		{"our ref", one.String(), all, one},
		{"our ref in lower case", strings.ToLower(one.String()), all, one},
		{"our ref, no source configured", one.String(), nil, one},
		{"provider's ID", "evt_1", all, one},
		{"in one source", "evt_2", []string{"stripe"}, old},
		{"in the other", "evt_2", []string{"github"}, other},
		{"long ID as received", strings.Repeat("x", 600), all, long},
		{"provider's ID that looks like a ref", looks, all, lookalike},
	} {
		got, err := b.acc.Resolve(t.Context(), tt.id, tt.sources)
		if err != nil || got != tt.want {
			t.Errorf("%s: Resolve = %v, %v; want %v", tt.name, got, err, tt.want)
		}
	}
	for name, id := range map[string]string{
		"unknown": "evt_9", "empty": "", "unknown ref": event.NewRef(1, 2, 3).String(), "prefix": "evt_",
	} {
		if _, err := b.acc.Resolve(t.Context(), id, all); !errors.Is(err, dedupe.ErrNotFound) {
			t.Errorf("%s: Resolve error = %v, want not found", name, err)
		}
	}
	if _, err := b.acc.Resolve(t.Context(), strings.Repeat("y", 5000)+"\n", all); err == nil || len(err.Error()) > 200 {
		t.Errorf("a long unknown ID gave the error %v, want a short one", err)
	}
	_, err := b.acc.Resolve(t.Context(), "evt_2", all)
	var amb *audit.AmbiguousError
	if !errors.As(err, &amb) || len(amb.Refs) != 2 {
		t.Fatalf("Resolve of an ID of two sources = %v, want an AmbiguousError", err)
	}
	for _, want := range []string{old.String(), other.String(), "stripe", "github"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q does not name %s", err, want)
		}
	}
}

func TestAmbiguousErrorIsBounded(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for range 15 {
		b.accept("stripe", "same", "a", "{}", func(it *dedupe.Item) { it.HasClaim = false })
	}
	_, err := b.acc.Resolve(t.Context(), "same", []string{"stripe"})
	if err == nil || !strings.Contains(err.Error(), "means 15 events") || !strings.HasSuffix(err.Error(), "and 5 more") {
		t.Errorf("Resolve error = %v, want ten of fifteen refs", err)
	}
}

func TestResolvePruned(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ref := b.accept("stripe", "evt_1", "a", "{}", func(it *dedupe.Item) { it.Event.Targets = nil })
	b.clock.add(500 * 24 * time.Hour)
	b.ledger = b.ledger.Reopen()
	acc, err := audit.New(audit.Config{Reader: b.ledger, Keeper: b.ledger, Now: b.clock.now})
	if err != nil {
		t.Fatal(err)
	}
	b.clock.add(2 * time.Hour)
	if _, err := b.ledger.Expire(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := acc.Resolve(t.Context(), ref.String(), []string{"stripe"}); !errors.Is(err, dedupe.ErrPruned) {
		t.Errorf("Resolve error = %v, want pruned", err)
	}
}

func TestListPages(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var want []string
	for i := range 25 {
		r := b.accept("stripe", fmt.Sprintf("evt_%d", i), "a", "{}")
		b.accept("github", fmt.Sprintf("d_%d", i), "b", "{}")
		want = append([]string{r.String()}, want...)
	}
	var got []string
	q := b.query(audit.KindEvents, "source=stripe&limit=4&since=24h")
	for pages := 0; ; pages++ {
		page, err := b.acc.Events(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		for _, ev := range page.Items {
			got = append(got, ev.Ref.String())
		}
		if page.Next == "" {
			break
		}
		if len(page.Items) != 4 || pages > 7 {
			t.Fatalf("page %d has %d items and a next", pages, len(page.Items))
		}
		// Time goes on between pages and new events arrive: neither shows.
		b.clock.add(20 * time.Hour)
		b.accept("stripe", fmt.Sprintf("late_%d", pages), "a", "{}")
		q = b.query(audit.KindEvents, "source=stripe&limit=4&since=24h&cursor="+page.Next)
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("listed\n%v\nwant\n%v", got, want)
	}
}

// sparse is a ledger whose bounded scans find next to nothing: one record in
// every fifth.
type sparse struct {
	dedupe.Account
	limits []int
}

func (s *sparse) Events(_ context.Context, _ dedupe.Filter, cursor string, limit int) (dedupe.Page[dedupe.Record], error) {
	s.limits = append(s.limits, limit)
	page := dedupe.Page[dedupe.Record]{Next: cursor + "x"}
	if len(s.limits)%5 == 0 {
		page.Items = make([]dedupe.Record, 1)
	}
	if len(s.limits) == 12 {
		page.Next = ""
	}
	return page, nil
}

func TestListGoesOnOverEmptyScans(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		limit, scans, items int
		more                bool
	}{{10, 12, 2, false}, {2, 10, 2, true}, {1, 5, 1, true}} {
		s := &sparse{}
		acc, err := audit.New(audit.Config{Reader: s, Keeper: ledgertest.NewMemory(ledgertest.Config{})})
		if err != nil {
			t.Fatal(err)
		}
		page, err := acc.Events(t.Context(), audit.Query{Kind: audit.KindEvents, Limit: tt.limit})
		if err != nil || len(page.Items) != tt.items || (page.Next != "") != tt.more || len(s.limits) != tt.scans {
			t.Errorf("limit %d: %d items, next %q, %v after %d scans; want %+v", tt.limit, len(page.Items), page.Next, err, len(s.limits), tt)
		}
		if last := s.limits[tt.scans-1]; last != tt.limit-(tt.scans-1)/5 {
			t.Errorf("limit %d: the last scan was asked for %d", tt.limit, last)
		}
	}
}

func TestCursorIsOfOneListing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for i := range 3 {
		b.accept("stripe", fmt.Sprint(i), "a", "{}")
	}
	page, err := b.acc.Events(t.Context(), b.query(audit.KindEvents, "limit=1"))
	if err != nil || page.Next == "" {
		t.Fatalf("Events = next %q, %v", page.Next, err)
	}
	if _, err := b.acc.Events(t.Context(), b.query(audit.KindEvents, "limit=2&cursor="+page.Next)); err != nil {
		t.Errorf("the same listing with another limit: %v", err)
	}
	flip := []byte(page.Next)
	flip[len(flip)-3] ^= 1
	for name, q := range map[string]audit.Query{
		"no base64":      b.query(audit.KindEvents, "cursor=!!!"),
		"too short":      b.query(audit.KindEvents, "cursor=AAAA"),
		"cut":            b.query(audit.KindEvents, "cursor="+page.Next[:len(page.Next)-4]),
		"changed":        b.query(audit.KindEvents, "cursor="+string(flip)),
		"bare ref":       b.query(audit.KindEvents, "cursor="+event.NewRef(1, 2, 3).String()),
		"another filter": b.query(audit.KindEvents, "source=stripe&cursor="+page.Next),
		"another kind":   b.query(audit.KindDeliveries, "cursor="+page.Next),
	} {
		var err error
		if q.Kind == audit.KindDeliveries {
			_, err = b.acc.Deliveries(t.Context(), q)
		} else {
			_, err = b.acc.Events(t.Context(), q)
		}
		var inv *audit.InvalidError
		if !errors.As(err, &inv) {
			t.Errorf("%s: error = %v, want an InvalidError", name, err)
		}
	}
}

func TestParseQuery(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	at := time.Date(2026, 2, 1, 8, 30, 0, 0, time.UTC)
	for _, tt := range []struct {
		kind  audit.Kind
		raw   string
		want  dedupe.Filter
		limit int
	}{
		{audit.KindEvents, "", dedupe.Filter{}, 50},
		{audit.KindEvents, "limit=500", dedupe.Filter{}, 500},
		{audit.KindEvents, "source=s&type=a.*&status=dead&target=t&id=x&limit=1",
			dedupe.Filter{Source: "s", Type: "a.*", Status: event.StatusDead, Target: "t", ID: "x"}, 1},
		{audit.KindDeliveries, "state=leased&status=pending", dedupe.Filter{State: "leased", Status: event.StatusPending}, 50},
		{audit.KindEvents, "since=24h", dedupe.Filter{From: now.Add(-24 * time.Hour)}, 50},
		{audit.KindEvents, "from=7d&to=1h30m", dedupe.Filter{From: now.Add(-7 * 24 * time.Hour), To: now.Add(-90 * time.Minute)}, 50},
		{audit.KindEvents, "from=2026-02-01T08:30:00Z", dedupe.Filter{From: at}, 50},
	} {
		v, err := url.ParseQuery(tt.raw)
		if err != nil {
			t.Fatal(err)
		}
		q, err := audit.ParseQuery(tt.kind, v, now)
		if err != nil || q.Filter != tt.want || q.Limit != tt.limit {
			t.Errorf("ParseQuery(%q) = %+v, %v; want %+v with limit %d", tt.raw, q, err, tt.want, tt.limit)
		}
	}
	for _, raw := range []string{
		"limit=0", "limit=-1", "limit=501", "limit=x", "limit=1e2", "limit=99999999999999999999", "sourse=x", "source=a&source=b",
		"status=closed", "state=dead", "from=yesterday", "from=2026-13-01T00:00:00Z", "since=-1h", "since=d", "since=-1d",
		"since=99999999d", "since=1h&from=2h", "from=1h&to=2h", "from=1h&to=1h", "to=%00",
	} {
		v, err := url.ParseQuery(raw)
		if err != nil {
			t.Fatal(err)
		}
		var inv *audit.InvalidError
		if _, err := audit.ParseQuery(audit.KindEvents, v, now); !errors.As(err, &inv) {
			t.Errorf("ParseQuery(%q) error = %v, want an InvalidError", raw, err)
		}
	}
}

func TestParseAge(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]time.Duration{"90s": 90 * time.Second, "7d": 168 * time.Hour, "0d": 0, "36500d": 36500 * 24 * time.Hour} {
		if got, err := audit.ParseAge(s); err != nil || got != want {
			t.Errorf("ParseAge(%q) = %v, %v; want %v", s, got, err, want)
		}
	}
	for _, s := range []string{"", "7", "-7d", "1.5d", "36501d", "d", "+1d"} {
		if _, err := audit.ParseAge(s); err == nil {
			t.Errorf("ParseAge(%q) gave no error", s)
		}
	}
}

func TestReplay(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const n = 2500 // more than two transactions of the ledger
	for i := range n {
		b.accept("stripe", fmt.Sprint(i), "a", "{}")
		b.settle("billing", event.Dead, "")
	}
	b.accept("stripe", "open", "a", "{}")
	all := audit.Replay{Query: b.query(audit.KindReplay, "source=stripe"), DryRun: true}
	dry, err := b.acc.Replay(t.Context(), all)
	if err != nil {
		t.Fatal(err)
	}
	all.DryRun = false
	wet, err := b.acc.Replay(t.Context(), all)
	if err != nil {
		t.Fatal(err)
	}
	want := dedupe.ReplayCount{Events: n + 1, Opened: n, Open: 1, Bytes: 2 * n}
	if dry != want || wet != want {
		t.Errorf("Replay dry = %+v, real = %+v; want %+v", dry, wet, want)
	}
	if st, err := b.ledger.Stats(t.Context()); err != nil || st.Targets["billing"].Pending != n+1 {
		t.Errorf("pending = %+v, %v; want %d", st.Targets, err, n+1)
	}
}

func TestReplayNeedsASelection(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.accept("stripe", "1", "a", "{}")
	b.settle("billing", event.Dead, "")
	var inv *audit.InvalidError
	if _, err := b.acc.Replay(t.Context(), audit.Replay{}); !errors.As(err, &inv) {
		t.Errorf("Replay of nothing in particular: error = %v, want an InvalidError", err)
	}
}

// failing is a ledger whose third replay call fails.
type failing struct {
	*ledgertest.Memory
	calls int
}

var errBroken = errors.New("broken")

func (f *failing) Replay(ctx context.Context, r dedupe.Replay) (dedupe.ReplayCount, error) {
	if f.calls++; f.calls == 3 {
		return dedupe.ReplayCount{}, errBroken
	}
	return f.Memory.Replay(ctx, r)
}

func TestReplayGoesOnAfterAnError(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const n = 2500
	for i := range n {
		b.accept("stripe", fmt.Sprint(i), "a", "{}")
		b.settle("billing", event.Dead, "")
	}
	acc, err := audit.New(audit.Config{Reader: b.ledger, Keeper: &failing{Memory: b.ledger}, Now: b.clock.now})
	if err != nil {
		t.Fatal(err)
	}
	r := audit.Replay{Query: b.query(audit.KindReplay, "status=dead")}
	first, err := acc.Replay(t.Context(), r)
	if !errors.Is(err, errBroken) || first.Opened != 2000 || first.Next == "" {
		t.Fatalf("Replay = %+v, %v; want 2,000 opened, a cursor and the error", first, err)
	}
	r.Query.Cursor = first.Next
	rest, err := acc.Replay(t.Context(), r)
	if err != nil || rest.Opened != n-2000 || rest.Next != "" {
		t.Errorf("Replay went on with %+v, %v; want the other %d", rest, err, n-2000)
	}
}

func TestViews(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ref := b.accept("stripe", "evt_1", "invoice.paid", `{"a":1}`, func(it *dedupe.Item) {
		it.Event.Query = "a=1&token=canary1&b=%20"
		it.Event.Header = []event.Field{{Name: "Content-Type", Value: "text/x"}, {Name: "Stripe-Signature", Value: "canary2"}}
		it.Event.Flags = event.FlagTest
		it.Event.Secret = "primary"
	})
	b.accept("stripe", "evt_1", "invoice.paid", `{"a":1}`)
	b.settle("billing", event.Pending, "HTTP/1.1 500 X\r\nSet-Cookie: canary3\r\nA: b\r\n\r\n{\"password\":\"canary4\",\"ok\":1}")
	d, err := b.acc.Detail(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	if d.Query != "a=1&token=[masked]&b=%20" || d.Header[0].Value != "text/x" || d.Header[1].Value != audit.Masked {
		t.Errorf("query %q, header %v: want only the credentials masked", d.Query, d.Header)
	}
	if d.Answered != 200 || d.Repeats != 1 || d.BodyBytes != 7 || len(d.Flags) != 1 || d.Flags[0] != "test" || d.Secret != "primary" {
		t.Errorf("Detail = %+v", d)
	}
	if len(d.Deliveries) != 1 || d.Deliveries[0].Key != "stripe:evt_1" || d.Deliveries[0].EventID != "evt_1" {
		t.Errorf("Deliveries = %+v", d.Deliveries)
	}
	if len(d.Attempted) != 1 || d.Attempted[0].Duration != 1.5 ||
		d.Attempted[0].Response != "HTTP/1.1 500 X\r\nSet-Cookie: [masked]\r\nA: b\r\n\r\n{\"password\":\"[masked]\",\"ok\":1}" {
		t.Errorf("Attempts = %+v", d.Attempted)
	}
	if rows, err := b.acc.Deliveries(t.Context(), b.query(audit.KindDeliveries, "state=pending")); err != nil ||
		len(rows.Items) != 1 || rows.Items[0].ID != d.Deliveries[0].ID || rows.Items[0].Key != d.Deliveries[0].Key {
		t.Errorf("Deliveries = %+v, %v; want the one of the event", rows, err)
	}
}

// A page that ended early says how far back it has looked.
func TestLookedTo(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var refs []event.Ref
	for n := range 3 {
		refs = append(refs, b.accept("shop", fmt.Sprint("evt_", n), "a", "{}"))
		b.clock.add(time.Hour)
	}
	q, err := audit.Args{Source: "shop"}.Query(audit.KindEvents, b.clock.now())
	if err != nil {
		t.Fatal(err)
	}
	q.Limit = 2
	page, err := b.acc.Events(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	if at, ok := q.LookedTo(page.Next); !ok || !at.Equal(refs[1].Time()) {
		t.Errorf("looked to %v, %v; want %v", at, ok, refs[1].Time())
	}
	other, err := audit.Args{Source: "other"}.Query(audit.KindEvents, b.clock.now())
	if err != nil {
		t.Fatal(err)
	}
	for what, try := range map[string]func() (time.Time, bool){
		"another listing's cursor": func() (time.Time, bool) { return other.LookedTo(page.Next) },
		"nonsense":                 func() (time.Time, bool) { return q.LookedTo("x") },
	} {
		if at, ok := try(); ok {
			t.Errorf("%s says %v", what, at)
		}
	}
}

// torn is a ledger in which one event can't be read.
type torn struct {
	dedupe.Account
	bad event.Ref
}

func (h torn) Events(ctx context.Context, f dedupe.Filter, cursor string, limit int) (dedupe.Page[dedupe.Record], error) {
	page, err := h.Account.Events(ctx, f, cursor, limit)
	for i := range page.Items {
		if page.Items[i].Event.Ref == h.bad {
			page.Items, page.Next = page.Items[:i], ""
			return page, &dedupe.EventError{Ref: h.bad, Err: dedupe.ErrDamaged}
		}
	}
	return page, err
}

// Damage is an error of a listing, unless somebody who looks asked for what is
// around it: then it is named.
func TestListPastDamage(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var refs []event.Ref
	for n := range 5 {
		refs = append(refs, b.accept("shop", fmt.Sprint("evt_", n), "a", "{}"))
	}
	acc, err := audit.New(audit.Config{Reader: torn{b.ledger, refs[2]}, Keeper: b.ledger, Now: b.clock.now})
	if err != nil {
		t.Fatal(err)
	}
	q, err := audit.Args{}.Query(audit.KindEvents, b.clock.now())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := acc.Events(t.Context(), q); !errors.Is(err, dedupe.ErrDamaged) || !strings.Contains(err.Error(), refs[2].String()) {
		t.Errorf("without asking: %v, want damage of %s", err, refs[2])
	}
	q.PastDamage = true
	page, err := acc.Events(t.Context(), q)
	var got []event.Ref
	for _, ev := range page.Items {
		got = append(got, ev.Ref)
	}
	if want := []event.Ref{refs[4], refs[3], refs[1], refs[0]}; err != nil || !slices.Equal(got, want) || !slices.Equal(page.Damaged, refs[2:3]) || page.Next != "" {
		t.Errorf("%v without %v, next %q, %v; want %v without %s", got, page.Damaged, page.Next, err, want, refs[2])
	}
}
