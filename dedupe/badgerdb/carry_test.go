package badgerdb_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/dedupe/badgerdb"
	"github.com/onceward/onceward/dedupe/ledgertest"
	"github.com/onceward/onceward/event"
)

// unattended is a ledger without its background work.
func unattended(t *testing.T, clock *ledgertest.Clock, keep time.Duration, bodySize int64) *running {
	t.Helper()
	cfg := small(t.TempDir(), clock.Now)
	cfg.Retention = dedupe.Retention{Body: keep, Meta: keep, Audit: keep}
	cfg.BodySize, cfg.ClaimBucket, cfg.HotBytes = bodySize, time.Hour, 1 // bodies are read from disk
	return alone(t, cfg)
}

// alone opens a ledger without its background work, which would do some of the
// rounds of retention.
func alone(t *testing.T, cfg badgerdb.Config) *running {
	t.Helper()
	db := &running{DB: start2(t, cfg), cfg: cfg, stop: func() {}}
	if err := db.Rebuild(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// Between two rounds of one run intake and delivery go on, and what they write
// of an event whose body was copied by then is not lost with its bucket.
func TestRetentionTakesTurns(t *testing.T) {
	clock := ledgertest.NewClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	db := unattended(t, clock, 24*time.Hour, 0)
	db.Hold(0) // a round copies one body
	const n = 12
	var refs []event.Ref
	for i := range n {
		r := request("s", fmt.Sprint("evt_", i), fmt.Sprint("body ", i), "t")
		r.Items[0].Window = time.Hour
		accept(t, db, r)
		refs = append(refs, r.Outcomes[0].Ref)
	}
	clock.Advance(48 * time.Hour)
	leases, _, err := db.Lease(t.Context(), "t", n, time.Hour)
	if err != nil || len(leases) != n {
		t.Fatalf("leased %d, %v", len(leases), err)
	}
	settle := func(l dedupe.Lease, state event.State) {
		r := &dedupe.Result{Lease: l, State: state, Attempt: event.Attempt{
			Event: l.Delivery.Event, Target: "t", Number: 1, StartedAt: clock.Now(), Outcome: event.Outcome5xx, State: state}}
		if err := db.Commit(t.Context(), &dedupe.Batch{Results: []*dedupe.Result{r}}); err != nil {
			t.Fatal(err)
		}
	}
	round, rounds := db.Rounds(), 0
	for more := true; more; rounds++ {
		if more, err = round(t.Context()); err != nil {
			t.Fatal(err)
		}
		switch {
		case rounds < n/2: // half are tried again later, a quarter ends
			settle(leases[rounds], event.Pending)
		case rounds < n*3/4:
			settle(leases[rounds], event.Dead)
		}
		again := request("s", "evt_11", "body 11", "t")
		if accept(t, db, again); again.Outcomes[0].Verdict != dedupe.Repeat {
			t.Fatalf("round %d: %v, want what an open delivery claims to be recognised", rounds, again.Outcomes[0].Verdict)
		}
	}
	if rounds <= n {
		t.Errorf("%d bodies were copied in %d rounds", n, rounds)
	}
	for i, ref := range refs {
		rec, err := db.Get(t.Context(), ref)
		if err != nil && i >= n/2 && i < n*3/4 && errors.Is(err, dedupe.ErrPruned) {
			continue // closed before its record was carried
		}
		if err != nil {
			t.Errorf("event %d: %v", i, err)
			continue
		}
		want := uint32(0)
		if i < n*3/4 {
			want = 1
		}
		if got := rec.Deliveries[0].Attempts; got != want {
			t.Errorf("event %d: %d attempts, want %d", i, got, want)
		}
		if b, err := db.Body(t.Context(), ref); err != nil || string(b) != fmt.Sprint("body ", i) {
			t.Errorf("event %d: body %q, %v", i, b, err)
		}
	}
}

// A run whose clock jumps between two of its rounds copies again what it had
// copied to where it now drops.
func TestRetentionOverAJump(t *testing.T) {
	clock := ledgertest.NewClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	db := unattended(t, clock, 24*time.Hour, 0)
	db.Hold(0)
	var refs []event.Ref
	for i := range 4 {
		r := request("s", fmt.Sprint("evt_", i), fmt.Sprint("body ", i), "t")
		accept(t, db, r)
		refs = append(refs, r.Outcomes[0].Ref)
	}
	clock.Advance(48 * time.Hour)
	round := db.Rounds()
	for i, more := 0, true; more; i++ {
		var err error
		if more, err = round(t.Context()); err != nil {
			t.Fatal(err)
		}
		if i == 1 {
			clock.Advance(48 * time.Hour)
		}
	}
	for i, ref := range refs {
		if b, err := db.Body(t.Context(), ref); err != nil || string(b) != fmt.Sprint("body ", i) {
			t.Errorf("event %d: body %q, %v", i, b, err)
		}
	}
}

// Bodies of open events that take more than the limit are copied once, not by
// every run, and don't keep those of closed ones.
func TestOpenBodiesOverTheirLimit(t *testing.T) {
	const size, n = 64 << 10, 64
	clock := ledgertest.NewClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	db := unattended(t, clock, 30*24*time.Hour, n*size/4)
	rng := rand.NewChaCha8([32]byte{7})
	send := func(id, target string) event.Ref {
		body := make([]byte, size)
		_, _ = rng.Read(body) // never fails
		r := request("s", id, string(body), target)
		accept(t, db, r)
		return r.Outcomes[0].Ref
	}
	for i := range n {
		send(fmt.Sprint("open_", i), "open")
	}
	carried := 0
	for day := range 20 {
		clock.Advance(30 * time.Hour)
		x, err := db.Expire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		carried += x.Carried
		for i := range n / 16 {
			ref := send(fmt.Sprint("closed_", day, "_", i), "done")
			if _, err := db.Cancel(t.Context(), ref, "done", dedupe.By{Actor: "test"}); err != nil {
				t.Fatal(err)
			}
		}
	}
	// 20 days bring n*20/16 bodies: one cut for each n*3/4 of them, at most.
	if carried < n || carried > 3*n {
		t.Errorf("%d bodies were carried in 20 runs, of %d that are open", carried, n)
	}
	if got := db.BodyTotal(); got > 2*n*size {
		t.Errorf("bodies take %d bytes, want what is open, %d, and not much more", got, n*size)
	}
}

// An open key of a synchronous route is known between the rounds of a run that
// takes several before it comes to the keys.
func TestOpenKeyBetweenRounds(t *testing.T) {
	clock := ledgertest.NewClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	db := unattended(t, clock, 24*time.Hour, 0)
	if v := step(t, db, claimStep(time.Hour)); v != dedupe.KeyClaimed {
		t.Fatal(v)
	}
	for i := range 10 {
		accept(t, db, request("s", fmt.Sprint("evt_", i), "{}"))
		clock.Advance(time.Hour)
	}
	clock.Advance(40 * time.Hour)
	db.Short(0) // two buckets a round
	round, rounds := db.Rounds(), 0
	for more := true; more; rounds++ {
		var err error
		if more, err = round(t.Context()); err != nil {
			t.Fatal(err)
		}
		if k, err := db.SyncKey(t.Context(), keyName); err != nil || !k.State.Open() {
			t.Fatalf("after %d rounds: %+v, %v", rounds+1, k, err)
		}
	}
	if rounds < 5 {
		t.Fatalf("%d rounds", rounds)
	}
}

// A run of retention ends also when it takes longer than bodies are kept: what it
// copied is not copied again.
func TestLongRunEnds(t *testing.T) {
	const open = 30
	clock := ledgertest.NewClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	db := unattended(t, clock, 24*time.Hour, 0)
	db.Hold(0) // a round copies one body
	for i := range open {
		accept(t, db, request("s", fmt.Sprint("evt_", i), "a body", "t"))
	}
	clock.Advance(48 * time.Hour)
	round, rounds := db.Rounds(), 0
	for more := true; more; rounds++ {
		var err error
		if more, err = round(t.Context()); err != nil {
			t.Fatal(err)
		}
		if rounds > 4*open {
			t.Fatalf("after %d rounds there is more to do", rounds)
		}
		clock.Advance(3 * time.Hour)
	}
	if rounds < open {
		t.Fatalf("%d rounds", rounds)
	}
	if n := deliver(t, db); n != open {
		t.Errorf("%d of %d deliveries are left", n, open)
	}
}

// A reader, and a check, that began before a bucket was dropped find what was
// carried out of it, and take nothing of it for damage; what is missing without a
// drop is damage.
func TestReadAcrossADrop(t *testing.T) {
	clock := ledgertest.NewClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	db := unattended(t, clock, 24*time.Hour, 0)
	send := func(id string) event.Ref {
		r := request("s", id, "body of "+id, "t")
		accept(t, db, r)
		return r.Outcomes[0].Ref
	}
	expire := func() {
		clock.Advance(48 * time.Hour)
		if x, err := db.Expire(t.Context()); err != nil || x.Buckets == 0 {
			t.Fatalf("%+v, %v", x, err)
		}
	}
	open := send("open")
	if b, err := db.LoadAcross(open, expire); err != nil || string(b) != "body of open" {
		t.Errorf("read across the drop: %q, %v", b, err)
	}
	if err := db.CheckAcross(open, expire); err != nil {
		t.Errorf("checked across the drop: %v", err)
	}
	if _, err := db.Cancel(t.Context(), open, "t", dedupe.By{Actor: "test"}); err != nil {
		t.Fatal(err)
	}
	if err := db.CheckAcross(open, expire); err != nil {
		t.Errorf("checked after it was pruned: %v", err)
	}
	lost := send("lost")
	if err := db.CheckAcross(lost, func() { db.LoseBodies() }); !errors.Is(err, dedupe.ErrDamaged) {
		t.Errorf("a body that was not dropped by retention is missing: %v", err)
	}
}

// A listing, a tail and a look-up that began before a bucket was dropped show
// what was carried out of it, as it stands now, each once.
func TestListAcrossADrop(t *testing.T) {
	clock := ledgertest.NewClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	var meanwhile func() // called once, when a read looks at the clock: it has its snapshot by then
	cfg := small(t.TempDir(), func() time.Time {
		if f := meanwhile; f != nil {
			meanwhile = nil
			f()
		}
		return clock.Now()
	})
	keep := 24 * time.Hour
	cfg.Retention = dedupe.Retention{Body: keep, Meta: keep, Audit: keep}
	cfg.ClaimBucket, cfg.HotBytes = time.Hour, 1
	db := alone(t, cfg)
	refs := func(items []dedupe.Record) (out []event.Ref) {
		for i := range items {
			if n := items[i].Deliveries[0].Attempts; n != 1 {
				t.Errorf("%s: %d attempts, want 1", items[i].Event.Ref, n)
			}
			out = append(out, items[i].Event.Ref)
		}
		return out
	}
	for name, read := range map[string]func() ([]event.Ref, error){
		"events": func() ([]event.Ref, error) {
			p, err := db.Events(t.Context(), dedupe.Filter{}, "", 10)
			return refs(p.Items), err
		},
		"events of an ID": func() ([]event.Ref, error) {
			p, err := db.Events(t.Context(), dedupe.Filter{ID: "open"}, "", 10)
			return refs(p.Items), err
		},
		"deliveries": func() (out []event.Ref, err error) {
			p, err := db.Deliveries(t.Context(), dedupe.Filter{Target: "t"}, "", 10)
			for _, d := range p.Items {
				out = append(out, d.Event)
			}
			return out, err
		},
		"tail": func() ([]event.Ref, error) {
			p, err := db.Tail(t.Context(), "", 10)
			return refs(p.Items), err
		},
		"look-up": func() ([]event.Ref, error) { return db.Lookup(t.Context(), []string{"s"}, "open") },
	} {
		r := request("s", "open", "{}", "t")
		accept(t, db, r)
		open := r.Outcomes[0].Ref
		leases, _, err := db.Lease(t.Context(), "t", 1, time.Minute)
		if err != nil || len(leases) != 1 {
			t.Fatalf("leased %d, %v", len(leases), err)
		}
		tried := &dedupe.Result{Lease: leases[0], State: event.Pending, Delay: 1000 * time.Hour, Attempt: event.Attempt{
			Event: open, Target: "t", Number: 1, StartedAt: clock.Now(), Outcome: event.Outcome5xx, State: event.Pending}}
		if err := db.Commit(t.Context(), &dedupe.Batch{Results: []*dedupe.Result{tried}}); err != nil {
			t.Fatal(err)
		}
		clock.Advance(48 * time.Hour)
		dropped := 0
		meanwhile = func() {
			x, err := db.Expire(t.Context())
			if err != nil {
				t.Error(err)
			}
			dropped = x.Buckets
		}
		got, err := read()
		if err != nil || dropped == 0 || len(got) != 1 || got[0] != open {
			t.Errorf("%s across a drop of %d buckets: %v, %v, want %s", name, dropped, got, err, open)
		}
		if _, err := db.Cancel(t.Context(), open, "t", dedupe.By{Actor: "test"}); err != nil {
			t.Fatal(err)
		}
		clock.Advance(72 * time.Hour)
		if _, err := db.Expire(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}
