package inbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"
)

// Dialect is the database that an Inbox stands in.
type Dialect uint8

// The dialects. The zero value is none, so that none is chosen by accident.
const (
	PostgreSQL Dialect = iota + 1 // 9.5 and later, and what speaks like it
	SQLite                        // 3.24 and later
)

// DefaultTable is the table of an Inbox that names none.
const DefaultTable = "onceward_inbox"

// MaxKey is the longest key that Once takes, in bytes. The gateway's have at
// most 255.
const MaxKey = 512

// ErrKey is what Once answers to a key that can't be one: empty, too long, or
// not text.
var ErrKey = errors.New("no usable idempotency key")

// Config of an Inbox.
type Config struct {
	Dialect Dialect
	// Table is the table's name, with a schema if need be; "" is DefaultTable.
	Table string
	// Effect says what is done once: services that share a database and get
	// the same event each need a name of their own, or the first would do the
	// effect of all. "" is a name as well. It must not change.
	Effect string
	// Now is the clock that Prune's age is counted by; nil is time.Now.
	Now func() time.Time
}

// Inbox remembers in a table which keys have had their effect. It holds no
// state of its own and is safe for concurrent use.
type Inbox struct {
	cfg                   Config
	insert, prune, schema string
}

var tableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,47}(\.[A-Za-z_][A-Za-z0-9_]{0,47})?$`)

// New makes an Inbox. It touches no database.
func New(cfg Config) (*Inbox, error) {
	if cfg.Dialect != PostgreSQL && cfg.Dialect != SQLite {
		return nil, fmt.Errorf("inbox: dialect %d, want PostgreSQL or SQLite", cfg.Dialect)
	}
	if cfg.Table == "" {
		cfg.Table = DefaultTable
	}
	if !tableName.MatchString(cfg.Table) {
		return nil, fmt.Errorf("inbox: table %q, want letters, digits and underscores, at most 48", cfg.Table)
	}
	if err := text("effect", cfg.Effect); err != nil {
		return nil, fmt.Errorf("inbox: %w", err)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Inbox{
		cfg: cfg,
		insert: marks(cfg.Dialect, `INSERT INTO `+cfg.Table+` (effect, key, done_ms) VALUES ($1, $2, $3)`+
			` ON CONFLICT (effect, key) DO NOTHING`),
		prune: marks(cfg.Dialect, `DELETE FROM `+cfg.Table+` WHERE (effect, key) IN (SELECT effect, key FROM `+cfg.Table+
			` WHERE effect = $1 AND done_ms < $2 ORDER BY done_ms LIMIT $3)`),
		schema: schema(cfg),
	}, nil
}

// marks writes parameters, used once each and in order, as the dialect does.
func marks(d Dialect, query string) string {
	if d == SQLite {
		return strings.NewReplacer("$1", "?", "$2", "?", "$3", "?").Replace(query)
	}
	return query
}

// schema is the same for both dialects but for the types' names. The index
// serves Prune.
func schema(cfg Config) string {
	number := "bigint"
	if cfg.Dialect == SQLite {
		number = "integer"
	}
	space, name := "", cfg.Table
	if before, after, ok := strings.Cut(cfg.Table, "."); ok {
		space, name = before+".", after
	}
	table := cfg.Table
	if cfg.Dialect == SQLite {
		table = name // SQLite's index names the schema, and its table stands in it
	} else {
		space = "" // PostgreSQL's index stands where its table does
	}
	return `CREATE TABLE IF NOT EXISTS ` + cfg.Table + ` (
	effect  text NOT NULL,
	key     text NOT NULL,
	done_ms ` + number + ` NOT NULL,
	PRIMARY KEY (effect, key)
);
CREATE INDEX IF NOT EXISTS ` + space + name + `_done ON ` + table + ` (effect, done_ms);
`
}

// Schema is the DDL of the table and its index, for those who keep their
// migrations elsewhere. Running it twice does no harm.
func (b *Inbox) Schema() string { return b.schema }

// Create makes the table and its index unless they are there.
func (b *Inbox) Create(ctx context.Context, db *sql.DB) error {
	for stmt := range strings.SplitSeq(b.schema, ";\n") {
		if strings.TrimSpace(stmt) == "" {
			continue
		}
		if _, err := db.ExecContext(ctx, stmt); err != nil {
			return fmt.Errorf("create table %s: %w", b.cfg.Table, err)
		}
	}
	return nil
}

// Once remembers key in tx and reports whether it is the first time: then,
// and only then, the effect is to be done, in tx. False means that it was
// done and committed before; the request is answered as the first one was.
// If tx is rolled back, nothing happened and the next try is the first again.
//
// While another transaction with the same key is open, Once waits for its
// end; SQLite waits as long as its busy time-out says. An error, also of a
// serialisation conflict, leaves tx to be rolled back and the request to be
// answered with 500 or 503, so that it comes again.
func (b *Inbox) Once(ctx context.Context, tx *sql.Tx, key string) (first bool, err error) {
	if key == "" {
		return false, fmt.Errorf("%w: it is empty", ErrKey)
	}
	if err := text("key", key); err != nil {
		return false, fmt.Errorf("%w: %w", ErrKey, err)
	}
	res, err := tx.ExecContext(ctx, b.insert, b.cfg.Effect, key, b.cfg.Now().UnixMilli())
	if err != nil {
		return false, fmt.Errorf("remember key: %w", err)
	}
	n, err := res.RowsAffected()
	if err != nil {
		return false, fmt.Errorf("remember key: %w", err)
	}
	return n == 1, nil
}

// text checks what goes into a text column of either database.
func text(what, s string) error {
	if len(s) > MaxKey {
		return fmt.Errorf("%s of %d bytes, want at most %d", what, len(s), MaxKey)
	}
	if !utf8.ValidString(s) || strings.IndexByte(s, 0) >= 0 {
		return fmt.Errorf("%s is not text", what)
	}
	return nil
}

// pruneBatch bounds one transaction of Prune.
const pruneBatch = 1000

// Prune forgets the keys of this effect that are older than age, in short
// transactions, and returns how many. Older means that the gateway can't send
// them any more: age must be longer than the target's give_up_after and than
// the time in which an operator may replay, which is the retention of bodies
// (30 days unless configured otherwise).
func (b *Inbox) Prune(ctx context.Context, db *sql.DB, age time.Duration) (int64, error) {
	before := b.cfg.Now().Add(-age).UnixMilli()
	var total int64
	for {
		res, err := db.ExecContext(ctx, b.prune, b.cfg.Effect, before, pruneBatch)
		if err != nil {
			return total, fmt.Errorf("prune %s: %w", b.cfg.Table, err)
		}
		n, err := res.RowsAffected()
		if err != nil {
			return total, fmt.Errorf("prune %s: %w", b.cfg.Table, err)
		}
		total += n
		if n < pruneBatch {
			return total, nil
		}
	}
}

// Key is the key that the gateway sent with r, the same on every try of an
// event. A replay with a new key, which an operator must ask for, has another.
func Key(r *http.Request) string { return r.Header.Get("Idempotency-Key") }
