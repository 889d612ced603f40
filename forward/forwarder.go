package forward

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/trace"
)

// DefaultDrain is how long attempts in flight may go on after a stop.
const DefaultDrain = 20 * time.Second

// storeTime is how long after a stop's end results may wait for a ledger that is
// away.
const storeTime = 10 * time.Second

// roomTime is the same for one that has no room, on a disk that is nearly full:
// nobody makes room because it is waited for.
const roomTime = 2 * time.Second

// Ledger is what the forwarder needs of a ledger.
type Ledger interface {
	dedupe.Dispatch
	dedupe.Notebook
	// Finish ends leases with their attempts. When it returns nil they are
	// durable and each Result's Late is set. While the ledger is away it waits
	// until ctx ends, which is dedupe.ErrAway or ErrOverloaded. On another error
	// the outcome is unknown, and the ledger takes no further results.
	Finish(ctx context.Context, results ...*dedupe.Result) error
}

// Fleet divides rates between the gateways that share a ledger.
type Fleet interface {
	// Share is this gateway's part now, and a channel that is closed when there
	// is another.
	Share() (dedupe.Share, <-chan struct{})
}

// Config is what a Forwarder works with.
type Config struct {
	Ledger     Ledger
	Log        *slog.Logger          // nil: nothing is logged
	Registerer prometheus.Registerer // nil: instruments are not registered
	// Rand gives the jitter, from 0 to 1; nil = math/rand/v2. Its calls are
	// serial.
	Rand func() float64
	// Now is the wall clock of attempt records and signatures; nil =
	// time.Now. Schedules use the ledger's clock.
	Now func() time.Time
	// Version stands in the User-Agent; "" = "dev".
	Version string
	// Drain is how long attempts in flight may go on after a stop; 0 =
	// DefaultDrain.
	Drain time.Duration
	// GiveUp is how long deliveries of a missing target stay open; 0 =
	// DefaultGiveUp.
	GiveUp time.Duration
	// Fleet says which part of every rate is this gateway's. Nil: all of it.
	Fleet Fleet
	// Spans records attempts. Nil records none.
	Spans *trace.Recorder
	// Resolver looks names up; nil = net.DefaultResolver.
	Resolver *net.Resolver
	// Dial replaces the guarded dialer, for tests without a network: the
	// egress guard is not asked.
	Dial DialFunc
}

// Forwarder delivers what a ledger holds for its targets. SetTargets and
// Status are safe for concurrent use, before, during and after Run.
type Forwarder struct {
	cfg     Config
	metrics *metrics
	changed chan struct{} // holds a value when targets have changed
	failed  chan error    // the ledger's failure; the first one counts
	book    *book
	pulls   *pulls
	randMu  sync.Mutex // makes calls of cfg.Rand serial

	// mu guards all below; held for bookkeeping only, never across I/O.
	mu      sync.Mutex
	targets map[string]*Target
	served  map[string]struct{} // names and former names
	states  map[string]*state
	queues  map[string]*queue // of the present configuration, while running
	callers map[string]*caller
	start   func(*queue) // nil while not running
	ran     bool
}

// New makes a forwarder without targets and starts nothing.
func New(cfg Config) (*Forwarder, error) {
	if cfg.Ledger == nil {
		return nil, errors.New("forwarder needs a ledger")
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	cfg.Log = cfg.Log.With("component", "forward")
	if cfg.Rand == nil {
		cfg.Rand = rand.Float64
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Version == "" {
		cfg.Version = "dev"
	}
	setDefault(&cfg.Drain, DefaultDrain)
	setDefault(&cfg.GiveUp, DefaultGiveUp)
	m, err := newMetrics(cfg.Registerer)
	if err != nil {
		return nil, err
	}
	f := &Forwarder{
		cfg: cfg, metrics: m, book: newBook(cfg.Ledger, cfg.Fleet != nil, cfg.Log), changed: make(chan struct{}, 1), failed: make(chan error, 1),
		targets: map[string]*Target{}, served: map[string]struct{}{}, states: map[string]*state{}, queues: map[string]*queue{},
		callers: map[string]*caller{},
	}
	f.pulls = newPulls(f)
	return f, nil
}

// SetTargets makes ts the targets, all of them or on an error none: a name
// given twice, also as a former one, or a target that is not valid. Kept
// targets go on where they were. Deliveries of removed ones stay pending and
// die at Config.GiveUp unless the name comes back. Attempts in flight end as
// they began.
func (f *Forwarder) SetTargets(ts []Target) error {
	targets, served, err := normalise(ts)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	old := f.targets
	f.targets, f.served = targets, served
	for name, t := range targets {
		f.prepare(name, t)
		if was, ok := old[name]; ok && reflect.DeepEqual(was, t) {
			targets[name] = was // its queue goes on
		}
	}
	f.reconcile()
	select {
	case f.changed <- struct{}{}:
	default:
	}
	return nil
}

func normalise(ts []Target) (map[string]*Target, map[string]struct{}, error) {
	var errs []error
	targets, served := make(map[string]*Target, len(ts)), make(map[string]struct{}, len(ts))
	for _, t := range ts {
		t, err := t.normal()
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for _, name := range append([]string{t.Name}, t.Former...) {
			if _, ok := served[name]; ok {
				errs = append(errs, fmt.Errorf("target %q: the name %q is given twice", t.Name, name))
			}
			served[name] = struct{}{}
		}
		targets[t.Name] = &t
	}
	return targets, served, errors.Join(errs...)
}

// prepare makes what outlives a target's configuration, with what is kept of
// it, or gives it the new configuration. f.mu is held.
func (f *Forwarder) prepare(name string, t *Target) {
	s := f.states[name]
	if s == nil {
		s = newState(f.metrics.of(name))
		f.states[name] = s
		f.book.apply(name, s.gate)
		if f.cfg.Fleet != nil {
			share, _ := f.cfg.Fleet.Share()
			s.gate.divide(share)
		}
	}
	if s.gate.configure(t, f.moment()) {
		f.book.save(name, s.gate)
	}
}

func (f *Forwarder) moment() moment { return moment{f.cfg.Ledger.Now(), f.cfg.Now()} }

// gate is a target's, nil for none.
func (f *Forwarder) gate(name string) *gate {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s := f.states[name]; s != nil {
		return s.gate
	}
	return nil
}

// reconcile ends the queues whose target changed or went and starts those
// that are missing. f.mu is held.
func (f *Forwarder) reconcile() {
	if f.start == nil {
		return
	}
	for name, q := range f.queues {
		if f.targets[name] != q.target {
			q.halt()
			delete(f.queues, name)
		}
	}
	for name, t := range f.targets {
		if f.queues[name] == nil && !t.Pull {
			q := f.newQueue(t)
			f.queues[name] = q
			f.start(q)
		}
	}
}

func (f *Forwarder) newQueue(t *Target) *queue {
	gate := f.states[t.Name].gate
	q := &queue{
		target: t, ledger: f.cfg.Ledger, log: f.cfg.Log.With("target", t.Name, "site", t.Site()),
		now: f.cfg.Now, rand: f.rand, state: f.states[t.Name], spans: f.cfg.Spans, fail: f.fail,
		save:  func() { f.book.save(t.Name, gate) },
		claim: func(ctx context.Context, until time.Time) bool { return f.book.claim(ctx, t.Name, gate, until) },
		hold:  func(by dedupe.By) { f.hold(t.Name, gate, by) },
	}
	if !t.Pull { // nobody is called
		q.build, q.transport, q.share = newBuilder(t, f.cfg.Version), newTransport(t, f.cfg.Dial, f.cfg.Resolver), newShare(t.Memory)
		q.work, q.results = make(chan item, waiting(t)), make(chan *dedupe.Result, backlog)
	}
	return q
}

func (f *Forwarder) rand() float64 {
	f.randMu.Lock()
	defer f.randMu.Unlock()
	return f.cfg.Rand()
}

// away is nil unless the ledger says that it is away.
func (f *Forwarder) away() error {
	if l, ok := f.cfg.Ledger.(interface{ Away() error }); ok {
		return l.Away()
	}
	return nil
}

// fail ends Run with the first failure of the ledger.
func (f *Forwarder) fail(err error) {
	select {
	case f.failed <- fmt.Errorf("record attempts: %w", err):
	default:
	}
}

// Run delivers until ctx ends or the ledger fails. Then it leases nothing
// more, lets attempts in flight go on for Config.Drain, cuts the rest and
// records them as interrupted and still pending, gives back what it did not
// begin, and returns when all that is durable, or the ledger has been away or
// without room for too long: nil, or the ledger's error. It may be called once.
func (f *Forwarder) Run(ctx context.Context) error {
	work := context.WithoutCancel(ctx)
	attempts, cut := context.WithCancelCause(work)
	defer cut(nil)
	storing, giveUp := context.WithCancel(work)
	defer giveUp()
	leasing, halt := context.WithCancel(work)
	defer halt()

	switch err := f.restore(ctx); {
	case ctx.Err() != nil && (errors.Is(err, dedupe.ErrAway) || errors.Is(err, ctx.Err())):
		return nil // nothing was begun
	case err != nil:
		return err
	}
	var queues, watch sync.WaitGroup
	if err := f.begin(leasing, attempts, storing, &queues); err != nil {
		return err
	}
	watch.Go(func() { f.watchMissing(leasing, storing) })
	watch.Go(func() { f.watchFleet(leasing) })
	queues.Go(func() { f.pulls.run(leasing, attempts, storing) })
	keeping, keep := context.WithCancel(work)
	defer keep()
	var keeper sync.WaitGroup
	keeper.Go(func() { f.book.run(keeping, f.gate) })
	var err error
	select {
	case <-ctx.Done():
	case err = <-f.failed:
	}
	f.mu.Lock()
	f.start = nil
	clear(f.queues)
	f.mu.Unlock()
	halt()
	timer := time.AfterFunc(f.cfg.Drain, func() { cut(errInterrupted) })
	defer timer.Stop()
	last := time.AfterFunc(f.cfg.Drain+storeTime, giveUp)
	defer last.Stop()
	soon := time.AfterFunc(f.cfg.Drain+roomTime, func() {
		if l, ok := f.cfg.Ledger.(interface{ Full() bool }); ok && l.Full() {
			giveUp()
		}
	})
	defer soon.Stop()
	queues.Wait()
	watch.Wait()
	keep()
	keeper.Wait()
	f.book.flush(storing, f.gate)
	if err == nil {
		select {
		case err = <-f.failed:
		default:
		}
	}
	return err
}

// watchFleet divides the rates as the fleet does, until ctx ends.
func (f *Forwarder) watchFleet(ctx context.Context) {
	if f.cfg.Fleet == nil {
		return
	}
	for ctx.Err() == nil {
		f.mu.Lock()
		share, changed := f.cfg.Fleet.Share()
		for _, s := range f.states {
			s.gate.divide(share)
		}
		f.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// begin starts a queue for every target.
func (f *Forwarder) begin(leasing, attempts, storing context.Context, queues *sync.WaitGroup) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ran {
		return errors.New("forwarder runs once")
	}
	f.ran = true
	f.start = func(q *queue) {
		own, halt := context.WithCancel(leasing)
		q.halt = halt
		queues.Go(func() {
			defer halt()
			q.run(own, attempts, storing)
		})
	}
	f.reconcile()
	return nil
}

// missing lists the names with open deliveries that no target serves.
func (f *Forwarder) missing() []string {
	open := f.cfg.Ledger.Targets()
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(open), func(name string) bool {
		_, ok := f.served[name]
		return ok
	})
}
