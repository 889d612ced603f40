package postgres_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/dedupe/badgerdb"
	"github.com/onceward/onceward/dedupe/ledgertest"
	"github.com/onceward/onceward/dedupe/postgres"
	"github.com/onceward/onceward/event"
)

// embedded is an embedded ledger with its background work.
type embedded struct {
	*badgerdb.DB
	cfg  badgerdb.Config
	stop func() error
}

func (e *embedded) Close() error { return errors.Join(e.stop(), e.DB.Close()) }

func startEmbedded(tb ledgertest.TB, cfg badgerdb.Config) *embedded {
	tb.Helper()
	db, err := badgerdb.Open(cfg)
	if err != nil {
		tb.Fatalf("open: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- db.Run(ctx) }()
	e := &embedded{DB: db, cfg: cfg, stop: func() error { cancel(); err := <-done; done <- nil; return err }}
	tb.Cleanup(func() {
		if err := e.Close(); err != nil {
			tb.Errorf("close: %v", err)
		}
	})
	<-db.Rebuilt()
	return e
}

func small(dir string, o ledgertest.Options) badgerdb.Config {
	return badgerdb.Config{Dir: dir, Now: o.Now, Retention: o.Retention, Reserve: 1 << 20, Ballast: -1, MemTable: 8 << 20}
}

// source is what a move reads.
type source interface {
	Each(ctx context.Context, fault func(dedupe.Fault) error, put func(dedupe.Moved) error) error
	Close() error
}

func noFault(f dedupe.Fault) error { return errors.New(f.Where + ": " + f.What) }

// move moves a whole ledger and closes what it reads.
func move(tb ledgertest.TB, src source, id string, cfg postgres.Config) error {
	tb.Helper()
	ctx := context.Background()
	defer func() {
		if err := src.Close(); err != nil {
			tb.Errorf("close the source: %v", err)
		}
	}()
	l, err := postgres.NewLoader(ctx, cfg, id)
	if err != nil {
		return err
	}
	defer l.Close()
	var sent dedupe.MoveTally
	err = src.Each(ctx, noFault, func(m dedupe.Moved) error {
		sent.Add(m)
		return l.Put(ctx, m)
	})
	if err != nil {
		return err
	}
	_, err = l.Finish(ctx, &sent, false)
	return err
}

// moved moves what a ledger of either engine holds into a fresh schema and
// opens that.
func moved(tb ledgertest.TB, url string, l dedupe.Ledger) dedupe.Ledger {
	tb.Helper()
	if err := l.Close(); err != nil {
		tb.Fatalf("close: %v", err)
	}
	var src source
	var err error
	id, o := "", ledgertest.Options{}
	switch l := l.(type) {
	case *embedded:
		var s *badgerdb.Source
		if s, err = badgerdb.OpenSource(context.Background(), l.cfg); err == nil {
			src, id = s, s.ID()
		}
		o.Now, o.Retention = l.cfg.Now, l.cfg.Retention
	case *running:
		src, err = postgres.OpenSource(context.Background(), l.cfg)
		o.Now, o.Retention = l.cfg.Now, l.cfg.Retention
	}
	if err != nil {
		tb.Fatalf("open what is moved: %v", err)
	}
	cfg := fresh(tb, url, o)
	if err := move(tb, src, id, cfg); err != nil {
		tb.Fatalf("move: %v", err)
	}
	return start(tb, cfg)
}

// Whatever a ledger went through, its like in the database knows the same, and
// goes on as it would have.
func TestMoveHistories(t *testing.T) {
	url := server(t)
	histories := 6
	if testing.Short() {
		histories = 2
	}
	ledgertest.Histories(t, ledgertest.Harness{
		Open: func(tb ledgertest.TB, o ledgertest.Options) dedupe.Ledger {
			return startEmbedded(tb, small(tb.TempDir(), o))
		},
		Reopen: func(tb ledgertest.TB, l dedupe.Ledger) dedupe.Ledger {
			if err := l.Close(); err != nil {
				tb.Fatalf("close: %v", err)
			}
			if e, ok := l.(*embedded); ok {
				return startEmbedded(tb, e.cfg)
			}
			return start(tb, l.(*running).cfg)
		},
		Move:      func(tb ledgertest.TB, l dedupe.Ledger) dedupe.Ledger { return moved(tb, url, l) },
		Histories: histories,
	})
}

func TestMoveKeepsEverything(t *testing.T) {
	url := server(t)
	was, clock := lived(t)
	again := startEmbedded(t, was.cfg)
	want := said(t, again)
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
	l := moved(t, url, again).(*running)
	same(t, said(t, l), want)
	if rep, err := l.Check(t.Context()); err != nil || len(rep.Faults) > 0 {
		t.Errorf("check: %v, %v", rep.Faults, err)
	}
	f := &life{t: t, l: l, clock: clock, ctx: t.Context()}
	// What was known is a repeat, also while its delivery holds the claim.
	for _, id := range []string{"old", "o3", "big", "b1"} {
		body := map[string]string{"old": "old", "o3": "ordered 3", "big": string(bytes.Repeat([]byte("0123456789abcdef"), 80_000)), "b1": "aa"}[id]
		if got := f.accept(dedupe.Retention{}, []byte(body), f.item(id, []byte(body), "slow"))[0]; got.Verdict != dedupe.Repeat || got.Answer.Status != 202 {
			t.Errorf("%s again: %+v, want a repeat with the first answer", id, got)
		}
	}
	if got := f.accept(dedupe.Retention{}, []byte("old2"), f.item("new", []byte("old2"), "slow"))[0]; got.Verdict != dedupe.New {
		t.Errorf("a new event: %+v", got)
	}
	// What is open goes on: each lane in its order, behind no dead one.
	var seen []string
	for range 12 {
		f.finish("lane", func(l *dedupe.Lease) *dedupe.Result {
			rec, err := f.l.Get(f.ctx, l.Delivery.Event)
			f.must(err)
			seen = append(seen, rec.Event.ID)
			return f.result(l, event.Delivered)
		})
	}
	if want := []string{"o5", "o8", "o11"}; !slices.Equal(seen, want) {
		t.Errorf("of the lanes went %v, want %v: two are blocked", seen, want)
	}
	n, err := l.Replay(t.Context(), dedupe.Replay{Selection: dedupe.Selection{Filter: dedupe.Filter{Source: "shop", State: "dead"}}, Target: "lane"})
	if err != nil || n.Opened != 3 {
		t.Fatalf("replay of the dead: %+v, %v; want 3 opened", n, err)
	}
	// The others of a lane were opened before the replayed one.
	for seen = nil; len(seen) < 20; {
		had := len(seen)
		f.finish("lane", func(l *dedupe.Lease) *dedupe.Result {
			rec, err := f.l.Get(f.ctx, l.Delivery.Event)
			f.must(err)
			seen = append(seen, rec.Event.ID)
			return f.result(l, event.Delivered)
		})
		if len(seen) == had {
			break
		}
	}
	slices.SortStableFunc(seen, func(a, b string) int { return cmp.Compare(number(a)%3, number(b)%3) })
	if want := []string{"o3", "o6", "o9", "o0", "o4", "o7", "o10", "o1", "o2"}; !slices.Equal(seen, want) {
		t.Errorf("then went %v, want %v", seen, want)
	}
}

func number(id string) int {
	n, _ := strconv.Atoi(id[1:])
	return n
}

// A move that was cut goes on where it was, however often.
func TestMoveCut(t *testing.T) {
	url := server(t)
	e, _ := lived(t)
	cfg := fresh(t, url, ledgertest.Options{Now: e.cfg.Now, Retention: lifeRetention})
	resumed := uint64(0)
	for cut := 10; ; cut += 25 {
		src, err := badgerdb.OpenSource(t.Context(), e.cfg)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		l, err := postgres.NewLoader(ctx, cfg, src.ID())
		if err != nil {
			t.Fatal(err)
		}
		if l.Resumed() < resumed {
			t.Fatalf("a run found %d records, the one before it %d", l.Resumed(), resumed)
		}
		resumed = l.Resumed()
		l.Every(10)
		var sent dedupe.MoveTally
		err = src.Each(ctx, noFault, func(m dedupe.Moved) error {
			if sent.Add(m); sent.Records() == uint64(cut) {
				cancel()
			}
			return l.Put(ctx, m)
		})
		if err == nil {
			_, err = l.Finish(ctx, &sent, false)
		}
		if cerr := errors.Join(l.Close(), src.Close()); cerr != nil {
			t.Fatal(cerr)
		}
		if ctx.Err() == nil {
			if cancel(); err != nil {
				t.Fatalf("the last run: %v", err)
			}
			break
		}
		cancel()
		if err == nil {
			t.Fatalf("the run that was cut after %d records ended well", cut)
		}
		if _, err := postgres.Open(t.Context(), cfg); !errors.Is(err, dedupe.ErrMoving) {
			t.Fatalf("a gateway opened what is half moved: error = %v, want ErrMoving", err)
		}
	}
	if resumed < 100 {
		t.Errorf("the last run found %d records: none was ever resumed", resumed)
	}
	l := start(t, cfg)
	again := startEmbedded(t, e.cfg)
	same(t, said(t, l), said(t, again))
}

// Whatever is changed on the way is seen.
func TestMoveComparesEverything(t *testing.T) {
	url := server(t)
	e, _ := lived(t)
	for name, harm := range map[string]string{
		"a claim is left out":      `DELETE FROM {s}.claims WHERE key = (SELECT key FROM {s}.claims LIMIT 1)`,
		"a claim ends later":       `UPDATE {s}.claims SET expires = expires + 1 WHERE key = (SELECT key FROM {s}.claims LIMIT 1)`,
		"a body has a flipped bit": `UPDATE {s}.bodies SET data = set_bit(data, 3, 1 - get_bit(data, 3)) WHERE ref = (SELECT ref FROM {s}.bodies WHERE length(data) > 0 LIMIT 1)`,
		"an event is left out":     `DELETE FROM {s}.events WHERE ref = (SELECT ref FROM {s}.events LIMIT 1)`,
		"an event is damaged":      `UPDATE {s}.events SET rec = set_byte(rec, 9, 255) WHERE ref = (SELECT ref FROM {s}.events LIMIT 1)`,
		"a delivery is early":      `UPDATE {s}.pending SET due = due - 1 WHERE (ref, target) = (SELECT ref, target FROM {s}.pending LIMIT 1)`,
		"a delivery came alive":    `UPDATE {s}.closed SET state = 2 WHERE (ref, target) = (SELECT ref, target FROM {s}.closed WHERE state = 3 LIMIT 1)`,
		"attempts changed places":  `UPDATE {s}.attempts SET seq = -seq WHERE ref = (SELECT ref FROM {s}.attempts GROUP BY ref HAVING count(*) > 1 LIMIT 1)`,
		"acts are left out":        `DELETE FROM {s}.batches WHERE (writer, first_act) = (SELECT writer, first_act FROM {s}.batches LIMIT 1)`,
		"a note is older":          `UPDATE {s}.notes SET version = version + 7 WHERE kind = 'target' AND name = 't1'`,
		"a key is left out":        `DELETE FROM {s}.sync_keys WHERE key = (SELECT key FROM {s}.sync_keys LIMIT 1)`,
		"a chunk is left out":      `DELETE FROM {s}.sync_chunks WHERE n = 1`,
		"a writer's acts end":      `UPDATE {s}.gateways SET acts = acts - 1 WHERE acts > 0`,
		"nothing":                  `SELECT 1`,
	} {
		t.Run(name, func(t *testing.T) {
			cfg := fresh(t, url, ledgertest.Options{Now: e.cfg.Now, Retention: lifeRetention})
			src, err := badgerdb.OpenSource(t.Context(), e.cfg)
			if err != nil {
				t.Fatal(err)
			}
			defer src.Close()
			l, err := postgres.NewLoader(t.Context(), cfg, src.ID())
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			var sent dedupe.MoveTally
			err = src.Each(t.Context(), noFault, func(m dedupe.Moved) error {
				sent.Add(m)
				return l.Put(t.Context(), m)
			})
			if err == nil {
				err = l.Flush(t.Context())
			}
			if err != nil {
				t.Fatal(err)
			}
			ask(t, cfg, strings.ReplaceAll(harm, "{s}", cfg.Schema))
			_, err = l.Finish(t.Context(), &sent, false)
			if name == "nothing" {
				if err != nil {
					t.Fatalf("unharmed: %v", err)
				}
				return
			}
			if !errors.Is(err, dedupe.ErrNotEqual) {
				t.Errorf("error = %v, want ErrNotEqual", err)
			}
			if _, err := postgres.Open(t.Context(), cfg); !errors.Is(err, dedupe.ErrMoving) {
				t.Errorf("a gateway opened what is not equal: error = %v", err)
			}
		})
	}
}

func TestMoveRefuses(t *testing.T) {
	url := server(t)
	e, clock := lived(t)
	o := ledgertest.Options{Now: e.cfg.Now, Retention: lifeRetention}

	// A schema in which a gateway was.
	cfg := fresh(t, url, o)
	if err := start(t, cfg).Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := postgres.NewLoader(t.Context(), cfg, "x"); !errors.Is(err, postgres.ErrNotEmpty) {
		t.Errorf("into a schema in use: error = %v, want ErrNotEmpty", err)
	}
	// One into which another ledger is being moved, or this one as it was.
	cfg = fresh(t, url, o)
	src, err := badgerdb.OpenSource(t.Context(), e.cfg)
	if err != nil {
		t.Fatal(err)
	}
	first := src.ID()
	l, err := postgres.NewLoader(t.Context(), cfg, first)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(l.Close(), src.MarkMoved("the database"), src.Close()); err != nil {
		t.Fatal(err)
	}
	// A ledger that was moved is not opened; to read it again is no matter.
	if _, err := badgerdb.Open(e.cfg); !errors.Is(err, dedupe.ErrMoved) || !strings.Contains(err.Error(), "the database") {
		t.Errorf("opened what was moved: error = %v, want ErrMoved", err)
	}
	if src, err = badgerdb.OpenSource(t.Context(), e.cfg); err != nil {
		t.Fatal(err)
	}
	if src.ID() != first {
		t.Errorf("the ledger's name changed from %s to %s by being read", first, src.ID())
	}
	if err := errors.Join(src.Close(), os.Remove(filepath.Join(e.cfg.Dir, "moved"))); err != nil {
		t.Fatal(err)
	}
	back := startEmbedded(t, e.cfg)
	f := &life{t: t, l: back, clock: clock, ctx: t.Context()}
	f.accept(dedupe.Retention{}, []byte("later"), f.item("later", []byte("later"), "slow"))
	f.must(back.Close())
	if src, err = badgerdb.OpenSource(t.Context(), e.cfg); err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	if _, err := postgres.NewLoader(t.Context(), cfg, src.ID()); !errors.Is(err, postgres.ErrNotEmpty) {
		t.Errorf("a ledger that went on meanwhile: error = %v, want ErrNotEmpty", err)
	}
	if _, err := badgerdb.Open(e.cfg); !errors.Is(err, dedupe.ErrLocked) {
		t.Errorf("opened what is being read: error = %v, want ErrLocked", err)
	}
}

// A ledger of many days, with little in each, is not written in one transaction:
// each partition that is made takes locks, of which the server has a few thousand.
func TestMoveMakesFewPartitionsAtOnce(t *testing.T) {
	url := server(t)
	cfg := fresh(t, url, ledgertest.Options{Retention: lifeRetention})
	l, err := postgres.NewLoader(t.Context(), cfg, "sparse")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	made := func() (n int) {
		ask(t, cfg, "SELECT count(*) FROM "+cfg.Schema+".partitions", &n)
		return n
	}
	for day := range 9 {
		ref := event.NewRef(uint64(1_772_000_000_000+day*24*3600*1000), 0, 1)
		if err := l.Put(t.Context(), &dedupe.MovedEvent{Event: event.Event{Ref: ref, Body: event.Slice{Request: ref}}}); err != nil {
			t.Fatal(err)
		}
	}
	if n := made(); n != 8 {
		t.Errorf("%d partitions are made after 9 days, want 8, four at a time", n)
	}
	if err := l.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := made(); n != 9 {
		t.Errorf("%d partitions in the end, want 9", n)
	}
}
