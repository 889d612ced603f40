package admin_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/admin"
	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
	"github.com/onceward/onceward/receiver"
)

// maxListPage is how large a list may be, in bytes.
const maxListPage = 100_000

// acceptLong accepts events whose every text is as long as the edge lets it be, for
// many targets, and kills some of their deliveries.
func (b *bundle) acceptLong(n int, text func(n int) string) {
	b.t.Helper()
	var targets []string
	for i := range 30 {
		targets = append(targets, fmt.Sprintf("t%02d-%s", i, strings.Repeat("x", 59)))
	}
	for i := range n {
		id := fmt.Sprintf("%06d", i) + text(dedupe.MaxID-6)
		var index []event.Field
		for f := range receiver.MaxIndexed {
			index = append(index, event.Field{Name: fmt.Sprintf("a_rather_long_field_name_%d", f), Value: fmt.Sprintf("%06d", i) + text(receiver.MaxIndexedValue-6)})
		}
		b.commit(&dedupe.Request{Body: []byte("{}"), Items: []dedupe.Item{{
			Event: event.Event{Source: strings.Repeat("s", 63), Provider: "none", ID: id, Type: text(2000), ReceivedAt: b.clock.now(), Method: "POST",
				BodyHash: event.HashOf([]byte("{}")), Body: event.Slice{Length: 2}, Targets: targets, Index: index},
			RawID: id, HasClaim: true, Claim: dedupe.KeyOf(dedupe.KindID, "s", "", id), Window: time.Hour,
		}}})
		b.clock.add(time.Second)
	}
	ls, _, err := b.ledger.Lease(b.t.Context(), targets[0], n, time.Minute)
	if err != nil || len(ls) != n {
		b.t.Fatalf("%d leases, %v", len(ls), err)
	}
	batch := &dedupe.Batch{}
	for _, l := range ls {
		batch.Results = append(batch.Results, &dedupe.Result{Lease: l, State: event.Dead, Attempt: event.Attempt{Event: l.Delivery.Event, Target: targets[0],
			Number: 1, StartedAt: b.clock.now(), Status: 404, Outcome: event.Outcome4xx, Error: text(2000), State: event.Dead}})
	}
	if err := b.ledger.Commit(b.t.Context(), batch); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bundle) commit(r *dedupe.Request) {
	b.t.Helper()
	if err := b.ledger.Commit(b.t.Context(), &dedupe.Batch{Requests: []*dedupe.Request{r}}); err != nil || r.Err != nil {
		b.t.Fatal(err, r.Err)
	}
}

// Lists stay small whatever stands in the events, and still show enough of each to
// tell them apart.
func TestListsStaySmall(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]func(int) string{
		"long":    func(n int) string { return strings.Repeat("y", n) },
		"escaped": func(n int) string { return strings.Repeat("&", n) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.acceptLong(120, text)
			r := signIn(b, token)
			for _, path := range []string{"/", "/events", "/events?status=dead", "/dead", "/replay?state=dead", "/refusals", "/sources", "/targets", "/audit", "/audit?kind=all", "/keys?state=all", "/replays"} {
				status, body := r.get(path)
				if status != 200 {
					t.Errorf("%s = %d", path, status)
				}
				t.Logf("%s: %d bytes", path, len(body))
				if len(body) > maxListPage {
					t.Errorf("%s has %d bytes, want at most %d", path, len(body), maxListPage)
				}
			}
			if _, body := r.get("/events"); strings.Count(body, `class="ty"`) != 50 || !strings.Contains(body, "000119") || !strings.Contains(body, "…") || !strings.Contains(body, "and 5 more") || !strings.Contains(body, "and 25 more") {
				t.Errorf("the list doesn't show what it is of: %.3000s", body)
			}
		})
	}
}

// Nothing of an event is lost by it: its own page has all.
func TestEventPageHasAll(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.acceptLong(1, func(n int) string { return strings.Repeat("y", n) })
	page, err := b.client.Events(t.Context(), admin.Filter{}, "", 10)
	if err != nil || len(page.Items) != 1 {
		t.Fatal(len(page.Items), err)
	}
	_, body := signIn(b, token).get("/events/" + page.Items[0].Ref.String())
	values := []string{page.Items[0].ID, page.Items[0].Type}
	for _, v := range page.Items[0].Index {
		values = append(values, v)
	}
	if i := slices.IndexFunc(values, func(v string) bool {
		return !strings.Contains(strings.NewReplacer("<span>", "", "</span>", "").Replace(body), v)
	}); i >= 0 {
		t.Errorf("the event's page lacks %.40s…", values[i])
	}
}
