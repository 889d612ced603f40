package receiver

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
	"github.com/onceward/onceward/verify"
)

// benchAdmit says New at once: what is measured is the edge.
func benchAdmit(_ context.Context, r *dedupe.Request) error {
	ref := event.NewRef(1, 2, 3)
	r.Outcomes = make([]dedupe.Outcome, len(r.Items))
	for i := range r.Items {
		r.Outcomes[i] = dedupe.Outcome{Verdict: dedupe.New, Ref: ref, ID: r.Items[i].Event.ID}
	}
	return nil
}

type discardWriter struct{ h http.Header }

func (d *discardWriter) Header() http.Header         { return d.h }
func (d *discardWriter) Write(b []byte) (int, error) { return len(b), nil }
func (d *discardWriter) WriteHeader(int)             {}

// benchRequest is an authentic request of 1 KiB.
func benchRequest(b *testing.B, provider string) (*Receiver, *http.Request, []byte) {
	b.Helper()
	src := source(b, provider)
	r, err := New(Config{Admit: admitFunc(benchAdmit), Sources: []*Source{src}, Registerer: prometheus.NewRegistry(),
		Now: func() time.Time { return noon }})
	if err != nil {
		b.Fatal(err)
	}
	body := []byte(`{"id":"evt_1","type":"invoice.paid","pad":"` + strings.Repeat("x", 980) + `"}`)
	signed, err := src.Verifier.Sign(verify.SignRequest{Now: noon, ID: "d1", Type: "push", Body: body, URL: "http://localhost/in/" + provider})
	if err != nil {
		b.Fatal(err)
	}
	req := httptest.NewRequest("POST", "/in/"+provider, nil)
	req.Header = signed.Header
	req.Header.Set("User-Agent", "bench")
	req.ContentLength = int64(len(body))
	return r, req, body
}

// BenchmarkHandler is one request through the handler, without sockets.
func BenchmarkHandler(b *testing.B) {
	for _, provider := range []string{"github", "stripe", "standard_webhooks"} {
		b.Run(provider, func(b *testing.B) {
			r, req, body := benchRequest(b, provider)
			h := r.Handler()
			w := &discardWriter{h: http.Header{}}
			rd := bytes.NewReader(body)
			req.Body = io.NopCloser(rd)
			b.ReportAllocs()
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				rd.Reset(body)
				clear(w.h)
				h.ServeHTTP(w, req)
			}
			if n := r.SourceStats()[0].Counts["accepted"]; n == 0 {
				b.Fatal("nothing was accepted")
			}
		})
	}
}

// BenchmarkRefusal is a forged request: what an unproven sender costs.
func BenchmarkRefusal(b *testing.B) {
	r, req, body := benchRequest(b, "github")
	req.Header.Set("X-Hub-Signature-256", "sha256="+strings.Repeat("0", 64))
	h := r.Handler()
	w := &discardWriter{h: http.Header{}}
	rd := bytes.NewReader(body)
	req.Body = io.NopCloser(rd)
	b.ReportAllocs()
	for b.Loop() {
		rd.Reset(body)
		clear(w.h)
		h.ServeHTTP(w, req)
	}
}
