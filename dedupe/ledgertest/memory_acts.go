package ledgertest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

// actLog is what one writer did, from index First on.
type actLog struct {
	First  uint64
	Leaves [][]byte
	At     []time.Time
}

func (l *actLog) next() uint64 { return l.First + uint64(len(l.Leaves)) }

// act records one act. The caller holds mu.
func (m *Memory) act(a dedupe.Act, now time.Time) {
	m.wrote, m.disk.Mark = true, now
	l := m.disk.Acts[m.disk.Writer]
	if l == nil {
		l = &actLog{}
		m.disk.Acts[m.disk.Writer] = l
	}
	a.At = now
	l.Leaves, l.At = append(l.Leaves, a.Append(nil)), append(l.At, now)
}

// ActLogs lists the writers, by ID.
func (m *Memory) ActLogs(context.Context) ([]dedupe.ActLog, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if err := m.usable(); err != nil {
		return nil, err
	}
	var out []dedupe.ActLog
	for w, l := range m.disk.Acts {
		if own := w == m.disk.Writer; own || len(l.Leaves) > 0 {
			out = append(out, dedupe.ActLog{Writer: w, Own: own, First: l.First, Next: l.next(), Keep: l.First + m.oldActs(l)})
		}
	}
	if m.disk.Acts[m.disk.Writer] == nil {
		out = append(out, dedupe.ActLog{Writer: m.disk.Writer, Own: true})
	}
	slices.SortFunc(out, func(a, b dedupe.ActLog) int { return cmp.Compare(a.Writer, b.Writer) })
	return out, nil
}

// oldActs counts the acts whose retention has ended.
func (m *Memory) oldActs(l *actLog) (n uint64) {
	keep := m.retention(dedupe.Retention{}).Audit
	for _, at := range l.At {
		if m.clock.now().Sub(at) < keep {
			break
		}
		n++
	}
	return n
}

// Acts returns acts of a writer from index from on.
func (m *Memory) Acts(_ context.Context, writer, from uint64, limit int) ([]dedupe.LoggedAct, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if err := m.usable(); err != nil {
		return nil, err
	}
	l := m.disk.Acts[writer]
	switch {
	case l == nil && writer == m.disk.Writer:
		return nil, nil
	case l == nil:
		return nil, fmt.Errorf("acts of writer %x: %w", writer, dedupe.ErrNotFound)
	case from < l.First:
		return nil, fmt.Errorf("act %d of writer %x: %w", from, writer, dedupe.ErrPruned)
	}
	var out []dedupe.LoggedAct
	for i := from; i < l.next() && len(out) < limit; i++ {
		out = append(out, dedupe.LoggedAct{Index: i, Leaf: l.Leaves[i-l.First]})
	}
	return out, nil
}

// EventActs returns the acts of one event.
func (m *Memory) EventActs(_ context.Context, ref event.Ref) (map[uint64][]dedupe.LoggedAct, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if _, err := m.find(ref); err != nil {
		return nil, err
	}
	out := map[uint64][]dedupe.LoggedAct{}
	for w, l := range m.disk.Acts {
		for i, leaf := range l.Leaves {
			a, err := dedupe.DecodeAct(leaf)
			if err != nil {
				return nil, fmt.Errorf("act %d of writer %x: %w: %w", i, w, dedupe.ErrDamaged, err)
			}
			if a.OfEvent(ref) {
				out[w] = append(out[w], dedupe.LoggedAct{Index: l.First + uint64(i), Leaf: leaf})
			}
		}
	}
	return out, nil
}

// SealActs allows acts to be dropped.
func (m *Memory) SealActs(_ context.Context, writer, at uint64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.usable(); err != nil {
		return err
	}
	m.sealed[writer] = max(m.sealed[writer], at)
	return nil
}

// expireActs drops what is old and sealed. The caller holds mu.
func (m *Memory) expireActs() {
	for w, l := range m.disk.Acts {
		n := m.oldActs(l)
		if sealed := m.sealed[w]; l.First+n > sealed {
			n = max(sealed, l.First) - l.First
		}
		l.First, l.Leaves, l.At = l.First+n, l.Leaves[n:], l.At[n:]
	}
}

// TamperAct changes a stored act, so that users can be tested against a ledger
// whose account was rewritten.
func (m *Memory) TamperAct(writer, index uint64, leaf []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.disk.Acts[writer]
	l.Leaves[index-l.First] = leaf
}
