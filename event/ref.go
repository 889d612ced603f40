package event

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/oklog/ulid/v2"
)

// CounterBits is the width of the counter that orders events accepted in the
// same millisecond.
const CounterBits = 20

// WriterBits is the width of the writer ID inside a Ref.
const WriterBits = 60

// Ref is the gateway's own identity of an event: 48 bits of ledger time in
// Unix milliseconds, a 20-bit counter and the 60-bit ID of the ledger writer
// that accepted it, in this order, big-endian. Refs of one writer ascend in
// commit order. The zero Ref names no event.
type Ref [16]byte

// NewRef composes a Ref of ledger milliseconds, counter and writer ID. Bits
// beyond each field's width are dropped.
func NewRef(ms uint64, counter uint32, writer uint64) Ref {
	var r Ref
	binary.BigEndian.PutUint64(r[:8], ms<<16|uint64(counter>>4)&0xffff)
	binary.BigEndian.PutUint64(r[8:], uint64(counter&0xf)<<WriterBits|writer&(1<<WriterBits-1))
	return r
}

// Milli is the ledger time of acceptance in Unix milliseconds.
func (r Ref) Milli() uint64 { return binary.BigEndian.Uint64(r[:8]) >> 16 }

// Counter orders the refs of one millisecond.
func (r Ref) Counter() uint32 {
	hi := uint32(binary.BigEndian.Uint64(r[:8]) & 0xffff)
	return hi<<4 | uint32(r[8]>>4)
}

// Writer is the 60-bit ID of the writer that accepted the event.
func (r Ref) Writer() uint64 { return binary.BigEndian.Uint64(r[8:]) & (1<<WriterBits - 1) }

// Time is the ledger time of acceptance. People see the event's ReceivedAt
// instead, which is the wall clock.
func (r Ref) Time() time.Time { return time.UnixMilli(int64(r.Milli())) }

// Next is the ref that follows r of the same writer at ledger time ms, or in
// r's own millisecond when ms is not later.
func (r Ref) Next(ms uint64) Ref {
	if ms > r.Milli() {
		return NewRef(ms, 0, r.Writer())
	}
	if c := r.Counter(); c < 1<<CounterBits-1 {
		return NewRef(r.Milli(), c+1, r.Writer())
	}
	return NewRef(r.Milli()+1, 0, r.Writer())
}

// IsZero reports whether r names no event.
func (r Ref) IsZero() bool { return r == Ref{} }

// Compare orders refs by time, counter, writer.
func (r Ref) Compare(o Ref) int { return bytes.Compare(r[:], o[:]) }

// String is the 26 ULID characters (Crockford base32) that people see.
func (r Ref) String() string { return ulid.ULID(r).String() }

// MarshalText writes the 26 characters of String.
func (r Ref) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText accepts what MarshalText writes, in either case, and the
// empty text as the zero Ref.
func (r *Ref) UnmarshalText(b []byte) error {
	if len(b) == 0 {
		*r = Ref{}
		return nil
	}
	v, err := ParseRef(string(b))
	if err != nil {
		return err
	}
	*r = v
	return nil
}

// ParseRef reads the 26 characters of a ref, in either case.
func ParseRef(s string) (Ref, error) {
	u, err := ulid.ParseStrict(s)
	if err != nil {
		return Ref{}, fmt.Errorf("ref %q: want 26 characters of a ULID: %w", s, err)
	}
	return Ref(u), nil
}
