package verify

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// fuzzVerify throws headers and bodies at one verifier. Without its secret
// nothing may pass, nothing may panic, and a refusal has nothing in it.
func fuzzVerify(f *testing.F, sig, ts string, vs ...*Verifier) {
	f.Helper()
	for _, body := range hostileBodies() {
		if len(body) < 4096 {
			f.Add("v1=00,t=1", "1767225600", "id", "application/json", "a=1", []byte(body))
		}
	}
	f.Add("v1,AAAA", strings.Repeat("9", 400), "\x00", "application/x-www-form-urlencoded", "%zz", []byte("a=b"))
	now := time.Unix(1767225600, 0)
	f.Fuzz(func(t *testing.T, sigText, tsText, id, ct, query string, body []byte) {
		h := http.Header{"Content-Type": {ct}, "Webhook-Id": {id}, "Authorization": {sigText}}
		h.Set(sig, sigText)
		h.Set(ts, tsText)
		for _, v := range vs {
			r := &Request{Method: "POST", URL: "https://a.test/in?" + query, RawQuery: query, Header: h, Body: body, Now: now}
			if res := v.Verify(r); res.Reason == OK || res.Events != nil || res.Handshake != nil || res.HasGuard || res.Detail == "" {
				t.Fatalf("forged request: %+v", res)
			}
		}
	})
}

func fuzzed(f *testing.F, name, auth, secret string, opts map[string]string) *Verifier {
	f.Helper()
	return mustNew(f, Config{Row: lookup(f, name), Auth: auth, Secrets: secrets(secret), Options: opts})
}

const fuzzSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

func FuzzVerifyHMAC(f *testing.F) {
	fuzzVerify(f, "X-Signature", "X-Time",
		fuzzed(f, "hmac", "", fuzzSecret, nil),
		fuzzed(f, "hmac", "", fuzzSecret, map[string]string{"format": "kv", "key": "v1", "timestamp": "sig:t", "template": "{timestamp}.{body}"}),
		fuzzed(f, "hmac", "", fuzzSecret, map[string]string{"format": "list", "key": "v1", "encoding": "base64", "timestamp": "header:X-Time", "template": "{timestamp}{json:a.b}{query:a}{body}"}))
}

func FuzzVerifyStandardWebhooks(f *testing.F) {
	fuzzVerify(f, "Webhook-Signature", "Webhook-Timestamp", fuzzed(f, "standard_webhooks", "", fuzzSecret, nil), fuzzed(f, "gitlab", "", fuzzSecret, nil))
}

func FuzzVerifyStripe(f *testing.F) {
	fuzzVerify(f, "Stripe-Signature", "X-Time", fuzzed(f, "stripe", "", fuzzSecret, nil))
}

func FuzzVerifyTwilio(f *testing.F) {
	fuzzVerify(f, "X-Twilio-Signature", "X-Time", fuzzed(f, "twilio", "", fuzzSecret, nil))
}

func FuzzVerifyTokens(f *testing.F) {
	fuzzVerify(f, "X-Gitlab-Token", "X-Time", fuzzed(f, "token", "", fuzzSecret, nil), fuzzed(f, "gitlab", "token", fuzzSecret, nil), fuzzed(f, "basic", "", "user:"+fuzzSecret, nil))
}

func FuzzVerifyPublicKey(f *testing.F) {
	pairs := signers(f)
	var vs []*Verifier
	for _, alg := range []Algorithm{ECDSASHA256, Ed25519, RSASHA256, RSAPSSSHA256} {
		vs = append(vs, mustNew(f, Config{Row: pubRow(alg, Base64), PublicKeys: secrets(pemKey(f, pairs[alg].Public()))}))
	}
	fuzzVerify(f, "X-Sig", "X-Time", vs...)
}

// FuzzEvents gives authentic requests hostile bodies.
func FuzzEvents(f *testing.F) {
	for _, body := range hostileBodies() {
		if len(body) < 4096 {
			f.Add("application/json", []byte(body))
			f.Add("application/x-www-form-urlencoded", []byte(body))
		}
	}
	var vs []*Verifier
	for _, name := range []string{"stripe", "slack", "hubspot", "github", "twilio"} {
		vs = append(vs, fuzzed(f, name, "", "secret", nil))
	}
	vs = append(vs, mustNew(f, Config{Row: lookup(f, "none"), Options: map[string]string{"id": "json:a.b+form:c,form:payload|json:d,json:id"}}))
	now := time.Unix(1767225600, 0)
	f.Fuzz(func(t *testing.T, ct string, body []byte) {
		for _, v := range vs {
			s, err := v.Sign(SignRequest{Now: now, URL: "https://a.test/", Header: http.Header{"Content-Type": {ct}}, Body: body})
			if err != nil {
				t.Fatal(err)
			}
			res := v.Verify(request(s, now))
			if res.Reason != OK && res.Events != nil {
				t.Fatalf("%s: events with %s", v.row.Name, res.Reason)
			}
			if res.Reason != OK && res.Reason != ReasonBodyMalformed && res.Reason != ReasonHandshakeFailed && res.Reason != ReasonBatchTooLarge {
				t.Fatalf("%s: authentic request is %s", v.row.Name, res.Reason)
			}
			for _, e := range res.Events {
				_ = body[e.Offset : e.Offset+e.Length]
			}
		}
	})
}

func FuzzTemplate(f *testing.F) {
	for _, s := range []string{"{body}", "v0:{timestamp}:{body}", "{header:X}{query:a}{json:a.b}{form:x|json:y}", "{", "}{", "{body"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		tmpl, err := parseTemplate(s)
		if err != nil {
			return
		}
		x := &exchange{req: &Request{Method: "POST", Body: []byte("b")}}
		var out strings.Builder
		missing := tmpl.write(x, &out)
		if !strings.ContainsAny(s, "{}") && (missing != "" || out.String() != s) {
			t.Fatalf("the literal %q was written as %q", s, out.String())
		}
		if _, err := parseEcho(s); err == nil {
			_, _ = Handshake{Name: "f", Open: true, Detect: []string{"query:a"}, Body: s}.compile(nil)
		}
	})
}

func FuzzTimestamp(f *testing.F) {
	for _, s := range []string{"", "0", "1767225600", "-1", strings.Repeat("9", 20), "1e9", "\x00", "18446744073709551616"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, unit := range []Unit{Seconds, Milliseconds} {
			at, ok := parseTimestamp(s, unit)
			digits := s != "" && len(s) <= maxTimestampDigits && strings.Trim(s, "0123456789") == ""
			if ok != digits {
				t.Fatalf("parseTimestamp(%q) = %t, want %t", s, ok, digits)
			}
			if ok && (at.Unix() < 0 || at.Unix() > lastSecond) {
				t.Fatalf("parseTimestamp(%q) = %v", s, at)
			}
		}
	})
}

func FuzzLocator(f *testing.F) {
	for _, s := range []string{"header:X", "json:a.b", "form:a|json:b", "query:a+json:b", "json:@this"} {
		f.Add(s, []byte(`{"a":{"b":1}}`))
	}
	f.Fuzz(func(t *testing.T, s string, body []byte) {
		alts, err := parseAlternatives([]string{s})
		if err != nil {
			return
		}
		x := &exchange{req: &Request{Body: body, Header: http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}}}
		first(alts, x, x.doc(), joinID)
		for _, l := range alts[0] {
			if again, err := parseLocator(l.String()); err != nil || !again.same(l) {
				t.Fatalf("%q became %q: %v", l, again, err)
			}
		}
	})
}

func FuzzUnquoteKey(f *testing.F) {
	f.Add(`"a\"b"`)
	f.Add(`abc`)
	f.Fuzz(func(t *testing.T, s string) {
		got, err := unquoteKey(s)
		if err == nil && len(got) > len(s) || err != nil && got != "" {
			t.Fatalf("unquoteKey(%q) = %q, %v", s, got, err)
		}
	})
}
