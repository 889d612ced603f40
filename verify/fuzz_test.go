package verify

import (
	"encoding/json"
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

// FuzzVerifyJWT throws tokens at the JWT family; none is ever authentic.
func FuzzVerifyJWT(f *testing.F) {
	var vs []*Verifier
	for _, name := range []string{"messagebird", "jira_connect"} {
		vs = append(vs, fuzzed(f, name, "", fuzzSecret, nil))
	}
	row := jwksRow()
	row.Modes[0].JWT.Keys = nil
	pairs := signers(f)
	vs = append(vs, mustNew(f, Config{Row: row, PublicKeys: secrets(pemKey(f, pairs[RSASHA256].Public()), pemKey(f, pairs[ECDSASHA256].Public()))}))
	for _, tok := range []string{"a.b.c", "..", "eyJhbGciOiJub25lIn0.e30.", "eyJhbGciOiJIUzI1NiJ9.e30.AAAA", "eyJhbGciOiJSUzI1NiIsImNyaXQiOltdfQ.e30.AAAA", "eyJhbGciOiJFUzI1NiJ9.W10.AAAA"} {
		f.Add(tok, []byte("{}"))
	}
	f.Fuzz(func(t *testing.T, tok string, body []byte) {
		for _, v := range vs {
			h := http.Header{"Authorization": {tok}, "Messagebird-Signature-Jwt": {tok}}
			if res := v.Verify(&Request{Method: "POST", URL: "https://a.test/in", Header: h, Body: body, Now: time.Unix(1767225600, 0)}); res.Reason == OK || res.Events != nil {
				t.Fatalf("forged token: %+v", res)
			}
		}
	})
}

// FuzzVerifyCustom throws bodies and queries at the schemes of their own.
func FuzzVerifyCustom(f *testing.F) {
	var vs []*Verifier
	pairs := signers(f)
	for _, name := range []string{"adyen", "alexa", "aws_sns", "braintree", "connectwise_psa", "contentful", "ebay", "hook0", "keygen", "lark",
		"mercado_pago", "paddle_classic", "paypal", "plivo", "smartthings", "unisender_go", "vonage_sms", "wechat_official", "wechat_safe"} {
		row := lookup(f, name)
		vs = append(vs, mustNew(f, trialConfig(f, row, row.Modes[0], pairs)))
	}
	f.Add("sig", "signature=00&timestamp=1&nonce=a", "application/json", []byte(`{"notificationItems":[{"NotificationRequestItem":{"additionalData":{"hmacSignature":"AAAA"}}}],"auth":"00","Type":"Notification","encrypt":"AAAA"}`))
	f.Add("t=1,h=a b,v1=00", "sig=00", "application/x-www-form-urlencoded", []byte("bt_signature=a|b&bt_payload=AAAA&p_signature=AAAA"))
	f.Add(`keyid="/pl/a",signature="AAAA",headers="(request-target) digest date"`, "msg_signature=00&echostr=AAAA", "text/xml", []byte("<xml><Encrypt>AAAA</Encrypt></xml>"))
	f.Fuzz(func(t *testing.T, sig, query, ct string, body []byte) {
		h := http.Header{"Content-Type": {ct}, "Date": {"Thu, 01 Jan 2026 00:00:00 GMT"}, "Authorization": {sig}}
		for _, name := range []string{"X-Contentful-Signature", "X-Contentful-Signed-Headers", "X-Hook0-Signature", "Keygen-Signature", "X-Lark-Signature", "X-Signature",
			"Paypal-Transmission-Sig", "X-Plivo-Signature-V3", "X-Plivo-Signature-V3-Nonce", "X-Content-Signature", "X-Ebay-Signature", "Signature-256"} {
			h.Set(name, sig)
		}
		for _, v := range vs {
			for _, method := range []string{"POST", "GET"} {
				res := v.Verify(&Request{Method: method, URL: "https://a.test/in?" + query, RawQuery: query, Header: h, Body: body, Now: time.Unix(1767225600, 0)})
				if res.Events != nil || res.Reason == OK && res.Handshake == nil {
					t.Fatalf("%s: forged request: %+v", v.row.Name, res)
				}
			}
		}
	})
}

// FuzzBatches takes hostile bodies apart by every shape of a batch.
func FuzzBatches(f *testing.F) {
	for _, s := range []string{`{"a":[{"b":[1,{}]},{}]}`, "{}\n{}", "<a><b><c>1</c></b></a>", "x=%5B1%5D", `[[]]`} {
		f.Add([]byte(s))
	}
	var vs []*Verifier
	for _, b := range []*Batch{{Path: "a[].b", Also: []string{"a[].c"}}, {Path: "[].b"}, {Lines: true}, {Path: "xml:b/c"}, {Path: "form:x"}, {Path: "a", Whole: true}} {
		vs = append(vs, mustNew(f, Config{Row: Row{Name: "b", Batch: b, ID: []string{"json:id+parent:p|sha256", "key:*a,b*", "xml:a", "body:x"}, Modes: []Mode{{Name: "none", None: true}}}}))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, v := range vs {
			for _, ct := range []string{"application/json", "application/x-www-form-urlencoded"} {
				res := v.Verify(&Request{Method: "POST", Header: http.Header{"Content-Type": {ct}}, Body: body})
				for _, e := range res.Events {
					_ = body[e.Offset : e.Offset+e.Length]
				}
			}
		}
	})
}

// FuzzExplain explains anything; it never panics.
func FuzzExplain(f *testing.F) {
	v := fuzzed(f, "github", "", fuzzSecret, nil)
	f.Add("sha256=00", []byte(`{"a":"\u00e9"}`))
	f.Fuzz(func(t *testing.T, sig string, body []byte) {
		e := v.Explain(&Request{Method: "POST", URL: "https://a.test/", Header: http.Header{"X-Hub-Signature-256": {sig}}, Body: body}, Hints{})
		if len(e.Causes) == 0 || e.String() == "" {
			t.Fatalf("no cause: %+v", e)
		}
	})
}

// A body is taken for JSON exactly where encoding/json takes it, but for what
// nests too deep, and only that is called deep.
func FuzzValid(f *testing.F) {
	for _, body := range hostileBodies() {
		if len(body) < 4096 {
			f.Add([]byte(body))
		}
	}
	for _, s := range []string{`{"a":[1,-0.5e+9,true,false,null,"\u00e9\n"]}`, "\ufeff{}", "[01]", "[1.]", "[-]", `["\x"]`, "[\"\x01\"]", `["\u12g4"]`,
		"{}{}", " \t\r\n{}\n", `{"a":1,}`, `{"a" 1}`, "nul", "\"", "[1e]", strings.Repeat("[", MaxDepth+1) + strings.Repeat("]", MaxDepth+1),
		`"` + strings.Repeat("[", MaxDepth+1) + `"`, strings.Repeat("{},", MaxDepth)} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		got := checkJSON(body)
		switch deep, valid := tooDeep(body), json.Valid(body); {
		case deep && got == jsonTooDeep:
		case !deep && valid == (got == jsonValid) && got != jsonTooDeep:
		default:
			t.Errorf("checkJSON(%q) = %v; deep %v, encoding/json says %v", body, got, deep, valid)
		}
	})
}
