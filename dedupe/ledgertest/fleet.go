package ledgertest

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/onceward/onceward/dedupe"
)

// Fleet is the model of a fleet: one place that several gateways beat at.
type Fleet struct {
	mu    sync.Mutex // guards all below
	epoch map[string]int64
	peers []dedupe.Peer // Age is unset
	beats []time.Time   // by peer
}

// NewFleet makes one that is empty.
func NewFleet() *Fleet { return &Fleet{epoch: map[string]int64{}} }

// Join takes a name over from whoever had it.
func (f *Fleet) Join(name string) *FleetSeat {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.epoch[name]++
	return &FleetSeat{fleet: f, name: name, epoch: f.epoch[name]}
}

// FleetSeat is one process's side of a Fleet.
type FleetSeat struct {
	fleet *Fleet
	name  string
	epoch int64
}

var _ dedupe.Fleet = (*FleetSeat)(nil)

// Beat is dedupe.Fleet's.
func (s *FleetSeat) Beat(_ context.Context, b dedupe.Beat) ([]dedupe.Peer, error) {
	f := s.fleet
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.epoch[s.name] != s.epoch {
		return nil, errors.New("another process has taken this gateway's name")
	}
	now := time.Now()
	i := s.find()
	if i < 0 {
		i = len(f.peers)
		f.peers, f.beats = append(f.peers, dedupe.Peer{Name: s.name, Epoch: s.epoch, Since: now}), append(f.beats, now)
	}
	f.peers[i].Share, f.peers[i].Config, f.peers[i].Version, f.beats[i] = b.Share, b.Config, b.Version, now
	var out []dedupe.Peer
	for i, p := range f.peers {
		if p.Age = now.Sub(f.beats[i]); p.Age >= 24*time.Hour {
			continue
		}
		p.Own = p.Name == s.name && p.Epoch == s.epoch
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b dedupe.Peer) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Epoch, b.Epoch)) })
	return out, nil
}

// Leave is dedupe.Fleet's.
func (s *FleetSeat) Leave(context.Context) error {
	f := s.fleet
	f.mu.Lock()
	defer f.mu.Unlock()
	if i := s.find(); i >= 0 {
		f.peers, f.beats = slices.Delete(f.peers, i, i+1), slices.Delete(f.beats, i, i+1)
	}
	return nil
}

// find is the index of its row, -1 for none. The fleet's mu is held.
func (s *FleetSeat) find() int {
	return slices.IndexFunc(s.fleet.peers, func(p dedupe.Peer) bool { return p.Name == s.name && p.Epoch == s.epoch })
}
