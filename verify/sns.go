package verify

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
)

// customSNS names the verification below in a row.
const customSNS = "aws_sns"

// optionTopicARN is the option with the topics that are expected.
const optionTopicARN = "topic_arn"

// snsFields are the fields that are signed, by the kind of message.
var snsFields = map[string][]string{
	"Notification":             {"Message", "MessageId", "Subject", "Timestamp", "TopicArn", "Type"},
	"SubscriptionConfirmation": {"Message", "MessageId", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type"},
	"UnsubscribeConfirmation":  {"Message", "MessageId", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type"},
}

// snsAuth verifies Amazon SNS, which no template fits: which fields are signed
// depends on the kind of message and on what is there, and the digest on a version
// inside the message. A signature only says that some topic of some account sent
// it, so that the topic has to be one that is configured; that is looked at before
// a certificate is fetched. The public-key family describes the keys.
type snsAuth struct {
	*pubAuth
	topics []string
}

func compileSNS(m *Mode, p parts) (authenticator, []key, error) {
	a, err := describedPublicKey(m, p)
	topics := optionValues(p.opts[optionTopicARN])
	if p.opts != nil && len(topics) == 0 {
		err = errors.Join(err, fmt.Errorf("option %s: is needed: a signature says only that some topic sent it", optionTopicARN))
	}
	return &snsAuth{a, topics}, nil, err
}

func (a *snsAuth) verify(x *exchange) Result {
	if !a.ready(x) {
		return refuse(ReasonNoSecret, "no public key is configured and valid at this time")
	}
	doc := x.doc()
	if doc == nil {
		return refuse(ReasonSignatureMissing, "there is no signature: the body is not JSON")
	}
	res := a.read(x)
	if res.Reason != OK {
		return res
	}
	if topic := gjson.GetBytes(doc, "TopicArn"); topic.Type != gjson.String || !slices.Contains(a.topics, topic.Str) {
		return refuse(ReasonSignatureMismatch, "the topic is not one that is configured")
	}
	text, ok := snsText(doc)
	if !ok {
		return refuse(ReasonSignedPartMissing, "a signed field is absent or no text")
	}
	var alg Algorithm
	switch gjson.GetBytes(doc, "SignatureVersion").String() {
	case "1":
		alg = RSASHA1
	case "2":
		alg = RSASHA256
	default:
		return refuse(ReasonSignatureMalformed, "the version of the signature is not known")
	}
	sig, ok := a.decode(x.cands.s[0].text)
	if !ok {
		return refuse(ReasonSignatureMalformed, "the signature is not base64")
	}
	keys, refusal := a.keysFor(x)
	if refusal.Reason != OK {
		return refusal
	}
	h := alg.hash().New()
	_, _ = io.WriteString(h, text) // hashes never fail
	sum := h.Sum(nil)
	for i := range keys {
		if k := &keys[i]; k.active(x.req.Now) && k.check(alg, sum, sig) {
			res.Secret, res.Caller = k.ID, k.Caller
			return a.judge(res)
		}
	}
	return unmatched(res, true)
}

// snsText is what the signature covers: names and values of the fields that are
// there, a line each. Only the subject may be absent.
func snsText(doc []byte) (string, bool) {
	fields := snsFields[gjson.GetBytes(doc, "Type").Str]
	var b strings.Builder
	for _, name := range fields {
		v := gjson.GetBytes(doc, name)
		if name == "Subject" && (!v.Exists() || v.Type == gjson.Null) {
			continue
		}
		if v.Type != gjson.String {
			return "", false
		}
		b.WriteString(name + "\n" + v.Str + "\n")
	}
	return b.String(), len(fields) > 0
}

// covers holds for the signed fields.
func (*snsAuth) covers(l locator) bool {
	name, ok := strings.CutPrefix(l.whole, "json:")
	return ok && slices.Contains(snsFields["Notification"], name)
}

// coversBody holds for the message; fields that are not signed, such as message
// attributes, can't be believed.
func (*snsAuth) coversBody() bool { return false }

func (*snsAuth) writeSigned(x *exchange, w io.Writer) bool {
	text, ok := snsText(x.doc())
	if ok {
		_, _ = io.WriteString(w, text)
	}
	return ok
}
