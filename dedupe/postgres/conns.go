package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// conns are the connections, with an eye on whether the database is there: what
// they return says so, and while it is away they return at once.
type conns struct {
	*pgxpool.Pool
	contact
}

// writes is what a server answers that takes writes.
const writes = `SELECT current_setting('transaction_read_only') = 'off'`

// newConns makes connections as they are asked for.
func newConns(ctx context.Context, cfg *Config, pc *pgxpool.Config) (*conns, error) {
	pool, err := pgxpool.NewWithConfig(context.WithoutCancel(ctx), pc)
	if err != nil {
		return nil, err
	}
	p := &conns{Pool: pool, contact: contact{log: cfg.Log}}
	p.look = func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, cfg.patience())
		defer cancel()
		p.Pool.Reset() // none that was made before is of use
		var primary bool
		if err := p.Pool.QueryRow(ctx, writes).Scan(&primary); err != nil {
			return err
		}
		if !primary {
			return &awayError{why: ErrStandby.Error(), err: ErrStandby}
		}
		return nil
	}
	return p, nil
}

// Acquire takes a connection.
func (p *conns) Acquire(ctx context.Context) (*pgxpool.Conn, error) {
	if err := p.ask(ctx); err != nil {
		return nil, err
	}
	c, err := p.Pool.Acquire(ctx)
	return c, p.heard(ctx, err)
}

// Begin begins a transaction.
func (p *conns) Begin(ctx context.Context) (pgx.Tx, error) { return p.BeginTx(ctx, pgx.TxOptions{}) }

// BeginTx begins a transaction.
func (p *conns) BeginTx(ctx context.Context, o pgx.TxOptions) (pgx.Tx, error) {
	if err := p.ask(ctx); err != nil {
		return nil, err
	}
	tx, err := p.Pool.BeginTx(ctx, o)
	return tx, p.heard(ctx, err)
}

// Exec runs a statement.
func (p *conns) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	if err := p.ask(ctx); err != nil {
		return pgconn.CommandTag{}, err
	}
	tag, err := p.Pool.Exec(ctx, sql, args...)
	return tag, p.heard(ctx, err)
}

// Query begins a query.
func (p *conns) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	if err := p.ask(ctx); err != nil {
		return nil, err
	}
	rows, err := p.Pool.Query(ctx, sql, args...)
	if err != nil {
		return nil, p.heard(ctx, err)
	}
	return heardRows{rows, p, ctx}, nil
}

// QueryRow asks for one row.
func (p *conns) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	if err := p.ask(ctx); err != nil {
		return noRow{err}
	}
	return heardRow{p.Pool.QueryRow(ctx, sql, args...), p, ctx}
}

// SendBatch sends statements in one exchange.
func (p *conns) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	if err := p.ask(ctx); err != nil {
		return noResults{err: err}
	}
	return heardResults{p.Pool.SendBatch(ctx, b), p, ctx}
}

// heardRows, heardRow and heardResults tell the connections what they hear.
type heardRows struct {
	pgx.Rows
	p   *conns
	ctx context.Context
}

func (r heardRows) Err() error { return r.p.heard(r.ctx, r.Rows.Err()) }

type heardRow struct {
	pgx.Row
	p   *conns
	ctx context.Context
}

func (r heardRow) Scan(to ...any) error { return r.p.heard(r.ctx, r.Row.Scan(to...)) }

type heardResults struct {
	pgx.BatchResults
	p   *conns
	ctx context.Context
}

func (r heardResults) Exec() (pgconn.CommandTag, error) {
	tag, err := r.BatchResults.Exec()
	return tag, r.p.heard(r.ctx, err)
}

func (r heardResults) Query() (pgx.Rows, error) {
	rows, err := r.BatchResults.Query()
	return heardRows{rows, r.p, r.ctx}, r.p.heard(r.ctx, err)
}

func (r heardResults) QueryRow() pgx.Row { return heardRow{r.BatchResults.QueryRow(), r.p, r.ctx} }

func (r heardResults) Close() error { return r.p.heard(r.ctx, r.BatchResults.Close()) }

// noRow and noResults are what was not asked for.
type noRow struct{ err error }

func (r noRow) Scan(...any) error { return r.err }

type noResults struct {
	pgx.BatchResults // nil: nothing else of it is asked for
	err              error
}

func (r noResults) Exec() (pgconn.CommandTag, error) { return pgconn.CommandTag{}, r.err }
func (r noResults) Query() (pgx.Rows, error)         { return nil, r.err }
func (r noResults) QueryRow() pgx.Row                { return noRow{r.err} }
func (r noResults) Close() error                     { return r.err }
