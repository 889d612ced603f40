package verify

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"
)

// subscribeRow has one handshake of each sort: a compared GET echo, a verified
// JSON answer, a header echo that is open.
func subscribeRow() Row {
	return Row{
		Name: "subscribe", Methods: []string{"POST", "GET"}, ID: []string{"json:id"}, Options: []string{"verify_token"},
		Modes: []Mode{{Name: "m", HMAC: &HMAC{Scheme: Scheme{Sig: "header:X-Sig", Signed: "{body}"}}}},
		Handshake: []Handshake{
			{Name: "subscribe", Method: "GET", Detect: []string{"query:hub.mode=subscribe"}, Compare: []string{"query:hub.verify_token=verify_token"}, Body: "{query:hub.challenge}"},
			{Name: "crc", Detect: []string{"json:event=validate"}, Verify: true, JSON: map[string]string{"plain": "{json:token}", "hash": "{hmac:json:token}", "sum": "sha256={sha256:json:token}", "b64": "{hmac-base64:json:token}"}},
			{Name: "hook", Detect: []string{"header:X-Hook-Secret"}, Open: true, Status: 204, Header: map[string]string{"X-Hook-Secret": "{header:X-Hook-Secret}"}},
		},
	}
}

func subscribeVerifier(t *testing.T) *Verifier {
	t.Helper()
	if err := subscribeRow().Validate(); err != nil {
		t.Fatal(err)
	}
	v, err := New(Config{Row: subscribeRow(), Secrets: secrets("key"), Options: map[string]string{"verify_token": "tok+en"}})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestHandshakeCompare(t *testing.T) {
	t.Parallel()
	v := subscribeVerifier(t)
	for _, tt := range []struct {
		name, query, body string
		want              Reason
	}{
		{"right", "hub.mode=subscribe&hub.challenge=1%3Cb%3E&hub.verify_token=tok%2Ben", "1<b>", OK},
		{"wrong token", "hub.mode=subscribe&hub.challenge=1&hub.verify_token=other", "", ReasonHandshakeFailed},
		{"prefix of the token", "hub.mode=subscribe&hub.challenge=1&hub.verify_token=tok", "", ReasonHandshakeFailed},
		{"no token", "hub.mode=subscribe&hub.challenge=1", "", ReasonHandshakeFailed},
		{"token twice", "hub.mode=subscribe&hub.challenge=1&hub.verify_token=tok%2Ben&hub.verify_token=tok%2Ben", "", ReasonHandshakeFailed},
		{"no challenge", "hub.mode=subscribe&hub.verify_token=tok%2Ben", "", ReasonHandshakeFailed},
		{"challenge twice", "hub.mode=subscribe&hub.challenge=1&hub.challenge=2&hub.verify_token=tok%2Ben", "", ReasonHandshakeFailed},
		{"endless challenge", "hub.mode=subscribe&hub.challenge=" + strings.Repeat("1", maxEcho+1) + "&hub.verify_token=tok%2Ben", "", ReasonHandshakeFailed},
		{"other mode", "hub.mode=unsubscribe&hub.challenge=1&hub.verify_token=tok%2Ben", "", ReasonSignatureMissing},
	} {
		res := v.Verify(&Request{Method: "GET", RawQuery: tt.query})
		if res.Reason != tt.want || (res.Handshake != nil) != (tt.want == OK) || res.Events != nil {
			t.Errorf("%s: got %+v, want %s", tt.name, res, tt.want)
			continue
		}
		if a := res.Handshake; a != nil && (string(a.Body) != tt.body || a.Status != 200 || !strings.HasPrefix(a.ContentType, "text/plain") || a.Header["X-Content-Type-Options"] != "nosniff") {
			t.Errorf("%s: answer is %+v with body %q", tt.name, a, a.Body)
		}
	}
	if res := v.Verify(&Request{Method: "POST", RawQuery: "hub.mode=subscribe&hub.challenge=1&hub.verify_token=tok%2Ben"}); res.Handshake != nil {
		t.Error("a POST was taken for the GET handshake")
	}
	unset, err := New(Config{Row: subscribeRow(), Secrets: secrets("key")})
	if err != nil {
		t.Fatal(err)
	}
	for _, token := range []string{"", "tok%2Ben"} {
		res := unset.Verify(&Request{Method: "GET", RawQuery: "hub.mode=subscribe&hub.challenge=1&hub.verify_token=" + token})
		if res.Reason != ReasonHandshakeFailed || res.Handshake != nil {
			t.Errorf("without the option, %q is %s", token, res.Reason)
		}
	}
}

func TestHandshakeVerified(t *testing.T) {
	t.Parallel()
	v := subscribeVerifier(t)
	const body = `{"event":"validate","token":"a\"<b>\u2028"}`
	s, err := v.Sign(SignRequest{Body: []byte(body)})
	if err != nil {
		t.Fatal(err)
	}
	res := v.Verify(request(s, time.Time{}))
	if res.Reason != OK || res.Handshake == nil || res.Events != nil || res.Secret != "1" {
		t.Fatalf("got %+v", res)
	}
	var got map[string]string
	if err := json.Unmarshal(res.Handshake.Body, &got); err != nil || res.Handshake.ContentType != "application/json" {
		t.Fatalf("answer %q: %v", res.Handshake.Body, err)
	}
	const token = "a\"<b>\u2028"
	mac := hmac.New(sha256.New, []byte("key"))
	mac.Write([]byte(token))
	sum := sha256.Sum256([]byte(token))
	if got["plain"] != token || got["hash"] != hex.EncodeToString(mac.Sum(nil)) || got["sum"] != "sha256="+hex.EncodeToString(sum[:]) {
		t.Errorf("answer is %v", got)
	}
	if strings.Contains(string(res.Handshake.Body), "<b>") {
		t.Errorf("the answer holds a raw tag: %q", res.Handshake.Body)
	}
	s.Header.Set("X-Sig", strings.Repeat("0", 64))
	if res := v.Verify(request(s, time.Time{})); res.Reason != ReasonSignatureMismatch || res.Handshake != nil {
		t.Errorf("a forged handshake gave %s and %+v", res.Reason, res.Handshake)
	}
}

func TestHandshakeHeaderEcho(t *testing.T) {
	t.Parallel()
	v := subscribeVerifier(t)
	res := v.Verify(&Request{Method: "POST", Header: http.Header{"X-Hook-Secret": {"abc"}}})
	if res.Handshake == nil || res.Handshake.Status != 204 || res.Handshake.Header["X-Hook-Secret"] != "abc" {
		t.Errorf("got %+v", res)
	}
	for _, bad := range []string{"a\r\nSet-Cookie: x", "a\x00", "a\x7f"} {
		res := v.Verify(&Request{Method: "POST", Header: http.Header{"X-Hook-Secret": {bad}}})
		if res.Handshake != nil || res.Reason != ReasonHandshakeFailed {
			t.Errorf("%q was echoed in a header: %+v", bad, res)
		}
	}
}

func TestSlackChallengeWithoutText(t *testing.T) {
	t.Parallel()
	row, _ := Lookup("slack")
	v, err := New(Config{Row: row, Secrets: secrets("s")})
	if err != nil {
		t.Fatal(err)
	}
	for _, body := range []string{`{"type":"url_verification"}`, `{"type":"url_verification","challenge":""}`, `{"type":"url_verification","challenge":{}}`} {
		s, _ := v.Sign(SignRequest{Now: time.Unix(9, 0), Body: []byte(body)})
		if res := v.Verify(request(s, time.Unix(9, 0))); res.Reason != ReasonHandshakeFailed {
			t.Errorf("%s: %s", body, res.Reason)
		}
	}
}
