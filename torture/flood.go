package main

import (
	"context"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// doorWorkers is how many requests a gateway of a fleet gets at once.
const doorWorkers = 8

// Flood sends the same events to every gateway of a fleet, to each in an order
// of its own and until it is acknowledged there: half of them at about the
// same time everywhere, half at any. Some come with another body at one of the
// gateways.
type Flood struct {
	sender *Sender
	total  int64
	acked  atomic.Int64
	left   map[string]*atomic.Int64 // by address, what is still to be sent there
	wg     sync.WaitGroup
}

// NewFlood makes a flood of events that sends nothing yet.
func NewFlood(s *Sender, events int) *Flood {
	return &Flood{sender: s, total: int64(events), left: map[string]*atomic.Int64{}}
}

// Start starts sending to gateways at these addresses. It ends when ctx does,
// or when everything is acknowledged everywhere; Wait waits for that.
func (f *Flood) Start(ctx context.Context, bases []string) {
	events := int(f.total)
	f.total *= int64(len(bases))
	for g, base := range bases {
		todo, left := make(chan Message), new(atomic.Int64)
		left.Store(int64(events))
		f.left[base] = left
		f.wg.Go(func() {
			defer close(todo)
			for _, m := range f.order(events, uint64(g)) {
				select {
				case todo <- m:
				case <-ctx.Done():
					return
				}
			}
		})
		for range doorWorkers {
			f.wg.Go(func() {
				for m := range todo {
					if f.through(ctx, base, m) {
						f.acked.Add(1)
					}
					left.Add(-1)
				}
			})
		}
	}
}

// order is what one gateway gets.
func (f *Flood) order(events int, gateway uint64) []Message {
	type placed struct {
		at int
		m  Message
	}
	cfg := &f.sender.cfg
	r := rand.New(rand.NewPCG(cfg.Seed, 500+gateway))
	all := make([]placed, events)
	for i := range all {
		src := &cfg.Sources[i%len(cfg.Sources)]
		all[i] = placed{at: i + r.IntN(4*doorWorkers), m: Message{Source: src, Run: cfg.Run, Number: i / len(cfg.Sources)}}
		if i/64%2 == 1 {
			all[i].at = r.IntN(events)
		}
		if r.IntN(40) == 0 {
			all[i].m.Variant = 1
		}
	}
	slices.SortStableFunc(all, func(a, b placed) int { return a.at - b.at })
	out := make([]Message, events)
	for i, p := range all {
		out[i] = p.m
	}
	return out
}

// through sends an event until it is acknowledged, as a provider does that
// does not wait long.
func (f *Flood) through(ctx context.Context, base string, m Message) bool {
	for ctx.Err() == nil {
		rec := f.sender.Send(base, m)
		switch {
		case rec.Status/100 == 2:
			return true
		case rec.Status != 0 && rec.Status != http.StatusServiceUnavailable:
			return false // the verdict names it
		}
		_ = Wait(ctx, 50*time.Millisecond)
	}
	return false
}

// Reach returns when that part of all there is has been acknowledged.
func (f *Flood) Reach(ctx context.Context, part float64) error {
	return poll(ctx, 5*time.Millisecond, func() (bool, error) { return float64(f.acked.Load()) >= part*float64(f.total), nil })
}

// Busy reports whether something is still sent to the gateway at that address.
// Start must have returned.
func (f *Flood) Busy(base string) bool { return f.left[base].Load() > 0 }

// Wait returns when everything is acknowledged or the flood's context is done,
// and says whether it all was.
func (f *Flood) Wait() bool {
	f.wg.Wait()
	f.sender.client.CloseIdleConnections()
	return f.acked.Load() == f.total
}
