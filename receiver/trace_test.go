package receiver

import (
	"strings"
	"testing"

	"github.com/onceward/onceward/trace"
	"github.com/onceward/onceward/verify"
)

const foreign = "00-11111111111111111111111111111111-2222222222222222-00"

// The caller's trace goes on where the source trusts it, and nowhere else: not
// for others, and not for several or broken ones.
func TestTrust(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		trust   bool
		headers []string
		goesOn  bool
	}{
		{"trusted", true, []string{"Traceparent: " + foreign}, true},
		{"not trusted", false, []string{"Traceparent: " + foreign}, false},
		{"none", true, nil, false},
		{"two", true, []string{"Traceparent: " + foreign, "Traceparent: " + foreign}, false},
		{"broken", true, []string{"Traceparent: 00-1-2-01"}, false},
		{"zero", true, []string{"Traceparent: 00-00000000000000000000000000000000-2222222222222222-01"}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			src := source(t, "github", func(s *Source) { s.TrustTrace = tt.trust })
			f := setup(t, []*Source{src}, nil)
			m := f.sign(t, src, verify.SignRequest{ID: "d1", Type: "push", Body: []byte(`{"a":1}`)}).with(tt.headers...).with("Tracestate: evil=1", "Baggage: evil=1")
			f.send(t, m).want(t, 200)
			ev := f.all(t)[0].Event
			got, ok := trace.Parse(ev.Trace)
			if !ok {
				t.Fatalf("trace %q", ev.Trace)
			}
			if goesOn := strings.Contains(ev.Trace, foreign[3:35]); goesOn != tt.goesOn {
				t.Errorf("trace %q goes on: %v, want %v", ev.Trace, goesOn, tt.goesOn)
			}
			if got.Sampled == tt.goesOn || strings.Contains(ev.Trace, foreign[36:52]) {
				t.Errorf("trace %q: want our own span, and their flag only where they are trusted", ev.Trace)
			}
			for _, h := range ev.Header {
				if strings.EqualFold(h.Name, "tracestate") || strings.EqualFold(h.Name, "baggage") || strings.EqualFold(h.Name, "traceparent") {
					t.Errorf("header %s was kept", h.Name)
				}
			}
		})
	}
}

// Two requests are two traces.
func TestTracesDiffer(t *testing.T) {
	t.Parallel()
	plain := source(t, "none")
	f := setup(t, []*Source{plain}, nil)
	f.send(t, message{path: "/in/none", body: "1"}).want(t, 200)
	f.send(t, message{path: "/in/none", body: "2"}).want(t, 200)
	all := f.all(t)
	if len(all) != 2 || all[0].Event.Trace == all[1].Event.Trace || all[0].Event.Trace[3:35] == all[1].Event.Trace[3:35] {
		t.Errorf("traces %q and %q, want two", all[0].Event.Trace, all[1].Event.Trace)
	}
}
