package audit

import (
	"context"
	"fmt"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

// Drop says which dead letters to drop: those of one event by Ref, or all that
// match Query.
type Drop struct {
	Ref    event.Ref // zero: use Query
	Target string    // of the event, "" for all; only with Ref
	Query  Query     // of KindDeliveries, with the cursor to go on from; its state is dead
	By     dedupe.By
	DryRun bool
}

// DropCount says what a drop did, or would do.
type DropCount struct {
	Dropped int    `json:"dropped"` // deliveries
	Next    string `json:"next"`    // "" when all of the selection was seen
}

// Drop takes dead deliveries off the dead letters, each event's durably by
// itself, until the selection is seen or ReplayTime is reached; then Next of
// the count is the cursor of the call that goes on. On an error the count says
// what was done before it.
func (a *Account) Drop(ctx context.Context, d Drop) (sum DropCount, err error) {
	if !d.Ref.IsZero() {
		sum.Dropped, err = a.dropOne(ctx, d, d.Ref, d.Target)
		return sum, err
	}
	q := d.Query
	q.Filter.State, q.Limit = event.Dead.String(), MaxLimit
	for end := a.cfg.Now().Add(ReplayTime); ; {
		page, err := a.Deliveries(ctx, q)
		if err != nil {
			return sum, err
		}
		for _, row := range page.Items {
			n, err := a.dropOne(ctx, d, row.Ref, row.Target)
			sum.Dropped += n
			if err != nil {
				sum.Next = q.Cursor
				return sum, err
			}
		}
		q.Cursor, sum.Next = page.Next, page.Next
		if page.Next == "" || a.cfg.Now().After(end) {
			return sum, nil
		}
	}
}

func (a *Account) dropOne(ctx context.Context, d Drop, ref event.Ref, target string) (n int, err error) {
	if d.DryRun {
		rec, err := a.cfg.Reader.Get(ctx, ref)
		for i := range rec.Deliveries {
			if del := &rec.Deliveries[i]; del.State == event.Dead && (target == "" || target == del.Target) {
				n++
			}
		}
		if err != nil {
			return 0, fmt.Errorf("event %s: %w", ref, err)
		}
		return n, nil
	}
	if n, err = a.cfg.Keeper.Drop(ctx, ref, target, d.By); err != nil {
		return n, fmt.Errorf("drop dead letters of event %s: %w", ref, err)
	}
	return n, nil
}

// CancelDelivery closes one open delivery by its ID. One that is not there, or
// whose generation has ended, is dedupe.ErrNotFound; one that is closed is 0.
func (a *Account) CancelDelivery(ctx context.Context, id string, by dedupe.By) (event.Ref, int, error) {
	ref, target, generation, err := event.ParseDeliveryID(id)
	if err != nil {
		return ref, 0, invalid("%v", err)
	}
	rec, err := a.cfg.Reader.Get(ctx, ref)
	if err != nil {
		return ref, 0, fmt.Errorf("delivery %s: %w", id, err)
	}
	for i := range rec.Deliveries {
		if d := &rec.Deliveries[i]; d.Target == target && d.Generation == generation {
			n, err := a.Cancel(ctx, ref, target, by)
			return ref, n, err
		}
	}
	return ref, 0, fmt.Errorf("delivery %s: %w", id, dedupe.ErrNotFound)
}
