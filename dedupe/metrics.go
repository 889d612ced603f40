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
	keys   *prometheus.CounterVec
}

// newMetrics makes the instruments and registers them; a nil registerer keeps
// them unregistered. depth reports how many requests wait, away 1 while the
// ledger is away.
func newMetrics(reg prometheus.Registerer, depth, away func() float64) (*metrics, error) {
	m := &metrics{
		commit: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "onceward_store_commit_duration_seconds",
			Help:    "Time one batch took to become durable.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 2, 16),
		}),
		items: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "onceward_store_batch_items",
			Help:    "Events, attempt results and key steps written in one batch.",
			Buckets: prometheus.ExponentialBuckets(1, 2, 11),
		}),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "onceward_store_errors_total",
			Help: "Calls the store refused or failed, by operation and kind.",
		}, []string{"op", "kind"}),
		keys: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "onceward_sync_keys_total",
			Help: "What happened to the keys of synchronous routes, by moment.",
		}, []string{"source", "moment"}),
	}
	for _, kind := range [...]string{"overloaded", "disk_low", "too_large", "damaged", "closed", "fatal", "away", "invalid"} {
		m.errors.WithLabelValues(opAccept, kind)
	}
	for _, kind := range [...]string{"overloaded", "closed", "fatal", "away"} {
		m.errors.WithLabelValues(opFinish, kind)
		m.errors.WithLabelValues(opRecord, kind)
	}
	for _, kind := range [...]string{"overloaded", "disk_low", "too_large", "damaged", "closed", "fatal", "away", "invalid"} {
		m.errors.WithLabelValues(opStep, kind)
	}
	for _, kind := range [...]string{"overloaded", "fatal", "away"} {
		m.errors.WithLabelValues(opCommit, kind)
	}
	if reg == nil {
		return m, nil
	}
	queue := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "onceward_store_queue_requests",
		Help: "Requests waiting to be written.",
	}, depth)
	gone := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "onceward_store_away",
		Help: "1 while the ledger's database is away and requests are answered 503.",
	}, away)
	var errs []error
	for _, c := range [...]prometheus.Collector{m.commit, m.items, m.errors, m.keys, queue, gone} {
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
	opStep   = "step"
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
	case errors.Is(err, ErrAway):
		return "away"
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

// The moments of onceward_sync_keys_total beside those of a key's life.
const (
	momentReplayed = "replayed"
	momentMismatch = "mismatch"
	momentExpired  = "expired"
	momentRetry    = "retry"
)

// CountKeys makes the counters of a source's keys visible at 0.
func (w *Writer) CountKeys(source string) {
	for i := range moments {
		if i > 0 {
			w.metrics.keys.WithLabelValues(source, moments[i])
		}
	}
	for _, m := range [...]string{momentReplayed, momentMismatch, momentExpired, momentRetry} {
		w.metrics.keys.WithLabelValues(source, m)
	}
}

// step counts what a durable step meant for its key. Sources are names of the
// configuration.
func (m *metrics) step(s *KeyStep) {
	if s.Verdict == 0 || s.Record.Source == "" {
		return
	}
	count := func(moment string, n uint64) { m.keys.WithLabelValues(s.Record.Source, moment).Add(float64(n)) }
	switch s.Verdict {
	case KeyMismatch:
		count(momentMismatch, 1)
	case KeyClaimed:
		count(MomentClaimed.String(), 1)
		if s.Expired {
			count(momentExpired, 1)
		}
		if s.lapse {
			count(MomentUnknown.String(), 1)
		}
	case KeyStuck:
		if s.lapse {
			count(MomentUnknown.String(), 1)
		}
	case KeyDone:
		m.done(s, count)
	}
}

// done counts a step that was applied.
func (m *metrics) done(s *KeyStep, count func(string, uint64)) {
	if !s.ForwardedAt.IsZero() {
		count(MomentForwarded.String(), 1)
	}
	switch s.Kind {
	case StepAnswer:
		count(MomentAnswered.String(), 1)
	case StepRelease:
		count(MomentReleased.String(), 1)
	case StepUnknown:
		count(MomentUnknown.String(), 1)
	case StepSettle:
		count(MomentSettled.String(), 1)
	case StepRetry:
		count(momentRetry, 1)
	case StepReplayed:
		count(momentReplayed, s.Replays)
	}
}
