package gateway

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/dedupe"
)

// TestSendTest: the event goes the whole way, marked; what can't be sent says
// why.
func TestSendTest(t *testing.T) {
	t.Parallel()
	got := make(chan http.Header, 1)
	app := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got <- r.Header }))
	defer app.Close()
	r := run(t, base(t.TempDir())+source("stripe", "stripe", "${env:A}")+source("off", "stripe", "${env:NOT_SET}")+target(app.URL), Options{})
	res, err := r.sendTest(t.Context(), "stripe")
	if err != nil || res.Status != 200 || res.Ref == "" || res.Problem != "" || !strings.HasPrefix(res.EventID, "test_") {
		t.Fatalf("sendTest = %+v, %v", res, err)
	}
	if h := <-got; h.Get("Onceward-Event") != res.Ref || h.Get("Onceward-Event-Id") != res.EventID {
		t.Errorf("the target got %v", h)
	}
	if res, err := r.sendTest(t.Context(), "off"); err != nil || res.Status != 0 || !strings.Contains(res.Problem, "offline") {
		t.Errorf("an offline source = %+v, %v", res, err)
	}
	if _, err := r.sendTest(t.Context(), "nobody"); !errors.Is(err, dedupe.ErrNotFound) {
		t.Errorf("no source = %v", err)
	}
}

// TestSetup: the pages' view of the configuration names secrets by label, and
// remembers a reload that was refused until one takes effect.
func TestSetup(t *testing.T) {
	t.Parallel()
	app := httptest.NewServer(http.NotFoundHandler())
	defer app.Close()
	o := Options{ConfigData: []byte("listen = 1\n")}
	r := run(t, base(t.TempDir())+source("stripe", "stripe", "${env:A}")+target(app.URL), o)
	s := r.setup()
	if s.LoadedAt.IsZero() || !s.FailedAt.IsZero() || len(s.Hash) != 64 || !strings.Contains(s.Text, "[redacted:1]") || strings.Contains(s.Text, secretA) {
		t.Errorf("setup = %+v", s)
	}
	if len(s.Sources) != 1 || s.Sources[0].Title != "Stripe" || s.Sources[0].Secrets[0].ID != "1" || s.Sources[0].Retries == 0 || s.Sources[0].Window == 0 {
		t.Errorf("source = %+v", s.Sources)
	}
	if len(s.Targets) != 1 || s.Targets[0].GiveUp == 0 || len(s.Targets[0].Sources) != 1 || !strings.Contains(s.Targets[0].Retries, "10ms") {
		t.Errorf("target = %+v", s.Targets)
	}
	if s := s.Sources[0].Secrets[0]; !s.Written.IsZero() {
		t.Errorf("a secret out of the environment was written %v", s.Written)
	}
	if _, err := r.Reload(t.Context()); err == nil {
		t.Fatal("a faulty configuration was loaded")
	}
	if s := r.setup(); s.FailedAt.IsZero() || len(s.Faults) == 0 || s.Faults[0].Line != 1 {
		t.Errorf("after a reload that failed: %+v", s)
	}
}

// TestSecretsAreDated: of a secret in a file the pages know when it was written,
// in either form of the configuration, and of one that a provider handed over.
func TestSecretsAreDated(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	day := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	for i, name := range []string{"old", "new"} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(secretA+name+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, day, day.AddDate(0, i, 0)); err != nil {
			t.Fatal(err)
		}
	}
	app := httptest.NewServer(http.NotFoundHandler())
	defer app.Close()
	r := run(t, base(t.TempDir())+source("stripe", "stripe", "${file:"+filepath.Join(dir, "old")+"}")+
		"[[source]]\nname = \"github\"\nprovider = \"github\"\ntargets = [\"app\"]\nsecrets = [{id = \"a\", value = \"${file:"+filepath.Join(dir, "new")+"}\"}]\n"+target(app.URL), Options{})
	s := r.setup()
	if got := s.Sources[0].Secrets[0].Written; !got.Equal(day) {
		t.Errorf("a string: written %v, want %v", got, day)
	}
	if got := s.Sources[1].Secrets[0].Written; !got.Equal(day.AddDate(0, 1, 0)) {
		t.Errorf("a table: written %v, want a month later", got)
	}
}
