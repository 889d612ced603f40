package admin

import (
	"fmt"
	"html/template"
	"math"
	"strings"
	"time"
)

// The charts are SVG made here: x in per cent and y in pixels, so that text is
// never scaled. They are made of numbers and of words of our own; a title that
// may hold a name from outside is escaped.

// chart is bars over time on one axis.
type chart struct {
	height int       // of the plot, without its labels
	bars   []float64 // normal, grey
	bad    []float64 // trouble, on top, red
	label  string    // what a reader without eyes is told
	unit   string    // after the maximum, "" for none
	from   time.Time
	to     time.Time
	ticks  int
}

// niceMax is the next round number at or above v.
func niceMax(v float64) float64 {
	if v <= 0 {
		return 1
	}
	mag := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10} {
		if v <= m*mag*(1+1e-9) {
			return m * mag
		}
	}
	return 10 * mag
}

func (c chart) svg() template.HTML {
	top := 0.0
	for i := range c.bars {
		v := c.bars[i]
		if i < len(c.bad) {
			v += c.bad[i]
		}
		top = max(top, v)
	}
	top = niceMax(top)
	h := c.height
	var b strings.Builder
	fmt.Fprintf(&b, `<svg class="plot" height="%d" role="img" aria-label="%s"><text x="100%%" y="10" text-anchor="end">%s</text>`,
		h+36, template.HTMLEscapeString(c.label), template.HTMLEscapeString(trimFloat(top)+c.unit))
	b.WriteString(`<line class="c-axis" x1="0" x2="100%" y1="15.5" y2="15.5"/>`)
	fmt.Fprintf(&b, `<svg y="16" width="100%%" height="%d" viewBox="0 0 %d %d" preserveAspectRatio="none">`, h, max(1, len(c.bars)), h)
	base := make([]float64, len(c.bars))
	fmt.Fprintf(&b, `<path class="c-n" d="%s"/>`, barPath(c.bars, base, top, h))
	if len(c.bad) > 0 {
		fmt.Fprintf(&b, `<path class="c-bad" d="%s"/>`, barPath(c.bad, c.bars, top, h))
	}
	fmt.Fprintf(&b, `</svg><line class="c-base" x1="0" x2="100%%" y1="%d.5" y2="%d.5"/>`, h+16, h+16)
	c.axis(&b, h+31)
	b.WriteString(`</svg>`)
	return template.HTML(b.String())
}

// axis writes the times below the plot.
func (c chart) axis(b *strings.Builder, y int) {
	n := max(2, c.ticks)
	for i := range n {
		t := c.from.Add(c.to.Sub(c.from) * time.Duration(i) / time.Duration(n-1)).UTC()
		layout, anchor, class := "15:04", ` text-anchor="middle"`, ""
		switch {
		case i == 0 && c.to.Sub(c.from) > 12*time.Hour:
			layout, anchor = "Mon 15:04", ""
		case i == 0:
			anchor = ""
		case i == n-1:
			anchor = ` text-anchor="end"`
		case n == 3 || i%2 == 1:
			class = ` class="tick2"`
		}
		fmt.Fprintf(b, `<text%s x="%s%%" y="%d"%s>%s</text>`, class, trimFloat(100*float64(i)/float64(n-1)), y, anchor, t.Format(layout))
	}
}

// barPath is the outline of bars that stand on others.
func barPath(bars, on []float64, top float64, h int) string {
	var b strings.Builder
	for i, v := range bars {
		if v <= 0 {
			continue
		}
		foot := float64(h) * (1 - on[i]/top)
		height := max(float64(h)*v/top, 1) // what happened is seen
		head := max(foot-height, 0)
		fmt.Fprintf(&b, "M%d %sh.8V%sh-.8z", i, trimFloat(head), trimFloat(foot))
	}
	return b.String()
}

// trimFloat is a number with at most one decimal.
func trimFloat(v float64) string {
	if v >= 1000 {
		return grouped(int64(v))
	}
	if v < 1 && v > 0 {
		return strings.TrimRight(fmt.Sprintf("%.2f", v), "0")
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", v), ".0")
}

// strip is a target's gates over time: a line, full red where the breaker was
// open, half amber where it let probes through, grey where it was paused.
func strip(open, paused []float64) template.HTML {
	var b strings.Builder
	b.WriteString(`<svg class="strip" aria-hidden="true"><line class="c-wait" x1="0" x2="100%" y1="11" y2="11"/>`)
	n := float64(max(1, len(open)))
	runs := func(v []float64, hit func(float64) bool, class string, y, h int) {
		for i := 0; i < len(v); i++ {
			if !hit(v[i]) {
				continue
			}
			j := i
			for j < len(v) && hit(v[j]) {
				j++
			}
			fmt.Fprintf(&b, `<rect class="%s" x="%.1f%%" y="%d" width="%.1f%%" height="%d"/>`, class, 100*float64(i)/n, y, 100*float64(j-i)/n, h)
			i = j
		}
	}
	runs(paused, func(v float64) bool { return v > 0 }, "c-n", 5, 6)
	runs(open, func(v float64) bool { return v > 0 && v < 1 }, "c-warn", 7, 5)
	runs(open, func(v float64) bool { return v >= 1 }, "c-bad", 2, 10)
	b.WriteString(`</svg>`)
	return template.HTML(b.String())
}

// Timeline: every receipt and attempt of one event, to scale.

// mark is one thing that happened on a lane.
type mark struct {
	at    time.Time
	until time.Time // of an attempt that took its time; zero for a moment
	kind  string    // in, again, diff, ok, fail, next
	title string
}

// lane is one row of a timeline.
type lane struct {
	name, note string
	hot        bool
	marks      []mark
	waits      [][2]time.Time // drawn as a thin line
	held       [][2]time.Time // drawn hatched
}

type timeline struct {
	from, now time.Time
	lanes     []lane
}

// panel is a part of the time axis with its own linear scale.
type panel struct {
	x, width   float64 // of the whole, in per cent
	start, end time.Duration
}

const firstPanel = 10 * time.Second

// panels splits the axis in two where the story is much longer than its
// beginning: linear both, never logarithmic.
func (tl timeline) panels() []panel {
	end := tl.end()
	if end <= 6*firstPanel {
		return []panel{{0.5, 98.5, 0, niceSpan(end)}}
	}
	return []panel{{0.5, 40, 0, firstPanel}, {44, 55, firstPanel, firstPanel + niceSpan(end-firstPanel)}}
}

func (tl timeline) end() time.Duration {
	end := tl.now.Sub(tl.from)
	open := false
	last := time.Duration(0)
	for _, l := range tl.lanes {
		for _, m := range l.marks {
			last = max(last, m.at.Sub(tl.from), m.until.Sub(tl.from))
		}
		for _, w := range l.waits {
			open = open || !w[1].Before(tl.now)
			last = max(last, w[1].Sub(tl.from))
		}
		for _, w := range l.held {
			last = max(last, w[1].Sub(tl.from))
		}
	}
	if !open { // all is over: the axis ends with what happened
		end = last
	}
	return max(end, last, 100*time.Millisecond)
}

// niceSpan is the next round length of an axis.
func niceSpan(d time.Duration) time.Duration {
	for _, s := range []time.Duration{
		100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second,
		20 * time.Second, 30 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 25 * time.Minute,
		time.Hour, 2 * time.Hour, 4 * time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour, 48 * time.Hour, 72 * time.Hour, 96 * time.Hour,
	} {
		if d <= s {
			return s
		}
	}
	return (d/(7*24*time.Hour) + 1) * 7 * 24 * time.Hour
}

const (
	laneHeight = 46
	laneTop    = 50
)

func (tl timeline) svg() template.HTML {
	height := laneTop + laneHeight*len(tl.lanes) - 8
	var b strings.Builder
	fmt.Fprintf(&b, `<svg class="plot" height="%d" role="img" aria-labelledby="tl-d"><defs>`, height)
	b.WriteString(`<pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><line class="c-hatch" x1="0" x2="0" y1="0" y2="6"/></pattern>` +
		`<g id="m-fail"><path class="c-x" d="M-4-4 4 4M4-4-4 4"/></g><g id="m-ok"><circle class="c-ok" r="5"/></g>` +
		`<g id="m-in"><path class="c-n" d="M-4-6 6 0-4 6z"/></g><g id="m-diff"><path class="c-warn" d="M0-6 6 5H-6z"/></g>` +
		`<g id="m-again"><path class="c-n2" d="M-4-6 6 0-4 6z"/></g><g id="m-next"><circle class="c-ring" r="4.5"/></g></defs>`)
	for _, p := range tl.panels() {
		tl.panelSVG(&b, p, height-18)
	}
	for i, l := range tl.lanes {
		class := "dim"
		if l.hot {
			class = "hot"
		}
		fmt.Fprintf(&b, `<text class="lane" x="0" y="%d">%s<tspan class="%s" dx="8">%s</tspan></text>`,
			laneTop-14+laneHeight*i, template.HTMLEscapeString(shown(l.name)), class, template.HTMLEscapeString(shown(l.note)))
	}
	b.WriteString(`</svg>`)
	return template.HTML(b.String())
}

func (tl timeline) panelSVG(b *strings.Builder, p panel, bottom int) {
	fmt.Fprintf(b, `<svg x="%g%%" width="%g%%" height="100%%" overflow="visible">`, p.x, p.width)
	const n = 5
	for i := range n + 1 {
		at := p.start + (p.end-p.start)*time.Duration(i)/n
		if p.start > 0 && i > 0 { // the second panel counts from the event, as the first does
			at = (p.end - p.start) * time.Duration(i) / n
		}
		x := 100 * float64(i) / n
		anchor := ` text-anchor="middle"`
		class := ""
		switch {
		case i == 0:
			anchor = ""
		case i == n:
			anchor, class = ` text-anchor="end"`, ` class="tick2"`
		case i%2 == 1:
			class = ` class="tick2"`
		}
		if p.start > 0 && i > 0 {
			x = 100 * float64(at-p.start) / float64(p.end-p.start)
		}
		if x > 100 {
			x = 100
		}
		fmt.Fprintf(b, `<line class="c-axis" x1="%.2f%%" x2="%.2f%%" y1="18" y2="%d"/><text%s x="%.2f%%" y="11"%s>%s</text>`,
			x, x, bottom, class, x, anchor, axisSpan(at))
	}
	for i, l := range tl.lanes {
		y := laneTop + laneHeight*i
		for _, w := range l.waits {
			if x1, x2, ok := tl.clip(p, w[0], w[1]); ok {
				fmt.Fprintf(b, `<line class="c-wait" x1="%.2f%%" x2="%.2f%%" y1="%d" y2="%d"/>`, x1, x2, y, y)
			}
		}
		for _, w := range l.held {
			if x1, x2, ok := tl.clip(p, w[0], w[1]); ok {
				fmt.Fprintf(b, `<rect fill="url(#hatch)" x="%.2f%%" y="%d" width="%.2f%%" height="14"><title>held</title></rect>`, x1, y-7, x2-x1)
			}
		}
		for _, m := range l.marks {
			tl.markSVG(b, p, m, y)
		}
	}
	if x, _, ok := tl.clip(p, tl.now, tl.now); ok {
		fmt.Fprintf(b, `<line class="c-now" x1="%.2f%%" x2="%.2f%%" y1="18" y2="%d"/><text class="now" x="%.2f%%" y="%d" text-anchor="%s">now</text>`,
			x, x, bottom, x, bottom+12, map[bool]string{true: "end", false: "middle"}[x > 90])
	}
	b.WriteString(`</svg>`)
}

func (tl timeline) markSVG(b *strings.Builder, p panel, m mark, y int) {
	if !m.until.IsZero() {
		class := "c-bad"
		if m.kind == "ok" {
			class = "c-ok"
		}
		if x1, x2, ok := tl.clip(p, m.at, m.until); ok && x2-x1 > 0.3 {
			fmt.Fprintf(b, `<rect class="%s" x="%.2f%%" y="%d" width="%.2f%%" height="4"/>`, class, x1, y-2, x2-x1)
		}
	}
	at := m.at
	if !m.until.IsZero() {
		at = m.until
	}
	off := at.Sub(tl.from)
	if off < p.start && p.start > 0 || off > p.end || off == p.start && p.start > 0 {
		return
	}
	x := 100 * float64(max(off, 0)-p.start) / float64(p.end-p.start)
	fmt.Fprintf(b, `<use href="#m-%s" x="%.2f%%" y="%d"><title>%s</title></use>`, m.kind, x, y, template.HTMLEscapeString(shown(m.title)))
}

// clip is where a span of time lies in a panel, in per cent of it.
func (tl timeline) clip(p panel, from, to time.Time) (x1, x2 float64, ok bool) {
	a, z := from.Sub(tl.from), to.Sub(tl.from)
	if z < p.start || a > p.end {
		return 0, 0, false
	}
	at := func(d time.Duration) float64 {
		return 100 * float64(min(max(d, p.start), p.end)-p.start) / float64(p.end-p.start)
	}
	return at(a), at(z), true
}

// axisSpan is a time after the start as a tick says it.
func axisSpan(d time.Duration) string {
	switch {
	case d == 0:
		return "0"
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < time.Minute:
		return trimFloat(d.Seconds()) + " s"
	case d < time.Hour:
		return trimFloat(d.Minutes()) + " min"
	case d < 48*time.Hour:
		return trimFloat(d.Hours()) + " h"
	}
	return trimFloat(d.Hours()/24) + " d"
}
