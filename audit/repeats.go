package audit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"time"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

// Repeats are the newest of what arrived after an event under its ID, newest
// first, as far as they were found: there is no index of them, so the account is
// looked at where they are likely to be, right after the event and around the
// last of them.
type Repeats struct {
	Items []LogAct
	// Before is how many more were counted.
	Before uint64
}

// repeatWindow is how many acts of each log are read after an event was
// accepted, before its last repeat, and after it: together no more than a page
// of a listing looks at.
const repeatWindow = scanActs / 3

// Repeats finds what arrived after ev under its ID: up to n of it, and no more
// than its tally counts. What retention took is not there.
func (l *Log) Repeats(ctx context.Context, ev *Event, n int) (Repeats, error) {
	out := Repeats{Before: ev.Repeats + ev.Conflicts}
	if out.Before == 0 {
		return out, nil
	}
	logs, err := l.logs(ctx)
	if err != nil {
		return out, err
	}
	for _, g := range logs {
		found, err := l.repeatsIn(ctx, g, ev, repeatWindow/uint64(len(logs)))
		if errors.Is(err, dedupe.ErrPruned) || errors.Is(err, dedupe.ErrNotFound) {
			continue // dropped while it was looked at
		}
		if err != nil {
			return out, fmt.Errorf("audit log %s: %w", logName(g.Writer), err)
		}
		out.Items = append(out.Items, found...)
	}
	slices.SortStableFunc(out.Items, func(x, y LogAct) int {
		return cmp.Or(y.At.Compare(x.At), cmp.Compare(y.Index, x.Index))
	})
	out.Items = out.Items[:min(len(out.Items), n)]
	out.Before -= min(out.Before, uint64(len(out.Items)))
	return out, nil
}

// repeatsIn looks through one log, at most three times window acts of it.
func (l *Log) repeatsIn(ctx context.Context, g dedupe.ActLog, ev *Event, window uint64) (out []LogAct, err error) {
	first, err := l.actAt(ctx, g, ev.Ref.Time())
	if err != nil {
		return nil, err
	}
	last, err := l.actAt(ctx, g, ev.RepeatedAt)
	if err != nil {
		return nil, err
	}
	early := [2]uint64{first, min(first+window, g.Next)}
	late := [2]uint64{max(last-min(last, window), early[1]), min(last+window, g.Next)}
	for _, w := range [][2]uint64{early, late} {
		for at := w[0]; at < w[1]; {
			acts, err := l.cfg.Ledger.Acts(ctx, g.Writer, at, int(min(w[1]-at, backwardPage)))
			if err != nil || len(acts) == 0 {
				return out, err
			}
			for i := range acts {
				at = acts[i].Index + 1
				a, err := dedupe.DecodeAct(acts[i].Leaf)
				if err != nil {
					return out, fmt.Errorf("act %d: %w: %w", acts[i].Index, dedupe.ErrDamaged, err)
				}
				if at <= w[1] && repeats(&a, ev.Ref) {
					out = append(out, LogAct{Log: logName(g.Writer), Index: acts[i].Index, Act: viewAct(&a)})
				}
			}
		}
	}
	return out, nil
}

// repeats reports whether an act records that an event's ID came again.
func repeats(a *dedupe.Act, ref event.Ref) bool {
	switch a.Kind {
	case dedupe.ActRepeated, dedupe.ActConflicting:
		return a.Event == ref
	case dedupe.ActAccepted: // as a distinct event
		return a.Related == ref && a.Flags.Has(event.FlagConflict)
	}
	return false
}

// actAt is the index of a log's first act that is not older than a moment of
// ledger time, by bisection.
func (l *Log) actAt(ctx context.Context, g dedupe.ActLog, at time.Time) (uint64, error) {
	var failed error
	n := sort.Search(int(g.Next-g.First), func(i int) bool {
		if failed != nil {
			return true
		}
		index := g.First + uint64(i)
		acts, err := l.cfg.Ledger.Acts(ctx, g.Writer, index, 1)
		if err == nil && (len(acts) == 0 || acts[0].Index != index) {
			err = fmt.Errorf("%w: act %d is missing", dedupe.ErrDamaged, index)
		}
		if err != nil {
			failed = err
			return true
		}
		a, err := dedupe.DecodeAct(acts[0].Leaf)
		if err != nil {
			failed = fmt.Errorf("act %d: %w: %w", index, dedupe.ErrDamaged, err)
		}
		return !a.At.Before(at)
	})
	return g.First + uint64(n), failed
}
