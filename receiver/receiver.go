package receiver

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/trace"
)

// Admitter makes a request's events happen once. Accept returns nil only when
// the outcomes are durable; an error means the outcome is unknown and it is
// safe to send the request again.
type Admitter interface {
	Accept(ctx context.Context, r *dedupe.Request) error
}

// Config is what a Receiver is made from. Admit is required.
type Config struct {
	Admit   Admitter
	Sources []*Source
	// Keys and Outbound serve synchronous sources; without those they may be
	// nil.
	Keys     Keys
	Outbound Outbound
	// Handover carries out what handshakes ask for beside their answer. Nil
	// carries out nothing: such a handshake is answered 503.
	Handover Handover
	// TrustedProxies are the peers whose forwarded headers are believed. None
	// by default: then the peer is the client and Host is the host.
	TrustedProxies []netip.Prefix
	Log            *slog.Logger          // nil discards
	Registerer     prometheus.Registerer // nil registers nowhere
	Now            func() time.Time      // wall clock; nil is time.Now
	// TLS, when not nil, makes Serve speak TLS and nothing else: 1.2 or later,
	// with HTTP/2. It is copied.
	TLS *tls.Config
	// Spans records requests. Nil records none.
	Spans *trace.Recorder
	// Ready says whether new traffic is welcome; /readyz shows only yes or no.
	// Nil is always ready.
	Ready func() error

	BodyBytesInFlight int64         // body bytes held by all requests together; 64 MiB
	HeaderTimeout     time.Duration // from the first byte to the end of the header block; 5 s
	BodyTimeout       time.Duration // from the first byte to the end of the body; 30 s
	IdleTimeout       time.Duration // of a kept-alive connection; 60 s
	MaxHeaderBytes    int           // 32 KiB
	MaxConns          int           // open connections, further ones wait; 8,192
	DrainTimeout      time.Duration // for requests under way when Serve is told to stop; 20 s
	Version           string        // shown in start-up logs only
}

// The defaults of Config.
const (
	defaultBodyBytes  = 64 << 20
	defaultHeader     = 32 << 10
	defaultMaxConns   = 8192
	defaultDrain      = 20 * time.Second
	defaultHeaderTime = 5 * time.Second
	defaultBodyTime   = 30 * time.Second
	defaultIdleTime   = 60 * time.Second
)

func (c *Config) setDefaults() {
	orDefault(&c.BodyBytesInFlight, defaultBodyBytes)
	orDefault(&c.HeaderTimeout, defaultHeaderTime)
	orDefault(&c.BodyTimeout, defaultBodyTime)
	orDefault(&c.IdleTimeout, defaultIdleTime)
	orDefault(&c.MaxHeaderBytes, defaultHeader)
	orDefault(&c.MaxConns, defaultMaxConns)
	orDefault(&c.DrainTimeout, defaultDrain)
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Ready == nil {
		c.Ready = func() error { return nil }
	}
}

func orDefault[T int | int64 | time.Duration](v *T, d T) {
	if *v <= 0 {
		*v = d
	}
}

// Receiver is the public edge. It is safe for concurrent use.
type Receiver struct {
	cfg Config // read-only after New
	log *slog.Logger
	m   *metrics

	budget   budget
	rings    rings
	gen      atomic.Pointer[generation]
	flights  flights
	replays  replays
	draining atomic.Bool // answers close their connection

	// mu guards the per-source states, which survive every swap of sources.
	mu      sync.Mutex
	states  map[string]*state
	unknown *state // of requests for no source of ours
}

// New makes a receiver and starts nothing. All faults of the sources are
// reported together.
func New(cfg Config) (*Receiver, error) {
	if cfg.Admit == nil {
		return nil, errors.New("receiver: no admitter")
	}
	cfg.setDefaults()
	m, err := newMetrics(cfg.Registerer)
	if err != nil {
		return nil, err
	}
	r := &Receiver{
		cfg:    cfg,
		log:    cfg.Log.With("component", "receiver"),
		m:      m,
		states: map[string]*state{},
	}
	r.budget.max = cfg.BodyBytesInFlight
	r.rings.init()
	r.flights.init()
	r.unknown = newState(m, unknownSource)
	if err := r.SetSources(cfg.Sources, cfg.TrustedProxies); err != nil {
		return nil, err
	}
	return r, nil
}

// Handler is the whole public surface: sources, /livez and /readyz. It never
// lets a panic through.
func (r *Receiver) Handler() http.Handler { return http.HandlerFunc(r.serveHTTP) }

func (r *Receiver) serveHTTP(w http.ResponseWriter, req *http.Request) {
	r.gen.Load().edge.ServeHTTP(w, req)
}

// SetSources swaps in another generation at once. Requests under way end with
// the generation they began with. Rings and counters go on. A fault in any
// source leaves the present generation in place.
func (r *Receiver) SetSources(sources []*Source, trusted []netip.Prefix) error {
	gen, err := r.compile(sources, trusted)
	if err != nil {
		return err
	}
	r.gen.Store(gen)
	for _, c := range gen.sources {
		if c.verifier == nil {
			r.log.Warn("source is offline", "event", "source.offline", "source", c.name, "reason", c.offline)
		}
	}
	return nil
}
