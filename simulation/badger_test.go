package simulation

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/dedupe/badgerdb"
)

// embedded is the embedded ledger on a directory of its own. A kill is a copy
// of the directory as it stands, as a crash leaves it.
type embedded struct {
	*badgerdb.DB
	w    *world
	dir  string
	n    *int // copies so far
	stop func() error

	mu   sync.Mutex // held by a commit and by a kill
	dead bool
}

var errKilled = errors.New("the process is dead")

// Commit commits while the process lives.
func (e *embedded) Commit(ctx context.Context, b *dedupe.Batch) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.dead {
		return errKilled
	}
	return e.DB.Commit(ctx, b)
}

func openEmbedded(w *world, dir string, n *int) (*embedded, error) {
	db, err := badgerdb.Open(badgerdb.Config{
		Dir: dir, Now: w.steady(), Retention: forever, Reserve: 1 << 20, Ballast: -1, MemTable: 8 << 20,
	})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- db.Run(ctx) }()
	<-db.Rebuilt()
	return &embedded{DB: db, w: w, dir: dir, n: n, stop: func() error { cancel(); return errors.Join(<-done, db.Close()) }}, nil
}

// Close ends the ledger; a second Close does nothing.
func (e *embedded) Close() error {
	stop := e.stop
	e.stop = func() error { return nil }
	return stop()
}

// revive opens a copy of what is on disk. The old process commits nothing any
// more.
func (e *embedded) revive() engine {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.dead = true
	*e.n++
	dir := filepath.Join(filepath.Dir(e.dir), fmt.Sprint("life-", *e.n))
	if err := os.CopyFS(dir, os.DirFS(e.dir)); err != nil {
		panic(err)
	}
	next, err := openEmbedded(e.w, dir, e.n)
	if err != nil {
		panic(err)
	}
	return next
}

func (e *embedded) lowDisk(bool)    {} // the disk is real here
func (e *embedded) breakNext(error) {}

// TestPlansOnBadger plays some plans on the embedded ledger. Its files are
// real: what it waits for there takes no time of the bubble.
func TestPlansOnBadger(t *testing.T) {
	n := 6
	if testing.Short() {
		n = 2
	}
	for p := *firstFlag; p < *firstFlag+n; p++ {
		dir := t.TempDir()
		out := play(t, plans.Example(p), func(w *world) (engine, error) {
			return openEmbedded(w, filepath.Join(dir, "life-0"), new(int))
		})
		if len(out.faults) > 0 {
			t.Fatal(tell(p, out))
		}
	}
}
