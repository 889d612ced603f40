package postgres_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/dedupe/postgres"
	"github.com/onceward/onceward/dedupe/postgres/pgtest"
	"github.com/onceward/onceward/event"
)

var (
	planRows = flag.Int("rows", 20_000, "events that the ledger holds whose plans are looked at")
	planDays = flag.Int("days", 40, "days over which they are spread: one partition each")
)

// explained asks the server to write the plan of every statement into its log,
// as it was run.
const explained = ` options='-c session_preload_libraries=auto_explain -c auto_explain.log_min_duration=0 -c auto_explain.log_analyze=on -c auto_explain.log_buffers=on ` +
	`-c jit=off -c auto_explain.log_timing=off -c auto_explain.log_format=json%s'`

// large is a ledger with many events.
type large struct {
	*running
	t     *testing.T
	n     int
	log   string
	start time.Time // of the first event
}

// busy is how many of the last events came within seconds, as under load.
func (l *large) busy() int { return min(l.n/40, 5000) }

func (l *large) ref(i int) event.Ref {
	step := time.Duration(*planDays) * 24 * time.Hour / time.Duration(l.n)
	at := l.start.Add(time.Duration(i) * step)
	if first := l.n - l.busy(); i > first {
		at = l.start.Add(time.Duration(first)*step + time.Duration(i-first)*time.Millisecond)
	}
	return event.NewRef(uint64(at.UnixMilli()), uint32(i)&(1<<20-1), 7)
}

func (l *large) event(i int) *event.Event {
	id := fmt.Sprint("old_", i)
	ref := l.ref(i)
	return &event.Event{
		Ref: ref, Source: []string{"shop", "till"}[i%2], Provider: "stripe", ID: id, Type: []string{"order.paid", "order.sent"}[i/2%2], Method: "POST",
		Path: "/in/shop", ReceivedAt: ref.Time(), Header: []event.Field{{Name: "Content-Type", Value: "application/json"}},
		Index:    []event.Field{{Name: "customer", Value: l.customer(i)}},
		BodyHash: event.HashOf([]byte(id)), Body: event.Slice{Request: ref, Length: int64(len(id))}, Targets: []string{"billing"},
	}
}

// customer has some twenty events, one here and one there.
func (l *large) customer(i int) string { return fmt.Sprint("cus_", i%(l.n/20)) }

func (l *large) key(i int) dedupe.Key {
	ev := l.event(i)
	return dedupe.KeyOf(dedupe.KindID, ev.Source, "", ev.ID)
}

// rows gives i from..to to COPY.
func rows(n int, row func(int) []any) pgx.CopyFromSource {
	i := -1
	return pgx.CopyFromFunc(func() ([]any, error) {
		if i++; i >= n {
			return nil, nil
		}
		return row(i), nil
	})
}

// fill puts events of the past into the ledger: of all the claim, of one in a
// thousand a dead delivery, of one in twenty a dead one to another target, of the
// last ones an open one, and of the first ones a claim that has ended.
func (l *large) fill() {
	l.t.Helper()
	for day := range *planDays + 1 {
		if err := l.MakePart(l.t.Context(), l.start.Add(time.Duration(day)*24*time.Hour)); err != nil {
			l.t.Fatal(err)
		}
	}
	conn, err := pgx.Connect(l.t.Context(), l.cfg.URL)
	if err != nil {
		l.t.Fatal(err)
	}
	defer conn.Close(context.Background())
	day := int64(24 * time.Hour / time.Millisecond)
	now := time.Now().UnixMilli()
	put := func(table string, columns []string, n int, row func(int) []any) {
		l.t.Helper()
		if _, err := conn.CopyFrom(l.t.Context(), pgx.Identifier{l.cfg.Schema, table}, columns, rows(n, row)); err != nil {
			l.t.Fatalf("fill %s: %v", table, err)
		}
	}
	put("events", []string{"ref", "source", "id", "batch", "request", "kept", "keep_body", "keep_meta", "keep_audit", "once", "spent", "repeats", "conflicts", "last_at", "rec"},
		l.n, func(i int) []any {
			ev := l.event(i)
			ref := [16]byte(ev.Ref)
			return []any{ref, ev.Source, []byte(ev.ID), 0, ref, ev.Ref.Time().UnixMilli(), 30 * day, 400 * day, 400 * day, false, false, 0, 0, 0, postgres.PackEvent(ev)}
		})
	put("claims", []string{"key", "ref", "hash", "span", "expires"}, l.n, func(i int) []any {
		key, hash := l.key(i), event.HashOf([]byte(fmt.Sprint("old_", i)))
		expires := now + day
		if i < l.n/50 {
			expires = now - int64(l.n/50-i)
		}
		return []any{key[:], [16]byte(l.ref(i)), hash[:], day, expires}
	})
	put("terms", []string{"hash", "ref"}, 2*l.n, func(i int) []any {
		if i%2 == 0 {
			return []any{postgres.FieldHash("", l.event(i/2).ID), [16]byte(l.ref(i / 2))}
		}
		return []any{postgres.FieldHash("customer", l.customer(i/2)), [16]byte(l.ref(i / 2))}
	})
	open := l.open()
	for _, sql := range []string{
		`INSERT INTO {s}.closed SELECT ref, 'billing', 0, CASE WHEN repeats = 0 AND get_byte(uuid_send(ref), 8) % 250 = 1 THEN 3 ELSE 2 END, false, 1, kept, kept, 200, '' FROM {s}.events WHERE ref < $1`,
		`INSERT INTO {s}.closed SELECT ref, 'other', 0, 3, false, 1, kept, kept, 500, '5xx' FROM {s}.events WHERE ref < $1 AND get_byte(uuid_send(ref), 8) / 16 = 3
			AND batch = 0 AND get_byte(uuid_send(ref), 7) % 2 = 0`,
		`INSERT INTO {s}.dead SELECT ref, target FROM {s}.closed WHERE state = 3`,
		`INSERT INTO {s}.attempts SELECT ref, nextval('{s}.attempt_seq'), 7, 0, 'billing', substr(rec, 1, 120) FROM {s}.events WHERE ref < $1`,
		`INSERT INTO {s}.bodies SELECT ref, kept + keep_body, id FROM {s}.events WHERE kept + keep_body > ` + fmt.Sprint(now),
		`INSERT INTO {s}.pending SELECT ref, 'billing', request, 0, false, 0, kept, kept, kept, kept, 0, '', 10, false, 0, 0, 0, 0, 0, 0, 0, 0, 0 FROM {s}.events WHERE ref >= $1`,
	} {
		var args []any
		if strings.Contains(sql, "$1") {
			args = []any{[16]byte(l.ref(l.n - open))}
		}
		if _, err := conn.Exec(l.t.Context(), strings.ReplaceAll(sql, "{s}", l.cfg.Schema), args...); err != nil {
			l.t.Fatalf("%s: %v", sql, err)
		}
	}
	for _, table := range []string{"claims", "pending", "events", "closed", "attempts", "bodies", "terms", "dead"} {
		if _, err := conn.Exec(l.t.Context(), "VACUUM ANALYZE "+l.cfg.Schema+"."+table); err != nil {
			l.t.Fatal(err)
		}
	}
}

func (l *large) open() int { return min(l.n/20, 100_000) }

// huge opens a ledger with many events and gives each statement's plan away.
func huge(t *testing.T) *large {
	cfg := fresh(t, server(t), options())
	l := &large{t: t, n: *planRows, log: logOf(t, cfg), start: time.Now().Add(-time.Duration(*planDays+1) * 24 * time.Hour)}
	l.running = quiet(t, cfg)
	began := time.Now()
	l.fill()
	t.Logf("%d events over %d days put there in %v", l.n, *planDays, time.Since(began).Round(time.Second))
	if err := l.running.Close(); err != nil {
		t.Fatal(err)
	}
	// The planner takes small tables as a whole, and rightly: with so few rows
	// it is asked which index it would take if they were many.
	force := ""
	if l.n < 1_000_000 {
		force = " -c enable_seqscan=off"
	}
	cfg.URL += fmt.Sprintf(explained, force)
	l.running = quiet(t, cfg)
	t.Cleanup(func() { _ = l.running.Close() })
	return l
}

// logOf is where the server writes.
func logOf(t *testing.T, cfg postgres.Config) string {
	t.Helper()
	dir := regexp.MustCompile(`host=(\S+)`).FindStringSubmatch(cfg.URL)
	if os.Getenv("ONCEWARD_TEST_POSTGRES") != "" || dir == nil {
		const why = "plans are read from the server's log, which needs a server of our own"
		if pgtest.Required() {
			t.Fatal(why)
		}
		t.Skip(why)
	}
	return filepath.Join(dir[1], "log")
}

// quiet is a ledger without upkeep, which would drop the empty days.
func quiet(t *testing.T, cfg postgres.Config) *running {
	t.Helper()
	db, err := postgres.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return &running{DB: db, cfg: cfg, stop: func() {}}
}

// generic has the server take one plan for all values of a statement, as it may
// once it has met a prepared one five times.
func (l *large) generic() {
	l.t.Helper()
	if err := l.running.Close(); err != nil {
		l.t.Fatal(err)
	}
	cfg := l.cfg
	cfg.URL = strings.Replace(cfg.URL, "options='", "options='-c plan_cache_mode=force_generic_plan ", 1)
	l.running = quiet(l.t, cfg)
}

// node is a node of a plan.
type node struct {
	Type     string  `json:"Node Type"`
	Relation string  `json:"Relation Name"`
	Index    string  `json:"Index Name"`
	Cond     string  `json:"Index Cond"`
	Rows     float64 `json:"Actual Rows"`
	Loops    float64 `json:"Actual Loops"`
	Filtered float64 `json:"Rows Removed by Filter"`
	Again    float64 `json:"Rows Removed by Index Recheck"`
	Join     float64 `json:"Rows Removed by Join Filter"`
	Hit      float64 `json:"Shared Hit Blocks"`
	Fetched  float64 `json:"Shared Read Blocks"`
	Plans    []node  `json:"Plans"`
}

// plan is a statement as it was run.
type plan struct {
	Text string `json:"Query Text"`
	Plan node   `json:"Plan"`
}

// ran are the plans of the statements that f has run.
func (l *large) ran(f func()) (out []plan, took time.Duration) {
	l.t.Helper()
	file, err := os.Open(l.log)
	if err != nil {
		l.t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.Seek(0, io.SeekEnd); err != nil {
		l.t.Fatal(err)
	}
	began := time.Now()
	f()
	took = time.Since(began)
	text, err := io.ReadAll(file)
	if err != nil {
		l.t.Fatal(err)
	}
	for _, part := range strings.Split(string(text), "  plan:\n")[1:] {
		var p plan
		if err := json.NewDecoder(strings.NewReader(part)).Decode(&p); err != nil {
			l.t.Fatalf("plan: %v in %.200s", err, part)
		}
		if strings.Contains(p.Text, l.cfg.Schema+".") {
			out = append(out, p)
		}
	}
	return out, took
}

var big = regexp.MustCompile(`^(claims|pending|(events|closed|attempts|bodies|terms)_p\d+)$`)

// look adds up what a plan reads, and says what is wrong with it.
func (n *node) look(read *float64, tables map[string]bool) (wrong string) {
	if n.Relation != "" && n.Type != "ModifyTable" {
		*read += (n.Rows + n.Filtered + n.Again) * max(n.Loops, 0)
		tables[n.Relation] = true
		if n.Type == "Seq Scan" && n.Loops > 0 && big.MatchString(n.Relation) && (*planRows < 1_000_000 || n.Rows+n.Filtered > 10_000) {
			wrong = "reads all of " + n.Relation
		}
	}
	// Entries of an index that a condition passes over count for nothing else.
	if n.Index == "pending_due" && strings.Contains(n.Cond, "ref") && !strings.Contains(n.Cond, "next_at") {
		wrong = "looks for a delivery among all that are open for its target: " + n.Cond
	}
	*read += n.Join * n.Loops
	for i := range n.Plans {
		if w := n.Plans[i].look(read, tables); w != "" {
			wrong = w
		}
	}
	return wrong
}

// hot is something a gateway does, and what one statement of it may read.
type hot struct {
	name   string
	rows   float64
	tables int
	run    func(*large) error
}

// faults are what is wrong with the plans of a hot path.
func (l *large) faults(h hot) (out []string) {
	l.t.Helper()
	plans, took := l.ran(func() {
		if err := h.run(l); err != nil {
			l.t.Fatalf("%s: %v", h.name, err)
		}
	})
	if len(plans) == 0 {
		l.t.Fatalf("%s: no statement of it is in the server's log", h.name)
	}
	var most, blocks float64
	for _, p := range plans {
		var read float64
		tables := map[string]bool{}
		wrong := p.Plan.look(&read, tables)
		most = max(most, read)
		blocks += p.Plan.Hit + p.Plan.Fetched
		switch {
		case wrong != "":
		case read > h.rows:
			wrong = fmt.Sprintf("reads %.0f rows, want at most %.0f", read, h.rows)
		case p.Plan.Hit+p.Plan.Fetched > 8*h.rows+200:
			wrong = fmt.Sprintf("reads %.0f blocks, for what may be %.0f rows", p.Plan.Hit+p.Plan.Fetched, h.rows)
		case len(tables) > h.tables:
			wrong = fmt.Sprintf("looks into %d tables, want at most %d", len(tables), h.tables)
		default:
			continue
		}
		out = append(out, fmt.Sprintf("%s: %s: %s", h.name, wrong, p.Text))
	}
	l.t.Logf("%-34s %3d statements, %8v, at most %6.0f rows, %6.0f blocks in all", h.name, len(plans), took.Round(100*time.Microsecond), most, blocks)
	return out
}

func hotPaths() []hot {
	var leases []dedupe.Lease
	send := func(l *large, reqs ...*dedupe.Request) error {
		return l.Commit(l.t.Context(), &dedupe.Batch{Requests: reqs})
	}
	finish := func(l *large, state event.State, in time.Duration) error {
		ls, _, err := l.Lease(l.t.Context(), "billing", 50, time.Minute)
		var rs []*dedupe.Result
		for _, x := range ls {
			rs = append(rs, &dedupe.Result{Lease: x, State: state, Delay: in, Attempt: event.Attempt{Event: x.Delivery.Event, Target: "billing", Number: 1,
				StartedAt: time.Now(), Status: 200, Outcome: event.Outcome2xx, State: state}})
		}
		if err == nil && len(rs) == 0 {
			err = fmt.Errorf("nothing to lease")
		}
		if err != nil {
			return err
		}
		return l.Commit(l.t.Context(), &dedupe.Batch{Results: rs})
	}
	page := func(f dedupe.Filter, want int) func(*large) error {
		return func(l *large) error {
			if f.Field != "" {
				f.Value = l.customer(l.n / 3)
			}
			if f.ID != "" {
				f.ID = l.event(l.n / 3).ID
			}
			p, err := l.Events(l.t.Context(), f, "", 50)
			if err == nil && len(p.Items) < want {
				err = fmt.Errorf("%d events on the page, want %d", len(p.Items), want)
			}
			return err
		}
	}
	delivered := 1
	if *planRows/20 > 2000 { // the newest that are looked at for a page are open
		delivered = 0
	}
	return []hot{
		{"accept a hundred new ones", 500, 8, func(l *large) error {
			var reqs []*dedupe.Request
			for i := range 100 {
				req := request(fmt.Sprint("new_", i))
				req.Items[0].Event.Index = []event.Field{{Name: "customer", Value: "cus_0"}}
				reqs = append(reqs, req)
			}
			return send(l, reqs...)
		}},
		{"repeats of yesterday", 500, 8, func(l *large) error {
			var reqs []*dedupe.Request
			for i := range 50 {
				n := l.n - 1 - 2*i - l.n%2
				req := request(l.event(n).ID)
				req.Items[0].Claim = l.key(n)
				reqs = append(reqs, req)
			}
			err := send(l, reqs...)
			for _, r := range reqs {
				if err == nil && r.Outcomes[0].Verdict == dedupe.New {
					err = fmt.Errorf("a repeat is new")
				}
			}
			return err
		}},
		{"lease", 500, 8, func(l *large) (err error) {
			leases, _, err = l.Lease(l.t.Context(), "billing", 100, time.Minute)
			if err == nil && len(leases) != 100 {
				err = fmt.Errorf("%d leases", len(leases))
			}
			return err
		}},
		{"begin", 10, 8, func(l *large) error { return l.Begin(l.t.Context(), leases[0]) }},
		{"load", 20, 8, func(l *large) error { _, err := l.Load(l.t.Context(), leases[0].Delivery.Event); return err }},
		{"load in a busy minute", 20, 8, func(l *large) error { _, err := l.Load(l.t.Context(), l.ref(l.n-l.busy()/2)); return err }},
		{"extend", 10, 8, func(l *large) error { _, err := l.Extend(l.t.Context(), leases[0], time.Minute); return err }},
		{"release", 500, 8, func(l *large) error { return l.Release(l.t.Context(), leases...) }},
		{"finish: delivered", 500, 8, func(l *large) error { return finish(l, event.Delivered, 0) }},
		{"finish: again in an hour", 500, 8, func(l *large) error { return finish(l, event.Pending, time.Hour) }},
		{"finish: dead", 500, 8, func(l *large) error { return finish(l, event.Dead, 0) }},
		{"one event", 20, 8, func(l *large) error { _, err := l.Get(l.t.Context(), l.ref(l.n/2)); return err }},
		{"an event that is none", 20, 8, func(l *large) error {
			_, err := l.Get(l.t.Context(), event.NewRef(l.ref(l.n/2).Milli(), 5, l.Writer()))
			if err == nil {
				return fmt.Errorf("it is there")
			}
			return nil
		}},
		{"look up an ID", 500, 64, func(l *large) error {
			refs, err := l.Lookup(l.t.Context(), []string{"shop", "till"}, l.event(l.n/3).ID)
			if err == nil && len(refs) != 1 {
				err = fmt.Errorf("%d found", len(refs))
			}
			return err
		}},
		{"newest fifty", 2500, 64, page(dedupe.Filter{}, 50)},
		{"of a source", 2500, 64, page(dedupe.Filter{Source: "till"}, 50)},
		{"of a type", 2500, 64, page(dedupe.Filter{Type: "order.p*"}, 50)},
		{"delivered to a target", 2500, 64, page(dedupe.Filter{Target: "billing"}, 50)},
		{"delivered", 2500, 64, page(dedupe.Filter{Status: event.StatusDelivered}, delivered)},
		{"dead", 500, 64, page(dedupe.Filter{Status: event.StatusDead}, 10)},
		{"open", 1000, 64, page(dedupe.Filter{Status: event.StatusPending}, 50)},
		{"open at a target", 1000, 64, page(dedupe.Filter{State: "pending", Target: "billing"}, 50)},
		{"open at a target without any", 4500, 64, page(dedupe.Filter{State: "pending", Target: "none"}, 0)},
		{"none of a type", 2500, 64, page(dedupe.Filter{Type: "no.such"}, 0)},
		{"by a field", 500, 64, page(dedupe.Filter{Field: "customer"}, 20)},
		{"by an ID", 500, 64, page(dedupe.Filter{ID: "x"}, 1)},
		{"dead letters", 500, 64, func(l *large) error {
			p, err := l.Deliveries(l.t.Context(), dedupe.Filter{State: "dead", Target: "billing"}, "", 50)
			if err == nil && len(p.Items) < 10 {
				err = fmt.Errorf("%d dead letters", len(p.Items))
			}
			return err
		}},
		{"tail", 2500, 64, func(l *large) error { _, err := l.Tail(l.t.Context(), "", 50); return err }},
		{"targets", 10, 8, func(l *large) error { l.Targets(); return nil }},
		{"replay of one", 100, 16, func(l *large) error {
			_, err := l.Replay(l.t.Context(), dedupe.Replay{Selection: dedupe.Selection{Ref: l.ref(l.n - l.n/20)}})
			return err
		}},
		{"cancel", 100, 16, func(l *large) error {
			_, err := l.Cancel(l.t.Context(), l.ref(l.n-l.n/20), "", dedupe.By{})
			return err
		}},
		{"acts of one event", 50, 16, func(l *large) error { _, err := l.EventActs(l.t.Context(), l.ref(l.n/2)); return err }},
		// Counting what is open and what is dead reads that much and no more.
		{"figures", float64(*planRows/10 + 2000), 64, func(l *large) error { _, err := l.Stats(l.t.Context()); return err }},
		// Of 5,000 claims in a statement: each one, whether a delivery of it is open, and
		// its deletion.
		{"retention", 2.4*float64(min(*planRows/50, 5000)) + 200, 64, func(l *large) error {
			x, err := l.Expire(l.t.Context())
			if err == nil && x.Claims > l.open() {
				err = fmt.Errorf("%d claims are left", x.Claims)
			}
			return err
		}},
	}
}

// TestPlans holds that what a gateway does all the time reads a bounded number
// of rows by indexes, in few partitions, however much the ledger holds.
func TestPlans(t *testing.T) {
	l := huge(t)
	for _, h := range hotPaths() {
		for _, f := range l.faults(h) {
			t.Error(f)
		}
	}
	if !t.Failed() && *planRows < 1_000_000 {
		l.control()
	}
	l.generic()
	for _, h := range hotPaths() {
		if !slices.Contains(prepared, h.name) {
			continue
		}
		for _, f := range l.faults(h) {
			t.Errorf("with one plan for all: %s", f)
		}
	}
	// The control: a body that is joined with its bounds.
	if len(l.faults(hot{"load with a plain join", 20, 8, plainLoad})) == 0 {
		t.Error("nothing is wrong with a plain join of bodies: the test can't see it")
	}
}

func plainLoad(l *large) error {
	conn, err := pgx.Connect(l.t.Context(), l.running.cfg.URL)
	if err != nil {
		return err
	}
	defer conn.Close(context.Background())
	at := l.ref(l.n - l.busy()/2)
	var n int
	return conn.QueryRow(l.t.Context(), strings.ReplaceAll(`SELECT length(b.data) FROM {s}.events e LEFT JOIN {s}.bodies b ON b.ref = e.request
		AND b.ref >= $2 AND b.ref <= $1 AND NOT e.spent WHERE e.ref = $1`, "{s}", l.cfg.Schema),
		[16]byte(at), [16]byte(event.NewRef(at.Milli()-uint64(time.Minute.Milliseconds()), 0, 0))).Scan(&n)
}

// TestPlansUnknown holds that a batch is taken, given back and finished delivery
// by delivery while the server has no figures yet of what is open, as when a
// target's backlog grows faster than they are renewed.
func TestPlansUnknown(t *testing.T) {
	l := huge(t)
	const backlog = 20_000
	ask(t, l.cfg, fmt.Sprintf(`INSERT INTO %[1]s.pending SELECT lpad(to_hex(i), 32, '0')::uuid, 'billing', lpad(to_hex(i), 32, '0')::uuid, 0, false, 0, %[2]d, %[2]d, %[2]d, %[2]d, 0, '', 10,
		false, 0, 0, 0, 0, 0, 0, 0, 0, 0 FROM generate_series(1, %[3]d) i`, l.cfg.Schema, time.Now().UnixMilli(), backlog))
	ask(t, l.cfg, fmt.Sprintf(`DELETE FROM pg_statistic WHERE starelid = '%s.pending'::regclass`, l.cfg.Schema))
	for _, h := range hotPaths() {
		if h.name != "release" && !slices.Contains(prepared, h.name) {
			continue
		}
		for _, f := range l.faults(h) {
			t.Error(f)
		}
	}
}

// prepared are the hot paths whose statements a connection soon knows, so that
// one plan may be taken for all of their values. The others are planned each time,
// or name partitions, so that such a plan would cost more.
var prepared = []string{"lease", "begin", "load", "load in a busy minute", "extend", "finish: delivered", "finish: again in an hour", "finish: dead", "one event"}

// control takes indexes away: without each of them something reads too much.
func (l *large) control() {
	l.t.Helper()
	for _, c := range [...]struct{ index, name string }{
		{"terms_pkey", "look up an ID"}, {"terms_pkey", "by a field"}, {"dead_pkey", "dead letters"}, {"dead_ref", "dead"},
		{"events_ends", "retention"}, {"pending_due", "lease"}, {"claims_expires", "retention"},
	} {
		l.valid(c.index, false)
		seen := false
		for _, h := range hotPaths() {
			if h.name == c.name {
				seen = len(l.faults(h)) > 0
			}
		}
		l.valid(c.index, true)
		if !seen {
			l.t.Errorf("without the index %s nothing is wrong with %q: the test can't see it", c.index, c.name)
		}
	}
}

// valid has the planner use an index and those of its table's partitions, or not.
func (l *large) valid(index string, valid bool) {
	l.t.Helper()
	ask(l.t, l.cfg, fmt.Sprintf(`WITH RECURSIVE x AS (SELECT '%s.%s'::regclass::oid AS oid UNION ALL SELECT i.inhrelid FROM pg_inherits i JOIN x ON i.inhparent = x.oid)
		UPDATE pg_index SET indisvalid = %v WHERE indexrelid IN (SELECT oid FROM x)`, l.cfg.Schema, index, valid))
}
