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
	for _, part := range []struct {
		to   []byte
		from string
	}{{version[:], s[:2]}, {c.Trace[:], s[3:35]}, {c.Span[:], s[36:52]}, {flags[:], s[53:55]}} {
		if !lowerHex(part.to, part.from) {
			return Context{}, false
		}
	}
	if version[0] == 0xff || c.IsZero() {
		return Context{}, false
	}
	c.Sampled = flags[0]&1 != 0
	return c, true
}

// lowerHex decodes hexadecimal digits in lower case, the only ones allowed.
func lowerHex(to []byte, from string) bool {
	for i := 0; i < len(from); i++ {
		if c := from[i]; !(c >= '0' && c <= '9' || c >= 'a' && c <= 'f') {
			return false
		}
	}
	_, err := hex.Decode(to, []byte(from))
	return err == nil
}
