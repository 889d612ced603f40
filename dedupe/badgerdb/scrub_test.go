package badgerdb_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/onceward/onceward/dedupe/badgerdb"
)

// A table that loses bits while the ledger runs is noticed by the scrub.
func TestScrub(t *testing.T) {
	cfg, _ := filled(t, 40)
	var log bytes.Buffer
	cfg.Log = slog.New(slog.NewTextHandler(&log, nil))
	db, err := badgerdb.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if n := db.Scrub(t.Context()); n != 0 {
		t.Fatalf("%d tables of a healthy ledger are damaged: %s", n, &log)
	}
	path := tables(t, cfg)[0]
	flip(t, path, 700)
	if n := db.Scrub(t.Context()); n != 1 {
		t.Errorf("%d tables are damaged, want 1", n)
	}
	if !strings.Contains(log.String(), filepath.Base(path)) {
		t.Errorf("the log does not name %s: %s", path, &log)
	}
}

// A table that is compacted away while it is verified is no damage: its file is
// cut to nothing before it is gone. A table that is in use is.
func TestVerifyCompactedAway(t *testing.T) {
	cfg, _ := filled(t, 40)
	db, err := badgerdb.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	path := tables(t, cfg)[0]
	if err := os.WriteFile(filepath.Join(filepath.Dir(path), "099999.sst"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := db.VerifyLive(99999); err != nil {
		t.Errorf("a file that is no table any more: %v", err)
	}
	var id uint64
	if _, err := fmt.Sscanf(filepath.Base(path), "%d.sst", &id); err != nil {
		t.Fatal(err)
	}
	flip(t, path, 700)
	if err := db.VerifyLive(id); err == nil {
		t.Error("a damaged table in use was passed over")
	}
}
