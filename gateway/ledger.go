package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/dedupe/badgerdb"
	"github.com/onceward/onceward/dedupe/postgres"
)

// ledger is what the gateway needs of an engine beside the contract: its
// background work.
type ledger interface {
	dedupe.Ledger
	Run(ctx context.Context) error
}

// ErrNoLedger says that the ledger can't be used as it is: its database is
// away, a standby, or has another schema than this program.
var ErrNoLedger = errors.New("the ledger can't be used")

// noLedger is an error that is ErrNoLedger and says only what it was made of.
type noLedger struct{ error }

func (e noLedger) Unwrap() error      { return e.error }
func (noLedger) Is(target error) bool { return target == ErrNoLedger }

// bodyLimiter is a ledger that bounds the bodies of single sources.
type bodyLimiter interface {
	LimitBodies(limits map[string]int64)
	BodySizes() map[string]int64
}

var _ bodyLimiter = (*badgerdb.DB)(nil)

// openLedger chooses the engine in one plain switch and opens it.
func (g *Gateway) openLedger(ctx context.Context) (ledger, error) {
	cfg := g.start
	switch cfg.Store.Driver {
	case driverBadger:
		if err := privateDir(cfg.StorePath()); err != nil {
			return nil, err
		}
		engine := embedded(cfg, g.log, g.opts.Now)
		engine.Registerer, engine.ResumeDeliveries = g.opts.Registry, g.opts.ResumeDeliveries
		db, err := badgerdb.Open(engine)
		if err != nil {
			return nil, err // it names the directory
		}
		return db, nil
	case driverPostgres:
		engine := shared(cfg, g.log)
		engine.Migrate, engine.ResumeDeliveries, engine.Registerer = cfg.Store.Migrate || g.opts.Migrate, g.opts.ResumeDeliveries, g.opts.Registry
		db, err := postgres.Open(ctx, engine)
		if err != nil {
			return nil, noLedger{err}
		}
		return db, nil
	default:
		return nil, fmt.Errorf("open ledger: no driver %q in this build", cfg.Store.Driver)
	}
}

// shared is how the shared ledger of a configuration is opened. Its clock is
// the database's: there is one for all gateways.
func shared(cfg *Config, log *slog.Logger) postgres.Config {
	s := &cfg.Store
	return postgres.Config{
		URL: s.DSN.Value.Reveal(), Schema: s.Schema, Name: s.Gateway, ExecMode: postgres.ExecMode(s.ExecMode), MaxConns: s.MaxConns,
		Statement: time.Duration(s.StatementTimeout), Lock: time.Duration(s.LockTimeout),
		Retention: RetentionConfig{}.over(cfg.Retention), Log: log.With("component", "ledger"),
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
