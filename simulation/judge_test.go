package simulation

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

// unit is what must be accepted once within a window: an event ID of a
// source; where conflicts are delivered, an event ID with one body.
type unit struct {
	source, id int
	sum        event.Hash
}

func unitOf(source, id int, sum event.Hash) unit {
	if conflicts[source] != dedupe.ConflictDeliver {
		sum = event.Hash{}
	}
	return unit{source, id, sum}
}

// judge holds what senders were told and targets were sent against the
// account.
func (w *world) judge() error {
	records, err := w.account()
	if err != nil {
		return err
	}
	byRef := map[string]dedupe.Record{}
	for _, r := range records {
		byRef[r.Event.Ref.String()] = r
	}
	for _, r := range w.requests {
		w.answered(r, byRef)
	}
	w.onceAnswered()
	w.onceStored(records)
	routes := map[string][]arrival{}
	for _, a := range w.town.arrivals() {
		w.arrived(a, byRef)
		routes[a.ref+" "+a.target] = append(routes[a.ref+" "+a.target], a)
	}
	for _, as := range routes {
		w.sequence(as)
	}
	for _, r := range records {
		w.whole(r)
		if err := w.delivered(r, routes); err != nil {
			return err
		}
	}
	return nil
}

func (w *world) account() (all []dedupe.Record, err error) {
	for cursor := ""; ; {
		p, err := w.now.ledger.Events(context.Background(), dedupe.Filter{}, cursor, 500)
		if err != nil {
			return nil, err
		}
		if all = append(all, p.Items...); p.Next == "" {
			return all, nil
		}
		cursor = p.Next
	}
}

// answered: what a sender was told is so.
func (w *world) answered(r request, byRef map[string]dedupe.Record) {
	name := idOf(r.source, r.id)
	switch {
	case r.status == http.StatusServiceUnavailable, r.status == http.StatusUnauthorized && r.unsure:
		return
	case r.status == http.StatusUnprocessableEntity && conflicts[r.source] == dedupe.ConflictReject:
		return
	case r.status != http.StatusOK:
		w.fault("%s was answered %d", name, r.status)
		return
	}
	rec, ok := byRef[r.ref]
	if !ok {
		w.fault("%s was acknowledged as %s, which is not in the account", name, r.ref)
		return
	}
	ev := rec.Event
	if id, _, _ := strings.Cut(ev.ID, "~"); id != name || ev.Source != sourceNames[r.source] {
		w.fault("%s was acknowledged as an event of %s %s", name, ev.Source, ev.ID)
	}
	if ev.BodyHash != r.sum && (!r.repeat || conflicts[r.source] != dedupe.ConflictAck) {
		w.fault("%s was acknowledged as %s with another body", name, r.ref)
	}
	if age := r.sent.Sub(ev.Ref.Time()); r.repeat && r.quiet && age > window+time.Second {
		w.fault("%s is remembered %v after its window of %v", name, age-window, window)
	}
}

// onceAnswered: within a window nothing is new twice to its senders. A window
// has passed when it has by a clock that nobody sets, too: where nothing is
// committed for long, and then the process is killed and its clock set back,
// ledger time begins again at the last commit.
func (w *world) onceAnswered() {
	fresh := map[unit][]request{}
	for _, r := range w.requests {
		if r.status == http.StatusOK && !r.repeat {
			u := unitOf(r.source, r.id, r.sum)
			fresh[u] = append(fresh[u], r)
		}
	}
	for u, rs := range fresh {
		slices.SortFunc(rs, func(a, b request) int { return a.ended.Compare(b.ended) })
		for i := 1; i < len(rs); i++ {
			gap := max(rs[i].told.Sub(rs[i-1].sent), rs[i].ended.Sub(rs[i-1].began))
			if gap < window || rs[i].ref == rs[i-1].ref {
				w.fault("%s was new twice, %v apart: %s and %s", idOf(u.source, u.id), gap, rs[i-1].ref, rs[i].ref)
			}
		}
	}
}

// onceStored: within a window nothing is in the account twice, and all that
// is was sent.
func (w *world) onceStored(records []dedupe.Record) {
	last := map[unit]event.Ref{}
	fresh := map[string]request{}
	for _, q := range w.requests {
		if q.ref != "" && !q.repeat {
			fresh[q.ref] = q
		}
	}
	apart := func(a, b event.Ref) time.Duration {
		first, second := fresh[a.String()], fresh[b.String()]
		if first.ref == "" || second.ref == "" {
			return b.Time().Sub(a.Time())
		}
		return max(b.Time().Sub(a.Time()), second.ended.Sub(first.began))
	}
	for _, r := range slices.Backward(records) { // oldest first
		ev := r.Event
		name, _, _ := strings.Cut(ev.ID, "~")
		i := slices.IndexFunc(w.requests, func(q request) bool {
			return sourceNames[q.source] == ev.Source && idOf(q.source, q.id) == name && q.sum == ev.BodyHash
		})
		if i < 0 {
			w.fault("event %s %s was never sent", ev.Source, ev.ID)
			continue
		}
		q := w.requests[i]
		u := unitOf(q.source, q.id, q.sum)
		if before, ok := last[u]; ok && apart(before, ev.Ref) < window-time.Second {
			w.fault("%s was accepted twice: %s and %s", name, before, ev.Ref)
		}
		last[u] = ev.Ref
	}
}

// arrived: a target gets what is in the account.
func (w *world) arrived(a arrival, byRef map[string]dedupe.Record) {
	rec, ok := byRef[a.ref]
	switch {
	case !ok:
		w.fault("target %s got %s, which is not in the account", a.target, a.ref)
	case a.body != rec.Event.BodyHash:
		w.fault("target %s got other bytes for %s", a.target, a.ref)
	case a.key != rec.Event.Key || a.id != rec.Event.ID || a.source != rec.Event.Source:
		w.fault("target %s got %s with key %q of %s %s, want %q", a.target, a.ref, a.key, a.source, a.id, rec.Event.Key)
	}
}

// sequence: the requests of one delivery come one after the other, not before
// they may, and none after the target took it.
func (w *world) sequence(as []arrival) {
	slices.SortStableFunc(as, func(a, b arrival) int { return a.at.Compare(b.at) })
	taken := 0
	for i, a := range as {
		if a.status == http.StatusOK {
			taken++
		}
		if i == 0 || as[i-1].life != a.life {
			continue
		}
		before := as[i-1]
		name := a.id + " at " + a.target
		// A cancelled delivery may be on the wire, and a replay doesn't wait for that.
		both := w.cancels[a.ref] > 0 && w.replays[a.ref] > 0
		if !both && (a.at.Before(before.done) || before.done.IsZero()) {
			w.fault("%s: two requests at once", name)
		}
		if w.replays[a.ref] > 0 {
			continue
		}
		if before.status == http.StatusOK {
			w.fault("%s: sent again by the process that had sent it", name)
		}
		if gap := a.due.Sub(before.due); gap < before.after {
			w.fault("%s: sent again after %v, the target had asked for %v", name, gap, before.after)
		}
	}
	if copies := taken - 1; copies > w.kills+w.replays[as[0].ref] {
		w.fault("%s at %s: taken %d times in a run of %d kills", as[0].id, as[0].target, taken, w.kills)
	}
}

// whole: an event has the deliveries of its source, all or none.
func (w *world) whole(r dedupe.Record) {
	ev := r.Event
	for _, q := range w.requests {
		if sourceNames[q.source] == ev.Source && q.sum == ev.BodyHash &&
			(q.unsure || slices.Equal(ev.Targets, targetsOf(q.source, q.late))) {
			return
		}
	}
	w.fault("event %s has the targets %v, as no configuration said", ev.ID, ev.Targets)
}

// delivered: every delivery ended, for a reason, and its attempts are the
// requests that its target saw.
func (w *world) delivered(r dedupe.Record, routes map[string][]arrival) error {
	attempts, err := w.now.ledger.Attempts(context.Background(), r.Event.Ref)
	if err != nil {
		return err
	}
	var have, want []string
	for _, d := range r.Deliveries {
		have = append(have, d.Target)
		as := routes[r.Event.Ref.String()+" "+d.Target]
		w.ended(r.Event, d, as)
		n := 0
		for _, a := range attempts {
			if a.Target == d.Target {
				n++
			}
		}
		if off := n - len(as); off > w.kills || -off > w.kills {
			w.fault("%s at %s: %d attempts in the account, %d requests, %d kills", r.Event.ID, d.Target, n, len(as), w.kills)
		}
	}
	want = slices.Clone(r.Event.Targets)
	slices.SortFunc(want, cmp.Compare[string])
	slices.SortFunc(have, cmp.Compare[string])
	if !slices.Equal(have, want) {
		w.fault("event %s has deliveries to %v, want %v", r.Event.ID, have, want)
	}
	return nil
}

func (w *world) ended(ev event.Event, d event.Delivery, as []arrival) {
	saw := func(status int) bool {
		return slices.ContainsFunc(as, func(a arrival) bool { return a.status == status })
	}
	name := ev.ID + " at " + d.Target
	switch d.State {
	case event.Delivered:
		if !saw(http.StatusOK) {
			w.fault("%s is delivered, and the target never took it", name)
		}
	case event.Dead:
		if age := d.UpdatedAt.Sub(d.OpenedAt); !saw(http.StatusNotFound) && age < giveUp {
			w.fault("%s is dead after %v", name, age)
		}
	case event.Cancelled:
		if w.cancels[ev.Ref.String()] == 0 {
			w.fault("%s was cancelled by nobody", name)
		}
	default:
		w.fault("%s is %v at the end", name, d.State)
	}
}
