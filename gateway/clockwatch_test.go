package gateway

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

func TestClockWatch(t *testing.T) {
	t.Parallel()
	type seen struct{ forward, back float64 }
	for _, tt := range []struct {
		name  string
		looks [][2]time.Duration // how far the wall clock went, and how much time passed
		want  seen
	}{
		{"runs true", [][2]time.Duration{{time.Second, time.Second}, {2 * time.Second, 2 * time.Second}}, seen{}},
		{"set ahead by a day", [][2]time.Duration{{25 * time.Hour, time.Second}, {25*time.Hour + time.Second, 2 * time.Second}}, seen{forward: 1}},
		{"set back", [][2]time.Duration{{-400 * time.Second, time.Second}}, seen{back: 1}},
		{"there and back", [][2]time.Duration{{400 * time.Second, time.Second}, {2 * time.Second, 2 * time.Second}}, seen{1, 1}},
		{"slewed", [][2]time.Duration{{2 * time.Second, time.Second}, {4 * time.Second, 2 * time.Second}, {6 * time.Second, 3 * time.Second}}, seen{}},
	} {
		var log bytes.Buffer
		w, err := newClockWatch(time.Now, slog.New(slog.NewTextHandler(&log, nil)), prometheus.NewRegistry())
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range tt.looks {
			w.look(l[0], l[1])
		}
		got := seen{counted(t, w.jumps.WithLabelValues("forward")), counted(t, w.jumps.WithLabelValues("back"))}
		if warned := float64(strings.Count(log.String(), "clock.jumped")); got != tt.want || warned != got.forward+got.back {
			t.Errorf("%s: got %+v with %v warnings, want %+v with as many", tt.name, got, warned, tt.want)
		}
	}
}

// At the start there is only the ledger's clock to compare with.
func TestClockWatchStarted(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	for name, tt := range map[string]struct {
		ledger        time.Time
		held          bool
		forward, back float64
	}{
		"the same":       {ledger: now},
		"a moment ahead": {ledger: now.Add(time.Second)},
		"set back":       {ledger: now.Add(24 * time.Hour), back: 1},
		"far ahead":      {ledger: now, held: true, forward: 1},
	} {
		w, err := newClockWatch(func() time.Time { return now }, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
		if err != nil {
			t.Fatal(err)
		}
		w.started(tt.ledger, tt.held)
		if f, b := counted(t, w.jumps.WithLabelValues("forward")), counted(t, w.jumps.WithLabelValues("back")); f != tt.forward || b != tt.back {
			t.Errorf("%s: forward %v, back %v, want %v and %v", name, f, b, tt.forward, tt.back)
		}
	}
}
