package forward

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/dedupe/ledgertest"
	"github.com/onceward/onceward/event"
)

func pullTarget(edit func(*Target)) Target {
	t := Target{Name: "desk", Pull: true, Schedule: Schedule{Initial: 10 * time.Second, Factor: 2, Max: time.Hour, Steady: 1}}
	if edit != nil {
		edit(&t)
	}
	return t
}

func (r *rig) pull(n int, ttl, wait time.Duration) []Pulled {
	r.tb.Helper()
	got, err := r.f.Pull(context.Background(), "desk", n, ttl, wait)
	if err != nil {
		r.tb.Fatal(err)
	}
	return got
}

// pulling runs a rig with one pulled target in a bubble.
func pulling(t *testing.T, edit func(*Target), f func(t *testing.T, r *rig)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.run(pullTarget(edit))
		synctest.Wait()
		f(t, r)
	})
}

// A pulled delivery is what a request would have been; an ack closes it, and
// is one attempt.
func TestPullAck(t *testing.T) {
	pulling(t, nil, func(t *testing.T, r *rig) {
		ref := r.admit(event.Event{Targets: []string{"desk"}, Type: "paid", Key: "shop:evt_1",
			Header: []event.Field{{Name: "X-Shop", Value: "7"}, {Name: "Cookie", Value: "c"}, {Name: "Onceward-Event", Value: "forged"}}}, `{"n":1}`)
		got := r.pull(10, 30*time.Second, 0)
		if len(got) != 1 {
			t.Fatalf("%d pulled, want 1", len(got))
		}
		p := got[0]
		if string(p.Body) != `{"n":1}` || p.Method != "POST" || p.Event.Ref != ref || len(p.Lease) < 22 || !p.Until.Equal(time.Now().Add(30*time.Second)) {
			t.Errorf("pulled %+v", p)
		}
		for name, want := range map[string]string{"Idempotency-Key": "shop:evt_1", "Onceward-Event": ref.String(), "Onceward-Attempt": "1", "X-Shop": "7", "Cookie": ""} {
			if got := p.Header.Get(name); got != want {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		}
		if again := r.pull(10, 30*time.Second, 0); len(again) != 0 {
			t.Fatalf("leased twice: %+v", again)
		}
		if d := r.delivery(ref, "desk"); d.State != event.Leased {
			t.Errorf("state %s while it is out", d.State)
		}
		time.Sleep(5 * time.Second)
		if err := r.f.PullAck(t.Context(), "other", p.Lease); !errors.Is(err, ErrLeaseLost) {
			t.Errorf("an ack at another target: %v", err)
		}
		if err := r.f.PullAck(t.Context(), "desk", p.Lease); err != nil {
			t.Fatal(err)
		}
		if err := r.f.PullAck(t.Context(), "desk", p.Lease); !errors.Is(err, ErrLeaseLost) {
			t.Errorf("acked twice: %v", err)
		}
		if d := r.delivery(ref, "desk"); d.State != event.Delivered || d.Attempts != 1 || d.LastError != "" {
			t.Errorf("delivery %+v", d)
		}
		as := r.attempts(ref)
		if len(as) != 1 || as[0].Outcome != event.OutcomeAcked || as[0].Duration != 5*time.Second || as[0].State != event.Delivered || as[0].Number != 1 {
			t.Errorf("attempts %+v", as)
		}
		if n := r.metric("onceward_delivery_attempts_total", "desk", "outcome", "acked"); n != 1 {
			t.Errorf("counted %v", n)
		}
		s := r.f.Status()[0]
		if s.Site != "pull" || s.InFlight != 0 || s.LastSuccess.IsZero() {
			t.Errorf("status %+v", s)
		}
	})
}

// A nack, and a lease that runs out, are failed attempts under the target's
// schedule and give-up.
func TestPullFailures(t *testing.T) {
	pulling(t, func(t *Target) { t.GiveUp = 5 * time.Minute }, func(t *testing.T, r *rig) {
		ref := r.admit(event.Event{Targets: []string{"desk"}}, "{}")
		opened := time.Now()
		p := r.pull(1, 20*time.Second, 0)[0]
		if err := r.f.PullNack(t.Context(), "desk", p.Lease, Nack{Reason: "till is closed " + strings.Repeat("é", 200)}); err != nil {
			t.Fatal(err)
		}
		if got := r.pull(1, time.Second, 9999*time.Millisecond); len(got) != 0 {
			t.Fatal("before its pause")
		}
		got := r.pull(1, 20*time.Second, time.Minute)
		if len(got) != 1 || time.Since(opened) != 10*time.Second || got[0].Delivery.Attempts != 1 {
			t.Fatalf("%d pulled after %v, want one after 10s", len(got), time.Since(opened))
		}
		if key := got[0].Header.Get("Idempotency-Key"); key != p.Header.Get("Idempotency-Key") {
			t.Errorf("key %q, was %q", key, p.Header.Get("Idempotency-Key"))
		}
		got2 := r.pull(1, 20*time.Second, time.Hour) // it runs out at 30 s, and waits 20 s
		if len(got2) != 1 || time.Since(opened) != 50*time.Second {
			t.Fatalf("%d pulled after %v, want one after 50s", len(got2), time.Since(opened))
		}
		if err := r.f.PullAck(t.Context(), "desk", got[0].Lease); !errors.Is(err, ErrLeaseLost) {
			t.Errorf("ack of a lease that ran out: %v", err)
		}
		if err := r.f.PullNack(t.Context(), "desk", got2[0].Lease, Nack{Delay: 3 * time.Minute}); err != nil {
			t.Fatal(err)
		}
		got = r.pull(1, 20*time.Second, time.Hour)
		if len(got) != 1 || time.Since(opened) != 230*time.Second {
			t.Fatalf("%d pulled after %v, want one after 50s and 3m", len(got), time.Since(opened))
		}
		if err := r.f.PullNack(t.Context(), "desk", got[0].Lease, Nack{}); err != nil {
			t.Fatal(err)
		}
		last := r.pull(1, 20*time.Second, time.Hour)
		if len(last) != 1 || time.Since(opened) != 5*time.Minute {
			t.Fatalf("%d pulled after %v, want the last attempt at give-up", len(last), time.Since(opened))
		}
		if err := r.f.PullNack(t.Context(), "desk", last[0].Lease, Nack{}); err != nil {
			t.Fatal(err)
		}
		if d := r.delivery(ref, "desk"); d.State != event.Dead || d.Attempts != 5 {
			t.Errorf("delivery %+v, want dead after 5", d)
		}
		var outcomes []string
		for _, a := range r.attempts(ref) {
			outcomes = append(outcomes, fmt.Sprint(a.Outcome, "/", a.RetryIn, "/", len(a.Error)))
		}
		want := "[nacked/10s/199 timeout/20s/34 nacked/3m0s/0 nacked/1m10s/0 nacked/0s/0]"
		if got := fmt.Sprint(outcomes); got != want {
			t.Errorf("attempts %s, want %s", got, want)
		}
		dead := r.admit(event.Event{Targets: []string{"desk"}}, "{}")
		if err := r.f.PullNack(t.Context(), "desk", r.pull(1, time.Second, 0)[0].Lease, Nack{Dead: true, Reason: "no such till"}); err != nil {
			t.Fatal(err)
		}
		if d := r.delivery(dead, "desk"); d.State != event.Dead || d.Attempts != 1 {
			t.Errorf("delivery %+v, want dead at once", d)
		}
	})
}

func TestPullExtend(t *testing.T) {
	pulling(t, nil, func(t *testing.T, r *rig) {
		ref := r.admit(event.Event{Targets: []string{"desk"}}, "{}")
		p := r.pull(1, 10*time.Second, 0)[0]
		for range 20 {
			time.Sleep(8 * time.Second)
			until, err := r.f.PullExtend(t.Context(), "desk", p.Lease, 10*time.Second)
			if err != nil || !until.Equal(time.Now().Add(10*time.Second)) {
				t.Fatalf("extended to %v, %v", until, err)
			}
			if got := r.pull(1, time.Second, 0); len(got) != 0 {
				t.Fatal("leased twice")
			}
		}
		if err := r.f.PullAck(t.Context(), "desk", p.Lease); err != nil {
			t.Fatal(err)
		}
		if _, err := r.f.PullExtend(t.Context(), "desk", p.Lease, time.Second); !errors.Is(err, ErrLeaseLost) {
			t.Errorf("extended after its ack: %v", err)
		}
		if d := r.delivery(ref, "desk"); d.State != event.Delivered || d.Attempts != 1 {
			t.Errorf("delivery %+v", d)
		}
	})
}

// Those who wait are woken by an event, a resume, a place that becomes free,
// and a stop.
func TestPullWaits(t *testing.T) {
	pulling(t, func(t *Target) { t.Concurrency = 2 }, func(t *testing.T, r *rig) {
		type answer struct {
			n   int
			at  time.Duration
			err error
		}
		begun := time.Now()
		answers := make(chan answer, 10)
		ask := func(n int) {
			go func() {
				got, err := r.f.Pull(t.Context(), "desk", n, time.Hour, 30*time.Minute)
				answers <- answer{len(got), time.Since(begun), err}
			}()
			synctest.Wait()
		}
		want := func(n int, at time.Duration, err error) {
			t.Helper()
			if got := <-answers; got.n != n || got.at != at || !errors.Is(got.err, err) {
				t.Errorf("%d pulled after %v, %v; want %d after %v, %v", got.n, got.at, got.err, n, at, err)
			}
		}
		ask(1)
		ask(1)
		ask(1)
		time.Sleep(time.Minute)
		for range 3 { // one place too few
			r.admit(event.Event{Targets: []string{"desk"}}, "{}")
		}
		want(1, time.Minute, nil)
		want(1, time.Minute, nil)
		time.Sleep(time.Minute)
		r.f.pulls.mu.Lock()
		var tokens []string
		for token := range r.f.pulls.held {
			tokens = append(tokens, token)
		}
		r.f.pulls.mu.Unlock()
		if err := r.f.PullAck(t.Context(), "desk", tokens[0]); err != nil {
			t.Fatal(err)
		}
		want(1, 2*time.Minute, nil)
		if err := r.f.PullAck(t.Context(), "desk", tokens[1]); err != nil {
			t.Fatal(err)
		}
		if err := r.f.Pause(t.Context(), "desk", dedupe.By{Actor: "ann"}); err != nil {
			t.Fatal(err)
		}
		r.admit(event.Event{Targets: []string{"desk"}}, "{}")
		ask(1)
		time.Sleep(time.Minute)
		if err := r.f.Resume(t.Context(), "desk", dedupe.By{Actor: "ann"}); err != nil {
			t.Fatal(err)
		}
		want(1, 3*time.Minute, nil)
		ask(1) // no place
		time.Sleep(30 * time.Minute)
		want(0, 33*time.Minute, nil)
		ask(1)
		go func() { _ = r.stop() }()
		want(0, 33*time.Minute, ErrStopping)
		time.Sleep(time.Hour)
	})
}

// A stop leaves time for acks, then ends what is out as interrupted, due at
// once; a restart gives it out again, and old tokens mean nothing.
func TestPullStop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		mem := ledgertest.NewMemory(ledgertest.Config{})
		r := rigOn(t, mem, nil)
		r.run(pullTarget(nil))
		synctest.Wait()
		a := r.admit(event.Event{Targets: []string{"desk"}}, "{}")
		b := r.admit(event.Event{Targets: []string{"desk"}}, "{}")
		got := r.pull(2, time.Hour, 0)
		stopped := make(chan error, 1)
		begun := time.Now()
		go func() { stopped <- r.stop() }()
		time.Sleep(5 * time.Second)
		if err := r.f.PullAck(t.Context(), "desk", got[0].Lease); err != nil {
			t.Errorf("an ack while it stops: %v", err)
		}
		if err := <-stopped; err != nil || time.Since(begun) != DefaultDrain {
			t.Errorf("stopped after %v, %v; want the drain's time", time.Since(begun), err)
		}
		if err := r.f.PullAck(t.Context(), "desk", got[1].Lease); !errors.Is(err, ErrLeaseLost) {
			t.Errorf("an ack after it: %v", err)
		}
		if as := r.attempts(b); len(as) != 1 || as[0].Outcome != event.OutcomeInterrupted {
			t.Errorf("attempts %+v, want one interrupted", as)
		}
		r = rigOn(t, mem.Reopen(), nil)
		r.run(pullTarget(nil))
		synctest.Wait()
		if got := r.pull(2, time.Minute, time.Minute); len(got) != 1 || got[0].Event.Ref != b || got[0].Delivery.Attempts != 1 {
			t.Errorf("after a restart %+v, want the second again", got)
		}
		if d := r.delivery(a, "desk"); d.State != event.Delivered {
			t.Errorf("the first is %s", d.State)
		}
		// A kill leaves the attempt as unknown.
		r.f.pulls.mu.Lock()
		r.f.pulls.held = map[string]*pulled{}
		r.f.pulls.mu.Unlock()
		mem = r.store.Reopen()
		_ = r.stop()
		r = rigOn(t, mem, nil)
		r.run(pullTarget(nil))
		synctest.Wait()
		if as := r.attempts(b); len(as) != 2 || as[1].Outcome != event.OutcomeUnknown {
			t.Errorf("attempts after a kill %+v, want one unknown", as)
		}
		if got := r.pull(1, time.Minute, time.Minute); len(got) != 1 || got[0].Delivery.Attempts != 2 {
			t.Errorf("after a kill %+v", got)
		}
	})
}

// TestPullOnce: of many who pull at once, with leases that are acked, given
// back, extended or left to run out, no two hold one delivery, and in the end
// all of them are done.
func TestPullOnce(t *testing.T) {
	pulling(t, func(t *Target) { t.Schedule = Schedule{Initial: time.Second, Factor: 1, Max: time.Second} }, func(t *testing.T, r *rig) {
		const events, pullers = 400, 8
		for range events {
			r.admit(event.Event{Targets: []string{"desk"}}, "{}")
		}
		var mu sync.Mutex
		until, done := map[event.Ref]time.Time{}, map[event.Ref]int{}
		var wg sync.WaitGroup
		for i := range uint64(pullers) {
			wg.Go(func() {
				rnd := rand.New(rand.NewPCG(i, 7))
				for {
					got, err := r.f.Pull(t.Context(), "desk", 1+rnd.IntN(5), 10*time.Second, 30*time.Second)
					if err != nil {
						t.Error(err)
						return
					}
					if len(got) == 0 {
						return
					}
					for _, p := range got {
						ref := p.Event.Ref
						mu.Lock()
						if time.Now().Before(until[ref]) || done[ref] > 0 {
							t.Errorf("%s is held twice, or was done", ref)
						}
						until[ref] = p.Until
						mu.Unlock()
						time.Sleep(time.Duration(rnd.IntN(3)) * time.Second)
						switch rnd.IntN(6) {
						case 0:
							mu.Lock()
							if err := r.f.PullNack(t.Context(), "desk", p.Lease, Nack{}); err == nil {
								until[ref] = time.Time{}
							}
							mu.Unlock()
						case 1: // forgotten
						case 2:
							mu.Lock()
							if to, err := r.f.PullExtend(t.Context(), "desk", p.Lease, 20*time.Second); err == nil {
								until[ref] = to
							}
							mu.Unlock()
						default:
							mu.Lock()
							if err := r.f.PullAck(t.Context(), "desk", p.Lease); err == nil {
								done[ref]++
							} else if !errors.Is(err, ErrLeaseLost) {
								t.Error(err)
							}
							mu.Unlock()
						}
					}
				}
			})
		}
		wg.Wait()
		if len(done) != events {
			t.Errorf("%d of %d done", len(done), events)
		}
	})
}

func TestPullTargets(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.run(pullTarget(nil), Target{Name: "pushed", URL: mustURL(t, "http://127.0.0.1:9/")})
		synctest.Wait()
		for name, want := range map[string]error{"none": dedupe.ErrNotFound, "pushed": ErrNotPulled} {
			if _, err := r.f.Pull(t.Context(), name, 1, time.Second, 0); !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v", name, err, want)
			}
		}
		if _, err := r.f.Test(t.Context(), "desk"); err == nil {
			t.Error("a pulled target is tested")
		}
		if _, err := r.f.Call(t.Context(), "desk", &Call{}); err == nil {
			t.Error("a pulled target is called")
		}
		bad := pullTarget(nil)
		bad.URL = mustURL(t, "http://127.0.0.1:9/")
		if err := r.f.SetTargets([]Target{bad}); err == nil {
			t.Error("a pulled target with a URL is taken")
		}
		// Large bodies come in parts.
		small := pullTarget(func(t *Target) { t.Memory = 100 })
		if err := r.f.SetTargets([]Target{small}); err != nil {
			t.Fatal(err)
		}
		for range 5 {
			r.admit(event.Event{Targets: []string{"desk"}}, strings.Repeat("x", 60))
		}
		total := 0
		for range 5 {
			got := r.pull(10, time.Minute, 0)
			if len(got) > 1 {
				t.Errorf("%d bodies of 60 bytes at once, want what fits 100", len(got))
			}
			total += len(got)
		}
		if total != 5 {
			t.Errorf("%d pulled in all, want 5", total)
		}
		// A reload keeps the leases that are out.
		if err := r.f.SetTargets([]Target{pullTarget(nil)}); err != nil {
			t.Fatal(err)
		}
		r.f.pulls.mu.Lock()
		var token string
		for token = range r.f.pulls.held {
			break
		}
		r.f.pulls.mu.Unlock()
		if err := r.f.PullAck(t.Context(), "desk", token); err != nil {
			t.Errorf("an ack after a reload: %v", err)
		}
	})
}
