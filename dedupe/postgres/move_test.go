package postgres_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/dedupe/badgerdb"
	"github.com/onceward/onceward/dedupe/ledgertest"
	"github.com/onceward/onceward/dedupe/postgres"
)

// embedded is an embedded ledger with its background work.
type embedded struct {
	*badgerdb.DB
	cfg  badgerdb.Config
	stop func() error
}

func (e *embedded) Close() error { return errors.Join(e.stop(), e.DB.Close()) }

func startEmbedded(tb ledgertest.TB, cfg badgerdb.Config) *embedded {
	tb.Helper()
	db, err := badgerdb.Open(cfg)
	if err != nil {
		tb.Fatalf("open: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- db.Run(ctx) }()
	e := &embedded{DB: db, cfg: cfg, stop: func() error { cancel(); err := <-done; done <- nil; return err }}
	tb.Cleanup(func() {
		if err := e.Close(); err != nil {
			tb.Errorf("close: %v", err)
		}
	})
	<-db.Rebuilt()
	return e
}

func small(dir string, o ledgertest.Options) badgerdb.Config {
	return badgerdb.Config{Dir: dir, Now: o.Now, Retention: o.Retention, Reserve: 1 << 20, Ballast: -1, MemTable: 8 << 20}
}

// source is what a move reads.
type source interface {
	Each(ctx context.Context, fault func(dedupe.Fault) error, put func(dedupe.Moved) error) error
	Close() error
}

func noFault(f dedupe.Fault) error { return errors.New(f.Where + ": " + f.What) }

// move moves a whole ledger and closes what it reads.
func move(tb ledgertest.TB, src source, id string, cfg postgres.Config) error {
	tb.Helper()
	ctx := context.Background()
	defer func() {
		if err := src.Close(); err != nil {
			tb.Errorf("close the source: %v", err)
		}
	}()
	l, err := postgres.NewLoader(ctx, cfg, id)
	if err != nil {
		return err
	}
	defer l.Close()
	var sent dedupe.MoveTally
	err = src.Each(ctx, noFault, func(m dedupe.Moved) error {
		sent.Add(m)
		return l.Put(ctx, m)
	})
	if err != nil {
		return err
	}
	_, err = l.Finish(ctx, &sent)
	return err
}

// moved moves what a ledger of either engine holds into a fresh schema and
// opens that.
func moved(tb ledgertest.TB, url string, l dedupe.Ledger) dedupe.Ledger {
	tb.Helper()
	if err := l.Close(); err != nil {
		tb.Fatalf("close: %v", err)
	}
	var src source
	var err error
	id, o := "", ledgertest.Options{}
	switch l := l.(type) {
	case *embedded:
		var s *badgerdb.Source
		if s, err = badgerdb.OpenSource(context.Background(), l.cfg); err == nil {
			src, id = s, s.ID()
		}
		o.Now, o.Retention = l.cfg.Now, l.cfg.Retention
	case *running:
		src, err = postgres.OpenSource(context.Background(), l.cfg)
		o.Now, o.Retention = l.cfg.Now, l.cfg.Retention
	}
	if err != nil {
		tb.Fatalf("open what is moved: %v", err)
	}
	cfg := fresh(tb, url, o)
	if err := move(tb, src, id, cfg); err != nil {
		tb.Fatalf("move: %v", err)
	}
	return start(tb, cfg)
}

// Whatever a ledger went through, its like in the database knows the same, and
// goes on as it would have.
func TestMoveHistories(t *testing.T) {
	url := server(t)
	histories := 12
	if testing.Short() {
		histories = 3
	}
	ledgertest.Histories(t, ledgertest.Harness{
		Open: func(tb ledgertest.TB, o ledgertest.Options) dedupe.Ledger { return startEmbedded(tb, small(tb.TempDir(), o)) },
		Reopen: func(tb ledgertest.TB, l dedupe.Ledger) dedupe.Ledger {
			if err := l.Close(); err != nil {
				tb.Fatalf("close: %v", err)
			}
			if e, ok := l.(*embedded); ok {
				return startEmbedded(tb, e.cfg)
			}
			return start(tb, l.(*running).cfg)
		},
		Move:      func(tb ledgertest.TB, l dedupe.Ledger) dedupe.Ledger { return moved(tb, url, l) },
		Histories: histories,
	})
}

var _ = time.Now
