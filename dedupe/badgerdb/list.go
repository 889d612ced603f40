package badgerdb

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/dgraph-io/badger/v4"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

// maxPage bounds a page whatever was asked for.
const maxPage = 1000

// recordCost is what reading all that happened to an event costs a page, in
// events looked at: its tally, and of each delivery the state and the attempt.
const recordCost = 8

// visit calls visit for the records a filter's unchanging part selects, newest
// first, until it returns false. It returns the ref to go on below, zero at
// the end. What the filter wants of deliveries visit must look at itself. begin is
// called first, and again whenever all of it is read anew.
func (db *DB) visit(ctx context.Context, f dedupe.Filter, below event.Ref, begin func(), visit func(*dedupe.Record) bool) (event.Ref, error) {
	var at event.Ref
	err := db.steady(func(txn *badger.Txn) error {
		at = event.Ref{}
		begin()
		w, err := db.walk(txn, &f, below)
		if err != nil {
			return err
		}
		defer w.close()
		for cost := 0; ; {
			ref, from, ok := w.peek()
			if !ok || !f.From.IsZero() && ref.Time().Before(f.From.Add(-clockSlack)) {
				if ok || !w.cut {
					at = event.Ref{}
				}
				return nil
			}
			if cost >= db.cfg.ScanBudget || ctx.Err() != nil {
				return ctx.Err()
			}
			rec, spent, err := db.listed(txn, &f, ref, from)
			if err != nil {
				return &dedupe.EventError{Ref: ref, Err: err}
			}
			if rec != nil && !visit(rec) {
				return nil
			}
			cost += spent
			at = ref
			w.pass(ref)
		}
	})
	return at, err
}

// listed reads a record for a listing, nil when the filter's unchanging part
// does not select it, and says what it cost. from is the scan that stands on
// it, nil when there is only its ref.
func (db *DB) listed(txn *badger.Txn, f *dedupe.Filter, ref event.Ref, from *classScan) (*dedupe.Record, int, error) {
	cost := 1
	var ev *event.Event
	var p place
	may, err := true, error(nil)
	if from != nil && from.of(subState) {
		may, err = from.cancelled(ref)
	}
	switch {
	case err != nil || !may:
	case from != nil && from.of(subEvent):
		ev, p, err = from.read(f, ref)
	default:
		cost = recordCost / 2
		ev, p, err = db.sought(txn, f, ref)
	}
	if err != nil || ev == nil {
		return nil, cost, err
	}
	db.metrics.looked.Add(recordCost)
	rec, err := db.record(txn, *ev, p)
	return &rec, recordCost, err
}

// sought reads an event by its ref, nil when a filter's unchanging part does not
// select it.
func (db *DB) sought(txn *badger.Txn, f *dedupe.Filter, ref event.Ref) (*event.Event, place, error) {
	db.metrics.looked.Inc()
	ev, p, err := db.find(txn, ref)
	if errors.Is(err, dedupe.ErrNotFound) {
		return nil, p, nil // dropped since the index was read
	}
	if err != nil || !f.MatchEvent(&ev) {
		return nil, p, err
	}
	return &ev, p, nil
}

// Events lists events, newest first.
func (db *DB) Events(ctx context.Context, f dedupe.Filter, cursor string, limit int) (dedupe.Page[dedupe.Record], error) {
	page := dedupe.Page[dedupe.Record]{Items: []dedupe.Record{}}
	below, _, err := parseCursor(cursor)
	if err != nil {
		return page, err
	}
	limit = min(limit, maxPage)
	at, err := db.visit(ctx, f, below, func() { page.Items = page.Items[:0] }, func(rec *dedupe.Record) bool {
		if len(page.Items) == limit {
			return false
		}
		if f.MatchRecord(rec) {
			page.Items = append(page.Items, *rec)
		}
		return true
	})
	if !at.IsZero() {
		page.Next = at.String()
	}
	return page, err
}

// Deliveries lists deliveries, newest event first.
func (db *DB) Deliveries(ctx context.Context, f dedupe.Filter, cursor string, limit int) (dedupe.Page[dedupe.DeliveryRow], error) {
	page := dedupe.Page[dedupe.DeliveryRow]{Items: []dedupe.DeliveryRow{}}
	below, from, err := parseCursor(cursor)
	if err != nil {
		return page, err
	}
	limit = min(limit, maxPage)
	inside := below
	if from != "" { // the page before ended inside this event
		below = below.Next(0)
	}
	skip, full := "", ""
	begin := func() { page.Items, skip, full = page.Items[:0], from, "" }
	at, err := db.visit(ctx, f, below, begin, func(rec *dedupe.Record) bool {
		if rec.Event.Ref != inside {
			skip = ""
		}
		for i := range rec.Deliveries {
			d := &rec.Deliveries[i]
			if skip != "" {
				if d.Target == skip {
					skip = ""
				}
				continue
			}
			if !f.MatchDelivery(rec, d) {
				continue
			}
			if len(page.Items) == limit {
				return false
			}
			page.Items = append(page.Items, row(rec, d))
			full = rec.Event.Ref.String() + "." + d.Target
		}
		return true
	})
	switch {
	case len(page.Items) == limit && full != "":
		page.Next = full
	case !at.IsZero():
		page.Next = at.String()
	}
	return page, err
}

func row(rec *dedupe.Record, d *event.Delivery) dedupe.DeliveryRow {
	ev := &rec.Event
	return dedupe.DeliveryRow{Delivery: *d, ID: d.DeliveryID(), Key: d.Key(ev), Source: ev.Source, EventID: ev.ID,
		Type: ev.Type, ReceivedAt: ev.ReceivedAt}
}

// parseCursor reads "ref" or "ref.target".
func parseCursor(s string) (event.Ref, string, error) {
	if s == "" {
		return event.Ref{}, "", nil
	}
	text, target, _ := strings.Cut(s, ".")
	ref, err := event.ParseRef(text)
	if err != nil {
		return ref, "", fmt.Errorf("cursor: %w", err)
	}
	return ref, target, nil
}
