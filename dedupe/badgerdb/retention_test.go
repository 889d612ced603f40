package badgerdb_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/dedupe/badgerdb"
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

// However many buckets are due, intake waits for a round, not for all: two go at a
// time where that takes long, and twice as many after each round that was short.
func TestExpireInRounds(t *testing.T) {
	for name, c := range map[string]struct {
		short time.Duration
		want  int // rounds for 20 buckets and more
	}{"long rounds": {0, 10}, "short rounds": {time.Hour, 4}} {
		t.Run(name, func(t *testing.T) {
			clock := ledgertest.NewClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
			cfg := small(t.TempDir(), clock.Now)
			cfg.Retention = dedupe.Retention{Body: 24 * time.Hour, Meta: 24 * time.Hour, Audit: 24 * time.Hour}
			cfg.ClaimBucket = 8 * 24 * time.Hour
			db := &running{DB: start2(t, cfg), stop: func() {}} // no background work, which would do some of the rounds
			t.Cleanup(func() {
				if err := db.Close(); err != nil {
					t.Error(err)
				}
			})
			for i := range 10 {
				accept(t, db, request("s", fmt.Sprint("evt_", i), "{}"))
				clock.Advance(time.Hour)
			}
			clock.Advance(40 * time.Hour)
			db.Short(c.short)
			rounds, round := 0, db.Rounds()
			for more := true; more; rounds++ {
				var err error
				if more, err = round(t.Context()); err != nil {
					t.Fatal(err)
				}
				accept(t, db, request("s", fmt.Sprint("between_", rounds), "{}"))
			}
			if rounds < c.want || rounds > c.want+2 {
				t.Errorf("20 buckets went in %d rounds, want %d or little more", rounds, c.want)
			}
			page, err := db.Events(t.Context(), dedupe.Filter{}, "", 100)
			if err != nil || len(page.Items) != rounds {
				t.Errorf("%d events are left, want the %d accepted between the rounds: %v", len(page.Items), rounds, err)
			}
		})
	}
}

// hours is a ledger to which two sources send random bodies by the hour, one of
// them with a limit of its own.
type hours struct {
	t     *testing.T
	cfg   badgerdb.Config
	clock *ledgertest.Clock
	db    *running
	rng   *rand.ChaCha8
	refs  map[string][]event.Ref // by source
	per   map[string]int
}

const hoursSize, hoursEach = 256 << 10, 8

// send brings hoursEach events of a source. The first of the first hour stays open.
func (h *hours) send(source string) {
	h.t.Helper()
	var rs []*dedupe.Request
	for i := range hoursEach {
		body := make([]byte, hoursSize)
		_, _ = h.rng.Read(body) // never fails
		target := "done"
		if i == 0 && h.per[source] == 0 {
			target = "open"
		}
		h.per[source]++
		rs = append(rs, request(source, fmt.Sprint("evt_", h.per[source]), string(body), target))
	}
	accept(h.t, h.db, rs...)
	for _, r := range rs {
		h.refs[source] = append(h.refs[source], r.Outcomes[0].Ref)
	}
	leases, _, err := h.db.Lease(h.t.Context(), "done", 2*hoursEach, time.Hour)
	if err != nil {
		h.t.Fatal(err)
	}
	b := dedupe.Batch{}
	for _, l := range leases {
		b.Results = append(b.Results, &dedupe.Result{Lease: l, State: event.Delivered, NoAttempt: true})
	}
	if err := h.db.Commit(h.t.Context(), &b); err != nil {
		h.t.Fatal(err)
	}
}

func (h *hours) expire() dedupe.Expired {
	h.t.Helper()
	x, err := h.db.Expire(h.t.Context())
	if err != nil {
		h.t.Fatal(err)
	}
	return x
}

// kept is which of a source's bodies are there, from the oldest event on.
func (h *hours) kept(source string) (out string) {
	h.t.Helper()
	for i, ref := range h.refs[source] {
		if i%hoursEach == 0 {
			out += " "
		}
		switch _, err := h.db.Load(h.t.Context(), ref); {
		case err == nil:
			out += "x"
		case errors.Is(err, dedupe.ErrPruned):
			out += "-"
		default:
			h.t.Fatalf("event %d of %s: %v", i, source, err)
		}
	}
	return out
}

// The bodies of a source with a limit of its own go by it, oldest hour first and
// none of an open event; those of others stay. The limit can change, holds over a
// restart, and what went is off the disk.
func TestBodySizeOfASource(t *testing.T) {
	clock := ledgertest.NewClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	const hour = hoursEach * hoursSize
	cfg := small(t.TempDir(), clock.Now)
	cfg.BodySizes = map[string]int64{"bounded": 1 << 40} // nothing goes yet
	h := &hours{t: t, cfg: cfg, clock: clock, db: start(t, cfg), rng: rand.NewChaCha8([32]byte{2}), refs: map[string][]event.Ref{}, per: map[string]int{}}
	for range 6 {
		h.send("bounded")
		h.send("free")
		clock.Advance(time.Hour)
	}
	check := func(what, want string) {
		t.Helper()
		if got := h.kept("bounded"); got != want {
			t.Errorf("%s: the source with a limit has %q, want %q", what, got, want)
		}
		if got := h.kept("free"); strings.Contains(got, "-") {
			t.Errorf("%s: the source without a limit has %q", what, got)
		}
	}
	check("before retention ran", strings.Repeat(" xxxxxxxx", 6))
	was := h.db.Measure()
	h.db.LimitBodies(map[string]int64{"bounded": 3*hour + hour/2}) // a reload
	h.expire()
	check("retention ran", strings.Replace(strings.Repeat(" --------", 3)+strings.Repeat(" xxxxxxxx", 3), "-", "x", 1))
	freed := was - h.db.Measure()
	t.Logf("the disk has %d bytes back of the %d that went", freed, 3*hour)
	if freed < 2*hour {
		t.Errorf("the disk has %d bytes back of the %d that went", freed, 3*hour)
	}
	if n := h.db.BodySizes()["bounded"]; n < 3*hour || n > 3*hour+hour/2 {
		t.Errorf("bodies of the source take %d bytes, want those of 3 hours and of one event", n)
	}

	h.db.LimitBodies(map[string]int64{"bounded": 2*hour + hour/2})
	h.expire()
	check("less", strings.Replace(strings.Repeat(" --------", 4)+strings.Repeat(" xxxxxxxx", 2), "-", "x", 1))

	h.db.Close()
	h.cfg.BodySizes = map[string]int64{"bounded": hour + hour/2}
	h.db = start(t, h.cfg)
	h.expire()
	check("less after a restart", strings.Replace(strings.Repeat(" --------", 5)+" xxxxxxxx", "-", "x", 1))

	h.db.LimitBodies(nil) // the control: without a limit nothing goes
	for range 3 {
		h.send("bounded")
		clock.Advance(time.Hour)
	}
	h.expire()
	check("no limit", strings.Replace(strings.Repeat(" --------", 5)+strings.Repeat(" xxxxxxxx", 4), "-", "x", 1))
}

// What stands where more bodies come in now is not dropped, whatever its size,
// also when the source's other settings were changed within the hour.
func TestBodySizeKeepsTheHour(t *testing.T) {
	clock := ledgertest.NewClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	cfg := small(t.TempDir(), clock.Now)
	cfg.BodySizes = map[string]int64{"s": 1000}
	db := start(t, cfg)
	rng := rand.NewChaCha8([32]byte{3})
	var refs []event.Ref
	for i := range 6 {
		body := make([]byte, 4000)
		_, _ = rng.Read(body) // never fails
		r := request("s", fmt.Sprint("evt_", i), string(body))
		if r.Retention.Once = i%2 == 1; r.Retention.Once {
			r.Items[0].Event.Targets = []string{"t"}
		}
		accept(t, db, r)
		refs = append(refs, r.Outcomes[0].Ref)
		if _, err := db.Expire(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for i, ref := range refs {
		if err := bodyErr(t, db, ref); err != nil {
			t.Errorf("event %d of this hour: %v", i, err)
		}
	}
}

// A limit finds its place also where a ledger has many retentions: past a bound
// the source is kept with others, and its events are taken.
func TestBodySizeOfManySources(t *testing.T) {
	cfg := small(t.TempDir(), time.Now)
	cfg.BodySizes = map[string]int64{}
	for i := range 300 {
		cfg.BodySizes[fmt.Sprint("s", i)] = 1 << 20
	}
	db := start(t, cfg)
	for i := range 300 {
		accept(t, db, request(fmt.Sprint("s", i), "evt", "{}"))
	}
	r := request("another", "evt", "{}")
	r.Retention.Body = 5 * time.Hour
	accept(t, db, r)
	if _, err := db.Body(t.Context(), r.Outcomes[0].Ref); err != nil {
		t.Error(err)
	}
}
