package gateway

import (
	"strings"
	"testing"
)

// TestPrintedURLs: of a target's URL no more is printed than where it is, and
// another path is another configuration all the same.
func TestPrintedURLs(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		"http://127.0.0.1:9000":              "http://127.0.0.1:9000",
		"http://127.0.0.1:9000/":             "http://127.0.0.1:9000/",
		"https://hooks.example.com/T0/B1/XX": "https://hooks.example.com/[redacted:path]",
		"https://hooks.example.com?key=v":    "https://hooks.example.com/[redacted:path]",
		"https://a:b@c@hooks.example.com/":   "https://hooks.example.com/[redacted:path]",
		"http://[::1]:9000/x":                "http://[::1]:9000/[redacted:path]",
		"nonsense":                           "[redacted:url]",
	} {
		if got := site(raw); got != want {
			t.Errorf("site(%q) = %q, want %q", raw, got, want)
		}
	}
	hashes := map[string]bool{}
	for _, path := range []string{"/one-canary", "/two-canary"} {
		cfg, faults := Parse("c.toml", []byte("[[target]]\nname = \"t\"\nurl = \"http://127.0.0.1:9000"+path+"\"\n"), Env{})
		if faults.Failed() {
			t.Fatal(faults)
		}
		var b strings.Builder
		if err := cfg.Print(&b); err != nil || strings.Contains(b.String(), "canary") {
			t.Errorf("printed %s, %v", b.String(), err)
		}
		hashes[cfg.Hash()] = true
	}
	if len(hashes) != 2 {
		t.Error("another path has the same hash")
	}
}
