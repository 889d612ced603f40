package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/onceward/onceward/dedupe"
)

// ValidSchema reports whether a schema may be called this.
func ValidSchema(name string) bool { return schemaName.MatchString(name) }

// CheckURL is an error when a database can't be named so. It connects to
// nothing and shows nothing of it.
func CheckURL(url string) error {
	cfg := Config{URL: url}.withDefaults()
	_, err := cfg.pool()
	return err
}

// Inspect checks a ledger as its gateways do, under no gateway's name: they may
// run meanwhile, and the server may be a standby.
func Inspect(ctx context.Context, cfg Config) (dedupe.CheckReport, error) {
	cfg = cfg.withDefaults()
	pc, err := cfg.pool()
	if err != nil {
		return dedupe.CheckReport{}, err
	}
	pool, err := newConns(ctx, &cfg, pc)
	if err != nil {
		return dedupe.CheckReport{}, away(err)
	}
	defer pool.Close()
	if _, err := pool.Exec(ctx, "select 1"); err != nil {
		return dedupe.CheckReport{}, away(err)
	}
	lacking, err := missing(ctx, pool, cfg.Schema)
	if err == nil && len(lacking) > 0 {
		err = ErrOlder
	}
	if err != nil {
		return dedupe.CheckReport{}, err
	}
	return (&DB{cfg: cfg, pool: pool}).Check(ctx)
}

// away is the error of a connection that can't be had at the start, in one line
// with what the driver says of each address. Neither it nor what it is made of
// holds a password.
func away(err error) error {
	var e *awayError
	if errors.As(err, &e) {
		err = e.err
	}
	var refused *pgconn.PgError
	if errors.As(err, &refused) {
		return fmt.Errorf("the ledger's database lets nobody in: %s (SQLSTATE %s)", refused.Message, refused.Code)
	}
	return &awayError{why: strings.Join(strings.Fields(err.Error()), " "), err: err}
}
