package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The steps at which a gateway can be told to die: those it passes all the
// time, and those of a new ledger.
var (
	steps = []string{
		"commit.begin", "commit.done", "wake", "result", "ahead.chunk", "ahead.done", "note.done",
		"mark.begin", "mark.written", "mark.done",
		"expire.carry", "expire.room", "expire.cut", "expire.cut.done", "drop.done",
	}
	firstSteps = []string{"ledger.made", "mark.made", "mark.moved", "mark.begin", "mark.written", "mark.done", "class.made", "commit.begin", "commit.done"}
)

// The product's packages that the embedded ledger is made of.
var ledgerPackages = []string{"../dedupe", "../dedupe/badgerdb"}

var failpointCall = regexp.MustCompile(`\bFailpoint\("([^"]+)"\)`)

// failpoints lists the steps that the sources in dir name.
func failpoints(t *testing.T, dir fs.FS) (out []string) {
	t.Helper()
	files, err := fs.Glob(dir, "*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if strings.HasSuffix(f, "_test.go") {
			continue
		}
		text, err := fs.ReadFile(dir, f)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range failpointCall.FindAllStringSubmatch(string(text), -1) {
			out = append(out, m[1])
		}
	}
	return out
}

// without lists those of names that are not among known.
func without(names, known []string) (out []string) {
	for _, n := range names {
		if !slices.Contains(known, n) {
			out = append(out, n)
		}
	}
	return out
}

// TestEveryStepIsKilled: a durable step that is added to the ledger is one that
// the suite kills a gateway at, and none in its list is gone from the code.
func TestEveryStepIsKilled(t *testing.T) {
	var have []string
	for _, dir := range ledgerPackages {
		found := failpoints(t, os.DirFS(dir))
		if len(found) == 0 {
			t.Errorf("%s has no step: is it elsewhere?", dir)
		}
		have = append(have, found...)
	}
	kills := slices.Concat(steps, firstSteps)
	for _, s := range without(have, kills) {
		t.Errorf("no gateway is killed at step %s", s)
	}
	for _, s := range without(kills, have) {
		t.Errorf("step %s is not in the code", s)
	}
}

// The control: a step in a source file that is in no list is noticed.
func TestNewStepIsNoticed(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "new.go"), []byte("package x\nfunc f() { dedupe.Failpoint(\"new.step\") }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := without(failpoints(t, os.DirFS(dir)), steps); !slices.Equal(got, []string{"new.step"}) {
		t.Errorf("a step in no list: noticed %q", got)
	}
}
