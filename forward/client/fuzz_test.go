package client

import (
	"testing"
	"time"
)

// FuzzRetryAfter: whatever a server says, the wait is not negative and does
// not overflow.
func FuzzRetryAfter(f *testing.F) {
	for _, s := range []string{"", "0", "120", "-1", "1e9", "99999999999999999999", " 5 ", "Fri, 31 Dec 1999 23:59:59 GMT", "Friday, 31-Dec-99 23:59:59 GMT", "soon"} {
		f.Add(s)
	}
	now := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, value string) {
		if d := retryAfter(value, now); d < 0 {
			t.Errorf("Retry-After %q is %v", value, d)
		}
	})
}
