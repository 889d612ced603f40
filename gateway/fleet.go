package gateway

import (
	"fmt"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/onceward/onceward/admin"
	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/forward"
)

// joinFleet gives this gateway its place among those that share its ledger; it
// has none on a ledger of its own.
func (g *Gateway) joinFleet() {
	f, ok := g.ledger.(dedupe.Fleet)
	if !ok {
		return
	}
	g.member = dedupe.NewMember(f, g.opts.Version, g.log)
	g.member.Configure(g.gen.Load().cfg.sharedHash())
}

// fleet is what divides rates, nil on a ledger of its own.
func (g *Gateway) fleet() forward.Fleet {
	if g.member == nil {
		return nil // and no pointer to nothing
	}
	return g.member
}

// gateways are those of the fleet as the operators see them; a name's earlier
// process goes when it is dead and a later one is there.
func (g *Gateway) gateways() []admin.Gateway {
	if g.member == nil {
		return nil
	}
	peers, old := g.member.Peers()
	var out []admin.Gateway
	for i := range peers {
		p := &peers[i]
		if !p.Own {
			p.Age += old
		}
		dead := p.Dead() && !p.Own
		if dead && slices.ContainsFunc(peers, func(o dedupe.Peer) bool { return o.Name == p.Name && o.Epoch > p.Epoch }) {
			continue
		}
		out = append(out, admin.Gateway{
			Name: p.Name, Own: p.Own, Writer: fmt.Sprintf("%015x", p.Writer), Since: p.Since, Age: p.Age.Seconds(), Dead: dead,
			Share: p.Share, Config: p.Config, Version: p.Version,
		})
	}
	return out
}

// fleetCollector counts the fleet; a gateway alone is one of one configuration.
type fleetCollector struct{ gateways func() []admin.Gateway }

var (
	descGateways = desc("onceward_fleet_gateways", "Gateways that share the ledger, this one included.")
	descHashes   = desc("onceward_fleet_config_hashes", "Different configurations that they run.")
)

// Describe names both.
func (c fleetCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- descGateways
	ch <- descHashes
}

// Collect counts who is alive as last seen.
func (c fleetCollector) Collect(ch chan<- prometheus.Metric) {
	alive, hashes := 0, map[string]bool{}
	for _, g := range c.gateways() {
		if !g.Dead {
			alive++
			hashes[g.Config] = true
		}
	}
	ch <- prometheus.MustNewConstMetric(descGateways, prometheus.GaugeValue, float64(max(1, alive)))
	ch <- prometheus.MustNewConstMetric(descHashes, prometheus.GaugeValue, float64(max(1, len(hashes))))
}

// sharedHash is the hash of what all gateways on one ledger are to have in
// common: providers, sources, targets and retention. Where each listens, writes
// its log and keeps its files is its own.
func (c *Config) sharedHash() string {
	out := *c
	out.Listen, out.Drain, out.ReadinessDelay, out.TLS = "", 0, 0, ListenerTLSConfig{}
	out.Admin, out.Store, out.Log, out.Traces, out.Audit = AdminConfig{}, StoreConfig{}, LogConfig{}, TracesConfig{}, AuditConfig{}
	return hashAs(c, &out)
}
