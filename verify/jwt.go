package verify

import (
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/golang-jwt/jwt/v5"
	"github.com/tidwall/gjson"
)

// maxTokenLen bounds a token that is no body.
const maxTokenLen = 16 << 10

// jwtAlgorithms are the algorithms a row may take. `none` is not among them and
// never will be.
var jwtAlgorithms = []string{"HS256", "HS384", "HS512", "RS256", "RS384", "RS512",
	"PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}

// jwtAuth verifies JSON Web Tokens. The library computes and compares signatures;
// which algorithm is taken, which key, and what the claims have to say is decided
// here, in this order, so that a token never chooses how it is judged.
type jwtAuth struct {
	JWT
	in      source
	secrets []key
	keys    []pubKey
	lookup  *keyLookup
	claims  []claimRule
}

// claimRule is a claim that has to be there.
type claimRule struct {
	path string
	name string
	want string // "" with any or url
	any  bool
	url  bool
}

func (j *JWT) compile(secrets, pub []Secret, opts map[string]string) (*jwtAuth, error) {
	a := &jwtAuth{JWT: *j}
	var errs []error
	bad := func(err error) { errs = append(errs, err) }
	var err error
	a.in, err = parseSource(j.In)
	bad(wrap("in", err))
	shared, public := 0, 0
	for _, alg := range j.Algorithms {
		switch {
		case !slices.Contains(jwtAlgorithms, alg):
			bad(fmt.Errorf("algorithm %q: want %s", alg, strings.Join(jwtAlgorithms, ", ")))
		case strings.HasPrefix(alg, "HS"):
			shared++
		default:
			public++
		}
	}
	if len(j.Algorithms) == 0 {
		bad(errors.New("algorithms: there is none"))
	}
	if shared > 0 && public > 0 && j.Keys != nil {
		bad(errors.New("algorithms: shared secrets and fetched keys don't go together"))
	}
	a.secrets, err = makeKeys("secret", secrets, func(k *key) error {
		k.bytes = []byte(k.Value.Reveal())
		return nil
	})
	bad(err)
	a.keys, err = makePublicKeys(pub, func(pubKey) error { return nil })
	bad(err)
	if j.Keys != nil {
		a.lookup, err = j.Keys.compile(opts)
		bad(err)
	}
	if j.HashEncoding != "" && j.HashEncoding != Hex && j.HashEncoding != Base64 && j.HashEncoding != Base64URL {
		bad(fmt.Errorf("hash_encoding %q: want hex, base64 or base64url", j.HashEncoding))
	}
	if j.Leeway < 0 || j.MaxAge < 0 {
		bad(errors.New("leeway and max_age are never negative"))
	}
	bad(a.compileClaims(opts))
	return a, errors.Join(errs...)
}

func (a *jwtAuth) compileClaims(opts map[string]string) error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(a.Claims)) {
		want := a.Claims[name]
		r := claimRule{name: name, want: want, any: want == "*", url: want == "@url"}
		var ok bool
		if r.path, ok = jsonPath(name); !ok {
			errs = append(errs, fmt.Errorf("claim %q: is not a name", name))
		}
		skip := false
		if opts != nil {
			r.want, skip = fillOptions(want, opts, &errs)
		}
		if !skip {
			a.claims = append(a.claims, r)
		}
	}
	return errors.Join(errs...)
}

// fillOptions puts the source's settings into a claim's value, which may have a
// literal before `$option`.
func fillOptions(want string, opts map[string]string, errs *[]error) (val string, skip bool) {
	lit, name, ok := strings.Cut(want, "$")
	if !ok {
		return want, false
	}
	name, optional := strings.CutSuffix(name, "?")
	val = opts[name]
	if val == "" && !optional {
		*errs = append(*errs, fmt.Errorf("option %s: the token's claims are checked against it", name))
	}
	return lit + val, val == ""
}

// options returns the options the claims name.
func (j *JWT) options() []string {
	var out []string
	for _, want := range j.Claims {
		if _, name, ok := strings.Cut(want, "$"); ok {
			out = append(out, strings.TrimSuffix(name, "?"))
		}
	}
	return out
}

// token is a token cut into its parts, none of them believed yet.
type token struct {
	head, payload, sig string
	alg, kid           string
	bare               bool // the payload is signed as it is (RFC 7797)
}

func (a *jwtAuth) verify(x *exchange) Result {
	if !anyActive(a.secrets, x.req.Now) && a.lookup == nil && !slices.ContainsFunc(a.keys, func(k pubKey) bool { return k.active(x.req.Now) }) {
		return refuse(ReasonNoSecret, "no secret or public key is configured and valid at this time")
	}
	t, res := a.cut(x)
	if res.Reason != OK {
		return res
	}
	claims, ok := a.payload(x, t)
	if !ok {
		return refuse(ReasonSignatureMalformed, "the token's payload can't be read")
	}
	if a.lookup != nil && len(a.keys) == 0 {
		// Not believed yet, but what would be refused anyway is not worth a fetch.
		if early := a.judge(x, claims, Result{Reason: OK}); early.Reason != OK {
			return early
		}
	}
	res = a.checkSignature(x, t)
	if res.Reason != OK {
		return res
	}
	if res = a.judge(x, claims, res); res.Reason == OK {
		x.claims = claims
		if a.in[0].kind == kindBody {
			x.plain, x.state = claims, jsonUnknown
		}
	}
	return res
}

// cut finds the token and takes it apart.
func (a *jwtAuth) cut(x *exchange) (*token, Result) {
	text, at, p := a.in.find(x)
	switch {
	case p == many:
		return nil, refuse(ReasonSignatureMalformed, "the token was sent more than once")
	case text == "":
		return nil, refuse(ReasonSignatureMissing, "there is no token")
	case len(text) > maxTokenLen && at.kind != kindBody:
		return nil, refuse(ReasonSignatureMalformed, "the token is too long")
	}
	if n := len(a.Prefix); n > 0 && at.kind == kindHeader {
		if len(text) > n && strings.EqualFold(text[:n], a.Prefix) {
			text = text[n:]
		} else if !a.PrefixOptional {
			return nil, refuse(ReasonSignatureMalformed, "the token does not follow its scheme's name")
		}
	}
	if strings.ContainsAny(text, "\r\n") {
		return nil, refuse(ReasonSignatureMalformed, "the token holds line breaks") // which decoders pass over
	}
	if strings.Count(text, ".") != 2 {
		return nil, refuse(ReasonSignatureMalformed, "the token does not have three parts")
	}
	parts := strings.Split(text, ".")
	t := &token{head: parts[0], payload: parts[1], sig: parts[2]}
	if (t.payload == "") != a.Detached {
		return nil, refuse(ReasonSignatureMalformed, "the token has a payload where it should have none, or none where it should have one")
	}
	return t, t.readHead(a.Algorithms, a.Detached)
}

// readHead reads what the token says of itself and believes none of it that the
// row does not allow.
func (t *token) readHead(algorithms []string, detached bool) Result {
	head, err := base64.RawURLEncoding.DecodeString(t.head)
	if err != nil || checkJSON(head) != jsonValid {
		return refuse(ReasonSignatureMalformed, "the token's header can't be read")
	}
	t.alg, t.kid = gjson.GetBytes(head, "alg").String(), gjson.GetBytes(head, "kid").String()
	if !slices.Contains(algorithms, t.alg) {
		return refuse(ReasonSignatureMismatch, "the token's algorithm is not one that is taken")
	}
	crit := gjson.GetBytes(head, "crit")
	b64 := gjson.GetBytes(head, "b64")
	if crit.Exists() && !(detached && crit.Raw == `["b64"]`) {
		return refuse(ReasonSignatureMalformed, "the token demands what is not known here")
	}
	t.bare = b64.Type == gjson.False
	if t.bare && !crit.Exists() {
		return refuse(ReasonSignatureMalformed, "the token signs its payload as it is without saying that it has to be known")
	}
	return Result{Reason: OK}
}

// payload returns the claims; a detached token has none.
func (a *jwtAuth) payload(x *exchange, t *token) ([]byte, bool) {
	if a.Detached {
		if t.payload = string(x.req.Body); !t.bare {
			t.payload = base64.RawURLEncoding.EncodeToString(x.req.Body)
		}
		return []byte("{}"), true
	}
	b, err := base64.RawURLEncoding.DecodeString(t.payload)
	if err != nil || checkJSON(b) != jsonValid || !gjson.ParseBytes(b).IsObject() {
		return nil, false
	}
	return b, true
}

// checkSignature looks for the key under which the token is signed.
func (a *jwtAuth) checkSignature(x *exchange, t *token) Result {
	sig, err := base64.RawURLEncoding.Strict().DecodeString(t.sig)
	if err != nil {
		return refuse(ReasonSignatureMalformed, "the token's signature can't be read")
	}
	method := jwt.GetSigningMethod(t.alg)
	signed := t.head + "." + t.payload
	if strings.HasPrefix(t.alg, "HS") {
		for i := range a.secrets {
			k := &a.secrets[i]
			if k.active(x.req.Now) && method.Verify(signed, sig, k.bytes) == nil {
				return Result{Reason: OK, Secret: k.ID, Caller: k.Caller}
			}
		}
		return refuse(ReasonSignatureMismatch, "no secret matches the token's signature")
	}
	keys := withID(a.keys, t.kid)
	if len(a.keys) == 0 && a.lookup != nil {
		var res Result
		if keys, res = a.lookup.find(x, t.kid); res.Reason != OK {
			return res
		}
	}
	for i := range keys {
		if k := &keys[i]; k.active(x.req.Now) && k.verifyJWT(method, signed, sig) {
			return Result{Reason: OK, Secret: k.ID, Caller: k.Caller}
		}
	}
	return refuse(ReasonSignatureMismatch, "no public key matches the token's signature")
}

// verifyJWT checks with the one kind of key there is; the library refuses a key of
// another kind than the method's.
func (k *pubKey) verifyJWT(method jwt.SigningMethod, signed string, sig []byte) bool {
	if k.only != "" && k.only != method.Alg() {
		return false
	}
	var pub any
	switch {
	case k.rsa != nil:
		if checkRSA(k.rsa) != nil {
			return false
		}
		pub = k.rsa
	case k.ecdsa != nil:
		pub = k.ecdsa
	default:
		pub = k.ed
	}
	return method.Verify(signed, sig, pub) == nil
}

func (a *jwtAuth) offline() bool {
	return len(a.secrets) == 0 && len(a.keys) == 0 && a.lookup == nil
}
