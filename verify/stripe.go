package verify

import (
	"errors"

	"github.com/stripe/stripe-go/v76/webhook"
)

// customStripe names the verification below in a row.
const customStripe = "stripe"

// stripeAuth verifies with Stripe's own library. The HMAC family describes the
// same scheme, reads the header's timestamp and judges its age in both
// directions by the request's clock; the library decides on the signature. Its
// event constructor is never used: it refuses events of every other API version
// after their signature has passed.
type stripeAuth struct{ *hmacAuth }

func compileStripe(m *Mode, p parts) (authenticator, []key, error) {
	a, err := describedHMAC(m, p)
	return stripeAuth{a}, a.keys, err
}

func (a stripeAuth) verify(x *exchange) Result {
	if !anyActive(a.keys, x.req.Now) {
		return refuse(ReasonNoSecret, "no secret is configured and valid at this time")
	}
	header, res := a.textAt(x, &a.places[0])
	if res.Reason == OK && header == "" {
		res = refuse(ReasonSignatureMissing, "there is no signature")
	}
	if res.Reason != OK {
		return res
	}
	if res = a.split(x, header, ""); res.Reason != OK {
		return res
	}
	if res = a.readTime(x); res.Reason != OK {
		return res
	}
	if len(x.timestamp) > 1 && x.timestamp[0] == '0' {
		// The library signs the number, not its text: other spellings of it would
		// pass that Stripe never sends.
		return refuse(ReasonTimestampMalformed, "the timestamp begins with a zero")
	}
	err := errors.New("no secret tried")
	for i := range a.keys {
		k := &a.keys[i]
		if !k.active(x.req.Now) {
			continue
		}
		if err = webhook.ValidatePayloadIgnoringTolerance(x.req.Body, header, k.Value.Reveal()); err == nil {
			res.Secret, res.Caller = k.ID, k.Caller
			return a.judge(res)
		}
	}
	return unmatched(res, errors.Is(err, webhook.ErrNoValidSignature))
}
