package badgerdb_test

import (
	"bytes"
	"log/slog"
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
