package verify

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

func mustNew(t testing.TB, cfg Config) *Verifier {
	t.Helper()
	v, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func lookup(t testing.TB, name string) Row {
	t.Helper()
	r, ok := Lookup(name)
	if !ok {
		t.Fatalf("no row %s", name)
	}
	return r
}

func TestToken(t *testing.T) {
	t.Parallel()
	v := mustNew(t, Config{Row: lookup(t, "token"), Secrets: []Secret{{ID: "a", Caller: "alice", Value: NewSecretString("s3cret")}, {ID: "b", Caller: "bob", Value: NewSecretString("0ther")}}})
	for _, tt := range []struct {
		name   string
		header []string
		want   Reason
		caller string
	}{
		{"first", []string{"Bearer s3cret"}, OK, "alice"},
		{"second", []string{"Bearer 0ther"}, OK, "bob"},
		{"scheme in lower case", []string{"bearer s3cret"}, OK, "alice"},
		{"none", nil, ReasonSignatureMissing, ""},
		{"empty", []string{""}, ReasonSignatureMissing, ""},
		{"scheme only", []string{"Bearer "}, ReasonSignatureMalformed, ""},
		{"no scheme", []string{"s3cret"}, ReasonSignatureMalformed, ""},
		{"other scheme", []string{"Basic s3cret"}, ReasonSignatureMalformed, ""},
		{"prefix of it", []string{"Bearer s3cre"}, ReasonSignatureMismatch, ""},
		{"more than it", []string{"Bearer s3cret "}, ReasonSignatureMismatch, ""},
		{"other case", []string{"Bearer S3CRET"}, ReasonSignatureMismatch, ""},
		{"both, comma-joined", []string{"Bearer s3cret,0ther"}, ReasonSignatureMismatch, ""},
		{"twice", []string{"Bearer s3cret", "Bearer s3cret"}, ReasonSignatureMalformed, ""},
		{"NUL", []string{"Bearer s3cret\x00"}, ReasonSignatureMismatch, ""},
	} {
		res := v.Verify(&Request{Method: "POST", Header: http.Header{"Authorization": tt.header}})
		if res.Reason != tt.want || res.Caller != tt.caller || res.HasGuard {
			t.Errorf("%s: got %+v, want %s by %q", tt.name, res, tt.want, tt.caller)
		}
	}
}

func TestTokenElsewhere(t *testing.T) {
	t.Parallel()
	for in, r := range map[string]*Request{
		"query:key":     {RawQuery: "key=a%2Bb"},
		"form:key":      {Body: []byte("key=a%2Bb"), Header: http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}},
		"json:auth.key": {Body: []byte(`{"auth":{"key":"a+b"}}`)},
		"header:X-Key":  {Header: http.Header{"X-Key": {"a+b"}}},
	} {
		v := mustNew(t, Config{Row: lookup(t, "token"), Secrets: secrets("a+b"), Options: map[string]string{"in": in, "prefix": ""}})
		if res := v.Verify(r); res.Reason != OK {
			t.Errorf("%s: %s", in, res.Reason)
		}
		if res := v.Verify(&Request{}); res.Reason != ReasonSignatureMissing {
			t.Errorf("%s absent: %s", in, res.Reason)
		}
	}
}

func TestBasic(t *testing.T) {
	t.Parallel()
	v := mustNew(t, Config{Row: lookup(t, "basic"), Secrets: []Secret{{ID: "a", Value: NewSecretString("user:pass:word")}}})
	b64 := func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
	for header, want := range map[string]Reason{
		"Basic " + b64("user:pass:word"): OK, "basic " + b64("user:pass:word"): OK, "": ReasonSignatureMissing,
		"Basic " + b64("user:pass"): ReasonSignatureMismatch, "Basic " + b64("root:pass:word"): ReasonSignatureMismatch,
		"Basic " + b64("user"): ReasonSignatureMalformed, "Basic ***": ReasonSignatureMalformed, "Basic": ReasonSignatureMalformed,
		"Bearer " + b64("user:pass:word"): ReasonSignatureMalformed, "Basic " + strings.Repeat("A", maxSignatureLen+4): ReasonSignatureMalformed,
		"Basic " + b64(":"): ReasonSignatureMismatch,
	} {
		if res := v.Verify(&Request{Header: http.Header{"Authorization": {header}}}); res.Reason != want {
			t.Errorf("%.40q: got %s, want %s", header, res.Reason, want)
		}
	}
	two := http.Header{"Authorization": {"Basic " + b64("user:pass:word"), "Basic " + b64("user:pass:word")}}
	if res := v.Verify(&Request{Header: two}); res.Reason != ReasonSignatureMalformed {
		t.Errorf("twice: %s", res.Reason)
	}
}

func TestIdempotencyKey(t *testing.T) {
	t.Parallel()
	now := time.Unix(100, 0)
	for _, auth := range []string{"bearer", "basic", "hmac", "none"} {
		keys := []Secret{{ID: "k", Caller: "shop", Value: NewSecretString("user:pass")}}
		if auth == "none" {
			keys = nil
		}
		v := mustNew(t, Config{Row: lookup(t, "idempotency-key"), Auth: auth, Secrets: keys})
		for in, want := range map[string]string{"abc": "abc", `"abc"`: "abc", `"a\"b"`: `a"b`, `"broken`: "", `""`: ""} {
			s, err := v.Sign(SignRequest{Now: now, ID: in, Body: []byte("x")})
			if err != nil {
				t.Fatalf("%s: %v", auth, err)
			}
			res := v.Verify(request(s, now))
			if res.Reason != OK || len(res.Events) != 1 || res.Events[0].ID != want || (res.Caller == "shop") != (auth != "none") {
				t.Errorf("%s, key %s: got %+v, want ID %q", auth, in, res, want)
			}
		}
		s, _ := v.Sign(SignRequest{Now: now, ID: "a", Body: []byte("x")})
		s.Header.Add("Idempotency-Key", "b")
		if res := v.Verify(request(s, now)); res.Reason == OK && res.Events[0].ID != "" {
			t.Errorf("%s: two keys gave the ID %q", auth, res.Events[0].ID)
		}
		if row := v.Row(); row.OnConflict != OnConflictReject || row.NoID != NoIDRefuse {
			t.Errorf("%s: on_conflict %s, no_id %s", auth, row.OnConflict, row.NoID)
		}
	}
}

func TestGenericHMAC(t *testing.T) {
	t.Parallel()
	now := time.Unix(1767225600, 0)
	for name, opts := range map[string]map[string]string{
		"plain":     {},
		"prefix":    {"header": "X-Acme", "prefix": "sha512=", "digest": "sha512"},
		"base64url": {"encoding": "base64url", "digest": "sha384"},
		"kv":        {"format": "kv", "key": "s", "timestamp": "sig:t", "template": "{timestamp}:{body}", "unit": "ms", "tolerance": "10s"},
		"list":      {"format": "list", "key": "v9", "encoding": "base64", "timestamp": "header:X-Time", "template": "{timestamp}{id}{body}", "id": "header:X-Id"},
		"hex key":   {"secret_form": "hex"},
		"base64":    {"secret_form": "base64", "digest": "sha1"},
		"request":   {"template": "{method} {url} {query:a} {header:X-Extra} {json:id} {body}"},
	} {
		v := mustNew(t, Config{Row: lookup(t, "hmac"), Secrets: secrets("00ff00ff"), Options: opts})
		s, err := v.Sign(SignRequest{Now: now, ID: "i", URL: "https://a.test/x?a=1", Header: http.Header{"X-Extra": {"e"}}, Body: []byte(`{"id":"x"}`)})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if res := v.Verify(request(s, now)); res.Reason != OK {
			t.Errorf("%s: %s", name, res.Reason)
		}
		if res := v.Verify(request(s, now.Add(time.Hour))); (res.Reason == ReasonTimestampOld) != (opts["timestamp"] != "") {
			t.Errorf("%s an hour later: %s", name, res.Reason)
		}
		s.Body = []byte(`{"id":"y"}`)
		if res := v.Verify(request(s, now)); res.Reason != ReasonSignatureMismatch {
			t.Errorf("%s, other body: %s", name, res.Reason)
		}
	}
	v := mustNew(t, Config{Row: lookup(t, "hmac"), Secrets: secrets("s"), Options: map[string]string{"template": "{header:X-Extra}{body}"}})
	r := &Request{Header: http.Header{"X-Signature": {strings.Repeat("00", 32)}}}
	if res := v.Verify(r); res.Reason != ReasonSignedPartMissing {
		t.Errorf("signed header absent: %s", res.Reason)
	}
}

func TestHubspotURL(t *testing.T) {
	t.Parallel()
	now := time.Unix(1760000000, 0)
	v := mustNew(t, Config{Row: lookup(t, "hubspot"), Secrets: secrets("s")})
	decoded, err := v.Sign(SignRequest{Now: now, URL: "https://a.test/x@y/(z)?q=1:2", Body: []byte("{}")})
	if err != nil {
		t.Fatal(err)
	}
	r := request(decoded, now)
	r.URL = "https://a.test/x%40y/%28z%29?q=1%3A2"
	if res := v.Verify(r); res.Reason != OK {
		t.Errorf("the encoded spelling of the URL: %s", res.Reason)
	}
	r.URL = "https://a.test/x%20y"
	if res := v.Verify(r); res.Reason != ReasonSignatureMismatch {
		t.Errorf("another URL: %s", res.Reason)
	}
}

func TestPublicURL(t *testing.T) {
	t.Parallel()
	cfg := Config{Row: lookup(t, "twilio"), Secrets: secrets("s"), PublicURL: "https://hooks.example.test/in/twilio"}
	behind := mustNew(t, cfg)
	cfg.PublicURL = ""
	direct := mustNew(t, cfg)
	s, err := direct.Sign(SignRequest{URL: "https://hooks.example.test/in/twilio?a=1", Header: http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}, Body: []byte("b=2")})
	if err != nil {
		t.Fatal(err)
	}
	r := request(s, time.Time{})
	r.URL = "http://10.0.0.7:8080/in/twilio?a=1"
	if res := behind.Verify(r); res.Reason != OK {
		t.Errorf("behind a proxy with public_url: %s", res.Reason)
	}
	if res := direct.Verify(r); res.Reason != ReasonSignatureMismatch {
		t.Errorf("behind a proxy without: %s", res.Reason)
	}
}

func TestTwilioForms(t *testing.T) {
	t.Parallel()
	v := mustNew(t, Config{Row: lookup(t, "twilio"), Secrets: secrets("s")})
	sign := func(ct, body string) *Request {
		s, err := v.Sign(SignRequest{URL: "https://a.test/x", Header: http.Header{"Content-Type": {ct}}, Body: []byte(body)})
		if err != nil {
			t.Fatal(err)
		}
		return request(s, time.Time{})
	}
	const form = "application/x-www-form-urlencoded"
	for body, id := range map[string]string{
		"MessageSid=SM1&MessageStatus=sent": "SM1:sent", "MessageSid=SM1": "", "CallSid=CA1&CallStatus=ringing&SequenceNumber=2": "CA1:ringing:2",
		"CallSid=CA1&CallStatus=ringing": "", "MessageSid=a&MessageSid=b&MessageStatus=x": "", "b=2&b=1&a=1": "",
	} {
		if res := v.Verify(sign(form, body)); res.Reason != OK || res.Events[0].ID != id {
			t.Errorf("%s: %s, %+v, want ID %q", body, res.Reason, res.Events, id)
		}
	}
	for body, other := range map[string]string{"a=1&b=2": "a=1&b=3", "a=1": "a=1&c=", "x=%41": "x=%42"} {
		r := sign(form, body)
		r.Body = []byte(other)
		if res := v.Verify(r); other != "a=1&c=" && res.Reason != ReasonSignatureMismatch || other == "a=1&c=" && res.Reason == OK {
			t.Errorf("%s swapped for %s: %s", body, other, res.Reason)
		}
	}
	r := sign("application/json", `{"a":1}`)
	if res := v.Verify(r); res.Reason != OK {
		t.Errorf("JSON with its digest: %s", res.Reason)
	}
	u, _ := url.Parse(r.URL)
	r.URL += "&bodySHA256=" + u.Query().Get("bodySHA256")
	if res := v.Verify(r); res.Reason != ReasonSignatureMismatch {
		t.Errorf("JSON with two digests: %s", res.Reason)
	}
}

// signers makes a key pair for each algorithm.
func signers(t testing.TB) map[Algorithm]crypto.Signer {
	t.Helper()
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	rs, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return map[Algorithm]crypto.Signer{ECDSASHA256: ec, Ed25519: ed, RSASHA256: rs, RSASHA512: rs, RSAPSSSHA256: rs}
}

func pemKey(t testing.TB, k crypto.PublicKey) string {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(k)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
}

func pubRow(alg Algorithm, enc Encoding) Row {
	return Row{Name: "pub", ID: []string{"json:id"}, Modes: []Mode{{Name: "m", PublicKey: &PublicKey{Algorithm: alg, Scheme: Scheme{
		Sig: "header:X-Sig", Encoding: enc, Signed: "{timestamp}{body}", Timestamp: "header:X-Time", Tolerance: minute}}}}}
}

func TestPublicKeys(t *testing.T) {
	t.Parallel()
	now := time.Unix(1767225600, 0)
	pairs, others := signers(t), signers(t)
	for alg, priv := range pairs {
		for _, enc := range []Encoding{Hex, Base64, Base64URL} {
			good := Secret{ID: "good", Value: NewSecretString(pemKey(t, priv.Public()))}
			other := Secret{ID: "other", Value: NewSecretString(pemKey(t, others[alg].Public()))}
			v := mustNew(t, Config{Row: pubRow(alg, enc), PublicKeys: []Secret{other, good}})
			s, err := v.Sign(SignRequest{Now: now, Body: []byte(`{"id":"e1"}`), PrivateKey: priv})
			if err != nil {
				t.Fatalf("%s: %v", alg, err)
			}
			if res := v.Verify(request(s, now)); res.Reason != OK || res.Secret != "good" || res.Events[0].ID != "e1" {
				t.Errorf("%s %s: %+v", alg, enc, res)
			}
			if res := v.Verify(request(s, now.Add(2*time.Minute))); res.Reason != ReasonTimestampOld {
				t.Errorf("%s %s, old: %s", alg, enc, res.Reason)
			}
			if res := mustNew(t, Config{Row: pubRow(alg, enc), PublicKeys: []Secret{other}}).Verify(request(s, now)); res.Reason != ReasonSignatureMismatch {
				t.Errorf("%s %s, other key: %s", alg, enc, res.Reason)
			}
			good.NotAfter = now
			if res := mustNew(t, Config{Row: pubRow(alg, enc), PublicKeys: []Secret{good}}).Verify(request(s, now)); res.Reason != ReasonNoSecret {
				t.Errorf("%s %s, key out of time: %s", alg, enc, res.Reason)
			}
			if res := mustNew(t, Config{Row: pubRow(alg, enc), PublicKeys: []Secret{good, other}}).Verify(request(s, now)); res.Reason != ReasonSignatureMismatch {
				t.Errorf("%s %s, key out of time beside another: %s", alg, enc, res.Reason)
			}
			r := request(s, now)
			r.Body = []byte(`{"id":"e2"}`)
			if res := v.Verify(r); res.Reason != ReasonSignatureMismatch {
				t.Errorf("%s %s, other body: %s", alg, enc, res.Reason)
			}
			for sig, want := range map[string]Reason{"": ReasonSignatureMissing, "%": ReasonSignatureMalformed, enc.encode([]byte{1, 2, 3}): ReasonSignatureMismatch} {
				r.Header.Set("X-Sig", sig)
				if res := v.Verify(r); res.Reason != want {
					t.Errorf("%s %s, signature %q: %s, want %s", alg, enc, sig, res.Reason, want)
				}
			}
		}
	}
}

// TestKeysAreHeldAgainstTheAlgorithm keeps a key of one kind from being used as
// another, and short ones from being used at all.
func TestKeysAreHeldAgainstTheAlgorithm(t *testing.T) {
	t.Parallel()
	pairs := signers(t)
	for alg := range pairs {
		for of, priv := range pairs {
			rsaBoth := strings.HasPrefix(string(alg), "rsa") && strings.HasPrefix(string(of), "rsa")
			_, err := parsePublicKey(alg, pemKey(t, priv.Public()))
			if (err == nil) != (alg == of || rsaBoth) {
				t.Errorf("a key for %s used for %s: %v", of, alg, err)
			}
		}
	}
	ed := pairs[Ed25519].Public().(ed25519.PublicKey)
	for _, spelled := range []string{hex.EncodeToString(ed), base64.StdEncoding.EncodeToString(ed), "whpk_" + base64.StdEncoding.EncodeToString(ed)} {
		if _, err := parsePublicKey(Ed25519, spelled); err != nil {
			t.Errorf("32 bytes as %.6s…: %v", spelled, err)
		}
	}
	ec := pemKey(t, pairs[ECDSASHA256].Public())
	for name, text := range map[string]string{
		"two blocks": ec + ec, "text after": ec + "x", "private label": strings.ReplaceAll(ec, "PUBLIC", "PRIVATE"), "nothing": "", "junk": "AAAA", "short": "whpk_AAAA",
	} {
		if _, err := parsePublicKey(ECDSASHA256, text); err == nil {
			t.Errorf("%s: taken for a key", name)
		}
	}
}

func parsePublicKey(alg Algorithm, text string) (pubKey, error) {
	pk, err := parseAnyKey(text)
	if err == nil {
		err = pk.fits(alg)
	}
	return pk, err
}
