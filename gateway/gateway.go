package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/onceward/onceward/admin"
	"github.com/onceward/onceward/audit"
	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/forward"
	"github.com/onceward/onceward/receiver"
	"github.com/onceward/onceward/trace"
)

// Options is what a gateway gets beside its configuration. The zero value
// runs.
type Options struct {
	// Log gets what happens. Default: nothing is logged.
	Log *slog.Logger
	// Registry takes the metrics of all packages, each of them once: gateways
	// don't share one. Default: a new one with the process's own metrics.
	Registry *prometheus.Registry
	// Version and Revision name the program.
	Version, Revision string
	// Env is what a reload looks references up in.
	Env Env
	// ConfigPath is the file a reload reads; without one it is ConfigData, and
	// without that a reload is an error.
	ConfigPath string
	ConfigData []byte
	// Now is the wall clock. Default time.Now.
	Now func() time.Time
	// Outbound carries what the gateway asks of providers: their public keys and
	// the addresses they want to have called. Default: direct connections to
	// public addresses and to no others.
	Outbound http.RoundTripper
	// Words tells what the operator's pages say of verification.
	Words Words
	// ResumeDeliveries makes the deliveries that a restored ledger holds.
	ResumeDeliveries bool
	// Migrate makes the schema of a shared ledger or brings it up to date; the
	// configuration may say the same.
	Migrate bool
	// ShowToken is told the admin token of a shared ledger, by the gateway that
	// made it and this once: its hash alone is kept. Default: it stands in a
	// warning of Log.
	ShowToken func(token string)
	// OnReady, when set, is called once everything listens, before Ready.
	OnReady func()
}

// Gateway is the whole product in one process. New makes it, Run runs it once.
type Gateway struct {
	opts  Options // read-only after New
	log   *slog.Logger
	start *Config // the configuration of New: what can't be reloaded is from here
	met   *instruments
	ready chan struct{} // closed when everything listens
	phase atomic.Pointer[string]
	gen   atomic.Pointer[generation] // in effect

	loaded  atomic.Pointer[time.Time] // when it took effect
	refused atomic.Pointer[tried]     // the last reload, nil when it took effect

	open func(context.Context) (ledger, error) // openLedger, but in tests of a failing one

	confirmer *confirmer
	clock     *clockWatch

	// Set by Run before ready is closed, read-only from there on.
	spans         *trace.Recorder // nil: nothing is recorded
	cert          *certKeeper     // of the public listener; nil without TLS
	ledger        ledger
	writer        *dedupe.Writer
	receiver      *receiver.Receiver
	forwarder     *forward.Forwarder
	member        *dedupe.Member // of the fleet; nil on a ledger of its own
	admin         *admin.Admin
	account       *audit.Log
	jobs          *audit.Jobs
	ingest, admis net.Listener

	// reloading lets one reload run at a time; a stop holds it for good.
	reloading sync.Mutex
	// telling are the acts of starts and reloads on their way to the ledger.
	telling sync.WaitGroup
	// swapping lets one generation at a time be built and put into effect. It is
	// taken by reloads and by secrets that are handed over, which a stop waits
	// for.
	swapping sync.Mutex
}

// The phases of a gateway in which it isn't ready.
var (
	phaseStarting = "starting"
	phaseStopping = "stopping"
)

// New makes a gateway of a configuration without errors. It starts and opens
// nothing. Faults that only the parts can see come back as an error.
func New(cfg *Config, o Options) (*Gateway, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Registry == nil {
		o.Registry = newRegistry()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.ShowToken == nil {
		log := o.Log
		o.ShowToken = func(token string) {
			log.Warn("admin token made: it is shown this once and kept nowhere", "event", "admin.token", "token", token)
		}
	}
	if o.Outbound == nil {
		o.Outbound = publicTransport()
	}
	met, err := newInstruments(o.Registry, o)
	if err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	clock, err := newClockWatch(o.Now, o.Log, o.Registry)
	if err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	g := &Gateway{opts: o, log: o.Log, start: cfg, met: met, clock: clock, ready: make(chan struct{})}
	g.open = g.openLedger
	g.confirmer = newConfirmer(o.Outbound, o.Log, met)
	gen, err := build(cfg, nil, g.fetcher)
	if err != nil {
		return nil, err
	}
	g.gen.Store(gen)
	g.phase.Store(&phaseStarting)
	return g, nil
}

// Ready is closed when both listeners answer. It stays open when Run ends
// before that.
func (g *Gateway) Ready() <-chan struct{} { return g.ready }

// Addr is where the two listeners are, "" before Ready.
func (g *Gateway) Addr() (ingest, admin string) {
	select {
	case <-g.ready:
		return g.ingest.Addr().String(), g.admis.Addr().String()
	default:
		return "", ""
	}
}

// Run opens the ledger, starts every part and blocks until ctx ends, then
// stops them in order and returns nil. A part that fails stops the others the
// same way; its error comes back. Run may be called once.
func (g *Gateway) Run(ctx context.Context) error {
	defer tuneRuntime(g.start.Store.MemoryLimit, g.log)()
	led, err := g.open(ctx)
	if err != nil {
		return err
	}
	g.ledger = led
	stats, err := led.Stats(ctx)
	if err != nil {
		return errors.Join(err, led.Close())
	}
	g.clock.started(led.Now(), stats.ClockHold)
	s := newStack(ctx)
	err = g.startAll(ctx, s)
	if err == nil {
		err = g.wait(ctx, s)
	}
	delay := time.Duration(g.gen.Load().cfg.ReadinessDelay)
	if err != nil || ctx.Err() == nil || len(s.services) == 0 {
		delay = 0 // a failed part takes no events; nobody gains by waiting
	}
	return errors.Join(err, g.stopAll(s, delay))
}

// startAll makes the parts and starts them, the innermost first.
func (g *Gateway) startAll(ctx context.Context, s *stack) error {
	if err := g.make(ctx); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return nil // told to stop while the ledger opened
	}
	if err := g.listen(ctx); err != nil {
		return err
	}
	s.start("ledger", g.ledger.Run)
	s.start("writer", g.writer.Run)
	s.start("audit", g.account.Run)
	s.start("watchdog", func(ctx context.Context) error { return watchdog(ctx, g.log) })
	s.start("clock", g.clock.Run)
	s.start("admin", func(ctx context.Context) error { return g.admin.Serve(ctx, g.admis) })
	if g.spans.On() {
		s.start("tracer", g.spans.Run)
	}
	if g.member != nil {
		s.start("fleet", g.member.Run)
	}
	s.start("forwarder", g.forwarder.Run)
	s.start("confirmer", g.confirmer.Run)
	s.start("replays", g.jobs.Run)
	s.start("counts", g.counts)
	s.start("receiver", func(ctx context.Context) error { return g.receiver.Serve(ctx, g.ingest) })
	return nil
}

// wait reports readiness and blocks until ctx ends or a part does.
func (g *Gateway) wait(ctx context.Context, s *stack) error {
	if ctx.Err() != nil {
		return nil
	}
	cfg := g.gen.Load().cfg
	g.met.took(cfg, g.opts.Now())
	g.reloaded(g.opts.Now(), nil, nil)
	g.warnVanished(ctx, nil, cfg)
	g.configured("started", g.opts.Version, actorGateway)
	g.phase.Store(nil)
	g.log.Info("gateway started", "event", "gateway.started", "version", g.opts.Version, "config_hash", cfg.Hash(),
		"listen", g.ingest.Addr().String(), "admin", g.admis.Addr().String(), "store", g.start.StorePlace())
	notify(g.log, daemon.SdNotifyReady)
	if g.opts.OnReady != nil {
		g.opts.OnReady()
	}
	close(g.ready)
	select {
	case <-ctx.Done():
		return nil
	case svc := <-s.ended:
		if svc.failure() == nil {
			return fmt.Errorf("%s ended without being told to", svc.name)
		}
		return nil // its failure comes back from stopAll
	}
}

// stopAll ends the parts: first what takes events, last what keeps them. It
// runs also when not all was started.
func (g *Gateway) stopAll(s *stack, delay time.Duration) error {
	g.phase.Store(&phaseStopping)
	notify(g.log, daemon.SdNotifyStopping)
	g.reloading.Lock() // a reload under way ends first, and no other begins
	defer g.reloading.Unlock()
	g.log.Info("gateway stopping", "event", "gateway.stopping", "readiness_delay", delay, "drain", g.start.Drain.String())
	if delay > 0 {
		timer := time.NewTimer(delay)
		select {
		case <-timer.C:
		case <-s.ended:
			timer.Stop()
		}
	}
	err := errors.Join(
		s.stop("receiver", "forwarder"),
		s.stop("fleet"),
		g.closeCalls(),
		s.stop("confirmer"),
		s.stop("replays"),
		s.stop("counts"),
		s.stop("writer"),
		g.told(),
		s.stop("audit"),
		s.stop("ledger"),
		s.stop("admin", "watchdog", "clock", "tracer"),
		g.closeListeners(),
	)
	if cerr := g.ledger.Close(); cerr != nil {
		err = errors.Join(err, fmt.Errorf("close ledger: %w", cerr))
	}
	g.log.Info("gateway stopped", "event", "gateway.stopped")
	return err
}

// told waits for acts that were still to be recorded; without a writer they end.
func (g *Gateway) told() error {
	g.telling.Wait()
	return nil
}

// closeListeners closes what no Serve has closed.
func (g *Gateway) closeListeners() error {
	for _, ln := range []net.Listener{g.ingest, g.admis} {
		if ln == nil {
			continue
		}
		if err := ln.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			return fmt.Errorf("close listener: %w", err)
		}
	}
	return nil
}

// make builds the parts around the open ledger.
func (g *Gateway) make(ctx context.Context) (err error) {
	gen, o := g.gen.Load(), g.opts
	if g.spans, err = g.recorder(); err != nil {
		return fmt.Errorf("make recorder of traces: %w", err)
	}
	g.writer, err = dedupe.NewWriter(dedupe.WriterConfig{Ledger: g.ledger, Log: g.log, Now: o.Now, Registerer: o.Registry})
	if err != nil {
		return fmt.Errorf("make writer: %w", err)
	}
	g.joinFleet()
	drain := time.Duration(g.start.Drain)
	g.forwarder, err = forward.New(forward.Config{
		Ledger: spine{g.ledger, g.ledger, g.writer}, Log: g.log, Registerer: o.Registry, Version: o.Version, Now: o.Now, Drain: drain,
		Spans: g.spans, Fleet: g.fleet(),
	})
	if err != nil {
		return fmt.Errorf("make forwarder: %w", err)
	}
	if err := g.forwarder.SetTargets(gen.targets); err != nil {
		return err
	}
	listenerTLS, err := g.listenerConfig()
	if err != nil {
		return err
	}
	g.receiver, err = receiver.New(receiver.Config{
		Admit: g.writer, Keys: keyBook{g.ledger, g.writer}, Outbound: callOut{g.forwarder}, Sources: gen.sources,
		Handover: handover{g}, TrustedProxies: gen.trusted, Log: g.log, Registerer: o.Registry,
		Now: o.Now, Ready: g.isReady, DrainTimeout: drain, Version: o.Version, Spans: g.spans, TLS: listenerTLS,
	})
	if err != nil {
		return fmt.Errorf("make receiver: %w", err)
	}
	if err := o.Registry.Register(certCollector{g}); err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	if err := o.Registry.Register(fleetCollector{g.gateways}); err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	g.countKeys(gen)
	if err := o.Registry.Register(g.statsCollector()); err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	return g.makeAdmin(ctx)
}

func (g *Gateway) makeAdmin(ctx context.Context) error {
	if err := g.makeAccount(ctx); err != nil {
		return err
	}
	gen := g.gen.Load()
	account, err := audit.New(audit.Config{Reader: g.ledger, Keeper: keeper{g.ledger, g.forwarder.Cancelled, g.start.Shared()}, SyncKeys: keyBook{g.ledger, g.writer}, Now: g.opts.Now, Redact: g.redaction})
	if err != nil {
		return fmt.Errorf("make account: %w", err)
	}
	if err := g.makeJobs(); err != nil {
		return err
	}
	tokenHash, err := g.tokenHash(ctx)
	if err != nil {
		return err
	}
	g.admin, err = admin.New(admin.Config{
		Account: account, Receiver: edgeView{g.receiver}, Forward: targetsView{g.forwarder}, Control: g.forwarder,
		Audit: g.account, Record: g.writer.Record, Jobs: g.jobs,
		Puller: puller{g.forwarder}, PullTokens: gen.cfg.pullTokens(),
		Gateways: g.gateways, Reload: g.reloadForAdmin, Ready: g.isReady, Route: g.route, Setup: g.setup, Explain: g.explain, SendTest: g.sendTest, TestTarget: g.testTarget,
		TokenHash: tokenHash, Tokens: gen.cfg.adminTokens(),
		Hosts: g.start.Admin.Hosts, Listen: g.start.Admin.Listen, Registerer: g.opts.Registry, Gatherer: g.opts.Registry,
		Log: g.log, Build: buildOf(g.opts), Now: g.opts.Now,
	})
	if err != nil {
		return fmt.Errorf("make admin listener: %w", err)
	}
	return nil
}

// listen takes both sockets; connections wait in them until they are served.
func (g *Gateway) listen(ctx context.Context) (err error) {
	var lc net.ListenConfig
	lc.SetMultipathTCP(false) // no sender speaks it, and its sockets take no filter: see receiver's stop
	if g.ingest, err = lc.Listen(ctx, "tcp", g.start.Listen); err != nil {
		return fmt.Errorf("listen for events: %w", err)
	}
	if g.admis, err = lc.Listen(ctx, "tcp", g.start.Admin.Listen); err != nil {
		return fmt.Errorf("listen for operators: %w", err)
	}
	return nil
}

// isReady is nil while new events are welcome. Being busy is not a reason:
// taking the only instance out of service turns a polite 503 into a refusal.
func (g *Gateway) isReady() error {
	if p := g.phase.Load(); p != nil {
		return errors.New(*p)
	}
	if err := g.writer.Away(); err != nil {
		return err
	}
	return g.ledger.Health(context.Background())
}
