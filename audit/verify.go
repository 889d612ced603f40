package audit

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/onceward/onceward/dedupe"
)

// VerifyConfig says what an account is verified against.
type VerifyConfig struct {
	Keys Keys // required
	// Witnessed are the notes of a witness. Only they show that a tail was cut
	// off or that history was signed anew with the same key.
	Witnessed []string
	// OpenEnd takes acts after the last checkpoint for good, and counts them:
	// for a ledger that was stopped before they were signed.
	OpenEnd bool
}

// VerifyReport is what a verification found. The account is as it was recorded
// if there are no faults.
type VerifyReport struct {
	Logs      []VerifiedLog `json:"logs"`
	Acts      uint64        `json:"acts"`
	Witnessed int           `json:"witnessed"` // checkpoints of the witness that were found to hold
	Faults    []VerifyFault `json:"faults"`
}

// VerifiedLog is one log as far as it was verified.
type VerifiedLog struct {
	Log         string    `json:"log"`
	From        uint64    `json:"from"` // what was before it is gone by retention
	To          uint64    `json:"to"`   // acts before it are covered by a checkpoint
	Unsigned    uint64    `json:"unsigned,omitempty"`
	Checkpoints int       `json:"checkpoints"`
	SignedAt    time.Time `json:"signed_at,omitzero"` // of the newest checkpoint

	tree     *compact
	signed   uint64 // size of the newest checkpoint
	broken   bool
	numbered int
	looked   int // checkpoints of the witness that were looked at
}

// VerifyFault is something that is not as it was recorded.
type VerifyFault struct {
	Line  uint64 `json:"line,omitempty"` // of the export; 0: of the witness, or of all
	Where string `json:"where"`
	What  string `json:"what"`
}

// maxVerifyFaults bounds a report: one change can make many things not fit.
const maxVerifyFaults = 20

// maxExportLine bounds a line of an export.
const maxExportLine = 1 << 20

// Verify reads an export and checks all of it. An error says that it could not
// be read; what was found to be wrong is in the report.
func Verify(r io.Reader, cfg VerifyConfig) (VerifyReport, error) {
	v := &verifier{cfg: cfg, report: VerifyReport{Logs: []VerifiedLog{}, Faults: []VerifyFault{}}, seen: map[string][]Checkpoint{}}
	v.readWitness()
	in := bufio.NewReaderSize(r, maxExportLine)
	for {
		line, err := in.ReadSlice('\n')
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			v.no++
			v.fault("export", "a line is longer than any of an export")
			return v.finish(), nil
		case err != nil && !errors.Is(err, io.EOF):
			return v.finish(), fmt.Errorf("read export: %w", err)
		case err != nil:
			if len(line) > 0 {
				v.no++
				v.fault("export", "the last line is cut")
			}
			return v.finish(), nil
		}
		v.no++
		v.line(line)
	}
}

// verifier reads an export line by line.
type verifier struct {
	cfg    VerifyConfig
	report VerifyReport
	no     uint64                  // of the line
	seen   map[string][]Checkpoint // by the witness, by log, by size
	sigs   int                     // lines of checkpoints
	ended  bool
	log    *VerifiedLog // being read
}

func (v *verifier) fault(where, format string, args ...any) {
	if v.log != nil {
		v.log.broken = true // what follows can't fit any more: one fault is told, not all
	}
	if len(v.report.Faults) < maxVerifyFaults {
		v.report.Faults = append(v.report.Faults, VerifyFault{v.no, where, fmt.Sprintf(format, args...)})
	}
}

func (v *verifier) line(line []byte) {
	switch {
	case v.ended:
		v.fault("export", "something follows its end")
	case v.no == 1:
		if !canonical(line, &exportHead{}) || !bytes.Contains(line, []byte(exportFormat)) {
			v.fault("export", "the first line is not that of an export")
		}
	case bytes.Contains(line, []byte(`"checkpoint":`)) && !bytes.Contains(line, []byte(`"leaf":`)):
		v.checkpoint(line)
	case bytes.Contains(line, []byte(`"leaf":`)):
		v.act(line)
	case bytes.Contains(line, []byte(`"frontier":`)):
		v.begin(line)
	case bytes.Contains(line, []byte(`"damage":`)):
		v.damage(line)
	default:
		v.end(line)
	}
}

// canonical decodes a line and reports whether it is written as we write it.
func canonical(line []byte, to any) bool {
	if json.Unmarshal(line, to) != nil {
		return false
	}
	b, err := json.Marshal(to)
	return err == nil && bytes.Equal(append(b, '\n'), line)
}

// expected names what must come here, for faults of lines that can't be read.
func (v *verifier) expected() string {
	if v.log == nil {
		return "export"
	}
	return fmt.Sprintf("act %d of log %s or what follows it", v.log.tree.size, v.log.Log)
}

// begin opens a log.
func (v *verifier) begin(line []byte) {
	var h exportLog
	if !canonical(line, &h) {
		v.fault(v.expected(), "the line is malformed")
		return
	}
	v.close()
	if slices.ContainsFunc(v.report.Logs, func(l VerifiedLog) bool { return l.Log == h.Log }) {
		v.fault("log "+h.Log, "comes twice")
	}
	l := &VerifiedLog{Log: h.Log, From: h.First, To: h.First, tree: &compact{size: h.First}}
	v.log = l
	tree, err := newCompact(h.First, h.Frontier)
	if err != nil {
		v.fault("log "+h.Log, "its begin %v", err)
		return
	}
	l.tree = tree
	if h.First == 0 {
		if h.Signed != "" {
			v.fault("log "+h.Log, "has a boundary and begins at its begin")
		}
		return
	}
	c, err := v.cfg.Keys.Open(h.Signed)
	switch {
	case err != nil:
		v.fault("log "+h.Log, "the checkpoint of what is before act %d: %v", h.First, err)
	case c.Log != h.Log || c.Size != h.First || c.Root != tree.root():
		v.fault("log "+h.Log, "begins at act %d with other hashes than were signed", h.First)
	default:
		v.witnessed()
		l.SignedAt = c.At
		l.signed = c.Size
	}
}

// act adds a record.
func (v *verifier) act(line []byte) {
	var a exportAct
	if json.Unmarshal(line, &a) != nil || v.log == nil {
		v.fault(v.expected(), "the line is malformed")
		return
	}
	l := v.log
	act, err := dedupe.DecodeAct(a.Leaf)
	if err != nil {
		v.fault(fmt.Sprintf("act %d of log %s", a.Index, a.Log), "is no record of an act")
		return
	}
	a.Act = viewAct(&act)
	if b, err := json.Marshal(a); err != nil || !bytes.Equal(append(b, '\n'), line) {
		v.fault(v.expected(), "what the line says is not what its record says")
		return
	}
	switch {
	case a.Log != l.Log:
		v.fault(fmt.Sprintf("act %d of log %s", a.Index, a.Log), "stands in log %s", l.Log)
		return
	case a.Index > l.tree.size && !l.broken:
		v.fault(fmt.Sprintf("act %d of log %s", l.tree.size, l.Log), "is missing: act %d follows", a.Index)
		return
	case a.Index < l.tree.size && !l.broken:
		v.fault(fmt.Sprintf("act %d of log %s", a.Index, l.Log), "is not in its place: act %d was to follow", l.tree.size)
		return
	}
	v.report.Acts++
	if l.broken {
		return
	}
	l.tree.push(tlog.RecordHash(a.Leaf))
	v.witnessed()
}

// checkpoint holds the records so far against what was signed of them.
func (v *verifier) checkpoint(line []byte) {
	var e exportCheckpoint
	if !canonical(line, &e) || v.log == nil || e.Log != v.log.Log {
		v.fault(v.expected(), "the line is malformed")
		return
	}
	v.sigs++
	l := v.log
	l.numbered++
	if e.Number != l.numbered && !l.broken {
		v.fault(fmt.Sprintf("checkpoint %d of log %s", l.numbered, l.Log), "is not in its place: number %d stands there", e.Number)
		return
	}
	c, err := v.cfg.Keys.Open(e.Checkpoint)
	where := fmt.Sprintf("checkpoint of log %s after act %d", l.Log, int64(l.tree.size)-1)
	switch {
	case err != nil:
		v.fault(where, "%v", err)
	case l.broken:
	case c.Log != l.Log:
		v.fault(where, "is of log %s", c.Log)
	case c.Size < l.tree.size:
		v.fault(where, "is of %d acts: it stands in the wrong place", c.Size)
	case c.Size > l.tree.size:
		v.fault(fmt.Sprintf("acts %d to %d of log %s", l.tree.size, c.Size-1, l.Log), "are missing: they were signed at %s", c.At.UTC().Format(time.RFC3339))
	case c.Root != l.tree.root():
		v.fault(fmt.Sprintf("acts %d to %d of log %s", l.signed, c.Size-1, l.Log), "are not those that were signed at %s", c.At.UTC().Format(time.RFC3339))
	default:
		l.To, l.signed, l.SignedAt = c.Size, c.Size, c.At
		l.Checkpoints++
	}
}

// close ends the log being read.
func (v *verifier) close() {
	l := v.log
	if l == nil {
		return
	}
	if !l.broken {
		l.Unsigned = l.tree.size - l.To
		if l.Unsigned > 0 && !v.cfg.OpenEnd {
			v.fault(fmt.Sprintf("acts %d to %d of log %s", l.To, l.tree.size-1, l.Log), "are covered by no checkpoint: the one that ended the export is missing")
		}
		for _, c := range v.seen[l.Log] {
			if c.Size > l.tree.size {
				v.fault(fmt.Sprintf("acts %d to %d of log %s", l.tree.size, c.Size-1, l.Log), "are missing: the witness saw them signed at %s; they were cut off, or this was exported before", c.At.UTC().Format(time.RFC3339))
				break
			}
		}
	}
	v.report.Logs = append(v.report.Logs, *l)
	v.log = nil
}

// damage says that the ledger itself could not read on.
func (v *verifier) damage(line []byte) {
	var e exportDamage
	if !canonical(line, &e) || v.log == nil || e.Log != v.log.Log {
		v.fault(v.expected(), "the line is malformed")
		return
	}
	v.fault(fmt.Sprintf("act %d of log %s", v.log.tree.size, e.Log), "can't be read: %s", e.Damage)
}

// end checks the last line.
func (v *verifier) end(line []byte) {
	var e exportEnd
	logs := len(v.report.Logs)
	if v.log != nil {
		logs++
	}
	if !canonical(line, &e) {
		v.fault(v.expected(), "the line is malformed")
		return
	}
	if v.ended = true; len(v.report.Faults) == 0 && (e.Logs != logs || e.Acts != v.report.Acts || e.Checkpoints != v.sigs) {
		v.fault("export", "counts %d acts and %d checkpoints of %d logs, and has %d and %d of %d: some were removed or added",
			e.Acts, e.Checkpoints, e.Logs, v.report.Acts, v.sigs, logs)
	}
}

// readWitness opens what a witness kept.
func (v *verifier) readWitness() {
	for i, n := range v.cfg.Witnessed {
		c, err := v.cfg.Keys.Open(n)
		if err != nil {
			v.fault(fmt.Sprintf("checkpoint %d of the witness", i+1), "%v", err)
			continue
		}
		v.seen[c.Log] = append(v.seen[c.Log], c)
	}
	for _, seen := range v.seen {
		slices.SortStableFunc(seen, func(a, b Checkpoint) int { return cmp.Compare(a.Size, b.Size) })
	}
}

// witnessed holds the records so far against what the witness saw of them.
func (v *verifier) witnessed() {
	l := v.log
	for seen := v.seen[l.Log]; l.looked < len(seen) && seen[l.looked].Size <= l.tree.size; l.looked++ {
		c := seen[l.looked]
		if c.Size < l.tree.size {
			continue // of what is gone by retention
		}
		if c.Root != l.tree.root() {
			v.fault(fmt.Sprintf("acts up to %d of log %s", int64(c.Size)-1, l.Log), "are not those that the witness saw signed at %s: history was written anew", c.At.UTC().Format(time.RFC3339))
			return
		}
		v.report.Witnessed++
	}
}

func (v *verifier) finish() VerifyReport {
	v.close()
	if !v.ended && len(v.report.Faults) == 0 {
		v.fault("export", "ends before its end: it was cut")
	}
	for log := range v.seen {
		if !slices.ContainsFunc(v.report.Logs, func(l VerifiedLog) bool { return l.Log == log }) {
			v.fault("log "+log, "is missing: the witness saw it")
		}
	}
	return v.report
}
