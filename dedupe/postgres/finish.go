package postgres

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

// openRow is an open delivery as its row has it.
type openRow struct {
	event.Delivery
	request    event.Ref
	due        int64
	leaseUntil int64
	size       int64
	once       bool // its body goes when it is of no more use
	ord        event.Order
	token      int64
	owner      int64
	begun      int64
	begunToken int64
	begunBy    int64
}

const openFields = `ref, target, request, gen, new_key, attempts, opened, updated, due, last_status, last_error, size, once, ord, token, owner,
	lease_until, begun, begun_token, begun_by`

func scanOpen(r pgx.Rows) (*openRow, error) {
	var (
		o                    openRow
		ref, request         [16]byte
		gen                  int32
		attempts             int64
		opened, updated, ord int64
	)
	err := r.Scan(&ref, &o.Target, &request, &gen, &o.NewKey, &attempts, &opened, &updated, &o.due, &o.LastStatus, &o.LastError, &o.size, &o.once, &ord,
		&o.token, &o.owner, &o.leaseUntil, &o.begun, &o.begunToken, &o.begunBy)
	o.Event, o.request, o.Generation, o.Attempts, o.ord = event.Ref(ref), event.Ref(request), uint16(gen), uint32(attempts), event.Order(ord)
	o.OpenedAt, o.UpdatedAt, o.DueAt = fromMillis(opened), fromMillis(updated), fromMillis(o.due)
	return &o, err
}

// view is the delivery as people see it at ledger time now.
func (o *openRow) view(now int64) event.Delivery {
	d := o.Delivery
	d.State = event.Pending
	if o.owner != 0 && o.leaseUntil > now {
		d.State = event.Leased
	}
	return d
}

const lockOpen = `SELECT ` + openFields + ` FROM {s}.pending p WHERE ` + among + `
	ORDER BY ref, target FOR UPDATE`

// rowKeys are the deliveries that a batch's results are of.
type rowKeys struct {
	refs    [][16]byte
	targets []string
}

func resultRows(in *dedupe.Batch) (k rowKeys) {
	seen := map[place]bool{}
	for _, r := range in.Results {
		p := place{r.Lease.Delivery.Event, r.Lease.Delivery.Target}
		if !seen[p] {
			seen[p] = true
			k.refs, k.targets = append(k.refs, p.ref), append(k.targets, p.target)
		}
	}
	return k
}

func (b *batch) readOpen(r pgx.Rows) error {
	o, err := scanOpen(r)
	if err == nil {
		b.open[place{o.Event, o.Target}] = o
	}
	return err
}

// results is what results write.
type results struct {
	changed map[place]*openRow // stay open
	closed  closedCols
	dead    rowKeys
	blocks  blockCols
	deleted rowKeys
	spent   [][16]byte // events whose body may be of no more use
	tries   attemptCols
	silent  rowKeys // whose note of an attempt on the wire goes, and of which lease
	tokens  []int64
}

// finish applies the results.
func (b *batch) finish(ctx context.Context) error {
	b.moved.changed = map[place]*openRow{}
	gone, err := b.lost(ctx)
	if err != nil {
		return err
	}
	for _, r := range b.b.Results {
		p := place{r.Lease.Delivery.Event, r.Lease.Delivery.Target}
		o := b.open[p]
		held := o != nil && o.owner != 0 && o.token == int64(r.Lease.Token) && o.Generation == r.Lease.Delivery.Generation && !b.ended[p]
		r.Late = !held
		if held {
			b.settle(p, o, r)
			continue
		}
		b.tooLate(p, o, r, gone)
	}
	return nil
}

// settle ends the lease that r holds.
func (b *batch) settle(p place, o *openRow, r *dedupe.Result) {
	d := r.Settle(o.Delivery, b.now)
	o.Delivery = d
	if d.State.Open() {
		o.due = millis(d.DueAt)
		o.owner, o.leaseUntil = 0, 0
		if o.begunToken == o.token {
			o.begun, o.begunToken, o.begunBy = 0, 0, 0
		}
		b.moved.changed[p] = o
		b.woken[p.target] = struct{}{}
	} else {
		b.ended[p] = true
		b.moved.close(p, o)
		if o.ord != 0 {
			b.woken[p.target] = struct{}{}
		}
	}
	if !r.NoAttempt {
		a := r.Attempt
		a.Late = false
		b.moved.tries.add(&a)
	}
	if a, ok := r.Act(d.State); ok {
		b.kind = append(b.kind, a)
	}
}

func (m *results) close(p place, o *openRow) {
	delete(m.changed, p)
	m.deleted.refs, m.deleted.targets = append(m.deleted.refs, p.ref), append(m.deleted.targets, p.target)
	m.closed.add(&o.Delivery)
	if o.once && o.State != event.Dead {
		m.spent = append(m.spent, p.ref)
	}
	if o.State == event.Dead {
		m.dead.refs, m.dead.targets = append(m.dead.refs, p.ref), append(m.dead.targets, p.target)
		if o.ord.Blocks() {
			m.blocks.add(p, o.ord)
		}
	}
}

// tooLate records a result whose lease was lost.
func (b *batch) tooLate(p place, o *openRow, r *dedupe.Result, gone map[place]*event.Delivery) {
	if o != nil && o.begunToken == int64(r.Lease.Token) && o.Generation == r.Lease.Delivery.Generation {
		b.moved.silent.refs, b.moved.silent.targets = append(b.moved.silent.refs, p.ref), append(b.moved.silent.targets, p.target)
		b.moved.tokens = append(b.moved.tokens, int64(r.Lease.Token))
	}
	var state event.State
	switch d, there := gone[p]; {
	case o != nil && !b.ended[p]:
		state = o.view(b.head.now).State
	case o != nil:
		state = o.State
	case !there:
		return // retention took the event
	case d != nil:
		state = d.State
	}
	if r.NoAttempt {
		if a, ok := r.Act(state); ok {
			b.kind = append(b.kind, a)
		}
		return
	}
	a := r.Attempt
	a.Late, a.State = true, state
	b.moved.tries.add(&a)
	if act, ok := r.Act(state); ok {
		b.kind = append(b.kind, act)
	}
}

// lost looks up the deliveries of results that are not open any more. One
// whose event is gone is missing.
func (b *batch) lost(ctx context.Context) (map[place]*event.Delivery, error) {
	var k rowKeys
	for _, r := range b.b.Results {
		p := place{r.Lease.Delivery.Event, r.Lease.Delivery.Target}
		if b.open[p] == nil {
			k.refs, k.targets = append(k.refs, p.ref), append(k.targets, p.target)
		}
	}
	if len(k.refs) == 0 {
		return nil, nil
	}
	out := map[place]*event.Delivery{}
	err := b.db.each(ctx, b.conn, `SELECT u.ref, u.target, c.state FROM unnest($1::uuid[], $2::text[]) u(ref, target)
		JOIN {s}.events e ON e.ref = u.ref AND e.ref = ANY($1::uuid[]) LEFT JOIN {s}.closed c ON c.ref = u.ref AND c.target = u.target AND c.ref = ANY($1::uuid[])`, []any{once, k.refs, k.targets},
		func(r pgx.Rows) error {
			var ref [16]byte
			var target string
			var state *int16
			if err := r.Scan(&ref, &target, &state); err != nil {
				return err
			}
			p := place{event.Ref(ref), target}
			out[p] = nil
			if state != nil {
				out[p] = &event.Delivery{State: event.State(*state)}
			}
			return nil
		})
	return out, err
}

// writeResults queues what the results came to.
func (b *batch) writeResults() {
	m := &b.moved
	m.changeOpen(b.work)
	if len(m.silent.refs) > 0 {
		b.queue(`UPDATE {s}.pending p SET begun = 0, begun_token = 0, begun_by = 0 FROM unnest($1::uuid[], $2::text[], $3::bigint[]) u(ref, target, token)
			WHERE `+named+` AND p.begun_token = u.token AND p.ref = ANY($1::uuid[])`, m.silent.refs, m.silent.targets, m.tokens)
	}
	m.write(b.work)
}

func (m *results) write(w *work) {
	if len(m.deleted.refs) > 0 {
		w.queue(`DELETE FROM {s}.pending p WHERE `+among, m.deleted.refs, m.deleted.targets)
	}
	m.closed.write(w)
	if len(m.dead.refs) > 0 {
		w.queue(`INSERT INTO {s}.dead SELECT * FROM unnest($1::uuid[], $2::text[])`, m.dead.refs, m.dead.targets)
	}
	m.blocks.write(w)
	m.tries.write(w)
	w.spend(m.spent)
}

// spend drops the bodies of events that have no more use for them. The events
// are locked first: of two gateways that each close a delivery, the second sees
// what the first did.
func (w *work) spend(refs [][16]byte) {
	if len(refs) == 0 {
		return
	}
	w.queue(`SELECT 1 FROM {s}.events WHERE ref = ANY($1::uuid[]) AND once ORDER BY ref FOR UPDATE`, refs)
	w.queue(`UPDATE {s}.events e SET spent = true WHERE ref = ANY($1::uuid[]) AND once AND NOT spent
		AND NOT EXISTS (SELECT FROM {s}.pending p WHERE p.ref = e.ref)
		AND NOT EXISTS (SELECT FROM {s}.closed c WHERE c.ref = e.ref AND c.ref = ANY($1::uuid[]) AND c.state NOT IN (2, 4))`, refs)
	lo, hi := spanOf(refs)
	w.queue(`DELETE FROM {s}.bodies b WHERE ref IN (SELECT request FROM {s}.events WHERE ref = ANY($1::uuid[]) AND spent) AND b.ref >= $2 AND b.ref <= $3
		AND NOT EXISTS (SELECT FROM {s}.events e WHERE e.request = b.ref AND e.once AND NOT e.spent AND e.ref >= $2 AND e.ref <= $4)`,
		refs, lo, [16]byte(hi), after(hi))
}

func (m *results) changeOpen(w *work) {
	if len(m.changed) == 0 {
		return
	}
	rows := make([]*openRow, 0, len(m.changed))
	for _, o := range m.changed {
		rows = append(rows, o)
	}
	slices.SortFunc(rows, func(a, b *openRow) int { return a.Event.Compare(b.Event) })
	n := len(rows)
	refs, targets := make([][16]byte, n), make([]string, n)
	attempts, updated, due, begun := make([]int64, n), make([]int64, n), make([]int64, n), make([]bool, n)
	status, texts := make([]int32, n), make([]string, n)
	for i, o := range rows {
		refs[i], targets[i], attempts[i], updated[i], due[i] = o.Event, o.Target, int64(o.Attempts), millis(o.UpdatedAt), o.due
		status[i], texts[i], begun[i] = int32(o.LastStatus), o.LastError, o.begun != 0
	}
	w.queue(`UPDATE {s}.pending p SET attempts = u.attempts, updated = u.updated, due = u.due, next_at = u.due, last_status = u.status,
		last_error = u.error, owner = 0, lease_until = 0, begun = CASE WHEN u.begun THEN p.begun ELSE 0 END,
		begun_token = CASE WHEN u.begun THEN p.begun_token ELSE 0 END, begun_by = CASE WHEN u.begun THEN p.begun_by ELSE 0 END
		FROM unnest($1::uuid[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[], $6::int[], $7::text[], $8::bool[])
		u(ref, target, attempts, updated, due, status, error, begun) WHERE `+named+` AND p.ref = ANY($1::uuid[])`,
		refs, targets, attempts, updated, due, status, texts, begun)
}

// closedCols are rows of closed deliveries, by column.
type closedCols struct {
	refs            [][16]byte
	targets, errors []string
	gens, status    []int32
	states          []int16
	newKeys         []bool
	attempts        []int64
	opened, updated []int64
}

func (c *closedCols) add(d *event.Delivery) {
	c.refs, c.targets, c.gens = append(c.refs, d.Event), append(c.targets, d.Target), append(c.gens, int32(d.Generation))
	c.states, c.newKeys, c.attempts = append(c.states, int16(d.State)), append(c.newKeys, d.NewKey), append(c.attempts, int64(d.Attempts))
	c.opened, c.updated = append(c.opened, millis(d.OpenedAt)), append(c.updated, millis(d.UpdatedAt))
	c.status, c.errors = append(c.status, int32(d.LastStatus)), append(c.errors, d.LastError)
}

func (c *closedCols) write(w *work) {
	if len(c.refs) > 0 {
		w.queue(`INSERT INTO {s}.closed SELECT * FROM unnest($1::uuid[], $2::text[], $3::int[], $4::smallint[], $5::bool[], $6::bigint[], $7::bigint[],
			$8::bigint[], $9::int[], $10::text[])`, c.refs, c.targets, c.gens, c.states, c.newKeys, c.attempts, c.opened, c.updated, c.status, c.errors)
	}
}

// blockCols are dead deliveries that hold up their lanes.
type blockCols struct {
	rowKeys
	lanes []int64
}

func (c *blockCols) add(p place, o event.Order) {
	c.refs, c.targets, c.lanes = append(c.refs, p.ref), append(c.targets, p.target), append(c.lanes, int64(o.Lane()))
}

func (c *blockCols) write(w *work) {
	if len(c.refs) > 0 {
		w.queue(`INSERT INTO {s}.blocks SELECT * FROM unnest($1::text[], $2::bigint[], $3::uuid[])`, c.targets, c.lanes, c.refs)
	}
}

// attemptCols are rows of attempts, by column.
type attemptCols struct {
	rowKeys
	recs [][]byte
}

func (c *attemptCols) add(a *event.Attempt) {
	c.refs, c.targets, c.recs = append(c.refs, a.Event), append(c.targets, a.Target), append(c.recs, packAttempt(a))
}

func (c *attemptCols) write(w *work) {
	if len(c.refs) > 0 {
		w.queue(`INSERT INTO {s}.attempts SELECT ref, nextval('{s}.attempt_seq'), $4, $5, target, rec
			FROM (SELECT * FROM unnest($1::uuid[], $2::text[], $3::bytea[]) WITH ORDINALITY u(ref, target, rec, n) ORDER BY n) u`,
			c.refs, c.targets, c.recs, int64(w.db.writer), w.head.acts)
	}
}

// takeBack ends the leases that an earlier process with this name held, and
// records what it had on the wire.
func (db *DB) takeBack(ctx context.Context) error {
	if err := db.ahead(ctx, db.clock.now(), 0); err != nil {
		return err
	}
	reads := func(q *pgx.Batch) {
		q.Queue(db.q(`UPDATE {s}.pending SET owner = 0, lease_until = 0, next_at = due, token = token + 1 WHERE owner = $1`), int64(db.writer))
		q.Queue(db.q(`SELECT `+openFields+` FROM {s}.pending WHERE begun_by = $1 ORDER BY ref, target FOR UPDATE`), int64(db.writer))
	}
	return db.transact(ctx, reads, func(w *work, res pgx.BatchResults) error {
		b := &batch{work: w, open: map[place]*openRow{}}
		if _, err := res.Exec(); err != nil {
			return err
		}
		if err := query(res, b.readOpen); err != nil {
			return err
		}
		if err := res.Close(); err != nil {
			return err
		}
		b.moved.changed = map[place]*openRow{}
		for p, o := range b.open {
			r := dedupe.Unknown(o.Delivery, time.UnixMilli(o.begun))
			o.Delivery = r.Settle(o.Delivery, b.now)
			o.due = millis(o.DueAt)
			o.begun = 0
			b.moved.changed[p] = o
			b.moved.tries.add(&r.Attempt)
			if a, ok := r.Act(o.State); ok {
				b.act(a)
			}
		}
		b.moved.changeOpen(w)
		b.moved.write(w)
		return nil
	})
}
