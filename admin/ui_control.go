package admin

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/onceward/onceward/audit"
	"github.com/onceward/onceward/dedupe"
)

// Acts on targets and dead letters, as forms with a reason.

// controlActs are what can be done about a target.
var controlActs = map[string]controlAct{
	"pause": {"Pause", "paused", "Attempts stop; what waits stays pending, and its give-up clock stands still for at most 14 days. " +
		"Attempts under way end as they do. Other targets are not touched.", Controller.Pause},
	"resume": {"Resume", "resumed", "Attempts go on, the oldest first.", Controller.Resume},
	"drain": {"Drain", "drained", "The target is paused, and this waits up to a minute until no attempt is under way: then it can be " +
		"taken down without cutting one.", Controller.Drain},
}

type controlAct struct {
	Verb, done, What string
	do               func(Controller, context.Context, string, dedupe.By) error
}

type controlData struct {
	Name   string
	Do     string
	Act    controlAct
	Reason string
	Wrong  string
	Target Target
}

func (a *Admin) controlPage(v *view) error { return v.askControl(http.StatusOK, v.c.QueryParams(), "") }

func (v *view) askControl(status int, p url.Values, wrong string) error {
	d := controlData{Name: field(p, "name"), Do: field(p, "do"), Reason: field(p, "reason"), Wrong: wrong}
	var ok bool
	if d.Act, ok = controlActs[d.Do]; !ok {
		return apiError(http.StatusNotFound, CodeNotFound, "there is no such act: want pause, resume or drain")
	}
	for i := range v.snap.targets {
		if v.snap.targets[i].Name == d.Name {
			d.Target = v.snap.targets[i]
			return v.render(status, "control", d.Act.Verb+" "+d.Name, "/targets", d)
		}
	}
	return apiError(http.StatusNotFound, CodeNotFound, "no target is called %q", d.Name)
}

// reasonOf is the reason of a form, and what is wrong with it.
func (v *view) reasonOf(p url.Values) (dedupe.By, string) {
	reason := field(p, "reason")
	if reason == "" {
		return dedupe.By{}, "Say in a few words why; the next person will read it."
	}
	by, err := byOf(v.c, reason)
	if err != nil {
		return by, asAPIError(err).Message
	}
	return by, ""
}

func (a *Admin) controlForm(v *view) error {
	p, err := v.c.FormParams()
	if err != nil {
		return apiError(http.StatusBadRequest, CodeInvalid, "the form cannot be read")
	}
	by, wrong := v.reasonOf(p)
	act, ok := controlActs[field(p, "do")]
	if wrong != "" || !ok {
		return v.askControl(http.StatusBadRequest, p, wrong)
	}
	if a.cfg.Control == nil {
		return apiError(http.StatusNotFound, CodeNotFound, "this gateway has no targets to control")
	}
	name := field(p, "name")
	about(v.c, map[string]string{"target": name, "do": field(p, "do")})
	unhurried(v.c)
	ctx, cancel := context.WithTimeout(v.c.Request().Context(), defaultDrain)
	defer cancel()
	err = act.do(a.cfg.Control, ctx, name, by)
	if errors.Is(err, context.DeadlineExceeded) {
		return apiError(http.StatusConflict, CodeBusy, "target %q is paused, but attempts are still under way after a minute", name)
	}
	if err != nil {
		return err
	}
	a.cfg.Log.Info("target "+act.done, "target", name, "actor", by.Actor, "reason", by.Reason, "remote_ip", peerOf(v.c.Request()))
	return seeOther(v.c, "/targets?name="+url.QueryEscape(name)+"#target")
}

// targetTestForm sends one test request and shows what it found.
func (a *Admin) targetTestForm(v *view) error {
	if a.cfg.TestTarget == nil {
		return apiError(http.StatusNotFound, CodeNotFound, "this gateway can't test targets")
	}
	unhurried(v.c)
	about(v.c, map[string]string{"target": v.c.FormValue("name")})
	t, err := a.cfg.TestTarget(v.c.Request().Context(), v.c.FormValue("name"))
	if err != nil {
		return err
	}
	t.Response = audit.MaskResponse([]byte(t.Response))
	a.cfg.Log.Info("target tested", "target", t.Target, "outcome", t.Outcome, "status", t.Status, "actor", v.who.Name, "remote_ip", peerOf(v.c.Request()))
	return v.render(http.StatusOK, "targettest", "Test of "+t.Target, "/targets", t)
}

// dropData is a selection of dead letters to be taken off the list.
type dropData struct {
	Target string
	ID     string
	Reason string
	Wrong  string
	N      int
	More   bool
	Done   bool
}

func (a *Admin) dropPage(v *view) error {
	return a.drop(v, http.StatusOK, v.c.QueryParams(), dedupe.By{Actor: v.who.Name}, "", true)
}

func (a *Admin) dropForm(v *view) error {
	p, err := v.c.FormParams()
	if err != nil {
		return apiError(http.StatusBadRequest, CodeInvalid, "the form cannot be read")
	}
	by, wrong := v.reasonOf(p)
	if wrong != "" {
		return a.drop(v, http.StatusBadRequest, p, by, wrong, true)
	}
	return a.drop(v, http.StatusOK, p, by, "", false)
}

func (a *Admin) drop(v *view, status int, p url.Values, by dedupe.By, wrong string, dry bool) error {
	d := dropData{Target: field(p, "target"), ID: field(p, "id"), Reason: field(p, "reason"), Wrong: wrong}
	req := DropRequest{ID: d.ID, Target: d.Target, Reason: "dry run", DryRun: dry}
	if d.ID == "" {
		req.Target, req.Filter = "", Filter{Target: d.Target, State: "dead"}
	}
	if !dry {
		req.Reason = by.Reason
	}
	r, err := a.dropOf(v.c, &req)
	if err != nil {
		return err
	}
	if dry {
		unrecorded(v.c)
	}
	about(v.c, map[string]string{"target": d.Target, "id": d.ID})
	unhurried(v.c)
	n, err := a.cfg.Account.Drop(v.c.Request().Context(), r)
	if err != nil {
		return err
	}
	d.N, d.More, d.Done = n.Dropped, n.Next != "", !dry
	if !dry {
		a.cfg.Log.Info("dead letters dropped", "target", d.Target, "deliveries", n.Dropped, "actor", by.Actor, "reason", by.Reason,
			"complete", n.Next == "", "remote_ip", peerOf(v.c.Request()))
	}
	return v.render(status, "drop", "Drop dead letters", "/dead", d)
}

// breakerWords is a breaker's state as people say it.
func breakerWords(state string) string { return strings.ReplaceAll(state, "_", "-") }
