package inbox_test

import (
	"context"
	"database/sql"
	"errors"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onceward/onceward/dedupe/inbox"
)

// in runs f in a transaction and commits it unless f says otherwise.
func in(t *testing.T, db *sql.DB, f func(tx *sql.Tx) (commit bool)) {
	t.Helper()
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if f(tx) {
		err = tx.Commit()
	} else {
		err = tx.Rollback()
	}
	if err != nil {
		t.Fatal(err)
	}
}

func once(t *testing.T, b *inbox.Inbox, db *sql.DB, key string, commit bool) bool {
	t.Helper()
	var first bool
	in(t, db, func(tx *sql.Tx) bool {
		var err error
		if first, err = b.Once(t.Context(), tx, key); err != nil {
			t.Fatal(err)
		}
		return commit
	})
	return first
}

func TestOnce(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d database) {
		db := d.open(t)
		b := box(t, inbox.Config{Dialect: d.dialect}, db)
		other := box(t, inbox.Config{Dialect: d.dialect, Effect: "mail"}, db)
		for i, step := range []struct {
			box    *inbox.Inbox
			key    string
			commit bool
			want   bool
		}{
			{b, "shop:evt_1", false, true}, // rolled back: nothing happened
			{b, "shop:evt_1", true, true},
			{b, "shop:evt_1", true, false},
			{b, "shop:evt_1", false, false},
			{b, "shop:evt_2", true, true},
			{b, "SHOP:EVT_2", true, true},
			{other, "shop:evt_1", true, true}, // another effect of the same event
			{other, "shop:evt_1", true, false},
			{b, strings.Repeat("é", inbox.MaxKey/2), true, true},
			{b, strings.Repeat("é", inbox.MaxKey/2), true, false},
			{b, "'; DROP TABLE onceward_inbox; --", true, true},
			{b, "'; DROP TABLE onceward_inbox; --", true, false},
		} {
			if got := once(t, step.box, db, step.key, step.commit); got != step.want {
				t.Errorf("step %d: Once(%.20q) = %v, want %v", i, step.key, got, step.want)
			}
		}
	})
}

func TestBadKeys(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d database) {
		db := d.open(t)
		b := box(t, inbox.Config{Dialect: d.dialect}, db)
		for _, key := range []string{"", "a\x00b", "\xff", strings.Repeat("k", inbox.MaxKey+1)} {
			in(t, db, func(tx *sql.Tx) bool {
				if first, err := b.Once(t.Context(), tx, key); first || !errors.Is(err, inbox.ErrKey) {
					t.Errorf("Once(%.20q) = %v, %v; want ErrKey", key, first, err)
				}
				return true // a refused key leaves the transaction as it was
			})
		}
	})
}

// TestConcurrent: of many transactions with one key at the same time exactly
// one is the first, also when it rolls back and another takes its place.
func TestConcurrent(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d database) {
		db := d.open(t)
		b := box(t, inbox.Config{Dialect: d.dialect}, db)
		for round := range 20 {
			key := "k" + strconv.Itoa(round)
			var committed, rolled atomic.Int64
			var wg sync.WaitGroup
			for range 8 {
				wg.Go(func() {
					in(t, db, func(tx *sql.Tx) bool {
						first, err := b.Once(t.Context(), tx, key)
						if err != nil {
							t.Error(err)
							return false
						}
						if first && rolled.CompareAndSwap(0, 1) {
							return false // the first one of all gives up
						}
						if first {
							committed.Add(1)
						}
						return true
					})
				})
			}
			wg.Wait()
			if committed.Load() != 1 || rolled.Load() != 1 {
				t.Fatalf("round %d: %d first ones committed and %d rolled back, want one of each", round, committed.Load(), rolled.Load())
			}
		}
	})
}

func TestPrune(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d database) {
		db := d.open(t)
		now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		clock := func() time.Time { return now }
		b := box(t, inbox.Config{Dialect: d.dialect, Now: clock}, db)
		other := box(t, inbox.Config{Dialect: d.dialect, Now: clock, Effect: "mail"}, db)
		once(t, other, db, "old", true)
		in(t, db, func(tx *sql.Tx) bool {
			for i := range 2500 {
				if _, err := b.Once(t.Context(), tx, "old"+strconv.Itoa(i)); err != nil {
					t.Fatal(err)
				}
			}
			return true
		})
		now = now.Add(time.Hour)
		once(t, b, db, "edge", true)
		now = now.Add(30 * 24 * time.Hour)
		once(t, b, db, "new", true)
		if n, err := b.Prune(t.Context(), db, 30*24*time.Hour); err != nil || n != 2500 {
			t.Errorf("Prune = %d, %v; want the 2500 that are older than 30 days", n, err)
		}
		for key, want := range map[string]bool{"old7": true, "edge": false, "new": false} {
			if got := once(t, b, db, key, true); got != want {
				t.Errorf("after Prune %q is the first: %v, want %v", key, got, want)
			}
		}
		if once(t, other, db, "old", true) {
			t.Error("Prune forgot a key of another effect")
		}
	})
}

func TestSchema(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d database) {
		db := d.open(t)
		space := "main."
		if d.dialect == inbox.PostgreSQL {
			space = "app."
			if _, err := db.ExecContext(t.Context(), "CREATE SCHEMA app"); err != nil {
				t.Fatal(err)
			}
		}
		for _, table := range []string{"", "done", space + "done_here"} {
			b := box(t, inbox.Config{Dialect: d.dialect, Table: table}, db)
			if err := b.Create(t.Context(), db); err != nil {
				t.Errorf("table %q twice: %v", table, err)
			}
			if !once(t, b, db, "k", true) || once(t, b, db, "k", true) {
				t.Errorf("table %q does not remember", table)
			}
		}
		// Without its table it is an error, never "done before" or "first".
		b, err := inbox.New(inbox.Config{Dialect: d.dialect, Table: "nowhere"})
		if err != nil {
			t.Fatal(err)
		}
		in(t, db, func(tx *sql.Tx) bool {
			if first, err := b.Once(t.Context(), tx, "k"); first || err == nil {
				t.Errorf("Once without a table = %v, %v", first, err)
			}
			return false
		})
	})
}

func TestConfig(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]inbox.Config{
		"no dialect":       {},
		"unknown dialect":  {Dialect: 9},
		"injection":        {Dialect: inbox.SQLite, Table: "a; DROP TABLE b"},
		"quoted":           {Dialect: inbox.SQLite, Table: `"a"`},
		"digit first":      {Dialect: inbox.PostgreSQL, Table: "1a"},
		"too long a table": {Dialect: inbox.PostgreSQL, Table: strings.Repeat("a", 49)},
		"no text":          {Dialect: inbox.PostgreSQL, Effect: "\xff"},
	} {
		if b, err := inbox.New(cfg); err == nil || b != nil {
			t.Errorf("%s: %v, %v; want an error", name, b, err)
		}
	}
}

func TestCancelled(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d database) {
		db := d.open(t)
		b := box(t, inbox.Config{Dialect: d.dialect}, db)
		in(t, db, func(tx *sql.Tx) bool {
			ctx, stop := context.WithCancel(t.Context())
			stop()
			if first, err := b.Once(ctx, tx, "k"); first || !errors.Is(err, context.Canceled) {
				t.Errorf("Once = %v, %v; want canceled", first, err)
			}
			return false
		})
	})
}
