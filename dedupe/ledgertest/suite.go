package ledgertest

import (
	"context"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

// TB is what a Harness needs of a test. *testing.T is one; a random history
// brings its own, so that each of its ledgers goes away with it.
type TB interface {
	Helper()
	Logf(format string, args ...any)
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	Cleanup(func())
	TempDir() string
	Context() context.Context
}

// Options are how a ledger is opened.
type Options struct {
	Now       func() time.Time // the wall clock, which the suite moves
	Retention dedupe.Retention // the ledger's defaults
}

// Harness is how the suite reaches an engine. What a nil field would do is
// not tested, and the log says so.
type Harness struct {
	// Open makes an empty ledger, with whatever it runs in the background
	// started, and ends it in a cleanup unless it was closed before.
	Open func(tb TB, o Options) dedupe.Ledger
	// Reopen closes the ledger, if it isn't closed, and opens the same again
	// with its options.
	Reopen func(tb TB, l dedupe.Ledger) dedupe.Ledger
	// Crash opens the ledger again as after a kill: without a Close. Optional.
	Crash func(tb TB, l dedupe.Ledger) dedupe.Ledger
	// Restore makes a ledger of what Backup wrote. Optional.
	Restore func(tb TB, r io.Reader, o Options) dedupe.Ledger
	// Move closes the ledger and opens one that all its records were moved into.
	// Histories do so where it is set, and go on there.
	Move func(tb TB, l dedupe.Ledger) dedupe.Ledger
	// DiskUsage is how many bytes the ledger takes. Optional.
	DiskUsage func(tb TB, l dedupe.Ledger) int64
	// DiskSlack is what an empty ledger that was once full may still take.
	DiskSlack int64
	// Damage changes a bit in the record of an event, whose deliveries are closed,
	// and gives the ledger, which may have to be opened anew. Optional.
	Damage func(tb TB, l dedupe.Ledger, ref event.Ref) dedupe.Ledger
	// InjectCommitError makes the next Commit fail. Optional.
	InjectCommitError func(l dedupe.Ledger, err error)

	ChunkSize int // at which the engine cuts bodies; 0 = 512 KiB
	BodyLimit int // the largest body taken; 0 = 32 MiB
	// Histories is how many random histories are tried; 0 leaves it to the
	// flags of the test binary.
	Histories int
}

// start is when all tests begin; the engines under test have no other date.
var start = time.Date(2026, 3, 1, 9, 30, 0, 0, time.UTC)

// Clock is a wall clock that moves only when told to.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// NewClock makes a clock that stands at t.
func NewClock(t time.Time) *Clock { return &Clock{now: t} }

// Now is where the clock stands.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Advance moves the clock by d, which may be negative.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// atOnce is how many tests go on at a time, however many processors there are:
// each has a ledger, with its memory or its connections.
const atOnce = 4

// Run holds an engine to the whole contract of package dedupe. Its tests go on
// beside each other.
func Run(t *testing.T, h Harness) {
	if h.ChunkSize <= 0 {
		h.ChunkSize = 512 << 10
	}
	if h.BodyLimit <= 0 {
		h.BodyLimit = 32 << 20
	}
	slots := make(chan struct{}, atOnce)
	for _, group := range [...]struct {
		name  string
		tests []test
	}{
		{"accept", acceptTests()},
		{"window", windowTests()},
		{"lease", leaseTests()},
		{"order", orderTests()},
		{"account", accountTests()},
		{"index", indexTests()},
		{"text", textTests()},
		{"once", onceTests()},
		{"upkeep", upkeepTests()},
		{"notes", noteTests()},
		{"tail", tailTests()},
		{"dead", deadTests()},
		{"damage", damageTests()},
		{"acts", actTests()},
		{"retention", retentionTests()},
		{"restart", restartTests()},
		{"writer", writerTests()},
		{"keys", keyTests()},
	} {
		t.Run(group.name, func(t *testing.T) {
			t.Parallel()
			for _, tt := range group.tests {
				t.Run(tt.name, func(t *testing.T) {
					t.Parallel()
					slots <- struct{}{}
					t.Cleanup(func() { <-slots }) // after those of the ledger
					tt.run(newFix(t, h))
				})
			}
		})
	}
	t.Run("history", func(t *testing.T) {
		t.Parallel()
		Histories(t, h)
	})
}

// test is one property, on a fresh ledger.
type test struct {
	name string
	run  func(*fix)
}
