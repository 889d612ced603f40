package ledgertest

import (
	"context"
	"fmt"
	"sort"
	"strings"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

// What one page may hold and how many events are looked at for it.
const (
	defaultLimit = 50
	maxLimit     = 1000
	maxScan      = 2000
)

// record is a record as people see it. The caller holds mu.
func (m *Memory) record(r *record) dedupe.Record {
	rec := dedupe.Record{Event: r.Event, Tally: r.Tally, BodyGone: r.BodyGone}
	for _, d := range r.Deliveries {
		rec.Deliveries = append(rec.Deliveries, m.view(d))
	}
	rec.Status = event.StatusOf(rec.Deliveries)
	return rec
}

// Lookup finds events by the provider's ID, newest first.
func (m *Memory) Lookup(_ context.Context, sources []string, id string) ([]event.Ref, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if err := m.usable(); err != nil {
		return nil, err
	}
	framed, _ := dedupe.FrameID(id)
	var out []event.Ref
	for i := len(m.disk.Records) - 1; i >= 0; i-- {
		ev := &m.disk.Records[i].Event
		for _, s := range sources {
			if (s == "" || s == ev.Source) && ev.ID == framed {
				out = append(out, ev.Ref)
				break
			}
		}
	}
	return out, nil
}

// Get returns one event and what happened to it.
func (m *Memory) Get(_ context.Context, ref event.Ref) (dedupe.Record, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	r, err := m.find(ref)
	if err != nil {
		return dedupe.Record{}, err
	}
	return m.record(r), nil
}

// Body returns an event's exact bytes.
func (m *Memory) Body(ctx context.Context, ref event.Ref) ([]byte, error) {
	l, err := m.Load(ctx, ref)
	return l.Body, err
}

// Events lists events, newest first.
func (m *Memory) Events(_ context.Context, f dedupe.Filter, cursor string, limit int) (dedupe.Page[dedupe.Record], error) {
	var page dedupe.Page[dedupe.Record]
	before, err := parseCursor(cursor)
	if err != nil {
		return page, err
	}
	err = m.scan(before, func(r *record) bool {
		if rec := m.record(r); f.MatchRecord(&rec) {
			page.Items = append(page.Items, rec)
		}
		return len(page.Items) < clamp(limit)
	}, &page.Next)
	return page, err
}

// Deliveries lists deliveries, newest event first, by target within one.
func (m *Memory) Deliveries(_ context.Context, f dedupe.Filter, cursor string, limit int) (dedupe.Page[dedupe.DeliveryRow], error) {
	var page dedupe.Page[dedupe.DeliveryRow]
	after, target, within := strings.Cut(cursor, "/")
	before, err := parseCursor(after)
	if err != nil {
		return page, err
	}
	if within { // the event itself has more
		before = before.Next(0)
	}
	var at string // where the page ended inside an event
	err = m.scan(before, func(r *record) bool {
		rec := m.record(r)
		sort.Slice(rec.Deliveries, func(i, j int) bool { return rec.Deliveries[i].Target < rec.Deliveries[j].Target })
		for _, d := range rec.Deliveries {
			if within && r.Event.Ref.String() == after && d.Target <= target || !f.MatchDelivery(&rec, &d) {
				continue
			}
			page.Items = append(page.Items, row(&rec.Event, d))
			if len(page.Items) == clamp(limit) {
				at = r.Event.Ref.String() + "/" + d.Target
				return false
			}
		}
		return true
	}, &page.Next)
	if at != "" {
		page.Next = at
	}
	return page, err
}

func row(ev *event.Event, d event.Delivery) dedupe.DeliveryRow {
	return dedupe.DeliveryRow{
		Delivery: d, ID: d.DeliveryID(), Key: d.Key(ev), Source: ev.Source, EventID: ev.ID,
		Type: ev.Type, ReceivedAt: ev.ReceivedAt,
	}
}

// scan shows records older than before, all when it is zero, newest first
// until f says no or the bound of one page is reached; next is then the
// cursor that continues.
func (m *Memory) scan(before event.Ref, f func(*record) bool, next *string) error {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if err := m.usable(); err != nil {
		return err
	}
	seen := 0
	for i := len(m.disk.Records) - 1; i >= 0; i-- {
		r := m.disk.Records[i]
		if !before.IsZero() && r.Event.Ref.Compare(before) >= 0 {
			continue
		}
		seen++
		if more := f(r); !more || seen == maxScan {
			if i > 0 {
				*next = r.Event.Ref.String()
			}
			return nil
		}
	}
	return nil
}

func parseCursor(s string) (event.Ref, error) {
	if s == "" {
		return event.Ref{}, nil
	}
	ref, err := event.ParseRef(s)
	if err != nil {
		return event.Ref{}, fmt.Errorf("cursor %q: %w", s, err)
	}
	return ref, nil
}

func clamp(limit int) int {
	if limit <= 0 {
		return defaultLimit
	}
	return min(limit, maxLimit)
}

// Attempts lists one event's attempts, oldest first.
func (m *Memory) Attempts(_ context.Context, ref event.Ref) ([]event.Attempt, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	r, err := m.find(ref)
	if err != nil {
		return nil, err
	}
	return append([]event.Attempt(nil), r.Attempts...), nil
}

// Stats is a snapshot of the ledger.
func (m *Memory) Stats(context.Context) (dedupe.Stats, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if err := m.usable(); err != nil {
		return dedupe.Stats{}, err
	}
	return dedupe.Stats{
		Targets: m.targetStats(), Events: m.disk.Accepted, LastRef: m.disk.Last, Batches: m.disk.Batches,
		Keys:      m.keyStats(m.clock.now()),
		SizeBytes: m.size(), ReadOnly: m.diskLow || m.fatal != nil, ClockHold: m.held(),
	}, nil
}

// targetStats counts from the records, so that a schedule that lost count
// shows.
func (m *Memory) targetStats() map[string]dedupe.TargetStats {
	out := map[string]dedupe.TargetStats{}
	for _, r := range m.disk.Records {
		for _, d := range r.Deliveries {
			st := out[d.Target]
			switch m.view(d).State {
			case event.Pending:
				st.Pending++
			case event.Leased:
				st.Leased++
			case event.Dead:
				st.Dead++
			}
			if d.State.Open() && (st.Oldest.IsZero() || d.OpenedAt.Before(st.Oldest)) {
				st.Oldest = d.OpenedAt
			}
			if st != (dedupe.TargetStats{}) {
				out[d.Target] = st
			}
		}
	}
	for name, s := range m.schedule.Stats() {
		if st, ok := out[name]; ok {
			st.Behind, st.BlockedKeys = s.Behind, s.BlockedKeys
			out[name] = st
		}
	}
	return out
}

// size is what the stored bodies and answers take.
func (m *Memory) size() int64 {
	var n int64
	for _, r := range m.disk.Records {
		n += int64(len(r.Body))
	}
	for _, k := range m.disk.Keys {
		n += int64(len(k.Answer.Body))
	}
	for _, c := range m.disk.Chunks {
		n += int64(len(c))
	}
	return n
}

func (m *Memory) held() bool { return m.clock.now().Before(m.holdTill) }
