package audit

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

// AmbiguousError reports an ID that means several events.
type AmbiguousError struct {
	ID     string
	Refs   []event.Ref // newest first
	places []string    // what is known of the first few
}

// Error lists the refs, one of which must be given instead.
func (e *AmbiguousError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "ID %q means %d events: give a ref instead: ", e.ID, len(e.Refs))
	for i, r := range e.Refs {
		if i == maxListed {
			fmt.Fprintf(&b, ", and %d more", len(e.Refs)-i)
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(r.String())
		if i < len(e.places) && e.places[i] != "" {
			b.WriteString(" (" + e.places[i] + ")")
		}
	}
	return b.String()
}

// maxListed is how many events an AmbiguousError describes.
const maxListed = 10

// Resolve finds the one event that id names: our ref, or the provider's
// event ID in any of sources. Nothing found is dedupe.ErrNotFound, a ref that
// retention took dedupe.ErrPruned, several events an *AmbiguousError.
func (a *Account) Resolve(ctx context.Context, id string, sources []string) (event.Ref, error) {
	var byRef error
	if ref, err := event.ParseRef(id); err == nil {
		_, byRef = a.cfg.Reader.Get(ctx, ref)
		if byRef == nil {
			return ref, nil
		}
		// Some providers' IDs look like refs: only a ref that this ledger
		// knows settles the matter here.
		if !errors.Is(byRef, dedupe.ErrNotFound) && !errors.Is(byRef, dedupe.ErrPruned) {
			return event.Ref{}, fmt.Errorf("event %s: %w", ref, byRef)
		}
	}
	framed, _ := dedupe.FrameID(id)
	refs, err := a.lookup(ctx, framed, sources)
	switch {
	case err != nil:
		return event.Ref{}, fmt.Errorf("look up event ID %q: %w", framed, err)
	case len(refs) == 1:
		return refs[0], nil
	case len(refs) > 1:
		return event.Ref{}, a.ambiguous(ctx, framed, refs)
	case byRef != nil:
		return event.Ref{}, fmt.Errorf("event %q: %w", framed, byRef)
	}
	return event.Ref{}, fmt.Errorf("event %q: %w", framed, dedupe.ErrNotFound)
}

func (a *Account) lookup(ctx context.Context, id string, sources []string) ([]event.Ref, error) {
	if id == "" || len(sources) == 0 {
		return nil, nil
	}
	refs, err := a.cfg.Reader.Lookup(ctx, sources, id)
	if errors.Is(err, dedupe.ErrNotFound) {
		return nil, nil
	}
	return refs, err
}

func (a *Account) ambiguous(ctx context.Context, id string, refs []event.Ref) error {
	e := &AmbiguousError{ID: id, Refs: refs}
	for _, r := range refs[:min(len(refs), maxListed)] {
		place := ""
		// A ref that cannot be read is still listed, only without its place.
		if rec, err := a.cfg.Reader.Get(ctx, r); err == nil {
			place = rec.Event.Source + ", " + rec.Event.ReceivedAt.UTC().Format("2006-01-02T15:04:05Z")
		}
		e.places = append(e.places, place)
	}
	return e
}
