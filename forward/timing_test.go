package forward

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onceward/onceward/event"
)

// Each attempt says where its time went: on a new connection all phases, on
// one that was open already the answer alone.
func TestPhases(t *testing.T) {
	t.Parallel()
	secure := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer secure.Close()
	roots := x509.NewCertPool()
	roots.AddCert(secure.Certificate())
	open := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }))
	defer open.Close()
	_, port, err := net.SplitHostPort(strings.TrimPrefix(open.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	loopback := nameServer(t, func(int64) []netip.Addr { return []netip.Addr{netip.MustParseAddr("127.0.0.1")} })
	for _, tt := range []struct {
		name, url, body string
		tgt             Target
		want            string // the phases of a first attempt: d, c, t, f
		again           string // of a second one
	}{
		{"plain", open.URL, "x", Target{}, "cf", "f"},
		{"plain by name", "http://hooks.example:" + port, "x", Target{}, "dcf", "f"},
		{"large", open.URL, strings.Repeat("b", maxPlain+1), Target{}, "cf", "f"},
		{"TLS", secure.URL, "x", Target{TLS: &tls.Config{RootCAs: roots}}, "ctf", "f"},
		{"TLS that fails", secure.URL, "x", Target{}, "ct", "ct"},
	} {
		r := newRig(t, func(c *Config) { c.Resolver = loopback })
		tgt := tt.tgt
		tgt.Name, tgt.URL, tgt.Concurrency, tgt.Schedule = "a", mustURL(t, tt.url), 1, Schedule{Initial: time.Hour}
		r.run(tgt)
		var ended time.Time
		for i, want := range []string{tt.want, tt.again} {
			ref := r.admit(event.Event{Targets: []string{"a"}}, tt.body)
			await(t, "an attempt", func() bool { return len(r.attempts(ref)) > 0 })
			a := r.attempts(ref)[0]
			if i > 0 && a.StartedAt.Sub(ended) > idleTimeout/2 {
				want = tt.want // the machine stood still for so long that the connection went
			}
			ended = a.StartedAt.Add(a.Duration)
			got := ""
			for _, p := range []struct {
				letter string
				took   time.Duration
			}{{"d", a.Phases.DNS}, {"c", a.Phases.Connect}, {"t", a.Phases.TLS}, {"f", a.Phases.FirstByte}} {
				if p.took > 0 {
					got += p.letter
				}
				if p.took < 0 || p.took != p.took.Truncate(time.Microsecond) {
					t.Errorf("%s: phase %s took %v", tt.name, p.letter, p.took)
				}
			}
			if got != want {
				t.Errorf("%s, attempt %d: phases %q of %+v, want %q", tt.name, i+1, got, a.Phases, want)
			}
			if sum := a.Phases.DNS + a.Phases.Connect + a.Phases.TLS + a.Phases.FirstByte; sum > a.Duration {
				t.Errorf("%s: the phases take %v of %v", tt.name, sum, a.Duration)
			}
		}
		if err := r.stop(); err != nil {
			t.Error(err)
		}
	}
}

// The times are those that passed.
func TestPhasesAreTrue(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, pipes *pipes) {
		rec := &recorder{tb: t, answer: func(n int, w http.ResponseWriter, r *http.Request) {
			if n == 3 {
				<-r.Context().Done()
				return
			}
			time.Sleep(300 * time.Millisecond)
			w.WriteHeader(200)
			_ = http.NewResponseController(w).Flush()
			time.Sleep(500 * time.Millisecond)
		}}
		pipes.serve(t, "a", rec)
		r := newRig(t, func(c *Config) {
			c.Dial = slowDial(pipes.dial, 200*time.Millisecond)
		})
		r.run(Target{Name: "a", URL: mustURL(t, "http://a/"), Concurrency: 1, Timeout: 5 * time.Second, Schedule: Schedule{Initial: time.Hour, Steady: 1}})
		ms := time.Millisecond
		for i, want := range []event.Attempt{
			{Duration: 1000 * ms, Phases: event.Phases{Connect: 200 * ms, FirstByte: 300 * ms}},
			{Duration: 800 * ms, Phases: event.Phases{FirstByte: 300 * ms}},
			{Duration: 5000 * ms},
		} {
			ref := r.admit(event.Event{Targets: []string{"a"}}, "x")
			time.Sleep(want.Duration)
			synctest.Wait()
			as := r.attempts(ref)
			if len(as) != 1 || as[0].Duration != want.Duration || as[0].Phases != want.Phases {
				t.Errorf("attempt %d = %+v, want %v with %+v", i+1, as, want.Duration, want.Phases)
			}
		}
	})
}
