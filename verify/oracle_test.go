package verify

import (
	"net/http"
	"testing"
	"time"

	standard "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// TestStandardWebhooksOracle holds the row against the specification's own library:
// both take and refuse the same requests.
func TestStandardWebhooksOracle(t *testing.T) {
	t.Parallel()
	const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	wh, err := standard.NewWebhook(secret)
	if err != nil {
		t.Fatal(err)
	}
	v := mustNew(t, Config{Row: lookup(t, "standard_webhooks"), Secrets: secrets(secret)})
	now := time.Now() // the library knows no other clock
	body := []byte(`{"type":"a.b","data":{"x":"é"}}`)
	sign := func(at time.Time, id string, body []byte) string {
		sig, err := wh.Sign(id, at, body)
		if err != nil {
			t.Fatal(err)
		}
		return sig
	}
	stamp := func(at time.Time) string { return formatTime(at, Seconds) }
	right := sign(now, "msg_1", body)
	for name, h := range map[string]http.Header{
		"right":            {"Webhook-Id": {"msg_1"}, "Webhook-Timestamp": {stamp(now)}, "Webhook-Signature": {right}},
		"several":          {"Webhook-Id": {"msg_1"}, "Webhook-Timestamp": {stamp(now)}, "Webhook-Signature": {"v1,AAAA v2,BBBB " + right}},
		"another version":  {"Webhook-Id": {"msg_1"}, "Webhook-Timestamp": {stamp(now)}, "Webhook-Signature": {"v2" + right[2:]}},
		"another ID":       {"Webhook-Id": {"msg_2"}, "Webhook-Timestamp": {stamp(now)}, "Webhook-Signature": {right}},
		"another time":     {"Webhook-Id": {"msg_1"}, "Webhook-Timestamp": {stamp(now.Add(time.Second))}, "Webhook-Signature": {right}},
		"old":              {"Webhook-Id": {"msg_1"}, "Webhook-Timestamp": {stamp(now.Add(-6 * time.Minute))}, "Webhook-Signature": {sign(now.Add(-6*time.Minute), "msg_1", body)}},
		"from the future":  {"Webhook-Id": {"msg_1"}, "Webhook-Timestamp": {stamp(now.Add(6 * time.Minute))}, "Webhook-Signature": {sign(now.Add(6*time.Minute), "msg_1", body)}},
		"almost old":       {"Webhook-Id": {"msg_1"}, "Webhook-Timestamp": {stamp(now.Add(-4 * time.Minute))}, "Webhook-Signature": {sign(now.Add(-4*time.Minute), "msg_1", body)}},
		"of another body":  {"Webhook-Id": {"msg_1"}, "Webhook-Timestamp": {stamp(now)}, "Webhook-Signature": {sign(now, "msg_1", []byte("{}"))}},
		"no ID":            {"Webhook-Timestamp": {stamp(now)}, "Webhook-Signature": {right}},
		"no time":          {"Webhook-Id": {"msg_1"}, "Webhook-Signature": {right}},
		"no signature":     {"Webhook-Id": {"msg_1"}, "Webhook-Timestamp": {stamp(now)}},
		"time is no time":  {"Webhook-Id": {"msg_1"}, "Webhook-Timestamp": {"now"}, "Webhook-Signature": {right}},
		"signature broken": {"Webhook-Id": {"msg_1"}, "Webhook-Timestamp": {stamp(now)}, "Webhook-Signature": {"v1"}},
	} {
		theirs := wh.Verify(body, h)
		ours := v.Verify(&Request{Method: "POST", Header: h, Body: body, Now: now})
		if (theirs == nil) != (ours.Reason == OK) {
			t.Errorf("%s: the library says %v, we say %s", name, theirs, ours.Reason)
		}
	}
	s, err := v.Sign(SignRequest{Now: now, ID: "msg_9", Body: body})
	if err != nil {
		t.Fatal(err)
	}
	if err := wh.Verify(body, s.Header); err != nil {
		t.Errorf("the library refuses what we signed: %v", err)
	}
}
