package forward

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"
)

func TestScheduleNext(t *testing.T) {
	t.Parallel()
	list := []time.Duration{5 * time.Second, 5 * time.Minute, 30 * time.Minute}
	std := Schedule{Initial: time.Second, Factor: 2, Max: time.Hour}
	for _, tt := range []struct {
		name    string
		s       Schedule
		attempt uint32
		r       float64
		want    time.Duration
	}{
		{"first, all of it", std, 1, 1, time.Second},
		{"first, none of it", std, 1, 0, 0},
		{"first, half of it", std, 1, 0.5, 500 * time.Millisecond},
		{"second", std, 2, 1, 2 * time.Second},
		{"fifth", std, 5, 1, 16 * time.Second},
		{"twelfth", std, 12, 1, 2048 * time.Second},
		{"thirteenth is capped", std, 13, 1, time.Hour},
		{"far beyond any float", std, 4_000_000_000, 1, time.Hour},
		{"zero counts as first", std, 0, 1, time.Second},
		{"constant", Schedule{Initial: time.Minute, Factor: 1, Max: time.Minute}, 9, 1, time.Minute},
		{"half of it steady", Schedule{Initial: time.Minute, Factor: 2, Max: time.Hour, Steady: 0.5}, 1, 0.5, 45 * time.Second},
		{"all of it steady", Schedule{Initial: time.Minute, Factor: 2, Max: time.Hour, Steady: 1}, 3, 0.123, 4 * time.Minute},
		{"list, first", Schedule{List: list, Steady: 1}, 1, 0.7, 5 * time.Second},
		{"list, third", Schedule{List: list, Steady: 1}, 3, 0.7, 30 * time.Minute},
		{"list, beyond its end", Schedule{List: list, Steady: 1}, 300, 0.7, 30 * time.Minute},
		{"list with jitter", Schedule{List: list, Steady: 0.8}, 2, 0.5, 270 * time.Second},
		{"slow growth", Schedule{Initial: 10 * time.Second, Factor: 1.5, Max: time.Hour}, 3, 1, 22500 * time.Millisecond},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := tt.s.Next(tt.attempt, tt.r); got != tt.want {
				t.Errorf("Next(%d, %v) = %v, want %v", tt.attempt, tt.r, got, tt.want)
			}
		})
	}
}

// Over many seeds a delay stays within its bound, and both halves of the
// bound are used: the jitter is full.
func TestScheduleJitter(t *testing.T) {
	t.Parallel()
	s := Schedule{Initial: time.Second, Factor: 2, Max: time.Hour}
	var low, high int
	for seed := range uint64(10_000) {
		rng := rand.New(rand.NewPCG(seed, 0))
		for attempt := uint32(1); attempt <= 20; attempt++ {
			bound := time.Hour
			if attempt <= 12 {
				bound = time.Second << (attempt - 1)
			}
			got := s.Next(attempt, rng.Float64())
			if got < 0 || got > bound {
				t.Fatalf("seed %d: Next(%d) = %v, want 0 to %v", seed, attempt, got, bound)
			}
			if got < bound/2 {
				low++
			} else {
				high++
			}
		}
	}
	if low < 95_000 || high < 95_000 {
		t.Errorf("%d delays in the lower half and %d in the upper, want about 100,000 each", low, high)
	}
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		value string
		want  time.Duration
	}{
		{"", 0},
		{"0", 0},
		{"7", 7 * time.Second},
		{" 120 ", 2 * time.Minute},
		{"86400", 24 * time.Hour},
		{"86401", 24 * time.Hour},
		{"99999999999999999999999999", 24 * time.Hour},
		{"-5", 0},
		{"+5", 0},
		{"1.5", 0},
		{"1e3", 0},
		{"soon", 0},
		{"5s", 0},
		{"٣", 0},
		{"Mon, 30 Nov 2026 12:01:00 GMT", time.Minute},
		{"Monday, 30-Nov-26 12:01:00 GMT", time.Minute},
		{"Mon Nov 30 12:01:00 2026", time.Minute},
		{"Mon, 30 Nov 2026 11:59:00 GMT", 0},
		{"Tue, 30 Nov 2027 12:00:00 GMT", 24 * time.Hour},
		{"Mon, 30 Nov 2026 12:01:00 CET", 0},
		{"2026-11-30T12:01:00Z", 0},
	} {
		if got := retryAfter(tt.value, now); got != tt.want {
			t.Errorf("retryAfter(%q) = %v, want %v", tt.value, got, tt.want)
		}
	}
}

func FuzzRetryAfter(f *testing.F) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for _, s := range []string{"", "7", "-1", "Mon, 30 Nov 2026 12:01:00 GMT", "99999999999999999999"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if got := retryAfter(s, now); got < 0 || got > MaxRetryAfter {
			t.Errorf("retryAfter(%q) = %v, want 0 to %v", s, got, MaxRetryAfter)
		}
	})
}

func TestDelay(t *testing.T) {
	t.Parallel()
	tgt := &Target{Schedule: Schedule{Initial: time.Second, Factor: 2, Max: time.Hour}, GiveUp: 72 * time.Hour}
	for _, tt := range []struct {
		name       string
		attempt    uint32
		r          float64
		asked, age time.Duration
		want       time.Duration
		alive      bool
	}{
		{"own", 3, 1, 0, time.Minute, 4 * time.Second, true},
		{"theirs is longer", 3, 1, time.Minute, time.Minute, time.Minute, true},
		{"own is longer", 10, 1, time.Second, time.Minute, 512 * time.Second, true},
		{"the last attempt is at give-up", 13, 1, 0, 71*time.Hour + 30*time.Minute, 30 * time.Minute, true},
		{"theirs does not pass give-up", 13, 0, 24 * time.Hour, 71 * time.Hour, time.Hour, true},
		{"at give-up", 13, 0, 0, 72 * time.Hour, 0, false},
		{"long past", 1, 0, 0, 1000 * time.Hour, 0, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, alive := tgt.delay(tt.attempt, tt.r, tt.asked, tt.age)
			if got != tt.want || alive != tt.alive {
				t.Errorf("delay = %v, %v, want %v, %v", got, alive, tt.want, tt.alive)
			}
		})
	}
}

var update = flag.Bool("update", false, "rewrite the golden files")

// The tables of what schedules do: for some seeds every pause until give-up,
// and a sum over 10,000 seeds.
func TestScheduleGolden(t *testing.T) {
	t.Parallel()
	s, m, h := time.Second, time.Minute, time.Hour
	var out strings.Builder
	for _, tt := range []struct {
		name string
		tgt  Target
	}{
		{"default", Target{}},
		{"no jitter", Target{Schedule: Schedule{Initial: 2 * s, Factor: 3, Max: 30 * m, Steady: 1}, GiveUp: 3 * h}},
		{"a tenth is jitter", Target{Schedule: Schedule{Initial: 10 * s, Factor: 1.5, Max: 10 * m, Steady: 0.9}, GiveUp: 2 * h}},
		{"list", Target{Schedule: Schedule{List: []time.Duration{5 * s, 5 * m, 30 * m, 2 * h, 5 * h, 10 * h}, Steady: 1}, GiveUp: 36 * h}},
		{"list with jitter", Target{Schedule: Schedule{List: []time.Duration{s, m, h}, Steady: 0.5}, GiveUp: 6 * h}},
	} {
		tt.tgt.Name, tt.tgt.URL = "a", mustURL(t, "http://a/")
		tgt, err := tt.tgt.normal()
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.New()
		for seed := range uint64(10_000) {
			table := pauses(&tgt, seed)
			fmt.Fprintln(sum, seed, table)
			if seed < 2 || tgt.Schedule.Steady < 1 && seed == 9_999 {
				fmt.Fprintf(&out, "%s, seed %d: %d attempts, pauses %v\n", tt.name, seed, len(table)+1, table)
			}
		}
		fmt.Fprintf(&out, "%s, 10000 seeds: sha256 %x\n\n", tt.name, sum.Sum(nil))
	}
	const file = "testdata/schedule.golden"
	if *update {
		if err := os.WriteFile(file, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if out.String() != string(want) {
		t.Errorf("schedules differ from %s; -update rewrites it:\n%s", file, out.String())
	}
}

// pauses is what a delivery waits after each failed attempt, at no time for
// the attempts themselves, until it is dead.
func pauses(tgt *Target, seed uint64) (out []time.Duration) {
	rng := rand.New(rand.NewPCG(seed, 0))
	var age time.Duration
	for n := uint32(1); ; n++ {
		d, ok := tgt.delay(n, rng.Float64(), 0, age)
		if !ok {
			return out
		}
		d = d.Truncate(time.Millisecond)
		if d == 0 && age+time.Millisecond > tgt.GiveUp {
			return out
		}
		out = append(out, d)
		age += d
	}
}
