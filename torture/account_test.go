package main

import (
	"reflect"
	"testing"
)

func TestParseAccount(t *testing.T) {
	t.Parallel()
	const good = `{"ref":"R1","source":"stripe","event_id":"e1","key":"stripe:e1","body_sha256":"aa","deliveries":[{"target":"billing","state":"delivered","attempts":2}]}
{"ref":"R2","source":"github","event_id":"e2","key":"github:e2","body_sha256":"bb","deliveries":[]}
`
	got, err := parseAccount([]byte(good))
	want := []Stored{
		{Ref: "R1", Source: "stripe", ID: "e1", Key: "stripe:e1", Hash: "aa", Deliveries: []StoredDelivery{{"billing", "delivered", 2}}},
		{Ref: "R2", Source: "github", ID: "e2", Key: "github:e2", Hash: "bb"},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v; want %+v", got, err, want)
	}
	for name, bad := range map[string]string{
		"not JSON":     "oops\n",
		"field absent": `{"ref":"R1","source":"stripe","body_sha256":"aa"}` + "\n",
		"cut off":      good[:40],
	} {
		if got, err := parseAccount([]byte(bad)); err == nil {
			t.Errorf("%s: got %+v, want an error: an account misread is an account agreed with", name, got)
		}
	}
}

func TestParseReplaying(t *testing.T) {
	n, err := parseReplaying([]byte(`{"id":"a","state":"done"}` + "\n" + `{"id":"b","state":"running"}` + "\n" + `{"id":"c","state":"counting"}` + "\n"))
	if n != 2 || err != nil {
		t.Errorf("got %d, %v, want 2", n, err)
	}
	for _, text := range []string{"{}", "x"} {
		if _, err := parseReplaying([]byte(text)); err == nil {
			t.Errorf("%q was read", text)
		}
	}
}

func TestParsePending(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, in string
		want     int
		bad      bool
	}{
		{"idle", `{"targets":[{"pending":0,"leased":0}],"ledger":{"rebuilding":false}}`, 0, false},
		{"open and under way", `{"targets":[{"pending":3,"leased":2},{"pending":1,"leased":0}],"ledger":{"rebuilding":false}}`, 6, false},
		{"still reading back", `{"targets":[{"pending":0,"leased":0}],"ledger":{"rebuilding":true}}`, 1, false},
		{"no targets", `{"targets":[],"ledger":{"rebuilding":false}}`, 0, true},
		{"another shape", `{"targets":[{"waiting":3}],"ledger":{"rebuilding":false}}`, 0, true},
		{"ledger says nothing", `{"targets":[{"pending":0,"leased":0}],"ledger":{}}`, 0, true},
		{"not JSON", `ok`, 0, true},
	} {
		got, err := parsePending([]byte(tt.in))
		if got != tt.want || (err != nil) != tt.bad {
			t.Errorf("%s: got %d, %v; want %d, error %v", tt.name, got, err, tt.want, tt.bad)
		}
	}
}

func TestUnaccounted(t *testing.T) {
	refs, err := parseAccepted([]byte("{\"kind\":\"accepted\",\"ref\":\"A\"}\n{\"kind\":\"accepted\",\"ref\":\"B\"}\n{\"kind\":\"accepted\",\"ref\":\"B\"}\n{\"kind\":\"accepted\",\"ref\":\"D\"}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if got := Unaccounted([]Stored{{Ref: "A"}}, map[string]int{"A": 1}); len(got) != 0 {
		t.Errorf("what fits is told as %q", got)
	}
	if got := Unaccounted([]Stored{{Ref: "A"}, {Ref: "B"}, {Ref: "C"}}, refs); len(got) != 3 {
		t.Errorf("one twice, one missing and one too many are told as %q", got)
	}
	for _, bad := range []string{"x", "{}", `{"kind":"dead","ref":"A"}`} {
		if _, err := parseAccepted([]byte(bad + "\n")); err == nil {
			t.Errorf("%s is read as an acceptance", bad)
		}
	}
}
