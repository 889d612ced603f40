package trace

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	queueSize = 2048
	batchSize = 512
	every     = 5 * time.Second
	// lastWords bounds the export of what is left at a stop.
	lastWords = 5 * time.Second
	path      = "/v1/traces"
)

// The results of a span, as metric labels.
const (
	resultExported = "exported"
	resultDropped  = "dropped" // no room in the queue
	resultFailed   = "failed"  // the collector did not take it
)

// Config is what a Recorder is made of. Endpoint is required.
type Config struct {
	// Endpoint is the collector's OTLP/HTTP URL; /v1/traces is added unless it
	// stands there.
	Endpoint string
	// Headers go with every export. They may be credentials and are shown
	// nowhere.
	Headers map[string]string
	// Sample is the share of traces recorded, from 0 to 1.
	Sample float64
	// Service, Version and Instance name the process in the spans.
	Service, Version, Instance string
	// Transport carries exports; nil = a direct one, without proxies.
	Transport  http.RoundTripper
	Log        *slog.Logger          // nil: nothing is logged
	Registerer prometheus.Registerer // nil: instruments are not registered
}

// Recorder takes spans and exports them in batches. All methods are safe for
// concurrent use and, but for Run, may be called on nil.
type Recorder struct {
	cfg   Config // read-only
	url   string
	bound uint64 // trace IDs below it are recorded
	all   bool
	queue chan *Span
	spans *prometheus.CounterVec

	exported, dropped, failed prometheus.Counter
}

// ParseEndpoint is the URL that spans are posted to. The error doesn't hold the
// text.
func ParseEndpoint(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("want an http or https URL without user and query")
	}
	if !strings.HasSuffix(u.Path, path) {
		u.Path = strings.TrimSuffix(u.Path, "/") + path
	}
	return u, nil
}

// New makes a recorder and starts nothing.
func New(cfg Config) (*Recorder, error) {
	u, err := ParseEndpoint(cfg.Endpoint)
	if err != nil {
		return nil, fmt.Errorf("traces endpoint: %w", err)
	}
	if !(cfg.Sample >= 0 && cfg.Sample <= 1) {
		return nil, fmt.Errorf("traces sample %v: want 0 to 1", cfg.Sample)
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	cfg.Log = cfg.Log.With("component", "trace")
	if cfg.Transport == nil {
		cfg.Transport = &http.Transport{
			TLSHandshakeTimeout: 5 * time.Second, ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 1, IdleConnTimeout: 30 * time.Second,
			MaxResponseHeaderBytes: 64 << 10, DisableCompression: true,
		}
	}
	r := &Recorder{cfg: cfg, url: u.String(), bound: uint64(cfg.Sample * math.MaxInt64), all: cfg.Sample == 1, queue: make(chan *Span, queueSize)}
	r.spans = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "onceward_trace_spans_total", Help: "Spans recorded, by what became of them: exported, dropped for want of room, or failed at the collector.",
	}, []string{"result"})
	r.exported, r.dropped, r.failed = r.spans.WithLabelValues(resultExported), r.spans.WithLabelValues(resultDropped), r.spans.WithLabelValues(resultFailed)
	if cfg.Registerer != nil {
		if err := cfg.Registerer.Register(r.spans); err != nil {
			return nil, fmt.Errorf("register trace metrics: %w", err)
		}
	}
	return r, nil
}

// Root is a new trace, sampled as configured. Without a recorder it is sampled:
// who comes later decides for itself.
func (r *Recorder) Root() Context {
	c := NewRoot(true)
	c.Sampled = r.Sampled(c.Trace)
	return c
}

// Sampled is the decision for a trace, the same for everyone that decides by
// the share of trace IDs.
func (r *Recorder) Sampled(id ID) bool {
	return r == nil || r.all || binary.BigEndian.Uint64(id[8:])>>1 < r.bound
}

// On reports whether anything is recorded at all.
func (r *Recorder) On() bool { return r != nil }

// Record hands over a span, which nobody changes any more, if its trace is
// sampled. It never waits.
func (r *Recorder) Record(s *Span) {
	if r == nil || !s.Context.Sampled {
		return
	}
	select {
	case r.queue <- s:
	default:
		r.dropped.Inc()
	}
}

// Run exports until ctx ends, then what is left, for a few seconds at most. A
// collector that fails is no error: its spans are lost, and counted.
func (r *Recorder) Run(ctx context.Context) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	work, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(lastWords, cut) })()
	x := newExporter(r, ctx.Done())
	defer x.close()
	batch := make([]*Span, 0, batchSize)
	for {
		select {
		case s := <-r.queue:
			if batch = append(batch, s); len(batch) < batchSize {
				continue
			}
		case <-tick.C:
		case <-ctx.Done():
			r.rest(work, x, batch)
			return nil
		}
		if len(batch) > 0 {
			x.export(work, batch)
			clear(batch)
			batch = batch[:0]
		}
	}
}

// rest exports what is left at a stop.
func (r *Recorder) rest(ctx context.Context, x *exporter, batch []*Span) {
	for {
		select {
		case s := <-r.queue:
			if batch = append(batch, s); len(batch) < batchSize {
				continue
			}
		default:
			if len(batch) > 0 {
				x.export(ctx, batch)
			}
			return
		}
		x.export(ctx, batch)
		batch = batch[:0]
	}
}
