package verify

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"
)

// hostileBodies are texts that have broken other receivers.
func hostileBodies() map[string]string {
	return map[string]string{
		"empty": "", "null": "null", "true": "true", "number": "1e999", "string": `"x"`, "NUL": "\x00", "BOM": "\xef\xbb\xbf{}",
		"invalid UTF-8": "{\"id\":\"\xff\xfe\"}", "UTF-16": "{\x00\"\x00", "cut off": `{"id":`, "two texts": `{}{}`,
		"deep arrays": strings.Repeat("[", 100_000), "deep objects": strings.Repeat(`{"a":`, 100_000) + "1" + strings.Repeat("}", 100_000),
		"deep and valid": strings.Repeat("[", MaxDepth+1) + strings.Repeat("]", MaxDepth+1),
		"huge number":    `{"id":` + strings.Repeat("9", 100_000) + `}`, "lone surrogate": `{"id":"\ud800"}`, "escaped NUL": `{"id":"\u0000"}`,
		"keys twice": `{"id":1,"id":2}`, "array of scalars": `[1,"a",null,[],{}]`, "empty array": `[]`, "only space": "  \n ", "quote": `"`, "backslash": `"\`,
		"HTML": "<html>", "form": "a=b&c=%zz", "semicolons": "a;b;c",
	}
}

// TestHostileBodies signs each of them for every provider: authentic or not,
// nothing panics, and what has to be JSON and is not is refused.
func TestHostileBodies(t *testing.T) {
	t.Parallel()
	now := time.Unix(1767225600, 0)
	bodies := hostileBodies()
	for _, row := range Providers() {
		for _, m := range row.Modes {
			v := mustNew(t, trialConfig(t, row, m, nil))
			for name, body := range bodies {
				if len(body) > 4<<10 && len(row.Name)%8 != 0 {
					continue // what is large takes the same way in all of them
				}
				for _, ct := range []string{"application/json", "application/x-www-form-urlencoded", ""} {
					h := http.Header{"Content-Type": {ct}}
					s, err := v.Sign(SignRequest{Now: now, ID: "id-1", Type: "t", URL: "https://a.test/in", Header: h, Body: []byte(body)})
					if errors.Is(err, ErrCannotSign) {
						v.Verify(request(s, now)) // must not panic
						continue
					}
					if err != nil {
						t.Fatalf("%s %s %s: %v", row.Name, m.Name, name, err)
					}
					res := v.Verify(request(s, now))
					if partOfBodySigned(m) || row.Batch != nil {
						continue // many of these bodies have no signed form
					}
					if res.Reason != OK && res.Reason != ReasonBodyMalformed {
						t.Errorf("%s %s, %s as %q: %s", row.Name, m.Name, name, ct, res.Reason)
					}
					if needs := v.read.mustJSON && row.Batch == nil; needs && body != "" && (res.Reason == OK) != (checkJSON([]byte(body)) == jsonValid) {
						t.Errorf("%s %s, %s: %s", row.Name, m.Name, name, res.Reason)
					}
					for _, e := range res.Events {
						_ = body[e.Offset : e.Offset+e.Length]
					}
				}
			}
		}
	}
}

// request turns what was signed into what arrives.
func request(s SignedRequest, now time.Time) *Request {
	_, query, _ := strings.Cut(s.URL, "?")
	return &Request{Method: s.Method, URL: s.URL, RawQuery: query, Header: s.Header, Body: s.Body, Now: now}
}

func TestNoJSONNeededWhereTheIDIsAHeader(t *testing.T) {
	t.Parallel()
	row, _ := Lookup("github")
	v, err := New(Config{Row: row, Secrets: secrets("s")})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(1, 0)
	for _, body := range []string{"not JSON", strings.Repeat("[", MaxDepth+1)} {
		s, _ := v.Sign(SignRequest{Now: now, ID: "d-1", Type: "push", Body: []byte(body)})
		res := v.Verify(request(s, now))
		if res.Reason != OK || res.Events[0] != (Event{ID: "d-1", Type: "push", Length: len(body)}) {
			t.Errorf("%.9s: %s, %+v", body, res.Reason, res.Events)
		}
	}
}

func TestIDs(t *testing.T) {
	t.Parallel()
	row, _ := Lookup("none")
	v, err := New(Config{Row: row, Options: map[string]string{"id": "json:id,json:alt.id", "type": "json:type"}})
	if err != nil {
		t.Fatal(err)
	}
	for body, want := range map[string]string{
		`{"id":"a"}`: "a", `{"id":" a "}`: " a ", `{"id":12345678901234567890}`: "12345678901234567890", `{"id":1.10}`: "1.10",
		`{"id":""}`: "", `{"id":null}`: "", `{"id":{}}`: "", `{"id":[1]}`: "", `{}`: "", `null`: "", `[]`: "",
		`{"id":"","alt":{"id":"b"}}`: "b", `{"id":null,"alt":{"id":2}}`: "2", `{"id":"first","id":"last"}`: "first", "": "",
	} {
		res := v.Verify(&Request{Method: "POST", Body: []byte(body)})
		if res.Reason != OK || len(res.Events) != 1 || res.Events[0].ID != want {
			t.Errorf("%s: %s, %+v, want ID %q", body, res.Reason, res.Events, want)
		}
	}
}

func TestNilRequestParts(t *testing.T) {
	t.Parallel()
	for _, row := range Providers() {
		for _, m := range row.Modes {
			v := mustNew(t, trialConfig(t, row, m, nil))
			if res := v.Verify(&Request{}); (res.Reason == OK) != m.None {
				t.Errorf("%s %s: a request of nothing is %s", row.Name, m.Name, res.Reason)
			}
		}
	}
}

// TestNothingLeaks prints everything a verification holds and gives out.
func TestNothingLeaks(t *testing.T) {
	t.Parallel()
	const canary = "canary-7f3a"
	s := Secret{ID: "label", Value: NewSecretString(canary)}
	var log strings.Builder
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "secret", s, "value", s.Value, "ptr", &s)
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "secret", s, "value", s.Value, "ptr", &s)
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d", "%T"} {
		fmt.Fprintf(&log, format, s)
		fmt.Fprintf(&log, format, &s)
		fmt.Fprintf(&log, format, s.Value)
		fmt.Fprintf(&log, format, struct{ hidden Secret }{s})
		fmt.Fprintf(&log, format, []any{map[string]Secret{"a": s}})
	}
	for _, v := range []any{s, &s, s.Value, map[string]any{"a": s}} {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		log.Write(b)
	}
	text, _ := s.Value.MarshalText()
	log.Write(text)
	for _, hidden := range []string{canary, fmt.Sprintf("%x", canary), fmt.Sprintf("%X", canary)} {
		if strings.Contains(log.String(), hidden) {
			t.Errorf("the secret was printed: %s", log.String())
		}
	}
	if !strings.Contains(log.String(), redacted) {
		t.Error("nothing says REDACTED")
	}
	for _, a := range acceptedVectors(t) {
		r := copyRequest(a.req)
		r.Body = append(r.Body, canary...)
		for name := range r.Header {
			if name != "Content-Type" {
				r.Header.Add(name, canary)
			}
		}
		if res := a.ver.Verify(r); res.Reason != OK && strings.Contains(fmt.Sprintf("%+v", res), canary) {
			t.Errorf("%s: the refusal repeats what was sent: %+v", a.name, res)
		}
	}
}

func TestSecretString(t *testing.T) {
	t.Parallel()
	var zero SecretString
	if !zero.Empty() || zero.Reveal() != "" || zero.Len() != 0 || zero.String() != redacted {
		t.Error("the zero secret is not the empty one")
	}
	var s SecretString
	if err := s.UnmarshalText([]byte("abc")); err != nil || s.Reveal() != "abc" || s.Empty() || s.Len() != 3 {
		t.Errorf("UnmarshalText: %v, %d", err, s.Len())
	}
}

func TestReasons(t *testing.T) {
	t.Parallel()
	seen := map[Reason]bool{}
	for _, r := range Reasons() {
		if seen[r] || r == "" {
			t.Errorf("reason %q stands twice", r)
		}
		seen[r] = true
	}
	for _, a := range acceptedVectors(t) {
		if !seen[a.ver.Verify(a.req).Reason] || !seen[a.ver.Verify(&Request{}).Reason] {
			t.Errorf("%s: a reason is not listed", a.name)
		}
	}
	if Reasons()[0] != OK {
		t.Error("OK does not come first")
	}
}
