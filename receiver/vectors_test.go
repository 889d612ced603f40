package receiver

import (
	"encoding/json"
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

	text []byte // as it stands in the file
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
			var cases []json.RawMessage
			if err := json.Unmarshal(text, &cases); err != nil {
				t.Fatal(err)
			}
			f := setup(t, nil, nil)
			classes := map[string]int{}
			for _, text := range cases {
				v := vector{text: text}
				if err := json.Unmarshal(text, &v); err != nil {
					t.Fatal(err)
				}
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
	switch {
	case u.Host != "" && (u.Path == "" || u.Path == "/"):
		return "origin" // a source has a path of its own
	case u.Host == "":
		src.PublicURL = ""
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

// verifier makes the verifier the vector describes.
func (v *vector) verifier(t *testing.T) *verify.Verifier {
	t.Helper()
	row, ok := verify.Lookup(v.Provider)
	if !ok {
		t.Fatalf("no provider %q", v.Provider)
	}
	if url, ok := v.Options["notification_url"]; ok {
		v.URL = strings.Trim(string(url), `"`)
	}
	ver, err := verify.VectorVerifier(v.text, row)
	if err != nil {
		t.Fatalf("%s: %v", v.Case, err)
	}
	return ver
}
