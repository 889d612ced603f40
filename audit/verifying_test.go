package audit_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onceward/onceward/audit"
	"github.com/onceward/onceward/dedupe"
)

// slow is a ledger of which each read of acts takes its time.
type slow struct {
	audit.LogLedger
	reads int
	took  time.Duration
}

func (s *slow) Acts(ctx context.Context, writer, from uint64, limit int) ([]dedupe.LoggedAct, error) {
	s.reads++
	time.Sleep(s.took)
	return s.LogLedger.Acts(ctx, writer, from, min(limit, 64))
}

// runLog is a log that Run keeps up to date, until the test ends.
func runLog(t *testing.T, b *logBundle) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- b.log.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	synctest.Wait()
}

// slowLog is a log of 1,000 events that runs on a ledger as slow as it is told.
func slowLog(t *testing.T) (*logBundle, *slow) {
	t.Helper()
	b := setupLog(t)
	b.life(1000)
	ledger := &slow{LogLedger: b.ledger}
	b.cfg.Ledger = ledger
	b.open()
	runLog(t, b)
	return b, ledger
}

// A verification that was asked for finds what "audit verify" finds, shows how
// far it is, and is never two at once.
func TestVerifyAsked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, ledger := slowLog(t)
		if v := b.log.Verifying(); v.Running() || !v.StartedAt.IsZero() {
			t.Fatalf("before anybody asked: %+v", v)
		}
		ledger.reads, ledger.took = 0, 10*time.Millisecond
		begun := time.Now()
		if err := b.log.AskVerify("ops"); err != nil {
			t.Fatal(err)
		}
		var steps []uint64
		for b.log.Verifying().Running() {
			if err := b.log.AskVerify("other"); !errors.Is(err, audit.ErrVerifying) {
				t.Fatalf("a second one beside it: %v", err)
			}
			if v := b.log.Verifying(); len(steps) == 0 || v.Acts > steps[len(steps)-1] {
				steps = append(steps, v.Acts)
			}
			time.Sleep(50 * time.Millisecond)
			synctest.Wait()
		}
		v := b.log.Verifying()
		if v.Err != nil || len(v.Report.Faults) > 0 || v.Report.Acts < 3000 || v.Total < v.Report.Acts || v.Actor != "ops" {
			t.Errorf("verified: %+v", v)
		}
		if len(steps) < 5 {
			t.Errorf("progress was seen at %v alone", steps)
		}
		// It rests eight times as long as it works, and what it works is here
		// nothing but its reads.
		if took, least := time.Since(begun), 8*time.Duration(ledger.reads)*ledger.took; took < least {
			t.Errorf("%d reads of %v in %v, want it to rest until %v at least", ledger.reads, ledger.took, took, least)
		}
		if err := b.log.AskVerify("again"); err != nil {
			t.Errorf("after the end: %v", err)
		}
	})
}

// What was changed in the ledger below is named, with its place.
func TestVerifyAskedFindsTampering(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setupLog(t)
		b.life(400)
		logs, err := b.ledger.ActLogs(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		acts, err := b.ledger.Acts(t.Context(), logs[0].Writer, 500, 1)
		if err != nil {
			t.Fatal(err)
		}
		act, err := dedupe.DecodeAct(acts[0].Leaf)
		if err != nil {
			t.Fatal(err)
		}
		act.Number++
		runLog(t, b)
		verified := func() audit.Verification {
			if err := b.log.AskVerify("ops"); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
			synctest.Wait()
			return b.log.Verifying()
		}
		if v := verified(); v.Running() || v.Err != nil || len(v.Report.Faults) > 0 {
			t.Fatalf("untouched: %+v", v)
		}
		b.ledger.TamperAct(logs[0].Writer, 500, act.Append(nil))
		v := verified()
		if v.Running() || v.Err != nil || len(v.Report.Faults) == 0 {
			t.Fatalf("tampered with: %+v", v)
		}
		rep := b.verify(b.export())
		if got, want := v.Report.Faults[0], rep.Faults[0]; got.Where != want.Where || got.What != want.What {
			t.Errorf("it names %+v, and a verification of the export %+v", got, want)
		}
	})
}

// A verification can be stopped, and ends with Run.
func TestVerifyStops(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, ledger := slowLog(t)
		b.log.StopVerify() // nothing is under way
		ledger.took = time.Second
		if err := b.log.AskVerify("ops"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		b.log.StopVerify()
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if v := b.log.Verifying(); v.Running() || v.Err == nil || v.Err.Error() != "it was stopped" {
			t.Errorf("stopped: %+v", v)
		}
		if err := b.log.AskVerify("ops"); err != nil {
			t.Fatalf("after a stop: %v", err)
		}
		time.Sleep(5 * time.Second) // and Run ends under it
	})
	b := setupLog(t)
	b.cfg.Key = nil
	b.open()
	if err := b.log.AskVerify("ops"); !errors.Is(err, audit.ErrNoKey) {
		t.Errorf("without a key: %v", err)
	}
}
