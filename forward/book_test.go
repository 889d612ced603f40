package forward

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/onceward/onceward/dedupe"
)

// fullNotes takes no note, as a ledger without room doesn't.
type fullNotes struct {
	dedupe.Notebook
	tries atomic.Int64
}

func (n *fullNotes) PutNote(context.Context, dedupe.Note) (dedupe.Note, error) {
	n.tries.Add(1)
	return dedupe.Note{}, dedupe.ErrOverloaded
}

func (n *fullNotes) Notes(context.Context, string) ([]dedupe.Note, error) { return nil, nil }

// A breaker that can't be kept is tried again a second later and at each look,
// not at once for ever.
func TestBookWaitsForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		notes := &fullNotes{}
		b := newBook(notes, false, slog.New(slog.DiscardHandler))
		gauge := func() prometheus.Gauge { return prometheus.NewGauge(prometheus.GaugeOpts{Name: "g"}) }
		g := newGate(gauge(), gauge())
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		ran := make(chan struct{})
		go func() {
			defer close(ran)
			b.run(ctx, func(string) *gate { return g })
		}()
		b.save("t", g)
		<-ran
		if n := notes.tries.Load(); n < 3 || n > 60 {
			t.Errorf("tried %d times in a minute, want every few seconds", n)
		}
	})
}
