package badgerdb

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"time"

	"github.com/klauspost/compress/s2"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

const (
	recordVersion  = 1
	flagCompressed = 1
	flagTexts      = 2 // texts are packed
	envelopeSize   = 6
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(key []byte, flags byte, payload []byte) uint32 {
	sum := crc32.Update(0, castagnoli, key)
	sum = crc32.Update(sum, castagnoli, []byte{flags})
	return crc32.Update(sum, castagnoli, payload)
}

// newEnc begins a value: room for the envelope, which seal fills in.
func newEnc(size int) *enc {
	return &enc{b: make([]byte, envelopeSize, envelopeSize+size)}
}

// seal completes the value begun by newEnc for key.
func (e *enc) seal(key []byte, flags byte) []byte {
	flags |= e.flags
	e.b[0], e.b[1] = recordVersion, flags
	binary.BigEndian.PutUint32(e.b[2:], checksum(key, flags, e.b[envelopeSize:]))
	return e.b
}

// sealCompressed is the value of a payload of some size, compressed where that
// saves an eighth or more.
func sealCompressed(key, payload []byte) []byte {
	e := newEnc(s2.MaxEncodedLen(len(payload)))
	if len(payload) >= 128 {
		packed := s2.Encode(e.b[envelopeSize:cap(e.b)], payload)
		if len(packed) <= len(payload)-len(payload)/8 {
			e.b = e.b[:envelopeSize+len(packed)]
			return e.seal(key, flagCompressed)
		}
	}
	e.b = append(e.b, payload...)
	return e.seal(key, 0)
}

// unseal checks a value against its key and returns its payload, uncompressed.
func unseal(key, val []byte) ([]byte, error) {
	if len(val) < envelopeSize {
		return nil, damaged(key, "value too short")
	}
	if val[0] != recordVersion {
		return nil, damaged(key, fmt.Sprintf("record version %d, want %d", val[0], recordVersion))
	}
	payload := val[envelopeSize:]
	if binary.BigEndian.Uint32(val[2:]) != checksum(key, val[1], payload) {
		return nil, damaged(key, "checksum mismatch")
	}
	switch val[1] &^ flagTexts {
	case 0:
		return payload, nil
	case flagCompressed:
		out, err := s2.Decode(nil, payload)
		if err != nil {
			return nil, damaged(key, err.Error())
		}
		return out, nil
	}
	return nil, damaged(key, "unknown flags")
}

// decoder begins to read a record that may have packed texts.
func decoder(key, val []byte) (dec, error) {
	payload, err := unseal(key, val)
	if err != nil {
		return dec{}, err
	}
	return dec{b: payload, texts: val[1]&flagTexts != 0}, nil
}

func damaged(key []byte, what string) error {
	return fmt.Errorf("%w: record %s: %s", dedupe.ErrDamaged, keyText(key), what)
}

// enc appends the primitives of payloads.
type enc struct {
	b     []byte
	flags byte
	known known
}

func (e *enc) uint(v uint64) { e.b = binary.AppendUvarint(e.b, v) }
func (e *enc) int(v int64)   { e.b = binary.AppendVarint(e.b, v) }
func (e *enc) raw(b []byte)  { e.b = append(e.b, b...) }

func (e *enc) str(s string) {
	e.uint(uint64(len(s)))
	e.b = append(e.b, s...)
}

func (e *enc) bytes(b []byte) {
	e.uint(uint64(len(b)))
	e.b = append(e.b, b...)
}

func (e *enc) bool(v bool) {
	if v {
		e.b = append(e.b, 1)
		return
	}
	e.b = append(e.b, 0)
}

// time keeps nanoseconds since 1970, or nothing for the zero time.
func (e *enc) time(t time.Time) {
	if t.IsZero() {
		e.int(0)
		return
	}
	e.int(t.UnixNano())
}

// dec reads what enc wrote. After the first fault all reads give zero values
// and err is set; lengths are checked against what is left.
type dec struct {
	b     []byte
	bad   bool
	texts bool // are packed
	known known
}

func (d *dec) fail() {
	d.b, d.bad = nil, true
}

func (d *dec) uint() uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.fail()
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *dec) int() int64 {
	v, n := binary.Varint(d.b)
	if n <= 0 {
		d.fail()
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *dec) raw(out []byte) {
	if len(d.b) < len(out) {
		d.fail()
		return
	}
	copy(out, d.b)
	d.b = d.b[len(out):]
}

func (d *dec) view() []byte {
	n := d.uint()
	if n > uint64(len(d.b)) {
		d.fail()
		return nil
	}
	v := d.b[:n:n]
	d.b = d.b[n:]
	return v
}

func (d *dec) str() string { return string(d.view()) }

func (d *dec) bytes() []byte {
	v := d.view()
	if len(v) == 0 {
		return nil
	}
	return append([]byte(nil), v...)
}

func (d *dec) bool() bool {
	if len(d.b) == 0 {
		d.fail()
		return false
	}
	v := d.b[0] != 0
	d.b = d.b[1:]
	return v
}

func (d *dec) time() time.Time {
	v := d.int()
	if v == 0 {
		return time.Time{}
	}
	return time.Unix(0, v)
}

// order takes a fixed eight bytes: it is a hash.
func (e *enc) order(o event.Order) { e.b = binary.BigEndian.AppendUint64(e.b, uint64(o)) }

func (d *dec) order() event.Order {
	var b [8]byte
	d.raw(b[:])
	return event.Order(binary.BigEndian.Uint64(b[:]))
}

// count reads the length of a list whose items take at least one byte each.
func (d *dec) count() int {
	n := d.uint()
	if n > uint64(len(d.b)) {
		d.fail()
		return 0
	}
	return int(n)
}

// end is an error unless the payload was read without fault and to its end.
func (d *dec) end(key []byte) error {
	if d.bad || len(d.b) != 0 {
		return damaged(key, "payload does not decode")
	}
	return nil
}
