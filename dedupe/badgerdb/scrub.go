package badgerdb

import (
	"context"
	"slices"
	"time"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/table"
)

const (
	// scrubEvery is how often all tables are read again, and scrubPause how long
	// the reading rests between two of them.
	scrubEvery = 6 * time.Hour
	scrubPause = time.Second
)

// runScrub reads every table again and again, so that a disk that loses bits
// is noticed while a backup is young, not at the next start.
func (db *DB) runScrub(ctx context.Context) error {
	for {
		if err := sleep(ctx, scrubEvery); err != nil {
			return nil
		}
		db.scrub(ctx, scrubPause)
	}
}

// verifyLive verifies the file of a table of the open ledger. One that is
// compacted away meanwhile is passed over: Badger cuts its file to nothing before
// it removes it, and has forgotten the table before that.
func (db *DB) verifyLive(id uint64) (path string, err error) {
	path = table.NewFilename(id, ledgerDir(db.cfg.Dir))
	_, err = verifyTable(path)
	if err != nil && !slices.ContainsFunc(db.kv.Tables(), func(t badger.TableInfo) bool { return t.ID == id }) {
		return path, nil
	}
	return path, err
}

// scrub verifies every table and returns how many are damaged. Each is said in
// the log and counted.
func (db *DB) scrub(ctx context.Context, pause time.Duration) (bad int) {
	for _, t := range db.kv.Tables() {
		path, err := db.verifyLive(t.ID)
		if err != nil {
			bad++
			db.metrics.damage.Inc()
			db.log.Error("ledger file is damaged: stop, keep the directory as it is, and restore a backup or run onceward ledger salvage", "file", path, "error", err)
		}
		if sleep(ctx, pause) != nil {
			return bad
		}
	}
	return bad
}
