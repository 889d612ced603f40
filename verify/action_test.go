package verify

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// greetRow has a handshake of every sort that comes before verification.
func greetRow() Row {
	return Row{
		Name: "greet", Methods: []string{"POST", "GET", "HEAD"}, ID: []string{"json:id"},
		Options: []string{"registration_pending", "topics", "token", "app"},
		Modes:   []Mode{{Name: "m", HMAC: &HMAC{Scheme: Scheme{Sig: "header:X-Sig", Signed: "{body}"}}}},
		Handshake: []Handshake{
			{Name: "hook", Method: "POST", Detect: []string{"header:X-Hook-Secret"}, Pending: "registration_pending", Open: true,
				Capture: "header:X-Hook-Secret", Header: map[string]string{"X-Hook-Secret": "{header:X-Hook-Secret}"}},
			{Name: "confirm", Method: "POST", Detect: []string{"json:confirm", "!json:id"}, Compare: []string{"json:app=app"},
				Confirm: "json:confirm", ConfirmHosts: []string{"api.*.acme.test"}},
			{Name: "topic", Method: "GET", Detect: []string{"query:challenge", "query:topic"}, Compare: []string{"query:topic=topics"}, Fail: 404, Body: "{query:challenge}"},
			{Name: "crc", Method: "GET", Detect: []string{"query:crc"}, Open: true, SignsOutsider: true,
				JSON: map[string]string{"a/b": "{hmac:query:crc}", "a/c": "{sha256:query:crc+option:token+url:}"}},
			{Name: "ping", Method: "POST", Detect: []string{"json:type^=pi"}, Verify: true, ContentType: "application/json", Body: `{{"type":1}}`},
			{Name: "head", Method: "HEAD", Open: true},
		},
	}
}

func greet(t *testing.T, opts map[string]string, secret ...string) *Verifier {
	t.Helper()
	if err := greetRow().Validate(); err != nil {
		t.Fatal(err)
	}
	return mustNew(t, Config{Row: greetRow(), Secrets: secrets(secret...), Options: opts})
}

// TestCapture takes a secret while one is waited for and never else.
func TestCapture(t *testing.T) {
	t.Parallel()
	r := &Request{Method: "POST", Header: http.Header{"X-Hook-Secret": {"handed-over"}}, Body: []byte(`{"id":"1"}`)}
	waiting := greet(t, map[string]string{"registration_pending": "true"})
	if waiting.Offline() {
		t.Error("a verifier that waits for its secret is offline")
	}
	res := waiting.Verify(r)
	if res.Reason != OK || res.Action == nil || res.Action.Kind != ActionCapture || res.Action.Secret.Reveal() != "handed-over" || res.Handshake.Header["X-Hook-Secret"] != "handed-over" {
		t.Errorf("waiting: %+v", res)
	}
	if res := waiting.Verify(&Request{Method: "POST", Body: r.Body}); res.Reason != ReasonNoSecret {
		t.Errorf("an event before there is a secret: %s", res.Reason)
	}
	for name, v := range map[string]*Verifier{
		"not waiting": greet(t, nil, "s"), "said no": greet(t, map[string]string{"registration_pending": "false"}, "s"), "said yes": greet(t, map[string]string{"registration_pending": "yes"}, "s"),
	} {
		if res := v.Verify(r); res.Reason == OK || res.Action != nil || res.Handshake != nil {
			t.Errorf("%s: an unsolicited secret gave %+v", name, res)
		}
	}
	for _, bad := range []string{"", strings.Repeat("x", maxEcho+1), "a\r\nb"} {
		r := &Request{Method: "POST", Header: http.Header{"X-Hook-Secret": {bad}}}
		if res := waiting.Verify(r); res.Reason == OK || res.Action != nil {
			t.Errorf("%.10q is taken for a secret", bad)
		}
	}
	row := greetRow()
	row.Handshake[0].Pending = ""
	if row.Validate() == nil {
		t.Error("a secret may be handed over at any time")
	}
}

// TestConfirm reports an address only where the row believes it.
func TestConfirm(t *testing.T) {
	t.Parallel()
	v := greet(t, map[string]string{"app": "app-1"}, "s")
	for body, want := range map[string]string{
		`{"app":"app-1","confirm":"https://api.eu.acme.test/c?t=1"}`:           "https://api.eu.acme.test/c?t=1",
		`{"app":"app-2","confirm":"https://api.eu.acme.test/c?t=1"}`:           "",
		`{"confirm":"https://api.eu.acme.test/c?t=1"}`:                         "",
		`{"app":"app-1","confirm":"http://api.eu.acme.test/c"}`:                "",
		`{"app":"app-1","confirm":"https://api.eu.acme.test.evil.test/c"}`:     "",
		`{"app":"app-1","confirm":"https://169.254.169.254/latest/meta-data"}`: "",
		`{"app":"app-1","confirm":"https://api.eu.acme.test@evil.test/"}`:      "",
		`{"app":"app-1","confirm":["https://api.eu.acme.test/"]}`:              "",
	} {
		res := v.Verify(&Request{Method: "POST", Body: []byte(body)})
		if got := res.Action != nil; got != (want != "") || got && (res.Action.URL != want || res.Action.Kind != ActionConfirm) {
			t.Errorf("%s: %s, %+v", body, res.Reason, res.Action)
		}
	}
	row := greetRow()
	row.Handshake[1].ConfirmHosts = nil
	if row.Validate() == nil {
		t.Error("any address may be confirmed")
	}
}

// TestTopics compares with any of a list and fails with the row's own status.
func TestTopics(t *testing.T) {
	t.Parallel()
	for _, topics := range []string{"https://a.test/1, https://a.test/2", `["https://a.test/1","https://a.test/2"]`} {
		v := greet(t, map[string]string{"topics": topics}, "s")
		for topic, ok := range map[string]bool{"https://a.test/1": true, "https://a.test/2": true, "https://a.test/3": false, "": false, "https://a.test/": false} {
			res := v.Verify(&Request{Method: "GET", RawQuery: "challenge=c&topic=" + topic})
			if (res.Handshake != nil) != ok || !ok && (res.Refusal == nil || res.Refusal.Status != 404) {
				t.Errorf("topic %q of %s: %+v", topic, topics, res)
			}
		}
	}
}

// TestSignsOutsider signs for anyone only what can't be an event.
func TestSignsOutsider(t *testing.T) {
	t.Parallel()
	v := greet(t, map[string]string{"token": "tok {}"}, "s")
	for crc, ok := range map[string]bool{
		"abc-123_~.": true, "YWJj%2B%2F%3D": true, "%7B%22id%22%3A1%7D": false, "a%20b": false, "a%0Ab": false, "%C3%A9": false,
		strings.Repeat("a", maxSignedEcho): true, strings.Repeat("a", maxSignedEcho+1): false,
	} {
		res := v.Verify(&Request{Method: "GET", URL: "https://a.test/in", RawQuery: "crc=" + crc})
		if (res.Handshake != nil) != ok {
			t.Errorf("crc %.20s: %s", crc, res.Reason)
		}
		if res.Handshake != nil && !strings.HasPrefix(string(res.Handshake.Body), `{"a":{"b":"`) {
			t.Errorf("answer %s", res.Handshake.Body)
		}
	}
	row := greetRow()
	row.Handshake[3].SignsOutsider = false
	if row.Validate() == nil {
		t.Error("anything may be signed for anyone")
	}
}

// TestConstantAnswers checks braces, beginnings and HEAD.
func TestConstantAnswers(t *testing.T) {
	t.Parallel()
	v := greet(t, nil, "s")
	s, err := v.Sign(SignRequest{Now: time.Unix(1, 0), Body: []byte(`{"type":"ping"}`)})
	if err != nil {
		t.Fatal(err)
	}
	if res := v.Verify(request(s, time.Unix(1, 0))); res.Handshake == nil || string(res.Handshake.Body) != `{"type":1}` || res.Handshake.ContentType != "application/json" {
		t.Errorf("%+v", res)
	}
	if res := v.Verify(&Request{Method: "HEAD"}); res.Handshake == nil || res.Handshake.Status != 200 || len(res.Handshake.Body) > 0 {
		t.Errorf("HEAD: %+v", res)
	}
	row := greetRow()
	row.Handshake[4].Body = "{json:type}"
	if row.Validate() == nil {
		t.Error("what a sender chose is answered as JSON without an encoder")
	}
}

// TestConditions tells conditions apart.
func TestConditions(t *testing.T) {
	t.Parallel()
	x := &exchange{req: &Request{Method: "POST", RawQuery: "a=1&b=&c=1&c=2", Body: []byte(`{"k":"val"}`),
		Header: http.Header{"Content-Type": {"application/json; charset=utf-8"}, "X-A": {"application/json; x=1"}}}, url: "https://a.test/p/q?a=1"}
	for s, want := range map[string]bool{
		"query:a": true, "query:a=1": true, "query:a=2": false, "query:b": true, "query:b=": true, "query:d": false, "!query:d": true, "!query:a": false,
		"query:c": false, "query:c=1": false, "!query:c": false, "json:k=val": true, "json:k^=va": true, "json:k^=al": false,
		"header:Content-Type=application/json": true, "header:X-A=application/json": false, "path:=/p/q": true, "path:=/p": false,
		"query:d ?? json:k=val": true, "query:a=$opt": true, "query:a=$unset?": true, "text:x=x": true,
	} {
		c, err := parseCondition(s, map[string]string{"opt": "1"})
		if err != nil || c.holds(x) != want {
			t.Errorf("%s holds: %t, %v", s, c.holds(x), err)
		}
	}
	for _, bad := range []string{"", "!", "nowhere:x", "query:a=$unset", "=x"} {
		if _, err := parseCondition(bad, map[string]string{}); err == nil {
			t.Errorf("condition %q is taken", bad)
		}
	}
}

// TestRequire refuses what lacks what all requests of its kind have.
func TestRequire(t *testing.T) {
	t.Parallel()
	row := Row{Name: "acme", Options: []string{"key"}, Modes: []Mode{{Name: "m", Require: []string{"header:X-Version=1", "header:X-Key=$key?"},
		HMAC: &HMAC{Scheme: Scheme{Sig: "header:X-Sig", Signed: "{body}"}}}}}
	v := mustNew(t, Config{Row: row, Secrets: secrets("s"), Options: map[string]string{"key": "k"}})
	s, err := v.Sign(SignRequest{Body: []byte("b")})
	if err != nil {
		t.Fatal(err)
	}
	if res := v.Verify(request(s, time.Time{})); res.Reason != OK {
		t.Fatalf("%+v", res)
	}
	for name, edit := range map[string]func(http.Header){
		"version": func(h http.Header) { h.Set("X-Version", "2") }, "no version": func(h http.Header) { h.Del("X-Version") },
		"version twice": func(h http.Header) { h.Add("X-Version", "1") }, "key": func(h http.Header) { h.Set("X-Key", "other") },
	} {
		r := copyRequest(request(s, time.Time{}))
		edit(r.Header)
		if res := v.Verify(r); res.Reason != ReasonSignatureMismatch || res.Events != nil {
			t.Errorf("%s: %s", name, res.Reason)
		}
		if r.Header.Del("X-Sig"); v.Verify(r).Reason != ReasonSignatureMissing {
			t.Errorf("%s, unsigned: %s", name, v.Verify(r).Reason)
		}
	}
}
