package badgerdb

import (
	"sync"
	"time"
)

// clock is ledger time: the larger of the persisted mark and the wall clock
// at start, monotonic from there whatever the wall clock does.
type clock struct {
	wall  func() time.Time
	start time.Time // wall clock at start, with its monotonic reading
	base  time.Time // ledger time at start

	mu   sync.Mutex
	last time.Time
}

func (c *clock) init(wall func() time.Time, mark time.Time) {
	c.wall, c.start = wall, wall()
	if !guarded {
		c.start = c.start.Round(0)
	}
	c.base = c.start.Round(0).Truncate(time.Millisecond)
	if mark.After(c.base) {
		c.base = mark
	}
	c.last = c.base
}

// now is milliseconds exact: it is what refs and records keep.
func (c *clock) now() time.Time {
	// Sub uses the monotonic reading where there is one.
	t := c.base.Add(c.wall().Sub(c.start)).Truncate(time.Millisecond)
	c.mu.Lock()
	defer c.mu.Unlock()
	if t.After(c.last) {
		c.last = t
		return t
	}
	return c.last
}
