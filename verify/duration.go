package verify

import (
	"fmt"
	"time"
)

// Duration is a time.Duration that is written as text, such as `72h0m0s`, in
// every encoding that asks for text.
type Duration time.Duration

// The units rows are written in.
const (
	second = Duration(time.Second)
	minute = Duration(time.Minute)
	hour   = Duration(time.Hour)
	day    = 24 * hour
)

// unknownWindow is the window of rows whose provider's retries are unknown.
const unknownWindow = Duration(DefaultWindow)

// String returns the duration as time.Duration writes it.
func (d Duration) String() string { return time.Duration(d).String() }

// MarshalText returns the duration as time.Duration writes it.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads what time.ParseDuration reads.
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	if err != nil {
		return fmt.Errorf("duration %q: want a number and a unit, such as 10s or 72h", b)
	}
	*d = Duration(v)
	return nil
}

// Text is bytes that are written as text.
type Text []byte

// MarshalText returns the bytes.
func (t Text) MarshalText() ([]byte, error) { return t, nil }

// UnmarshalText copies the bytes.
func (t *Text) UnmarshalText(b []byte) error {
	*t = append(Text(nil), b...)
	return nil
}
