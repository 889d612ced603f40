package dedupe

import (
	"time"

	"github.com/onceward/onceward/event"
)

// Settle is delivery d after r at ledger time now, provided that r's lease
// stands. A result without an attempt leaves the count of attempts, and one
// without an outcome leaves what the last attempt said.
func (r *Result) Settle(d event.Delivery, now time.Time) event.Delivery {
	d.UpdatedAt = now
	if !r.NoAttempt {
		d.Attempts++
	}
	if r.State.Open() {
		d.State, d.DueAt = event.Pending, now.Add(max(r.Delay, 0))
		if d.Attempts == 0 && d.DueAt.UnixMilli() == d.OpenedAt.UnixMilli() {
			d.DueAt = d.DueAt.Add(time.Millisecond)
		}
	} else {
		d.State, d.DueAt = r.State, time.Time{}
	}
	if r.Attempt.Outcome == "" {
		return d
	}
	d.LastStatus, d.LastError = r.Attempt.Status, string(r.Attempt.Outcome)
	if r.Attempt.Outcome.Success() {
		d.LastError = ""
	}
	return d
}

// Reopen is a closed delivery opened again at ledger time now: the next
// generation, with all its attempts before it. The zero Delivery of a target
// the event never had opens as generation 1.
func Reopen(d event.Delivery, newKey bool, now time.Time) event.Delivery {
	return event.Delivery{
		Event: d.Event, Target: d.Target, Generation: d.Generation + 1, State: event.Pending,
		NewKey: newKey, DueAt: now, OpenedAt: now, UpdatedAt: now,
	}
}

// EntryOf is an open delivery as the schedule keeps it.
func EntryOf(d event.Delivery) Entry {
	return Entry{
		Ref: d.Event, Due: d.DueAt.UnixMilli(), Opened: d.OpenedAt.UnixMilli(),
		Attempts: d.Attempts, Generation: d.Generation, NewKey: d.NewKey,
	}
}

// Unknown is the result of an attempt that began at started, under a lease of
// d in an earlier run, and of which nothing more was recorded: the delivery is
// due again at once.
func Unknown(d event.Delivery, started time.Time) *Result {
	return &Result{
		Lease: Lease{Delivery: d}, State: event.Pending,
		Attempt: event.Attempt{
			Event: d.Event, Target: d.Target, Generation: d.Generation, Number: d.Attempts + 1, StartedAt: started,
			Outcome: event.OutcomeUnknown, Error: "the gateway ended before an answer was recorded", State: event.Pending,
		},
	}
}
