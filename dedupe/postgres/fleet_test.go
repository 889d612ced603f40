package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/dedupe/ledgertest"
	"github.com/onceward/onceward/dedupe/postgres"
	"github.com/onceward/onceward/dedupe/postgres/pgtest"
	"github.com/onceward/onceward/event"
)

// member is one gateway of several: its ledger and its group commit.
type member struct {
	*running
	w   *dedupe.Writer
	end func() error
}

// join opens the ledger under a name and starts its group commit.
func join(t *testing.T, cfg postgres.Config, name string) *member {
	t.Helper()
	cfg.Name = name
	m := &member{running: start(t, cfg)}
	w, err := dedupe.NewWriter(dedupe.WriterConfig{Ledger: m.running})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	m.w, m.end = w, sync.OnceValue(func() error { cancel(); return <-done })
	t.Cleanup(func() { _ = m.end() })
	return m
}

func request(id string) *dedupe.Request {
	body := "body of " + id
	return &dedupe.Request{Body: []byte(body), Items: []dedupe.Item{{
		Event: event.Event{Source: "shop", ID: id, ReceivedAt: time.Now(), BodyHash: event.HashOf([]byte(body)),
			Body: event.Slice{Length: int64(len(body))}, Targets: []string{"billing"}},
		RawID: id, HasClaim: true, Claim: dedupe.KeyOf(dedupe.KindID, "shop", "", id), Window: 24 * time.Hour,
	}}}
}

// told is what senders were answered, by ID.
type told struct {
	mu      sync.Mutex
	news    map[string]int
	refs    map[string]map[event.Ref]bool
	goal    int // how many IDs close reached
	reached chan struct{}
}

func newTold() *told { return &told{news: map[string]int{}, refs: map[string]map[event.Ref]bool{}} }

func (r *told) add(id string, o dedupe.Outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if o.Verdict == dedupe.New {
		r.news[id]++
	}
	if r.refs[id] == nil {
		r.refs[id] = map[event.Ref]bool{}
	}
	r.refs[id][o.Ref] = true
	if r.goal > 0 && len(r.refs) >= r.goal {
		r.goal = 0
		close(r.reached)
	}
}

// when is closed as soon as n IDs have been answered.
func (r *told) when(n int) <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.goal, r.reached = n, make(chan struct{})
	return r.reached
}

// twice counts the IDs that were accepted more than once.
func (r *told) twice() (n int) {
	for _, refs := range r.refs {
		if len(refs) > 1 {
			n++
		}
	}
	return n
}

// flood sends the same IDs to every member, to each in another order, until it
// is through or its member ends.
func flood(ctx context.Context, ms []*member, ids int, got *told) {
	const senders = 8
	var wg sync.WaitGroup
	for i, m := range ms {
		for s := range senders {
			wg.Go(func() {
				for n := range ids / senders {
					id := fmt.Sprint("evt_", ((n*senders+s)*(2*i+1)+i*ids/len(ms))%ids)
					req := request(id)
					if err := m.w.Accept(ctx, req); err != nil {
						return // nobody was told anything
					}
					got.add(id, req.Outcomes[0])
				}
			})
		}
	}
	wg.Wait()
}

// deliver leases and lands all that is open, on every member at once, and
// counts how often each event was sent.
func deliver(t *testing.T, ms []*member) map[event.Ref]int {
	t.Helper()
	var mu sync.Mutex
	sent := map[event.Ref]int{}
	var wg sync.WaitGroup
	for _, m := range ms {
		wg.Go(func() {
			for {
				ls, _, err := m.Lease(t.Context(), "billing", 50, time.Minute)
				if err != nil {
					t.Errorf("lease: %v", err)
				}
				if len(ls) == 0 {
					return
				}
				var rs []*dedupe.Result
				for _, l := range ls {
					mu.Lock()
					sent[l.Delivery.Event]++
					mu.Unlock()
					rs = append(rs, &dedupe.Result{Lease: l, State: event.Delivered, Attempt: event.Attempt{Event: l.Delivery.Event, Target: "billing",
						Number: 1, StartedAt: time.Now(), Status: 200, Outcome: event.Outcome2xx, State: event.Delivered}})
				}
				if err := m.w.Finish(t.Context(), rs...); err != nil {
					t.Errorf("finish: %v", err)
					return
				}
				for _, r := range rs {
					if r.Late {
						t.Errorf("a result of event %s is late", r.Lease.Delivery.Event)
					}
				}
			}
		})
	}
	wg.Wait()
	return sent
}

// options are those of a fleet: by the database's clock.
func options() ledgertest.Options {
	return ledgertest.Options{Retention: dedupe.Retention{Body: 30 * 24 * time.Hour, Meta: 60 * 24 * time.Hour, Audit: 60 * 24 * time.Hour}}
}

// TestFleet sends the same IDs to several gateways on one database: each is
// accepted once, and each delivery sent once.
func TestFleet(t *testing.T) {
	url := server(t)
	const ids = 800
	for _, n := range []int{2, 4} {
		t.Run(fmt.Sprint(n, " gateways"), func(t *testing.T) {
			cfg := fresh(t, url, options())
			var ms []*member
			for i := range n {
				ms = append(ms, join(t, cfg, fmt.Sprint("gateway-", i)))
			}
			got := newTold()
			flood(t.Context(), ms, ids, got)
			if len(got.refs) != ids || got.twice() != 0 {
				t.Errorf("%d of %d IDs answered, %d accepted twice", len(got.refs), ids, got.twice())
			}
			for id, news := range got.news {
				if news != 1 {
					t.Errorf("%s was new %d times", id, news)
				}
			}
			for ref, times := range deliver(t, ms) {
				if times != 1 {
					t.Errorf("event %s was sent %d times", ref, times)
				}
			}
			rep, err := ms[0].Check(t.Context())
			if err != nil || rep.Events != ids || len(rep.Faults) != 0 {
				t.Errorf("check: %d events, faults %v, %v", rep.Events, rep.Faults, err)
			}
		})
	}
}

// TestFleetControl is the same without what makes a claim one: the counters
// see what they are to see.
func TestFleetControl(t *testing.T) {
	cfg := fresh(t, server(t), options())
	ms := []*member{join(t, cfg, "a"), join(t, cfg, "b")}
	ask(t, cfg, "ALTER TABLE "+cfg.Schema+".claims DROP CONSTRAINT claims_pkey")
	for range 20 {
		got := newTold()
		flood(t.Context(), ms, 400, got)
		if got.twice() > 0 {
			return
		}
		ask(t, cfg, "DELETE FROM "+cfg.Schema+".claims")
	}
	t.Error("without the claims' key nothing was accepted twice: the test can't see it")
}

// TestNameTaken holds that a gateway whose name another process took writes
// nothing more.
func TestNameTaken(t *testing.T) {
	cfg := fresh(t, server(t), options())
	first := join(t, cfg, "a")
	if err := first.w.Accept(t.Context(), request("before")); err != nil {
		t.Fatal(err)
	}
	second := join(t, cfg, "a")
	req := request("after")
	if err := first.w.Accept(t.Context(), req); !errors.Is(err, dedupe.ErrFatal) {
		t.Errorf("a gateway whose name was taken accepts: %v", err)
	}
	if err := second.w.Accept(t.Context(), request("after")); err != nil {
		t.Fatal(err)
	}
	if st, err := second.Stats(t.Context()); err != nil || st.Events != 2 {
		t.Errorf("%d events, %v; want 2", st.Events, err)
	}
}

// TestMigrateAtOnce has several programs make one schema at the same time.
func TestMigrateAtOnce(t *testing.T) {
	for range 5 {
		cfg := fresh(t, server(t), options())
		var wg sync.WaitGroup
		for range 6 {
			wg.Go(func() {
				if _, err := postgres.Migrate(t.Context(), cfg); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if lacking, err := postgres.Plan(t.Context(), cfg); err != nil || len(lacking) > 0 {
			t.Errorf("%d steps are lacking, %v", len(lacking), err)
		}
	}
}

// TestCloseGivesBack holds that what a gateway had leased when it closed is due
// for the others at once.
func TestCloseGivesBack(t *testing.T) {
	cfg := fresh(t, server(t), options())
	a, b := join(t, cfg, "a"), join(t, cfg, "b")
	if err := a.w.Accept(t.Context(), request("one")); err != nil {
		t.Fatal(err)
	}
	if ls, _, err := a.Lease(t.Context(), "billing", 1, time.Hour); err != nil || len(ls) != 1 {
		t.Fatalf("%d leases, %v", len(ls), err)
	}
	if ls, _, err := b.Lease(t.Context(), "billing", 1, time.Hour); err != nil || len(ls) != 0 {
		t.Fatalf("%d leases of what another holds, %v", len(ls), err)
	}
	if err := a.end(); err != nil {
		t.Fatal(err)
	}
	if err := a.running.Close(); err != nil {
		t.Fatal(err)
	}
	if ls, _, err := b.Lease(t.Context(), "billing", 1, time.Hour); err != nil || len(ls) != 1 {
		t.Errorf("%d leases after the other one closed, %v; want one", len(ls), err)
	}
}

// TestServerKilled stops the database as a crash does while gateways accept,
// starts it again, and holds that all they answered is there, once.
func TestServerKilled(t *testing.T) {
	c := pgtest.Own(t)
	cfg := postgres.Config{URL: c.URL, Migrate: true, MaxConns: 4}
	const ids = 2000
	got := newTold()
	for round := range 3 {
		ms := []*member{join(t, cfg, "a"), join(t, cfg, "b")}
		if round == 2 {
			flood(t.Context(), ms, ids, got)
			settled(t, ms, ids, got)
			return
		}
		var wg sync.WaitGroup
		some := got.when((round + 1) * ids / 8)
		wg.Go(func() { flood(t.Context(), ms, ids, got) })
		<-some
		c.Kill()
		wg.Wait()
		for _, m := range ms {
			_ = m.end()
			m.stop()
			_ = m.DB.Close() // its connections are gone
		}
		if err := c.Restart(); err != nil {
			t.Fatal(err)
		}
	}
}

func settled(t *testing.T, ms []*member, ids int, got *told) {
	t.Helper()
	if len(got.refs) != ids || got.twice() != 0 {
		t.Errorf("%d of %d IDs answered, %d accepted twice", len(got.refs), ids, got.twice())
	}
	for id, refs := range got.refs {
		for ref := range refs {
			if rec, err := ms[1].Get(t.Context(), ref); err != nil || rec.Event.ID != id {
				t.Errorf("%s was answered and is lost: %v", id, err)
			}
		}
	}
	rep, err := ms[0].Check(t.Context())
	if err != nil || rep.Events != uint64(ids) || len(rep.Faults) != 0 {
		t.Errorf("check: %d events, faults %v, %v", rep.Events, rep.Faults, err)
	}
}

// TestBeats holds that gateways see each other by the database's clock, that a
// process whose name was taken beats no more and is seen until it is dead, and
// that who leaves is gone.
func TestBeats(t *testing.T) {
	cfg := fresh(t, server(t), options())
	a, b := join(t, cfg, "a"), join(t, cfg, "b")
	beat := func(m *member, share float64) []dedupe.Peer {
		t.Helper()
		peers, err := m.Beat(t.Context(), dedupe.Beat{Share: share, Config: "cfg", Version: "v1"})
		if err != nil {
			t.Fatal(err)
		}
		return peers
	}
	if got := beat(a, 0.5); len(got) != 1 || !got[0].Own || got[0].Name != "a" || got[0].Share != 0.5 || got[0].Config != "cfg" || got[0].Version != "v1" || got[0].Dead() {
		t.Errorf("alone: %+v", got)
	}
	got := beat(b, 0.25)
	if len(got) != 2 || got[0].Own || !got[1].Own || got[0].Share != 0.5 || got[0].Writer == got[1].Writer {
		t.Errorf("two of them: %+v", got)
	}
	ask(t, cfg, "UPDATE "+cfg.Schema+".fleet SET beat = beat - 6000 WHERE name = 'a'")
	if got = beat(b, 0.25); !got[0].Dead() || got[1].Dead() {
		t.Errorf("six seconds after a's last beat: %+v", got)
	}
	if got = beat(a, 0); got[0].Dead() || got[0].Share != 0 {
		t.Errorf("a beats again: %+v", got)
	}
	second := join(t, cfg, "a")
	if _, err := a.Beat(t.Context(), dedupe.Beat{Share: 1}); err == nil {
		t.Error("a process whose name was taken beats")
	}
	if got = beat(second, 0); len(got) != 3 || got[0].Own || !got[1].Own || got[0].Name != "a" || got[1].Name != "a" || got[0].Epoch >= got[1].Epoch {
		t.Errorf("a second a: %+v", got)
	}
	if err := b.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	ask(t, cfg, "UPDATE "+cfg.Schema+".fleet SET beat = beat - 86400000 WHERE epoch = 1")
	if got = beat(second, 1); len(got) != 1 || !got[0].Own {
		t.Errorf("b left and the first a is a day old: %+v", got)
	}
}

// TestBeatsInOrder holds what shares stand on: of two gateways that beat at the
// same time the later sees the earlier, so never do both miss the other.
func TestBeatsInOrder(t *testing.T) {
	cfg := fresh(t, server(t), options())
	a, b := join(t, cfg, "a"), join(t, cfg, "b")
	const rounds = 100
	for n := range rounds {
		var seen [2]float64 // what each sees of the other
		var wg sync.WaitGroup
		for i, m := range []*member{a, b} {
			wg.Go(func() {
				peers, err := m.Beat(t.Context(), dedupe.Beat{Share: float64(n + 1)})
				if err != nil {
					t.Error(err)
				}
				for _, p := range peers {
					if !p.Own {
						seen[i] = p.Share
					}
				}
			})
		}
		wg.Wait()
		if want := float64(n + 1); seen[0] != want && seen[1] != want {
			t.Fatalf("round %d: neither sees the other's beat: %v", n, seen)
		}
	}
}
