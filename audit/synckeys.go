package audit

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

// SyncKeys is a ledger's side of the keys of synchronous routes.
type SyncKeys interface {
	dedupe.KeyBook
	Step(ctx context.Context, steps ...*dedupe.KeyStep) error
}

// SyncKey is the view of a key of a synchronous route.
type SyncKey struct {
	Ref        string             `json:"ref"` // names it exactly
	Source     string             `json:"source"`
	Caller     string             `json:"caller"`
	ID         string             `json:"id"` // as the caller sent it
	Target     string             `json:"target"`
	Downstream string             `json:"idempotency_key"` // as the target got it
	State      dedupe.KeyState    `json:"state"`
	Why        string             `json:"why,omitempty"` // it is unknown, or was released
	Token      uint64             `json:"token"`
	Status     int                `json:"status,omitempty"` // of the stored answer
	Bytes      int64              `json:"answer_bytes,omitempty"`
	Hash       string             `json:"answer_sha256,omitempty"`
	Replays    uint64             `json:"replays"`
	ClaimedAt  time.Time          `json:"claimed_at"`
	UpdatedAt  time.Time          `json:"updated_at"`
	Until      time.Time          `json:"lease_until,omitzero"`
	Expires    time.Time          `json:"expires_at"`
	Life       []dedupe.KeyMoment `json:"life"`
}

func viewKey(k *dedupe.SyncKey) SyncKey {
	out := SyncKey{
		Ref: hex.EncodeToString(k.Key[:]), Source: k.Source, Caller: k.Caller, ID: k.ID, Target: k.Target, Downstream: k.Downstream,
		State: k.State, Why: k.Why, Token: k.Token, Replays: k.Replays, ClaimedAt: k.ClaimedAt, UpdatedAt: k.UpdatedAt, Expires: k.Expires, Life: k.Life,
	}
	if k.State == dedupe.KeyInFlight {
		out.Until = k.Until
	}
	if a := &k.Answer; a.Status != 0 {
		out.Status, out.Bytes, out.Hash = a.Status, a.Length, a.Hash.String()
	}
	return out
}

var errNoKeys = fmt.Errorf("this gateway has no synchronous routes: %w", dedupe.ErrNotFound)

// ListSyncKeys is one page of keys: those without a conclusion, earliest first, or
// with f.Open unset all that f selects.
func (a *Account) ListSyncKeys(ctx context.Context, f dedupe.KeyFilter, cursor string, limit int) (dedupe.Page[SyncKey], error) {
	out := dedupe.Page[SyncKey]{Items: []SyncKey{}}
	if a.cfg.SyncKeys == nil {
		return out, nil
	}
	page, err := a.cfg.SyncKeys.SyncKeys(ctx, f, cursor, limit)
	if err != nil {
		return out, fmt.Errorf("list keys: %w", err)
	}
	for i := range page.Items {
		out.Items = append(out.Items, viewKey(&page.Items[i]))
	}
	out.Next = page.Next
	return out, nil
}

// KeyName says which key is meant: by its ref, or by the ID its caller sent
// with the source and caller as far as they are needed to tell it from others.
type KeyName struct{ ID, Source, Caller string }

// SyncKey is the view of one key.
func (a *Account) SyncKey(ctx context.Context, name KeyName) (SyncKey, error) {
	k, err := a.findKey(ctx, name)
	if err != nil {
		return SyncKey{}, err
	}
	return viewKey(&k), nil
}

// keyPages bounds how many pages of keys are searched for an ID.
const keyPages = 50

func (a *Account) findKey(ctx context.Context, name KeyName) (dedupe.SyncKey, error) {
	book := a.cfg.SyncKeys
	if book == nil {
		return dedupe.SyncKey{}, errNoKeys
	}
	if b, err := hex.DecodeString(name.ID); err == nil && len(b) == len(dedupe.Key{}) && name.Source == "" {
		if k, err := book.SyncKey(ctx, dedupe.Key(b)); !errors.Is(err, dedupe.ErrNotFound) {
			return k, err
		}
	}
	if name.Source != "" {
		k, err := book.SyncKey(ctx, dedupe.KeyOf(dedupe.KindSync, name.Source, name.Caller, name.ID))
		if !errors.Is(err, dedupe.ErrNotFound) || name.Caller != "" {
			return k, err
		}
	}
	return a.searchKey(ctx, dedupe.KeyFilter{ID: name.ID, Source: name.Source, Caller: name.Caller})
}

// searchKey looks through the keys; one that is meant by chance is refused.
func (a *Account) searchKey(ctx context.Context, f dedupe.KeyFilter) (dedupe.SyncKey, error) {
	var found []dedupe.SyncKey
	for cursor, n := "", 0; n < keyPages; n++ {
		page, err := a.cfg.SyncKeys.SyncKeys(ctx, f, cursor, 1000)
		if err != nil {
			return dedupe.SyncKey{}, fmt.Errorf("look up key: %w", err)
		}
		if found = append(found, page.Items...); page.Next == "" {
			break
		}
		cursor = page.Next
	}
	switch len(found) {
	case 0:
		return dedupe.SyncKey{}, fmt.Errorf("key %q: %w", f.ID, dedupe.ErrNotFound)
	case 1:
		return found[0], nil
	}
	var who []string
	for _, k := range found {
		who = append(who, k.Source+"/"+k.Caller)
	}
	return dedupe.SyncKey{}, &InvalidError{Problem: fmt.Sprintf("key %q is of several: say source and caller of %s", f.ID, strings.Join(who, ", "))}
}

// Settlement is what an operator says of a key of unknown outcome.
type Settlement struct {
	KeyName
	Done bool // executed; else not, and its key is free for another try
	// Token is the one that was seen, 0 for any.
	Token uint64
	// Answer is what repeats get when it is done.
	Status      int
	ContentType string
	Body        []byte
	By          dedupe.By
}

// ErrSettled says that there is nothing to settle: the key is not unknown, or
// is no longer the one that was seen.
var ErrSettled = errors.New("key is not of unknown outcome, or has changed since it was looked at")

// Settle concludes a key of unknown outcome, and is the key after it.
func (a *Account) Settle(ctx context.Context, s Settlement) (SyncKey, error) {
	if len(s.Body) > dedupe.MaxInline {
		return SyncKey{}, &InvalidError{Problem: fmt.Sprintf("an answer has at most %d bytes", dedupe.MaxInline)}
	}
	if s.Done && (s.Status < 200 || s.Status > 599) {
		return SyncKey{}, &InvalidError{Problem: fmt.Sprintf("status %d: want 200 to 599", s.Status)}
	}
	k, err := a.findKey(ctx, s.KeyName)
	if err != nil {
		return SyncKey{}, err
	}
	step := &dedupe.KeyStep{Kind: dedupe.StepRetry, Key: k.Key, Token: s.Token, By: s.By}
	if s.Done {
		step.Kind = dedupe.StepSettle
		step.Answer = &dedupe.KeyAnswer{Status: s.Status, Length: int64(len(s.Body)), Hash: event.HashOf(s.Body), Body: s.Body}
		if s.ContentType != "" {
			step.Answer.Header = []event.Field{{Name: "Content-Type", Value: s.ContentType}}
		}
	}
	if err := a.cfg.SyncKeys.Step(ctx, step); err != nil {
		return SyncKey{}, fmt.Errorf("settle key %q: %w", s.ID, err)
	}
	if step.Verdict != dedupe.KeyDone {
		return SyncKey{}, fmt.Errorf("settle key %q, which is %s: %w", s.ID, k.State, ErrSettled)
	}
	return viewKey(&step.Record), nil
}
