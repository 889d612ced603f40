package verify

import (
	"io"

	"github.com/tidwall/gjson"
)

// customAdyen names the verification below in a row.
const customAdyen = "adyen"

// adyenFields are the fields of an item that its signature covers, in order.
var adyenFields = [...]string{"pspReference", "originalReference", "merchantAccountCode", "merchantReference",
	"amount.value", "amount.currency", "eventCode", "success"}

const (
	adyenItems = "notificationItems"
	adyenItem  = "NotificationRequestItem"
	adyenSig   = "additionalData.hmacSignature"
)

// adyenAuth verifies Adyen's standard notifications, which no family fits: every
// item of a batch is signed by itself, inside itself, and one that is not must not
// ride along with others that are. The HMAC family computes each signature.
type adyenAuth struct{ *hmacAuth }

func compileAdyen(m *Mode, p parts) (authenticator, []key, error) {
	a, err := describedHMAC(m, p)
	return adyenAuth{a}, a.keys, err
}

func (a adyenAuth) verify(x *exchange) Result {
	if !anyActive(a.keys, x.req.Now) {
		return refuse(ReasonNoSecret, "no secret is configured and valid at this time")
	}
	doc := x.doc()
	items := gjson.GetBytes(doc, adyenItems)
	if doc == nil || !items.IsArray() {
		return refuse(ReasonSignatureMissing, "there are no items and so no signatures")
	}
	res := refuse(ReasonSignatureMissing, "there are no items and so no signatures")
	items.ForEach(func(_, wrapped gjson.Result) bool {
		res = a.verifyItem(x, wrapped.Get(adyenItem), res)
		return res.Reason == OK
	})
	return res
}

// verifyItem holds one item against its own signature. All items have to be signed
// with the same secret: that of one sender.
func (a adyenAuth) verifyItem(x *exchange, item gjson.Result, before Result) Result {
	sig := item.Get(adyenSig)
	if sig.Type != gjson.String || sig.Str == "" {
		return refuse(ReasonSignatureMissing, "an item has no signature")
	}
	text, ok := adyenText(item)
	if !ok {
		return refuse(ReasonSignatureMismatch, "a signed field of an item is neither text nor a number")
	}
	readable := false
	for i := range a.keys {
		k := &a.keys[i]
		if !k.active(x.req.Now) || before.Reason == OK && before.Secret != k.ID {
			continue
		}
		x.cands.n = 0
		x.cands.add(sig.Str, "")
		x.sum = k.mac(x.sum[:0], text)
		matched, decoded := a.match(x, k)
		readable = readable || decoded
		if matched {
			return Result{Reason: OK, Secret: k.ID, Caller: k.Caller}
		}
	}
	return unmatched(Result{}, readable)
}

// adyenText is what an item's signature covers: the fields with colons between,
// nothing for a field that is absent.
func adyenText(item gjson.Result) (string, bool) {
	text := ""
	for i, name := range adyenFields {
		if i > 0 {
			text += ":"
		}
		v := item.Get(name)
		s, p := scalar(v)
		if p != once && v.Exists() && v.Type != gjson.Null {
			return "", false
		}
		text += s
	}
	return text, true
}

// mac appends the MAC of a text under the key's first digest.
func (k *key) mac(b []byte, text string) []byte {
	h := k.hashes[0].Get().(interface {
		io.Writer
		Sum([]byte) []byte
		Reset()
	})
	_, _ = io.WriteString(h, text) // hashes never fail
	b = h.Sum(b)
	h.Reset()
	k.hashes[0].Put(h)
	return b
}

// covers holds for the eight fields; of the rest of an item nothing is signed.
func (adyenAuth) covers(l locator) bool {
	for _, name := range adyenFields {
		if l.whole == "json:"+adyenItem+"."+name {
			return true
		}
	}
	return false
}

func (adyenAuth) coversBody() bool { return false }

func (adyenAuth) writeSigned(*exchange, io.Writer) bool { return false }
