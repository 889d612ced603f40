package admin

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/onceward/onceward/audit"
	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

// replayData is a selection to send again, with what that would do.
type replayData struct {
	ID      string // one event, by its ref
	Args    Filter
	Only    string // target of the deliveries that are opened
	NewKey  bool
	Reroute bool
	Reason  string
	Rate    string // of a job; "" is as fast as it goes
	Job     bool   // it runs in the background
	Wrong   string // at the reason
	Problem string // of the selection
	What    string // the selection in words
	Count   *dedupe.ReplayCount
	Takes   string // about how long it takes at its rate
	Partial bool
	Done    bool
	Cursor  string
	Targets []string
	Sources []string
	CanRt   bool
}

// replayInput reads a selection from an address or a form.
func (v *view) replayInput(p url.Values) replayData {
	get := func(name string) string { return field(p, name) }
	d := replayData{ID: get("id"), Only: get("only"), NewKey: get("new_key") == "yes", Reroute: get("reroute") == "yes",
		Reason: get("reason"), Rate: get("rate"), Job: get("id") == "" && v.a.cfg.Jobs != nil, Cursor: get("cursor"), CanRt: v.a.cfg.Route != nil}
	d.Args = eventArgs(p)
	d.Args.ID, d.Args.State = "", get("state")
	for i := range v.snap.targets {
		d.Targets = append(d.Targets, v.snap.targets[i].Name)
	}
	for i := range v.snap.sources {
		d.Sources = append(d.Sources, v.snap.sources[i].Name)
	}
	var parts []string
	if d.ID != "" {
		parts = append(parts, "event "+shown(d.ID))
	}
	if w := filterWords(d.Args); w != "" {
		parts = append(parts, w)
	}
	if d.Args.State != "" {
		parts = append(parts, "state = "+shown(d.Args.State))
	}
	d.What = strings.Join(parts, ", ")
	return d
}

// replayPage shows what a replay would do. It changes nothing.
func (a *Admin) replayPage(v *view) error {
	d := v.replayInput(v.c.QueryParams())
	if d.ID == "" && d.Args.IsZero() {
		return v.render(http.StatusOK, "replay", "Replay", "/replays", d)
	}
	if err := a.runReplay(v, &d, true); err != nil {
		return err
	}
	status := http.StatusOK
	if d.Problem != "" {
		status = http.StatusBadRequest
	}
	return v.render(status, "replay", "Replay", "/replays", d)
}

// replayForm does what the page showed, once there is a reason.
func (a *Admin) replayForm(v *view) error {
	form, err := v.c.FormParams()
	if err != nil {
		return apiError(http.StatusBadRequest, CodeInvalid, "the form cannot be read")
	}
	d := v.replayInput(form)
	if d.Reason != "" && d.Job {
		err := a.startJobFrom(v, &d)
		var inv *audit.InvalidError
		if !errors.As(err, &inv) {
			return err
		}
		d.Wrong = inv.Problem
	}
	dry := d.Reason == "" || d.Wrong != ""
	if d.Reason == "" {
		d.Wrong = "Say in a few words why; the next person will read it."
	}
	if err := a.runReplay(v, &d, dry); err != nil {
		return err
	}
	status := http.StatusOK
	if d.Wrong != "" || d.Problem != "" {
		status = http.StatusBadRequest
	}
	return v.render(status, "replay", "Replay", "/replays", d)
}

func (a *Admin) runReplay(v *view, d *replayData, dry bool) error {
	req := ReplayRequest{ID: d.ID, Filter: d.Args, Target: d.Only, NewKey: d.NewKey, Reroute: d.Reroute, DryRun: dry}
	if !dry {
		req.Cursor = d.Cursor
	}
	about(v.c, req)
	if dry {
		unrecorded(v.c)
	}
	about(v.c, map[string]any{"id": d.ID, "filter": d.Args, "target": d.Only, "new_key": d.NewKey, "reroute": d.Reroute})
	r, err := a.replayOf(v.c, &req)
	var n dedupe.ReplayCount
	if err == nil {
		unhurried(v.c)
		r.By = dedupe.By{Actor: v.who.Name, Reason: d.Reason}
		n, err = a.cfg.Account.Replay(v.c.Request().Context(), r)
	}
	var inv *audit.InvalidError
	switch {
	case errors.As(err, &inv):
		d.Problem = inv.Problem
		return nil
	case errors.Is(err, dedupe.ErrNotFound), errors.Is(err, dedupe.ErrPruned):
		d.Problem = "no such event is kept"
		return nil
	case err != nil:
		return err
	}
	d.Count, d.Cursor, d.Partial, d.Done = &n, n.Next, n.Next != "", !dry
	if d.Job {
		d.Takes = takes(n.Opened, d.Rate, d.Partial)
	}
	if !dry {
		a.cfg.Log.Info("events replayed", "events", n.Events, "opened", n.Opened, "new_key", d.NewKey, "reroute", d.Reroute,
			"actor", v.who.Name, "reason", d.Reason, "complete", n.Next == "", "remote_ip", peerOf(v.c.Request()))
	}
	return nil
}

// usualRate is the rate of which a page says how long a replay takes when none is
// asked for.
const usualRate = "20/s"

// takes says about how long deliveries take at a rate.
func takes(deliveries int, rate string, more bool) string {
	as, given := rate, rate != ""
	if !given {
		as = usualRate
	}
	r, err := audit.ParseRate(as)
	if err != nil || r.Count == 0 || deliveries == 0 {
		return ""
	}
	took := time.Duration(float64(deliveries) / float64(r.Count) * float64(r.Per)).Round(time.Second)
	about := "about " + span(max(took, time.Second)) + " at " + as
	if more {
		about += " for these, longer for all"
	}
	if !given {
		about += "; without a rate as fast as the targets answer"
	}
	return about
}

// States are the states that a selection can be narrowed to.
func (d replayData) States() []string {
	return []string{event.Dead.String(), event.Delivered.String(), event.Cancelled.String()}
}

// Hidden are the fields of the selection that the form carries along.
func (d replayData) Hidden() map[string]string {
	out := map[string]string{}
	for name, vals := range d.Args.Values() {
		out[name] = vals[0]
	}
	if d.Only != "" {
		out["only"] = d.Only
	}
	return out
}

// WithReroute is the link to the same selection, to today's targets.
func (d replayData) WithReroute() string {
	p := d.Args.Values()
	for name, val := range map[string]string{"id": d.ID, "reroute": "yes"} {
		if val != "" {
			p.Set(name, val)
		}
	}
	return "/replay?" + p.Encode()
}
