package dedupe

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are the instruments of a Writer.
type metrics struct {
	commit prometheus.Histogram
	items  prometheus.Histogram
	errors *prometheus.CounterVec
}

// newMetrics makes the instruments and registers them; a nil registerer keeps
// them unregistered. depth reports how many requests wait.
func newMetrics(reg prometheus.Registerer, depth func() float64) (*metrics, error) {
	m := &metrics{
		commit: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "onceward_store_commit_duration_seconds",
			Help:    "Time one batch took to become durable.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 2, 16),
		}),
		items: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "onceward_store_batch_items",
			Help:    "Events and attempt results written in one batch.",
			Buckets: prometheus.ExponentialBuckets(1, 2, 11),
		}),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "onceward_store_errors_total",
			Help: "Calls the store refused or failed, by operation and kind.",
		}, []string{"op", "kind"}),
	}
	for _, kind := range [...]string{"overloaded", "disk_low", "too_large", "damaged", "closed", "fatal", "invalid"} {
		m.errors.WithLabelValues(opAccept, kind)
	}
	for _, kind := range [...]string{"overloaded", "closed", "fatal"} {
		m.errors.WithLabelValues(opFinish, kind)
		m.errors.WithLabelValues(opRecord, kind)
	}
	m.errors.WithLabelValues(opCommit, "fatal")
	if reg == nil {
		return m, nil
	}
	queue := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "onceward_store_queue_requests",
		Help: "Requests waiting to be written.",
	}, depth)
	var errs []error
	for _, c := range [...]prometheus.Collector{m.commit, m.items, m.errors, queue} {
		errs = append(errs, reg.Register(c))
	}
	return m, errors.Join(errs...)
}

// The operations and kinds of onceward_store_errors_total.
const (
	opAccept = "accept"
	opFinish = "finish"
	opRecord = "record"
	opCommit = "commit"
)

// count records err, if it is one, and returns it.
func (m *metrics) count(op string, err error) error {
	if err != nil {
		m.errors.WithLabelValues(op, kindOf(err)).Inc()
	}
	return err
}

func kindOf(err error) string {
	switch {
	case errors.Is(err, ErrFatal):
		return "fatal"
	case errors.Is(err, ErrDiskLow):
		return "disk_low"
	case errors.Is(err, ErrDamaged):
		return "damaged"
	case errors.Is(err, ErrTooLarge):
		return "too_large"
	case errors.Is(err, ErrClosed):
		return "closed"
	case errors.Is(err, ErrOverloaded):
		return "overloaded"
	}
	return "invalid"
}
