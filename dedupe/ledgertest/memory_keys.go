package ledgertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

// chunkID names a chunk of an answer: another claim's never stands in for it.
type chunkID struct {
	Key   dedupe.Key
	Token uint64
	N     int
}

// step applies one key step. The caller holds mu.
func (m *Memory) step(s *dedupe.KeyStep, now time.Time) error {
	if m.diskLow && s.Kind == dedupe.StepClaim {
		s.Err = dedupe.ErrDiskLow
		return nil
	}
	write, err := s.Apply(now, func(k dedupe.Key) (dedupe.SyncKey, bool, error) {
		rec, ok := m.disk.Keys[k]
		return rec, ok, nil
	})
	switch {
	case errors.Is(err, dedupe.ErrTooLarge), errors.Is(err, dedupe.ErrNoClaim):
		s.Err = err
		return nil
	case err != nil:
		return fmt.Errorf("%w: %w", dedupe.ErrFatal, err)
	}
	if s.Kind == dedupe.StepSpool && s.Verdict == dedupe.KeyDone {
		m.wrote = true
		m.disk.Chunks[chunkID{s.Key, s.Token, s.Chunk}] = bytes.Clone(s.Data)
	}
	if write {
		m.wrote = true
		m.write(s.Record)
	}
	for _, a := range s.Acts() {
		m.act(a, now)
	}
	return nil
}

// write keeps a record, its long body apart from it.
func (m *Memory) write(rec dedupe.SyncKey) {
	if body := rec.Answer.Body; rec.Answer.Chunks() > 0 {
		for n := range (len(body) + dedupe.SyncChunk - 1) / dedupe.SyncChunk {
			part := body[n*dedupe.SyncChunk : min(len(body), (n+1)*dedupe.SyncChunk)]
			m.disk.Chunks[chunkID{rec.Key, rec.Token, n}] = bytes.Clone(part)
		}
		rec.Answer.Body = nil
	}
	rec.Answer.Body = bytes.Clone(rec.Answer.Body)
	m.disk.Keys[rec.Key] = rec
}

// SyncKey reads one key as it stands now.
func (m *Memory) SyncKey(_ context.Context, k dedupe.Key) (dedupe.SyncKey, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if err := m.usable(); err != nil {
		return dedupe.SyncKey{}, err
	}
	now := m.clock.now()
	rec, ok := m.disk.Keys[k]
	if rec = rec.At(now); !ok || rec.Expired(now) {
		return dedupe.SyncKey{}, fmt.Errorf("key %x: %w", k, dedupe.ErrNotFound)
	}
	return rec, nil
}

// SyncChunk reads one chunk of a stored answer.
func (m *Memory) SyncChunk(_ context.Context, k *dedupe.SyncKey, n int) ([]byte, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if err := m.usable(); err != nil {
		return nil, err
	}
	b, ok := m.disk.Chunks[chunkID{k.Key, k.Token, n}]
	if !ok {
		return nil, fmt.Errorf("chunk %d of key %x: %w", n, k.Key, dedupe.ErrDamaged)
	}
	return b, nil
}

// SyncKeys lists keys by their names, open ones by their claims.
func (m *Memory) SyncKeys(_ context.Context, f dedupe.KeyFilter, cursor string, limit int) (dedupe.Page[dedupe.SyncKey], error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	var page dedupe.Page[dedupe.SyncKey]
	if err := m.usable(); err != nil {
		return page, err
	}
	now := m.clock.now()
	for _, rec := range m.disk.Keys {
		if rec = rec.At(now); !rec.Expired(now) && f.Match(&rec) && (f.Open || fmt.Sprintf("%x", rec.Key) > cursor) {
			page.Items = append(page.Items, rec)
		}
	}
	slices.SortFunc(page.Items, func(a, b dedupe.SyncKey) int {
		if c := a.ClaimedAt.Compare(b.ClaimedAt); f.Open && c != 0 {
			return c
		}
		return strings.Compare(fmt.Sprintf("%x", a.Key), fmt.Sprintf("%x", b.Key))
	})
	if n := clamp(limit); !f.Open && len(page.Items) > n {
		page.Items = page.Items[:n]
		page.Next = fmt.Sprintf("%x", page.Items[n-1].Key)
	}
	return page, nil
}

// keyStats counts the open keys. The caller holds mu.
func (m *Memory) keyStats(now time.Time) dedupe.KeyStats {
	var st dedupe.KeyStats
	for _, rec := range m.disk.Keys {
		switch rec = rec.At(now); rec.State {
		case dedupe.KeyInFlight:
			st.InFlight++
		case dedupe.KeyUnknown:
			st.Unknown++
			if st.Oldest.IsZero() || rec.ClaimedAt.Before(st.Oldest) {
				st.Oldest = rec.ClaimedAt
			}
		}
	}
	return st
}

// endLeases is what a restart does to keys in flight.
func (d *disk) endLeases() {
	for k, rec := range d.Keys {
		rec.Until = time.Time{}
		d.Keys[k] = rec
	}
}

// expireKeys drops the keys that are new again, and every chunk without one.
func (m *Memory) expireKeys(now time.Time, out *dedupe.Expired) {
	for k, rec := range m.disk.Keys {
		if rec = rec.At(now); rec.Expired(now) {
			delete(m.disk.Keys, k)
			out.Keys++
		}
	}
	for id := range m.disk.Chunks {
		if rec, ok := m.disk.Keys[id.Key]; !ok || rec.Token != id.Token {
			delete(m.disk.Chunks, id)
		}
	}
}

// checkKeys reads every answer against its hash.
func (m *Memory) checkKeys(rep *dedupe.CheckReport) {
	for k, rec := range m.disk.Keys {
		rep.Keys++
		body := bytes.Clone(rec.Answer.Body)
		for n := range rec.Answer.Chunks() {
			body = append(body, m.disk.Chunks[chunkID{k, rec.Token, n}]...)
		}
		if rec.Answer.Status != 0 && event.HashOf(body) != rec.Answer.Hash {
			rep.Faults = append(rep.Faults, dedupe.Fault{Where: fmt.Sprintf("key %x", k), What: "answer has another hash"})
		}
	}
}
