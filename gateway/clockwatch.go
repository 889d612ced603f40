package gateway

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	clockEvery = time.Second
	// clockSlack is how far the wall clock may stray from the time that passed
	// between two looks: what keeps clocks right moves them by less.
	clockSlack = 2 * time.Second
)

// clockWatch notices when somebody sets the machine's clock. Signatures with a
// time in them are refused while it is wrong, and receipts are dated wrong;
// what is remembered and when it is tried again goes by the ledger's own clock
// and is not touched.
type clockWatch struct {
	now   func() time.Time // with its monotonic reading
	log   *slog.Logger
	jumps *prometheus.CounterVec

	strayed time.Duration // of the wall clock from the time passed, when last looked
}

func newClockWatch(now func() time.Time, log *slog.Logger, reg prometheus.Registerer) (*clockWatch, error) {
	w := &clockWatch{now: now, log: log, jumps: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "onceward_clock_jumps_total", Help: "How often the machine's clock was set, by direction, before the start included.",
	}, []string{"direction"})}
	for _, d := range []string{"forward", "back"} {
		w.jumps.WithLabelValues(d)
	}
	return w, reg.Register(w.jumps)
}

// started compares the clock with the ledger's, which never runs behind what
// it had seen; held says that it found the clock far ahead of that.
func (w *clockWatch) started(ledger time.Time, held bool) {
	wall := w.now()
	switch by := ledger.Sub(wall.Round(0)); {
	case by > clockSlack:
		w.jumped(-by, "clock is behind what the ledger had seen: ledger time goes on from there")
	case held:
		w.jumps.WithLabelValues("forward").Inc() // the ledger has said by how much
	}
}

// Run looks every second until ctx ends.
func (w *clockWatch) Run(ctx context.Context) error {
	start := w.now()
	tick := time.NewTicker(clockEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			now := w.now()
			w.look(now.Round(0).Sub(start.Round(0)), now.Sub(start))
		}
	}
}

// look compares how far the wall clock went with the time that passed.
func (w *clockWatch) look(wall, passed time.Duration) {
	by := wall - passed - w.strayed
	w.strayed = wall - passed // slow corrections must not add up to a jump
	if by.Abs() >= clockSlack {
		w.jumped(by, "clock was set while the gateway runs, or the machine slept")
	}
}

func (w *clockWatch) jumped(by time.Duration, what string) {
	direction := "forward"
	if by < 0 {
		direction = "back"
	}
	w.jumps.WithLabelValues(direction).Inc()
	w.log.Warn(what, "event", "clock.jumped", "by", by.Round(time.Millisecond).String())
}
