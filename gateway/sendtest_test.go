package gateway

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

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
	if _, err := r.Reload(t.Context()); err == nil {
		t.Fatal("a faulty configuration was loaded")
	}
	if s := r.setup(); s.FailedAt.IsZero() || len(s.Faults) == 0 || s.Faults[0].Line != 1 {
		t.Errorf("after a reload that failed: %+v", s)
	}
}
