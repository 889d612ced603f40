package receiver

import (
	"crypto/rand"
	"encoding/hex"
)

// newTrace is a W3C traceparent of a new root. The caller's own trace is never
// continued: its IDs and its sampling flag are chosen by whoever sends.
func newTrace() string {
	var ids [24]byte
	// Read never fails. All-zero IDs, which the format forbids, do not happen.
	_, _ = rand.Read(ids[:])
	var b [55]byte
	copy(b[:], "00-")
	hex.Encode(b[3:35], ids[:16])
	b[35] = '-'
	hex.Encode(b[36:52], ids[16:])
	copy(b[52:], "-01")
	return string(b[:])
}
