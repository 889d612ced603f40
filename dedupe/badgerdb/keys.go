package badgerdb

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

// The first byte of a key, and the kinds inside an event bucket.
const (
	kindMeta    = 'm'
	kindHead    = 'h'
	kindClaim   = 'd'
	kindEvent   = 'e'
	kindBody    = 'b'
	kindAttempt = 'a'
	kindActs    = 'u'
	kindCarried = 'c'
	kindNote    = 'n'
	kindSync    = 'k'
	kindSpool   = 'q'

	subEvent   = 'e'
	subCarried = 'c'
	subIndex   = 'i'
	subState   = 's'
	subTally   = 'r'
	subDead    = 'f'
	subField   = 'x'
)

func metaKey(name string) []byte { return append([]byte{kindMeta}, name...) }

func headPrefix(t uint32) []byte { return binary.BigEndian.AppendUint32([]byte{kindHead}, t) }

func headKey(t uint32, no uint64) []byte {
	return binary.BigEndian.AppendUint64(headPrefix(t), no)
}

const headKeySize = 1 + 4 + 8

func claimPrefix(p uint32) []byte {
	return binary.BigEndian.AppendUint32([]byte{kindClaim}, p)
}

func claimKey(p uint32, k dedupe.Key) []byte { return append(claimPrefix(p), k[:]...) }

// bucketPrefix is the prefix of one bucket of a kind and class; dropping it
// drops the bucket.
func bucketPrefix(kind byte, class uint8, t uint32) []byte {
	b := make([]byte, 0, 96)
	return binary.BigEndian.AppendUint32(append(b, kind, class), t)
}

func eventKey(class uint8, t uint32, sub byte, ref event.Ref) []byte {
	return append(append(bucketPrefix(kindEvent, class, t), sub), ref[:]...)
}

func stateKey(class uint8, t uint32, ref event.Ref, target string) []byte {
	return append(eventKey(class, t, subState, ref), target...)
}

func deadKey(class uint8, t uint32, target string, ref event.Ref) []byte {
	b := append(bucketPrefix(kindEvent, class, t), subDead)
	return append(append(append(b, target...), 0), ref[:]...)
}

func indexPrefix(class uint8, t uint32, source, id string) []byte {
	frame := binary.BigEndian.AppendUint32(nil, uint32(len(source)))
	sum := sha256.Sum256(append(append(frame, source...), id...))
	return append(append(bucketPrefix(kindEvent, class, t), subIndex), sum[:16]...)
}

// fieldPrefix is below a bucket's prefix: the index is read bucket by bucket,
// newest event first.
func fieldPrefix(name, value string) []byte {
	frame := binary.BigEndian.AppendUint32(nil, uint32(len(name)))
	sum := sha256.Sum256(append(append(frame, name...), value...))
	return append([]byte{subField}, sum[:16]...)
}

func fieldKey(class uint8, t uint32, f event.Field, ref event.Ref) []byte {
	return append(append(bucketPrefix(kindEvent, class, t), fieldPrefix(f.Name, f.Value)...), ref[:]...)
}

func bodyKey(class uint8, t uint32, request event.Ref, chunk uint16) []byte {
	return binary.BigEndian.AppendUint16(append(bucketPrefix(kindBody, class, t), request[:]...), chunk)
}

func attemptPrefix(class uint8, t uint32, ref event.Ref) []byte {
	return append(bucketPrefix(kindAttempt, class, t), ref[:]...)
}

// attemptKey names an attempt by target, generation and number, so that the
// one attempt most deliveries need is found without a search.
func attemptKey(class uint8, t uint32, ref event.Ref, target string, gen uint16, number uint32) []byte {
	b := append(append(attemptPrefix(class, t, ref), target...), 0)
	b = binary.BigEndian.AppendUint16(b, gen)
	return binary.BigEndian.AppendUint32(b, number)
}

// lateKey names an attempt whose lease was lost: its number may have been
// given to another, so its place in the order of recording tells them apart.
func lateKey(key []byte, batch uint64, n uint16) []byte {
	return binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint64(key, batch), n)
}

const bucketSize = 1 + 1 + 4 // kind, class, bucket number

func parseAttemptKey(key []byte) (ref event.Ref, target string, gen uint16, ok bool) {
	const tail, late = 2 + 4, 8 + 2
	if len(key) < bucketSize+16 {
		return ref, "", 0, false
	}
	copy(ref[:], key[bucketSize:])
	name, rest, _ := bytes.Cut(key[bucketSize+16:], []byte{0})
	if len(rest) != tail && len(rest) != tail+late {
		return ref, "", 0, false
	}
	return ref, string(name), binary.BigEndian.Uint16(rest), true
}

// refOf reads the ref of an event, carried, state or tally key.
func refOf(key []byte) (ref event.Ref, rest []byte, ok bool) {
	if len(key) < bucketSize+1+16 {
		return ref, nil, false
	}
	copy(ref[:], key[bucketSize+1:])
	return ref, key[bucketSize+1+16:], true
}

func carriedKey(ref event.Ref) []byte { return append([]byte{kindCarried}, ref[:]...) }

func bucketNumber(key []byte) uint32 { return binary.BigEndian.Uint32(key[2:]) }

// keyText shows a key in errors and reports. Keys hold names and hashes, never
// text a sender chose.
func keyText(key []byte) string {
	if len(key) == 0 {
		return "(empty)"
	}
	switch {
	case key[0] == kindMeta:
		return fmt.Sprintf("%q", key)
	case key[0] == kindSync && len(key) == syncKeySize:
		return fmt.Sprintf("key %x of a synchronous route", key[5:])
	case key[0] == kindSpool && len(key) == syncKeySize+8+2:
		return fmt.Sprintf("chunk %d of the answer to key %x", binary.BigEndian.Uint16(key[syncKeySize+8:]), key[5:syncKeySize])
	case key[0] == kindNote:
		return fmt.Sprintf("note %q", key[1:])
	case key[0] == kindHead && len(key) == headKeySize:
		return fmt.Sprintf("head %d", binary.BigEndian.Uint64(key[5:]))
	case key[0] == kindClaim && len(key) == 37:
		return fmt.Sprintf("claim %x", key[5:])
	case key[0] == kindEvent && len(key) > bucketSize:
		return eventKeyText(key)
	case key[0] == kindActs && len(key) == actsKeySize:
		return fmt.Sprintf("acts of writer %x from %d", binary.BigEndian.Uint64(key[bucketSize:]), binary.BigEndian.Uint64(key[bucketSize+8:]))
	case (key[0] == kindBody || key[0] == kindAttempt) && len(key) >= bucketSize+16:
		var ref event.Ref
		copy(ref[:], key[bucketSize:])
		name := map[byte]string{kindBody: "body", kindAttempt: "attempt"}[key[0]]
		return fmt.Sprintf("%s %s (bucket %d.%d)", name, ref, key[1], bucketNumber(key))
	}
	return fmt.Sprintf("%x", key)
}

func eventKeyText(key []byte) string {
	name := map[byte]string{subEvent: "event", subCarried: "carried event", subIndex: "index entry",
		subState: "delivery state", subTally: "tally", subDead: "dead-letter entry", subField: "entry of an indexed field"}[key[bucketSize]]
	where := fmt.Sprintf("(bucket %d.%d)", key[1], bucketNumber(key))
	tail := key[bucketSize+1:]
	if key[bucketSize] == subDead {
		if i := bytes.IndexByte(tail, 0); i >= 0 {
			tail = tail[i+1:]
		}
	}
	if (key[bucketSize] == subIndex || key[bucketSize] == subField) && len(tail) == 32 {
		tail = tail[16:]
	}
	if len(tail) < 16 {
		return fmt.Sprintf("%s %x %s", name, tail, where)
	}
	var ref event.Ref
	copy(ref[:], tail)
	return fmt.Sprintf("%s %s %s", name, ref, where)
}
