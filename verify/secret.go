package verify

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"
)

// redacted is what a secret looks like wherever it is printed.
const redacted = "REDACTED"

// SecretString holds a secret and prints as REDACTED in every way: through fmt
// with any verb, slog, and every encoder that asks for text or JSON. The value
// sits behind a pointer so that printing a struct that hides it in an unexported
// field shows an address and not the secret. The zero value is the empty secret.
type SecretString struct{ p *string }

// NewSecretString wraps s.
func NewSecretString(s string) SecretString { return SecretString{p: &s} }

// Reveal returns the secret itself. Callers hand it to a primitive and to
// nothing else.
func (s SecretString) Reveal() string {
	if s.p == nil {
		return ""
	}
	return *s.p
}

// Empty reports whether there is nothing in the secret.
func (s SecretString) Empty() bool { return s.p == nil || *s.p == "" }

// Len returns the length of the secret in bytes.
func (s SecretString) Len() int { return len(s.Reveal()) }

// String returns REDACTED.
func (SecretString) String() string { return redacted }

// GoString returns REDACTED.
func (SecretString) GoString() string { return redacted }

// Format writes REDACTED whatever the verb.
func (SecretString) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, redacted) }

// LogValue returns REDACTED.
func (SecretString) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalText returns REDACTED.
func (SecretString) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// MarshalJSON returns "REDACTED".
func (SecretString) MarshalJSON() ([]byte, error) { return []byte(`"` + redacted + `"`), nil }

// UnmarshalText takes the text as the secret, so that a config decoder can fill
// the field directly.
func (s *SecretString) UnmarshalText(b []byte) error {
	*s = NewSecretString(string(b))
	return nil
}

// Secret is one configured secret or public key. Any secret that is valid at the
// time of the request may match.
type Secret struct {
	// ID is the label under which a match is recorded. Empty means "1", "2", …
	// by position.
	ID string
	// Value is the secret as the provider shows it.
	Value SecretString
	// Caller names who sends with this secret; it becomes [Result.Caller].
	Caller string
	// NotBefore and NotAfter bound the use of the secret; NotAfter is excluded.
	// The zero time is no bound.
	NotBefore, NotAfter time.Time
}

// active reports whether the secret may be used at now.
func (s *Secret) active(now time.Time) bool {
	return (s.NotBefore.IsZero() || !now.Before(s.NotBefore)) &&
		(s.NotAfter.IsZero() || now.Before(s.NotAfter))
}

var (
	errEmptySecret = errors.New("is empty")
	errWindow      = errors.New("not_after is not later than not_before")
)

// check reports what is wrong with the secret, whatever its form.
func (s *Secret) check() error {
	if s.Value.Empty() {
		return errEmptySecret
	}
	if !s.NotBefore.IsZero() && !s.NotAfter.IsZero() && !s.NotAfter.After(s.NotBefore) {
		return errWindow
	}
	return nil
}
