package ledgertest_test

import (
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/dedupe/ledgertest"
	"github.com/onceward/onceward/event"
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

// commitOne writes one event for target billing and returns its request.
func commitOne(t *testing.T, m *ledgertest.Memory, id string) (*dedupe.Request, error) {
	t.Helper()
	req := &dedupe.Request{Body: []byte("body"), Items: []dedupe.Item{{
		Event: event.Event{
			Source: "shop", ID: id, BodyHash: event.HashOf([]byte("body")), Body: event.Slice{Length: 4}, Targets: []string{"billing"},
		},
		RawID: id, HasClaim: true, Claim: dedupe.KeyOf(dedupe.KindID, "shop", "", id), Window: time.Hour,
	}}}
	return req, m.Commit(t.Context(), &dedupe.Batch{Requests: []*dedupe.Request{req}})
}

func TestMemoryDiskLow(t *testing.T) {
	m := ledgertest.NewMemory(ledgertest.Config{})
	if _, err := commitOne(t, m, "evt_1"); err != nil {
		t.Fatal(err)
	}
	leases, _, err := m.Lease(t.Context(), "billing", 1, time.Minute)
	if err != nil || len(leases) != 1 {
		t.Fatalf("%d leases, %v", len(leases), err)
	}
	m.SetDiskLow(true)
	req, err := commitOne(t, m, "evt_2")
	if err != nil || !errors.Is(req.Err, dedupe.ErrDiskLow) || req.Outcomes != nil {
		t.Errorf("disk low: %v, refused with %v, outcomes %v; want only the request refused", err, req.Err, req.Outcomes)
	}
	if err := m.Health(t.Context()); !errors.Is(err, dedupe.ErrDiskLow) {
		t.Errorf("health = %v, want %v", err, dedupe.ErrDiskLow)
	}
	res := &dedupe.Result{Lease: leases[0], State: event.Delivered}
	if err := m.Commit(t.Context(), &dedupe.Batch{Results: []*dedupe.Result{res}}); err != nil || res.Late {
		t.Errorf("a result while the disk is low: %v, late %v", err, res.Late)
	}
	m.SetDiskLow(false)
	if req, err := commitOne(t, m, "evt_2"); err != nil || req.Err != nil || req.Outcomes[0].Verdict != dedupe.New {
		t.Errorf("space again: %v, %v, %v; want the refused ID to be new", err, req.Err, req.Outcomes)
	}
}

func TestMemoryDamage(t *testing.T) {
	m := ledgertest.NewMemory(ledgertest.Config{})
	req, err := commitOne(t, m, "evt_1")
	if err != nil {
		t.Fatal(err)
	}
	ref := req.Outcomes[0].Ref
	if err := m.Damage(ref); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Load(t.Context(), ref); !errors.Is(err, dedupe.ErrDamaged) {
		t.Errorf("Load = %v, want %v", err, dedupe.ErrDamaged)
	}
	if _, err := m.Body(t.Context(), ref); !errors.Is(err, dedupe.ErrDamaged) {
		t.Errorf("Body = %v, want %v", err, dedupe.ErrDamaged)
	}
	rep, err := m.Check(t.Context())
	if err != nil || len(rep.Faults) != 1 {
		t.Errorf("Check found %v, %v, want one fault", rep.Faults, err)
	}
	if err := m.Damage(event.Ref{}); !errors.Is(err, dedupe.ErrNotFound) {
		t.Errorf("Damage of no event = %v, want %v", err, dedupe.ErrNotFound)
	}
}

// A request given to Commit is the caller's again: its body may be reused.
func TestMemoryKeepsItsOwnBody(t *testing.T) {
	m := ledgertest.NewMemory(ledgertest.Config{})
	req, err := commitOne(t, m, "evt_1")
	if err != nil {
		t.Fatal(err)
	}
	copy(req.Body, "XXXX")
	if b, err := m.Body(t.Context(), req.Outcomes[0].Ref); err != nil || string(b) != "body" {
		t.Errorf("Body = %q, %v, want %q", b, err, "body")
	}
}

func TestRestoreMemoryOfNonsense(t *testing.T) {
	if _, err := ledgertest.RestoreMemory(ledgertest.Config{}, strings.NewReader("nonsense")); err == nil {
		t.Error("nonsense is restored")
	}
}
