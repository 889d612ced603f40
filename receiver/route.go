package receiver

import (
	"errors"
	"strings"

	"github.com/onceward/onceward/event"
)

// Routed is where an event goes.
type Routed struct {
	// Targets are named once each, in the order of the routes. None means the
	// event is unrouted.
	Targets []string
	// Flags say why, where that is unusual.
	Flags event.Flags
	// Fault joins what kept conditions from having a result.
	Fault error
}

// Select decides where an event goes. Its conditions see source, type, ID,
// method, query and header of ev, and body. A condition without a result is no
// match. Nothing is parsed unless a condition is asked.
func (s *Source) Select(ev *event.Event, body []byte) (r Routed) {
	var match func(int) (bool, error)
	for i := range s.Routes {
		route := &s.Routes[i]
		if !route.takes(ev.Type) || contains(r.Targets, route.Target) {
			continue
		}
		if route.Where {
			if match == nil {
				m, done := s.Conditions(ev, body)
				defer done()
				match = m
			}
			if ok, err := match(i); !ok {
				r.Fault = errors.Join(r.Fault, err)
				continue
			}
		}
		r.Targets = append(r.Targets, route.Target)
	}
	if r.Fault != nil {
		r.Flags |= event.FlagFilterError
	}
	if len(r.Targets) == 0 && len(s.Routes) > 0 {
		r.Flags |= event.FlagNoMatch
	}
	return r
}

func contains(list []string, s string) bool {
	for _, have := range list {
		if have == s {
			return true
		}
	}
	return false
}

func (r *Route) takes(eventType string) bool {
	if len(r.Types) == 0 {
		return true
	}
	for _, glob := range r.Types {
		if globMatch(glob, eventType) {
			return true
		}
	}
	return false
}

// globMatch reports whether s is what glob describes: * is any run, also an
// empty one; everything else is itself. It takes time linear in s per star.
func globMatch(glob, s string) bool {
	first, rest, star := strings.Cut(glob, "*")
	if !star {
		return glob == s
	}
	if !strings.HasPrefix(s, first) {
		return false
	}
	s = s[len(first):]
	for {
		part, after, more := strings.Cut(rest, "*")
		if !more {
			return strings.HasSuffix(s, part)
		}
		i := strings.Index(s, part)
		if i < 0 {
			return false
		}
		s, rest = s[i+len(part):], after
	}
}
