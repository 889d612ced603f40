package dedupe_test

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/onceward/onceward/dedupe"
)

// FuzzGlob holds globs against a regular expression.
func FuzzGlob(f *testing.F) {
	f.Add("invoice.*", "invoice.paid")
	f.Add("*a*b*", "xxaxxbxx")
	f.Add("", "")
	f.Add("**", "\x00")
	f.Fuzz(func(t *testing.T, glob, s string) {
		if len(glob) > 64 || len(s) > 256 || !utf8.ValidString(glob) || !utf8.ValidString(s) {
			return // the expression reads runes, the glob bytes
		}
		parts := strings.Split(glob, "*")
		for i := range parts {
			parts[i] = regexp.QuoteMeta(parts[i])
		}
		want := regexp.MustCompile(`(?s)^` + strings.Join(parts, ".*") + `$`).MatchString(s)
		if got := dedupe.Glob(glob, s); got != want {
			t.Errorf("Glob(%q, %q) = %v, want %v", glob, s, got, want)
		}
	})
}

// FuzzFrameID: an ID is kept as it came or as its hash, never long, never with
// a control character, and two different ones never share a key.
func FuzzFrameID(f *testing.F) {
	f.Add("evt_1", "evt_2")
	f.Add("a\x00", "a")
	f.Add(strings.Repeat("a", 513), strings.Repeat("a", 512))
	f.Fuzz(func(t *testing.T, a, b string) {
		framed, hashed := dedupe.FrameID(a)
		if hashed == (framed == a) && a != "" || len(framed) > dedupe.MaxID {
			t.Errorf("%q became %q, hashed %v", a, framed, hashed)
		}
		for i := range len(framed) {
			if framed[i] < 0x20 || framed[i] == 0x7f {
				t.Errorf("%q became %q", a, framed)
			}
		}
		one := dedupe.KeyOf(dedupe.KindID, "s", a, b)
		if a != b && (one == dedupe.KeyOf(dedupe.KindID, "s", b, a) || one == dedupe.KeyOf(dedupe.KindID, "s"+a, "", b) && a != "") {
			t.Errorf("%q and %q share a key", a, b)
		}
	})
}
