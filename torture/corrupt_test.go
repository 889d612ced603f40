//go:build torture && linux

package main

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// unguarded is a gateway that opens its ledger without looking at the files or
// at the mark first.
const unguarded = "onceward_unsafe_unguarded"

// kept is a data directory as a kill leaves it, and what was acknowledged.
type kept struct {
	dir     string // with the data directory, config and logs in it
	sources []Source
	run     string
	acked   []Sent // the first answer to each event
	stored  map[string]Stored
}

// handing is a source whose provider hands its secret over, which is then kept
// beside the ledger.
const handing = "[[source]]\nname = \"handed\"\nprovider = \"asana\"\naccept_unconfirmed = true\nregistration = \"pending\"\ntargets = []\n"

const handedSecret = "b537207f20cbfa02357cf448134da559e8bd39d61597dcd5631b8012eae53e81"

func handOver(ctx context.Context, p *Proc) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+p.Public+"/in/handed", strings.NewReader("{}"))
	if err != nil {
		return err
	}
	req.Header.Set("X-Hook-Secret", handedSecret)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("hand the secret over: %s", resp.Status)
	}
	return nil
}

// filled makes a ledger with tables and a write-ahead file, all of it behind
// the mark: two orderly stops, then a kill of an idle gateway.
func filled(t *testing.T, s uint64) *kept {
	t.Helper()
	ctx := within(t, 2*time.Minute)
	dir := keep(t)
	r := newRig(t, built(t, asShipped), Layout{Dir: dir, Data: filepath.Join(dir, "data"), Extra: handing}, s)
	for i := range 2 {
		must(t, r.Boot(ctx))
		if i == 0 {
			must(t, handOver(ctx, r.Proc))
		}
		r.Load()
		must(t, Wait(ctx, 500*time.Millisecond))
		r.EndLoad()
		must(t, r.Proc.Stop(ctx))
		r.Sender.Down()
	}
	must(t, r.Boot(ctx))
	r.Load()
	must(t, Wait(ctx, 700*time.Millisecond))
	r.EndLoad()
	must(t, r.Quiesce(ctx))
	e, err := r.Evidence(ctx, 0)
	must(t, err)
	must(t, Wait(ctx, 300*time.Millisecond)) // the mark follows within 100 ms
	must(t, r.Kill(ctx))
	k := &kept{dir: dir, sources: r.sources, run: r.Sender.cfg.Run, stored: map[string]Stored{}}
	for _, st := range e.Stored {
		k.stored[st.Ref] = st
	}
	seen := map[string]bool{}
	for _, a := range e.Sent {
		if a.Status/100 == 2 && a.Ref != "" && !seen[a.Ref] {
			seen[a.Ref] = true
			k.acked = append(k.acked, a)
		}
	}
	return k
}

// damage is one thing done to one file.
type damage struct{ file, how string }

func (d damage) String() string { return d.how + " of " + d.file }

// files lists what can be damaged, from the copy's root.
func files(t *testing.T, dir string) (out []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() && (strings.Contains(path, "/data/") || strings.HasSuffix(path, "admin.token")) {
			name, rerr := filepath.Rel(dir, path)
			out, err = append(out, name), rerr
		}
		return err
	})
	must(t, err)
	slices.Sort(out)
	return out
}

// ways are how a file is damaged.
var ways = []string{"bit flip", "zeroed block", "truncation", "loss"}

// hurt damages a file in one of the ways, where is drawn, and says how.
func hurt(t *testing.T, random *rand.Rand, dir, file, how string) damage {
	t.Helper()
	path := filepath.Join(dir, file)
	b, err := os.ReadFile(path)
	must(t, err)
	used := max(1, len(bytes.TrimRight(b, "\x00")))
	at := random.IntN(used)
	switch {
	case how == "loss" || len(b) == 0:
		must(t, os.Remove(path))
		return damage{file, "loss"}
	case how == "bit flip":
		how = fmt.Sprintf("bit flip at %d", at)
		patch(t, path, at, []byte{b[at] ^ 1<<random.IntN(8)})
	case how == "zeroed block":
		at -= at % 4096
		how = fmt.Sprintf("zeroed block at %d", at)
		patch(t, path, at, make([]byte, min(4096, len(b)-at)))
	default:
		how = fmt.Sprintf("truncation at %d", at)
		must(t, os.Truncate(path, int64(at)))
	}
	return damage{file, how}
}

func patch(t *testing.T, path string, at int, b []byte) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	must(t, err)
	_, err = f.WriteAt(b, int64(at))
	must(t, err)
	must(t, f.Close())
}

// copyOf is a copy of the kept directory with a gateway of its own for it.
func (k *kept) copyOf(t *testing.T, bin string) (*Proc, string) {
	t.Helper()
	dir := t.TempDir()
	must(t, exec.CommandContext(t.Context(), "cp", "-a", "--sparse=always", k.dir+"/.", dir).Run())
	must(t, os.Remove(filepath.Join(dir, "gateway.log")))
	p, err := NewProc(bin, Layout{Dir: dir, Data: filepath.Join(dir, "data"), Extra: handing}, k.sources, "127.0.0.1:1")
	must(t, err)
	return p, dir
}

// findings are what one damaged ledger came to.
type findings struct {
	refused   bool // it was not opened
	lost, new int  // acknowledged, and unknown or taken for new without a word
	how       string
}

// TestCorruption damages every kind of file in every way, and wants each damage
// either named or without any effect.
func TestCorruption(t *testing.T) {
	t.Parallel()
	cases := count(t, "TORTURE_DAMAGES", 20)
	if long() {
		cases = count(t, "TORTURE_DAMAGES", 100)
	}
	s := seed(t)
	res := &Result{Fault: "damaged files", Seed: s, Cycles: cases}
	record(t, res)
	k := filled(t, s)
	res.Acknowledged = len(k.acked)
	random := rand.New(rand.NewPCG(s, 4000))
	names := files(t, k.dir)
	refused := 0
	// With four times as many cases as files every file meets every way; fewer
	// begin where the seed says.
	from := 0
	if cases < len(ways)*len(names) {
		from = int(s % uint64(len(ways)*len(names)))
	}
	for i := range cases {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			p, dir := k.copyOf(t, built(t, asShipped))
			n := from + i
			d := hurt(t, random, dir, names[n%len(names)], ways[n/len(names)%len(ways)])
			f := k.examine(t, p, d)
			res.Lost, res.Twice = res.Lost+f.lost, res.Twice+f.new
			if f.refused {
				refused++
				k.salvage(t, p, d)
			}
			t.Logf("%s: %s", d, f.how)
		})
	}
	res.Note = fmt.Sprintf("%d of %d damages of %d files refused by name, the others without effect", refused, cases, len(names))
	fmt.Println("corruption:", res.Note)
}

// examine starts a gateway on a damaged copy.
func (k *kept) examine(t *testing.T, p *Proc, d damage) (f findings) {
	t.Helper()
	ctx := within(t, 4*time.Minute)
	must(t, p.Start())
	if err := p.WaitReady(ctx); err != nil {
		st, err := p.Ended(ctx)
		must(t, err)
		log := p.logTail()
		want, last := 6, log[strings.LastIndexByte(strings.TrimSpace(log), '\n')+1:]
		switch {
		case containsAny(d.file, "admin.token", "audit.key"):
			want = 1 // no parts of the ledger
		case strings.Contains(d.file, "captured"):
			want, last = 3, log // nor this: the source can't be set up; its fault stands before the last line
		}
		name := strings.TrimSuffix(filepath.Base(d.file), ".sum")
		if st.ExitCode() != want || !strings.Contains(last, name) && !containsAny(last, "batch", "record") {
			t.Errorf("%s: ended with %v, want exit code %d and what is damaged\n%s", d, st, want, log)
		}
		return findings{refused: want == 6, how: strings.TrimSpace(last)}
	}
	defer func() { must(t, p.Kill()) }()
	return k.served(t, ctx, p, d)
}

// served holds a gateway that opened a damaged ledger against what was
// acknowledged: all of it right, or the damage named.
func (k *kept) served(t *testing.T, ctx context.Context, p *Proc, d damage) (f findings) {
	t.Helper()
	report, checkErr := p.Ask(ctx, "ledger", "check")
	account, err := p.Account(ctx)
	there := map[string]Stored{}
	for _, st := range account {
		there[st.Ref] = st
	}
	if err != nil && checkErr == nil {
		t.Errorf("%s: the check finds nothing, and the account can't be read: %v", d, err)
	}
	sender := NewSender(SenderConfig{Sources: k.sources, Run: k.run, Clock: NewClock()})
	for _, a := range k.acked {
		if err == nil && there[a.Ref].Hash != k.stored[a.Ref].Hash && checkErr == nil {
			f.lost++
		}
		again := sender.Send("http://"+p.Public, k.message(a))
		switch {
		case again.Status/100 == 2 && again.Repeat && again.Ref == a.Ref:
		case again.Status >= 500 && checkErr != nil: // refused, and the check says why
		default:
			f.new++
			t.Errorf("%s: %s %s was acknowledged as %s and is now answered %d, repeat %v, ref %s", d, a.Source, a.ID, a.Ref, again.Status, again.Repeat, again.Ref)
		}
		if f.new > 3 {
			break
		}
	}
	if f.lost > 0 {
		t.Errorf("%s: %d acknowledged events are not in the account, and the check finds nothing", d, f.lost)
	}
	f.how = "served right"
	if checkErr != nil {
		f.how = "named by the check: " + strings.TrimSpace(string(report))
	}
	return f
}

func (k *kept) message(a Sent) Message {
	i := slices.IndexFunc(k.sources, func(s Source) bool { return s.Name == a.Source })
	return Message{Source: &k.sources[i], Run: k.run, Number: a.Number, Variant: a.Variant}
}

// salvage wants a refused ledger's faults named, and a new one of what is left:
// every event that was acknowledged is there and known, or its loss was said.
func (k *kept) salvage(t *testing.T, p *Proc, d damage) {
	t.Helper()
	ctx := within(t, 4*time.Minute)
	if out, err := p.Command(ctx, "ledger", "check"); err == nil || !strings.Contains(string(out), "fault") {
		t.Errorf("%s: refused, and the check finds nothing: %v\n%s", d, err, out)
	}
	to := filepath.Join(filepath.Dir(p.Config), "saved")
	out, err := p.Command(ctx, "ledger", "salvage", "--to", to)
	if err != nil && !strings.Contains(err.Error(), "exit status 5") {
		t.Errorf("%s: salvage: %v\n%s", d, err, out)
		return
	}
	next, perr := NewProc(p.Binary, Layout{Dir: filepath.Dir(p.Config), Data: to, Extra: handing}, k.sources, "127.0.0.1:1")
	must(t, perr)
	must(t, next.Start())
	if err := next.WaitReady(ctx); err != nil {
		t.Errorf("%s: the salvaged ledger does not open: %v\n%s", d, err, out)
		return
	}
	defer func() { must(t, next.Kill()) }()
	account, aerr := next.Account(ctx)
	if aerr != nil {
		t.Errorf("%s: the account of the salvaged ledger: %v", d, aerr)
	}
	if err == nil && len(account) < len(k.acked) {
		t.Errorf("%s: salvage says nothing is lost, and %d of %d events are there", d, len(account), len(k.acked))
	}
}

// TestControlCorruption opens a ledger with a damaged write-ahead file in a
// build that doesn't look: what is behind the damage is gone and unknown.
func TestControlCorruption(t *testing.T) {
	t.Parallel()
	s := seed(t)
	res := &Result{Fault: "damaged files, guards off", Seed: s, Control: true, Cycles: 1}
	record(t, res)
	k := filled(t, s)
	p, dir := k.copyOf(t, built(t, unguarded))
	logs, err := filepath.Glob(filepath.Join(dir, "data", "ledger", "*.mem"))
	must(t, err)
	b, err := os.ReadFile(logs[len(logs)-1])
	must(t, err)
	at := len(bytes.TrimRight(b, "\x00")) / 2
	patch(t, logs[len(logs)-1], at, []byte{b[at] ^ 4})
	ctx := within(t, 4*time.Minute)
	must(t, p.Start())
	must(t, p.WaitReady(ctx))
	defer func() { must(t, p.Kill()) }()
	sender := NewSender(SenderConfig{Sources: k.sources, Run: k.run, Clock: NewClock()})
	fresh := 0
	for _, a := range k.acked {
		if again := sender.Send("http://"+p.Public, k.message(a)); again.Status/100 == 2 && !again.Repeat {
			fresh++
		}
	}
	res.Seen = fresh > 0
	res.Note = fmt.Sprintf("one flipped bit: %d of %d acknowledged events taken for new", fresh, len(k.acked))
	if fresh == 0 {
		t.Error("nothing was taken for new: the suite would not see it")
	}
}
