package postgres

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/onceward/onceward/dedupe"
)

//go:embed schema/*.sql
var files embed.FS

// ErrOlder says that the database's schema is older than this program and was
// not to be changed.
var ErrOlder = errors.New("schema of the ledger is older than this program: run onceward ledger migrate --apply")

// ErrStandby says that the server takes no writes.
var ErrStandby = errors.New("the server is a read-only standby: point the gateway at the primary")

// ErrRunning says that gateways run which can't go on beside a migration.
var ErrRunning = errors.New("gateways run that can't go on beside this step of the schema: stop them all first")

// alone begins a migration that takes away what gateways of the version before
// need.
const alone = "-- Not beside running gateways.\n"

// stillThere is for how long a gateway that doesn't beat is taken to run.
const stillThere = 5 * dedupe.DeadAfter

// Step is one migration.
type Step struct {
	Version int
	SQL     string
}

// steps are all migrations, in order.
func steps() ([]Step, error) {
	names, err := fs.Glob(files, "schema/*.sql")
	if err != nil {
		return nil, fmt.Errorf("list migrations: %w", err)
	}
	var out []Step
	for i, name := range names {
		b, err := files.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("read migration: %w", err)
		}
		out = append(out, Step{Version: i + 1, SQL: string(b)})
	}
	return out, nil
}

// Plan lists the migrations that the database lacks, with the schema's name in
// their SQL. It changes nothing. A newer schema is dedupe.ErrNewer.
func Plan(ctx context.Context, cfg Config) ([]Step, error) {
	cfg = cfg.withDefaults()
	conn, err := connect(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	return missing(ctx, conn, cfg.Schema)
}

// Migrate applies the migrations that the database lacks, each in a
// transaction, and returns them. Two programs may try at once. ErrRunning names
// the gateways that have to be stopped before.
func Migrate(ctx context.Context, cfg Config) ([]Step, error) {
	cfg = cfg.withDefaults()
	conn, err := connect(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	return migrate(ctx, conn, cfg)
}

func connect(ctx context.Context, cfg Config) (*pgx.Conn, error) {
	pc, err := cfg.pool()
	if err != nil {
		return nil, err
	}
	conn, err := pgx.ConnectConfig(ctx, pc.ConnConfig)
	if err != nil {
		return nil, away(err)
	}
	return conn, nil
}

// version is the schema's version, 0 when there is none.
func version(ctx context.Context, q querier, schema string) (v int, err error) {
	err = q.QueryRow(ctx, fill(`SELECT version FROM {s}.schema_version`, schema)).Scan(&v)
	var pg *pgconn.PgError
	switch {
	case err == nil:
		return v, nil
	case errors.Is(err, pgx.ErrNoRows), errors.As(err, &pg) && (pg.Code == "42P01" || pg.Code == "3F000"):
		return 0, nil
	}
	return 0, fmt.Errorf("read the schema's version: %w", err)
}

func missing(ctx context.Context, q querier, schema string) ([]Step, error) {
	all, err := steps()
	if err != nil {
		return nil, err
	}
	v, err := version(ctx, q, schema)
	if err != nil {
		return nil, err
	}
	if v > len(all) {
		return nil, fmt.Errorf("schema %s has version %d, this program knows %d: %w", schema, v, len(all), dedupe.ErrNewer)
	}
	for i := range all {
		all[i].SQL = fill(all[i].SQL, schema)
	}
	return all[v:], nil
}

func migrate(ctx context.Context, conn *pgx.Conn, cfg Config) ([]Step, error) {
	lacking, err := missing(ctx, conn, cfg.Schema)
	if err != nil || len(lacking) == 0 {
		return nil, err
	}
	if err := begin(ctx, conn, cfg.Schema); err != nil {
		return nil, err
	}
	for i, s := range lacking {
		if err := apply(ctx, conn, cfg, s); err != nil {
			return lacking[:i], fmt.Errorf("migration %d: %w", s.Version, err)
		}
	}
	return lacking, nil
}

// begin makes the schema, of version 0, unless it is there.
func begin(ctx context.Context, conn *pgx.Conn, schema string) error {
	for _, sql := range []string{
		`CREATE SCHEMA IF NOT EXISTS {s}`,
		`CREATE TABLE IF NOT EXISTS {s}.schema_version (id int PRIMARY KEY CHECK (id = 1), version int NOT NULL)`,
		`INSERT INTO {s}.schema_version VALUES (1, 0) ON CONFLICT DO NOTHING`,
	} {
		if err := create(ctx, conn, fill(sql, schema)); err != nil {
			return fmt.Errorf("make the ledger's schema: %w", standby(err))
		}
	}
	return nil
}

// create makes what is not there. When another program makes it at the same
// moment the server takes it for there and not there, until that one is done.
func create(ctx context.Context, conn *pgx.Conn, sql string) (err error) {
	for try := range tries {
		if _, err = conn.Exec(ctx, sql); err == nil {
			return nil
		}
		var pg *pgconn.PgError
		if !errors.As(err, &pg) || !slices.Contains([]string{"23505", "42710", "42P06", "42P07"}, pg.Code) {
			return err
		}
		if werr := pause(ctx, try+1); werr != nil {
			return errors.Join(err, werr)
		}
	}
	return err
}

// apply runs one migration unless another program has just done so.
func apply(ctx context.Context, conn *pgx.Conn, cfg Config, s Step) error {
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		var v int
		if err := tx.QueryRow(ctx, fill(`SELECT version FROM {s}.schema_version FOR UPDATE`, cfg.Schema)).Scan(&v); err != nil || v >= s.Version {
			return err
		}
		if strings.HasPrefix(s.SQL, alone) {
			if err := stopped(ctx, tx, cfg.Schema); err != nil {
				return err
			}
		}
		if _, err := tx.Conn().PgConn().Exec(ctx, s.SQL).ReadAll(); err != nil {
			return err
		}
		if s.Version == 1 {
			sql := fill(`INSERT INTO {s}.meta VALUES (1, $1)`, cfg.Schema)
			if _, err := tx.Exec(ctx, sql, cfg.width().Milliseconds()); err != nil {
				return err
			}
		}
		_, err := tx.Exec(ctx, fill(`UPDATE {s}.schema_version SET version = $1`, cfg.Schema), s.Version)
		return err
	})
}

// stopped is ErrRunning while a gateway beats.
func stopped(ctx context.Context, tx pgx.Tx, schema string) error {
	var names []string
	err := tx.QueryRow(ctx, fill(`SELECT COALESCE(array_agg(DISTINCT name ORDER BY name), '{}') FROM {s}.fleet WHERE beat > `+databaseClock+` - $1`, schema),
		stillThere.Milliseconds()).Scan(&names)
	if err == nil && len(names) > 0 {
		err = fmt.Errorf("%w: %s; one that was killed counts for %v", ErrRunning, strings.Join(names, ", "), stillThere)
	}
	return err
}

// width is the time that one partition spans: a day, or an eighth of what
// bodies are kept when that is little.
func (c *Config) width() time.Duration {
	w := (c.Retention.Body / 8).Truncate(time.Hour)
	return min(max(w, time.Hour), 24*time.Hour)
}

func fill(sql, schema string) string { return strings.ReplaceAll(sql, "{s}", schema) }

func standby(err error) error {
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == "25006" {
		return ErrStandby
	}
	return err
}
