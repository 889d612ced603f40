package gateway

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/forward"
	"github.com/onceward/onceward/receiver"
)

// keyBook is the ledger as synchronous routes see it: reads from the engine,
// steps through the group commit.
type keyBook struct {
	dedupe.KeyBook
	*dedupe.Writer
}

var _ receiver.Keys = keyBook{}

// callOut is the forwarder as synchronous routes see it.
type callOut struct{ f *forward.Forwarder }

var _ receiver.Outbound = callOut{}

func (o callOut) Call(ctx context.Context, target string, c *receiver.Outgoing) (*http.Response, error) {
	call := forward.Call(*c)
	resp, err := o.f.Call(ctx, target, &call)
	var ce *forward.CallError
	if errors.As(err, &ce) {
		return nil, &receiver.CallError{Sent: ce.Sent, Class: string(ce.Outcome)}
	}
	return resp, err
}

func (o callOut) CallTimeout(target string) time.Duration { return o.f.CallTimeout(target) }

// countKeys makes the counters of a generation's synchronous sources visible
// at 0.
func (g *Gateway) countKeys(gen *generation) {
	for _, s := range gen.sources {
		if s.Sync != nil {
			g.writer.CountKeys(s.Name)
		}
	}
}

// closeCalls closes the connections that calls have left open; none is under
// way any more.
func (g *Gateway) closeCalls() error {
	if g.forwarder != nil {
		g.forwarder.CloseIdleConnections()
	}
	return nil
}
