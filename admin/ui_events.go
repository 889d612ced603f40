package admin

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/onceward/onceward/audit"
	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

// pageBudget is how long a page looks for records that match before it shows
// what it has found and offers to look further.
const pageBudget = 40 * time.Millisecond

// pageSize is how many rows a list page has.
const pageSize = 50

// eventRow is one event of a list.
type eventRow struct {
	Event
	Day   string // set on the first row of a day other than today
	Times uint64
	Dls   []stateGroup
}

// stateGroup is the targets whose deliveries are in one state.
type stateGroup struct {
	State   string
	Targets string
}

type link struct {
	Text, Href string
	N          int64
}

type eventsData struct {
	Q       string
	Args    Filter
	Sources []string
	Targets []string
	Rows    []eventRow
	Wrong   string // what is wrong with the filter
	Quick   []link
	Newest  string // link to the first page, on later ones
	Older   string
	Partial string // how far the page looked, when it stopped early
	Newer   string // what to poll for newer events
	Widen   []link
	Filter  string // in words, "" for none
	Self    string // the filter as a query
	Replay  string // link to replaying what it selects
	Empty   bool   // there are no events at all
	Several []eventRow
	States  []string
	Fields  []string // names of the indexed fields of all sources
	Where   bool     // there is a field to search by
	Indexed bool     // an event on the page has one
	Damaged []event.Ref
}

// eventArgs reads the filter of the address. Empty fields are those of a form
// that was sent with nothing in them.
func eventArgs(v url.Values) Filter {
	get := func(name string) string { return field(v, name) }
	return Filter{Source: get("source"), Type: get("type"), Status: get("status"), Target: get("target"), ID: get("id"), Where: get("where"),
		From: get("from"), To: get("to"), Since: get("since")}
}

// field is one field of an address or form. What would not show is escaped
// here, so that it shows in the form that is filled with it.
func field(v url.Values, name string) string {
	s := shown(strings.TrimSpace(v.Get(name)))
	if s == "any" {
		return ""
	}
	return s
}

func (a *Admin) eventsPage(v *view) error {
	params := v.c.QueryParams()
	d := eventsData{Q: field(params, "q"), Args: eventArgs(params), Empty: v.snap.stats.Events == 0}
	for i := range v.snap.sources {
		d.Sources = append(d.Sources, v.snap.sources[i].Name)
	}
	for i := range v.snap.targets {
		d.Targets = append(d.Targets, v.snap.targets[i].Name)
	}
	d.States = []string{"pending", "delivered", "dead", "cancelled", "unrouted"}
	d.Fields = v.setup.fields()
	d.Where = len(d.Fields) > 0 || d.Args.Where != ""
	d.Quick = v.quick()
	d.Self = d.Args.Values().Encode()
	d.Filter = filterWords(d.Args)
	d.Replay = "/replay?" + d.Self
	if d.Q != "" {
		return a.findEvent(v, d)
	}
	q, err := d.Args.Query(audit.KindEvents, v.now)
	if err == nil {
		q.Cursor, q.Limit, q.Budget, q.PastDamage = field(params, "cursor"), pageSize, pageBudget, true
		err = a.fillEvents(v, &d, q)
	}
	var inv *audit.InvalidError
	status := http.StatusOK
	switch {
	case errors.As(err, &inv):
		d.Wrong, status = inv.Problem, http.StatusBadRequest
	case err != nil:
		return err
	}
	return v.render(status, "events", "Events", "/events", d)
}

func (a *Admin) fillEvents(v *view, d *eventsData, q audit.Query) error {
	page, err := a.cfg.Account.Events(v.c.Request().Context(), q)
	if err != nil {
		return err
	}
	d.Rows, d.Damaged = v.eventRows(page.Items), page.Damaged
	d.Indexed = indexed(d.Rows)
	if q.Cursor != "" {
		d.Newest = "/events?" + d.Self
	} else if len(page.Items) > 0 {
		d.Newer = "/events/newer?after=" + page.Items[0].Ref.String() + "&" + d.Self
	} else if d.Filter == "" {
		d.Newer = "/events/newer?after=0&" + d.Self
	}
	if page.Next != "" {
		next := d.Args.Values()
		next.Set("cursor", page.Next)
		d.Older = "/events?" + next.Encode()
		if len(page.Items) < q.Limit {
			d.Partial = "The page looked for a moment and stopped"
			if at, ok := q.LookedTo(page.Next); ok {
				d.Partial = "The page looked back to " + at.UTC().Format("2 Jan, 15:04:05") + " UTC"
			}
		}
	}
	if len(d.Rows) == 0 {
		d.Widen = widen(d.Args)
	}
	return nil
}

// findEvent goes to the one event that a ref or the provider's ID names.
func (a *Admin) findEvent(v *view, d eventsData) error {
	ref, err := a.resolve(v.c, d.Q, d.Args.Source)
	if err == nil {
		return seeOther(v.c, "/events/"+ref.String())
	}
	var several *audit.AmbiguousError
	switch {
	case errors.As(err, &several):
		for _, r := range several.Refs[:min(len(several.Refs), pageSize)] {
			if ev, err := a.cfg.Account.Get(v.c.Request().Context(), r); err == nil {
				d.Several = append(d.Several, v.eventRows([]Event{ev})...)
			}
		}
		d.Indexed = indexed(d.Several)
	case errors.Is(err, dedupe.ErrPruned):
		d.Wrong = "this event is gone: retention took it"
	case errors.Is(err, dedupe.ErrNotFound):
		d.Wrong = fmt.Sprintf("no event has the ref or provider's event ID %q", shown(d.Q))
	default:
		return err
	}
	return v.render(http.StatusOK, "events", "Events", "/events", d)
}

// eventRows are events as rows, with a row for each day before today.
func (v *view) eventRows(items []Event) []eventRow {
	out := make([]eventRow, 0, len(items))
	day := v.now.UTC().Format(time.DateOnly)
	for i := range items {
		ev := items[i]
		r := eventRow{Event: ev, Times: 1 + ev.Repeats + ev.Conflicts, Dls: stateGroups(ev.Deliveries)}
		if d := ev.ReceivedAt.Format(time.DateOnly); d != day {
			day, r.Day = d, ev.ReceivedAt.Format("Mon 2 Jan 2006")
		}
		out = append(out, r)
	}
	return out
}

// indexed reports whether any of the events has an indexed field.
func indexed(rows []eventRow) bool {
	return slices.ContainsFunc(rows, func(r eventRow) bool { return len(r.Index) > 0 })
}

// rowTargets is how many targets of a state a row names.
const rowTargets = 4

// stateGroups folds deliveries by state, the worst first.
func stateGroups(ds []Delivery) []stateGroup {
	var out []stateGroup
	for _, s := range []event.State{event.Dead, event.Leased, event.Pending, event.Cancelled, event.Delivered} {
		var names []string
		for _, d := range ds {
			if d.State == s {
				names = append(names, d.Target)
			}
		}
		if more := len(names) - rowTargets; more > 1 {
			names = append(names[:rowTargets], "and "+strconv.Itoa(more)+" more")
		}
		if len(names) > 0 {
			out = append(out, stateGroup{s.String(), strings.Join(names, ", ")})
		}
	}
	return out
}

// quick are links to what is open and what is dead now.
func (v *view) quick() []link {
	var out []link
	for i := range v.snap.targets {
		t := &v.snap.targets[i]
		if n := t.Pending + t.Leased; n > 0 {
			out = append(out, link{Text: count(n, "delivery") + " pending on " + t.Name, Href: "/events?" + url.Values{"target": {t.Name}, "status": {"pending"}}.Encode(), N: n})
		}
		if t.Dead > 0 {
			out = append(out, link{Text: grouped(t.Dead) + " dead on " + t.Name, Href: "/dead?target=" + url.QueryEscape(t.Name), N: t.Dead})
		}
	}
	slices.SortStableFunc(out, func(x, y link) int { return cmp.Compare(y.N, x.N) })
	return out[:min(len(out), 4)]
}

// filterWords is a filter as a person reads it.
func filterWords(a Filter) string {
	var out []string
	for _, name := range []string{"id", "where", "type", "source", "target", "status", "since", "from", "to"} {
		if s := a.Values().Get(name); s != "" {
			if t, err := time.Parse(time.RFC3339Nano, s); err == nil {
				s = t.UTC().Format("2006-01-02 15:04:05") + " UTC"
			}
			out = append(out, name+" = "+shown(s))
		}
	}
	return strings.Join(out, ", ")
}

// widen offers the nearest wider filters of one that found nothing.
func widen(a Filter) []link {
	var out []link
	drop := func(text string, change func(*Filter)) {
		b := a
		change(&b)
		if b != a {
			out = append(out, link{Text: text, Href: "/events?" + b.Values().Encode()})
		}
	}
	drop("drop the time", func(f *Filter) { f.Since, f.From, f.To = "", "", "" })
	drop("drop the state", func(f *Filter) { f.Status = "" })
	drop("drop the target", func(f *Filter) { f.Target = "" })
	drop("drop the field", func(f *Filter) { f.Where = "" })
	drop("drop the type", func(f *Filter) { f.Type = "" })
	drop("drop the source", func(f *Filter) { f.Source = "" })
	return out
}

// newerPart answers what the events page polls: how many events have come
// since it was made. It moves no rows.
func (a *Admin) newerPart(v *view) error {
	params := v.c.QueryParams()
	after, _ := event.ParseRef(params.Get("after")) // none: everything is newer
	args := eventArgs(params)
	q, err := args.Query(audit.KindEvents, v.now)
	if err != nil {
		return err
	}
	n, more, err := a.cfg.Account.Newer(v.c.Request().Context(), q, after)
	if err != nil {
		return err
	}
	text := ""
	switch {
	case more && n > 0:
		text = strconv.Itoa(n) + " or more newer"
	case more:
		text = "perhaps newer ones" // that many came and none of those looked at is one
	case n > 0:
		text = strconv.Itoa(n) + " newer"
	}
	v.c.Response().Header().Set("Content-Security-Policy", pagePolicy)
	return v.a.ui.part(v.c, "events", "newer", link{Text: text, Href: "/events?" + args.Values().Encode()})
}
