package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/dedupe/postgres"
	"github.com/onceward/onceward/event"
)

// TestMigrateKeepsWhatIsFound brings a ledger of the schema's third version up to
// date: what it holds is found by the tables of the fourth one.
func TestMigrateKeepsWhatIsFound(t *testing.T) {
	cfg := fresh(t, server(t), options())
	began := time.Now().Add(-60 * 24 * time.Hour)
	ev := func(day int) *event.Event {
		id := fmt.Sprint("evt_", day)
		ref := event.NewRef(uint64(began.Add(time.Duration(day)*24*time.Hour).UnixMilli()), 1, 7)
		return &event.Event{Ref: ref, Source: "shop", ID: id, Type: "order.paid", Method: "POST", ReceivedAt: ref.Time(), BodyHash: event.HashOf([]byte(id)),
			Index: []event.Field{{Name: "parity", Value: fmt.Sprint(day % 2)}}, Body: event.Slice{Request: ref, Length: int64(len(id))}, Targets: []string{"billing"}}
	}
	days := []int{0, 15, 16, 17, 40, 60}
	if err := postgres.MigrateTo(t.Context(), cfg, 3, func(tx pgx.Tx) error {
		for _, day := range days {
			e := ev(day)
			if err := postgres.AttachOld(t.Context(), tx, cfg, e.Ref.Time()); err != nil {
				return err
			}
			for sql, args := range map[string][]any{
				`events VALUES ($1, 'shop', $2, 0, $1, $3, $4, $4, $4, false, false, 0, 0, 0, $5)`: {[16]byte(e.Ref), []byte(e.ID), e.Ref.Time().UnixMilli(), int64(1e11), postgres.PackEvent(e)},
				`bodies VALUES ($1, $2, $3)`: {[16]byte(e.Ref), int64(1e14), []byte(e.ID)},
				`fields VALUES ($1, $2)`:     {postgres.FieldHash("parity", e.Index[0].Value), [16]byte(e.Ref)},
				`closed VALUES ($1, 'billing', 0, $2, false, 1, 0, 0, 500, '5xx')`: {[16]byte(e.Ref), 2 + day%2},
			} {
				if _, err := tx.Exec(t.Context(), `INSERT INTO `+cfg.Schema+`.`+sql, args...); err != nil {
					return fmt.Errorf("%s: %w", sql, err)
				}
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	db := start(t, cfg)
	var got, want []event.Ref
	for _, day := range days {
		refs, err := db.Lookup(t.Context(), []string{"till", "shop"}, ev(day).ID)
		if err != nil {
			t.Fatal(err)
		}
		got, want = append(got, refs...), append(want, ev(day).Ref)
	}
	sameRefs(t, "by their IDs", got, want)
	sameRefs(t, "by a field", found(t, db, dedupe.Filter{Field: "parity", Value: "1"}), []event.Ref{ev(17).Ref, ev(15).Ref})
	sameRefs(t, "by ID and field", found(t, db, dedupe.Filter{ID: "evt_40", Field: "parity", Value: "0"}), []event.Ref{ev(40).Ref})
	sameRefs(t, "dead", found(t, db, dedupe.Filter{Status: event.StatusDead}), []event.Ref{ev(17).Ref, ev(15).Ref})
	st, err := db.Stats(t.Context())
	if err != nil || st.Targets["billing"].Dead != 2 {
		t.Errorf("figures: %+v, %v; want two dead letters", st.Targets, err)
	}
	// What a check is to find, one after the other.
	for _, c := range [...]struct {
		sql    string
		faults int
	}{
		{"SELECT", 0},
		{fmt.Sprintf("DELETE FROM %s.terms WHERE hash = %d", cfg.Schema, postgres.FieldHash("", "evt_40")), 1},
		{"DELETE FROM " + cfg.Schema + ".dead", 3},
		{"UPDATE " + cfg.Schema + ".closed SET state = 2", 1},
		{"INSERT INTO " + cfg.Schema + ".dead SELECT ref, target FROM " + cfg.Schema + ".closed LIMIT 4", 5},
	} {
		ask(t, cfg, c.sql)
		rep, err := db.Check(t.Context())
		if err != nil || len(rep.Faults) != c.faults {
			t.Errorf("check after %s: %v, %v; want %d faults", c.sql, rep.Faults, err, c.faults)
		}
	}
}

// TestMigrateBesideGateways holds that a step which older gateways can't go on
// beside waits until they are stopped, and that a killed one holds it up for a
// while only.
func TestMigrateBesideGateways(t *testing.T) {
	cfg := fresh(t, server(t), options())
	beat := `INSERT INTO ` + cfg.Schema + `.fleet VALUES ($1, 1, 1, 0, (extract(epoch FROM clock_timestamp()) * 1000)::bigint - $2, 0, '', '')`
	if err := postgres.MigrateTo(t.Context(), cfg, 3, func(tx pgx.Tx) error {
		for name, age := range map[string]int64{"gw-1": 0, "gw-2": 20_000, "gone": 40_000} {
			if _, err := tx.Exec(t.Context(), beat, name, age); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	version := func() (v int) {
		ask(t, cfg, "SELECT version FROM "+cfg.Schema+".schema_version", &v)
		return v
	}
	_, err := postgres.Migrate(t.Context(), cfg)
	if !errors.Is(err, postgres.ErrRunning) || !strings.Contains(err.Error(), "gw-1, gw-2;") || version() != 3 {
		t.Errorf("beside running gateways: %v, version %d; want to be told of gw-1 and gw-2", err, version())
	}
	if _, err := postgres.Open(t.Context(), cfg); !errors.Is(err, postgres.ErrRunning) {
		t.Errorf("a gateway that migrates at its start: %v", err)
	}
	ask(t, cfg, "DELETE FROM "+cfg.Schema+".fleet WHERE name <> 'gone'")
	if _, err := postgres.Migrate(t.Context(), cfg); err != nil || version() < 4 {
		t.Errorf("once they are stopped: %v, version %d", err, version())
	}
}

func found(t *testing.T, db *running, f dedupe.Filter) (refs []event.Ref) {
	t.Helper()
	for cursor := ""; ; {
		page, err := db.Events(context.Background(), f, cursor, 1)
		if err != nil {
			t.Fatal(err)
		}
		for i := range page.Items {
			refs = append(refs, page.Items[i].Event.Ref)
		}
		if cursor = page.Next; cursor == "" {
			return refs
		}
	}
}

func sameRefs(t *testing.T, what string, got, want []event.Ref) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: found %v, want %v", what, got, want)
	}
}
