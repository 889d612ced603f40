package badgerdb_test

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/dedupe/badgerdb"
	"github.com/onceward/onceward/event"
)

// cut makes a ledger whose n deliveries were all on the wire when it was
// killed, and returns the configuration of what lies on disk then.
func cut(t *testing.T, n int) (badgerdb.Config, []event.Ref) {
	t.Helper()
	cfg := small(t.TempDir(), time.Now)
	db := start(t, cfg)
	var reqs []*dedupe.Request
	for i := range n {
		reqs = append(reqs, request("s", fmt.Sprint("evt_", i), "{}", "t"))
	}
	accept(t, db, reqs...)
	leases, _, err := db.Lease(t.Context(), "t", n, time.Hour)
	if err != nil || len(leases) != n {
		t.Fatalf("%d leases, want %d: %v", len(leases), n, err)
	}
	var refs []event.Ref
	for _, l := range leases {
		if err := db.Begin(t.Context(), l); err != nil {
			t.Fatal(err)
		}
		refs = append(refs, l.Delivery.Event)
	}
	killed := cfg
	killed.Dir = filepath.Join(t.TempDir(), "killed")
	snapshot(t, cfg.Dir, killed.Dir)
	return killed, refs
}

func unknown(t *testing.T, db *running, refs []event.Ref) (n int) {
	t.Helper()
	for _, ref := range refs {
		as, err := db.Attempts(t.Context(), ref)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range as {
			if a.Outcome == event.OutcomeUnknown {
				n++
			}
		}
	}
	return n
}

// More attempts than the file has slots at first are all kept.
func TestOnWireGrows(t *testing.T) {
	cfg, refs := cut(t, 5000)
	if n := unknown(t, start(t, cfg), refs); n != len(refs) {
		t.Errorf("%d attempts are shown as unknown, want %d", n, len(refs))
	}
}

// A slot torn by a power cut is passed over, and does not hide the others.
func TestOnWireTorn(t *testing.T) {
	cfg, refs := cut(t, 10)
	path := filepath.Join(cfg.Dir, "onwire")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	copy(b[3*128+60:4*128], make([]byte, 68))
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if n := unknown(t, start(t, cfg), refs); n != len(refs)-1 {
		t.Errorf("%d attempts are shown as unknown, want %d", n, len(refs)-1)
	}
}

// Without the file the ledger serves, and says what can't be shown.
func TestOnWireMissing(t *testing.T) {
	cfg, refs := cut(t, 3)
	if err := os.Remove(filepath.Join(cfg.Dir, "onwire")); err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	cfg.Log = slog.New(slog.NewTextHandler(&log, nil))
	db, err := badgerdb.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(log.String(), "onwire") {
		t.Errorf("the log does not name the missing file: %s", log.String())
	}
	if n := unknown(t, start(t, cfg), refs); n != 0 {
		t.Errorf("%d attempts are shown as unknown", n)
	}
}

// A file that is cut under a running gateway costs it an attempt, not its life:
// a store into its map is a fault there.
func TestOnWireCutShort(t *testing.T) {
	t.Parallel()
	cfg := small(t.TempDir(), time.Now)
	db := start(t, cfg)
	accept(t, db, request("s", "evt_1", "{}", "t"))
	leases, _, err := db.Lease(t.Context(), "t", 1, time.Hour)
	if err != nil || len(leases) != 1 {
		t.Fatalf("%d leases, %v", len(leases), err)
	}
	path := filepath.Join(cfg.Dir, "onwire")
	was, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	if err := db.Begin(t.Context(), leases[0]); !errors.Is(err, syscall.EIO) || !strings.Contains(err.Error(), path) {
		t.Errorf("an attempt begins with %v, want an input/output error that names %s", err, path)
	}
	if err := os.Truncate(path, was.Size()); err != nil {
		t.Fatal(err)
	}
	if err := db.Begin(t.Context(), leases[0]); err != nil {
		t.Errorf("the file is whole again, and an attempt begins with: %v", err)
	}
}
