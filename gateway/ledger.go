package gateway

import (
	"context"
	"fmt"
	"os"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/dedupe/badgerdb"
)

// ledger is what the gateway needs of an engine beside the contract: its
// background work.
type ledger interface {
	dedupe.Ledger
	Run(ctx context.Context) error
}

// openLedger chooses the engine in one plain switch and opens it.
func (g *Gateway) openLedger() (ledger, error) {
	cfg := g.start
	dir := cfg.StorePath()
	switch cfg.Store.Driver {
	case driverBadger:
		if err := privateDir(dir); err != nil {
			return nil, err
		}
		engine := embedded(cfg, g.log, g.opts.Now)
		engine.Registerer, engine.ResumeDeliveries = g.opts.Registry, g.opts.ResumeDeliveries
		db, err := badgerdb.Open(engine)
		if err != nil {
			return nil, err // it names the directory
		}
		return db, nil
	default:
		return nil, fmt.Errorf("open ledger: no driver %q in this build", cfg.Store.Driver)
	}
}

// privateDir makes the data directory for its owner alone. An existing one
// keeps its mode.
func privateDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make data directory: %w", err)
	}
	return nil
}

// spine is the ledger as forward sees it: leases and notes from the engine,
// results through the group commit.
type spine struct {
	dedupe.Dispatch
	dedupe.Notebook
	*dedupe.Writer
}
