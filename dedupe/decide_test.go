package dedupe_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

var (
	decideNow      = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	newRef         = event.NewRef(2_000, 0, 7)
	oldRef         = event.NewRef(1_000, 0, 7)
	guardRef       = event.NewRef(1_500, 0, 7)
	bodyOne        = event.HashOf([]byte("one"))
	bodyTwo        = event.HashOf([]byte("two"))
	idKey          = dedupe.KeyOf(dedupe.KindID, "shop", "", "evt")
	formerKey      = dedupe.KeyOf(dedupe.KindID, "old", "", "evt")
	guardKey       = dedupe.KeyOf(dedupe.KindGuard, "shop", "", "bytes")
	otherID        = "evt~" + bodyOne.String()[:16]
	formerDistinct = dedupe.KeyOf(dedupe.KindID, "old", "", otherID)
	otherKey       = dedupe.KeyOf(dedupe.KindID, "shop", "", otherID)
)

// claimsOf are standing claims.
func claimsOf(cs ...dedupe.Claim) dedupe.Find {
	return func(k dedupe.Key) (dedupe.Claim, bool, error) {
		for _, c := range cs {
			if c.Key == k {
				return c, true, nil
			}
		}
		return dedupe.Claim{}, false, nil
	}
}

func decideItem(edit func(*dedupe.Item)) *dedupe.Item {
	it := &dedupe.Item{
		Event: event.Event{Source: "shop", Provider: "test", ID: "evt", BodyHash: bodyOne, Targets: []string{"billing"}},
		RawID: "evt", Claim: idKey, HasClaim: true, Window: time.Hour, Conflict: dedupe.ConflictAck,
	}
	if edit != nil {
		edit(it)
	}
	it.Distinct = dedupe.DistinctKeys("", it.RawID, it.Event.BodyHash, "shop", "old")
	return it
}

func TestDecide(t *testing.T) {
	same := dedupe.Claim{Key: idKey, Ref: oldRef, BodyHash: bodyOne}
	other := dedupe.Claim{Key: idKey, Ref: oldRef, BodyHash: bodyTwo}
	former := dedupe.Claim{Key: formerKey, Ref: oldRef, BodyHash: bodyOne}
	guard := dedupe.Claim{Key: guardKey, Ref: guardRef, BodyHash: bodyOne}
	distinct := dedupe.Claim{Key: otherKey, Ref: guardRef, BodyHash: bodyOne}
	policy := func(p dedupe.Conflict) func(*dedupe.Item) { return func(it *dedupe.Item) { it.Conflict = p } }
	guarded := func(g dedupe.Guard) func(*dedupe.Item) {
		return func(it *dedupe.Item) { it.Guard, it.GuardKey = g, guardKey }
	}
	withFormer := func(it *dedupe.Item) {
		it.Former = []dedupe.Key{dedupe.KeyOf(dedupe.KindID, "older", "", "evt"), formerKey}
	}
	noClaim := func(it *dedupe.Item) {
		it.HasClaim, it.Claim, it.RawID, it.Event.ID = false, dedupe.Key{}, "", ""
	}
	both := func(fs ...func(*dedupe.Item)) func(*dedupe.Item) {
		return func(it *dedupe.Item) {
			for _, f := range fs {
				f(it)
			}
		}
	}
	type want struct {
		verdict dedupe.Verdict
		first   event.Ref
		id, key string
		flags   event.Flags
		related event.Ref
		claims  []dedupe.Key
	}
	accepted := want{verdict: dedupe.New, id: "evt", key: "shop:evt", claims: []dedupe.Key{idKey}}
	asDistinct := want{
		verdict: dedupe.New, first: oldRef, id: otherID, key: "shop:" + otherID,
		flags: event.FlagConflict, related: oldRef, claims: []dedupe.Key{otherKey},
	}
	for _, tt := range []struct {
		name  string
		item  func(*dedupe.Item)
		batch bool
		find  dedupe.Find
		want  want
	}{
		{"first", nil, false, claimsOf(), accepted},
		{"first, in a batch", nil, true, claimsOf(), accepted},
		{"expired claims are not found", nil, false, claimsOf(guard), accepted},
		{"same body", nil, false, claimsOf(same), want{verdict: dedupe.Repeat, first: oldRef}},
		{"same body, in a batch", nil, true, claimsOf(same), want{verdict: dedupe.Repeat, first: oldRef}},
		{"same body, policy deliver", policy(dedupe.ConflictDeliver), false, claimsOf(same), want{verdict: dedupe.Repeat, first: oldRef}},
		{"other body, ack", policy(dedupe.ConflictAck), false, claimsOf(other), want{verdict: dedupe.Differs, first: oldRef}},
		{"other body, ack, in a batch", policy(dedupe.ConflictAck), true, claimsOf(other), want{verdict: dedupe.Differs, first: oldRef}},
		{"other body, no policy", policy(""), false, claimsOf(other), want{verdict: dedupe.Differs, first: oldRef}},
		{"other body, reject", policy(dedupe.ConflictReject), false, claimsOf(other), want{verdict: dedupe.Rejected, first: oldRef}},
		{"other body, reject, in a batch", policy(dedupe.ConflictReject), true, claimsOf(other), want{verdict: dedupe.Differs, first: oldRef}},
		{"other body, deliver", policy(dedupe.ConflictDeliver), false, claimsOf(other), asDistinct},
		{"other body, deliver, in a batch", policy(dedupe.ConflictDeliver), true, claimsOf(other), asDistinct},
		{"other body, deliver, again", policy(dedupe.ConflictDeliver), false, claimsOf(other, distinct), want{verdict: dedupe.Repeat, first: guardRef}},
		{"delivered as a conflict whose first has ended", policy(dedupe.ConflictDeliver), false, claimsOf(distinct), want{verdict: dedupe.Repeat, first: guardRef}},
		{"delivered as a conflict under a former name", both(withFormer, policy(dedupe.ConflictDeliver)), false,
			claimsOf(dedupe.Claim{Key: formerKey, Ref: oldRef, BodyHash: bodyTwo}, dedupe.Claim{Key: formerDistinct, Ref: guardRef, BodyHash: bodyOne}), want{verdict: dedupe.Repeat, first: guardRef}},
		{"former name", withFormer, false, claimsOf(former), want{verdict: dedupe.Repeat, first: oldRef}},
		{"former name that has none", withFormer, false, claimsOf(), accepted},
		{"today's name before the former", withFormer, false, claimsOf(former, dedupe.Claim{Key: idKey, Ref: guardRef, BodyHash: bodyOne}), want{verdict: dedupe.Repeat, first: guardRef}},
		{"former name, other body", both(withFormer, policy(dedupe.ConflictReject)), false, claimsOf(dedupe.Claim{Key: formerKey, Ref: oldRef, BodyHash: bodyTwo}), want{verdict: dedupe.Rejected, first: oldRef}},
		{"guard flag, first", guarded(dedupe.GuardFlag), false, claimsOf(), want{verdict: dedupe.New, id: "evt", key: "shop:evt", claims: []dedupe.Key{idKey, guardKey}}},
		{"guard flag, seen", guarded(dedupe.GuardFlag), false, claimsOf(guard), want{verdict: dedupe.New, id: "evt", key: "shop:evt", flags: event.FlagGuard, related: guardRef, claims: []dedupe.Key{idKey}}},
		{"guard drop, first", guarded(dedupe.GuardDrop), false, claimsOf(), want{verdict: dedupe.New, id: "evt", key: "shop:evt", claims: []dedupe.Key{idKey, guardKey}}},
		{"guard drop, seen", guarded(dedupe.GuardDrop), false, claimsOf(guard), want{verdict: dedupe.Replayed, first: guardRef}},
		{"guard off, seen", guarded(dedupe.GuardOff), false, claimsOf(guard), accepted},
		{"guard drop, but the ID is a repeat", guarded(dedupe.GuardDrop), false, claimsOf(same, guard), want{verdict: dedupe.Repeat, first: oldRef}},
		{"guard drop, and a conflict delivered", both(guarded(dedupe.GuardDrop), policy(dedupe.ConflictDeliver)), false, claimsOf(other, guard), want{verdict: dedupe.Replayed, first: guardRef}},
		{"guard flag, and a conflict delivered", both(guarded(dedupe.GuardFlag), policy(dedupe.ConflictDeliver)), false, claimsOf(other, guard), want{
			verdict: dedupe.New, first: oldRef, id: otherID, key: "shop:" + otherID,
			flags: event.FlagConflict | event.FlagGuard, related: guardRef, claims: []dedupe.Key{otherKey},
		}},
		{"no claim", noClaim, false, claimsOf(same), want{verdict: dedupe.New, key: "shop:" + newRef.String()}},
		{"no claim, guard flag, seen", both(noClaim, guarded(dedupe.GuardFlag)), false, claimsOf(guard), want{verdict: dedupe.New, key: "shop:" + newRef.String(), flags: event.FlagGuard, related: guardRef}},
		{"no claim, guard drop, seen", both(noClaim, guarded(dedupe.GuardDrop)), false, claimsOf(guard), want{verdict: dedupe.Replayed, first: guardRef}},
		{"claim by body", func(it *dedupe.Item) { it.RawID, it.Event.ID = "", "" }, false, claimsOf(), want{verdict: dedupe.New, key: "shop:h:" + bodyOne.String(), claims: []dedupe.Key{idKey}}},
		{"key set beforehand", func(it *dedupe.Item) { it.Event.Key = "mine" }, false, claimsOf(), want{verdict: dedupe.New, id: "evt", key: "mine", claims: []dedupe.Key{idKey}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			it := decideItem(tt.item)
			before := *it
			d, err := dedupe.Decide(it, tt.batch, newRef, decideNow, tt.find)
			if err != nil {
				t.Fatal(err)
			}
			got := want{verdict: d.Verdict, first: d.First.Ref, id: d.Event.ID, key: d.Event.Key, flags: d.Event.Flags, related: d.Event.Related}
			if got.verdict != tt.want.verdict || got.first != tt.want.first || got.id != tt.want.id || got.key != tt.want.key ||
				got.flags != tt.want.flags || got.related != tt.want.related || len(d.Claims) != len(tt.want.claims) {
				t.Fatalf("decision = %+v with %d claims, want %+v", got, len(d.Claims), tt.want)
			}
			for i, c := range d.Claims {
				want := dedupe.Claim{Key: tt.want.claims[i], Ref: newRef, BodyHash: bodyOne, Window: time.Hour, Expires: decideNow.Add(time.Hour)}
				if c != want {
					t.Errorf("claim %d = %+v, want %+v", i, c, want)
				}
			}
			if d.Verdict == dedupe.New && (d.Event.Ref != newRef || len(d.Event.Targets) != 1) {
				t.Errorf("event = %+v, want it whole with the given ref", d.Event)
			}
			if it.Event.ID != before.Event.ID || it.RawID != before.RawID || it.Claim != before.Claim || it.Event.Flags != before.Event.Flags {
				t.Errorf("the item was changed: %+v, was %+v", it, before)
			}
			again, err := dedupe.Decide(it, tt.batch, newRef, decideNow, tt.find)
			if err != nil || again.Verdict != d.Verdict || again.Event.Key != d.Event.Key || again.Event.ID != d.Event.ID {
				t.Errorf("a second decision differs: %+v, %v", again, err)
			}
		})
	}
}

func TestDecideLongConflictID(t *testing.T) {
	id := strings.Repeat("x", dedupe.MaxID-5)
	it := decideItem(func(it *dedupe.Item) {
		it.RawID, it.Event.ID, it.Conflict = id, id, dedupe.ConflictDeliver
		it.Claim = dedupe.KeyOf(dedupe.KindID, "shop", "", id)
	})
	d, err := dedupe.Decide(it, false, newRef, decideNow, claimsOf(dedupe.Claim{Key: it.Claim, Ref: oldRef, BodyHash: bodyTwo}))
	if err != nil {
		t.Fatal(err)
	}
	want := "sha256:" + event.HashOf([]byte(id+"~"+bodyOne.String()[:16])).String()
	if d.Event.ID != want || !d.Event.Flags.Has(event.FlagIDHashed|event.FlagConflict) {
		t.Errorf("ID %s with flags %v, want %s marked as hashed and conflict", d.Event.ID, d.Event.Flags.Names(), want)
	}
}

func TestDecideErrors(t *testing.T) {
	broken := errors.New("claim can't be read")
	failOn := func(k dedupe.Key, stands ...dedupe.Claim) dedupe.Find {
		find := claimsOf(stands...)
		return func(key dedupe.Key) (dedupe.Claim, bool, error) {
			if key == k {
				return dedupe.Claim{}, false, broken
			}
			return find(key)
		}
	}
	other := dedupe.Claim{Key: idKey, Ref: oldRef, BodyHash: bodyTwo}
	for _, tt := range []struct {
		name string
		item func(*dedupe.Item)
		find dedupe.Find
		want error
	}{
		{"claim", nil, failOn(idKey), broken},
		{"former", func(it *dedupe.Item) { it.Former = []dedupe.Key{formerKey} }, failOn(formerKey), broken},
		{"guard", func(it *dedupe.Item) { it.Guard, it.GuardKey = dedupe.GuardFlag, guardKey }, failOn(guardKey), broken},
		{"distinct claim", func(it *dedupe.Item) { it.Conflict = dedupe.ConflictDeliver }, failOn(otherKey, other), broken},
		{"distinct claim without a first", func(it *dedupe.Item) { it.Conflict = dedupe.ConflictDeliver }, failOn(otherKey), broken},
		{"no key", func(it *dedupe.Item) { it.Claim = dedupe.Key{} }, claimsOf(), dedupe.ErrNoClaimKey},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d, err := dedupe.Decide(decideItem(tt.item), false, newRef, decideNow, tt.find)
			if !errors.Is(err, tt.want) {
				t.Errorf("Decide = %v, %v, want error %v", d.Verdict, err, tt.want)
			}
		})
	}
}
