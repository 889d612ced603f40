package forward

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/onceward/onceward/event"
)

// TargetStatus is what is known of a target since the process started.
type TargetStatus struct {
	Name string `json:"name"`
	// Site is scheme and host of the URL; "" for a missing target.
	Site string `json:"site"`
	// Missing says that open deliveries name it and no configuration does.
	Missing             bool      `json:"missing"`
	InFlight            int64     `json:"in_flight"`
	LastSuccess         time.Time `json:"last_success"` // wall clock; zero when there was none
	LastFailure         time.Time `json:"last_failure"` // wall clock; zero when there was none
	ConsecutiveFailures int64     `json:"consecutive_failures"`
	// Paused says that nothing is attempted; PausedAt (wall clock), PausedBy
	// and PauseReason who wants that, and why.
	Paused      bool                     `json:"paused"`
	PausedAt    time.Time                `json:"paused_at"`
	PausedBy    string                   `json:"paused_by"`
	PauseReason string                   `json:"pause_reason"`
	Breaker     BreakerStatus            `json:"breaker"`
	LateResults int64                    `json:"late_results"`
	Attempts    map[event.Outcome]uint64 `json:"attempts"` // outcomes that occurred
}

// state is what outlives a change of a target's configuration.
type state struct {
	metrics  targetMetrics
	gate     *gate
	inFlight atomic.Int64
	late     atomic.Int64

	// mu guards all below; held for bookkeeping only.
	mu          sync.Mutex
	lastSuccess time.Time
	lastFailure time.Time
	failures    int64 // in a row
	attempts    map[event.Outcome]uint64
	warned      time.Time
	quiet       int64 // failures not logged since warned
}

func newState(m targetMetrics) *state {
	return &state{metrics: m, gate: newGate(m.paused, m.open), attempts: make(map[event.Outcome]uint64)}
}

// begin and end bracket an attempt.
func (s *state) begin() {
	s.inFlight.Add(1)
	s.metrics.inFlight.Inc()
}

func (s *state) end(a *event.Attempt) {
	s.inFlight.Add(-1)
	s.metrics.inFlight.Dec()
	s.metrics.attempts[a.Outcome].Inc()
	s.metrics.duration.Observe(a.Duration.Seconds())
}

const warnEvery = 10 * time.Second

// note records an attempt that ended at wall clock now. For a failure it says
// how many others stayed unsaid since the last warning and whether this one
// should be said; for a success, how many failures in a row it ended.
func (s *state) note(a *event.Attempt, now time.Time) (count int64, say bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.attempts[a.Outcome]++
	if a.Outcome.Success() {
		s.lastSuccess = now
		count, s.failures = s.failures, 0
		if count > 0 {
			s.warned, s.quiet = time.Time{}, 0
		}
		return count, count > 0
	}
	if a.Outcome == event.OutcomeInterrupted {
		return 0, false
	}
	s.lastFailure = now
	s.failures++
	if !s.warned.IsZero() && now.Sub(s.warned) < warnEvery {
		s.quiet++
		return 0, false
	}
	count, s.quiet, s.warned = s.quiet, 0, now
	return count, true
}

func (s *state) snapshot(name string) TargetStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := TargetStatus{
		Name: name, InFlight: s.inFlight.Load(), LateResults: s.late.Load(),
		LastSuccess: s.lastSuccess, LastFailure: s.lastFailure, ConsecutiveFailures: s.failures,
		Attempts: make(map[event.Outcome]uint64, len(s.attempts)),
	}
	for o, n := range s.attempts {
		out.Attempts[o] = n
	}
	var c control
	if c, out.Breaker = s.gate.view(); c.Paused {
		out.Paused, out.PausedAt, out.PausedBy, out.PauseReason = true, c.At, c.By, c.Reason
	}
	return out
}

// Status lists the configured targets, and the missing ones that open
// deliveries name, by name.
func (f *Forwarder) Status() []TargetStatus {
	open := f.cfg.Ledger.Targets()
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make([]TargetStatus, 0, len(f.targets))
	for name, t := range f.targets {
		s := f.states[name].snapshot(name)
		s.Site = t.Site()
		out = append(out, s)
	}
	for _, name := range open {
		if _, ok := f.served[name]; !ok {
			out = append(out, TargetStatus{Name: name, Missing: true, Attempts: map[event.Outcome]uint64{}, Breaker: (&breaker{}).status()})
		}
	}
	slices.SortFunc(out, func(a, b TargetStatus) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// logAttempt says what came of an attempt: every one at Debug, failures at
// Warn but a target's repeated ones only now and then, a death at Info.
func (q *queue) logAttempt(d event.Delivery, a *event.Attempt) {
	count, say := q.state.note(a, q.now())
	debug := q.log.Enabled(context.Background(), slog.LevelDebug)
	if !debug && !say && a.State != event.Dead {
		return
	}
	attrs := []any{
		"delivery", d.DeliveryID(), "attempt", a.Number, "outcome", string(a.Outcome), "status", a.Status,
		"duration_s", a.Duration.Seconds(), "state", a.State.String(),
	}
	if a.Error != "" {
		attrs = append(attrs, "reason", a.Error)
	}
	if a.State == event.Pending {
		attrs = append(attrs, "retry_in_s", a.RetryIn.Seconds())
	}
	if debug {
		q.log.Debug("attempt ended", attrs...)
	}
	switch {
	case say && a.Outcome.Success():
		q.log.Info("target answers again", "failures", count)
	case say:
		q.log.Warn("attempt failed", append(attrs, "unsaid", count)...)
	}
	if a.State == event.Dead {
		q.log.Info("delivery is dead", attrs...)
	}
}
