package event_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/onceward/onceward/event"
)

func TestStateNames(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range []event.State{event.Pending, event.Leased, event.Delivered, event.Dead, event.Cancelled} {
		if seen[s.String()] {
			t.Errorf("two states are called %s", s)
		}
		seen[s.String()] = true
		b, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		back := event.State(99)
		if err := json.Unmarshal(b, &back); err != nil || back != s {
			t.Errorf("%s reads back as %v, %v", b, back, err)
		}
		if want := s == event.Pending || s == event.Leased; s.Open() != want {
			t.Errorf("%s is open: %v, want %v", s, s.Open(), want)
		}
	}
	var s event.State
	for _, name := range []string{"", "Pending", "unknown", "state(9)"} {
		if err := s.UnmarshalText([]byte(name)); err == nil {
			t.Errorf("state %q is no error", name)
		}
	}
	if got := event.State(9).String(); got != "state(9)" {
		t.Errorf("a state without a name = %s", got)
	}
}

func TestDeliveryKey(t *testing.T) {
	ev := &event.Event{Source: "shop", Key: "shop:evt_1"}
	long := &event.Event{Source: "shop", Key: strings.Repeat("x", event.MaxKey-3)}
	for _, tt := range []struct {
		name string
		d    event.Delivery
		ev   *event.Event
		want string
	}{
		{"first", event.Delivery{}, ev, "shop:evt_1"},
		{"replayed", event.Delivery{Generation: 4}, ev, "shop:evt_1"},
		{"replayed with a new key", event.Delivery{Generation: 4, NewKey: true}, ev, "shop:evt_1~r4"},
		{"longest", event.Delivery{Generation: 4, NewKey: true}, long, long.Key + "~r4"},
		{"too long", event.Delivery{Generation: 40, NewKey: true}, long, "shop:sha256:" + event.HashOf([]byte(long.Key+"~r40")).String()},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.d.Key(tt.ev); got != tt.want {
				t.Errorf("Key = %q, want %q", got, tt.want)
			}
		})
	}
}

func TestStatusOf(t *testing.T) {
	p, l, d, x, c := event.Pending, event.Leased, event.Delivered, event.Dead, event.Cancelled
	for _, tt := range []struct {
		states []event.State
		want   event.Status
	}{
		{nil, event.StatusUnrouted},
		{[]event.State{p}, event.StatusPending},
		{[]event.State{l}, event.StatusPending},
		{[]event.State{d}, event.StatusDelivered},
		{[]event.State{x}, event.StatusDead},
		{[]event.State{c}, event.StatusCancelled},
		{[]event.State{x, c, d, p}, event.StatusPending},
		{[]event.State{x, c, d, l}, event.StatusPending},
		{[]event.State{d, c, x}, event.StatusDead},
		{[]event.State{d, c}, event.StatusCancelled},
		{[]event.State{d, d}, event.StatusDelivered},
	} {
		t.Run(fmt.Sprint(tt.states), func(t *testing.T) {
			var ds []event.Delivery
			for _, s := range tt.states {
				ds = append(ds, event.Delivery{State: s})
			}
			if got := event.StatusOf(ds); got != tt.want {
				t.Errorf("StatusOf = %s, want %s", got, tt.want)
			}
		})
	}
}

func TestFlags(t *testing.T) {
	f := event.FlagNoID | event.FlagTest
	if got := fmt.Sprint(f.Names()); got != "[no_id test]" {
		t.Errorf("Names = %s", got)
	}
	if !f.Has(event.FlagTest) || f.Has(event.FlagTest|event.FlagGuard) {
		t.Error("Has is true for some of the flags only, or false for one that is set")
	}
	all := event.FlagNoID | event.FlagConflict | event.FlagGuard | event.FlagTest | event.FlagIDHashed | event.FlagUndeduped | event.FlagKeepBatch
	if got := len(all.Names()); got != 7 {
		t.Errorf("%d names for 7 flags", got)
	}
}

func TestParseDeliveryID(t *testing.T) {
	d := event.Delivery{Event: event.NewRef(1700000000000, 5, 77), Target: "billing-2_x", Generation: 65535}
	ref, target, gen, err := event.ParseDeliveryID(d.DeliveryID())
	if err != nil || ref != d.Event || target != d.Target || gen != d.Generation {
		t.Errorf("%s reads as %v %q %d, %v", d.DeliveryID(), ref, target, gen, err)
	}
	for _, s := range []string{"", ".", "..", d.Event.String(), d.Event.String() + "..0", d.Event.String() + ".a", d.Event.String() + ".a.-1",
		d.Event.String() + ".a.65536", d.Event.String() + ".a.0.1", "x.a.0", d.Event.String() + ".a.+1"} {
		if _, _, _, err := event.ParseDeliveryID(s); err == nil {
			t.Errorf("%q is no error", s)
		}
	}
}

func FuzzParseDeliveryID(f *testing.F) {
	f.Add("01ARZ3NDEKTSV4RRFFQ69G5FAV.billing.0")
	f.Add("..")
	f.Fuzz(func(t *testing.T, s string) {
		ref, target, gen, err := event.ParseDeliveryID(s)
		if err != nil {
			return
		}
		d := event.Delivery{Event: ref, Target: target, Generation: gen}
		ref2, target2, gen2, err := event.ParseDeliveryID(d.DeliveryID())
		if err != nil || ref2 != ref || target2 != target || gen2 != gen {
			t.Errorf("%q reads as %s, which reads as %v %q %d, %v", s, d.DeliveryID(), ref2, target2, gen2, err)
		}
	})
}
