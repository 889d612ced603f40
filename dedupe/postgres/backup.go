package postgres

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/dedupe"
)

// magic begins every backup.
const magic = "onceward postgres ledger 1\n"

// copied are the tables of a backup, in the order in which they are read back.
// What is partitioned is copied as one table.
var copied = [...]string{"meta", "gateways", "claims", "events", "bodies", "closed", "attempts", "terms", "dead", "pending", "lanes", "blocks", "batches", "notes",
	"sync_keys", "sync_chunks"}

// backupHead is what a reader must know before the tables.
type backupHead struct {
	Schema     int        `json:"schema"`
	Partitions [][2]int64 `json:"partitions"` // from and to, Unix ms
	Wide       [][2]int64 `json:"wide"`       // likewise
	Attempts   int64      `json:"attempts"`   // the last number given to one
	Width      int64      `json:"width"`
}

// Backup writes a copy of the whole ledger as it is at one moment: every table
// in the database's own binary form, in blocks with their length before them.
func (db *DB) Backup(ctx context.Context, w io.Writer) error {
	if err := db.usable(); err != nil {
		return err
	}
	out := bufio.NewWriterSize(w, 1<<20)
	err := pgx.BeginTxFunc(ctx, db.pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		if err := db.backupHead(ctx, tx, out); err != nil {
			return err
		}
		for _, t := range copied {
			b := &blocks{w: out}
			if _, err := tx.Conn().PgConn().CopyTo(ctx, b, db.q(`COPY (SELECT * FROM {s}.`+t+`) TO STDOUT (FORMAT binary)`)); err != nil {
				return errors.Join(b.err, fmt.Errorf("copy %s: %w", t, err))
			}
			if err := b.end(); err != nil {
				return err
			}
		}
		return out.Flush()
	})
	if err != nil {
		return fmt.Errorf("back up the ledger: %w", err)
	}
	return nil
}

func (db *DB) backupHead(ctx context.Context, tx pgx.Tx, out *bufio.Writer) error {
	h := backupHead{Width: db.width.Milliseconds()}
	if err := db.row(ctx, tx, `SELECT version, (SELECT last_value FROM {s}.attempt_seq) FROM {s}.schema_version`).Scan(&h.Schema, &h.Attempts); err != nil {
		return err
	}
	for table, to := range map[string]*[][2]int64{"partitions": &h.Partitions, "wide": &h.Wide} {
		err := db.each(ctx, tx, `SELECT lo, hi FROM {s}.`+table+` ORDER BY lo`, nil, func(r pgx.Rows) error {
			var p [2]int64
			err := r.Scan(&p[0], &p[1])
			*to = append(*to, p)
			return err
		})
		if err != nil {
			return err
		}
	}
	if _, err := out.WriteString(magic); err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(&h)
}

// blocks writes each piece with its length before it; a piece of length 0 ends
// a table.
type blocks struct {
	w   io.Writer
	err error
}

func (b *blocks) Write(p []byte) (int, error) {
	if b.err == nil && len(p) > 0 {
		b.err = b.length(len(p))
		if b.err == nil {
			_, b.err = b.w.Write(p)
		}
	}
	return len(p), b.err
}

func (b *blocks) length(n int) error {
	_, err := b.w.Write(binary.BigEndian.AppendUint32(nil, uint32(n)))
	return err
}

func (b *blocks) end() error {
	if b.err != nil {
		return b.err
	}
	return b.length(0)
}

// pieces reads what blocks wrote, up to the end of one table.
type pieces struct {
	r    io.Reader
	left int
	done bool
}

func (p *pieces) Read(to []byte) (int, error) {
	if p.left == 0 && !p.done {
		var n [4]byte
		if _, err := io.ReadFull(p.r, n[:]); err != nil {
			return 0, fmt.Errorf("backup ends early: %w", io.ErrUnexpectedEOF)
		}
		p.left = int(binary.BigEndian.Uint32(n[:]))
		p.done = p.left == 0
	}
	if p.done {
		return 0, io.EOF
	}
	n, err := p.r.Read(to[:min(len(to), p.left)])
	p.left -= n
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// ErrNotEmpty says that a backup is not read into a schema with tables in it.
var ErrNotEmpty = errors.New("schema already holds a ledger: restore into another one")

// Restore makes a ledger of a backup, in a schema that holds none. Refs of the
// old ledger stay valid. Every name is free again: a gateway that opens the
// ledger writes as a new writer, and the old ones' leases are given back.
func Restore(ctx context.Context, cfg Config, r io.Reader) error {
	cfg = cfg.withDefaults()
	in := bufio.NewReaderSize(r, 1<<20)
	h, err := readHead(in)
	if err != nil {
		return err
	}
	conn, err := connect(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	if v, err := version(ctx, conn, cfg.Schema); err != nil || v != 0 {
		return errors.Join(err, ErrNotEmpty)
	}
	if _, err := migrate(ctx, conn, cfg); err != nil {
		return err
	}
	if err := restore(ctx, conn, cfg, h, in); err != nil {
		return fmt.Errorf("restore the ledger: %w", err)
	}
	return nil
}

func readHead(in *bufio.Reader) (h backupHead, err error) {
	got := make([]byte, len(magic))
	if _, err := io.ReadFull(in, got); err != nil || string(got) != magic {
		return h, errors.New("not a backup of a PostgreSQL ledger")
	}
	line, err := in.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &h)
	}
	if err != nil {
		return h, fmt.Errorf("head of the backup: %w", err)
	}
	all, err := steps()
	if err == nil && h.Schema != len(all) {
		err = fmt.Errorf("backup is of schema version %d, this program restores %d: %w", h.Schema, len(all), dedupe.ErrNewer)
	}
	return h, err
}

func restore(ctx context.Context, conn *pgx.Conn, cfg Config, h backupHead, in io.Reader) error {
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		for _, p := range h.Partitions {
			if err := attachParts(ctx, tx, cfg.Schema, p[0], p[1]); err != nil {
				return err
			}
		}
		for _, p := range h.Wide {
			if err := attachWide(ctx, tx, cfg.Schema, p[0], p[1]); err != nil {
				return err
			}
		}
		if _, err := tx.Exec(ctx, fill(`DELETE FROM {s}.meta`, cfg.Schema)); err != nil {
			return err
		}
		for _, t := range copied {
			p := &pieces{r: in}
			if _, err := tx.Conn().PgConn().CopyFrom(ctx, p, fill(`COPY {s}.`+t+` FROM STDIN (FORMAT binary)`, cfg.Schema)); err != nil {
				return fmt.Errorf("copy %s: %w", t, err)
			}
			if _, err := io.Copy(io.Discard, p); err != nil {
				return err
			}
		}
		for _, sql := range restored {
			if _, err := tx.Exec(ctx, fill(sql, cfg.Schema)); err != nil {
				return err
			}
		}
		_, err := tx.Exec(ctx, fill(`SELECT setval('{s}.attempt_seq', $1)`, cfg.Schema), h.Attempts)
		return err
	})
}
