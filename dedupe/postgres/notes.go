package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/dedupe"
)

// PutNote keeps a note.
func (db *DB) PutNote(ctx context.Context, n dedupe.Note) (dedupe.Note, error) {
	ctx, cancel := db.patient(ctx)
	defer cancel()
	if err := n.Check(); err != nil {
		return dedupe.Note{}, err
	}
	if err := db.usable(); err != nil {
		return dedupe.Note{}, err
	}
	value := n.Value
	if value == nil {
		value = []byte{}
	}
	sql := `UPDATE {s}.notes SET version = version + 1, updated = ` + nowSQL + `, value = $4 WHERE kind = $2 AND name = $3 AND version = $5 RETURNING updated`
	args := []any{db.clock.param(), []byte(n.Kind), []byte(n.Name), value, int64(n.Version)}
	if n.Version == 0 {
		sql = `INSERT INTO {s}.notes VALUES ($2, $3, 1, ` + nowSQL + `, $4) ON CONFLICT DO NOTHING RETURNING updated`
		args = args[:4]
	}
	var at int64
	err := db.row(ctx, db.pool, sql, args...).Scan(&at)
	if errors.Is(err, pgx.ErrNoRows) {
		return dedupe.Note{}, dedupe.ErrStale
	}
	if err != nil {
		return dedupe.Note{}, fmt.Errorf("keep a note: %w", err)
	}
	n.Version, n.UpdatedAt = n.Version+1, fromMillis(at)
	return n, nil
}

func scanNote(r pgx.Row) (n dedupe.Note, err error) {
	var kind, name []byte
	var version, updated int64
	err = r.Scan(&kind, &name, &version, &updated, &n.Value)
	n.Kind, n.Name, n.Version, n.UpdatedAt = string(kind), string(name), uint64(version), fromMillis(updated)
	return n, err
}

// Note reads a note.
func (db *DB) Note(ctx context.Context, kind, name string) (dedupe.Note, error) {
	ctx, cancel := db.patient(ctx)
	defer cancel()
	if err := db.usable(); err != nil {
		return dedupe.Note{}, err
	}
	n, err := scanNote(db.row(ctx, db.pool, `SELECT kind, name, version, updated, value FROM {s}.notes WHERE kind = $1 AND name = $2`, []byte(kind), []byte(name)))
	if errors.Is(err, pgx.ErrNoRows) {
		return dedupe.Note{}, dedupe.ErrNotFound
	}
	if err != nil {
		return n, fmt.Errorf("read a note: %w", err)
	}
	return n, nil
}

// Notes lists the notes of a kind.
func (db *DB) Notes(ctx context.Context, kind string) ([]dedupe.Note, error) {
	ctx, cancel := db.patient(ctx)
	defer cancel()
	if err := db.usable(); err != nil {
		return nil, err
	}
	var out []dedupe.Note
	err := db.each(ctx, db.pool, `SELECT kind, name, version, updated, value FROM {s}.notes WHERE kind = $1 ORDER BY name`, []any{[]byte(kind)}, func(r pgx.Rows) error {
		n, err := scanNote(r)
		out = append(out, n)
		return err
	})
	return out, err
}

// DropNote removes a note.
func (db *DB) DropNote(ctx context.Context, n dedupe.Note) error {
	ctx, cancel := db.patient(ctx)
	defer cancel()
	if err := db.usable(); err != nil {
		return err
	}
	tag, err := db.pool.Exec(ctx, db.q(`DELETE FROM {s}.notes WHERE kind = $1 AND name = $2 AND version = $3`), []byte(n.Kind), []byte(n.Name), int64(n.Version))
	if err != nil {
		return fmt.Errorf("drop a note: %w", err)
	}
	if tag.RowsAffected() == 1 {
		return nil
	}
	if _, err := db.Note(ctx, n.Kind, n.Name); err != nil {
		return err
	}
	return dedupe.ErrStale
}
