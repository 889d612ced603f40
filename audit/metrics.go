package audit

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// logMetrics are the instruments of a Log.
type logMetrics struct {
	size        prometheus.Gauge
	signed      prometheus.Gauge
	failures    prometheus.Counter
	witnessed   prometheus.Gauge
	unwitnessed prometheus.Counter
}

func newLogMetrics(reg prometheus.Registerer) (*logMetrics, error) {
	m := &logMetrics{
		size: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "onceward_audit_log_acts", Help: "Acts covered by the newest checkpoint.",
		}),
		signed: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "onceward_audit_checkpoint_timestamp_seconds", Help: "When the newest checkpoint was signed; 0 for never since the start.",
		}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "onceward_audit_failures_total", Help: "Rounds in which the audit log could not be brought up to date.",
		}),
		witnessed: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "onceward_audit_witnessed_timestamp_seconds", Help: "When the newest checkpoint that the witness took was signed; 0 for never since the start.",
		}),
		unwitnessed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "onceward_audit_witness_failures_total", Help: "Checkpoints that the witness did not take.",
		}),
	}
	if reg == nil {
		return m, nil
	}
	var errs []error
	for _, c := range [...]prometheus.Collector{m.size, m.signed, m.failures, m.witnessed, m.unwitnessed} {
		errs = append(errs, reg.Register(c))
	}
	return m, errors.Join(errs...)
}

func (m *logMetrics) made(c *Checkpoint) {
	m.size.Set(float64(c.Size))
	m.signed.Set(float64(c.At.Unix()))
}
