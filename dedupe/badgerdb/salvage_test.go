package badgerdb_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/dedupe/badgerdb"
	"github.com/onceward/onceward/event"
)

// stopped makes a ledger of n events as a kill leaves it: half in tables, half
// in a write-ahead file.
func stopped(t *testing.T, n int) (badgerdb.Config, []event.Ref) {
	t.Helper()
	cfg, refs := filled(t, n)
	db := start(t, cfg)
	for i := range n {
		r := request("s", fmt.Sprint("late_", i), strings.Repeat("y", 900)+fmt.Sprint(i), "t")
		accept(t, db, r)
		refs = append(refs, r.Outcomes[0].Ref)
	}
	waitMark(t, db)
	dir := t.TempDir()
	snapshot(t, cfg.Dir, dir)
	cfg.Dir = dir
	return cfg, refs
}

func writeAheadFile(t *testing.T, cfg badgerdb.Config) (path string, used int64) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(cfg.Dir, "ledger", "*.mem"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no write-ahead file: %v", err)
	}
	path = files[len(files)-1]
	body, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return path, int64(len(bytes.TrimRight(body, "\x00")))
}

// What a salvage leaves out it names, and what it takes over is whole: every
// event is either there with its bytes or in doubt, never unknown; and what is
// there is recognised.
func TestSalvage(t *testing.T) {
	for _, tt := range []struct {
		name   string
		damage func(t *testing.T, cfg badgerdb.Config)
		atMost int    // events that may be lost of 60
		names  string // in the faults
	}{
		{"nothing", func(*testing.T, badgerdb.Config) {}, 0, ""},
		{"a flipped bit in a write-ahead file", func(t *testing.T, cfg badgerdb.Config) {
			path, used := writeAheadFile(t, cfg)
			flip(t, path, used/2)
		}, 2, ".mem"},
		{"a flipped bit in a table", func(t *testing.T, cfg badgerdb.Config) {
			flip(t, tables(t, cfg)[0], 20_000)
		}, 6, ".sst"},
		{"a lost write-ahead file", func(t *testing.T, cfg badgerdb.Config) {
			path, _ := writeAheadFile(t, cfg)
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		}, 30, "batches"},
		{"a lost table", func(t *testing.T, cfg badgerdb.Config) {
			if err := os.Remove(tables(t, cfg)[0]); err != nil {
				t.Fatal(err)
			}
		}, 30, ".sst"},
		{"a lost manifest", func(t *testing.T, cfg badgerdb.Config) {
			if err := os.Remove(filepath.Join(cfg.Dir, "ledger", "MANIFEST")); err != nil {
				t.Fatal(err)
			}
		}, 0, "MANIFEST"},
		{"a lost high-water file", func(t *testing.T, cfg badgerdb.Config) {
			if err := os.Remove(filepath.Join(cfg.Dir, "highwater")); err != nil {
				t.Fatal(err)
			}
		}, 0, "highwater"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg, refs := stopped(t, 30)
			tt.damage(t, cfg)
			before := contents(t, cfg.Dir)
			if tt.names != "" {
				inspected(t, cfg, tt.names)
			}
			to := filepath.Join(t.TempDir(), "new")
			report, err := badgerdb.Salvage(t.Context(), cfg, to)
			if err != nil {
				t.Fatal(err)
			}
			if after := contents(t, cfg.Dir); tt.names != "" && before != after {
				t.Errorf("the damaged ledger was changed:\n%s\n%s", before, after)
			}
			if text := fmt.Sprint(report.Faults); !strings.Contains(text, tt.names) || (len(report.Faults) == 0) != (tt.names == "") {
				t.Errorf("faults %s, want some that name %q", text, tt.names)
			}
			cfg.Dir = to
			heldAgainst(t, start(t, cfg), refs, tt.atMost)
		})
	}
}

// contents is the listing of a directory's files, less the one that says who
// looks at it.
func contents(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	for line := range strings.Lines(listing(t, dir)) {
		if path, _, _ := strings.Cut(line, " "); filepath.Ext(path) != "" || filepath.Base(path) == "MANIFEST" || filepath.Base(path) == "highwater" {
			b.WriteString(line)
		}
	}
	return b.String()
}

// inspected wants the faults of a damaged ledger named, and the ledger refused.
func inspected(t *testing.T, cfg badgerdb.Config, names string) {
	t.Helper()
	rep, err := badgerdb.Inspect(t.Context(), cfg)
	if err != nil || !strings.Contains(fmt.Sprint(rep.Faults), names) {
		t.Errorf("inspect: %v, %v, want a fault that names %q", rep.Faults, err, names)
	}
	if db, err := badgerdb.Open(cfg); !errors.Is(err, dedupe.ErrDamaged) {
		if err == nil {
			db.Close()
		}
		t.Errorf("open: %v, want ErrDamaged", err)
	}
}

func heldAgainst(t *testing.T, db *running, refs []event.Ref, atMost int) {
	t.Helper()
	lost := 0
	for _, ref := range refs {
		_, err := db.Load(t.Context(), ref)
		if errors.Is(err, dedupe.ErrDamaged) {
			lost++
		} else if err != nil {
			t.Errorf("event %s: %v, want it or ErrDamaged", ref, err)
		}
	}
	if lost > atMost {
		t.Errorf("%d of %d events are lost, want at most %d", lost, len(refs), atMost)
	}
	again := request("s", "evt_0", strings.Repeat("x", 900)+"0", "t")
	fresh := request("s", "never", "b", "t")
	accept(t, db, again, fresh)
	if _, err := db.Load(t.Context(), refs[0]); err == nil && again.Outcomes[0].Verdict != dedupe.Repeat {
		t.Errorf("a repeat of an event that is there: %v", again.Outcomes[0])
	}
	if ref := fresh.Outcomes[0].Ref; ref.Compare(refs[len(refs)-1]) <= 0 {
		t.Errorf("new ref %s is not after the old ones", ref)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	db = start(t, db.cfg)
	if _, err := db.Load(t.Context(), fresh.Outcomes[0].Ref); err != nil {
		t.Error(err)
	}
}

func TestSalvageRefuses(t *testing.T) {
	cfg, _ := filled(t, 2)
	if _, err := badgerdb.Salvage(t.Context(), cfg, cfg.Dir); err == nil {
		t.Error("salvaged into the ledger itself")
	}
	none := cfg
	none.Dir = t.TempDir()
	if _, err := badgerdb.Salvage(t.Context(), none, t.TempDir()); err == nil {
		t.Error("salvaged nothing")
	}
	db := start(t, cfg)
	if _, err := badgerdb.Salvage(t.Context(), cfg, t.TempDir()); !errors.Is(err, dedupe.ErrLocked) {
		t.Errorf("salvage of a ledger in use: %v, want ErrLocked", err)
	}
	if _, err := badgerdb.Inspect(t.Context(), cfg); !errors.Is(err, dedupe.ErrLocked) {
		t.Errorf("inspection of a ledger in use: %v, want ErrLocked", err)
	}
	accept(t, db, request("s", "still", "b", "t"))
}

// An inspection of a healthy ledger reads all of it and finds nothing.
func TestInspect(t *testing.T) {
	cfg, _ := stopped(t, 10)
	rep, err := badgerdb.Inspect(t.Context(), cfg)
	if err != nil || len(rep.Faults) != 0 || rep.Events != 20 || rep.Bodies != 20 || rep.Claims != 20 {
		t.Errorf("%+v, %v", rep, err)
	}
}
