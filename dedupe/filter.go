package dedupe

import (
	"strings"

	"github.com/onceward/onceward/event"
)

// MatchRecord reports whether the filter selects an event. Target selects
// events that have a delivery for it; State is not looked at.
func (f Filter) MatchRecord(rec *Record) bool {
	if !f.MatchEvent(&rec.Event) || f.Status != "" && f.Status != rec.Status {
		return false
	}
	if f.Target == "" {
		return true
	}
	for i := range rec.Deliveries {
		if rec.Deliveries[i].Target == f.Target {
			return true
		}
	}
	return false
}

// MatchDelivery reports whether the filter selects delivery d of rec.
func (f Filter) MatchDelivery(rec *Record, d *event.Delivery) bool {
	return f.MatchEvent(&rec.Event) &&
		(f.Status == "" || f.Status == rec.Status) &&
		(f.Target == "" || f.Target == d.Target) &&
		(f.State == "" || f.State == d.State.String())
}

// MatchEvent reports whether what never changes of an event is selected:
// Source, Type, ID, Field and the bounds of time. The other fields are not looked at.
func (f Filter) MatchEvent(ev *event.Event) bool {
	if f.Source != "" && f.Source != ev.Source || f.Type != "" && !Glob(f.Type, ev.Type) {
		return false
	}
	if f.ID != "" {
		if framed, _ := FrameID(f.ID); framed != ev.ID {
			return false
		}
	}
	if f.Field != "" && !ev.IndexedAs(f.Field, f.Value) {
		return false
	}
	return (f.From.IsZero() || !ev.ReceivedAt.Before(f.From)) && (f.To.IsZero() || ev.ReceivedAt.Before(f.To))
}

// Glob reports whether s is pattern, in which each * stands for any run of
// bytes, also an empty one, and nothing else is special.
func Glob(pattern, s string) bool {
	head, rest, star := strings.Cut(pattern, "*")
	if !star {
		return pattern == s
	}
	if !strings.HasPrefix(s, head) {
		return false
	}
	s = s[len(head):]
	for {
		part, more, star := strings.Cut(rest, "*")
		if !star {
			return strings.HasSuffix(s, part)
		}
		i := strings.Index(s, part)
		if i < 0 {
			return false
		}
		s, rest = s[i+len(part):], more
	}
}
