package audit_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/onceward/onceward/audit"
	"github.com/onceward/onceward/event"
)

func TestCredential(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"Authorization", "authorization", "Proxy-Authorization", "Cookie", "Set-Cookie", "X-Api-Key", "api_key", "apiKey", "API-KEY",
		"X-Hub-Signature-256", "Stripe-Signature", "X-Shopify-Hmac-Sha256", "X-Gitlab-Token", "access_token", "client_secret",
		"password", "passWord", "db.password", "pass", "pwd", "private_key", "hub.verify_token", "X-Auth-Token", "jwt", "sig", "session_id",
	} {
		if !audit.Credential(name) {
			t.Errorf("Credential(%q) = false", name)
		}
	}
	for _, name := range []string{
		"", "Content-Type", "User-Agent", "Idempotency-Key", "X-GitHub-Event", "X-GitHub-Delivery", "Webhook-Id", "Webhook-Timestamp",
		"id", "key", "type", "amount", "author", "passenger", "signed_at", "design", "compass", "X-Slack-Request-Timestamp", "mach",
	} {
		if audit.Credential(name) {
			t.Errorf("Credential(%q) = true", name)
		}
	}
}

func TestMaskHeader(t *testing.T) {
	t.Parallel()
	in := []event.Field{{Name: "A", Value: "b"}, {Name: "X-Token", Value: "canary"}, {Name: "Cookie", Value: "[12 bytes]"},
		{Name: "Cookie", Value: "[] bytes]"}}
	out := audit.MaskHeader(in)
	if out[0].Value != "b" || out[1].Value != audit.Masked || out[2].Value != "[12 bytes]" || out[3].Value != audit.Masked {
		t.Errorf("MaskHeader = %v", out)
	}
	if in[1].Value != "canary" {
		t.Error("MaskHeader changed its argument")
	}
}

func TestMaskQuery(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"":                            "",
		"a=1&b=2":                     "a=1&b=2",
		"token=x":                     "token=[masked]",
		"a=1&%74oken=x&b":             "a=1&%74oken=[masked]&b",
		"key=AIza":                    "key=[masked]",
		"Key=AIza&keys=1":             "Key=[masked]&keys=1",
		"%zz=1&sig=a=b":               "%zz=1&sig=[masked]",
		"a=%zz&secret=":               "a=%zz&secret=[masked]",
		"payload=%7B%22a%22%3A1%7D":   "payload=%7B%22a%22%3A1%7D",
		`payload=%7B%22token%22:%22x`: `payload=%7B%22token%22%3A%22%5Bmasked%5D%22`,
	} {
		if got := audit.MaskQuery(in); got != want {
			t.Errorf("MaskQuery(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestMaskBody(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, in, want string }{
		{"nothing", ``, ``},
		{"null", `null`, `null`},
		{"no credential, odd spacing", "{ \"a\" :\t1.50, \"b\":[1 ,2] }\n", "{ \"a\" :\t1.50, \"b\":[1 ,2] }\n"},
		{"string", `{"token":"x","a":"y"}`, `{"token":"[masked]","a":"y"}`},
		{"number", `{"pin":1234,"a":1}`, `{"pin":"[masked]","a":1}`},
		{"null stays", `{"token":null,"secret":true,"password":""}`, `{"token":null,"secret":true,"password":""}`},
		{"whole object", `{"credentials":{"user":"u","x":["y"]},"a":1}`, `{"credentials":"[masked]","a":1}`},
		{"array", `{"tokens":["a","b}"],"a":1}`, `{"tokens":"[masked]","a":1}`},
		{"nested", `[{"b":{"api_key" : "x"}}]`, `[{"b":{"api_key" : "[masked]"}}]`},
		{"escaped name", `{"\u0074oken":"x"}`, `{"\u0074oken":"[masked]"}`},
		{"escaped quote in value", `{"token":"a\"b","c":1}`, `{"token":"[masked]","c":1}`},
		{"credential as a value", `{"type":"token","a":1}`, `{"type":"token","a":1}`},
		{"cut in the value", `{"a":1,"token":"abc`, `{"a":1,"token":"[masked]"`},
		{"cut in a nested value", `{"secrets":{"a":"b`, `{"secrets":"[masked]"`},
		{"cut before the value", `{"token":`, `{"token":`},
		{"cut in the name", `{"tok`, `{"tok`},
		{"JSON in a string", `{"Message":"{\"token\":\"x\"}"}`, `{"Message":"{\"token\":\"[masked]\"}"}`},
		{"JSON in a string, cut", `{"Message":"{\"token\":\"x`, `{"Message":"{\"token\":\"[masked]\""`},
		{"cut inside an escape", `{"Message":"{\"token\":\"x\`, `{"Message":"{\"token\":\"[masked]\""`},
		{"form", `a=1&password=x`, `a=1&password=[masked]`},
		{"form with JSON", `payload=%7B%22token%22%3A%22x%22%7D`, `payload=%7B%22token%22%3A%22%5Bmasked%5D%22%7D`},
		{"text", "hello = world", "hello = world"},
		{"no UTF-8", "{\"a\":\"\xff\"}", "{\"a\":\"\uFFFD\"}"},
	} {
		if got := audit.MaskBody([]byte(tt.in)); got != tt.want {
			t.Errorf("%s: MaskBody(%s) = %s, want %s", tt.name, tt.in, got, tt.want)
		}
	}
}

func TestMaskResponse(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, in, want string }{
		{"nothing", "", ""},
		{"status line alone", "HTTP/1.1 200 OK", "HTTP/1.1 200 OK"},
		{"cut in a header", "HTTP/1.1 200 OK\r\nSet-Cookie: canary", "HTTP/1.1 200 OK\r\nSet-Cookie: [masked]"},
		{"headers without status line", "A: b\nX-Token: canary\n\n{}", "A: b\nX-Token: [masked]\n\n{}"},
		{"body alone", `{"token":"canary"}`, `{"token":"[masked]"}`},
		{"body with an empty line", "{\"a\": 1,\n\n\"token\":\"canary\"}", "{\"a\": 1,\n\n\"token\":\"[masked]\"}"},
	} {
		if got := audit.MaskResponse([]byte(tt.in)); got != tt.want {
			t.Errorf("%s: MaskResponse = %q, want %q", tt.name, got, tt.want)
		}
	}
}

// FuzzMaskBody: whatever surrounds it, the value of a credential never
// comes out, and nothing panics.
func FuzzMaskBody(f *testing.F) {
	f.Add(`{"a":[1,{"b":`, `},2]}`)
	f.Add(``, `"\`)
	f.Add(`{"x":"`, `"}`)
	f.Fuzz(func(t *testing.T, before, after string) {
		audit.MaskResponse([]byte(before + after))
		var doc map[string]any
		s := `{"before":` + quote(t, before) + `,"token":"CANARY-VALUE","after":` + quote(t, after) + `}`
		got := audit.MaskBody([]byte(s))
		if strings.Contains(before+after, "CANARY") {
			return
		}
		if strings.Contains(got, "CANARY") {
			t.Errorf("MaskBody(%s) = %s", s, got)
		}
		if err := json.Unmarshal([]byte(got), &doc); err != nil {
			t.Errorf("MaskBody(%s) = %s: no longer JSON: %v", s, got, err)
		}
	})
}

func quote(t *testing.T, s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
