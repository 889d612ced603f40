package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/dedupe"
)

// grants is what this process knows to hold. A lease that was granted in an
// answer that never arrived is in its name and unknown to it: nobody would make
// that delivery before the lease ends.
type grants struct {
	// asking is held for reading while leases are asked for: whoever has it for
	// writing knows of each one in the database, or will never.
	asking sync.RWMutex

	mu   sync.Mutex // guards the rest
	held map[place]grant
	look bool      // an answer was lost
	till time.Time // until then what was asked may still be carried out; zero when nothing is in doubt
}

// grant is a lease as it was given.
type grant struct {
	token uint64
	until time.Time
}

// know takes note of leases that arrived.
func (g *grants) know(leases []dedupe.Lease) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.held == nil {
		g.held = map[place]grant{}
	}
	for _, l := range leases {
		g.held[place{l.Delivery.Event, l.Delivery.Target}] = grant{l.Token, l.Until}
	}
}

// prolong moves the end of a lease.
func (g *grants) prolong(l dedupe.Lease, until time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	p := place{l.Delivery.Event, l.Delivery.Target}
	if was, there := g.held[p]; there && was.token == l.Token {
		g.held[p] = grant{l.Token, until}
	}
}

// forget drops a lease that has come to an end.
func (g *grants) forget(l dedupe.Lease) {
	g.mu.Lock()
	defer g.mu.Unlock()
	p := place{l.Delivery.Event, l.Delivery.Target}
	if g.held[p].token == l.Token {
		delete(g.held, p)
	}
}

// lost takes note that leases may have been granted unheard, by a statement that
// may go on for so long.
func (g *grants) lost(patience time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.look, g.till = true, time.Now().Add(patience)
}

// doubtful reports whether to look for leases that were granted unheard: at once
// after an answer was lost, and every slow round while the statement may go on.
func (g *grants) doubtful(slow bool) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.look || slow && !g.till.IsZero()
}

// looked takes note of a look that began at.
func (g *grants) looked(at time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.look = false
	if at.After(g.till) {
		g.till = time.Time{}
	}
}

// live are the leases that have not ended by now; the others are dropped.
func (g *grants) live(now time.Time) (k rowKeys, tokens []int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for p, x := range g.held {
		if x.until.Before(now) {
			delete(g.held, p)
			continue
		}
		k.refs, k.targets, tokens = append(k.refs, p.ref), append(k.targets, p.target), append(tokens, int64(x.token))
	}
	return k, tokens
}

// takeUnheard gives back the leases in this gateway's name that it does not know
// of. One that has ended is left to whoever leases next: until then a result
// still counts. The gateway's row is held meanwhile: a process that takes the name over has
// leases of the same name.
func (db *DB) takeUnheard(ctx context.Context) error {
	db.grants.asking.Lock()
	defer db.grants.asking.Unlock()
	began := time.Now()
	now := db.clock.now()
	k, tokens := db.grants.live(now)
	var targets []string
	err := db.bounded(ctx, db.cfg.Lock, func(tx pgx.Tx) error {
		err := db.row(ctx, tx, `SELECT 1 FROM {s}.gateways WHERE name = $1 AND epoch = $2 FOR SHARE`, db.cfg.Name, db.epoch).Scan(new(int))
		if errors.Is(err, pgx.ErrNoRows) {
			return errTaken
		}
		if err != nil {
			return err
		}
		targets = targets[:0]
		return db.each(ctx, tx, `WITH x AS (SELECT p.ref, p.target FROM {s}.pending p WHERE p.owner = $1 AND p.lease_until > $5 AND (p.ref, p.target, p.token) NOT IN
				(SELECT * FROM unnest($2::uuid[], $3::text[], $4::bigint[])) ORDER BY p.ref, p.target FOR UPDATE SKIP LOCKED)
			UPDATE {s}.pending p SET owner = 0, lease_until = 0, next_at = due, token = token + 1 FROM x u WHERE p.ref = ANY(ARRAY(SELECT ref FROM x)) AND `+named+`
			RETURNING p.target`, []any{int64(db.writer), k.refs, k.targets, tokens, now.UnixMilli()}, func(r pgx.Rows) error {
			var t string
			err := r.Scan(&t)
			targets = append(targets, t)
			return err
		})
	})
	if err != nil {
		return fmt.Errorf("give unheard leases back: %w", db.pool.heard(ctx, err))
	}
	db.grants.looked(began)
	if len(targets) > 0 {
		db.cfg.Log.Info("leases whose grant was not heard are given back", "leases", len(targets))
	}
	for _, t := range targets {
		db.wakes.signal(t)
	}
	return nil
}
