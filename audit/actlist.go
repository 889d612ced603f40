package audit

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

// scanActs bounds the acts that one page of a listing looks at.
const scanActs = 8_000

// ActQuery is one page of a listing of acts, checked. Zero conditions select
// everything.
type ActQuery struct {
	Kinds  []dedupe.ActKind
	Event  event.Ref
	Source string
	Target string
	Actor  string
	From   time.Time // ledger time, inclusive
	To     time.Time // exclusive
	Cursor string
	Limit  int
}

// ParseActQuery reads a listing's query parameters: kind (several, with commas
// between), ref, source, target, actor, from or since, to, cursor and limit.
// What is unknown, given twice or does not parse is an *InvalidError.
func ParseActQuery(v url.Values, now time.Time) (ActQuery, error) {
	var q ActQuery
	var kinds, ref, from, since, to, limit string
	fields := []field{
		{"kind", &kinds}, {"ref", &ref}, {"source", &q.Source}, {"target", &q.Target}, {"actor", &q.Actor}, {"from", &from},
		{"since", &since}, {"to", &to}, {"cursor", &q.Cursor}, {"limit", &limit},
	}
	for name, vals := range v {
		i := slices.IndexFunc(fields, func(f field) bool { return f.name == name })
		switch {
		case i < 0:
			return q, invalid("unknown parameter %q: want one of %s", name, names(fields))
		case len(vals) > 1:
			return q, invalid("parameter %q is given %d times: once is enough", name, len(vals))
		}
		*fields[i].to = vals[0]
	}
	if from != "" && since != "" {
		return q, invalid("since and from are two words for one bound: give one")
	}
	for _, k := range strings.FieldsFunc(kinds, func(r rune) bool { return r == ',' }) {
		kind, err := dedupe.ParseActKind(strings.TrimSpace(k))
		if err != nil {
			return q, invalid("%v", err)
		}
		q.Kinds = append(q.Kinds, kind)
	}
	return q, q.parse(ref, from+since, to, limit, now)
}

func (q *ActQuery) parse(ref, from, to, limit string, now time.Time) (err error) {
	if ref != "" {
		if q.Event, err = event.ParseRef(ref); err != nil {
			return invalid("%v", err)
		}
	}
	if q.From, err = ParseTime("from", from, now); err != nil {
		return err
	}
	if q.To, err = ParseTime("to", to, now); err != nil {
		return err
	}
	q.Limit, err = ParseLimit(limit)
	return err
}

func (q *ActQuery) selects(a *dedupe.Act) bool {
	switch {
	case len(q.Kinds) > 0 && !slices.Contains(q.Kinds, a.Kind), !q.Event.IsZero() && a.Event != q.Event,
		q.Source != "" && a.Source != q.Source, q.Target != "" && a.Target != q.Target, q.Actor != "" && a.Actor != q.Actor,
		!q.From.IsZero() && a.At.Before(q.From), !q.To.IsZero() && !a.At.Before(q.To):
		return false
	}
	return true
}

// List is one page of acts, newest first over all writers. A page may hold
// fewer acts than asked for and still have a Next: a scan is bounded.
func (l *Log) List(ctx context.Context, q ActQuery) (dedupe.Page[LogAct], error) {
	page := dedupe.Page[LogAct]{Items: []LogAct{}}
	logs, err := l.logs(ctx)
	if err != nil {
		return page, err
	}
	if at := q.Event.Time(); !q.Event.IsZero() && at.After(q.From) {
		q.From = at // nothing of an event is recorded before it
	}
	m := &actMerge{ctx: ctx, acts: l.cfg.Ledger}
	if err := m.begin(logs, q.Cursor); err != nil {
		return page, err
	}
	if err := l.startAt(ctx, m, logs, &q); err != nil {
		return page, err
	}
	for seen := 0; ; seen++ {
		b, err := m.newest()
		switch {
		case err != nil:
			return page, err
		case b == nil, !q.From.IsZero() && b.head().At.Before(q.From):
			return page, nil
		case len(page.Items) == max(q.Limit, 1), seen == scanActs:
			page.Next = m.cursor()
			return page, nil
		}
		if a := b.head(); q.selects(a) {
			page.Items = append(page.Items, LogAct{Log: logName(b.writer), Index: b.next - 1, Act: viewAct(a)})
		}
		b.pop()
	}
}

// startAt has a first page begin at the end of what it selects, which may be
// long ago.
func (l *Log) startAt(ctx context.Context, m *actMerge, logs []dedupe.ActLog, q *ActQuery) error {
	if q.To.IsZero() || q.Cursor != "" {
		return nil
	}
	for i, g := range logs {
		at, err := l.actAt(ctx, g, q.To)
		if errors.Is(err, dedupe.ErrPruned) || errors.Is(err, dedupe.ErrDamaged) {
			continue // it begins at its end, and is told there
		}
		if err != nil {
			return fmt.Errorf("audit log %s: %w", logName(g.Writer), err)
		}
		m.logs[i].next = at
	}
	return nil
}

// actMerge walks several logs backwards, the newest act first.
type actMerge struct {
	ctx  context.Context
	acts dedupe.Acts
	logs []*backwards
}

// backwards walks one log from its end.
type backwards struct {
	writer, first, next uint64 // the acts before next are still to come
	page                []dedupe.Act
}

func (b *backwards) head() *dedupe.Act { return &b.page[len(b.page)-1] }

func (b *backwards) pop() {
	b.page = b.page[:len(b.page)-1]
	b.next--
}

// begin sets out from the ends of the logs, or from where a cursor points.
func (m *actMerge) begin(logs []dedupe.ActLog, cursor string) error {
	at := map[string]uint64{}
	for _, part := range strings.FieldsFunc(cursor, func(r rune) bool { return r == '.' }) {
		log, n, ok := strings.Cut(part, "-")
		next, err := strconv.ParseUint(n, 36, 64)
		if !ok || err != nil {
			return invalid("cursor %q: want one that a page before gave out", cursor)
		}
		at[log] = next
	}
	for _, g := range logs {
		b := &backwards{writer: g.Writer, first: g.First, next: g.Next}
		if cursor != "" { // a log that is not in it began later
			b.next = min(at[logName(g.Writer)], g.Next)
		}
		m.logs = append(m.logs, b)
	}
	return nil
}

func (m *actMerge) cursor() string {
	var parts []string
	for _, b := range m.logs {
		if b.next > b.first {
			parts = append(parts, logName(b.writer)+"-"+strconv.FormatUint(b.next, 36))
		}
	}
	return strings.Join(parts, ".")
}

// newest is the log whose next act is the newest, nil at the end of all.
func (m *actMerge) newest() (out *backwards, err error) {
	for _, b := range m.logs {
		if b.next <= b.first {
			continue
		}
		if len(b.page) == 0 {
			if err := m.fill(b); err != nil {
				return nil, err
			}
		}
		if len(b.page) > 0 && (out == nil || b.head().At.After(out.head().At)) {
			out = b
		}
	}
	return out, nil
}

const backwardPage = 1024

func (m *actMerge) fill(b *backwards) error {
	from := b.first
	if b.next > b.first+backwardPage {
		from = b.next - backwardPage
	}
	acts, err := m.acts.Acts(m.ctx, b.writer, from, int(b.next-from))
	if errors.Is(err, dedupe.ErrPruned) {
		b.first = b.next // dropped while it was read: there is no more
		return nil
	}
	if err != nil {
		return fmt.Errorf("audit log %s: %w", logName(b.writer), err)
	}
	for _, a := range acts {
		if a.Index >= b.next {
			break
		}
		act, err := dedupe.DecodeAct(a.Leaf)
		if err != nil {
			return fmt.Errorf("audit log %s: act %d: %w: %w", logName(b.writer), a.Index, dedupe.ErrDamaged, err)
		}
		b.page = append(b.page, act)
	}
	if uint64(len(b.page)) != b.next-from {
		return fmt.Errorf("audit log %s: %w: acts before %d are missing", logName(b.writer), dedupe.ErrDamaged, b.next)
	}
	return nil
}
