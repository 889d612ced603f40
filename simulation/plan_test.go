package simulation

import (
	"fmt"
	"math/rand/v2"
	"time"

	"pgregory.net/rapid"
)

// The kinds of steps.
const (
	stepSend    = "send"    // one request, or several of one event at once
	stepForge   = "forge"   // a request that must be refused
	stepWait    = "wait"    // time passes
	stepJump    = "jump"    // the wall clock is set forward or back
	stepMood    = "mood"    // a target behaves otherwise
	stepKill    = "kill"    // the process is killed and started again
	stepRestart = "restart" // the process is stopped and started again
	stepDisk    = "disk"    // the disk is low, or no longer
	stepBroken  = "broken"  // the next commit fails
	stepReload  = "reload"  // secrets are rotated, a target comes or goes
	stepReplay  = "replay"  // closed deliveries of one event are opened again
	stepCancel  = "cancel"  // open deliveries of one event are closed
	stepExpire  = "expire"  // retention runs
)

// step is one thing that happens. Which fields count is the kind's.
type step struct {
	Kind   string
	Source int
	ID     int
	Body   int
	Count  int
	Target int
	Mood   mood
	Time   time.Duration
}

// String is the step in words, for the story of a failing plan.
func (s step) String() string {
	switch s.Kind {
	case stepSend, stepForge:
		return fmt.Sprintf("%s source %d id %d body %d x%d", s.Kind, s.Source, s.ID, s.Body, s.Count)
	case stepWait, stepJump:
		return fmt.Sprintf("%s %v", s.Kind, s.Time)
	case stepMood:
		return fmt.Sprintf("mood of target %d: %+v", s.Target, s.Mood)
	}
	return fmt.Sprintf("%s %d", s.Kind, s.ID)
}

// mood is how a target answers: so many of a hundred requests each way, the
// rest with 200.
type mood struct {
	Fail   int // 500
	Later  int // 429 with Retry-After
	Refuse int // 404
	Cut    int // the connection ends after the request was read
	Hang   int // no answer until the sender gives up
	Slow   int // an answer after a while
}

// plan is one run.
type plan struct {
	Seed  uint64 // of what the targets draw
	Steps []step
}

const (
	idsPerSource = 6
	bodies       = 3
)

var kinds = []string{
	stepSend, stepSend, stepSend, stepSend, stepSend, stepSend, stepSend, stepSend,
	stepWait, stepWait, stepWait, stepMood, stepMood, stepForge, stepKill, stepKill, stepRestart, stepDisk, stepBroken,
	stepJump, stepReload, stepReplay, stepCancel, stepExpire,
}

// waits are from between two packets to past every window.
var waits = []time.Duration{
	0, time.Millisecond, 40 * time.Millisecond, time.Second, 7 * time.Second, time.Minute, 20 * time.Minute,
	window - time.Minute, window + time.Minute,
}

// jumps of the wall clock.
var jumps = []time.Duration{-25 * time.Hour, -400 * time.Second, 400 * time.Second, time.Hour, 25 * time.Hour}

var steps = rapid.Custom(func(t *rapid.T) step {
	s := step{
		Kind: rapid.SampledFrom(kinds).Draw(t, "kind"), Source: rapid.IntRange(0, len(sourceNames)-1).Draw(t, "source"),
		ID: rapid.IntRange(0, idsPerSource-1).Draw(t, "id"), Body: rapid.SampledFrom([]int{0, 0, 0, 0, 1, 2}).Draw(t, "body"),
		Count: rapid.SampledFrom([]int{1, 1, 1, 2, 5}).Draw(t, "count"), Target: rapid.IntRange(0, len(targetNames)-1).Draw(t, "target"),
	}
	switch s.Kind {
	case stepWait:
		s.Time = rapid.SampledFrom(waits).Draw(t, "time")
	case stepJump:
		s.Time = rapid.SampledFrom(jumps).Draw(t, "jump")
	case stepMood:
		part := rapid.SampledFrom([]int{0, 0, 0, 10, 30})
		s.Mood = mood{
			Fail: part.Draw(t, "fail"), Later: part.Draw(t, "later"), Refuse: part.Draw(t, "refuse") / 3,
			Cut: part.Draw(t, "cut"), Hang: part.Draw(t, "hang") / 2, Slow: part.Draw(t, "slow"),
		}
	}
	return s
})

var plans = rapid.Custom(func(t *rapid.T) plan {
	return plan{
		Seed:  rapid.Uint64().Draw(t, "seed"),
		Steps: rapid.SliceOfN(steps, 10, 60).Draw(t, "steps"),
	}
})

// draws are what a target draws for one request: the same for the same
// request of the same life, whatever came before.
func (p plan) draws(parts ...string) *rand.Rand {
	sum := p.Seed
	for _, part := range parts {
		for _, b := range []byte(part) {
			sum = (sum ^ uint64(b)) * 0x100000001b3
		}
		sum = (sum ^ 0xff) * 0x100000001b3
	}
	return rand.New(rand.NewPCG(sum, p.Seed))
}
