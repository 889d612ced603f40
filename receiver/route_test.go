package receiver

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/onceward/onceward/event"
)

func TestSelectTypes(t *testing.T) {
	t.Parallel()
	s := &Source{Routes: []Route{
		{Target: "all"}, {Target: "crm", Types: []string{"customer.*", "invoice.paid"}}, {Target: "all", Types: []string{"x"}},
		{Target: "odd", Types: []string{"*.a*b.*"}},
	}}
	for typ, want := range map[string][]string{
		"":                 {"all"},
		"customer.created": {"all", "crm"},
		"customer":         {"all"},
		"invoice.paid":     {"all", "crm"},
		"invoice.paid2":    {"all"},
		"x.a1b.y":          {"all", "odd"},
		"customer.ab.":     {"all", "crm", "odd"},
	} {
		if got := s.Select(&event.Event{Type: typ}, nil); !slices.Equal(got.Targets, want) || got.Flags != 0 || got.Fault != nil {
			t.Errorf("Select(%q) = %+v, want %q", typ, got, want)
		}
	}
}

// conditions answer by the number of the route and count how they are used.
type conditions struct {
	yes, broken    []int
	opened, closed int
	asked          []int
}

func (c *conditions) on(*event.Event, []byte) (func(int) (bool, error), func()) {
	c.opened++
	return func(n int) (bool, error) {
		c.asked = append(c.asked, n)
		if slices.Contains(c.broken, n) {
			return false, errors.New("no result")
		}
		return slices.Contains(c.yes, n), nil
	}, func() { c.closed++ }
}

func TestSelectConditions(t *testing.T) {
	t.Parallel()
	routes := []Route{
		{Target: "plain", Types: []string{"p"}},
		{Target: "a", Types: []string{"a"}, Where: true},
		{Target: "b", Types: []string{"a", "b"}, Where: true},
		{Target: "a", Types: []string{"a"}, Where: true},
	}
	for _, tt := range []struct {
		name, typ   string
		yes, broken []int
		want        []string
		flags       event.Flags
		reason      event.Unrouted
		asked       []int
	}{
		{name: "none asked", typ: "p", want: []string{"plain"}},
		{name: "no type matches", typ: "q", flags: event.FlagNoMatch, reason: event.UnroutedNoMatch},
		{name: "both", typ: "a", yes: []int{1, 2}, want: []string{"a", "b"}, asked: []int{1, 2}},
		{name: "second chance", typ: "a", yes: []int{3}, want: []string{"a"}, asked: []int{1, 2, 3}},
		{name: "no", typ: "b", flags: event.FlagNoMatch, reason: event.UnroutedNoMatch, asked: []int{2}},
		{name: "error is no match", typ: "b", yes: []int{2}, broken: []int{2}, flags: event.FlagNoMatch | event.FlagFilterError,
			reason: event.UnroutedFilterError, asked: []int{2}},
		{name: "error beside a match", typ: "a", yes: []int{2}, broken: []int{1}, want: []string{"b"}, flags: event.FlagFilterError, asked: []int{1, 2, 3}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := &conditions{yes: tt.yes, broken: tt.broken}
			got := (&Source{Routes: routes, Conditions: c.on}).Select(&event.Event{Type: tt.typ}, nil)
			if !slices.Equal(got.Targets, tt.want) || got.Flags != tt.flags || (got.Fault != nil) != tt.flags.Has(event.FlagFilterError) {
				t.Errorf("got %+v, want %v and flags %v", got, tt.want, tt.flags.Names())
			}
			if r := (&event.Event{Targets: got.Targets, Flags: got.Flags}).Unrouted(); r != tt.reason {
				t.Errorf("reason %q, want %q", r, tt.reason)
			}
			if once := min(len(tt.asked), 1); c.opened != once || c.closed != once || !slices.Equal(c.asked, tt.asked) {
				t.Errorf("opened %d, closed %d, asked %v; want once each if at all, and %v", c.opened, c.closed, c.asked, tt.asked)
			}
		})
	}
	if got := (&Source{}).Select(&event.Event{}, nil); got.Flags != 0 || (&event.Event{Flags: got.Flags}).Unrouted() != event.UnroutedNoTarget {
		t.Errorf("a source without routes: %+v, want no_target", got)
	}
}

// A condition without a result is counted and said, and the event is stored
// all the same.
func TestFilterErrorIsCounted(t *testing.T) {
	t.Parallel()
	src := source(t, "none")
	src.Routes = []Route{{Target: "a", Where: true}}
	src.Conditions = (&conditions{broken: []int{0}}).on
	f := setup(t, []*Source{src}, nil)
	f.send(t, message{path: "/in/none", body: `{"pin":1}`}).want(t, 200)
	all := f.all(t)
	if len(all) != 1 || len(all[0].Event.Targets) != 0 || !all[0].Event.Flags.Has(event.FlagFilterError) || all[0].Status != event.StatusUnrouted {
		t.Errorf("stored %+v, want one event without targets, flagged", all)
	}
	if got := f.metric(t, "onceward_route_filter_errors_total", "source", "none"); got != 1 {
		t.Errorf("counted %v, want 1", got)
	}
	if log := f.logs.String(); !strings.Contains(log, "ingest.filter_error") || strings.Contains(log, "pin") {
		t.Errorf("log %q, want the error and nothing of the body", log)
	}
}
