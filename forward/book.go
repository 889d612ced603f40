package forward

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/onceward/onceward/dedupe"
)

// The kinds of notes that the forwarder keeps, by target name.
const (
	noteTarget  = "target"  // a control
	noteBreaker = "breaker" // a breakerNote
)

const (
	// rereadAlone and rereadShared are how often the forwarder looks whether
	// another gateway on the same ledger paused or resumed a target, and of a
	// fleet whether one's breaker turned.
	rereadAlone  = 10 * time.Second
	rereadShared = 2 * time.Second
	// retryNote is how long a note that couldn't be written waits.
	retryNote = time.Second
	// staleTries bounds how often an act starts anew because of others.
	staleTries = 8
)

// book keeps, in the ledger's notes, what outlives the process: which targets
// are paused, and the breakers.
type book struct {
	ledger dedupe.Notebook
	log    *slog.Logger
	shared bool // with other gateways
	every  time.Duration

	// acts makes acts on controls and breakers serial, through the ledger and
	// into the gates.
	acts sync.Mutex

	// mu guards all below; held for bookkeeping only.
	mu       sync.Mutex
	controls map[string]dedupe.Note
	breakers map[string]dedupe.Note
	dirty    map[string]*gate // breakers to be written
	pauses   map[string]act   // pauses that took effect and are to be written
	wake     chan struct{}    // holds a value when there is something to write
}

// act is who did something, when and why.
type act struct {
	at moment
	by dedupe.By
}

func newBook(ledger dedupe.Notebook, shared bool, log *slog.Logger) *book {
	every := rereadAlone
	if shared {
		every = rereadShared
	}
	return &book{
		ledger: ledger, log: log, shared: shared, every: every, controls: map[string]dedupe.Note{}, breakers: map[string]dedupe.Note{},
		dirty: map[string]*gate{}, pauses: map[string]act{}, wake: make(chan struct{}, 1),
	}
}

// open reads what was kept. It must come before the first attempt: a target
// that is paused is not attempted.
func (b *book) open(ctx context.Context) error {
	for kind, into := range map[string]map[string]dedupe.Note{noteTarget: b.controls, noteBreaker: b.breakers} {
		notes, err := b.ledger.Notes(ctx, kind)
		if err != nil {
			return fmt.Errorf("read what is kept of targets: %w", err)
		}
		b.mu.Lock()
		for _, n := range notes {
			into[n.Name] = n
		}
		b.mu.Unlock()
	}
	return nil
}

// apply puts what is kept of a target into its gate.
func (b *book) apply(name string, g *gate) {
	b.mu.Lock()
	target, breaker := b.controls[name], b.breakers[name]
	b.mu.Unlock()
	c, err := parseControl(target.Value)
	if err != nil {
		b.log.Error("what is kept of a target can't be read: it runs", "target", name, "error", err)
	}
	g.restore(c, breaker.Value, func(err error) {
		b.log.Error("what is kept of a breaker can't be read: it is closed", "target", name, "error", err)
	})
}

// direct changes a target's control durably, then in its gate. change reports
// whether there is anything to change, and may be called several times.
func (b *book) direct(ctx context.Context, name string, g *gate, change func(*control) bool) error {
	b.acts.Lock()
	defer b.acts.Unlock()
	for range staleTries {
		n, err := b.ledger.Note(ctx, noteTarget, name)
		if err != nil && !errors.Is(err, dedupe.ErrNotFound) {
			return fmt.Errorf("control target %q: %w", name, err)
		}
		c, err := parseControl(n.Value)
		if err != nil {
			c, err = control{}, nil // unreadable: replaced
		}
		if change(&c) {
			n, err = b.put(ctx, n, name, &c)
		}
		if errors.Is(err, dedupe.ErrStale) {
			continue
		}
		if err != nil {
			return fmt.Errorf("control target %q: %w", name, err)
		}
		b.mu.Lock()
		b.controls[name] = n
		delete(b.pauses, name) // this act is later
		b.mu.Unlock()
		g.direct(c)
		return nil
	}
	return fmt.Errorf("control target %q: %w", name, dedupe.ErrStale)
}

func (b *book) put(ctx context.Context, n dedupe.Note, name string, c *control) (dedupe.Note, error) {
	value, err := json.Marshal(c)
	if err != nil {
		return n, fmt.Errorf("encode: %w", err)
	}
	n.Kind, n.Name, n.Value = noteTarget, name, value
	return b.ledger.PutNote(ctx, n)
}

func (b *book) remember(in map[string]dedupe.Note, name string, n dedupe.Note) {
	b.mu.Lock()
	in[name] = n
	b.mu.Unlock()
}

// save has a breaker written soon.
func (b *book) save(name string, g *gate) {
	b.mu.Lock()
	b.dirty[name] = g
	b.mu.Unlock()
	b.nudge()
}

// savePause has a pause written soon that took effect already.
func (b *book) savePause(name string, a act) {
	b.mu.Lock()
	b.pauses[name] = a
	b.mu.Unlock()
	b.nudge()
}

func (b *book) nudge() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// run writes what is to be written and reads what others wrote, until ctx
// ends. find gives a target's gate, nil for none.
func (b *book) run(ctx context.Context, find func(name string) *gate) {
	timer := time.NewTimer(b.every)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-b.wake:
			if !b.flush(ctx, find) {
				timer.Reset(retryNote)
			}
		case <-timer.C:
			b.flush(ctx, find)
			b.refresh(ctx, find)
			timer.Reset(b.every)
		}
	}
}

// flush writes everything that waits, false when something is left.
func (b *book) flush(ctx context.Context, find func(string) *gate) bool {
	b.mu.Lock()
	dirty, pauses := b.dirty, maps.Clone(b.pauses)
	b.dirty = map[string]*gate{}
	b.mu.Unlock()
	done := true
	for name, g := range dirty {
		if err := b.writeBreaker(ctx, name, g); err != nil {
			b.log.Warn("breaker not kept", "target", name, "error", err)
			b.mu.Lock()
			if b.dirty[name] == nil { // else it changed meanwhile
				b.dirty[name] = g
			}
			b.mu.Unlock()
			done = false
		}
	}
	for name, a := range pauses {
		g := find(name)
		if g == nil {
			continue
		}
		err := b.direct(ctx, name, g, func(c *control) bool { return b.waits(name) && c.pause(a.at, a.by) })
		if err != nil {
			b.log.Warn("pause not kept", "target", name, "error", err)
			done = false
		}
	}
	return done
}

// waits reports whether a pause still has to be written.
func (b *book) waits(name string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, ok := b.pauses[name]
	return ok
}

// writeBreaker keeps a breaker, or takes up what another gateway kept meanwhile.
func (b *book) writeBreaker(ctx context.Context, name string, g *gate) error {
	b.acts.Lock()
	defer b.acts.Unlock()
	for range staleTries {
		mine := g.kept()
		err := b.putBreaker(ctx, name, mine)
		if !errors.Is(err, dedupe.ErrStale) {
			return err
		}
		theirs, err := b.reread(ctx, name)
		if err != nil {
			return err
		}
		if mine.yields(&theirs) {
			g.adopt(theirs)
			return nil
		}
	}
	return dedupe.ErrStale
}

// putBreaker writes a breaker over what is known to be kept. b.acts is held.
func (b *book) putBreaker(ctx context.Context, name string, state breakerNote) error {
	value, err := json.Marshal(state)
	if err != nil {
		return fmt.Errorf("encode breaker: %w", err)
	}
	b.mu.Lock()
	n := b.breakers[name]
	b.mu.Unlock()
	n.Kind, n.Name, n.Value = noteBreaker, name, value
	if n, err = b.ledger.PutNote(ctx, n); err != nil {
		return err
	}
	b.remember(b.breakers, name, n)
	return nil
}

// reread reads what is kept of a breaker; what can't be read is a closed one.
// b.acts is held.
func (b *book) reread(ctx context.Context, name string) (state breakerNote, err error) {
	n, err := b.ledger.Note(ctx, noteBreaker, name)
	if err != nil && !errors.Is(err, dedupe.ErrNotFound) {
		return state, err
	}
	b.remember(b.breakers, name, n)
	state, _ = parseBreaker(n.Value)
	return state, nil
}

// claim makes the probe that is due this gateway's: the others see the next one
// due only at until. When another gateway was first, or the ledger is away, the
// probe is not to be made.
func (b *book) claim(ctx context.Context, name string, g *gate, until time.Time) bool {
	if !b.shared {
		return true
	}
	b.acts.Lock()
	defer b.acts.Unlock()
	mine := g.kept()
	mine.ProbeAt = until
	err := b.putBreaker(ctx, name, mine)
	if errors.Is(err, dedupe.ErrStale) {
		var theirs breakerNote
		if theirs, err = b.reread(ctx, name); err == nil {
			g.adopt(theirs)
			return false
		}
	}
	if err != nil && ctx.Err() == nil {
		b.log.Warn("probe not claimed", "target", name, "error", err)
	}
	return err == nil
}

// refresh takes over what another gateway decided about targets, and saw of
// them.
func (b *book) refresh(ctx context.Context, find func(string) *gate) {
	b.refreshControls(ctx, find)
	if b.shared {
		b.refreshBreakers(ctx, find)
	}
}

func (b *book) refreshBreakers(ctx context.Context, find func(string) *gate) {
	b.acts.Lock()
	defer b.acts.Unlock()
	notes, err := b.ledger.Notes(ctx, noteBreaker)
	if err != nil {
		if ctx.Err() == nil {
			b.log.Warn("read breakers of targets", "error", err)
		}
		return
	}
	for _, n := range notes {
		b.mu.Lock()
		_, waits := b.dirty[n.Name]
		skip := waits || n.Version <= b.breakers[n.Name].Version // what is to be written meets it there
		b.mu.Unlock()
		if skip {
			continue
		}
		b.remember(b.breakers, n.Name, n)
		state, err := parseBreaker(n.Value)
		if g := find(n.Name); g != nil && err == nil {
			g.adopt(state)
		}
	}
}

func (b *book) refreshControls(ctx context.Context, find func(string) *gate) {
	notes, err := b.ledger.Notes(ctx, noteTarget)
	if err != nil {
		if ctx.Err() == nil {
			b.log.Warn("read controls of targets", "error", err)
		}
		return
	}
	b.acts.Lock()
	defer b.acts.Unlock()
	for _, n := range notes {
		b.mu.Lock()
		known := b.controls[n.Name].Version
		b.mu.Unlock()
		if n.Version <= known {
			continue
		}
		b.remember(b.controls, n.Name, n)
		c, err := parseControl(n.Value)
		if g := find(n.Name); g != nil && err == nil {
			g.direct(c)
		}
	}
}
