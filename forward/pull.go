package forward

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

// The bounds of pulling.
const (
	DefaultPullLeases = 1000 // Concurrency of a pulled target
	DefaultPullLease  = 30 * time.Second
	MinPullLease      = time.Second
	MaxPullLease      = time.Hour
	MaxPullBatch      = 100
	maxPullReason     = 200 // bytes of why a delivery was given back
)

// What a pulling service may be answered.
var (
	ErrNotPulled = errors.New("target is not pulled")
	ErrLeaseLost = errors.New("lease is not held: it ran out, was settled, or the gateway was started anew")
	ErrStopping  = errors.New("gateway is starting or stopping")
)

// Pulled is one delivery that a service has fetched, under a lease. It is
// settled by the lease's token, or comes again when the lease runs out.
type Pulled struct {
	Lease    string    // the token; nobody can guess it
	Until    time.Time // wall clock at which the lease runs out
	Delivery event.Delivery
	Event    *event.Event // read-only
	Method   string
	Header   http.Header // as a request would have it
	Body     []byte      // read-only; the event's exact bytes
}

// pulls holds the leases of services that fetch their deliveries. Each lease
// is one attempt: begun when it is given out, ended by Ack, by Nack, or when it
// runs out. They are in memory: after a restart every delivery that was out is
// pending, as after a cut attempt, and its old token means nothing.
type pulls struct {
	f *Forwarder

	// mu guards all below; held for bookkeeping only.
	mu      sync.Mutex
	held    map[string]*pulled
	out     map[string]int           // leases that are out, by target
	turned  map[string]chan struct{} // closed when a target may have something for those who wait
	changed chan struct{}            // holds a value when a lease may end sooner than the reaper thinks
	ended   bool                     // nothing is given out any more
}

type pulled struct {
	q     *queue // of the configuration under which it was given out
	lease dedupe.Lease
	ev    *event.Event
	start time.Time // wall clock
	until time.Time // ledger time
	done  func()
}

func newPulls(f *Forwarder) *pulls {
	return &pulls{f: f, held: map[string]*pulled{}, out: map[string]int{}, turned: map[string]chan struct{}{}, changed: make(chan struct{}, 1)}
}

// Pull leases up to n due deliveries of a pulled target for ttl, of ones with
// large bodies fewer. While there is none it waits, for wait at most, and then
// returns none. Errors are dedupe.ErrNotFound, ErrNotPulled, ErrStopping, and
// those of the ledger.
func (f *Forwarder) Pull(ctx context.Context, target string, n int, ttl, wait time.Duration) ([]Pulled, error) {
	q, err := f.pulls.queueOf(target)
	if err != nil {
		return nil, err
	}
	limit := time.NewTimer(wait)
	defer limit.Stop()
	for {
		turned := f.pulls.turn(target)
		got, next, gate, err := f.pulls.lease(ctx, q, min(n, MaxPullBatch), ttl)
		if err != nil || len(got) > 0 {
			return got, err
		}
		again := time.NewTimer(next)
		select {
		case <-q.ledger.Wake(target):
			f.pulls.wake(target) // the hint is for one, the news for all who wait
		case <-turned:
		case <-gate:
		case <-again.C:
		case <-limit.C:
			again.Stop()
			return nil, nil
		case <-ctx.Done():
			again.Stop()
			return nil, ctx.Err()
		}
		again.Stop()
		if q, err = f.pulls.queueOf(target); err != nil {
			return nil, err
		}
	}
}

// queueOf is the queue of a pulled target as it is configured now. It has no
// feeders and no workers: it decides and records.
func (p *pulls) queueOf(name string) (*queue, error) {
	f := p.f
	f.mu.Lock()
	defer f.mu.Unlock()
	t := f.targets[name]
	switch {
	case t == nil:
		return nil, fmt.Errorf("target %q: %w", name, dedupe.ErrNotFound)
	case !t.Pull:
		return nil, fmt.Errorf("target %q: %w", name, ErrNotPulled)
	case f.start == nil:
		return nil, ErrStopping
	}
	return f.newQueue(t), nil
}

// turn is closed when target may have something.
func (p *pulls) turn(target string) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	ch := p.turned[target]
	if ch == nil {
		ch = make(chan struct{})
		p.turned[target] = ch
	}
	return ch
}

func (p *pulls) wake(target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if ch := p.turned[target]; ch != nil {
		close(ch)
		delete(p.turned, target)
	}
}

// lease takes what is due and may be given out. Without any it says how long
// to wait at most, and a channel that is closed when the gate turns.
func (p *pulls) lease(ctx context.Context, q *queue, n int, ttl time.Duration) (got []Pulled, wait time.Duration, gate <-chan struct{}, err error) {
	name := q.target.Name
	p.mu.Lock()
	n = min(n, q.target.Concurrency-p.out[name])
	p.mu.Unlock()
	if n <= 0 {
		return nil, recheck, nil, nil // an ack wakes
	}
	pass := q.state.gate.ask(n, q.ledger.Now())
	if pass.n == 0 {
		return nil, pass.wait, pass.turned, nil
	}
	wait = recheck
	bytes := int64(0)
	for _, from := range append([]string{name}, q.target.Former...) {
		if len(got) == pass.n || bytes > q.target.Memory {
			break
		}
		leases, next, lerr := q.ledger.Lease(ctx, from, pass.n-len(got), ttl+commitMargin)
		if lerr != nil {
			err = lerr
			break
		}
		if !next.IsZero() {
			wait = min(wait, max(next.Sub(q.ledger.Now()), time.Millisecond))
		}
		for _, l := range leases {
			if bytes += l.Size; bytes > q.target.Memory && len(got) > 0 {
				q.release(l)
				continue
			}
			if one, ok := p.give(ctx, q, l, ttl); ok {
				got = append(got, one)
			}
		}
	}
	q.state.gate.settle(pass, len(got))
	if len(got) > 0 {
		return got, 0, nil, nil
	}
	return nil, wait, pass.turned, err
}

// give begins the attempt that a lease allows: it is out from now on.
func (p *pulls) give(ctx context.Context, q *queue, l dedupe.Lease, ttl time.Duration) (Pulled, bool) {
	in, err := q.ledger.Load(ctx, l.Delivery.Event)
	switch {
	case errors.Is(err, dedupe.ErrDamaged), errors.Is(err, dedupe.ErrPruned), errors.Is(err, dedupe.ErrNotFound):
		q.commit(context.WithoutCancel(ctx), []*dedupe.Result{q.unreadable(l, err)})
		return Pulled{}, false
	case err != nil || ctx.Err() != nil:
		q.release(l)
		return Pulled{}, false
	}
	if !q.state.gate.admit(0) {
		q.release(l)
		return Pulled{}, false
	}
	if err := q.ledger.Begin(ctx, l); err != nil {
		q.state.gate.done(0)
		q.release(l)
		return Pulled{}, false
	}
	now := q.now()
	h := &pulled{q: q, lease: l, ev: in.Event, start: now, until: q.ledger.Now().Add(ttl), done: sync.OnceFunc(func() { q.state.gate.done(0) })}
	token := newLeaseToken()
	p.mu.Lock()
	ended := p.ended
	if !ended {
		p.held[token] = h
		p.out[q.target.Name]++
	}
	p.mu.Unlock()
	if ended {
		h.done()
		q.release(l)
		return Pulled{}, false
	}
	q.state.begin()
	p.hurry()
	s := headers{h: make(http.Header, ownHeaders+len(in.Event.Header))}
	s.pass(in.Event.Header, &q.target.Shape, false)
	s.own(l.Delivery, in.Event, now)
	return Pulled{
		Lease: token, Until: now.Add(ttl), Delivery: l.Delivery, Event: in.Event,
		Method: methodOf(in.Event), Header: s.h, Body: in.Body,
	}, true
}

func newLeaseToken() string {
	var b [18]byte
	_, _ = rand.Read(b[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// hurry makes the reaper look again when a lease may end sooner.
func (p *pulls) hurry() {
	select {
	case p.changed <- struct{}{}:
	default:
	}
}

// take removes a lease that is out, so that it is settled once.
func (p *pulls) take(target, token string) (*pulled, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := p.held[token]
	if h == nil || h.q.target.Name != target {
		return nil, false
	}
	p.drop(token, h)
	return h, true
}

// drop forgets a lease. p.mu is held.
func (p *pulls) drop(token string, h *pulled) {
	delete(p.held, token)
	if p.out[h.q.target.Name]--; p.out[h.q.target.Name] == 0 {
		delete(p.out, h.q.target.Name)
	}
}

// PullAck says that a service has done what a delivery asks for. When it
// returns nil that is durable. ErrLeaseLost means that the delivery is, or may
// be, given out again, with the same idempotency key.
func (f *Forwarder) PullAck(ctx context.Context, target, token string) error {
	return f.pulls.settle(ctx, target, token, answer{outcome: event.OutcomeAcked}, false)
}

// Nack is why and for how long a service gives a delivery back.
type Nack struct {
	Delay  time.Duration // least time until the next attempt; the target's schedule may say longer
	Reason string        // kept with the attempt, cut after 200 bytes
	Dead   bool          // it is not to be tried again
}

// PullNack gives a delivery back as failed: it waits as after any other failed
// attempt.
func (f *Forwarder) PullNack(ctx context.Context, target, token string, n Nack) error {
	text := n.Reason
	if !utf8.ValidString(text) {
		text = "reason is not text"
	}
	for len(text) > maxPullReason {
		_, size := utf8.DecodeLastRuneInString(text)
		text = text[:len(text)-size]
	}
	return f.pulls.settle(ctx, target, token, answer{outcome: event.OutcomeNacked, text: text, after: min(max(n.Delay, 0), MaxRetryAfter)}, n.Dead)
}

// PullExtend keeps a lease for ttl from now and returns when it then runs out,
// by the wall clock.
func (f *Forwarder) PullExtend(ctx context.Context, target, token string, ttl time.Duration) (time.Time, error) {
	p := f.pulls
	p.mu.Lock()
	h := p.held[token]
	if h == nil || h.q.target.Name != target {
		p.mu.Unlock()
		return time.Time{}, ErrLeaseLost
	}
	// Not before the ledger agrees may it run out here, nor be settled by it.
	was := h.until
	h.until = f.cfg.Ledger.Now().Add(max(ttl, was.Sub(f.cfg.Ledger.Now())) + commitMargin/2)
	p.mu.Unlock()
	ok, err := f.cfg.Ledger.Extend(ctx, h.lease, ttl+commitMargin)
	p.mu.Lock()
	switch {
	case p.held[token] != h:
		ok = false // settled meanwhile
	case ok && err == nil:
		h.until = f.cfg.Ledger.Now().Add(ttl)
	default:
		h.until = was
	}
	p.mu.Unlock()
	p.hurry()
	if err == nil && !ok {
		err = ErrLeaseLost
	}
	return f.cfg.Now().Add(ttl), err
}

func (p *pulls) settle(ctx context.Context, target, token string, a answer, dead bool) error {
	if err := p.f.away(); err != nil {
		return err // the lease stands: the service says so again
	}
	h, ok := p.take(target, token)
	if !ok {
		return ErrLeaseLost
	}
	late, err := p.finish(context.WithoutCancel(ctx), h, a, dead)
	p.wake(target)
	if p.ending() {
		p.hurry()
	}
	if err == nil && late {
		return ErrLeaseLost
	}
	return err
}

// finish records the attempt that a lease was, durably. late says that the
// delivery was out of its hands already.
func (p *pulls) finish(ctx context.Context, h *pulled, a answer, dead bool) (late bool, err error) {
	defer h.done()
	r := h.result(a, dead)
	h.q.state.end(&r.Attempt)
	if err := h.q.ledger.Finish(ctx, r); err != nil {
		h.q.unfinished(err, 1)
		return false, err
	}
	h.q.count(r)
	h.q.logAttempt(h.lease.Delivery, &r.Attempt)
	h.q.span(h.ev, h.lease.Delivery, &r.Attempt)
	return r.Late, nil
}

func (h *pulled) result(a answer, dead bool) *dedupe.Result {
	q, d := h.q, h.lease.Delivery
	r := &dedupe.Result{Lease: h.lease, Attempt: event.Attempt{
		Event: d.Event, Target: d.Target, Generation: d.Generation, Number: d.Attempts + 1,
		StartedAt: h.start, Duration: q.now().Sub(h.start), Outcome: a.outcome, Error: a.text,
	}}
	switch {
	case a.outcome == event.OutcomeAcked:
		r.State = event.Delivered
	case dead:
		r.State = event.Dead
	default:
		q.postpone(r, a)
	}
	r.Attempt.State, r.Attempt.RetryIn = r.State, r.Delay
	return r
}

// run ends leases that run out, until leasing ends; then it waits for those
// that are out to be settled, until attempts ends, and ends the rest as
// interrupted.
func (p *pulls) run(leasing, attempts, storing context.Context) {
	stop := leasing.Done()
	for {
		wait := p.reap(storing)
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-p.changed:
		case <-stop:
			stop = nil
			p.close()
		case <-attempts.Done():
			timer.Stop()
			p.cut(storing)
			return
		}
		timer.Stop()
		if stop == nil && p.empty() {
			return
		}
	}
}

// reap ends the leases that have run out and returns when to look again.
func (p *pulls) reap(ctx context.Context) time.Duration {
	now := p.f.cfg.Ledger.Now()
	wait := recheck
	var over []*pulled
	p.mu.Lock()
	for token, h := range p.held {
		if left := h.until.Sub(now); left > 0 {
			wait = min(wait, left)
			continue
		}
		p.drop(token, h)
		over = append(over, h)
	}
	p.mu.Unlock()
	p.endAll(ctx, over, answer{outcome: event.OutcomeTimeout, text: "the lease ran out before an answer"})
	return max(wait, time.Millisecond)
}

// endAll ends leases, oldest first. A ledger that fails ends Run.
func (p *pulls) endAll(ctx context.Context, over []*pulled, a answer) {
	slices.SortFunc(over, func(x, y *pulled) int { return x.start.Compare(y.start) })
	for _, h := range over {
		_, _ = p.finish(ctx, h, a, false)
		p.wake(h.q.target.Name)
	}
}

// close ends giving out, and the waits of those who ask.
func (p *pulls) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	for target, ch := range p.turned {
		close(ch)
		delete(p.turned, target)
	}
}

func (p *pulls) ending() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ended
}

func (p *pulls) empty() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.held) == 0
}

// cut ends what is still out.
func (p *pulls) cut(ctx context.Context) {
	p.close()
	p.mu.Lock()
	var over []*pulled
	for token, h := range p.held {
		p.drop(token, h)
		over = append(over, h)
	}
	p.mu.Unlock()
	p.endAll(ctx, over, answer{outcome: event.OutcomeInterrupted, text: "the gateway stopped before an answer"})
}
