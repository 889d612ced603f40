package admin

import (
	"cmp"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"strings"
	"time"
)

// figure is one of the four big numbers with its plot.
type figure struct {
	Label, Value, Unit, Note string
	Bad                      bool
	Plot                     template.HTML
}

// targetRow is a target as the tables show it.
type targetRow struct {
	Target
	Word, Class, Why string
	Share            string // of attempts that were answered well, 10 min
	P50, P99         string
	Oldest           string
	Concurrency      int
	Strip            template.HTML
	rank             int
}

// sourceRow is a source as the tables show it.
type sourceRow struct {
	Source
	Word, Class, Why                      string
	PerMin                                string
	Accepted, Repeats, Conflicts, Refused uint64
	rank                                  int
}

type overviewData struct {
	Heading string
	Say     string
	Range   string
	Ranges  []string
	Flow    []figure
	Targets []targetRow
	Sources []sourceRow
	Machine []Fact
	Empty   bool
	Try     string // what to send first
	Rewind  time.Time
}

// ranges are the spans that the plots of Overview can show: bars and minutes.
var ranges = map[string][2]int{"1 h": {60, 60}, "6 h": {72, 360}, "24 h": {72, 1440}}

func (a *Admin) overviewPage(v *view) error {
	r := v.c.QueryParam("range")
	if _, ok := ranges[r]; !ok {
		r = "6 h"
	}
	tr := v.troubles()
	d := overviewData{
		Range: r, Ranges: []string{"1 h", "6 h", "24 h"}, Targets: v.targetRows(72, 360), Sources: v.sourceRows(),
		Machine: v.machine(), Empty: v.snap.stats.Events == 0, Rewind: a.history.start,
	}
	d.Heading = heading(tr, v.snap.stats.Events == 0)
	if len(tr) > 0 && !slices.ContainsFunc(tr, func(t trouble) bool { return t.Word == "dead" || t.Word == "missing" }) {
		d.Heading += " Nothing is lost yet."
	}
	if len(tr) == 0 {
		d.Say = v.quietly()
	}
	if d.Empty {
		d.Try = "onceward trigger hello"
		if len(v.setup.Sources) > 0 {
			d.Try = "onceward trigger " + v.setup.Sources[0].Name
		}
	}
	d.Flow = v.flow(r)
	return v.render(http.StatusOK, "overview", d.Heading, "/", d)
}

func heading(tr []trouble, empty bool) string {
	bad := len(tr)
	switch {
	case bad == 0 && empty:
		return "Ready. Nothing has arrived yet."
	case bad == 0:
		return "All quiet. Nothing needs you."
	case bad == 1:
		return "1 thing needs you."
	}
	return fmt.Sprintf("%d things need you.", bad)
}

// quietly is the sentence of a page without trouble.
func (v *view) quietly() string {
	var pending int64
	var oldest time.Time
	for _, t := range v.snap.stats.Targets {
		pending += t.Pending + t.Leased
		if !t.Oldest.IsZero() && (oldest.IsZero() || t.Oldest.Before(oldest)) {
			oldest = t.Oldest
		}
	}
	s := fmt.Sprintf("%s, %s, %s pending", count(len(v.snap.sources), "source"), count(len(v.snap.targets), "target"), grouped(pending))
	if !oldest.IsZero() {
		s += ", the oldest " + span(v.now.Sub(oldest))
	}
	return s + "."
}

// flow is the four figures.
func (v *view) flow(r string) []figure {
	n, minutes := ranges[r][0], ranges[r][1]
	per := float64(minutes) / float64(n)
	h := v.a.history
	const requests, attempts = "onceward_ingest_requests_total", "onceward_deliveries_total"
	recent := func(family, b string) float64 { return float64(h.sum(family, "", b, 10)) / 10 }
	perMin := func(bars []float64) []float64 {
		for i := range bars {
			bars[i] /= per
		}
		return bars
	}
	plot := func(label, unit string, bars, bad []float64) template.HTML {
		return chart{height: 48, bars: bars, bad: bad, unit: unit, from: v.now.Add(-time.Duration(minutes) * time.Minute), to: v.now, ticks: 3,
			label: label + " over the last " + r + ": " + tell(bars, bad, unit)}.svg()
	}
	repeats := recent(requests, "repeat")
	accepted := figure{Label: "Accepted", Value: rate(recent(requests, "accepted")), Unit: "per min", Note: "and " + rate(repeats) + " repeats per min",
		Plot: plot("Accepted per minute", "/min", perMin(h.bars(requests, "", "accepted", n, minutes, false)), nil)}
	refusals := h.bars("onceward_ingest_refused_total", "", "", n, minutes, false)
	total := h.sum("onceward_ingest_refused_total", "", "", minutes)
	refused := figure{Label: "Refused", Value: grouped(int64(total)), Unit: "in " + r, Note: v.refusedBy(minutes), Bad: v.counts().Refused > 0,
		Plot: plot("Refused", "", make([]float64, n), refusals)}
	note := "no delivery in the last 10 min"
	if p50, ok := h.quantile("onceward_delivery_latency_seconds", "", 0.5, 10); ok {
		p99, _ := h.quantile("onceward_delivery_latency_seconds", "", 0.99, 10)
		note = "p50 " + roughly(p50) + ", p99 " + roughly(p99) + " after accept"
	}
	dead := h.bars(attempts, "", "dead", n, minutes, false)
	delivered := figure{Label: "Delivered", Value: rate(recent(attempts, "delivered")), Unit: "per min", Note: note,
		Plot: plot("Delivered per minute", "/min", perMin(h.bars(attempts, "", "delivered", n, minutes, false)), perMin(dead))}
	var open int64
	for _, t := range v.snap.stats.Targets {
		open += t.Pending + t.Leased
	}
	pending := figure{Label: "Pending", Value: grouped(open), Note: v.pendingBy(), Bad: v.counts().Failing > 0,
		Plot: plot("Pending", "", h.bars("onceward_delivery_pending", "", "", n, minutes, true), nil)}
	return []figure{accepted, refused, delivered, pending}
}

// tell says in words what bars show, for readers without eyes.
func tell(bars, bad []float64, unit string) string {
	top, last, sum := 0.0, 0.0, 0.0
	for i := range bars {
		x := bars[i]
		if i < len(bad) {
			x += bad[i]
		}
		top, last, sum = max(top, x), x, sum+x
	}
	if sum == 0 {
		return "none"
	}
	return fmt.Sprintf("at most %s%s, now %s%s", trimFloat(top), unit, trimFloat(last), unit)
}

// refusedBy names the sources that refused most.
func (v *view) refusedBy(minutes int) string {
	return v.most(func(add func(string, int64)) {
		for i := range v.snap.sources {
			name := v.snap.sources[i].Name
			add(name, int64(v.a.history.sum("onceward_ingest_refused_total", name, "", minutes)))
		}
		add("no source", int64(v.a.history.sum("onceward_ingest_refused_total", unknownSource, "", minutes)))
	}, "none refused")
}

// pendingBy names the targets that most waits for.
func (v *view) pendingBy() string {
	return v.most(func(add func(string, int64)) {
		for i := range v.snap.targets {
			t := &v.snap.targets[i]
			add(t.Name, t.Pending+t.Leased)
		}
	}, "nothing waits")
}

// most is "shopify 38, stripe 2".
func (v *view) most(each func(add func(string, int64)), nobody string) string {
	type part struct {
		name string
		n    int64
	}
	var parts []part
	each(func(name string, n int64) {
		if n > 0 {
			parts = append(parts, part{name, n})
		}
	})
	if len(parts) == 0 {
		return nobody
	}
	slices.SortStableFunc(parts, func(x, y part) int { return cmp.Compare(y.n, x.n) })
	var out []string
	for _, p := range parts[:min(len(parts), 2)] {
		out = append(out, p.name+" "+grouped(p.n))
	}
	if len(parts) > 2 {
		out = append(out, count(len(parts)-2, "other"))
	}
	return strings.Join(out, ", ")
}

// targetRows are all targets, worst first.
func (v *view) targetRows(n, minutes int) []targetRow {
	var out []targetRow
	for i := range v.snap.targets {
		out = append(out, v.targetRow(&v.snap.targets[i], n, minutes))
	}
	slices.SortStableFunc(out, func(x, y targetRow) int { return cmp.Compare(x.rank, y.rank) })
	return out
}

func (v *view) targetRow(t *Target, n, minutes int) targetRow {
	h := v.a.history
	r := targetRow{Target: *t, Word: "working", Class: "ok", rank: 5, Concurrency: v.setup.target(t.Name).Concurrency}
	switch {
	case t.Missing:
		r.Word, r.Class, r.Why, r.rank = "missing", "bad", "not in the config", 0
	case t.Paused:
		r.Word, r.Class, r.rank = "paused", "paused", 3
		if t.PausedBy != "" {
			r.Why = "by “" + t.PausedBy + "”"
		}
	case v.failing(t):
		r.Word, r.Class, r.Why, r.rank = "failing", "bad", v.mainOutcome(t.Name), 1
		if broken(t) {
			r.Why += ", breaker " + breakerWords(t.Breaker.State)
		}
	case t.Dead > 0:
		r.Word, r.Class, r.rank = grouped(t.Dead)+" dead", "bad", 2
	case t.LastSuccess.IsZero() && t.LastFailure.IsZero() && t.Pending == 0:
		r.Word, r.Class, r.rank = "idle", "off", 6
	}
	ok := h.sum("onceward_delivery_attempts_total", t.Name, "2xx", 10)
	r.Share = percent(ok, h.sum("onceward_delivery_attempts_total", t.Name, "", 10))
	if p50, any := h.quantile("onceward_delivery_attempt_duration_seconds", t.Name, 0.5, 10); any {
		p99, _ := h.quantile("onceward_delivery_attempt_duration_seconds", t.Name, 0.99, 10)
		r.P50, r.P99 = span(p50), span(p99)
	}
	if t.OldestAge > 0 {
		r.Oldest = span(time.Duration(t.OldestAge * float64(time.Second)).Round(time.Second))
	}
	r.Strip = strip(h.bars("onceward_target_breaker_open", t.Name, "", n, minutes, true), h.bars("onceward_target_paused", t.Name, "", n, minutes, true))
	return r
}

// sourceRows are all sources, worst first.
func (v *view) sourceRows() []sourceRow {
	h := v.a.history
	var out []sourceRow
	for _, s := range v.snap.sources {
		r := sourceRow{Source: s, Word: "working", Class: "ok", rank: 5}
		day := func(outcome string) uint64 {
			return h.sum("onceward_ingest_requests_total", s.Name, outcome, historyMinutes)
		}
		r.Accepted, r.Repeats, r.Conflicts = day("accepted"), day("repeat"), day("conflict")
		r.Refused = h.sum("onceward_ingest_refused_total", s.Name, "", historyMinutes)
		r.PerMin = rate(float64(h.sum("onceward_ingest_requests_total", s.Name, "accepted", 10)) / 10)
		refused, all := v.recent(s.Name)
		switch {
		case s.Offline != "":
			r.Word, r.Class, r.Why, r.rank = "offline", "bad", shown(s.Offline), 0
		case refused >= refusingLeast && float64(refused) >= refusingShare*float64(all):
			r.Word, r.Class, r.Why, r.rank = "refusing", "bad", v.mainReason(s.Name), 1
		case s.LastAccepted.IsZero():
			r.Word, r.Class, r.rank = "idle", "off", 6
		}
		out = append(out, r)
	}
	slices.SortStableFunc(out, func(x, y sourceRow) int {
		return cmp.Or(cmp.Compare(x.rank, y.rank), cmp.Compare(x.Name, y.Name))
	})
	return out
}

// machine is what is known of disk, ledger and program.
func (v *view) machine() []Fact {
	st := &v.snap.stats
	out := []Fact{{"Disk", bytesOf(st.SizeBytes) + " used, " + bytesOf(st.FreeBytes) + " free"}}
	if st.FreeBytes == 0 {
		out[0].Value = bytesOf(st.SizeBytes) + " used"
	}
	if p50, ok := v.a.history.quantile("onceward_store_sync_duration_seconds", "", 0.5, 10); ok {
		p99, _ := v.a.history.quantile("onceward_store_sync_duration_seconds", "", 0.99, 10)
		out = append(out, Fact{"Sync", "p50 " + span(p50) + ", p99 " + span(p99)})
	}
	out = append(out, Fact{"Ledger", count(st.Events, "event") + " in " + batches(st.Batches)})
	if v.setup.Hash != "" {
		out = append(out, Fact{"Config", v.setup.Hash[:min(8, len(v.setup.Hash))] + ", loaded " + v.setup.LoadedAt.UTC().Format("2 Jan 15:04:05")})
	}
	if len(v.snap.gateways) > 0 {
		out = append(out, Fact{"Gateways", v.fleetFact()})
	}
	version := v.a.cfg.Build.Version
	return append(out, Fact{"Version", version + ", up " + span(v.now.Sub(v.a.started).Round(time.Second))})
}

func batches(n uint64) string {
	if n == 1 {
		return "1 batch"
	}
	return grouped(int64(n)) + " batches"
}
