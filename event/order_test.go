package event_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/onceward/onceward/event"
)

func TestOrder(t *testing.T) {
	lanes := map[uint64]string{}
	for i := range 10_000 {
		key := fmt.Sprint("cus_", i)
		block, skip := event.OrderOf(key, false), event.OrderOf(key, true)
		if block.Lane() == 0 || block.Lane() != skip.Lane() {
			t.Fatalf("%s has the lanes %x and %x, want one that is not 0", key, block.Lane(), skip.Lane())
		}
		if !block.Blocks() || skip.Blocks() {
			t.Fatalf("%s blocks: %v, with skip: %v", key, block.Blocks(), skip.Blocks())
		}
		if other, taken := lanes[block.Lane()]; taken {
			t.Fatalf("%s and %s have one lane", key, other)
		}
		lanes[block.Lane()] = key
	}
	// The lane of a key is in ledgers, so it must not change.
	if got := event.OrderOf("cus_1", false).String(); got != "1484482f6f0b2654" {
		t.Errorf("the lane of cus_1 is %s", got)
	}
	if event.Order(0).Blocks() || event.Order(0).String() != "" {
		t.Error("no order blocks, or has a name")
	}
}

func TestOrderText(t *testing.T) {
	for _, o := range []event.Order{0, event.OrderOf("a", false), event.OrderOf("a", true), event.OrderOf("", false)} {
		b, err := json.Marshal([]event.Order{o})
		if err != nil {
			t.Fatal(err)
		}
		var back []event.Order
		if err := json.Unmarshal(b, &back); err != nil || len(back) != 1 || back[0] != o {
			t.Errorf("%s reads back as %v, %v", b, back, err)
		}
	}
	for _, bad := range []string{"x", "-skip", "0", "ffffffffffffffff", "3c2f0b2d2a3ef8a0-Skip"} {
		var o event.Order
		if err := o.UnmarshalText([]byte(bad)); err == nil {
			t.Errorf("%q is read as %v", bad, o)
		}
	}
}

func TestOrderAt(t *testing.T) {
	o := event.OrderOf("a", false)
	ev := event.Event{Targets: []string{"billing", "crm"}, Orders: []event.Order{0, o}}
	for target, want := range map[string]event.Order{"billing": 0, "crm": o, "added": 0} {
		if got := ev.OrderAt(target); got != want {
			t.Errorf("order at %s = %v, want %v", target, got, want)
		}
	}
	if (&event.Event{Targets: []string{"billing"}}).OrderAt("billing") != 0 {
		t.Error("an event without orders has one")
	}
}
