package dedupe_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/dedupe/ledgertest"
)

func TestWriterSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewRegistry()
		m := ledgertest.NewMemory(ledgertest.Config{})
		w := newWriter(t, dedupe.WriterConfig{Ledger: m, Registerer: reg})
		w.CountKeys("pay")
		stop := run(t, w)
		defer func() {
			if err := stop(); err != nil {
				t.Error(err)
			}
		}()
		claim := claimStep(printOne, false)
		if err := w.Step(t.Context(), &claim); err != nil || claim.Verdict != dedupe.KeyClaimed {
			t.Fatalf("claim: %d, %v", claim.Verdict, err)
		}
		other := claimStep(printTwo, false)
		if err := w.Step(t.Context(), &other); err != nil || other.Verdict != dedupe.KeyMismatch {
			t.Errorf("other request: %d, %v", other.Verdict, err)
		}
		answer := concludeStep(dedupe.StepAnswer, claim.Record.Token)
		answer.ForwardedAt = time.Now()
		count := concludeStep(dedupe.StepReplayed, 0)
		count.Replays = 5
		if err := w.Step(t.Context(), &answer, &count); err != nil || answer.Verdict != dedupe.KeyDone || count.Verdict != dedupe.KeyDone {
			t.Errorf("answer and count: %d, %d, %v", answer.Verdict, count.Verdict, err)
		}
		for moment, want := range map[string]float64{"claimed": 1, "mismatch": 1, "forwarded": 1, "answered": 1, "replayed": 5, "unknown": 0, "expired": 0} {
			if got := counterOf(t, reg, "pay", moment); got != want {
				t.Errorf("%s = %v, want %v", moment, got, want)
			}
		}
	})
}

func counterOf(t *testing.T, reg *prometheus.Registry, source, moment string) float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if l := m.GetLabel(); f.GetName() == "onceward_sync_keys_total" && l[0].GetValue() == moment && l[1].GetValue() == source {
				return m.GetCounter().GetValue()
			}
		}
	}
	t.Fatalf("no counter for %s of %s", moment, source)
	return 0
}

// A claim may be turned away; what concludes one may not.
func TestWriterStepsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWriter(t, dedupe.WriterConfig{Ledger: ledgertest.NewMemory(ledgertest.Config{}), Queue: 1})
		first := claimStep(printOne, false)
		waits := call(func() error { return w.Step(t.Context(), &first) })
		synctest.Wait()
		second := claimStep(printOne, false)
		wantErr(t, "claim beyond the queue", w.Step(t.Context(), &second), dedupe.ErrOverloaded)
		answer := concludeStep(dedupe.StepAnswer, firstToken)
		answers := call(func() error { return w.Step(t.Context(), &answer) })
		late := claimStep(printOne, false)
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		wantErr(t, "nobody waits", w.Step(gone, &late), dedupe.ErrOverloaded)
		bad := dedupe.KeyStep{Kind: dedupe.StepClaim, Key: keyName}
		wantErr(t, "no claim", w.Step(t.Context(), &bad), dedupe.ErrNoClaim)
		synctest.Wait()
		stop := run(t, w)
		wantErr(t, "first claim", <-waits, nil)
		wantErr(t, "answer", <-answers, nil)
		if first.Verdict != dedupe.KeyClaimed || answer.Verdict != dedupe.KeyStale {
			t.Errorf("verdicts %d and %d", first.Verdict, answer.Verdict)
		}
		wantErr(t, "stop", stop(), nil)
		wantErr(t, "after the end", w.Step(t.Context(), &second), dedupe.ErrClosed)
	})
}

// No outcome of a batch that may or may not be on disk.
func TestWriterStepsFail(t *testing.T) {
	m := ledgertest.NewMemory(ledgertest.Config{})
	m.FailNext(errors.New("disk on fire"))
	w := newWriter(t, dedupe.WriterConfig{Ledger: m})
	stop := run(t, w)
	s := claimStep(printOne, false)
	wantErr(t, "claim", w.Step(t.Context(), &s), dedupe.ErrFatal)
	if s.Verdict != 0 {
		t.Errorf("verdict %d of a failed commit", s.Verdict)
	}
	wantErr(t, "run", stop(), dedupe.ErrFatal)
	low := ledgertest.NewMemory(ledgertest.Config{})
	low.SetDiskLow(true)
	w = newWriter(t, dedupe.WriterConfig{Ledger: low})
	stop = run(t, w)
	wantErr(t, "claim on a full disk", w.Step(t.Context(), &s), dedupe.ErrDiskLow)
	wantErr(t, "stop", stop(), nil)
}
