//go:build testclock

package cli

import (
	"testing"
	"time"
)

func TestMoved(t *testing.T) {
	a := time.Now()
	for _, d := range []time.Duration{25 * time.Hour, -400 * time.Second} {
		b := moved(a, d)
		if got := b.Round(0).Sub(a.Round(0)); got != d {
			t.Errorf("wall clock moved by %v, want %v", got, d)
		}
		if got := b.Sub(a); got != 0 {
			t.Errorf("time passed: %v, want none", got)
		}
	}
}
