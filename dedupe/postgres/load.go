package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

// How much one transaction of a load writes: a run that is killed is at most so
// much behind, and so much stands in memory.
const (
	loadRecords = 5000
	loadBytes   = 8 << 20
	loadParts   = 4 // partitions made: each takes dozens of the server's locks
)

// Loader writes the records of another ledger into a schema that holds none.
// With what it writes it notes how far it is, in one transaction: a load that
// was cut goes on there. No gateway opens the schema before Finish.
type Loader struct {
	cfg    Config
	conn   *pgx.Conn
	width  int64
	parts  map[int64]bool
	source string
	done   uint64 // records that are in the database
	seen   uint64 // records put, also by this run's reading over what is done

	every uint64      // how many records one transaction writes
	ev    event.Event // the last one
	once  bool
	rows  map[string][][]any
	times []int64 // of refs that need a partition
	bytes int
}

// moving is the note of a load under way.
type moving struct {
	Source string `json:"source"`
	Done   uint64 `json:"records"`
}

// NewLoader begins a load of the ledger that source names, or goes on with one
// that was cut. A schema that holds another ledger is ErrNotEmpty.
func NewLoader(ctx context.Context, cfg Config, source string) (*Loader, error) {
	cfg = cfg.withDefaults()
	conn, err := connect(ctx, cfg)
	if err != nil {
		return nil, err
	}
	l := &Loader{cfg: cfg, conn: conn, source: source, every: loadRecords, parts: map[int64]bool{}, rows: map[string][][]any{}}
	if err := l.begin(ctx); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

func (l *Loader) q(sql string) string { return fill(sql, l.cfg.Schema) }

func (l *Loader) begin(ctx context.Context) error {
	if _, err := migrate(ctx, l.conn, l.cfg); err != nil {
		return err
	}
	var value []byte
	err := l.conn.QueryRow(ctx, l.q(`SELECT value FROM {s}.notes WHERE kind = $1 AND name = $2`), []byte(noteLedger), []byte(noteMoving)).Scan(&value)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		err = l.claim(ctx)
	case err == nil:
		err = l.resume(value)
	}
	if err != nil {
		return err
	}
	if err := l.conn.QueryRow(ctx, l.q(`SELECT width FROM {s}.meta`)).Scan(&l.width); err != nil {
		return fmt.Errorf("read the ledger's settings: %w", err)
	}
	rows, err := l.conn.Query(ctx, l.q(`SELECT lo FROM {s}.partitions`))
	if err != nil {
		return fmt.Errorf("read the partitions: %w", err)
	}
	return drain(rows, func(r pgx.Rows) error {
		var lo int64
		err := r.Scan(&lo)
		l.parts[lo] = true
		return err
	})
}

// claim makes an empty schema the load's.
func (l *Loader) claim(ctx context.Context) error {
	return pgx.BeginFunc(ctx, l.conn, func(tx pgx.Tx) error {
		var used bool
		err := tx.QueryRow(ctx, l.q(`SELECT EXISTS (SELECT FROM {s}.gateways) OR EXISTS (SELECT FROM {s}.events) OR EXISTS (SELECT FROM {s}.claims)
			OR EXISTS (SELECT FROM {s}.notes) FROM {s}.meta FOR UPDATE`)).Scan(&used)
		if err == nil && used {
			err = fmt.Errorf("schema %s: %w", l.cfg.Schema, ErrNotEmpty)
		}
		if err != nil {
			return err
		}
		value, err := json.Marshal(moving{Source: l.source})
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, l.q(`INSERT INTO {s}.notes (kind, name, version, updated, value) VALUES ($1, $2, 1, `+databaseClock+`, $3)`),
			[]byte(noteLedger), []byte(noteMoving), value)
		return err
	})
}

func (l *Loader) resume(value []byte) error {
	var m moving
	if err := json.Unmarshal(value, &m); err != nil {
		return fmt.Errorf("note of the load under way: %w", err)
	}
	if m.Source != l.source {
		return fmt.Errorf("schema %s: %w: another ledger, or this one as it was before a gateway went on with it, was being moved here; drop the schema", l.cfg.Schema, ErrNotEmpty)
	}
	l.done = m.Done
	return nil
}

// Resumed is how many records were there when the load began.
func (l *Loader) Resumed() uint64 { return l.done }

// Close ends the connection.
func (l *Loader) Close() error { return l.conn.Close(context.Background()) }

// Put takes a record. Records come from the first one on in the same order as in
// a run that was cut: those that are there are passed over.
func (l *Loader) Put(ctx context.Context, m dedupe.Moved) error {
	if e, ok := m.(*dedupe.MovedEvent); ok {
		l.ev, l.once = e.Event, e.Keep.Once
	}
	if l.seen++; l.seen <= l.done {
		return nil
	}
	if err := l.stage(m); err != nil {
		return err
	}
	if l.seen-l.done >= l.every || l.bytes >= loadBytes || len(l.times) >= loadParts {
		return l.flush(ctx)
	}
	return nil
}

func (l *Loader) add(table string, size int, row ...any) {
	l.rows[table] = append(l.rows[table], row)
	l.bytes += size
}

// at notes that rows of a ref are to come.
func (l *Loader) at(ref event.Ref) [16]byte {
	if lo := int64(ref.Milli()) / l.width * l.width; !l.parts[lo] && !slices.Contains(l.times, lo) {
		l.times = append(l.times, lo)
	}
	return ref
}

func bytesOf(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

func (l *Loader) stage(m dedupe.Moved) error {
	switch m := m.(type) {
	case *dedupe.MovedClaim:
		l.add("claims", 128, m.Key[:], [16]byte(m.Ref), m.BodyHash[:], m.Window.Milliseconds(), m.Expires.UnixMilli())
	case *dedupe.MovedBody:
		l.add("bodies", 64+len(m.Data), l.at(m.Request), m.Until.UnixMilli(), bytesOf(m.Data))
	case *dedupe.MovedEvent:
		ev, rec := &m.Event, packEvent(&m.Event)
		l.add("events", 256+len(rec), l.at(ev.Ref), ev.Source, []byte(ev.ID), m.Batch, [16]byte(ev.Body.Request), m.Kept.UnixMilli(),
			m.Keep.Body.Milliseconds(), m.Keep.Meta.Milliseconds(), m.Keep.Audit.Milliseconds(), m.Keep.Once && ev.Body.Length > 0, m.BodyGone,
			int64(m.Tally.Repeats), int64(m.Tally.Conflicts), nanos(m.Tally.LastAt), rec)
		for _, hash := range termsOf(ev) {
			l.add("terms", 64, hash, [16]byte(ev.Ref))
		}
	case *dedupe.MovedDelivery:
		return l.delivery(&m.Delivery)
	case *dedupe.MovedAttempt:
		rec := packAttempt(&m.Attempt)
		// Numbered in their order, before all that are to come.
		l.add("attempts", 64+len(rec), l.at(m.Event), int64(m.Order)-maxMoved, int64(m.Writer), m.Batch, m.Target, rec)
	case *dedupe.MovedActs:
		data := packLeaves(m.Leaves)
		l.add("batches", 96+len(data), int64(m.Writer), int64(m.First), int64(len(m.Leaves)), m.At.UnixMilli(), optional(m.Lo), optional(m.Hi),
			int32(m.Events), millis(m.KeepUntil), data)
	case *dedupe.MovedNote:
		l.add("notes", 64+len(m.Value), []byte(m.Kind), []byte(m.Name), int64(m.Version), millis(m.UpdatedAt), bytesOf(m.Value))
	case *dedupe.MovedKey:
		rec, err := encodeKey(&m.SyncKey)
		if err != nil {
			return err
		}
		l.add("sync_keys", 128+len(rec), m.Key[:], int16(m.State), int64(m.Token), millis(m.Until), millis(m.ClaimedAt), millis(m.Expires), rec)
	case *dedupe.MovedChunk:
		l.add("sync_chunks", 64+len(m.Data), m.Key[:], int64(m.Token), int32(m.Chunk), bytesOf(m.Data))
	case *dedupe.MovedWriter:
		// No process has the name: gateways go on as writers of their own.
		l.add("gateways", 128, fmt.Sprintf("%s%015x", movedName, m.Writer), int64(m.Writer), int64(1), millis(m.Mark), optional(m.First), optional(m.Last),
			int64(m.Batches), int64(m.Accepted), int64(m.Acts), millis(m.Mark))
	default:
		return fmt.Errorf("load a record of %T: not known", m)
	}
	return nil
}

// maxMoved is more attempts than an event has.
const maxMoved = 1 << 40

// movedName begins the names of writers of a ledger that was moved.
const movedName = "moved "

func (l *Loader) delivery(d *event.Delivery) error {
	if d.Event != l.ev.Ref {
		return fmt.Errorf("load delivery %s: its event was not the last one before it: %w", d.DeliveryID(), dedupe.ErrDamaged)
	}
	ord := l.ev.OrderAt(d.Target)
	if d.State.Open() {
		due := millis(d.DueAt)
		l.add("pending", 256, [16]byte(d.Event), d.Target, [16]byte(l.ev.Body.Request), int32(d.Generation), d.NewKey, int64(d.Attempts), millis(d.OpenedAt),
			millis(d.UpdatedAt), due, due, int32(d.LastStatus), d.LastError, l.ev.Body.Length, l.once, int64(ord), int64(ord.Lane()),
			int64(0), int64(0), int64(0), int64(0), int64(0), int64(0), int64(0))
		return nil
	}
	l.add("closed", 128, l.at(d.Event), d.Target, int32(d.Generation), int16(d.State), d.NewKey, int64(d.Attempts), millis(d.OpenedAt), millis(d.UpdatedAt),
		int32(d.LastStatus), d.LastError)
	if d.State == event.Dead {
		l.add("dead", 64, [16]byte(d.Event), d.Target)
	}
	if d.State == event.Dead && ord.Blocks() {
		l.add("blocks", 64, d.Target, int64(ord.Lane()), [16]byte(d.Event))
	}
	return nil
}

// loaded are the tables in the order in which they are written.
var loaded = [...]struct {
	table   string
	columns []string
}{
	{"claims", []string{"key", "ref", "hash", "span", "expires"}},
	{"bodies", []string{"ref", "until", "data"}},
	{"events", []string{"ref", "source", "id", "batch", "request", "kept", "keep_body", "keep_meta", "keep_audit", "once", "spent", "repeats", "conflicts", "last_at", "rec"}},
	{"terms", []string{"hash", "ref"}},
	{"dead", []string{"ref", "target"}},
	{"pending", []string{"ref", "target", "request", "gen", "new_key", "attempts", "opened", "updated", "due", "next_at", "last_status", "last_error", "size", "once", "ord",
		"lane", "pos", "token", "owner", "lease_until", "begun", "begun_token", "begun_by"}},
	{"closed", []string{"ref", "target", "gen", "state", "new_key", "attempts", "opened", "updated", "last_status", "last_error"}},
	{"blocks", []string{"target", "lane", "ref"}},
	{"attempts", []string{"ref", "seq", "writer", "batch", "target", "rec"}},
	{"batches", []string{"writer", "first_act", "acts", "at", "lo", "hi", "events", "keep_until", "data"}},
	{"notes", []string{"kind", "name", "version", "updated", "value"}},
	{"sync_keys", []string{"key", "state", "token", "until", "claimed", "expires", "rec"}},
	{"sync_chunks", []string{"key", "token", "n", "data"}},
	{"gateways", []string{"name", "writer", "epoch", "mark", "first_ref", "last_ref", "batches", "accepted", "acts", "heartbeat"}},
}

// flush writes what is staged, and how far that is.
func (l *Loader) flush(ctx context.Context) error {
	if l.seen <= l.done {
		return nil
	}
	err := pgx.BeginFunc(ctx, l.conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SET LOCAL synchronous_commit = off`); err != nil { // what a crash takes is moved again
			return err
		}
		if err := l.note(ctx, tx); err != nil {
			return err
		}
		for _, lo := range l.times {
			if err := attachParts(ctx, tx, l.cfg.Schema, lo, lo+l.width); err != nil {
				return fmt.Errorf("make a partition: %w", err)
			}
		}
		for _, t := range loaded {
			if rows := l.rows[t.table]; len(rows) > 0 {
				if _, err := tx.CopyFrom(ctx, pgx.Identifier{l.cfg.Schema, t.table}, t.columns, pgx.CopyFromRows(rows)); err != nil {
					return fmt.Errorf("write %s: %w", t.table, err)
				}
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("load the ledger: %w", standby(err))
	}
	for _, lo := range l.times {
		l.parts[lo] = true
	}
	clear(l.rows)
	l.times, l.bytes, l.done = nil, 0, l.seen
	return nil
}

// note moves the load's own note on, if nobody else did.
func (l *Loader) note(ctx context.Context, tx pgx.Tx) error {
	was, err := json.Marshal(moving{l.source, l.done})
	if err != nil {
		return err
	}
	is, err := json.Marshal(moving{l.source, l.seen})
	if err != nil {
		return err
	}
	tag, err := tx.Exec(ctx, l.q(`UPDATE {s}.notes SET version = version + 1, value = $4 WHERE kind = $1 AND name = $2 AND value = $3`),
		[]byte(noteLedger), []byte(noteMoving), was, is)
	if err == nil && tag.RowsAffected() != 1 {
		err = errors.New("another command moves a ledger into this schema")
	}
	return err
}

// Finish writes what is left, reads the whole ledger back and holds it against
// want. Only when they are equal gateways may open it; else the error is
// dedupe.ErrNotEqual. With hold, what is open is due never, until Resume.
func (l *Loader) Finish(ctx context.Context, want *dedupe.MoveTally, hold bool) (*dedupe.MoveTally, error) {
	if err := l.flush(ctx); err != nil {
		return nil, err
	}
	if err := l.order(ctx); err != nil {
		return nil, fmt.Errorf("order what is open: %w", err)
	}
	got := &dedupe.MoveTally{}
	err := pgx.BeginTxFunc(ctx, l.conn, pgx.TxOptions{IsoLevel: pgx.RepeatableRead}, func(tx pgx.Tx) error {
		r := &reader{q: tx, schema: l.cfg.Schema, fault: func(f dedupe.Fault) error {
			return fmt.Errorf("%w: %s: %s", dedupe.ErrNotEqual, f.Where, f.What)
		}, put: func(m dedupe.Moved) error {
			got.Add(m)
			return nil
		}}
		if err := r.each(ctx); err != nil {
			return err
		}
		if kind := got.Differs(want); kind != "" {
			return fmt.Errorf("%w: the %s differ", dedupe.ErrNotEqual, kind)
		}
		if hold {
			if _, err := tx.Exec(ctx, l.q(holdSQL), dedupe.HeldUntil.UnixMilli()); err != nil {
				return err
			}
		}
		_, err := tx.Exec(ctx, l.q(`DELETE FROM {s}.notes WHERE kind = $1 AND name = $2`), []byte(noteLedger), []byte(noteMoving))
		return err
	})
	if err != nil {
		return got, fmt.Errorf("compare the ledgers: %w", err)
	}
	// Without figures of its tables the database would read them whole.
	for _, t := range loaded {
		if _, err := l.conn.Exec(ctx, l.q(`ANALYZE {s}.`+t.table)); err != nil {
			return got, fmt.Errorf("analyse %s: %w", t.table, err)
		}
	}
	return got, nil
}

// order gives open deliveries their places in their lanes: what a replay
// opened stands behind all that was opened before it.
func (l *Loader) order(ctx context.Context) error {
	return pgx.BeginFunc(ctx, l.conn, func(tx pgx.Tx) error {
		for _, sql := range [...]string{
			`UPDATE {s}.pending p SET pos = u.pos FROM (SELECT ref, target, row_number() OVER (PARTITION BY target, lane ORDER BY opened, gen > 0, ref) AS pos
				FROM {s}.pending WHERE lane <> 0) u WHERE p.ref = u.ref AND p.target = u.target`,
			`INSERT INTO {s}.lanes (target, lane, pos) SELECT target, lane, max(pos) FROM {s}.pending WHERE lane <> 0 GROUP BY target, lane
				ON CONFLICT (target, lane) DO UPDATE SET pos = excluded.pos`,
		} {
			if _, err := tx.Exec(ctx, l.q(sql)); err != nil {
				return err
			}
		}
		return nil
	})
}
