package receiver

import (
	"regexp"
	"testing"
)

func TestTrace(t *testing.T) {
	t.Parallel()
	form := regexp.MustCompile(`^00-[0-9a-f]{32}-[0-9a-f]{16}-01$`)
	seen := map[string]bool{}
	for range 1000 {
		tr := newTrace()
		if !form.MatchString(tr) || seen[tr[3:35]] || seen[tr[36:52]] {
			t.Fatalf("trace %q is malformed or was given before", tr)
		}
		seen[tr[3:35]], seen[tr[36:52]] = true, true
	}
}
