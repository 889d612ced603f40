package admin

import (
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/onceward/onceward/audit"
)

// jobRow is one replay in the background.
type jobRow struct {
	Job
	What string
	Bar  template.HTML
	Left string // how long it still takes, "" where nobody knows
}

// Ended reports whether the job does no more.
func (r jobRow) Ended() bool { return !r.EndedAt.IsZero() }

// Class is the shape and colour of the job's state.
func (r jobRow) Class() string {
	switch {
	case r.State == audit.JobCancelled:
		return "off"
	case r.Ended() && r.Error != "":
		return "bad"
	case r.Ended():
		return "ok"
	}
	return "flight"
}

// transferRow is one backup or export.
type transferRow struct {
	Transfer
	Class, State string // shape and words
	Done         string // how much of how much
	Speed        string
	Left         string
}

func transferRows(all []Transfer) (out []transferRow, busy bool) {
	for _, t := range all {
		r := transferRow{Transfer: t, Class: "flight", State: "under way", Done: bytesOf(t.Bytes)}
		switch {
		case t.Whole:
			r.Class, r.State = "ok", "done"
		case !t.EndedAt.IsZero():
			r.Class, r.State = "bad", "cut"
			if t.Kind == TransferEvents {
				r.Class, r.State = "off", "left off"
			}
		default:
			busy = true
		}
		if t.Kind == TransferEvents {
			r.Done = count(t.Events, "event")
			if t.Total > 0 && t.EndedAt.IsZero() {
				r.Done += " of about " + grouped(t.Total)
			}
			r.Speed = grouped(int64(t.Rate)) + "/s"
		} else {
			if t.Total > 0 && t.EndedAt.IsZero() {
				r.Done += " of about " + bytesOf(t.Total)
			}
			r.Speed = bytesOf(int64(t.Rate)) + "/s"
		}
		if t.LeftSeconds != nil {
			r.Left = span(time.Duration(*t.LeftSeconds) * time.Second)
		}
		out = append(out, r)
	}
	return out, busy
}

type jobsData struct {
	Rows   []jobRow
	Moves  []transferRow
	None   bool // the gateway runs no jobs
	Busy   bool // one is under way: the list looks again by itself
	Ask    string
	Reason string
	Wrong  string
}

func (v *view) jobs() (jobsData, error) {
	d := jobsData{None: v.a.cfg.Jobs == nil}
	d.Moves, d.Busy = transferRows(v.a.transfers.all())
	if d.None {
		return d, nil
	}
	all, err := v.a.cfg.Jobs.List(v.c.Request().Context())
	if err != nil {
		return d, err
	}
	for _, j := range all {
		r := jobRow{Job: viewJob(j), What: jobWords(&j)}
		r.Bar = progress(&j)
		if left, ok := j.Left(); ok && !r.Ended() {
			r.Left = span(left.Round(1e9))
		}
		d.Busy = d.Busy || !r.Ended()
		d.Rows = append(d.Rows, r)
	}
	return d, nil
}

// jobWords is what a job selects and how.
func jobWords(j *audit.Job) string {
	parts := []string{filterWords(j.Filter)}
	if j.Filter.State != "" {
		parts = append(parts, "state = "+shown(j.Filter.State))
	}
	if j.Target != "" {
		parts = append(parts, "only to "+j.Target)
	}
	if j.Reroute {
		parts = append(parts, "to today's routes")
	}
	if j.NewKey {
		parts = append(parts, "with new keys")
	}
	if j.Rate.Count > 0 {
		parts = append(parts, "at most "+j.Rate.String())
	}
	var out []string
	for _, p := range parts {
		if p != "" {
			out = append(out, p)
		}
	}
	return strings.Join(out, ", ")
}

// progress is how much of a job is done, as a bar.
func progress(j *audit.Job) template.HTML {
	done := 0.0
	if j.Total != nil && j.Total.Opened > 0 {
		done = 100 * float64(j.Opened) / float64(j.Total.Opened)
	} else if !j.EndedAt.IsZero() {
		done = 100
	}
	return bar(done)
}

// bar is how much of something is done, of 100.
func bar(done float64) template.HTML {
	return template.HTML(fmt.Sprintf(`<svg class="strip" role="img" aria-label="%.0f per cent done"><line class="c-axis" x1="0" x2="100%%" y1="7" y2="7"/><rect class="c-n" x="0" y="4" width="%.1f%%" height="6"/></svg>`,
		min(done, 100), min(done, 100)))
}

func (a *Admin) jobsPage(v *view) error {
	d, err := v.jobs()
	if err != nil {
		return err
	}
	d.Ask = field(v.c.QueryParams(), "cancel")
	return v.render(http.StatusOK, "replays", "Replays", "/replays", d)
}

// jobsPart is the list alone, for the page that looks again by itself.
func (a *Admin) jobsPart(v *view) error {
	d, err := v.jobs()
	if err != nil {
		return err
	}
	v.c.Response().Header().Set("Content-Security-Policy", pagePolicy)
	return a.ui.part(v.c, "replays", "jobs", &frame{Who: v.who, Now: v.now.UTC(), Data: d})
}

func (a *Admin) jobCancelForm(v *view) error {
	p, err := v.c.FormParams()
	if err != nil {
		return apiError(http.StatusBadRequest, CodeInvalid, "the form cannot be read")
	}
	if a.cfg.Jobs == nil {
		return errNoJobs
	}
	by, wrong := v.reasonOf(p)
	if wrong != "" {
		d, err := v.jobs()
		if err != nil {
			return err
		}
		d.Ask, d.Wrong = field(p, "id"), wrong
		return v.render(http.StatusBadRequest, "replays", "Replays", "/replays", d)
	}
	about(v.c, map[string]string{"id": field(p, "id")})
	if _, err := a.cfg.Jobs.Cancel(v.c.Request().Context(), field(p, "id"), by); err != nil {
		return err
	}
	a.cfg.Log.Info("replay cancelled", "job", field(p, "id"), "actor", by.Actor, "reason", by.Reason, "remote_ip", peerOf(v.c.Request()))
	return seeOther(v.c, "/replays")
}

// startJobFrom begins a job of the selection that the page showed.
func (a *Admin) startJobFrom(v *view, d *replayData) error {
	req := ReplayRequest{Filter: d.Args, Target: d.Only, NewKey: d.NewKey, Reroute: d.Reroute}
	about(v.c, req)
	r, err := a.replayOf(v.c, &req)
	if err != nil {
		return err
	}
	if r.By, err = byOf(v.c, d.Reason); err != nil {
		return err
	}
	rate, err := audit.ParseRate(d.Rate)
	if err != nil {
		return err
	}
	j, err := a.cfg.Jobs.Start(v.c.Request().Context(), d.Args, r, rate)
	if err != nil {
		return err
	}
	a.cfg.Log.Info("replay started", "job", j.ID, "actor", r.By.Actor, "reason", r.By.Reason, "remote_ip", peerOf(v.c.Request()))
	return seeOther(v.c, "/replays#"+url.PathEscape(j.ID))
}
