package audit

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/onceward/onceward/dedupe"
)

// LogLedger is what the transparency log needs of a ledger.
type LogLedger interface {
	dedupe.Acts
	dedupe.Notebook
}

// LogConfig is what a Log is made of.
type LogConfig struct {
	Ledger LogLedger // required
	// Key signs checkpoints. Without one the log can be read and nothing is
	// signed.
	Key *Key
	// Witness gets every checkpoint; nil is none.
	Witness Witness
	// Every is how often a checkpoint is made while there is something new.
	// Default one minute.
	Every      time.Duration
	Now        func() time.Time // default time.Now
	Log        *slog.Logger
	Registerer prometheus.Registerer // nil: instruments are kept to ourselves
}

// Log is the transparency log over the acts of a ledger: a Merkle tree as in
// RFC 6962 for each writer, and signed checkpoints of it. It reads what is
// committed and is never waited for by what commits. It is safe for
// concurrent use.
type Log struct {
	cfg LogConfig // read-only after NewLog
	met *logMetrics

	// mu guards the rest, and is held while trees are brought up to date and
	// notes are written.
	mu    sync.Mutex
	trees map[uint64]*tree
	last  map[uint64]Checkpoint // the newest of each log
	fresh []Checkpoint          // not yet shown to the witness

	// telling lets one goroutine at a time talk to the witness, which may take
	// its time: never under mu.
	telling sync.Mutex

	verifying verifying

	trouble atomic.Pointer[Trouble] // nil while the log can be signed
	torn    atomic.Pointer[Trouble] // of a log that nobody goes on with
}

// Trouble is why a log can't be signed.
type Trouble struct {
	Since time.Time
	Err   error
}

// Trouble is what keeps this gateway's log from being signed, or else another
// log of the ledger; nil while nothing does. Acts are recorded all the same.
func (l *Log) Trouble() *Trouble {
	if t := l.trouble.Load(); t != nil {
		return t
	}
	return l.torn.Load()
}

// note keeps since when there is a trouble.
func (l *Log) note(at *atomic.Pointer[Trouble], err error) {
	t := &Trouble{Since: l.cfg.Now(), Err: err}
	if before := at.Load(); before != nil {
		t.Since = before.Since
	}
	at.Store(t)
}

// maxFresh bounds the checkpoints kept for the witness; the newest of them cover
// the others.
const maxFresh = 1024

// The kinds of notes a log keeps. Their names begin with the log's.
const (
	noteTree       = "audit.tree"       // hashes of blocks, 256 a note
	noteEdge       = "audit.edge"       // edges, in JSON
	noteCheckpoint = "audit.checkpoint" // signed notes, a day a note
)

// NewLog makes a Log and starts nothing.
func NewLog(cfg LogConfig) (*Log, error) {
	if cfg.Ledger == nil {
		return nil, errors.New("audit: a log needs a ledger")
	}
	if cfg.Every <= 0 {
		cfg.Every = time.Minute
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	met, err := newLogMetrics(cfg.Registerer)
	if err != nil {
		return nil, fmt.Errorf("register audit metrics: %w", err)
	}
	return &Log{cfg: cfg, met: met, trees: map[uint64]*tree{}, last: map[uint64]Checkpoint{}, verifying: verifying{ask: make(chan struct{}, 1)}}, nil
}

// Run makes a checkpoint every minute in which something happened, one when
// ctx ends, and lets the ledger drop what is accounted for. Beside that it
// verifies the account when AskVerify asks for it. A failure is logged and tried
// again; only an end of ctx ends Run.
func (l *Log) Run(ctx context.Context) error {
	tick := time.NewTicker(l.cfg.Every)
	defer tick.Stop()
	defer l.verifyBeside(ctx)()
	l.first(ctx)
	for {
		select {
		case <-tick.C:
			l.round(ctx)
		case <-ctx.Done():
			l.round(context.WithoutCancel(ctx))
			return nil
		}
	}
}

// first signs what earlier runs, and writers that are no more, left unsigned.
func (l *Log) first(ctx context.Context) {
	if _, err := l.CheckpointAll(ctx); err != nil {
		l.failed(ctx, err)
	}
	l.round(ctx)
}

// CheckpointAll is Checkpoint for every log of the ledger that has an act, this
// gateway's own among them.
func (l *Log) CheckpointAll(ctx context.Context) ([]Checkpoint, error) {
	out, err := l.checkpointAll(ctx)
	l.tell(ctx)
	return out, err
}

// checkpointAll is CheckpointAll without waiting for the witness.
func (l *Log) checkpointAll(ctx context.Context) ([]Checkpoint, error) {
	logs, err := l.logs(ctx)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []Checkpoint
	for _, g := range logs {
		c, err := l.checkpoint(ctx, g)
		switch {
		case err == nil:
			out = append(out, c)
		case errors.Is(err, ErrNothing):
		case errors.Is(err, dedupe.ErrDamaged) && !g.Own:
			l.damaged(err)
		default:
			return out, err
		}
	}
	return out, nil
}

// damaged says that a writer's log that nobody goes on with can't be signed. It
// keeps no other log from being.
func (l *Log) damaged(err error) {
	l.note(&l.torn, err)
	l.cfg.Log.Error("a log of an earlier writer is damaged", "event", "audit.damaged", "error", err)
}

func (l *Log) failed(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	l.met.failures.Inc()
	l.note(&l.trouble, err)
	l.cfg.Log.Error("audit log could not be brought up to date", "event", "audit.failed", "error", err)
}

// round does what is due.
func (l *Log) round(ctx context.Context) {
	_, err := l.Checkpoint(ctx)
	if err == nil || errors.Is(err, ErrNothing) {
		err = l.seal(ctx)
		l.tell(ctx)
	}
	if err != nil {
		l.failed(ctx, err)
		return
	}
	l.trouble.Store(nil)
}

// ErrNothing says that there is nothing to sign yet.
var ErrNothing = errors.New("nothing was recorded yet")

// ErrNoKey says that this log has no key to sign with.
var ErrNoKey = errors.New("there is no audit key")

// Checkpoint signs what this gateway recorded up to now and returns the
// checkpoint: a new one, or the last if nothing happened since. ErrNothing
// before the first act. It returns when the witness has seen the checkpoint, or
// has failed to.
func (l *Log) Checkpoint(ctx context.Context) (Checkpoint, error) {
	c, err := l.checkpointOwn(ctx)
	l.tell(ctx)
	return c, err
}

func (l *Log) checkpointOwn(ctx context.Context) (Checkpoint, error) {
	logs, err := l.logs(ctx)
	if err != nil {
		return Checkpoint{}, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.IndexFunc(logs, func(g dedupe.ActLog) bool { return g.Own })
	if i < 0 {
		return Checkpoint{}, ErrNothing
	}
	return l.checkpoint(ctx, logs[i])
}

func (l *Log) logs(ctx context.Context) ([]dedupe.ActLog, error) {
	logs, err := l.cfg.Ledger.ActLogs(ctx)
	if err != nil {
		return nil, fmt.Errorf("read audit logs: %w", err)
	}
	return logs, nil
}

// checkpoint brings one log's tree up to date and signs it. mu is held.
func (l *Log) checkpoint(ctx context.Context, g dedupe.ActLog) (Checkpoint, error) {
	t, err := l.tree(ctx, g)
	if err != nil {
		return Checkpoint{}, err
	}
	last, known := l.last[g.Writer]
	switch {
	case known && last.Size == t.size:
		return last, nil
	case t.size == 0:
		return Checkpoint{}, ErrNothing
	}
	c, err := l.sign(ctx, t, t.size)
	if err != nil {
		return c, err
	}
	if err := l.keep(ctx, c); err != nil {
		return c, err
	}
	l.last[g.Writer] = c
	l.met.made(&c)
	l.noteFresh(c)
	return c, nil
}

// sign makes a checkpoint of the first n acts.
func (l *Log) sign(ctx context.Context, t *tree, n uint64) (Checkpoint, error) {
	if l.cfg.Key == nil {
		return Checkpoint{}, ErrNoKey
	}
	h, err := t.root(ctx, n)
	if err != nil {
		return Checkpoint{}, err
	}
	c := Checkpoint{Log: logName(t.writer), Size: n, Root: h, At: l.cfg.Now().Truncate(time.Second)}
	return c, l.cfg.Key.sign(&c)
}

// noteFresh keeps a checkpoint for the witness. mu is held.
func (l *Log) noteFresh(c Checkpoint) {
	if l.cfg.Witness == nil {
		return
	}
	if len(l.fresh) >= maxFresh {
		l.fresh = l.fresh[1:]
	}
	l.fresh = append(l.fresh, c)
}

// tell hands on what the witness has not seen, in order.
func (l *Log) tell(ctx context.Context) {
	l.telling.Lock()
	defer l.telling.Unlock()
	l.mu.Lock()
	fresh := l.fresh
	l.fresh = nil
	l.mu.Unlock()
	for _, c := range fresh {
		l.witness(ctx, c)
	}
}

// witness hands a checkpoint on. A witness that can't be reached is told the
// next one, which covers this one.
func (l *Log) witness(ctx context.Context, c Checkpoint) {
	if err := l.cfg.Witness.See(ctx, c); err != nil {
		l.met.unwitnessed.Inc()
		l.cfg.Log.Error("checkpoint was not witnessed", "event", "audit.unwitnessed", "log", c.Log, "size", c.Size, "error", err)
		return
	}
	l.met.witnessed.Set(float64(c.At.Unix()))
}

// tree is a log's tree with all that is committed. mu is held.
func (l *Log) tree(ctx context.Context, g dedupe.ActLog) (*tree, error) {
	t := l.trees[g.Writer]
	if t == nil {
		var err error
		if t, err = l.load(ctx, g); err != nil {
			return nil, err
		}
		l.trees[g.Writer] = t
	}
	blocks := len(t.blocks())
	if err := t.grow(ctx, g.Next); err != nil {
		delete(l.trees, g.Writer) // what it holds may be half a page
		return nil, err
	}
	if len(t.blocks()) > blocks && l.cfg.Key != nil {
		if err := l.keepBlocks(ctx, t, blocks); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// load reads what is kept of a log's tree.
func (l *Log) load(ctx context.Context, g dedupe.ActLog) (*tree, error) {
	t := &tree{acts: l.cfg.Ledger, writer: g.Writer}
	var err error
	if t.edges, err = l.edges(ctx, g.Writer); err != nil {
		return nil, err
	}
	notes, err := l.cfg.Ledger.Notes(ctx, noteTree)
	if err != nil {
		return nil, fmt.Errorf("read audit tree: %w", err)
	}
	tile := 0
	for _, n := range notes { // by name, which is in order
		if n.Name != tileName(g.Writer, tile) {
			continue
		}
		for b := n.Value; len(b) >= tlog.HashSize; b = b[tlog.HashSize:] {
			t.pushBlock(tlog.Hash(b[:tlog.HashSize]))
		}
		tile++
		if len(t.blocks()) != tile*blockSize {
			break
		}
	}
	t.size = uint64(len(t.blocks())) * blockSize
	for _, e := range t.edges {
		if e.At > t.size && e.At/blockSize == t.size/blockSize {
			t.tail, t.size = append(t.tail[:0], e.Leaves...), e.At
		}
	}
	if t.size < g.First {
		return nil, fmt.Errorf("audit log %s: %w: its tree is kept up to act %d, the acts from %d", logName(g.Writer), dedupe.ErrDamaged, t.size, g.First)
	}
	if t.size > g.Next {
		return nil, fmt.Errorf("audit log %s: %w: its tree has %d acts, the ledger %d: the newest were cut off", logName(g.Writer), dedupe.ErrDamaged, t.size, g.Next)
	}
	if c, ok, err := l.newest(ctx, logName(g.Writer)); err != nil {
		return nil, err
	} else if ok {
		l.last[g.Writer] = c
	}
	return t, nil
}

func tileName(writer uint64, tile int) string { return fmt.Sprintf("%s/%012d", logName(writer), tile) }

// keepBlocks stores the hashes of blocks from number from on.
func (l *Log) keepBlocks(ctx context.Context, t *tree, from int) error {
	for tile := from / blockSize; tile*blockSize < len(t.blocks()); tile++ {
		blocks := t.blocks()[tile*blockSize : min((tile+1)*blockSize, len(t.blocks()))]
		b := make([]byte, 0, len(blocks)*tlog.HashSize)
		for _, h := range blocks {
			b = append(b, h[:]...)
		}
		if err := l.put(ctx, noteTree, tileName(t.writer, tile), func(old []byte) ([]byte, error) {
			if len(old) > len(b) { // another gateway is ahead
				return old, nil
			}
			return b, nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// put changes a note whatever version it has. On a ledger that several
// gateways share another may have been faster.
func (l *Log) put(ctx context.Context, kind, name string, change func(old []byte) ([]byte, error)) error {
	for range 10 {
		n, err := l.cfg.Ledger.Note(ctx, kind, name)
		if err != nil && !errors.Is(err, dedupe.ErrNotFound) {
			return fmt.Errorf("read note %s of %s: %w", name, kind, err)
		}
		if err != nil {
			n = dedupe.Note{Kind: kind, Name: name}
		}
		if n.Value, err = change(n.Value); err != nil {
			return err
		}
		if _, err = l.cfg.Ledger.PutNote(ctx, n); err == nil {
			return nil
		}
		if !errors.Is(err, dedupe.ErrStale) {
			return fmt.Errorf("keep note %s of %s: %w", name, kind, err)
		}
	}
	return fmt.Errorf("keep note %s of %s: %w", name, kind, dedupe.ErrStale)
}

func (l *Log) edges(ctx context.Context, writer uint64) ([]edge, error) {
	n, err := l.cfg.Ledger.Note(ctx, noteEdge, logName(writer))
	if errors.Is(err, dedupe.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read edges of audit log %s: %w", logName(writer), err)
	}
	return parseEdges(writer, n.Value)
}

func parseEdges(writer uint64, b []byte) (out []edge, err error) {
	if err := json.Unmarshal(b, &out); err != nil {
		return nil, fmt.Errorf("edges of audit log %s: %w: %w", logName(writer), dedupe.ErrDamaged, err)
	}
	return out, nil
}

// seal keeps, for each log, what is needed to go on without the acts whose
// retention has ended, and then lets the ledger drop them.
func (l *Log) seal(ctx context.Context) error {
	logs, err := l.logs(ctx)
	if err != nil || l.cfg.Key == nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, g := range logs {
		if g.Keep == g.First {
			continue
		}
		err := l.sealAt(ctx, g)
		if errors.Is(err, dedupe.ErrDamaged) && !g.Own {
			l.damaged(err) // there is nothing to go on with: its rest may go
			err = nil
		}
		if err != nil {
			return err
		}
		if err := l.cfg.Ledger.SealActs(ctx, g.Writer, g.Keep); err != nil {
			return fmt.Errorf("seal audit log %s: %w", logName(g.Writer), err)
		}
	}
	return nil
}

// sealAt keeps the edge at a log's Keep. mu is held.
func (l *Log) sealAt(ctx context.Context, g dedupe.ActLog) error {
	t, err := l.tree(ctx, g)
	if err != nil {
		return err
	}
	if _, ok := t.edgeAt(g.Keep); ok {
		return nil
	}
	e := edge{At: g.Keep}
	if in := g.Keep % blockSize; in > 0 {
		leaves, err := t.leavesOf(ctx, g.Keep/blockSize)
		if err != nil {
			return err
		}
		e.Leaves = slices.Clone(leaves[:in])
	}
	c, err := l.sign(ctx, t, g.Keep)
	if err != nil {
		return err
	}
	e.Checkpoint = c.Note
	var next []edge
	if err := l.put(ctx, noteEdge, logName(g.Writer), func(old []byte) ([]byte, error) {
		var err error
		if next, err = edgesWith(g, old, e); err != nil {
			return nil, err
		}
		return json.Marshal(next)
	}); err != nil {
		return err
	}
	t.edges = next
	l.noteFresh(c)
	return nil
}

// edgesWith are the edges that are kept, less those that the ledger can't stand
// at any more, and e. Another gateway may have kept one since they were read.
func edgesWith(g dedupe.ActLog, old []byte, e edge) ([]edge, error) {
	var kept []edge
	if len(old) > 0 {
		var err error
		if kept, err = parseEdges(g.Writer, old); err != nil {
			return nil, err
		}
	}
	next := slices.DeleteFunc(kept, func(k edge) bool { return k.At < g.First })
	if !slices.ContainsFunc(next, func(k edge) bool { return k.At == e.At }) {
		next = append(next, e)
	}
	slices.SortFunc(next, func(a, b edge) int { return cmp.Compare(a.At, b.At) })
	return next, nil
}

// keep stores a checkpoint. Of earlier ones the last of each hour stays. One that
// another gateway made of as much or more stays as well, and c is not kept.
func (l *Log) keep(ctx context.Context, c Checkpoint) error {
	name := c.Log + "/" + c.At.UTC().Format(time.DateOnly)
	return l.put(ctx, noteCheckpoint, name, func(old []byte) ([]byte, error) {
		notes, _ := SplitNotes(string(old))
		if n := len(notes); n > 0 {
			before, err := peekCheckpoint(notes[n-1])
			if err == nil && before.Size >= c.Size {
				return old, nil
			}
			if err != nil || before.At.UTC().Truncate(time.Hour).Equal(c.At.UTC().Truncate(time.Hour)) {
				notes = notes[:n-1]
			}
		}
		return []byte(strings.Join(append(notes, c.Note), "\n")), nil
	})
}

// checkpoints lists the kept checkpoints of a log, by size.
func (l *Log) checkpoints(ctx context.Context, log string) ([]Checkpoint, error) {
	notes, err := l.cfg.Ledger.Notes(ctx, noteCheckpoint)
	if err != nil {
		return nil, fmt.Errorf("read checkpoints: %w", err)
	}
	var out []Checkpoint
	for _, n := range notes {
		if !strings.HasPrefix(n.Name, log+"/") {
			continue
		}
		signed, rest := SplitNotes(string(n.Value))
		for _, s := range signed {
			c, err := peekCheckpoint(s)
			if err != nil {
				return nil, fmt.Errorf("checkpoints of %s: %w: %w", n.Name, dedupe.ErrDamaged, err)
			}
			out = append(out, c)
		}
		if rest != "" {
			return nil, fmt.Errorf("checkpoints of %s: %w: the last is cut", n.Name, dedupe.ErrDamaged)
		}
	}
	slices.SortStableFunc(out, func(a, b Checkpoint) int {
		return cmp.Or(cmp.Compare(a.Size, b.Size), a.At.Compare(b.At))
	})
	return out, nil
}

func (l *Log) newest(ctx context.Context, log string) (Checkpoint, bool, error) {
	all, err := l.checkpoints(ctx, log)
	if err != nil || len(all) == 0 {
		return Checkpoint{}, false, err
	}
	return all[len(all)-1], true, nil
}
