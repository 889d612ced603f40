package cli

import (
	"testing"
	"unicode/utf8"
)

// FuzzEscape: whatever comes from outside, a terminal gets text it only shows,
// and plain text unchanged.
func FuzzEscape(f *testing.F) {
	for _, h := range hostile {
		f.Add(h.in)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, lines := range []bool{false, true} {
			got := escape(s)
			if lines {
				got = escapeLines(s)
			}
			if !utf8.ValidString(got) {
				t.Fatalf("%q became broken text %q", s, got)
			}
			for _, r := range got {
				if unsafeRune(r, lines) {
					t.Fatalf("%q became %q, with %U in it", s, got, r)
				}
			}
		}
		if !needsEscape(s, false) && escape(s) != s {
			t.Fatalf("%q became %q", s, escape(s))
		}
	})
}
