package verify

import (
	"crypto/hmac"
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
)

// customVonageSMS names the verification below in a row.
const customVonageSMS = "vonage_sms"

// optionMethod is the option with the account's signing method.
const optionMethod = "method"

// vonageSMSAuth verifies the sig parameter of Vonage's SMS callbacks, which no
// template fits: every parameter is signed, sorted, with two characters replaced
// in their values, and the account's setting says with which of an MD5 digest and
// four MACs. MD5 is what the provider has; it is not used for anything else.
type vonageSMSAuth struct {
	keys   []key
	digest func() hash.Hash
	plain  bool
}

func compileVonageSMS(_ *Mode, p parts) (authenticator, []key, error) {
	a := &vonageSMSAuth{}
	var err error
	switch method := p.opts[optionMethod]; method {
	case "", "md5hash":
		a.digest, a.plain = md5.New, true
	case "md5":
		a.digest = md5.New
	case "sha1":
		a.digest = sha1.New
	case "sha256":
		a.digest = sha256.New
	case "sha512":
		a.digest = sha512.New
	default:
		err = fmt.Errorf("option %s: %q: want md5hash, md5, sha1, sha256 or sha512", optionMethod, method)
	}
	var kerr error
	a.keys, kerr = makeKeys("secret", p.secrets, func(k *key) error {
		k.bytes = []byte(k.Value.Reveal())
		return nil
	})
	return a, a.keys, errors.Join(err, kerr)
}

func (a *vonageSMSAuth) verify(x *exchange) Result {
	if !anyActive(a.keys, x.req.Now) {
		return refuse(ReasonNoSecret, "no secret is configured and valid at this time")
	}
	list, ok := vonageParams(x)
	if !ok {
		return refuse(ReasonBodyMalformed, "the parameters can't be read or one is there twice")
	}
	i := slices.IndexFunc(list, func(f field) bool { return f.name == "sig" })
	if i < 0 || list[i].value == "" {
		return refuse(ReasonSignatureMissing, "there is no signature")
	}
	sig, err := hex.DecodeString(list[i].value)
	if err != nil {
		return refuse(ReasonSignatureMalformed, "the signature is not hex")
	}
	text := vonageText(list)
	for i := range a.keys {
		k := &a.keys[i]
		if k.active(x.req.Now) && hmac.Equal(a.sum(k, text), sig) {
			return Result{Reason: OK, Secret: k.ID, Caller: k.Caller}
		}
	}
	return refuse(ReasonSignatureMismatch, "no secret matches the signature")
}

func (a *vonageSMSAuth) sum(k *key, text string) []byte {
	h := a.digest()
	if !a.plain {
		h = hmac.New(a.digest, k.bytes)
	}
	_, _ = io.WriteString(h, text) // hashes never fail
	if a.plain {
		_, _ = h.Write(k.bytes)
	}
	return h.Sum(nil)
}

// vonageParams returns the parameters of the query, the form or the JSON object,
// whichever there is. One that comes twice has no signed form.
func vonageParams(x *exchange) ([]field, bool) {
	vals := map[string][]string(x.query())
	if form := x.form(); form != nil {
		vals = form
	} else if doc := x.doc(); doc != nil {
		vals = map[string][]string{}
		gjson.ParseBytes(doc).ForEach(func(k, v gjson.Result) bool {
			s, p := scalar(v)
			if p != once {
				s = v.Raw
			}
			vals[k.Str] = append(vals[k.Str], s)
			return true
		})
	} else if len(x.req.Body) > 0 {
		return nil, false
	}
	var list []field
	for name, v := range vals {
		if len(v) != 1 {
			return nil, false
		}
		list = append(list, field{name, v[0]})
	}
	return list, true
}

// vonageText is what the signature covers: every parameter but itself.
func vonageText(list []field) string {
	slices.SortFunc(list, func(a, b field) int { return strings.Compare(a.name, b.name) })
	clean := strings.NewReplacer("&", "_", "=", "_")
	var b strings.Builder
	for _, f := range list {
		if f.name != "sig" {
			b.WriteString("&" + f.name + "=" + clean.Replace(f.value))
		}
	}
	return b.String()
}

func (a *vonageSMSAuth) covers(l locator) bool {
	return l.kind == kindQuery || l.kind == kindForm || l.kind == kindJSON
}

func (a *vonageSMSAuth) coversBody() bool { return true }

func (a *vonageSMSAuth) writeSigned(x *exchange, w io.Writer) bool {
	list, ok := vonageParams(x)
	if ok {
		_, _ = io.WriteString(w, vonageText(list))
	}
	return ok
}

func (a *vonageSMSAuth) offline() bool { return len(a.keys) == 0 }
