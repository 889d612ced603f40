package badgerdb

import (
	"context"
	"sync"

	"github.com/onceward/onceward/dedupe"
)

// readers counts who uses maps of files without the ledger's mu. Badger unmaps its
// files when it is closed, whoever still reads them, and to read them then ends the
// process.
type readers struct {
	mu    sync.Mutex // guards ended, and that nobody comes after it
	ended bool
	wg    sync.WaitGroup
}

// enter is ErrClosed after the end, and else followed by leave. A reader that
// enters again inside may be refused there, and then ends.
func (r *readers) enter() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return dedupe.ErrClosed
	}
	r.wg.Add(1)
	return nil
}

// over is why a long read ends before its end, if it does.
func (db *DB) over(ctx context.Context) error {
	if db.ended.Load() {
		return dedupe.ErrClosed
	}
	return ctx.Err()
}

func (r *readers) leave() { r.wg.Done() }

// end lets nobody in any more and waits until all have left.
func (r *readers) end() {
	r.mu.Lock()
	r.ended = true
	r.mu.Unlock()
	if guarded {
		r.wg.Wait()
	}
}
