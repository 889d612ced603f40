package gateway

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/onceward/onceward/admin"
	"github.com/onceward/onceward/audit"
	"github.com/onceward/onceward/dedupe"
)

// What gateways on a shared ledger keep in it, as notes, that on an embedded one
// is in files beside it.
const (
	noteToken    = "gateway.token" // the hash of the admin token of all gateways
	noteKey      = "gateway.key"   // the private audit key of the gateway of that name
	keptTokenFor = "admin"
)

type keptToken struct {
	Hash []byte `json:"sha256"`
}

type keptKey struct {
	Private string `json:"private"`
}

// keptToken is the hash of the admin token that the gateways on a shared ledger
// have in common. The first one makes it, shows it once and keeps its hash.
func (g *Gateway) keptToken(ctx context.Context) (sum [sha256.Size]byte, err error) {
	token := freshToken()
	sum = admin.HashToken(token)
	var kept keptToken
	made, err := keep(ctx, g.ledger, noteToken, keptTokenFor, keptToken{sum[:]}, &kept)
	switch {
	case err != nil:
		return sum, fmt.Errorf("admin token: %w", err)
	case len(kept.Hash) != len(sum):
		return sum, fmt.Errorf("admin token: the note of it in the ledger is damaged; name a token in the config, see onceward admin token new: %w", dedupe.ErrDamaged)
	case made:
		g.opts.ShowToken(token)
	}
	return [sha256.Size]byte(kept.Hash), nil
}

// keptKey is the audit key that is kept in a shared ledger under the gateway's
// name.
func (g *Gateway) keptKey(ctx context.Context) (*audit.Key, error) {
	_, private, err := audit.GenerateKey()
	if err != nil {
		return nil, err
	}
	var kept keptKey
	made, err := keep(ctx, g.ledger, noteKey, g.start.Store.Gateway, keptKey{private}, &kept)
	if err != nil {
		return nil, fmt.Errorf("audit key: %w", err)
	}
	key, err := audit.ParseKey(kept.Private)
	if err != nil {
		return nil, fmt.Errorf("audit key in the ledger: %w", err)
	}
	if made {
		g.log.Info("audit key made", "event", "audit.key", "gateway", g.start.Store.Gateway)
	}
	return key, nil
}

// keep puts a value where there is none yet, and reads into got what is there
// from then on. Of several that put one at once one has made it.
func keep[T any](ctx context.Context, notes dedupe.Notebook, kind, name string, fresh T, got *T) (made bool, err error) {
	n, err := notes.Note(ctx, kind, name)
	if errors.Is(err, dedupe.ErrNotFound) {
		value, merr := json.Marshal(fresh)
		if merr != nil {
			return false, merr
		}
		n, err = notes.PutNote(ctx, dedupe.Note{Kind: kind, Name: name, Value: value})
		made = err == nil
		if errors.Is(err, dedupe.ErrStale) {
			n, err = notes.Note(ctx, kind, name) // another one was first
		}
	}
	if err != nil {
		return false, err
	}
	if err := json.Unmarshal(n.Value, got); err != nil {
		return false, fmt.Errorf("note %q of kind %q: %w", name, kind, dedupe.ErrDamaged)
	}
	return made, nil
}
