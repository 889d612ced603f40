package admin

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/onceward/onceward/audit"
	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

// Receiver is what the listener shows of the public edge.
type Receiver interface {
	// SourceStats has one element per configured source.
	SourceStats() []Source
	// Refusals are newest first.
	Refusals(q RefusalQuery) []Refusal
}

// Forwarder is what the listener shows of the forwarding side.
type Forwarder interface {
	// Status has one element per configured target. Counts of the ledger
	// (Pending, Leased, Dead, Oldest) are filled in by the listener.
	Status() []Target
}

// Config is what an Admin is made of.
type Config struct {
	Account  *audit.Account // required
	Receiver Receiver       // required
	Forward  Forwarder      // required
	Control  Controller     // nil: targets can't be paused
	// Audit is the transparency log. Without it there are no receipts, and what
	// is asked of the account is not found.
	Audit *audit.Log
	// Record writes acts of operators. Without it they are not recorded.
	Record func(context.Context, ...*dedupe.Act) error

	// Reload reads the configuration anew and swaps it in whole, or keeps the
	// old one and returns an error. The faults are warnings in the first case
	// and all that was found in the second. Required.
	Reload func(context.Context) ([]Fault, error)
	// Ready is nil while events are taken. Required.
	Ready func() error
	// Gateways are those that share the ledger. Without it, or when it gives
	// none, there is this one.
	Gateways func() []Gateway
	// Setup is the configuration in effect, for the pages. Without it they show
	// what the parts say of themselves.
	Setup func() Setup
	// Explain says what is known of a refusal. Without it the pages show what
	// was remembered.
	Explain func(Refusal) Explanation
	// SendTest sends one signed test event to a source. Without it the pages
	// offer none. A source that is not there is dedupe.ErrNotFound.
	SendTest func(ctx context.Context, source string) (SourceTest, error)
	// Route names today's targets of an event, for rerouting replays. Without
	// it they are refused.
	Route func(ev *event.Event, body func() ([]byte, error)) []string

	// Jobs run replays in the background. Without them there are none.
	Jobs Jobs
	// Puller gives deliveries to services that fetch them; PullTokens are their
	// tokens' hashes, by target, and SetPullTokens replaces them. Without it
	// nothing is pulled.
	Puller     Puller
	PullTokens map[string][sha256.Size]byte
	// TestTarget sends one test request to a target. Its error is
	// dedupe.ErrNotFound for a name that is none. May be nil: then there are no
	// tests.
	TestTarget func(ctx context.Context, name string) (TargetTest, error)

	// TokenHash is HashToken of the bearer token; TokenFile is the file the
	// token stands in. Exactly one is required, and no token may be empty.
	TokenHash [sha256.Size]byte
	TokenFile string
	// Tokens are further ones, with their roles; SetTokens replaces them. The
	// one above is called "admin" and has that role.
	Tokens []Token

	// Hosts are further names and addresses this listener may be called by,
	// without a port. Loopback names, the address a connection came in on and
	// Listen are always allowed.
	Hosts  []string
	Listen string // configured address, for its host name

	Registerer prometheus.Registerer // nil: instruments are kept to ourselves
	Gatherer   prometheus.Gatherer   // what /metrics shows; required
	Log        *slog.Logger          // nil: nothing is logged
	Build      Build
	Now        func() time.Time // nil: time.Now

	// FailDelay holds back the answer to a caller that failed too often.
	// Default 250ms; negative is none.
	FailDelay time.Duration
	// DrainTimeout bounds how long Serve waits for requests under way after
	// its context ended. Default 10s.
	DrainTimeout time.Duration
}

const (
	defaultFailDelay    = 250 * time.Millisecond
	defaultDrainTimeout = 10 * time.Second
	readHeaderTimeout   = 5 * time.Second
	readTimeout         = 30 * time.Second
	writeTimeout        = 60 * time.Second
	idleTimeout         = 2 * time.Minute
	maxHeaderBytes      = 32 << 10
	maxRequestBody      = 64 << 10
)

// Admin is the operator's listener. It is safe for concurrent use.
type Admin struct {
	cfg    Config                  // read-only after New
	tokens atomic.Pointer[[]Token] // the gateway's own is the first

	pullTokens atomic.Pointer[map[string][sha256.Size]byte]
	started    time.Time
	met        *metrics
	logins     *limiter
	failures   failureCounts
	hosts      map[string]bool // read-only after New
	handler    http.Handler

	sessions *sessions
	history  *history

	transfers transfers

	ui *ui // read-only after New

	// reloading and checking let one such call run at a time.
	reloading sync.Mutex
	checking  sync.Mutex
}

// New returns an Admin. It starts nothing. A missing part or an empty token
// is an error.
func New(cfg Config) (*Admin, error) {
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("admin: %w", err)
	}
	a := &Admin{cfg: cfg, sessions: newSessions(), history: newHistory(cfg.Gatherer), transfers: transfers{now: cfg.Now}}
	own := Token{Name: mainToken, Role: RoleAdmin, Hash: cfg.TokenHash}
	if cfg.TokenFile != "" {
		token, err := ReadToken(cfg.TokenFile)
		if err != nil {
			return nil, fmt.Errorf("admin: %w", err)
		}
		own.Hash = HashToken(token)
	}
	a.tokens.Store(&[]Token{own})
	if err := a.SetTokens(cfg.Tokens); err != nil {
		return nil, err
	}
	a.SetPullTokens(cfg.PullTokens)
	met, err := newMetrics(cfg.Registerer)
	if err != nil {
		return nil, fmt.Errorf("admin: register metrics: %w", err)
	}
	a.met = met
	a.started = a.cfg.Now()
	a.logins = newLimiter()
	if a.ui, err = loadUI(); err != nil {
		return nil, fmt.Errorf("admin: %w", err)
	}
	a.hosts = hostNames(append([]string{cfg.Listen}, cfg.Hosts...))
	a.handler = a.guard(a.router())
	return a, nil
}

// validate checks what is required and fills in the defaults.
func (c *Config) validate() error {
	switch {
	case c.Account == nil, c.Receiver == nil, c.Forward == nil:
		return errors.New("account, receiver and forwarder are needed")
	case c.Reload == nil, c.Ready == nil, c.Gatherer == nil:
		return errors.New("reload, ready and gatherer are needed")
	case (c.TokenHash == [sha256.Size]byte{}) == (c.TokenFile == ""):
		return errors.New("either a token hash or a token file is needed")
	case c.TokenHash == HashToken(""):
		return errors.New("the token must not be empty")
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	c.Log = c.Log.With("component", "admin")
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.FailDelay == 0 {
		c.FailDelay = defaultFailDelay
	}
	if c.DrainTimeout == 0 {
		c.DrainTimeout = defaultDrainTimeout
	}
	return nil
}

// Handler answers the listener's requests.
func (a *Admin) Handler() http.Handler { return a.handler }

// Serve answers on ln until ctx ends, then lets requests under way finish
// within DrainTimeout. It closes ln, and returns nil after an orderly stop.
func (a *Admin) Serve(ctx context.Context, ln net.Listener) error {
	srv := &http.Server{
		Handler:           a.handler,
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(a.cfg.Log.Handler(), slog.LevelDebug),
	}
	watch, unwatch := context.WithCancel(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		a.history.run(watch, a.cfg.Now)
	}()
	defer func() { unwatch(); <-watched }()
	failed := make(chan error, 1)
	go func() { failed <- srv.Serve(ln) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serve admin on %s: %w", ln.Addr(), err)
	case <-ctx.Done():
	}
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.cfg.DrainTimeout)
	defer cancel()
	err := srv.Shutdown(drain)
	if err != nil {
		err = errors.Join(fmt.Errorf("drain admin: %w", err), srv.Close())
	}
	<-failed // always http.ErrServerClosed by now
	return err
}
