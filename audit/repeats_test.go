package audit_test

import (
	"context"
	"testing"
	"time"

	"github.com/onceward/onceward/audit"
	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

// tallied is a ledger of which the acts read are counted.
type tallied struct {
	audit.LogLedger
	acts int
}

func (c *tallied) Acts(ctx context.Context, writer, from uint64, limit int) ([]dedupe.LoggedAct, error) {
	out, err := c.LogLedger.Acts(ctx, writer, from, limit)
	c.acts += len(out)
	return out, err
}

// Each repeat of an event is found: when it came, with which body, and what
// proved it. Of one that came often the newest are listed and the others
// counted.
func TestRepeats(t *testing.T) {
	t.Parallel()
	b := setupLog(t)
	repeats := func(ref event.Ref, n int) audit.Repeats {
		t.Helper()
		ev, err := b.acc.Get(t.Context(), ref)
		if err != nil {
			t.Fatal(err)
		}
		got, err := b.log.Repeats(t.Context(), &ev, n)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	var err error
	if b.acc, err = audit.New(audit.Config{Reader: b.ledger, Keeper: b.ledger, Now: b.clock.now}); err != nil {
		t.Fatal(err)
	}
	labelled := func(it *dedupe.Item) { it.Event.Secret = "2026-11" }
	ref := b.accept("stripe", "evt_1", "a", "{}")
	other := b.accept("stripe", "evt_2", "a", "{}")
	if got := repeats(ref, 20); len(got.Items) > 0 || got.Before > 0 {
		t.Errorf("what came once: %+v", got)
	}
	var came []time.Time
	for i := range 25 {
		b.accept("stripe", "evt_2", "a", "{}")
		body := "{}"
		if i == 24 {
			body = "[]"
		}
		came = append(came, b.clock.now())
		b.accept("stripe", "evt_1", "a", body, labelled)
		b.clock.add(time.Minute)
		b.record(3)
	}
	got := repeats(ref, 20)
	if len(got.Items) != 20 || got.Before != 5 {
		t.Fatalf("of 25 repeats %d are listed, and %d before", len(got.Items), got.Before)
	}
	for i, x := range got.Items {
		kind := dedupe.ActRepeated
		if i == 0 {
			kind = dedupe.ActConflicting
		}
		if x.Kind != kind.String() || x.Ref != ref || !x.Received.Equal(came[24-i]) || x.Secret != "2026-11" || x.BodySHA256 == (event.Hash{}) {
			t.Errorf("repeat %d: %+v, want %s at %v", i, x, kind, came[24-i])
		}
	}
	if got := repeats(other, 30); len(got.Items) != 25 || got.Before != 0 {
		t.Errorf("of the other: %d and %d before", len(got.Items), got.Before)
	}
	page, err := b.log.List(t.Context(), audit.ActQuery{Event: ref, Limit: 100, To: came[3]})
	if err != nil || len(page.Items) != 4 {
		t.Errorf("a listing up to the fourth repeat: %d acts, %v", len(page.Items), err)
	}
}

// Where an event's repeats are far apart in a large log, those around the last
// of them are found, by reading little, and it is said that there are more.
func TestRepeatsLookAtLittle(t *testing.T) {
	t.Parallel()
	b := setupLog(t)
	var err error
	if b.acc, err = audit.New(audit.Config{Reader: b.ledger, Keeper: b.ledger, Now: b.clock.now}); err != nil {
		t.Fatal(err)
	}
	ledger := &tallied{LogLedger: b.ledger}
	b.cfg.Ledger = ledger
	b.open()
	fill := func() {
		for range 20 {
			b.record(1000)
			b.clock.add(time.Second)
		}
	}
	fill()
	ref := b.accept("stripe", "evt_1", "a", "{}")
	for i := range 3 {
		if i > 0 {
			fill()
		}
		b.accept("stripe", "evt_1", "a", "{}")
	}
	fill()
	ev, err := b.acc.Get(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	got, err := b.log.Repeats(t.Context(), &ev, 20)
	if err != nil || len(got.Items) != 2 || got.Before != 1 {
		t.Fatalf("%d repeats and %d before, %v; want the one right after it and the last, and one before", len(got.Items), got.Before, err)
	}
	if !got.Items[0].Received.Equal(ev.RepeatedAt) {
		t.Errorf("the newest is of %v, want %v", got.Items[0].Received, ev.RepeatedAt)
	}
	if ledger.acts > 9000 {
		t.Errorf("%d of 80,000 acts were read", ledger.acts)
	}
	ledger.acts = 0
	page, err := b.log.List(t.Context(), audit.ActQuery{Event: ref, Kinds: []dedupe.ActKind{dedupe.ActAccepted}, To: ev.ReceivedAt.Add(2 * time.Second), Limit: 1})
	if err != nil || len(page.Items) != 1 || ledger.acts > 3000 {
		t.Errorf("a listing that ends long ago: %d acts, %d read, %v", len(page.Items), ledger.acts, err)
	}
}
