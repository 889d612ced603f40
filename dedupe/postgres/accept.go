package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

// batch is a Batch under way.
type batch struct {
	*work
	b      *dedupe.Batch
	claims map[dedupe.Key]*standing
	ended  map[place]bool // deliveries that results of this batch close
	news   news
	fresh  []dedupe.Claim           // to be inserted
	again  []dedupe.Claim           // to be written over one that has expired
	was    map[dedupe.Key]event.Ref // which event that one named
	tally  map[event.Ref]*event.Tally
	told   map[event.Ref]dedupe.Outcome // of events of this batch
	open   map[place]*openRow
	kind   []dedupe.Act // of results: told after the requests
	moved  results
	keys   keyWork
}

// place names a delivery.
type place struct {
	ref    event.Ref
	target string
}

// standing is a claim as it is kept, with what decides whether it stands.
type standing struct {
	dedupe.Claim
	found   bool // it is in the database, or of this batch
	staged  bool // of this batch
	read    bool // id and answer were asked for
	first   bool // and are there
	targets []string
	opened  []int64
	id      string
	answer  event.Answer
}

// Commit decides and writes a batch in one transaction.
func (db *DB) Commit(ctx context.Context, b *dedupe.Batch) error {
	if err := db.writable(); err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, db.cfg.patience()+db.cfg.Lock)
	defer cancel()
	err := db.verdict(limited, db.ahead(limited, db.clock.now(), 0))
	if err == nil {
		err = db.write(limited, b)
	}
	switch {
	case err == nil:
		for _, r := range b.Results {
			db.grants.forget(r.Lease)
		}
		return nil
	case errors.Is(err, dedupe.ErrOverloaded):
		return err
	case errors.Is(err, dedupe.ErrAway):
		var maybe *unsureError
		if errors.As(err, &maybe) {
			db.mu.Lock()
			defer db.mu.Unlock()
			db.lost = maybe.batch
		}
		return err
	case limited.Err() != nil && isTimeout(err):
		return db.pool.lose(&awayError{why: "no answer in time", err: err})
	}
	return db.failed(err)
}

// failed ends the ledger for err: it takes no further batch.
func (db *DB) failed(err error) error {
	err = fmt.Errorf("%w: %w", dedupe.ErrFatal, err)
	db.mu.Lock()
	defer db.mu.Unlock()
	db.fatal = err
	return err
}

func (db *DB) writable() error {
	db.mu.Lock()
	defer db.mu.Unlock()
	switch {
	case db.closed:
		return fmt.Errorf("%w: %w", dedupe.ErrFatal, dedupe.ErrClosed)
	case db.fatal != nil:
		return db.fatal
	case db.inject != nil:
		db.fatal = fmt.Errorf("%w: %w", dedupe.ErrFatal, db.inject)
		db.inject = nil
		return db.fatal
	}
	return nil
}

func (db *DB) write(ctx context.Context, in *dedupe.Batch) error {
	claims, rows, keys := claimKeys(in), resultRows(in), stepKeys(in)
	var b *batch
	reads := func(q *pgx.Batch) {
		if len(rows.refs) > 0 {
			q.Queue(db.q(lockOpen), rows.refs, rows.targets)
		}
		if len(claims) > 0 {
			q.Queue(db.q(readClaims), claims)
		}
		if len(keys) > 0 {
			q.Queue(db.q(readKeys), keys)
		}
	}
	err := db.transact(ctx, reads, func(w *work, res pgx.BatchResults) error {
		w.counts = true
		b = &batch{work: w, b: in, claims: map[dedupe.Key]*standing{}, ended: map[place]bool{}, tally: map[event.Ref]*event.Tally{},
			told: map[event.Ref]dedupe.Outcome{}, open: map[place]*openRow{}}
		if err := b.read(res, len(rows.refs) > 0, len(claims) > 0, len(keys) > 0); err != nil {
			return err
		}
		return b.decide(ctx)
	})
	return err
}

// read takes in what was asked for at the transaction's beginning.
func (b *batch) read(res pgx.BatchResults, rows, claims, keys bool) error {
	if rows {
		if err := query(res, b.readOpen); err != nil {
			return err
		}
	}
	if claims {
		if err := query(res, b.readClaim); err != nil {
			return err
		}
	}
	b.keys.records = map[dedupe.Key]*keyRow{}
	if keys {
		if err := query(res, b.readKey); err != nil {
			return err
		}
	}
	if err := res.Close(); err != nil {
		return fmt.Errorf("read: %w", err)
	}
	return nil
}

func query(res pgx.BatchResults, scan func(pgx.Rows) error) error {
	rows, err := res.Query()
	if err != nil {
		return fmt.Errorf("read: %w", err)
	}
	return drain(rows, scan)
}

// decide applies results, requests and key steps, in this order, and queues
// what they write.
func (b *batch) decide(ctx context.Context) error {
	if err := b.readFirst(ctx); err != nil {
		return err
	}
	if err := b.finish(ctx); err != nil {
		return err
	}
	for _, req := range b.b.Requests {
		req.Outcomes, req.Err = nil, nil
		if err := b.accept(ctx, req); err != nil {
			return err
		}
	}
	if err := b.relock(ctx); err != nil {
		return err
	}
	for _, a := range b.kind {
		b.act(a)
	}
	for _, a := range b.b.Acts {
		b.act(*a)
	}
	for _, s := range b.b.Keys {
		if err := b.step(ctx, s); err != nil {
			return err
		}
	}
	b.writeResults()
	b.writeClaims()
	b.halve()
	b.writeEvents()
	return b.writeKeys()
}

const claimColumns = `SELECT c.key, c.ref, c.hash, c.span, c.expires,
	ARRAY(SELECT p.target FROM {s}.pending p WHERE p.ref = c.ref ORDER BY p.target),
	ARRAY(SELECT p.opened FROM {s}.pending p WHERE p.ref = c.ref ORDER BY p.target)
	FROM {s}.claims c`

const readClaims = claimColumns + ` WHERE c.key = ANY($1::bytea[])`

// claimKeys are the claims a batch asks for, but for those few that only a
// decision brings up.
func claimKeys(in *dedupe.Batch) (out [][]byte) {
	seen := map[dedupe.Key]bool{}
	add := func(k dedupe.Key) {
		if !seen[k] {
			seen[k] = true
			out = append(out, k[:])
		}
	}
	for _, req := range in.Requests {
		for i := range req.Items {
			it := &req.Items[i]
			if it.HasClaim {
				add(it.Claim)
				for _, k := range it.Former {
					add(k)
				}
				for _, k := range it.Distinct {
					add(k)
				}
			}
			if it.Guard != dedupe.GuardOff {
				add(it.GuardKey)
			}
		}
	}
	return out
}

func (b *batch) readClaim(r pgx.Rows) error {
	var (
		s               = &standing{found: true}
		key, hash       []byte
		ref             [16]byte
		window, expires int64
	)
	if err := r.Scan(&key, &ref, &hash, &window, &expires, &s.targets, &s.opened); err != nil {
		return err
	}
	if len(key) != len(s.Key) || len(hash) != len(s.BodyHash) {
		return fmt.Errorf("claim %x: %w", key, dedupe.ErrDamaged)
	}
	copy(s.Key[:], key)
	copy(s.BodyHash[:], hash)
	s.Ref, s.Window, s.Expires = event.Ref(ref), time.Duration(window)*time.Millisecond, time.UnixMilli(expires)
	b.claims[s.Key] = s
	return nil
}

// readFirst reads what the events of standing claims were answered. It is a
// statement of its own, with the refs in it, so that it looks into the
// partitions of these events and no others.
func (b *batch) readFirst(ctx context.Context) error {
	var refs [][16]byte
	of := map[event.Ref][]*standing{}
	for _, s := range b.claims {
		if s.found && !s.staged && !s.read {
			s.read = true
			refs = append(refs, s.Ref)
			of[s.Ref] = append(of[s.Ref], s)
		}
	}
	if len(refs) == 0 {
		return nil
	}
	return b.db.each(ctx, b.conn, `SELECT ref, rec FROM {s}.events WHERE ref = ANY($1::uuid[])`, []any{once, refs}, func(r pgx.Rows) error {
		var ref [16]byte
		var rec []byte
		if err := r.Scan(&ref, &rec); err != nil {
			return err
		}
		ev, err := unpackEvent(event.Ref(ref), rec)
		if err != nil {
			// The claim is good, so the answer is: seen. Say that its event is not.
			b.db.cfg.Log.Error("event of a claim is damaged", "ref", ev.Ref.String(), "error", err)
			return nil
		}
		for _, s := range of[ev.Ref] {
			s.first, s.id, s.answer = true, ev.ID, ev.Answer
		}
		return nil
	})
}

// find is the claim of a key if it stands.
func (b *batch) find(ctx context.Context) dedupe.Find {
	return func(k dedupe.Key) (dedupe.Claim, bool, error) {
		s := b.claims[k]
		if s == nil && !b.asked(k) {
			b.claims[k] = &standing{}
			if err := b.db.each(ctx, b.conn, readClaims, []any{[][]byte{k[:]}}, b.readClaim); err != nil {
				return dedupe.Claim{}, false, err
			}
			if err := b.readFirst(ctx); err != nil {
				return dedupe.Claim{}, false, err
			}
			s = b.claims[k]
		}
		if s == nil || !s.found {
			return dedupe.Claim{}, false, nil
		}
		return s.Claim, b.stands(s), nil
	}
}

// asked reports whether the key was among those read at the beginning.
func (b *batch) asked(k dedupe.Key) bool {
	for _, req := range b.b.Requests {
		for i := range req.Items {
			it := &req.Items[i]
			if it.Claim == k || it.GuardKey == k || slices.Contains(it.Former, k) || slices.Contains(it.Distinct, k) {
				return true
			}
		}
	}
	return false
}

func (b *batch) stands(s *standing) bool {
	if b.now.Before(s.Expires) || b.now.Before(b.db.holdTill) && s.Expires.After(b.db.holdMark) {
		return true
	}
	for i, opened := range s.opened {
		if opened < s.Expires.UnixMilli() && !b.ended[place{s.Ref, s.targets[i]}] {
			return true
		}
	}
	return false
}

// accept decides one request.
func (b *batch) accept(ctx context.Context, req *dedupe.Request) error {
	outcomes := make([]dedupe.Outcome, len(req.Items))
	var first event.Ref // of the request's new events
	for i := range req.Items {
		it := &req.Items[i]
		ref := b.nextRef()
		d, err := dedupe.Decide(it, req.Batch, ref, b.now, b.find(ctx))
		if err != nil {
			return err
		}
		b.count(&d, it.Event.ReceivedAt)
		if d.Verdict != dedupe.New {
			b.act(dedupe.SeenAct(it, &d))
			outcomes[i] = b.earlier(it, &d)
			continue
		}
		if first.IsZero() {
			first = ref
		}
		d.Event.Body.Request = first
		d.Event.Answer = req.Answer
		b.insert(&d, req)
		b.act(dedupe.AcceptedAct(&d.Event))
		outcomes[i] = dedupe.Outcome{Verdict: dedupe.New, Ref: ref, ID: d.Event.ID, Answer: req.Answer, Flags: d.Event.Flags}
		b.told[ref] = outcomes[i]
	}
	req.Outcomes = outcomes
	return nil
}

// count notes on the first event what arrived after it.
func (b *batch) count(d *dedupe.Decision, at time.Time) {
	if d.First.Ref.IsZero() {
		return
	}
	t := b.tally[d.First.Ref]
	if t == nil {
		t = &event.Tally{}
		b.tally[d.First.Ref] = t
	}
	switch d.Verdict {
	case dedupe.Repeat, dedupe.Replayed:
		t.Repeats++
	case dedupe.New, dedupe.Differs, dedupe.Rejected:
		t.Conflicts++
	}
	t.LastAt = at
}

// earlier is the outcome of an item that isn't new: with the first event's ID and
// answer, unless retention or damage took them.
func (b *batch) earlier(it *dedupe.Item, d *dedupe.Decision) dedupe.Outcome {
	o := dedupe.Outcome{Verdict: d.Verdict, Ref: d.First.Ref, ID: it.Event.ID}
	if told, ok := b.told[o.Ref]; ok {
		o.ID, o.Answer = told.ID, told.Answer
		return o
	}
	for _, s := range b.claims {
		if s.first && s.Ref == o.Ref {
			o.ID, o.Answer = s.id, s.answer
			return o
		}
	}
	return o
}

// insert stages a new event with its claims and deliveries.
func (b *batch) insert(d *dedupe.Decision, req *dedupe.Request) {
	ev, keep := &d.Event, b.db.retention(req.Retention)
	for _, c := range d.Claims {
		was := b.claims[c.Key]
		switch {
		case was == nil || !was.found:
			b.fresh = append(b.fresh, c)
		case was.staged:
			b.restage(c)
		default:
			b.again = append(b.again, c)
			if b.was == nil {
				b.was = map[dedupe.Key]event.Ref{}
			}
			b.was[c.Key] = was.Ref
		}
		b.claims[c.Key] = &standing{Claim: c, found: true, staged: true}
	}
	b.news.add(b, ev, req, keep)
	b.head.last, b.hi = ev.Ref, ev.Ref
	if b.lo.IsZero() {
		b.lo = ev.Ref
	}
	b.events++
	if until := b.head.now + min(keep.Meta, keep.Body).Milliseconds(); b.keep == 0 || until < b.keep {
		b.keep = until
	}
}

// restage replaces a claim of this batch that has ended already.
func (b *batch) restage(c dedupe.Claim) {
	for _, list := range [...][]dedupe.Claim{b.fresh, b.again} {
		for i := range list {
			if list[i].Key == c.Key {
				list[i] = c
			}
		}
	}
}

// relock takes the expired claims that are written over: one that is no longer
// as it was read has been taken meanwhile.
func (b *batch) relock(ctx context.Context) error {
	if len(b.again) == 0 {
		return nil
	}
	var keys [][]byte
	for i := range b.again {
		keys = append(keys, b.again[i].Key[:])
	}
	was := map[dedupe.Key]event.Ref{}
	err := b.db.each(ctx, b.conn, `SELECT key, ref FROM {s}.claims WHERE key = ANY($1::bytea[]) ORDER BY key FOR UPDATE`, []any{keys}, func(r pgx.Rows) error {
		var key []byte
		var ref [16]byte
		err := r.Scan(&key, &ref)
		was[dedupe.Key(key)] = event.Ref(ref)
		return err
	})
	if err != nil {
		return err
	}
	for i := range b.again {
		if old, ok := was[b.again[i].Key]; !ok || old != b.was[b.again[i].Key] {
			return errAgain
		}
	}
	return nil
}

func (b *batch) writeClaims() {
	for _, part := range [...]struct {
		claims []dedupe.Claim
		sql    string
	}{
		{b.fresh, insertClaims},
		{b.again, `UPDATE {s}.claims c SET ref = u.ref, hash = u.hash, span = u.span, expires = u.expires
			FROM unnest($1::bytea[], $2::uuid[], $3::bytea[], $4::bigint[], $5::bigint[]) u(key, ref, hash, span, expires) WHERE c.key = u.key`},
	} {
		if len(part.claims) == 0 {
			continue
		}
		slices.SortFunc(part.claims, func(x, y dedupe.Claim) int { return slices.Compare(x.Key[:], y.Key[:]) })
		n := len(part.claims)
		keys, refs, hashes := make([][]byte, n), make([][16]byte, n), make([][]byte, n)
		spans, ends := make([]int64, n), make([]int64, n)
		for i := range part.claims {
			c := &part.claims[i]
			keys[i], refs[i], hashes[i], spans[i], ends[i] = c.Key[:], c.Ref, c.BodyHash[:], c.Window.Milliseconds(), c.Expires.UnixMilli()
		}
		b.queue(part.sql, keys, refs, hashes, spans, ends)
	}
}

// retention fills in the ledger's defaults.
func (db *DB) retention(r dedupe.Retention) dedupe.Retention {
	def := db.cfg.Retention
	return dedupe.Retention{Body: cmp.Or(r.Body, def.Body), Meta: cmp.Or(r.Meta, def.Meta), Audit: cmp.Or(r.Audit, def.Audit), Once: r.Once}
}

// news are the rows of new events, by column.
type news struct {
	once                          []bool
	refs, requests                [][16]byte
	sources                       []string
	ids, recs                     [][]byte
	keepBody, keepMeta, keepAudit []int64
	bodyRefs                      [][16]byte
	bodyUntil                     []int64
	bodies                        [][]byte
	termRefs                      [][16]byte
	terms                         []int64
	open                          openCols
}

func (n *news) add(b *batch, ev *event.Event, req *dedupe.Request, keep dedupe.Retention) {
	n.refs, n.requests = append(n.refs, ev.Ref), append(n.requests, ev.Body.Request)
	n.sources, n.ids, n.recs = append(n.sources, ev.Source), append(n.ids, []byte(ev.ID)), append(n.recs, packEvent(ev))
	n.keepBody, n.keepMeta = append(n.keepBody, keep.Body.Milliseconds()), append(n.keepMeta, keep.Meta.Milliseconds())
	n.keepAudit, n.once = append(n.keepAudit, keep.Audit.Milliseconds()), append(n.once, keep.Once && ev.Body.Length > 0)
	if ev.Body.Request == ev.Ref {
		body := req.Body
		if body == nil {
			body = []byte{}
		}
		n.bodyRefs, n.bodies = append(n.bodyRefs, ev.Ref), append(n.bodies, body)
		n.bodyUntil = append(n.bodyUntil, b.head.now+keep.Body.Milliseconds())
	}
	for _, hash := range termsOf(ev) {
		n.termRefs, n.terms = append(n.termRefs, ev.Ref), append(n.terms, hash)
	}
	for _, t := range ev.Targets {
		d := event.Delivery{Event: ev.Ref, Target: t, State: event.Pending, DueAt: b.now, OpenedAt: b.now}
		n.open.add(&d, ev, keep.Once)
		b.woken[t] = struct{}{}
	}
}

func (b *batch) writeEvents() {
	n := &b.news
	if len(n.refs) > 0 {
		b.queue(`INSERT INTO {s}.events SELECT ref, source, id, $5, request, $6, kb, km, ka, once, false, 0, 0, 0, rec
			FROM unnest($1::uuid[], $2::text[], $3::bytea[], $4::uuid[], $7::bigint[], $8::bigint[], $9::bigint[], $10::bytea[], $11::bool[])
			u(ref, source, id, request, kb, km, ka, rec, once)`,
			n.refs, n.sources, n.ids, n.requests, b.head.acts, b.head.now, n.keepBody, n.keepMeta, n.keepAudit, n.recs, n.once)
	}
	if len(n.bodyRefs) > 0 {
		b.queue(`INSERT INTO {s}.bodies SELECT * FROM unnest($1::uuid[], $2::bigint[], $3::bytea[])`, n.bodyRefs, n.bodyUntil, n.bodies)
	}
	if len(n.terms) > 0 {
		b.queue(`INSERT INTO {s}.terms SELECT * FROM unnest($1::bigint[], $2::uuid[])`, n.terms, n.termRefs)
	}
	n.open.write(b.work)
	if len(b.tally) == 0 {
		return
	}
	var refs [][16]byte
	var repeats, conflicts, last []int64
	for ref, t := range b.tally {
		refs, repeats, conflicts = append(refs, ref), append(repeats, int64(t.Repeats)), append(conflicts, int64(t.Conflicts))
		last = append(last, nanos(t.LastAt))
	}
	b.queue(`UPDATE {s}.events e SET repeats = e.repeats + u.repeats, conflicts = e.conflicts + u.conflicts, last_at = u.last
		FROM unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::bigint[]) u(ref, repeats, conflicts, last) WHERE e.ref = u.ref AND e.ref = ANY($1::uuid[])`, refs, repeats, conflicts, last)
}
