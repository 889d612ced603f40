package audit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

// Keeper is the changing side of a ledger as far as an operator needs it; it
// is a part of dedupe.Upkeep.
type Keeper interface {
	Replay(ctx context.Context, r dedupe.Replay) (dedupe.ReplayCount, error)
	Cancel(ctx context.Context, ref event.Ref, target string, by dedupe.By) (int, error)
	Drop(ctx context.Context, ref event.Ref, target string, by dedupe.By) (int, error)
	Check(ctx context.Context) (dedupe.CheckReport, error)
	Backup(ctx context.Context, w io.Writer) error
	Health(ctx context.Context) error
}

// Config is what an Account is made of.
type Config struct {
	Reader   dedupe.Account // required
	Keeper   Keeper         // required; usually the same ledger
	SyncKeys SyncKeys       // nil: there are no synchronous routes
	Now      func() time.Time
	// Redact is what is not shown of the bodies of a source, nil for all of
	// them. Nil: of no source.
	Redact func(source string) *Redaction
}

// Account answers questions about the ledger and replays its events. It is
// safe for concurrent use and holds no state of its own.
type Account struct {
	cfg Config // read-only after New
}

// New returns an Account over a ledger. It starts nothing.
func New(cfg Config) (*Account, error) {
	if cfg.Reader == nil || cfg.Keeper == nil {
		return nil, errors.New("audit: both sides of a ledger are needed")
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Account{cfg: cfg}, nil
}

// Now is the wall clock that relative times in filters are taken from.
func (a *Account) Now() time.Time { return a.cfg.Now() }

// Get is the masked view of one event with its deliveries. Errors are those
// of dedupe.Account.
func (a *Account) Get(ctx context.Context, ref event.Ref) (Event, error) {
	rec, err := a.cfg.Reader.Get(ctx, ref)
	if err != nil {
		return Event{}, fmt.Errorf("event %s: %w", ref, err)
	}
	return viewEvent(&rec), nil
}

// Detail is Get with the event's attempts, oldest first.
func (a *Account) Detail(ctx context.Context, ref event.Ref) (Detail, error) {
	ev, err := a.Get(ctx, ref)
	if err != nil {
		return Detail{}, err
	}
	at, err := a.Attempts(ctx, ref)
	if err != nil {
		return Detail{}, err
	}
	return Detail{Event: ev, Attempted: at}, nil
}

// Body is the event's exact bytes, nothing masked.
func (a *Account) Body(ctx context.Context, ref event.Ref) ([]byte, error) {
	b, err := a.cfg.Reader.Body(ctx, ref)
	if err != nil {
		return nil, fmt.Errorf("body of event %s: %w", ref, err)
	}
	return b, nil
}

// Redaction is what is not shown of the bodies of a source, nil for all of them.
func (a *Account) Redaction(source string) *Redaction {
	if a.cfg.Redact == nil {
		return nil
	}
	return a.cfg.Redact(source)
}

// Redacted is the event's bytes with the fields redacted that its source says,
// and whether it says any. A body of which they can't be found is ErrHidden.
func (a *Account) Redacted(ctx context.Context, ref event.Ref) (body []byte, some bool, err error) {
	rec, err := a.cfg.Reader.Get(ctx, ref)
	if err != nil {
		return nil, false, fmt.Errorf("event %s: %w", ref, err)
	}
	if body, err = a.Body(ctx, ref); err != nil {
		return nil, false, err
	}
	r := a.Redaction(rec.Event.Source)
	if body, err = r.Body(body); err != nil {
		return nil, true, fmt.Errorf("body of event %s: %w", ref, err)
	}
	return body, r != nil, nil
}

// Attempts is the masked view of every attempt of one event, oldest first.
func (a *Account) Attempts(ctx context.Context, ref event.Ref) ([]Attempt, error) {
	at, err := a.cfg.Reader.Attempts(ctx, ref)
	if err != nil {
		return nil, fmt.Errorf("attempts of event %s: %w", ref, err)
	}
	out := make([]Attempt, len(at))
	for i := range at {
		out[i] = viewAttempt(&at[i])
	}
	return out, nil
}

// Events is one page of events, newest first.
func (a *Account) Events(ctx context.Context, q Query) (dedupe.Page[Event], error) {
	page, err := list(ctx, a, q, a.cfg.Reader.Events)
	if err != nil {
		return dedupe.Page[Event]{}, err
	}
	out := dedupe.Page[Event]{Items: make([]Event, len(page.Items)), Next: page.Next, Damaged: page.Damaged}
	for i := range page.Items {
		out.Items[i] = viewEvent(&page.Items[i])
	}
	return out, nil
}

// Deliveries is one page of deliveries, newest event first.
func (a *Account) Deliveries(ctx context.Context, q Query) (dedupe.Page[Delivery], error) {
	page, err := list(ctx, a, q, a.cfg.Reader.Deliveries)
	if err != nil {
		return dedupe.Page[Delivery]{}, err
	}
	out := dedupe.Page[Delivery]{Items: make([]Delivery, len(page.Items)), Next: page.Next, Damaged: page.Damaged}
	for i := range page.Items {
		out.Items[i] = viewRow(&page.Items[i])
	}
	return out, nil
}

// Stats is the ledger's own snapshot.
func (a *Account) Stats(ctx context.Context) (dedupe.Stats, error) {
	st, err := a.cfg.Reader.Stats(ctx)
	if err != nil {
		return st, fmt.Errorf("ledger statistics: %w", err)
	}
	return st, nil
}

// Cancel closes the open deliveries of one event, of target or of all with
// target "", and says how many it closed.
func (a *Account) Cancel(ctx context.Context, ref event.Ref, target string, by dedupe.By) (int, error) {
	n, err := a.cfg.Keeper.Cancel(ctx, ref, target, by)
	if err != nil {
		return n, fmt.Errorf("cancel event %s: %w", ref, err)
	}
	return n, nil
}

// Backup writes a consistent copy of the ledger.
func (a *Account) Backup(ctx context.Context, w io.Writer) error {
	return a.cfg.Keeper.Backup(ctx, w)
}

// Check reads the whole ledger and reports every fault. It may take minutes.
func (a *Account) Check(ctx context.Context) (dedupe.CheckReport, error) {
	rep, err := a.cfg.Keeper.Check(ctx)
	if err != nil {
		return rep, fmt.Errorf("check ledger: %w", err)
	}
	if rep.Faults == nil {
		rep.Faults = []dedupe.Fault{} // a list in JSON as well
	}
	return rep, nil
}

// Health is nil while the ledger takes events.
func (a *Account) Health(ctx context.Context) error { return a.cfg.Keeper.Health(ctx) }

// pageTime is how long one page may by default go on looking for records that match: a
// filter that matches little gets few long calls in place of many empty ones.
const pageTime = time.Second

// maxDamaged is how many events that can't be read one page passes over.
const maxDamaged = 20

type lister[T any] func(ctx context.Context, f dedupe.Filter, cursor string, limit int) (dedupe.Page[T], error)

// list fills one page from as many of the ledger's bounded scans as fit in
// pageTime, and seals the cursor.
func list[T any](ctx context.Context, a *Account, q Query, scan lister[T]) (dedupe.Page[T], error) {
	cur, err := q.open()
	if err != nil {
		return dedupe.Page[T]{}, err
	}
	var out dedupe.Page[T]
	end := time.Now().Add(cmp.Or(q.Budget, pageTime))
	last := time.Now()
	next := cur.Engine
	for {
		page, err := scan(ctx, q.filterAt(cur), next, q.Limit-len(out.Items))
		var at *dedupe.EventError
		if q.PastDamage && len(out.Damaged) < maxDamaged && errors.Is(err, dedupe.ErrDamaged) && errors.As(err, &at) {
			out.Damaged = append(out.Damaged, at.Ref)
			page.Next, err = at.Ref.String(), nil
		}
		if err != nil {
			return dedupe.Page[T]{}, fmt.Errorf("list %s: %w", q.Kind, err)
		}
		out.Items = append(out.Items, page.Items...)
		next = page.Next
		took := time.Since(last) // another such scan must fit as well
		if last = last.Add(took); next == "" || len(out.Items) >= q.Limit || last.Add(took).After(end) {
			break
		}
	}
	if next != "" {
		out.Next = q.seal(cur, next)
	}
	return out, nil
}
