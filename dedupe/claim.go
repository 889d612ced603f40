package dedupe

import (
	"crypto/sha256"
	"encoding/binary"
	"time"

	"github.com/onceward/onceward/event"
)

// Kind separates the key spaces of claims.
type Kind byte

// The kinds of claim keys. Their values are part of every stored key.
const (
	KindID    Kind = 1 // the provider's event ID
	KindBody  Kind = 2 // body and type, for events without an ID
	KindGuard Kind = 3 // signed bytes and type, the replay guard
	KindSync  Kind = 4 // a key of a synchronous route
)

// Key is the fixed-size name of a claim. It holds no text of the sender.
type Key [sha256.Size]byte

// KeyOf frames kind, source, caller and id, each with its length, and hashes
// the frame with SHA-256, so that no two different tuples share a key. id is
// the event ID as received (never trimmed), or a hash for the other kinds.
func KeyOf(kind Kind, source, caller, id string) Key {
	buf := make([]byte, 0, 64+len(source)+len(caller)+len(id))
	buf = append(buf, "onceward claim 1\x00"...)
	buf = append(buf, byte(kind))
	for _, s := range [...]string{source, caller, id} {
		buf = binary.BigEndian.AppendUint32(buf, uint32(len(s)))
		buf = append(buf, s...)
	}
	return sha256.Sum256(buf)
}

// Claim is the durable fact that a key was first seen.
type Claim struct {
	Key      Key
	Ref      event.Ref  // the event that made it
	BodyHash event.Hash // of that event's bytes
	Window   time.Duration
	Expires  time.Time // ledger time; from here on the key is new again
}

// HeldBy reports whether the claim stands after its expiry: while a delivery
// of its event is open that was opened before it. One that a replay opened
// later doesn't bring the claim back.
func (c *Claim) HeldBy(ds []event.Delivery) bool {
	for i := range ds {
		if ds[i].State.Open() && ds[i].OpenedAt.Before(c.Expires) {
			return true
		}
	}
	return false
}

// MaxID is the longest event ID kept as it came, in bytes.
const MaxID = 512

// FrameID is the form in which an event ID is kept and shown: itself, or
// "sha256:" and the hash of it when it is longer than MaxID or holds control
// characters; hashed says which. Claims are keyed on the ID as received.
func FrameID(id string) (framed string, hashed bool) {
	plain := len(id) <= MaxID
	for i := 0; plain && i < len(id); i++ {
		plain = id[i] >= 0x20 && id[i] != 0x7f
	}
	if plain {
		return id, false
	}
	return "sha256:" + event.HashOf([]byte(id)).String(), true
}
