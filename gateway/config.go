package gateway

import (
	"net/netip"
	"path/filepath"
	"time"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/forward"
	"github.com/onceward/onceward/verify"
)

// Config is one configuration, checked and with its defaults filled in. It is
// made by Load or Parse and read-only from there on. It is fit for New only
// when its faults hold no error; with errors it still says where the admin
// listener and the token are, as far as that could be read.
type Config struct {
	// Listen is the public address. Default ":8080". Not reloadable.
	Listen string `toml:"listen"`
	// TrustedProxies are the networks whose forwarded headers are believed.
	// Default none.
	TrustedProxies []Prefix `toml:"trusted_proxies,omitzero"`
	// Drain bounds how long a stop waits for requests and attempts in flight.
	// Default 20s, at most 1h.
	Drain Duration `toml:"drain,omitzero"`
	// ReadinessDelay is how long /readyz answers 503 before the listener
	// closes. Default 0, at most 5m.
	ReadinessDelay Duration `toml:"readiness_delay,omitzero"`

	// TLS makes the public listener speak TLS. Default: none, for a proxy that
	// does. Not reloadable, but for what its files hold.
	TLS ListenerTLSConfig `toml:"tls,omitzero"`

	Admin     AdminConfig     `toml:"admin"`
	Store     StoreConfig     `toml:"store"`
	Retention RetentionConfig `toml:"retention"`
	Log       LogConfig       `toml:"log"`
	// Traces are spans of requests and attempts. Default: none.
	Traces TracesConfig `toml:"traces,omitzero"`
	Audit  AuditConfig  `toml:"audit,omitzero"`
	// Providers are senders beside the built-in ones, in the same terms.
	Providers []verify.Row   `toml:"provider,omitempty"`
	Sources   []SourceConfig `toml:"source,omitempty"`
	Targets   []TargetConfig `toml:"target,omitempty"`

	file string // as given to Parse; names the file in faults of later stages
	dir  string // relative paths start here
	tree *node  // positions, for faults found when the parts are built
	hash string
}

// AdminConfig is the operator's listener.
type AdminConfig struct {
	// Listen is its address. Default "127.0.0.1:8081". Not reloadable.
	Listen string `toml:"listen"`
	// TokenFile holds the bearer token; it is made at the first start. Default
	// admin.token inside the store's directory; with driver "postgres" the token
	// is made at the first start of any gateway, shown once, and kept as a hash
	// in the database, unless a [[admin.token]] has the role admin. Not
	// reloadable.
	TokenFile string `toml:"token_file,omitzero"`
	// Hosts are further names under which the listener may be called; the
	// loopback names and the listen address always may.
	Hosts []string `toml:"hosts,omitzero"`
	// Tokens are further ones, each with a name and a role.
	Tokens []TokenConfig `toml:"token,omitempty"`
}

// RetentionConfig is how long the parts of an event are kept; zero fields
// take the default. Open deliveries are never dropped: their events are
// carried past it.
type RetentionConfig struct {
	// Body is for the bytes. Default "30d". Without them an event can't be
	// replayed.
	Body Duration `toml:"body,omitzero"`
	// Meta is for events, deliveries and the index of IDs. Default "400d".
	Meta Duration `toml:"meta,omitzero"`
	// Audit is for attempts and audit records. Default "400d".
	Audit Duration `toml:"audit,omitzero"`
	// BodySize, of a source alone, is how much disk its bodies may take: past it
	// the oldest go before their time, by the hour of their arrival, those of open
	// events and of the present hour excepted. It counts bodies that came after it
	// was first set. Default 0: they are bounded by store.body_size with the
	// others. At least "1MiB".
	BodySize Size `toml:"body_size,omitzero"`
}

// LogConfig is what goes to standard error.
type LogConfig struct {
	// Level is "debug", "info" (the default), "warn" or "error".
	Level string `toml:"level,omitzero"`
	// Format is "text", "json" or "auto" (the default: text on a terminal).
	Format string `toml:"format,omitzero"`
}

// SourceConfig is one inbound path.
type SourceConfig struct {
	// Name is its identity, [a-z0-9][a-z0-9_-]{0,62}. Required.
	Name string `toml:"name"`
	// Provider names a built-in provider or one of this file. Required.
	Provider string `toml:"provider"`
	// Auth picks a mode of the row. Default: the row's safest.
	Auth string `toml:"auth,omitzero"`
	// Secrets are shared secrets; any may match. A source with an unset
	// reference among them, and no other, is offline: it answers 503.
	Secrets []SecretConfig `toml:"secrets,omitzero"`
	// PublicKeys are the keys of modes that sign with a private key.
	PublicKeys []SecretConfig `toml:"public_keys,omitzero"`
	// PublicURL is the URL the provider was given, for those that sign it.
	// Default: made of forwarded headers of a trusted proxy, else of Host.
	PublicURL string `toml:"public_url,omitzero"`
	// Path is where it listens. Default "/in/" and the name.
	Path string `toml:"path,omitzero"`
	// Targets get every event.
	Targets []string `toml:"targets,omitzero"`
	// Routes add targets by event type; an event has one delivery per target.
	Routes []RouteConfig `toml:"route,omitzero"`
	// Window is how long an event ID is remembered. Default: the row's.
	Window Duration `toml:"window,omitzero"`
	// AllowShortWindow takes a window shorter than the provider's resends.
	AllowShortWindow bool `toml:"allow_short_window,omitzero"`
	// OnConflict is "ack", "deliver" or "reject". Default: the row's.
	OnConflict string `toml:"on_conflict,omitzero"`
	// NoID is "body-hash", "deliver" or "refuse". Default: the row's.
	NoID string `toml:"no_id,omitzero"`
	// Guard is "off", "flag" or "drop". Default: the row's.
	Guard string `toml:"guard,omitzero"`
	// Key is the template of the idempotency key sent to targets, of {source},
	// {caller}, {id}, {hash} and {ref}. Default "{source}:{id}".
	Key string `toml:"key,omitzero"`
	// Batch is "split" (the default) or "keep".
	Batch string `toml:"batch,omitzero"`
	// MaxElements bounds a batch. Default and most 1000.
	MaxElements int `toml:"max_elements,omitzero"`
	// BodyLimit is the largest body. Default: the row's, else "1MiB". At most
	// "64MiB".
	BodyLimit Size `toml:"body_limit,omitzero"`
	// Tolerance is how far a signed timestamp may be off. Default: the row's.
	Tolerance Duration `toml:"tolerance,omitzero"`
	// Roots are certificates, as PEM, that fetched certificates are traced back
	// to where the row demands it. Default: the system's.
	Roots string `toml:"roots,omitzero"`
	// Registration is "pending" while the provider is to hand over the secret:
	// the first one that arrives is kept in captured/NAME.secret inside the
	// store's directory and used from then on. Until then anyone may hand one
	// over. Default: no secret is taken from a request.
	Registration string `toml:"registration,omitzero"`
	// Options are the settings of the row, by its names.
	Options map[string]string `toml:"options,omitzero"`
	// TrustTrace lets the sender's trace, its traceparent, go on in ours.
	// Default: a trace begins with the request, and links to theirs.
	TrustTrace bool `toml:"trust_trace,omitzero"`
	// AcceptUnconfirmed takes a row with facts that nobody has confirmed.
	AcceptUnconfirmed bool `toml:"accept_unconfirmed,omitzero"`
	// Formerly are old names of this source; their claims hold for it.
	Formerly []string `toml:"formerly,omitzero"`
	SyncConfig
	// Retention replaces the general one, field by field.
	Retention RetentionConfig `toml:"retention,omitzero"`
	// StoreBody false keeps the bytes of an event only until each of its
	// deliveries is delivered or cancelled; its hash and headers stay. Such an
	// event can't be replayed. Default true.
	StoreBody *bool `toml:"store_body,omitempty"`
	// Redact are paths in the JSON bodies whose values are not shown: not on
	// pages, nor by the API below the role admin, which alone sees raw bytes.
	// What is forwarded is never touched. Default none.
	Redact []string `toml:"redact,omitempty"`
	// Index are fields by which events are found, by name: source, type, id,
	// caller, header:NAME, query:NAME, or a path in the JSON body. At most 8;
	// values are scalars of at most 256 bytes, others are left out. It counts
	// for events accepted from then on. Everyone who may list events sees them.
	Index map[string]string `toml:"index,omitempty"`

	row      verify.Row
	made     verify.Config    // what the file says of the verifier
	offline  string           // why it has no verifier; "" when it has one
	verifier *verify.Verifier // nil when offline or faulty
}

// RouteConfig adds one target for some event types.
type RouteConfig struct {
	Target string `toml:"target"`
	// Types are exact or globs with *. Default: all.
	Types []string `toml:"types,omitzero"`
	// Where is a condition in CEL over source, type, id, method, headers, query
	// and body. Default: none.
	Where string `toml:"where,omitzero"`

	where *forward.Where // nil without a condition, or with a faulty one
}

// TargetConfig is one internal URL that events are forwarded to.
type TargetConfig struct {
	// Name is its identity, [a-z0-9][a-z0-9_-]{0,62}. Required.
	Name string `toml:"name"`
	// Pull says that the target's service fetches its deliveries at
	// /api/v1/pull/NAME on the admin listener, with PullToken. Such a target has
	// no url, and none of the keys that say how one is called.
	Pull      bool         `toml:"pull,omitzero"`
	PullToken SecretConfig `toml:"pull_token,omitzero"`
	// URL is http or https, without user and fragment. Required unless Pull.
	URL string `toml:"url,omitzero"`
	// Timeout bounds one attempt. Default "30s", 100ms to 10m.
	Timeout Duration `toml:"timeout,omitzero"`
	// Concurrency is how many attempts run at once. Default 16, at most 1024.
	Concurrency int `toml:"concurrency,omitzero"`
	// Headers are added to every attempt.
	Headers map[string]SecretConfig `toml:"headers,omitzero"`
	// SigningSecrets sign each attempt after Standard Webhooks; several while
	// rotating.
	SigningSecrets []SecretConfig `toml:"signing_secrets,omitzero"`
	// Initial, Factor and Max shape the pause between attempts: the n-th is
	// initial·factor^(n-1), at most max. Defaults "1s", 2, "1h".
	Initial Duration `toml:"initial,omitzero"`
	Factor  float64  `toml:"factor,omitzero"`
	Max     Duration `toml:"max,omitzero"`
	// Schedule is the pauses themselves, in place of the curve; the last one
	// repeats until give_up_after.
	Schedule []Duration `toml:"schedule,omitzero"`
	// Jitter is the part of each pause that is random, 0 to 1. Default 1 with
	// the curve, 0 with a schedule.
	Jitter *float64 `toml:"jitter,omitempty"`
	// GiveUpAfter is when a delivery is dead. Default "72h", 1s to 90d.
	GiveUpAfter Duration `toml:"give_up_after,omitzero"`
	// RetryOn and DeadOn override what a status means. PauseOn are statuses that
	// pause the target until `onceward targets resume`; the delivery stays
	// pending. Default none: 410, say, is dead like other 4xx.
	RetryOn []int `toml:"retry_on,omitzero"`
	DeadOn  []int `toml:"dead_on,omitzero"`
	PauseOn []int `toml:"pause_on,omitzero"`
	// Rate bounds how many attempts begin, as in "50/s", "300/m" or "1000/h".
	// Default: no bound.
	Rate Rate `toml:"rate,omitzero"`
	// Burst is how many of them may begin at once after a pause. Default: what
	// the rate allows in a second, at least 1.
	Burst int `toml:"burst,omitzero"`
	// Memory bounds the bodies of the attempts that run at once. Default
	// "32MiB", at least "64KiB". A larger body is sent alone.
	Memory Size `toml:"memory,omitzero"`
	// OrderedBy delivers events with the same value one after the other, in the
	// order in which they were accepted: source, type, id, caller, header:NAME,
	// query:NAME, or a path in the JSON body such as "data.object.id". Default:
	// no order.
	OrderedBy string `toml:"ordered_by,omitzero"`
	// AfterDead is what a dead delivery does to those behind it: "block", the
	// default, keeps them waiting until it is replayed or dropped, "skip" lets
	// them go on. It counts for events accepted from then on.
	AfterDead string `toml:"after_dead,omitzero"`
	// Breaker holds attempts back while the target is sick.
	Breaker BreakerConfig `toml:"breaker,omitzero"`
	// Allow narrows the addresses the name may resolve to. Default: all but
	// link-local, metadata, unspecified and multicast, which are never called.
	Allow []Prefix `toml:"allow,omitzero"`
	// Formerly are old names of this target; their deliveries go to it.
	Formerly []string `toml:"formerly,omitzero"`
	// Idempotent says that the target executes an Idempotency-Key once, however
	// often it comes: on synchronous routes an unknown outcome is then tried
	// again. Default: it is left to an operator.
	Idempotent bool `toml:"idempotent,omitzero"`
	OutboundConfig
}

// SecretConfig is one secret: in TOML a string, or a table of id, value,
// caller, not_before and not_after. It prints as [redacted:label].
type SecretConfig struct {
	ID        string              `toml:"id,omitzero"` // default: its position, from 1
	Value     verify.SecretString `toml:"value,omitzero"`
	Caller    string              `toml:"caller,omitzero"`
	NotBefore time.Time           `toml:"not_before,omitzero"`
	NotAfter  time.Time           `toml:"not_after,omitzero"`

	unset   bool      // its reference names something that is not there
	written time.Time // of the file it is in, as its file system says; zero when it is in none
}

// MarshalText is [redacted:label].
func (s SecretConfig) MarshalText() ([]byte, error) {
	return []byte("[redacted:" + s.ID + "]"), nil
}

// Prefix is a network, or a single address, in TOML.
type Prefix struct{ netip.Prefix }

// UnmarshalText reads "10.0.0.0/8" or "10.0.0.1".
func (p *Prefix) UnmarshalText(b []byte) error {
	if a, err := netip.ParseAddr(string(b)); err == nil {
		p.Prefix = netip.PrefixFrom(a, a.BitLen())
		return nil
	}
	v, err := netip.ParsePrefix(string(b))
	if err != nil {
		return errPrefix
	}
	p.Prefix = v.Masked()
	return nil
}

// The defaults of a configuration, and its bounds.
const (
	DefaultListen      = ":8080"
	DefaultAdminListen = "127.0.0.1:8081"
	DefaultStorePath   = "data"
	DefaultDrain       = Duration(20 * time.Second)
	TokenFileName      = "admin.token"
)

// defaults is the configuration of an empty file.
func defaults() *Config {
	return &Config{
		Listen: DefaultListen,
		Drain:  DefaultDrain,
		Admin:  AdminConfig{Listen: DefaultAdminListen},
		Store:  StoreConfig{Driver: driverBadger, Path: DefaultStorePath, MemoryLimit: DefaultMemory},
		Log:    LogConfig{Level: "info", Format: "auto"},
	}
}

// Path resolves a path of the file: absolute ones stay, relative ones start
// at the file's directory.
func (c *Config) path(p string) string {
	if filepath.IsAbs(p) {
		return filepath.Clean(p)
	}
	return filepath.Join(c.dir, p)
}

// TokenFile is the path of the admin token, as the process sees it; "" for one
// that is kept in the ledger of several gateways.
func (c *Config) TokenFile() string {
	switch {
	case c.Admin.TokenFile != "":
		return c.path(c.Admin.TokenFile)
	case c.Store.Driver == driverPostgres:
		return ""
	}
	return filepath.Join(c.StorePath(), TokenFileName)
}

// File is the name under which the configuration was read.
func (c *Config) File() string { return c.file }

// Provider finds what is known of a provider: a built-in one, or one of this
// configuration.
func (c *Config) Provider(name string) (verify.Row, bool) {
	for _, row := range c.Providers {
		if row.Name == name {
			return row, true
		}
	}
	return verify.Lookup(name)
}

// Source finds a source by name.
func (c *Config) Source(name string) (*SourceConfig, bool) {
	for i := range c.Sources {
		if c.Sources[i].Name == name {
			return &c.Sources[i], true
		}
	}
	return nil, false
}

// Target finds a target by name.
func (c *Config) Target(name string) (*TargetConfig, bool) {
	for i := range c.Targets {
		if c.Targets[i].Name == name {
			return &c.Targets[i], true
		}
	}
	return nil, false
}

// ListenPath is where the source listens.
func (s *SourceConfig) ListenPath() string {
	if s.Path != "" {
		return s.Path
	}
	return "/in/" + s.Name
}

// Verifier is the verifier of the source, nil while it is offline. It also
// signs, for trying the source without its provider.
func (s *SourceConfig) Verifier() *verify.Verifier { return s.verifier }

// Offline is why the source can't verify anything, "" when it can.
func (s *SourceConfig) Offline() string { return s.offline }

// bodySizes are the limits of sources that have one of their own, also under
// their former names.
func (c *Config) bodySizes() map[string]int64 {
	out := map[string]int64{}
	for i := range c.Sources {
		s := &c.Sources[i]
		if s.Retention.BodySize <= 0 {
			continue
		}
		for _, name := range append([]string{s.Name}, s.Formerly...) {
			out[name] = int64(s.Retention.BodySize)
		}
	}
	return out
}

// over is the retention of a source: its own fields where set, else those of
// the general one.
func (r RetentionConfig) over(general RetentionConfig) dedupe.Retention {
	pick := func(own, other Duration) time.Duration {
		if own != 0 {
			return time.Duration(own)
		}
		return time.Duration(other)
	}
	return dedupe.Retention{
		Body:  pick(r.Body, general.Body),
		Meta:  pick(r.Meta, general.Meta),
		Audit: pick(r.Audit, general.Audit),
	}
}
