package admin_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/onceward/onceward/admin"
	"github.com/onceward/onceward/audit"
	"github.com/onceward/onceward/dedupe/ledgertest"
	"github.com/onceward/onceward/event"
)

// FuzzRequest: whatever path, query and body an operator's client sends, it is
// told what is wrong with it and never that the gateway is at fault.
func FuzzRequest(f *testing.F) {
	f.Add("GET", "/api/v1/events", "limit=1&cursor=x", "")
	f.Add("GET", "/api/v1/events/01ARZ3NDEKTSV4RRFFQ69G5FAV/body", "source=%00", "")
	f.Add("POST", "/api/v1/replays", "", `{"source":"stripe","dry_run":true}`)
	f.Add("POST", "/api/v1/events/evt_1/cancel", "", `{"target":null}`)
	f.Add("POST", "/api/v1/replays", "", `[[[[[[`)
	f.Add("GET", "/../..//%2e%2e/metrics", "", "")
	now := func() time.Time { return time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC) }
	mem := ledgertest.NewMemory(ledgertest.Config{Now: now})
	acc, err := audit.New(audit.Config{Reader: mem, Keeper: mem, Now: now})
	if err != nil {
		f.Fatal(err)
	}
	e := &edge{sources: []admin.Source{{Name: "stripe"}}, targets: []admin.Target{{Name: "crm"}}}
	reg := prometheus.NewRegistry()
	a, err := admin.New(admin.Config{
		Account: acc, Receiver: e, Forward: e, TokenHash: admin.HashToken(token), Now: now, FailDelay: -1,
		Reload: func(context.Context) ([]admin.Fault, error) { return nil, nil }, Ready: func() error { return nil },
		Route: func(*event.Event, func() ([]byte, error)) []string { return nil }, Registerer: reg, Gatherer: reg, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		f.Fatal(err)
	}
	h := a.Handler()
	f.Fuzz(func(t *testing.T, method, path, query, body string) {
		if method != http.MethodGet && method != http.MethodPost || strings.Contains(path, "/tail") {
			return
		}
		req := httptest.NewRequest(method, "/", io.NopCloser(strings.NewReader(body)))
		req.Host = "127.0.0.1:8081"
		req.RemoteAddr = "127.0.0.1:1"
		req.URL.Path, req.URL.RawQuery = "/"+strings.TrimLeft(path, "/"), query
		req.Header.Set("Authorization", "Bearer "+token)
		req.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, req)
		if w.Code >= 500 && w.Code != http.StatusServiceUnavailable && w.Code != http.StatusNotImplemented {
			t.Errorf("%s %q ? %q with %q: %d %s", method, path, query, body, w.Code, w.Body)
		}
		if strings.Contains(w.Body.String(), token) {
			t.Error("the answer holds the token")
		}
	})
}
