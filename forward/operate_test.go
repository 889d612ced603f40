package forward

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/dedupe/ledgertest"
	"github.com/onceward/onceward/event"
)

// A paused target is not attempted, over a restart and a reload, until it is
// resumed; what is under way ends.
func TestPause(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, net *pipes) {
		rec := &recorder{tb: t, answer: func(int, http.ResponseWriter, *http.Request) { time.Sleep(time.Second) }}
		net.serve(t, "a", rec)
		mem := ledgertest.NewMemory(ledgertest.Config{})
		dial := func(c *Config) { c.Dial = net.dial }
		tgt := Target{Name: "a", URL: mustURL(t, "http://a/"), Concurrency: 4}
		r := rigOn(t, mem, dial)
		refs := r.many(100)
		r.run(tgt)
		time.Sleep(1500 * time.Millisecond)
		if err := r.f.Pause(t.Context(), "a", dedupe.By{Actor: "ann", Reason: "deploy"}); err != nil {
			t.Fatal(err)
		}
		if err := r.f.Pause(t.Context(), "a", dedupe.By{Actor: "bob", Reason: "again"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		got := r.states(refs)
		if rec.count() != 8 || got[event.Delivered] != 8 || got[event.Pending] != 92 {
			t.Errorf("%d requests, %v; want 8, all of them delivered", rec.count(), got)
		}
		s := r.f.Status()[0]
		if !s.Paused || s.PausedBy != "ann" || s.PauseReason != "deploy" || s.PausedAt.IsZero() || s.InFlight != 0 {
			t.Errorf("status = %+v", s)
		}
		if m := r.metric("onceward_target_paused", "a", "", ""); m != 1 {
			t.Errorf("metric = %v, want 1", m)
		}
		tgt.Concurrency = 3
		if err := r.f.SetTargets([]Target{tgt}); err != nil { // a reload
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		r = rigOn(t, mem.Reopen(), dial)
		r.run(tgt)
		time.Sleep(time.Hour)
		synctest.Wait()
		if rec.count() != 8 {
			t.Errorf("%d requests after reload and restart, want still 8", rec.count())
		}
		if err := r.f.Resume(t.Context(), "a", dedupe.By{Actor: "bob", Reason: "deployed"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := r.states(refs); got[event.Delivered] != 100 {
			t.Errorf("in the end %v, want all delivered", got)
		}
		if s := r.f.Status()[0]; s.Paused || s.PausedBy != "" || s.PauseReason != "" {
			t.Errorf("status = %+v, want not paused", s)
		}
		for _, err := range []error{r.f.Pause(t.Context(), "b", dedupe.By{Actor: "", Reason: ""}), r.f.Resume(t.Context(), "b", dedupe.By{Actor: "", Reason: ""}), r.f.Drain(t.Context(), "b", dedupe.By{Actor: "", Reason: ""})} {
			if !errors.Is(err, dedupe.ErrNotFound) {
				t.Errorf("a name that is no target: %v", err)
			}
		}
	})
}

// A pause stops the give-up clock, but not for ever.
func TestPauseAndGiveUp(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	bubble(t, func(t *testing.T, net *pipes) {
		rec := &recorder{tb: t, answer: status(503)}
		net.serve(t, "a", rec)
		r := newRig(t, func(c *Config) { c.Dial = net.dial })
		ref := r.admit(event.Event{Targets: []string{"a"}}, "x")
		r.run(Target{Name: "a", URL: mustURL(t, "http://a/"), GiveUp: 3 * day, Breaker: Breaker{Off: true}})
		time.Sleep(day)
		if err := r.f.Pause(t.Context(), "a", dedupe.By{Actor: "ann", Reason: ""}); err != nil {
			t.Fatal(err)
		}
		seen := rec.count()
		time.Sleep(10 * day)
		synctest.Wait()
		if d := r.delivery(ref, "a"); d.State != event.Pending || rec.count() != seen {
			t.Fatalf("after ten days of pause %v and %d attempts, want pending and none", d.State, rec.count()-seen)
		}
		if err := r.f.Resume(t.Context(), "a", dedupe.By{Actor: "ann", Reason: ""}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(day)
		synctest.Wait()
		if d := r.delivery(ref, "a"); d.State != event.Pending || rec.count() == seen {
			t.Fatalf("two days of its own clock: %v after %d attempts, want pending and some", d.State, rec.count()-seen)
		}
		if err := r.f.Pause(t.Context(), "a", dedupe.By{Actor: "ann", Reason: ""}); err != nil {
			t.Fatal(err)
		}
		seen = rec.count()
		time.Sleep(4*day + 20*time.Hour) // four days of these count as paused: 14 in all
		synctest.Wait()
		if d := r.delivery(ref, "a"); d.State != event.Pending {
			t.Fatalf("before the clock has run out: %v", d.State)
		}
		time.Sleep(5 * time.Hour)
		synctest.Wait()
		if d := r.delivery(ref, "a"); d.State != event.Dead || d.LastError != string(event.OutcomeGaveUp) || rec.count() != seen {
			t.Errorf("after it: %v %q, %d attempts in the pause; want dead without one", d.State, d.LastError, rec.count()-seen)
		}
	})
}

// Drain waits for what is under way, and no longer than it is told to.
func TestDrainTarget(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, net *pipes) {
		rec := &recorder{tb: t, answer: func(int, http.ResponseWriter, *http.Request) { time.Sleep(10 * time.Second) }}
		net.serve(t, "a", rec)
		r := newRig(t, func(c *Config) { c.Dial = net.dial })
		r.many(20)
		r.run(Target{Name: "a", URL: mustURL(t, "http://a/"), Concurrency: 3})
		time.Sleep(4 * time.Second)
		synctest.Wait()
		start := time.Now()
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := r.f.Drain(short, "a", dedupe.By{Actor: "ann", Reason: "move"}); !errors.Is(err, context.DeadlineExceeded) || !r.f.Status()[0].Paused {
			t.Errorf("a drain that takes too long: %v", err)
		}
		if err := r.f.Drain(t.Context(), "a", dedupe.By{Actor: "ann", Reason: "move"}); err != nil || time.Since(start) != 6*time.Second {
			t.Errorf("drained after %v: %v, want 6s", time.Since(start), err)
		}
		if n := r.f.Status()[0].InFlight; n != 0 || rec.count() != 3 {
			t.Errorf("%d in flight after a drain, %d requests, want 0 and 3", n, rec.count())
		}
	})
}

// The book starts an act anew when another gateway changed the note, and takes
// over what the other decided.
func TestControlsAreShared(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, net *pipes) {
		net.serve(t, "a", &recorder{tb: t})
		mem := ledgertest.NewMemory(ledgertest.Config{})
		dial := func(c *Config) { c.Dial = net.dial }
		tgt := Target{Name: "a", URL: mustURL(t, "http://a/")}
		one, two := rigOn(t, mem, dial), rigOn(t, mem, dial)
		one.run(tgt)
		two.run(tgt)
		synctest.Wait()
		if err := one.f.Pause(t.Context(), "a", dedupe.By{Actor: "ann", Reason: "deploy"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(11 * time.Second)
		synctest.Wait()
		if s := two.f.Status()[0]; !s.Paused || s.PausedBy != "ann" {
			t.Errorf("the other gateway's status = %+v, want paused", s)
		}
		if err := two.f.Resume(t.Context(), "a", dedupe.By{Actor: "bob", Reason: ""}); err != nil {
			t.Fatal(err)
		}
		// one doesn't know of the resumption yet: its act starts anew.
		if err := one.f.Pause(t.Context(), "a", dedupe.By{Actor: "cat", Reason: "again"}); err != nil {
			t.Fatal(err)
		}
		n, err := mem.Note(t.Context(), noteTarget, "a")
		if err != nil || n.Version != 3 || !strings.Contains(string(n.Value), `"by":"cat"`) {
			t.Errorf("kept = %s version %d, %v; want cat's pause", n.Value, n.Version, err)
		}
	})
}

// A pause that the ledger can't keep now takes effect, and is kept later.
func TestPauseOnWhileLedgerFails(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, net *pipes) {
		rec := &recorder{tb: t, answer: status(410)}
		net.serve(t, "a", rec)
		r := newRig(t, func(c *Config) { c.Dial = net.dial })
		var failing atomic.Bool
		failing.Store(true)
		r.store.put = func() error {
			if failing.Load() {
				return errors.New("disk is busy")
			}
			return nil
		}
		r.many(5)
		r.run(Target{Name: "a", URL: mustURL(t, "http://a/"), Concurrency: 1, PauseOn: []int{410}})
		time.Sleep(time.Minute)
		synctest.Wait()
		if s := r.f.Status()[0]; !s.Paused || rec.count() != 1 {
			t.Errorf("paused is %v after %d requests, want true and 1", s.Paused, rec.count())
		}
		if err := r.f.Pause(t.Context(), "a", dedupe.By{Actor: "ann", Reason: ""}); err == nil {
			t.Error("an act that can't be kept is no error")
		}
		failing.Store(false)
		time.Sleep(15 * time.Second)
		synctest.Wait()
		if _, err := r.store.Note(t.Context(), noteTarget, "a"); err != nil {
			t.Errorf("the pause was not kept: %v", err)
		}
	})
}

// No more attempts begin than the rate allows, whatever waits.
func TestRate(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		rate   Rate
		former []string
		secs   int
		want   int // burst and what the time allows
	}{
		{"fifty a second", Rate{Count: 50, Per: time.Second, Burst: 10}, nil, 4, 210},
		{"default burst", Rate{Count: 50, Per: time.Second}, nil, 4, 250},
		{"one a minute", Rate{Count: 1, Per: time.Minute}, nil, 150, 3},
		{"shared with a former name", Rate{Count: 20, Per: time.Second, Burst: 5}, []string{"b"}, 5, 105},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			bubble(t, func(t *testing.T, net *pipes) {
				rec := &recorder{tb: t}
				net.serve(t, "a", rec)
				r := newRig(t, func(c *Config) { c.Dial = net.dial })
				for range 500 {
					r.admit(event.Event{Targets: []string{"a"}}, "x")
					if tt.former != nil {
						r.admit(event.Event{Targets: tt.former}, "x")
					}
				}
				r.run(Target{Name: "a", URL: mustURL(t, "http://a/"), Rate: tt.rate, Former: tt.former})
				time.Sleep(time.Duration(tt.secs)*time.Second + 500*time.Microsecond)
				synctest.Wait()
				if got := rec.count(); got > tt.want || got < tt.want*9/10 {
					t.Errorf("%d attempts in %d s, want %d", got, tt.secs, tt.want)
				}
				seen := rec.requests()
				burst := tt.rate
				burst.fill()
				for i := range seen { // any window of a second holds no more than the burst and a second's worth
					n := 0
					for _, q := range seen[i:] {
						if q.at.Sub(seen[i].at) < time.Second {
							n++
						}
					}
					if most := burst.Burst + int(burst.perSecond()) + 1; n > most {
						t.Fatalf("%d attempts within a second, want at most %d", n, most)
					}
				}
			})
		})
	}
}

// The bodies of the attempts that run at once fit into the target's share.
func TestMemoryShare(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, net *pipes) {
		var mu sync.Mutex
		var now, most int64
		rec := &recorder{tb: t, answer: func(_ int, _ http.ResponseWriter, r *http.Request) {
			mu.Lock()
			now += r.ContentLength
			most = max(most, now)
			mu.Unlock()
			time.Sleep(time.Second)
			mu.Lock()
			now -= r.ContentLength
			mu.Unlock()
		}}
		net.serve(t, "a", rec)
		r := newRig(t, func(c *Config) { c.Dial = net.dial })
		for i := range 40 {
			size := 30_000
			if i == 20 {
				size = 250_000 // larger than the share: alone
			}
			r.admit(event.Event{Targets: []string{"a"}}, strings.Repeat("b", size))
		}
		start := time.Now()
		r.run(Target{Name: "a", URL: mustURL(t, "http://a/"), Concurrency: 16, Memory: 100_000})
		for rec.count() < 40 {
			time.Sleep(time.Second)
		}
		if took := time.Since(start); took < 13*time.Second || took > 16*time.Second {
			t.Errorf("took %v, want about 14 s: three at a time, and one alone", took)
		}
		time.Sleep(2 * time.Second) // for the answers of the last
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if most != 250_000 {
			t.Errorf("%d bytes at once, want no more than the one large body", most)
		}
		if s := r.f.Status()[0]; s.Attempts[event.Outcome2xx] != 40 {
			t.Errorf("attempts = %v", s.Attempts)
		}
	})
}

// An act that another gateway got ahead of starts anew; one that never gets
// through says so.
func TestControlStartsAnew(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, net *pipes) {
		net.serve(t, "a", &recorder{tb: t})
		r := newRig(t, func(c *Config) { c.Dial = net.dial })
		var stale atomic.Int64
		stale.Store(3)
		r.store.put = func() error {
			if stale.Add(-1) >= 0 {
				return dedupe.ErrStale
			}
			return nil
		}
		r.run(Target{Name: "a", URL: mustURL(t, "http://a/")})
		if err := r.f.Pause(t.Context(), "a", dedupe.By{}); err != nil || !r.f.Status()[0].Paused {
			t.Errorf("an act that others got ahead of: %v", err)
		}
		stale.Store(1000)
		if err := r.f.Resume(t.Context(), "a", dedupe.By{}); !errors.Is(err, dedupe.ErrStale) || !r.f.Status()[0].Paused {
			t.Errorf("an act that never gets through: %v, want %v and still paused", err, dedupe.ErrStale)
		}
	})
}

// What is promised to one feeder is not promised to another, and what it did
// not use is free again.
func TestLimiterPromises(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	l := newLimiter(Rate{Count: 10, Per: time.Second, Burst: 10}, dedupe.Share{Part: 1}, now)
	take := func(what string, n, want int) {
		t.Helper()
		if got, wait := l.promise(n, now); got != want || (got == 0) != (wait > 0) {
			t.Errorf("%s: promised %d of %d, wait %v; want %d", what, got, n, wait, want)
		}
	}
	take("first", 7, 7)
	take("second, while the first is open", 7, 3)
	take("third", 1, 0)
	l.settle(7, 2)
	take("after the first used two", 9, 5)
	l.settle(3, 3)
	l.settle(5, 5)
	take("after all are used", 1, 0)
	now = now.Add(300 * time.Millisecond)
	take("three tenths of a second later", 9, 3)
}

// A ledger that goes away while the gateway starts is waited for: nothing is
// attempted before it has said which targets are paused, and a stop ends the wait.
func TestAwayAtTheStart(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, net *pipes) {
		rec := &recorder{tb: t, answer: status(200)}
		net.serve(t, "a", rec)
		mem := ledgertest.NewMemory(ledgertest.Config{})
		var away atomic.Bool
		start := func() *rig {
			r := rigOn(t, mem, func(c *Config) { c.Dial = net.dial })
			r.store.notes = func() error {
				if away.Load() {
					return dedupe.ErrAway
				}
				return nil
			}
			return r
		}
		away.Store(true)
		r := start()
		refs := r.many(3)
		r.run(Target{Name: "a", URL: mustURL(t, "http://a/")})
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := rec.count(); n != 0 {
			t.Errorf("%d attempts before it is known whether the target is paused", n)
		}
		if err := r.stop(); err != nil {
			t.Errorf("stopped while away: %v", err)
		}
		r = start()
		r.run(Target{Name: "a", URL: mustURL(t, "http://a/")})
		time.Sleep(time.Minute)
		away.Store(false)
		time.Sleep(time.Second)
		synctest.Wait()
		r.deliveredOnce(refs, "a")
		if err := r.stop(); err != nil {
			t.Error(err)
		}
		r = start() // the control: another error ends it
		r.store.notes = func() error { return dedupe.ErrDamaged }
		r.run(Target{Name: "a", URL: mustURL(t, "http://a/")})
		synctest.Wait()
		if err := r.stop(); !errors.Is(err, dedupe.ErrDamaged) {
			t.Errorf("with a damaged ledger: %v", err)
		}
	})
}
