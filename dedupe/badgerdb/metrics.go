package badgerdb

import "github.com/prometheus/client_golang/prometheus"

// metrics are the engine's own instruments; those of the group commit are in
// dedupe.
type metrics struct {
	expire      *prometheus.CounterVec
	keysExpired prometheus.Counter
	damage      prometheus.Counter
	looked      prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		expire: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "onceward_store_gc_runs_total", Help: "Runs of retention, by result."}, []string{"result"}),
		keysExpired: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "onceward_sync_keys_expired_total", Help: "Keys of synchronous routes that were dropped after their window."}),
		damage: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "onceward_store_damage_total", Help: "Records found missing or failing their checksum."}),
	}
	m.looked = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "onceward_store_list_reads_total", Help: "Keys passed and records read for lists of events and deliveries."})
	for _, r := range []string{"ok", "held", "error"} {
		m.expire.WithLabelValues(r)
	}
	if reg != nil {
		reg.MustRegister(m.expire, m.keysExpired, m.damage, m.looked)
	}
	return m
}
