package receiver

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/onceward/onceward/event"
	"github.com/onceward/onceward/verify"
)

func TestParseKey(t *testing.T) {
	for _, tt := range []struct {
		name    string
		lines   []string
		key     string
		present bool
		ok      bool
	}{
		{"none", nil, "", false, true},
		{"raw", []string{"k1"}, "k1", true, true},
		{"quoted", []string{`"k1"`}, "k1", true, true},
		{"padded", []string{" \tk1 "}, "k1", true, true},
		{"quoted, escaped", []string{`"a\"b\\c"`}, `a"b\c`, true, true},
		{"the same, raw", []string{`a"b\c`}, `a"b\c`, true, true},
		{"quoted comma", []string{`"a,b"`}, "a,b", true, true},
		{"uuid", []string{"8e03978e-40d5-43dd-bc93-6894a57f9324"}, "8e03978e-40d5-43dd-bc93-6894a57f9324", true, true},
		{"longest", []string{strings.Repeat("k", 255)}, strings.Repeat("k", 255), true, true},
		{"too long", []string{strings.Repeat("k", 256)}, "", true, false},
		{"too long, quoted", []string{`"` + strings.Repeat("k", 256) + `"`}, "", true, false},
		{"empty", []string{""}, "", true, false},
		{"spaces", []string{"  "}, "", true, false},
		{"empty, quoted", []string{`""`}, "", true, false},
		{"inner space", []string{"a b"}, "", true, false},
		{"inner space, quoted", []string{`"a b"`}, "", true, false},
		{"control character", []string{"a\x01b"}, "", true, false},
		{"delete", []string{"a\x7fb"}, "", true, false},
		{"not ASCII", []string{"ключ"}, "", true, false},
		{"not ASCII, quoted", []string{`"ключ"`}, "", true, false},
		{"twice", []string{"a", "a"}, "", true, false},
		{"joined", []string{"a,b"}, "", true, false},
		{"joined, quoted", []string{`"a", "b"`}, "", true, false},
		{"open quote", []string{`"a`}, "", true, false},
		{"quote alone", []string{`"`}, "", true, false},
		{"after the quote", []string{`"a"b`}, "", true, false},
		{"parameter", []string{`"a";q=1`}, "", true, false},
		{"bad escape", []string{`"a\b"`}, "", true, false},
		{"escape at the end", []string{`"a\`}, "", true, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			key, present, ok := parseKey(tt.lines)
			if present != tt.present || ok != tt.ok || ok && key != tt.key {
				t.Errorf("parseKey(%q) = %q, %v, %v; want %q, %v, %v", tt.lines, key, present, ok, tt.key, tt.present, tt.ok)
			}
		})
	}
}

func FuzzParseKey(f *testing.F) {
	for _, s := range []string{"", "a", `"a"`, `"a\"b"`, "a,b", `"`, `"\`, "\x00", "é"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		key, _, ok := parseKey([]string{s})
		if !ok {
			return
		}
		if !validKey(key) {
			t.Fatalf("%q is taken as %q", s, key)
		}
		quoted := `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(key) + `"`
		if again, _, ok := parseKey([]string{quoted}); !ok || again != key {
			t.Fatalf("%q is %q, and quoted %q, %v", s, key, again, ok)
		}
	})
}

func TestSuffix(t *testing.T) {
	for raw, want := range map[string]string{
		"/in/pay": "", "/in/pay/": "/", "/in/pay/a/b": "/a/b", "/in/pay/a%2Fb": "/a%2Fb", "/in/pay//a": "//a", "/in/pay/...": "/...", "/in/pay/a..b/.c": "/a..b/.c",
		"/in/pay/..": "!", "/in/pay/../x": "!", "/in/pay/a/./b": "!", "/in/pay/%2e%2e/x": "!", "/in/pay/.%2E": "!", "/in/pay/a%2f..%2fb": "!",
		"/in/pay/a%5c..%5cb": "!", "/in/pay/..;x/b": "!", "/in/pay/a%00b": "!", "/in/pay/a%0d%0ab": "!",
	} {
		u, err := url.ParseRequestURI(raw)
		if err != nil {
			t.Fatal(err)
		}
		got, ok := suffixOf(u, "/in/pay")
		if !ok {
			got = "!"
		}
		if got != want {
			t.Errorf("suffix of %s = %q, want %q", raw, got, want)
		}
	}
}

func FuzzSuffix(f *testing.F) {
	for _, s := range []string{"/a", "/..", "/%2e%2e", "/a/..;b", `/..\`, "//", "/%"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		u, err := url.ParseRequestURI("/in/pay" + s)
		if err != nil || !strings.HasPrefix(u.EscapedPath(), "/in/pay") {
			return
		}
		suffix, ok := suffixOf(u, "/in/pay")
		if !ok {
			return
		}
		// However often a target decodes once and cleans, it stays below its base.
		joined, err := url.ParseRequestURI("/base/route" + suffix)
		if err != nil {
			return
		}
		if clean := joined.JoinPath(".").Path; strings.HasPrefix(suffix, "/") && !strings.HasPrefix(clean, "/base/route") {
			t.Fatalf("%q leads to %q", s, clean)
		}
	})
}

// What is part of the fingerprint and what is not.
func TestPrint(t *testing.T) {
	of := func(change func(c *call)) event.Hash {
		req := httptest.NewRequest(http.MethodPost, "/in/pay/charges?a=1", nil)
		req.Header.Set("Content-Type", "application/json; charset=utf-8")
		c := &call{req: req, src: &compiled{keyed: true}, body: []byte("{}"), suffix: "/charges"}
		if change != nil {
			change(c)
		}
		return c.print()
	}
	first := of(nil)
	for name, change := range map[string]func(*call){
		"method": func(c *call) { c.req.Method = http.MethodPatch }, "path": func(c *call) { c.suffix = "/charges/" },
		"query": func(c *call) { c.req.URL.RawQuery = "a=1&b=2" }, "query order": func(c *call) { c.req.URL.RawQuery = "b=1" },
		"body": func(c *call) { c.body = []byte("{ }") }, "content type": func(c *call) { c.req.Header.Set("Content-Type", "text/plain") },
		"parameter": func(c *call) { c.req.Header.Set("Content-Type", "application/json; charset=UTF-16") },
		"no type":   func(c *call) { c.req.Header.Del("Content-Type") },
		"moved":     func(c *call) { c.suffix, c.req.URL.RawQuery = "/chargesa=1", "" },
	} {
		if of(change) == first {
			t.Errorf("another %s has the same fingerprint", name)
		}
	}
	for name, change := range map[string]func(*call){
		"case of the type": func(c *call) { c.req.Header.Set("Content-Type", "Application/JSON; charset=utf-8") },
		"other header":     func(c *call) { c.req.Header.Set("X-Trace", "1") },
	} {
		if of(change) != first {
			t.Errorf("%s changes the fingerprint", name)
		}
	}
	changing := func(body string) event.Hash {
		return of(func(c *call) { c.src, c.body = &compiled{row: verify.Row{BodyStable: false}}, []byte(body) })
	}
	if changing("a") != changing("b") {
		t.Error("of a provider whose bytes change between retries the body counts")
	}
}

// Every problem has its own type, and the document's status is the answer's.
func TestProblems(t *testing.T) {
	for _, p := range []answer{problemKeyMissing, problemKeyInvalid, problemPath, problemBatch, problemReused, problemInFlight, problemUnknown,
		problemTryAgain, problemNoAnswer, problemReach, problemLarge, problemStream, problemUpgrade} {
		body := string(p.body)
		if p.contentType[0] != "application/problem+json" || !strings.Contains(body, `"type":"urn:onceward:problem:`) ||
			!strings.HasSuffix(body, `"status":`+strconv.Itoa(p.status)+`}`) {
			t.Errorf("%d: %s", p.status, body)
		}
	}
}
