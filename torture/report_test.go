package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestReport(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "results")
	want := []Result{
		{Fault: "kill -9", Test: "TestCrashLoop", Seed: 7, Cycles: 60, Acknowledged: 1000},
		{Fault: "kill -9", Test: "TestCrashLoop", Seed: 8, Cycles: 60, Acknowledged: 500, Note: "start 12ms"},
		{Fault: "no sync", Test: "TestControlNoSync", Control: true, Seen: true, Lost: 12, Note: "lost 12 of 40"},
	}
	for _, r := range want {
		if err := r.Append(path); err != nil {
			t.Fatal(err)
		}
	}
	got, err := ReadResults(path)
	if err != nil || len(got) != len(want) {
		t.Fatalf("read %d results, %v", len(got), err)
	}
	rep := Report{Date: time.Unix(0, 0), Commit: "abc", Tier: "C", Results: got}
	if !rep.OK() {
		t.Error("a good report is not OK")
	}
	var b strings.Builder
	if err := rep.Write(&b); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	if !strings.HasSuffix(text, "\ntotal: cycles 120, acknowledged 1500, lost 0, accepted twice 0\n") {
		t.Errorf("last line of\n%s", text)
	}
	for _, part := range []string{"| kill -9 | 2 | 120 | 1500 | 0 | 0 | 0 |", "| no sync | yes | lost 12 of 40 |", "None.", "start 12ms"} {
		if !strings.Contains(text, part) {
			t.Errorf("no %q in\n%s", part, text)
		}
	}
}

// What went wrong is never lost in a sum: each of these must spoil the report
// and be listed with what replays it.
func TestReportFails(t *testing.T) {
	t.Parallel()
	for name, r := range map[string]Result{
		"a loss":          {Fault: "f", Test: "TestX", Seed: 9, Lost: 1},
		"accepted twice":  {Fault: "f", Test: "TestX", Seed: 9, Twice: 1},
		"failed":          {Fault: "f", Test: "TestX", Seed: 9, Failed: true},
		"a blind control": {Fault: "f", Test: "TestX", Seed: 9, Control: true},
	} {
		rep := Report{Results: []Result{r}}
		var b strings.Builder
		if err := rep.Write(&b); err != nil {
			t.Fatal(err)
		}
		if rep.OK() || !strings.Contains(b.String(), "-run '^TestX$' -seed 9") {
			t.Errorf("%s: not reported:\n%s", name, b.String())
		}
	}
	if rep := (Report{Failures: []string{"TestX did not end"}}); rep.OK() {
		t.Error("a test without a result: not reported")
	}
}
