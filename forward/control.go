package forward

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/onceward/onceward/dedupe"
)

const (
	// MaxPause is how much of the time that a target was paused doesn't count
	// towards the give-up of one delivery.
	MaxPause = 14 * 24 * time.Hour
	// maxPauses and pauseKept bound the ended pauses that are remembered.
	maxPauses = 256
	pauseKept = 200 * 24 * time.Hour
)

// control is what operators decided about a target, as it is kept in the
// ledger. The zero control is a target that runs.
type control struct {
	Paused bool      `json:"paused"`
	Since  time.Time `json:"since,omitzero"` // ledger time of the present pause
	At     time.Time `json:"at,omitzero"`    // wall clock of the last act
	By     string    `json:"by,omitempty"`
	Reason string    `json:"reason,omitempty"`
	Ended  []span    `json:"ended,omitempty"` // earlier pauses, oldest first
}

// span is a pause that ended, in ledger time.
type span struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
}

// pause begins a pause; false when there is one.
func (c *control) pause(at moment, by dedupe.By) bool {
	if c.Paused {
		return false
	}
	c.Paused, c.Since, c.At, c.By, c.Reason = true, at.ledger, at.wall, by.Actor, by.Reason
	return true
}

// resume ends the pause; false when there is none.
func (c *control) resume(at moment, by dedupe.By) bool {
	if !c.Paused {
		return false
	}
	ended := append([]span(nil), c.Ended...)
	ended = append(ended, span{c.Since, at.ledger})
	for len(ended) > maxPauses || len(ended) > 0 && at.ledger.Sub(ended[0].To) > pauseKept {
		ended = ended[1:]
	}
	*c = control{At: at.wall, By: by.Actor, Reason: by.Reason, Ended: ended}
	return true
}

// stopped is for how long, between from and now, the give-up clock stood.
func (c *control) stopped(from, now time.Time) time.Duration {
	var sum time.Duration
	for _, s := range c.Ended {
		sum += overlap(s, from, now)
	}
	if c.Paused {
		sum += overlap(span{c.Since, now}, from, now)
	}
	return min(sum, MaxPause)
}

func overlap(s span, from, to time.Time) time.Duration {
	if s.From.After(from) {
		from = s.From
	}
	if s.To.Before(to) {
		to = s.To
	}
	return max(to.Sub(from), 0)
}

func parseControl(value []byte) (c control, err error) {
	if len(value) == 0 {
		return c, nil
	}
	if err := json.Unmarshal(value, &c); err != nil {
		return c, fmt.Errorf("decode control of a target: %w", err)
	}
	return c, nil
}
