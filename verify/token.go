package verify

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"strings"

	"github.com/tidwall/gjson"
)

// tokenAuth compares a shared secret that is sent as it is. Digests are compared,
// so that neither content nor length of a configured secret shows in the time.
type tokenAuth struct {
	unsigned
	in     source
	prefix string
	each   string // JSON path of the array whose elements carry it
	keys   []key
}

func (t *Token) compile(secrets []Secret) (*tokenAuth, error) {
	in, err := parseSource(t.In)
	errs := []error{wrap("in", err)}
	a := &tokenAuth{in: in, prefix: t.Prefix}
	if t.Each != "" {
		var ok bool
		if a.each, ok = jsonPath(t.Each); !ok || err == nil && (len(in) != 1 || in[0].kind != kindJSON) {
			errs = append(errs, fmt.Errorf("each %q: want a JSON path, and in one that begins with json", t.Each))
		}
	}
	a.keys, err = hashedKeys(secrets, nil)
	return a, errors.Join(append(errs, err)...)
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
	if a.each != "" {
		return a.verifyEach(x)
	}
	sent, at, p := a.in.find(x)
	if res := present(sent, p); res.Reason != OK {
		return res
	}
	if n := len(a.prefix); n > 0 && at.kind == kindHeader {
		if len(sent) <= n || !strings.EqualFold(sent[:n], a.prefix) {
			return refuse(ReasonSignatureMalformed, "the token does not follow its scheme's name")
		}
		sent = sent[n:]
	}
	return matchHashed(x, a.keys, sent)
}

func present(sent string, p presence) Result {
	switch {
	case p == many:
		return refuse(ReasonSignatureMalformed, "the token was sent more than once")
	case sent == "":
		return refuse(ReasonSignatureMissing, "there is no token")
	}
	return Result{Reason: OK}
}

// verifyEach demands the token of every element: one forged element among honest
// ones must not ride along. An array without elements proves nothing.
func (a *tokenAuth) verifyEach(x *exchange) Result {
	doc := x.doc()
	if doc == nil {
		return refuse(ReasonSignatureMissing, "there is no token: the body is not JSON")
	}
	res := refuse(ReasonSignatureMissing, "there is no token")
	gjson.GetBytes(doc, a.each).ForEach(func(key, el gjson.Result) bool {
		if key.Type == gjson.String { // an object, not an array
			return false
		}
		sent, p := a.in[0].find(x, []byte(el.Raw))
		if res = present(sent, p); res.Reason == OK {
			res = matchHashed(x, a.keys, sent)
		}
		return res.Reason == OK
	})
	return res
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
