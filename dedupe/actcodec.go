package dedupe

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/onceward/onceward/event"
)

// leafVersion is the first byte of every leaf.
const leafVersion = 1

// The fields of an act in the order in which a leaf holds them. A leaf has a
// bit for each that is not zero.
const (
	actEvent = 1 << iota
	actSource
	actTarget
	actProvider
	actID
	actType
	actSecret
	actHash
	actBytes
	actTime
	actDuration
	actGeneration
	actNumber
	actStatus
	actOutcome
	actState
	actRetryIn
	actFlags
	actRelated
	actLate
	actActor
	actReason
	actDetail
	actFields // one beyond the last
)

func (a *Act) mask() (m uint64) {
	for i, set := range [...]bool{
		!a.Event.IsZero(), a.Source != "", a.Target != "", a.Provider != "", a.ID != "", a.Type != "", a.Secret != "",
		a.Hash != event.Hash{}, a.Bytes != 0, !a.Time.IsZero(), a.Duration != 0, a.Generation != 0, a.Number != 0, a.Status != 0,
		a.Outcome != "", a.State != 0, a.RetryIn != 0, a.Flags != 0, !a.Related.IsZero(), a.Late, a.Actor != "", a.Reason != "",
		a.Detail != "",
	} {
		if set {
			m |= 1 << i
		}
	}
	return m
}

// Append appends the act's leaf to b: version, kind, the fields present,
// ledger time, then each of these fields; numbers as varints, texts with their
// length before them. Equal acts have equal leaves.
func (a *Act) Append(b []byte) []byte {
	m := a.mask()
	b = append(b, leafVersion, byte(a.Kind))
	b = binary.AppendUvarint(b, m)
	b = binary.AppendVarint(b, a.At.UnixMilli())
	if m&actEvent != 0 {
		b = append(b, a.Event[:]...)
	}
	for i, s := range [...]string{a.Source, a.Target, a.Provider, a.ID, a.Type, a.Secret} {
		if m&(actSource<<i) != 0 {
			b = appendText(b, s)
		}
	}
	if m&actHash != 0 {
		b = append(b, a.Hash[:]...)
	}
	if m&actBytes != 0 {
		b = binary.AppendVarint(b, a.Bytes)
	}
	if m&actTime != 0 {
		b = binary.AppendVarint(b, a.Time.UnixNano())
	}
	if m&actDuration != 0 {
		b = binary.AppendVarint(b, int64(a.Duration))
	}
	return a.appendRest(b, m)
}

func (a *Act) appendRest(b []byte, m uint64) []byte {
	for _, f := range [...]struct{ bit, v uint64 }{
		{actGeneration, uint64(a.Generation)}, {actNumber, a.Number}, {actStatus, uint64(a.Status)},
	} {
		if m&f.bit != 0 {
			b = binary.AppendUvarint(b, f.v)
		}
	}
	if m&actOutcome != 0 {
		b = appendText(b, a.Outcome)
	}
	if m&actState != 0 {
		b = append(b, byte(a.State))
	}
	if m&actRetryIn != 0 {
		b = binary.AppendVarint(b, int64(a.RetryIn))
	}
	if m&actFlags != 0 {
		b = binary.AppendUvarint(b, uint64(a.Flags))
	}
	if m&actRelated != 0 {
		b = append(b, a.Related[:]...)
	}
	for i, s := range [...]string{a.Actor, a.Reason, a.Detail} {
		if m&(actActor<<i) != 0 {
			b = appendText(b, s)
		}
	}
	return b
}

func appendText(b []byte, s string) []byte {
	s = s[:min(len(s), MaxActText)]
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// errLeaf says that bytes are no leaf of this version.
var errLeaf = errors.New("malformed record of an act")

// DecodeAct reads a leaf. Bytes that Append would not have written, down to
// the last bit, are an error: an act has one leaf.
func DecodeAct(leaf []byte) (Act, error) {
	if len(leaf) < 2 || leaf[0] != leafVersion {
		return Act{}, errLeaf
	}
	d := &leafReader{b: leaf[2:]}
	a := Act{Kind: ActKind(leaf[1])}
	m := d.uint()
	a.At = time.UnixMilli(d.int())
	if m >= actFields || a.Kind == 0 || int(a.Kind) >= len(actNames) {
		return Act{}, errLeaf
	}
	d.read(&a, m)
	if d.bad || len(d.b) != 0 || !bytes.Equal(a.Append(make([]byte, 0, len(leaf))), leaf) {
		return Act{}, errLeaf
	}
	return a, nil
}

// leafReader reads what Append wrote. After a fault everything reads as zero.
type leafReader struct {
	b   []byte
	bad bool
}

func (d *leafReader) read(a *Act, m uint64) {
	if m&actEvent != 0 {
		d.raw(a.Event[:])
	}
	for i, s := range [...]*string{&a.Source, &a.Target, &a.Provider, &a.ID, &a.Type, &a.Secret} {
		if m&(actSource<<i) != 0 {
			*s = d.text()
		}
	}
	if m&actHash != 0 {
		d.raw(a.Hash[:])
	}
	if m&actBytes != 0 {
		a.Bytes = d.int()
	}
	if m&actTime != 0 {
		a.Time = time.Unix(0, d.int())
	}
	if m&actDuration != 0 {
		a.Duration = time.Duration(d.int())
	}
	if m&actGeneration != 0 {
		a.Generation = uint16(d.upTo(math.MaxUint16))
	}
	if m&actNumber != 0 {
		a.Number = d.uint()
	}
	if m&actStatus != 0 {
		a.Status = int(d.upTo(math.MaxInt32))
	}
	d.readRest(a, m)
}

func (d *leafReader) readRest(a *Act, m uint64) {
	if m&actOutcome != 0 {
		a.Outcome = d.text()
	}
	if m&actState != 0 {
		var b [1]byte
		d.raw(b[:])
		a.State = event.State(b[0])
	}
	if m&actRetryIn != 0 {
		a.RetryIn = time.Duration(d.int())
	}
	if m&actFlags != 0 {
		a.Flags = event.Flags(d.upTo(math.MaxUint16))
	}
	if m&actRelated != 0 {
		d.raw(a.Related[:])
	}
	a.Late = m&actLate != 0
	for i, s := range [...]*string{&a.Actor, &a.Reason, &a.Detail} {
		if m&(actActor<<i) != 0 {
			*s = d.text()
		}
	}
}

func (d *leafReader) fail() { d.b, d.bad = nil, true }

func (d *leafReader) uint() uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.fail()
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *leafReader) upTo(most uint64) uint64 {
	v := d.uint()
	if v > most {
		d.fail()
		return 0
	}
	return v
}

func (d *leafReader) int() int64 {
	v, n := binary.Varint(d.b)
	if n <= 0 {
		d.fail()
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *leafReader) raw(out []byte) {
	if len(d.b) < len(out) {
		d.fail()
		return
	}
	copy(out, d.b)
	d.b = d.b[len(out):]
}

func (d *leafReader) text() string {
	n := d.upTo(MaxActText)
	if n > uint64(len(d.b)) {
		d.fail()
		return ""
	}
	s := string(d.b[:n])
	d.b = d.b[n:]
	return s
}

// ActPack is the acts of one transaction, one after the other, as an engine
// stores them in a single record. The zero ActPack is empty; Reset keeps its
// memory.
type ActPack struct {
	b []byte
	n int
}

// Add appends an act that happens at ledger time at.
func (p *ActPack) Add(a *Act, at time.Time) {
	a.At = at
	start := len(p.b)
	p.b = a.Append(append(p.b, 0, 0))
	binary.BigEndian.PutUint16(p.b[start:], uint16(len(p.b)-start-2)) // texts are bounded: it fits
	p.n++
}

// Len is the number of acts.
func (p *ActPack) Len() int { return p.n }

// Bytes are the acts packed, until the next Add or Reset.
func (p *ActPack) Bytes() []byte { return p.b }

// Reset empties the pack.
func (p *ActPack) Reset() { p.b, p.n = p.b[:0], 0 }

// Unpack calls f for each leaf of a pack's bytes, in order, until it returns
// false. Leaves share their memory with b. Bytes that are no pack are an error.
func Unpack(b []byte, f func(leaf []byte) bool) error {
	for n := 0; len(b) > 0; n++ {
		if len(b) < 2 || len(b)-2 < int(binary.BigEndian.Uint16(b)) {
			return fmt.Errorf("%w: number %d is cut", errLeaf, n)
		}
		end := 2 + int(binary.BigEndian.Uint16(b))
		if !f(b[2:end:end]) {
			return nil
		}
		b = b[end:]
	}
	return nil
}
