package forward

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"
)

// The defaults of a Target.
const (
	DefaultTimeout     = 30 * time.Second
	DefaultConcurrency = 16
	DefaultInitial     = time.Second
	DefaultFactor      = 2
	DefaultMaxDelay    = time.Hour
	DefaultGiveUp      = 72 * time.Hour
	DefaultMemory      = 32 << 20
)

// The limits of a Target.
const (
	MaxTimeout     = 15 * time.Minute
	MaxConcurrency = 4096
	MaxSteps       = 100 // of an explicit schedule
)

const redacted = "REDACTED"

// Secret is a header value that is never shown: it prints, logs and marshals
// as a constant. Convert it to a string to use it.
type Secret string

// String is a constant.
func (Secret) String() string { return redacted }

// GoString is a constant.
func (Secret) GoString() string { return redacted }

// LogValue is a constant.
func (Secret) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalText writes a constant.
func (Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// Target is one internal URL that events are forwarded to. It is read at each
// attempt, never snapshotted: a change applies to deliveries that wait.
type Target struct {
	// Name is the target's identity: deliveries are kept by it.
	Name string
	// Pull says that the target's service fetches its deliveries with
	// Forwarder.Pull. Such a target has no URL, and nothing of how one is
	// called; Concurrency, 0 = DefaultPullLeases, is how many leases may be out
	// at once, and Memory bounds the bodies of one call.
	Pull bool
	// URL is absolute, http or https, without user info and fragment. An
	// event's raw query is joined to its own with "&".
	URL *url.URL
	// Timeout bounds one attempt from its first look-up to the last byte of
	// the answer that is read; 0 = DefaultTimeout, at most MaxTimeout.
	Timeout time.Duration
	// Concurrency is how many attempts run at once; 0 = DefaultConcurrency,
	// at most MaxConcurrency.
	Concurrency int
	// Headers are set on every attempt over what the sender sent. Names that
	// the gateway or the protocol sets are an error.
	Headers map[string]Secret
	// Signing secrets sign every attempt as Standard Webhooks; with several,
	// while rotating, each adds a signature. None leaves the sender's
	// webhook-* headers as they are.
	Signing []SigningSecret
	// Schedule spaces the attempts; zero fields take their defaults.
	Schedule Schedule
	// GiveUp is how long after a delivery was opened it is retried; 0 =
	// DefaultGiveUp. The last attempt is made at its end.
	GiveUp time.Duration
	// DeadOn and RetryOn override the decision table for single statuses
	// from 300 to 599. PauseOn are statuses that pause the whole target: the
	// delivery stays pending until an operator resumes it.
	DeadOn  []int
	RetryOn []int
	PauseOn []int
	// Rate bounds how many attempts begin; the zero Rate does not.
	Rate Rate
	// Memory bounds the bytes of the bodies of attempts that run at once; 0 =
	// DefaultMemory. A body larger than that is sent alone.
	Memory int64
	// Breaker says when attempts are held back because the target is sick.
	Breaker Breaker
	// Former names were this target's before; their open deliveries are
	// forwarded to it.
	Former []string
	// Allow, when not empty, narrows what may be connected to. It never
	// permits what the egress guard refuses.
	Allow []netip.Prefix
	// TLS is the client configuration of https targets; nil is the
	// system's. It is copied.
	TLS *tls.Config
	// Way is how it is reached; zero is directly.
	Way Way
	// Shape is how events become requests; zero is as they came.
	Shape Shape
}

// normal is the target with its defaults filled in, or all that is wrong
// with it.
func (t Target) normal() (Target, error) {
	setDefault(&t.Timeout, DefaultTimeout)
	if t.Pull {
		setDefault(&t.Concurrency, DefaultPullLeases)
		t.Breaker.Off = true // a sick service asks for nothing
	}
	setDefault(&t.Concurrency, DefaultConcurrency)
	setDefault(&t.GiveUp, DefaultGiveUp)
	setDefault(&t.Memory, DefaultMemory)
	t.Schedule.fill()
	t.Rate.fill()
	t.Breaker.fill()
	if err := errors.Join(t.checkURL(), t.checkNumbers(), t.checkStatuses(), t.checkHeaders(), t.checkWay(), t.Shape.check()); err != nil {
		return t, fmt.Errorf("target %q: %w", t.Name, err)
	}
	return t, nil
}

func setDefault[T int | int64 | float64 | time.Duration](v *T, def T) {
	if *v == 0 {
		*v = def
	}
}

func (t Target) checkURL() error {
	switch u := t.URL; {
	case t.Name == "":
		return errors.New("has no name")
	case t.Pull && u == nil && t.Way == (Way{}):
		return nil
	case t.Pull:
		return errors.New("url: a pulled target has none")
	case u == nil || u.Host == "" || u.Hostname() == "" || u.Opaque != "":
		return errors.New("url: want an absolute http or https URL")
	case u.Scheme != "http" && u.Scheme != "https":
		return fmt.Errorf("url: scheme %q: want http or https", u.Scheme)
	case u.User != nil:
		return errors.New("url: holds user info; set an Authorization header instead")
	case u.Fragment != "":
		return errors.New("url: holds a fragment")
	}
	return nil
}

func (t Target) checkNumbers() error {
	var errs []error
	if t.Timeout < 0 || t.Timeout > MaxTimeout {
		errs = append(errs, fmt.Errorf("timeout %v: want more than 0 and at most %v", t.Timeout, MaxTimeout))
	}
	if t.Concurrency < 0 || t.Concurrency > MaxConcurrency {
		errs = append(errs, fmt.Errorf("concurrency %d: want 1 to %d", t.Concurrency, MaxConcurrency))
	}
	if t.GiveUp < 0 {
		errs = append(errs, fmt.Errorf("give-up %v: want more than 0", t.GiveUp))
	}
	if t.Memory < 0 {
		errs = append(errs, fmt.Errorf("memory %d: want more than 0", t.Memory))
	}
	return errors.Join(append(errs, t.Schedule.check(), t.Rate.check(), t.Breaker.check())...)
}

func (t Target) checkStatuses() error {
	var errs []error
	all := slices.Concat(t.DeadOn, t.RetryOn, t.PauseOn)
	for i, s := range all {
		if s < 300 || s > 599 {
			errs = append(errs, fmt.Errorf("status %d: only 300 to 599 can be overridden", s))
		}
		if slices.Contains(all[:i], s) {
			errs = append(errs, fmt.Errorf("status %d: is named twice in dead, retry and pause", s))
		}
	}
	return errors.Join(errs...)
}

func (t Target) checkHeaders() error {
	var errs []error
	for name, value := range t.Headers {
		switch key := http.CanonicalHeaderKey(name); {
		case !httpguts.ValidHeaderFieldName(name):
			errs = append(errs, fmt.Errorf("header %q: is not a header name", name))
		case reserved(key) || len(t.Signing) > 0 && webhookHeader(key) || t.Shape.CloudEvents && strings.HasPrefix(key, "Ce-"):
			errs = append(errs, fmt.Errorf("header %q: is set by the gateway", name))
		case !httpguts.ValidHeaderFieldValue(string(value)):
			errs = append(errs, fmt.Errorf("header %q: value holds control characters", name))
		}
	}
	for _, s := range t.Signing {
		if len(s.key) == 0 {
			errs = append(errs, errors.New("signing: an empty secret signs nothing"))
		}
	}
	return errors.Join(errs...)
}
