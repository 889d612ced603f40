package verify

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestProviders(t *testing.T) {
	t.Parallel()
	rows := Providers()
	if !slices.IsSortedFunc(rows, func(a, b Row) int { return strings.Compare(a.Name, b.Name) }) {
		t.Error("the table is not in alphabetical order")
	}
	generic := []string{"basic", "hmac", "idempotency-key", "none", "token"}
	for _, r := range rows {
		if err := r.Validate(); err != nil {
			t.Errorf("%v", err)
		}
		if r.Title == "" || r.Docs == "" && !slices.Contains(generic, r.Name) {
			t.Errorf("%s: wants a title and a link", r.Name)
		}
		if r.Window < day || r.Window < r.Retries || r.Patience <= 0 || r.NoID == "" || r.OnConflict == "" {
			t.Errorf("%s: window %v, retries %v, patience %v, no_id %q, on_conflict %q", r.Name, r.Window, r.Retries, r.Patience, r.NoID, r.OnConflict)
		}
		if (r.OnConflict == OnConflictReject) != (r.Name == "idempotency-key") {
			t.Errorf("%s: on_conflict is %s", r.Name, r.OnConflict)
		}
		again, ok := Lookup(r.Name)
		if !ok || !reflect.DeepEqual(again, r) {
			t.Errorf("Lookup(%q) is another row", r.Name)
		}
	}
	if _, ok := Lookup("nobody"); ok {
		t.Error("Lookup found nobody")
	}
}

// TestRowFacts holds what a row says about its signature against what its
// scheme covers.
func TestRowFacts(t *testing.T) {
	t.Parallel()
	for _, r := range Providers() {
		v := offline(t, r)
		got := v.Row()
		if got.IDSigned != r.IDSigned || got.BodySigned != r.BodySigned {
			t.Errorf("%s: says ID signed %t, body signed %t; its scheme %t, %t", r.Name, r.IDSigned, r.BodySigned, got.IDSigned, got.BodySigned)
		}
		if guarded := r.Guard != ""; guarded != (r.BodySigned && !r.IDSigned && len(r.ID) > 0) {
			t.Errorf("%s: guard is %q where the ID is signed: %t", r.Name, r.Guard, r.IDSigned)
		}
		for _, h := range slices.Concat(got.EventHeaders, got.SignatureHeaders) {
			if h == "Authorization" || slices.Contains(got.CredentialHeaders, h) {
				t.Errorf("%s: lets the credential %s pass", r.Name, h)
			}
		}
	}
}

// offline makes a verifier of the row's first mode without any secret.
func offline(t *testing.T, r Row) *Verifier {
	t.Helper()
	cfg := trialConfig(t, r, r.Modes[0], nil)
	cfg.Secrets, cfg.PublicKeys = nil, nil
	return mustNew(t, cfg)
}

func TestRowsShareNothing(t *testing.T) {
	t.Parallel()
	a, _ := Lookup("slack")
	v := offline(t, a)
	a.ID[0], a.Modes[0].HMAC.Signed, a.Handshake[0].Detect[0] = "json:other", "{body}", "json:other"
	got := v.Row()
	got.EventHeaders[0] = "Other"
	b, _ := Lookup("slack")
	if b.ID[0] != "json:event_id" || b.Modes[0].HMAC.Signed != "v0:{timestamp}:{body}" || b.Handshake[0].Detect[0] != "json:type=url_verification" {
		t.Error("a changed row changed the table")
	}
	if v.Row().ID[0] != "json:event_id" || v.Row().EventHeaders[0] == "Other" || v.mode.HMAC.Signed != "v0:{timestamp}:{body}" {
		t.Error("a changed row changed a verifier")
	}
}

func TestHeadersInEffect(t *testing.T) {
	t.Parallel()
	row, _ := Lookup("hmac")
	v, err := New(Config{Row: row, Secrets: secrets("s"), Options: map[string]string{
		"header": "x-acme-sig", "timestamp": "header:x-acme-time", "template": "{timestamp}.{body}", "id": "header:x-acme-id, json:id", "type": "header:x-acme-type"}})
	if err != nil {
		t.Fatal(err)
	}
	got := v.Row()
	if !slices.Equal(got.SignatureHeaders, []string{"X-Acme-Sig", "X-Acme-Time"}) || !slices.Equal(got.EventHeaders, []string{"X-Acme-Id", "X-Acme-Type"}) {
		t.Errorf("signature headers %q, event headers %q", got.SignatureHeaders, got.EventHeaders)
	}
	row, _ = Lookup("token")
	v, err = New(Config{Row: row, Secrets: secrets("s"), Options: map[string]string{"in": "query:key", "id": "header:authorization"}})
	if err != nil {
		t.Fatal(err)
	}
	if got := v.Row(); !slices.Equal(got.CredentialParams, []string{"query:key"}) || len(got.EventHeaders) != 0 {
		t.Errorf("credential params %q, event headers %q", got.CredentialParams, got.EventHeaders)
	}
}

func secrets(values ...string) []Secret {
	var out []Secret
	for _, v := range values {
		out = append(out, Secret{Value: NewSecretString(v)})
	}
	return out
}

func TestValidateRefuses(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*Row){
		"name":                  func(r *Row) { r.Name = "Acme Pay" },
		"docs":                  func(r *Row) { r.Docs = "javascript:1" },
		"no mode":               func(r *Row) { r.Modes = nil },
		"mode twice":            func(r *Row) { r.Modes = append(r.Modes, r.Modes[0]) },
		"two families":          func(r *Row) { r.Modes[0].None = true },
		"no family":             func(r *Row) { r.Modes[0].HMAC = nil },
		"unknown custom":        func(r *Row) { r.Modes[0].Custom = "acme" },
		"unknown name":          func(r *Row) { r.Modes[0].HMAC.Signed = "{boddy}" },
		"empty template":        func(r *Row) { r.Modes[0].HMAC.Signed = "" },
		"plain without secret":  func(r *Row) { r.Modes[0].HMAC.Plain = true },
		"digest":                func(r *Row) { r.Modes[0].HMAC.Digest = "md5" },
		"encoding":              func(r *Row) { r.Modes[0].HMAC.Encoding = "base32" },
		"format":                func(r *Row) { r.Modes[0].HMAC.Format = "xml" },
		"key missing":           func(r *Row) { r.Modes[0].HMAC.Format = FormatKV },
		"key useless":           func(r *Row) { r.Modes[0].HMAC.Key = "v1" },
		"unit":                  func(r *Row) { r.Modes[0].HMAC.Unit = "h" },
		"secret form":           func(r *Row) { r.Modes[0].HMAC.Secret = "rot13" },
		"signature nowhere":     func(r *Row) { r.Modes[0].HMAC.Sig = "X-Sig" },
		"age of nothing":        func(r *Row) { r.Modes[0].HMAC.Tolerance = minute },
		"age of unsigned time":  func(r *Row) { r.Modes[0].HMAC.Timestamp, r.Modes[0].HMAC.Tolerance = "header:X-T", minute },
		"timestamp not located": func(r *Row) { r.Modes[0].HMAC.Signed = "{timestamp}{body}" },
		"ID not in a header":    func(r *Row) { r.Modes[0].HMAC.Signed = "{id}{body}" },
		"method":                func(r *Row) { r.Methods = []string{"post"} },
		"locator":               func(r *Row) { r.ID = []string{"place:id"} },
		"type locator":          func(r *Row) { r.Type = []string{"json:a|b"} },
		"no_id":                 func(r *Row) { r.NoID = "guess" },
		"on_conflict":           func(r *Row) { r.OnConflict = "panic" },
		"guard":                 func(r *Row) { r.Guard = "dog" },
		"window":                func(r *Row) { r.Retries, r.Window = 2*day, day },
		"negative":              func(r *Row) { r.Patience = -1 },
		"batch path":            func(r *Row) { r.Batch = &Batch{Path: "a.#"} },
		"credential passes":     func(r *Row) { r.EventHeaders, r.CredentialHeaders = []string{"X-Key"}, []string{"x-key"} },
		"authorization passes":  func(r *Row) { r.SignatureHeaders = []string{"Authorization"} },
		"underscore passes":     func(r *Row) { r.EventHeaders = []string{"X_Key"} },
		"overload":              func(r *Row) { r.OverloadStatus = 200 },
		"handshake unguarded":   func(r *Row) { r.Handshake = []Handshake{{Detect: []string{"query:c"}, Body: "{query:c}"}} },
		"handshake undetected":  func(r *Row) { r.Handshake = []Handshake{{Verify: true, Body: "ok"}} },
		"handshake as a page": func(r *Row) {
			r.Handshake = []Handshake{{Open: true, Detect: []string{"query:c"}, ContentType: "text/html"}}
		},
		"handshake method": func(r *Row) { r.Handshake = []Handshake{{Open: true, Method: "GET", Detect: []string{"query:c"}}} },
		"handshake option": func(r *Row) {
			r.Handshake = []Handshake{{Detect: []string{"query:c"}, Compare: []string{"query:t=token"}}}
		},
		"handshake brace": func(r *Row) { r.Handshake = []Handshake{{Open: true, Detect: []string{"query:c"}, Body: "{query:c"}} },
		"handshake both bodies": func(r *Row) {
			r.Handshake = []Handshake{{Open: true, Detect: []string{"query:c"}, Body: "a", JSON: map[string]string{"a": "b"}}}
		},
		"handshake status": func(r *Row) { r.Handshake = []Handshake{{Open: true, Detect: []string{"query:c"}, Status: 301}} },
	} {
		r := Row{Name: "acme", Modes: []Mode{{Name: "m", HMAC: &HMAC{Scheme: Scheme{Sig: "header:X-Sig", Signed: "{body}"}}}}}
		if err := r.Validate(); err != nil {
			t.Fatal(err)
		}
		spoil(&r)
		if err := r.Validate(); err == nil {
			t.Errorf("%s: Validate found no fault", name)
		}
	}
}

func TestFaultsComeTogether(t *testing.T) {
	t.Parallel()
	r := Row{Name: "Bad Name", NoID: "x", Modes: []Mode{{Name: "m", HMAC: &HMAC{Digest: "md5", Scheme: Scheme{Sig: "nowhere", Signed: "{nothing}"}}}}}
	err := r.Validate()
	if err == nil {
		t.Fatal("Validate found no fault")
	}
	for _, part := range []string{"Bad Name", "no_id", "md5", "nowhere", "{nothing}"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error lacks %q: %v", part, err)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	lookup := func(name string) Row { r, _ := Lookup(name); return r }
	for name, cfg := range map[string]Config{
		"empty secret":            {Row: lookup("github"), Secrets: secrets("")},
		"label twice":             {Row: lookup("github"), Secrets: []Secret{{ID: "a", Value: NewSecretString("x")}, {ID: "a", Value: NewSecretString("y")}}},
		"window turned round":     {Row: lookup("github"), Secrets: []Secret{{Value: NewSecretString("x"), NotBefore: time.Unix(2, 0), NotAfter: time.Unix(1, 0)}}},
		"not base64":              {Row: lookup("svix"), Secrets: secrets("whsec_***")},
		"base64 with newline":     {Row: lookup("svix"), Secrets: secrets("whsec_QUJD\nQUJD")},
		"basic without password":  {Row: lookup("basic"), Secrets: secrets("nobodyhere")},
		"basic empty password":    {Row: lookup("basic"), Secrets: secrets("nobodyhere:")},
		"unknown auth":            {Row: lookup("gitlab"), Auth: "hope", Secrets: secrets("x")},
		"auth has to be written":  {Row: lookup("idempotency-key"), Secrets: secrets("x")},
		"unknown option":          {Row: lookup("stripe"), Secrets: secrets("x"), Options: map[string]string{"header": "X"}},
		"option of another auth":  {Row: lookup("idempotency-key"), Auth: "bearer", Secrets: secrets("x"), Options: map[string]string{"digest": "sha1"}},
		"digest option":           {Row: lookup("hmac"), Secrets: secrets("x"), Options: map[string]string{"digest": "md5"}},
		"encoding option":         {Row: lookup("hmac"), Secrets: secrets("x"), Options: map[string]string{"encoding": "rot"}},
		"header option":           {Row: lookup("hmac"), Secrets: secrets("x"), Options: map[string]string{"header": "a b"}},
		"template option":         {Row: lookup("hmac"), Secrets: secrets("x"), Options: map[string]string{"template": "{nope}"}},
		"tolerance option":        {Row: lookup("hmac"), Secrets: secrets("x"), Options: map[string]string{"tolerance": "soon"}},
		"id option":               {Row: lookup("hmac"), Secrets: secrets("x"), Options: map[string]string{"id": "somewhere"}},
		"negative tolerance":      {Row: lookup("stripe"), Secrets: secrets("x"), Tolerance: -1},
		"negative batch":          {Row: lookup("sendgrid"), MaxBatch: -1},
		"batch word":              {Row: lookup("sendgrid"), Batch: "half"},
		"public URL":              {Row: lookup("twilio"), Secrets: secrets("x"), PublicURL: "example.test/x"},
		"public URL with query":   {Row: lookup("twilio"), Secrets: secrets("x"), PublicURL: "https://a.test/?a=b"},
		"guard of nothing":        {Row: lookup("token"), Secrets: secrets("x"), Guard: GuardDrop},
		"public key":              {Row: lookup("sendgrid"), PublicKeys: secrets("not a key")},
		"no modes":                {Row: Row{Name: "x"}},
		"secret for a public key": {Row: lookup("sendgrid"), Secrets: secrets("x")},
		"public key for a secret": {Row: lookup("github"), PublicKeys: secrets("x")},
		"secret for nothing":      {Row: lookup("none"), Secrets: secrets("x")},
	} {
		v, err := New(cfg)
		if err == nil || v != nil {
			t.Errorf("%s: New took it", name)
			continue
		}
		for _, s := range cfg.Secrets {
			if len(s.Value.Reveal()) > 1 && strings.Contains(err.Error(), s.Value.Reveal()) {
				t.Errorf("%s: the error holds the secret", name)
			}
		}
	}
}

// TestNamesAreUnique keeps one provider from having two rows.
func TestNamesAreUnique(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, r := range Providers() {
		if seen[r.Name] {
			t.Errorf("%s: has two rows", r.Name)
		}
		seen[r.Name] = true
	}
}
