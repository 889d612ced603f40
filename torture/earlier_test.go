package main

import (
	"strings"
	"testing"
	"time"
)

// earlier is a report of 40 minutes with two failures.
func earlier(t *testing.T, results ...Result) *Earlier {
	t.Helper()
	rep := Report{Date: time.Unix(0, 0), Took: 40 * time.Minute, Commit: "abc", Tier: "N", Machine: "linux/amd64, 2 cores, go1", Results: results,
		Failures: []string{"TestNone: exit status 2: `go test -tags torture ./torture -run '^TestNone$' -seed 5`"}}
	var b strings.Builder
	if err := rep.Write(&b); err != nil {
		t.Fatal(err)
	}
	e, err := parseReport(b.String())
	if err != nil {
		t.Fatalf("%v\n%s", err, b.String())
	}
	return e
}

func earlierResults() []Result {
	return []Result{
		{Fault: "kill -9", Test: "TestCrashLoop", Seed: 7, Cycles: 60, Acknowledged: 1000, Note: "start: 12ms"},
		{Fault: "kill -9", Test: "TestCrashLoop", Seed: 8, Cycles: 60, Acknowledged: 500, Failed: true},
		{Fault: "no sync: must be seen", Test: "TestControlNoSync", Control: true, Seen: true, Note: "lost 12 | of 40"},
		{Fault: "early", Test: "TestControlEarly", Seed: 7, Control: true},
	}
}

// A report that goes on from another counts it in, and what failed then is
// fixed only by the same test with the same seed.
func TestReportAfter(t *testing.T) {
	t.Parallel()
	again := []Result{
		{Fault: "kill -9", Test: "TestCrashLoop", Seed: 8, Cycles: 60, Acknowledged: 400},
		{Fault: "early", Test: "TestControlEarly", Seed: 7, Control: true, Seen: true},
		{Fault: "none", Test: "TestNone", Seed: 5, Cycles: 1},
	}
	for name, tt := range map[string]struct {
		results []Result
		ok      bool
		says    []string
	}{
		"all fixed": {again, true, []string{"1h0m0s, commit abc, then def", "| kill -9 | 3 | 180 | 1900 | 0 | 0 | 0 |", "None.", "## Fixed",
			"| no sync: must be seen | yes | lost 12 | of 40 |", "| early | yes |", "- kill -9: start: 12ms", "\ntotal: cycles 181, acknowledged 1900, lost 0, accepted twice 0\n"}},
		"one not run again": {again[:2], false, []string{"-run '^TestNone$' -seed 5"}},
		"one failed again": {append([]Result{{Fault: "none", Test: "TestNone", Seed: 5, Failed: true}}, again[:2]...), false,
			[]string{"-run '^TestNone$' -seed 5"}},
		"another seed": {[]Result{{Fault: "kill -9", Test: "TestCrashLoop", Seed: 9}, again[1], again[2]}, false, []string{"| kill -9 | 3 | 120 | 1500 | 0 | 0 | 1 |"}},
		"blind still":  {[]Result{again[0], again[2]}, false, []string{"| early | **NO** |"}},
	} {
		rep := Report{Date: time.Unix(0, 0), Took: 20 * time.Minute, Commit: "def", Tier: "N", Results: tt.results, Earlier: earlier(t, earlierResults()...)}
		var b strings.Builder
		if err := rep.Write(&b); err != nil {
			t.Fatal(err)
		}
		if rep.OK() != tt.ok {
			t.Errorf("%s: OK %v, want %v\n%s", name, rep.OK(), tt.ok, b.String())
		}
		for _, part := range tt.says {
			if !strings.Contains(b.String(), part) {
				t.Errorf("%s: no %q in\n%s", name, part, b.String())
			}
		}
	}
}

// What was fixed once is named in every later report.
func TestReportAfterFixed(t *testing.T) {
	t.Parallel()
	e := earlier(t, earlierResults()...)
	var b strings.Builder
	for i, results := range [][]Result{{{Fault: "kill -9", Test: "TestCrashLoop", Seed: 8}}, {{Fault: "none", Test: "TestNone", Seed: 5}}, nil} {
		b.Reset()
		rep := Report{Date: time.Unix(0, 0), Commit: strings.Repeat("d", i+1), Tier: "N", Machine: "linux/amd64, 2 cores, go1", Results: results, Earlier: e}
		err := rep.Write(&b)
		if err == nil {
			e, err = parseReport(b.String())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if head := "commit abc, then d, then dd, then ddd,"; !strings.Contains(b.String(), head) {
		t.Errorf("no %q in\n%s", head, b.String())
	}
	for _, line := range []string{"-seed 8` passes at d\n", "-seed 5` passes at dd\n"} {
		if _, after, ok := strings.Cut(b.String(), "## Fixed"); !ok || !strings.Contains(after, line) {
			t.Errorf("no %q among what was fixed:\n%s", line, b.String())
		}
	}
}

// What was lost stays lost, whatever passes later.
func TestReportAfterLoss(t *testing.T) {
	t.Parallel()
	e := earlier(t, Result{Fault: "f", Test: "TestX", Seed: 1, Lost: 1})
	rep := Report{Results: []Result{{Fault: "f", Test: "TestX", Seed: 1}, {Fault: "none", Test: "TestNone", Seed: 5}}, Earlier: e}
	if _, _, lost, _ := rep.Total(); rep.OK() || lost != 1 {
		t.Errorf("OK %v, lost %d", rep.OK(), lost)
	}
}

func TestParseReportFails(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "# Torture report\n", "Written by the crash suite; do not edit. Tier N, d, 3m, commit a, linux/amd64, x\n| f | 1 |\n"} {
		if e, err := parseReport(text); err == nil {
			t.Errorf("%q was read: %+v", text, e)
		}
	}
}
