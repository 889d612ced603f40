package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

// Source is a ledger being read whole for a move, as it is at one moment.
type Source struct {
	cfg  Config
	conn *pgx.Conn
	tx   pgx.Tx
}

// OpenSource connects to the ledger in cfg.Schema. Gateways may go on.
func OpenSource(ctx context.Context, cfg Config) (*Source, error) {
	cfg = cfg.withDefaults()
	conn, err := connect(ctx, cfg)
	if err != nil {
		return nil, err
	}
	s := &Source{cfg: cfg, conn: conn}
	lacking, err := missing(ctx, conn, cfg.Schema)
	if err == nil && len(lacking) > 0 {
		err = ErrOlder
	}
	if err == nil {
		s.tx, err = conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	}
	if err == nil {
		err = whole(ctx, s.tx, cfg.Schema)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// whole is an error while a ledger is being moved into the schema.
func whole(ctx context.Context, q querier, schema string) error {
	var moving bool
	err := q.QueryRow(ctx, fill(`SELECT EXISTS (SELECT FROM {s}.notes WHERE kind = $1 AND name = $2)`, schema), []byte(noteLedger), []byte(noteMoving)).Scan(&moving)
	if err != nil {
		return fmt.Errorf("read the ledger's notes: %w", err)
	}
	if moving {
		return fmt.Errorf("schema %s: %w", schema, dedupe.ErrMoving)
	}
	return nil
}

// Events is how many events were ever accepted, for a measure of progress.
func (s *Source) Events(ctx context.Context) (n uint64, err error) {
	err = s.tx.QueryRow(ctx, fill(`SELECT COALESCE(sum(accepted), 0)::bigint FROM {s}.gateways`, s.cfg.Schema)).Scan(&n)
	return n, err
}

// Close ends the connection.
func (s *Source) Close() error { return s.conn.Close(context.Background()) }

// Each gives every record to put. What is damaged is told to fault: with its
// nil the record is left out.
func (s *Source) Each(ctx context.Context, fault func(dedupe.Fault) error, put func(dedupe.Moved) error) error {
	return (&reader{q: s.tx, schema: s.cfg.Schema, fault: fault, put: put}).each(ctx)
}

// reader reads every record of a ledger.
type reader struct {
	q      querier
	schema string
	fault  func(dedupe.Fault) error
	put    func(dedupe.Moved) error
}

func (r *reader) each(ctx context.Context) error {
	for _, f := range [...]func(context.Context) error{r.claims, r.bodies, r.events, r.acts, r.notes, r.keys, r.chunks, r.writers} {
		if err := f(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (r *reader) rows(ctx context.Context, sql string, args []any, scan func(pgx.Rows) error) error {
	rows, err := r.q.Query(ctx, fill(sql, r.schema), args...)
	if err != nil {
		return fmt.Errorf("read the ledger: %w", err)
	}
	return drain(rows, scan)
}

// wrong tells of a damaged record.
func (r *reader) wrong(where string, err error) error {
	if !errors.Is(err, dedupe.ErrDamaged) {
		return err
	}
	return r.fault(dedupe.Fault{Where: where, What: err.Error()})
}

func (r *reader) claims(ctx context.Context) error {
	return r.rows(ctx, `SELECT key, ref, hash, span, expires FROM {s}.claims ORDER BY key`, nil, func(row pgx.Rows) error {
		var key, hash []byte
		var ref [16]byte
		var span, expires int64
		if err := row.Scan(&key, &ref, &hash, &span, &expires); err != nil {
			return err
		}
		c := dedupe.Claim{Ref: ref, Window: time.Duration(span) * time.Millisecond, Expires: time.UnixMilli(expires)}
		if len(key) != len(c.Key) || len(hash) != len(c.BodyHash) {
			return r.wrong(fmt.Sprintf("claim %x", key), fmt.Errorf("%w: its key or hash has another length", dedupe.ErrDamaged))
		}
		c.Key, c.BodyHash = dedupe.Key(key), event.Hash(hash)
		return r.put(&dedupe.MovedClaim{Claim: c})
	})
}

func (r *reader) bodies(ctx context.Context) error {
	return r.rows(ctx, `SELECT ref, until, data FROM {s}.bodies ORDER BY ref`, nil, func(row pgx.Rows) error {
		var ref [16]byte
		var until int64
		m := &dedupe.MovedBody{}
		if err := row.Scan(&ref, &until, &m.Data); err != nil {
			return err
		}
		m.Request, m.Until = ref, time.UnixMilli(until)
		return r.put(m)
	})
}

// page is how many events are read at once, with all that belongs to them.
const page = 1000

// movedEvent is an event with all that follows it.
type movedEvent struct {
	dedupe.MovedEvent
	deliveries []dedupe.Moved
	attempts   []dedupe.Moved
	left       bool // damaged
}

func (r *reader) events(ctx context.Context) error {
	for last := (event.Ref{}); ; {
		var refs [][16]byte
		all := map[event.Ref]*movedEvent{}
		err := r.rows(ctx, `SELECT e.ref, e.batch, e.kept, e.keep_body, e.keep_meta, e.keep_audit, e.once, e.repeats, e.conflicts, e.last_at, e.rec,
			e.spent OR NOT EXISTS (SELECT FROM {s}.bodies b WHERE b.ref = e.request) FROM {s}.events e WHERE e.ref > $1 ORDER BY e.ref LIMIT $2`,
			[]any{[16]byte(last), page}, func(row pgx.Rows) error {
				m, err := scanMoved(row)
				last = m.Ref
				if err != nil {
					m.left = true
					err = r.wrong("event "+last.String(), err)
				}
				refs, all[last] = append(refs, last), m
				return err
			})
		if err != nil || len(refs) == 0 {
			return err
		}
		if err := errors.Join(r.deliveriesOf(ctx, refs, all), r.attemptsOf(ctx, refs, all)); err != nil {
			return err
		}
		for _, ref := range refs {
			if err := r.event(all[ref]); err != nil {
				return err
			}
		}
	}
}

func (r *reader) event(m *movedEvent) error {
	if m.left {
		return nil
	}
	for _, list := range [...][]dedupe.Moved{{&m.MovedEvent}, m.deliveries, m.attempts} {
		for _, x := range list {
			if err := r.put(x); err != nil {
				return err
			}
		}
	}
	return nil
}

func scanMoved(row pgx.Rows) (*movedEvent, error) {
	var (
		m                                          = &movedEvent{}
		ref                                        [16]byte
		kept, body, meta, audit, rep, conf, lastAt int64
		once, gone                                 bool
		rec                                        []byte
	)
	if err := row.Scan(&ref, &m.Batch, &kept, &body, &meta, &audit, &once, &rep, &conf, &lastAt, &rec, &gone); err != nil {
		return m, err
	}
	ev, err := unpackEvent(event.Ref(ref), rec)
	ev.Ref = ref
	m.Event, m.Kept = ev, time.UnixMilli(kept)
	m.Keep = dedupe.Retention{Body: millisOf(body), Meta: millisOf(meta), Audit: millisOf(audit), Once: once}
	m.BodyGone = gone && ev.Body.Length > 0
	m.Tally = event.Tally{Repeats: uint64(rep), Conflicts: uint64(conf), LastAt: fromNanos(lastAt)}
	return m, err
}

func millisOf(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }

func (r *reader) deliveriesOf(ctx context.Context, refs [][16]byte, all map[event.Ref]*movedEvent) error {
	return r.rows(ctx, `SELECT ref, target, gen, 0::smallint, new_key, attempts, opened, updated, due, last_status, last_error FROM {s}.pending WHERE ref = ANY($1::uuid[])
		UNION ALL SELECT ref, target, gen, state, new_key, attempts, opened, updated, 0, last_status, last_error FROM {s}.closed WHERE ref = ANY($1::uuid[])
		ORDER BY 1, 2`, []any{refs}, func(row pgx.Rows) error {
		var (
			d                              event.Delivery
			ref                            [16]byte
			gen                            int32
			state                          int16
			attempts, opened, updated, due int64
		)
		if err := row.Scan(&ref, &d.Target, &gen, &state, &d.NewKey, &attempts, &opened, &updated, &due, &d.LastStatus, &d.LastError); err != nil {
			return err
		}
		d.Event, d.Generation, d.State, d.Attempts = ref, uint16(gen), event.State(state), uint32(attempts)
		d.OpenedAt, d.UpdatedAt, d.DueAt = fromMillis(opened), fromMillis(updated), fromMillis(due)
		m := all[d.Event]
		m.deliveries = append(m.deliveries, &dedupe.MovedDelivery{Delivery: d})
		return nil
	})
}

func (r *reader) attemptsOf(ctx context.Context, refs [][16]byte, all map[event.Ref]*movedEvent) error {
	return r.rows(ctx, `SELECT ref, target, writer, batch, rec FROM {s}.attempts WHERE ref = ANY($1::uuid[]) ORDER BY ref, seq`, []any{refs}, func(row pgx.Rows) error {
		var (
			a      dedupe.MovedAttempt
			ref    [16]byte
			target string
			writer int64
			rec    []byte
		)
		if err := row.Scan(&ref, &target, &writer, &a.Batch, &rec); err != nil {
			return err
		}
		m := all[ref]
		at, err := unpackAttempt(ref, target, rec)
		if err != nil {
			return r.wrong("attempt of event "+event.Ref(ref).String(), err)
		}
		a.Attempt, a.Order, a.Writer = at, len(m.attempts), uint64(writer)
		m.attempts = append(m.attempts, &a)
		return nil
	})
}

func (r *reader) acts(ctx context.Context) error {
	return r.rows(ctx, `SELECT writer, first_act, acts, at, lo, hi, events, keep_until, data FROM {s}.batches ORDER BY writer, first_act`, nil, func(row pgx.Rows) error {
		var writer, first, n, at, until int64
		var lo, hi *[16]byte
		var events int32
		var data []byte
		if err := row.Scan(&writer, &first, &n, &at, &lo, &hi, &events, &until, &data); err != nil {
			return err
		}
		leaves, err := unpackLeaves(data, n)
		for i := 0; err == nil && i < len(leaves); i++ {
			if _, bad := dedupe.DecodeAct(leaves[i]); bad != nil {
				err = fmt.Errorf("%w: act %d: %w", dedupe.ErrDamaged, first+int64(i), bad)
			}
		}
		if err != nil {
			return r.wrong(fmt.Sprintf("acts of writer %x from %d", uint64(writer), first), err)
		}
		m := &dedupe.MovedActs{Writer: uint64(writer), First: uint64(first), At: time.UnixMilli(at), Events: uint64(events), KeepUntil: fromMillis(until), Leaves: leaves}
		if lo != nil && hi != nil {
			m.Lo, m.Hi = *lo, *hi
		}
		return r.put(m)
	})
}

// The ledger's own notes.
const (
	noteLedger = "ledger"
	noteMoving = "moving" // a ledger is moved here and not whole yet
)

func (r *reader) notes(ctx context.Context) error {
	return r.rows(ctx, `SELECT kind, name, version, updated, value FROM {s}.notes ORDER BY kind, name`, nil, func(row pgx.Rows) error {
		n, err := scanNote(row)
		if err != nil || n.Kind == noteLedger && n.Name == noteMoving {
			return err
		}
		return r.put(&dedupe.MovedNote{Note: n})
	})
}

func (r *reader) keys(ctx context.Context) error {
	return r.rows(ctx, `SELECT key, rec FROM {s}.sync_keys ORDER BY key`, nil, func(row pgx.Rows) error {
		var key, rec []byte
		if err := row.Scan(&key, &rec); err != nil {
			return err
		}
		k, err := decodeKey(key, rec)
		if err != nil {
			return r.wrong(fmt.Sprintf("key %x", key), err)
		}
		return r.put(&dedupe.MovedKey{SyncKey: k})
	})
}

func (r *reader) chunks(ctx context.Context) error {
	return r.rows(ctx, `SELECT c.key, c.token, c.n, c.data FROM {s}.sync_chunks c JOIN {s}.sync_keys k ON k.key = c.key AND k.token = c.token
		ORDER BY c.key, c.n`, nil, func(row pgx.Rows) error {
		var key []byte
		var token int64
		var n int32
		m := &dedupe.MovedChunk{}
		if err := row.Scan(&key, &token, &n, &m.Data); err != nil {
			return err
		}
		if len(key) != len(m.Key) {
			return r.wrong(fmt.Sprintf("chunk of key %x", key), fmt.Errorf("%w: its key has another length", dedupe.ErrDamaged))
		}
		m.Key, m.Token, m.Chunk = dedupe.Key(key), uint64(token), int(n)
		return r.put(m)
	})
}

func (r *reader) writers(ctx context.Context) error {
	return r.rows(ctx, `SELECT writer, first_ref, last_ref, mark, batches, accepted, acts FROM {s}.gateways ORDER BY writer`, nil, func(row pgx.Rows) error {
		var writer, mark, batches, accepted, acts int64
		var first, last *[16]byte
		if err := row.Scan(&writer, &first, &last, &mark, &batches, &accepted, &acts); err != nil {
			return err
		}
		m := &dedupe.MovedWriter{Writer: uint64(writer), Mark: fromMillis(mark), Batches: uint64(batches), Accepted: uint64(accepted), Acts: uint64(acts)}
		if first != nil && last != nil {
			m.First, m.Last = *first, *last
		}
		return r.put(m)
	})
}
