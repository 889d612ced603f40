package receiver

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/onceward/onceward/event"
)

func TestParseField(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"", "header:", "header:a b", "query:", "body:", "data..id", "data.*", "data[0]", "sender:x"} {
		if f, err := ParseField(bad); err == nil && bad != "sender:x" {
			t.Errorf("%q is read as %+v", bad, f)
		}
	}
}

func TestOrders(t *testing.T) {
	t.Parallel()
	ev := &event.Event{Source: "shop", Type: "paid", ID: "evt_1", Caller: "till", Query: "tenant=t1&twice=a&twice=b&%zz", Targets: []string{"a", "b", "c"}}
	header := http.Header{"X-Customer": {"cus_h"}, "X-Twice": {"1", "2"}}
	const body = `{"type":"in body","data":{"object":{"id":"ch_1","n":7}}}`
	for _, tt := range []struct{ field, want string }{
		{"source", "shop"}, {"type", "paid"}, {"id", "evt_1"}, {"caller", "till"}, {"body:type", "in body"},
		{"header:x-customer", "cus_h"}, {"header:X-Twice", ""}, {"header:X-None", ""},
		{"query:tenant", "t1"}, {"query:twice", ""}, {"query:none", ""},
		{"data.object.id", "ch_1"}, {"data.object.n", "7"}, {"data.object", ""}, {"data.none", ""},
	} {
		f, err := ParseField(tt.field)
		if err != nil {
			t.Fatal(err)
		}
		s := &Source{Orders: map[string]Order{"b": {By: f}, "c": {By: f, Skip: true}, "other": {By: f}}}
		got := s.orders(ev, header, []byte(body))
		var want []event.Order
		if tt.want != "" {
			want = []event.Order{0, event.OrderOf(tt.want, false), event.OrderOf(tt.want, true)}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v for %q", tt.field, got, want, tt.want)
		}
		if got := s.orders(&event.Event{}, header, []byte("no json")); got != nil {
			t.Errorf("%s: %v for an event without targets", tt.field, got)
		}
	}
	if got := (&Source{}).orders(ev, header, []byte(body)); got != nil {
		t.Errorf("%v without an order", got)
	}
}

// What an event is ordered by is stored with it; an event without the value is
// delivered all the same.
func TestOrdersAreStored(t *testing.T) {
	t.Parallel()
	by, err := ParseField("data.customer")
	if err != nil {
		t.Fatal(err)
	}
	src := source(t, "none")
	src.Routes = []Route{{Target: "plain"}, {Target: "books"}}
	src.Orders = map[string]Order{"books": {By: by}}
	f := setup(t, []*Source{src}, nil)
	f.send(t, message{path: "/in/none", body: `{"data":{"customer":"cus_1"}}`}).want(t, 200)
	f.send(t, message{path: "/in/none", body: `{"data":{}}`}).want(t, 200)
	f.send(t, message{path: "/in/none", body: `[` + strings.Repeat("[", 20_000)}).want(t, 200)
	all := f.all(t)
	if len(all) != 3 {
		t.Fatalf("%d events, want 3", len(all))
	}
	for i, want := range []event.Order{0, 0, event.OrderOf("cus_1", false)} { // newest first
		ev := &all[i].Event
		if got := ev.OrderAt("books"); got != want || ev.OrderAt("plain") != 0 || len(ev.Targets) != 2 {
			t.Errorf("event %d: order %v, want %v; targets %v", i, got, want, ev.Targets)
		}
	}
}
