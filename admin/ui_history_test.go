package admin

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// TestHistory: growth lands in its minute, is forgotten after a day, and what
// was there before the first look belongs to no minute.
func TestHistory(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	requests := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "onceward_ingest_requests_total"}, []string{"source", "outcome"})
	pending := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "onceward_delivery_pending"}, []string{"target"})
	took := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "onceward_delivery_attempt_duration_seconds", Buckets: []float64{.1, 1, 10}}, []string{"target"})
	other := prometheus.NewCounter(prometheus.CounterOpts{Name: "something_else_total"})
	reg.MustRegister(requests, pending, took, other)
	h := newHistory(reg)
	now := time.Date(2026, 3, 1, 12, 0, 30, 0, time.UTC)
	const family = "onceward_ingest_requests_total"
	accepted := requests.WithLabelValues("a", "accepted")
	accepted.Add(1000)
	h.observe(now)
	if n := h.sum(family, "", "", 10); n != 0 {
		t.Errorf("before anything grew: %d", n)
	}
	accepted.Add(5)
	requests.WithLabelValues("b", "refused").Add(2)
	pending.WithLabelValues("x").Set(7)
	for range 100 {
		took.WithLabelValues("x").Observe(.05)
	}
	took.WithLabelValues("x").Observe(5)
	now = now.Add(time.Minute)
	h.observe(now)
	for _, tt := range []struct {
		a, b string
		want uint64
	}{{"", "", 7}, {"a", "", 5}, {"a", "accepted", 5}, {"", "refused", 2}, {"c", "", 0}} {
		if got := h.sum(family, tt.a, tt.b, 10); got != tt.want {
			t.Errorf("sum(%q, %q) = %d, want %d", tt.a, tt.b, got, tt.want)
		}
	}
	if got := h.totals(family, "a")["accepted"]; got != 1005 {
		t.Errorf("total = %d", got)
	}
	if got := h.grew(family, "a", "accepted"); !got.Equal(now) {
		t.Errorf("grew at %s", got)
	}
	if p50, ok := h.quantile("onceward_delivery_attempt_duration_seconds", "x", .5, 10); !ok || p50 > 100*time.Millisecond {
		t.Errorf("p50 = %s, %v", p50, ok)
	}
	if p999, ok := h.quantile("onceward_delivery_attempt_duration_seconds", "x", .999, 10); !ok || p999 < time.Second || p999 > 10*time.Second {
		t.Errorf("p99.9 = %s, %v", p999, ok)
	}
	if _, ok := h.quantile("onceward_delivery_attempt_duration_seconds", "y", .5, 10); ok {
		t.Error("there is a p50 of nothing")
	}
	pending.WithLabelValues("x").Set(0)
	now = now.Add(9 * time.Minute)
	h.observe(now)
	bars := h.bars(family, "a", "", 10, 10, false)
	if bars[0] != 5 || bars[9] != 0 {
		t.Errorf("bars = %v", bars)
	}
	if peaks := h.bars("onceward_delivery_pending", "", "", 10, 10, true); peaks[0] != 7 || peaks[9] != 0 {
		t.Errorf("peaks = %v", peaks)
	}
	if n := h.sum(family, "", "", 9); n != 0 {
		t.Errorf("the last nine minutes = %d, want 0", n)
	}
	now = now.Add(24 * time.Hour)
	h.observe(now)
	if n := h.sum(family, "", "", historyMinutes); n != 0 {
		t.Errorf("a day later = %d", n)
	}
	if len(h.rows["something_else_total"]) != 0 {
		t.Error("what no page shows is kept")
	}
}

// TestHistoryClockBack: a clock that is set back neither panics nor shows the
// past twice.
func TestHistoryClockBack(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "onceward_deliveries_total"}, []string{"target", "result"})
	reg.MustRegister(c)
	h := newHistory(reg)
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, step := range []time.Duration{0, time.Minute, -3 * time.Hour, time.Minute, 40 * time.Hour, time.Minute} {
		now = now.Add(step)
		c.WithLabelValues("x", "delivered").Inc()
		h.observe(now)
		if n := h.sum("onceward_deliveries_total", "x", "", historyMinutes); n > 6 {
			t.Errorf("after %s: %d", step, n)
		}
	}
}

func TestCharts(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	c := chart{height: 48, bars: []float64{0, 10, 100}, bad: []float64{0, 0, 50}, label: `<x>`, from: now.Add(-time.Hour), to: now, ticks: 3}
	got := string(c.svg())
	for _, want := range []string{`aria-label="&lt;x&gt;"`, ">150<", "M2 16h.8V48h-.8z", "M2 0h.8V16h-.8z", ">11:00<", ">11:30<", ">12:00<"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in %s", want, got)
		}
	}
	if strings.Contains(got, "NaN") || strings.Contains(string(chart{height: 48}.svg()), "NaN") {
		t.Error("a chart of nothing has no numbers")
	}
	for in, want := range map[float64]float64{0: 1, 1: 1, 7: 8, 11: 15, 99: 100, 2321: 2500} {
		if got := niceMax(in); math.Abs(got-want) > 1e-6 {
			t.Errorf("niceMax(%v) = %v, want %v", in, got, want)
		}
	}
}

// TestTimeline: marks stand where their time says, on both scales.
func TestTimeline(t *testing.T) {
	t.Parallel()
	from := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	tl := timeline{from: from, now: from.Add(20 * time.Minute), lanes: []lane{{name: "<b>", waits: [][2]time.Time{{from, from.Add(20 * time.Minute)}},
		marks: []mark{{at: from.Add(5 * time.Second), kind: "fail", title: "one"}, {at: from.Add(10 * time.Minute), kind: "ok", title: "two"}}}}}
	ps := tl.panels()
	if len(ps) != 2 || ps[0].end != 10*time.Second || ps[1].start != 10*time.Second {
		t.Fatalf("panels = %+v", ps)
	}
	got := string(tl.svg())
	for _, want := range []string{`<use href="#m-fail" x="50.00%"`, `&lt;b&gt;`, ">now<"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in %s", want, got)
		}
	}
	if strings.Count(got, `href="#m-`) != 2 {
		t.Errorf("want each mark once: %s", got)
	}
	x := 100 * (10*time.Minute - 10*time.Second).Seconds() / (ps[1].end - ps[1].start).Seconds()
	if want := fmt.Sprintf(`<use href="#m-ok" x="%.2f%%"`, x); !strings.Contains(got, want) {
		t.Errorf("no %s in %s", want, got)
	}
	short := timeline{from: from, now: from.Add(time.Hour), lanes: []lane{{name: "x", waits: [][2]time.Time{{from, from.Add(time.Second)}}}}}
	if ps := short.panels(); len(ps) != 1 || ps[0].end != time.Second {
		t.Errorf("a story that is over has panels %+v", ps)
	}
}
