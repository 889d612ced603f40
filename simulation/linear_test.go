package simulation

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/dedupe/badgerdb"
	"github.com/onceward/onceward/dedupe/ledgertest"
	"github.com/onceward/onceward/event"
)

// call is one operation of a history: an event brought to the ledger, or,
// where leap is set, time that passes.
type call struct {
	leap bool
	id   int
	body byte
}

// told is what an operation returned.
type told struct {
	verdict dedupe.Verdict
	ref     event.Ref
}

// claimed is what the model knows of one ID.
type claimed struct {
	leaps int // so far
	held  bool
	ref   event.Ref
	body  byte
	since int // leaps at the claim
}

// leap is so long that a claim ends with the second of them.
const leap = window*2/3 + time.Second

// admission is the model: an ID is new when no claim of it stands, a repeat or
// a conflict of that claim otherwise, each at one moment between call and
// return.
var admission = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		out := make([][]porcupine.Operation, linearIDs)
		for _, op := range history {
			for id := range out {
				if c := op.Input.(call); c.leap || c.id == id {
					out[id] = append(out[id], op)
				}
			}
		}
		return out
	},
	Init: func() any { return claimed{} },
	Step: func(state, input, output any) (bool, any) {
		s, in, out := state.(claimed), input.(call), output.(told)
		if in.leap {
			s.leaps++
			return true, s
		}
		if !s.held || s.leaps-s.since >= 2 {
			return out.verdict == dedupe.New && out.ref != s.ref,
				claimed{leaps: s.leaps, held: true, ref: out.ref, body: in.body, since: s.leaps}
		}
		want := dedupe.Repeat
		if in.body != s.body {
			want = dedupe.Differs
		}
		return out == told{want, s.ref}, s
	},
}

const (
	linearIDs     = 3
	linearClients = 8
	linearCalls   = 25
)

// accepter is how a history reaches a ledger.
type accepter func(ctx context.Context, r *dedupe.Request) error

// history drives clients on few IDs at once, and time with them.
func history(t *testing.T, accept accepter, clock *ledgertest.Clock, seed uint64) []porcupine.Operation {
	t.Helper()
	var tick atomic.Int64
	var mu sync.Mutex
	var all []porcupine.Operation
	do := func(client int, in call, f func() told) {
		start := tick.Add(1)
		out := f()
		op := porcupine.Operation{ClientId: client, Input: in, Call: start, Output: out, Return: tick.Add(1)}
		mu.Lock()
		defer mu.Unlock()
		all = append(all, op)
	}
	var clients sync.WaitGroup
	for c := range linearClients {
		clients.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(c)))
			for i := range linearCalls {
				if c == 0 && i%6 == 5 {
					do(c, call{leap: true}, func() told { clock.Advance(leap); return told{} })
					continue
				}
				in := call{id: r.IntN(linearIDs), body: "aab"[r.IntN(3)]}
				do(c, in, func() told { return bring(t, accept, clock, in) })
			}
		})
	}
	clients.Wait()
	slices.SortFunc(all, func(a, b porcupine.Operation) int { return int(a.Call - b.Call) })
	return all
}

func bring(t *testing.T, accept accepter, clock *ledgertest.Clock, in call) told {
	id := fmt.Sprint("id-", in.id)
	req := &dedupe.Request{Body: []byte{in.body}, Items: []dedupe.Item{{
		Event: event.Event{
			Source: "shop", ID: id, Method: "POST", ReceivedAt: clock.Now(),
			BodyHash: event.HashOf([]byte{in.body}), Body: event.Slice{Length: 1},
		},
		RawID: id, HasClaim: true, Claim: dedupe.KeyOf(dedupe.KindID, "shop", "", id), Window: window, Conflict: dedupe.ConflictAck,
	}}}
	if err := errors.Join(accept(t.Context(), req), req.Err); err != nil {
		t.Errorf("accept: %v", err)
		return told{}
	}
	return told{req.Outcomes[0].Verdict, req.Outcomes[0].Ref}
}

// behind starts a writer before a ledger.
func behind(t *testing.T, l dedupe.Committer) accepter {
	t.Helper()
	w, err := dedupe.NewWriter(dedupe.WriterConfig{Ledger: l})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("writer: %v", err)
		}
	})
	return w.Accept
}

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func onMemory(t *testing.T) (dedupe.Ledger, *ledgertest.Clock) {
	clock := ledgertest.NewClock(noon)
	return ledgertest.NewMemory(ledgertest.Config{Now: clock.Now, Retention: forever}), clock
}

func onBadger(t *testing.T) (dedupe.Ledger, *ledgertest.Clock) {
	t.Helper()
	clock := ledgertest.NewClock(noon)
	db, err := badgerdb.Open(badgerdb.Config{Dir: filepath.Join(t.TempDir(), "data"), Now: clock.Now, Reserve: 1 << 20, Ballast: -1, MemTable: 8 << 20})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- db.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := errors.Join(<-done, db.Close()); err != nil {
			t.Errorf("ledger: %v", err)
		}
	})
	<-db.Rebuilt()
	return db, clock
}

// TestAdmissionIsLinearizable: whatever clients do at once, the answers are
// those of one after the other.
func TestAdmissionIsLinearizable(t *testing.T) {
	for _, tt := range []struct {
		name      string
		open      func(*testing.T) (dedupe.Ledger, *ledgertest.Clock)
		histories int
	}{
		{"memory", onMemory, 60},
		{"badger", onBadger, 12},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			n := tt.histories
			if testing.Short() {
				n /= 4
			}
			var fresh, repeats, conflicts int
			for seed := range uint64(n) {
				t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
					l, clock := tt.open(t)
					h := history(t, behind(t, l), clock, seed)
					if !porcupine.CheckOperations(admission, h) {
						t.Errorf("no order of the operations explains the answers:\n%v", h)
					}
					for _, op := range h {
						switch op.Output.(told).verdict {
						case dedupe.New:
							fresh++
						case dedupe.Repeat:
							repeats++
						case dedupe.Differs:
							conflicts++
						}
					}
				})
			}
			if fresh < n*linearIDs || repeats < n || conflicts < n {
				t.Errorf("new %d, repeats %d, conflicts %d in %d histories: that proves little", fresh, repeats, conflicts, n)
			}
		})
	}
}

// TestAdmissionControls: an admission that looks for the claim before its
// commit, and one whose claims of a batch don't see each other, are found out.
func TestAdmissionControls(t *testing.T) {
	for _, tt := range []struct {
		name   string
		accept func(*testing.T, dedupe.Ledger) accepter
	}{
		{"reads the claim outside the commit", outside},
		{"does not see what is in flight", blind},
	} {
		t.Run(tt.name, func(t *testing.T) {
			const most = 200
			for seed := range uint64(most) {
				l, clock := onMemory(t)
				if !porcupine.CheckOperations(admission, history(t, tt.accept(t, l), clock, seed)) {
					fmt.Fprintf(os.Stderr, "control, an admission that %s: no order explains history %d\n", tt.name, seed)
					return
				}
			}
			t.Errorf("an admission that %s passed in %d histories", tt.name, most)
		})
	}
}

// outside looks the ID up, and only then has it committed, without a claim.
func outside(t *testing.T, l dedupe.Ledger) accepter {
	write := behind(t, l)
	return func(ctx context.Context, r *dedupe.Request) error {
		it := &r.Items[0]
		refs, err := l.Lookup(ctx, []string{it.Event.Source}, it.Event.ID)
		if err != nil {
			return err
		}
		if len(refs) > 0 {
			rec, err := l.Get(ctx, refs[0])
			if err != nil {
				return err
			}
			if l.Now().Sub(refs[0].Time()) < window {
				v := dedupe.Repeat
				if rec.Event.BodyHash != it.Event.BodyHash {
					v = dedupe.Differs
				}
				r.Outcomes = []dedupe.Outcome{{Verdict: v, Ref: refs[0]}}
				return nil
			}
		}
		it.HasClaim = false
		return write(ctx, r)
	}
}

// blind commits every request of a batch as if the others were not there: the
// first of each ID decides, and the rest are accepted beside it.
func blind(t *testing.T, l dedupe.Ledger) accepter { return behind(t, blindLedger{l}) }

type blindLedger struct{ dedupe.Ledger }

func (l blindLedger) Commit(ctx context.Context, b *dedupe.Batch) error {
	seen := map[dedupe.Key]bool{}
	for _, r := range b.Requests {
		it := &r.Items[0]
		if seen[it.Claim] {
			it.HasClaim = false
		}
		seen[it.Claim] = true
	}
	return l.Ledger.Commit(ctx, b)
}
