package postgres

import (
	"strings"
	"testing"
	"time"
)

// Each figure is a concern past its bound and none at it, and says what to do.
func TestConcerns(t *testing.T) {
	t.Parallel()
	well := func() figures {
		return figures{oldest: oldTransaction, horizon: oldHorizon, lead: 24 * time.Hour, width: 24 * time.Hour, wasShort: true, sync: 1, hadSync: true,
			tables: []tableRows{{"pending", 10, deadRows + 20}, {"claims", 0, 0}}}
	}
	for _, tt := range []struct {
		name, text, do string
		change         func(*figures)
	}{
		{"partition_lead", "only 1h0m0s ahead", "role must own", func(f *figures) { f.lead = time.Hour }},
		{"no_sync_standby", "No standby", "synchronous_standby_names", func(f *figures) { f.sync = 0 }},
		{"old_transaction", "for 45m0s", "pg_stat_activity", func(f *figures) { f.oldest = 45 * time.Minute }},
		{"horizon", "5000001 transactions", "pg_replication_slots", func(f *figures) { f.horizon++ }},
		{"dead_rows", "table pending has 100021 dead rows and 10 live", "Vacuum", func(f *figures) { f.tables[0].dead++ }},
		{"held", "1 delivery that was open", "ledger resume", func(f *figures) { f.held = 1 }},
		{"held", "1200 deliveries that were open", "ledger resume", func(f *figures) { f.held = 1200 }},
	} {
		f := well()
		if got := f.concerns(); len(got) != 0 {
			t.Fatalf("at the bounds: %+v", got)
		}
		tt.change(&f)
		got := f.concerns()
		if len(got) != 1 || got[0].Name != tt.name || !strings.Contains(got[0].Text, tt.text) || !strings.Contains(got[0].Do, tt.do) {
			t.Errorf("%s: %+v, want it to say %q and %q", tt.name, got, tt.text, tt.do)
		}
	}
	if f := (figures{lead: 0, width: 1}); len(f.concerns()) != 0 {
		t.Errorf("a database that never had a standby, and a lead that was not short before: %+v", f.concerns())
	}
}
