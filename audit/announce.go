package audit

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/onceward/onceward/dedupe"
)

// noteKey is the kind of the notes that public keys are announced by; each is
// the name of its note.
const noteKey = "audit.public"

// PublicKey is the key that checkpoints are signed with, "" without one.
func (l *Log) PublicKey() string {
	if l.cfg.Key == nil {
		return ""
	}
	return l.cfg.Key.Public()
}

// Announce notes the public key in the ledger, for the other gateways on it:
// each signs with its own, also what the others recorded.
func (l *Log) Announce(ctx context.Context) error {
	if l.cfg.Key == nil {
		return ErrNoKey
	}
	_, err := l.cfg.Ledger.PutNote(ctx, dedupe.Note{Kind: noteKey, Name: l.PublicKey(), Value: []byte("{}")})
	if err != nil && !errors.Is(err, dedupe.ErrStale) { // it was announced before
		return fmt.Errorf("announce audit key: %w", err)
	}
	return nil
}

// PublicKeys are this gateway's key and those that others on its ledger ever
// announced: what the account is verified with as a whole.
func (l *Log) PublicKeys(ctx context.Context) ([]string, error) {
	notes, err := l.cfg.Ledger.Notes(ctx, noteKey)
	if err != nil {
		return nil, fmt.Errorf("read audit keys: %w", err)
	}
	var keys []string
	if own := l.PublicKey(); own != "" {
		keys = append(keys, own)
	}
	for _, n := range notes {
		if !slices.Contains(keys, n.Name) {
			keys = append(keys, n.Name)
		}
	}
	return keys, nil
}
