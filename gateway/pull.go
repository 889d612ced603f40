package gateway

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/onceward/onceward/admin"
	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
	"github.com/onceward/onceward/forward"
)

// calledKeys say how a target is called.
var calledKeys = []string{"url", "timeout", "headers", "signing_secrets", "retry_on", "dead_on", "pause_on", "breaker", "allow", "auth", "tls",
	"proxy", "as", "method", "headers_allow", "headers_deny", "idempotent"}

// pulled checks a target whose service fetches its deliveries; by are those
// seen before, by token.
func (c *checker) pulled(t *TargetConfig, n *node, by map[string]string) {
	token := n.get("pull_token")
	if !t.Pull {
		if token != nil {
			c.rep.at(token, "pull_token means nothing without pull = true", "add that, or remove it")
		}
		return
	}
	c.meaningless(n, calledKeys, "on a target that is pulled", "remove it")
	for i := range c.cfg.Sources {
		if s := &c.cfg.Sources[i]; s.Synchronous() && slices.Contains(s.Targets, t.Name) {
			c.rep.at(n.or("pull"), "source "+strconv.Quote(s.Name)+" is synchronous and sends to this target", "nobody can wait for a service that fetches; give the source a target with a url")
		}
	}
	if token == nil {
		c.rep.at(n.or("pull"), "this target is pulled and has no pull_token", `write pull_token = "${env:TOKEN}"`)
		return
	}
	c.credential(token, t.PullToken)
	v := t.PullToken.Value.Reveal()
	switch other := by[v]; {
	case v == "":
	case len(v) < minSecret:
		c.rep.at(token, "the pull_token is shorter than "+strconv.Itoa(minSecret)+" bytes", "it opens deliveries to everyone who guesses it; use a longer one")
	case other != "":
		c.rep.at(token, "target "+strconv.Quote(other)+" has the same pull_token", "give each target its own")
	default:
		by[v] = t.Name
	}
}

// pullTokens are the hashes of the tokens of pulled targets, by target.
func (c *Config) pullTokens() map[string][32]byte {
	out := map[string][32]byte{}
	for i := range c.Targets {
		if t := &c.Targets[i]; t.Pull {
			out[t.Name] = admin.HashToken(t.PullToken.Value.Reveal())
		}
	}
	return out
}

// puller is the forwarder as the listener gives deliveries out.
type puller struct{ f *forward.Forwarder }

// Pull leases deliveries.
func (p puller) Pull(ctx context.Context, target string, n int, lease, wait time.Duration) ([]admin.Pulled, error) {
	got, err := p.f.Pull(ctx, target, n, lease, wait)
	if err != nil {
		return nil, pullFault(err)
	}
	out := make([]admin.Pulled, len(got))
	for i := range got {
		g, ev := &got[i], got[i].Event
		out[i] = admin.Pulled{
			Lease: g.Lease, ExpiresAt: g.Until, Delivery: g.Delivery.DeliveryID(), Attempt: g.Delivery.Attempts + 1, Key: g.Delivery.Key(ev),
			Event: ev.Ref, Source: ev.Source, EventID: ev.ID, Type: ev.Type, Test: ev.Flags.Has(event.FlagTest), Received: ev.ReceivedAt,
			Method: g.Method, Path: ev.Path, Query: ev.Query, Body: g.Body, Header: listHeader(g.Header),
		}
	}
	return out, nil
}

// Ack settles a lease as done.
func (p puller) Ack(ctx context.Context, target, lease string) error {
	return pullFault(p.f.PullAck(ctx, target, lease))
}

// Nack gives a delivery back.
func (p puller) Nack(ctx context.Context, target, lease string, n admin.Nack) error {
	return pullFault(p.f.PullNack(ctx, target, lease, forward.Nack(n)))
}

// Extend prolongs a lease.
func (p puller) Extend(ctx context.Context, target, lease string, by time.Duration) (time.Time, error) {
	until, err := p.f.PullExtend(ctx, target, lease, by)
	return until, pullFault(err)
}

// pullFault is an error of the forwarder in the listener's terms.
func pullFault(err error) error {
	switch {
	case errors.Is(err, forward.ErrLeaseLost):
		return admin.ErrLeaseLost
	case errors.Is(err, forward.ErrStopping):
		return admin.ErrStopping
	case errors.Is(err, forward.ErrNotPulled): // between a reload's two halves
		return dedupe.ErrNotFound
	}
	return err
}

// listHeader lists a header by name.
func listHeader(h http.Header) []event.Field {
	out := make([]event.Field, 0, len(h))
	for _, name := range slices.Sorted(maps.Keys(h)) {
		for _, v := range h[name] {
			out = append(out, event.Field{Name: name, Value: v})
		}
	}
	return out
}
