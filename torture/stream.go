package main

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// Stream sends new events to the gateways of a fleet by turns, each until one
// acknowledges it, as a provider does: with pauses that grow, to the next
// gateway each time. One in ten is sent once more to another afterwards.
type Stream struct {
	sender *Sender
	bases  []string
	next   atomic.Int64 // number of the next event
	acked  atomic.Int64
}

// NewStream makes a stream that sends nothing yet.
func NewStream(s *Sender, bases []string) *Stream { return &Stream{sender: s, bases: bases} }

// Full sends as much as the gateways take from so many workers for a time, and
// returns when all of it is acknowledged or ctx is done.
func (s *Stream) Full(ctx context.Context, length time.Duration, workers int) {
	end := time.Now().Add(length)
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for ctx.Err() == nil && time.Now().Before(end) {
				s.one(ctx)
			}
		})
	}
	wg.Wait()
}

// Steady sends that many new events a second for a time, however long answers
// take, and returns when all are acknowledged or ctx is done.
func (s *Stream) Steady(ctx context.Context, length time.Duration, rate float64) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	var wg sync.WaitGroup
	defer wg.Wait()
	begin, sent := time.Now(), 0
	for ctx.Err() == nil && time.Since(begin) < length {
		for ; float64(sent) < time.Since(begin).Seconds()*rate; sent++ {
			wg.Go(func() { s.one(ctx) })
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// one sends the next event.
func (s *Stream) one(ctx context.Context) {
	cfg := &s.sender.cfg
	n := int(s.next.Add(1)) - 1
	r := rand.New(rand.NewPCG(cfg.Seed, uint64(n)))
	m := Message{Source: &cfg.Sources[n%len(cfg.Sources)], Run: cfg.Run, Number: n / len(cfg.Sources)}
	at := s.through(ctx, m, r, n)
	if ctx.Err() != nil {
		return
	}
	s.acked.Add(1)
	if r.IntN(10) == 0 {
		s.through(ctx, m, r, at+1)
	}
}

// through returns the number of the try that was acknowledged, or that was
// answered as none may be, which the verdict names; any when ctx is done.
func (s *Stream) through(ctx context.Context, m Message, r *rand.Rand, at int) int {
	wait := 500 * time.Millisecond
	for ; ctx.Err() == nil; at++ {
		rec := s.sender.Send(s.bases[at%len(s.bases)], m)
		if rec.Status != 0 && rec.Status != 503 {
			return at
		}
		_ = Wait(ctx, wait/2+time.Duration(r.Int64N(int64(wait))))
		wait = min(2*wait, 4*time.Second)
	}
	return at
}
