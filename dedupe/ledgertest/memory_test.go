package ledgertest_test

import (
	"io"
	"testing"

	"go.uber.org/goleak"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/dedupe/ledgertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestMemory holds the model itself to the contract.
func TestMemory(t *testing.T) {
	ledgertest.Run(t, ledgertest.Harness{
		Open: func(tb ledgertest.TB, o ledgertest.Options) dedupe.Ledger {
			m := ledgertest.NewMemory(ledgertest.Config{Now: o.Now, Retention: o.Retention})
			tb.Cleanup(func() { _ = m.Close() })
			return m
		},
		Reopen: func(tb ledgertest.TB, l dedupe.Ledger) dedupe.Ledger {
			if err := l.Close(); err != nil {
				tb.Fatalf("close: %v", err)
			}
			return l.(*ledgertest.Memory).Reopen()
		},
		Crash: func(_ ledgertest.TB, l dedupe.Ledger) dedupe.Ledger { return l.(*ledgertest.Memory).Reopen() },
		Restore: func(tb ledgertest.TB, r io.Reader, o ledgertest.Options) dedupe.Ledger {
			m, err := ledgertest.RestoreMemory(ledgertest.Config{Now: o.Now, Retention: o.Retention}, r)
			if err != nil {
				tb.Fatalf("restore: %v", err)
			}
			return m
		},
		DiskUsage: func(tb ledgertest.TB, l dedupe.Ledger) int64 {
			st, err := l.Stats(tb.Context())
			if err != nil {
				tb.Fatalf("stats: %v", err)
			}
			return st.SizeBytes
		},
		InjectCommitError: func(l dedupe.Ledger, err error) { l.(*ledgertest.Memory).FailNext(err) },
		BodyLimit:         6 << 20,
	})
}
