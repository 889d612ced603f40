package badgerdb_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/dgraph-io/badger/v4"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/dedupe/badgerdb"
	"github.com/onceward/onceward/dedupe/ledgertest"
	"github.com/onceward/onceward/event"
)

// lived is a closed ledger of which most kinds of record say what is open: of
// the events "carried" to "fresh" each has a delivery to t, all of them open but
// that of "dead", and one to u that is over.
type lived struct {
	cfg   badgerdb.Config
	clock *ledgertest.Clock
	refs  map[string]event.Ref
}

func live(t *testing.T) *lived {
	clock := ledgertest.NewClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	cfg := small(t.TempDir(), clock.Now)
	cfg.Retention = dedupe.Retention{Body: 24 * time.Hour, Meta: 24 * time.Hour, Audit: 24 * time.Hour}
	v := &lived{cfg: cfg, clock: clock, refs: map[string]event.Ref{}}
	db := &running{DB: start2(t, cfg), cfg: cfg, stop: func() {}}
	if err := db.Rebuild(t.Context()); err != nil {
		t.Fatal(err)
	}
	send := func(id string) {
		r := request("s", id, "body of "+id, "t", "u")
		r.Items[0].Event.Orders = []event.Order{event.OrderOf("lane "+id, false), 0}
		accept(t, db, r)
		v.refs[id] = r.Outcomes[0].Ref
	}
	settle := func(id, target string, state event.State) {
		leases, _, err := db.Lease(t.Context(), target, 100, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range leases {
			if l.Delivery.Event != v.refs[id] {
				continue
			}
			r := &dedupe.Result{Lease: l, State: state, Attempt: event.Attempt{Event: l.Delivery.Event, Target: target, Number: 1,
				StartedAt: clock.Now(), Outcome: event.Outcome5xx, State: state}}
			if err := db.Commit(t.Context(), &dedupe.Batch{Results: []*dedupe.Result{r}}); err != nil {
				t.Fatal(err)
			}
		}
		if err := db.Release(t.Context(), leases...); err != nil {
			t.Fatal(err)
		}
	}
	send("carried")
	settle("carried", "t", event.Pending)
	settle("carried", "u", event.Delivered)
	clock.Advance(48 * time.Hour)
	if x, err := db.Expire(t.Context()); err != nil || x.Carried != 1 {
		t.Fatalf("%+v, %v", x, err)
	}
	for _, id := range []string{"tried", "repeated", "dead", "fresh"} {
		send(id)
		settle(id, "u", event.Delivered)
	}
	settle("tried", "t", event.Pending)
	settle("dead", "t", event.Dead)
	accept(t, db, request("s", "repeated", "body of repeated", "t", "u"))
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	return v
}

// copied is the ledger in a directory of its own.
func (v *lived) copied(t *testing.T) *lived {
	c := *v
	c.cfg.Dir = filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(c.cfg.Dir, os.DirFS(v.cfg.Dir)); err != nil {
		t.Fatal(err)
	}
	c.clock = ledgertest.NewClock(v.clock.Now())
	c.cfg.Now = c.clock.Now
	return &c
}

// keys lists the keys of the kinds of record that are read for what is open.
func (v *lived) keys(t *testing.T) (keys [][]byte) {
	for _, kind := range []byte("eacbd") {
		touch(t, v.cfg.Dir, kind, func(_ *badger.Txn, key, _ []byte) error {
			keys = append(keys, key)
			return nil
		})
	}
	return keys
}

// begin starts the ledger with its background work, and fails when that ends
// before all is read.
func (v *lived) begin(t *testing.T) *running {
	t.Helper()
	db := start2(t, v.cfg)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- db.Run(ctx) }()
	stop := sync.OnceFunc(func() {
		cancel()
		if err := errors.Join(<-done, db.Close()); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	select {
	case <-db.Rebuilt():
	case err := <-done:
		done <- nil
		t.Fatalf("the start ended: %v", err)
	}
	return &running{DB: db, cfg: v.cfg, stop: stop}
}

// Whatever record of what is open is damaged, a start becomes ready, retention
// runs, all that can be read is delivered, and the damage is told and never taken
// for absence.
func TestStartPastDamage(t *testing.T) {
	whole := live(t)
	keys := whole.keys(t)
	if len(keys) < 30 {
		t.Fatalf("%d records", len(keys))
	}
	for _, key := range append([][]byte{nil}, keys...) {
		t.Run(fmt.Sprintf("%.8x", key), func(t *testing.T) {
			t.Parallel()
			v := whole.copied(t)
			if key != nil {
				touch(t, v.cfg.Dir, key[0], func(txn *badger.Txn, at, val []byte) error {
					if !bytes.Equal(at, key) {
						return nil
					}
					return flipLast(txn, at, val)
				})
			}
			v.cfg.Registerer = prometheus.NewRegistry()
			v.expectServed(t, key)
		})
	}
}

func (v *lived) expectServed(t *testing.T, key []byte) {
	db := v.begin(t)
	hurt := v.hurtBy(key)
	leases, _, err := db.Lease(t.Context(), "t", 100, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	leased := map[event.Ref]bool{}
	for _, l := range leases {
		leased[l.Delivery.Event] = true
	}
	for id, ref := range v.refs {
		if open := id != "dead"; leased[ref] != open && hurt != id {
			t.Errorf("delivery of %q leased: %v, want %v", id, leased[ref], open)
		}
		// Whoever is not leased is damaged or closed, and says so.
		rec, err := db.Get(t.Context(), ref)
		if err != nil && (!errors.Is(err, dedupe.ErrDamaged) || hurt != id) {
			t.Errorf("event %q: %v", id, err)
		}
		if err == nil && !leased[ref] && slices.ContainsFunc(rec.Deliveries, func(d event.Delivery) bool { return d.Target == "t" && d.State.Open() }) {
			t.Errorf("delivery of %q is open and not leased", id)
		}
	}
	told, lost := v.concerned(t, db), len(leases) < len(v.refs)-1
	if lost && !told || told && hurt == "" {
		t.Errorf("a concern: %v; deliveries not made: %v; damaged: %q", told, lost, hurt)
	}
	if lost { // and a list of what is open names it
		_, err := db.Deliveries(t.Context(), dedupe.Filter{State: "pending", Target: "t"}, "", 100)
		var at *dedupe.EventError
		if !errors.As(err, &at) || at.Ref != v.refs[hurt] {
			t.Errorf("list of what is open: %v, want it to name %q", err, hurt)
		}
	}
	if err := db.Release(t.Context(), leases...); err != nil {
		t.Fatal(err)
	}
	v.clock.Advance(48 * time.Hour)
	if _, err := db.Expire(t.Context()); err != nil {
		t.Errorf("retention: %v", err)
	}
	for id, ref := range v.refs {
		_, err := db.Get(t.Context(), ref)
		if err == nil || id == "dead" && errors.Is(err, dedupe.ErrPruned) {
			continue
		}
		if hurt != id || !errors.Is(err, dedupe.ErrDamaged) && !errors.Is(err, dedupe.ErrPruned) {
			t.Errorf("event %q after retention: %v", id, err)
		}
	}
	if n := counter(t, v.cfg.Registerer.(*prometheus.Registry), "onceward_store_damage_total"); v.concerned(t, db) && n == 0 || key == nil && n > 0 {
		t.Errorf("%v damaged records counted", n)
	}
}

// hurtBy names the event of which a record is damaged, "" for none.
func (v *lived) hurtBy(key []byte) string {
	for id, ref := range v.refs {
		if key != nil && bytes.Contains(key, ref[:]) {
			return id
		}
	}
	return ""
}

func (v *lived) concerned(t *testing.T, db *running) bool {
	t.Helper()
	st, err := db.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(st.Concerns, func(c dedupe.Concern) bool { return c.Name == "damage" })
}

func counter(t *testing.T, reg *prometheus.Registry, name string) float64 {
	t.Helper()
	all, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		if f.GetName() == name {
			return f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	t.Fatalf("no %s", name)
	return 0
}

// Those that wait in order for a delivery whose state can't be read wait on, over
// restarts and batches as well; others go.
func TestLaneBehindDamage(t *testing.T) {
	cfg := small(t.TempDir(), time.Now)
	v := &lived{cfg: cfg, refs: map[string]event.Ref{}}
	db := v.begin(t)
	send := func(id, lane string) {
		r := request("s", id, "a body", "t")
		r.Items[0].Event.Orders = []event.Order{event.OrderOf(lane, false)}
		accept(t, db, r)
		v.refs[id] = r.Outcomes[0].Ref
	}
	send("first", "one")
	leases, _, err := db.Lease(t.Context(), "t", 1, time.Minute)
	if err != nil || len(leases) != 1 {
		t.Fatalf("leased %d, %v", len(leases), err)
	}
	r := &dedupe.Result{Lease: leases[0], State: event.Pending, Attempt: event.Attempt{Event: v.refs["first"], Target: "t", Number: 1,
		StartedAt: time.Now(), Outcome: event.Outcome5xx, State: event.Pending}}
	if err := db.Commit(t.Context(), &dedupe.Batch{Results: []*dedupe.Result{r}}); err != nil {
		t.Fatal(err)
	}
	send("second", "one")
	send("other", "two")
	db.stop()
	touch(t, cfg.Dir, 'e', func(txn *badger.Txn, key, val []byte) error {
		if first := v.refs["first"]; key[6] != 's' || !bytes.Contains(key, first[:]) {
			return nil
		}
		return flipLast(txn, key, val)
	})
	for range 3 {
		db = v.begin(t)
		send(fmt.Sprint(len(v.refs)), "three") // a batch renews the mark
		leases, _, err := db.Lease(t.Context(), "t", 100, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for id, ref := range v.refs {
			if slices.ContainsFunc(leases, func(l dedupe.Lease) bool { return l.Delivery.Event == ref }) {
				got = append(got, id)
			}
		}
		slices.Sort(got)
		if want := []string{"3", "other"}; !slices.Equal(got, want) {
			t.Errorf("leased %v, want %v", got, want)
		}
		if !v.concerned(t, db) {
			t.Error("no concern")
		}
		db.stop()
	}
}
