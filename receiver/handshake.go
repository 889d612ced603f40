package receiver

import (
	"errors"
	"net/http"

	"github.com/onceward/onceward/verify"
)

// ErrCaptured says that a source was handed its secret before.
var ErrCaptured = errors.New("a secret was handed over before and stays")

// Handover carries out what a handshake asks for beside its answer. It is
// called from many goroutines.
type Handover interface {
	// Capture keeps a secret that the provider handed over. When it returns nil
	// the secret is durable and in use. ErrCaptured says that there is one
	// already, which stays; any other error means that the provider should try
	// again.
	Capture(source string, secret verify.SecretString) error
	// Confirm makes ready to call an address. The caller calls start once the
	// handshake is answered; it returns at once and is never called twice. An
	// error means that there is no room for it now.
	Confirm(source, url string) (start func(), err error)
}

var errNoHandover = errors.New("nothing carries out what the handshake asks for")

// shakeHands answers a handshake. What the provider hands over is kept before
// the answer, and what it wants to have called is called after it.
func (c *call) shakeHands(res *verify.Result) outcome {
	a := newAnswer(*res.Handshake, http.StatusOK)
	start, err := c.act(res.Action)
	switch {
	case errors.Is(err, ErrCaptured):
		c.body, c.whole = nil, false // it holds a secret
		return c.refuse(string(verify.ReasonHandshakeFailed), err.Error(), &c.src.refusal)
	case err != nil:
		c.complain("handshake not carried out", err)
		return c.busy(outError, retryLater)
	}
	c.r.send(c.w, c.req, &a)
	if start != nil {
		start()
	}
	return outHandshake
}

// act does what has to be done before the answer, and returns what is to be
// done after it, nil for nothing.
func (c *call) act(a *verify.Action) (start func(), err error) {
	if a == nil {
		return nil, nil
	}
	hand := c.r.cfg.Handover
	if hand == nil {
		return nil, errNoHandover
	}
	switch a.Kind {
	case verify.ActionCapture:
		return nil, hand.Capture(c.src.name, a.Secret)
	case verify.ActionConfirm:
		return hand.Confirm(c.src.name, a.URL)
	}
	return nil, errNoHandover
}
