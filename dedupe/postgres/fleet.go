package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/dedupe"
)

var _ dedupe.Fleet = (*DB)(nil)

// fleetKept is for how long a gateway that beats no more is remembered.
const fleetKept = 24 * time.Hour

// Beat writes this gateway's row, and reads all when that is committed.
func (db *DB) Beat(ctx context.Context, b dedupe.Beat) ([]dedupe.Peer, error) {
	if err := db.usable(); err != nil {
		return nil, err
	}
	tag, err := db.pool.Exec(ctx, db.q(`INSERT INTO {s}.fleet (name, epoch, writer, since, beat, share, config, version)
		SELECT name, epoch, writer, `+databaseClock+`, `+databaseClock+`, $3, $4, $5 FROM {s}.gateways WHERE name = $1 AND epoch = $2
		ON CONFLICT (name, epoch) DO UPDATE SET beat = excluded.beat, share = excluded.share, config = excluded.config, version = excluded.version`),
		db.cfg.Name, db.epoch, b.Share, b.Config, b.Version)
	switch {
	case err != nil:
		return nil, fmt.Errorf("beat: %w", err)
	case tag.RowsAffected() != 1:
		return nil, fmt.Errorf("beat: %w", errTaken)
	}
	var out []dedupe.Peer
	err = db.each(ctx, db.pool, `SELECT name, epoch, writer, since, greatest(0, `+databaseClock+` - beat), share, config, version FROM {s}.fleet
		WHERE beat > `+databaseClock+` - $1 ORDER BY name, epoch`, []any{fleetKept.Milliseconds()}, func(r pgx.Rows) error {
		var p dedupe.Peer
		var writer, since, age int64
		err := r.Scan(&p.Name, &p.Epoch, &writer, &since, &age, &p.Share, &p.Config, &p.Version)
		p.Writer, p.Since, p.Age = uint64(writer), fromMillis(since), time.Duration(age)*time.Millisecond
		p.Own = p.Name == db.cfg.Name && p.Epoch == db.epoch
		out = append(out, p)
		return err
	})
	return out, err
}

// Leave takes this gateway's row out, and those that nobody has moved for long.
func (db *DB) Leave(ctx context.Context) error {
	if err := db.usable(); err != nil {
		return err
	}
	_, err := db.pool.Exec(ctx, db.q(`DELETE FROM {s}.fleet WHERE name = $1 AND epoch = $2 OR beat < `+databaseClock+` - $3`),
		db.cfg.Name, db.epoch, fleetKept.Milliseconds())
	if err != nil {
		return fmt.Errorf("leave the fleet: %w", err)
	}
	return nil
}
