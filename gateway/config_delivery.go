package gateway

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/onceward/onceward/forward"
)

// BreakerConfig says when a target counts as sick.
type BreakerConfig struct {
	// Off leaves a sick target to the pauses between attempts alone.
	Off bool `toml:"off,omitzero"`
	// Failures and Ratio: it opens when so many of the last failures/ratio
	// results spoke against the target. Defaults 10, at most 1000, and 0.9, 0.05
	// to 1.
	Failures int     `toml:"failures,omitzero"`
	Ratio    float64 `toml:"ratio,omitzero"`
	// Probe is when one attempt tries whether the target is well again; while
	// those fail, the wait doubles up to ProbeMax. Defaults "5s", "5m".
	Probe    Duration `toml:"probe,omitzero"`
	ProbeMax Duration `toml:"probe_max,omitzero"`
}

// Rate is a number of attempts in a length of time, in TOML "50/s".
type Rate struct {
	Count int
	Per   time.Duration
}

var errRate = errors.New(`want a rate such as "50/s", "300/m" or "1000/h"`)

var rateUnits = map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour}

// maxRate is far above what one process forwards.
const maxRate = 1_000_000

// UnmarshalText reads "50/s": a whole number from 1, and a unit.
func (r *Rate) UnmarshalText(b []byte) error {
	count, unit, ok := strings.Cut(string(b), "/")
	n, err := strconv.ParseUint(count, 10, 32)
	per := rateUnits[unit]
	if !ok || err != nil || n == 0 || n > maxRate || per == 0 {
		return errRate
	}
	*r = Rate{int(n), per}
	return nil
}

// String writes what UnmarshalText reads.
func (r Rate) String() string {
	for unit, per := range rateUnits {
		if per == r.Per {
			return strconv.Itoa(r.Count) + "/" + unit
		}
	}
	return ""
}

// MarshalText writes String.
func (r Rate) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// fillDelivery sets the defaults of how a target is attempted. A list of pauses
// leaves those of the curve out.
func (t *TargetConfig) fillDelivery() {
	orDefault(&t.Timeout, forward.DefaultTimeout)
	orDefault(&t.GiveUpAfter, forward.DefaultGiveUp)
	if t.Concurrency == 0 && t.Pull {
		t.Concurrency = forward.DefaultPullLeases
	}
	if t.Concurrency == 0 {
		t.Concurrency = forward.DefaultConcurrency
	}
	if t.Memory == 0 {
		t.Memory = forward.DefaultMemory
	}
	if len(t.Schedule) > 0 {
		return
	}
	orDefault(&t.Initial, forward.DefaultInitial)
	orDefault(&t.Max, forward.DefaultMaxDelay)
	if t.Factor == 0 {
		t.Factor = forward.DefaultFactor
	}
}

// schedule is the pauses as the forwarder takes them.
func (t *TargetConfig) schedule() forward.Schedule {
	s := forward.Schedule{Initial: time.Duration(t.Initial), Factor: t.Factor, Max: time.Duration(t.Max)}
	for _, d := range t.Schedule {
		s.List = append(s.List, time.Duration(d))
	}
	switch {
	case t.Jitter != nil:
		s.Steady = 1 - *t.Jitter
	case len(s.List) > 0:
		s.Steady = 1
	}
	return s
}

func (t *TargetConfig) breaker() forward.Breaker {
	b := t.Breaker
	return forward.Breaker{Off: b.Off, Failures: b.Failures, Ratio: b.Ratio, Probe: time.Duration(b.Probe), ProbeMax: time.Duration(b.ProbeMax)}
}

// targetSchedule checks the numbers of a target.
func (c *checker) targetSchedule(t *TargetConfig, n *node) {
	c.between(n.get("timeout"), "timeout", t.Timeout, 100*time.Millisecond, 10*time.Minute)
	c.between(n.get("give_up_after"), "give_up_after", t.GiveUpAfter, time.Second, 90*day)
	if t.Concurrency < 1 || t.Concurrency > 1024 {
		c.rep.at(n.or("concurrency"), "concurrency is out of bounds", "want 1 to 1024")
	}
	if m := n.get("memory"); m != nil && (t.Memory < 64<<10 || t.Memory > 64<<30) {
		c.rep.at(m, "memory = "+strconv.Quote(t.Memory.String())+" is out of bounds", "want 64KiB to 64GiB")
	}
	if j := n.get("jitter"); j != nil && t.Jitter != nil && (*t.Jitter < 0 || *t.Jitter > 1) {
		c.rep.at(j, "jitter is out of bounds", "want 0, none, to 1, all of the pause")
	}
	c.targetPauses(t, n)
	c.targetRate(t, n)
	c.targetBreaker(t, n.get("breaker"))
	c.targetStatuses(t, n)
}

// targetPauses checks the curve, or the list in its place.
func (c *checker) targetPauses(t *TargetConfig, n *node) {
	if list := n.get("schedule"); list != nil {
		for i, d := range t.Schedule {
			if at := list.item(i); !at.bad {
				c.between(at, "a pause", d, 10*time.Millisecond, 7*day)
			}
		}
		switch {
		case len(t.Schedule) == 0 && !list.bad:
			c.rep.at(list, "the schedule is empty", `write schedule = ["5s", "5m", "30m"], or remove it`)
		case len(t.Schedule) > forward.MaxSteps:
			c.rep.at(list, "the schedule has "+strconv.Itoa(len(t.Schedule))+" pauses", "want at most "+strconv.Itoa(forward.MaxSteps)+"; the last one repeats")
		}
		for _, key := range []string{"initial", "factor", "max"} {
			if at := n.get(key); at != nil {
				c.rep.at(at, key+" shapes a curve, and there is a schedule in its place", "remove one of them")
			}
		}
		return
	}
	c.between(n.get("initial"), "initial", t.Initial, 10*time.Millisecond, day)
	c.between(n.get("max"), "max", t.Max, 10*time.Millisecond, 7*day)
	if t.Initial > t.Max {
		c.rep.at(n.or("initial"), "initial is longer than max", "the first pause can't be longer than the longest")
	}
	if t.Factor < 1 || t.Factor > 100 {
		c.rep.at(n.or("factor"), "factor is out of bounds", "want 1 to 100")
	}
}

func (c *checker) targetRate(t *TargetConfig, n *node) {
	burst := n.get("burst")
	switch {
	case burst == nil:
	case t.Burst < 1 || t.Burst > maxRate:
		c.rep.at(burst, "burst is out of bounds", "want 1 to "+strconv.Itoa(maxRate))
	case n.get("rate") == nil:
		c.rep.at(burst, "there is a burst, and no rate", `write rate = "50/s" as well, or remove it`)
	}
}

func (c *checker) targetBreaker(t *TargetConfig, n *node) {
	if n == nil {
		return
	}
	b := &t.Breaker
	if at := n.get("failures"); at != nil && (b.Failures < 1 || b.Failures > forward.MaxFailures) {
		c.rep.at(at, "failures is out of bounds", "want 1 to "+strconv.Itoa(forward.MaxFailures))
	}
	if at := n.get("ratio"); at != nil && !(b.Ratio >= forward.MinRatio && b.Ratio <= 1) {
		c.rep.at(at, "ratio is out of bounds", "want 0.05 to 1")
	}
	c.between(n.get("probe"), "probe", b.Probe, 10*time.Millisecond, day)
	c.between(n.get("probe_max"), "probe_max", b.ProbeMax, 10*time.Millisecond, day)
	probe := b.Probe
	orDefault(&probe, forward.DefaultProbe)
	if b.ProbeMax != 0 && b.ProbeMax < probe {
		c.rep.at(n.or("probe_max"), "probe_max is shorter than probe", "the wait for a probe can only grow")
	}
}

// targetStatuses checks the statuses that mean something else here.
func (c *checker) targetStatuses(t *TargetConfig, n *node) {
	said := map[int]string{}
	for _, list := range []struct {
		key      string
		statuses []int
	}{{"retry_on", t.RetryOn}, {"dead_on", t.DeadOn}, {"pause_on", t.PauseOn}} {
		for i, s := range list.statuses {
			at := n.get(list.key).item(i)
			switch in := said[s]; {
			case s < 300 || s > 599:
				c.rep.at(at, strconv.Itoa(s)+" is no status that could be overridden", "want 300 to 599; 2xx is always delivered")
			case in == list.key:
				c.rep.at(at, strconv.Itoa(s)+" is there twice", "remove one")
			case in != "":
				c.rep.at(at, strconv.Itoa(s)+" is in "+in+" as well", "remove it from one of them")
			}
			said[s] = list.key
		}
	}
}
