package verify

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"strings"
	"testing"
	"time"
)

const explainBody = `{"id":"evt_1","type":"order.paid","url":"https://a.test/x","data":{"b":1,"a":"Zürich","amount":12.50},"livemode":true}` + "\n"

// mistake is one thing gone wrong between a provider and a source.
type mistake struct {
	want      CauseID
	providers []string
	// secret is what the operator configured, given the right one.
	secret func(right string) string
	// spoil changes what arrives.
	spoil func(r *Request)
	// sign replaces the right way of signing.
	sign func(t *testing.T, row Row, secret string, now time.Time) *Request
	// others are further sources.
	others func(t *testing.T, row Row, right string) []Other
	// public is the source's public_url.
	public string
}

func explainMistakes() map[string]mistake {
	bodies := []string{"github", "stripe", "slack"}
	setBody := func(f func([]byte) []byte) func(*Request) { return func(r *Request) { r.Body = f(r.Body) } }
	urls := []string{"twilio", "hubspot", "messagebird"}
	setURL := func(f func(string) string) func(*Request) { return func(r *Request) { r.URL = f(r.URL) } }
	resign := func(edit func(*HMAC)) func(*testing.T, Row, string, time.Time) *Request {
		return func(t *testing.T, row Row, secret string, now time.Time) *Request {
			row = row.clone()
			row.Modes[0].Custom = ""
			edit(row.Modes[0].HMAC)
			return explainSign(t, row, secret, now)
		}
	}
	another := func(name, id string) func(*testing.T, Row, string) []Other {
		return func(t *testing.T, row Row, right string) []Other {
			decoy := mustNew(t, Config{Row: row, Secrets: secrets(wrongSecret(row.Modes[0]) + "eHh4")})
			v := mustNew(t, Config{Row: row, Secrets: []Secret{{ID: id, Value: NewSecretString(right)}}})
			return []Other{{"decoy", decoy}, {name, v}}
		}
	}
	wrong := func(string) string { return "whsec_" + strings.Repeat("QUJD", 8) }
	return map[string]mistake{
		"other source":     {want: CauseOtherSource, providers: []string{"github", "stripe", "svix"}, secret: wrong, others: another("billing", "main")},
		"test secret":      {want: CauseTestLive, providers: []string{"github", "stripe", "svix"}, secret: wrong, others: another("billing-test", "main")},
		"space":            {want: CauseSecretSpace, providers: bodies, secret: func(s string) string { return " " + s + "\n" }},
		"quotes":           {want: CauseSecretQuotes, providers: bodies, secret: func(s string) string { return `"` + s + `"` }},
		"prefix":           {want: CauseSecretPrefix, providers: bodies, secret: func(s string) string { return "v1,whsec_" + s }},
		"prefix lost":      {want: CauseSecretPrefix, providers: []string{"stripe"}, secret: func(s string) string { return strings.TrimPrefix(s, "whsec_") }},
		"encoded again":    {want: CauseSecretEncoding, providers: bodies, secret: func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }},
		"in hex":           {want: CauseSecretEncoding, providers: bodies, secret: func(s string) string { return hex.EncodeToString([]byte(s)) }},
		"not decoded":      {want: CauseSecretEncoding, providers: []string{"svix", "standard_webhooks", "gitlab"}, sign: resign(func(h *HMAC) { h.Secret = SecretRaw })},
		"newline lost":     {want: CauseNewlineLost, providers: bodies, spoil: setBody(func(b []byte) []byte { return bytes.TrimSuffix(b, []byte("\n")) })},
		"newline added":    {want: CauseNewlineAdded, providers: bodies, spoil: setBody(func(b []byte) []byte { return append(b, '\n') })},
		"BOM":              {want: CauseBOM, providers: bodies, spoil: setBody(func(b []byte) []byte { return append([]byte(bomText), b...) })},
		"compressed":       {want: CauseGzip, providers: bodies, spoil: setBody(compressed)},
		"line ends":        {want: CauseLineEnds, providers: bodies, spoil: setBody(func(b []byte) []byte { return bytes.ReplaceAll(b, []byte("\n"), []byte("\r\n")) })},
		"Latin-1":          {want: CauseCharset, providers: bodies, spoil: setBody(toLatin1)},
		"twice encoded":    {want: CauseCharset, providers: bodies, spoil: setBody(fromLatin1)},
		"indented":         {want: CauseReserialised, providers: bodies, spoil: setBody(indented)},
		"escaped":          {want: CauseReserialised, providers: bodies, spoil: setBody(asciiJSON)},
		"SHA-1":            {want: CauseDigest, providers: []string{"github", "shopify", "hmac"}, sign: resign(func(h *HMAC) { h.Digest = SHA1 })},
		"older header":     {want: CauseDigest, providers: []string{"github"}, sign: resign(func(h *HMAC) { h.Digest, h.Sig, h.Prefix = SHA1, "header:X-Hub-Signature", "sha1=" })},
		"hex for base64":   {want: CauseEncoding, providers: []string{"shopify", "svix", "twilio"}, sign: resign(func(h *HMAC) { h.Encoding = Hex })},
		"milliseconds":     {want: CauseMilliseconds, providers: []string{"stripe", "slack", "svix"}, sign: resign(func(h *HMAC) { h.Unit = Milliseconds })},
		"clock":            {want: CauseClock, providers: []string{"stripe", "slack", "svix"}, spoil: func(r *Request) { r.Now = r.Now.Add(7 * time.Minute) }},
		"http for https":   {want: CauseURL, providers: urls, spoil: setURL(func(u string) string { return strings.Replace(u, "https:", "http:", 1) })},
		"slash":            {want: CauseURL, providers: urls, spoil: setURL(func(u string) string { return u + "/" })},
		"public URL wrong": {want: CauseURL, providers: urls, public: "http://a.test/in/x/"},
		"no signature":     {want: CauseNoSignature, providers: []string{"github", "stripe", "slack"}, spoil: func(r *Request) { r.Header = map[string][]string{"Content-Type": {"application/json"}} }},
	}
}

func compressed(b []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, _ = w.Write(b)
	_ = w.Close()
	return out.Bytes()
}

func indented(b []byte) []byte {
	var out bytes.Buffer
	_ = json.Indent(&out, bytes.TrimSpace(b), "", "  ")
	return out.Bytes()
}

// explainSecret is the provider's secret for a source.
func explainSecret(m Mode) string {
	if m.HMAC != nil && m.HMAC.Secret == SecretWhsec {
		return "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	}
	return "whsec_dGhlIHNlY3JldA-x"
}

func explainSign(t *testing.T, row Row, secret string, now time.Time) *Request {
	t.Helper()
	v := mustNew(t, Config{Row: row, Secrets: secrets(secret)})
	s, err := v.Sign(SignRequest{Now: now, ID: "evt_1", Type: "order.paid", URL: "https://a.test/in/x", Body: []byte(explainBody)})
	if err != nil {
		t.Fatalf("%s: %v", row.Name, err)
	}
	return request(s, now)
}

// TestExplain makes one mistake at a time and wants it named first in nine cases
// of ten at the least.
func TestExplain(t *testing.T) {
	t.Parallel()
	now := time.Unix(1767225600, 0)
	cases, hits := 0, 0
	for name, m := range explainMistakes() {
		for _, provider := range m.providers {
			row := lookup(t, provider)
			right := explainSecret(row.Modes[0])
			var r *Request
			if m.sign != nil {
				r = m.sign(t, row, right, now)
			} else {
				r = explainSign(t, row, right, now)
			}
			if m.spoil != nil {
				m.spoil(r)
			}
			cfg := Config{Row: row, Secrets: secrets(right), PublicURL: m.public}
			if m.secret != nil {
				cfg.Secrets = secrets(m.secret(right))
			}
			v := mustNew(t, cfg)
			var hints Hints
			if m.others != nil {
				hints.Others = m.others(t, row, right)
			}
			e := v.Explain(r, hints)
			if e.Result.Reason == OK {
				t.Errorf("%s %s: the mistake changes nothing", name, provider)
				continue
			}
			cases++
			if len(e.Causes) > 0 && e.Causes[0].ID == m.want {
				hits++
			} else {
				t.Logf("%s %s: %s: causes %v", name, provider, e.Result.Reason, e.Causes)
			}
			explainLeaks(t, e, v, r, right)
		}
	}
	if cases < 60 || hits*10 < cases*9 {
		t.Errorf("the true cause came first in %d of %d cases", hits, cases)
	}
}

// explainLeaks looks for secrets, signatures and bodies in what is printed.
func explainLeaks(t *testing.T, e Explanation, v *Verifier, r *Request, right string) {
	t.Helper()
	text := e.String()
	taboo := []string{right, strings.TrimPrefix(right, "whsec_"), "order.paid", "rich"}
	x := &exchange{req: r, url: r.URL, options: v.options}
	if s := schemeOf(v.auth); s != nil {
		s.read(x)
		for _, c := range x.cands.all() {
			taboo = append(taboo, c.text)
		}
	}
	if a, ok := v.auth.(*hmacAuth); ok {
		for i := range a.keys {
			a.sign(x, &a.keys[i], 0, 0)
			taboo = append(taboo, hex.EncodeToString(x.sum), base64.StdEncoding.EncodeToString(x.sum))
		}
	}
	for _, s := range taboo {
		if len(s) > 3 && strings.Contains(text, s) {
			t.Errorf("the explanation holds what it should not:\n%s", text)
		}
	}
}

// TestExplainAuthentic explains a request that needs none.
func TestExplainAuthentic(t *testing.T) {
	t.Parallel()
	now := time.Unix(1767225600, 0)
	for _, row := range Providers() {
		for _, m := range row.Modes {
			v := mustNew(t, trialConfig(t, row, m, nil))
			s, err := v.Sign(SignRequest{Now: now, ID: "e", Type: "t", URL: "https://a.test/in"})
			if err != nil {
				continue
			}
			e := v.Explain(request(s, now), Hints{Others: []Other{{"self", v}}})
			if e.Result.Reason != OK || len(e.Causes) > 0 || !strings.HasPrefix(e.String(), "authentic") {
				t.Errorf("%s %s: %v", row.Name, m.Name, e)
			}
		}
	}
}

// TestExplainHostile explains what nobody sent in earnest.
func TestExplainHostile(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"github", "stripe", "twilio", "sendgrid", "messagebird", "token", "basic", "adyen", "none"} {
		row := lookup(t, name)
		v := mustNew(t, trialConfig(t, row, row.Modes[0], signers(t)))
		for what, body := range hostileBodies() {
			if len(body) > 2<<10 {
				continue
			}
			e := v.Explain(&Request{Method: "POST", URL: "https://a.test/in", Body: []byte(body)}, Hints{})
			if e.Result.Reason != OK && len(e.Causes) == 0 {
				t.Errorf("%s, %s: no cause at all", name, what)
			}
		}
	}
}
