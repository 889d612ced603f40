package forward

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

// request is what a target saw.
type request struct {
	at     time.Time
	key    string
	number string
	body   string
	uri    string
	header http.Header
}

// recorder is a target that remembers.
type recorder struct {
	tb     testing.TB
	answer func(n int, w http.ResponseWriter, r *http.Request) // nil: 200

	mu   sync.Mutex
	seen []request
}

func (rec *recorder) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body) // a cut attempt ends early
	rec.mu.Lock()
	rec.seen = append(rec.seen, request{
		at: time.Now(), key: r.Header.Get(headerKey), number: r.Header.Get(headerAttempt),
		body: string(body), uri: r.URL.RequestURI(), header: r.Header.Clone(),
	})
	n := len(rec.seen)
	rec.mu.Unlock()
	if rec.answer != nil {
		rec.answer(n, w, r)
	}
}

func (rec *recorder) requests() []request {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	return append([]request(nil), rec.seen...)
}

func (rec *recorder) count() int { return len(rec.requests()) }

func status(code int) func(int, http.ResponseWriter, *http.Request) {
	return func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

// bubble runs f in a bubble of synthetic time, with a network in memory.
func bubble(t *testing.T, f func(t *testing.T, net *pipes)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, newPipes()) })
}

func TestDeliver(t *testing.T) {
	t.Parallel()
	a, b := &recorder{tb: t}, &recorder{tb: t}
	srvA, srvB := httptest.NewServer(a), httptest.NewServer(b)
	defer srvA.Close()
	defer srvB.Close()
	r := newRig(t, nil)
	body := "{\"a\": 1,\r\n \x00\xff}"
	ref := r.admit(event.Event{Targets: []string{"a", "b"}, Key: "shop:k", Query: "x=%20&y", ID: "evt_1"}, body)
	r.run(Target{Name: "a", URL: mustURL(t, srvA.URL+"/hook")}, Target{Name: "b", URL: mustURL(t, srvB.URL+"?t=1")})
	r.closed(ref, "a")
	r.closed(ref, "b")
	for name, rec := range map[string]*recorder{"a": a, "b": b} {
		got := rec.requests()
		if len(got) != 1 {
			t.Fatalf("%s saw %d requests, want 1", name, len(got))
		}
		if got[0].body != body || got[0].key != "shop:k" || got[0].number != "1" {
			t.Errorf("%s saw %+v", name, got[0])
		}
		if want := map[string]string{"a": "/hook?x=%20&y", "b": "/?t=1&x=%20&y"}[name]; got[0].uri != want {
			t.Errorf("%s saw %q, want %q", name, got[0].uri, want)
		}
	}
	as := r.attempts(ref)
	if len(as) != 2 {
		t.Fatalf("%d attempts, want 2", len(as))
	}
	for _, at := range as {
		if at.Outcome != event.Outcome2xx || at.Status != 200 || at.State != event.Delivered || at.Number != 1 || at.Error != "" || at.Late {
			t.Errorf("attempt = %+v", at)
		}
		if !strings.HasPrefix(string(at.Response), "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n") {
			t.Errorf("answer kept = %q", at.Response)
		}
	}
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "b"} {
		for _, m := range []struct {
			metric, label, value string
			want                 float64
		}{
			{"onceward_deliveries_total", "result", "delivered", 1},
			{"onceward_deliveries_total", "result", "dead", 0},
			{"onceward_delivery_in_flight", "", "", 0},
			{"onceward_delivery_late_results_total", "", "", 0},
			{"onceward_delivery_attempt_duration_seconds", "", "", 1},
			{"onceward_delivery_latency_seconds", "", "", 1},
		} {
			if got := r.metric(m.metric, name, m.label, m.value); got != m.want {
				t.Errorf("%s of %s %s = %v, want %v", m.metric, name, m.value, got, m.want)
			}
		}
		for _, o := range event.Outcomes() {
			want := 0.0
			if o == event.Outcome2xx {
				want = 1
			}
			if got := r.metric("onceward_delivery_attempts_total", name, "outcome", string(o)); got != want {
				t.Errorf("attempts of %s with outcome %s = %v, want %v", name, o, got, want)
			}
		}
	}
}

// The times of a schedule follow from the seed, to the millisecond.
func TestScheduleTimes(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, net *pipes) {
		rec := &recorder{tb: t, answer: status(500)}
		net.serve(t, "a", rec)
		rng := rand.New(rand.NewPCG(42, 7))
		r := newRig(t, func(c *Config) { c.Dial, c.Rand = net.dial, rng.Float64 })
		start := time.Now()
		r.run(Target{Name: "a", URL: mustURL(t, "http://a/"), GiveUp: 30 * time.Hour, Breaker: Breaker{Off: true}})
		ref := r.admit(event.Event{Targets: []string{"a"}}, "x")
		time.Sleep(40 * time.Hour) // synthetic
		synctest.Wait()

		same := rand.New(rand.NewPCG(42, 7))
		sched := Schedule{Initial: time.Second, Factor: 2, Max: time.Hour}
		want := start
		got := rec.requests()
		for i, req := range got {
			if d := req.at.Sub(want); d < -time.Millisecond*time.Duration(i+1) || d > time.Millisecond*time.Duration(i+1) {
				t.Errorf("attempt %d at %v, want %v", i+1, req.at.Sub(start), want.Sub(start))
			}
			if req.number != fmt.Sprint(i+1) || req.key != got[0].key {
				t.Errorf("attempt %d has number %s and key %q, want key %q", i+1, req.number, req.key, got[0].key)
			}
			want = want.Add(sched.Next(uint32(i+1), same.Float64()))
			if last := start.Add(30 * time.Hour); want.After(last) {
				want = last
			}
		}
		d := r.delivery(ref, "a")
		if d.State != event.Dead || int(d.Attempts) != len(got) || d.LastStatus != 500 || d.LastError != string(event.Outcome5xx) {
			t.Errorf("delivery = %+v after %d requests, want dead", d, len(got))
		}
		if last := got[len(got)-1].at.Sub(start); last < 30*time.Hour-time.Second || last > 30*time.Hour+time.Second {
			t.Errorf("last attempt at %v, want at give-up, 30h", last)
		}
		if len(got) < 30 {
			t.Errorf("%d attempts in 30 h, want dozens", len(got))
		}
	})
}

func TestRetryAfterIsHonoured(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		status int
		value  func() string
		want   time.Duration
	}{
		{"seconds", 503, func() string { return "90" }, 90 * time.Second},
		{"date", 429, func() string { return time.Now().Add(2 * time.Minute).UTC().Format(http.TimeFormat) }, 2 * time.Minute},
		{"capped", 503, func() string { return "9999999" }, 24 * time.Hour},
		{"own is longer", 503, func() string { return "1" }, 10 * time.Second},
		{"garbage", 503, func() string { return "soon" }, 10 * time.Second},
		{"negative", 503, func() string { return "-60" }, 10 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			bubble(t, func(t *testing.T, net *pipes) {
				rec := &recorder{tb: t, answer: func(n int, w http.ResponseWriter, _ *http.Request) {
					if n == 1 {
						w.Header().Set("Retry-After", tt.value())
						w.WriteHeader(tt.status)
					}
				}}
				net.serve(t, "a", rec)
				r := newRig(t, func(c *Config) { c.Dial, c.Rand = net.dial, func() float64 { return 1 } })
				r.run(Target{Name: "a", URL: mustURL(t, "http://a/"), Schedule: Schedule{Initial: 10 * time.Second}})
				ref := r.admit(event.Event{Targets: []string{"a"}}, "x")
				time.Sleep(48 * time.Hour) // synthetic
				got := rec.requests()
				if len(got) != 2 {
					t.Fatalf("%d requests, want 2", len(got))
				}
				if gap := got[1].at.Sub(got[0].at); gap < tt.want-time.Second || gap > tt.want+time.Second {
					t.Errorf("second attempt after %v, want %v", gap, tt.want)
				}
				if d := r.delivery(ref, "a"); d.State != event.Delivered || d.Attempts != 2 {
					t.Errorf("delivery = %+v", d)
				}
			})
		})
	}
}

// A redirect is never followed: it is dead, and where it points is kept.
func TestRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	var followed atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { followed.Add(1) }))
	defer other.Close()
	for _, code := range []int{301, 302, 303, 307, 308, 304} {
		rec := &recorder{tb: t, answer: func(_ int, w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", other.URL+"/elsewhere")
			w.WriteHeader(code)
		}}
		srv := httptest.NewServer(rec)
		r := newRig(t, nil)
		r.run(Target{Name: "a", URL: mustURL(t, srv.URL)})
		ref := r.admit(event.Event{Targets: []string{"a"}}, "x")
		r.closed(ref, "a")
		if d := r.delivery(ref, "a"); d.State != event.Dead || d.LastStatus != code || d.LastError != string(event.Outcome3xx) {
			t.Errorf("%d: delivery = %+v, want dead", code, d)
		}
		if got := string(r.attempts(ref)[0].Response); !strings.Contains(got, "Location: "+other.URL+"/elsewhere") {
			t.Errorf("%d: answer kept = %q, want the location", code, got)
		}
		srv.Close()
	}
	if n := followed.Load(); n != 0 {
		t.Errorf("%d redirects were followed", n)
	}
}

func TestFinalStatuses(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		code int
		edit func(*Target)
		want event.State
	}{
		{200, nil, event.Delivered},
		{202, nil, event.Delivered},
		{204, nil, event.Delivered},
		{400, nil, event.Dead},
		{404, nil, event.Dead},
		{410, nil, event.Dead},
		{425, nil, event.Dead},
		{503, func(t *Target) { t.DeadOn = []int{503} }, event.Dead},
	} {
		rec := &recorder{tb: t, answer: status(tt.code)}
		srv := httptest.NewServer(rec)
		tgt := Target{Name: "a", URL: mustURL(t, srv.URL), Schedule: fast}
		if tt.edit != nil {
			tt.edit(&tgt)
		}
		r := newRig(t, nil)
		r.run(tgt)
		ref := r.admit(event.Event{Targets: []string{"a"}}, "x")
		r.closed(ref, "a")
		if d := r.delivery(ref, "a"); d.State != tt.want || d.Attempts != 1 {
			t.Errorf("%d: %v after %d attempts, want %v after 1", tt.code, d.State, d.Attempts, tt.want)
		}
		srv.Close()
	}
	for _, code := range []int{408, 425, 429, 500, 502, 503, 504} {
		rec := &recorder{tb: t, answer: func(n int, w http.ResponseWriter, _ *http.Request) {
			if n < 3 {
				w.WriteHeader(code)
			}
		}}
		srv := httptest.NewServer(rec)
		r := newRig(t, nil)
		r.run(Target{Name: "a", URL: mustURL(t, srv.URL), Schedule: fast, RetryOn: []int{425}})
		ref := r.admit(event.Event{Targets: []string{"a"}}, "x")
		r.closed(ref, "a")
		if d := r.delivery(ref, "a"); d.State != event.Delivered || d.Attempts != 3 {
			t.Errorf("%d: %v after %d attempts, want delivered after 3", code, d.State, d.Attempts)
		}
		srv.Close()
	}
}

// A target that never answers is timed out and retried, and costs another
// target nothing.
func TestIsolation(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, net *pipes) {
		hang := &recorder{tb: t, answer: func(_ int, _ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }}
		good := &recorder{tb: t}
		net.serve(t, "bad", hang)
		net.serve(t, "good", good)
		r := newRig(t, func(c *Config) { c.Dial = net.dial })
		const n = 500
		refs := make([]event.Ref, n)
		for i := range refs {
			refs[i] = r.admit(event.Event{Targets: []string{"bad", "good"}}, "x")
		}
		start := time.Now()
		r.run(Target{Name: "bad", URL: mustURL(t, "http://bad/"), Timeout: 10 * time.Second, Concurrency: 4}, Target{Name: "good", URL: mustURL(t, "http://good/")})
		time.Sleep(time.Second) // synthetic: everything that does not wait is done in no time
		synctest.Wait()
		if got := good.count(); got != n {
			t.Fatalf("the good target saw %d of %d within %v", got, n, time.Since(start))
		}
		if got := hang.count(); got != 4 {
			t.Errorf("the hanging target holds %d attempts, want its 4", got)
		}
		stats, err := r.store.Stats(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if held := stats.Targets["bad"].Leased; held > 8 {
			t.Errorf("the hanging target holds %d leases, want at most 8", held)
		}
		for _, s := range r.f.Status() {
			if want := map[string]int64{"bad": 4, "good": 0}[s.Name]; s.InFlight != want {
				t.Errorf("%s: %d in flight, want %d", s.Name, s.InFlight, want)
			}
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		var timedOut int
		for _, ref := range refs {
			for _, a := range r.attempts(ref) {
				if a.Target == "bad" && a.Outcome == event.OutcomeTimeout && a.State == event.Pending {
					timedOut++
				}
			}
		}
		if timedOut != 4 {
			t.Errorf("%d attempts timed out, want 4", timedOut)
		}
	})
}

// Nothing is delivered before the ledger says so: a result that was not
// committed is not one, and the event is sent again with the same key. The
// request that was sent is shown, as an attempt of unknown outcome.
func TestCrashBeforeCommit(t *testing.T) {
	t.Parallel()
	rec := &recorder{tb: t}
	srv := httptest.NewServer(rec)
	defer srv.Close()
	r := newRig(t, nil)
	r.store.finish = func(rs []*dedupe.Result) error {
		if got := r.delivery(rs[0].Lease.Delivery.Event, "a").State; !got.Open() {
			t.Errorf("delivery is %v before its commit", got)
		}
		return fmt.Errorf("disk: %w", dedupe.ErrFatal)
	}
	ref := r.admit(event.Event{Targets: []string{"a"}}, "x")
	tgt := Target{Name: "a", URL: mustURL(t, srv.URL)}
	r.run(tgt)
	await(t, "one request", func() bool { return rec.count() == 1 })
	if err := r.stop(); !errors.Is(err, dedupe.ErrFatal) {
		t.Fatalf("Run = %v, want the ledger's failure", err)
	}
	again := rigOn(t, r.store.Reopen(), nil)
	again.run(tgt)
	again.closed(ref, "a")
	got := rec.requests()
	if len(got) != 2 || got[0].key != got[1].key || got[0].number != "1" || got[1].number != "2" {
		t.Errorf("requests = %+v, want two with the same key, numbers 1 and 2", got)
	}
	if d := again.delivery(ref, "a"); d.State != event.Delivered || d.Attempts != 2 {
		t.Errorf("delivery = %+v", d)
	}
	if as := again.attempts(ref); len(as) != 2 || as[0].Outcome != event.OutcomeUnknown || as[1].Outcome != event.Outcome2xx {
		t.Errorf("attempts = %+v, want an unknown one and one that landed", as)
	}
}

// A failing ledger ends Run by itself, with attempts still in flight drained.
func TestLedgerFailureEndsRun(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, net *pipes) {
		net.serve(t, "a", &recorder{tb: t})
		r := newRig(t, func(c *Config) { c.Dial = net.dial })
		r.store.finish = func([]*dedupe.Result) error { return dedupe.ErrFatal }
		if err := r.f.SetTargets([]Target{{Name: "a", URL: mustURL(t, "http://a/")}}); err != nil {
			t.Fatal(err)
		}
		for range 300 {
			r.admit(event.Event{Targets: []string{"a"}}, "x")
		}
		if err := r.f.Run(t.Context()); !errors.Is(err, dedupe.ErrFatal) {
			t.Errorf("Run = %v, want ErrFatal", err)
		}
		if err := r.f.Run(t.Context()); err == nil {
			t.Error("a second Run did not fail")
		}
	})
}

// A stop lets attempts in flight end, cuts what is left after Drain and
// records it, and gives back what was not begun.
func TestDrain(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, net *pipes) {
		rec := &recorder{tb: t, answer: func(n int, _ http.ResponseWriter, r *http.Request) {
			wait := 5 * time.Second
			if n > 2 {
				wait = time.Hour
			}
			select {
			case <-time.After(wait):
			case <-r.Context().Done():
			}
		}}
		net.serve(t, "a", rec)
		r := newRig(t, func(c *Config) { c.Dial, c.Drain = net.dial, 10*time.Second })
		refs := make([]event.Ref, 12)
		for i := range refs {
			refs[i] = r.admit(event.Event{Targets: []string{"a"}}, "x")
		}
		r.run(Target{Name: "a", URL: mustURL(t, "http://a/"), Concurrency: 4})
		time.Sleep(time.Second)
		synctest.Wait()
		start := time.Now()
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took < 10*time.Second || took > 11*time.Second {
			t.Errorf("stop took %v, want the drain of 10s", took)
		}
		count := map[string]int{}
		for _, ref := range refs {
			d := r.delivery(ref, "a")
			count[d.State.String()]++
			for _, a := range r.attempts(ref) {
				count[string(a.Outcome)]++
				if a.Outcome == event.OutcomeInterrupted && (a.State != event.Pending || a.RetryIn != 0 || d.Attempts != 1) {
					t.Errorf("interrupted attempt = %+v of %+v, want pending, due at once and counted", a, d)
				}
			}
		}
		for what, want := range map[string]int{"delivered": 2, "pending": 10, "leased": 0, "2xx": 2, "interrupted": 2} {
			if count[what] != want {
				t.Errorf("%d %s, want %d (all: %v)", count[what], what, want, count)
			}
		}
		if got := rec.count(); got != 4 {
			t.Errorf("%d requests, want only the 4 that were in flight", got)
		}
	})
}

// A stop does not wait for room on a full disk as it waits for a ledger that may
// come back.
func TestStopWithoutRoom(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]time.Duration{"full": 10*time.Second + roomTime, "stuck": 10*time.Second + storeTime} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, net *pipes) {
				net.serve(t, "a", &recorder{tb: t})
				r := newRig(t, func(c *Config) { c.Dial, c.Drain = net.dial, 10*time.Second })
				r.store.full, r.store.stuck = name == "full", name == "stuck"
				r.admit(event.Event{Targets: []string{"a"}}, "x")
				r.run(Target{Name: "a", URL: mustURL(t, "http://a/"), Concurrency: 1})
				time.Sleep(time.Second)
				synctest.Wait()
				start := time.Now()
				if err := r.stop(); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(start); took < want || took > want+time.Second {
					t.Errorf("the stop took %v, want %v", took, want)
				}
			})
		})
	}
}

// A lease that is lost while its attempt is in flight makes the result late:
// recorded, counted, without effect.
func TestLateResult(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, net *pipes) {
		release := make(chan struct{})
		rec := &recorder{tb: t, answer: func(_ int, _ http.ResponseWriter, _ *http.Request) { <-release }}
		net.serve(t, "a", rec)
		r := newRig(t, func(c *Config) { c.Dial = net.dial })
		r.run(Target{Name: "a", URL: mustURL(t, "http://a/")})
		ref := r.admit(event.Event{Targets: []string{"a"}}, "x")
		synctest.Wait()
		if n, err := r.store.Cancel(t.Context(), ref, "a", dedupe.By{}); n != 1 || err != nil {
			t.Fatalf("cancel = %d, %v", n, err)
		}
		close(release)
		synctest.Wait()
		as := r.attempts(ref)
		if len(as) != 1 || !as[0].Late || as[0].Outcome != event.Outcome2xx {
			t.Errorf("attempts = %+v, want one, late", as)
		}
		if d := r.delivery(ref, "a"); d.State != event.Cancelled || d.Attempts != 0 {
			t.Errorf("delivery = %+v, want it cancelled still", d)
		}
		if got := r.f.Status()[0].LateResults; got != 1 {
			t.Errorf("late results = %d, want 1", got)
		}
		if got := r.metric("onceward_delivery_late_results_total", "a", "", ""); got != 1 {
			t.Errorf("late counter = %v, want 1", got)
		}
		if got := r.metric("onceward_deliveries_total", "a", "result", resultDelivered); got != 0 {
			t.Errorf("delivered counter = %v, want 0", got)
		}
	})
}

// However slow target and ledger are, no delivery is attempted twice at once
// or again before its result is known.
func TestNoSecondAttemptWhileOneIsOpen(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, net *pipes) {
		rec := &recorder{tb: t, answer: func(_ int, _ http.ResponseWriter, _ *http.Request) { time.Sleep(29 * time.Second) }}
		net.serve(t, "a", rec)
		r := newRig(t, func(c *Config) { c.Dial = net.dial })
		r.store.finish = func([]*dedupe.Result) error {
			time.Sleep(20 * time.Second) // synthetic: a ledger that is very slow
			return nil
		}
		refs := make([]event.Ref, 40)
		for i := range refs {
			refs[i] = r.admit(event.Event{Targets: []string{"a"}}, "x")
		}
		r.run(Target{Name: "a", URL: mustURL(t, "http://a/"), Concurrency: 2})
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		r.deliveredOnce(refs, "a")
		if got := rec.count(); got != len(refs) {
			t.Errorf("%d requests, want %d", got, len(refs))
		}
	})
}

// A lease that has waited too long for a worker is prolonged before its
// attempt, so that it outlives it.
func TestLeaseIsProlonged(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, net *pipes) {
		rec := &recorder{tb: t, answer: func(_ int, _ http.ResponseWriter, _ *http.Request) { time.Sleep(29 * time.Second) }}
		net.serve(t, "a", rec)
		r := newRig(t, func(c *Config) { c.Dial = net.dial })
		r.store.load = func(event.Ref) error {
			time.Sleep(time.Minute) // synthetic: a disk that is very slow
			return nil
		}
		refs := make([]event.Ref, 6)
		for i := range refs {
			refs[i] = r.admit(event.Event{Targets: []string{"a", "b"}}, "x")
		}
		r.run(Target{Name: "a", URL: mustURL(t, "http://a/"), Concurrency: 1}, Target{Name: "b", URL: mustURL(t, "http://a/"), Concurrency: 3})
		time.Sleep(time.Hour)
		synctest.Wait()
		r.deliveredOnce(refs, "a")
		r.deliveredOnce(refs, "b")
	})
}

// While a commit hangs nothing more is leased, nor before the results that waited
// for it are written: their leases may run out, and none of them is attempted again.
func TestStalledLedger(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, net *pipes) {
		rec := &recorder{tb: t}
		net.serve(t, "a", rec)
		r := newRig(t, func(c *Config) { c.Dial = net.dial })
		var calls atomic.Int64
		r.store.finish = func([]*dedupe.Result) error {
			switch calls.Add(1) {
			case 1:
				time.Sleep(10 * time.Minute) // synthetic
			case 2:
				time.Sleep(1500 * time.Millisecond) // and the feeder looks once a second
			}
			return nil
		}
		refs := make([]event.Ref, 500)
		for i := range refs[:100] {
			refs[i] = r.admit(event.Event{Targets: []string{"a"}}, "x")
		}
		r.run(Target{Name: "a", URL: mustURL(t, "http://a/"), Concurrency: 2})
		for i := range refs[100:] {
			time.Sleep(time.Second)
			refs[100+i] = r.admit(event.Event{Targets: []string{"a"}}, "x")
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		r.deliveredOnce(refs, "a")
		if got := rec.count(); got != len(refs) {
			t.Errorf("%d requests, want %d", got, len(refs))
		}
	})
}

// An event that fails its check is never sent; it is dead and said loudly.
func TestDamagedAndPruned(t *testing.T) {
	t.Parallel()
	rec := &recorder{tb: t}
	srv := httptest.NewServer(rec)
	defer srv.Close()
	r := newRig(t, nil)
	damaged := r.admit(event.Event{Targets: []string{"a"}}, "damaged")
	pruned := r.admit(event.Event{Targets: []string{"a"}}, "pruned")
	gone := r.admit(event.Event{Targets: []string{"a"}}, "gone")
	fine := r.admit(event.Event{Targets: []string{"a"}}, "fine")
	if err := r.store.Damage(damaged); err != nil {
		t.Fatal(err)
	}
	r.store.load = func(ref event.Ref) error {
		switch ref {
		case pruned:
			return fmt.Errorf("body: %w", dedupe.ErrPruned)
		case gone:
			return fmt.Errorf("event: %w", dedupe.ErrNotFound)
		}
		return nil
	}
	r.run(Target{Name: "a", URL: mustURL(t, srv.URL)})
	for _, ref := range []event.Ref{damaged, pruned, gone, fine} {
		r.closed(ref, "a")
	}
	for _, ref := range []event.Ref{damaged, pruned, gone} {
		if d := r.delivery(ref, "a"); d.State != event.Dead || d.LastError != string(event.OutcomeDamaged) || d.Attempts != 0 {
			t.Errorf("delivery = %+v, want dead without an attempt", d)
		}
	}
	if got := rec.requests(); len(got) != 1 || got[0].body != "fine" {
		t.Errorf("requests = %+v, want only the sound event", got)
	}
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	log := r.log.String()
	if !strings.Contains(log, "level=ERROR msg=\"delivery is dead: its event is damaged\"") || !strings.Contains(log, "ref="+damaged.String()) {
		t.Errorf("no error in the log names the damaged event:\n%s", log)
	}
}

// A ledger that can't be read for a while costs attempts nothing: leases go
// back, the feeders pause, and all is delivered once.
func TestLedgerFaults(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, net *pipes) {
		rec := &recorder{tb: t}
		net.serve(t, "a", rec)
		r := newRig(t, func(c *Config) { c.Dial = net.dial })
		var loads, leases atomic.Int64
		r.store.load = func(event.Ref) error {
			if loads.Add(1) <= 20 {
				return errors.New("disk is slow to wake")
			}
			return nil
		}
		r.store.lease = func(string) error {
			if n := leases.Add(1); n%3 == 1 {
				return errors.New("lease fault")
			}
			return nil
		}
		refs := make([]event.Ref, 30)
		for i := range refs {
			refs[i] = r.admit(event.Event{Targets: []string{"a"}}, "x")
		}
		r.run(Target{Name: "a", URL: mustURL(t, "http://a/")})
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		for _, ref := range refs {
			if d := r.delivery(ref, "a"); d.State != event.Delivered || d.Attempts != 1 {
				t.Errorf("delivery = %+v", d)
			}
		}
		if n := loads.Load(); n > 200 {
			t.Errorf("%d loads: the feeders did not pause", n)
		}
		if n := strings.Count(r.log.String(), "level=WARN"); n < 1 || n > 10 {
			t.Errorf("%d warnings, want a few", n)
		}
	})
}

// Deliveries of a target that was removed stay pending, come back with its
// name, and die at give-up without an attempt.
func TestMissingTarget(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, net *pipes) {
		rec := &recorder{tb: t}
		net.serve(t, "gone", rec)
		r := newRig(t, func(c *Config) { c.Dial, c.GiveUp = net.dial, 24*time.Hour })
		first := r.admit(event.Event{Targets: []string{"gone"}}, "first")
		r.run()
		time.Sleep(20 * time.Hour)
		second := r.admit(event.Event{Targets: []string{"gone"}}, "second")
		synctest.Wait()
		if got := r.f.Status(); len(got) != 1 || got[0].Name != "gone" || !got[0].Missing {
			t.Errorf("status = %+v, want one missing target", got)
		}
		if d := r.delivery(first, "gone"); d.State != event.Pending || d.Attempts != 0 {
			t.Errorf("before give-up: %+v, want pending", d)
		}
		time.Sleep(4*time.Hour + time.Minute)
		synctest.Wait()
		if d := r.delivery(first, "gone"); d.State != event.Dead || d.LastError != string(event.OutcomeMissing) || d.Attempts != 0 {
			t.Errorf("after give-up: %+v, want dead", d)
		}
		if as := r.attempts(first); len(as) != 0 {
			t.Errorf("attempts = %+v, want none", as)
		}
		if d := r.delivery(second, "gone"); d.State != event.Pending {
			t.Errorf("the younger one: %+v, want pending", d)
		}
		if err := r.f.SetTargets([]Target{{Name: "gone", URL: mustURL(t, "http://gone/")}}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if d := r.delivery(second, "gone"); d.State != event.Delivered {
			t.Errorf("after the name came back: %+v, want delivered", d)
		}
		if got := rec.requests(); len(got) != 1 || got[0].body != "second" {
			t.Errorf("requests = %+v, want the second event", got)
		}
		if got := r.metric("onceward_deliveries_total", "gone", "result", resultDead); got != 1 {
			t.Errorf("dead counter = %v, want 1", got)
		}
	})
}

// A reload moves a target without losing or repeating anything: attempts in
// flight end as they began, the rest goes to the new place.
func TestSetTargetsWhileRunning(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, net *pipes) {
		slow := func(_ int, _ http.ResponseWriter, _ *http.Request) { time.Sleep(2 * time.Second) }
		was, is, kept := &recorder{tb: t, answer: slow}, &recorder{tb: t, answer: slow}, &recorder{tb: t, answer: slow}
		net.serve(t, "was", was)
		net.serve(t, "is", is)
		net.serve(t, "kept", kept)
		r := newRig(t, func(c *Config) { c.Dial = net.dial })
		refs := make([]event.Ref, 20)
		for i := range refs {
			refs[i] = r.admit(event.Event{Targets: []string{"a", "b"}}, "x")
		}
		b := Target{Name: "b", URL: mustURL(t, "http://kept/"), Concurrency: 5}
		r.run(Target{Name: "a", URL: mustURL(t, "http://was/"), Concurrency: 5}, b)
		time.Sleep(time.Second)
		queue := func() *queue {
			r.f.mu.Lock()
			defer r.f.mu.Unlock()
			return r.f.queues["b"]
		}
		before := queue()
		if err := r.f.SetTargets([]Target{{Name: "a2", Former: []string{"a"}, URL: mustURL(t, "http://is/"), Concurrency: 4}, b}); err != nil {
			t.Fatal(err)
		}
		if queue() != before {
			t.Error("an unchanged target got a new queue")
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		for _, ref := range refs {
			for _, name := range []string{"a", "b"} {
				if d := r.delivery(ref, name); d.State != event.Delivered || d.Attempts != 1 {
					t.Errorf("delivery = %+v, want delivered by one attempt", d)
				}
			}
		}
		if was.count() != 5 || is.count() != 15 || kept.count() != 20 {
			t.Errorf("old place %d, new place %d, kept %d, want 5, 15, 20", was.count(), is.count(), kept.count())
		}
		if err := r.f.SetTargets([]Target{{Name: "a"}}); err == nil {
			t.Error("a target without a URL was taken")
		}
		last := r.admit(event.Event{Targets: []string{"b", "a2"}}, "x")
		time.Sleep(time.Hour)
		for _, name := range []string{"b", "a2"} {
			if d := r.delivery(last, name); d.State != event.Delivered {
				t.Errorf("after a refused reload: %+v, want delivered", d)
			}
		}
	})
}

// What is admitted while a target idles is sent at once.
func TestWake(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, net *pipes) {
		rec := &recorder{tb: t}
		net.serve(t, "a", rec)
		r := newRig(t, func(c *Config) { c.Dial = net.dial })
		r.run(Target{Name: "a", URL: mustURL(t, "http://a/"), Concurrency: 1})
		for i := range 5 {
			time.Sleep(7 * time.Minute)
			at := time.Now()
			r.admit(event.Event{Targets: []string{"a"}}, "x")
			synctest.Wait()
			got := rec.requests()
			if len(got) != i+1 || !got[i].at.Equal(at) {
				t.Fatalf("%d requests, the last not at %v", len(got), at)
			}
		}
	})
}

// Logs say which target and what happened, and nothing of URL paths, secrets,
// signatures or bodies; repeated failures are summed up.
func TestLogs(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, net *pipes) {
		rec := &recorder{tb: t, answer: func(n int, w http.ResponseWriter, _ *http.Request) {
			if n <= 50 {
				w.Header().Set("X-Echo", "s3cret-answer-header")
				w.WriteHeader(500)
				_, _ = io.WriteString(w, "s3cret-answer-body")
			}
		}}
		net.serve(t, "a", rec)
		r := newRig(t, func(c *Config) { c.Dial = net.dial })
		r.run(Target{
			Name: "a", URL: mustURL(t, "http://a:80/s3cret-path?s3cret=query"), Concurrency: 1, Schedule: fast, Breaker: Breaker{Off: true},
			Headers: map[string]Secret{"Authorization": "s3cret-header"}, Signing: []SigningSecret{mustSecret(t, testSecret)},
		})
		r.admit(event.Event{Targets: []string{"a"}, Query: "s3cret=q", Header: []event.Field{{Name: "Sig", Value: "s3cret-sig"}}}, "s3cret-body")
		time.Sleep(time.Minute)
		synctest.Wait()
		if rec.count() != 51 {
			t.Fatalf("%d requests, want 51", rec.count())
		}
		log := r.log.String()
		for _, secret := range []string{"s3cret", testSecret, "v1,"} {
			if strings.Contains(log, secret) {
				t.Errorf("the log holds %q:\n%.2000s", secret, log)
			}
		}
		for what, want := range map[string]int{
			`level=WARN msg="attempt failed"`:                      1,
			`level=INFO msg="target answers again"`:                1,
			`level=DEBUG msg="attempt ended"`:                      51,
			"failures=50":                                          1,
			"component=forward target=a site=http://a:80 delivery": 52,
		} {
			if got := strings.Count(log, what); got != want {
				t.Errorf("%d lines with %q, want %d", got, what, want)
			}
		}
	})
}

func TestStatus(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, net *pipes) {
		rec := &recorder{tb: t, answer: func(n int, w http.ResponseWriter, _ *http.Request) {
			if n != 1 {
				w.WriteHeader(500)
			}
		}}
		net.serve(t, "a", rec)
		r := newRig(t, func(c *Config) { c.Dial, c.Rand = net.dial, func() float64 { return 1 } })
		r.run(Target{Name: "a", URL: mustURL(t, "http://a/s3cret"), Schedule: Schedule{Initial: time.Hour, Factor: 1}}, Target{Name: "idle", URL: mustURL(t, "http://b/")})
		start := time.Now()
		r.admit(event.Event{Targets: []string{"a"}}, "x")
		time.Sleep(time.Minute)
		r.admit(event.Event{Targets: []string{"a"}}, "x")
		time.Sleep(90 * time.Minute)
		synctest.Wait()
		got := r.f.Status()
		if len(got) != 2 || got[0].Name != "a" || got[1].Name != "idle" {
			t.Fatalf("status = %+v, want a and idle", got)
		}
		a := got[0]
		if a.Site != "http://a" || a.Missing || a.ConsecutiveFailures != 2 || a.Attempts[event.Outcome2xx] != 1 || a.Attempts[event.Outcome5xx] != 2 || len(a.Attempts) != 2 {
			t.Errorf("status = %+v", a)
		}
		if !a.LastSuccess.Equal(start) || !a.LastFailure.Equal(start.Add(61*time.Minute)) {
			t.Errorf("last success %v and failure %v, want %v and %v", a.LastSuccess, a.LastFailure, start, start.Add(61*time.Minute))
		}
		if !got[1].LastSuccess.IsZero() || got[1].InFlight != 0 || len(got[1].Attempts) != 0 {
			t.Errorf("idle = %+v", got[1])
		}
	})
}

func TestRealFaults(t *testing.T) {
	t.Parallel()
	closed := httptest.NewServer(nil)
	closed.Close()
	secure := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer secure.Close()
	plain := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer plain.Close()
	hijack := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		c, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			_ = c.Close()
		}
	}))
	defer hijack.Close()
	hang := httptest.NewServer(&recorder{tb: t, answer: func(_ int, _ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }})
	defer hang.Close()
	for _, tt := range []struct {
		name, url string
		want      event.Outcome
		text      string
	}{
		{"nobody listens", closed.URL, event.OutcomeConnectError, "connection refused"},
		{"unknown certificate", secure.URL, event.OutcomeTLSError, "certificate signed by unknown authority"},
		{"no TLS", "https" + strings.TrimPrefix(plain.URL, "http"), event.OutcomeTLSError, "TLS handshake failed"},
		{"hangs up", hijack.URL, event.OutcomeConnectError, "connection closed before an answer"},
		{"hangs", hang.URL, event.OutcomeTimeout, "no answer in time"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, nil)
			timeout := DefaultTimeout
			if tt.want == event.OutcomeTimeout {
				timeout = 200 * time.Millisecond
			}
			r.run(Target{Name: "a", URL: mustURL(t, tt.url), Timeout: timeout, Schedule: Schedule{Initial: time.Hour}})
			ref := r.admit(event.Event{Targets: []string{"a"}}, "x")
			await(t, "an attempt", func() bool { return len(r.attempts(ref)) > 0 })
			if a := r.attempts(ref)[0]; a.Outcome != tt.want || a.Error != tt.text || a.State != event.Pending || a.RetryIn <= 0 {
				t.Errorf("attempt = %s %q %v, want %s %q pending", a.Outcome, a.Error, a.State, tt.want, tt.text)
			}
		})
	}
}

var _ Ledger = (*store)(nil)
