package admin

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	historyMinutes = 24 * 60
	quantileSpan   = 60          // minutes for which histograms are kept
	historyEvery   = time.Second // at most this often is everything looked at anew
)

// counted are the counters and gauges that the pages show over time, by the
// labels that tell their series apart.
var counted = map[string][2]string{
	"onceward_ingest_requests_total":             {"source", "outcome"},
	"onceward_ingest_refused_total":              {"source", "reason"},
	"onceward_verify_secret_used_total":          {"source", "secret"},
	"onceward_delivery_attempts_total":           {"target", "outcome"},
	"onceward_deliveries_total":                  {"target", "result"},
	"onceward_delivery_pending":                  {"target", ""},
	"onceward_target_breaker_open":               {"target", ""},
	"onceward_target_paused":                     {"target", ""},
	"onceward_delivery_latency_seconds":          {"target", ""},
	"onceward_store_sync_duration_seconds":       {"", ""},
	"onceward_delivery_attempt_duration_seconds": {"target", ""},
}

// history is what the counters of the last 24 hours were, minute by minute.
// It is fed from the metrics, holds only this process's own numbers, and is
// empty after a restart.
type history struct {
	gather prometheus.Gatherer // read-only

	// mu guards all below; held while the metrics are read, never across a page.
	mu    sync.Mutex
	start time.Time // of the first look
	last  time.Time // of the latest look
	rows  map[string]map[[2]string]*series
	hists map[string]map[[2]string]*distribution
}

// series is one counter's growth, or one gauge's value, in each minute.
type series struct {
	total   float64 // as last seen
	at      time.Time
	changed time.Time // when it last grew
	minute  int64     // of the newest slot
	slots   []float32
}

// distribution is one histogram as it was at the end of each minute.
type distribution struct {
	bounds []float64
	minute int64
	slots  [quantileSpan + 1][]uint64 // cumulative, the last of each minute
}

func newHistory(g prometheus.Gatherer) *history {
	return &history{gather: g, rows: map[string]map[[2]string]*series{}, hists: map[string]map[[2]string]*distribution{}}
}

// run looks at the metrics every 20 seconds until ctx ends.
func (h *history) run(ctx context.Context, now func() time.Time) {
	tick := time.NewTicker(20 * time.Second)
	defer tick.Stop()
	h.observe(now())
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			h.observe(now())
		}
	}
}

// observe takes the metrics in. What can't be gathered is left out: the pages
// show what is known.
func (h *history) observe(now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.last.IsZero() && now.Sub(h.last) < historyEvery && !now.Before(h.last) {
		return
	}
	first := h.start.IsZero()
	if first {
		h.start = now
	}
	h.last = now
	families, _ := h.gather.Gather()
	for _, f := range families {
		labels, ok := counted[f.GetName()]
		if !ok {
			continue
		}
		for _, m := range f.GetMetric() {
			var key [2]string
			for _, l := range m.GetLabel() {
				for i, name := range labels {
					if name == l.GetName() {
						key[i] = l.GetValue()
					}
				}
			}
			switch {
			case m.GetCounter() != nil:
				h.row(f.GetName(), key).grow(m.GetCounter().GetValue(), now, first)
			case m.GetGauge() != nil:
				h.row(f.GetName(), key).set(m.GetGauge().GetValue(), now)
			case m.GetHistogram() != nil:
				d := h.hist(f.GetName(), key)
				counts := d.next(now)
				for i, b := range m.GetHistogram().GetBucket() {
					if len(d.bounds) <= i {
						d.bounds = append(d.bounds, b.GetUpperBound())
					}
					counts = append(counts, b.GetCumulativeCount())
				}
				d.slots[d.minute%int64(len(d.slots))] = append(counts, m.GetHistogram().GetSampleCount())
			}
		}
	}
}

func (h *history) row(family string, key [2]string) *series {
	if h.rows[family] == nil {
		h.rows[family] = map[[2]string]*series{}
	}
	s := h.rows[family][key]
	if s == nil {
		s = &series{}
		h.rows[family][key] = s
	}
	return s
}

func (h *history) hist(family string, key [2]string) *distribution {
	if h.hists[family] == nil {
		h.hists[family] = map[[2]string]*distribution{}
	}
	d := h.hists[family][key]
	if d == nil {
		d = &distribution{}
		h.hists[family][key] = d
	}
	return d
}

// grow adds what a counter gained since it was last seen. What it had before
// the first look of all belongs to no minute; a series that appears later
// began at zero.
func (s *series) grow(total float64, now time.Time, first bool) {
	gain := total - s.total
	s.total, s.at = total, now
	if gain <= 0 {
		return
	}
	s.changed = now
	if !first {
		s.slot(now)
		s.slots[s.minute%historyMinutes] += float32(gain)
	}
}

// set keeps the highest value of the minute: trouble that came and went shows.
func (s *series) set(v float64, now time.Time) {
	fresh := s.slots == nil || s.minute != now.Unix()/60
	s.total, s.at = v, now
	if s.slots == nil && v == 0 {
		return
	}
	s.slot(now)
	if p := &s.slots[s.minute%historyMinutes]; fresh || float32(v) > *p {
		*p = float32(v)
	}
}

// slot moves on to the minute of now and empties the minutes that were passed
// over.
func (s *series) slot(now time.Time) {
	m := now.Unix() / 60
	if s.slots == nil {
		s.slots, s.minute = make([]float32, historyMinutes), m
		return
	}
	for ; s.minute < m; s.minute++ {
		if m-s.minute > historyMinutes {
			s.minute = m - historyMinutes
		}
		s.slots[(s.minute+1)%historyMinutes] = 0
	}
}

// at is the value of a minute.
func (s *series) value(minute int64) float64 {
	if s.slots == nil || minute > s.minute || minute <= s.minute-historyMinutes {
		return 0
	}
	return float64(s.slots[minute%historyMinutes])
}

// next is the room for the counts of the minute of now.
func (d *distribution) next(now time.Time) []uint64 {
	m := now.Unix() / 60
	n := int64(len(d.slots))
	if d.minute == 0 {
		d.minute = m
	}
	for ; d.minute < m; d.minute++ {
		if m-d.minute > n {
			d.minute = m - n
		}
		d.slots[(d.minute+1)%n] = nil
	}
	return d.slots[d.minute%n][:0]
}

// match reports whether a key has these labels; "" is any.
func match(key [2]string, a, b string) bool {
	return (a == "" || key[0] == a) && (b == "" || key[1] == b)
}

// sum is the growth of all matching counters in the last minutes, this one
// included.
func (h *history) sum(family, a, b string, minutes int) uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.last.Unix() / 60
	var n float64
	for key, s := range h.rows[family] {
		if match(key, a, b) {
			for m := now - int64(minutes) + 1; m <= now; m++ {
				n += s.value(m)
			}
		}
	}
	return uint64(n + 0.5)
}

// bars is the growth of matching counters over n spans of equal length, the
// oldest first. With peak it is the highest sum of gauges in each span.
func (h *history) bars(family, a, b string, n, minutes int, peak bool) []float64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := make([]float64, n)
	per := minutes / n
	first := h.last.Unix()/60 - int64(n*per) + 1
	for i := range out {
		for m := range per {
			v := 0.0
			for key, s := range h.rows[family] {
				if match(key, a, b) {
					v += s.value(first + int64(i*per+m))
				}
			}
			if peak {
				out[i] = max(out[i], v)
			} else {
				out[i] += v
			}
		}
	}
	return out
}

// totals is what the series with a first label have
// grown to since the process started, by the second.
func (h *history) totals(family, a string) map[string]uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := map[string]uint64{}
	for key, s := range h.rows[family] {
		if key[0] == a {
			out[key[1]] += uint64(s.total)
		}
	}
	return out
}

// grew is when a counter last grew, zero for never since the start.
func (h *history) grew(family, a, b string) time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s := h.rows[family][[2]string{a, b}]; s != nil {
		return s.changed
	}
	return time.Time{}
}

// quantile estimates from a histogram's buckets what part q of the values of
// the last minutes was at most; false when there were none.
func (h *history) quantile(family, a string, q float64, minutes int) (time.Duration, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var counts []uint64
	var bounds []float64
	for key, d := range h.hists[family] {
		if !match(key, a, "") {
			continue
		}
		bounds = d.bounds
		for i, n := range d.gained(h.last.Unix()/60, int64(minutes)) {
			if len(counts) <= i {
				counts = append(counts, 0)
			}
			counts[i] += n
		}
	}
	return quantileOf(bounds, counts, q)
}

// gained is how much each cumulative count grew in the last minutes.
func (d *distribution) gained(now, minutes int64) []uint64 {
	n := int64(len(d.slots))
	if d.minute == 0 || d.minute < now-minutes {
		return nil
	}
	latest := d.slots[d.minute%n]
	var base []uint64
	for m := now - min(minutes, quantileSpan); m > d.minute-n && base == nil; m-- {
		base = d.slots[((m%n)+n)%n]
	}
	out := make([]uint64, len(latest))
	for i := range latest {
		out[i] = latest[i]
		if i < len(base) {
			out[i] -= base[i]
		}
	}
	return out
}

func quantileOf(bounds []float64, counts []uint64, q float64) (time.Duration, bool) {
	if len(counts) == 0 || counts[len(counts)-1] == 0 {
		return 0, false
	}
	want := q * float64(counts[len(counts)-1])
	low, below := 0.0, 0.0
	for i, b := range bounds {
		if n := float64(counts[i]); n >= want {
			at := b
			if n > below {
				at = low + (b-low)*(want-below)/(n-below)
			}
			return time.Duration(at * float64(time.Second)), true
		}
		low, below = b, float64(counts[i])
	}
	return time.Duration(low * float64(time.Second)), true // beyond the last bucket: at least this
}
