package verify

import (
	"crypto/hmac"
	"crypto/sha1"
	"encoding/hex"
	"io"
	"strings"
)

// customBraintree names the verification and the handshake below in a row.
const customBraintree = "braintree"

// optionPublicID is the option with the public half of a pair of keys.
const optionPublicID = "public_id"

// braintreeAuth verifies Braintree's notifications, which no family fits: the
// signature is one of several pairs of a public key and a MAC in a form field, and
// covers another field, sometimes with a line break behind it that was lost on the
// way. The same key answers challenges that anyone may send, so that a payload that
// looks like one is refused whatever its signature.
type braintreeAuth struct{ *hmacAuth }

func compileBraintree(m *Mode, p parts) (authenticator, []key, error) {
	a, err := describedHMAC(m, p)
	return braintreeAuth{a}, a.keys, err
}

func (a braintreeAuth) verify(x *exchange) Result {
	if !anyActive(a.keys, x.req.Now) {
		return refuse(ReasonNoSecret, "no secret is configured and valid at this time")
	}
	form := x.form()
	sigs, p := single(form["bt_signature"])
	payload, pp := single(form["bt_payload"])
	switch {
	case p == many || pp == many:
		return refuse(ReasonSignatureMalformed, "the signature or the payload was sent more than once")
	case sigs == "":
		return refuse(ReasonSignatureMissing, "there is no signature")
	case pp != once || !braintreePayload(payload):
		return refuse(ReasonSignatureMalformed, "the payload is not base64")
	case isBraintreeChallenge(payload):
		return refuse(ReasonSignatureMalformed, "the payload looks like a challenge, which anyone can have signed")
	case len(sigs) > maxSignatureLen:
		return refuse(ReasonSignatureMalformed, "the signature is too long")
	}
	if res := a.take(x, sigs); res.Reason != OK {
		return res
	}
	readable := false
	for i := range a.keys {
		k := &a.keys[i]
		if !k.active(x.req.Now) {
			continue
		}
		for _, text := range []string{payload, payload + "\n"} {
			x.sum = k.mac(x.sum[:0], text)
			matched, decoded := a.match(x, k)
			readable = readable || decoded
			if matched {
				return Result{Reason: OK, Secret: k.ID, Caller: k.Caller}
			}
		}
	}
	return unmatched(Result{}, readable)
}

// take fills in the MACs of our own public key.
func (a braintreeAuth) take(x *exchange, sigs string) Result {
	for more := true; more; {
		var pair string
		pair, sigs, more = strings.Cut(sigs, "&")
		public, mac, ok := strings.Cut(pair, "|")
		if !ok || public != x.options[optionPublicID] {
			continue
		}
		if !x.cands.add(mac, "") {
			return refuse(ReasonSignatureMalformed, "too many signatures")
		}
	}
	if x.cands.n == 0 {
		return refuse(ReasonSignatureMismatch, "no signature is of the configured public key")
	}
	return Result{Reason: OK}
}

// braintreePayload reports whether a payload is base64 with line breaks.
func braintreePayload(s string) bool {
	return s != "" && strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+=/\n") == ""
}

// isBraintreeChallenge reports whether s is what a challenge consists of.
func isBraintreeChallenge(s string) bool {
	s = strings.TrimSuffix(s, "\n")
	return len(s) >= 20 && len(s) <= 32 && strings.Trim(s, "0123456789abcdefABCDEF") == ""
}

// braintreeChallenge answers the challenge of the control panel with the public key
// and a MAC of it. The protocol signs what an outsider chose; nothing but 20 to 32
// hex digits is signed, and no payload of that shape is ever taken.
func braintreeChallenge(x *exchange, k *key) (string, Reason) {
	challenge, p := single(x.query()["bt_challenge"])
	if p != once || !isBraintreeChallenge(challenge) || strings.HasSuffix(challenge, "\n") {
		return "", ReasonSignatureMalformed
	}
	if k == nil {
		return "", ReasonNoSecret
	}
	sum := sha1.Sum([]byte(k.Value.Reveal()))
	mac := hmac.New(sha1.New, sum[:])
	_, _ = io.WriteString(mac, challenge)
	return x.options[optionPublicID] + "|" + hex.EncodeToString(mac.Sum(nil)), OK
}

// covers holds for what is inside the payload.
func (braintreeAuth) covers(l locator) bool {
	return l.kind == kindForm && l.name == "bt_payload"
}

// coversBody does not hold: pairs of other keys beside ours are signed by nothing.
func (braintreeAuth) coversBody() bool { return false }

func (braintreeAuth) writeSigned(x *exchange, w io.Writer) bool {
	_, err := io.WriteString(w, x.form().Get("bt_payload"))
	return err == nil
}
