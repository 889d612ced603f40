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
// The package documentation says how locators and templates are written.
type Row struct {
	// Name is the slug used as `provider = "…"`.
	Name string `toml:"name"`
	// Title is the provider's name as people write it.
	Title string `toml:"title"`
	// Docs links to the provider's own page on its webhooks.
	Docs string `toml:"docs"`
	// Unconfirmed lists facts of this row that nobody has confirmed. A source on
	// a row with any must say that it accepts them.
	Unconfirmed []string `toml:"unconfirmed,omitempty"`
	// Modes are the ways this provider authenticates, the safest first; the first
	// is the default.
	Modes []Mode `toml:"modes"`
	// Methods are the HTTP methods taken; empty means POST.
	Methods []string `toml:"methods,omitempty"`
	// ID and Type locate the event ID and type, per element in a batch.
	ID   []string `toml:"id,omitempty"`
	Type []string `toml:"type,omitempty"`
	// NeverID names what looks like an ID and is none, for those who set their own.
	NeverID []string `toml:"never_id,omitempty"`
	// NoID is the policy for events without an ID; empty means body-hash.
	NoID NoID `toml:"no_id,omitempty"`
	// OnConflict is the policy for conflicts; empty means deliver.
	OnConflict OnConflict `toml:"on_conflict,omitempty"`
	// IDSigned and BodySigned say whether the signature of the default mode covers
	// the event ID and the body.
	IDSigned   bool `toml:"id_signed,omitempty"`
	BodySigned bool `toml:"body_signed,omitempty"`
	// BodyStable says that a retry carries the same bytes.
	BodyStable bool `toml:"body_stable,omitempty"`
	// AnyBody takes bodies that are not JSON although IDs are looked for there only;
	// such an event has no ID.
	AnyBody bool `toml:"any_body,omitempty"`
	// Guard is the replay guard for rows whose ID is outside the signed bytes.
	Guard Guard `toml:"guard,omitempty"`
	// Retries is how long the provider retries or lets people resend; Window is
	// how long an event ID is remembered by default, never less.
	Retries Duration `toml:"retries,omitempty"`
	Window  Duration `toml:"window,omitempty"`
	// Patience is how long the provider waits for an answer.
	Patience Duration `toml:"patience,omitempty"`
	// BodyLimit is the largest body in bytes; 0 means [DefaultBodyLimit].
	BodyLimit int64 `toml:"body_limit,omitempty"`
	// Encodings are the Content-Encodings taken; none by default.
	Encodings []string `toml:"encodings,omitempty"`
	// Batch is where the array of events is; nil is one event a request.
	Batch *Batch `toml:"batch,omitempty"`
	// Handshake lists the rules that are answered without an event.
	Handshake []Handshake `toml:"handshake,omitempty"`
	// Answer is what the provider wants for an accepted event or a repeat; the
	// zero value leaves it to the receiver (200 and a small JSON document).
	Answer Answer `toml:"answer,omitempty"`
	// Refusal replaces the receiver's fixed 401 where a provider needs it.
	Refusal *Answer `toml:"refusal,omitempty"`
	// OverloadStatus replaces 503 where a provider needs it.
	OverloadStatus int `toml:"overload_status,omitempty"`
	// EventHeaders are the sender's headers that may pass to targets beside the
	// content headers: event, type, ID, timestamp.
	EventHeaders []string `toml:"event_headers,omitempty"`
	// SignatureHeaders may pass as well: they hold a MAC, a public-key signature
	// or a timestamp and never the credential itself.
	SignatureHeaders []string `toml:"signature_headers,omitempty"`
	// CredentialHeaders never pass and are never stored.
	CredentialHeaders []string `toml:"credential_headers,omitempty"`
	// CredentialParams are query parameters, form fields or JSON paths that carry
	// a credential, as locators; they are masked in views.
	CredentialParams []string `toml:"credential_params,omitempty"`
	// EchoHeaders are headers of the request that the provider wants to see in
	// every answer of success; [Result.Echo] holds them.
	EchoHeaders []string `toml:"echo_headers,omitempty"`
	// OptionSets are options that stand for others: each of the list is
	// `option=value`, with {} for the value the source gave.
	OptionSets map[string][]string `toml:"option_sets,omitempty"`
	// Options are the names a source may set in [Config.Options] for this row.
	Options []string `toml:"options,omitempty"`
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

	HMAC      *HMAC      `toml:"hmac,omitempty"`
	Token     *Token     `toml:"token,omitempty"`
	Basic     *Basic     `toml:"basic,omitempty"`
	PublicKey *PublicKey `toml:"public_key,omitempty"`
	JWT       *JWT       `toml:"jwt,omitempty"`
	// Custom names the function that verifies where no family fits.
	Custom string `toml:"custom,omitempty"`
	// None takes every request: nothing is verified.
	None bool `toml:"none,omitempty"`

	// Require are conditions that hold for every authentic request of this mode;
	// `locator=$option` compares with a setting, `locator=$option?` does so where
	// it is set.
	Require []string `toml:"require,omitempty"`
	// Decrypt names how the body is encrypted: lark or wechat. IDs and types are
	// taken from what is inside; the event stays as it came.
	Decrypt string `toml:"decrypt,omitempty"`
	// ID replaces the row's ID locators in this mode.
	ID []string `toml:"id,omitempty"`
	// Explicit modes are never the default: the source must name them.
	Explicit bool `toml:"explicit,omitempty"`
}

// Batch says that a body holds an array of events.
type Batch struct {
	// Path is the array's JSON path; empty is the body itself. `[]` goes into the
	// elements of an outer array, as in `entry[].changes`; an outer element with
	// nothing inside is an event itself, so that nothing gets lost. `form:FIELD`
	// is JSON in a form field and `xml:a/b` are elements of XML.
	Path string `toml:"path,omitempty"`
	// Also lists further paths, for bodies that have several arrays.
	Also []string `toml:"also,omitempty"`
	// When are conditions without which the body is one event.
	When []string `toml:"when,omitempty"`
	// Optional takes a body without that array as one event. Without it such a
	// body is malformed.
	Optional bool `toml:"optional,omitempty"`
	// Lines takes a body of several JSON texts, one a line.
	Lines bool `toml:"lines,omitempty"`
	// Whole keeps the body as one event, whose ID is made of the IDs of all
	// elements; for elements that mean nothing by themselves. Arrays in form
	// fields are always kept whole.
	Whole bool `toml:"whole,omitempty"`
}

// Answer is an HTTP answer. The zero value leaves the choice to the receiver.
type Answer struct {
	Status      int               `toml:"status,omitempty"`
	ContentType string            `toml:"content_type,omitempty"`
	Header      map[string]string `toml:"header,omitempty"`
	Body        Text              `toml:"body,omitempty"`
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
	Method string `toml:"method,omitempty"`
	// Detect are conditions that must all hold: `locator` (something is there),
	// `!locator` (nothing is), `locator=value`, or `locator^=beginning`.
	Detect []string `toml:"detect,omitempty"`
	// Verify demands that the request passes verification first.
	Verify bool `toml:"verify,omitempty"`
	// Compare are comparisons in constant time that must all hold, each
	// `locator=option`: what the request says against [Config.Options]. The option
	// `secret` is any secret of the source; an option that is a list (commas
	// between, or a JSON array) takes any of its elements.
	Compare []string `toml:"compare,omitempty"`
	// Pending names an option: the rule applies only while it is `true`, and for
	// others it does not exist.
	Pending string `toml:"pending,omitempty"`
	// Open admits a rule that neither verifies nor compares.
	Open bool `toml:"open,omitempty"`
	// SignsOutsider admits an open rule that gives back a MAC of what the request
	// says, because the provider's protocol is exactly that. The value is then
	// held to letters, digits and `-._~+/=`, at most 256 of them, which no event
	// consists of.
	SignsOutsider bool `toml:"signs_outsider,omitempty"`
	// Capture locates a secret that the provider hands over; it is reported as
	// [Result.Action] and is for the caller to keep. It needs Pending.
	Capture string `toml:"capture,omitempty"`
	// Confirm locates a URL that has to be called; it is reported as
	// [Result.Action] where it is https on one of ConfirmHosts (`*` stands for
	// one label), and a failed handshake otherwise.
	Confirm      string   `toml:"confirm,omitempty"`
	ConfirmHosts []string `toml:"confirm_hosts,omitempty"`
	// Custom names the function that makes the answer's text where no template does.
	Custom string `toml:"custom,omitempty"`
	// Status is the answer's; 0 is 200. Fail is the status where a comparison
	// failed; 0 is the row's refusal.
	Status int `toml:"status,omitempty"`
	Fail   int `toml:"fail,omitempty"`
	// ContentType is the answer's; empty is text/plain, or application/json where
	// JSON is set.
	ContentType string `toml:"content_type,omitempty"`
	// Body is a template answered as text: literals (`{{` and `}}` are braces) and
	// `{locator}`, `{hmac:locator}`, `{hmac-base64:locator}`, `{sha256:locator}`.
	// Several locators with `+` between are put together first; beside the usual
	// ones there are `option:NAME` and `url:` (as called, without query).
	Body string `toml:"body,omitempty"`
	// JSON maps fields of a JSON answer to such templates, in place of Body. A
	// slash in a field's name goes into an object.
	JSON map[string]string `toml:"json,omitempty"`
	// Header maps headers of the answer to such templates.
	Header map[string]string `toml:"header,omitempty"`
}

// ActionKind says what else has to happen.
type ActionKind string

// The kinds of actions.
const (
	// ActionConfirm asks the caller to GET [Action.URL].
	ActionConfirm ActionKind = "confirm"
	// ActionCapture asks the caller to keep [Action.Secret] as the source's secret.
	ActionCapture ActionKind = "capture"
)

// Action is what has to happen beside the answer to a handshake. This package
// does neither.
type Action struct {
	Kind ActionKind
	// URL is https, on a host the row names.
	URL string
	// Secret is what the provider handed over.
	Secret SecretString
}
