package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

// said is all that a ledger says of itself, as text, but for what follows from
// who asks: whose log is its own, and its size.
func said(t *testing.T, l dedupe.Ledger) []string {
	t.Helper()
	ctx := context.Background()
	var out []string
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for cursor := ""; ; {
		page, err := l.Events(ctx, dedupe.Filter{}, cursor, 7)
		must(err)
		for _, r := range page.Items {
			say("event %+v status %s tally %v %v gone %v", r.Event, r.Status, r.Tally.Repeats, r.Tally.Conflicts, r.BodyGone)
			slices.SortFunc(r.Deliveries, func(a, b event.Delivery) int { return strings.Compare(a.Target, b.Target) }) // engines list them in their own order
			for _, d := range r.Deliveries {
				say("delivery %s %s %d %d %v %d %d %d %d %s", d.DeliveryID(), d.State, d.Generation, d.Attempts, d.NewKey, ms(d.DueAt), ms(d.OpenedAt), ms(d.UpdatedAt),
					d.LastStatus, d.LastError)
			}
			body, err := l.Body(ctx, r.Event.Ref)
			say("body %s %v %v %v", event.HashOf(body), len(body), errors.Is(err, dedupe.ErrPruned), err == nil)
			as, err := l.Attempts(ctx, r.Event.Ref)
			must(err)
			for i := range as {
				say("attempt %+v", as[i])
			}
			acts, err := l.EventActs(ctx, r.Event.Ref)
			must(err)
			say("acts %v", acts)
			found, err := l.Lookup(ctx, []string{"shop"}, r.Event.ID)
			must(err)
			say("found %v", found)
		}
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	for _, f := range []dedupe.Filter{{State: "dead"}, {State: "pending"}, {Field: "customer", Value: "cus_o3"}} {
		page, err := l.Deliveries(ctx, f, "", 1000)
		must(err)
		slices.SortFunc(page.Items, func(a, b dedupe.DeliveryRow) int { return strings.Compare(a.ID, b.ID) })
		for _, r := range page.Items {
			say("row %s %s %s %s", r.ID, r.Key, r.EventID, r.State)
		}
	}
	logs, err := l.ActLogs(ctx)
	must(err)
	for _, log := range logs {
		if log.First == log.Next {
			continue
		}
		acts, err := l.Acts(ctx, log.Writer, log.First, 1_000_000)
		must(err)
		say("log %x %d %d %v", log.Writer, log.First, log.Next, acts)
	}
	for _, kind := range []string{"target", "ledger"} {
		ns, err := l.Notes(ctx, kind)
		must(err)
		for _, n := range ns {
			say("note %s %s %d %x %d", n.Kind, n.Name, n.Version, n.Value, ms(n.UpdatedAt))
		}
	}
	for _, id := range []string{"open", "small", "long"} {
		k, err := l.SyncKey(ctx, dedupe.KeyOf(dedupe.KindSync, "pay", "app", id))
		must(err)
		k.Life = nil // a lease that ended is noted when it is looked at
		say("key %+v", k)
		for i := range k.Answer.Chunks() {
			b, err := l.SyncChunk(ctx, &k, i)
			must(err)
			say("chunk %s", event.HashOf(b))
		}
	}
	st, err := l.Stats(ctx)
	must(err)
	for _, name := range []string{"fast", "slow", "lane", "quick"} {
		ts := st.Targets[name]
		say("target %s %d %d %d %d %d", name, ts.Pending, ts.Dead, ts.Behind, ts.BlockedKeys, ms(ts.Oldest))
	}
	say("accepted %d, keys %d %d", st.Events, st.Keys.InFlight, st.Keys.Unknown)
	return out
}

func ms(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// same fails when two ledgers don't say the same.
func same(t *testing.T, got, want []string) {
	t.Helper()
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			t.Fatalf("line %d differs:\n got %s\nwant %s", i, got[i], want[i])
		}
	}
	if len(got) != len(want) {
		t.Fatalf("%d lines, want %d", len(got), len(want))
	}
}
