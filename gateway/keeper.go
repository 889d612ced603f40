package gateway

import (
	"context"
	"io"

	"github.com/onceward/onceward/audit"
	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

// keeper is the ledger's operator side that counts what operators cancel.
type keeper struct {
	ledger
	cancelled func(target string, n int)
	shared    bool // with other gateways, in a database
}

// Backup is a copy of an embedded ledger; see dedupe.Upkeep. What backup verify
// and restore read is no copy of a database.
func (k keeper) Backup(ctx context.Context, w io.Writer) error {
	if k.shared {
		return &audit.InvalidError{Problem: "a ledger in PostgreSQL is backed up with its database, by pg_dump, or by onceward ledger dump: docs/scale.md"}
	}
	return k.ledger.Backup(ctx, w)
}

// Cancel closes an event's open deliveries; see dedupe.Upkeep.
func (k keeper) Cancel(ctx context.Context, ref event.Ref, target string, by dedupe.By) (int, error) {
	before, err := k.Get(ctx, ref)
	if err != nil {
		return 0, err
	}
	n, err := k.ledger.Cancel(ctx, ref, target, by)
	if err != nil || n == 0 {
		return n, err
	}
	after, err := k.Get(ctx, ref)
	if err != nil {
		return n, nil // it is done, and goes uncounted
	}
	for i := range before.Deliveries {
		was := &before.Deliveries[i]
		for j := range after.Deliveries {
			is := &after.Deliveries[j]
			if is.Target == was.Target && was.State.Open() && is.State == event.Cancelled {
				k.cancelled(is.Target, 1)
			}
		}
	}
	return n, nil
}
