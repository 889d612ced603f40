package receiver

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/verify"
)

// vector is what the edge needs of a provider's test vector.
type vector struct {
	Provider   string
	Case       string
	Secret     *string
	Secrets    []string
	PublicKey  string   `json:"public_key"`
	PublicKeys []string `json:"public_keys"`
	Auth       string
	Options    map[string]json.RawMessage
	Method     string
	URL        string
	Headers    map[string]json.RawMessage
	Body       string
	Now        float64
	Want       string
	WantAlt    []string `json:"want_alt"`
	WantStatus int      `json:"want_status"`
	WantBody   *string  `json:"want_body"`
	WantIsJSON bool     `json:"want_body_is_json"`
}

// TestVectors sends the vectors of every provider through the real edge: what
// is authentic is answered 200 and stored, what is not gets the fixed 401 and
// leaves nothing, a handshake gets its answer.
func TestVectors(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../testdata/vectors/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no vectors: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".json"), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var vectors []vector
			if err := json.Unmarshal(text, &vectors); err != nil {
				t.Fatal(err)
			}
			f := setup(t, nil, nil)
			classes := map[string]int{}
			for _, v := range vectors {
				classes[v.send(t, f)]++
			}
			if classes["ok"] == 0 || classes["refused"] == 0 {
				t.Errorf("outcomes %v: want accepted and refused ones", classes)
			}
		})
	}
}

func (v *vector) send(t *testing.T, f *fixture) (class string) {
	t.Helper()
	u, err := url.Parse(v.URL)
	if err != nil {
		t.Fatal(err)
	}
	public, _, _ := strings.Cut(v.URL, "?")
	src := &Source{Name: "s", Verifier: v.verifier(t), PublicURL: public}
	if u.Path == "" || u.Path == "/" {
		src.PublicURL = "" // an origin: then the path as called is signed
	}
	if err := f.r.SetSources([]*Source{src}, nil); err != nil {
		t.Fatal(err)
	}
	sec := int64(v.Now)
	f.now.Store(time.Unix(sec, int64((v.Now-float64(sec))*1e9)).UnixNano())
	m := message{method: v.Method, path: "/in/s", body: v.Body}
	if strings.HasSuffix(u.Path, "/") {
		m.path += "/"
	}
	if _, query, ok := strings.Cut(v.URL, "?"); ok {
		m.path += "?" + query
	}
	for name, raw := range v.Headers {
		var many []string
		if json.Unmarshal(raw, &many) != nil {
			var one string
			if err := json.Unmarshal(raw, &one); err != nil {
				one = string(raw)
			}
			many = []string{one}
		}
		for _, value := range many {
			if !strings.EqualFold(name, "Content-Length") && !strings.EqualFold(name, "Host") {
				m.lines = append(m.lines, name+": "+value)
			}
		}
	}
	before := f.events(t)
	got := f.send(t, m)
	stored := f.events(t) - before
	switch {
	case v.Want == "challenge":
		if want := firstOf(v.WantStatus, 200); got.status != want || stored != 0 {
			t.Errorf("%s: handshake got %d and %d events, want %d and none", v.Case, got.status, stored, want)
		}
		if v.WantBody != nil && !v.WantIsJSON && got.body != *v.WantBody {
			t.Errorf("%s: handshake got %q, want %q", v.Case, got.body, *v.WantBody)
		}
		return "handshake"
	case v.Want == "ok":
		if got.status != 200 {
			t.Errorf("%s: got %d %s, want 200", v.Case, got.status, got.body)
		}
		return "ok"
	case got.status == 200:
		t.Errorf("%s: got 200, want a refusal (%s)", v.Case, v.Want)
	case got.status == 401 && got.body != `{"error":"not authentic"}`:
		t.Errorf("%s: 401 with body %s", v.Case, got.body)
	case got.status != 401 && !(got.status == 400 && (v.Want == "malformed" || len(v.WantAlt) > 0)):
		t.Errorf("%s: got %d %s, want 401", v.Case, got.status, got.body)
	}
	if stored != 0 {
		t.Errorf("%s: a refused request left %d events", v.Case, stored)
	}
	return "refused"
}

// verifier makes the verifier the vector describes. Without `auth` the first
// mode that takes its keys is meant.
func (v *vector) verifier(t *testing.T) *verify.Verifier {
	t.Helper()
	row, ok := verify.Lookup(v.Provider)
	if !ok {
		t.Fatalf("no provider %q", v.Provider)
	}
	cfg := verify.Config{Row: row, Auth: v.Auth, Options: map[string]string{}}
	if v.Secret != nil {
		v.Secrets = append(v.Secrets, *v.Secret)
	}
	for _, s := range v.Secrets {
		cfg.Secrets = append(cfg.Secrets, verify.Secret{Value: verify.NewSecretString(s)})
	}
	for _, s := range append(v.PublicKeys, v.PublicKey) {
		if s != "" {
			cfg.PublicKeys = append(cfg.PublicKeys, verify.Secret{Value: verify.NewSecretString(s)})
		}
	}
	for name, raw := range v.Options {
		text := strings.Trim(string(raw), `"`)
		switch {
		case name == "tolerance_s":
			d, err := time.ParseDuration(text + "s")
			if err != nil {
				t.Fatal(err)
			}
			cfg.Tolerance = d
		case name == "notification_url":
			v.URL = text
		}
		for _, m := range row.Modes {
			if name == "version" && m.Name == text {
				cfg.Auth = text
			}
		}
	}
	if cfg.Auth != "" {
		ver, err := verify.New(cfg)
		if err != nil {
			t.Fatalf("%s: %v", v.Case, err)
		}
		return ver
	}
	var faults []string
	for _, m := range row.Modes {
		if (m.PublicKey != nil) != (len(cfg.PublicKeys) > 0) {
			continue
		}
		cfg.Auth = m.Name
		ver, err := verify.New(cfg)
		if err == nil {
			return ver
		}
		faults = append(faults, fmt.Sprint(err))
	}
	t.Fatalf("%s: no mode takes these keys: %v", v.Case, faults)
	return nil
}
