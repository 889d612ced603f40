package ledgertest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

// The retention a ledger keeps when its config names none.
const (
	DefaultBody  = 30 * 24 * time.Hour
	DefaultMeta  = 400 * 24 * time.Hour
	DefaultAudit = 400 * 24 * time.Hour
)

// clockLead is how far ahead of the mark a ledger may start without holding
// expiry, and clockHold for how long it holds it.
const (
	clockLead = 24 * time.Hour
	clockHold = time.Hour
)

// Config says how a Memory is made. The zero Config is ready to use.
type Config struct {
	Now       func() time.Time // wall clock; nil = time.Now
	Retention dedupe.Retention // defaults for requests that name none
	Writer    uint64           // the writer ID in refs; 0 = random
}

// Memory is a ledger in memory: it keeps every promise of dedupe.Ledger but
// to survive its process. Its methods are safe for concurrent use.
type Memory struct {
	cfg      Config
	clock    *clock
	schedule *dedupe.Schedule
	holdTill time.Time // ledger time until which expiry is held; zero: it isn't
	holdMark time.Time // until then, claims that stood at this time stand

	// mu guards the rest.
	mu      sync.RWMutex
	disk    *disk // what would be on disk
	closed  bool
	fatal   error
	inject  error
	wrote   bool // by the batch under way
	diskLow bool
	sealed  map[uint64]uint64 // by writer: acts before it may be dropped
}

var _ dedupe.Ledger = (*Memory)(nil)

// disk is what outlives Close and Reopen.
type disk struct {
	Writer   uint64
	Mark     time.Time // ledger time of the last batch
	Last     event.Ref
	Batches  uint64
	Accepted uint64
	Claims   map[dedupe.Key]dedupe.Claim
	Records  []*record // ascending by ref
	Pruned   map[event.Ref]bool
	Acts     map[uint64]*actLog        // by writer
	Notes    map[[2]string]dedupe.Note // by kind and name
	Keys     map[dedupe.Key]dedupe.SyncKey
	Chunks   map[chunkID][]byte
	Begun    map[wire]dedupe.Lease // attempts on the wire, with when they began as Until
}

// record is an event and everything known of it.
type record struct {
	Event      event.Event
	Body       []byte
	BodyGone   bool
	Retention  dedupe.Retention
	Kept       time.Time // retention counts from here
	Tally      event.Tally
	Deliveries []event.Delivery
	Attempts   []event.Attempt
}

func (r *record) open() bool {
	for _, d := range r.Deliveries {
		if d.State.Open() {
			return true
		}
	}
	return false
}

// spend drops the body when it is of no more use.
func (r *record) spend() {
	if r.Event.Body.Length > 0 && r.Retention.Spent(r.Deliveries) {
		r.Body, r.BodyGone = nil, true
	}
}

// entry is an open delivery of the event as the schedule keeps it.
func (r *record) entry(d event.Delivery) dedupe.Entry {
	e := dedupe.EntryOf(d)
	e.Size, e.Order = uint32(r.Event.Body.Length), r.Event.OrderAt(d.Target)
	return e
}

func (r *record) delivery(target string) *event.Delivery {
	for i := range r.Deliveries {
		if r.Deliveries[i].Target == target {
			return &r.Deliveries[i]
		}
	}
	return nil
}

// NewMemory makes an empty ledger.
func NewMemory(cfg Config) *Memory {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Writer == 0 {
		cfg.Writer = rand.Uint64()
	}
	return openMemory(cfg, &disk{
		Writer: cfg.Writer & (1<<event.WriterBits - 1),
		Claims: map[dedupe.Key]dedupe.Claim{}, Pruned: map[event.Ref]bool{}, Acts: map[uint64]*actLog{},
		Notes: map[[2]string]dedupe.Note{},
		Keys:  map[dedupe.Key]dedupe.SyncKey{}, Chunks: map[chunkID][]byte{},
		Begun: map[wire]dedupe.Lease{},
	})
}

// Reopen ends m, with or without a Close before it, and opens what it had
// committed, as a restart would: leases are gone, everything open is on the
// schedule.
func (m *Memory) Reopen() *Memory { return m.ReopenAt(m.cfg.Now) }

// ReopenAt is Reopen with another wall clock: one that was set meanwhile.
func (m *Memory) ReopenAt(now func() time.Time) *Memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	cfg := m.cfg
	cfg.Now = now
	return openMemory(cfg, m.disk)
}

func openMemory(cfg Config, d *disk) *Memory {
	m := &Memory{cfg: cfg, disk: d, sealed: map[uint64]uint64{}}
	d.endLeases()
	m.clock = newClock(cfg.Now, d.Mark)
	m.schedule = dedupe.NewSchedule(m.clock.now, 0)
	if start := m.clock.now(); !d.Mark.IsZero() && start.Sub(d.Mark) > clockLead {
		m.holdTill, m.holdMark = start.Add(clockHold), m.disk.Mark
	}
	m.unknown()
	m.schedule.HoldLanes()
	for _, r := range d.Records {
		for _, del := range r.Deliveries {
			switch {
			case del.State.Open():
				m.schedule.Add(del.Target, r.entry(del))
			case del.State == event.Dead:
				m.schedule.Dead(del.Target, 1)
				m.schedule.Block(del.Target, del.Event, r.Event.OrderAt(del.Target))
			}
		}
	}
	m.schedule.FreeLanes()
	return m
}

// FailNext makes the next Commit fail with err as if the disk had: nothing of
// its batch is kept and the ledger takes no other.
func (m *Memory) FailNext(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.inject = err
}

// SetDiskLow makes the ledger refuse new events, as below its reserve.
func (m *Memory) SetDiskLow(low bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.diskLow = low
}

// usable is an error when the ledger is closed. The caller holds mu.
func (m *Memory) usable() error {
	if m.closed {
		return dedupe.ErrClosed
	}
	return nil
}

// find returns the record of ref or why there is none. The caller holds mu.
func (m *Memory) find(ref event.Ref) (*record, error) {
	if err := m.usable(); err != nil {
		return nil, err
	}
	i, ok := slices.BinarySearchFunc(m.disk.Records, ref, func(r *record, ref event.Ref) int { return r.Event.Ref.Compare(ref) })
	if ok {
		return m.disk.Records[i], nil
	}
	if m.disk.Pruned[ref] {
		return nil, fmt.Errorf("event %s: %w", ref, dedupe.ErrPruned)
	}
	return nil, fmt.Errorf("event %s: %w", ref, dedupe.ErrNotFound)
}

// Now is the ledger clock.
func (m *Memory) Now() time.Time { return m.clock.now() }

// Lease takes due deliveries of a target.
func (m *Memory) Lease(_ context.Context, target string, n int, ttl time.Duration) ([]dedupe.Lease, time.Time, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if err := m.usable(); err != nil {
		return nil, time.Time{}, err
	}
	leases, next := m.schedule.Lease(target, n, ttl)
	return leases, next, nil
}

// Load returns an event and its body for an attempt.
func (m *Memory) Load(_ context.Context, ref event.Ref) (dedupe.Loaded, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	r, err := m.find(ref)
	if err != nil {
		return dedupe.Loaded{}, err
	}
	if r.BodyGone {
		return dedupe.Loaded{}, fmt.Errorf("body of event %s: %w", ref, dedupe.ErrPruned)
	}
	if event.HashOf(r.Body) != r.Event.BodyHash {
		return dedupe.Loaded{}, fmt.Errorf("body of event %s: %w", ref, dedupe.ErrDamaged)
	}
	return dedupe.Loaded{Event: &r.Event, Body: r.Body}, nil
}

// Release gives leases back.
func (m *Memory) Release(_ context.Context, leases ...dedupe.Lease) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.usable(); err != nil {
		return err
	}
	for _, l := range leases {
		delete(m.disk.Begun, wireOf(l))
		m.schedule.Release(l)
	}
	return nil
}

// Extend prolongs a lease.
func (m *Memory) Extend(_ context.Context, l dedupe.Lease, ttl time.Duration) (bool, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if err := m.usable(); err != nil {
		return false, err
	}
	return m.schedule.Extend(l, ttl), nil
}

// wire names a lease: tokens are given per target.
type wire struct {
	Target string
	Token  uint64
}

func wireOf(l dedupe.Lease) wire { return wire{l.Delivery.Target, l.Token} }

// Begin notes that an attempt goes on the wire.
func (m *Memory) Begin(_ context.Context, l dedupe.Lease) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.usable(); err != nil {
		return err
	}
	l.Until = m.cfg.Now()
	m.disk.Begun[wireOf(l)] = l
	return nil
}

// unknown records the attempts that were on the wire when the last run ended.
func (m *Memory) unknown() {
	for _, l := range m.disk.Begun {
		r, err := m.find(l.Delivery.Event)
		if err != nil {
			continue
		}
		d := r.delivery(l.Delivery.Target)
		if d == nil || !d.State.Open() || d.Generation != l.Delivery.Generation || d.Attempts > l.Delivery.Attempts {
			continue
		}
		res := dedupe.Unknown(*d, l.Until)
		*d = res.Settle(*d, m.clock.now())
		r.Attempts = append(r.Attempts, res.Attempt)
		if a, ok := res.Act(d.State); ok {
			m.act(a, m.clock.now())
		}
	}
	clear(m.disk.Begun)
}

// Wake hints at due deliveries of a target.
func (m *Memory) Wake(target string) <-chan struct{} { return m.schedule.Wake(target) }

// Targets lists the targets with open deliveries, sorted.
func (m *Memory) Targets() []string {
	m.mu.RLock()
	defer m.mu.RUnlock()
	var out []string
	for name, st := range m.targetStats() {
		if st.Pending+st.Leased > 0 {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// Health is nil while the ledger takes events.
func (m *Memory) Health(context.Context) error {
	m.mu.RLock()
	defer m.mu.RUnlock()
	switch {
	case m.closed:
		return dedupe.ErrClosed
	case m.fatal != nil:
		return m.fatal
	case m.diskLow:
		return dedupe.ErrDiskLow
	}
	return nil
}

// Close ends the ledger; Reopen opens it again.
func (m *Memory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.closed {
		m.disk.Mark = m.clock.now()
	}
	m.closed = true
	return nil
}

// clock is ledger time: it starts at the later of the mark and the wall
// clock, goes as fast as the wall clock, and never back.
type clock struct {
	wall    func() time.Time
	started time.Time // by wall
	base    time.Time // ledger time at started

	mu   sync.Mutex // guards last
	last time.Time
}

func newClock(wall func() time.Time, mark time.Time) *clock {
	now := wall()
	c := &clock{wall: wall, started: now, base: now.Round(0)}
	if mark.After(now) {
		c.base = mark
	}
	c.last = c.base
	return c
}

func (c *clock) now() time.Time {
	t := c.base.Add(c.wall().Sub(c.started))
	c.mu.Lock()
	defer c.mu.Unlock()
	if t.After(c.last) {
		c.last = t
	}
	return c.last
}
