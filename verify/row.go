package verify

import "time"

// NoID says what becomes of an authentic event that has no ID.
type NoID string

// The policies for events without an ID.
const (
	// NoIDBodyHash keys the event by its body and type header.
	NoIDBodyHash NoID = "body-hash"
	// NoIDDeliver delivers it every time: for bodies that repeat legitimately.
	NoIDDeliver NoID = "deliver"
	// NoIDRefuse answers 400.
	NoIDRefuse NoID = "refuse"
)

// OnConflict says what becomes of an event whose ID is known with another body.
type OnConflict string

// The policies for conflicts.
const (
	// OnConflictAck answers like a repeat and records the difference.
	OnConflictAck OnConflict = "ack"
	// OnConflictDeliver treats it as a distinct event.
	OnConflictDeliver OnConflict = "deliver"
	// OnConflictReject answers 422.
	OnConflictReject OnConflict = "reject"
)

// Guard says what the replay guard does when signed bytes come back under
// another, unsigned ID.
type Guard string

// The states of the replay guard. In a [Row] the empty value is off; in a
// [Config] it means what the row says.
const (
	// GuardOff computes no guard.
	GuardOff Guard = "off"
	// GuardFlag delivers the event and records that the bytes were seen.
	GuardFlag Guard = "flag"
	// GuardDrop treats it as a repeat.
	GuardDrop Guard = "drop"
)

// Row is what is known about one provider: how it signs, names its events,
// retries and shakes hands. It is a plain value; [Providers] returns copies.
//
// Locators (ID, Type, [Scheme.Timestamp], [Token.In], handshake conditions) are
// written `header:NAME`, `query:NAME`, `form:FIELD`, `json:PATH` (dots between
// keys, numbers index arrays) or `form:FIELD|json:PATH` for JSON inside a form
// field. A list of locators is tried in order. Parts of one composite locator are
// joined with `+`, as in `json:a+json:b`; each part is escaped before joining,
// and a composite with a missing part is missing as a whole.
type Row struct {
	// Name is the slug used as `provider = "…"`.
	Name string `toml:"name"`
	// Title is the provider's name as people write it.
	Title string `toml:"title"`
	// Docs links to the provider's own page on its webhooks.
	Docs string `toml:"docs"`
	// Unconfirmed lists facts of this row that nobody has confirmed. A source on
	// a row with any must say that it accepts them.
	Unconfirmed []string `toml:"unconfirmed"`
	// Modes are the ways this provider authenticates, the safest first; the first
	// is the default.
	Modes []Mode `toml:"modes"`
	// Methods are the HTTP methods taken; empty means POST.
	Methods []string `toml:"methods"`
	// ID and Type locate the event ID and type, per element in a batch.
	ID   []string `toml:"id"`
	Type []string `toml:"type"`
	// NoID is the policy for events without an ID; empty means body-hash.
	NoID NoID `toml:"no_id"`
	// OnConflict is the policy for conflicts; empty means deliver.
	OnConflict OnConflict `toml:"on_conflict"`
	// IDSigned and BodySigned say whether the signature of the default mode covers
	// the event ID and the body.
	IDSigned   bool `toml:"id_signed"`
	BodySigned bool `toml:"body_signed"`
	// BodyStable says that a retry carries the same bytes.
	BodyStable bool `toml:"body_stable"`
	// Guard is the replay guard for rows whose ID is outside the signed bytes.
	Guard Guard `toml:"guard"`
	// Retries is how long the provider retries or lets people resend; Window is
	// how long an event ID is remembered by default, never less.
	Retries time.Duration `toml:"retries"`
	Window  time.Duration `toml:"window"`
	// Patience is how long the provider waits for an answer.
	Patience time.Duration `toml:"patience"`
	// BodyLimit is the largest body in bytes; 0 means [DefaultBodyLimit].
	BodyLimit int64 `toml:"body_limit"`
	// Encodings are the Content-Encodings taken; none by default.
	Encodings []string `toml:"encodings"`
	// Batch is where the array of events is; nil is one event a request.
	Batch *Batch `toml:"batch"`
	// Handshake lists the rules that are answered without an event.
	Handshake []Handshake `toml:"handshake"`
	// Answer is what the provider wants for an accepted event or a repeat; the
	// zero value leaves it to the receiver (200 and a small JSON document).
	Answer Answer `toml:"answer"`
	// Refusal replaces the receiver's fixed 401 where a provider needs it.
	Refusal *Answer `toml:"refusal"`
	// OverloadStatus replaces 503 where a provider needs it.
	OverloadStatus int `toml:"overload_status"`
	// EventHeaders are the sender's headers that may pass to targets beside the
	// content headers: event, type, ID, timestamp.
	EventHeaders []string `toml:"event_headers"`
	// SignatureHeaders may pass as well: they hold a MAC, a public-key signature
	// or a timestamp and never the credential itself.
	SignatureHeaders []string `toml:"signature_headers"`
	// CredentialHeaders never pass and are never stored.
	CredentialHeaders []string `toml:"credential_headers"`
	// CredentialParams are query parameters, form fields or JSON paths that carry
	// a credential, as locators; they are masked in views.
	CredentialParams []string `toml:"credential_params"`
	// Options are the names a source may set in [Config.Options] for this row.
	Options []string `toml:"options"`
}

// Body limits and other fixed bounds.
const (
	// DefaultBodyLimit is the largest body where a row says nothing.
	DefaultBodyLimit = 1 << 20
	// DefaultMaxBatch is the largest number of batch elements where
	// [Config.MaxBatch] says nothing.
	DefaultMaxBatch = 10_000
	// MaxDepth is how deep JSON may nest where a body is parsed.
	MaxDepth = 512
	// DefaultWindow is how long an event ID is remembered where the provider's
	// retries are unknown.
	DefaultWindow = 72 * time.Hour
)

// Mode is one way of authenticating: exactly one of its families is set, except
// that Custom may stand beside the HMAC that describes it.
type Mode struct {
	// Name is what a source writes as `auth = "…"`.
	Name string `toml:"name"`

	HMAC      *HMAC      `toml:"hmac"`
	Token     *Token     `toml:"token"`
	Basic     *Basic     `toml:"basic"`
	PublicKey *PublicKey `toml:"public_key"`
	// Custom names the function that verifies where no family fits.
	Custom string `toml:"custom"`
	// None takes every request: nothing is verified.
	None bool `toml:"none"`

	// ID replaces the row's ID locators in this mode.
	ID []string `toml:"id"`
	// Explicit modes are never the default: the source must name them.
	Explicit bool `toml:"explicit"`
}

// Batch says that a body holds an array of events.
type Batch struct {
	// Path is the array's JSON path; empty is the body itself.
	Path string `toml:"path"`
	// Optional takes a body without that array as one event. Without it such a
	// body is malformed.
	Optional bool `toml:"optional"`
}

// Answer is an HTTP answer. The zero value leaves the choice to the receiver.
type Answer struct {
	Status      int               `toml:"status"`
	ContentType string            `toml:"content_type"`
	Header      map[string]string `toml:"header"`
	Body        []byte            `toml:"body"`
}

// IsZero reports whether the answer is left to the receiver.
func (a Answer) IsZero() bool {
	return a.Status == 0 && a.ContentType == "" && len(a.Header) == 0 && len(a.Body) == 0
}

// Handshake is one rule that recognises a request which is answered and never
// stored.
type Handshake struct {
	// Name is for people.
	Name string `toml:"name"`
	// Method must be the request's; empty is any.
	Method string `toml:"method"`
	// Detect are conditions that must all hold: a locator (something is there) or
	// `locator=value`.
	Detect []string `toml:"detect"`
	// Verify demands that the request passes verification first.
	Verify bool `toml:"verify"`
	// Compare are comparisons in constant time that must all hold, each
	// `locator=option`: what the request says against [Config.Options].
	Compare []string `toml:"compare"`
	// Open admits a rule that neither verifies nor compares.
	Open bool `toml:"open"`
	// Status is the answer's; 0 is 200.
	Status int `toml:"status"`
	// ContentType is the answer's; empty is text/plain, or application/json where
	// JSON is set.
	ContentType string `toml:"content_type"`
	// Body is a template answered as text: literals and `{locator}`,
	// `{hmac:locator}`, `{hmac-base64:locator}`, `{sha256:locator}`.
	Body string `toml:"body"`
	// JSON maps fields of a JSON answer to such templates, in place of Body.
	JSON map[string]string `toml:"json"`
	// Header maps headers of the answer to such templates.
	Header map[string]string `toml:"header"`
}
