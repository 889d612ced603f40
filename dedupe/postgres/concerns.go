package postgres

import (
	"fmt"
	"time"

	"github.com/onceward/onceward/dedupe"
)

// The bounds past which a figure of the database is a concern, as in the alerts
// of docs/alerts.
const (
	oldTransaction = 30 * time.Minute
	oldHorizon     = 5_000_000 // transactions
	deadRows       = 100_000   // and twice as many as live ones
)

// figures are what measure has read of the database.
type figures struct {
	oldest      time.Duration // of the oldest transaction that is open
	horizon     int64         // transactions since the oldest snapshot
	lead, width time.Duration // of partitions
	wasShort    bool          // the lead was short the time before as well: a start makes them
	sync        int64         // standbys that commits wait for
	hadSync     bool          // there was one before
	held        int64         // deliveries that are due never
	tables      []tableRows
}

// tableRows are the rows of one table, by an estimate.
type tableRows struct {
	name       string
	live, dead int64
}

// concerns are the figures that are past their bounds, the most urgent first.
func (f *figures) concerns() []dedupe.Concern {
	var out []dedupe.Concern
	add := func(name, do, text string, args ...any) {
		out = append(out, dedupe.Concern{Name: name, Text: fmt.Sprintf(text, args...), Do: do})
	}
	if f.wasShort && f.lead < f.width {
		add("partition_lead", "See the log of the gateways for why; their role must own the tables.",
			"Partitions are made only %s ahead, and nothing is accepted once the last has ended.", f.lead.Round(time.Second))
	}
	if f.hadSync && f.sync == 0 {
		add("no_sync_standby", "Bring a standby back, or change synchronous_standby_names if none is to be waited for.",
			"No standby confirms commits any more: an answer means one disk, or waits until one is back.")
	}
	if f.oldest > oldTransaction {
		add("old_transaction", "Find it in pg_stat_activity by its xact_start, and end it.",
			"A transaction has been open in the database for %s: no row that died since is cleaned up, and leases become slow.", f.oldest.Round(time.Minute))
	}
	if f.horizon > oldHorizon {
		add("horizon", "Look for it in pg_replication_slots, pg_prepared_xacts, and by backend_xmin in pg_stat_activity.",
			"A snapshot, replication slot or prepared transaction that is %d transactions old keeps dead rows from being cleaned up.", f.horizon)
	}
	for _, t := range f.tables {
		if t.dead > deadRows+2*t.live {
			add("dead_rows", "Vacuum it, and see in pg_stat_user_tables when autovacuum was last done with it.",
				"The table %s has %d dead rows and %d live ones: autovacuum does not keep up.", t.name, t.dead, t.live)
		}
	}
	if f.held > 0 {
		out = append(out, dedupe.HeldConcern(f.held, "onceward ledger resume"))
	}
	return out
}
