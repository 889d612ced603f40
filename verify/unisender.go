package verify

import (
	"crypto/hmac"
	"crypto/md5"
	"encoding/hex"
	"io"

	"github.com/tidwall/gjson"
)

// customUnisender names the verification below in a row.
const customUnisender = "unisender_go"

// unisenderAuth verifies Unisender Go's callbacks, which no template fits: the
// signature stands inside the body, and the body is signed with the secret in its
// place. The digest is MD5, which is all the provider has; as the secret is in the
// middle of what is hashed, no bytes can be added to a captured request.
type unisenderAuth struct{ keys []key }

func compileUnisender(_ *Mode, p parts) (authenticator, []key, error) {
	keys, err := makeKeys("secret", p.secrets, func(k *key) error {
		k.bytes = []byte(k.Value.Reveal())
		return nil
	})
	return unisenderAuth{keys}, keys, err
}

func (a unisenderAuth) verify(x *exchange) Result {
	if !anyActive(a.keys, x.req.Now) {
		return refuse(ReasonNoSecret, "no secret is configured and valid at this time")
	}
	before, after, sig, ok := unisenderParts(x)
	if !ok {
		return refuse(ReasonSignatureMissing, "there is no signature in the body")
	}
	got, err := hex.DecodeString(sig)
	if err != nil {
		return refuse(ReasonSignatureMalformed, "the signature is not hex")
	}
	for i := range a.keys {
		k := &a.keys[i]
		if !k.active(x.req.Now) {
			continue
		}
		h := md5.New()
		_, _ = h.Write(before) // hashes never fail
		_, _ = h.Write(k.bytes)
		_, _ = h.Write(after)
		if hmac.Equal(h.Sum(nil), got) {
			return Result{Reason: OK, Secret: k.ID, Caller: k.Caller}
		}
	}
	return refuse(ReasonSignatureMismatch, "no secret matches the signature")
}

// unisenderParts cuts the body around the text of its signature.
func unisenderParts(x *exchange) (before, after []byte, sig string, ok bool) {
	doc := x.doc()
	if doc == nil {
		return nil, nil, "", false
	}
	r := gjson.GetBytes(doc, "auth")
	if r.Type != gjson.String || r.Str == "" || r.Index <= 0 || len(r.Raw) != len(r.Str)+2 {
		return nil, nil, "", false
	}
	return doc[:r.Index+1], doc[r.Index+1+len(r.Str):], r.Str, true
}

func (unisenderAuth) covers(l locator) bool { return l.inBody() }

func (unisenderAuth) coversBody() bool { return true }

func (unisenderAuth) writeSigned(x *exchange, w io.Writer) bool {
	before, after, _, ok := unisenderParts(x)
	if ok {
		_, _ = w.Write(before)
		_, _ = w.Write(after)
	}
	return ok
}

func (a unisenderAuth) offline() bool { return len(a.keys) == 0 }
