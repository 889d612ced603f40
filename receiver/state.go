package receiver

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// state is what is remembered of a source by its name, over every swap of
// sources. All of it is safe for concurrent use.
type state struct {
	name         string
	m            *metrics
	counts       [outcomes]tally
	duration     [outcomes]prometheus.Observer
	refused      map[string]*refusedTally // by every reason there is; read-only
	bytes        prometheus.Observer
	last         prometheus.Gauge
	hits         prometheus.Counter
	conflict     prometheus.Counter
	filterErrors prometheus.Counter
	leftOut      prometheus.Counter // values of indexed fields
	lastNew      atomic.Int64       // Unix nanoseconds; 0 for never

	waiting waiting // requests that may wait for keys

	conflictLog quiet
	errorLog    quiet
	filterLog   quiet

	// secrets is replaced whole under mu; labels come from the configuration.
	mu      sync.Mutex
	secrets atomic.Pointer[map[string]prometheus.Counter]
}

// tally is one number that both the metrics and the stats show.
type tally struct {
	n atomic.Uint64
	c prometheus.Counter
}

func (t *tally) inc() {
	t.n.Add(1)
	t.c.Inc()
}

type refusedTally struct {
	tally
	log quiet
}

func newState(m *metrics, name string) *state {
	s := &state{
		name: name, m: m, refused: map[string]*refusedTally{},
		bytes: m.bytes.WithLabelValues(name), last: m.last.WithLabelValues(name),
		hits: m.hits.WithLabelValues(name), conflict: m.conflicts.WithLabelValues(name),
		filterErrors: m.filterErrors.WithLabelValues(name), leftOut: m.leftOut.WithLabelValues(name),
	}
	for o := range s.counts {
		s.counts[o].c = m.requests.WithLabelValues(name, outcomeNames[o])
		s.duration[o] = m.duration.WithLabelValues(name, outcomeNames[o])
	}
	why := reasons()
	if name == unknownSource {
		why = []string{reasonUnknownSource}
	}
	for _, reason := range why {
		s.refused[reason] = &refusedTally{tally: tally{c: m.refused.WithLabelValues(name, reason)}}
	}
	s.secrets.Store(&map[string]prometheus.Counter{})
	return s
}

// stateOf is the state of the source of that name, made on first use.
func (r *Receiver) stateOf(name string) *state {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.states[name]
	if s == nil {
		s = newState(r.m, name)
		r.states[name] = s
	}
	return s
}

// secretUsed counts a match of the secret with that label.
func (s *state) secretUsed(label string) {
	if label == "" {
		return
	}
	c, ok := (*s.secrets.Load())[label]
	if !ok {
		c = s.addSecret(label)
	}
	c.Inc()
}

func (s *state) addSecret(label string) prometheus.Counter {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := maps.Clone(*s.secrets.Load())
	c := s.m.secrets.WithLabelValues(s.name, label)
	next[label] = c
	s.secrets.Store(&next)
	return c
}

// quiet lets one log line through per quietFor and counts the others.
type quiet struct {
	until   atomic.Int64 // Unix nanoseconds
	dropped atomic.Uint64
}

const quietFor = 10 * time.Second

// speak reports whether to log now, and how many lines were held back since
// the last one.
func (q *quiet) speak(now time.Time) (held uint64, ok bool) {
	n, until := now.UnixNano(), q.until.Load()
	if n < until && n > until-2*int64(quietFor) || !q.until.CompareAndSwap(until, n+int64(quietFor)) {
		q.dropped.Add(1)
		return 0, false
	}
	return q.dropped.Swap(0), true
}

// SourceStats is what became of a source's requests since the start.
type SourceStats struct {
	Name         string            `json:"name"`
	Path         string            `json:"path"`
	Provider     string            `json:"provider"`
	Auth         string            `json:"auth"`
	Offline      string            `json:"offline,omitempty"` // why it takes nothing; "" when it does
	LastAccepted time.Time         `json:"last_accepted"`     // zero for never since the start
	Counts       map[string]uint64 `json:"counts"`            // requests by outcome
	Refused      map[string]uint64 `json:"refused"`           // requests by reason, those that occurred
}

// SourceStats lists the sources of the present generation, in their order.
func (r *Receiver) SourceStats() []SourceStats {
	gen := r.gen.Load()
	out := make([]SourceStats, 0, len(gen.sources))
	for _, c := range gen.sources {
		s := SourceStats{
			Name: c.name, Path: c.path, Provider: c.provider, Offline: c.offline,
			Counts: map[string]uint64{}, Refused: map[string]uint64{},
		}
		if c.verifier != nil {
			s.Auth = c.verifier.Mode()
		}
		if ns := c.st.lastNew.Load(); ns != 0 {
			s.LastAccepted = time.Unix(0, ns)
		}
		for o := range c.st.counts {
			s.Counts[outcomeNames[o]] = c.st.counts[o].n.Load()
		}
		for reason, t := range c.st.refused {
			if n := t.n.Load(); n > 0 {
				s.Refused[reason] = n
			}
		}
		out = append(out, s)
	}
	return out
}

// RefusedCounts is how many requests were refused since the start, by source
// and reason, also of sources that are no longer configured. Requests for no
// source stand under a name that none can have.
func (r *Receiver) RefusedCounts() map[[2]string]uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := map[[2]string]uint64{}
	add := func(s *state) {
		for reason, t := range s.refused {
			if n := t.n.Load(); n > 0 {
				out[[2]string{s.name, reason}] = n
			}
		}
	}
	add(r.unknown)
	for _, s := range r.states {
		add(s)
	}
	return out
}
