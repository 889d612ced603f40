package postgres

import (
	"bytes"
	"context"
	"encoding/gob"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

// keyRow is the record of a key under a batch.
type keyRow struct {
	rec     dedupe.SyncKey
	found   bool // as of now
	stored  bool // there is a row of it
	changed bool
}

// keyWork is what the key steps of a batch need and write.
type keyWork struct {
	records map[dedupe.Key]*keyRow
	keys    [][]byte // of chunks
	tokens  []int64
	ns      []int32
	data    [][]byte
}

const readKeys = `SELECT key, rec FROM {s}.sync_keys WHERE key = ANY($1::bytea[]) ORDER BY key FOR UPDATE`

// stepKeys are the keys of a batch and their former names.
func stepKeys(in *dedupe.Batch) (out [][]byte) {
	seen := map[dedupe.Key]bool{}
	add := func(k dedupe.Key) {
		if !seen[k] {
			seen[k] = true
			out = append(out, k[:])
		}
	}
	for _, s := range in.Keys {
		add(s.Key)
		if s.Claim != nil {
			for _, k := range s.Claim.Former {
				add(k)
			}
		}
	}
	return out
}

func (b *batch) readKey(r pgx.Rows) error {
	var key, rec []byte
	if err := r.Scan(&key, &rec); err != nil {
		return err
	}
	k, err := decodeKey(key, rec)
	if err != nil {
		return err
	}
	b.keys.records[k.Key] = &keyRow{rec: k, found: true, stored: true}
	return nil
}

// storedKey is a key's record as it is packed; its name stands beside it.
type storedKey struct {
	Source, Caller, ID, Target, Downstream, Why string
	Print                                       event.Hash
	State                                       uint8
	Token, Replays                              uint64
	Until, ClaimedAt, UpdatedAt, Expires        int64 // ns
	Window                                      time.Duration
	Status                                      int
	Header                                      []event.Field
	Length                                      int64
	Hash                                        event.Hash
	Body                                        []byte
	Life                                        []storedMoment
}

type storedMoment struct {
	At     int64
	What   uint8
	Detail string
}

func encodeKey(k *dedupe.SyncKey) ([]byte, error) {
	s := storedKey{
		Source: k.Source, Caller: k.Caller, ID: k.ID, Target: k.Target, Downstream: k.Downstream, Why: k.Why, Print: k.Print,
		State: uint8(k.State), Token: k.Token, Replays: k.Replays, Until: nanos(k.Until), ClaimedAt: nanos(k.ClaimedAt),
		UpdatedAt: nanos(k.UpdatedAt), Expires: nanos(k.Expires), Window: k.Window, Status: k.Answer.Status, Header: k.Answer.Header,
		Length: k.Answer.Length, Hash: k.Answer.Hash,
	}
	if k.Answer.Chunks() == 0 {
		s.Body = k.Answer.Body
	}
	for _, m := range k.Life {
		s.Life = append(s.Life, storedMoment{nanos(m.At), uint8(m.What), m.Detail})
	}
	var buf bytes.Buffer
	if err := gob.NewEncoder(&buf).Encode(&s); err != nil {
		return nil, fmt.Errorf("write the record of a key: %w", err)
	}
	return buf.Bytes(), nil
}

func decodeKey(key, rec []byte) (k dedupe.SyncKey, err error) {
	var s storedKey
	if err := gob.NewDecoder(bytes.NewReader(rec)).Decode(&s); err != nil || len(key) != len(k.Key) {
		return k, fmt.Errorf("key %x: %w", key, dedupe.ErrDamaged)
	}
	k = dedupe.SyncKey{
		Source: s.Source, Caller: s.Caller, ID: s.ID, Target: s.Target, Downstream: s.Downstream, Why: s.Why, Print: s.Print,
		State: dedupe.KeyState(s.State), Token: s.Token, Replays: s.Replays, Until: fromNanos(s.Until), ClaimedAt: fromNanos(s.ClaimedAt),
		UpdatedAt: fromNanos(s.UpdatedAt), Expires: fromNanos(s.Expires), Window: s.Window,
		Answer: dedupe.KeyAnswer{Status: s.Status, Header: s.Header, Length: s.Length, Hash: s.Hash, Body: s.Body},
	}
	copy(k.Key[:], key)
	for _, m := range s.Life {
		k.Life = append(k.Life, dedupe.KeyMoment{At: fromNanos(m.At), What: dedupe.Moment(m.What), Detail: m.Detail})
	}
	return k, nil
}

// step applies one key step.
func (b *batch) step(_ context.Context, s *dedupe.KeyStep) error {
	write, err := s.Apply(b.now, func(k dedupe.Key) (dedupe.SyncKey, bool, error) {
		if r := b.keys.records[k]; r != nil && r.found {
			return r.rec, true, nil
		}
		return dedupe.SyncKey{}, false, nil
	})
	switch {
	case errors.Is(err, dedupe.ErrTooLarge), errors.Is(err, dedupe.ErrNoClaim):
		s.Err = err
		return nil
	case err != nil:
		return err
	}
	if s.Kind == dedupe.StepSpool && s.Verdict == dedupe.KeyDone {
		b.keys.chunk(s.Key, s.Token, s.Chunk, s.Data)
	}
	if write {
		b.keys.put(s.Record)
	}
	for _, a := range s.Acts() {
		b.act(a)
	}
	return nil
}

func (w *keyWork) chunk(k dedupe.Key, token uint64, n int, data []byte) {
	if data == nil {
		data = []byte{}
	}
	for i := range w.keys {
		if w.tokens[i] == int64(token) && w.ns[i] == int32(n) && bytes.Equal(w.keys[i], k[:]) {
			w.data[i] = data
			return
		}
	}
	w.keys, w.tokens, w.ns, w.data = append(w.keys, k[:]), append(w.tokens, int64(token)), append(w.ns, int32(n)), append(w.data, data)
}

// put stages a record, its long body apart from it.
func (w *keyWork) put(rec dedupe.SyncKey) {
	if body := rec.Answer.Body; rec.Answer.Chunks() > 0 {
		n := 0
		for part := range slices.Chunk(body, dedupe.SyncChunk) {
			w.chunk(rec.Key, rec.Token, n, part)
			n++
		}
		rec.Answer.Body = nil
	}
	r := w.records[rec.Key]
	if r == nil {
		r = &keyRow{}
		w.records[rec.Key] = r
	}
	r.rec, r.found, r.changed = rec, true, true
}

func (b *batch) writeKeys() error {
	var rows []*keyRow
	for _, r := range b.keys.records {
		if r.changed {
			rows = append(rows, r)
		}
	}
	slices.SortFunc(rows, func(x, y *keyRow) int { return slices.Compare(x.rec.Key[:], y.rec.Key[:]) })
	for _, r := range rows {
		rec, err := encodeKey(&r.rec)
		if err != nil {
			return err
		}
		// A key that was not there is inserted and nothing else: if another
		// gateway was first, the batch is decided again.
		sql := `INSERT INTO {s}.sync_keys VALUES ($1, $2, $3, $4, $5, $6, $7)`
		if r.stored {
			sql = `UPDATE {s}.sync_keys SET state = $2, token = $3, until = $4, claimed = $5, expires = $6, rec = $7 WHERE key = $1`
		}
		b.queue(sql, r.rec.Key[:], int16(r.rec.State), int64(r.rec.Token), millis(r.rec.Until), millis(r.rec.ClaimedAt), millis(r.rec.Expires), rec)
	}
	if k := &b.keys; len(k.keys) > 0 {
		b.queue(`INSERT INTO {s}.sync_chunks SELECT * FROM unnest($1::bytea[], $2::bigint[], $3::int[], $4::bytea[])
			ON CONFLICT (key, token, n) DO UPDATE SET data = excluded.data`, k.keys, k.tokens, k.ns, k.data)
	}
	return nil
}

// SyncKey reads one key as it stands now.
func (db *DB) SyncKey(ctx context.Context, k dedupe.Key) (dedupe.SyncKey, error) {
	ctx, cancel := db.patient(ctx)
	defer cancel()
	if err := db.usable(); err != nil {
		return dedupe.SyncKey{}, err
	}
	var rec []byte
	err := db.row(ctx, db.pool, `SELECT rec FROM {s}.sync_keys WHERE key = $1`, k[:]).Scan(&rec)
	if errors.Is(err, pgx.ErrNoRows) {
		return dedupe.SyncKey{}, fmt.Errorf("key %x: %w", k, dedupe.ErrNotFound)
	}
	if err != nil {
		return dedupe.SyncKey{}, fmt.Errorf("read a key: %w", err)
	}
	out, err := decodeKey(k[:], rec)
	if err != nil {
		return out, err
	}
	now := db.clock.now()
	if out = out.At(now); out.Expired(now) {
		return dedupe.SyncKey{}, fmt.Errorf("key %x: %w", k, dedupe.ErrNotFound)
	}
	return out, nil
}

// SyncChunk reads one chunk of a stored answer.
func (db *DB) SyncChunk(ctx context.Context, k *dedupe.SyncKey, n int) ([]byte, error) {
	ctx, cancel := db.patient(ctx)
	defer cancel()
	if err := db.usable(); err != nil {
		return nil, err
	}
	var data []byte
	err := db.row(ctx, db.pool, `SELECT data FROM {s}.sync_chunks WHERE key = $1 AND token = $2 AND n = $3`, k.Key[:], int64(k.Token), n).Scan(&data)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, fmt.Errorf("chunk %d of key %x: %w", n, k.Key, dedupe.ErrDamaged)
	}
	if err != nil {
		return nil, fmt.Errorf("read a chunk: %w", err)
	}
	return data, nil
}

// SyncKeys lists keys by their names, open ones by their claims.
func (db *DB) SyncKeys(ctx context.Context, f dedupe.KeyFilter, cursor string, limit int) (dedupe.Page[dedupe.SyncKey], error) {
	var page dedupe.Page[dedupe.SyncKey]
	if err := db.usable(); err != nil {
		return page, err
	}
	after, err := hex.DecodeString(cursor)
	if err != nil || len(after) != 0 && len(after) != len(dedupe.Key{}) {
		return page, fmt.Errorf("cursor %q: want the one of a page before", cursor)
	}
	now, limit := db.clock.now(), clamp(limit)
	sql, args := `SELECT key, rec FROM {s}.sync_keys WHERE key > $1 ORDER BY key LIMIT $2`, []any{after, maxScan}
	if f.Open {
		sql, args = `SELECT key, rec FROM {s}.sync_keys WHERE state IN (1, 4) ORDER BY claimed, key`, nil
	}
	seen, last := 0, []byte(nil)
	err = db.each(ctx, db.pool, sql, args, func(r pgx.Rows) error {
		var key, rec []byte
		if err := r.Scan(&key, &rec); err != nil {
			return err
		}
		if !f.Open && len(page.Items) == limit {
			page.Next = hex.EncodeToString(last)
			return nil
		}
		seen, last = seen+1, key
		k, err := decodeKey(key, rec)
		if err != nil {
			return err
		}
		if k = k.At(now); !k.Expired(now) && f.Match(&k) {
			page.Items = append(page.Items, k)
		}
		return nil
	})
	if !f.Open && page.Next == "" && seen == maxScan {
		page.Next = hex.EncodeToString(last)
	}
	return page, err
}
