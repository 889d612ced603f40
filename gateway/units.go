package gateway

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

var (
	errDuration = errors.New(`want a duration such as "30s", "72h" or "30d"`)
	errSize     = errors.New(`want a size such as "512KiB", "5MiB" or "1GiB"`)
	errPrefix   = errors.New(`want a network such as "10.0.0.0/8", or an address`)
)

// Duration is a length of time in TOML: Go's units, and d for days of 24
// hours.
type Duration time.Duration

const day = 24 * time.Hour

// UnmarshalText reads "90s", "1h30m", "30d" or "1d12h". Negative, empty and
// overflowing ones are errors.
func (d *Duration) UnmarshalText(b []byte) error {
	s := string(b)
	var total time.Duration
	if days, rest, ok := strings.Cut(s, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 32)
		if err != nil || int64(n) > math.MaxInt64/int64(day) {
			return errDuration
		}
		total = time.Duration(n) * day
		if s = rest; s == "" {
			*d = Duration(total)
			return nil
		}
	}
	v, err := time.ParseDuration(s)
	if err != nil || v < 0 || s[0] == '+' || s[0] == '-' || total > math.MaxInt64-v {
		return errDuration
	}
	*d = Duration(total + v)
	return nil
}

// String writes whole days as "30d" and all else without trailing zero units.
func (d Duration) String() string {
	v := time.Duration(d)
	if v >= 2*day && v%day == 0 {
		return strconv.FormatInt(int64(v/day), 10) + "d"
	}
	s := v.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// MarshalText writes String.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// Size is a number of bytes in TOML: an integer, or a string with a unit.
type Size int64

var sizeUnits = []struct {
	name  string
	bytes uint64
}{
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40},
	{"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}, {"B", 1}, {"", 1},
}

// UnmarshalText reads "5MiB", "10MB" or "4096". Fractions, signs and what
// doesn't fit 63 bits are errors.
func (s *Size) UnmarshalText(b []byte) error {
	digits := strings.TrimRight(string(b), "KMGTiB")
	n, err := strconv.ParseUint(strings.TrimSuffix(digits, " "), 10, 63)
	if err != nil {
		return errSize
	}
	for _, u := range sizeUnits {
		if u.name == string(b[len(digits):]) {
			if n > math.MaxInt64/u.bytes {
				return fmt.Errorf("is more than %d bytes; %w", int64(math.MaxInt64), errSize)
			}
			*s = Size(n * u.bytes)
			return nil
		}
	}
	return errSize
}

// String writes the largest binary unit that leaves no rest.
func (s Size) String() string {
	if s == 0 {
		return "0"
	}
	for i := 3; i >= 0; i-- {
		u := sizeUnits[i]
		if int64(s)%int64(u.bytes) == 0 {
			return strconv.FormatInt(int64(s)/int64(u.bytes), 10) + u.name
		}
	}
	return strconv.FormatInt(int64(s), 10)
}

// MarshalText writes String.
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
