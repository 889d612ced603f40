package cli

import (
	"encoding/base64"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/onceward/onceward/gateway"
)

func TestLookalikeKeepsTheForm(t *testing.T) {
	for _, tt := range []struct {
		name, in string
		valid    func(string) bool
	}{
		{"whsec", "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD", func(s string) bool {
			raw, ok := strings.CutPrefix(s, "whsec_")
			_, err := base64.StdEncoding.DecodeString(raw)
			return ok && err == nil
		}},
		{"padded base64", "whsec_Zm9vYmFyYmF6cXV4cXV1eA==", func(s string) bool {
			_, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(s, "whsec_"))
			return err == nil
		}},
		{"hex", "00ff10a4b2c3d4e5", func(s string) bool { _, err := hex.DecodeString(s); return err == nil }},
		{"words", "It's a Secret to Everybody", func(s string) bool { return strings.Contains(s, "'") }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for range 200 {
				got := lookalike(tt.in)
				if got == tt.in {
					t.Fatalf("the forged secret is the real one")
				}
				if len(got) != len(tt.in) || !tt.valid(got) {
					t.Fatalf("lookalike(%q) = %q, which has another form", tt.in, got)
				}
			}
		})
	}
}

func TestOnLoopback(t *testing.T) {
	for raw, want := range map[string]bool{
		"http://127.0.0.1:9000/x":          true,
		"http://127.9.9.9/":                true,
		"http://[::1]:80/":                 true,
		"http://[::ffff:127.0.0.1]/":       true,
		"http://LOCALHOST:8080/":           true,
		"http://localhost.example.com/":    false,
		"http://127.0.0.1.example.com/":    false,
		"http://10.0.0.1/":                 false,
		"https://billing.internal/":        false,
		"http://127.0.0.1@evil.example/":   false,
		"://":                              false,
		"http://0x7f000001/":               false,
		"http://[::ffff:10.0.0.1]:8080/in": false,
	} {
		if got := onLoopback(raw); got != want {
			t.Errorf("onLoopback(%q) = %t, want %t", raw, got, want)
		}
	}
}

func TestBeyondLoopback(t *testing.T) {
	cfg := &gateway.Config{Targets: []gateway.TargetConfig{
		{Name: "near", URL: "http://127.0.0.1:9000/"},
		{Name: "far", URL: "https://hooks.example.com/services/T0/SECRETPATH"},
	}}
	src := &gateway.SourceConfig{Name: "s", Targets: []string{"near"}, Routes: []gateway.RouteConfig{{Target: "far"}, {Target: "far"}}}
	got := strings.Join(beyondLoopback(cfg, src, "http://127.0.0.1:8080/in/s"), "; ")
	if want := "target far (https://hooks.example.com)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestTriggerFlags(t *testing.T) {
	for _, tt := range []struct {
		name string
		f    triggerFlags
		ok   bool
	}{
		{"one", triggerFlags{count: 1}, true},
		{"many", triggerFlags{count: 100, repeat: 9}, true},
		{"none", triggerFlags{}, false},
		{"negative repeat", triggerFlags{count: 1, repeat: -1}, false},
		{"flood", triggerFlags{count: maxTrigger, repeat: 1}, false},
		{"overflow", triggerFlags{count: 1 << 40, repeat: 1 << 40}, false},
		{"one id for many events", triggerFlags{count: 2, id: "evt_1"}, false},
		{"one id again", triggerFlags{count: 1, repeat: 3, id: "evt_1"}, true},
	} {
		if err := tt.f.check(); (err == nil) != tt.ok {
			t.Errorf("%s: check() = %v, want ok %t", tt.name, err, tt.ok)
		}
	}
}
