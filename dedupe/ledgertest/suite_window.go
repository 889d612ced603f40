package ledgertest

import (
	"fmt"
	"time"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

// windowTests hold when a claim stops to stand.
func windowTests() []test {
	var out []test
	for _, w := range [...]time.Duration{time.Minute, 24 * time.Hour, 30 * 24 * time.Hour} {
		out = append(out, test{fmt.Sprint("boundary of ", w), func(f *fix) { windowBoundary(f, w) }})
	}
	return append(out,
		test{"a claim outlives its open delivery", windowOpen},
		test{"a replay keeps the claim", windowReplay},
		test{"a guard has the same window", windowGuard},
		test{"a changed window applies to new claims", windowChanged},
		test{"a clock set back makes nothing new", windowBack},
	)
}

// probe reports whether id is new now, with what expiry and restarts do to
// claims done just before.
func probe(f *fix, id string, w time.Duration) dedupe.Verdict {
	f.Helper()
	f.expire()
	it := f.item(id, id)
	it.Window = w
	return f.acceptItem(it, id).Verdict
}

func windowBoundary(f *fix, w time.Duration) {
	for _, id := range [...]string{"before", "at", "after"} {
		it := f.item(id, id, billing)
		it.Window = w
		equal(f, id, f.acceptItem(it, id).Verdict, dedupe.New)
	}
	f.settle(billing, event.Delivered)
	f.clock.Advance(w / 2)
	f.reopen()
	equal(f, "half way", probe(f, "before", w), dedupe.Repeat)
	f.clock.Advance(w - w/2 - time.Second)
	equal(f, "a second before the end", probe(f, "before", w), dedupe.Repeat)
	f.clock.Advance(time.Second)
	equal(f, "at the end", probe(f, "at", w), dedupe.New)
	equal(f, "at the end, again", probe(f, "at", w), dedupe.Repeat)
	f.clock.Advance(time.Second)
	equal(f, "a second after the end", probe(f, "after", w), dedupe.New)
	equal(f, "a second after the end, again", probe(f, "after", w), dedupe.Repeat)
	f.reopen()
	equal(f, "after reopen", probe(f, "after", w), dedupe.Repeat)
}

func windowOpen(f *fix) {
	ref := f.newEvent("evt_1", "evt_1", billing, crm)
	f.settle(crm, event.Delivered)
	for day := 1; day <= 12; day++ {
		f.clock.Advance(window)
		if day%4 == 0 {
			f.reopen()
			f.clock.Advance(2 * time.Hour) // past the hold of a clock far ahead
		}
		f.expire()
		o := f.accept("evt_1", "evt_1", billing)
		equal(f, fmt.Sprintf("day %d with an open delivery", day), o.Verdict, dedupe.Repeat)
		equal(f, "ref", o.Ref, ref)
		other := f.accept("evt_1", "other", billing)
		equal(f, fmt.Sprintf("day %d, other body", day), other.Verdict, dedupe.Differs)
	}
	equal(f, "repeats counted", f.get(ref).Tally.Repeats, 12)
	f.settle(billing, event.Dead)
	f.expire()
	o := f.accept("evt_1", "evt_1", billing)
	equal(f, "once it is closed", o.Verdict, dedupe.New)
	if o.Ref == ref {
		f.Errorf("a new event got the old ref")
	}
}

func windowReplay(f *fix) {
	ref := f.newEvent("evt_1", "evt_1", billing)
	f.settle(billing, event.Dead)
	f.clock.Advance(window - time.Hour)
	n, err := f.l.Replay(f.Context(), dedupe.Replay{Selection: dedupe.Selection{Ref: ref}})
	f.must(err)
	equal(f, "opened", n.Opened, 1)
	f.clock.Advance(2 * time.Hour)
	equal(f, "while the replay is open", probe(f, "evt_1", window), dedupe.Repeat)
	f.settle(billing, event.Delivered)
	equal(f, "once it is closed", probe(f, "evt_1", window), dedupe.New)
}

func windowGuard(f *fix) {
	guarded := func(id string) dedupe.Item {
		it := f.item(id, "{}")
		it.Guard, it.GuardKey = dedupe.GuardDrop, dedupe.KeyOf(dedupe.KindGuard, source, "", "signed bytes")
		return it
	}
	equal(f, "first", f.acceptItem(guarded("evt_1"), "{}").Verdict, dedupe.New)
	f.clock.Advance(window - time.Second)
	f.expire()
	equal(f, "before the end", f.acceptItem(guarded("evt_2"), "{}").Verdict, dedupe.Replayed)
	f.clock.Advance(2 * time.Second)
	f.expire()
	equal(f, "after the end", f.acceptItem(guarded("evt_3"), "{}").Verdict, dedupe.New)
	equal(f, "of the new guard", f.acceptItem(guarded("evt_4"), "{}").Verdict, dedupe.Replayed)
}

func windowChanged(f *fix) {
	f.newEvent("evt_1", "evt_1")
	f.clock.Advance(time.Hour)
	equal(f, "shorter window, old claim", probe(f, "evt_1", time.Minute), dedupe.Repeat)
	f.clock.Advance(window)
	equal(f, "old claim ended", probe(f, "evt_1", time.Minute), dedupe.New)
	f.clock.Advance(time.Minute)
	equal(f, "new claim ended", probe(f, "evt_1", window), dedupe.New)
}

func windowBack(f *fix) {
	f.newEvent("evt_1", "evt_1")
	f.clock.Advance(window - time.Minute)
	equal(f, "in the window", probe(f, "evt_1", window), dedupe.Repeat)
	f.clock.Advance(-23 * time.Hour)
	equal(f, "clock set back", probe(f, "evt_1", window), dedupe.Repeat)
	f.reopen()
	equal(f, "reopened with the clock set back", probe(f, "evt_1", window), dedupe.Repeat)
	f.clock.Advance(time.Minute) // ledger time goes on from the mark
	equal(f, "a minute on by ledger time", probe(f, "evt_1", window), dedupe.New)
}
