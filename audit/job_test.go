package audit_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onceward/onceward/audit"
	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/dedupe/ledgertest"
	"github.com/onceward/onceward/event"
)

// shop is a ledger with dead deliveries, and a target that takes what is
// opened again at once, so that a delivery opened twice is seen.
type shop struct {
	*ledgertest.Memory
	refs []event.Ref
	// fault, if set, may make a call of Replay fail, before or after it.
	fault func() (before, after error)
}

// Replay is the ledger's, with faults.
func (s *shop) Replay(ctx context.Context, r dedupe.Replay) (dedupe.ReplayCount, error) {
	var before, after error
	if s.fault != nil && !r.DryRun {
		before, after = s.fault()
	}
	if before != nil {
		return dedupe.ReplayCount{}, before
	}
	n, err := s.Memory.Replay(ctx, r)
	if err == nil && !r.DryRun {
		s.deliver(n.Opened)
	}
	return n, errors.Join(err, after)
}

func (s *shop) deliver(n int) {
	for _, target := range []string{"billing", "crm"} {
		ls, _, _ := s.Lease(context.Background(), target, n, time.Minute)
		var rs []*dedupe.Result
		for _, l := range ls {
			rs = append(rs, &dedupe.Result{Lease: l, State: event.Delivered, Attempt: event.Attempt{Event: l.Delivery.Event, Target: target,
				Generation: l.Delivery.Generation, Number: 1, Outcome: event.Outcome2xx, State: event.Delivered}})
		}
		if err := s.Commit(context.Background(), &dedupe.Batch{Results: rs}); err != nil {
			panic(err)
		}
	}
}

// newShop accepts n events for two targets and lets every delivery die.
func newShop(t *testing.T, n int) *shop {
	t.Helper()
	s := &shop{Memory: ledgertest.NewMemory(ledgertest.Config{Now: time.Now, Writer: 1})}
	for i := range n {
		r := &dedupe.Request{Body: []byte("{}"), Items: []dedupe.Item{{Event: event.Event{Source: "shop", ID: fmt.Sprint("evt_", i), ReceivedAt: time.Now(),
			BodyHash: event.HashOf([]byte("{}")), Body: event.Slice{Length: 2}, Targets: []string{"billing", "crm"}}}}}
		if err := s.Commit(t.Context(), &dedupe.Batch{Requests: []*dedupe.Request{r}}); err != nil {
			t.Fatal(err)
		}
		s.refs = append(s.refs, r.Outcomes[0].Ref)
	}
	for _, target := range []string{"billing", "crm"} {
		ls, _, _ := s.Lease(t.Context(), target, n, time.Minute)
		for _, l := range ls {
			res := &dedupe.Result{Lease: l, State: event.Dead, Attempt: event.Attempt{Event: l.Delivery.Event, Target: target, Number: 1, Status: 500, Outcome: event.Outcome5xx, State: event.Dead}}
			if err := s.Commit(t.Context(), &dedupe.Batch{Results: []*dedupe.Result{res}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	return s
}

func (s *shop) jobs(t *testing.T, change func(*audit.JobsConfig)) *audit.Jobs {
	t.Helper()
	cfg := audit.JobsConfig{Keeper: s, Notes: s, Alone: true}
	if change != nil {
		change(&cfg)
	}
	j, err := audit.NewJobs(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// running runs jobs until stop is called.
func running(j *audit.Jobs) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = j.Run(ctx) })
	return func() { cancel(); wg.Wait() }
}

// generations counts deliveries by generation.
func (s *shop) generations(t *testing.T) map[uint16]int {
	t.Helper()
	out := map[uint16]int{}
	for _, ref := range s.refs {
		rec, err := s.Get(t.Context(), ref)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range rec.Deliveries {
			out[d.Generation]++
		}
	}
	return out
}

var ann = dedupe.By{Actor: "ann", Reason: "fixed"}

func start(t *testing.T, j *audit.Jobs, a audit.Args, rate string) audit.Job {
	t.Helper()
	r, err := audit.ParseRate(rate)
	if err != nil {
		t.Fatal(err)
	}
	job, err := j.Start(t.Context(), a, audit.Replay{By: ann}, r)
	if err != nil {
		t.Fatal(err)
	}
	return job
}

func look(t *testing.T, j *audit.Jobs, id string) audit.Job {
	t.Helper()
	job, err := j.Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return job
}

// TestJobRate: the count is exact before the first delivery is opened, and
// they are opened at the rate, no faster.
func TestJobRate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newShop(t, 150)
		time.Sleep(time.Second) // of the bubble's clock: what came before the job is before it
		j := s.jobs(t, nil)
		stop := running(j)
		defer stop()
		job := start(t, j, audit.Args{State: "dead", Target: "billing"}, "20/s")
		if job.State != audit.JobCounting || job.Total != nil {
			t.Errorf("a new job is %+v, want counting", job)
		}
		begun := time.Now()
		for at := time.Duration(0); at < 7*time.Second; at += 500 * time.Millisecond {
			time.Sleep(500 * time.Millisecond)
			synctest.Wait()
			got := look(t, j, job.ID)
			if got.Total == nil || got.Total.Opened != 150 || got.Total.Bytes != 300 {
				t.Fatalf("total %+v, want 150 deliveries of 300 bytes", got.Total)
			}
			if most := 20*time.Since(begun).Seconds() + 5; float64(got.Opened) > most || float64(got.Opened) < most-15 {
				t.Errorf("%d opened after %v, want about %v", got.Opened, time.Since(begun), most)
			}
			if left, ok := got.Left(); !ok || left > 8*time.Second {
				t.Errorf("%v left after %v, known: %v", left, time.Since(begun), ok)
			}
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		got := look(t, j, job.ID)
		if got.State != audit.JobDone || got.Opened != 150 || got.Events != 150 || got.EndedAt.IsZero() {
			t.Errorf("at the end %+v, want 150 opened", got)
		}
		if g := s.generations(t); g[1] != 150 || g[0] != 150 {
			t.Errorf("deliveries by generation %v, want one target's in the first", g)
		}
	})
}

// TestJobSurvives: a job that is stopped and started anywhere, with calls that
// fail before or after they took effect, opens every delivery exactly once,
// and its account is exact.
func TestJobSurvives(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := rand.New(rand.NewPCG(seed, 1))
				s := newShop(t, 300)
				time.Sleep(time.Second)
				faults := rand.New(rand.NewPCG(seed, 2)) // of the one job that works
				s.fault = func() (before, after error) {
					switch faults.IntN(12) {
					case 0:
						return dedupe.ErrDiskLow, nil
					case 1:
						return nil, dedupe.ErrOverloaded // it did take effect
					}
					return nil, nil
				}
				j := s.jobs(t, nil)
				job := start(t, j, audit.Args{Source: "shop"}, []string{"", "100/s"}[seed%2])
				for range 1000 {
					stop := running(j)
					time.Sleep(time.Duration(r.Int64N(int64(400 * time.Millisecond))))
					stop()
					s.Memory = s.Reopen()
					j = s.jobs(t, nil)
					got := look(t, j, job.ID)
					if g := s.generations(t); g[2] != 0 || g[1] != got.Opened {
						t.Fatalf("deliveries by generation %v, and the job says %d", g, got.Opened)
					}
					if !got.State.Open() {
						if got.State != audit.JobDone || got.Opened != 600 || got.Events != 300 || *got.Total != got.JobCount {
							t.Errorf("ended as %+v of %+v", got, got.Total)
						}
						return
					}
				}
				t.Fatalf("not done: %+v", look(t, j, job.ID))
			})
		})
	}
}

// TestJobCancel: once Cancel has returned nothing more is opened, by no
// gateway.
func TestJobCancel(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newShop(t, 100)
		time.Sleep(time.Second)
		j := s.jobs(t, nil)
		stop := running(j)
		defer stop()
		job := start(t, j, audit.Args{State: "dead"}, "10/s")
		time.Sleep(3 * time.Second)
		other := s.jobs(t, nil)
		got, err := other.Cancel(t.Context(), job.ID, dedupe.By{Actor: "bob"})
		if err != nil || got.State != audit.JobCancelled || got.Opened == 0 || got.Opened >= 100 || !strings.Contains(got.Error, "bob") {
			t.Fatalf("cancelled: %+v, %v", got, err)
		}
		before := s.generations(t)[1]
		time.Sleep(time.Minute)
		if after := s.generations(t)[1]; after != before || after != got.Opened {
			t.Errorf("%d opened when it was cancelled (it says %d), %d later", before, got.Opened, after)
		}
		if again, err := j.Cancel(t.Context(), job.ID, ann); err != nil || again.Error != got.Error {
			t.Errorf("cancelled twice: %+v, %v", again, err)
		}
		if j.Busy() != 0 {
			t.Error("a cancelled job is still worked on")
		}
		if _, err := j.Cancel(t.Context(), "replay_none", ann); !errors.Is(err, dedupe.ErrNotFound) {
			t.Errorf("cancel of none: %v", err)
		}
	})
}

// TestJobsShared: of two gateways one works on a job, and when it is not heard
// of any more the other goes on.
func TestJobsShared(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newShop(t, 200)
		time.Sleep(time.Second)
		apart := func(c *audit.JobsConfig) { c.Alone = false }
		a, b := s.jobs(t, apart), s.jobs(t, apart)
		stopA := running(a)
		job := start(t, a, audit.Args{State: "dead"}, "10/s")
		time.Sleep(2 * time.Second)
		stopB := running(b)
		defer stopB()
		time.Sleep(5 * time.Second)
		if a.Busy() != 1 || b.Busy() != 0 {
			t.Fatalf("busy: %d and %d, want the first alone", a.Busy(), b.Busy())
		}
		stopA()
		at := look(t, b, job.ID).Opened
		time.Sleep(5 * time.Second)
		if b.Busy() != 0 || look(t, b, job.ID).Opened != at {
			t.Error("the second goes on while the first may be back")
		}
		time.Sleep(2 * time.Minute)
		if got := look(t, b, job.ID); got.State != audit.JobDone || got.Opened != 400 {
			t.Errorf("after the takeover %+v", got)
		}
		if g := s.generations(t); g[1] != 400 {
			t.Errorf("deliveries by generation %v", g)
		}
	})
}

func TestJobOptions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newShop(t, 10)
		time.Sleep(time.Second)
		var told atomic.Int64
		j := s.jobs(t, func(c *audit.JobsConfig) {
			c.Told = func(n int) { told.Add(int64(n)) }
			c.Route = func(*event.Event, func() ([]byte, error)) []string { return []string{"added"} }
		})
		stop := running(j)
		defer stop()
		one, err := j.Start(t.Context(), audit.Args{State: "dead", Since: "1h"}, audit.Replay{Target: "crm", NewKey: true, By: ann}, audit.JobRate{})
		if err != nil {
			t.Fatal(err)
		}
		two, err := j.Start(t.Context(), audit.Args{Source: "shop"}, audit.Replay{By: ann, Reroute: func(*event.Event, func() ([]byte, error)) []string { return nil }}, audit.JobRate{})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		if got := look(t, j, one.ID); got.State != audit.JobDone || got.Opened != 10 || got.Filter.Since != "" || got.Filter.From == "" || got.Filter.To == "" || got.By() != ann {
			t.Errorf("job %+v, want 10 opened and absolute times", got)
		}
		if got := look(t, j, two.ID); got.State != audit.JobDone || got.Opened != 10 || !got.Reroute {
			t.Errorf("rerouting job %+v", got)
		}
		rec, err := s.Get(t.Context(), s.refs[0])
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range rec.Deliveries {
			if want := d.Target == "crm"; d.NewKey != want || (d.Generation == 1) != (want || d.Target == "added") {
				t.Errorf("delivery %+v", d)
			}
		}
		if told.Load() != 20 {
			t.Errorf("told of %d, want 20", told.Load())
		}
		jobs, err := j.List(t.Context())
		if err != nil || len(jobs) != 2 || !slices.IsSortedFunc(jobs, func(a, b audit.Job) int { return strings.Compare(b.ID, a.ID) }) {
			t.Errorf("list %+v, %v", jobs, err)
		}
	})
}

// TestJobSelectsWhatWas: events accepted after a job was made are not in it.
func TestJobSelectsWhatWas(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newShop(t, 10)
		time.Sleep(time.Second)
		j := s.jobs(t, nil)
		job := start(t, j, audit.Args{Source: "shop"}, "")
		time.Sleep(time.Second)
		r := &dedupe.Request{Items: []dedupe.Item{{Event: event.Event{Source: "shop", ID: "late", ReceivedAt: time.Now(), BodyHash: event.HashOf(nil), Targets: []string{"billing"}}}}}
		if err := s.Commit(t.Context(), &dedupe.Batch{Requests: []*dedupe.Request{r}}); err != nil {
			t.Fatal(err)
		}
		stop := running(j)
		time.Sleep(5 * time.Second)
		stop()
		if got := look(t, j, job.ID); got.State != audit.JobDone || got.Events != 10 || got.Open != 0 {
			t.Errorf("job %+v, want the ten events that were there", got)
		}
	})
}

func TestJobBounds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newShop(t, 5)
		time.Sleep(time.Second)
		j := s.jobs(t, nil)
		var inv *audit.InvalidError
		for _, a := range []audit.Args{{}, {State: "gone"}, {Since: "soon"}} {
			if _, err := j.Start(t.Context(), a, audit.Replay{}, audit.JobRate{}); !errors.As(err, &inv) {
				t.Errorf("%+v: %v, want what is wrong", a, err)
			}
		}
		if _, err := j.Start(t.Context(), audit.Args{Source: "shop"}, audit.Replay{Reroute: func(*event.Event, func() ([]byte, error)) []string { return nil }}, audit.JobRate{}); !errors.As(err, &inv) {
			t.Errorf("rerouting without routes: %v", err)
		}
		for range audit.MaxJobs {
			start(t, j, audit.Args{State: "dead"}, "")
		}
		if _, err := j.Start(t.Context(), audit.Args{State: "dead"}, audit.Replay{}, audit.JobRate{}); !errors.Is(err, audit.ErrJobs) {
			t.Errorf("one job too many: %v", err)
		}
		stop := running(j)
		time.Sleep(5 * time.Second)
		stop()
		for range 120 { // those that ended are forgotten, the oldest first
			job := start(t, j, audit.Args{State: "dead"}, "")
			if _, err := j.Cancel(t.Context(), job.ID, ann); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Millisecond)
		}
		jobs, err := j.List(t.Context())
		if err != nil || len(jobs) > 102 || jobs[0].State != audit.JobCancelled {
			t.Errorf("%d jobs are kept, %v", len(jobs), err)
		}
	})
}

// TestJobFails: a fault that stays ends the job, and says why; meanwhile it is
// shown.
func TestJobFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newShop(t, 5)
		time.Sleep(time.Second)
		s.fault = func() (before, after error) { return dedupe.ErrDiskLow, nil }
		j := s.jobs(t, nil)
		stop := running(j)
		defer stop()
		job := start(t, j, audit.Args{State: "dead"}, "")
		time.Sleep(20 * time.Second)
		if got := look(t, j, job.ID); got.State != audit.JobRunning || got.Error != dedupe.ErrDiskLow.Error() {
			t.Errorf("while the disk is low: %+v", got)
		}
		time.Sleep(time.Hour)
		if got := look(t, j, job.ID); got.State != audit.JobFailed || got.Error == "" || got.Opened != 0 {
			t.Errorf("an hour later: %+v", got)
		}
		var tries atomic.Int64
		s.fault = func() (before, after error) {
			if tries.Add(1) < 4 {
				return fmt.Errorf("%w: too much", dedupe.ErrTooLarge), nil
			}
			return nil, nil
		}
		job = start(t, j, audit.Args{State: "dead"}, "")
		time.Sleep(10 * time.Second)
		if got := look(t, j, job.ID); got.State != audit.JobDone || got.Opened != 10 {
			t.Errorf("in smaller parts: %+v", got)
		}
	})
}

func TestParseRate(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]audit.JobRate{"": {}, "20/s": {Count: 20, Per: time.Second}, "300/m": {Count: 300, Per: time.Minute}, "1/h": {Count: 1, Per: time.Hour}} {
		got, err := audit.ParseRate(s)
		if err != nil || got != want || got.String() != s {
			t.Errorf("%q is %+v (%s), %v", s, got, got, err)
		}
	}
	for _, s := range []string{"20", "0/s", "-1/s", "1.5/s", "20/d", "20/", "/s", "9999999/s", "20/s "} {
		if r, err := audit.ParseRate(s); err == nil {
			t.Errorf("%q is read as %+v", s, r)
		}
	}
}
