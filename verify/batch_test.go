package verify

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

func batchRow(b *Batch) Row {
	return Row{Name: "batch", Batch: b, ID: []string{"json:id", "header:X-Id"}, Type: []string{"json:type"}, Modes: []Mode{{Name: "none", None: true}}}
}

func TestBatchSplit(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, path, body string
		want             []string // exact elements
		ids              string
		reason           Reason
	}{
		{"plain", "", `[{"id":1},{"id":"two"}]`, []string{`{"id":1}`, `{"id":"two"}`}, "1,two", OK},
		{"space everywhere", "", " [ {\"id\" : 1 }\t,\r\n {\"id\":2} ] \r\n", []string{`{"id" : 1 }`, `{"id":2}`}, "1,2", OK},
		{"nested", "", `[{"id":1,"a":[{"id":9},"]"],"s":"}],\"["},{"id":2}]`, []string{`{"id":1,"a":[{"id":9},"]"],"s":"}],\"["}`, `{"id":2}`}, "1,2", OK},
		{"scalars have no ID", "", `[1,"a\"b",null,true,[],{}]`, []string{"1", `"a\"b"`, "null", "true", "[]", "{}"}, ",,,,,", OK},
		{"same ID twice", "", `[{"id":1},{"id":1}]`, []string{`{"id":1}`, `{"id":1}`}, "1,1", OK},
		{"one", "", `[{"id":1}]`, []string{`{"id":1}`}, "1", OK},
		{"empty", "", ` [ ] `, []string{}, "", OK},
		{"at a path", "a.events", `{"a":{"x":[],"events":[{"id":1},{"id":2}]},"id":9}`, []string{`{"id":1}`, `{"id":2}`}, "1,2", OK},
		{"path to no array", "a", `{"a":{"id":1}}`, nil, "", ReasonBodyMalformed},
		{"no path", "a", `{"b":[]}`, nil, "", ReasonBodyMalformed},
		{"object", "", `{"id":1}`, nil, "", ReasonBodyMalformed},
		{"null", "", `null`, nil, "", ReasonBodyMalformed},
		{"nothing", "", ``, nil, "", ReasonBodyMalformed},
		{"cut off", "", `[{"id":1}`, nil, "", ReasonBodyMalformed},
		{"trailing", "", `[{"id":1}]]`, nil, "", ReasonBodyMalformed},
		{"deep", "", strings.Repeat("[", MaxDepth+1) + strings.Repeat("]", MaxDepth+1), nil, "", ReasonBodyMalformed},
	} {
		v, err := New(Config{Row: batchRow(&Batch{Path: tt.path})})
		if err != nil {
			t.Fatal(err)
		}
		res := v.Verify(&Request{Body: []byte(tt.body)})
		if res.Reason != tt.reason || res.Split != (tt.reason == OK) || (res.Events == nil) != (tt.reason != OK) || len(res.Events) != len(tt.want) {
			t.Errorf("%s: got %+v", tt.name, res)
			continue
		}
		var ids []string
		for i, e := range res.Events {
			if got := tt.body[e.Offset : e.Offset+e.Length]; got != tt.want[i] {
				t.Errorf("%s: element %d is %q, want %q", tt.name, i, got, tt.want[i])
			}
			ids = append(ids, e.ID)
		}
		if got := strings.Join(ids, ","); got != tt.ids {
			t.Errorf("%s: IDs %q, want %q", tt.name, got, tt.ids)
		}
	}
}

func TestBatchBounds(t *testing.T) {
	t.Parallel()
	v, err := New(Config{Row: batchRow(&Batch{}), MaxBatch: 3})
	if err != nil {
		t.Fatal(err)
	}
	if res := v.Verify(&Request{Body: []byte(`[1,2,3]`)}); res.Reason != OK || len(res.Events) != 3 {
		t.Errorf("three of three: %+v", res)
	}
	if res := v.Verify(&Request{Body: []byte(`[1,2,3,4]`)}); res.Reason != ReasonBatchTooLarge || res.Events != nil {
		t.Errorf("four of three: %+v", res)
	}
	v, _ = New(Config{Row: batchRow(&Batch{})})
	if res := v.Verify(&Request{Body: []byte("[0" + strings.Repeat(",0", DefaultMaxBatch) + "]")}); res.Reason != ReasonBatchTooLarge {
		t.Errorf("one more than the default: %s", res.Reason)
	}
}

func TestBatchKeepAndOptional(t *testing.T) {
	t.Parallel()
	const body = `[{"id":1},{"id":2}]`
	v, err := New(Config{Row: batchRow(&Batch{}), Batch: "keep"})
	if err != nil {
		t.Fatal(err)
	}
	r := &Request{Body: []byte(body), Header: map[string][]string{"X-Id": {"req-1"}}}
	if res := v.Verify(r); res.Reason != OK || res.Split || len(res.Events) != 1 || res.Events[0] != (Event{ID: "req-1", Length: len(body)}) {
		t.Errorf("kept batch: %+v", res)
	}
	v, _ = New(Config{Row: batchRow(&Batch{Optional: true})})
	deep := strings.Repeat("[", MaxDepth+1) + strings.Repeat("]", MaxDepth+1)
	if res := v.Verify(&Request{Body: []byte(deep)}); res.Reason != ReasonBodyMalformed {
		t.Errorf("optional batch, too deep: %s", res.Reason)
	}
	for in, id := range map[string]string{`{"id":7}`: "7", `not JSON`: "", ``: ""} {
		if res := v.Verify(&Request{Body: []byte(in)}); res.Reason != OK || res.Split || len(res.Events) != 1 || res.Events[0].ID != id {
			t.Errorf("optional batch %q: %+v", in, res)
		}
	}
}

func FuzzBatch(f *testing.F) {
	f.Add([]byte(` [ {"id":1} , "a\"]" ,[[]], 1e5 ]`))
	f.Add([]byte(`[]`))
	v, err := New(Config{Row: batchRow(&Batch{})})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		res := v.Verify(&Request{Body: body, Now: time.Unix(0, 0)})
		var want []json.RawMessage
		err := json.Unmarshal(body, &want)
		if res.Reason == ReasonBatchTooLarge || res.Reason == ReasonBodyMalformed && tooDeep(body) {
			return
		}
		if isArray := err == nil && want != nil; (res.Reason == OK) != isArray {
			t.Fatalf("%q: %s, encoding/json says %v", body, res.Reason, err)
		}
		if len(want) != len(res.Events) {
			t.Fatalf("%q: %d events, want %d", body, len(res.Events), len(want))
		}
		for i, e := range res.Events {
			if got := string(body[e.Offset : e.Offset+e.Length]); got != string(want[i]) {
				t.Fatalf("%q: element %d is %q, want %q", body, i, got, want[i])
			}
		}
	})
}
