package cli

import "testing"

// A spreadsheet takes no text of a sender for a formula.
func TestPlainCell(t *testing.T) {
	for in, want := range map[string]string{
		"": "", "evt_1": "evt_1", "=1+1": "'=1+1", "+1": "'+1", "-1": "'-1", "@SUM(A1)": "'@SUM(A1)", "\t=1": "'\t=1", "\r=1": "'\r=1",
		"|calc": "'|calc", "a=1": "a=1", "'x": "'x", "\n=1": "'\n=1",
	} {
		if got := plainCell(in); got != want {
			t.Errorf("plainCell(%q) = %q, want %q", in, got, want)
		}
	}
}
