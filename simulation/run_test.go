package simulation

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/dedupe/ledgertest"
	"github.com/onceward/onceward/event"
)

// memory is the model ledger with the time that commits take.
type memory struct {
	*ledgertest.Memory
	w    *world
	cfg  ledgertest.Config
	plan plan
	n    *atomic.Int64 // commits so far, of all lives
}

// Commit takes a while before and after what it does, so that kills come in
// between.
func (m *memory) Commit(ctx context.Context, b *dedupe.Batch) error {
	r := m.plan.draws("commit", fmt.Sprint(m.n.Add(1)))
	time.Sleep(time.Duration(r.IntN(20)) * time.Millisecond)
	err := m.Memory.Commit(ctx, b)
	time.Sleep(time.Duration(r.IntN(5)) * time.Millisecond)
	return err
}

func (m *memory) revive() engine {
	cfg := m.cfg
	cfg.Now = m.w.steady()
	return &memory{Memory: m.ReopenAt(cfg.Now), w: m.w, cfg: cfg, plan: m.plan, n: m.n}
}
func (m *memory) lowDisk(low bool)  { m.SetDiskLow(low) }
func (m *memory) breakNext(e error) { m.FailNext(e) }

// forever is a retention that no run outlasts.
var forever = dedupe.Retention{Body: 1e5 * time.Hour, Meta: 1e5 * time.Hour, Audit: 1e5 * time.Hour}

func newMemory(w *world) (engine, error) {
	cfg := ledgertest.Config{Now: w.steady(), Retention: forever, Writer: 7}
	return &memory{Memory: ledgertest.NewMemory(cfg), w: w, cfg: cfg, plan: w.plan, n: new(atomic.Int64)}, nil
}

// outcome is what became of one plan.
type outcome struct {
	faults            []string
	story             []string
	accepted, repeats int
	arrivals, kills   int
}

// play carries a plan out in a bubble and judges it.
func play(t *testing.T, p plan, open func(*world) (engine, error)) (out outcome) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{plan: p, town: newTown(p), replays: map[string]int{}, cancels: map[string]int{}}
		if err := w.play(open); err != nil {
			w.fault("%v", err)
		}
		out = outcome{faults: w.faults, story: w.story, kills: w.kills, arrivals: len(w.town.log)}
		for _, r := range w.requests {
			if r.repeat {
				out.repeats++
			} else if r.status/100 == 2 {
				out.accepted++
			}
		}
	})
	return out
}

func (w *world) play(open func(*world) (engine, error)) error {
	l, err := open(w)
	if err != nil {
		return err
	}
	if err := w.boot(l); err != nil {
		return err
	}
	defer w.town.close()
	for _, s := range w.plan.Steps {
		w.story = append(w.story, fmt.Sprintf("%s  %s", w.now.ledger.Now().UTC().Format("02 15:04:05.000"), s))
		if err := w.step(s); err != nil {
			w.now.stop(true)
			return errors.Join(fmt.Errorf("%s: %w", s, err), w.now.ledger.Close())
		}
	}
	err = w.settle()
	w.now.stop(false)
	if err == nil {
		err = w.judge()
	}
	return errors.Join(err, w.now.ledger.Close())
}

func (w *world) step(s step) error {
	n := w.now
	switch s.Kind {
	case stepSend:
		w.sendAll(n, s)
	case stepForge:
		w.forge(n, s)
	case stepWait:
		time.Sleep(s.Time)
	case stepJump:
		w.skew.Add(int64(s.Time))
	case stepMood:
		w.town.setMood(s.Target, s.Mood)
	case stepKill:
		return w.kill()
	case stepRestart:
		return w.restart()
	case stepDisk:
		n.ledger.lowDisk(s.ID%2 == 0)
	case stepBroken:
		n.ledger.breakNext(errors.New("disk broke"))
		w.sendAll(n, s)
		return w.kill()
	case stepReload:
		return w.reload()
	case stepReplay, stepCancel:
		return w.operate(n, s)
	case stepExpire:
		_, err := n.ledger.Expire(context.Background())
		return err
	}
	return nil
}

// sendAll sends one request and waits for its answer, or several at once and
// does not.
func (w *world) sendAll(n *life, s step) {
	quiet := s.Count == 1 && w.flying.Load() == 0 && !n.ledger.Now().Before(w.held) && w.closed(n, s)
	for range s.Count {
		w.flying.Add(1)
		w.senders.Go(func() {
			defer w.flying.Add(-1)
			w.send(n, s, quiet)
		})
	}
	if s.Count == 1 {
		w.senders.Wait()
	}
}

// closed reports whether no event of the step's ID has an open delivery.
func (w *world) closed(n *life, s step) bool {
	refs, err := n.ledger.Lookup(context.Background(), []string{sourceNames[s.Source]}, idOf(s.Source, s.ID))
	if err != nil {
		return false
	}
	for _, ref := range refs {
		if rec, err := n.ledger.Get(context.Background(), ref); err != nil || rec.Status == event.StatusPending {
			return false
		}
	}
	return true
}

// operate replays or cancels what there is of an ID.
func (w *world) operate(n *life, s step) error {
	refs, err := n.ledger.Lookup(context.Background(), []string{sourceNames[s.Source]}, idOf(s.Source, s.ID))
	if err != nil {
		return err
	}
	for _, ref := range refs {
		if s.Kind == stepCancel {
			k, err := n.ledger.Cancel(context.Background(), ref, "", dedupe.By{})
			if err != nil {
				return err
			}
			w.cancels[ref.String()] += k
			continue
		}
		c, err := n.ledger.Replay(context.Background(), dedupe.Replay{Selection: dedupe.Selection{Ref: ref}})
		if err != nil {
			return err
		}
		w.replays[ref.String()] += c.Opened
	}
	return nil
}

// settle heals everything and waits until nothing is open.
func (w *world) settle() error {
	w.senders.Wait()
	for i := range targetNames {
		w.town.setMood(i, mood{})
	}
	w.now.ledger.lowDisk(false)
	if !w.setting().late {
		if err := w.reload(); err != nil {
			return err
		}
	}
	for range 200 {
		st, err := w.now.ledger.Stats(context.Background())
		if err != nil {
			return err
		}
		open := int64(0)
		for _, t := range st.Targets {
			open += t.Pending + t.Leased
		}
		if open == 0 && !st.Rebuilding {
			return nil
		}
		time.Sleep(time.Minute)
	}
	return errors.New("deliveries are open hours after everything was healed")
}
