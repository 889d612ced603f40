package gateway

import (
	"context"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/onceward/onceward/dedupe"
)

// instruments are the gateway's own metrics: build, configuration, and the
// state of the ledger.
type instruments struct {
	reloadOK, reloadAt prometheus.Gauge
	info               *prometheus.GaugeVec
	fetches, confirms  *prometheus.CounterVec
	captured           *prometheus.CounterVec
}

// newRegistry holds the process's own metrics; each gateway has one.
func newRegistry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}

func newInstruments(reg prometheus.Registerer, o Options) (*instruments, error) {
	m := &instruments{
		reloadOK: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "onceward_config_last_reload_successful", Help: "1 when the last reading of the configuration took effect.",
		}),
		reloadAt: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "onceward_config_last_reload_success_timestamp_seconds", Help: "When a configuration last took effect.",
		}),
		info: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "onceward_config_info", Help: "The configuration in effect, by its hash.",
		}, []string{"hash"}),
	}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	m.fetches = counter("onceward_key_fetches_total", "Documents with public keys that were asked for, by outcome: ok or failed.", "source", "outcome")
	m.confirms = counter("onceward_confirmations_total", "Addresses called for a handshake, by outcome: ok, failed or dropped.", "source", "outcome")
	m.captured = counter("onceward_captured_secrets_total", "Secrets that providers handed over and that were kept.", "source")
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "onceward_build_info", Help: "The program that runs.",
		ConstLabels: prometheus.Labels{"version": o.Version, "revision": o.Revision, "goversion": runtime.Version()},
	})
	build.Set(1)
	for _, c := range []prometheus.Collector{m.reloadOK, m.reloadAt, m.info, m.fetches, m.confirms, m.captured, build} {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// took records that a configuration is in effect.
func (m *instruments) took(cfg *Config, at time.Time) {
	m.info.Reset()
	m.info.WithLabelValues(cfg.Hash()).Set(1)
	m.reloadOK.Set(1)
	m.reloadAt.Set(float64(at.UnixMilli()) / 1000)
}

// statsCollector turns the ledger's Stats into gauges, once per scrape.
// Target names come from configurations, past ones included.
type statsCollector struct {
	stats  func(context.Context) (dedupe.Stats, error)
	bodies func() map[string]int64 // by source, nil where the engine bounds none
	now    func() time.Time        // ledger time
}

func (g *Gateway) statsCollector() *statsCollector {
	c := &statsCollector{stats: g.ledger.Stats, now: g.ledger.Now}
	if l, ok := g.ledger.(bodyLimiter); ok {
		c.bodies = l.BodySizes
	}
	return c
}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

var (
	descPending  = desc("onceward_delivery_pending", "Open deliveries.", "target")
	descBehind   = desc("onceward_delivery_behind", "Open deliveries that wait for another one with their order.", "target")
	descBlocked  = desc("onceward_order_keys_blocked", "Orders that a dead delivery holds up.", "target")
	descOldest   = desc("onceward_delivery_oldest_pending_age_seconds", "Age of the oldest open delivery.", "target")
	descDead     = desc("onceward_dead_letters", "Dead deliveries that are kept.", "target")
	descClaims   = desc("onceward_dedupe_keys", "Live claims.", "source")
	descKeys     = desc("onceward_sync_keys", "Keys of synchronous routes without a conclusion, by state.", "state")
	descBodies   = desc("onceward_source_body_bytes", "Disk taken by the bodies of a source that has a limit of its own.", "source")
	descEvents   = desc("onceward_store_events_total", "Events accepted since the ledger was made.")
	descSequence = desc("onceward_store_sequence", "Number of the last batch.")
	descSize     = desc("onceward_store_size_bytes", "Disk taken by the ledger.")
	descFree     = desc("onceward_store_free_bytes", "Disk free beside the ledger.")
	descReserve  = desc("onceward_store_reserve_bytes", "Free disk below which intake is refused.")
	descReadOnly = desc("onceward_store_read_only", "1 while intake is refused.")
)

// Describe sends nothing: the collector is unchecked, for its labels come and
// go with the targets.
func (c *statsCollector) Describe(chan<- *prometheus.Desc) {}

// Collect reads the ledger, for at most two seconds.
func (c *statsCollector) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	s, err := c.stats(ctx)
	if err != nil {
		return // absent gauges alert; a failed scrape would hide all the others
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	for name, t := range s.Targets {
		gauge(descPending, float64(t.Pending+t.Leased), name)
		gauge(descDead, float64(t.Dead), name)
		gauge(descBehind, float64(t.Behind), name)
		gauge(descBlocked, float64(t.BlockedKeys), name)
		age := 0.0
		if !t.Oldest.IsZero() {
			age = max(0, c.now().Sub(t.Oldest).Seconds())
		}
		gauge(descOldest, age, name)
	}
	for name, n := range s.Claims {
		gauge(descClaims, float64(n), name)
	}
	if c.bodies != nil {
		for name, n := range c.bodies() {
			gauge(descBodies, float64(n), name)
		}
	}
	gauge(descKeys, float64(s.Keys.InFlight), dedupe.KeyInFlight.String())
	gauge(descKeys, float64(s.Keys.Unknown), dedupe.KeyUnknown.String())
	ch <- prometheus.MustNewConstMetric(descEvents, prometheus.CounterValue, float64(s.Events))
	gauge(descSequence, float64(s.Batches))
	gauge(descSize, float64(s.SizeBytes))
	gauge(descFree, float64(s.FreeBytes))
	gauge(descReserve, float64(s.Reserve))
	readOnly := 0.0
	if s.ReadOnly {
		readOnly = 1
	}
	gauge(descReadOnly, readOnly)
}
