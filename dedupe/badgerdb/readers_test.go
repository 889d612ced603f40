package badgerdb_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/dedupe/badgerdb"
)

// slowly is a taker of a backup that takes its time.
type slowly struct{}

func (slowly) Write(p []byte) (int, error) {
	time.Sleep(time.Millisecond)
	return len(p), nil
}

// A ledger that is closed while it is read ends the reads, waits for them, and
// never lets them read files that are unmapped, which would end the process.
func TestCloseWhileRead(t *testing.T) {
	cfg := small(t.TempDir(), time.Now)
	for round := range 4 {
		db, err := badgerdb.Open(cfg)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ran := make(chan error, 1)
		go func() { ran <- db.Run(ctx) }()
		<-db.Rebuilt()
		body := string(bytes.Repeat([]byte("x"), 4000))
		for i := range 40 {
			var reqs []*dedupe.Request
			for j := range 100 {
				reqs = append(reqs, request("s", fmt.Sprint("evt_", round, "_", i, "_", j), body, "t"))
			}
			if err := db.Commit(t.Context(), &dedupe.Batch{Requests: reqs}); err != nil {
				t.Fatal(err)
			}
		}
		begun, readers := make(chan struct{}, 6), sync.WaitGroup{}
		read := func(what string, f func() error) {
			readers.Go(func() {
				begun <- struct{}{}
				for {
					err := f()
					if errors.Is(err, dedupe.ErrClosed) {
						return
					}
					if err != nil {
						t.Errorf("%s of a ledger that is closed meanwhile: %v", what, err)
						return
					}
				}
			})
		}
		read("backup", func() error { return db.Backup(t.Context(), slowly{}) })
		read("backup", func() error { return db.Backup(t.Context(), io.Discard) })
		read("list", func() error { _, err := db.Events(t.Context(), dedupe.Filter{ID: "none"}, "", 50); return err })
		read("list", func() error { _, err := db.Events(t.Context(), dedupe.Filter{Type: "none"}, "", 50); return err })
		read("check", func() error { _, err := db.Check(t.Context()); return err })
		read("dry run", func() error {
			_, err := db.Replay(t.Context(), dedupe.Replay{DryRun: true})
			return err
		})
		for range cap(begun) {
			<-begun
		}
		time.Sleep(time.Duration(50+50*round) * time.Millisecond)
		cancel()
		if err := <-ran; err != nil {
			t.Error(err)
		}
		at := time.Now()
		if err := db.Close(); err != nil {
			t.Error(err)
		}
		if took := time.Since(at); took > 20*time.Second {
			t.Errorf("closing took %v: it waited for reads to reach their end", took)
		}
		readers.Wait()
	}
}

// Intake does not wait for what only counts.
func TestDryRunTakesNoLock(t *testing.T) {
	db := start(t, small(t.TempDir(), time.Now))
	accept(t, db, request("s", "evt_1", "{}", "t"))
	var n dedupe.ReplayCount
	err := db.WithLock(func() (err error) {
		done := make(chan struct{})
		go func() {
			n, err = db.Replay(t.Context(), dedupe.Replay{DryRun: true})
			close(done)
		}()
		select {
		case <-done:
			return err
		case <-time.After(20 * time.Second):
			return errors.New("a dry run waits for the writer")
		}
	})
	if err != nil || n.Open != 1 {
		t.Errorf("a dry run while the ledger is written: %+v, %v", n, err)
	}
}
