package dedupe

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/onceward/onceward/event"
)

// What callers of a ledger branch on.
var (
	ErrNotFound   = errors.New("not found")
	ErrDamaged    = errors.New("ledger is damaged")               // something that must be there is not, or fails its checksum
	ErrPruned     = errors.New("pruned by retention")             // was there, is gone as configured
	ErrOverloaded = errors.New("too much waiting for the ledger") // nothing was written; try again later
	ErrDiskLow    = errors.New("disk space is below the reserve") // nothing was written; try again later
	ErrTooLarge   = errors.New("too many events for one transaction")
	ErrClosed     = errors.New("ledger is closed")
	ErrFatal      = errors.New("ledger failed and must be reopened") // outcome unknown
	ErrAway       = errors.New("the ledger's database is away")      // outcome unknown; try again later, it comes back by itself
	ErrLocked     = errors.New("ledger is in use by another process")
	ErrCursor     = errors.New("not a cursor of this listing")
	ErrNewer      = errors.New("ledger was written by a newer version")
)

// Batch is what one transaction holds. An engine applies it whole, durably,
// and fills in the outcomes, or returns an error and leaves them unknown.
type Batch struct {
	Requests []*Request
	Results  []*Result
	Acts     []*Act // that follow from neither: refusals counted, operators' acts
	Keys     []*KeyStep
}

// Committer applies batches. Calls are serial.
type Committer interface {
	// Commit decides and writes every request and applies every result in
	// fsynced transactions, each request whole in one of them (bodies too
	// large for that go ahead in transactions of their own). Then it applies
	// every key step in order: read the record, ask KeyStep.Apply, write what it
	// says, in one transaction. When it returns nil, all of it is durable and
	// new deliveries are on the schedule, but for requests and steps whose Err
	// is set: nothing of those was written. An error is ErrOverloaded: nothing
	// was written and the next batch may be. Or ErrAway, of an engine that is a
	// Rejoiner: the outcome is unknown until Rejoin says it. Any other is
	// ErrFatal: the outcome is unknown and the engine takes no further batch.
	Commit(ctx context.Context, b *Batch) error
}

// Rejoiner is a Committer that can lose contact with its ledger and find it
// again, which is no failure of the ledger.
type Rejoiner interface {
	Committer
	// Rejoin makes contact again after a Commit that was ErrAway and says
	// whether the batch of that Commit is durable after all; from then on that
	// stands, and the next batch is taken. ErrAway while there is no contact or
	// what became of the batch can't be told yet; any other error is ErrFatal.
	// Calls are serial, with those of Commit.
	Rejoin(ctx context.Context) (written bool, err error)
}

// Lease is the right to attempt a delivery until Until. Its Token fences the
// result: after another lease of the same delivery it no longer counts.
type Lease struct {
	Delivery event.Delivery
	Token    uint64
	Until    time.Time // ledger time
	// Size is the length of the event's body, so that room for it can be had
	// before it is loaded.
	Size int64
}

// Result ends a lease with one recorded attempt.
type Result struct {
	Lease   Lease
	State   event.State   // Delivered, Dead, Cancelled, or Pending for another try
	Delay   time.Duration // until the next try, when Pending; the ledger adds it to its clock
	Attempt event.Attempt
	// NoAttempt closes or postpones the delivery without an attempt record:
	// nothing went on the wire.
	NoAttempt bool

	// Late is set by the ledger: the lease was lost, the attempt is recorded
	// as late and the delivery unchanged.
	Late bool
}

// Loaded is what an attempt needs of an event. Body is the event's exact
// bytes, checked against the event's hash and length by Load.
type Loaded struct {
	Event *event.Event // read-only
	Body  []byte       // read-only
}

// Dispatch is the forwarder's side of a ledger. All methods are safe for
// concurrent use.
type Dispatch interface {
	// Now is the ledger clock: never behind the persisted mark, monotonic.
	Now() time.Time
	// Lease takes up to n due deliveries of target, earliest first, for ttl.
	// No delivery is under two live leases; a lease not ended by ttl is lost
	// and its delivery due again. next is when the earliest delivery not
	// leased now falls due, zero when there is none.
	// Deliveries that a replay opened may yield to the others, but not for good.
	// Of the deliveries of a target with one event.Order only the first that is
	// open is due, in commit order, generations of a replay last; and none while
	// a dead one blocks them. The lease of one holds up no others.
	Lease(ctx context.Context, target string, n int, ttl time.Duration) (leases []Lease, next time.Time, err error)
	// Load returns event and body. An event that fails its checks is
	// ErrDamaged; a body gone by retention is ErrPruned.
	Load(ctx context.Context, ref event.Ref) (Loaded, error)
	// Release gives leases back without an attempt; the deliveries are due at
	// once. Lost leases are ignored.
	Release(ctx context.Context, leases ...Lease) error
	// Extend prolongs a lease by ttl from now, false when it was lost.
	Extend(ctx context.Context, l Lease, ttl time.Duration) (bool, error)
	// Begin notes that an attempt is about to go on the wire under l, before it
	// does. If no result of it is committed by the time the ledger is opened
	// again, because the process was killed meanwhile, the account shows it as
	// an attempt of outcome OutcomeUnknown, and the delivery is due again. The
	// note outlives the process at once, and a power cut within 100 ms.
	Begin(ctx context.Context, l Lease) error
	// Wake receives a value when deliveries of target may have become due: a
	// hint, never more than one waiting. The channel is the same for every
	// call with one name.
	Wake(target string) <-chan struct{}
	// Targets lists every target name that has open deliveries.
	Targets() []string
}

// Filter selects events or deliveries. Zero fields select everything; From
// and To are wall-clock bounds, From inclusive, To exclusive.
type Filter struct {
	Source string
	Type   string // exact, or a glob with *
	Status event.Status
	State  string // delivery state by name; deliveries only
	Target string
	ID     string // the provider's event ID, exact; found by an index, with or without Source
	// Field and Value select events of which the indexed field has that value,
	// exact. They use an index, with or without Source.
	Field string
	Value string
	From  time.Time
	To    time.Time
}

// Page is one page of a listing. Next is empty at the end; a page may hold
// fewer records than asked for, even none, and still have a Next, because the
// scan of one page is bounded.
type Page[T any] struct {
	Items []T    `json:"items"`
	Next  string `json:"next"`
	// Damaged are the events between the items that can't be read, only where
	// they were asked to be passed over: otherwise one is an error.
	Damaged []event.Ref `json:"damaged,omitempty"`
}

// EventError says which event an error of a listing is about. Of Account.Events and
// Account.Deliveries it comes with the page up to there; the ref is the cursor
// of what is behind it.
type EventError struct {
	Ref event.Ref
	Err error
}

// Error is the error with the event's ref.
func (e *EventError) Error() string { return "event " + e.Ref.String() + ": " + e.Err.Error() }

// Unwrap is the error itself.
func (e *EventError) Unwrap() error { return e.Err }

// TailEnd is the cursor of Tail that stands after the newest event.
const TailEnd = "end"

// Record is an event with what happened to it since.
type Record struct {
	Event      event.Event      `json:"event"`
	Status     event.Status     `json:"status"`
	Deliveries []event.Delivery `json:"deliveries"`
	Tally      event.Tally      `json:"tally"`
	BodyGone   bool             `json:"body_pruned"` // retention took the bytes
	// After is the cursor of Tail that stands after this event; Tail alone sets
	// it.
	After string `json:"-"`
}

// DeliveryRow is a delivery with what a list shows of its event.
type DeliveryRow struct {
	event.Delivery
	ID         string    `json:"id"`  // event.Delivery.DeliveryID
	Key        string    `json:"key"` // idempotency key of its attempts
	Source     string    `json:"source"`
	EventID    string    `json:"event_id"`
	Type       string    `json:"type"`
	ReceivedAt time.Time `json:"received_at"`
}

// Account is the reading side of a ledger. A read after Commit returned sees
// what it wrote. Lists run newest first and are stable under inserts.
type Account interface {
	// Lookup finds events by the provider's ID, newest first, also after the
	// claim has expired, in the sources named. The name "" stands for every
	// source that the ledger knows to have had events, configured or not.
	Lookup(ctx context.Context, sources []string, id string) ([]event.Ref, error)
	// Get returns ErrNotFound for a ref this ledger never gave, ErrPruned for
	// one that retention took, ErrDamaged for one that must be there.
	Get(ctx context.Context, ref event.Ref) (Record, error)
	// Body is the event's exact bytes.
	Body(ctx context.Context, ref event.Ref) ([]byte, error)
	Events(ctx context.Context, f Filter, cursor string, limit int) (Page[Record], error)
	Deliveries(ctx context.Context, f Filter, cursor string, limit int) (Page[DeliveryRow], error)
	// Tail lists events in the order in which they were accepted, from the one
	// that follows cursor on. The empty cursor is before the oldest event kept,
	// TailEnd after the newest, a ref alone after all events below it. Next is
	// always set: the cursor to go on with, also when there is nothing yet. What
	// retention took is left out. Of several writers the events appear in any
	// order, each once.
	Tail(ctx context.Context, cursor string, limit int) (Page[Record], error)
	// Attempts of one event, in the order in which they were recorded.
	Attempts(ctx context.Context, ref event.Ref) ([]event.Attempt, error)
	Stats(ctx context.Context) (Stats, error)
}

// KeyBook is the reading side of the keys of synchronous routes. Keys are read
// as they stand now: one whose lease has ended is unknown.
type KeyBook interface {
	// SyncKey is ErrNotFound for a key that is not there or has expired, and
	// ErrDamaged for one that can't be read: never absent for that.
	SyncKey(ctx context.Context, k Key) (SyncKey, error)
	// SyncChunk is one chunk of a stored answer that has chunks. One that is
	// missing is ErrDamaged.
	SyncChunk(ctx context.Context, k *SyncKey, chunk int) ([]byte, error)
	// SyncKeys lists keys, in an order of the engine's own that is stable
	// between pages. With f.Open it looks at no others and is one whole page,
	// earliest claim first.
	SyncKeys(ctx context.Context, f KeyFilter, cursor string, limit int) (Page[SyncKey], error)
}

// Stats is a snapshot for status, metrics and health.
type Stats struct {
	Targets    map[string]TargetStats `json:"targets"`
	Claims     map[string]int64       `json:"claims,omitempty"`
	Keys       KeyStats               `json:"keys"`   // of synchronous routes
	Events     uint64                 `json:"events"` // accepted since the ledger was made
	LastRef    event.Ref              `json:"last_ref"`
	Batches    uint64                 `json:"batches"` // dense number of the last batch
	SizeBytes  int64                  `json:"size_bytes"`
	FreeBytes  int64                  `json:"free_bytes"`
	Reserve    int64                  `json:"reserve_bytes"` // below it intake answers 503
	ReadOnly   bool                   `json:"read_only"`     // intake is refused now
	Rebuilding bool                   `json:"rebuilding"`    // the schedule is still being read back
	ClockHold  bool                   `json:"clock_hold"`    // expiry waits: the clock ran far ahead of the mark
	Concerns   []Concern              `json:"concerns,omitempty"`
}

// TargetStats counts a target's deliveries.
type TargetStats struct {
	Pending int64 `json:"pending"` // open and not leased
	Leased  int64 `json:"leased"`
	Dead    int64 `json:"dead"`
	// Behind are those pending that wait for another one with their order, as
	// far as memory knows, and BlockedKeys the orders held up by a dead one.
	Behind      int64     `json:"behind,omitempty"`
	BlockedKeys int64     `json:"blocked_keys,omitempty"`
	Oldest      time.Time `json:"oldest"` // ledger time the oldest open delivery was opened; zero when none
}

// Selection names the deliveries of a replay: one event, or a filter.
type Selection struct {
	Ref    event.Ref // zero: use Filter
	Filter Filter
}

// Replay says how closed deliveries are opened again.
type Replay struct {
	Selection Selection
	Target    string // only this one; "" for every original target
	NewKey    bool   // the key becomes {key}~r{generation}
	// Reroute, when set, names today's targets of an event; closed or unknown
	// ones are opened, in place of the original targets.
	// body reads the event's exact bytes, once at most; when it fails, so does
	// the replay.
	Reroute func(ev *event.Event, body func() ([]byte, error)) []string
	By      By // recorded with every delivery opened
	DryRun  bool
	Cursor  string // continue a bounded call
	Limit   int    // events looked at in this call; 0 = 1,000
	// Keep, when set, is given what this call is about to do and returns the note
	// of it, which is put in the same transaction: what was opened and what is
	// noted of it are true together. When that note has changed meanwhile the
	// call is ErrStale, when the call doesn't fit into one transaction it is
	// ErrTooLarge, and nothing was opened. It is called once at most, not with
	// DryRun, and must be quick.
	Keep func(ReplayCount) Note
}

// ReplayCount says what a replay did, or would do.
type ReplayCount struct {
	Events int    `json:"events"`
	Opened int    `json:"opened"`
	Open   int    `json:"still_open"` // skipped: not closed
	Pruned int    `json:"body_pruned"`
	Bytes  int64  `json:"bytes"` // of the bodies of the deliveries opened
	Next   string `json:"next"`  // "" when all of the selection was seen
}

// Expired reports what one run of retention did.
type Expired struct {
	Buckets int   `json:"buckets"`
	Bytes   int64 `json:"bytes"`   // disk returned, by allocated blocks; an estimate while compaction runs
	Carried int   `json:"carried"` // events kept back because a delivery is open
	Claims  int   `json:"claims"`  // claims rewritten because their event is open
	Keys    int   `json:"keys"`    // expired keys of synchronous routes that were dropped
	Held    bool  `json:"held"`    // nothing was dropped: the clock is held
}

// Fault is one damaged or missing thing that Check found.
type Fault struct {
	Where string `json:"where"` // file, key kind and ref, or batch number
	What  string `json:"what"`
}

// CheckReport is what Check found.
type CheckReport struct {
	Heads    uint64  `json:"heads"`
	Events   uint64  `json:"events"`
	Bodies   uint64  `json:"bodies"`
	Attempts uint64  `json:"attempts"`
	Claims   uint64  `json:"claims"`
	Acts     uint64  `json:"acts"`
	Keys     uint64  `json:"keys"` // of synchronous routes
	Faults   []Fault `json:"faults"`
}

// BackupReport says what a backup holds.
type BackupReport struct {
	At      time.Time `json:"at"`      // wall clock when it was begun
	Writer  string    `json:"writer"`  // of the ledger it is of, in hexadecimal
	Batch   uint64    `json:"batch"`   // the ledger's newest batch then, or an earlier one
	Records int64     `json:"records"` // read, when it was verified
	Events  int64     `json:"events"`
	Bytes   int64     `json:"bytes"`
	Held    bool      `json:"held"` // a restored ledger holds what was open at the backup
}

// Upkeep is the operator's side of a ledger.
type Upkeep interface {
	// Replay opens closed deliveries again as a new generation, durably.
	// Open ones are skipped and counted.
	Replay(ctx context.Context, r Replay) (ReplayCount, error)
	// Cancel closes one event's open deliveries, of one target or of all.
	Cancel(ctx context.Context, ref event.Ref, target string, by By) (int, error)
	// Drop takes one event's dead deliveries, of one target or of all, off the
	// dead letters: they become cancelled. Replay opens them as any others.
	Drop(ctx context.Context, ref event.Ref, target string, by By) (int, error)
	// Expire drops what retention and windows have ended and returns disk.
	Expire(ctx context.Context) (Expired, error)
	// Check reads everything and reports every fault.
	Check(ctx context.Context) (CheckReport, error)
	// Backup writes a consistent copy of the whole ledger.
	Backup(ctx context.Context, w io.Writer) error
	// Health is nil while the ledger takes events.
	Health(ctx context.Context) error
	// Close flushes and releases the ledger. Leases end with it; those of keys
	// at the latest when their time is over.
	Close() error
}

// Ledger is everything an engine is. Users declare the part they need.
type Ledger interface {
	Committer
	Dispatch
	Account
	Acts
	Notebook
	KeyBook
	Upkeep
}
