package gateway

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/onceward/onceward/audit"
)

// makeJobs makes what runs replays in the background.
func (g *Gateway) makeJobs() (err error) {
	opened := prometheus.NewCounter(prometheus.CounterOpts{
		Name: "onceward_replay_deliveries_total", Help: "Deliveries that replay jobs opened.",
	})
	g.jobs, err = audit.NewJobs(audit.JobsConfig{
		Keeper: keeper{g.ledger, g.forwarder.Cancelled, g.start.Shared()}, Notes: g.ledger, Alone: g.start.Store.Driver == driverBadger,
		Now: g.opts.Now, Route: g.route, Log: g.log, Told: func(n int) { opened.Add(float64(n)) },
	})
	if err != nil {
		return fmt.Errorf("make replay jobs: %w", err)
	}
	busy := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "onceward_replay_jobs", Help: "Replay jobs that this gateway works on.",
	}, func() float64 { return float64(g.jobs.Busy()) })
	for _, c := range []prometheus.Collector{opened, busy} {
		if err := g.opts.Registry.Register(c); err != nil {
			return fmt.Errorf("register metrics: %w", err)
		}
	}
	return nil
}
