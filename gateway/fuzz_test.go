package gateway

import "testing"

// FuzzUnits: a length of time or a size that is read is written as something
// that is read as the same.
func FuzzUnits(f *testing.F) {
	for _, s := range []string{"90s", "1h30m", "30d", "1d12h", "-1s", "", "9999999999d", "5MiB", "10MB", "4096", "1.5GiB", "+1", "0d"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var d, d2 Duration
		if d.UnmarshalText([]byte(s)) == nil {
			if d < 0 {
				t.Errorf("%q is %d", s, d)
			}
			if err := d2.UnmarshalText([]byte(d.String())); err != nil || d != d2 {
				t.Errorf("%q is written %q, which is read as %v, %v", s, d, d2, err)
			}
		}
		var z, z2 Size
		if z.UnmarshalText([]byte(s)) == nil {
			if err := z2.UnmarshalText([]byte(z.String())); err != nil || z != z2 || z < 0 {
				t.Errorf("%q is written %q, which is read as %v, %v", s, z, z2, err)
			}
		}
		var p, p2 Prefix
		if p.UnmarshalText([]byte(s)) == nil {
			if err := p2.UnmarshalText([]byte(p.String())); err != nil || p.Prefix != p2.Prefix {
				t.Errorf("%q is written %q, which is read as %v, %v", s, p, p2, err)
			}
		}
	})
}
