package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/dedupe/badgerdb"
	"github.com/onceward/onceward/dedupe/postgres"
)

// embedded is how the embedded ledger of a configuration is opened.
func embedded(cfg *Config, log *slog.Logger, now func() time.Time) badgerdb.Config {
	sh := shares(cfg.Store.MemoryLimit)
	return badgerdb.Config{
		MemTable: sh.memtable, Memtables: sh.memtables, TableSize: sh.table, HotBytes: sh.hot,
		Dir: cfg.StorePath(), Log: log.With("component", "ledger"), Now: now,
		Reserve: int64(cfg.Store.Reserve), Ballast: int64(cfg.Store.Ballast),
		BodySize: int64(cfg.Store.BodySize), BodySizes: cfg.bodySizes(), MaxSize: int64(cfg.Store.MaxSize),
		Retention: RetentionConfig{}.over(cfg.Retention),
	}
}

// ledgerShare is what of a memory limit the ledger may fill.
type ledgerShare struct {
	memtable  int64 // size of one
	memtables int   // that wait for their flush, beside the one written to and the one flushed
	table     int64 // size of the tables that compaction makes
	hot       int64 // bodies that wait for their first attempt
}

// shares divides a memory limit. Memtables take a quarter of it, counted as
// badgerdb.Config says; to flush one of large bodies takes as much again, and
// compaction a fifth. What is left is for bodies that wait, a sixteenth, and for
// all else. A transaction takes a ninth of a memtable at most, so those are no
// smaller than is needed for a batch of many events.
func shares(limit Size) ledgerShare {
	return ledgerShare{
		memtable:  int64(min(32<<20, max(8<<20, limit/16))),
		memtables: int(min(3, max(1, limit>>28-1))),
		table:     int64(min(4<<20, max(1<<20, limit>>6))),
		hot:       int64(min(32<<20, max(8<<20, limit/16))),
	}
}

// InspectLedger reads the whole ledger of a configuration and reports every
// fault. The gateway of an embedded one is stopped: dedupe.ErrLocked says that
// it isn't. Those of a shared one may run.
func InspectLedger(ctx context.Context, cfg *Config, log *slog.Logger) (dedupe.CheckReport, error) {
	if cfg.Shared() {
		report, err := postgres.Inspect(ctx, shared(cfg, log))
		if err != nil {
			err = noLedger{err}
		}
		return report, err
	}
	return badgerdb.Inspect(ctx, embedded(cfg, log, nil))
}

// Migration is one step of a shared ledger's schema.
type Migration struct {
	Version int    `json:"version"`
	SQL     string `json:"sql"`
}

// ErrNoSchema says that there is nothing to migrate.
var ErrNoSchema = errors.New("only a ledger in PostgreSQL is migrated: an embedded one is brought up to date when its gateway starts")

// MigrateLedger brings the schema of a shared ledger up to date and returns the
// steps that were done, or with plan set those that would be. Several programs
// may try at once. A ledger of another driver is ErrNoSchema.
func MigrateLedger(ctx context.Context, cfg *Config, plan bool) ([]Migration, error) {
	if !cfg.Shared() {
		return nil, ErrNoSchema
	}
	do := postgres.Migrate
	if plan {
		do = postgres.Plan
	}
	steps, err := do(ctx, shared(cfg, slog.New(slog.DiscardHandler)))
	out := make([]Migration, len(steps))
	for i, s := range steps {
		out[i] = Migration(s)
	}
	if err != nil {
		return out, noLedger{err}
	}
	return out, nil
}

// SalvageLedger writes what verifies of a damaged ledger as a new one in the
// directory to, with the other files of its data directory, such as secrets
// that providers handed over. The damaged one is not changed.
func SalvageLedger(ctx context.Context, cfg *Config, to string, log *slog.Logger) (dedupe.SalvageReport, error) {
	if cfg.Shared() {
		return dedupe.SalvageReport{}, errors.New("a ledger in PostgreSQL is not salvaged: restore its database from a backup or promote a standby, then run onceward ledger check")
	}
	from := cfg.StorePath()
	if inside(from, to) {
		return dedupe.SalvageReport{}, fmt.Errorf("%q is in the data directory itself: name one outside", to)
	}
	report, err := badgerdb.Salvage(ctx, embedded(cfg, log, nil), to)
	if err != nil {
		return report, err
	}
	return report, copyBeside(from, to)
}

func inside(dir, path string) bool {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return false
	}
	path, err = filepath.Abs(path)
	return err == nil && (path == dir || strings.HasPrefix(path, dir+string(filepath.Separator)))
}

// copyBeside copies what a data directory holds beside its ledger.
func copyBeside(from, to string) error {
	own := badgerdb.Files()
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(from, path)
		switch {
		case err != nil || name == ".":
			return err
		case slices.Contains(own, name) && d.IsDir():
			return filepath.SkipDir
		case slices.Contains(own, name) || !d.IsDir() && !d.Type().IsRegular():
			return nil
		case d.IsDir():
			return os.MkdirAll(filepath.Join(to, name), 0o700)
		}
		return copyFile(path, filepath.Join(to, name))
	})
}

func copyFile(from, to string) error {
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	return errors.Join(err, f.Sync(), f.Close())
}

// VerifyBackup reads a whole backup of an embedded ledger and checks it.
func VerifyBackup(ctx context.Context, r io.Reader) (dedupe.BackupReport, error) {
	return badgerdb.VerifyBackup(ctx, r)
}

// RestoreLedger makes an embedded ledger of a backup in the directory to,
// which must be empty or not there. What was open at the backup is held, unless
// resume is set.
func RestoreLedger(ctx context.Context, to string, r io.Reader, resume bool) (dedupe.BackupReport, error) {
	return badgerdb.Restore(ctx, badgerdb.Config{Dir: to}, r, resume)
}
