package gateway

import (
	"context"
	"runtime"
	"slices"

	"github.com/onceward/onceward/admin"
	"github.com/onceward/onceward/event"
	"github.com/onceward/onceward/forward"
	"github.com/onceward/onceward/receiver"
)

// edgeView is the receiver as the admin listener shows it.
type edgeView struct{ r *receiver.Receiver }

func (v edgeView) SourceStats() []admin.Source {
	stats := v.r.SourceStats()
	out := make([]admin.Source, len(stats))
	for i, s := range stats {
		out[i] = admin.Source{
			Name: s.Name, Path: s.Path, Provider: s.Provider, Offline: s.Offline, LastAccepted: s.LastAccepted, Counts: s.Counts,
			Refused: s.Refused,
		}
	}
	return out
}

func (v edgeView) Refusals(q admin.RefusalQuery) []admin.Refusal {
	f := receiver.RefusalFilter{Source: q.Source, Reason: q.Reason, Since: q.Since, Limit: q.Limit}
	out := []admin.Refusal{}
	for _, r := range v.r.Refusals(f) {
		var skew *float64
		if r.HasSkew {
			s := r.Skew.Seconds()
			skew = &s
		}
		out = append(out, admin.Refusal{
			ID: r.ID, At: r.At, Source: r.Source, Reason: r.Reason, Detail: r.Detail, Remote: r.Remote, Method: r.Method, Path: r.Path,
			Header: r.Header, BodyBytes: r.BodyLength, BodySHA256: r.BodySHA256, Body: string(r.Body),
			BodyOmitted: r.BodyOmitted, Skew: skew,
		})
	}
	return out
}

// targetsView is the forwarder as the admin listener shows it.
type targetsView struct{ f *forward.Forwarder }

func (v targetsView) Status() []admin.Target {
	status := v.f.Status()
	out := make([]admin.Target, len(status))
	for i, t := range status {
		out[i] = admin.Target{
			Name: t.Name, URL: t.Site, Missing: t.Missing, InFlight: int(t.InFlight),
			LastSuccess: t.LastSuccess, LastFailure: t.LastFailure, Failures: int(t.ConsecutiveFailures),
			Attempts: map[string]uint64{}, Paused: t.Paused, PausedAt: t.PausedAt, PausedBy: t.PausedBy, PauseReason: t.PauseReason,
			Breaker: admin.Breaker{State: t.Breaker.State, ProbeAt: t.Breaker.ProbeAt, Probes: t.Breaker.Probes, History: []admin.BreakerChange{}},
		}
		for _, h := range t.Breaker.History {
			out[i].Breaker.History = append(out[i].Breaker.History, admin.BreakerChange(h))
		}
		for outcome, n := range t.Attempts {
			out[i].Attempts[string(outcome)] = n
		}
	}
	return out
}

// route names today's targets of an event. Its body is read only when a
// condition may look into it.
func (g *Gateway) route(ev *event.Event, body func() ([]byte, error)) []string {
	for _, s := range g.gen.Load().sources {
		if s.Name != ev.Source {
			continue
		}
		var b []byte
		if slices.ContainsFunc(s.Routes, func(r receiver.Route) bool { return r.Where }) {
			var err error
			if b, err = body(); err != nil {
				return nil // the replay fails with it
			}
		}
		return s.Select(ev, b).Targets
	}
	return nil
}

// reloadForAdmin is Reload in the listener's terms.
func (g *Gateway) reloadForAdmin(ctx context.Context) ([]admin.Fault, error) {
	faults, err := g.reloadBy(ctx, actorAPI)
	out := make([]admin.Fault, len(faults))
	for i, f := range faults {
		out[i] = admin.Fault(f)
	}
	return out, err
}

func buildOf(o Options) admin.Build {
	return admin.Build{Version: o.Version, Revision: o.Revision, Go: runtime.Version()}
}
