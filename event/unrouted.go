package event

// Unrouted is why an event was bound for no target when it was accepted: a
// closed set.
type Unrouted string

// The reasons of an event without targets.
const (
	UnroutedNoTarget    Unrouted = "no_target"    // its source sends to none
	UnroutedNoMatch     Unrouted = "no_match"     // no route took it
	UnroutedFilterError Unrouted = "filter_error" // no route took it, and a condition had no result
)

// Unrouted is why the event has no targets, "" when it has some.
func (ev *Event) Unrouted() Unrouted {
	switch {
	case len(ev.Targets) > 0:
		return ""
	case ev.Flags.Has(FlagFilterError):
		return UnroutedFilterError
	case ev.Flags.Has(FlagNoMatch):
		return UnroutedNoMatch
	}
	return UnroutedNoTarget
}
