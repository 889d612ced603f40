package verify

import (
	"encoding/json"
	"errors"
	"testing"
	"time"
)

// TestSignRoundTrip makes a request for every row and mode and verifies it, with
// ID and type arriving as they were asked for.
func TestSignRoundTrip(t *testing.T) {
	t.Parallel()
	now := time.Unix(1767225600, 0)
	pairs := signers(t)
	for _, row := range Providers() {
		for _, m := range row.Modes {
			cfg := Config{Row: row, Auth: m.Name, Secrets: modeSecrets(m)}
			req := SignRequest{Now: now, ID: "ev-1", Type: "a.b", URL: "https://a.test/in/x"}
			if m.PublicKey != nil {
				cfg.PublicKeys = secrets(pemKey(t, pairs[m.PublicKey.Algorithm].Public()))
				req.PrivateKey = pairs[m.PublicKey.Algorithm]
			}
			if row.CanSign(m.Name) != (m.PublicKey == nil) {
				t.Errorf("%s %s: CanSign is %t", row.Name, m.Name, row.CanSign(m.Name))
			}
			v := mustNew(t, cfg)
			s, err := v.Sign(req)
			if err != nil {
				t.Errorf("%s %s: %v", row.Name, m.Name, err)
				continue
			}
			res := v.Verify(request(s, now))
			if res.Reason != OK || len(res.Events) != 1 {
				t.Errorf("%s %s: %s, %d events", row.Name, m.Name, res.Reason, len(res.Events))
				continue
			}
			wantID := "ev-1"
			if row.Name == "hubspot" {
				wantID = "ev-1:0:0:0"
			} else if len(v.Row().ID) == 0 {
				wantID = ""
			}
			if got := res.Events[0]; got.ID != wantID || got.Type != "a.b" && len(row.Type) > 0 {
				t.Errorf("%s %s: ID %q, type %q", row.Name, m.Name, got.ID, got.Type)
			}
		}
	}
}

func TestSignKeepsTheBody(t *testing.T) {
	t.Parallel()
	v := mustNew(t, Config{Row: lookup(t, "stripe"), Secrets: secrets("a", "b")})
	body := "{ \"id\" : \"evt_1\" }\n"
	s, err := v.Sign(SignRequest{Now: time.Unix(5, 0), Body: []byte(body), Secret: "2"})
	if err != nil || string(s.Body) != body || s.Method != "POST" || s.Header.Get("Content-Type") != "application/json" {
		t.Fatalf("%+v, %v", s, err)
	}
	if res := v.Verify(request(s, time.Unix(5, 0))); res.Secret != "2" {
		t.Errorf("signed with secret 2, matched %q", res.Secret)
	}
}

func TestCannotSign(t *testing.T) {
	t.Parallel()
	now := time.Unix(5, 0)
	inBody := Row{Name: "inbody", Modes: []Mode{{Name: "m", HMAC: &HMAC{Scheme: Scheme{Sig: "json:sig", Signed: "{json:id}"}}}}}
	for name, tt := range map[string]struct {
		cfg Config
		req SignRequest
	}{
		"no secret":       {Config{Row: lookup(t, "stripe")}, SignRequest{Now: now}},
		"no such label":   {Config{Row: lookup(t, "stripe"), Secrets: secrets("a")}, SignRequest{Now: now, Secret: "9"}},
		"token offline":   {Config{Row: lookup(t, "token")}, SignRequest{Now: now}},
		"basic offline":   {Config{Row: lookup(t, "basic")}, SignRequest{Now: now}},
		"no private key":  {Config{Row: lookup(t, "sendgrid")}, SignRequest{Now: now}},
		"no signed ID":    {Config{Row: lookup(t, "svix"), Secrets: secrets("QUJD")}, SignRequest{Now: now}},
		"inside the body": {Config{Row: inBody, Secrets: secrets("a")}, SignRequest{Now: now, Body: []byte(`{"id":1}`)}},
		"signed part":     {Config{Row: inBody, Secrets: secrets("a")}, SignRequest{Now: now, Body: []byte(`{}`)}},
	} {
		if _, err := mustNew(t, tt.cfg).Sign(tt.req); !errors.Is(err, ErrCannotSign) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if inBody.CanSign("") || inBody.CanSign("nobody") {
		t.Error("CanSign promises what Sign refuses")
	}
}

func TestSampleBody(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"stripe": `{"id":"i","type":"t"}`, "slack": `{"event":{"type":"t"},"event_id":"i"}`, "sendgrid": `[{"event":"t","sg_event_id":"i"}]`,
		"github": `{}`, "svix": `{"type":"t"}`, "twilio": `MessageSid=i&MessageStatus=t`,
	} {
		body, ct := lookup(t, name).SampleBody("i", "t")
		if string(body) != want || (ct == "application/json") != json.Valid(body) {
			t.Errorf("%s: %s as %s, want %s", name, body, ct, want)
		}
	}
	row := batchRow(&Batch{Path: "data.events"})
	if body, _ := row.SampleBody("i", "t"); string(body) != `{"data":{"events":[{"id":"i","type":"t"}]}}` {
		t.Errorf("batch at a path: %s", body)
	}
}

func TestGuard(t *testing.T) {
	t.Parallel()
	now := time.Unix(5, 0)
	v := mustNew(t, Config{Row: lookup(t, "github"), Secrets: secrets("s", "t")})
	sum := func(id, typ, body, secret string) [32]byte {
		s, err := v.Sign(SignRequest{Now: now, ID: id, Type: typ, Body: []byte(body), Secret: secret})
		if err != nil {
			t.Fatal(err)
		}
		res := v.Verify(request(s, now))
		if res.Reason != OK || !res.HasGuard || res.Guard == [32]byte{} {
			t.Fatalf("no guard: %+v", res)
		}
		return res.Guard
	}
	base := sum("1", "push", "body", "1")
	if sum("2", "push", "body", "2") != base {
		t.Error("another ID or secret changes the guard")
	}
	for what, other := range map[string][32]byte{"type": sum("1", "ping", "body", "1"), "body": sum("1", "push", "bodyx", "1"), "shifted border": sum("1", "xpush", "body", "1"),
		"other border": sum("1", "ush", "bodyp", "1"), "no type": sum("1", "", "bodypush", "1")} {
		if other == base {
			t.Errorf("%s: does not change the guard", what)
		}
	}
	for _, tt := range []struct {
		provider, auth string
		set            Guard
		want           Guard
	}{
		{"github", "", "", GuardFlag}, {"github", "", GuardDrop, GuardDrop}, {"github", "", GuardOff, GuardOff}, {"shopify", "", "", GuardFlag},
		{"stripe", "", "", GuardOff}, {"stripe", "", GuardDrop, GuardDrop}, {"gitlab", "token", "", GuardOff}, {"none", "", "", GuardOff},
	} {
		mode, _ := lookup(t, tt.provider).pickMode(tt.auth)
		v := mustNew(t, Config{Row: lookup(t, tt.provider), Auth: tt.auth, Guard: tt.set, Secrets: modeSecrets(mode)})
		if v.Guard() != tt.want || v.Row().Guard != tt.want {
			t.Errorf("%s, set to %q: %s", tt.provider, tt.set, v.Guard())
		}
		s, _ := v.Sign(SignRequest{Now: now, ID: "i", Body: []byte(`{"id":"i"}`)})
		if res := v.Verify(request(s, now)); res.Reason != OK || res.HasGuard != (tt.want != GuardOff) {
			t.Errorf("%s, set to %q: %s, guard %t", tt.provider, tt.set, res.Reason, res.HasGuard)
		}
	}
}
