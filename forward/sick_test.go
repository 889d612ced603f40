package forward

import (
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/dedupe/ledgertest"
	"github.com/onceward/onceward/event"
)

// many admits n events for target a.
func (r *rig) many(n int) []event.Ref {
	r.tb.Helper()
	refs := make([]event.Ref, n)
	for i := range refs {
		refs[i] = r.admit(event.Event{Targets: []string{"a"}}, "x")
	}
	return refs
}

// states counts the deliveries to target a by state.
func (r *rig) states(refs []event.Ref) map[event.State]int {
	r.tb.Helper()
	out := map[event.State]int{}
	for _, ref := range refs {
		out[r.delivery(ref, "a").State]++
	}
	return out
}

func (r *rig) breaker() BreakerStatus {
	r.tb.Helper()
	return r.f.Status()[0].Breaker
}

// A target behind a bad deploy costs a handful of deliveries, however many
// wait: the breaker opens within ten failures, probes one by one, spares what
// it probes with, and closes when the target is back.
func TestBreakerSparesDeliveries(t *testing.T) {
	t.Parallel()
	for _, code := range []int{401, 403, 404, 405, 410, 301, 500, 429} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			t.Parallel()
			bubble(t, func(t *testing.T, net *pipes) {
				var bad atomic.Bool
				bad.Store(true)
				rec := &recorder{tb: t, answer: func(_ int, w http.ResponseWriter, _ *http.Request) {
					if bad.Load() {
						w.WriteHeader(code)
					}
				}}
				net.serve(t, "a", rec)
				r := newRig(t, func(c *Config) { c.Dial, c.Rand = net.dial, func() float64 { return 0.5 } })
				refs := r.many(500)
				start := time.Now()
				r.run(Target{Name: "a", URL: mustURL(t, "http://a/"), Concurrency: 4, Schedule: Schedule{Initial: time.Hour, Factor: 1}})
				time.Sleep(4 * time.Second)
				synctest.Wait()
				first := rec.count()
				if first < 10 || first > 13 { // those under way when it opened
					t.Errorf("%d attempts before it opened, want 10 and at most 3 under way", first)
				}
				if b := r.breaker(); b.State != BreakerOpen || !b.ProbeAt.Equal(start.Add(5*time.Second)) {
					t.Errorf("breaker = %+v, want open until %v", b, start.Add(5*time.Second))
				}
				if got := r.metric("onceward_target_breaker_open", "a", "", ""); got != 1 {
					t.Errorf("metric = %v, want 1", got)
				}
				time.Sleep(10 * time.Minute)
				synctest.Wait()
				// Probes after 5, 10, 20, 40, 80, 160 and 300 s, one each.
				if got := rec.count() - first; got != 6 {
					t.Errorf("%d probes in 10 minutes, want 6", got)
				}
				dead := r.states(refs)[event.Dead]
				if die := code == 301 || code < 429 && code > 400; dead > 9 || !die && dead != 0 || die && dead == 0 {
					t.Errorf("%d deliveries are dead of %d", dead, code)
				}
				attempts := 0
				for _, ref := range refs {
					attempts += int(r.delivery(ref, "a").Attempts)
				}
				if attempts != rec.count() {
					t.Errorf("deliveries count %d attempts, the target saw %d requests", attempts, rec.count())
				}
				bad.Store(false)
				time.Sleep(2 * time.Hour)
				synctest.Wait()
				if got := r.states(refs); got[event.Delivered] != len(refs)-dead || got[event.Dead] != dead {
					t.Errorf("in the end %v, want %d dead and all others delivered", got, dead)
				}
				b := r.breaker()
				if b.State != BreakerClosed || len(b.History) != 2 || b.History[0].State != BreakerOpen || b.History[1].State != BreakerClosed {
					t.Errorf("breaker = %+v, want closed, after one turn each", b)
				}
				if got := r.metric("onceward_target_breaker_open", "a", "", ""); got != 0 {
					t.Errorf("metric = %v, want 0", got)
				}
			})
		})
	}
}

// An operator who says that a status means the event leaves the breaker out.
func TestBreakerLeavesEventsAlone(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		code int
		dead []int
	}{{"about the event", 422, nil}, {"said to be about the event", 404, []int{404}}} {
		bubble(t, func(t *testing.T, net *pipes) {
			rec := &recorder{tb: t, answer: status(tt.code)}
			net.serve(t, "a", rec)
			r := newRig(t, func(c *Config) { c.Dial = net.dial })
			refs := r.many(100)
			r.run(Target{Name: "a", URL: mustURL(t, "http://a/"), DeadOn: tt.dead})
			time.Sleep(time.Second)
			synctest.Wait()
			if got := r.states(refs)[event.Dead]; got != 100 || rec.count() != 100 {
				t.Errorf("%s: %d dead after %d requests, want 100 of each", tt.name, got, rec.count())
			}
		})
	}
}

// An open breaker is open after a restart, and probes when it would have.
func TestBreakerOutlivesRestart(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, net *pipes) {
		rec := &recorder{tb: t, answer: status(503)}
		net.serve(t, "a", rec)
		mem := ledgertest.NewMemory(ledgertest.Config{})
		tgt := Target{Name: "a", URL: mustURL(t, "http://a/"), Concurrency: 1}
		dial := func(c *Config) { c.Dial = net.dial }
		r := rigOn(t, mem, dial)
		r.many(50)
		r.run(tgt)
		time.Sleep(36 * time.Second) // two probes: the third is due after 35 s
		synctest.Wait()
		before, seen := r.breaker(), rec.count()
		if before.Probes != 3 {
			t.Fatalf("breaker = %+v, want 3 failed probes", before)
		}
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		r = rigOn(t, mem.Reopen(), dial)
		r.run(tgt)
		synctest.Wait()
		after := r.breaker()
		if after.State != BreakerOpen || !after.ProbeAt.Equal(before.ProbeAt) || after.Probes != 3 || len(after.History) != 1 {
			t.Errorf("after the restart %+v, before it %+v", after, before)
		}
		time.Sleep(time.Until(before.ProbeAt) - time.Millisecond)
		synctest.Wait()
		if got := rec.count(); got != seen {
			t.Errorf("%d attempts before the probe is due", got-seen)
		}
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		if got := rec.count(); got != seen+1 {
			t.Errorf("%d attempts when the probe is due, want 1", got-seen)
		}
	})
}

// Time in which the breaker is open kills nothing by itself: a delivery ends
// unattempted only when it is past its give-up and a probe failed since.
func TestBreakerAndGiveUp(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, net *pipes) {
		rec := &recorder{tb: t, answer: status(503)}
		net.serve(t, "a", rec)
		r := newRig(t, func(c *Config) { c.Dial = net.dial })
		refs := r.many(200)
		r.run(Target{Name: "a", URL: mustURL(t, "http://a/"), GiveUp: time.Hour, Breaker: Breaker{ProbeMax: 30 * time.Minute}})
		time.Sleep(time.Hour)
		synctest.Wait()
		if got := r.states(refs); got[event.Dead] != 0 {
			t.Errorf("at give-up %v, want none dead", got)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if got := r.states(refs); got[event.Dead] != 200 {
			t.Fatalf("an hour after give-up %v, want all dead", got)
		}
		unattempted := 0
		for _, ref := range refs {
			d := r.delivery(ref, "a")
			if as := r.attempts(ref); len(as) != int(d.Attempts) {
				t.Errorf("%d attempts counted, %d recorded", d.Attempts, len(as))
			}
			if d.Attempts == 0 {
				unattempted++
				if d.LastError != string(event.OutcomeGaveUp) {
					t.Errorf("an unattempted delivery ended with %q", d.LastError)
				}
			}
		}
		if unattempted < 150 {
			t.Errorf("%d deliveries were never attempted, want most", unattempted)
		}
		if got := r.metric("onceward_deliveries_total", "a", "result", "dead"); got != 200 {
			t.Errorf("counted %v dead, want 200", got)
		}
	})
}

// A slow target that answers again finds its deliveries alive, though all are
// past their give-up: each has its attempt.
func TestBreakerClosesAfterGiveUp(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, net *pipes) {
		rec := &recorder{tb: t}
		var bad atomic.Bool
		bad.Store(true)
		rec.answer = func(_ int, w http.ResponseWriter, _ *http.Request) {
			if bad.Load() {
				w.WriteHeader(503)
			}
		}
		net.serve(t, "a", rec)
		r := newRig(t, func(c *Config) { c.Dial = net.dial })
		refs := r.many(200)
		r.run(Target{Name: "a", URL: mustURL(t, "http://a/"), GiveUp: 20 * time.Minute, Breaker: Breaker{Probe: 19 * time.Minute, ProbeMax: time.Hour}})
		time.Sleep(25 * time.Minute) // one failed probe, before the give-up
		bad.Store(false)
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		if got := r.states(refs); got[event.Delivered] != 200 {
			t.Errorf("in the end %v, want all delivered", got)
		}
	})
}

// A status of pause_on pauses the target, and the delivery waits.
func TestPauseOn(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, net *pipes) {
		rec := &recorder{tb: t, answer: func(n int, w http.ResponseWriter, _ *http.Request) {
			if n == 3 {
				w.WriteHeader(410)
			}
		}}
		net.serve(t, "a", rec)
		mem := ledgertest.NewMemory(ledgertest.Config{})
		dial := func(c *Config) { c.Dial = net.dial }
		tgt := Target{Name: "a", URL: mustURL(t, "http://a/"), Concurrency: 1, PauseOn: []int{410}}
		r := rigOn(t, mem, dial)
		refs := r.many(10)
		r.run(tgt)
		time.Sleep(time.Hour)
		synctest.Wait()
		if got := rec.count(); got != 3 {
			t.Fatalf("%d attempts, want 3", got)
		}
		if d := r.delivery(refs[2], "a"); d.State != event.Pending || d.Attempts != 1 || d.LastStatus != 410 {
			t.Errorf("the delivery it answered 410 to = %+v, want pending", d)
		}
		s := r.f.Status()[0]
		if !s.Paused || s.PausedBy != "gateway" || s.PauseReason != "the target answered 410" {
			t.Errorf("status = %+v", s)
		}
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		r = rigOn(t, mem.Reopen(), dial)
		r.run(tgt)
		time.Sleep(time.Hour)
		synctest.Wait()
		if got := rec.count(); got != 3 {
			t.Errorf("%d attempts after a restart, want still 3", got)
		}
		if err := r.f.Resume(t.Context(), "a", dedupe.By{Actor: "ann", Reason: "mended"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := r.states(refs)[event.Delivered]; got != 10 || rec.count() != 11 {
			t.Errorf("%d delivered after %d requests, want 10 and 11", got, rec.count())
		}
	})
}

// undivided is a fleet in which nothing is divided.
type undivided struct{}

func (undivided) Share() (dedupe.Share, <-chan struct{}) { return dedupe.Share{Part: 1}, nil }

// sickFleet is a target behind a bad deploy that two gateways on one ledger
// serve: how often it was probed in ten minutes, how many of the probes were
// under way at once at most, and how the gateways' breakers stood while the
// second had attempted nothing, and after a probe was answered.
func sickFleet(t *testing.T, net *pipes, fleet Fleet) (probes, most int, open, closed string) {
	var bad atomic.Bool
	var at, top atomic.Int32
	bad.Store(true)
	rec := &recorder{tb: t, answer: func(_ int, w http.ResponseWriter, _ *http.Request) {
		top.Store(max(top.Load(), at.Add(1)))
		time.Sleep(100 * time.Millisecond)
		at.Add(-1)
		if bad.Load() {
			w.WriteHeader(503)
		}
	}}
	net.serve(t, "a", rec)
	mem := ledgertest.NewMemory(ledgertest.Config{})
	edit := func(c *Config) { c.Dial, c.Fleet = net.dial, fleet }
	one, two := rigOn(t, mem, edit), rigOn(t, mem, edit)
	var blind atomic.Bool
	blind.Store(true)
	two.store.lease = func(string) error {
		if blind.Load() {
			return errors.New("busy")
		}
		return nil
	}
	refs := one.many(40)
	tgt := Target{Name: "a", URL: mustURL(t, "http://a/"), Concurrency: 1, Schedule: Schedule{Initial: time.Second, Factor: 1, Max: time.Second}}
	one.run(tgt)
	two.run(tgt)
	time.Sleep(4 * time.Second)
	synctest.Wait()
	open = one.breaker().State + " " + two.breaker().State
	blind.Store(false)
	first := rec.count()
	top.Store(0)
	time.Sleep(10 * time.Minute)
	synctest.Wait()
	probes, most = rec.count()-first, int(top.Load())
	bad.Store(false)
	for start := time.Now(); one.breaker().State != BreakerClosed && two.breaker().State != BreakerClosed && time.Since(start) < time.Hour; {
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
	}
	time.Sleep(3 * time.Second)
	synctest.Wait()
	closed = one.breaker().State + " " + two.breaker().State
	time.Sleep(time.Hour)
	synctest.Wait()
	if got := one.states(refs)[event.Delivered]; got != len(refs) {
		t.Errorf("%d of %d are delivered in the end", got, len(refs))
	}
	return probes, most, open, closed
}

// Of several gateways one probes a sick target, when one alone would have, and
// all know what it learned. Without a fleet, the control, each probes for
// itself.
func TestBreakerOfFleet(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, net *pipes) {
		probes, most, open, closed := sickFleet(t, net, undivided{})
		if open != "open open" || closed != "closed closed" {
			t.Errorf("breakers are %s before the second attempted anything, %s after a probe was answered", open, closed)
		}
		// After 5, 10, 20, 40, 80, 160 and 300 s and the time that each takes.
		if probes < 5 || probes > 6 || most != 1 {
			t.Errorf("%d probes in ten minutes, %d at once; want 6 as of one gateway, one at a time", probes, most)
		}
	})
	bubble(t, func(t *testing.T, net *pipes) {
		if probes, _, open, _ := sickFleet(t, net, nil); probes < 10 || open == "open open" {
			t.Errorf("without a fleet: %d probes, breakers %s: the test can't see that each is on its own", probes, open)
		}
	})
}

// What a gateway has to write of a breaker meets what another wrote meanwhile.
func TestBreakerNotesMeet(t *testing.T) {
	t.Parallel()
	open, failed, closed := breakerNote{Open: true}, breakerNote{Open: true, Probes: 2}, breakerNote{}
	for _, tt := range []struct {
		name         string
		mine, theirs breakerNote
		yields       bool
	}{
		{"both opened", open, open, true},
		{"opened by both, probed by the other", open, failed, true},
		{"opened here, closed before there", open, closed, false},
		{"a probe failed here, another was answered there", failed, closed, true},
		{"a probe was answered here, another failed there", closed, failed, false},
		{"both closed", closed, closed, true},
	} {
		if got := tt.mine.yields(&tt.theirs); got != tt.yields {
			t.Errorf("%s: yields is %v", tt.name, got)
		}
	}
}
