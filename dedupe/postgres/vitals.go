package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/onceward/onceward/dedupe"
)

// What is done in the background: retention, by one of the gateways each time,
// and the measuring of what makes a database slow, by all of them.
const (
	expireEvery = 5 * time.Minute
	lookEvery   = 30 * time.Second
)

// metrics are the engine's own instruments; those of the group commit are in
// dedupe.
type metrics struct {
	expire      *prometheus.CounterVec
	keysExpired prometheus.Counter
	seen        prometheus.Gauge
	oldest      prometheus.Gauge
	horizon     prometheus.Gauge
	lead, width prometheus.Gauge
	rows        *prometheus.GaugeVec
	bytes       *prometheus.GaugeVec
	standbys    *prometheus.GaugeVec

	short    atomic.Bool                      // partitions were not far enough ahead
	hadSync  atomic.Bool                      // a standby that commits wait for was seen
	concerns atomic.Pointer[[]dedupe.Concern] // as last measured; nil before
}

func newMetrics(db *DB, reg prometheus.Registerer) *metrics {
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: "onceward_postgres_" + name, Help: help})
	}
	gauges := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "onceward_postgres_" + name, Help: help}, labels)
	}
	m := &metrics{
		expire: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "onceward_store_gc_runs_total", Help: "Runs of retention, by result."}, []string{"result"}),
		keysExpired: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "onceward_sync_keys_expired_total", Help: "Keys of synchronous routes that were dropped after their window."}),
		seen:     gauge("measured_timestamp_seconds", "When the figures of the database were last read."),
		oldest:   gauge("oldest_transaction_seconds", "Age of the oldest transaction that is open in the database."),
		horizon:  gauge("horizon_age_transactions", "Transactions since the oldest snapshot, replication slot or prepared transaction that keeps dead rows from being removed."),
		lead:     gauge("partition_lead_seconds", "How far ahead partitions are made."),
		width:    gauge("partition_width_seconds", "What one partition spans."),
		rows:     gauges("table_rows", "Rows of the tables that change all the time, by whether they are live or dead; an estimate.", "table", "state"),
		bytes:    gauges("table_bytes", "Size of the tables that change all the time, with their indexes.", "table"),
		standbys: gauges("standbys", "Standbys that stream from the server, by whether commits wait for them.", "sync"),
	}
	for _, r := range []string{"ok", "held", "error"} {
		m.expire.WithLabelValues(r)
	}
	if reg == nil {
		return m
	}
	reg.MustRegister(m.expire, m.keysExpired, m.seen, m.oldest, m.horizon, m.lead, m.width, m.rows, m.bytes, m.standbys,
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "onceward_postgres_pool_waits_total",
			Help: "Times something waited because every connection to the database was in use."},
			func() float64 { return float64(db.pool.Stat().EmptyAcquireCount()) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "onceward_postgres_pool_wait_seconds_total",
			Help: "Time spent waiting for a connection to the database."},
			func() float64 { return db.pool.Stat().AcquireDuration().Seconds() }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "onceward_postgres_pool_connections",
			Help: "Connections to the database that are in use."},
			func() float64 { return float64(db.pool.Stat().AcquiredConns()) }))
	return m
}

// busy are the tables whose rows come and go.
var busy = [...]string{"claims", "pending", "lanes", "gateways", "sync_keys"}

// measure reads the figures. What the role may not see counts as not there.
func (db *DB) measure(ctx context.Context) error {
	m := db.metrics
	var oldest float64
	var horizon, sync, async int64
	f := figures{width: db.width, hadSync: m.hadSync.Load(), wasShort: m.short.Load()}
	err := db.pool.QueryRow(ctx, `SELECT
		COALESCE((SELECT max(extract(epoch FROM clock_timestamp() - xact_start)) FROM pg_stat_activity
			WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()), 0)::float8,
		greatest((SELECT max(age(backend_xmin)) FROM pg_stat_activity), (SELECT max(greatest(age(xmin), age(catalog_xmin))) FROM pg_replication_slots),
			(SELECT max(age(transaction)) FROM pg_prepared_xacts), 0)::bigint,
		(SELECT count(*) FROM pg_stat_replication WHERE sync_state IN ('sync', 'quorum')),
		(SELECT count(*) FROM pg_stat_replication WHERE sync_state NOT IN ('sync', 'quorum'))`).Scan(&oldest, &horizon, &sync, &async)
	if err != nil {
		return fmt.Errorf("measure the database: %w", err)
	}
	f.oldest, f.horizon, f.sync = time.Duration(oldest*float64(time.Second)), horizon, sync
	if sync > 0 {
		m.hadSync.Store(true)
	}
	m.oldest.Set(oldest)
	m.horizon.Set(float64(horizon))
	m.standbys.WithLabelValues("true").Set(float64(sync))
	m.standbys.WithLabelValues("false").Set(float64(async))
	err = db.each(ctx, db.pool, `SELECT relname, n_live_tup, n_dead_tup, pg_total_relation_size(relid) FROM pg_stat_user_tables
		WHERE schemaname = $1 AND relname = ANY($2::text[])`, []any{db.cfg.Schema, busy[:]}, func(r pgx.Rows) error {
		var table string
		var live, dead, bytes int64
		err := r.Scan(&table, &live, &dead, &bytes)
		f.tables = append(f.tables, tableRows{table, live, dead})
		m.rows.WithLabelValues(table, "live").Set(float64(live))
		m.rows.WithLabelValues(table, "dead").Set(float64(dead))
		m.bytes.WithLabelValues(table).Set(float64(bytes))
		return err
	})
	if err != nil {
		return fmt.Errorf("measure the database: %w", err)
	}
	var end *int64
	if err := db.row(ctx, db.pool, `SELECT (SELECT max(hi) FROM {s}.partitions), (SELECT count(*) FROM {s}.pending WHERE due = $1)`,
		dedupe.HeldUntil.UnixMilli()).Scan(&end, &f.held); err != nil {
		return fmt.Errorf("measure the database: %w", err)
	}
	if end != nil {
		f.lead = fromMillis(*end).Sub(db.clock.now())
	}
	m.lead.Set(f.lead.Seconds())
	m.width.Set(db.width.Seconds())
	m.seen.SetToCurrentTime()
	m.short.Store(f.lead < f.width)
	found := f.concerns()
	m.concerns.Store(&found)
	return nil
}

// runBackground measures and expires until ctx ends.
func (db *DB) runBackground(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		if err := db.measure(ctx); err != nil && ctx.Err() == nil {
			db.cfg.Log.Warn("ledger upkeep", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if _, err := db.expireInTurn(ctx); err != nil && ctx.Err() == nil && !errors.Is(err, dedupe.ErrClosed) {
			db.cfg.Log.Error("retention failed", "error", err)
		}
	}
}

// expireInTurn runs retention unless a gateway, this one or another, has just
// done so, and reports whether it did.
func (db *DB) expireInTurn(ctx context.Context) (bool, error) {
	now := db.clock.now().UnixMilli()
	tag, err := db.pool.Exec(ctx, db.q(`UPDATE {s}.meta SET expired = $1 WHERE id = 1 AND expired <= $2`), now, now-expireEvery.Milliseconds())
	if err != nil || tag.RowsAffected() == 0 {
		return false, err
	}
	x, err := db.Expire(ctx)
	switch {
	case err != nil && ctx.Err() != nil:
		return true, err
	case err != nil:
		db.metrics.expire.WithLabelValues("error").Inc()
		return true, err
	case x.Held:
		db.metrics.expire.WithLabelValues("held").Inc()
		return true, nil
	}
	db.metrics.expire.WithLabelValues("ok").Inc()
	if x.Buckets > 0 {
		db.cfg.Log.Info("retention dropped partitions", "partitions", x.Buckets, "bytes", x.Bytes, "carried", x.Carried, "claims_held", x.Claims, "keys", x.Keys)
	}
	if x.Keys == 0 {
		return true, nil
	}
	db.metrics.keysExpired.Add(float64(x.Keys))
	err = db.transact(ctx, nil, func(w *work, res pgx.BatchResults) error {
		w.act(dedupe.ExpiredAct(x.Keys))
		return res.Close()
	})
	if err != nil {
		err = fmt.Errorf("record that keys have expired: %w", err)
	}
	return true, err
}
