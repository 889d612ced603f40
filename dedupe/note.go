package dedupe

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrStale says that a note changed since it was read: read it again.
var ErrStale = errors.New("changed by someone else meanwhile")

// The bounds of a note.
const (
	MaxNoteName  = 255      // bytes of kind and of name
	MaxNoteValue = 64 << 10 // bytes of value
)

// Note is a small mutable record of the gateway itself: a paused target, the
// state of a breaker, a replay job. It is kept in the ledger, so that it
// survives restarts and, on a ledger that several gateways share, is the same
// for all of them.
type Note struct {
	Kind    string `json:"kind"`
	Name    string `json:"name"`
	Version uint64 `json:"version"` // of this content, one more each time it is put, from 1; 0: there is none yet
	Value   []byte `json:"value"`   // JSON by convention; no secret but the gateway's own, which nothing shows
	// UpdatedAt is ledger time, set by the ledger.
	UpdatedAt time.Time `json:"updated_at"`
}

// Check is an error unless the note can be kept.
func (n *Note) Check() error {
	for _, s := range []string{n.Kind, n.Name} {
		if s == "" || len(s) > MaxNoteName {
			return fmt.Errorf("note %q of kind %q: kind and name have 1 to %d bytes", n.Name, n.Kind, MaxNoteName)
		}
		for i := range len(s) {
			if s[i] == 0 {
				return fmt.Errorf("note %q of kind %q: kind and name hold no NUL", n.Name, n.Kind)
			}
		}
	}
	if len(n.Value) > MaxNoteValue {
		return fmt.Errorf("note %q of kind %q: %d bytes, at most %d", n.Name, n.Kind, len(n.Value), MaxNoteValue)
	}
	return nil
}

// Notebook keeps notes.
type Notebook interface {
	// PutNote keeps n durably and returns it with its new version. n.Version
	// must be the version kept, 0 for a note that is not there; else ErrStale
	// and nothing is written.
	PutNote(ctx context.Context, n Note) (Note, error)
	// Note returns ErrNotFound for a note that is not there.
	Note(ctx context.Context, kind, name string) (Note, error)
	// Notes lists the notes of a kind, by name.
	Notes(ctx context.Context, kind string) ([]Note, error)
	// DropNote removes a note; ErrStale when it changed since n was read,
	// ErrNotFound when it is not there.
	DropNote(ctx context.Context, n Note) error
}
