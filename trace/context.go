package trace

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
)

// ID names a trace, SpanID a span of it. The zero ones name none.
type (
	ID     [16]byte
	SpanID [8]byte
)

// Context is the place of a span: what a W3C traceparent says.
type Context struct {
	Trace   ID
	Span    SpanID
	Sampled bool // who called may have recorded it
}

// IsZero reports whether the context names no trace.
func (c Context) IsZero() bool { return c.Trace == ID{} || c.Span == SpanID{} }

// NewRoot is the context of the first span of a new trace.
func NewRoot(sampled bool) Context {
	c := Context{Sampled: sampled}
	var ids [24]byte
	// Read never fails. All-zero IDs, which the format forbids, do not happen.
	_, _ = rand.Read(ids[:])
	copy(c.Trace[:], ids[:16])
	copy(c.Span[:], ids[16:])
	return c
}

// Child is the context of another span of the same trace, at random.
func (c Context) Child() Context {
	_, _ = rand.Read(c.Span[:]) // never fails
	return c
}

// ChildOf is the context of the span that these facts name: the same facts give
// the same span, so that who sends it and who records it need not meet.
func (c Context) ChildOf(name string, at int64) Context {
	b := make([]byte, 0, 192)
	b = append(b, c.Trace[:]...)
	b = append(b, c.Span[:]...)
	b = strconv.AppendInt(append(b, name...), at, 10)
	sum := sha256.Sum256(b)
	copy(c.Span[:], sum[:])
	return c
}

// String is the traceparent of the context, version 00.
func (c Context) String() string {
	var b [55]byte
	copy(b[:], "00-")
	hex.Encode(b[3:35], c.Trace[:])
	b[35] = '-'
	hex.Encode(b[36:52], c.Span[:])
	copy(b[52:], "-00")
	if c.Sampled {
		b[54] = '1'
	}
	return string(b[:])
}

// Parse reads a traceparent of any version that begins as version 00 does, as
// the standard has it; false for anything else.
func Parse(s string) (Context, bool) {
	var c Context
	if len(s) < 55 || s[2] != '-' || s[35] != '-' || s[52] != '-' || len(s) > 55 && (s[:2] == "00" || s[55] != '-') {
		return c, false
	}
	var version, flags [1]byte
	if !lowerHex(version[:], s[:2]) || !lowerHex(c.Trace[:], s[3:35]) || !lowerHex(c.Span[:], s[36:52]) || !lowerHex(flags[:], s[53:55]) {
		return Context{}, false
	}
	if version[0] == 0xff || c.IsZero() {
		return Context{}, false
	}
	c.Sampled = flags[0]&1 != 0
	return c, true
}

// lowerHex decodes hexadecimal digits in lower case, the only ones allowed; to
// is half as long as from.
func lowerHex(to []byte, from string) bool {
	for i := range to {
		hi, lo := digit(from[2*i]), digit(from[2*i+1])
		if hi|lo > 0xf {
			return false
		}
		to[i] = hi<<4 | lo
	}
	return true
}

// digit is the value of a digit, more than 15 when it is none.
func digit(c byte) byte {
	switch {
	case c >= '0' && c <= '9':
		return c - '0'
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10
	}
	return 0xff
}
