package verify

import (
	"net/http"
	"strings"
	"testing"
)

// TestBatchShapes takes batches of every shape apart: IDs, types, exact slices.
func TestBatchShapes(t *testing.T) {
	t.Parallel()
	nested := &Batch{Path: "entry[].changes[].value.messages", Also: []string{"entry[].changes[].value.statuses"}}
	for name, tt := range map[string]struct {
		batch  *Batch
		id     []string
		ct     string
		body   string
		ids    string
		want   []string // exact slices; nil for one whole event
		reason Reason
	}{
		"nested": {batch: nested, id: []string{"json:id+json:status", "json:id"},
			body: `{"entry":[{"id":"e1","changes":[{"value":{"statuses":[{"id":"m2","status":"sent"}],"messages":[{"id":"m1"}]}}]}]}`,
			ids:  "m1,m2:sent", want: []string{`{"id":"m1"}`, `{"id":"m2","status":"sent"}`}},
		"nothing gets lost": {batch: nested, id: []string{"json:id", "json:field"},
			body: `{"entry":[{"id":"e1","changes":[{"field":"other","value":{}}]},{"id":"e2"},{"id":"e3","changes":[]},{"id":"e4","changes":[{"field":"x","value":{"messages":[]}}]}]}`,
			ids:  "other,e2,e3,x", want: []string{`{"field":"other","value":{}}`, `{"id":"e2"}`, `{"id":"e3","changes":[]}`, `{"field":"x","value":{"messages":[]}}`}},
		"no array at all": {batch: nested, body: `{"entry":{}}`, reason: ReasonBodyMalformed},
		"parent and top": {batch: &Batch{Path: "a[].b"}, id: []string{"body:top+parent:p+json:id"},
			body: `{"top":1,"a":[{"p":"x","b":[{"id":1},{"id":2}]},{"p":"y","b":[{"id":1}]}]}`,
			ids:  "1:x:1,1:x:2,1:y:1", want: []string{`{"id":1}`, `{"id":2}`, `{"id":1}`}},
		"array of arrays": {batch: &Batch{Path: "[].b"}, id: []string{"json:id"}, body: ` [ {"b":[{"id":1}]} , {"b":[{"id":2}]} ] `,
			ids: "1,2", want: []string{`{"id":1}`, `{"id":2}`}},
		"lines":               {batch: &Batch{Lines: true}, id: []string{"json:id"}, body: "{\"id\":1}\r\n\n  {\"id\":2} \n", ids: "1,2", want: []string{`{"id":1}`, `{"id":2}`}},
		"lines as an array":   {batch: &Batch{Lines: true}, id: []string{"json:id"}, body: `[{"id":1}]`, ids: "1", want: []string{`{"id":1}`}},
		"a line that is none": {batch: &Batch{Lines: true}, id: []string{"json:id"}, body: "{\"id\":1}\n{", reason: ReasonBodyMalformed},
		"whole": {batch: &Batch{Path: "alerts", Whole: true}, id: []string{"json:f+json:s"},
			body: `{"alerts":[{"f":"a","s":1},{"f":"b","s":2}]}`, ids: "a%3A1:b%3A2"},
		"whole of one":            {batch: &Batch{Path: "alerts", Whole: true}, id: []string{"json:f+json:s"}, body: `{"alerts":[{"f":"a","s":1}]}`, ids: "a:1"},
		"whole with one nameless": {batch: &Batch{Path: "alerts", Whole: true}, id: []string{"json:f"}, body: `{"alerts":[{"f":"a"},{}]}`, ids: ""},
		"form": {batch: &Batch{Path: "form:events"}, id: []string{"json:id"}, ct: "application/x-www-form-urlencoded",
			body: `events=%5B%7B%22id%22%3A1%7D%2C%7B%22id%22%3A2%7D%5D`, ids: "1:2"},
		"form without it": {batch: &Batch{Path: "form:events"}, id: []string{"json:id"}, ct: "application/x-www-form-urlencoded", body: `x=1`, reason: ReasonBodyMalformed},
		"form of junk":    {batch: &Batch{Path: "form:events", Optional: true}, id: []string{"json:id"}, ct: "application/x-www-form-urlencoded", body: `events=%5B`, ids: ""},
		"condition met": {batch: &Batch{When: []string{"header:Content-Type=application/batch+json"}}, id: []string{"json:id"}, ct: "application/batch+json; x=1",
			body: `[{"id":1},{"id":2}]`, ids: "1,2", want: []string{`{"id":1}`, `{"id":2}`}},
		"condition not met": {batch: &Batch{When: []string{"header:Content-Type=application/batch+json"}}, id: []string{"json:0.id"}, ct: "application/json",
			body: `[{"id":1},{"id":2}]`, ids: "1"},
		"XML": {batch: &Batch{Path: "xml:Body/list/item"}, id: []string{"xml:Id"},
			body: `<?xml version="1.0"?><e:Envelope><e:Body><list><item a="b"><Id>1</Id></item> <other/><item><Id>2</Id><Id>9</Id></item></list></e:Body></e:Envelope>`,
			ids:  "1,2", want: []string{`<item a="b"><Id>1</Id></item>`, `<item><Id>2</Id><Id>9</Id></item>`}},
		"XML cut off":        {batch: &Batch{Path: "xml:list/item"}, id: []string{"xml:Id"}, body: `<e><list><item>`, reason: ReasonBodyMalformed},
		"keys by their ends": {batch: nil, id: []string{"key:*_events+json:*_events.0.id"}, body: `{"for":1,"like_events":[{"id":"x"}]}`, ids: "like_events:x"},
		"the other key":      {batch: nil, id: []string{"key:!update_id,!x"}, body: `{"x":1,"update_id":1,"message":{}}`, ids: "message"},
		"inside a text":      {batch: nil, id: []string{"json:data|base64|json:id"}, body: `{"data":"eyJpZCI6IngifQ"}`, ids: "x"},
		"digest of a value":  {batch: nil, id: []string{"json:v|sha256"}, body: `{"v":{"a": 1}}`, ids: "f9d86028c6e0d64e225186f96acb69338b2c59764df79162107f5c4bb34d1310"},
		"a name with an at":  {batch: nil, id: []string{"json:event.@id"}, body: `{"event":{"@id":"x"}}`, ids: "x"},
		"multipart":          {batch: nil, id: []string{"form:json|json:id"}, ct: "multipart/form-data; boundary=b", body: "--b\r\nContent-Disposition: form-data; name=\"json\"\r\n\r\n{\"id\":\"x\"}\r\n--b--\r\n", ids: "x"},
		"a file is no field": {batch: nil, id: []string{"form:json|json:id"}, ct: "multipart/form-data; boundary=b", body: "--b\r\nContent-Disposition: form-data; name=\"json\"; filename=\"x\"\r\n\r\n{\"id\":\"x\"}\r\n--b--\r\n", ids: ""},
	} {
		row := Row{Name: "shape", Batch: tt.batch, ID: tt.id, Modes: []Mode{{Name: "none", None: true}}}
		if err := row.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		v := mustNew(t, Config{Row: row})
		res := v.Verify(&Request{Method: "POST", Header: http.Header{"Content-Type": {tt.ct}}, Body: []byte(tt.body)})
		if tt.reason != "" {
			if res.Reason != tt.reason || res.Events != nil {
				t.Errorf("%s: %s", name, res.Reason)
			}
			continue
		}
		var ids, slices []string
		for _, e := range res.Events {
			ids = append(ids, e.ID)
			slices = append(slices, tt.body[e.Offset:e.Offset+e.Length])
		}
		if res.Reason != OK || strings.Join(ids, ",") != tt.ids || res.Split != (tt.want != nil) {
			t.Errorf("%s: %s, IDs %q, split %t", name, res.Reason, ids, res.Split)
		}
		if tt.want == nil {
			tt.want = []string{tt.body}
		}
		if strings.Join(slices, "\n") != strings.Join(tt.want, "\n") {
			t.Errorf("%s: slices %q", name, slices)
		}
	}
}

// TestEmptyWholeBatch has no event and says so in a manner that no caller trips on.
func TestEmptyWholeBatch(t *testing.T) {
	t.Parallel()
	row := Row{Name: "shape", Batch: &Batch{Path: "a", Whole: true}, ID: []string{"json:id"}, Modes: []Mode{{Name: "none", None: true}}}
	res := mustNew(t, Config{Row: row}).Verify(&Request{Body: []byte(`{"a":[]}`)})
	if res.Reason != OK || len(res.Events) != 0 || res.Events == nil || !res.Split {
		t.Errorf("%+v", res)
	}
}

// TestDerivedParts checks what is made of a request before it is signed.
func TestDerivedParts(t *testing.T) {
	t.Parallel()
	const form = "application/x-www-form-urlencoded"
	for _, tt := range []struct{ tmpl, ct, body, url, want string }{
		{"{form_json}", form, "b=2&a=x+y&c=%C3%A9%22%F0%9F%98%80", "", `{"b": "2", "a": "x y", "c": "\u00e9\"\ud83d\ude00"}`},
		{"{form_json}", form, "a=1&a=2", "", "!"},
		{"{form_json}", "", "a=1", "", "!"},
		{"{form_php:sig}", form, "b=2&sig=x&a=%C3%A9", "", `a:2:{s:1:"a";s:2:"é";s:1:"b";s:1:"2";}`},
		{"{form_php:sig}", form, "a=1&a=2", "", "!"},
		{"{body_ascii}", "", "é😀/\x01", "", `\u00e9\ud83d\ude00/` + "\x01"},
		{"{body_ascii}", "", "\xff", "", "!"},
		{"{body_base64}", "", "ab", "", "YWI="},
		{"{crc32}", "", "ab", "", "2659403885"},
		{"{path}", "", "", "https://a.test/x/y?z=1", "/x/y?z=1"},
		{"{path}", "", "", "https://a.test", "/"},
		{"{sorted:query:b,query:a,text:m}", "", "", "https://a.test/?a=z&b=c", "cmz"},
		{"{sorted_query}", "", "", "https://a.test/?b=2&a=1", "a=1&b=2"},
		{"{none:query:x}y", "", "", "https://a.test/?a=1", "y"},
		{"{none:query:a}y", "", "", "https://a.test/?a=1", "!"},
		{"{query:x ?? query:a ?? body}", "", "b", "https://a.test/?a=1", "1"},
		{"{query:x ?? body}", "", "b", "https://a.test/?a=1", "b"},
		{"{query:a|lower}", "", "", "https://a.test/?a=ABC", "abc"},
		{"{listed:header:X-List}", "", "", "", "1.2"},
		{"{listed:header:X-Long}", "", "", "", "!"},
		{"{listed:text:x-one x-none}", "", "", "", "!"},
	} {
		tmpl, err := parseTemplate(tt.tmpl)
		if err != nil {
			t.Errorf("%s: %v", tt.tmpl, err)
			continue
		}
		_, query, _ := strings.Cut(tt.url, "?")
		x := &exchange{url: tt.url, req: &Request{Method: "POST", RawQuery: query, Body: []byte(tt.body), Header: http.Header{
			"Content-Type": {tt.ct}, "X-List": {"x-one x-two"}, "X-One": {"1"}, "X-Two": {"2"}, "X-Long": {strings.Repeat("x-one ", maxListed+1)}}}}
		var out strings.Builder
		got := "!"
		if missing := tmpl.write(x, &out); missing == "" {
			got = out.String()
		}
		if got != tt.want {
			t.Errorf("%s of %q: %q, want %q", tt.tmpl, tt.body, got, tt.want)
		}
	}
}

// TestTokenInEachElement wants the token in every element, wherever one lacks it.
func TestTokenInEachElement(t *testing.T) {
	t.Parallel()
	row := Row{Name: "each", ID: []string{"json:id"}, Batch: &Batch{Path: "value"}, Modes: []Mode{{Name: "m", Token: &Token{In: "json:state", Each: "value"}}}}
	if err := row.Validate(); err != nil {
		t.Fatal(err)
	}
	v := mustNew(t, Config{Row: row, Secrets: secrets("s")})
	for body, want := range map[string]Reason{
		`{"value":[{"id":1,"state":"s"},{"id":2,"state":"s"}]}`:                     OK,
		`{"value":[{"id":1,"state":"x"},{"id":2,"state":"s"}]}`:                     ReasonSignatureMismatch,
		`{"value":[{"id":1,"state":"s"},{"id":2,"state":"x"}]}`:                     ReasonSignatureMismatch,
		`{"value":[{"id":1,"state":"s"},{"id":2},{"id":3,"state":"s"}]}`:            ReasonSignatureMissing,
		`{"value":[{"id":1,"state":"s"},{"id":2,"state":{}},{"id":3,"state":"s"}]}`: ReasonSignatureMissing,
		`{"value":[]}`:                ReasonSignatureMissing,
		`{"value":{"state":"s"}}`:     ReasonSignatureMissing,
		`{"value":"s"}`:               ReasonSignatureMissing,
		`{"state":"s"}`:               ReasonSignatureMissing,
		`[{"state":"s"}]`:             ReasonSignatureMissing,
		`not JSON`:                    ReasonSignatureMissing,
		`{"value":[{"state":"s"}],`:   ReasonSignatureMissing,
		`{"value":[{"state":"s"},1]}`: ReasonSignatureMissing,
	} {
		if res := v.Verify(&Request{Method: "POST", Body: []byte(body)}); res.Reason != want || want != OK && res.Events != nil {
			t.Errorf("%s: %s, want %s", body, res.Reason, want)
		}
	}
}
