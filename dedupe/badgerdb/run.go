package badgerdb

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/onceward/onceward/dedupe"
)

const (
	// markEvery bounds how far the high-water mark may be behind.
	markEvery = 50 * time.Millisecond
	// lookEvery is how often free space and the size are measured while idle.
	lookEvery = time.Second
	// timeEvery is how long an idle ledger goes without a batch.
	timeEvery = time.Hour
	// expireEvery is how often retention runs.
	expireEvery = 5 * time.Minute
)

// Run does the ledger's background work: it rebuilds the schedule, keeps the
// high-water mark, watches the disk, reads back what memory did not hold, runs
// retention, and reads its tables for damage. It returns when ctx ends or the ledger fails.
func (db *DB) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan error, 5)
	for _, f := range []func(context.Context) error{db.runRebuild, db.runMarks, db.runUpkeep, db.runScrub, db.runTrouble} {
		go func() { done <- f(ctx) }()
	}
	var errs []error
	for range 5 {
		if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
			errs = append(errs, err)
			cancel()
		}
	}
	return errors.Join(errs...)
}

func (db *DB) runRebuild(ctx context.Context) error {
	if err := db.dropLeftovers(); err != nil {
		return err
	}
	if err := db.loadOpenKeys(); err != nil {
		return fmt.Errorf("read open keys: %w", err)
	}
	if err := db.countBodies(ctx); err != nil {
		return fmt.Errorf("count bodies: %w", err)
	}
	if err := db.recordUnknown(ctx); err != nil {
		return err
	}
	db.mu.Lock()
	from, last := db.startLow, db.startLast
	db.mu.Unlock()
	if err := db.rebuild(ctx, from, last); err != nil {
		return err
	}
	return nil
}

// runMarks writes the high-water mark behind the commits.
func (db *DB) runMarks(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-db.committed:
		}
		if err := sleep(ctx, markEvery); err != nil {
			return nil // Close writes the last one
		}
		db.mu.Lock()
		no, hash := db.head.no, db.head.hash
		db.mu.Unlock()
		if err := errors.Join(db.high.write(no, hash), db.wire.sync()); err != nil {
			db.mu.Lock()
			defer db.mu.Unlock()
			return db.fail(err)
		}
	}
}

// runUpkeep looks after the ledger, and runs retention. A run of retention takes
// as long as there is to drop; the looks go on between its rounds. They stay on
// one goroutine with it, because reading back beside a drop could miss what is
// carried.
func (db *DB) runUpkeep(ctx context.Context) error {
	next := db.cfg.Now().Add(db.every)
	u := &upkeep{DB: db}
	for {
		if err := u.look(ctx); err != nil {
			return err
		}
		if now := db.cfg.Now(); !now.Before(next) {
			next = now.Add(db.every)
			db.disk.measure()
			if err := u.retain(ctx); err != nil {
				return err
			}
		}
		if err := sleep(ctx, lookEvery); err != nil {
			return nil
		}
	}
}

// upkeep is what one goroutine does again and again.
type upkeep struct {
	*DB
	idle    idleness
	looked  time.Time
	expired int // keys that were dropped and are still to be told
}

// look is what must not wait for a run of retention.
func (u *upkeep) look(ctx context.Context) error {
	u.looked = time.Now()
	u.disk.look()
	if err := u.disk.refill(); err != nil {
		u.log.Warn("ballast file could not be made", "error", err)
	}
	if err := u.keepTime(&u.idle); err != nil {
		return err
	}
	for _, target := range u.sched.Starved() {
		if err := u.refill(ctx, target); err != nil && ctx.Err() == nil {
			u.log.Error("open deliveries could not be read back", "target", target, "error", err)
		}
	}
	u.tellExpired(ctx)
	return nil
}

// rest is what is done between two rounds of retention: a look, when one is due.
func (u *upkeep) rest(ctx context.Context, d time.Duration) error {
	if time.Since(u.looked) >= lookEvery {
		if err := u.look(ctx); err != nil {
			return err
		}
	}
	return sleep(ctx, d)
}

// idleness counts the looks since the newest batch. It goes by looks, not by a
// clock: clocks are what it is about.
type idleness struct {
	newest uint64
	looks  time.Duration
}

// keepTime writes an empty batch when there was none for an hour: otherwise the
// clock of an idle ledger would look as if it had run far ahead at the next
// start.
func (db *DB) keepTime(idle *idleness) error {
	db.mu.Lock()
	defer db.mu.Unlock()
	if idle.newest != db.head.no {
		*idle = idleness{newest: db.head.no}
	}
	if idle.looks++; idle.newest == 0 || idle.looks*lookEvery < timeEvery || db.writable() != nil || db.disk.low() {
		return nil
	}
	return db.emptyBatch()
}

// retain runs retention. Its error is that nothing is written any more.
func (u *upkeep) retain(ctx context.Context) error {
	x, err := u.expire(ctx, u.rest)
	switch {
	case ctx.Err() != nil:
	case errors.Is(err, dedupe.ErrFatal):
		return err
	case err != nil:
		u.log.Error("retention failed", "error", err)
	case x.Buckets > 0:
		u.metrics.keysExpired.Add(float64(x.Keys))
		u.expired += x.Keys
		u.tellExpired(ctx)
		u.log.Info("retention dropped buckets", "buckets", x.Buckets, "bytes", x.Bytes, "carried", x.Carried, "claims_carried", x.Claims, "keys", x.Keys)
	}
	return nil
}

// tellExpired tells the account of keys that were dropped, once
// the disk has room for it.
func (u *upkeep) tellExpired(ctx context.Context) {
	n := u.expired
	if n == 0 || !u.disk.roomy() {
		return
	}
	u.expired = 0
	a := dedupe.ExpiredAct(n)
	if err := u.Commit(ctx, &dedupe.Batch{Acts: []*dedupe.Act{&a}}); err != nil && ctx.Err() == nil {
		u.log.Error("expired keys not recorded", "keys", n, "error", err)
	}
}
