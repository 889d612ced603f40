package admin

import (
	"time"

	"github.com/onceward/onceward/audit"
	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

// AuditKey is the key that checkpoints are signed with, and where several
// gateways share a ledger those of all of them, its own first.
type AuditKey struct {
	Key string   `json:"public_key"`
	All []string `json:"public_keys,omitempty"`
}

// Checkpoint is a signed statement of a log's size and root.
type Checkpoint struct {
	Log      string    `json:"log"`
	Size     uint64    `json:"size"`
	Root     string    `json:"root"` // base64
	SignedAt time.Time `json:"signed_at"`
	Note     string    `json:"note"` // as it was signed
}

// The views of the account, under the names the client's users need.
type (
	Event       = audit.Event
	Detail      = audit.Detail
	Delivery    = audit.Delivery
	Attempt     = audit.Attempt
	Phases      = audit.Phases
	Filter      = audit.Args
	CheckReport = dedupe.CheckReport
	Act         = audit.LogAct
	Receipt     = audit.Receipt
)

// Page is one page of a listing; Next is the cursor of the page that follows
// and empty at the end. A page that has a Next may be short, or empty.
type Page[T any] = dedupe.Page[T]

// Build says which program this is.
type Build struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Go       string `json:"go"`
}

// Source is the state of one configured source.
type Source struct {
	Name         string            `json:"name"`
	Path         string            `json:"path"`
	Provider     string            `json:"provider"`
	Auth         string            `json:"auth,omitempty"`
	Offline      string            `json:"offline,omitempty"` // why it answers 503; "" when it takes events
	LastAccepted time.Time         `json:"last_accepted_at,omitzero"`
	Counts       map[string]uint64 `json:"counts"`  // requests by outcome, since start
	Refused      map[string]uint64 `json:"refused"` // of those, by reason, where there were any
}

// Target is the state of one target: configured, or missing with work left.
type Target struct {
	Name        string            `json:"name"`
	URL         string            `json:"url"` // scheme and host only: the path may be a credential
	Missing     bool              `json:"missing"`
	InFlight    int               `json:"in_flight"`
	LastSuccess time.Time         `json:"last_success_at,omitzero"`
	LastFailure time.Time         `json:"last_failure_at,omitzero"`
	Attempts    map[string]uint64 `json:"attempts"` // by outcome, since start
	Failures    int               `json:"consecutive_failures"`
	Paused      bool              `json:"paused"` // nothing is attempted
	PausedAt    time.Time         `json:"paused_at,omitzero"`
	PausedBy    string            `json:"paused_by,omitempty"`
	PauseReason string            `json:"pause_reason,omitempty"`
	Breaker     Breaker           `json:"breaker"`

	// Of the ledger.
	Pending int64 `json:"pending"`
	Leased  int64 `json:"leased"`
	Dead    int64 `json:"dead"`
	// Behind are those pending that wait for another with the same value of
	// ordered_by, BlockedKeys the values that a dead delivery holds up.
	Behind      int64   `json:"behind"`
	BlockedKeys int64   `json:"blocked_keys"`
	OldestAge   float64 `json:"oldest_pending_age_s"` // 0 when nothing is open
}

// RefusalQuery selects refusals; zero fields select everything.
type RefusalQuery struct {
	Source string
	Reason string
	Since  time.Time
	Limit  int
}

// Refusal is a request that did not verify, as far as it is remembered. Its
// credentials are already replaced; the listener masks once more. A list
// leaves Body out.
type Refusal struct {
	ID          string        `json:"id"`
	At          time.Time     `json:"at"`
	Source      string        `json:"source"`
	Reason      string        `json:"reason"`
	Detail      string        `json:"detail,omitempty"`
	Remote      string        `json:"remote"`
	Method      string        `json:"method"`
	Path        string        `json:"path,omitempty"`
	Header      []event.Field `json:"header"`
	BodyBytes   int64         `json:"body_bytes"`
	BodySHA256  string        `json:"body_sha256,omitempty"`
	Body        string        `json:"body,omitempty"`         // its beginning
	BodyOmitted bool          `json:"body_omitted,omitempty"` // not kept, because it may hold a credential
	Skew        *float64      `json:"skew_s,omitempty"`       // of the request's timestamp, when it had one
}

// Fault is one thing wrong with a configuration.
type Fault struct {
	File    string `json:"file,omitempty"`
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
	Key     string `json:"key,omitempty"`
	Problem string `json:"problem"`
	Remedy  string `json:"remedy,omitempty"`
	Warning bool   `json:"warning"`
}

// Ledger is the state of the ledger.
type Ledger struct {
	Events     uint64    `json:"events"` // accepted since the ledger was made
	Batches    uint64    `json:"batches"`
	LastRef    event.Ref `json:"last_ref,omitzero"`
	SizeBytes  int64     `json:"size_bytes"`
	FreeBytes  int64     `json:"free_bytes"`
	Reserve    int64     `json:"reserve_bytes"`
	ReadOnly   bool      `json:"read_only"`  // intake is refused now
	Rebuilding bool      `json:"rebuilding"` // the schedule is still being read back
	ClockHold  bool      `json:"clock_hold"` // expiry waits for the clock
	// UnknownKeys is how many keys of synchronous routes wait to be settled.
	UnknownKeys int64 `json:"unknown_keys"`
	// Concerns are what an operator should see to: the ledger works meanwhile, but
	// less well, or not for ever.
	Concerns []dedupe.Concern `json:"concerns,omitempty"`
}

// Gateway is one of those that share the ledger, as this one last saw it.
type Gateway struct {
	Name    string    `json:"name"`
	Own     bool      `json:"own"` // the one that answers
	Writer  string    `json:"writer"`
	Since   time.Time `json:"since"`
	Age     float64   `json:"heartbeat_age_s"`
	Dead    bool      `json:"dead"`        // it counts no more
	Share   float64   `json:"rate_share"`  // of every target's rate
	Config  string    `json:"config_hash"` // of providers, sources, targets and retention
	Version string    `json:"version"`
	// Problem is what is wrong with it, in words.
	Problem string `json:"problem,omitempty"`
}

// Status is everything that "onceward status" prints.
type Status struct {
	Build     Build     `json:"build"`
	Now       time.Time `json:"now"`
	StartedAt time.Time `json:"started_at"`
	Ready     bool      `json:"ready"`
	Problem   string    `json:"problem,omitempty"` // why it is not ready
	Sources   []Source  `json:"sources"`
	Targets   []Target  `json:"targets"`
	Ledger    Ledger    `json:"ledger"`
	// Gateways are those that share the ledger; none on a ledger of one.
	Gateways []Gateway `json:"gateways,omitempty"`
}

// Probe is one part of a Health.
type Probe struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail,omitempty"`
}

// Health says whether the gateway takes and forwards events. Probes is
// filled when asked for with verbose.
type Health struct {
	OK     bool    `json:"ok"`
	Probes []Probe `json:"probes,omitempty"`
}

// ReplayRequest asks for stored events to be sent again: one, by its ref or
// the provider's ID, or all that match Filter.
type ReplayRequest struct {
	ID      string `json:"id,omitempty"`     // ref or provider's ID
	Source  string `json:"source,omitempty"` // where to look ID up; "" is every source
	Filter  Filter `json:"filter,omitzero"`
	Target  string `json:"target,omitempty"` // only this one
	NewKey  bool   `json:"new_key,omitempty"`
	Reroute bool   `json:"reroute,omitempty"` // today's routes in place of the original targets
	DryRun  bool   `json:"dry_run,omitempty"`
	Cursor  string `json:"cursor,omitempty"` // Next of the call before
	Job     bool   `json:"job,omitempty"`    // go on in the background; the answer is a Job
	Rate    string `json:"rate,omitempty"`   // of a job: deliveries in a length of time, as "20/s"
	Reason  string `json:"reason,omitempty"` // for the account
}

// ReplayResult says what a replay did, or would do. With a Next the
// selection goes on: call again with it.
type ReplayResult struct {
	dedupe.ReplayCount
	DryRun bool `json:"dry_run"`
}

// CancelRequest narrows a cancellation.
type CancelRequest struct {
	Target string `json:"target,omitempty"` // "" is every target
	Reason string `json:"reason,omitempty"` // for the account
}

// CancelResult says what a cancellation did.
type CancelResult struct {
	Ref       event.Ref `json:"ref"`
	Cancelled int       `json:"cancelled"` // deliveries closed
}

// ReloadResult is the answer to a reload that was done.
type ReloadResult struct {
	Warnings []Fault `json:"warnings"`
}
