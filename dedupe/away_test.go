package dedupe_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onceward/onceward/dedupe"
)

// remote is a ledger behind a network: it keeps what was written, and contact
// is lost as its test says.
type remote struct {
	mu      sync.Mutex
	down    bool
	cut     func() (lost, written bool) // of a commit while it is up; nil: none is lost
	lies    bool                        // Rejoin says of every lost batch that it was not written
	unsure  bool                        // what became of the last batch is for Rejoin to say
	written bool
	slow    int // commits that are given up from now on
	full    int // and those there is no room for
	events  map[string]int
	results map[uint64]int // by token
	acts    map[uint64]int // by number
	keys    map[dedupe.Key]dedupe.SyncKey
	looks   []time.Time
	commits int
}

func newRemote() *remote {
	return &remote{events: map[string]int{}, results: map[uint64]int{}, acts: map[uint64]int{}, keys: map[dedupe.Key]dedupe.SyncKey{}}
}

var errLost = fmt.Errorf("%w: connection lost", dedupe.ErrAway)

func (l *remote) Commit(_ context.Context, b *dedupe.Batch) error {
	<-time.After(time.Millisecond)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.commits++
	if l.unsure {
		panic("a batch before it is known what became of the last one")
	}
	if l.down {
		return errLost
	}
	if l.slow > 0 {
		l.slow--
		return fmt.Errorf("%w: lock time-out", dedupe.ErrOverloaded)
	}
	if l.full > 0 {
		l.full--
		return fmt.Errorf("%w: %w", dedupe.ErrOverloaded, dedupe.ErrDiskLow)
	}
	lost, write := false, true
	if l.cut != nil {
		lost, write = l.cut()
	}
	l.apply(b, write)
	if !lost {
		return nil
	}
	l.unsure, l.written = true, write
	return errLost
}

func (l *remote) apply(b *dedupe.Batch, write bool) {
	for _, r := range b.Requests {
		id := r.Items[0].Event.ID
		verdict := dedupe.New
		if l.events[id] > 0 {
			verdict = dedupe.Repeat
		}
		r.Outcomes = []dedupe.Outcome{{Verdict: verdict, ID: id}}
		if write {
			l.events[id]++
		}
	}
	for _, s := range b.Keys {
		put, err := s.Apply(time.Now(), func(k dedupe.Key) (dedupe.SyncKey, bool, error) { r, ok := l.keys[k]; return r, ok, nil })
		if err != nil {
			panic(err)
		}
		if put && write {
			l.keys[s.Key] = s.Record
		}
	}
	if !write {
		return
	}
	for _, r := range b.Results {
		l.results[r.Lease.Token]++
	}
	for _, a := range b.Acts {
		l.acts[a.Number]++
	}
}

func (l *remote) Rejoin(context.Context) (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.looks = append(l.looks, time.Now())
	if l.down {
		return false, errLost
	}
	written := l.unsure && l.written && !l.lies
	l.unsure = false
	return written, nil
}

func (l *remote) set(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f()
}

func result(token uint64) *dedupe.Result { return &dedupe.Result{Lease: dedupe.Lease{Token: token}} }

func claimOf(id string) *dedupe.KeyStep {
	return &dedupe.KeyStep{Kind: dedupe.StepClaim, Key: dedupe.KeyOf(dedupe.KindID, "api", "", id), Claim: &dedupe.KeyClaim{
		Source: "api", ID: id, Target: "pay", Downstream: id, Lease: time.Minute, Window: time.Hour}}
}

// While the ledger is away requests and claims are refused at once, and what
// has happened waits; it is written when the ledger is back, which nobody has
// to say.
func TestWriterAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newRemote()
		w := newWriter(t, dedupe.WriterConfig{Ledger: l})
		stop := run(t, w)
		l.set(func() { l.down = true })
		wantErr(t, "first request", w.Accept(t.Context(), request("a", 1)), dedupe.ErrAway)
		wantErr(t, "Away", w.Away(), dedupe.ErrAway)
		done := call(func() error { return w.Finish(t.Context(), result(1), result(2)) })
		told := call(func() error { return w.Record(t.Context(), &dedupe.Act{Kind: dedupe.ActOperated, Number: 7}) })
		synctest.Wait()
		began, commits := time.Now(), 0
		l.set(func() { commits = l.commits })
		for i := range 1000 {
			wantErr(t, "request", w.Accept(t.Context(), request(fmt.Sprint(i), 1)), dedupe.ErrAway)
		}
		wantErr(t, "claim", w.Step(t.Context(), claimOf("k")), dedupe.ErrAway)
		if time.Since(began) != 0 {
			t.Errorf("refusals took %v, want none", time.Since(began))
		}
		<-time.After(time.Hour)
		if answered(done) || answered(told) {
			t.Fatal("a result was answered while the ledger was away")
		}
		l.set(func() {
			if l.commits != commits {
				t.Errorf("%d commits were tried while the ledger was away", l.commits-commits)
			}
			if n := len(l.looks); n < 3600 || n > 7300 {
				t.Errorf("%d looks in an hour, want one in each half second to second", n)
			}
			l.down = false
		})
		wantErr(t, "results", <-done, nil)
		wantErr(t, "act", <-told, nil)
		wantErr(t, "request", w.Accept(t.Context(), request("a", 1)), nil)
		wantErr(t, "Away", w.Away(), nil)
		wantErr(t, "stop", stop(), nil)
		if l.results[1] != 1 || l.results[2] != 1 || l.acts[7] != 1 || l.events["a"] != 1 {
			t.Errorf("written: results %v, acts %v, events %v; want each once", l.results, l.acts, l.events)
		}
	})
}

// A batch of which nobody knows what became is none that may be answered.
// What it held of the past is written once, whichever way it went.
func TestWriterLostCommit(t *testing.T) {
	for _, written := range []bool{true, false} {
		t.Run(fmt.Sprint("written ", written), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newRemote()
				w := newWriter(t, dedupe.WriterConfig{Ledger: l})
				stop := run(t, w)
				claim := claimOf("first")
				wantErr(t, "claim", w.Step(t.Context(), claim), nil)
				before := call(func() error { return w.Record(t.Context(), &dedupe.Act{Kind: dedupe.ActOperated, Number: 1}) })
				synctest.Wait() // it is being written: what comes now is the next batch
				req := request("a", 1)
				answer := &dedupe.KeyStep{Kind: dedupe.StepRelease, Key: claim.Key, Token: claim.Record.Token, Detail: "none"}
				accepted := accept(t, w, req)
				finished := call(func() error { return w.Finish(t.Context(), result(1)) })
				recorded := call(func() error { return w.Record(t.Context(), &dedupe.Act{Kind: dedupe.ActOperated, Number: 7}) })
				concluded := call(func() error { return w.Step(t.Context(), answer) })
				claimed := call(func() error { return w.Step(t.Context(), claimOf("second")) })
				synctest.Wait()
				l.set(func() {
					l.cut = func() (bool, bool) {
						if l.acts[1] == 0 {
							return false, true
						}
						l.down = true
						return true, written
					}
				})
				wantErr(t, "batch before", <-before, nil)
				wantErr(t, "request", <-accepted, dedupe.ErrAway)
				wantErr(t, "second claim", <-claimed, dedupe.ErrAway)
				if req.Outcomes != nil {
					t.Errorf("outcomes of a lost batch: %v", req.Outcomes)
				}
				<-time.After(time.Minute)
				if answered(finished) || answered(recorded) || answered(concluded) {
					t.Fatal("answered before it was known what became of the batch")
				}
				l.set(func() { l.down, l.cut = false, nil })
				wantErr(t, "result", <-finished, nil)
				wantErr(t, "act", <-recorded, nil)
				wantErr(t, "conclusion", <-concluded, nil)
				if answer.Verdict != dedupe.KeyDone {
					t.Errorf("conclusion: verdict %v, want done", answer.Verdict)
				}
				l.set(func() {
					if l.results[1] != 1 || l.acts[7] != 1 {
						t.Errorf("result written %d times, act %d times; want once", l.results[1], l.acts[7])
					}
				})
				again := request("a", 1)
				wantErr(t, "sent again", w.Accept(t.Context(), again), nil)
				want := dedupe.New
				if written {
					want = dedupe.Repeat
				}
				if again.Outcomes[0].Verdict != want {
					t.Errorf("sent again: %v, want %v", again.Outcomes[0].Verdict, want)
				}
				// The second claim's caller was told that there is none.
				retry := claimOf("second")
				wantErr(t, "claimed again", w.Step(t.Context(), retry), nil)
				if retry.Verdict != dedupe.KeyClaimed {
					t.Errorf("claimed again: verdict %v, want claimed", retry.Verdict)
				}
				wantErr(t, "stop", stop(), nil)
			})
		})
	}
}

// Histories of outages: no result, act or acknowledged request is lost, and
// none is written twice. An engine that forgets what it wrote is noticed.
func TestWriterOutages(t *testing.T) {
	if lost, twice := outages(t, 1, true); twice == 0 || lost != 0 {
		t.Errorf("with an engine that forgets: %d lost, %d twice; want some twice", lost, twice)
	}
	for seed := range uint64(20) {
		if lost, twice := outages(t, seed, false); lost != 0 || twice != 0 {
			t.Errorf("seed %d: %d lost, %d written twice", seed, lost, twice)
		}
	}
}

func outages(t *testing.T, seed uint64, lies bool) (lost, twice int) {
	synctest.Test(t, func(t *testing.T) {
		rnd, pauses := rand.New(rand.NewPCG(seed, 9)), rand.New(rand.NewPCG(seed, 10))
		l := newRemote()
		l.lies = lies
		l.cut = func() (bool, bool) { n := rnd.IntN(10); return n < 3, n != 0 }
		w := newWriter(t, dedupe.WriterConfig{Ledger: l, MaxItems: 7})
		stop := run(t, w)
		var wg sync.WaitGroup
		var mu sync.Mutex
		acked := map[string]bool{}
		for c := range 20 {
			wg.Go(func() {
				for i := range 20 {
					n := uint64(c*100 + i)
					if err := w.Finish(t.Context(), result(n)); err != nil {
						t.Errorf("seed %d: result: %v", seed, err)
					}
					if err := w.Record(t.Context(), &dedupe.Act{Kind: dedupe.ActOperated, Number: n}); err != nil {
						t.Errorf("seed %d: act: %v", seed, err)
					}
					id := fmt.Sprint(n)
					if err := w.Accept(t.Context(), request(id, 1)); err == nil {
						mu.Lock()
						acked[id] = true
						mu.Unlock()
					} else if !errors.Is(err, dedupe.ErrAway) && !errors.Is(err, dedupe.ErrOverloaded) {
						t.Errorf("seed %d: request: %v", seed, err)
					}
				}
			})
		}
		ended := make(chan struct{})
		go func() { wg.Wait(); close(ended) }()
		for up := false; ; up = !up {
			select {
			case <-ended:
			case <-time.After(time.Duration(1+pauses.IntN(3000)) * time.Millisecond):
				l.set(func() { l.down, l.slow = !up, pauses.IntN(3) })
				continue
			}
			break
		}
		l.set(func() { l.down = false })
		wantErr(t, "stop", stop(), nil)
		for n := range uint64(2000) {
			if n%100 >= 20 {
				continue
			}
			for _, times := range []int{l.results[n], l.acts[n]} {
				lost, twice = lost+max(1-times, 0), twice+max(times-1, 0)
			}
		}
		for id := range acked {
			if l.events[id] == 0 {
				lost++
			}
		}
	})
	return lost, twice
}

// A batch that the ledger was too slow for is no outage: its requests are told
// so, what comes next is taken, and what has happened is tried again.
func TestWriterSlowLedger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newRemote()
		w := newWriter(t, dedupe.WriterConfig{Ledger: l})
		stop := run(t, w)
		l.set(func() { l.slow = 2 })
		finished := call(func() error { return w.Finish(t.Context(), result(1)) })
		synctest.Wait()
		wantErr(t, "request", w.Accept(t.Context(), request("a", 1)), dedupe.ErrOverloaded)
		wantErr(t, "Away", w.Away(), nil)
		wantErr(t, "result", <-finished, nil)
		wantErr(t, "request", w.Accept(t.Context(), request("b", 1)), nil)
		wantErr(t, "stop", stop(), nil)
		if l.results[1] != 1 {
			t.Errorf("result written %d times, want once", l.results[1])
		}
	})
}

// A ledger without room for results says so until it has some; one that is only
// slow does not.
func TestWriterFull(t *testing.T) {
	for full, slow := range map[int]int{0: 3, 3: 0} {
		synctest.Test(t, func(t *testing.T) {
			l := newRemote()
			w := newWriter(t, dedupe.WriterConfig{Ledger: l})
			stop := run(t, w)
			l.set(func() { l.full, l.slow = full, slow })
			finished := call(func() error { return w.Finish(t.Context(), result(1)) })
			time.Sleep(2 * time.Millisecond) // synthetic: the first try is over
			if got, want := w.Full(), full > 0; got != want {
				t.Errorf("full %d, slow %d: Full is %v", full, slow, got)
			}
			wantErr(t, "result", <-finished, nil)
			if w.Full() {
				t.Error("Full after a batch was written")
			}
			wantErr(t, "stop", stop(), nil)
		})
	}
}

// A stop ends although the ledger stays away, and nobody is told that
// something was written.
func TestWriterStopsWhileAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newRemote()
		w := newWriter(t, dedupe.WriterConfig{Ledger: l})
		stop := run(t, w)
		l.set(func() { l.down = true })
		inBatch := call(func() error { return w.Finish(t.Context(), result(1)) })
		<-time.After(time.Second)
		waiting := call(func() error { return w.Finish(t.Context(), result(2)) })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		wantErr(t, "a caller without patience", w.Finish(ctx, result(3)), dedupe.ErrAway)
		wantErr(t, "stop", stop(), nil)
		wantErr(t, "result of the batch", <-inBatch, dedupe.ErrAway)
		wantErr(t, "result that waited", <-waiting, dedupe.ErrAway)
		wantErr(t, "after the stop", w.Finish(t.Context(), result(4)), dedupe.ErrClosed)
	})
}

// The embedded engine's promise: a ledger that can't be away has failed.
func TestWriterAwayIsFatalWithoutRejoin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWriter(t, dedupe.WriterConfig{Ledger: commitFunc(func(context.Context, *dedupe.Batch) error { return errLost })})
		stop := run(t, w)
		wantErr(t, "request", w.Accept(t.Context(), request("a", 1)), dedupe.ErrFatal)
		wantErr(t, "run", stop(), dedupe.ErrFatal)
	})
}

// What a name that was taken meanwhile means is found out when contact is back:
// the process must end.
func TestWriterRejoinFatal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWriter(t, dedupe.WriterConfig{Ledger: taken{}})
		stop := run(t, w)
		results := call(func() error { return w.Finish(t.Context(), result(1)) })
		wantErr(t, "result", <-results, dedupe.ErrFatal)
		wantErr(t, "request", w.Accept(t.Context(), request("a", 1)), dedupe.ErrFatal)
		wantErr(t, "run", stop(), dedupe.ErrFatal)
	})
}

type taken struct{}

func (taken) Commit(context.Context, *dedupe.Batch) error { return errLost }
func (taken) Rejoin(context.Context) (bool, error)        { return false, dedupe.ErrFatal }

// Looks are spread, so that gateways don't come back as one.
func TestWriterLooksAtRandom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newRemote()
		l.down = true
		w := newWriter(t, dedupe.WriterConfig{Ledger: l})
		stop := run(t, w)
		wantErr(t, "request", w.Accept(t.Context(), request("a", 1)), dedupe.ErrAway)
		<-time.After(time.Minute)
		wantErr(t, "stop", stop(), nil)
		var gaps []time.Duration
		for i := 1; i < len(l.looks); i++ {
			gaps = append(gaps, l.looks[i].Sub(l.looks[i-1]))
		}
		if most := slices.Max(gaps); most > time.Second {
			t.Errorf("longest pause between two looks: %v, want at most 1 s", most)
		}
		slices.Sort(gaps)
		if n := len(slices.Compact(gaps)); n < len(l.looks)/2 {
			t.Errorf("%d different pauses of %d", n, len(l.looks)-1)
		}
	})
}

var _ dedupe.Rejoiner = (*remote)(nil)
