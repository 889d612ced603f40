package gateway

import (
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

// sharedHash is the hash of what all gateways on one ledger are to have in
// common: providers, sources, targets and retention. Where each listens, writes
// its log and keeps its files is its own.
func (c *Config) sharedHash() string {
	out := *c
	out.Listen, out.Drain, out.ReadinessDelay, out.TLS = "", 0, 0, ListenerTLSConfig{}
	out.Admin, out.Store, out.Log, out.Traces, out.Audit = AdminConfig{}, StoreConfig{}, LogConfig{}, TracesConfig{}, AuditConfig{}
	return hashAs(c, &out)
}
