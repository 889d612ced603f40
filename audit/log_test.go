package audit_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onceward/onceward/audit"
	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/dedupe/ledgertest"
	"github.com/onceward/onceward/event"
)

// logBundle is a ledger with its transparency log.
type logBundle struct {
	*bundle
	key  *audit.Key
	keys audit.Keys
	cfg  audit.LogConfig
	log  *audit.Log
}

func setupLog(t *testing.T, change ...func(*audit.LogConfig)) *logBundle {
	t.Helper()
	b := &logBundle{bundle: setup(t)}
	b.ledger = ledgertest.NewMemory(ledgertest.Config{Now: b.clock.now, Retention: dedupe.Retention{Audit: 48 * time.Hour}})
	key, private, err := audit.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	if again, err := audit.ParseKey(private + "\n"); err != nil || again.Public() != key.Public() {
		t.Fatalf("a key reads back as %v, %v", again, err)
	}
	b.key = key
	if b.keys, err = audit.ParseKeys("# ours\n" + key.Public() + "\n"); err != nil {
		t.Fatal(err)
	}
	b.cfg = audit.LogConfig{Ledger: b.ledger, Key: key, Now: b.clock.now}
	for _, f := range change {
		f(&b.cfg)
	}
	b.open()
	return b
}

// open makes the log anew, as a restart does.
func (b *logBundle) open() {
	b.t.Helper()
	log, err := audit.NewLog(b.cfg)
	if err != nil {
		b.t.Fatal(err)
	}
	b.log = log
}

// restart opens ledger and log again.
func (b *logBundle) restart() {
	b.t.Helper()
	b.ledger = b.ledger.Reopen()
	b.cfg.Ledger = b.ledger
	b.open()
}

// record writes n acts.
func (b *logBundle) record(n int) {
	b.t.Helper()
	batch := &dedupe.Batch{}
	for i := range n {
		batch.Acts = append(batch.Acts, &dedupe.Act{Kind: dedupe.ActOperated, Outcome: "reload", Number: uint64(i + 1), Detail: fmt.Sprintf("odd <\xff> %d", i)})
	}
	if err := b.ledger.Commit(b.t.Context(), batch); err != nil {
		b.t.Fatal(err)
	}
}

func (b *logBundle) checkpoint() audit.Checkpoint {
	b.t.Helper()
	c, err := b.log.Checkpoint(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	return c
}

func (b *logBundle) export() []byte {
	b.t.Helper()
	var buf bytes.Buffer
	if err := b.log.Export(b.t.Context(), &buf); err != nil {
		b.t.Fatal(err)
	}
	return buf.Bytes()
}

func (b *logBundle) verify(export []byte, witnessed ...string) audit.VerifyReport {
	b.t.Helper()
	rep, err := audit.Verify(bytes.NewReader(export), audit.VerifyConfig{Keys: b.keys, Witnessed: witnessed})
	if err != nil {
		b.t.Fatal(err)
	}
	return rep
}

// good fails unless an export verifies; it returns its only log.
func (b *logBundle) good(export []byte, witnessed ...string) audit.VerifiedLog {
	b.t.Helper()
	rep := b.verify(export, witnessed...)
	if len(rep.Faults) > 0 || len(rep.Logs) != 1 || rep.Witnessed != len(witnessed) {
		b.t.Fatalf("verified: %+v, want one log without a fault and %d checkpoints witnessed", rep, len(witnessed))
	}
	return rep.Logs[0]
}

// life makes a log with some of everything and three checkpoints, each after
// so many acts and a few more.
func (b *logBundle) life(acts int) (ref event.Ref, witnessed []string) {
	b.t.Helper()
	for i := range 3 {
		ref = b.accept("stripe", fmt.Sprint("evt_", i), "invoice.paid", fmt.Sprint("{", i, "}"))
		b.accept("stripe", fmt.Sprint("evt_", i), "invoice.paid", fmt.Sprint("{", i, "}"))
		b.settle("billing", event.Pending, "HTTP/1.1 500\r\n\r\n")
		b.settle("billing", event.Delivered, "HTTP/1.1 200\r\n\r\n")
		b.record(acts + i)
		witnessed = append(witnessed, b.checkpoint().Note)
		b.clock.add(time.Hour)
	}
	return ref, witnessed
}

func TestExportVerifies(t *testing.T) {
	t.Parallel()
	b := setupLog(t)
	if _, err := b.log.Checkpoint(t.Context()); !errors.Is(err, audit.ErrNothing) {
		t.Errorf("checkpoint of nothing: %v", err)
	}
	if rep := b.verify(b.export()); len(rep.Faults) > 0 || len(rep.Logs) != 0 {
		t.Errorf("an empty account: %+v", rep)
	}
	_, witnessed := b.life(100)
	b.record(1)
	l := b.good(b.export(), witnessed...)
	if l.From != 0 || l.To != 3*4+100+101+102+1 || l.Checkpoints != 4 || l.Unsigned != 0 {
		t.Errorf("verified %+v", l)
	}
	if again := b.checkpoint(); again.Size != l.To || b.checkpoint().Note != again.Note {
		t.Errorf("a checkpoint without a change is a new one: %+v", again)
	}
}

// flips is how many positions are tried: fewer in the race detector's run.
func flips() int {
	if testing.Short() {
		return 150
	}
	return 1000
}

// Every change of an export is found, and its place is named.
func TestTamperedExport(t *testing.T) {
	t.Parallel()
	b := setupLog(t)
	b.life(8)
	text := b.export()
	b.good(text)
	lines := bytes.SplitAfter(text, []byte("\n"))
	lines = lines[:len(lines)-1]
	lineOf := func(at int) uint64 { return uint64(1 + bytes.Count(text[:at], []byte("\n"))) }
	found := func(what string, at uint64, bad []byte) {
		t.Helper()
		rep, err := audit.Verify(bytes.NewReader(bad), audit.VerifyConfig{Keys: b.keys})
		if err != nil || len(rep.Faults) == 0 {
			t.Fatalf("%s: not found: %v", what, err)
		}
		// A line end that was changed shows at the line it begins or ends; a
		// checkpoint that is missing, when the next one comes or the acts end.
		f := rep.Faults[0]
		late := f.Line > at+1 && !strings.HasPrefix(f.Where, "checkpoint ")
		if f.Line+1 < at || late || f.Where == "" || f.What == "" {
			t.Fatalf("%s: named as %+v, want line %d", what, f, at)
		}
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	for range flips() {
		at, bit := rnd.IntN(len(text)), byte(1)<<rnd.IntN(8)
		bad := bytes.Clone(text)
		bad[at] ^= bit
		found(fmt.Sprintf("byte %d flipped by %#x", at, bit), lineOf(at), bad)
	}
	join := func(ls ...[]byte) []byte { return bytes.Join(ls, nil) }
	for i := range lines {
		found(fmt.Sprintf("line %d removed", i+1), uint64(i+1), join(append(append([][]byte{}, lines[:i]...), lines[i+1:]...)...))
		found(fmt.Sprintf("line %d twice", i+1), uint64(i+2), join(append(append([][]byte{}, lines[:i+1]...), lines[i:]...)...))
		if i > 0 {
			swapped := append([][]byte{}, lines...)
			swapped[i-1], swapped[i] = swapped[i], swapped[i-1]
			found(fmt.Sprintf("lines %d and %d swapped", i, i+1), uint64(i), join(swapped...))
		}
	}
	for _, at := range []int{0, 1, len(text) / 2, len(text) - 1} {
		found(fmt.Sprintf("cut at %d", at), lineOf(at), text[:at])
	}
	found("something added", uint64(len(lines)+1), append(bytes.Clone(text), "{}\n"...))
}

// exportedAct is a line of an act, as a forger would write it.
type exportedAct struct {
	Log   string    `json:"log"`
	Index uint64    `json:"index"`
	Leaf  []byte    `json:"leaf"`
	Act   audit.Act `json:"act"`
}

// forge changes the record of the line so that the line fits it.
func (b *logBundle) forge(line []byte, change func(*dedupe.Act)) []byte {
	b.t.Helper()
	var a exportedAct
	if err := json.Unmarshal(line, &a); err != nil {
		b.t.Fatal(err)
	}
	act, err := dedupe.DecodeAct(a.Leaf)
	if err != nil {
		b.t.Fatal(err)
	}
	change(&act)
	other := setupLog(b.t) // shows the act as an export does
	if err := other.ledger.Commit(b.t.Context(), &dedupe.Batch{Acts: []*dedupe.Act{{Kind: dedupe.ActOperated}}}); err != nil {
		b.t.Fatal(err)
	}
	logs, err := other.ledger.ActLogs(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	leaf := act.Append(nil)
	other.ledger.TamperAct(logs[0].Writer, 0, leaf)
	page, err := other.log.List(b.t.Context(), audit.ActQuery{Limit: 1})
	if err != nil {
		b.t.Fatal(err)
	}
	a.Leaf, a.Act = leaf, page.Items[0].Act
	out, err := json.Marshal(a)
	if err != nil {
		b.t.Fatal(err)
	}
	return append(out, '\n')
}

// A record that was changed with all that can be changed without the key is
// found between the two checkpoints around it.
func TestForgedRecord(t *testing.T) {
	t.Parallel()
	b := setupLog(t)
	b.life(100)
	lines := bytes.SplitAfter(b.export(), []byte("\n"))
	forged := 0
	for i := 2; i < len(lines)-2; i += 7 {
		if !bytes.Contains(lines[i], []byte(`"leaf"`)) {
			continue
		}
		bad := append([][]byte{}, lines...)
		bad[i] = b.forge(lines[i], func(*dedupe.Act) {})
		b.good(bytes.Join(bad, nil)) // the forger's tools are good
		bad[i] = b.forge(lines[i], func(a *dedupe.Act) { a.Detail += "!" })
		rep := b.verify(bytes.Join(bad, nil))
		if len(rep.Faults) == 0 {
			t.Fatalf("a forged line %d is not found", i+1)
		}
		var from, to uint64
		if _, err := fmt.Sscanf(rep.Faults[0].Where, "acts %d to %d of log", &from, &to); err != nil || uint64(i-2) < from || uint64(i-2) > to+3 {
			t.Errorf("line %d is forged, named is %+v", i+1, rep.Faults[0])
		}
		forged++
	}
	if forged < 20 {
		t.Errorf("%d lines were tried", forged)
	}
}

// Without a witness a cut tail can't be seen, and history written anew with the
// same key neither: with one, both are.
func TestWitness(t *testing.T) {
	t.Parallel()
	b := setupLog(t)
	b.life(100)
	short := b.export()
	b.record(3)
	_, witnessed := short, []string{b.checkpoint().Note}
	b.good(b.export(), witnessed...)
	b.good(short)
	rep := b.verify(short, witnessed...)
	if len(rep.Faults) != 1 || !strings.Contains(rep.Faults[0].What, "are missing: the witness saw them") || !strings.Contains(rep.Faults[0].Where, "acts 315 to 317") {
		t.Errorf("a cut tail is told as %+v", rep.Faults)
	}
	// The same ledger with one act changed, signed anew with the same key.
	logs, _ := b.ledger.ActLogs(t.Context())
	acts, err := b.ledger.Acts(t.Context(), logs[0].Writer, 5, 1)
	if err != nil {
		t.Fatal(err)
	}
	act, _ := dedupe.DecodeAct(acts[0].Leaf)
	act.Outcome = "nothing"
	b.ledger.TamperAct(logs[0].Writer, 5, act.Append(nil))
	for _, kind := range []string{"audit.tree", "audit.checkpoint"} {
		notes, err := b.ledger.Notes(t.Context(), kind)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range notes {
			if err := b.ledger.DropNote(t.Context(), n); err != nil {
				t.Fatal(err)
			}
		}
	}
	b.open()
	anew := b.export()
	b.good(anew)
	rep = b.verify(anew, witnessed...)
	if len(rep.Faults) != 1 || !strings.Contains(rep.Faults[0].What, "written anew") {
		t.Errorf("history written anew is told as %+v", rep.Faults)
	}
	if rep := b.verify(b.export(), witnessed[0][:len(witnessed[0])-10]+"AAAAAAAAA\n"); len(rep.Faults) == 0 || !strings.Contains(rep.Faults[0].Where, "witness") {
		t.Errorf("a witness that was tampered with is told as %+v", rep.Faults)
	}
	other := setupLog(t)
	other.record(1)
	foreign := other.checkpoint().Note
	if rep := b.verify(anew, foreign); len(rep.Faults) == 0 {
		t.Error("a witness of another key is taken")
	}
}

// What a ledger whose records were rewritten says is found by its own tree.
func TestTamperedLedger(t *testing.T) {
	t.Parallel()
	b := setupLog(t)
	ref, _ := b.life(100)
	logs, _ := b.ledger.ActLogs(t.Context())
	found, err := b.ledger.EventActs(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	first := found[logs[0].Writer][0]
	act, _ := dedupe.DecodeAct(first.Leaf)
	act.ID = "evt_forged"
	b.restart()
	b.checkpoint()
	b.ledger.TamperAct(logs[0].Writer, 3, act.Append(nil))
	b.record(300) // so that the block is complete and no longer in memory
	b.open()
	if _, err := b.log.Prove(t.Context(), ref); !errors.Is(err, dedupe.ErrDamaged) && err == nil {
		t.Errorf("prove over a changed act: %v", err)
	}
	var buf bytes.Buffer
	if err := b.log.Export(t.Context(), &buf); err != nil {
		t.Fatal(err)
	}
	if rep := b.verify(buf.Bytes()); len(rep.Faults) == 0 {
		t.Error("a changed act is not found")
	} else if !strings.Contains(rep.Faults[0].Where, "acts 0 to") {
		t.Errorf("it is named as %+v", rep.Faults[0])
	}
}

func TestLogRestarts(t *testing.T) {
	t.Parallel()
	b := setupLog(t)
	var last []string
	// Sizes around a block and a tile of blocks.
	for _, n := range []int{1, 254, 1, 1, 300, 64_000, 979, 1, 5000} {
		b.record(n)
		b.restart()
		last = append(last, b.checkpoint().Note)
		b.clock.add(time.Minute)
	}
	l := b.good(b.export(), last...)
	if l.To != 1+254+1+1+300+64_000+979+1+5000 {
		t.Errorf("verified %+v", l)
	}
}

// seal keeps the edge and drops what is old.
func (b *logBundle) expire() {
	b.t.Helper()
	ctx, cancel := context.WithCancel(b.t.Context())
	cancel() // Run does its rounds and ends
	if err := b.log.Run(ctx); err != nil {
		b.t.Fatal(err)
	}
	if _, err := b.ledger.Expire(b.t.Context()); err != nil {
		b.t.Fatal(err)
	}
}

func TestPruning(t *testing.T) {
	t.Parallel()
	b := setupLog(t)
	ref, witnessed := b.life(100)
	receipt := b.prove(ref)
	gone := uint64(0)
	for i := range 6 {
		b.clock.add(49 * time.Hour)
		b.record(150 + i)
		b.expire()
		logs, _ := b.ledger.ActLogs(t.Context())
		if logs[0].First <= gone {
			t.Fatalf("nothing was dropped: %+v", logs[0])
		}
		gone = logs[0].First
		if i%2 == 1 {
			b.restart()
		}
		last := b.checkpoint()
		text := b.export()
		if l := b.good(text, last.Note); l.From != gone || l.To != last.Size {
			t.Fatalf("verified %+v, want from %d to %d", l, gone, last.Size)
		}
		// What is gone can't be held against a witness, and is no fault.
		rep := b.verify(text, append(witnessed, last.Note)...)
		if len(rep.Faults) > 0 || rep.Witnessed < 1 || rep.Witnessed > 2 {
			t.Fatalf("verified with an old witness: %+v", rep)
		}
		// The begin is signed: acts cut from it are missed.
		lines := bytes.SplitAfter(text, []byte("\n"))
		if rep := b.verify(bytes.Join(append(append([][]byte{}, lines[:2]...), lines[3:]...), nil)); len(rep.Faults) == 0 {
			t.Fatal("an act cut from the begin is not missed")
		}
		if rep := b.verify(bytes.Replace(text, []byte(fmt.Sprintf(`"first":%d`, gone)), []byte(fmt.Sprintf(`"first":%d`, gone+1)), 1)); len(rep.Faults) == 0 {
			t.Fatal("a begin moved is not found")
		}
	}
	if _, err := b.log.Prove(t.Context(), ref); !errors.Is(err, dedupe.ErrPruned) {
		t.Errorf("prove what is gone: %v", err)
	}
	if _, err := audit.VerifyReceipt(bytes.NewReader(receipt), b.keys); err != nil {
		t.Errorf("a receipt of what is gone: %v", err)
	}
	// All of it goes, and the log goes on.
	b.clock.add(49 * time.Hour)
	b.expire()
	b.restart()
	b.good(b.export())
	b.record(1)
	b.good(b.export(), b.checkpoint().Note)
}

func TestRestoreKeepsLog(t *testing.T) {
	t.Parallel()
	b := setupLog(t)
	ref, witnessed := b.life(100)
	var backup bytes.Buffer
	if err := b.ledger.Backup(t.Context(), &backup); err != nil {
		t.Fatal(err)
	}
	m, err := ledgertest.RestoreMemory(ledgertest.Config{Now: b.clock.now}, &backup)
	if err != nil {
		t.Fatal(err)
	}
	b.ledger, b.cfg.Ledger = m, m
	b.open()
	b.accept("stripe", "evt_new", "a", "{}")
	b.settle("billing", event.Delivered, "HTTP/1.1 200\r\n\r\n")
	rep := b.verify(b.export(), witnessed...)
	if len(rep.Faults) > 0 || len(rep.Logs) != 2 || rep.Witnessed != len(witnessed) {
		t.Fatalf("verified after a restore: %+v", rep)
	}
	if _, err := audit.VerifyReceipt(bytes.NewReader(b.prove(ref)), b.keys); err != nil {
		t.Errorf("a receipt over both logs: %v", err)
	}
	page, err := b.log.List(t.Context(), audit.ActQuery{Limit: 500})
	if err != nil || len(page.Items) != 317 {
		t.Fatalf("%d acts listed, %v", len(page.Items), err)
	}
	for i := 1; i < len(page.Items); i++ {
		if page.Items[i].At.After(page.Items[i-1].At) {
			t.Fatal("the listing is out of order")
		}
	}
	// The begin is signed, so the old log can go, whole.
	b.clock.add(500 * 24 * time.Hour)
	b.expire()
	b.record(1)
	rep = b.verify(b.export())
	if len(rep.Faults) > 0 || len(rep.Logs) != 2 {
		t.Errorf("verified after the old log is gone: %+v", rep)
	}
}

// prove makes a receipt as a program writes it.
func (b *logBundle) prove(ref event.Ref) []byte {
	b.t.Helper()
	r, err := b.log.Prove(b.t.Context(), ref)
	if err != nil {
		b.t.Fatal(err)
	}
	out, err := json.Marshal(r)
	if err != nil {
		b.t.Fatal(err)
	}
	return out
}

func TestReceipt(t *testing.T) {
	t.Parallel()
	b := setupLog(t)
	ref, _ := b.life(100)
	text := b.prove(ref)
	r, err := audit.VerifyReceipt(bytes.NewReader(text), b.keys)
	if err != nil {
		t.Fatal(err)
	}
	if r.Event.Ref != ref || r.Event.EventID != "evt_2" || r.Event.Attempts != 2 || len(r.Event.Delivered) != 1 || r.Event.Delivered[0] != "billing" ||
		r.Event.BodySHA256 != event.HashOf([]byte("{2}")) || len(r.Records) != 3 || r.Records[1].Act.Status != 500 || r.Event.Verification != "unsigned" {
		t.Errorf("receipt: %+v", r.Event)
	}
	var indented bytes.Buffer
	if err := json.Indent(&indented, text, "", "\t"); err != nil {
		t.Fatal(err)
	}
	if _, err := audit.VerifyReceipt(&indented, b.keys); err != nil {
		t.Errorf("with other white space: %v", err)
	}
	rnd := rand.New(rand.NewPCG(3, 4))
	for range flips() {
		at, bit := rnd.IntN(len(text)), byte(1)<<rnd.IntN(8)
		bad := bytes.Clone(text)
		bad[at] ^= bit
		if _, err := audit.VerifyReceipt(bytes.NewReader(bad), b.keys); err == nil {
			t.Fatalf("byte %d flipped by %#x is not found: %q", at, bit, bad[max(0, at-20):at+20])
		}
	}
	other := setupLog(t)
	if _, err := audit.VerifyReceipt(bytes.NewReader(text), other.keys); err == nil {
		t.Error("another key takes it")
	}
	for name, bad := range map[string]string{
		"empty": "", "no object": "[]", "other": `{"format":"x"}`, "none": `{"format":"onceward receipt 1","records":[],"checkpoints":[]}`,
		"two": string(text) + "{}", "a name twice": strings.Replace(string(text), `{"format"`, `{"format":"x","format"`, 1),
		"records cut": strings.Replace(string(text), string(text[strings.Index(string(text), `"records"`):strings.Index(string(text), `"checkpoints"`)]), `"records":[],`, 1),
	} {
		if _, err := audit.VerifyReceipt(strings.NewReader(bad), b.keys); err == nil {
			t.Errorf("%s is taken for a receipt", name)
		}
	}
	if _, err := b.log.Prove(t.Context(), event.NewRef(1, 1, 1)); !errors.Is(err, dedupe.ErrNotFound) {
		t.Errorf("prove nothing: %v", err)
	}
}

func TestRunSignsWhatIsNew(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "witness")
		b := setupLog(t, func(c *audit.LogConfig) { c.Witness = audit.FileWitness{Path: path} })
		count := func() int {
			text, err := os.ReadFile(path)
			if err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Fatal(err)
			}
			notes, rest := audit.SplitNotes(string(text))
			if rest != "" {
				t.Errorf("the witness ends with %q", rest)
			}
			return len(notes)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- b.log.Run(ctx) }()
		for i := range 3 {
			synctest.Wait()
			b.record(1)
			time.Sleep(61 * time.Second) // of the bubble: the clock jumps
			synctest.Wait()
			if got := count(); got != i+1 {
				t.Errorf("%d checkpoints after %d minutes with something new", got, i+1)
			}
			time.Sleep(5 * time.Minute)
			synctest.Wait()
			if got := count(); got != i+1 {
				t.Errorf("%d checkpoints after five minutes without anything new, want %d", got, i+1)
			}
		}
		b.record(1)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if got := count(); got != 4 {
			t.Errorf("%d checkpoints after the end, want 4", got)
		}
		text, _ := os.ReadFile(path)
		notes, _ := audit.SplitNotes(string(text))
		b.good(b.export(), notes...)
		notes, rest := audit.SplitNotes(string(text[:len(text)-9]))
		if len(notes) != 3 || rest == "" {
			t.Errorf("of a file that was cut %d notes are whole, rest %q", len(notes), rest)
		}
	})
}

func TestActQuery(t *testing.T) {
	t.Parallel()
	b := setupLog(t)
	ref, _ := b.life(100)
	list := func(raw string) (kinds []string, pages int) {
		t.Helper()
		v, err := url.ParseQuery(raw)
		if err != nil {
			t.Fatal(err)
		}
		for {
			q, err := audit.ParseActQuery(v, b.clock.now())
			if err != nil {
				t.Fatal(err)
			}
			p, err := b.log.List(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			if pages++; len(p.Items) > q.Limit {
				t.Fatalf("a page of %d", len(p.Items))
			}
			for _, a := range p.Items {
				kinds = append(kinds, a.Kind)
			}
			if p.Next == "" {
				return kinds, pages
			}
			v.Set("cursor", p.Next)
		}
	}
	if got, _ := list("ref=" + ref.String()); fmt.Sprint(got) != "[delivered attempted repeated accepted]" {
		t.Errorf("acts of an event: %v", got)
	}
	if got, pages := list("limit=2&kind=accepted,delivered"); fmt.Sprint(got) != "[delivered accepted delivered accepted delivered accepted]" || pages < 3 {
		t.Errorf("by kind: %v in %d pages", got, pages)
	}
	if got, _ := list("limit=500"); len(got) != 315 {
		t.Errorf("all: %d", len(got))
	}
	if got, _ := list("since=90m&kind=accepted"); len(got) != 1 {
		t.Errorf("of the last 90 minutes: %v", got)
	}
	if got, _ := list("source=nobody"); len(got) != 0 {
		t.Errorf("of nobody: %v", got)
	}
	for _, raw := range []string{"x=1", "kind=nonsense", "ref=1", "since=1h&from=2h", "limit=0", "kind=dead&kind=dead", "to=never"} {
		v, _ := url.ParseQuery(raw)
		if _, err := audit.ParseActQuery(v, b.clock.now()); err == nil {
			t.Errorf("%s is taken", raw)
		}
	}
	for _, cursor := range []string{"x", "zz-!", "-"} {
		if _, err := b.log.List(t.Context(), audit.ActQuery{Limit: 1, Cursor: cursor}); err == nil {
			t.Errorf("cursor %q is taken", cursor)
		}
	}
}

func TestKeysAreChecked(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"", "PRIVATE+KEY+x+00000000+AAAA", "nonsense"} {
		if _, err := audit.ParseKey(s); err == nil || s != "" && strings.Contains(err.Error(), s) {
			t.Errorf("ParseKey(%q) = %v", s, err)
		}
		if _, err := audit.ParseKeys(s); err == nil {
			t.Errorf("ParseKeys(%q) takes it", s)
		}
	}
	key, private, err := audit.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	if out := fmt.Sprintf("%v %+v %s", key, key, key); strings.Contains(out, private[len(private)-20:]) {
		t.Error("a key prints its secret")
	}
}

// Whatever bytes come, verification ends with a report.
func FuzzVerify(f *testing.F) {
	key, _, err := audit.GenerateKey()
	if err != nil {
		f.Fatal(err)
	}
	m := ledgertest.NewMemory(ledgertest.Config{})
	log, err := audit.NewLog(audit.LogConfig{Ledger: m, Key: key})
	if err != nil {
		f.Fatal(err)
	}
	if err := m.Commit(f.Context(), &dedupe.Batch{Acts: []*dedupe.Act{{Kind: dedupe.ActConfigured}, {Kind: dedupe.ActOperated}}}); err != nil {
		f.Fatal(err)
	}
	var buf bytes.Buffer
	if err := log.Export(f.Context(), &buf); err != nil {
		f.Fatal(err)
	}
	good := buf.Bytes()
	keys, err := audit.ParseKeys(key.Public())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte("{\"format\":\"onceward audit 1\"}\n{\"logs\":0,\"acts\":0,\"checkpoints\":0}\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		rep, err := audit.Verify(bytes.NewReader(text), audit.VerifyConfig{Keys: keys})
		if err != nil {
			t.Fatal(err)
		}
		if rep.Acts > 0 && len(rep.Faults) == 0 && !bytes.Equal(text, good) {
			t.Errorf("verifies and was never exported: %q", text)
		}
		_, _ = audit.VerifyReceipt(bytes.NewReader(text), keys)
		_, _ = audit.SplitNotes(string(text))
	})
}

// What a ledger can't read any more is told as a fault of its log, and keeps
// neither the other logs from being verified nor retention from going on.
func TestDamagedLog(t *testing.T) {
	t.Parallel()
	b := setupLog(t)
	b.life(100)
	var backup bytes.Buffer
	if err := b.ledger.Backup(t.Context(), &backup); err != nil {
		t.Fatal(err)
	}
	m, err := ledgertest.RestoreMemory(ledgertest.Config{Now: b.clock.now, Retention: dedupe.Retention{Audit: 48 * time.Hour}}, &backup)
	if err != nil {
		t.Fatal(err)
	}
	b.ledger, b.cfg.Ledger = m, &holed{LogLedger: m, at: 40, writer: m}
	b.open()
	b.record(5)
	rep := b.verify(b.export())
	if len(rep.Faults) != 1 || !strings.HasPrefix(rep.Faults[0].Where, "act 40 of log") || !strings.Contains(rep.Faults[0].What, "can't be read") || len(rep.Logs) != 2 || rep.Logs[0].To+rep.Logs[1].To < 5 {
		t.Fatalf("verified with a hole: %+v", rep)
	}
	if _, err := b.log.Checkpoint(t.Context()); err != nil {
		t.Errorf("its own log is not signed: %v", err)
	}
	b.clock.add(50 * time.Hour)
	b.record(1)
	b.expire()
	logs, err := m.ActLogs(t.Context())
	if err != nil || len(logs) != 1 {
		t.Errorf("the damaged log does not go: %+v, %v", logs, err)
	}
}

// holed is a ledger that lost an act of the writers before.
type holed struct {
	audit.LogLedger
	at     uint64
	writer *ledgertest.Memory
}

func (h *holed) Acts(ctx context.Context, writer, from uint64, limit int) ([]dedupe.LoggedAct, error) {
	logs, err := h.writer.ActLogs(ctx)
	if err != nil {
		return nil, err
	}
	for _, l := range logs {
		if l.Writer == writer && l.Own {
			return h.LogLedger.Acts(ctx, writer, from, limit)
		}
	}
	if from >= h.at {
		return nil, fmt.Errorf("act %d: %w", h.at, dedupe.ErrDamaged)
	}
	return h.LogLedger.Acts(ctx, writer, from, min(limit, int(h.at-from)))
}

// blocked is a witness that doesn't answer before it is let.
type blocked struct{ entered, leave chan struct{} }

func (b blocked) See(context.Context, audit.Checkpoint) error {
	b.entered <- struct{}{}
	<-b.leave
	return errors.New("gave up")
}

// A witness that takes its time holds up nobody who asks for something else.
func TestSlowWitness(t *testing.T) {
	t.Parallel()
	w := blocked{make(chan struct{}), make(chan struct{})}
	b := setupLog(t, func(c *audit.LogConfig) { c.Witness = w })
	ref := b.accept("stripe", "evt_1", "a", "{}")
	done := make(chan error, 1)
	go func() {
		_, err := b.log.Checkpoint(context.WithoutCancel(t.Context()))
		done <- err
	}()
	<-w.entered
	b.record(1)
	b.prove(ref)
	b.good(b.export())
	if rep, err := b.log.Verify(t.Context()); err != nil || len(rep.Faults) > 0 {
		t.Errorf("verified %+v, %v", rep, err)
	}
	w.leave <- struct{}{}
	if err := <-done; err != nil {
		t.Errorf("a checkpoint that the witness did not take: %v", err)
	}
}

// A checkpoint is good only as it was signed: the bits that base64 leaves over
// are no place to hide something in.
func TestCheckpointIsStrict(t *testing.T) {
	t.Parallel()
	b := setupLog(t)
	b.record(1)
	good := b.checkpoint().Note
	if _, err := b.keys.Open(good); err != nil {
		t.Fatal(err)
	}
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	at := strings.LastIndexByte(good, '=') - 1
	other := alphabet[strings.IndexByte(alphabet, good[at])^1]
	for name, bad := range map[string]string{
		"unused bit": good[:at] + string(other) + good[at+1:], "no line end": strings.TrimSuffix(good, "\n"),
		"signed twice": good + good[strings.Index(good, "\n\n")+2:], "another line": strings.Replace(good, "\ntime", "\nmore\ntime", 1),
		"empty": "", "other size": strings.Replace(good, "\n1\n", "\n01\n", 1),
	} {
		if c, err := b.keys.Open(bad); err == nil {
			t.Errorf("%s: is taken as %+v", name, c)
		}
	}
}

// sick is a ledger whose acts can't be read for a while.
type sick struct {
	audit.LogLedger
	err error
}

func (s *sick) ActLogs(ctx context.Context) ([]dedupe.ActLog, error) {
	if s.err != nil {
		return nil, s.err
	}
	return s.LogLedger.ActLogs(ctx)
}

// What keeps a log from being signed is said, since when, until it is signed again.
func TestLogTrouble(t *testing.T) {
	t.Parallel()
	b := setupLog(t)
	ledger := &sick{LogLedger: b.ledger}
	b.cfg.Ledger = ledger
	b.open()
	b.record(3)
	round := func() {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		cancel() // one round, as at a stop
		if err := b.log.Run(ctx); err != nil {
			t.Fatal(err)
		}
	}
	round()
	if got := b.log.Trouble(); got != nil {
		t.Errorf("a log that is well says %v", got.Err)
	}
	ledger.err = fmt.Errorf("act 2: %w", dedupe.ErrDamaged)
	since := b.clock.now()
	for range 2 {
		round()
		if got := b.log.Trouble(); got == nil || !errors.Is(got.Err, dedupe.ErrDamaged) || !got.Since.Equal(since) {
			t.Errorf("a log that can't be signed says %+v, want damage since %v", got, since)
		}
		b.clock.add(time.Minute)
	}
	ledger.err = nil
	round()
	if got := b.log.Trouble(); got != nil {
		t.Errorf("signed again, it says %v", got.Err)
	}
}
