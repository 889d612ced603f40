package verify

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"strings"
)

// tokenAuth compares a shared secret that is sent as it is. Digests are compared,
// so that neither content nor length of a configured secret shows in the time.
type tokenAuth struct {
	unsigned
	in     locator
	prefix string
	keys   []key
}

func (t *Token) compile(secrets []Secret) (*tokenAuth, error) {
	in, err := parseLocator(t.In)
	keys, kerr := hashedKeys(secrets, nil)
	return &tokenAuth{in: in, prefix: t.Prefix, keys: keys}, errors.Join(wrap("in", err), kerr)
}

// compile makes the family ready; the secret of Basic is user:password.
func (Basic) compile(secrets []Secret) (*basicAuth, error) {
	keys, err := hashedKeys(secrets, func(s string) error {
		if user, pass, ok := strings.Cut(s, ":"); !ok || user == "" || pass == "" {
			return errors.New("want user:password, neither of them empty")
		}
		return nil
	})
	return &basicAuth{keys: keys}, err
}

// hashedKeys keeps only the digest of each secret.
func hashedKeys(secrets []Secret, check func(string) error) ([]key, error) {
	return makeKeys("secret", secrets, func(k *key) error {
		if check != nil {
			if err := check(k.Value.Reveal()); err != nil {
				return err
			}
		}
		sum := sha256.Sum256([]byte(k.Value.Reveal()))
		k.bytes = sum[:]
		return nil
	})
}

func (a *tokenAuth) verify(x *exchange) Result {
	if !anyActive(a.keys, x.req.Now) {
		return refuse(ReasonNoSecret, "no secret is configured and valid at this time")
	}
	sent, p := a.in.find(x, x.docFor(a.in))
	switch {
	case p == many:
		return refuse(ReasonSignatureMalformed, "the token was sent more than once")
	case sent == "":
		return refuse(ReasonSignatureMissing, "there is no token")
	}
	if n := len(a.prefix); n > 0 {
		if len(sent) <= n || !strings.EqualFold(sent[:n], a.prefix) {
			return refuse(ReasonSignatureMalformed, "the token does not follow its scheme's name")
		}
		sent = sent[n:]
	}
	return matchHashed(x, a.keys, sent)
}

// matchHashed looks for the secret among those valid now, comparing with all of
// them whichever matches.
func matchHashed(x *exchange, keys []key, sent string) Result {
	sum := sha256.Sum256([]byte(sent))
	res := refuse(ReasonSignatureMismatch, "no secret matches")
	for i := range keys {
		k := &keys[i]
		if !k.active(x.req.Now) {
			continue
		}
		if subtle.ConstantTimeCompare(sum[:], k.bytes) == 1 && res.Reason != OK {
			res = Result{Reason: OK, Secret: k.ID, Caller: k.Caller}
		}
	}
	return res
}

func (a *tokenAuth) offline() bool { return len(a.keys) == 0 }
