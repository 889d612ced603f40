package forward

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/dedupe/ledgertest"
)

// line is a gateway's way to its fleet, which can be cut.
type line struct {
	seat *ledgertest.FleetSeat
	// mu guards all below.
	mu     sync.Mutex
	cut    bool // nothing gets through
	mute   bool // beats get through, their answers don't
	killed bool
	slow   func() time.Duration
}

func (l *line) Beat(ctx context.Context, b dedupe.Beat) ([]dedupe.Peer, error) {
	wait := func() error {
		l.mu.Lock()
		d := l.slow()
		l.mu.Unlock()
		select {
		case <-time.After(d):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if err := wait(); err != nil {
		return nil, err
	}
	l.mu.Lock()
	cut, mute := l.cut, l.mute
	l.mu.Unlock()
	if cut {
		return nil, errors.New("no route to the database")
	}
	peers, err := l.seat.Beat(ctx, b)
	if werr := wait(); werr != nil {
		return nil, werr
	}
	if mute {
		return nil, errors.New("connection reset")
	}
	return peers, err
}

func (l *line) Leave(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.killed || l.cut {
		return errors.New("no route to the database")
	}
	return l.seat.Leave(ctx)
}

// sharer is a dedupe.Member, or what a control has in its place.
type sharer interface {
	Fleet
	Run(ctx context.Context) error
}

// hasty divides by whom it sees, with nothing between seeing and sending. With
// stale it goes by what it saw last, however long ago that was.
type hasty struct {
	*line
	stale bool

	mu     sync.Mutex // guards the rest
	share  dedupe.Share
	turned chan struct{}
}

func (h *hasty) Share() (dedupe.Share, <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.share, h.turned
}

func (h *hasty) Run(ctx context.Context) error {
	for ; ctx.Err() == nil; time.Sleep(dedupe.BeatEvery) {
		sent := time.Now()
		peers, err := h.Beat(ctx, dedupe.Beat{})
		if err != nil {
			continue
		}
		alive := 0
		for i := range peers {
			if !peers[i].Dead() {
				alive++
			}
		}
		h.mu.Lock()
		h.share = dedupe.Share{Part: 1 / float64(alive), Until: sent.Add(5 * time.Second)}
		if h.stale {
			h.share.Until = sent.Add(time.Hour)
		}
		close(h.turned)
		h.turned = make(chan struct{})
		h.mu.Unlock()
	}
	return nil
}

// sim is a fleet whose gateways do nothing but begin attempts, as fast as their
// gates let them.
type sim struct {
	fleet *ledgertest.Fleet
	rate  Rate
	rand  *rand.Rand
	make  func(*line) sharer
	wait  sync.WaitGroup
	at    []*simGateway
	names int

	mu    sync.Mutex // guards the rest
	began []begun
}

type begun struct {
	at time.Time
	by int
}

type simGateway struct {
	line               *line
	name               string
	endSends, endBeats context.CancelFunc
	sends, beats       sync.WaitGroup
}

// join starts a gateway, under a name that another one may still have.
func (s *sim) join(name string) {
	sending, endSends := context.WithCancel(context.Background())
	beating, endBeats := context.WithCancel(context.Background())
	seed := s.rand.Uint64()
	lag := rand.New(rand.NewPCG(seed, 1))
	l := &line{seat: s.fleet.Join(name), slow: func() time.Duration {
		if lag.IntN(10) == 0 {
			return time.Duration(lag.Int64N(int64(3 * time.Second)))
		}
		return time.Duration(lag.Int64N(int64(50 * time.Millisecond)))
	}}
	gw := &simGateway{line: l, name: name, endSends: endSends, endBeats: endBeats}
	m := s.make(l)
	g := newGate(prometheus.NewGauge(prometheus.GaugeOpts{}), prometheus.NewGauge(prometheus.GaugeOpts{}))
	g.divide(dedupe.Share{Until: time.Now()})
	t := &Target{Rate: s.rate}
	t.Rate.fill()
	t.Breaker.fill()
	g.configure(t, moment{time.Now(), time.Now()})
	gw.beats.Go(func() { _ = m.Run(beating) })
	gw.sends.Go(func() {
		for sending.Err() == nil {
			share, changed := m.Share()
			g.divide(share)
			select {
			case <-changed:
			case <-sending.Done():
			}
		}
	})
	me := s.names
	s.names++
	gw.sends.Go(func() { s.send(sending, g, me, rand.New(rand.NewPCG(seed, 2))) })
	s.at = append(s.at, gw)
}

// send leases and attempts, with a pause between the two now and then.
func (s *sim) send(ctx context.Context, g *gate, me int, r *rand.Rand) {
	for ctx.Err() == nil {
		p := g.ask(1+r.IntN(5), time.Now())
		if p.n == 0 {
			select {
			case <-p.turned:
			case <-time.After(p.wait):
			case <-ctx.Done():
			}
			continue
		}
		if r.IntN(4) == 0 {
			time.Sleep(time.Duration(r.Int64N(int64(20 * time.Millisecond))))
		}
		g.settle(p, p.n)
		for range p.n {
			if g.admit(0) {
				s.mu.Lock()
				s.began = append(s.began, begun{time.Now(), me})
				s.mu.Unlock()
				g.done(0)
			}
		}
	}
}

// end takes a gateway out: killed, or as one that stops.
func (s *sim) end(i int, kill bool) {
	g := s.at[i]
	s.at = slices.Delete(s.at, i, i+1)
	g.line.mu.Lock()
	g.line.killed = kill
	g.line.mu.Unlock()
	g.endSends()
	s.wait.Go(func() {
		g.sends.Wait()
		g.endBeats()
		g.beats.Wait()
	})
}

// chaos is one thing that happens to the fleet.
func (s *sim) chaos() {
	i := s.rand.IntN(len(s.at))
	switch s.rand.IntN(6) {
	case 0, 1:
		if len(s.at) < 6 {
			s.join(fmt.Sprint("gateway-", s.names))
		}
	case 2:
		if len(s.at) > 1 {
			s.end(i, s.rand.IntN(2) == 0)
		}
	case 3: // restarted after a kill, or taken over while it goes on
		name := s.at[i].name
		if s.rand.IntN(2) == 0 {
			s.end(i, true)
		}
		if len(s.at) < 7 {
			s.join(name)
		}
	default:
		l := s.at[i].line
		l.mu.Lock()
		l.cut, l.mute = s.rand.IntN(2) == 0, s.rand.IntN(2) == 0
		l.mu.Unlock()
		after := time.Duration(s.rand.Int64N(int64(20 * time.Second)))
		s.wait.Go(func() {
			time.Sleep(after)
			l.mu.Lock()
			l.cut, l.mute = false, false
			l.mu.Unlock()
		})
	}
}

// run is one history. excess is by how much, at worst, ten seconds held more
// than the rate allows and one attempt for each gateway that sent in them; rest
// is the part of the rate that was used in the last minute, when all was quiet.
func (s *sim) run(seed uint64) (excess, rest float64) {
	s.fleet, s.rand = ledgertest.NewFleet(), rand.New(rand.NewPCG(seed, seed))
	start := time.Now()
	s.join("gateway-0")
	for time.Since(start) < 3*time.Minute {
		time.Sleep(time.Duration(s.rand.Int64N(int64(6 * time.Second))))
		s.chaos()
	}
	time.Sleep(2 * time.Minute)
	end := time.Now()
	for len(s.at) > 0 {
		s.end(0, false)
	}
	synctest.Wait()
	s.wait.Wait()
	excess = -s.rate.perSecond() * 10
	for i, j := 0, 0; i < len(s.began); i++ {
		for j < len(s.began) && s.began[j].at.Sub(s.began[i].at) < 10*time.Second {
			j++
		}
		by := map[int]bool{}
		for _, b := range s.began[i:j] {
			by[b.by] = true
		}
		excess = max(excess, float64(j-i)-10*s.rate.perSecond()-float64(len(by)*s.rate.Burst))
		if end.Sub(s.began[i].at) <= time.Minute {
			rest++
		}
	}
	return excess, rest / (60 * s.rate.perSecond())
}

// TestFleetRate holds that gateways which come, go, die, are cut off from the
// database and take each other's names never begin more attempts together than
// a target's rate allows, and that all of it is used when they are left alone.
func TestFleetRate(t *testing.T) {
	t.Parallel()
	seeds := uint64(24)
	if testing.Short() {
		seeds = 8
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &sim{rate: Rate{Count: 10, Per: time.Second, Burst: 1}, make: func(l *line) sharer { return dedupe.NewMember(l, "test", nil) }}
				excess, rest := s.run(seed)
				if excess > 0 {
					t.Errorf("ten seconds held %.0f attempts more than allowed", excess)
				}
				if rest < 0.9 || rest > 1.02 {
					t.Errorf("%.2f of the rate was used when all was quiet", rest)
				}
			})
		})
	}
}

// TestFleetRateControl is the same with gateways that send as soon as they have
// seen the others, and with ones that go on by what they saw last.
func TestFleetRateControl(t *testing.T) {
	t.Parallel()
	for _, stale := range []bool{false, true} {
		t.Run(fmt.Sprint("stale ", stale), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				worst := 0.0
				for seed := range uint64(4) {
					s := &sim{rate: Rate{Count: 10, Per: time.Second, Burst: 1}, make: func(l *line) sharer {
						return &hasty{line: l, stale: stale, turned: make(chan struct{})}
					}}
					excess, _ := s.run(seed)
					worst = max(worst, excess)
				}
				if worst <= 0 {
					t.Error("the rate was kept: the test can't see it")
				}
			})
		})
	}
}
