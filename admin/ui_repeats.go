package admin

import (
	"net/url"
	"time"

	"github.com/onceward/onceward/audit"
	"github.com/onceward/onceward/dedupe"
)

// arrival is one request that brought an event's ID again.
type arrival struct {
	audit.LogAct
	Class, Word string
}

// maxArrivals is how many of an event's repeats its page lists.
const maxArrivals = 20

// arrivals lists what came under an event's ID after it, from the account. Only
// the counts are shown where that can't be read.
func (a *Admin) arrivals(v *view, d *eventData) {
	if d.Before = d.Repeats + d.Conflicts; d.Before == 0 || a.cfg.Audit == nil {
		return
	}
	d.Recorded = "/audit?" + url.Values{"kind": {repeatKinds}, "ref": {d.Ref.String()}, "to": {d.RepeatedAt.Add(repeatSlack).Format(time.RFC3339)}}.Encode()
	found, err := a.cfg.Audit.Repeats(v.c.Request().Context(), &d.Event, maxArrivals)
	if err != nil {
		a.cfg.Log.Warn("repeats of an event can't be listed", "ref", d.Ref.String(), "error", err)
		return
	}
	d.Before = found.Before
	for _, x := range found.Items {
		r := arrival{LogAct: x, Class: "again", Word: "same body"}
		switch x.Kind {
		case dedupe.ActConflicting.String():
			r.Class, r.Word = "warn", "other body"
		case dedupe.ActAccepted.String():
			r.Class, r.Word = "warn", "other body, an event of its own"
		}
		d.Arrivals = append(d.Arrivals, r)
	}
}

// repeatSlack is how much later than it was received a repeat may have been
// recorded.
const repeatSlack = time.Minute

// repeatKinds are the acts that record what came again.
const repeatKinds = "repeated,conflicting"
