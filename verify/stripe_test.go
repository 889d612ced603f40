package verify

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stripe/stripe-go/v76/webhook"
)

const stripeSecret = "whsec_test_secret"

var stripeNow = time.Unix(1767225600, 0)

// stripePair returns the production verifier and the HMAC family on the same row.
func stripePair(t testing.TB) (production, family *Verifier) {
	t.Helper()
	row, _ := Lookup("stripe")
	cfg := Config{Row: row, Secrets: []Secret{{ID: "other", Value: NewSecretString("whsec_other")}, {ID: "live", Value: NewSecretString(stripeSecret)}}}
	production, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := production.auth.(stripeAuth); !ok {
		t.Fatalf("the stripe row verifies with %T", production.auth)
	}
	cfg.Row.Modes[0].Custom = ""
	if family, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	return production, family
}

func stripeRequest(body, header string) *Request {
	return &Request{Method: "POST", Header: http.Header{"Stripe-Signature": {header}}, Body: []byte(body), Now: stripeNow}
}

// regular are the headers on which the two readings have to agree; outside of
// them (white space, more equals signs) Stripe's library is the stricter one.
var regular = regexp.MustCompile(`^[a-z0-9]*=[a-zA-Z0-9]*(,[a-z0-9]*=[a-zA-Z0-9]*)*$`)

func compareStripe(t *testing.T, body, header string) {
	t.Helper()
	production, family := stripePair(t)
	got := production.Verify(stripeRequest(body, header))
	want := family.Verify(stripeRequest(body, header))
	if got.Reason == OK && want.Reason != OK {
		t.Errorf("header %q: Stripe's library takes it, the HMAC family says %s", header, want.Reason)
	}
	if want.Reason == OK && got.Reason != OK && regular.MatchString(header) {
		t.Errorf("header %q: the HMAC family takes it, Stripe's library says %s", header, got.Reason)
	}
	if got.Reason == OK && (got.Secret != want.Secret || got.Skew != want.Skew || got.Events[0] != want.Events[0] || got.Guard != want.Guard) {
		t.Errorf("header %q: results differ: %+v and %+v", header, got, want)
	}
}

func stripeHeader(at time.Time, body string) string {
	return webhook.GenerateTestSignedPayload(&webhook.UnsignedPayload{Payload: []byte(body), Secret: stripeSecret, Timestamp: at}).Header
}

func TestStripeDifferential(t *testing.T) {
	t.Parallel()
	const body = `{"id":"evt_1","type":"invoice.paid"}`
	good := stripeHeader(stripeNow, body)
	_, v1, _ := strings.Cut(good, ",v1=")
	for _, header := range []string{
		good, stripeHeader(stripeNow.Add(-301*time.Second), body), stripeHeader(stripeNow.Add(301*time.Second), body),
		"", "t=1", "v1=" + v1, "t=1767225600,v0=" + v1, "t=1767225600,t=1767225600,v1=" + v1, "t=,v1=" + v1,
		"t=1767225600,v1=00,v1=" + v1, "t=1767225600,v1=zz,v1=" + v1, "t=1767225600,v1=" + strings.ToUpper(v1),
		"t=1767225600, v1=" + v1, "t=1767225600,v1=" + v1 + ",x=a=b", "v1=" + v1 + ",t=1767225600",
		"t=+1767225600,v1=" + v1, "t=01767225600,v1=" + v1, "t=" + strings.Repeat("9", 400) + ",v1=" + v1,
		"t=1767225600,v1=" + v1 + strings.Repeat(",v1=00", 10_000),
	} {
		compareStripe(t, body, header)
	}
}

func TestStripeTimestamp(t *testing.T) {
	t.Parallel()
	production, _ := stripePair(t)
	const body = `{"id":"evt_1"}`
	good := stripeHeader(stripeNow, body)
	for _, tt := range []struct {
		name, header string
		want         Reason
	}{
		{"now", good, OK},
		{"twice", "t=1767225600," + good, ReasonSignatureMalformed},
		{"none", strings.TrimPrefix(good, "t=1767225600,"), ReasonSignatureMalformed},
		{"negative", strings.Replace(good, "t=1767225600", "t=-1", 1), ReasonTimestampMalformed},
		{"authentic and too far ahead", stripeHeader(stripeNow.Add(time.Hour), body), ReasonTimestampFuture},
		{"authentic and too old", stripeHeader(stripeNow.Add(-time.Hour), body), ReasonTimestampOld},
		{"forged and too old", strings.Replace(good, "t=1767225600", "t=1", 1), ReasonSignatureMismatch},
	} {
		if got := production.Verify(stripeRequest(body, tt.header)).Reason; got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
	}
}

func FuzzStripeDifferential(f *testing.F) {
	const body = `{"id":"evt_1","type":"invoice.paid"}`
	f.Add(body, stripeHeader(stripeNow, body), 0)
	f.Add(body, "t=1767225600,v1=00", 3)
	f.Fuzz(func(t *testing.T, body, extra string, at int) {
		if strings.ContainsAny(extra, "\r\n") {
			return
		}
		compareStripe(t, body, extra)
		good := stripeHeader(stripeNow, body)
		if at = at % (len(good) + 1); at < 0 {
			at = -at
		}
		compareStripe(t, body, good[:at]+extra+good[at:])
	})
}
