package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/pelletier/go-toml/v2"

	"github.com/onceward/onceward/gateway"
	"github.com/onceward/onceward/verify"
)

// runApp runs one command in this process.
func runApp(t *testing.T, stdin string, env map[string]string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	return runAppAt(t, time.Unix(1767225600, 0), stdin, env, args...)
}

// runAppAt is runApp at another time.
func runAppAt(t *testing.T, now time.Time, stdin string, env map[string]string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errs bytes.Buffer
	std := IO{Stdin: strings.NewReader(stdin), Stdout: &out, Stderr: &errs, Samples: os.DirFS(".."),
		Env: func(name string) (string, bool) { v, ok := env[name]; return v, ok }}
	a := &app{IO: std, now: func() time.Time { return now }}
	code = a.run(t.Context(), args)
	return out.String(), errs.String(), code
}

// TestShowTOML prints every built-in provider as one of one's own and reads it back.
func TestShowTOML(t *testing.T) {
	for _, row := range verify.Providers() {
		text, _, code := runApp(t, "", nil, "providers", "show", row.Name, "-o", "toml")
		if code != 0 {
			t.Fatalf("%s: exit code %d", row.Name, code)
		}
		var doc struct {
			Provider []verify.Row `toml:"provider"`
		}
		if err := toml.NewDecoder(strings.NewReader(text)).DisallowUnknownFields().Decode(&doc); err != nil || len(doc.Provider) != 1 {
			t.Errorf("%s: %v in\n%s", row.Name, err, text)
			continue
		}
		cfg, faults := gateway.Parse("mine.toml", []byte(text), gateway.Env{})
		if loaded, ok := cfg.Provider("my_" + row.Name); !ok || faults.Failed() {
			t.Errorf("%s: does not load: %v", row.Name, faults)
		} else if again, err := rowTOML(under(loaded, row.Name)); err != nil || again != text {
			t.Errorf("%s: is other TOML once it was loaded (%v):\n%s", row.Name, err, again)
		}
		got := doc.Provider[0]
		if err := got.Validate(); err != nil || got.Name != "my_"+row.Name {
			t.Errorf("%s: became %s: %v", row.Name, got.Name, err)
		}
		again, err := rowTOML(under(got, row.Name))
		if err != nil || again != text {
			t.Errorf("%s: is other TOML the second time (%v)", row.Name, err)
		}
	}
}

// under is a row by another name.
func under(r verify.Row, name string) verify.Row {
	r.Name = name
	return r
}

// TestCardLoads writes the source of every card into a config, with what only the
// operator knows filled in, and loads it.
func TestCardLoads(t *testing.T) {
	for _, row := range verify.Providers() {
		c := cardOf(row, nil)
		if c.Paste == "" || c.Secret == "" || c.Events == "" || c.EventID == "" || len(c.Signing) == 0 || len(c.Expect) < 4 {
			t.Errorf("%s: the card lacks something: %+v", row.Name, c)
		}
		m := firstMode(row)
		lookup := func(string) (string, bool) { return testSecret(m), true }
		cfg, faults := gateway.Parse("card.toml", []byte(c.Config), gateway.Env{Lookup: lookup})
		if keyKindOf(row, m) == keyPublic { // which key it is, only the provider knows
			cfg, faults = gateway.Parse("card.toml", []byte(c.Config), gateway.Env{Lookup: func(string) (string, bool) { return "", false }})
		}
		for _, f := range faults {
			if !f.Warning || keyKindOf(row, m) != keyPublic {
				t.Errorf("%s: %s\n%s", row.Name, f, c.Config)
			}
		}
		if src, ok := cfg.Source(sourceName(row)); ok && keyKindOf(row, m) != keyPublic && src.Verifier() == nil {
			t.Errorf("%s: the source of the card is offline: %s\n%s", row.Name, src.Offline(), c.Config)
		}
	}
}

// TestProviderView: the JSON of show holds the whole row, that of list every row.
func TestProviderView(t *testing.T) {
	out, _, code := runApp(t, "", nil, "providers", "list", "-o", "json")
	var all []providerView
	if err := json.Unmarshal([]byte(out), &all); err != nil || code != 0 || len(all) != len(verify.Providers()) {
		t.Fatalf("list: %v, code %d, %d providers", err, code, len(all))
	}
	for _, p := range all {
		if p.Name == "" || p.Title == "" || len(p.Scheme) == 0 || len(p.Modes) == 0 || p.Confirmed != (len(p.Unconfirmed) == 0) {
			t.Errorf("%+v lacks something", p)
		}
	}
	out, _, _ = runApp(t, "", nil, "providers", "show", "slack", "-o", "json")
	var one providerView
	if err := json.Unmarshal([]byte(out), &one); err != nil || one.Row["name"] != "slack" || one.Row["handshake"] == nil {
		t.Errorf("show: %v: %s", err, out)
	}
	text, _, _ := runApp(t, "", nil, "providers", "show", "hubspot")
	row, _ := verify.Lookup("hubspot")
	for _, u := range row.Unconfirmed {
		if !strings.Contains(text, u) {
			t.Errorf("show leaves out %q", u)
		}
	}
	if _, _, code := runApp(t, "", nil, "providers", "list", "-o", "toml"); code != exitUsage {
		t.Errorf("list -o toml: code %d", code)
	}
	if _, _, code := runApp(t, "", nil, "providers", "card", "nobody"); code != exitNotFound {
		t.Errorf("card nobody: code %d", code)
	}
}

// TestSamples signs every sample body as its provider and wants the ID that was
// asked for and the type of the file's name.
func TestSamples(t *testing.T) {
	all := samples{os.DirFS("..")}
	dirs, err := os.ReadDir("../" + samplesDir)
	if err != nil || len(dirs) < 8 {
		t.Fatalf("%d directories of samples: %v", len(dirs), err)
	}
	ctx := context.Background()
	for _, d := range dirs {
		row, ok := verify.Lookup(d.Name())
		if !ok {
			t.Errorf("samples of %s, which is no provider", d.Name())
			continue
		}
		for _, typ := range all.types(row.Name) {
			s, ok := all.find(row.Name, typ)
			if !ok || !s.form && !json.Valid(s.body(`a"b`)) {
				t.Errorf("%s %s: no sample, or no JSON", row.Name, typ)
			}
			cfg := verify.Config{Row: row, Secrets: []verify.Secret{{Value: verify.NewSecretString("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")}}}
			if !row.CanSign("") {
				row.Modes[0] = verify.Mode{Name: "none", None: true} // the provider alone can sign; the body is what counts here
				cfg = verify.Config{Row: row, Auth: "none"}
			}
			v, err := verify.New(cfg)
			if err != nil {
				t.Fatal(err)
			}
			shot := triggerShot{url: "https://a.test/in/x", flags: triggerFlags{typ: typ}}
			shot.useSample(all, row.Name)
			now := time.Unix(1767225600, 0)
			out, err := v.Sign(shot.request("evt_1", now))
			if err != nil {
				t.Errorf("%s %s: %v", row.Name, typ, err)
				continue
			}
			res := v.VerifyContext(ctx, &verify.Request{Method: out.Method, URL: out.URL, Header: out.Header, Body: out.Body, Now: now})
			if res.Reason != verify.OK || len(res.Events) == 0 || res.Events[0].ID != "evt_1" || res.Events[0].Type != typ {
				t.Errorf("%s %s: %s (%s), events %v", row.Name, typ, res.Reason, res.Detail, res.Events)
			}
		}
	}
	if _, ok := all.find("stripe", "../github/push"); ok {
		t.Error("a type reaches into another provider's samples")
	}
	first, _ := all.find("stripe", "")
	if first.typ != "charge.refunded" || !reflect.DeepEqual(all.types("nobody"), []string(nil)) {
		t.Errorf("the default of stripe is %q", first.typ)
	}
}

// TestSignIsVerified signs as every provider that can be signed for, as a whole
// request, and explains what comes out: authentic, with the event in it.
func TestSignIsVerified(t *testing.T) {
	env := map[string]string{}
	signed := 0
	for _, row := range verify.Providers() {
		m := firstMode(row)
		if !row.CanSign(m.Name) || sendsSecret(row, m.Name) != "" || m.None {
			continue
		}
		env["SECRET"] = testSecret(m)
		args := []string{"--auth", m.Name, "--secret-env", "SECRET"}
		for name, val := range neededOptions(row, m) {
			args = append(args, "--option", name+"="+val)
		}
		text, errs, code := runApp(t, "", env, append([]string{"sign", row.Name, "--request"}, args...)...)
		if code != 0 {
			t.Errorf("%s: code %d: %s", row.Name, code, errs)
			continue
		}
		if strings.Contains(text, env["SECRET"]) {
			t.Errorf("%s: the secret is in the request", row.Name)
		}
		out, errs, code := runApp(t, text, env, append([]string{"verify", "--explain", "-", "--provider", row.Name}, args...)...)
		if code != 0 || !strings.HasPrefix(out, "authentic") {
			t.Errorf("%s: code %d: %s%s\n%s", row.Name, code, out, errs, text)
			continue
		}
		signed++
	}
	if signed < 100 {
		t.Errorf("signed for %d providers", signed)
	}
}

func testSecret(m verify.Mode) string {
	if m.Basic != nil {
		return "user:a password of some length"
	}
	if m.HMAC != nil {
		switch m.HMAC.Secret {
		case verify.SecretHex:
			return strings.Repeat("0badf00d", 8)
		case verify.SecretBase64, verify.SecretWhsec:
			return "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
		}
	}
	return "a secret of some length"
}

// TestSignRefuses: a secret that is sent as it is, is never printed.
func TestSignRefuses(t *testing.T) {
	for _, args := range [][]string{{"sign", "gitlab", "--auth", "token"}, {"sign", "basic"}, {"sign", "sendgrid"}, {"sign", "telegram"}} {
		for _, form := range []string{"", "--curl", "--request"} {
			all := append(append([]string{}, args...), "--secret-env", "SECRET")
			if form != "" {
				all = append(all, form)
			}
			out, errs, code := runApp(t, "", map[string]string{"SECRET": "user:0123456789abcdef"}, all...)
			if code == 0 || out != "" || strings.Contains(errs, "0123456789abcdef") {
				t.Errorf("%v: code %d: %s%s", all, code, out, errs)
			}
		}
	}
}

func TestCurl(t *testing.T) {
	file := filepath.Join(t.TempDir(), "it's.json")
	if err := os.WriteFile(file, []byte(`{"id":"evt_9"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"SECRET": "whsec_test"}
	out, _, code := runApp(t, "", env, "sign", "stripe", "--secret-env", "SECRET", "--body", file, "--curl")
	if code != 0 || !strings.HasPrefix(out, "curl -i -H ") || !strings.Contains(out, `it'\''s.json' 'http://127.0.0.1:8080/in/stripe'`) {
		t.Errorf("code %d: %s", code, out)
	}
	out, _, _ = runApp(t, "it's", env, "sign", "stripe", "--secret-env", "SECRET", "--body", "-", "--curl")
	if !strings.Contains(out, `--data-raw 'it'\''s'`) {
		t.Errorf("got %s", out)
	}
}

// TestCardKinds: what a provider needs beside a secret is on its card.
func TestCardKinds(t *testing.T) {
	for name, want := range map[string]string{
		"asana":         `registration       = "pending"`,
		"twilio":        `public_url = "https://YOUR.HOST/in/twilio"`,
		"sendgrid":      `public_keys = ["${env:SENDGRID_PUBLIC_KEY}"]`,
		"google_pubsub": `audience = "your-audience"`,
		"meta":          `verify_token = "your-verify-token"`,
		"hubspot":       `accept_unconfirmed = true`,
		"none":          `name     = "unsigned"`,
	} {
		row, ok := verify.Lookup(name)
		if !ok {
			t.Errorf("no provider %s", name)
			continue
		}
		if c := cardOf(row, nil); !strings.Contains(c.Config, want) {
			t.Errorf("%s: no %q in\n%s", name, want, c.Config)
		}
	}
	sns, _ := verify.Lookup("aws_sns")
	if c := cardOf(sns, nil); strings.Contains(c.Config, "secrets") || !strings.Contains(c.Secret, "fetched") || len(c.Handshakes) == 0 {
		t.Errorf("aws_sns: %+v", c)
	}
}
