package audit_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/onceward/onceward/audit"
	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

// placed is a ledger whose cursors are no refs, as those of several writers.
type placed struct{ dedupe.Account }

func (p placed) Tail(ctx context.Context, cursor string, limit int) (dedupe.Page[dedupe.Record], error) {
	ref, ok := strings.CutPrefix(cursor, "place ")
	if !ok && cursor != "" {
		return dedupe.Page[dedupe.Record]{}, dedupe.ErrCursor
	}
	page, err := p.Account.Tail(ctx, ref, limit)
	page.Next = "place " + page.Next
	for i := range page.Items {
		page.Items[i].After = "place " + page.Items[i].After
	}
	return page, err
}

// A page that ends early, because its bodies are large, goes on where it ended,
// as does a reader that took only part of it.
func TestTailEndsEarly(t *testing.T) {
	t.Parallel()
	b := setup(t)
	acc, err := audit.New(audit.Config{Reader: placed{b.ledger}, Keeper: b.ledger, Now: b.clock.now})
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for n := range 7 {
		want = append(want, fmt.Sprint("evt_", n))
		b.accept("shop", want[n], "a", strings.Repeat("x", 3<<20))
	}
	for _, part := range []bool{false, true} {
		var got []string
		cursor, pages := "", 0
		for {
			page, err := acc.Tail(t.Context(), audit.TailQuery{Cursor: cursor, Exact: true})
			if err != nil {
				t.Fatal(err)
			}
			if cursor = page.Next; len(page.Items) == 0 {
				break
			}
			pages++
			if part {
				page.Items = page.Items[:1]
				cursor = page.Items[0].Cursor
			}
			for _, l := range page.Items {
				got = append(got, l.ID)
			}
		}
		if !slices.Equal(got, want) || pages < 4 {
			t.Errorf("in %d pages %v, want %v in at least 4", pages, got, want)
		}
	}
}

// counted is a ledger that counts the records it is asked for.
type counted struct {
	dedupe.Account
	tailed, listed *int
}

func (c counted) Tail(ctx context.Context, cursor string, limit int) (dedupe.Page[dedupe.Record], error) {
	page, err := c.Account.Tail(ctx, cursor, limit)
	*c.tailed += len(page.Items)
	return page, err
}

func (c counted) Events(ctx context.Context, f dedupe.Filter, cursor string, limit int) (dedupe.Page[dedupe.Record], error) {
	*c.listed++
	return c.Account.Events(ctx, f, cursor, limit)
}

// What a page of events polls costs what has come since, never a search of the
// ledger, and says when it did not look at all of it.
func TestNewer(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var tailed, listed int
	acc, err := audit.New(audit.Config{Reader: counted{b.ledger, &tailed, &listed}, Keeper: b.ledger, Now: b.clock.now})
	if err != nil {
		t.Fatal(err)
	}
	first := b.accept("shop", "evt_first", "a", "{}")
	query := func(a audit.Args) audit.Query {
		q, err := a.Query(audit.KindEvents, b.clock.now())
		if err != nil {
			t.Fatal(err)
		}
		return q
	}
	check := func(what string, a audit.Args, after event.Ref, n int, more bool) {
		t.Helper()
		if got, m, err := acc.Newer(t.Context(), query(a), after); err != nil || got != n || m != more {
			t.Errorf("%s: %d, more %v, %v; want %d, %v", what, got, m, err, n, more)
		}
	}
	check("nothing since", audit.Args{}, first, 0, false)
	check("of a ledger that was empty", audit.Args{}, event.Ref{}, 1, false)
	for n := range 3 {
		b.accept("shop", fmt.Sprint("evt_", n), "a", "{}")
	}
	check("three since", audit.Args{}, first, 3, false)
	check("of another source", audit.Args{Source: "none"}, first, 0, false)
	check("pending", audit.Args{Status: "pending"}, first, 3, false)
	for n := range 300 {
		b.accept("shop", fmt.Sprint("evt_more_", n), "a", "{}")
	}
	tailed = 0
	check("many since, none of them", audit.Args{Source: "none"}, first, 0, true)
	if tailed > 200 || listed > 0 {
		t.Errorf("%d records were read and %d listings made, want at most 200 and none", tailed, listed)
	}
}
