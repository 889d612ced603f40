package admin

import (
	"context"
	"errors"
	"html/template"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Sources, targets and the configuration: what is set, and how it does.

// secretRow is one secret of a source, by its label.
type secretRow struct {
	SecretSetup
	Used  uint64    // requests it verified since the start
	Last  time.Time // when it last did
	State string
	Class string
	Since time.Time // from when on it is known to be what it is; zero when nothing says so
	By    string    // what says so
}

type sourceData struct {
	sourceRow
	Setup   *SourceSetup
	Secrets []secretRow
	Counts  []Fact
	Sends   []string
	Plot    template.HTML
}

type sourcesData struct {
	Rows     []sourceRow
	Selected *sourceData
}

func (a *Admin) sourcesPage(v *view) error {
	d := sourcesData{Rows: v.sourceRows()}
	name := v.c.QueryParam("name")
	for i := range d.Rows {
		if d.Rows[i].Name == name || name == "" && i == 0 {
			d.Selected = v.sourceData(&d.Rows[i])
		}
	}
	if name != "" && d.Selected == nil {
		return apiError(http.StatusNotFound, CodeNotFound, "no source is called %q", shown(name))
	}
	return v.render(http.StatusOK, "sources", "Sources", "/sources", d)
}

func (v *view) sourceData(r *sourceRow) *sourceData {
	h := v.a.history
	d := &sourceData{sourceRow: *r, Setup: v.setup.source(r.Name)}
	used := h.totals("onceward_verify_secret_used_total", r.Name)
	for _, s := range d.Setup.Secrets {
		row := secretRow{SecretSetup: s, Used: used[s.ID], Last: h.grew("onceward_verify_secret_used_total", r.Name, s.ID), State: "in force", Class: "ok"}
		switch {
		case s.Missing:
			row.State, row.Class = "not set", "bad"
		case !s.NotBefore.IsZero() && v.now.Before(s.NotBefore):
			row.State, row.Class = "not yet", "off"
		case !s.NotAfter.IsZero() && !v.now.Before(s.NotAfter):
			row.State, row.Class = "over", "off"
		}
		row.Since, row.By = s.since(v.now)
		d.Secrets = append(d.Secrets, row)
	}
	for _, t := range d.Setup.Targets {
		d.Sends = append(d.Sends, t+": everything")
	}
	for _, t := range d.Setup.Routes {
		what := "everything"
		if len(t.Types) > 0 {
			what = strings.Join(t.Types, ", ")
		}
		d.Sends = append(d.Sends, t.Target+": "+what)
	}
	d.Plot = chart{height: 48, from: v.now.Add(-24 * time.Hour), to: v.now, ticks: 5, label: "Requests over 24 hours",
		bars: h.bars("onceward_ingest_requests_total", r.Name, "accepted", 96, historyMinutes, false),
		bad:  h.bars("onceward_ingest_refused_total", r.Name, "", 96, historyMinutes, false), unit: " per 15 min"}.svg()
	return d
}

type outcomeRow struct {
	Outcome     string
	Class       string
	Recent, Day uint64
	Total       uint64
}

type targetData struct {
	targetRow
	Setup    *TargetSetup
	Outcomes []outcomeRow
	Plot     template.HTML
	Waiting  []Delivery
	DeadAt   []time.Time
	Turns    []BreakerChange // of the breaker, newest first
}

type targetsData struct {
	Rows     []targetRow
	Selected *targetData
}

func (a *Admin) targetsPage(v *view) error {
	d := targetsData{Rows: v.targetRows(96, historyMinutes)}
	name := v.c.QueryParam("name")
	for i := range d.Rows {
		if d.Rows[i].Name == name || name == "" && i == 0 {
			d.Selected = v.targetData(&d.Rows[i])
		}
	}
	if name != "" && d.Selected == nil {
		return apiError(http.StatusNotFound, CodeNotFound, "no target is called %q", shown(name))
	}
	return v.render(http.StatusOK, "targets", "Targets", "/targets", d)
}

func (v *view) targetData(r *targetRow) *targetData {
	h := v.a.history
	d := &targetData{targetRow: *r, Setup: v.setup.target(r.Name)}
	for i := len(r.Breaker.History) - 1; i >= 0 && len(d.Turns) < 6; i-- {
		d.Turns = append(d.Turns, r.Breaker.History[i])
	}
	const attempts = "onceward_delivery_attempts_total"
	ok, all := h.bars(attempts, r.Name, "2xx", 96, historyMinutes, false), h.bars(attempts, r.Name, "", 96, historyMinutes, false)
	for i := range all {
		all[i] -= ok[i]
	}
	d.Plot = chart{height: 64, bars: ok, bad: all, unit: " per 15 min", from: v.now.Add(-24 * time.Hour), to: v.now, ticks: 5,
		label: "Attempts over 24 hours: " + tell(ok, all, " per 15 min")}.svg()
	for outcome, n := range h.totals(attempts, r.Name) {
		if n == 0 && outcome != "2xx" {
			continue
		}
		row := outcomeRow{Outcome: outcome, Class: "bad", Recent: h.sum(attempts, r.Name, outcome, 10), Day: h.sum(attempts, r.Name, outcome, historyMinutes), Total: n}
		if outcome == "2xx" {
			row.Class = "ok"
		}
		d.Outcomes = append(d.Outcomes, row)
	}
	slices.SortFunc(d.Outcomes, func(x, y outcomeRow) int {
		if c := int(y.Total) - int(x.Total); c != 0 {
			return c
		}
		return strings.Compare(x.Outcome, y.Outcome)
	})
	if r.Pending+r.Leased > 0 {
		d.waiting(v)
	}
	return d
}

// waiting lists what waits for the target, as far as a page may look.
func (d *targetData) waiting(v *view) {
	q, err := Filter{Target: d.Name, State: "pending"}.Query("deliveries", v.now)
	if err != nil {
		return
	}
	q.Limit, q.Budget, q.PastDamage = 10, pageBudget/2, true
	page, err := v.a.cfg.Account.Deliveries(v.c.Request().Context(), q)
	if err != nil {
		return // the counts above say how many there are; this list only helps
	}
	d.Waiting = page.Items
	for _, dl := range d.Waiting {
		var at time.Time
		if d.Setup.GiveUp > 0 {
			at = dl.OpenedAt.Add(d.Setup.GiveUp)
		}
		d.DeadAt = append(d.DeadAt, at)
	}
}

type configData struct {
	Setup
	Lines  []string
	Done   bool
	Warned []Fault
	Failed string
	Bad    []Fault
}

func (a *Admin) configPage(v *view) error { return v.config(http.StatusOK, configData{}) }

func (v *view) config(status int, d configData) error {
	if v.a.cfg.Setup != nil {
		d.Setup = v.a.cfg.Setup() // anew: a reload may have changed it
	}
	d.Lines = strings.Split(shownLines(strings.TrimSuffix(d.Text, "\n")), "\n")
	v.setup = d.Setup
	return v.render(status, "config", "Config", "/config", d)
}

// reloadForm reads the configuration again and shows what came of it.
func (a *Admin) reloadForm(v *view) error {
	if !a.reloading.TryLock() {
		return apiError(http.StatusConflict, CodeBusy, "a reload is under way")
	}
	defer a.reloading.Unlock()
	unhurried(v.c)
	a.cfg.Log.Info("reload asked for", "actor", v.who.Name, "remote_ip", peerOf(v.c.Request()))
	faults, err := a.cfg.Reload(context.WithoutCancel(v.c.Request().Context()))
	if err != nil {
		d := configData{Failed: "The config was not loaded; the one before is still running.", Bad: faults}
		if len(faults) == 0 {
			d.Failed += " " + errors.Unwrap(errors.Join(err, nil)).Error()
		}
		return v.config(http.StatusBadRequest, d)
	}
	return v.config(http.StatusOK, configData{Done: true, Warned: faults})
}

type sourceTestData struct {
	Name    string
	Targets []string
	Done    bool
	Result  SourceTest
}

func (a *Admin) sourceTestPage(v *view) error {
	d, err := v.sourceTest(v.c.QueryParam("name"))
	if err != nil {
		return err
	}
	return v.render(http.StatusOK, "sourcetest", "Send a test", "/sources", d)
}

// sourceTest finds a source and the targets that a test event of it may reach.
func (v *view) sourceTest(name string) (sourceTestData, error) {
	d := sourceTestData{Name: name}
	if v.a.cfg.SendTest == nil || !slices.ContainsFunc(v.snap.sources, func(s Source) bool { return s.Name == name }) {
		return d, apiError(http.StatusNotFound, CodeNotFound, "no source is called %q, or this gateway can't test it", shown(name))
	}
	s := v.setup.source(name)
	d.Targets = slices.Clone(s.Targets)
	for _, r := range s.Routes {
		d.Targets = append(d.Targets, r.Target)
	}
	slices.Sort(d.Targets)
	d.Targets = slices.Compact(d.Targets)
	return d, nil
}

func (a *Admin) sourceTestForm(v *view) error {
	d, err := v.sourceTest(v.c.FormValue("name"))
	if err != nil {
		return err
	}
	about(v.c, map[string]string{"source": d.Name})
	unhurried(v.c)
	if d.Result, err = a.cfg.SendTest(v.c.Request().Context(), d.Name); err != nil {
		return err
	}
	d.Done = true
	a.cfg.Log.Info("source tested", "source", d.Name, "status", d.Result.Status, "actor", v.who.Name, "remote_ip", peerOf(v.c.Request()))
	return v.render(http.StatusOK, "sourcetest", "Test of "+d.Name, "/sources", d)
}
