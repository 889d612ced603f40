package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/onceward/onceward/dedupe"
)

// TestPlansYoung holds that what a connection does again and again goes by indexes
// on a ledger that was empty a moment ago: the server keeps the plans that it made
// of small tables, until it analyses those.
func TestPlansYoung(t *testing.T) {
	cfg := fresh(t, server(t), options())
	log := logOf(t, cfg)
	cfg.MaxConns = 1
	cfg.URL += fmt.Sprintf(explained, "")
	l := &large{t: t, running: quiet(t, cfg), log: log}
	defer l.running.Close()
	n := 0
	accept := func(l *large) error {
		b := &dedupe.Batch{}
		for range 20 {
			n++
			b.Requests = append(b.Requests, request(fmt.Sprint("young_", n)), request(fmt.Sprint("young_", n/2)))
		}
		return l.Commit(t.Context(), b)
	}
	for range 20 { // a server takes one plan for all from the sixth time on
		if err := accept(l); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range l.faults(hot{"accept, and repeats", 200, 8, accept}) {
		t.Error(f)
	}
	lease := func(l *large) error {
		ls, _, err := l.Lease(t.Context(), "billing", 5, time.Minute)
		if err == nil && len(ls) != 5 {
			err = fmt.Errorf("%d leases", len(ls))
		}
		return err
	}
	for range 20 {
		if err := lease(l); err != nil {
			t.Fatal(err)
		}
	}
	// Of what is not due it may read what is leased, for when the next is.
	for _, f := range l.faults(hot{"lease", 150, 2, lease}) {
		t.Error(f)
	}
}
