package forward

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/onceward/onceward/event"
)

// The results of a delivery as metric labels.
const (
	resultDelivered = "delivered"
	resultDead      = "dead"
	resultCancelled = "cancelled"
)

type metrics struct {
	attempts   *prometheus.CounterVec
	duration   *prometheus.HistogramVec
	latency    *prometheus.HistogramVec
	deliveries *prometheus.CounterVec
	inFlight   *prometheus.GaugeVec
	late       *prometheus.CounterVec
	paused     *prometheus.GaugeVec
	open       *prometheus.GaugeVec
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	label := []string{"target"}
	m := &metrics{
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "onceward_delivery_attempts_total",
			Help: "Attempts made, by what came of them.",
		}, []string{"target", "outcome"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "onceward_delivery_attempt_duration_seconds",
			Help:    "Time of one attempt, from its first look-up to the end of the answer.",
			Buckets: []float64{.005, .01, .025, .05, .075, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10, 30},
		}, label),
		latency: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "onceward_delivery_latency_seconds",
			Help:    "Time from opening a delivery, at admission or by a replay, until the target took it.",
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 300, 3600, 6 * 3600, 24 * 3600},
		}, label),
		deliveries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "onceward_deliveries_total",
			Help: "Deliveries closed, by how they ended.",
		}, []string{"target", "result"}),
		inFlight: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "onceward_delivery_in_flight",
			Help: "Attempts under way.",
		}, label),
		late: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "onceward_delivery_late_results_total",
			Help: "Results that came after their lease was lost: recorded, without effect on the delivery.",
		}, label),
	}
	m.paused = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "onceward_target_paused",
		Help: "1 while the target is paused: nothing is attempted.",
	}, label)
	m.open = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "onceward_target_breaker_open",
		Help: "1 while the target's breaker is open: it is only probed.",
	}, label)
	if reg == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.attempts, m.duration, m.latency, m.deliveries, m.inFlight, m.late, m.paused, m.open} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("register forward metrics: %w", err)
		}
	}
	return m, nil
}

// targetMetrics are one target's instruments, looked up once.
type targetMetrics struct {
	attempts  map[event.Outcome]prometheus.Counter // read-only
	duration  prometheus.Observer
	latency   prometheus.Observer
	delivered prometheus.Counter
	dead      prometheus.Counter
	inFlight  prometheus.Gauge
	late      prometheus.Counter
	cancelled prometheus.Counter
	paused    prometheus.Gauge
	open      prometheus.Gauge
}

// of makes every label pair of a target at 0.
func (m *metrics) of(target string) targetMetrics {
	t := targetMetrics{
		attempts:  make(map[event.Outcome]prometheus.Counter),
		duration:  m.duration.WithLabelValues(target),
		latency:   m.latency.WithLabelValues(target),
		delivered: m.deliveries.WithLabelValues(target, resultDelivered),
		dead:      m.deliveries.WithLabelValues(target, resultDead),
		inFlight:  m.inFlight.WithLabelValues(target),
		late:      m.late.WithLabelValues(target),
		cancelled: m.deliveries.WithLabelValues(target, resultCancelled),
		paused:    m.paused.WithLabelValues(target),
		open:      m.open.WithLabelValues(target),
	}
	for _, o := range event.Outcomes() {
		t.attempts[o] = m.attempts.WithLabelValues(target, string(o))
	}
	return t
}
