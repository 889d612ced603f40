package dedupe

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"time"

	"github.com/onceward/onceward/event"
)

// Moved is one record of a ledger on its way into another, in a form that is
// no engine's own. Ledger times have whole milliseconds. A ledger is moved in
// one order: each delivery and attempt follows its event, whatever else stands
// between; a key's chunks follow the key.
type Moved interface{ kind() MovedKind }

// MovedKind is a kind of records that are moved. The numbers are part of dumps.
type MovedKind uint8

// The kinds of records.
const (
	KindClaims MovedKind = iota + 1
	KindBodies
	KindEvents
	KindDeliveries
	KindAttempts
	KindActs
	KindNotes
	KindKeys
	KindChunks
	KindWriters
	movedKinds = iota
)

var movedNames = [...]string{"", "claims", "bodies", "events", "deliveries", "attempts", "batches of acts", "notes", "keys", "answer chunks", "writers"}

// String is the kind's public name.
func (k MovedKind) String() string {
	if k > 0 && int(k) < len(movedNames) {
		return movedNames[k]
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// NoBatch stands for the batch of an event or attempt whose acts are not kept.
const NoBatch int64 = -1

// HeldUntil is when a delivery is due that is held until an operator says
// otherwise: the last second of the year 9999.
var HeldUntil = time.UnixMilli(253_402_300_799_000)

// The records.
type (
	// MovedClaim is a claim; of each key the one that counts.
	MovedClaim struct{ Claim }
	// MovedBody is the body of the request whose first event is Request. Bytes
	// that no event kept refers to may be zero.
	MovedBody struct {
		Request event.Ref
		Until   time.Time // kept until then, and longer while a delivery is open
		Data    []byte
	}
	// MovedEvent is an event as it was accepted, with its tally.
	MovedEvent struct {
		event.Event
		Batch    int64 // the first act of the batch that accepted it, in the log of its writer
		Keep     Retention
		Kept     time.Time // when its retention began
		BodyGone bool
		Tally    event.Tally
	}
	// MovedDelivery is a delivery; one under a lease is pending.
	MovedDelivery struct{ event.Delivery }
	// MovedAttempt is an attempt.
	MovedAttempt struct {
		event.Attempt
		Order  int    // among those of its event, as they were recorded
		Writer uint64 // whose log has its act
		Batch  int64  // the first act of the batch that recorded it
	}
	// MovedActs is the acts of one batch.
	MovedActs struct {
		Writer, First uint64
		At            time.Time
		Lo, Hi        event.Ref // of the events it accepted; zero: none, or not known
		Events        uint64
		KeepUntil     time.Time // until when all of those must be there
		Leaves        [][]byte
	}
	// MovedNote is a note.
	MovedNote struct{ Note }
	// MovedKey is the key of a synchronous route.
	MovedKey struct{ SyncKey }
	// MovedChunk is a chunk of the answer to a key.
	MovedChunk struct {
		Key   Key
		Token uint64
		Chunk int
		Data  []byte
	}
	// MovedWriter is what a ledger says of one that wrote in it.
	MovedWriter struct {
		Writer      uint64
		First, Last event.Ref // events it accepted are not outside; zero: none
		Mark        time.Time // its ledger clock was never behind
		Batches     uint64
		Accepted    uint64
		Acts        uint64 // the index of its next act
	}
)

func (*MovedClaim) kind() MovedKind    { return KindClaims }
func (*MovedBody) kind() MovedKind     { return KindBodies }
func (*MovedEvent) kind() MovedKind    { return KindEvents }
func (*MovedDelivery) kind() MovedKind { return KindDeliveries }
func (*MovedAttempt) kind() MovedKind  { return KindAttempts }
func (*MovedActs) kind() MovedKind     { return KindActs }
func (*MovedNote) kind() MovedKind     { return KindNotes }
func (*MovedKey) kind() MovedKind      { return KindKeys }
func (*MovedChunk) kind() MovedKind    { return KindChunks }
func (*MovedWriter) kind() MovedKind   { return KindWriters }

func newMoved(k MovedKind) Moved {
	switch k {
	case KindClaims:
		return &MovedClaim{}
	case KindBodies:
		return &MovedBody{}
	case KindEvents:
		return &MovedEvent{}
	case KindDeliveries:
		return &MovedDelivery{}
	case KindAttempts:
		return &MovedAttempt{}
	case KindActs:
		return &MovedActs{}
	case KindNotes:
		return &MovedNote{}
	case KindKeys:
		return &MovedKey{}
	case KindChunks:
		return &MovedChunk{}
	case KindWriters:
		return &MovedWriter{}
	}
	return nil
}

// MoveTally is what a ledger holds: of each kind the number of records and a
// hash over them all, which does not depend on their order.
type MoveTally struct {
	counts [movedKinds]uint64
	sums   [movedKinds][4]uint64
}

// Add counts a record: the sum of all hashes, modulo 2^256, is the kind's.
func (t *MoveTally) Add(m Moved) { t.add(m.kind(), AppendMoved(nil, m)) }

func (t *MoveTally) add(k MovedKind, enc []byte) {
	h := sha256.Sum256(enc)
	s := &t.sums[k-1]
	carry := uint64(0)
	for i := range s {
		s[i], carry = bits.Add64(s[i], binary.LittleEndian.Uint64(h[i*8:]), carry)
	}
	t.counts[k-1]++
}

// Records is the number of all records.
func (t *MoveTally) Records() (n uint64) {
	for _, c := range t.counts {
		n += c
	}
	return n
}

// MoveCount is one kind of a tally.
type MoveCount struct {
	Kind    string     `json:"kind"`
	Records uint64     `json:"records"`
	Hash    event.Hash `json:"hash"`
}

// Counts lists the tally, kind by kind.
func (t *MoveTally) Counts() []MoveCount {
	out := make([]MoveCount, movedKinds)
	for i := range out {
		out[i] = MoveCount{Kind: MovedKind(i + 1).String(), Records: t.counts[i]}
		for j, w := range t.sums[i] {
			binary.LittleEndian.PutUint64(out[i].Hash[j*8:], w)
		}
	}
	return out
}

// Differs names the first kind in which two tallies differ, "" when in none.
func (t *MoveTally) Differs(o *MoveTally) string {
	for i := range t.counts {
		if t.counts[i] != o.counts[i] || t.sums[i] != o.sums[i] {
			return MovedKind(i + 1).String()
		}
	}
	return ""
}

// MoveReport says what a move came to.
type MoveReport struct {
	From    []MoveCount `json:"from"`
	To      []MoveCount `json:"to"`
	Equal   bool        `json:"equal"`
	Skipped []Fault     `json:"skipped"` // damaged records that were left out
	Resumed uint64      `json:"resumed"` // records that an earlier run had moved
}

// What moves of ledgers end with.
var (
	// ErrMoved says that the ledger goes on elsewhere.
	ErrMoved = errors.New("ledger was moved")
	// ErrMoving says that a ledger is not whole yet.
	ErrMoving = errors.New("a ledger is being moved here and is not whole: run the same command again, or drop the schema")
	// ErrNotEqual says that what arrived is not what was sent.
	ErrNotEqual = errors.New("the ledger that was made is not equal to the one it was made of")
)
