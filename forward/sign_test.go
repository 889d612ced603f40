package forward

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

const testSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

func mustSecret(tb testing.TB, text string) SigningSecret {
	tb.Helper()
	s, err := ParseSigningSecret(text)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// handHMAC is HMAC-SHA-256 from its definition, not from crypto/hmac.
func handHMAC(key, text []byte) []byte {
	block := make([]byte, 64)
	if len(key) > 64 {
		sum := sha256.Sum256(key)
		key = sum[:]
	}
	copy(block, key)
	inner, outer := make([]byte, 64), make([]byte, 64)
	for i, b := range block {
		inner[i], outer[i] = b^0x36, b^0x5c
	}
	in := sha256.Sum256(append(inner, text...))
	out := sha256.Sum256(append(outer, in[:]...))
	return out[:]
}

// wantSignature computes one signature independently.
func wantSignature(tb testing.TB, secret, id, timestamp, body string) string {
	tb.Helper()
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil {
		tb.Fatal(err)
	}
	return "v1," + base64.StdEncoding.EncodeToString(handHMAC(key, []byte(id+"."+timestamp+"."+body)))
}

func TestSignatures(t *testing.T) {
	t.Parallel()
	other := "whsec_" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", 64)))
	// The vector that the libraries of the specification share.
	got := signatures([]SigningSecret{mustSecret(t, testSecret)}, "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", []byte(`{"test": 2432232314}`))
	if want := "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="; got != want {
		t.Errorf("signature = %s, want %s", got, want)
	}
	for _, body := range []string{"", "{}", "a\x00b\r\n", strings.Repeat("x", 100_000)} {
		got := signatures([]SigningSecret{mustSecret(t, testSecret), mustSecret(t, other)}, "id", "1700000000", []byte(body))
		want := wantSignature(t, testSecret, "id", "1700000000", body) + " " + wantSignature(t, other, "id", "1700000000", body)
		if got != want {
			t.Errorf("signatures of %d bytes = %s, want %s", len(body), got, want)
		}
	}
}

func TestParseSigningSecret(t *testing.T) {
	t.Parallel()
	b64 := func(n int) string { return base64.StdEncoding.EncodeToString(make([]byte, n)) }
	for _, tt := range []struct {
		text string
		ok   bool
	}{
		{testSecret, true},
		{strings.TrimPrefix(testSecret, "whsec_"), true},
		{"whsec_" + b64(24), true},
		{"whsec_" + b64(64), true},
		{"whsec_" + b64(23), false},
		{"whsec_" + b64(65), false},
		{"whsec_", false},
		{"", false},
		{"whsec_not base64 at all, no", false},
		{"whpk_" + b64(32), false},
	} {
		s, err := ParseSigningSecret(tt.text)
		if (err == nil) != tt.ok {
			t.Errorf("ParseSigningSecret(%q): %v, want ok = %v", tt.text, err, tt.ok)
		}
		if err != nil && len(tt.text) > 8 && strings.Contains(err.Error(), tt.text[6:]) {
			t.Errorf("error %q holds the secret", err)
		}
		if err == nil && len(s.key) < 24 {
			t.Errorf("key of %d bytes", len(s.key))
		}
	}
}

// A secret shows itself in no format.
func TestSecretsAreNotShown(t *testing.T) {
	t.Parallel()
	tgt := Target{Name: "a", URL: mustURL(t, "http://a/"), Signing: []SigningSecret{mustSecret(t, testSecret)}, Headers: map[string]Secret{"Authorization": "Bearer tok_123456"}}
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
		for _, v := range []any{tgt.Signing[0], tgt.Headers["Authorization"], tgt.Signing, tgt.Headers} {
			text := fmt.Sprintf(format, v)
			if strings.Contains(text, "tok_123456") || strings.Contains(text, "MfKQ9r8") || strings.Contains(text, "49, 242") || strings.Contains(text, "0x31, 0xf2") {
				t.Errorf("%s shows a secret: %s", format, text)
			}
		}
	}
	text, err := json.Marshal([]any{tgt.Headers, tgt.Signing})
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), "tok_") || strings.Contains(string(text), "MfKQ") {
		t.Errorf("JSON shows a secret: %s", text)
	}
}
