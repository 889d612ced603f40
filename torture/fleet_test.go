//go:build torture

package main

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// looseClaims is a build whose claim and event are not one: two gateways may
// both take a key, and a claim is committed before its event.
const looseClaims = "onceward_unsafe_claims"

// newPostgres is a database for one test.
func newPostgres(t *testing.T) *Postgres {
	t.Helper()
	db, err := NewPostgres(within(t, 2*time.Minute))
	must(t, err)
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Errorf("close the database: %v", err)
		}
	})
	must(t, db.Start(within(t, time.Minute)))
	return db
}

func newFleet(t *testing.T, bin string, gateways int, s uint64, servers ...*Postgres) *Fleet {
	t.Helper()
	f, err := NewFleet(FleetConfig{Binary: bin, Dir: keep(t), DSN: DSN(servers...), Gateways: gateways, Seed: s})
	must(t, err)
	t.Cleanup(func() {
		if err := f.Close(); err != nil && !t.Failed() {
			t.Errorf("close the fleet: %v", err)
		}
	})
	return f
}

// siege sends the same events to every gateway while gateways are killed and
// the database is stopped and started again, that many times. It returns when
// everything is acknowledged everywhere, each gateway was killed once more, and
// nothing is pending.
func siege(t *testing.T, f *Fleet, db *Postgres, random *rand.Rand, events, kills, outages int) {
	t.Helper()
	limit := 5 * time.Minute
	if long() {
		limit = time.Hour
	}
	ctx := within(t, limit)
	must(t, f.Boot(ctx))
	flood := NewFlood(f.Sender, events)
	sending, stop := context.WithCancel(ctx)
	defer stop()
	flood.Start(sending, f.bases())
	for _, d := range disturbances(random, kills, outages) {
		must(t, flood.Reach(ctx, d.at))
		m := f.Any(random)
		if d.outage {
			must(t, Wait(ctx, between(random, 0, 300*time.Millisecond))) // not always just after an answer
			outage(t, ctx, f, flood, db, m)
			continue
		}
		must(t, f.Kill(ctx, m))
		must(t, f.Start(ctx, m))
	}
	if !flood.Wait() {
		t.Errorf("%d of %d acknowledgements came", flood.acked.Load(), flood.total)
	}
	must(t, f.Renew(ctx))
	must(t, f.Quiesce(ctx))
}

// disturbance is a kill or an outage, when that part of everything is acknowledged.
type disturbance struct {
	at     float64
	outage bool
}

func disturbances(random *rand.Rand, kills, outages int) (out []disturbance) {
	for i := range kills {
		out = append(out, disturbance{at: (float64(i) + random.Float64()) * 0.9 / float64(kills)})
	}
	for i := range outages {
		out = append(out, disturbance{at: (float64(i) + random.Float64()) * 0.9 / float64(outages), outage: true})
	}
	slices.SortFunc(out, func(a, b disturbance) int { return cmp.Compare(a.at, b.at) })
	return out
}

// outage stops the database, kills a gateway while it is away, and starts
// both again once those of the others that still get events have answered for a
// while without it.
func outage(t *testing.T, ctx context.Context, f *Fleet, flood *Flood, db *Postgres, victim *Member) {
	t.Helper()
	must(t, f.Cut(ctx, db))
	var rest []*Member
	for _, m := range f.Members {
		if m != victim && flood.Busy(m.base()) {
			rest = append(rest, m)
		}
	}
	must(t, f.Refused(ctx, 10, rest...))
	must(t, f.Kill(ctx, victim))
	must(t, f.Return(ctx, db.Start))
	must(t, f.Start(ctx, victim))
	must(t, f.WaitReady(ctx))
}

// account holds the audit log of every gateway, as each of them verifies it,
// against the events.
func account(t *testing.T, f *Fleet, e FleetEvidence) {
	t.Helper()
	ctx := within(t, 10*time.Minute)
	for _, m := range f.Members {
		if out, err := m.Proc.Command(ctx, "audit", "verify"); err != nil {
			t.Errorf("%s: audit verify: %v\n%s", m.Name, err, out)
		}
	}
	accepted, err := f.Members[0].Proc.Accepted(ctx)
	must(t, err)
	for i, fault := range Unaccounted(e.Stored, accepted) {
		if i == 10 {
			break
		}
		t.Error(fault)
	}
	if out, err := f.Members[0].Proc.Command(ctx, "ledger", "check"); err != nil {
		t.Errorf("ledger check: %v\n%s", err, out)
	}
}

// TestFleet sends the same events to several gateways on one database, kills
// them, and stops the database as a crash does.
func TestFleet(t *testing.T) {
	t.Parallel()
	for _, n := range []int{2, 4} {
		t.Run(fmt.Sprint(n, " gateways"), func(t *testing.T) {
			t.Parallel()
			events, kills, outages := count(t, "TORTURE_FLEET", 3000), 2*n, 1
			if long() {
				events, kills, outages = count(t, "TORTURE_FLEET", 100_000), 25*n, 5
			}
			s := seed(t)
			res := &Result{Fault: fmt.Sprintf("%d gateways on one database, killed, and the database stopped", n), Seed: s, Cycles: kills + outages}
			record(t, res)
			random := rand.New(rand.NewPCG(s, 3000))
			db := newPostgres(t)
			f := newFleet(t, built(t, asShipped), n, s, db)
			began := time.Now()
			siege(t, f, db, random, events, kills, outages)
			took := time.Since(began)
			e, err := f.Evidence(within(t, 10*time.Minute), f.Any(random))
			must(t, err)
			v := JudgeFleet(e)
			res.add(v.Verdict)
			res.Note = fmt.Sprintf("%d events sent to each gateway in another order, %d kills, %d outages: %d requests in %v, %d answered 503, delivered again %d",
				events, kills, outages, len(e.Sent), took.Round(time.Second), v.Refused, v.Copies)
			fmt.Printf("%s%s\n", v.String(), res.Note)
			if !v.OK() {
				t.Error("the gateways broke their promises; see above")
			}
			if v.Silent == 0 || v.Acknowledged < events {
				t.Errorf("%d answers without a database and %d events acknowledged: that proves little", v.Silent, v.Acknowledged)
			}
			account(t, f, e)
		})
	}
}

// TestControlFleet takes a build whose claim and event are not one: an event
// accepted by two gateways, and one lost between its claim and its commit,
// must both be seen.
func TestControlFleet(t *testing.T) {
	t.Parallel()
	s := seed(t)
	res := &Result{Fault: "2 gateways on one database, claims not held and committed before their events", Seed: s, Control: true, Cycles: 3}
	record(t, res)
	db := newPostgres(t)
	f := newFleet(t, built(t, looseClaims), 2, s, db)
	siege(t, f, db, rand.New(rand.NewPCG(s, 3000)), 600, 0, 3)
	e, err := f.Evidence(within(t, 5*time.Minute), f.Members[0])
	must(t, err)
	v := JudgeFleet(e)
	res.add(v.Verdict)
	res.Seen = v.Lost > 0 && v.Twice > 0
	res.Note = fmt.Sprintf("acknowledged %d, accepted twice %d, lost %d", v.Acknowledged, v.Twice, v.Lost)
	fmt.Printf("control, claims not held: %s\n", res.Note)
	if !res.Seen {
		t.Errorf("the suite would not see a second acceptance or a loss\n%s", v.String())
	}
}
