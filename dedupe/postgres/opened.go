package postgres

import "github.com/onceward/onceward/event"

// openCols are rows of open deliveries, by column.
type openCols struct {
	once             []bool
	refs, requests   [][16]byte
	targets          []string
	gens             []int32
	newKeys          []bool
	due, sizes, ords []int64
	laneT            []string // lanes that grow, and by how many
	laneL, laneN     []int64
	back             []int64 // of each row: how many of its lane come after it
	lanes            map[lane]int
}

type lane struct {
	target string
	n      int64
}

func (o *openCols) add(d *event.Delivery, ev *event.Event, once bool) {
	o.once = append(o.once, once)
	o.refs, o.requests = append(o.refs, d.Event), append(o.requests, ev.Body.Request)
	o.targets, o.gens, o.newKeys = append(o.targets, d.Target), append(o.gens, int32(d.Generation)), append(o.newKeys, d.NewKey)
	o.due, o.sizes = append(o.due, millis(d.DueAt)), append(o.sizes, ev.Body.Length)
	ord := ev.OrderAt(d.Target)
	o.ords, o.back = append(o.ords, int64(ord)), append(o.back, 0)
	if ord == 0 {
		return
	}
	if o.lanes == nil {
		o.lanes = map[lane]int{}
	}
	l := lane{d.Target, int64(ord.Lane())}
	at, ok := o.lanes[l]
	if !ok {
		at = len(o.laneT)
		o.lanes[l] = at
		o.laneT, o.laneL, o.laneN = append(o.laneT, l.target), append(o.laneL, l.n), append(o.laneN, 0)
	}
	o.laneN[at]++
	o.back[len(o.back)-1] = o.laneN[at] // among those of this batch
}

const openColumns = `ref, target, request, gen, new_key, 0, due, CASE WHEN gen > 0 THEN due ELSE 0 END, due, due, 0, '', size, once, ord`

// write queues the rows. Their lanes are locked in order, so that positions
// are in commit order over all gateways.
func (o *openCols) write(w *work) {
	if len(o.refs) == 0 {
		return
	}
	args := []any{o.refs, o.targets, o.requests, o.gens, o.newKeys, o.due, o.sizes, o.ords, o.once}
	const from = `FROM unnest($1::uuid[], $2::text[], $3::uuid[], $4::int[], $5::bool[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bool[]`
	if len(o.laneT) == 0 {
		w.queue(`INSERT INTO {s}.pending SELECT `+openColumns+`, 0, 0, 0, 0, 0, 0, 0, 0 `+from+`) u(ref, target, request, gen, new_key, due, size, ord, once)`, args...)
		return
	}
	lanes := make([]int64, len(o.refs))
	for i, ord := range o.ords {
		if ord != 0 {
			l := int64(event.Order(ord).Lane())
			lanes[i], o.back[i] = l, o.laneN[o.lanes[lane{o.targets[i], l}]]-o.back[i]
		}
	}
	w.queue(`WITH l AS (INSERT INTO {s}.lanes SELECT * FROM unnest($12::text[], $13::bigint[], $14::bigint[]) u(target, lane, pos) ORDER BY target, lane
			ON CONFLICT (target, lane) DO UPDATE SET pos = lanes.pos + excluded.pos RETURNING target, lane, pos)
		INSERT INTO {s}.pending SELECT u.ref, u.target, request, gen, new_key, 0, due, CASE WHEN gen > 0 THEN due ELSE 0 END, due, due, 0, '', size, once, ord,
			u.lane, COALESCE(l.pos - u.back, 0), 0, 0, 0, 0, 0, 0 `+from+`, $10::bigint[], $11::bigint[])
			u(ref, target, request, gen, new_key, due, size, ord, once, lane, back) LEFT JOIN l ON l.target = u.target AND l.lane = u.lane`,
		append(args, lanes, o.back, o.laneT, o.laneL, o.laneN)...)
}
