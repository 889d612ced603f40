package receiver

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/onceward/onceward/event"
)

func indexOf(t *testing.T, pairs ...string) *Index {
	t.Helper()
	var names []string
	var fields []Field
	for i := 0; i < len(pairs); i += 2 {
		f, err := ParseField(pairs[i+1])
		if err != nil {
			t.Fatal(err)
		}
		names, fields = append(names, pairs[i]), append(fields, f)
	}
	return NewIndex(names, fields)
}

func TestIndex(t *testing.T) {
	t.Parallel()
	x := indexOf(t, "amount", "data.object.amount", "customer", "data.object.customer", "kind", "type", "list", "data.list",
		"page", "query:page", "paid", "data.object.paid", "tenant", "header:X-Tenant", "word", "data.list.0")
	ev := &event.Event{Type: "invoice.paid", Query: "page=7"}
	header := http.Header{"X-Tenant": {"t1"}}
	long := strings.Repeat("x", MaxIndexedValue)
	for _, tt := range []struct {
		name, body, want string
		left             int
	}{
		{"all kinds", `{"data":{"object":{"customer":"cus_9","amount":1152921506151679042,"paid":true},"list":["a"]}}`,
			"amount=1152921506151679042 customer=cus_9 kind=invoice.paid page=7 paid=true tenant=t1 word=a", 1},
		{"absent and null", `{"data":{"object":{"customer":null}}}`, "kind=invoice.paid page=7 tenant=t1", 0},
		{"an object", `{"data":{"object":{"customer":{"id":"x"}}}}`, "kind=invoice.paid page=7 tenant=t1", 1},
		{"as long as may be", `{"data":{"object":{"customer":"` + long + `"}}}`, "customer=" + long + " kind=invoice.paid page=7 tenant=t1", 0},
		{"too long", `{"data":{"object":{"customer":"` + long + `x"}}}`, "kind=invoice.paid page=7 tenant=t1", 1},
		{"escapes are decoded", `{"data":{"object":{"cust\u006fmer":"\u0063us"}}}`, "customer=cus kind=invoice.paid page=7 tenant=t1", 0},
		{"the first of two", `{"data":{"object":{"customer":"a","customer":"b"}}}`, "customer=a kind=invoice.paid page=7 tenant=t1", 0},
		{"no JSON", `customer=cus_9`, "kind=invoice.paid page=7 tenant=t1", 0},
		{"JSON and more", `{"data":{"object":{"customer":"a"}}}}`, "kind=invoice.paid page=7 tenant=t1", 0},
		{"too deep", `{"data":{"object":{"customer":"a"}},"x":` + strings.Repeat("[", 20_000), "kind=invoice.paid page=7 tenant=t1", 0},
	} {
		fields, left := x.of(ev, header, []byte(tt.body))
		var got []string
		for _, f := range fields {
			got = append(got, f.Name+"="+f.Value)
		}
		if s := strings.Join(got, " "); s != tt.want || left != tt.left {
			t.Errorf("%s: %s and %d left out, want %s and %d", tt.name, s, left, tt.want, tt.left)
		}
	}
	if got, left := (*Index)(nil).of(ev, header, []byte("{}")); got != nil || left != 0 {
		t.Errorf("without an index: %v, %d", got, left)
	}
}

// Fields are stored with each event, those of a batch with each element, and
// what was left out is counted.
func TestIndexIsStored(t *testing.T) {
	t.Parallel()
	src := source(t, "none")
	src.Index = indexOf(t, "customer", "data.customer")
	f := setup(t, []*Source{src}, nil)
	for _, body := range []string{`{"data":{"customer":"cus_1"}}`, `{"data":{}}`, `{"data":{"customer":[1]}}`} {
		f.send(t, message{path: "/in/none", body: body}).want(t, 200)
	}
	all := f.all(t) // newest first
	want := [][]event.Field{nil, nil, {{Name: "customer", Value: "cus_1"}}}
	for i := range all {
		if !slices.Equal(all[i].Event.Index, want[i]) {
			t.Errorf("event %d: %v, want %v", i, all[i].Event.Index, want[i])
		}
	}
	if n := f.metric(t, "onceward_ingest_index_left_out_total", "source", "none"); n != 1 {
		t.Errorf("%v values are counted as left out, want 1", n)
	}
}
