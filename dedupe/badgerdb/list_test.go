package badgerdb_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/dgraph-io/badger/v4"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/dedupe/badgerdb"
	"github.com/onceward/onceward/dedupe/ledgertest"
	"github.com/onceward/onceward/event"
)

// many is a ledger with n events, 100 a day: 3 are pending, 2 dead, one
// cancelled, the rest delivered at the first attempt.
func many(t *testing.T, n int) (db *running, clock *ledgertest.Clock, looked func() int64) {
	t.Helper()
	clock = ledgertest.NewClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	cfg := small(t.TempDir(), clock.Now)
	reg := prometheus.NewRegistry()
	cfg.Registerer = reg
	db = start(t, cfg)
	var open []dedupe.Lease
	for i := 0; i < n; i += 100 {
		var reqs []*dedupe.Request
		for j := i; j < i+100; j++ {
			r := request([]string{"a", "b"}[j%2], fmt.Sprint("evt_", j), "{}", "t")
			r.Items[0].Event.ReceivedAt = clock.Now()
			r.Items[0].Event.Type = "order.paid"
			r.Items[0].Event.Index = []event.Field{{Name: "plan", Value: "pro"}}
			reqs = append(reqs, r)
		}
		accept(t, db, reqs...)
		leases, _, err := db.Lease(t.Context(), "t", 100, 365*24*time.Hour)
		if err != nil || len(leases) != 100 {
			t.Fatal(len(leases), err)
		}
		batch := &dedupe.Batch{}
		for j, l := range leases {
			state, outcome := event.Delivered, event.Outcome2xx
			switch i + j {
			case 1, n/2 + 1:
				state, outcome = event.Dead, event.Outcome4xx
			case 3: // is cancelled below
				continue
			case 2, n / 2, n - 1:
				open = append(open, l)
				continue
			}
			batch.Results = append(batch.Results, &dedupe.Result{Lease: l, State: state, Attempt: event.Attempt{
				Event: l.Delivery.Event, Target: "t", Number: 1, StartedAt: clock.Now(), Outcome: outcome, State: state}})
		}
		if err := db.Commit(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			refs, err := db.Lookup(t.Context(), []string{"b"}, "evt_3")
			if err != nil || len(refs) != 1 {
				t.Fatal(refs, err)
			}
			if _, err := db.Cancel(t.Context(), refs[0], "", dedupe.By{Actor: "test"}); err != nil {
				t.Fatal(err)
			}
		}
		clock.Advance(24 * time.Hour)
	}
	if err := db.Release(t.Context(), open...); err != nil {
		t.Fatal(err)
	}
	return db, clock, func() int64 {
		t.Helper()
		families, err := reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			if f.GetName() == "onceward_store_list_reads_total" {
				return int64(f.GetMetric()[0].GetCounter().GetValue())
			}
		}
		t.Fatal("nothing counts what listings read")
		return 0
	}
}

// A page costs what it shows, or what may be shown, and not what the ledger
// holds: a filter that an index or the schedule can answer looks at nothing
// else, and any other passes over an event by one key.
func TestListingsLookAtLittle(t *testing.T) {
	t.Parallel()
	const n = 4000
	db, clock, looked := many(t, n)
	const one = 10  // what an event on the page costs: its key, its record, its deliveries
	const page = 20 // rows asked for
	first, day := clock.Now().Add(-n/100*24*time.Hour), 24*time.Hour
	for _, tt := range []struct {
		name  string
		f     dedupe.Filter
		want  int
		looks int64
	}{
		{"all", dedupe.Filter{}, page, page*one + one},
		{"delivered", dedupe.Filter{Status: event.StatusDelivered}, page, page*one + 2*one},
		{"of a source", dedupe.Filter{Source: "a"}, page, page*(one+1) + one},
		{"pending", dedupe.Filter{Status: event.StatusPending}, 3, 3 * one},
		{"pending of a source", dedupe.Filter{Status: event.StatusPending, Source: "b"}, 1, 3 * one},
		{"pending of no type", dedupe.Filter{Status: event.StatusPending, Type: "none"}, 0, 3 * one},
		{"pending of a field", dedupe.Filter{Status: event.StatusPending, Field: "plan", Value: "pro"}, 3, 3 * one},
		{"pending of no target", dedupe.Filter{Status: event.StatusPending, Target: "none"}, 0, 3 * one},
		{"pending and old", dedupe.Filter{Status: event.StatusPending, To: first.Add(day)}, 1, 2 * one},
		{"dead", dedupe.Filter{Status: event.StatusDead}, 2, 3 * one},
		{"dead of no source", dedupe.Filter{Status: event.StatusDead, Source: "none"}, 0, 3 * one},
		{"dead of no target", dedupe.Filter{Status: event.StatusDead, Target: "none"}, 0, 3 * one},
		{"dead of a field", dedupe.Filter{Status: event.StatusDead, Field: "plan", Value: "pro"}, 2, 3 * one},
		{"cancelled", dedupe.Filter{Status: event.StatusCancelled}, 1, 2 * one},
		{"of a field", dedupe.Filter{Field: "plan", Value: "pro"}, page, page*(one+1) + one},
		{"of no such value", dedupe.Filter{Field: "plan", Value: "none"}, 0, one},
		{"by its ID", dedupe.Filter{Source: "a", ID: "evt_200"}, 1, 2 * one},
		{"from the first day", dedupe.Filter{To: first.Add(day)}, page, page*one + 2*100 + one},
		{"before all", dedupe.Filter{To: first.Add(-3 * day)}, 0, one},
		{"of no type, lately", dedupe.Filter{Type: "none", From: clock.Now().Add(-day)}, 0, 4 * 100},
		{"of no type", dedupe.Filter{Type: "none"}, 0, n + one},
		{"of no source", dedupe.Filter{Source: "none"}, 0, n + one},
		{"of no target", dedupe.Filter{Target: "none"}, 0, n + one},
		{"by its ID alone", dedupe.Filter{ID: "evt_200"}, 1, 2*n/100 + 2*one},
		{"pending by its ID", dedupe.Filter{ID: "evt_2", Status: event.StatusPending}, 1, 2*n/100 + 2*one},
		{"of no ID", dedupe.Filter{ID: "none"}, 0, 2*n/100 + one},
		{"unrouted", dedupe.Filter{Status: event.StatusUnrouted}, 0, n + one},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := looked()
			p, err := db.Events(t.Context(), tt.f, "", page)
			looks := looked() - before
			if err != nil || len(p.Items) != tt.want {
				t.Errorf("%d events, %v, want %d", len(p.Items), err, tt.want)
			}
			if len(p.Items) < page && p.Next != "" {
				t.Errorf("the page is short and goes on at %s", p.Next)
			}
			if looks > tt.looks {
				t.Errorf("the page looked at %d keys and records, want at most %d", looks, tt.looks)
			}
		})
	}
	for _, tt := range []struct {
		state string
		want  int
		looks int64
	}{{"pending", 3, 3 * one}, {"leased", 0, 3 * one}, {"dead", 2, 3 * one}, {"cancelled", 1, 2 * one}} {
		for _, target := range []string{"", "t", "none"} {
			t.Run(tt.state+" to "+target, func(t *testing.T) {
				want := tt.want
				if target == "none" {
					want = 0
				}
				before := looked()
				p, err := db.Deliveries(t.Context(), dedupe.Filter{State: tt.state, Target: target}, "", page)
				if err != nil || len(p.Items) != want {
					t.Errorf("%d deliveries, %v, want %d", len(p.Items), err, want)
				}
				if looks := looked() - before; looks > tt.looks {
					t.Errorf("the page looked at %d keys and records, want at most %d", looks, tt.looks)
				}
			})
		}
	}
}

// What is open is listed whole and in order however much it is, and whether
// memory holds all of it or not.
func TestListingOfManyOpen(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]int{"in memory": 0, "more than memory holds": 100} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const n = 9000
			cfg := small(t.TempDir(), time.Now)
			cfg.ScheduleCap = limit
			db := start(t, cfg)
			var all []event.Ref
			for i := 0; i < n; i += 500 {
				var reqs []*dedupe.Request
				for j := range 500 {
					reqs = append(reqs, request("s", fmt.Sprint("evt_", i+j), "", []string{"t", "u"}[j%2]))
				}
				accept(t, db, reqs...)
				for _, r := range reqs {
					all = append(all, r.Outcomes[0].Ref)
				}
			}
			slices.Reverse(all)
			var got []event.Ref
			pages := 0
			for cursor := ""; pages == 0 || cursor != ""; pages++ {
				p, err := db.Events(t.Context(), dedupe.Filter{Status: event.StatusPending, Source: "s"}, cursor, 1000)
				if err != nil {
					t.Fatal(err)
				}
				for i := range p.Items {
					got = append(got, p.Items[i].Event.Ref)
				}
				cursor = p.Next
			}
			if !slices.Equal(got, all) {
				t.Errorf("%d events in %d pages, want %d, newest first", len(got), pages, len(all))
			}
			p, err := db.Events(t.Context(), dedupe.Filter{Status: event.StatusPending, Source: "none"}, "", 10)
			if err != nil || len(p.Items) != 0 || limit == 0 && p.Next == "" {
				t.Errorf("of another source %d, next %q, %v: want none, and to be looked further for", len(p.Items), p.Next, err)
			}
		})
	}
}

// An event that can't be read is an error that names it and comes with what is
// before it; behind it the listing goes on.
func TestListingPastDamage(t *testing.T) {
	t.Parallel()
	cfg, refs := filled(t, 6)
	bad := refs[3]
	touch(t, cfg.Dir, 'e', func(txn *badger.Txn, key, val []byte) error {
		if key[6] != 'e' || !bytes.HasSuffix(key, bad[:]) {
			return nil
		}
		val[len(val)-1] ^= 1
		return txn.Set(key, val)
	})
	db, err := badgerdb.Open(cfg) // without its background work: what is open is not known
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, f := range []dedupe.Filter{{}, {Source: "s"}, {Status: event.StatusPending}, {State: "pending", Target: "t"}} {
		var got []event.Ref
		damaged, cursor := 0, ""
		for range 10 {
			page, err := db.Deliveries(t.Context(), f, cursor, 2)
			for _, d := range page.Items {
				got = append(got, d.Event)
			}
			var at *dedupe.EventError
			switch {
			case err == nil:
				cursor = page.Next
			case errors.As(err, &at) && errors.Is(err, dedupe.ErrDamaged) && at.Ref == bad:
				damaged++
				cursor = at.Ref.String()
			default:
				t.Fatalf("%+v: %v, want damage of %s", f, err, bad)
			}
			if cursor == "" {
				break
			}
		}
		if want := []event.Ref{refs[5], refs[4], refs[2], refs[1], refs[0]}; !slices.Equal(got, want) || damaged != 1 {
			t.Errorf("%+v: %v and %d damaged, want %v and one", f, got, damaged, want)
		}
	}
}
