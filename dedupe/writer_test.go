package dedupe_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// batch is what a fake ledger was given.
type batch struct {
	requests []*dedupe.Request
	results  []*dedupe.Result
}

func (b batch) items() int {
	n := len(b.results)
	for _, r := range b.requests {
		n += len(r.Items)
	}
	return n
}

// fakeLedger commits when its test lets it.
type fakeLedger struct {
	before func(*dedupe.Batch) error // runs before the batch counts as written

	mu      sync.Mutex
	batches []batch
}

func (l *fakeLedger) Commit(_ context.Context, b *dedupe.Batch) error {
	if l.before != nil {
		if err := l.before(b); err != nil {
			return err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.batches = append(l.batches, batch{append([]*dedupe.Request(nil), b.Requests...), append([]*dedupe.Result(nil), b.Results...)})
	for _, r := range b.Requests {
		if r.Err == nil {
			r.Outcomes = make([]dedupe.Outcome, len(r.Items))
			for i := range r.Outcomes {
				r.Outcomes[i] = dedupe.Outcome{Verdict: dedupe.New, ID: r.Items[i].Event.ID}
			}
		}
	}
	return nil
}

// written reports whether a request was in a batch that was written.
func (l *fakeLedger) written(id string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, b := range l.batches {
		for _, r := range b.requests {
			if r.Items[0].Event.ID == id {
				return true
			}
		}
	}
	return false
}

// gate lets commits through one by one.
type gate struct{ entered, release chan struct{} }

func newGate() gate { return gate{make(chan struct{}), make(chan struct{})} }

func (g gate) before(*dedupe.Batch) error {
	g.entered <- struct{}{}
	<-g.release
	return nil
}

// step lets the commit under way pass.
func (g gate) step() {
	<-g.entered
	g.release <- struct{}{}
}

func request(id string, size int) *dedupe.Request {
	return &dedupe.Request{
		Body: make([]byte, size),
		Items: []dedupe.Item{{
			Event:    event.Event{Source: "shop", ID: id, Body: event.Slice{Length: int64(size)}},
			HasClaim: true, Claim: dedupe.KeyOf(dedupe.KindID, "shop", "", id),
		}},
	}
}

func newWriter(t *testing.T, cfg dedupe.WriterConfig) *dedupe.Writer {
	t.Helper()
	w, err := dedupe.NewWriter(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// run starts w; the returned func ends it and says what Run returned.
func run(t *testing.T, w *dedupe.Writer) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	return func() error {
		cancel()
		return <-done
	}
}

// call runs f in a goroutine; its error comes on the channel.
func call(f func() error) <-chan error {
	c := make(chan error, 1)
	go func() { c <- f() }()
	return c
}

func accept(t *testing.T, w *dedupe.Writer, r *dedupe.Request) <-chan error {
	return call(func() error { return w.Accept(t.Context(), r) })
}

func wantErr(t *testing.T, what string, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Fatalf("%s: error = %v, want %v", what, got, want)
	}
}

// answered reports whether c holds an answer now.
func answered(c <-chan error) bool { return len(c) > 0 }

func TestWriterFormsBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const callers, rounds = 64, 20
		l := &fakeLedger{before: func(*dedupe.Batch) error {
			<-time.After(time.Millisecond) // a sync
			return nil
		}}
		w := newWriter(t, dedupe.WriterConfig{Ledger: l})
		stop := run(t, w)
		var wg sync.WaitGroup
		for c := range callers {
			wg.Go(func() {
				for r := range rounds {
					req := request(fmt.Sprint(c, "/", r), 100)
					if err := w.Accept(t.Context(), req); err != nil {
						t.Error(err)
					} else if len(req.Outcomes) != 1 || req.Outcomes[0].ID != req.Items[0].Event.ID {
						t.Errorf("outcomes of %s = %v", req.Items[0].Event.ID, req.Outcomes)
					}
				}
			})
		}
		wg.Wait()
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		total := 0
		for _, b := range l.batches {
			total += len(b.requests)
		}
		if total != callers*rounds {
			t.Errorf("%d requests written, want %d", total, callers*rounds)
		}
		if got, most := len(l.batches), 2*rounds+1; got > most {
			t.Errorf("%d batches for %d requests of %d callers, want at most %d", got, total, callers, most)
		}
	})
}

// With the tag onceward_unsafe_early_ack this test must fail: it is what the
// tag breaks.
func TestWriterAnswersAfterTheCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		l := &fakeLedger{before: g.before}
		w := newWriter(t, dedupe.WriterConfig{Ledger: l})
		stop := run(t, w)
		first := accept(t, w, request("first", 1))
		<-g.entered
		second := accept(t, w, request("second", 1))
		synctest.Wait()
		if answered(first) || answered(second) {
			t.Fatal("answered before the commit")
		}
		g.release <- struct{}{}
		<-g.entered
		synctest.Wait()
		if !answered(first) || answered(second) {
			t.Fatal("want the first answered and the second not, after the first's commit")
		}
		g.release <- struct{}{}
		if err := errors.Join(<-first, <-second, stop()); err != nil {
			t.Fatal(err)
		}
	})
}

func TestWriterOverload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		l := &fakeLedger{before: g.before}
		w := newWriter(t, dedupe.WriterConfig{Ledger: l, Queue: 4, QueueBytes: 1000})
		stop := run(t, w)
		calls := []<-chan error{accept(t, w, request("taken", 5000))} // alone: more than the queue's bytes
		synctest.Wait()
		for i := range 3 {
			calls = append(calls, accept(t, w, request(fmt.Sprint("queued ", i), 300)))
			synctest.Wait()
		}
		wantErr(t, "more bytes than may wait", w.Accept(t.Context(), request("bytes", 101)), dedupe.ErrOverloaded)
		calls = append(calls, accept(t, w, request("queued 3", 100)))
		synctest.Wait()
		wantErr(t, "more requests than may wait", w.Accept(t.Context(), request("count", 0)), dedupe.ErrOverloaded)
		res := call(func() error { return w.Finish(t.Context(), &dedupe.Result{}) }) // always has room
		synctest.Wait()
		if answered(res) {
			t.Fatalf("result refused: %v", <-res)
		}
		g.step()
		g.step()
		for _, c := range append(calls, res) {
			if err := <-c; err != nil {
				t.Error(err)
			}
		}
		free := accept(t, w, request("after", 1))
		g.step()
		if err := errors.Join(<-free, stop()); err != nil {
			t.Fatal(err)
		}
		if l.written("bytes") || l.written("count") {
			t.Error("a refused request was written")
		}
	})
}

func TestWriterCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		l := &fakeLedger{before: g.before}
		w := newWriter(t, dedupe.WriterConfig{Ledger: l})
		stop := run(t, w)
		ctx, cancel := context.WithCancel(t.Context())
		short, cancelShort := context.WithTimeout(t.Context(), time.Second)
		defer cancelShort()
		start := func(ctx context.Context, r *dedupe.Request) <-chan error {
			c := call(func() error { return w.Accept(ctx, r) })
			synctest.Wait()
			return c
		}
		taken := start(ctx, request("taken", 1))
		queued := start(ctx, request("queued", 1))
		late := start(short, request("late", 1))
		result := call(func() error { return w.Finish(ctx, &dedupe.Result{}) })
		other := start(t.Context(), request("other", 1))
		cancel()
		err := <-queued
		wantErr(t, "withdrawn", err, dedupe.ErrOverloaded)
		wantErr(t, "withdrawn", err, context.Canceled)
		wantErr(t, "withdrawn result", <-result, dedupe.ErrOverloaded)
		err = <-late // the clock of the bubble goes on
		wantErr(t, "past its deadline", err, dedupe.ErrOverloaded)
		wantErr(t, "past its deadline", err, context.DeadlineExceeded)
		synctest.Wait()
		if answered(taken) {
			t.Fatalf("a request under way was answered with %v before its commit", <-taken)
		}
		wantErr(t, "ended before it came", w.Accept(ctx, request("dead", 1)), dedupe.ErrOverloaded)
		g.step()
		g.step()
		if err := errors.Join(<-taken, <-other, stop()); err != nil {
			t.Fatal(err)
		}
		for id, want := range map[string]bool{"taken": true, "other": true, "queued": false, "late": false, "dead": false} {
			if l.written(id) != want {
				t.Errorf("%s written: %v, want %v", id, !want, want)
			}
		}
		for _, b := range l.batches {
			if len(b.results) > 0 {
				t.Error("a withdrawn result was written")
			}
		}
	})
}

func TestWriterLeavesOutTheLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &fakeLedger{}
		ahead := func() time.Time { return time.Now().Add(time.Minute) }
		w := newWriter(t, dedupe.WriterConfig{Ledger: l, Now: ahead})
		stop := run(t, w)
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		wantErr(t, "late by the writer's clock", w.Accept(ctx, request("late", 1)), dedupe.ErrOverloaded)
		ctx, cancel = context.WithTimeout(t.Context(), 90*time.Second)
		defer cancel()
		if err := errors.Join(w.Accept(ctx, request("in time", 1)), stop()); err != nil {
			t.Fatal(err)
		}
		if l.written("late") || !l.written("in time") {
			t.Error("want the late request left out and the other written")
		}
	})
}

func TestWriterFatal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("input/output error")
		g := newGate()
		l := &fakeLedger{before: func(b *dedupe.Batch) error {
			if err := g.before(b); err != nil {
				return err
			}
			for _, r := range b.Requests { // filled in and then not durable
				r.Outcomes = make([]dedupe.Outcome, len(r.Items))
			}
			return broken
		}}
		w := newWriter(t, dedupe.WriterConfig{Ledger: l})
		ended := call(func() error { return w.Run(t.Context()) })
		reqs := []*dedupe.Request{request("taken", 1), request("queued", 1)}
		calls := []<-chan error{accept(t, w, reqs[0])}
		synctest.Wait()
		calls = append(calls, accept(t, w, reqs[1]), call(func() error { return w.Finish(t.Context(), &dedupe.Result{}) }))
		synctest.Wait()
		g.step()
		for _, c := range calls {
			err := <-c
			wantErr(t, "waiting caller", err, dedupe.ErrFatal)
			wantErr(t, "waiting caller", err, broken)
		}
		err := <-ended
		wantErr(t, "Run", err, dedupe.ErrFatal)
		wantErr(t, "Run", err, broken)
		wantErr(t, "later Accept", w.Accept(t.Context(), request("later", 1)), dedupe.ErrFatal)
		wantErr(t, "later Finish", w.Finish(t.Context(), &dedupe.Result{}), dedupe.ErrFatal)
		for _, r := range reqs {
			if r.Outcomes != nil {
				t.Errorf("outcomes of a failed batch: %v", r.Outcomes)
			}
		}
	})
}

// silentLedger says that all is well and gives no outcomes.
type silentLedger struct{}

func (silentLedger) Commit(context.Context, *dedupe.Batch) error { return nil }

func TestWriterNeedsOutcomes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWriter(t, dedupe.WriterConfig{Ledger: silentLedger{}})
		ended := call(func() error { return w.Run(t.Context()) })
		wantErr(t, "Accept", w.Accept(t.Context(), request("evt", 1)), dedupe.ErrFatal)
		wantErr(t, "Run", <-ended, dedupe.ErrFatal)
	})
}

func TestWriterRefusedAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		l := &fakeLedger{before: func(b *dedupe.Batch) error {
			for _, r := range b.Requests {
				if r.Items[0].Event.ID == "refused" {
					r.Err = dedupe.ErrDiskLow
				}
			}
			return g.before(b)
		}}
		w := newWriter(t, dedupe.WriterConfig{Ledger: l})
		stop := run(t, w)
		blocker := accept(t, w, request("blocker", 1))
		synctest.Wait()
		refused, other := accept(t, w, request("refused", 1)), accept(t, w, request("other", 1))
		result := call(func() error { return w.Finish(t.Context(), &dedupe.Result{}) })
		synctest.Wait()
		g.step()
		g.step()
		wantErr(t, "refused", <-refused, dedupe.ErrDiskLow)
		if err := errors.Join(<-blocker, <-other, <-result, stop()); err != nil {
			t.Fatal(err)
		}
	})
}

func TestWriterDrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		l := &fakeLedger{before: g.before}
		w := newWriter(t, dedupe.WriterConfig{Ledger: l, MaxItems: 3})
		ctx, cancel := context.WithCancel(t.Context())
		ended := call(func() error { return w.Run(ctx) })
		var calls []<-chan error
		for i := range 10 {
			calls = append(calls, accept(t, w, request(fmt.Sprint(i), 1)))
			synctest.Wait()
		}
		calls = append(calls, call(func() error { return w.Finish(t.Context(), &dedupe.Result{}) }))
		synctest.Wait()
		cancel()
		for range 5 {
			g.step()
		}
		for _, c := range calls {
			if err := <-c; err != nil {
				t.Errorf("queued before the end: %v", err)
			}
		}
		if err := <-ended; err != nil {
			t.Fatalf("Run: %v", err)
		}
		wantErr(t, "Accept after the end", w.Accept(t.Context(), request("later", 1)), dedupe.ErrClosed)
		wantErr(t, "Finish after the end", w.Finish(t.Context(), &dedupe.Result{}), dedupe.ErrClosed)
	})
}

// lastMoment is a context that ends when it is first looked at, just after
// something else happened.
type lastMoment struct {
	context.Context
	before func()
	done   chan struct{}
}

func (c *lastMoment) Done() <-chan struct{} {
	if c.before != nil {
		c.before()
		c.before = nil
		close(c.done)
	}
	return c.done
}

// A request that comes between the last look at the queue and the end is
// written, and not left waiting: that would be a deadlock of the bubble.
func TestWriterEndsForEverybody(t *testing.T) {
	for range 40 { // it is left to chance what Run sees first
		synctest.Test(t, func(t *testing.T) {
			w := newWriter(t, dedupe.WriterConfig{Ledger: &fakeLedger{}})
			var late <-chan error
			ctx := &lastMoment{Context: t.Context(), done: make(chan struct{}), before: func() {
				late = accept(t, w, request("late", 1))
				synctest.Wait()
			}}
			if err := w.Run(ctx); err != nil {
				t.Fatal(err)
			}
			if err := <-late; err != nil {
				t.Fatal(err)
			}
			wantErr(t, "after the end", w.Accept(t.Context(), request("after", 1)), dedupe.ErrClosed)
		})
	}
}

func TestWriterBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const maxItems, maxBytes = 5, 20_000
		g := newGate()
		l := &fakeLedger{before: g.before}
		w := newWriter(t, dedupe.WriterConfig{Ledger: l, MaxItems: maxItems, MaxBytes: maxBytes})
		stop := run(t, w)
		calls := []<-chan error{accept(t, w, request("first", 1))}
		synctest.Wait()
		many := request("many", 10)
		for i := 1; i < maxItems; i++ {
			many.Items = append(many.Items, many.Items[0])
		}
		for _, r := range []*dedupe.Request{
			request("a", 1), request("b", 1), request("c", 15_000), request("d", 15_000), request("large", 100_000), request("e", 1), many, request("f", 1),
		} {
			calls = append(calls, accept(t, w, r))
			synctest.Wait()
		}
		stopped := make(chan error, 1)
		go func() { // every batch that comes
			for {
				select {
				case <-g.entered:
					g.release <- struct{}{}
				case <-stopped:
					return
				}
			}
		}()
		for _, c := range calls {
			if err := <-c; err != nil {
				t.Fatal(err)
			}
		}
		stopped <- stop()
		var order []string
		for _, b := range l.batches {
			var bytes int
			for _, r := range b.requests {
				bytes += len(r.Body)
				order = append(order, r.Items[0].Event.ID)
			}
			if b.items() > maxItems {
				t.Errorf("a batch of %d items", b.items())
			}
			if bytes > maxBytes && len(b.requests) > 1 {
				t.Errorf("a batch of %d bytes in %d requests", bytes, len(b.requests))
			}
		}
		if got, want := fmt.Sprint(order), "[first a b c d large e many f]"; got != want {
			t.Errorf("written in order %s, want %s", got, want)
		}
	})
}

func TestWriterStarvesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n, maxItems = 40, 4
		g := newGate()
		l := &fakeLedger{before: g.before}
		w := newWriter(t, dedupe.WriterConfig{Ledger: l, MaxItems: maxItems})
		stop := run(t, w)
		calls := []<-chan error{accept(t, w, request("first", 1))}
		synctest.Wait()
		for i := range n {
			calls = append(calls,
				accept(t, w, request(fmt.Sprint(i), 1)),
				call(func() error { return w.Finish(t.Context(), &dedupe.Result{}, &dedupe.Result{}) }))
		}
		synctest.Wait()
		for range 1 + n/maxItems + 2*n/maxItems {
			g.step()
		}
		for _, c := range calls {
			if err := <-c; err != nil {
				t.Fatal(err)
			}
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		for i := 2; i < 2*n/maxItems; i++ { // while both kinds wait
			a, b := l.batches[i-1], l.batches[i]
			if len(a.requests)+len(b.requests) == 0 || len(a.results)+len(b.results) == 0 {
				t.Errorf("batches %d and %d hold one kind only", i-1, i)
			}
		}
	})
}

func TestWriterSplitsResults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 2500
		l := &fakeLedger{}
		w := newWriter(t, dedupe.WriterConfig{Ledger: l})
		stop := run(t, w)
		rs := make([]*dedupe.Result, n)
		for i := range rs {
			rs[i] = &dedupe.Result{Attempt: event.Attempt{Response: make([]byte, 4096)}}
		}
		if err := errors.Join(w.Finish(t.Context(), rs...), stop()); err != nil {
			t.Fatal(err)
		}
		total := 0
		for _, b := range l.batches {
			size := 0
			for _, r := range b.results {
				if r != rs[total] {
					t.Fatalf("result %d is out of order", total)
				}
				total++
				size += len(r.Attempt.Response)
			}
			if size > dedupe.DefaultMaxBytes || len(b.results) > dedupe.DefaultMaxItems {
				t.Errorf("a batch of %d results, %d bytes", len(b.results), size)
			}
		}
		if total != n {
			t.Errorf("%d results written, want %d", total, n)
		}
	})
}

func TestWriterRefusesWhatCanNotBeWritten(t *testing.T) {
	l := &fakeLedger{}
	w := newWriter(t, dedupe.WriterConfig{Ledger: l, MaxItems: 3, MaxBytes: 10_000})
	stop := run(t, w)
	edit := func(f func(*dedupe.Request)) *dedupe.Request {
		r := request("evt", 10)
		f(r)
		return r
	}
	for _, tt := range []struct {
		name string
		req  *dedupe.Request
		want error // nil: any
	}{
		{"too many items", edit(func(r *dedupe.Request) { r.Items = append(r.Items, r.Items[0], r.Items[0], r.Items[0]) }), dedupe.ErrTooLarge},
		{"too much beside the body", edit(func(r *dedupe.Request) {
			r.Items[0].Event.Header = []event.Field{{Name: "X", Value: string(make([]byte, 10_000))}}
		}), dedupe.ErrTooLarge},
		{"claim without a key", edit(func(r *dedupe.Request) { r.Items[0].Claim = dedupe.Key{} }), dedupe.ErrNoClaimKey},
		{"guard without a key", edit(func(r *dedupe.Request) { r.Items[0].Guard = dedupe.GuardFlag }), dedupe.ErrNoClaimKey},
		{"slice past the body", edit(func(r *dedupe.Request) { r.Items[0].Event.Body.Length = 11 }), nil},
		{"slice before the body", edit(func(r *dedupe.Request) { r.Items[0].Event.Body.Offset = -1 }), nil},
		{"slice that overflows", edit(func(r *dedupe.Request) {
			r.Items[0].Event.Body = event.Slice{Offset: 10, Length: 1<<63 - 1}
		}), nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := w.Accept(t.Context(), tt.req)
			if err == nil || tt.want != nil && !errors.Is(err, tt.want) {
				t.Errorf("error = %v, want %v", err, tt.want)
			}
		})
	}
	if err := w.Accept(t.Context(), &dedupe.Request{}); err != nil {
		t.Errorf("a request without events: %v", err)
	}
	if err := w.Finish(t.Context()); err != nil {
		t.Errorf("no results: %v", err)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if len(l.batches) > 0 {
		t.Errorf("%d batches written, want none", len(l.batches))
	}
}

// What a caller is told is what was written, however its context ends.
func TestWriterTellsTheTruth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const callers, rounds = 64, 60
		l := &fakeLedger{before: func(*dedupe.Batch) error {
			<-time.After(time.Millisecond)
			return nil
		}}
		w := newWriter(t, dedupe.WriterConfig{Ledger: l, Queue: 40, MaxItems: 16})
		stop := run(t, w)
		var mu sync.Mutex
		told := map[string]error{}
		var wg sync.WaitGroup
		for c := range callers {
			rng := rand.New(rand.NewPCG(1, uint64(c)))
			wg.Go(func() {
				for r := range rounds {
					ctx, cancel := context.WithCancel(t.Context())
					timer := time.AfterFunc(time.Duration(rng.IntN(5000))*time.Microsecond, cancel)
					req := request(fmt.Sprint(c, "/", r), 10)
					err := w.Accept(ctx, req)
					if (err == nil) != (len(req.Outcomes) == 1) {
						t.Errorf("error %v with outcomes %v", err, req.Outcomes)
					}
					mu.Lock()
					told[req.Items[0].Event.ID] = err
					mu.Unlock()
					timer.Stop()
					cancel()
				}
			})
		}
		wg.Wait()
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		written := map[string]int{}
		for _, b := range l.batches {
			for _, r := range b.requests {
				written[r.Items[0].Event.ID]++
			}
		}
		ok := 0
		for id, err := range told {
			want := 0
			if err == nil {
				want, ok = 1, ok+1
			}
			if written[id] != want {
				t.Errorf("%s: told %v, written %d times", id, err, written[id])
			}
		}
		if ok == 0 || ok == len(told) {
			t.Errorf("%d of %d accepted: the test shows nothing", ok, len(told))
		}
	})
}

func TestWriterMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewPedanticRegistry()
		g := newGate()
		w := newWriter(t, dedupe.WriterConfig{Ledger: &fakeLedger{before: g.before}, Registerer: reg, Queue: 1})
		stop := run(t, w)
		first := accept(t, w, request("first", 1))
		synctest.Wait()
		second := accept(t, w, request("second", 1))
		synctest.Wait()
		wantErr(t, "third", w.Accept(t.Context(), request("third", 1)), dedupe.ErrOverloaded)
		value := func(name string) float64 {
			t.Helper()
			families, err := reg.Gather()
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range families {
				if f.GetName() != name {
					continue
				}
				for _, m := range f.Metric {
					switch {
					case m.Histogram != nil:
						return float64(m.Histogram.GetSampleCount())
					case m.Gauge != nil:
						return m.Gauge.GetValue()
					case m.Counter.GetValue() > 0:
						return m.Counter.GetValue()
					}
				}
			}
			return 0
		}
		if got := value("onceward_store_queue_requests"); got != 1 {
			t.Errorf("queue = %v, want 1", got)
		}
		g.step()
		g.step()
		if err := errors.Join(<-first, <-second, stop()); err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]float64{
			"onceward_store_queue_requests": 0, "onceward_store_commit_duration_seconds": 2,
			"onceward_store_batch_items": 2, "onceward_store_errors_total": 1,
		} {
			if got := value(name); got != want {
				t.Errorf("%s = %v, want %v", name, got, want)
			}
		}
		if _, err := dedupe.NewWriter(dedupe.WriterConfig{Ledger: silentLedger{}, Registerer: reg}); err == nil {
			t.Error("a second writer on the same registry is no error")
		}
		if _, err := dedupe.NewWriter(dedupe.WriterConfig{}); err == nil {
			t.Error("a writer without a ledger is no error")
		}
	})
}

// frugalLedger gives outcomes without memory of its own.
type frugalLedger struct{ outcomes [1]dedupe.Outcome }

func (l *frugalLedger) Commit(_ context.Context, b *dedupe.Batch) error {
	for _, r := range b.Requests {
		r.Outcomes = l.outcomes[:]
	}
	return nil
}

func TestWriterAllocates(t *testing.T) {
	w := newWriter(t, dedupe.WriterConfig{Ledger: &frugalLedger{}})
	stop := run(t, w)
	req, ctx := request("evt", 100), t.Context()
	n := testing.AllocsPerRun(2000, func() {
		if err := w.Accept(ctx, req); err != nil {
			t.Fatal(err)
		}
	})
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if n >= 2 { // the race detector makes the pool forget at times
		t.Errorf("%v allocations for one request, want less than 2", n)
	}
}

// TestFailingWhileClosed: a commit that fails after the writer was told to
// stop changes what later callers are told while they ask. The race detector
// is the judge.
func TestFailingWhileClosed(t *testing.T) {
	t.Parallel()
	for range 200 {
		var stopping atomic.Bool
		w, err := dedupe.NewWriter(dedupe.WriterConfig{Ledger: commitFunc(func(_ context.Context, b *dedupe.Batch) error {
			if stopping.Load() {
				return errors.New("disk broke")
			}
			for _, r := range b.Requests {
				r.Outcomes = make([]dedupe.Outcome, len(r.Items))
			}
			return nil
		})})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var callers sync.WaitGroup
		for range 8 {
			callers.Go(func() {
				for refused := 0; refused < 20; {
					err := w.Accept(t.Context(), &dedupe.Request{Items: make([]dedupe.Item, 1)})
					if err == nil {
						continue
					}
					if refused++; !errors.Is(err, dedupe.ErrFatal) && !errors.Is(err, dedupe.ErrClosed) {
						t.Errorf("got %v, want that the ledger failed or is closed", err)
					}
				}
			})
		}
		go func() {
			stopping.Store(true)
			cancel()
		}()
		if err := w.Run(ctx); err != nil && !errors.Is(err, dedupe.ErrFatal) {
			t.Errorf("run: %v", err)
		}
		callers.Wait()
	}
}

type commitFunc func(context.Context, *dedupe.Batch) error

func (f commitFunc) Commit(ctx context.Context, b *dedupe.Batch) error { return f(ctx, b) }

// Acts ride in the batches of requests and results, in their order, and share
// their fate.
func TestWriterRecords(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		var got [][]uint64
		fatal := errors.New("disk on fire")
		fail := false
		w := newWriter(t, dedupe.WriterConfig{Ledger: &fakeLedger{before: func(b *dedupe.Batch) error {
			var ns []uint64
			for _, a := range b.Acts {
				ns = append(ns, a.Number)
			}
			got = append(got, ns)
			if err := g.before(b); err != nil || !fail {
				return err
			}
			return fatal
		}}, MaxItems: 3})
		stop := run(t, w)
		ended := make(chan error, 8)
		record := func(ns ...uint64) {
			var acts []*dedupe.Act
			for _, n := range ns {
				acts = append(acts, &dedupe.Act{Kind: dedupe.ActOperated, Number: n})
			}
			go func() { ended <- w.Record(t.Context(), acts...) }()
			synctest.Wait()
		}
		if err := w.Record(t.Context()); err != nil {
			t.Errorf("nothing to record: %v", err)
		}
		record(1)
		record(2, 3)
		record(4, 5, 6, 7) // more than a batch
		for range 3 {
			g.step()
			synctest.Wait()
		}
		for range 3 {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
		if fmt.Sprint(got) != "[[1] [2 3] [4 5 6 7]]" {
			t.Errorf("batches hold %v", got)
		}
		fail = true
		record(8)
		g.step()
		if err := <-ended; !errors.Is(err, dedupe.ErrFatal) {
			t.Errorf("of a ledger that failed: %v", err)
		}
		if err := stop(); !errors.Is(err, fatal) {
			t.Errorf("the writer ends with %v", err)
		}
		if err := w.Record(t.Context(), &dedupe.Act{}); !errors.Is(err, dedupe.ErrFatal) {
			t.Errorf("after it failed: %v", err)
		}
	})
}
