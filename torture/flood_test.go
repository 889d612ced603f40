package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"
)

// stubborn answers 503 to every third request and 200 to the others.
func stubborn(t *testing.T) (base string, taken *atomic.Int64) {
	t.Helper()
	var n atomic.Int64
	taken = &atomic.Int64{}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if n.Add(1)%3 == 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		taken.Add(1)
		fmt.Fprint(w, `{"ref":"R"}`)
	}))
	t.Cleanup(srv.Close)
	return srv.URL, taken
}

// TestFlood holds that every gateway acknowledges every event, each gateway in
// an order of its own, and that most neighbours come close to each other.
func TestFlood(t *testing.T) {
	t.Parallel()
	const events = 300
	s := NewSender(SenderConfig{Sources: Sources(), Seed: 5, Run: "flood", Clock: NewClock()})
	f := NewFlood(s, events)
	a, takenA := stubborn(t)
	b, takenB := stubborn(t)
	f.Start(t.Context(), []string{a, b})
	if !f.Wait() || takenA.Load() != events || takenB.Load() != events {
		t.Errorf("%d and %d of %d events taken", takenA.Load(), takenB.Load(), events)
	}
	at, same, near := map[string]int{}, 0, 0
	for i, m := range f.order(events, 0) {
		at[m.ID()] = i
	}
	for i, m := range f.order(events, 1) {
		j, known := at[m.ID()]
		if !known {
			t.Fatalf("%s is not sent to both", m.ID())
		}
		if i == j {
			same++
		}
		if max(i-j, j-i) < 60 {
			near++
		}
	}
	if len(at) != events || same > events/4 || near < events/3 {
		t.Errorf("%d events, %d in the same place, %d near each other", len(at), same, near)
	}
}

// TestFloodBusy holds that a flood knows which gateways still get something: one
// that has acknowledged everything gets no more requests, while another refuses
// every one.
func TestFloodBusy(t *testing.T) {
	t.Parallel()
	a, _ := stubborn(t)
	closed := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }))
	t.Cleanup(closed.Close)
	f := NewFlood(NewSender(SenderConfig{Sources: Sources(), Seed: 7, Run: "busy", Clock: NewClock()}), 30)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	f.Start(ctx, []string{a, closed.URL})
	if err := poll(ctx, 5*time.Millisecond, func() (bool, error) { return !f.Busy(a), nil }); err != nil {
		t.Errorf("all is acknowledged, and the gateway is busy: %v", err)
	}
	if !f.Busy(closed.URL) {
		t.Error("nothing is acknowledged, and the gateway is not busy")
	}
	cancel()
	if f.Wait() {
		t.Error("a flood that was refused says that all was acknowledged")
	}
}

// TestStream holds that every event of a stream is acknowledged, over answers
// that put it off.
func TestStream(t *testing.T) {
	t.Parallel()
	s := NewSender(SenderConfig{Sources: Sources(), Seed: 6, Run: "stream", Clock: NewClock()})
	a, _ := stubborn(t)
	b, _ := stubborn(t)
	stream := NewStream(s, []string{a, b})
	stream.Steady(t.Context(), 200*time.Millisecond, 100)
	sent, err := s.Sent()
	if err != nil {
		t.Fatal(err)
	}
	acked, refused := map[string]bool{}, 0
	for _, rec := range sent {
		if rec.Status == http.StatusOK {
			acked[rec.ID] = true
		} else {
			refused++
		}
	}
	if n := int(stream.next.Load()); n == 0 || len(acked) != n || refused == 0 {
		t.Errorf("%d events sent, %d acknowledged, %d refusals", n, len(acked), refused)
	}
}
