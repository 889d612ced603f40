package audit

import (
	"testing"
	"time"
)

// TestJobRests: a job rests for as long as its parts work, but not for as long as
// they wait.
func TestJobRests(t *testing.T) {
	job := func(rate string) *kept {
		r, err := ParseRate(rate)
		if err != nil {
			t.Fatal(err)
		}
		return &kept{Job: Job{Rate: r}}
	}
	for _, tt := range []struct {
		rate   string
		opened int
		took   time.Duration
		want   time.Duration
	}{
		{"", 20, 2 * time.Millisecond, 24 * time.Millisecond},
		{"", 20, 200 * time.Millisecond, 100 * time.Millisecond},
		{"", 0, time.Minute, 100 * time.Millisecond},
		{"10/s", 5, 2 * time.Millisecond, 498 * time.Millisecond},
		{"10/s", 5, time.Second, 100 * time.Millisecond},
	} {
		if got := job(tt.rate).pause(tt.opened, tt.took); got != tt.want {
			t.Errorf("%s: after %d in %v it rests %v, want %v", tt.rate, tt.opened, tt.took, got, tt.want)
		}
	}
}
