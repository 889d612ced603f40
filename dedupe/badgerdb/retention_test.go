package badgerdb_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/dedupe/ledgertest"
	"github.com/onceward/onceward/event"
)

// Bodies go before their time when they take more than they may, oldest first
// and none of an open event.
func TestBodySize(t *testing.T) {
	const perDay, size, days = 40, 256 << 10, 6
	clock := ledgertest.NewClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	cfg := small(t.TempDir(), clock.Now)
	cfg.Retention = dedupe.Retention{Body: 24 * 24 * time.Hour} // a bucket a day
	cfg.BodySize = 2*perDay*size + perDay*size/2
	db := start(t, cfg)
	rng := rand.NewChaCha8([32]byte{1})
	var byDay [days][]event.Ref
	for day := range days {
		for i := range perDay {
			body := make([]byte, size)
			_, _ = rng.Read(body) // never fails
			target := "done"
			if i == 0 {
				target = "open"
			}
			r := request("s", fmt.Sprintf("evt_%d_%d", day, i), string(body), target)
			accept(t, db, r)
			byDay[day] = append(byDay[day], r.Outcomes[0].Ref)
		}
		leases, _, err := db.Lease(t.Context(), "done", perDay, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		b := dedupe.Batch{}
		for _, l := range leases {
			b.Results = append(b.Results, &dedupe.Result{Lease: l, State: event.Delivered, NoAttempt: true})
		}
		if err := db.Commit(t.Context(), &b); err != nil {
			t.Fatal(err)
		}
		clock.Advance(24 * time.Hour)
	}
	db.Close()
	db = start(t, cfg) // sizes are known after a restart as well
	x, err := db.Expire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("expired %+v", x)
	gone := 0
	for day := range days {
		for i, ref := range byDay[day] {
			_, err := db.Load(t.Context(), ref)
			switch {
			case i == 0 && err != nil:
				t.Errorf("open event of day %d: %v", day, err)
			case errors.Is(err, dedupe.ErrPruned) && day == days-1:
				t.Errorf("event %d of the last day has no body", i)
			case errors.Is(err, dedupe.ErrPruned):
				gone++
			case err != nil:
				t.Fatal(err)
			}
			if rec, err := db.Get(t.Context(), ref); err != nil || rec.BodyGone != (i != 0 && errors.Is(bodyErr(t, db, ref), dedupe.ErrPruned)) {
				t.Errorf("event %d of day %d: body gone %v, %v", i, day, rec.BodyGone, err)
			}
		}
	}
	if want := (days - 2) * (perDay - 1); gone != want {
		t.Errorf("%d bodies are gone, want %d", gone, want)
	}
}

func bodyErr(t *testing.T, db *running, ref event.Ref) error {
	t.Helper()
	_, err := db.Body(t.Context(), ref)
	return err
}

// However many buckets are due, intake waits for a round, not for all.
func TestExpireInRounds(t *testing.T) {
	clock := ledgertest.NewClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	cfg := small(t.TempDir(), clock.Now)
	cfg.Retention = dedupe.Retention{Body: 24 * time.Hour, Meta: 24 * time.Hour, Audit: 24 * time.Hour}
	cfg.ClaimBucket = 8 * 24 * time.Hour
	db := start(t, cfg)
	for i := range 10 {
		accept(t, db, request("s", fmt.Sprint("evt_", i), "{}"))
		clock.Advance(time.Hour)
	}
	clock.Advance(40 * time.Hour)
	rounds := 0
	for more := true; more; rounds++ {
		var err error
		if more, err = db.ExpireRound(t.Context()); err != nil {
			t.Fatal(err)
		}
		accept(t, db, request("s", fmt.Sprint("between_", rounds), "{}"))
	}
	if rounds < 8 { // the background may have done one or two
		t.Errorf("20 buckets went in %d rounds", rounds)
	}
	page, err := db.Events(t.Context(), dedupe.Filter{}, "", 100)
	if err != nil || len(page.Items) != rounds {
		t.Errorf("%d events are left, want the %d accepted between the rounds: %v", len(page.Items), rounds, err)
	}
}
