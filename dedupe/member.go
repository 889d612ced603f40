package dedupe

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"
)

const (
	// BeatEvery is how often a gateway says that it is there.
	BeatEvery = 2 * time.Second
	// DeadAfter is after how long without a beat a gateway is dead to others.
	DeadAfter = 3 * BeatEvery
	// grantFor is for how long, after a beat was sent, its answer is good. It is
	// less than DeadAfter, so that a gateway cut off from the ledger has stopped
	// before another one takes what it had.
	grantFor = DeadAfter - BeatEvery/2
	// beatWithin bounds one beat.
	beatWithin = BeatEvery
)

// Share is a gateway's part of every rate.
type Share struct {
	Part  float64   // from 0 to 1
	Until time.Time // by the process's own clock: nothing is this gateway's from then on
}

// Member is a gateway's place in its fleet: it beats, knows who else is there,
// and says which part of every rate is this gateway's. At no moment do the
// parts of a fleet add up to more than one:
//
//   - What a gateway may use it has published before, and has then seen that
//     what all publish is no more than one. Of two that publish at once the
//     later sees both.
//   - A part is cut in use before it is cut in what is published, and raised in
//     what is published an interval before it is raised in use: so a newcomer
//     sends nothing for an interval.
//   - Without an answer from the ledger a part ends before the others take the
//     gateway for dead.
//
// Its methods are safe for concurrent use.
type Member struct {
	fleet   Fleet
	version string
	log     *slog.Logger

	// mu guards all below; held for bookkeeping only.
	mu        sync.Mutex
	config    string
	published float64
	share     Share
	peers     []Peer
	seen      time.Time     // when peers were read
	turned    chan struct{} // closed, and made anew, when the share has changed
}

// NewMember makes a member and starts nothing: its part is none.
func NewMember(f Fleet, version string, log *slog.Logger) *Member {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Member{fleet: f, version: version, log: log.With("component", "fleet"), turned: make(chan struct{})}
}

// Configure sets the hash of the configuration that the next beat tells.
func (m *Member) Configure(hash string) {
	m.mu.Lock()
	m.config = hash
	m.mu.Unlock()
}

// Share is this gateway's part of every rate, and a channel that is closed when
// there is another. A part whose Until has come is none.
func (m *Member) Share() (Share, <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.share, m.turned
}

// Peers are the gateways of the fleet, by name, as last read, and how long ago
// that was; none before the first beat.
func (m *Member) Peers() ([]Peer, time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.peers), time.Since(m.seen)
}

// Run beats until ctx ends, then leaves the fleet: nothing may be sent by then.
func (m *Member) Run(ctx context.Context) error {
	tick := time.NewTicker(BeatEvery)
	defer tick.Stop()
	for failed := false; ; {
		again, err := m.beat(ctx)
		switch {
		case ctx.Err() != nil:
			return m.leave()
		case err != nil && !failed:
			m.log.Warn("no beat to the fleet: rates stop without one", "error", err)
		case err == nil && failed:
			m.log.Info("beats to the fleet again")
		}
		failed = err != nil
		if again {
			continue
		}
		select {
		case <-ctx.Done():
			return m.leave()
		case <-tick.C:
		}
	}
}

func (m *Member) leave() error {
	m.mu.Lock()
	m.turn(Share{})
	m.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), beatWithin)
	defer cancel()
	if err := m.fleet.Leave(ctx); err != nil {
		m.log.Warn("leave the fleet: the others wait until this gateway is dead", "error", err)
	}
	return nil
}

// turn puts a share into effect. m.mu is held.
func (m *Member) turn(s Share) {
	changed := s != m.share
	m.share = s
	if changed {
		close(m.turned)
		m.turned = make(chan struct{})
	}
}

// beat beats once. again says that the next one is not to wait.
func (m *Member) beat(ctx context.Context) (again bool, err error) {
	m.mu.Lock()
	b := Beat{Share: m.published, Config: m.config, Version: m.version}
	m.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, beatWithin)
	defer cancel()
	sent := time.Now()
	peers, err := m.fleet.Beat(ctx, b)
	if err != nil {
		return false, err
	}
	now := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	used := m.share.Part
	if !now.Before(m.share.Until) {
		used = 0 // the others may have taken it meanwhile
	}
	use, publish, again := divide(b.Share, used, peers)
	m.peers, m.seen, m.published = peers, now, publish
	m.turn(Share{Part: use, Until: sent.Add(grantFor)})
	return again, nil
}

// divide says, of a beat that published a part while used was in use, what may
// be used from now on and what to publish next, and whether that should be at
// once: to give the others room, or because nobody else is there.
func divide(published, used float64, peers []Peer) (use, publish float64, again bool) {
	const rounding = 1e-9
	alive, sum, alone := 0, published, true
	for i := range peers {
		p := &peers[i]
		if !p.Own {
			alone = false
		}
		if p.Dead() && !p.Own {
			continue
		}
		alive++
		if !p.Own {
			sum += p.Share
		}
	}
	want := 1 / float64(max(alive, 1))
	use = min(used, want)
	if sum <= 1+rounding {
		use = min(published, want)
	}
	return use, want, want < published || alone && want > published
}
