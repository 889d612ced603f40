package audit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

// Live is an event for those who follow the ledger: its view, and with Exact
// what a target would be sent of it.
type Live struct {
	Event
	// Cursor stands after it: to go on there.
	Cursor string `json:"cursor"`
	Exact  *Exact `json:"exact,omitempty"`
	// Withheld says that Exact is left out because the event's source redacts
	// fields of its bodies.
	Withheld bool `json:"withheld,omitempty"`
}

// Exact is what custody covers of an event, nothing masked. Header holds what
// passes to targets, so no credential stands in it.
type Exact struct {
	Query  string        `json:"query,omitempty"`
	Header []event.Field `json:"header"`
	Body   []byte        `json:"body"` // base64 in JSON
	Gone   bool          `json:"gone"` // by retention, or damaged
}

// TailQuery says what to follow.
type TailQuery struct {
	Cursor string        // of the page before; "" is the oldest event, dedupe.TailEnd the newest
	Source string        // only of this source
	Type   string        // exact, or a glob with *
	Limit  int           // 0 is DefaultLimit
	Wait   time.Duration // how long to wait for the first event
	Exact  bool
	Raw    bool // with Exact: also of sources that redact fields
}

const (
	// tailPoll is how often a waiting reader looks again.
	tailPoll = 100 * time.Millisecond
	// tailBytes bounds the bodies of one page; one is always given.
	tailBytes = 8 << 20
)

// Tail is the page of events that follows a cursor, in the order in which they
// were accepted. Next is always set. When nothing is there it waits, up to
// q.Wait, and returns an empty page after that.
func (a *Account) Tail(ctx context.Context, q TailQuery) (dedupe.Page[Live], error) {
	if q.Limit <= 0 {
		q.Limit = DefaultLimit
	}
	q.Limit = min(q.Limit, MaxLimit)
	until := time.NewTimer(q.Wait)
	defer until.Stop()
	for {
		page, err := a.tail(ctx, &q)
		if err != nil || len(page.Items) > 0 {
			return page, err
		}
		q.Cursor = page.Next
		select {
		case <-ctx.Done():
			return page, nil
		case <-until.C:
			return page, nil
		case <-time.After(tailPoll):
		}
	}
}

func (a *Account) tail(ctx context.Context, q *TailQuery) (dedupe.Page[Live], error) {
	out := dedupe.Page[Live]{Items: []Live{}}
	page, err := a.cfg.Reader.Tail(ctx, q.Cursor, q.Limit)
	if errors.Is(err, dedupe.ErrCursor) {
		return out, invalid("cursor %q: want one that an answer gave as next, %q, or none for the oldest event", q.Cursor, dedupe.TailEnd)
	}
	if err != nil {
		return out, fmt.Errorf("follow events: %w", err)
	}
	out.Next = page.Next
	sum := int64(0)
	for i := range page.Items {
		rec := &page.Items[i]
		if !(dedupe.Filter{Source: q.Source, Type: q.Type}).MatchEvent(&rec.Event) {
			continue
		}
		if q.Exact && sum > 0 && sum+rec.Event.Body.Length > tailBytes {
			out.Next = page.Items[i-1].After
			break
		}
		l := Live{Event: viewEvent(rec), Cursor: rec.After}
		if l.Withheld = q.Exact && !q.Raw && a.Redaction(rec.Event.Source) != nil; q.Exact && !l.Withheld {
			if l.Exact, err = a.exact(ctx, &rec.Event); err != nil {
				return out, err
			}
			sum += max(1, rec.Event.Body.Length)
		}
		out.Items = append(out.Items, l)
	}
	return out, nil
}

// maxNewer is how many events Newer looks at.
const maxNewer = 200

// Newer counts the events accepted after one, or at all after the zero ref, that
// a query of events selects. It looks at no others, and at no more than a few
// hundred: more says that others have come.
func (a *Account) Newer(ctx context.Context, q Query, after event.Ref) (n int, more bool, err error) {
	page, err := a.cfg.Reader.Tail(ctx, after.String(), maxNewer)
	if err != nil {
		return 0, false, fmt.Errorf("newer events: %w", err)
	}
	for i := range page.Items {
		if q.Filter.MatchRecord(&page.Items[i]) {
			n++
		}
	}
	return n, len(page.Items) == maxNewer, nil
}

func (a *Account) exact(ctx context.Context, ev *event.Event) (*Exact, error) {
	x := &Exact{Query: ev.Query, Header: ev.Header}
	if x.Header == nil {
		x.Header = []event.Field{}
	}
	body, err := a.cfg.Reader.Body(ctx, ev.Ref)
	if errors.Is(err, dedupe.ErrPruned) || errors.Is(err, dedupe.ErrDamaged) {
		x.Gone = true
		return x, nil
	}
	if err != nil {
		return nil, fmt.Errorf("body of event %s: %w", ev.Ref, err)
	}
	x.Body = body
	return x, nil
}
