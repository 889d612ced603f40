package simulation

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

var (
	plansFlag = flag.Int("plans", 0, "how many plans are played; 0 is 300, 60 with -short")
	firstFlag = flag.Int("first", 1, "seed of the first plan; the others follow it")
)

func number(t *testing.T) int {
	t.Helper()
	switch {
	case *plansFlag > 0:
		return *plansFlag
	case testing.Short():
		return 60
	}
	return 300
}

func tell(p int, out outcome) string {
	return fmt.Sprintf("plan %d (go test ./simulation -run TestPlans -first %d -plans 1):\n  %s\n%s", p, p,
		strings.Join(out.faults, "\n  "), strings.Join(out.story, "\n"))
}

// TestPlans plays plans from successive seeds.
func TestPlans(t *testing.T) {
	var sum outcome
	n := number(t)
	for p := *firstFlag; p < *firstFlag+n; p++ {
		out := play(t, plans.Example(p), newMemory)
		if len(out.faults) > 0 {
			t.Fatal(tell(p, out))
		}
		sum.accepted += out.accepted
		sum.repeats += out.repeats
		sum.arrivals += out.arrivals
		sum.kills += out.kills
	}
	fmt.Fprintf(os.Stderr, "simulation: plans %d from seed %d, accepted %d, repeats %d, requests at targets %d, kills %d\n",
		n, *firstFlag, sum.accepted, sum.repeats, sum.arrivals, sum.kills)
	if sum.accepted < n || sum.repeats < n/2 || sum.arrivals < n || n >= 60 && sum.kills < n/2 {
		t.Error("the plans did too little to prove anything")
	}
}

// TestShrink has rapid draw and shrink plans: a fault is shown by the shortest
// plan that has it.
func TestShrink(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		p := plans.Draw(rt, "plan")
		if out := play(t, p, newMemory); len(out.faults) > 0 {
			rt.Fatalf("%s\n%s", strings.Join(out.faults, "\n"), strings.Join(out.story, "\n"))
		}
	})
}
