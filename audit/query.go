package audit

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

// The size of a page: what a listing gives when nothing is said, and the
// most it gives.
const (
	DefaultLimit = 50
	MaxLimit     = 500
)

// InvalidError says what is wrong with an argument and what to write
// instead.
type InvalidError struct{ Problem string }

// Error is the problem as a sentence without a full stop.
func (e *InvalidError) Error() string { return e.Problem }

func invalid(format string, args ...any) error {
	return &InvalidError{Problem: fmt.Sprintf(format, args...)}
}

// Kind says what a query lists.
type Kind string

// The kinds of queries.
const (
	KindEvents     Kind = "events"
	KindDeliveries Kind = "deliveries"
	KindReplay     Kind = "replays"
)

// Args are the conditions of a listing or replay as a person writes them;
// empty ones select everything. Times are RFC 3339, or an age like "90s",
// "24h" or "7d". Since is another word for From.
type Args struct {
	Source string `json:"source,omitempty"`
	Type   string `json:"type,omitempty"`   // exact, or a glob with *
	Status string `json:"status,omitempty"` // of the event
	State  string `json:"state,omitempty"`  // of the delivery; not for a list of events
	Target string `json:"target,omitempty"`
	ID     string `json:"id,omitempty"`    // the provider's event ID, exact
	Where  string `json:"where,omitempty"` // NAME=VALUE of an indexed field, exact
	From   string `json:"from,omitempty"`
	To     string `json:"to,omitempty"`
	Since  string `json:"since,omitempty"`
}

// fields ties the name of each argument to its place.
func (a *Args) fields() []field {
	return []field{
		{"source", &a.Source}, {"type", &a.Type}, {"status", &a.Status}, {"state", &a.State},
		{"target", &a.Target}, {"id", &a.ID}, {"where", &a.Where}, {"from", &a.From}, {"to", &a.To}, {"since", &a.Since},
	}
}

type field struct {
	name string
	to   *string
}

// IsZero reports whether no condition is set.
func (a Args) IsZero() bool { return a == Args{} }

// Values writes the conditions as query parameters, leaving empty ones out.
func (a Args) Values() url.Values {
	v := url.Values{}
	for _, f := range a.fields() {
		if *f.to != "" {
			v.Set(f.name, *f.to)
		}
	}
	return v
}

// Query is one page of a listing, checked. Make it with ParseQuery or
// Args.Query.
type Query struct {
	Kind   Kind
	Filter dedupe.Filter
	Cursor string // as given out with the page before; "" is the first page
	Limit  int    // 1 to MaxLimit
	// Budget is how long one page may go on looking for records that match. A
	// page that ends by it may be short, or empty, and has a Next. Default 1s.
	Budget time.Duration
	// PastDamage passes over events that can't be read and names them in the
	// page, for people who look: without it one is an error, and no program takes
	// a page with a hole for whole.
	PastDamage bool
}

// ParseQuery reads a listing's query parameters: the arguments of Args,
// cursor and limit. A parameter that is unknown, given twice or does not
// parse is an *InvalidError.
func ParseQuery(kind Kind, v url.Values, now time.Time) (Query, error) {
	var a Args
	fields := append(a.fields(), field{"cursor", new(string)}, field{"limit", new(string)})
	for name, vals := range v {
		i := slices.IndexFunc(fields, func(f field) bool { return f.name == name })
		switch {
		case i < 0:
			return Query{}, invalid("unknown parameter %q: want one of %s", name, names(fields))
		case len(vals) > 1:
			return Query{}, invalid("parameter %q is given %d times: once is enough", name, len(vals))
		}
		*fields[i].to = vals[0]
	}
	q, err := a.Query(kind, now)
	if err != nil {
		return Query{}, err
	}
	q.Cursor = *fields[len(fields)-2].to
	if q.Limit, err = ParseLimit(*fields[len(fields)-1].to); err != nil {
		return Query{}, err
	}
	return q, nil
}

func names(fields []field) string {
	out := make([]string, len(fields))
	for i, f := range fields {
		out[i] = f.name
	}
	return strings.Join(out, ", ")
}

// ParseLimit reads a page size; "" is DefaultLimit.
func ParseLimit(s string) (int, error) {
	if s == "" {
		return DefaultLimit, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > MaxLimit {
		return 0, invalid("limit %q: want a number from 1 to %d", s, MaxLimit)
	}
	return n, nil
}

// Query checks the arguments for one kind of query. What does not parse or
// does not apply is an *InvalidError.
func (a Args) Query(kind Kind, now time.Time) (Query, error) {
	f := dedupe.Filter{Source: a.Source, Type: a.Type, Target: a.Target, State: a.State, ID: a.ID}
	if err := a.states(kind, &f); err != nil {
		return Query{}, err
	}
	if a.ID != "" {
		f.ID, _ = dedupe.FrameID(a.ID)
	}
	if a.Where != "" {
		var ok bool
		if f.Field, f.Value, ok = strings.Cut(a.Where, "="); !ok || f.Field == "" {
			return Query{}, invalid("where %q: want NAME=VALUE of an indexed field, as in customer=cus_9", a.Where)
		}
	}
	from := a.From
	if a.Since != "" {
		if from != "" {
			return Query{}, invalid("since and from are two words for one bound: give one")
		}
		from = a.Since
	}
	var err error
	if f.From, err = ParseTime("from", from, now); err != nil {
		return Query{}, err
	}
	if f.To, err = ParseTime("to", a.To, now); err != nil {
		return Query{}, err
	}
	if !f.From.IsZero() && !f.To.IsZero() && !f.From.Before(f.To) {
		return Query{}, invalid("from must be before to")
	}
	return Query{Kind: kind, Filter: f, Limit: DefaultLimit}, nil
}

func (a Args) states(kind Kind, f *dedupe.Filter) error {
	if a.State != "" && kind == KindEvents {
		return invalid("state selects deliveries: events have a status (%s)", statuses())
	}
	if _, ok := event.ParseState(a.State); a.State != "" && !ok {
		return invalid("state %q: want pending, leased, delivered, dead or cancelled", a.State)
	}
	f.Status = event.Status(a.Status)
	if a.Status != "" && !slices.Contains(allStatuses, f.Status) {
		return invalid("status %q: want one of %s", a.Status, statuses())
	}
	return nil
}

var allStatuses = []event.Status{
	event.StatusPending, event.StatusDelivered, event.StatusDead, event.StatusCancelled, event.StatusUnrouted,
}

func statuses() string {
	out := make([]string, len(allStatuses))
	for i, s := range allStatuses {
		out[i] = string(s)
	}
	return strings.Join(out, ", ")
}

// ParseTime reads an RFC 3339 time, or an age before now; "" is the zero time.
// name is what the error calls it.
func ParseTime(name, s string, now time.Time) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	if t, err := time.Parse(time.RFC3339Nano, s); err == nil {
		return t, nil
	}
	age, ok := parseAge(s)
	if !ok {
		return time.Time{}, invalid("%s %q: want a time like 2006-01-02T15:04:05Z or an age like 24h or 7d", name, s)
	}
	return now.Add(-age), nil
}

// ParseAge reads a duration in Go's form, or a whole number of days like 7d.
func ParseAge(s string) (time.Duration, error) {
	d, ok := parseAge(s)
	if !ok {
		return 0, invalid("age %q: want a duration like 90s, 24h or 7d", s)
	}
	return d, nil
}

func parseAge(s string) (time.Duration, bool) {
	if days, ok := strings.CutSuffix(s, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 16)
		if err != nil || n > 36500 {
			return 0, false
		}
		return time.Duration(n) * 24 * time.Hour, true
	}
	d, err := time.ParseDuration(s)
	return d, err == nil && d >= 0
}
