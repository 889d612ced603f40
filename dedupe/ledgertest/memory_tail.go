package ledgertest

import (
	"context"
	"fmt"

	"github.com/onceward/onceward/dedupe"
)

// Tail lists events as they were accepted.
func (m *Memory) Tail(_ context.Context, cursor string, limit int) (dedupe.Page[dedupe.Record], error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	page := dedupe.Page[dedupe.Record]{Next: cursor}
	if err := m.usable(); err != nil {
		return page, err
	}
	if cursor == dedupe.TailEnd {
		page.Next = m.disk.Last.String()
		return page, nil
	}
	after, err := parseCursor(cursor)
	if err != nil {
		return page, fmt.Errorf("%w: %w", dedupe.ErrCursor, err)
	}
	page.Next = after.String()
	for _, r := range m.disk.Records {
		if r.Event.Ref.Compare(after) <= 0 {
			continue
		}
		page.Next = r.Event.Ref.String()
		rec := m.record(r)
		rec.After = page.Next
		page.Items = append(page.Items, rec)
		if len(page.Items) == clamp(limit) {
			break
		}
	}
	return page, nil
}
