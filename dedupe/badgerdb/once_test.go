package badgerdb

import (
	"fmt"
	"testing"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

// The bytes are deleted in the commit that closes the last delivery of the last
// event of the request, and in no earlier one.
func TestSpentBodiesAreDeleted(t *testing.T) {
	db, err := Open(Config{Dir: t.TempDir(), Reserve: 1 << 20, Ballast: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	bodies := func() (n int) {
		_ = db.view(func(txn *badger.Txn) error {
			opt := badger.DefaultIteratorOptions
			opt.Prefix = []byte{kindBody}
			it := txn.NewIterator(opt)
			defer it.Close()
			for it.Rewind(); it.Valid(); it.Next() {
				n++
			}
			return nil
		})
		return n
	}
	body := []byte(`["a","b","c"]`)
	req := &dedupe.Request{Body: body, Batch: true, Retention: dedupe.Retention{Once: true}}
	for i := range 3 {
		s := event.Slice{Offset: int64(1 + 4*i), Length: 3}
		req.Items = append(req.Items, dedupe.Item{RawID: fmt.Sprint(i), Event: event.Event{Source: "s", ID: fmt.Sprint(i),
			Targets: []string{"t"}, Body: s, BodyHash: event.HashOf(slice(body, s))}})
	}
	if err := db.Commit(t.Context(), &dedupe.Batch{Requests: []*dedupe.Request{req}}); err != nil {
		t.Fatal(err)
	}
	leases, _, err := db.Lease(t.Context(), "t", 3, time.Hour)
	if err != nil || len(leases) != 3 {
		t.Fatalf("%d leases, %v", len(leases), err)
	}
	for i, l := range leases {
		if n := bodies(); n != 1 {
			t.Fatalf("%d chunks with %d of 3 delivered, want 1", n, i)
		}
		res := &dedupe.Result{Lease: l, State: event.Delivered, Attempt: event.Attempt{Event: l.Delivery.Event, Target: "t", Number: 1,
			StartedAt: time.Now(), Status: 200, Outcome: event.Outcome2xx, State: event.Delivered}}
		if err := db.Commit(t.Context(), &dedupe.Batch{Results: []*dedupe.Result{res}}); err != nil {
			t.Fatal(err)
		}
	}
	if n := bodies(); n != 0 {
		t.Errorf("%d chunks after all were delivered", n)
	}
}
