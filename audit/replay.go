package audit

import (
	"context"
	"fmt"
	"time"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

// The bounds of one Replay call: whichever comes first ends it, with a
// cursor to go on from.
const (
	ReplayTime   = 20 * time.Second
	ReplayEvents = 100_000
	replayChunk  = 1_000 // events per transaction of the ledger
)

// Replay says what to send again: one event by Ref, or all that match Query.
type Replay struct {
	Ref    event.Ref // zero: use Query
	Query  Query     // of KindReplay, with the cursor to go on from
	Target string    // only this one; "" is every original target
	NewKey bool
	// Reroute names today's targets; nil: the original ones.
	Reroute func(ev *event.Event, body func() ([]byte, error)) []string
	DryRun  bool
	By      dedupe.By // recorded with every delivery that is opened
}

// Replay opens closed deliveries again, one bounded transaction after the
// other, until the selection is seen or ReplayTime or ReplayEvents is
// reached; then Next of the count is the cursor of the call that goes on. On
// an error the count says what was durably done before it.
func (a *Account) Replay(ctx context.Context, r Replay) (dedupe.ReplayCount, error) {
	if r.Ref.IsZero() && r.Query.Filter == (dedupe.Filter{}) {
		return dedupe.ReplayCount{}, invalid("a replay needs an event or at least one condition")
	}
	cur, err := r.Query.open()
	if err != nil {
		return dedupe.ReplayCount{}, err
	}
	req := dedupe.Replay{
		Selection: dedupe.Selection{Ref: r.Ref}, Target: r.Target, NewKey: r.NewKey,
		Reroute: r.Reroute, DryRun: r.DryRun, Cursor: cur.Engine, Limit: replayChunk, By: r.By,
	}
	if r.Ref.IsZero() {
		req.Selection.Filter = r.Query.filterAt(cur)
	}
	var sum dedupe.ReplayCount
	for end := time.Now().Add(ReplayTime); ; {
		n, err := a.cfg.Keeper.Replay(ctx, req)
		if err != nil {
			sum.Next = r.Query.sealed(cur, req.Cursor)
			return sum, fmt.Errorf("replay: %w", err)
		}
		sum.Events += n.Events
		sum.Opened += n.Opened
		sum.Open += n.Open
		sum.Pruned += n.Pruned
		sum.Bytes += n.Bytes
		req.Cursor = n.Next
		if n.Next == "" || sum.Events >= ReplayEvents || time.Now().After(end) {
			sum.Next = r.Query.sealed(cur, n.Next)
			return sum, nil
		}
	}
}

// sealed is seal, with no cursor for no position.
func (q Query) sealed(c cursor, engine string) string {
	if engine == "" {
		return ""
	}
	return q.seal(c, engine)
}
