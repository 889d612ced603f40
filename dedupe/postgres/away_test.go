package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/dedupe/postgres"
	"github.com/onceward/onceward/dedupe/postgres/pgtest"
	"github.com/onceward/onceward/event"
)

// until waits for a condition.
func until(t *testing.T, what string, met func() bool) {
	t.Helper()
	deadline := time.Now().Add(3 * time.Minute)
	for !met() {
		if time.Now().After(deadline) {
			t.Fatalf("waited three minutes for: %s", what)
		}
		<-time.After(5 * time.Millisecond)
	}
}

func delivered(l dedupe.Lease) *dedupe.Result {
	return &dedupe.Result{Lease: l, State: event.Delivered, Attempt: event.Attempt{Event: l.Delivery.Event, Target: l.Delivery.Target,
		Number: 1, StartedAt: time.Now(), Status: 200, Outcome: event.Outcome2xx, State: event.Delivered}}
}

func keyStep(id string) *dedupe.KeyStep {
	return &dedupe.KeyStep{Kind: dedupe.StepClaim, Key: dedupe.KeyOf(dedupe.KindID, "api", "", id), Claim: &dedupe.KeyClaim{
		Source: "api", ID: id, Target: "pay", Downstream: id, Lease: time.Minute, Window: time.Hour}}
}

// TestLostCommit cuts the connection at the commit of a batch, before it
// arrives or before its answer does: the batch is unknown until contact is
// back, and then known.
func TestLostCommit(t *testing.T) {
	for _, written := range []bool{true, false} {
		t.Run(fmt.Sprint("written ", written), func(t *testing.T) {
			p, cfg := between(t, fresh(t, server(t), options()))
			db := start(t, cfg)
			ctx := t.Context()
			commit := func(b *dedupe.Batch) error { return db.Commit(ctx, b) }
			if err := commit(&dedupe.Batch{Requests: []*dedupe.Request{request("before")}}); err != nil {
				t.Fatal(err)
			}
			ls, _, err := db.Lease(ctx, "billing", 1, time.Minute)
			if err != nil || len(ls) != 1 {
				t.Fatalf("%d leases, %v", len(ls), err)
			}
			p.set(func() {
				p.next, p.after = unspoken, true
				if written {
					p.next = unheard
				}
			})
			req, res, claim := request("lost"), delivered(ls[0]), keyStep("k")
			lost := &dedupe.Batch{Requests: []*dedupe.Request{req}, Results: []*dedupe.Result{res}, Keys: []*dedupe.KeyStep{claim},
				Acts: []*dedupe.Act{{Kind: dedupe.ActOperated, Outcome: "looked", By: dedupe.By{Actor: "test"}}}}
			if err := commit(lost); !errors.Is(err, dedupe.ErrAway) || errors.Is(err, dedupe.ErrFatal) {
				t.Fatalf("commit that was cut: %v, want ErrAway", err)
			}
			if err := commit(&dedupe.Batch{Requests: []*dedupe.Request{request("after")}}); !errors.Is(err, dedupe.ErrAway) {
				t.Errorf("commit while the database is away: %v", err)
			}
			if err := db.Health(ctx); !errors.Is(err, dedupe.ErrAway) {
				t.Errorf("health while the database is away: %v", err)
			}
			if _, err := db.Rejoin(ctx); !errors.Is(err, dedupe.ErrAway) {
				t.Errorf("rejoin while the database is away: %v", err)
			}
			p.set(func() { p.down, p.after = false, false })
			got, err := db.Rejoin(ctx)
			if err != nil || got != written {
				t.Fatalf("rejoin = %v, %v; want %v", got, err, written)
			}
			if err := db.Health(ctx); err != nil {
				t.Errorf("health after it: %v", err)
			}
			if again, err := db.Rejoin(ctx); again || err != nil {
				t.Errorf("a second rejoin = %v, %v; want false: there is no lost batch", again, err)
			}
			_, err = db.SyncKey(ctx, claim.Key)
			if (err == nil) != written {
				t.Errorf("key of the lost batch: %v", err)
			}
			if !written {
				if err := commit(&dedupe.Batch{Results: lost.Results, Acts: lost.Acts}); err != nil || res.Late {
					t.Errorf("results again: %v, late %v", err, res.Late)
				}
			}
			if as, err := db.Attempts(ctx, ls[0].Delivery.Event); err != nil || len(as) != 1 {
				t.Errorf("%d attempts, %v; want one", len(as), err)
			}
			again := request("lost")
			if err := commit(&dedupe.Batch{Requests: []*dedupe.Request{again}}); err != nil {
				t.Fatal(err)
			}
			want := dedupe.New
			if written {
				want = dedupe.Repeat
			}
			if v := again.Outcomes[0].Verdict; v != want {
				t.Errorf("sent again: %v, want %v", v, want)
			}
			if rep, err := db.Check(ctx); err != nil || len(rep.Faults) != 0 {
				t.Errorf("check: %v, %v", rep.Faults, err)
			}
		})
	}
}

// forgetful is a ledger that says of every lost batch that it was not written.
type forgetful struct{ *running }

func (f forgetful) Rejoin(ctx context.Context) (bool, error) {
	_, err := f.running.Rejoin(ctx)
	return false, err
}

// TestCutCommits cuts commits at random under a Writer: nothing that was
// acknowledged is lost, and no attempt is recorded twice or not at all. Two
// controls: who takes a lost commit for a success loses events, and who takes
// it for a failure records attempts twice.
func TestCutCommits(t *testing.T) {
	for _, tt := range []struct {
		name          string
		forget        bool
		acked         func(error) bool
		lost, doubled bool
	}{
		{"as it is", false, func(err error) bool { return err == nil }, false, false},
		{"a lost commit is a success", false, func(err error) bool { return err == nil || errors.Is(err, dedupe.ErrAway) }, true, false},
		{"a lost commit is a failure", true, func(err error) bool { return err == nil }, false, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			lost, doubled, missing := cutCommits(t, tt.forget, tt.acked)
			if (lost > 0) != tt.lost || (doubled > 0) != tt.doubled || missing != 0 {
				t.Errorf("%d acknowledged and lost, %d attempts recorded twice, %d not at all", lost, doubled, missing)
			}
		})
	}
}

func cutCommits(t *testing.T, forget bool, acked func(error) bool) (lost, doubled, missing int) {
	p, cfg := between(t, fresh(t, server(t), options()))
	db := start(t, cfg)
	var committer dedupe.Committer = db
	if forget {
		committer = forgetful{db}
	}
	w, err := dedupe.NewWriter(dedupe.WriterConfig{Ledger: committer})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	rnd := rand.New(rand.NewPCG(1, 2))
	var sent []string
	for n := range 15 {
		if doubled > 0 {
			break
		}
		p.set(func() { p.next = fate(rnd.IntN(3)) })
		id := fmt.Sprint("evt_", n)
		err := w.Accept(ctx, request(id))
		if acked(err) {
			sent = append(sent, id)
		}
		p.set(func() { p.next = passes })
		for w.Away() != nil {
			<-time.After(time.Millisecond)
		}
		ls, _, err := db.Lease(ctx, "billing", 8, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range ls {
			p.set(func() { p.next = fate(rnd.IntN(3)) })
			if err := w.Finish(ctx, delivered(l)); err != nil {
				t.Fatal(err)
			}
		}
		for _, l := range ls {
			as, err := db.Attempts(ctx, l.Delivery.Event)
			if err != nil {
				t.Fatal(err)
			}
			missing, doubled = missing+max(0, 1-len(as)), doubled+max(0, len(as)-1)
		}
	}
	for _, id := range sent {
		refs, err := db.Lookup(ctx, []string{"shop"}, id)
		if err != nil {
			t.Fatal(err)
		}
		if len(refs) == 0 {
			lost++
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	return lost, doubled, missing
}

// TestDatabaseAway stops the database as a crash does under a running gateway
// and starts it again: the gateway lives, says what is the matter, begins no
// attempt meanwhile, and goes on by itself.
func TestDatabaseAway(t *testing.T) {
	c := pgtest.Own(t)
	m := join(t, postgres.Config{URL: c.URL, Migrate: true, MaxConns: 4}, "a")
	ctx := t.Context()
	for n := range 3 {
		if err := m.w.Accept(ctx, request(fmt.Sprint("evt_", n))); err != nil {
			t.Fatal(err)
		}
	}
	ls, _, err := m.Lease(ctx, "billing", 3, time.Hour)
	if err != nil || len(ls) != 3 {
		t.Fatalf("%d leases, %v", len(ls), err)
	}
	if err := m.Begin(ctx, ls[0]); err != nil {
		t.Fatal(err)
	}

	c.Kill()
	for range 100 {
		if err := m.w.Accept(ctx, request("during")); !errors.Is(err, dedupe.ErrAway) || errors.Is(err, dedupe.ErrFatal) {
			t.Fatalf("request while the database is away: %v", err)
		}
	}
	if err := m.w.Step(ctx, keyStep("k")); !errors.Is(err, dedupe.ErrAway) {
		t.Errorf("claim of a key while the database is away: %v", err)
	}
	err = m.Health(ctx)
	if !errors.Is(err, dedupe.ErrAway) || strings.ContainsAny(err.Error(), "\n") || strings.Contains(err.Error(), c.Dir) {
		t.Errorf("health while the database is away: %v; want one sentence", err)
	}
	if err := m.Begin(ctx, ls[1]); !errors.Is(err, dedupe.ErrAway) {
		t.Errorf("an attempt was begun while the database is away: %v", err)
	}
	if _, _, err := m.Lease(ctx, "billing", 1, time.Hour); !errors.Is(err, dedupe.ErrAway) {
		t.Errorf("lease while the database is away: %v", err)
	}
	for name, call := range map[string]func() error{
		"Load":   func() error { _, err := m.Load(ctx, ls[0].Delivery.Event); return err },
		"Get":    func() error { _, err := m.Get(ctx, ls[0].Delivery.Event); return err },
		"Events": func() error { _, err := m.Events(ctx, dedupe.Filter{}, "", 10); return err },
		"Stats":  func() error { _, err := m.Stats(ctx); return err },
		"Notes":  func() error { _, err := m.Notes(ctx, "target"); return err },
		"Replay": func() error { _, err := m.Replay(ctx, dedupe.Replay{}); return err },
		"Cancel": func() error { _, err := m.Cancel(ctx, ls[0].Delivery.Event, "", dedupe.By{}); return err },
	} {
		if err := call(); !errors.Is(err, dedupe.ErrAway) {
			t.Errorf("%s while the database is away: %v, want ErrAway", name, err)
		}
	}
	if err := m.Release(ctx, ls[1], ls[2]); !errors.Is(err, dedupe.ErrAway) {
		t.Errorf("release while the database is away: %v", err)
	}
	res := delivered(ls[0])
	finished := make(chan error, 1)
	go func() { finished <- m.w.Finish(ctx, res) }()
	if _, err := m.Rejoin(ctx); !errors.Is(err, dedupe.ErrAway) {
		t.Errorf("rejoin while the database is away: %v", err)
	}
	select {
	case err := <-finished:
		t.Fatalf("a result was answered while the database is away: %v", err)
	default:
	}

	if err := c.Restart(); err != nil {
		t.Fatal(err)
	}
	if err := <-finished; err != nil || res.Late {
		t.Errorf("result after the outage: %v, late %v", err, res.Late)
	}
	until(t, "requests to be accepted", func() bool { return m.w.Accept(ctx, request("after")) == nil })
	if err := m.Health(ctx); err != nil {
		t.Errorf("health after the outage: %v", err)
	}
	back := map[event.Ref]bool{}
	until(t, "leases to be given back", func() bool {
		got, _, err := m.Lease(ctx, "billing", 10, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range got {
			back[l.Delivery.Event] = true
		}
		return back[ls[1].Delivery.Event] && back[ls[2].Delivery.Event]
	})
	if as, err := m.Attempts(ctx, ls[0].Delivery.Event); err != nil || len(as) != 1 {
		t.Errorf("%d attempts, %v; want one", len(as), err)
	}
	if err := m.end(); err != nil {
		t.Errorf("the group commit ended with %v", err)
	}
}

// TestStandby turns the database into a read-only standby under a running
// gateway, as a failover does that the connection does not follow, and then
// into the primary.
func TestStandby(t *testing.T) {
	c := pgtest.Own(t)
	cfg := postgres.Config{URL: c.URL, Migrate: true, MaxConns: 4}
	m := join(t, cfg, "a")
	ctx := t.Context()
	if err := m.w.Accept(ctx, request("before")); err != nil {
		t.Fatal(err)
	}
	if err := c.Standby(); err != nil {
		t.Fatal(err)
	}
	until(t, "the standby to be recognised", func() bool {
		err := m.w.Accept(ctx, request("during"))
		if err == nil {
			t.Fatal("a standby accepted an event")
		}
		return errors.Is(err, dedupe.ErrAway) && errors.Is(err, postgres.ErrStandby)
	})
	until(t, "health to say so", func() bool {
		err := m.Health(ctx)
		if err == nil {
			t.Fatal("a standby is healthy")
		}
		return errors.Is(err, postgres.ErrStandby)
	})
	cfg.Name = "b"
	if _, err := postgres.Open(ctx, cfg); !errors.Is(err, postgres.ErrStandby) {
		t.Errorf("open on a standby: %v", err)
	}
	var promoted bool
	ask(t, cfg, "SELECT pg_promote()", &promoted)
	until(t, "requests to be accepted", func() bool { return m.w.Accept(ctx, request("after")) == nil })
	if st, err := m.Stats(ctx); err != nil || st.Events != 2 {
		t.Errorf("%d events, %v; want 2", st.Events, err)
	}
}

// TestSlowDatabase holds a lock that every batch needs: what waits stays
// bounded, senders are told to come back, results are kept, and it ends with
// the lock.
func TestSlowDatabase(t *testing.T) {
	cfg := fresh(t, server(t), options())
	cfg.Lock, cfg.Statement = 50*time.Millisecond, 2*time.Second
	db := start(t, cfg)
	const queue = 16
	reg := prometheus.NewRegistry()
	w, err := dedupe.NewWriter(dedupe.WriterConfig{Ledger: db, Queue: queue, Registerer: reg})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	if err := w.Accept(ctx, request("before")); err != nil {
		t.Fatal(err)
	}
	ls, _, err := db.Lease(ctx, "billing", 1, time.Hour)
	if err != nil || len(ls) != 1 {
		t.Fatalf("%d leases, %v", len(ls), err)
	}
	conn, err := pgx.Connect(ctx, cfg.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, "BEGIN; SELECT FROM "+cfg.Schema+".gateways FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	res := delivered(ls[0])
	finished := make(chan error, 1)
	go func() { finished <- w.Finish(ctx, res) }()
	var wg sync.WaitGroup
	for n := range 8 * queue {
		wg.Go(func() {
			if err := w.Accept(ctx, request(fmt.Sprint("evt_", n))); !errors.Is(err, dedupe.ErrOverloaded) {
				t.Errorf("request while the database is slow: %v, want ErrOverloaded", err)
			}
			if n := gauge(t, reg, "onceward_store_queue_requests"); n > queue {
				t.Errorf("%v requests wait, want at most %d", n, queue)
			}
		})
	}
	wg.Wait()
	select {
	case err := <-finished:
		t.Fatalf("a result was answered while the lock stood: %v", err)
	default:
	}
	if _, err := conn.Exec(ctx, "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	if err := <-finished; err != nil || res.Late {
		t.Errorf("result after the lock: %v, late %v", err, res.Late)
	}
	until(t, "requests to be accepted", func() bool { return w.Accept(ctx, request("after")) == nil })
	cancel()
	if err := <-done; err != nil {
		t.Errorf("the group commit ended with %v", err)
	}
}

func gauge(t *testing.T, reg *prometheus.Registry, name string) float64 {
	all, err := reg.Gather()
	if err != nil {
		t.Error(err)
	}
	for _, f := range all {
		if f.GetName() == name {
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	t.Errorf("no metric %s", name)
	return 0
}

// TestCommitWithoutStandby has the wait for a synchronous standby cancelled. The
// database then calls the commit a success, with a warning, which must not
// become an acknowledgement.
func TestCommitWithoutStandby(t *testing.T) {
	c := pgtest.Own(t)
	cfg := postgres.Config{URL: c.URL, Migrate: true, MaxConns: 4}
	m := join(t, cfg, "a")
	ctx := t.Context()
	if err := m.w.Accept(ctx, request("before")); err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(ctx, cfg.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, "CREATE TABLE waits (n int)"); err != nil {
		t.Fatal(err)
	}
	var ok bool
	ask(t, cfg, "ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
	ask(t, cfg, "SELECT pg_reload_conf()", &ok)
	// cancelled runs write, whose commit waits for nobody, and cancels the wait.
	// It also says whether there was one.
	cancelled := func(write func() error) (waited bool, err error) {
		done := make(chan error, 1)
		go func() { done <- write() }()
		until(t, "a wait for a standby to be cancelled", func() bool {
			var n int
			ask(t, cfg, "SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity WHERE wait_event = 'SyncRep'", &n)
			waited = waited || n > 0
			select {
			case err = <-done:
				return true
			default:
				return false
			}
		})
		return waited, err
	}
	// The control; the first ones may be before the server has read its settings.
	until(t, "commits to wait for a standby", func() bool {
		waited, err := cancelled(func() error { _, err := conn.Exec(ctx, "INSERT INTO waits VALUES (1)"); return err })
		if err != nil {
			t.Fatalf("the control: the database called its commit %v, want a success", err)
		}
		return waited
	})
	if _, err := cancelled(func() error { return m.w.Accept(ctx, request("unsafe")) }); !errors.Is(err, dedupe.ErrAway) {
		t.Errorf("a commit that is on no standby: %v, want ErrAway", err)
	}
	ask(t, cfg, "ALTER SYSTEM RESET synchronous_standby_names")
	ask(t, cfg, "SELECT pg_reload_conf()", &ok)
	var again *dedupe.Request
	until(t, "requests to be accepted", func() bool {
		again = request("unsafe")
		return m.w.Accept(ctx, again) == nil
	})
	if v := again.Outcomes[0].Verdict; v != dedupe.Repeat {
		t.Errorf("sent again: %v, want repeat: it had been committed", v)
	}
}

// TestDatabaseWentBack holds that a gateway does not go on with a database that
// has lost what it had committed.
func TestDatabaseWentBack(t *testing.T) {
	cfg := fresh(t, server(t), options())
	m := join(t, cfg, "a")
	for _, id := range []string{"one", "two"} {
		if err := m.w.Accept(t.Context(), request(id)); err != nil {
			t.Fatal(err)
		}
	}
	ask(t, cfg, "UPDATE "+cfg.Schema+".gateways SET batches = batches - 1")
	if err := m.w.Accept(t.Context(), request("three")); !errors.Is(err, dedupe.ErrFatal) || !strings.Contains(err.Error(), "has lost transactions") {
		t.Errorf("accept on a database that went back: %v", err)
	}
}

// TestUnheardLeases cuts the connection at the answer to a lease: what was
// granted is given back when contact is, and what was leased before stands. The
// control is a gateway without its rounds, in whose name it stands.
func TestUnheardLeases(t *testing.T) {
	p, cfg := between(t, fresh(t, server(t), options()))
	db, err := postgres.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	other := cfg
	other.Name, other.URL = "two", server(t)
	second := start(t, other)
	ctx := t.Context()
	var reqs []*dedupe.Request
	for i := range 20 {
		reqs = append(reqs, request(fmt.Sprint("evt_", i)))
	}
	if err := db.Commit(ctx, &dedupe.Batch{Requests: reqs}); err != nil {
		t.Fatal(err)
	}
	take := func(l interface {
		Lease(context.Context, string, int, time.Duration) ([]dedupe.Lease, time.Time, error)
	}, n int) []dedupe.Lease {
		t.Helper()
		ls, _, err := l.Lease(ctx, "billing", n, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		return ls
	}
	known := take(db, 5)
	others := take(second, 3)
	ended := take(db, 2)
	if err := db.Commit(ctx, &dedupe.Batch{Results: []*dedupe.Result{delivered(ended[0])}}); err != nil {
		t.Fatal(err)
	}
	if err := db.Release(ctx, ended[1]); err != nil {
		t.Fatal(err)
	}
	p.set(func() { p.next, p.text, p.after = unheard, []byte("SKIP LOCKED"), true })
	if ls, _, err := db.Lease(ctx, "billing", 100, time.Hour); !errors.Is(err, dedupe.ErrAway) {
		t.Fatalf("a lease whose answer is lost: %d, %v; want ErrAway", len(ls), err)
	}
	p.set(func() { p.down, p.after = false, false })
	if ls := take(second, 100); len(ls) != 0 {
		t.Fatalf("the other gateway got %d leases: none was granted unheard, and the test shows nothing", len(ls))
	}
	runCtx, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- db.Run(runCtx) }()
	var back []dedupe.Lease
	until(t, "the leases that were granted unheard", func() bool {
		back = append(back, take(second, 100)...)
		return len(back) >= 11
	})
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if len(back) != 11 {
		t.Errorf("%d leases came back, want the 11 that were not known", len(back))
	}
	for _, l := range append(known, others...) {
		if ok, err := db.Extend(ctx, l, time.Hour); !ok || err != nil {
			t.Errorf("lease of %s does not stand any more: %v, %v", l.Delivery.Event, ok, err)
		}
	}
}

// A process whose name was taken goes on until it hears of it, and may lease
// meanwhile: what it leases then comes back to who has the name now, long before
// the lease would end.
func TestLeasesUnderATakenName(t *testing.T) {
	cfg := fresh(t, server(t), options())
	first, err := postgres.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	if err := first.Commit(t.Context(), &dedupe.Batch{Requests: []*dedupe.Request{request("evt_1")}}); err != nil {
		t.Fatal(err)
	}
	second := start(t, cfg)
	<-time.After(time.Second) // its first look is over
	ls, _, err := first.Lease(t.Context(), "billing", 1, time.Hour)
	if err != nil || len(ls) != 1 {
		t.Fatalf("the first leased %d, %v: the test shows nothing", len(ls), err)
	}
	until(t, "the lease under the taken name", func() bool {
		back, _, err := second.Lease(t.Context(), "billing", 1, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		return len(back) == 1
	})
}
