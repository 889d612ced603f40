package admin

import (
	"slices"
	"time"
)

// Setup is what the pages show of the configuration in effect: redacted, and
// read-only.
type Setup struct {
	File     string
	Hash     string
	Text     string // TOML as "check --print" writes it
	LoadedAt time.Time

	// FailedAt is when a reload was last refused, and Faults why; zero when the
	// last one took effect.
	FailedAt time.Time
	Faults   []Fault

	Sources []SourceSetup
	Targets []TargetSetup
}

// SourceSetup is one source as configured.
type SourceSetup struct {
	Name     string
	Provider string // its name; Title is how its maker writes it
	Title    string
	Docs     string // address of the provider's own page
	URL      string // to be given to the provider, as far as it is known
	Signed   string // how a request proves itself, in words
	Secrets  []SecretSetup

	Window     time.Duration // for which an event ID is remembered
	Retries    time.Duration // for how long the provider sends again; 0 for unknown
	Tolerance  time.Duration // of a signed time; 0 where none is signed
	BodyLimit  int64
	KeepBodies time.Duration // retention of the bytes
	OnConflict string
	Handshake  bool // the provider asks before it sends
	Targets    []string
	Routes     []RouteSetup
	Fields     []string // names of its indexed fields, sorted
}

// RouteSetup is a target for some types of event.
type RouteSetup struct {
	Target string
	Types  []string
}

// SecretSetup is one secret, by its label alone.
type SecretSetup struct {
	ID        string
	NotBefore time.Time
	NotAfter  time.Time
	Missing   bool // its reference names something that is not there
	// Written is when the file it is read from was written, as the file system
	// says: of one that is mounted anew that may be when it was. Zero when it is
	// in no file.
	Written time.Time
}

// since is from when on the secret is known to be what it is, and what says so;
// the zero time when nothing does.
func (s *SecretSetup) since(now time.Time) (at time.Time, by string) {
	switch {
	case s.Missing:
	case !s.NotBefore.IsZero() && !s.NotBefore.After(now):
		return s.NotBefore, "by its not_before"
	case !s.Written.IsZero():
		return s.Written, "by its file"
	}
	return time.Time{}, ""
}

// TargetSetup is one target as configured.
type TargetSetup struct {
	Name        string
	Timeout     time.Duration
	Concurrency int
	GiveUp      time.Duration
	Retries     string   // the curve, in words
	Signing     []string // labels of signing secrets
	Headers     []string // names of headers that are added
	Sources     []string // that send to it
}

// Explanation is what can be said of a refusal from what is remembered of it.
type Explanation struct {
	Causes []string // the likeliest first
	Facts  []Fact
}

// Fact is one thing known, by name.
type Fact struct{ Name, Value string }

// Source finds a source by name.
func (s *Setup) source(name string) *SourceSetup {
	for i := range s.Sources {
		if s.Sources[i].Name == name {
			return &s.Sources[i]
		}
	}
	return &SourceSetup{Name: name}
}

// fields are the names of the indexed fields of all sources, sorted.
func (s *Setup) fields() []string {
	var out []string
	for i := range s.Sources {
		out = append(out, s.Sources[i].Fields...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func (s *Setup) target(name string) *TargetSetup {
	for i := range s.Targets {
		if s.Targets[i].Name == name {
			return &s.Targets[i]
		}
	}
	return &TargetSetup{Name: name}
}

// SourceTest is what became of one test event for a source.
type SourceTest struct {
	Source  string
	EventID string
	Ref     string // of the event, where the answer told it
	At      time.Time
	Status  int    // 0 when nothing was answered
	Answer  string // its beginning
	Problem string // why nothing was sent or answered, "" when it was
}
