package ledgertest

import (
	"cmp"
	"context"
	"slices"

	"github.com/onceward/onceward/dedupe"
)

func noteKey(n *dedupe.Note) [2]string { return [2]string{n.Kind, n.Name} }

// PutNote keeps a note.
func (m *Memory) PutNote(_ context.Context, n dedupe.Note) (dedupe.Note, error) {
	if err := n.Check(); err != nil {
		return dedupe.Note{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.usable(); err != nil {
		return dedupe.Note{}, err
	}
	if err := m.putNote(&n); err != nil {
		return dedupe.Note{}, err
	}
	return n, nil
}

// putNote keeps n and gives it its new version. The caller holds mu.
func (m *Memory) putNote(n *dedupe.Note) error {
	if m.disk.Notes[noteKey(n)].Version != n.Version {
		return dedupe.ErrStale
	}
	n.Version++
	n.UpdatedAt = m.clock.now()
	n.Value = slices.Clone(n.Value)
	m.disk.Notes[noteKey(n)] = *n
	return nil
}

// Note reads a note.
func (m *Memory) Note(_ context.Context, kind, name string) (dedupe.Note, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if err := m.usable(); err != nil {
		return dedupe.Note{}, err
	}
	n, ok := m.disk.Notes[[2]string{kind, name}]
	if !ok {
		return n, dedupe.ErrNotFound
	}
	n.Value = slices.Clone(n.Value)
	return n, nil
}

// Notes lists the notes of a kind.
func (m *Memory) Notes(_ context.Context, kind string) ([]dedupe.Note, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if err := m.usable(); err != nil {
		return nil, err
	}
	var out []dedupe.Note
	for _, n := range m.disk.Notes {
		if n.Kind == kind {
			n.Value = slices.Clone(n.Value)
			out = append(out, n)
		}
	}
	slices.SortFunc(out, func(a, b dedupe.Note) int { return cmp.Compare(a.Name, b.Name) })
	return out, nil
}

// DropNote removes a note.
func (m *Memory) DropNote(_ context.Context, n dedupe.Note) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.usable(); err != nil {
		return err
	}
	have, ok := m.disk.Notes[noteKey(&n)]
	if !ok {
		return dedupe.ErrNotFound
	}
	if have.Version != n.Version {
		return dedupe.ErrStale
	}
	delete(m.disk.Notes, noteKey(&n))
	return nil
}
