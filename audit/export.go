package audit

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/onceward/onceward/dedupe"
)

const exportFormat = "onceward audit 1"

// An export is lines of JSON: a head, then for each log where it begins, its
// acts and checkpoints in order, and a last line. Every byte of it is either
// signed, or follows from what is.
type (
	exportHead struct {
		Format string `json:"format"`
	}
	exportLog struct {
		Log      string      `json:"log"`
		First    uint64      `json:"first"`              // the oldest act kept
		Frontier []tlog.Hash `json:"frontier"`           // of the tree of those before it
		Signed   string      `json:"boundary,omitempty"` // checkpoint of them
	}
	exportAct struct {
		Log   string `json:"log"`
		Index uint64 `json:"index"`
		Leaf  []byte `json:"leaf"`
		Act   Act    `json:"act"`
	}
	exportCheckpoint struct {
		Log        string `json:"log"`
		Number     int    `json:"number"` // in this export, of the log
		Checkpoint string `json:"checkpoint"`
	}
	exportDamage struct {
		Log    string `json:"log"`
		Damage string `json:"damage"` // why the log ends here
	}
	exportEnd struct {
		Logs        int    `json:"logs"`
		Acts        uint64 `json:"acts"`
		Checkpoints int    `json:"checkpoints"`
	}
)

// Export writes all that is kept of the account, up to a checkpoint made now.
// It holds up neither intake nor other readers. Without a key it ends with
// what is recorded, signed or not.
func (l *Log) Export(ctx context.Context, w io.Writer) error {
	if l.cfg.Key != nil {
		if _, err := l.checkpointAll(ctx); err != nil {
			return err
		}
	}
	logs, err := l.exported(ctx)
	if err != nil {
		return err
	}
	e := &exporter{w: w}
	e.line(exportHead{exportFormat})
	for _, g := range logs {
		err := l.exportLog(ctx, e, g)
		if errors.Is(err, dedupe.ErrDamaged) { // told where it is, and the other logs after it
			e.line(exportDamage{logName(g.Writer), err.Error()})
			err = nil
		}
		if err != nil {
			return err
		}
	}
	e.line(exportEnd{len(logs), e.acts, e.sigs})
	return e.err
}

// Verify exports the account and verifies it, with this gateway's own key and
// those of the others on its ledger: it says whether the ledger agrees with what
// they signed. Somebody who does not trust them verifies an export elsewhere.
func (l *Log) Verify(ctx context.Context) (VerifyReport, error) {
	return l.verify(ctx, func(w io.Writer) io.Writer { return w })
}

// verify is Verify of what is exported through a writer that through makes.
func (l *Log) verify(ctx context.Context, through func(io.Writer) io.Writer) (VerifyReport, error) {
	if l.cfg.Key == nil {
		return VerifyReport{}, ErrNoKey
	}
	known, err := l.PublicKeys(ctx)
	if err != nil {
		return VerifyReport{}, err
	}
	keys, err := ParseKeys(strings.Join(known, "\n"))
	if err != nil {
		return VerifyReport{}, err
	}
	return VerifyPiped(VerifyConfig{Keys: keys}, func(w io.Writer) error { return l.Export(ctx, through(w)) })
}

// VerifyPiped is Verify of what export writes, while it writes it. An error of
// the export comes back.
func VerifyPiped(cfg VerifyConfig, export func(io.Writer) error) (VerifyReport, error) {
	r, w := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := export(w)
		_ = w.CloseWithError(err) // never fails
		done <- err
	}()
	report, err := Verify(r, cfg)
	_ = r.CloseWithError(io.ErrClosedPipe) // lets the export end when verification ended first
	if exportErr := <-done; exportErr != nil && !errors.Is(exportErr, io.ErrClosedPipe) {
		return report, exportErr
	}
	return report, err
}

// exporter writes lines and keeps the first error.
type exporter struct {
	w    io.Writer
	acts uint64
	sigs int
	err  error
}

func (e *exporter) line(v any) {
	if e.err != nil {
		return
	}
	var b []byte
	if b, e.err = json.Marshal(v); e.err == nil {
		_, e.err = e.w.Write(append(b, '\n'))
	}
}

// exported lists the logs to write: those with acts, and those of which only
// the boundary is left.
func (l *Log) exported(ctx context.Context) ([]dedupe.ActLog, error) {
	logs, err := l.logs(ctx)
	if err != nil {
		return nil, err
	}
	notes, err := l.cfg.Ledger.Notes(ctx, noteEdge)
	if err != nil {
		return nil, fmt.Errorf("read edges: %w", err)
	}
	for _, n := range notes {
		var w uint64
		if _, err := fmt.Sscanf(n.Name, "%x", &w); err != nil || slices.ContainsFunc(logs, func(g dedupe.ActLog) bool { return g.Writer == w }) {
			continue
		}
		edges, err := parseEdges(w, n.Value)
		if err != nil {
			return nil, err
		}
		if len(edges) > 0 {
			at := edges[len(edges)-1].At
			logs = append(logs, dedupe.ActLog{Writer: w, First: at, Next: at, Keep: at})
		}
	}
	logs = slices.DeleteFunc(logs, func(g dedupe.ActLog) bool { return g.Next == 0 })
	slices.SortFunc(logs, func(a, b dedupe.ActLog) int { return cmp.Compare(a.Writer, b.Writer) })
	return logs, nil
}

// exportLog writes one log from its begin to its newest checkpoint.
func (l *Log) exportLog(ctx context.Context, e *exporter, g dedupe.ActLog) error {
	name := logName(g.Writer)
	head, signed, err := l.exportBegin(ctx, g)
	e.line(head) // also of a log that can't be read
	if err != nil {
		return err
	}
	end := g.Next
	if n := len(signed); n > 0 && l.cfg.Key != nil {
		end = max(signed[n-1].Size, g.First)
	}
	next, number := 0, 0
	for next < len(signed) && signed[next].Size <= g.First {
		next++
	}
	for at := g.First; at < end && e.err == nil; {
		acts, err := l.cfg.Ledger.Acts(ctx, g.Writer, at, readActs)
		if err == nil && (len(acts) == 0 || acts[0].Index != at) {
			err = fmt.Errorf("%w: act %d is missing", dedupe.ErrDamaged, at)
		}
		if err != nil {
			return fmt.Errorf("audit log %s: %w", name, err)
		}
		for _, a := range acts {
			if at = a.Index + 1; at > end {
				break
			}
			if err := e.act(name, a); err != nil {
				return err
			}
			for ; next < len(signed) && signed[next].Size == at; next++ {
				number++
				e.sigs++
				e.line(exportCheckpoint{name, number, signed[next].Note})
			}
		}
	}
	return e.err
}

func (e *exporter) act(log string, a dedupe.LoggedAct) error {
	act, err := dedupe.DecodeAct(a.Leaf)
	if err != nil {
		return fmt.Errorf("audit log %s: act %d: %w: %w", log, a.Index, dedupe.ErrDamaged, err)
	}
	e.acts++
	e.line(exportAct{log, a.Index, a.Leaf, viewAct(&act)})
	return nil
}

// exportBegin is where a log begins, and its checkpoints. mu is not held.
func (l *Log) exportBegin(ctx context.Context, g dedupe.ActLog) (exportLog, []Checkpoint, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	head := exportLog{Log: logName(g.Writer), First: g.First, Frontier: []tlog.Hash{}}
	signed, err := l.checkpoints(ctx, head.Log)
	if err != nil || g.First == 0 {
		return head, signed, err
	}
	t, err := l.tree(ctx, g)
	if err != nil {
		return head, signed, err
	}
	e, ok := t.edgeAt(g.First)
	if !ok {
		return head, signed, fmt.Errorf("audit log %s: %w: nothing is kept of what was before act %d", head.Log, dedupe.ErrDamaged, g.First)
	}
	head.Signed = e.Checkpoint
	f, err := t.frontier(ctx, g.First)
	if err != nil {
		return head, signed, err
	}
	head.Frontier = append(head.Frontier, f...)
	return head, signed, nil
}
