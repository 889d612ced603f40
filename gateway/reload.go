package gateway

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/coreos/go-systemd/v22/daemon"
)

// ErrNotRunning says that there is nothing to reload: the gateway hasn't
// started, or is stopping.
var ErrNotRunning = errors.New("the gateway is not running")

// Reload reads the configuration again and swaps it in whole. On any error
// the old one stays, and the error and all faults say why; without one the
// faults are warnings. What can't change while running is a fault. Requests
// under way end with the configuration they began with; queues, counters,
// claims and deliveries go on.
func (g *Gateway) Reload(ctx context.Context) (Faults, error) { return g.reloadBy(ctx, actorSignal) }

// reloadBy is Reload with the name of who asked for it.
func (g *Gateway) reloadBy(ctx context.Context, actor string) (Faults, error) {
	g.reloading.Lock()
	defer g.reloading.Unlock()
	if g.phase.Load() != nil {
		return nil, ErrNotRunning
	}
	notifyReloading(g.log)
	defer notify(g.log, daemon.SdNotifyReady)
	before := g.gen.Load().cfg.Hash()
	faults, err := g.reload(ctx)
	g.reloaded(g.opts.Now(), faults, err)
	if err != nil {
		g.configured("refused", strconv.Itoa(len(faults)-len(faults.Warnings()))+" faults, the old one stays", actor)
		g.met.reloadOK.Set(0)
		g.log.Error("config not reloaded, the old one stays", "event", "config.reload_failed", "faults", len(faults)-len(faults.Warnings()))
		return faults, err
	}
	cfg := g.gen.Load().cfg
	g.configured("loaded", "before: "+before, actor)
	g.met.took(cfg, g.opts.Now())
	if g.member != nil {
		g.member.Configure(cfg.sharedHash())
	}
	g.log.Info("config reloaded", "event", "config.reloaded", "config_hash", cfg.Hash(), "warnings", len(faults))
	return faults, nil
}

func (g *Gateway) reload(ctx context.Context) (Faults, error) {
	cfg, faults, err := g.reread()
	if err != nil {
		return nil, err
	}
	rep := &report{file: cfg.file, faults: faults}
	if cfg.tree != nil {
		g.fixed(cfg, rep)
		g.wouldGoOffline(cfg, rep)
	}
	if err := rep.sorted().Err(); err != nil {
		return rep.sorted(), err
	}
	old, err := g.replace(cfg)
	if err != nil {
		rep.at(nil, err.Error(), "")
		return rep.sorted(), fmt.Errorf("reload: %w", err)
	}
	if g.cert != nil {
		g.cert.reload()
	}
	rep.faults = append(rep.faults, g.warnVanished(ctx, old.cfg, cfg)...)
	return rep.sorted(), nil
}

// reread reads what Options say the configuration is.
func (g *Gateway) reread() (*Config, Faults, error) {
	switch {
	case g.opts.ConfigPath != "":
		cfg, faults := Load(g.opts.ConfigPath, g.opts.Env)
		return cfg, faults, nil
	case g.opts.ConfigData != nil:
		cfg, faults := Parse(g.start.file, g.opts.ConfigData, g.opts.Env)
		return cfg, faults, nil
	}
	return nil, nil, errors.New("this configuration came from no file: there is nothing to read again")
}

// fixed reports changes of what is settled when the process starts.
func (g *Gateway) fixed(cfg *Config, rep *report) {
	was, t := g.start, cfg.tree
	for _, f := range []struct {
		at       *node
		key      string
		old, new any
	}{
		{t.or("listen"), "listen", was.Listen, cfg.Listen},
		{t.or("admin").or("listen"), "admin.listen", was.Admin.Listen, cfg.Admin.Listen},
		{t.or("admin").or("hosts"), "admin.hosts", fmt.Sprint(was.Admin.Hosts), fmt.Sprint(cfg.Admin.Hosts)},
		{t.or("admin").or("token_file"), "admin.token_file", was.TokenFile(), cfg.TokenFile()},
		{t.or("store").or("driver"), "store.driver", was.Store.Driver, cfg.Store.Driver},
		{t.or("store").or("path"), "store.path", was.StorePath(), cfg.StorePath()},
		{t.or("store").or("memory_limit"), "store.memory_limit", was.Store.MemoryLimit, cfg.Store.MemoryLimit},
		{t.or("store").or("reserve"), "store.reserve", was.Store.Reserve, cfg.Store.Reserve},
		{t.or("store").or("ballast"), "store.ballast", was.Store.Ballast, cfg.Store.Ballast},
		{t.or("store").or("body_size"), "store.body_size", was.Store.BodySize, cfg.Store.BodySize},
		{t.or("store").or("max_size"), "store.max_size", was.Store.MaxSize, cfg.Store.MaxSize},
		{t.or("store").or("dsn"), "store.dsn", was.Store.DSN.Value, cfg.Store.DSN.Value},
		{t.or("store").or("schema"), "store.schema", was.Store.Schema, cfg.Store.Schema},
		{t.or("store").or("gateway"), "store.gateway", was.Store.Gateway, cfg.Store.Gateway},
		{t.or("store").or("exec_mode"), "store.exec_mode", was.Store.ExecMode, cfg.Store.ExecMode},
		{t.or("store").or("max_conns"), "store.max_conns", was.Store.MaxConns, cfg.Store.MaxConns},
		{t.or("store").or("statement_timeout"), "store.statement_timeout", was.Store.StatementTimeout, cfg.Store.StatementTimeout},
		{t.or("store").or("lock_timeout"), "store.lock_timeout", was.Store.LockTimeout, cfg.Store.LockTimeout},
		{t.or("audit").or("key"), "audit.key", was.Audit.Key.Value, cfg.Audit.Key.Value},
		{t.or("audit").or("witness"), "audit.witness", was.Audit.Witness, cfg.Audit.Witness},
		{t.or("log"), "log", was.Log, cfg.Log},
		{t.or("tls"), "tls", was.TLS, cfg.TLS},
		{t.or("traces"), "traces", was.Traces.identity(), cfg.Traces.identity()},
		{t.or("drain"), "drain", was.Drain, cfg.Drain},
	} {
		if f.old != f.new {
			rep.at(f.at, f.key+" can't change while running", "restart the gateway for it, or change it back")
		}
	}
}

// wouldGoOffline refuses to lose the secrets of a source that works: at a
// start that is better than no gateway, at a reload it is worse than the old
// configuration.
func (g *Gateway) wouldGoOffline(cfg *Config, rep *report) {
	for i := range cfg.Sources {
		s := &cfg.Sources[i]
		if was, ok := g.gen.Load().cfg.Source(s.Name); ok && was.offline == "" && s.offline != "" {
			rep.at(cfg.tree.get("source").item(i).or("name"), "source "+strconv.Quote(s.Name)+" works and would go offline: "+s.offline,
				"set its secret, or remove the source")
		}
	}
}

// replace builds a generation of cfg and puts it into effect. It returns the
// one before.
func (g *Gateway) replace(cfg *Config) (old *generation, err error) {
	g.swapping.Lock()
	defer g.swapping.Unlock()
	old = g.gen.Load()
	gen, err := build(cfg, old, g.fetcher)
	if err != nil {
		return old, err
	}
	return old, g.swap(old, gen)
}

// swap puts gen into effect: targets first, so that no source names one that
// isn't there. A part that refuses leaves all as it was.
func (g *Gateway) swap(old, gen *generation) error {
	if err := g.forwarder.SetTargets(gen.targets); err != nil {
		return err
	}
	if err := g.receiver.SetSources(gen.sources, gen.trusted); err != nil {
		return errors.Join(err, g.forwarder.SetTargets(old.targets))
	}
	if err := g.admin.SetTokens(gen.cfg.adminTokens()); err != nil {
		return errors.Join(err, g.forwarder.SetTargets(old.targets), g.receiver.SetSources(old.sources, old.trusted))
	}
	g.admin.SetPullTokens(gen.cfg.pullTokens())
	if l, ok := g.ledger.(bodyLimiter); ok {
		l.LimitBodies(gen.cfg.bodySizes())
	}
	g.gen.Store(gen)
	g.countKeys(gen)
	return nil
}

// warnVanished names what the ledger still holds work or claims for and the
// configuration no longer has; was is the configuration before, nil at the
// start. The warnings are logged too.
func (g *Gateway) warnVanished(ctx context.Context, was, cfg *Config) Faults {
	stats, err := g.ledger.Stats(ctx)
	if err != nil {
		g.log.Warn("ledger state not read", "event", "config.vanished", "error", err)
		return nil
	}
	rep := &report{file: cfg.file}
	for name, t := range stats.Targets {
		if open := t.Pending + t.Leased; open > 0 && !cfg.knowsTarget(name) && (was == nil || was.knowsTarget(name)) {
			g.log.Warn("target is gone with open deliveries", "event", "config.vanished", "target", name, "open", open)
			rep.warn(cfg.tree, "target "+strconv.Quote(name)+" is gone and has "+strconv.FormatInt(open, 10)+" open deliveries",
				"they wait until they are given up; bring it back, or write formerly = ["+strconv.Quote(name)+"] at its heir")
		}
	}
	for name, n := range stats.Claims {
		if n > 0 && !cfg.knowsSource(name) && (was == nil || was.knowsSource(name)) {
			g.log.Warn("source is gone with live claims", "event", "config.vanished", "source", name, "claims", n)
			rep.warn(cfg.tree, "source "+strconv.Quote(name)+" is gone and has "+strconv.FormatInt(n, 10)+" live claims",
				"under another name its repeats are new; write formerly = ["+strconv.Quote(name)+"] at its heir")
		}
	}
	if stats.Claims == nil && was != nil { // an engine that doesn't count them
		for i := range was.Sources {
			if name := was.Sources[i].Name; !cfg.knowsSource(name) {
				rep.warn(cfg.tree, "source "+strconv.Quote(name)+" is gone", "under another name its repeats are new; write formerly = ["+strconv.Quote(name)+"] at its heir")
			}
		}
	}
	return rep.faults
}

func (c *Config) knowsTarget(name string) bool {
	return slices.ContainsFunc(c.Targets, func(t TargetConfig) bool {
		return t.Name == name || slices.Contains(t.Formerly, name)
	})
}

func (c *Config) knowsSource(name string) bool {
	return slices.ContainsFunc(c.Sources, func(s SourceConfig) bool {
		return s.Name == name || slices.Contains(s.Formerly, name)
	})
}
