package postgres

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"time"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

// recordVersion is the first byte of every packed record; the last four are a
// checksum of the ref and all before them.
const recordVersion = 1

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

type packer struct{ b []byte }

func newPacker(size int) *packer {
	p := &packer{b: make([]byte, 0, size)}
	p.b = append(p.b, recordVersion)
	return p
}

func (p *packer) num(v int64)  { p.b = binary.AppendVarint(p.b, v) }
func (p *packer) raw(b []byte) { p.b = append(p.b, b...) }
func (p *packer) text(s string) {
	p.b = binary.AppendUvarint(p.b, uint64(len(s)))
	p.b = append(p.b, s...)
}
func (p *packer) when(t time.Time) { p.num(nanos(t)) }

func (p *packer) seal(ref event.Ref) []byte {
	return binary.BigEndian.AppendUint32(p.b, sum(ref, p.b))
}

func sum(ref event.Ref, b []byte) uint32 {
	return crc32.Update(crc32.Checksum(ref[:], castagnoli), castagnoli, b)
}

// unpacker reads what packer wrote. After a fault everything reads as zero.
type unpacker struct {
	b   []byte
	bad bool
}

func open(ref event.Ref, b []byte) *unpacker {
	n := len(b) - 4
	if n < 1 || b[0] != recordVersion || binary.BigEndian.Uint32(b[n:]) != sum(ref, b[:n]) {
		return &unpacker{bad: true}
	}
	return &unpacker{b: b[1:n]}
}

func (u *unpacker) num() int64 {
	v, n := binary.Varint(u.b)
	if n <= 0 {
		u.b, u.bad = nil, true
		return 0
	}
	u.b = u.b[n:]
	return v
}

func (u *unpacker) count() int {
	n := u.num()
	if n < 0 || n > int64(len(u.b)) {
		u.b, u.bad = nil, true
		return 0
	}
	return int(n)
}

func (u *unpacker) bytes() []byte {
	n, w := binary.Uvarint(u.b)
	if w <= 0 || n > uint64(len(u.b)-w) {
		u.b, u.bad = nil, true
		return nil
	}
	v := u.b[w : w+int(n)]
	u.b = u.b[w+int(n):]
	return v
}

func (u *unpacker) text() string { return string(u.bytes()) }

func (u *unpacker) blob() []byte {
	if v := u.bytes(); len(v) > 0 {
		return append([]byte(nil), v...)
	}
	return nil
}

func (u *unpacker) fixed(to []byte) {
	if len(u.b) < len(to) {
		u.b, u.bad = nil, true
		return
	}
	copy(to, u.b)
	u.b = u.b[len(to):]
}

func (u *unpacker) when() time.Time { return fromNanos(u.num()) }

func (u *unpacker) end(what string, ref event.Ref) error {
	if u.bad || len(u.b) != 0 {
		return fmt.Errorf("%s of event %s: %w", what, ref, dedupe.ErrDamaged)
	}
	return nil
}

// nanos and millis keep the zero time as 0.
func nanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

func fromNanos(v int64) time.Time {
	if v == 0 {
		return time.Time{}
	}
	return time.Unix(0, v)
}

func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

func fromMillis(v int64) time.Time {
	if v == 0 {
		return time.Time{}
	}
	return time.UnixMilli(v)
}

func packEvent(ev *event.Event) []byte {
	p := newPacker(512)
	for _, s := range [...]string{ev.Source, ev.Provider, ev.ID, ev.Type, ev.Caller, ev.Secret, ev.Key, ev.Method, ev.Path, ev.Query, ev.Trace} {
		p.text(s)
	}
	p.when(ev.ReceivedAt)
	p.num(int64(len(ev.Header)))
	for _, f := range ev.Header {
		p.text(f.Name)
		p.text(f.Value)
	}
	p.num(int64(len(ev.Index)))
	for _, f := range ev.Index {
		p.text(f.Name)
		p.text(f.Value)
	}
	p.raw(ev.BodyHash[:])
	p.raw(ev.Body.Request[:])
	p.num(ev.Body.Offset)
	p.num(ev.Body.Length)
	p.num(int64(len(ev.Targets)))
	for _, t := range ev.Targets {
		p.text(t)
	}
	p.num(int64(len(ev.Orders)))
	for _, o := range ev.Orders {
		p.b = binary.BigEndian.AppendUint64(p.b, uint64(o))
	}
	p.num(int64(ev.Answer.Status))
	p.text(ev.Answer.ContentType)
	p.text(string(ev.Answer.Body))
	p.num(int64(ev.Flags))
	p.raw(ev.Related[:])
	return p.seal(ev.Ref)
}

func unpackEvent(ref event.Ref, b []byte) (event.Event, error) {
	u, ev := open(ref, b), event.Event{Ref: ref}
	for _, s := range [...]*string{&ev.Source, &ev.Provider, &ev.ID, &ev.Type, &ev.Caller, &ev.Secret, &ev.Key, &ev.Method, &ev.Path, &ev.Query, &ev.Trace} {
		*s = u.text()
	}
	ev.ReceivedAt = u.when()
	if n := u.count(); n > 0 {
		ev.Header = make([]event.Field, n)
		for i := range ev.Header {
			ev.Header[i] = event.Field{Name: u.text(), Value: u.text()}
		}
	}
	if n := u.count(); n > 0 {
		ev.Index = make([]event.Field, n)
		for i := range ev.Index {
			ev.Index[i] = event.Field{Name: u.text(), Value: u.text()}
		}
	}
	u.fixed(ev.BodyHash[:])
	u.fixed(ev.Body.Request[:])
	ev.Body.Offset, ev.Body.Length = u.num(), u.num()
	if n := u.count(); n > 0 {
		ev.Targets = make([]string, n)
		for i := range ev.Targets {
			ev.Targets[i] = u.text()
		}
	}
	if n := u.count(); n > 0 {
		ev.Orders = make([]event.Order, n)
		for i := range ev.Orders {
			var o [8]byte
			u.fixed(o[:])
			ev.Orders[i] = event.Order(binary.BigEndian.Uint64(o[:]))
		}
	}
	ev.Answer = event.Answer{Status: int(u.num()), ContentType: u.text(), Body: u.blob()}
	ev.Flags = event.Flags(u.num())
	u.fixed(ev.Related[:])
	return ev, u.end("record", ref)
}

func packAttempt(a *event.Attempt) []byte {
	p := newPacker(128 + len(a.Response))
	for _, v := range [...]int64{int64(a.Generation), int64(a.Number), nanos(a.StartedAt), int64(a.Duration), a.Phases.DNS.Microseconds(),
		a.Phases.Connect.Microseconds(), a.Phases.TLS.Microseconds(), a.Phases.FirstByte.Microseconds(), int64(a.Status), int64(a.State),
		int64(a.RetryIn)} {
		p.num(v)
	}
	p.text(string(a.Outcome))
	p.text(a.Error)
	p.text(string(a.Response))
	late := int64(0)
	if a.Late {
		late = 1
	}
	p.num(late)
	return p.seal(a.Event)
}

func unpackAttempt(ref event.Ref, target string, b []byte) (event.Attempt, error) {
	u, a := open(ref, b), event.Attempt{Event: ref, Target: target}
	a.Generation, a.Number, a.StartedAt, a.Duration = uint16(u.num()), uint32(u.num()), u.when(), time.Duration(u.num())
	for _, d := range [...]*time.Duration{&a.Phases.DNS, &a.Phases.Connect, &a.Phases.TLS, &a.Phases.FirstByte} {
		*d = time.Duration(u.num()) * time.Microsecond
	}
	a.Status, a.State, a.RetryIn = int(u.num()), event.State(u.num()), time.Duration(u.num())
	a.Outcome, a.Error, a.Response = event.Outcome(u.text()), u.text(), u.blob()
	a.Late = u.num() == 1
	return a, u.end("attempt", ref)
}

// packLeaves puts leaves one after the other, each with its length before it.
func packLeaves(leaves [][]byte) []byte {
	var b []byte
	for _, l := range leaves {
		b = binary.AppendUvarint(b, uint64(len(l)))
		b = append(b, l...)
	}
	return b
}

func unpackLeaves(b []byte, n int64) ([][]byte, error) {
	var out [][]byte
	u := &unpacker{b: b}
	for range n {
		out = append(out, u.blob())
	}
	if u.bad || len(u.b) != 0 {
		return nil, fmt.Errorf("acts of a batch: %w", dedupe.ErrDamaged)
	}
	return out, nil
}
