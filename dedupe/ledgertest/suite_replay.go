package ledgertest

import (
	"errors"
	"fmt"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

// replayKeep holds that what a replay opens and its note are true together.
func replayKeep(f *fix) {
	const events = 25
	var all []event.Ref
	for i := range events {
		all = append(all, f.newEvent(fmt.Sprint("evt_", i), "12345", billing))
	}
	f.settle(billing, event.Dead)
	sel := dedupe.Selection{Filter: dedupe.Filter{State: "dead"}}
	dry := f.replay(dedupe.Replay{Selection: sel, DryRun: true, Keep: func(dedupe.ReplayCount) dedupe.Note {
		f.Errorf("a dry run keeps a note")
		return dedupe.Note{}
	}})
	equal(f, "bytes that would be sent", dry.Bytes, 5*events)

	note := dedupe.Note{Kind: "replay", Name: "job"}
	seen := 0
	for calls, cursor := 0, ""; ; calls++ {
		called := 0
		n := f.replay(dedupe.Replay{Selection: sel, Cursor: cursor, Limit: 10, By: by, Keep: func(n dedupe.ReplayCount) dedupe.Note {
			called++
			note.Value = []byte(fmt.Sprint(seen+n.Opened, " ", n.Next))
			return note
		}})
		equal(f, "calls of Keep", called, 1)
		note.Version++
		seen += n.Opened
		kept, err := f.l.Note(f.Context(), "replay", "job")
		f.must(err)
		equal(f, "the note", string(kept.Value), fmt.Sprint(seen, " ", n.Next))
		equal(f, "its version", kept.Version, note.Version)
		if cursor = n.Next; cursor == "" || calls == 10 {
			break
		}
		f.reopen()
	}
	equal(f, "opened", seen, events)
	equal(f, "pending", f.stats().Targets[billing].Pending, events)

	f.settle(billing, event.Dead)
	stale := note
	stale.Version--
	_, err := f.l.Replay(f.Context(), dedupe.Replay{Selection: sel, By: by, Keep: func(dedupe.ReplayCount) dedupe.Note { return stale }})
	f.want(err, dedupe.ErrStale)
	_, err = f.l.Replay(f.Context(), dedupe.Replay{Selection: sel, By: by, Keep: func(dedupe.ReplayCount) dedupe.Note { return dedupe.Note{} }})
	if err == nil || errors.Is(err, dedupe.ErrStale) {
		f.Errorf("a note without a name is kept: %v", err)
	}
	equal(f, "opened in spite of it", f.stats().Targets[billing].Pending, int64(0))
	for _, ref := range all {
		equal(f, "generation", f.delivery(ref, billing).Generation, 1)
	}
	equal(f, "opened by one event", f.replay(dedupe.Replay{Selection: dedupe.Selection{Ref: all[0]}, Keep: func(dedupe.ReplayCount) dedupe.Note { return note }}).Opened, 1)
}
