package admin_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/onceward/onceward/admin"
	"github.com/onceward/onceward/audit"
	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/dedupe/badgerdb"
	"github.com/onceward/onceward/event"
)

// manyEvents is how many events the ledger of the page benchmarks holds:
// $ONCEWARD_EVENTS, by default 1,000,000.
func manyEvents(b *testing.B) int {
	b.Helper()
	s := os.Getenv("ONCEWARD_EVENTS")
	if s == "" {
		return 1_000_000
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		b.Fatal(err)
	}
	return n
}

// manyLedger is an embedded ledger with n events of a few types and sources,
// over the last days, one in 50,000 of the same customer. All but the latest are
// delivered, one in 5,000 is dead. ONCEWARD_LEDGER names a directory in which it
// stays, for a gateway to be started on; events that are there are not made again.
func manyLedger(b *testing.B, n int) *badgerdb.DB {
	b.Helper()
	dir := os.Getenv("ONCEWARD_LEDGER")
	if dir == "" {
		dir = b.TempDir()
	}
	db, err := badgerdb.Open(badgerdb.Config{Dir: dir})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- db.Run(ctx) }()
	b.Cleanup(func() {
		cancel()
		<-done
		if err := db.Close(); err != nil {
			b.Error(err)
		}
	})
	<-db.Rebuilt()
	if st, err := db.Stats(ctx); err != nil || st.Events > 0 {
		return db
	}
	const size = 1000
	types := []string{"invoice.paid", "customer.updated", "charge.refunded", "checkout.session.completed"}
	now := time.Now()
	body := []byte(`{"id":"evt","object":"event","data":{"object":{"customer":"cus_1","amount":12900}}}`)
	for i := 0; i < n; i += size {
		batch := &dedupe.Batch{}
		for j := i; j < min(i+size, n); j++ {
			id := fmt.Sprintf("evt_1SYkQ2Lw8vB3nZpR%08d", j)
			source := []string{"stripe", "github", "shopify"}[j%3]
			batch.Requests = append(batch.Requests, &dedupe.Request{Body: body, Items: []dedupe.Item{{
				Event: event.Event{Source: source, Provider: source, ID: id, Type: types[j%len(types)], Key: source + ":" + id, Secret: "1",
					ReceivedAt: now.Add(-time.Duration(n-j) * 200 * time.Millisecond), Method: "POST",
					Header: []event.Field{{Name: "Content-Type", Value: "application/json"}}, BodyHash: event.HashOf(body),
					Body: event.Slice{Length: int64(len(body))}, Targets: []string{"billing"},
					Index: []event.Field{{Name: "customer", Value: fmt.Sprint("cus_", j%50_000)}}},
				RawID: id, HasClaim: true, Claim: dedupe.KeyOf(dedupe.KindID, source, "", id), Window: time.Hour,
			}}})
		}
		if err := db.Commit(ctx, batch); err != nil {
			b.Fatal(err)
		}
		if i+size < n { // the last batch stays pending
			finishMany(b, db, i/size)
		}
	}
	return db
}

func finishMany(b *testing.B, db *badgerdb.DB, round int) {
	b.Helper()
	ls, _, err := db.Lease(b.Context(), "billing", 1000, time.Minute)
	if err != nil {
		b.Fatal(err)
	}
	batch := &dedupe.Batch{}
	for i, l := range ls {
		at := event.Attempt{Event: l.Delivery.Event, Target: "billing", Number: 1, StartedAt: time.Now(), Duration: time.Millisecond, Status: 200, Outcome: event.Outcome2xx, State: event.Delivered}
		if round%5 == 0 && i == 0 {
			at.Status, at.Outcome, at.State = 422, event.Outcome4xx, event.Dead
		}
		batch.Results = append(batch.Results, &dedupe.Result{Lease: l, State: at.State, Attempt: at})
	}
	if err := db.Commit(b.Context(), batch); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkPages is the time and size of each page over a large ledger. Bars:
// 200 ms and 100 KB for a list.
func BenchmarkPages(b *testing.B) {
	n := manyEvents(b)
	db := manyLedger(b, n)
	acc, err := audit.New(audit.Config{Reader: db, Keeper: db})
	if err != nil {
		b.Fatal(err)
	}
	e := &edge{sources: []admin.Source{{Name: "stripe"}, {Name: "github"}, {Name: "shopify"}}, targets: []admin.Target{{Name: "billing"}}}
	a, err := admin.New(admin.Config{Account: acc, Receiver: e, Forward: e, TokenHash: admin.HashToken(token), Gatherer: prometheus.NewRegistry(),
		Reload: func(context.Context) ([]admin.Fault, error) { return nil, nil }, Ready: func() error { return nil }})
	if err != nil {
		b.Fatal(err)
	}
	cookie := cookieOf(b, a)
	get := func(path string) *httptest.ResponseRecorder {
		req := httptest.NewRequest("GET", "http://localhost"+path, nil)
		req.AddCookie(cookie)
		rec := httptest.NewRecorder()
		a.Handler().ServeHTTP(rec, req)
		return rec
	}
	page, err := acc.Events(b.Context(), audit.Query{Kind: audit.KindEvents, Limit: 1})
	if err != nil {
		b.Fatal(err)
	}
	older := get("/events").Body.String()
	_, next, ok := strings.Cut(older, `<a href="/events?cursor=`)
	if !ok {
		b.Fatal("the first page names no older one")
	}
	next, _, _ = strings.Cut(next, `"`)
	for _, p := range []struct{ name, path string }{
		{"overview", "/"}, {"events", "/events"}, {"events older", "/events?cursor=" + next}, {"events of a type", "/events?type=invoice.*"},
		{"events of a source", "/events?source=github"}, {"events pending", "/events?status=pending"},
		{"events pending that are not there", "/events?status=pending&source=none"}, {"events cancelled", "/events?status=cancelled"},
		{"events unrouted", "/events?status=unrouted"}, {"events dead of no type", "/events?status=dead&type=no.such"}, {"events of long ago", "/events?to=60d"},
		{"events of no target", "/events?target=none"}, {"events newer", "/events/newer?type=no.such&after=" + page.Items[0].Ref.String()},
		{"events that are not there", "/events?type=no.such"},
		{"by an indexed field", "/events?where=customer%3Dcus_4711"},
		{"dead letters", "/dead"}, {"event", "/events/" + page.Items[0].Ref.String()}, {"by provider's ID", fmt.Sprintf("/events?q=evt_1SYkQ2Lw8vB3nZpR%08d", n/2)},
		{"by ID of a source", fmt.Sprintf("/events?source=stripe&id=evt_1SYkQ2Lw8vB3nZpR%08d", n/2/3*3)},
		{"by ID alone", fmt.Sprintf("/events?status=delivered&id=evt_1SYkQ2Lw8vB3nZpR%08d", n/2+1)},
		{"targets", "/targets"}, {"sources", "/sources"}, {"refusals", "/refusals"},
	} {
		b.Run(p.name, func(b *testing.B) {
			var size, status int
			for b.Loop() {
				rec := get(p.path)
				size, status = rec.Body.Len(), rec.Code
			}
			if status != http.StatusOK && status != http.StatusSeeOther {
				b.Fatalf("%s = %d", p.path, status)
			}
			b.ReportMetric(float64(size)/1000, "KB")
			b.ReportMetric(float64(n), "events")
		})
	}
}

func cookieOf(b *testing.B, a *admin.Admin) *http.Cookie {
	b.Helper()
	req := httptest.NewRequest("POST", "http://localhost/login", strings.NewReader(url.Values{"token": {token}}.Encode()))
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	rec := httptest.NewRecorder()
	a.Handler().ServeHTTP(rec, req)
	if len(rec.Result().Cookies()) != 1 {
		b.Fatalf("sign in = %d", rec.Code)
	}
	return rec.Result().Cookies()[0]
}
