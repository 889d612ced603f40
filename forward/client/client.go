package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"time"
)

// Header is the name of the header that carries the key.
const Header = "Idempotency-Key"

// The defaults of Config.
const (
	DefaultAttempts       = 5
	DefaultInitial        = 250 * time.Millisecond
	DefaultMax            = 30 * time.Second
	DefaultMaxRetryAfter  = 2 * time.Minute
	DefaultAttemptTimeout = 30 * time.Second
	DefaultMaxBody        = 1 << 20
)

// Config of a Transport. The zero value is ready to use.
type Config struct {
	// Base makes the attempts; nil is http.DefaultTransport. It must not
	// retry by itself.
	Base http.RoundTripper
	// Attempts is how often an operation is tried at most, the first time
	// included; 0 is DefaultAttempts, 1 never tries again.
	Attempts int
	// Initial and Max bound the wait after the n-th failed attempt: a random
	// part of Initial * 2^(n-1), at most of Max. 0 is the default of each.
	Initial, Max time.Duration
	// MaxRetryAfter is the longest Retry-After that is waited for; 0 is
	// DefaultMaxRetryAfter. An answer that asks for more is given back as it
	// came: trying sooner than asked would be rude.
	MaxRetryAfter time.Duration
	// AttemptTimeout bounds one attempt until the answer's header is there; 0
	// is DefaultAttemptTimeout, negative is no bound. The request's own
	// context bounds the operation, waits included.
	AttemptTimeout time.Duration
	// MaxBody is how much of a body without GetBody is kept in memory to send
	// it again; 0 is DefaultMaxBody. A longer one is sent once.
	MaxBody int64
	// Rand is uniform in [0, 1), for the jitter; nil is math/rand/v2. It must
	// be safe for concurrent use.
	Rand func() float64
	// Observe, if set, is told of every attempt when it has ended. It must
	// not keep or change what it is given.
	Observe func(Attempt)
}

// Attempt is one request on the wire, or the try to make one.
type Attempt struct {
	Number int            // from 1
	Key    string         // of the operation
	Answer *http.Response // nil when none came; its body must not be read
	Err    error          // why none came
	Wait   time.Duration  // before the next attempt; 0 when there is none or it follows at once
	Last   bool           // no other attempt follows
}

// Transport is an http.RoundTripper with one key per operation and retries.
// It is safe for concurrent use.
type Transport struct{ cfg Config }

var _ http.RoundTripper = (*Transport)(nil)

// New makes a Transport. It starts nothing.
func New(cfg Config) *Transport {
	if cfg.Base == nil {
		cfg.Base = http.DefaultTransport
	}
	if cfg.Attempts <= 0 {
		cfg.Attempts = DefaultAttempts
	}
	if cfg.Initial <= 0 {
		cfg.Initial = DefaultInitial
	}
	if cfg.Max <= 0 {
		cfg.Max = DefaultMax
	}
	if cfg.MaxRetryAfter <= 0 {
		cfg.MaxRetryAfter = DefaultMaxRetryAfter
	}
	if cfg.AttemptTimeout == 0 {
		cfg.AttemptTimeout = DefaultAttemptTimeout
	}
	if cfg.MaxBody <= 0 {
		cfg.MaxBody = DefaultMaxBody
	}
	if cfg.Rand == nil {
		cfg.Rand = rand.Float64
	}
	return &Transport{cfg: cfg}
}

// RoundTrip sends req until it is answered for good, and returns the last
// answer, whatever its status, or the last error. A key that req already
// carries in Header is kept; so the caller can hold one key over several
// operations, or over restarts.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if !retried(req.Method) {
		return t.cfg.Base.RoundTrip(req)
	}
	key := keyOf(req)
	body, err := t.open(req)
	if err != nil {
		return nil, err
	}
	defer body.close()
	for n := 1; ; n++ {
		resp, err := t.attempt(req, body, key)
		wait, again := t.next(req, body, n, resp, err)
		if t.cfg.Observe != nil {
			t.cfg.Observe(Attempt{Number: n, Key: key, Answer: resp, Err: err, Wait: wait, Last: !again})
		}
		if !again {
			if err != nil && n > 1 {
				err = fmt.Errorf("attempt %d: %w", n, err)
			}
			return resp, err
		}
		discard(resp)
		if err := sleep(req.Context(), wait); err != nil {
			return nil, fmt.Errorf("wait for attempt %d: %w", n+1, err)
		}
	}
}

// CloseIdleConnections passes on to the base, for http.Client.
func (t *Transport) CloseIdleConnections() {
	if c, ok := t.cfg.Base.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// retried names the methods that have an effect at the other end. The others
// are the caller's own affair.
func retried(method string) bool {
	switch method {
	case http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
		return true
	}
	return false
}

// attempt makes one request. The time-out of the attempt ends when the header
// of the answer is there; its context ends with the answer's body.
func (t *Transport) attempt(req *http.Request, body *body, key string) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(req.Context())
	var timer *time.Timer
	if t.cfg.AttemptTimeout > 0 {
		timer = time.AfterFunc(t.cfg.AttemptTimeout, func() { cancel(errTimeout) })
	}
	out, err := body.request(ctx, cancel, req, key)
	if err != nil {
		cancel(nil)
		return nil, err
	}
	resp, err := t.cfg.Base.RoundTrip(out)
	if timer != nil && !timer.Stop() && err == nil {
		discard(resp)
		err = errTimeout
	}
	if err != nil {
		if cause := context.Cause(ctx); cause != nil && req.Context().Err() == nil {
			err = cause
		}
		cancel(nil)
		return nil, err
	}
	if resp.Request == out {
		resp.Request = shown(out, key)
	}
	resp.Body = &ending{ReadCloser: resp.Body, end: func() { cancel(nil) }}
	return resp, nil
}

// next says whether an attempt that ended so is followed by another one, and
// after what wait.
func (t *Transport) next(req *http.Request, body *body, n int, resp *http.Response, err error) (time.Duration, bool) {
	ctx := req.Context()
	if n >= t.cfg.Attempts || !body.again() || ctx.Err() != nil || !transient(resp, err, body.connected.Load()) {
		return 0, false
	}
	wait := t.backoff(n)
	if resp != nil {
		asked := retryAfter(resp.Header.Get("Retry-After"), time.Now())
		if asked > t.cfg.MaxRetryAfter {
			return 0, false
		}
		wait = max(wait, asked)
	}
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= wait {
		return 0, false // what there is now is better than "deadline exceeded" later
	}
	return wait, true
}

// sleep waits, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// maxDiscard is how much of an answer that nobody will see is read, so that
// its connection can be used again.
const maxDiscard = 64 << 10

func discard(resp *http.Response) {
	if resp == nil || resp.Body == nil {
		return
	}
	_, _ = io.CopyN(io.Discard, resp.Body, maxDiscard)
	_ = resp.Body.Close()
}

// ending is an answer's body that says when it is done with.
type ending struct {
	io.ReadCloser
	end func()
}

func (e *ending) Read(p []byte) (int, error) {
	n, err := e.ReadCloser.Read(p)
	if err != nil {
		e.end()
	}
	return n, err
}

func (e *ending) Close() error {
	defer e.end()
	return e.ReadCloser.Close()
}

// timeoutError is what the time-out of an attempt gives, a net.Error.
type timeoutError struct{}

func (timeoutError) Error() string   { return "no answer within the time-out of an attempt" }
func (timeoutError) Timeout() bool   { return true }
func (timeoutError) Temporary() bool { return true }
func (timeoutError) Is(target error) bool {
	return target == context.DeadlineExceeded
}

var (
	errTimeout error = timeoutError{}
	errResend        = errors.New("connection broke before the answer")
)
