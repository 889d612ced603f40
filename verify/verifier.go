package verify

import (
	"net/http"
	"time"
)

// Config is what a [Verifier] is made from.
type Config struct {
	// Row is the provider.
	Row Row
	// Auth names the mode; empty is the row's first mode that may be a default.
	Auth string
	// Secrets are the shared secrets; any may match. None at all makes a verifier
	// that refuses everything with [ReasonNoSecret].
	Secrets []Secret
	// PublicKeys are the keys of public-key modes.
	PublicKeys []Secret
	// PublicURL replaces [Request.URL] up to the query where the provider signs
	// the URL it was given. Empty takes the request's.
	PublicURL string
	// Options are the settings of the row, by the names in [Row.Options].
	Options map[string]string
	// Batch is "split" (the default: one event per element) or "keep" (one event
	// per request).
	Batch string
	// MaxBatch bounds the elements of a batch; 0 is [DefaultMaxBatch].
	MaxBatch int
	// Tolerance replaces the row's where it checks age; 0 keeps it.
	Tolerance time.Duration
	// Guard replaces the row's; empty keeps it.
	Guard Guard
}

// Request is what arrived, byte for byte.
type Request struct {
	Method string
	// URL is the public URL as the provider called it, with its query.
	URL string
	// RawQuery is the query as it arrived.
	RawQuery string
	// Header has canonical keys, as net/http makes them.
	Header http.Header
	Body   []byte
	// Now is the time of arrival.
	Now time.Time
}

// Result is what Verify found.
type Result struct {
	// Reason is OK where the request is authentic.
	Reason Reason
	// Detail explains the reason to the operator. It never holds a secret, a
	// signature or bytes of the body.
	Detail string
	// Secret and Caller are the label and the caller of the secret that matched.
	Secret, Caller string
	// Skew is how long before Now the request was signed; negative is later.
	Skew time.Duration
	// HasSkew says that there was a readable timestamp.
	HasSkew bool
	// Events are in order. Nil with a handshake; empty for an empty batch.
	Events []Event
	// Split says that the events are elements of a batch body.
	Split bool
	// Handshake, where set, is to be answered, and nothing is to be stored.
	Handshake *Answer
	// Guard is the SHA-256 of the signed bytes and the type header.
	Guard    [32]byte
	HasGuard bool
}

// Event is one event of an authentic request.
type Event struct {
	// ID is the provider's ID of it; empty where there is none.
	ID string
	// Type is the provider's type of it; empty where there is none.
	Type string
	// Offset and Length are its exact slice of the request's body.
	Offset, Length int
}

// Verifier checks the requests of one source. It is safe for concurrent use.
type Verifier struct {
	row  Row
	mode Mode
}

// Row returns the row in effect: with the mode's and the options' settings
// applied. Headers, limits and policies are to be taken from here.
func (v *Verifier) Row() Row { return v.row }

// Mode returns the name of the mode in effect.
func (v *Verifier) Mode() string { return v.mode.Name }

// Guard returns the replay guard in effect, GuardOff where there is none.
func (v *Verifier) Guard() Guard { return GuardOff }

// Offline reports whether there is no secret or key to verify with.
func (v *Verifier) Offline() bool { return false }

// New makes a verifier, or says everything that is wrong with cfg.
func New(cfg Config) (*Verifier, error) {
	return &Verifier{row: cfg.Row, mode: cfg.Row.Modes[0]}, nil
}

// Verify says whether r is authentic and what it holds. It is pure and never
// panics; it keeps no reference to r.
func (v *Verifier) Verify(r *Request) Result {
	return Result{Reason: ReasonNoSecret}
}
