package badgerdb_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

// With next to no space left nothing is written and nobody is held up: a request
// is told so, a result waits in the queue, and a stop ends both.
func TestNoRoomEndsWithTheWriter(t *testing.T) {
	t.Parallel()
	cfg := small(t.TempDir(), time.Now)
	db := start(t, cfg)
	r := request("s", "1", "b", "t")
	accept(t, db, r)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	cfg.Reserve = 1 << 60
	db = start(t, cfg)
	ls, _, err := db.Lease(t.Context(), "t", 1, time.Minute)
	if err != nil || len(ls) != 1 {
		t.Fatalf("lease: %v %v", ls, err)
	}
	w, err := dedupe.NewWriter(dedupe.WriterConfig{Ledger: db})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- w.Run(ctx) }()
	finished := make(chan error, 1)
	go func() {
		finished <- w.Finish(context.WithoutCancel(ctx), &dedupe.Result{Lease: ls[0], State: event.Delivered,
			Attempt: event.Attempt{Event: r.Outcomes[0].Ref, Target: "t", Number: 1, Status: 200, Outcome: event.Outcome2xx, StartedAt: time.Now()}})
	}()
	soon, enough := context.WithTimeout(t.Context(), 20*time.Second)
	defer enough()
	for range 3 { // each is answered, whatever waits beside it
		refused := request("s", "2", "b", "t")
		if err := w.Accept(soon, refused); !errors.Is(err, dedupe.ErrDiskLow) || refused.Outcomes != nil {
			t.Fatalf("request: %v %v, want ErrDiskLow", refused.Outcomes, err)
		}
	}
	select {
	case err := <-finished:
		t.Fatalf("a result did not wait for room: %v", err)
	default:
	}
	stop()
	select {
	case err := <-ran:
		if err != nil {
			t.Errorf("stop: %v", err)
		}
	case <-soon.Done():
		t.Fatal("the writer does not stop")
	}
	if err := <-finished; !errors.Is(err, dedupe.ErrDiskLow) || !errors.Is(err, dedupe.ErrOverloaded) {
		t.Errorf("result at the stop: %v, want ErrDiskLow and ErrOverloaded", err)
	}
	if rec, err := db.Get(t.Context(), r.Outcomes[0].Ref); err != nil || rec.Status != event.StatusPending {
		t.Errorf("the event is %v, %v, want it pending", rec.Status, err)
	}
}
