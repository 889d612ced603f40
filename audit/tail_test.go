package audit_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/onceward/onceward/audit"
	"github.com/onceward/onceward/dedupe"
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
