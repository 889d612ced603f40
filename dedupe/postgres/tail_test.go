package postgres_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

// accept has a member accept one event.
func (m *member) accept(t testing.TB, id string) event.Ref {
	t.Helper()
	req := request(id)
	if err := m.w.Accept(context.Background(), req); err != nil {
		t.Fatalf("accept %s: %v", id, err)
	}
	return req.Outcomes[0].Ref
}

// tailed reads from cursor to the present end: what a reader saw, by ID.
func (m *member) tailed(t testing.TB, cursor string, limit int) (ids []string, next string) {
	t.Helper()
	for empty := 0; empty < 2; { // a page may be empty and not the last
		p, err := m.Tail(context.Background(), cursor, limit)
		if err != nil {
			t.Fatal(err)
		}
		empty++
		for _, rec := range p.Items {
			ids, empty = append(ids, rec.Event.ID), 0
		}
		cursor = p.Next
	}
	return ids, cursor
}

// behind begins an accept at m that waits, with its refs given, until let is
// called: another transaction holds its claim and gives it up.
func (m *member) behind(t *testing.T, id string) (let func() event.Ref) {
	t.Helper()
	return m.behindRequest(t, request(id))
}

func (m *member) behindRequest(t *testing.T, req *dedupe.Request) (let func() event.Ref) {
	t.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, m.cfg.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(ctx) })
	tx, err := conn.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	key := req.Items[0].Claim
	if _, err := tx.Exec(ctx, "INSERT INTO "+m.cfg.Schema+".claims VALUES ($1, '00000000-0000-0000-0000-000000000000', '', 0, 0)", key[:]); err != nil {
		t.Fatal(err)
	}
	var pid uint32
	if err := conn.QueryRow(ctx, "SELECT pg_backend_pid()").Scan(&pid); err != nil {
		t.Fatal(err)
	}
	done := make(chan event.Ref, 1)
	go func() {
		if err := m.w.Accept(ctx, req); err != nil {
			t.Errorf("accept: %v", err)
			close(done)
			return
		}
		done <- req.Outcomes[0].Ref
	}()
	var waiting bool
	for until := time.Now().Add(30 * time.Second); !waiting; {
		if time.Now().After(until) {
			t.Fatal("no transaction waits for the claim")
		}
		ask(t, m.cfg, fmt.Sprintf("SELECT EXISTS (SELECT FROM pg_stat_activity WHERE %d = ANY(pg_blocking_pids(pid)))", pid), &waiting)
	}
	return func() event.Ref {
		if err := tx.Rollback(ctx); err != nil {
			t.Fatal(err)
		}
		return <-done
	}
}

// TestTailLateCommit holds that an event whose refs were given before those of
// another gateway, and which was committed after them, is not passed over by a
// reader that has seen those. A reader that goes by refs alone, as the control
// does, passes it over.
func TestTailLateCommit(t *testing.T) {
	cfg := fresh(t, server(t), options())
	cfg.Lock = time.Minute
	a, b := join(t, cfg, "a"), join(t, cfg, "b")
	a.accept(t, "a0")
	b.accept(t, "b0")
	_, cursor := b.tailed(t, "", 10)
	let := a.behind(t, "late")
	var highest event.Ref
	for n := range 3 {
		highest = b.accept(t, fmt.Sprint("b", n+1))
	}
	got, cursor := b.tailed(t, cursor, 2)
	if !slices.Equal(got, []string{"b1", "b2", "b3"}) {
		t.Errorf("while a's commit is under way: %v", got)
	}
	late := let()
	if late.Compare(highest) > 0 {
		t.Fatalf("the late event has ref %s, above %s: the test makes no such commit", late, highest)
	}
	if got, cursor = b.tailed(t, cursor, 2); !slices.Equal(got, []string{"late"}) {
		t.Errorf("after a's commit: %v, want the late event once", got)
	}
	if got, _ = b.tailed(t, highest.String(), 2); len(got) != 0 { // the control
		t.Errorf("by the highest ref seen: %v: the test can't see an event that is passed over", got)
	}
	if got, _ = a.tailed(t, cursor, 2); len(got) != 0 {
		t.Errorf("the same place through the other gateway: %v, want nothing", got)
	}
}

// TestTailIdleWriter holds that a gateway that was idle while another one wrote
// more than a page is looked through does not hold up a reader.
func TestTailIdleWriter(t *testing.T) {
	cfg := fresh(t, server(t), options())
	idle, busy := join(t, cfg, "idle"), join(t, cfg, "busy")
	idle.accept(t, "idle0")
	const many = 2500
	for n := range many / 500 {
		b := &dedupe.Batch{}
		for i := range 500 {
			b.Requests = append(b.Requests, request(fmt.Sprint("busy", n*500+i)))
		}
		if err := busy.DB.Commit(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	got, cursor := busy.tailed(t, "", 1000)
	if len(got) != many+1 {
		t.Errorf("%d events, want %d", len(got), many+1)
	}
	idle.accept(t, "idle1")
	p, err := busy.Tail(t.Context(), cursor, 10)
	if err != nil || len(p.Items) != 1 || p.Items[0].Event.ID != "idle1" {
		t.Errorf("the idle gateway's event: %d events, %v; want it at once", len(p.Items), err)
	}
	// Without batches to go by it takes more pages, and comes all the same.
	ask(t, cfg, "DELETE FROM "+cfg.Schema+".batches")
	if got, _ = busy.tailed(t, cursor, 10); !slices.Equal(got, []string{"idle1"}) {
		t.Errorf("without the gateway's batches: %v", got)
	}
}

// TestTailFleet follows through one gateway while several write, goes on at the
// place behind any single event, and sees each event once.
func TestTailFleet(t *testing.T) {
	cfg := fresh(t, server(t), options())
	ms := []*member{join(t, cfg, "a"), join(t, cfg, "b"), join(t, cfg, "c")}
	const each = 60
	var writing sync.WaitGroup
	for i, m := range ms {
		for s := range 3 {
			writing.Go(func() {
				for n := range each / 3 {
					m.accept(t, fmt.Sprint(i, "_", s, "_", n))
				}
			})
		}
	}
	done := make(chan struct{})
	go func() { writing.Wait(); close(done) }()
	reader, seen := ms[0], map[string]int{}
	cursor, last := "", false
	for n := 0; !last; n++ {
		select {
		case <-done:
			last = true // one more round, to the end
		default:
		}
		for empty := false; !empty; {
			p, err := reader.Tail(t.Context(), cursor, 7)
			if err != nil {
				t.Fatal(err)
			}
			empty, cursor = len(p.Items) == 0, p.Next
			for i := range p.Items {
				seen[p.Items[i].Event.ID]++
				if i == n%7 { // a reader that stops here goes on here
					cursor = p.Items[i].After
					break
				}
			}
		}
	}
	if len(seen) != len(ms)*each {
		t.Errorf("%d events seen, want %d", len(seen), len(ms)*each)
	}
	for id, n := range seen {
		if n != 1 {
			t.Errorf("%s was seen %d times", id, n)
		}
	}
}
