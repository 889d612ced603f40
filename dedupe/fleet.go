package dedupe

import (
	"context"
	"time"
)

// Peer is one process of those that share a ledger.
type Peer struct {
	Name   string
	Writer uint64 // of its account
	// Epoch counts the processes that have had the name. Two of one name are
	// two peers, until the earlier is dead.
	Epoch int64
	Since time.Time // ledger time of its first beat
	// Age is how long ago its last beat was, by the ledger's clock.
	Age time.Duration
	// Share is the part of every rate that it says it may use, from 0 to 1. It
	// never uses more than what stands here.
	Share   float64
	Config  string // hash of its configuration, "" when not known
	Version string // of its program
	Own     bool   // this process
}

// Dead reports whether the peer counts no more: by then it has stopped sending.
func (p *Peer) Dead() bool { return p.Age >= DeadAfter }

// Beat is what a gateway says of itself.
type Beat struct {
	Share           float64
	Config, Version string
}

// Fleet is what a ledger that several gateways share offers beside the
// contract. An engine without it serves one gateway alone.
type Fleet interface {
	// Beat makes b what the others see of this gateway, and only when that can be
	// read by all of them reads who is there, dead ones of the last day
	// included: so of two that beat, the later sees the earlier. It is an error
	// once another process has this gateway's name.
	Beat(ctx context.Context, b Beat) ([]Peer, error)
	// Leave takes this gateway out.
	Leave(ctx context.Context) error
}
