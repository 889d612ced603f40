package ledgertest

import (
	"context"
	"encoding/gob"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

// Replay opens closed deliveries again.
func (m *Memory) Replay(_ context.Context, r dedupe.Replay) (dedupe.ReplayCount, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.usable(); err != nil {
		return dedupe.ReplayCount{}, err
	}
	now := m.clock.now()
	if r.Keep == nil || r.DryRun {
		return m.replayAt(r, now)
	}
	would := r
	would.DryRun = true
	n, err := m.replayAt(would, now)
	if err != nil {
		return n, err
	}
	note := r.Keep(n)
	if err := note.Check(); err != nil {
		return dedupe.ReplayCount{}, err
	}
	if err := m.putNote(&note); err != nil {
		return dedupe.ReplayCount{}, err
	}
	return m.replayAt(r, now)
}

// replayAt is Replay at ledger time now, but for Keep.
func (m *Memory) replayAt(r dedupe.Replay, now time.Time) (n dedupe.ReplayCount, _ error) {
	if ref := r.Selection.Ref; !ref.IsZero() {
		rec, err := m.find(ref)
		if err == nil {
			m.replay(rec, r, now, &n)
		}
		return n, err
	}
	before, err := parseCursor(r.Cursor)
	if err != nil {
		return n, err
	}
	looked, limit := 0, r.Limit
	if limit <= 0 {
		limit = 1000
	}
	for i := len(m.disk.Records) - 1; i >= 0; i-- {
		rec := m.disk.Records[i]
		if !before.IsZero() && rec.Event.Ref.Compare(before) >= 0 {
			continue
		}
		if view := m.record(rec); r.Selection.Filter.MatchRecord(&view) {
			m.replay(rec, r, now, &n)
		}
		if looked++; looked == limit && i > 0 {
			n.Next = rec.Event.Ref.String()
			break
		}
	}
	return n, nil
}

// replay opens what r selects of one event.
func (m *Memory) replay(rec *record, r dedupe.Replay, now time.Time, n *dedupe.ReplayCount) {
	n.Events++
	if rec.BodyGone {
		n.Pruned++
		return
	}
	targets := rec.Event.Targets
	if r.Reroute != nil {
		targets = r.Reroute(&rec.Event, func() ([]byte, error) { return rec.Body, nil })
	}
	f := r.Selection.Filter
	for _, t := range targets {
		d := rec.delivery(t)
		switch {
		case r.Target != "" && t != r.Target, f.Target != "" && t != f.Target:
		case d != nil && f.State != "" && f.State != m.view(*d).State.String():
		case d != nil && d.State.Open():
			n.Open++
		default:
			n.Opened++
			n.Bytes += rec.Event.Body.Length
			if !r.DryRun {
				m.reopen(rec, t, &r, now)
			}
		}
	}
}

func (m *Memory) reopen(rec *record, target string, r *dedupe.Replay, now time.Time) {
	d := rec.delivery(target)
	if d == nil {
		rec.Deliveries = append(rec.Deliveries, event.Delivery{Event: rec.Event.Ref, Target: target})
		d = &rec.Deliveries[len(rec.Deliveries)-1]
	} else if d.State == event.Dead {
		m.schedule.Dead(target, -1)
	}
	*d = dedupe.Reopen(*d, r.NewKey, now)
	m.act(dedupe.ReplayedAct(d, r.By), now)
	m.schedule.Add(target, rec.entry(*d))
}

// Cancel closes an event's open deliveries.
func (m *Memory) Cancel(_ context.Context, ref event.Ref, target string, by dedupe.By) (int, error) {
	return m.cancel(ref, target, by, event.State.Open, func(_ *record, d *event.Delivery) { m.schedule.Cancel(d.Target, ref, d.Generation) })
}

// Drop takes an event's dead deliveries off the dead letters.
func (m *Memory) Drop(_ context.Context, ref event.Ref, target string, by dedupe.By) (int, error) {
	return m.cancel(ref, target, by, isDead, func(rec *record, d *event.Delivery) {
		m.schedule.Dead(d.Target, -1)
		m.schedule.Unblock(d.Target, ref, rec.Event.OrderAt(d.Target))
	})
}

func isDead(s event.State) bool { return s == event.Dead }

// cancel makes cancelled what is in one of the states of which.
func (m *Memory) cancel(ref event.Ref, target string, by dedupe.By, which func(event.State) bool, leave func(*record, *event.Delivery)) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	rec, err := m.find(ref)
	if err != nil {
		return 0, err
	}
	n := 0
	for i := range rec.Deliveries {
		d := &rec.Deliveries[i]
		if !which(d.State) || target != "" && target != d.Target {
			continue
		}
		leave(rec, d)
		d.State, d.DueAt, d.UpdatedAt = event.Cancelled, time.Time{}, m.clock.now()
		m.act(dedupe.CancelledAct(d, by), d.UpdatedAt)
		n++
	}
	rec.spend()
	return n, nil
}

// Expire drops what retention and windows have ended.
func (m *Memory) Expire(context.Context) (dedupe.Expired, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out dedupe.Expired
	if err := m.usable(); err != nil {
		return out, err
	}
	if m.held() {
		out.Held = true
		return out, nil
	}
	now, size := m.clock.now(), m.size()
	m.expireClaims(now, &out)
	m.expireActs()
	m.expireKeys(now, &out)
	kept := m.disk.Records[:0:0]
	for _, r := range m.disk.Records {
		age := now.Sub(r.Kept)
		if r.open() {
			if age >= min(r.Retention.Body, r.Retention.Meta) {
				r.Kept = now
				out.Carried++
			}
			kept = append(kept, r)
			continue
		}
		if age >= r.Retention.Meta {
			m.disk.Pruned[r.Event.Ref] = true
			for _, d := range r.Deliveries {
				m.schedule.Unblock(d.Target, d.Event, r.Event.OrderAt(d.Target))
			}
			out.Buckets++
			continue
		}
		if age >= r.Retention.Body {
			r.Body, r.BodyGone = nil, true
		}
		if age >= r.Retention.Audit {
			r.Attempts = nil
		}
		kept = append(kept, r)
	}
	m.disk.Records = kept
	out.Bytes = size - m.size()
	return out, nil
}

// expireClaims forgets the claims that no longer stand.
func (m *Memory) expireClaims(now time.Time, out *dedupe.Expired) {
	find := m.standing(now)
	for k, c := range m.disk.Claims {
		if now.Before(c.Expires) {
			continue
		}
		if _, stands, _ := find(k); stands {
			out.Claims++
		} else {
			delete(m.disk.Claims, k)
		}
	}
}

// Check reads everything and reports what doesn't fit.
func (m *Memory) Check(context.Context) (dedupe.CheckReport, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if err := m.usable(); err != nil {
		return dedupe.CheckReport{}, err
	}
	rep := dedupe.CheckReport{
		Heads: m.disk.Batches, Events: uint64(len(m.disk.Records)), Claims: uint64(len(m.disk.Claims)),
	}
	m.checkKeys(&rep)
	for _, r := range m.disk.Records {
		rep.Attempts += uint64(len(r.Attempts))
		if r.BodyGone {
			continue
		}
		rep.Bodies++
		if event.HashOf(r.Body) != r.Event.BodyHash {
			rep.Faults = append(rep.Faults, dedupe.Fault{Where: "event " + r.Event.Ref.String(), What: "body has another hash"})
		}
	}
	return rep, nil
}

// Damage changes the stored body of an event, so that users can be tested
// against a ledger that lost bytes.
func (m *Memory) Damage(ref event.Ref) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, err := m.find(ref)
	if err != nil {
		return err
	}
	r.Body = append([]byte("damaged "), r.Body...)
	return nil
}

// Backup writes a copy that RestoreMemory reads.
func (m *Memory) Backup(_ context.Context, w io.Writer) error {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if err := m.usable(); err != nil {
		return err
	}
	if err := gob.NewEncoder(w).Encode(m.disk); err != nil {
		return fmt.Errorf("write backup: %w", err)
	}
	return nil
}

// RestoreMemory makes a ledger of a backup. Refs of the old ledger stay
// valid; new ones carry a new writer ID.
func RestoreMemory(cfg Config, r io.Reader) (*Memory, error) {
	d := &disk{Claims: map[dedupe.Key]dedupe.Claim{}, Pruned: map[event.Ref]bool{}, Acts: map[uint64]*actLog{},
		Notes: map[[2]string]dedupe.Note{}, Keys: map[dedupe.Key]dedupe.SyncKey{}, Chunks: map[chunkID][]byte{},
		Begun: map[wire]dedupe.Lease{}}
	if err := gob.NewDecoder(r).Decode(d); err != nil {
		return nil, fmt.Errorf("read backup: %w", err)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Writer == 0 {
		cfg.Writer = rand.Uint64()
	}
	d.Writer = cfg.Writer & (1<<event.WriterBits - 1)
	d.Last = event.NewRef(d.Last.Milli()+1, 0, d.Writer)
	return openMemory(cfg, d), nil
}
