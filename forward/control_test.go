package forward

import (
	"testing"
	"time"

	"github.com/onceward/onceward/dedupe"
)

func TestControlStopsTheClock(t *testing.T) {
	t.Parallel()
	zero := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	day := func(d float64) time.Time { return zero.Add(time.Duration(d * 24 * float64(time.Hour))) }
	at := func(d float64) moment { return moment{day(d), day(d)} }
	var c control
	if got := c.stopped(day(0), day(100)); got != 0 {
		t.Errorf("a target that was never paused: %v", got)
	}
	if !c.pause(at(10), dedupe.By{Actor: "ann", Reason: "sick"}) || c.pause(at(11), dedupe.By{Actor: "bob", Reason: "again"}) || c.By != "ann" {
		t.Errorf("pausing: %+v", c)
	}
	if !c.resume(at(12), dedupe.By{Actor: "bob", Reason: "well"}) || c.resume(at(13), dedupe.By{Actor: "bob", Reason: "again"}) {
		t.Errorf("resuming: %+v", c)
	}
	c.pause(at(20), dedupe.By{Actor: "ann", Reason: "sick"})
	for _, tt := range []struct{ from, now, want float64 }{
		{0, 15, 2},    // all of the first
		{11, 15, 1},   // opened during it
		{12, 15, 0},   // opened after it
		{0, 11, 1},    // asked during it
		{0, 25, 7},    // and of the present one
		{22, 25, 3},   // opened during that
		{0, 100, 14},  // never more than two weeks
		{50, 100, 14}, // also of one
		{0, 5, 0},
	} {
		want := time.Duration(tt.want * 24 * float64(time.Hour))
		if got := c.stopped(day(tt.from), day(tt.now)); got != want {
			t.Errorf("stopped(%v, %v) = %v, want %v", tt.from, tt.now, got, want)
		}
	}
	for i := range 1000 {
		c.resume(at(30+float64(i)/10), dedupe.By{Actor: "x", Reason: ""})
		c.pause(at(30.05+float64(i)/10), dedupe.By{Actor: "x", Reason: ""})
	}
	if len(c.Ended) != maxPauses {
		t.Errorf("%d pauses are remembered, want %d", len(c.Ended), maxPauses)
	}
	c.resume(at(1000), dedupe.By{Actor: "x", Reason: ""})
	if len(c.Ended) != 1 {
		t.Errorf("%d pauses are remembered after years, want 1", len(c.Ended))
	}
}
