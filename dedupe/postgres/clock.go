package postgres

import (
	"sync"
	"time"
)

// clock is ledger time as this gateway knows it: the database's clock as last
// heard, going on by the process's own monotonic one, and never back. With a
// wall clock of its own it goes by that one, from the later of it and the mark.
type clock struct {
	wall func() time.Time // nil: the database's

	mu      sync.Mutex // guards the rest
	started time.Time  // by the local clock
	base    time.Time  // ledger time at started
	last    time.Time
}

func newClock(wall func() time.Time, database, mark time.Time) *clock {
	c := &clock{wall: wall, started: time.Now(), base: database}
	if wall != nil {
		c.started = wall()
		c.base = c.started.Round(0)
	}
	if mark.After(c.base) {
		c.base = mark
	}
	c.last = c.base
	return c
}

func (c *clock) local() time.Time {
	if c.wall != nil {
		return c.wall()
	}
	return time.Now()
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t := c.base.Add(c.local().Sub(c.started)); t.After(c.last) {
		c.last = t
	}
	return c.last
}

// heard takes over what the database's clock said just now.
func (c *clock) heard(ms int64) {
	if c.wall != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.started, c.base = time.Now(), time.UnixMilli(ms)
}

// param is what statements take as the present time: nothing, so that the database's clock
// decides, unless this one has a wall clock of its own.
func (c *clock) param() *int64 {
	if c.wall == nil {
		return nil
	}
	ms := c.now().UnixMilli()
	return &ms
}
