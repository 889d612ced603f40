package admin

import (
	"cmp"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// refusedRow is what one source refused for one reason.
type refusedRow struct {
	Source, Reason string
	Recent, Day    uint64
	Share          string
	Hot            bool
	First, Last    time.Time // of those remembered
	Href           string
}

type refusalsData struct {
	Rows     []refusedRow
	Latest   []Refusal
	Selected *refusalData
	Source   string
	Reason   string
	Self     string
	Start    time.Time
	Clear    bool
}

// Href is the link to one refusal, within the present selection.
func (d refusalsData) Href(id string) string {
	if d.Self == "" {
		return "/refusals?id=" + url.QueryEscape(id) + "#report"
	}
	return "/refusals?id=" + url.QueryEscape(id) + "&" + d.Self + "#report"
}

// refusalData is one refusal, explained.
type refusalData struct {
	Refusal
	Causes  []string
	Facts   []Fact
	Advice  []string // commands and acts, in order
	Setup   *SourceSetup
	Lines   []string
	Body    string // why none is shown
	Matched uint64 // requests that verified since the start
}

func (a *Admin) refusalsPage(v *view) error {
	p := v.c.QueryParams()
	d := refusalsData{Source: field(p, "source"), Reason: field(p, "reason"), Start: a.history.start}
	all := a.cfg.Receiver.Refusals(RefusalQuery{Limit: math.MaxInt})
	d.Rows = v.refusedRows(all)
	self := url.Values{}
	for name, val := range map[string]string{"source": d.Source, "reason": d.Reason} {
		if val != "" {
			self.Set(name, val)
			d.Clear = true
		}
	}
	d.Self = self.Encode()
	id := p.Get("id")
	for i := range all {
		r := &all[i]
		if (d.Source == "" || r.Source == d.Source) && (d.Reason == "" || r.Reason == d.Reason) && len(d.Latest) < pageSize {
			d.Latest = append(d.Latest, *r)
		}
		if r.ID == id {
			d.Selected = v.refusal(r)
		}
	}
	if d.Selected == nil && id == "" {
		d.Selected = v.worst(d.Rows, d.Latest)
	}
	return v.render(http.StatusOK, "refusals", "Refusals", "/refusals", d)
}

// worst explains the latest refusal of the source that refuses most, else the
// latest of all.
func (v *view) worst(rows []refusedRow, latest []Refusal) *refusalData {
	for _, row := range rows {
		for i := range latest {
			if row.Hot && latest[i].Source == row.Source && latest[i].Reason == row.Reason {
				return v.refusal(&latest[i])
			}
		}
	}
	if len(latest) == 0 {
		return nil
	}
	return v.refusal(&latest[0])
}

// refusedRows counts refusals by source and reason, those of now first.
func (v *view) refusedRows(all []Refusal) []refusedRow {
	h := v.a.history
	rows := map[[2]string]*refusedRow{}
	row := func(source, reason string) *refusedRow {
		key := [2]string{source, reason}
		if rows[key] == nil {
			rows[key] = &refusedRow{Source: source, Reason: reason}
		}
		return rows[key]
	}
	for i := range all {
		r := row(all[i].Source, all[i].Reason)
		if r.Last.IsZero() {
			r.Last = all[i].At
		}
		r.First = all[i].At
	}
	for i := range v.snap.sources {
		for reason, n := range h.totals("onceward_ingest_refused_total", v.snap.sources[i].Name) {
			if n > 0 {
				row(v.snap.sources[i].Name, reason)
			}
		}
	}
	var out []refusedRow
	for _, r := range rows {
		name := cmp.Or(r.Source, unknownSource)
		r.Recent = h.sum("onceward_ingest_refused_total", name, r.Reason, 10)
		r.Day = h.sum("onceward_ingest_refused_total", name, r.Reason, historyMinutes)
		_, judged := v.recent(name)
		r.Share = percent(r.Recent, judged)
		r.Hot = r.Source != "" && r.Recent >= refusingLeast && float64(r.Recent) >= refusingShare*float64(judged)
		r.Href = "/refusals?" + url.Values{"source": {r.Source}, "reason": {r.Reason}}.Encode()
		out = append(out, *r)
	}
	slices.SortFunc(out, func(x, y refusedRow) int {
		return cmp.Or(cmp.Compare(y.Recent, x.Recent), y.Last.Compare(x.Last), cmp.Compare(x.Source, y.Source), cmp.Compare(x.Reason, y.Reason))
	})
	return out
}

// refusal is one refusal with what can be said of it, as far as the reader's
// role goes.
func (v *view) refusal(r *Refusal) *refusalData {
	m := v.a.redactRefusal(maskRefusal(*r), v.who)
	d := &refusalData{Refusal: m, Setup: v.setup.source(r.Source)}
	switch {
	case !v.who.may(RoleOperator):
		d.Body = "Bodies need the role operator."
	case m.BodyOmitted:
		d.Body = "Not kept: in this scheme the body may hold a credential."
	case m.Body == "":
		d.Body = "Nothing was kept of it."
	default:
		text, _ := indentJSON(m.Body)
		d.Lines = strings.Split(shownLines(text), "\n")
		if int64(len(m.Body)) < m.BodyBytes {
			d.Body = "The first " + bytesOf(int64(len(m.Body))) + " of " + bytesOf(m.BodyBytes) + "."
		}
	}
	d.Refusal.Body = ""
	if v.a.cfg.Explain != nil {
		full := m
		if !v.who.may(RoleOperator) {
			full.Body = ""
		}
		e := v.a.cfg.Explain(full)
		d.Causes, d.Facts = e.Causes, e.Facts
	}
	for _, s := range v.snap.sources {
		if s.Name == r.Source {
			d.Matched = s.Counts["accepted"] + s.Counts["repeat"] + s.Counts["conflict"]
		}
	}
	if r.Source != "" {
		d.Advice = adviceFor(r)
	}
	return d
}

// adviceFor is what to do next about a refusal, as commands.
func adviceFor(r *Refusal) []string {
	out := []string{"onceward verify --explain --refusal " + r.ID}
	if strings.HasPrefix(r.Reason, "signature") {
		out = append(out, "onceward providers card "+r.Source, "onceward check && onceward reload")
	}
	return out
}

// unknownSource is the metrics' label of requests that no source has the path
// of.
const unknownSource = "_unknown"
