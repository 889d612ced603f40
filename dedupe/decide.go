package dedupe

import (
	"encoding/hex"
	"errors"
	"time"

	"github.com/onceward/onceward/event"
)

// Find looks a claim up at the moment of decision, seeing every claim made
// earlier in the same batch. It returns false for a claim that has expired
// and whose event has no open delivery.
type Find func(Key) (Claim, bool, error)

// Decision is what an engine must do with one item.
type Decision struct {
	Verdict Verdict
	// First is the claim that stood in the way; its event gets the repeat or
	// conflict counted. Zero for a plain New.
	First Claim
	// Event is to be written when Verdict is New: ID, Key, Flags and Related
	// are final, Ref is the given one.
	Event event.Event
	// Claims are to be written with the event, all naming its Ref.
	Claims []Claim
}

// ErrNoClaimKey reports an item that says it has a claim but brings no key, or
// not those of Distinct.
var ErrNoClaimKey = errors.New("item has a claim but no key")

// Decide says what one item is, given the claims that stand. ref is the ref
// the event gets if it is new, now the ledger time. Decide is pure: engines
// may call it again.
func Decide(it *Item, batch bool, ref event.Ref, now time.Time, find Find) (Decision, error) {
	if !it.HasClaim {
		return guard(it, accept(it, ref, now, it.Event.ID, it.RawID), find)
	}
	if it.Claim == (Key{}) {
		return Decision{}, ErrNoClaimKey
	}
	each := it.Conflict == ConflictDeliver && it.RawID != ""
	if each && len(it.Distinct) == 0 {
		return Decision{}, ErrNoClaimKey
	}
	first, found, err := findAny(it.Claim, it.Former, find)
	if err != nil {
		return Decision{}, err
	}
	if found && first.BodyHash == it.Event.BodyHash {
		return Decision{Verdict: Repeat, First: first}, nil
	}
	if each {
		// What was delivered as a conflict is remembered for its own window,
		// though the claim it was in conflict with has ended meanwhile.
		again, stands, err := findAny(it.Distinct[0], it.Distinct[1:], find)
		if err != nil {
			return Decision{}, err
		}
		if stands {
			return Decision{Verdict: Repeat, First: again}, nil
		}
	}
	if !found {
		return guard(it, accept(it, ref, now, it.Event.ID, it.RawID), find)
	}
	return conflict(it, batch, decideAt{ref, now, first}, find)
}

type decideAt struct {
	ref   event.Ref
	now   time.Time
	first Claim
}

func conflict(it *Item, batch bool, at decideAt, find Find) (Decision, error) {
	switch {
	case it.Conflict == ConflictReject && !batch:
		return Decision{Verdict: Rejected, First: at.first}, nil
	case it.Conflict != ConflictDeliver:
		return Decision{Verdict: Differs, First: at.first}, nil
	}
	raw := distinctID(it.RawID, it.Event.BodyHash)
	alt := *it
	alt.RawID = raw
	id, hashed := FrameID(raw)
	alt.Event.ID = id
	if hashed { // also where the ID itself was just short enough
		alt.Event.Flags |= event.FlagIDHashed
	}
	alt.Claim = it.Distinct[0]
	d := accept(&alt, at.ref, at.now, alt.Event.ID, raw)
	d.First = at.first
	d.Event.Flags |= event.FlagConflict
	d.Event.Related = at.first.Ref
	return guard(&alt, d, find)
}

func findAny(k Key, former []Key, find Find) (Claim, bool, error) {
	c, ok, err := find(k)
	for i := 0; !ok && err == nil && i < len(former); i++ {
		c, ok, err = find(former[i])
	}
	return c, ok, err
}

// DistinctKeys are the claim keys of an event ID with one body, under each
// name of the source, the present one first: what an event is remembered by
// that was delivered although its ID was known with another body.
func DistinctKeys(caller, id string, body event.Hash, sources ...string) []Key {
	out := make([]Key, len(sources))
	for i, s := range sources {
		out[i] = KeyOf(KindID, s, caller, distinctID(id, body))
	}
	return out
}

func distinctID(id string, body event.Hash) string { return id + "~" + hex.EncodeToString(body[:8]) }

// accept is the decision for an item nothing stands in the way of.
func accept(it *Item, ref event.Ref, now time.Time, id, raw string) Decision {
	d := Decision{Verdict: New, Event: it.Event}
	d.Event.Ref = ref
	d.Event.ID = id
	if d.Event.Key == "" {
		d.Event.Key = it.Keys.Render(KeyFacts{
			Source: it.Event.Source, Caller: it.Event.Caller, ID: raw, Ref: ref,
			BodyHash: it.Event.BodyHash, HasCaller: it.Event.Provider == KeyedProvider, Undeduped: !it.HasClaim,
		})
	}
	if it.HasClaim {
		d.Claims = append(d.Claims, claimFor(it.Claim, it, ref, now))
	}
	if it.Guard != GuardOff {
		d.Claims = append(d.Claims, claimFor(it.GuardKey, it, ref, now))
	}
	return d
}

func claimFor(k Key, it *Item, ref event.Ref, now time.Time) Claim {
	return Claim{Key: k, Ref: ref, BodyHash: it.Event.BodyHash, Window: it.Window, Expires: now.Add(it.Window)}
}

// guard applies the replay guard to an event that is new by its ID.
func guard(it *Item, d Decision, find Find) (Decision, error) {
	if it.Guard == GuardOff {
		return d, nil
	}
	first, found, err := find(it.GuardKey)
	if err != nil || !found {
		return d, err
	}
	if it.Guard == GuardDrop {
		return Decision{Verdict: Replayed, First: first}, nil
	}
	d.Event.Flags |= event.FlagGuard
	d.Event.Related = first.Ref
	// The earlier guard claim stands: it names the first event.
	d.Claims = d.Claims[:len(d.Claims)-1]
	return d, nil
}
