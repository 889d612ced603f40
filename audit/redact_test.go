package audit_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/onceward/onceward/audit"
)

func TestRedactionOfBodies(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, paths, in, want string }{
		{"a string", "a.b", `{"a":{"b":"x","c":"y"}}`, `{"a":{"b":"[redacted]","c":"y"}}`},
		{"whatever it is", "a", `{"a":{"b":[1,{"c":"}]"}]},"d":1}`, `{"a":"[redacted]","d":1}`},
		{"a number, null, true", "a b c", `{"a":1,"b":null,"c":true,"d":false}`, `{"a":"[redacted]","b":"[redacted]","c":"[redacted]","d":false}`},
		{"other bytes stay", "a.b", " {\t\"n\" : 1152921506151679042.10e+2 ,\r\n\"a\" : { \"b\" : \"x\" , \"z\":\"\\u00e9\" } } \n",
			" {\t\"n\" : 1152921506151679042.10e+2 ,\r\n\"a\" : { \"b\" : \"[redacted]\" , \"z\":\"\\u00e9\" } } \n"},
		{"a key that stands twice", "a", `{"a":"x","b":1,"a":"y"}`, `{"a":"[redacted]","b":1,"a":"[redacted]"}`},
		{"a parent that stands twice", "a.b", `{"a":{"b":"x"},"a":{"b":"y"}}`, `{"a":{"b":"[redacted]"},"a":{"b":"[redacted]"}}`},
		{"an escaped key", "card", `{"\u0063ard":"x","c\u0061r\u0064":"y"}`, `{"\u0063ard":"[redacted]","c\u0061r\u0064":"[redacted]"}`},
		{"every element of a list", "items.card", `{"items":[{"card":"x"},{"card":"y","n":1},3,"card"]}`, `{"items":[{"card":"[redacted]"},{"card":"[redacted]","n":1},3,"card"]}`},
		{"one element", "items.1", `{"items":["x","y","z"]}`, `{"items":["x","[redacted]","z"]}`},
		{"a key of one element", "items.1.card", `{"items":[{"card":"x"},{"card":"y"}]}`, `{"items":[{"card":"x"},{"card":"[redacted]"}]}`},
		{"lists in lists", "card", `[[{"card":"x"}],[[{"card":"y"}]]]`, `[[{"card":"[redacted]"}],[[{"card":"[redacted]"}]]]`},
		{"a key that looks like a position", "a.1", `{"a":{"1":"x","2":"y"}}`, `{"a":{"1":"[redacted]","2":"y"}}`},
		{"deep", "a.b.c.d.e", `{"a":{"b":{"c":{"d":{"e":"x","f":1}}}}}`, `{"a":{"b":{"c":{"d":{"e":"[redacted]","f":1}}}}}`},
		{"not at that depth", "card", `{"a":{"card":"x"}}`, `{"a":{"card":"x"}}`},
		{"the same word as a value", "card", `{"a":"card","b":["card"]}`, `{"a":"card","b":["card"]}`},
		{"quotes and brackets in strings", "b", `{"a":"\"b\":\\","x":"{[","b":"\\\"}"}`, `{"a":"\"b\":\\","x":"{[","b":"[redacted]"}`},
		{"a path into a scalar", "a.b", `{"a":"x"}`, `{"a":"x"}`},
		{"a scalar alone", "a", `"x"`, `"x"`},
		{"empty containers", "a.b", `{"a":{},"c":[],"a":[]}`, `{"a":{},"c":[],"a":[]}`},
		{"one path inside another", "a a.b", `{"a":{"b":1}}`, `{"a":"[redacted]"}`},
	} {
		got, err := audit.NewRedaction(strings.Fields(tt.paths)).Body([]byte(tt.in))
		if err != nil || string(got) != tt.want {
			t.Errorf("%s: %s %v, want %s", tt.name, got, err, tt.want)
		}
	}
	r := audit.NewRedaction([]string{"a"})
	for _, bad := range []string{"", "a=1&card=x", `{"a":"x"`, `{"a":"x"}{"a":"y"}`, "\ufeff{}", "<a>x</a>", strings.Repeat("[", 20_000)} {
		if got, err := r.Body([]byte(bad)); !errors.Is(err, audit.ErrHidden) || got != nil {
			t.Errorf("%.20q, which is not JSON: %q %v", bad, got, err)
		}
	}
	if got, err := audit.NewRedaction(nil).Body([]byte("any\xff")); err != nil || string(got) != "any\xff" {
		t.Errorf("without paths: %q %v", got, err)
	}
}

func TestRedactionCovers(t *testing.T) {
	t.Parallel()
	r := audit.NewRedaction([]string{"data.card", "items.0.email"})
	for path, want := range map[string]bool{"data.card": true, "data.card.last4": true, "data": true, "data.cards": false, "card": false,
		"items.email": true, "items.3.email": true, "items.name": false, "type": false} {
		if got := r.Covers(path); got != want {
			t.Errorf("Covers(%s) = %v", path, got)
		}
	}
	if (*audit.Redaction)(nil).Covers("data") {
		t.Error("no redaction covers something")
	}
}

// FuzzRedaction: what is redacted never comes out, whatever stands around it,
// and what comes out is JSON.
func FuzzRedaction(f *testing.F) {
	f.Add("k", "v", `[1,{"a":2}]`)
	f.Add("card", `"\`, `"card"`)
	f.Fuzz(func(t *testing.T, key, text, other string) {
		if !json.Valid([]byte(other)) || strings.Contains(key+text+other, "CANARY") {
			return
		}
		doc := `{` + quote(t, key) + `:` + other + `,"a":[` + other + `,{"card":{"n":["CANARY",` + other + `]},` + quote(t, text) + `:1}],"a":{"card":"CANARY"}}`
		got, err := audit.NewRedaction([]string{"a.card"}).Body([]byte(doc))
		if err != nil || !json.Valid(got) || strings.Contains(string(got), "CANARY") {
			t.Errorf("%s comes out as %s, %v", doc, got, err)
		}
	})
}
