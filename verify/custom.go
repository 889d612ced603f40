package verify

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// customAuth makes a function of its own ready; describing is the family that
// stands beside it, nil for none.
type customAuth func(m *Mode, p parts) (authenticator, []key, error)

// customHandshake makes the text of an answer; the reason is OK or why not.
type customHandshake func(x *exchange, k *key) (string, Reason)

// customs are the functions a mode may name. Each stands in a file that says why
// no family fits.
func customs() map[string]customAuth {
	return map[string]customAuth{
		customAdyen:         compileAdyen,
		customBraintree:     compileBraintree,
		customConnectWise:   compileConnectWise,
		customContentful:    compileContentful,
		customHTTPSignature: compileHTTPSignature,
		customPlivo:         compilePlivo,
		customSNS:           compileSNS,
		customStripe:        compileStripe,
		customTwilio:        compileTwilio,
		customUnisender:     compileUnisender,
		customVonageSMS:     compileVonageSMS,
	}
}

// customHandshakes are the functions a handshake may name.
func customHandshakes() map[string]customHandshake {
	return map[string]customHandshake{customBraintree: braintreeChallenge}
}

// compileCustom makes the mode's function ready.
func (m *Mode) compileCustom(p parts) (authenticator, []key, error) {
	f, ok := customs()[m.Custom]
	if !ok {
		return noneAuth{}, nil, fmt.Errorf("custom %q: want %s", m.Custom, strings.Join(slices.Sorted(maps.Keys(customs())), ", "))
	}
	return f(m, p)
}

// describedHMAC makes the HMAC beside a function ready.
func describedHMAC(m *Mode, p parts) (*hmacAuth, error) {
	if m.HMAC == nil {
		return &hmacAuth{}, fmt.Errorf("custom %q: needs the hmac that describes it", m.Custom)
	}
	return m.HMAC.compile(p.ids, p.secrets)
}

// describedPublicKey makes the public key beside a function ready.
func describedPublicKey(m *Mode, p parts) (*pubAuth, error) {
	if m.PublicKey == nil {
		return &pubAuth{}, fmt.Errorf("custom %q: needs the public_key that describes it", m.Custom)
	}
	return m.PublicKey.compile(p.ids, p.pub, p.secrets, p.opts)
}
