package dedupe

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/onceward/onceward/event"
)

// OpenBelow gives all that is open or the newest of it without a gap, in
// whatever order it was opened and leased.
func TestOpenBelow(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	now := time.UnixMilli(1_000_000)
	for range 200 {
		s := NewSchedule(func() time.Time { return now }, 0)
		open := map[string]map[event.Ref]bool{"a": {}, "b": {}}
		for i := range rng.IntN(60) {
			ref := event.NewRef(uint64(i), 0, 1)
			for _, name := range []string{"a", "b"} {
				if rng.IntN(3) > 0 {
					s.Add(name, Entry{Ref: ref, Due: int64(i), Attempts: uint32(rng.IntN(2)), Generation: uint16(rng.IntN(2))})
					open[name][ref] = true
				}
			}
		}
		for name, refs := range open {
			leases, _ := s.Lease(name, rng.IntN(10), time.Hour)
			for _, l := range leases[:len(leases)/2] {
				s.Cancel(name, l.Delivery.Event, l.Delivery.Generation)
				delete(refs, l.Delivery.Event)
			}
		}
		below, limit := event.NewRef(uint64(rng.IntN(80)), 0, 1), 1+rng.IntN(20)
		if rng.IntN(3) == 0 {
			below = event.Ref{}
		}
		for _, target := range []string{"", "a", "b", "none"} {
			var want []event.Ref
			for name, refs := range open {
				for ref := range refs {
					if (target == "" || target == name) && (below.IsZero() || ref.Compare(below) < 0) && !slices.Contains(want, ref) {
						want = append(want, ref)
					}
				}
			}
			newest := func(x, y event.Ref) int { return y.Compare(x) }
			slices.SortFunc(want, newest)
			got, cut, whole := s.OpenBelow(target, below, limit)
			slices.SortFunc(got, newest)
			got = slices.Compact(got)
			switch {
			case !whole:
				t.Fatal("not whole, and nothing was left to a ledger")
			case len(got) > len(want) || !slices.Equal(got, want[:len(got)]):
				t.Fatalf("%q below %s: %v, want the newest of %v", target, below, got, want)
			case cut != (len(got) < len(want)), len(got) < min(len(want), limit):
				t.Fatalf("%q below %s, limit %d: %d of %d, cut %v", target, below, limit, len(got), len(want), cut)
			}
		}
	}
}
