package verify

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
)

// TestSignRoundTrip makes a request for every row and mode and verifies it, with
// ID and type arriving as they were asked for. What can't be made says so.
func TestSignRoundTrip(t *testing.T) {
	t.Parallel()
	now := time.Unix(1767225600, 0)
	pairs := signers(t)
	for _, row := range Providers() {
		for _, m := range row.Modes {
			name := row.Name + " " + m.Name
			v := mustNew(t, trialConfig(t, row, m, pairs))
			req := SignRequest{Now: now, ID: "ev-1", Type: "a.b", URL: "https://a.test/in/x"}
			if m.PublicKey != nil {
				req.PrivateKey = pairs[keyKind(m.PublicKey.Algorithm)]
			}
			s, err := v.Sign(req)
			if row.CanSign(m.Name) && err != nil || err != nil && !errors.Is(err, ErrCannotSign) {
				t.Errorf("%s: %v", name, err)
			}
			if err != nil {
				continue
			}
			res := v.Verify(request(s, now))
			if res.Reason != OK || res.Handshake == nil && len(res.Events) != 1 {
				t.Errorf("%s: %s (%s), %d events of %q", name, res.Reason, res.Detail, len(res.Events), s.Body)
				continue
			}
			if res.Handshake != nil {
				continue
			}
			if got := res.Events[0]; sampledFirst(v.read.id) && !sharedFirst(v.read) && !strings.HasPrefix(got.ID, "ev-1") || sampledFirst(v.read.typ) && !strings.HasPrefix(got.Type, "a.b") {
				t.Errorf("%s: ID %q, type %q of %q", name, got.ID, got.Type, s.Body)
			}
		}
	}
}

// sampledFirst reports whether the first alternative is one that Sign fills in.
func sampledFirst(alts []composite) bool {
	if len(alts) == 0 {
		return false
	}
	c := alts[0]
	return sampled(c) || len(c) == 1 && c[0].kind == kindHeader && len(c[0].steps) == 0
}

// sharedFirst reports whether the ID begins with the type, so that Sign can't fill
// in both.
func sharedFirst(rd reader) bool {
	return len(rd.id[0]) > 1 && len(rd.typ) > 0 && len(rd.typ[0]) == 1 && rd.id[0][0].same(rd.typ[0][0])
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
		cfg := trialConfig(t, lookup(t, tt.provider), mode, nil)
		cfg.Guard = tt.set
		v := mustNew(t, cfg)
		if v.Guard() != tt.want || v.Row().Guard != tt.want {
			t.Errorf("%s, set to %q: %s", tt.provider, tt.set, v.Guard())
		}
		s, _ := v.Sign(SignRequest{Now: now, ID: "i", Body: []byte(`{"id":"i"}`)})
		if res := v.Verify(request(s, now)); res.Reason != OK || res.HasGuard != (tt.want != GuardOff) {
			t.Errorf("%s, set to %q: %s, guard %t", tt.provider, tt.set, res.Reason, res.HasGuard)
		}
	}
}
