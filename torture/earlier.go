package main

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Earlier is a report that another run goes on from: what it counted counts, and
// what failed in it has failed until the same test has passed with the same
// seed.
type Earlier struct {
	Took     time.Duration
	Commit   string
	rows     []row
	controls []Result // fault, Seen and Note
	notes    [][2]string
	failures []failure
	mended   []string // lines of what had failed before and was fixed
}

// failure is a line of what went wrong, and how it is made again.
type failure struct {
	fault, test string
	seed        uint64
	line        string
}

var (
	reportHead   = regexp.MustCompile(`(?m)^Written by the crash suite; do not edit\. Tier \w, .*?, ([0-9hms.]+), commit (.+?), \w+/\w+,`)
	reportReplay = regexp.MustCompile("^- (.+?): (?:.*: )?`go test .*-run '\\^(\\w+)\\$' -seed ([0-9]+)`$")
)

// ReadReport reads what Report.Write wrote.
func ReadReport(path string) (*Earlier, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the earlier report: %w", err)
	}
	e, err := parseReport(string(text))
	if err != nil {
		return nil, fmt.Errorf("read the earlier report %s: %w", path, err)
	}
	return e, nil
}

func parseReport(text string) (e *Earlier, err error) {
	m := reportHead.FindStringSubmatch(text)
	if m == nil {
		return nil, fmt.Errorf("no line says how long it took and of what")
	}
	e = &Earlier{Commit: m[2]}
	if e.Took, err = time.ParseDuration(m[1]); err != nil {
		return nil, err
	}
	part := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		name, note, _ := strings.Cut(strings.TrimPrefix(line, "- "), ": ")
		switch {
		case strings.HasPrefix(line, "## "):
			part = line[3:]
		case strings.HasPrefix(line, "| ") && (cells[0] == "fault" || cells[0] == "control" || cells[0] == "---"):
		case strings.HasPrefix(line, "| ") && part == "":
			err = e.addRow(cells)
		case strings.HasPrefix(line, "| ") && part == "Controls" && len(cells) >= 2:
			note := strings.Join(cells[2:], " | ")
			e.controls = append(e.controls, Result{Fault: cells[0], Control: true, Seen: cells[1] == "yes", Note: note})
		case strings.HasPrefix(line, "- ") && part == "Measured":
			e.notes = append(e.notes, [2]string{name, note})
		case strings.HasPrefix(line, "- ") && part == "Failures":
			err = e.addFailure(line)
		case strings.HasPrefix(line, "- ") && part == "Fixed":
			e.mended = append(e.mended, line)
		}
		if err != nil {
			return nil, err
		}
	}
	return e, nil
}

func (e *Earlier) addRow(cells []string) error {
	if len(cells) != 7 {
		return fmt.Errorf("the line of %q has %d parts, want 7", cells[0], len(cells))
	}
	var n [6]int
	for i := range n {
		var err error
		if n[i], err = strconv.Atoi(cells[i+1]); err != nil {
			return fmt.Errorf("the line of %q: %w", cells[0], err)
		}
	}
	e.rows = append(e.rows, row{cells[0], n[0], n[1], n[2], n[3], n[4], n[5]})
	return nil
}

func (e *Earlier) addFailure(line string) error {
	m := reportReplay.FindStringSubmatch(line)
	if m == nil {
		return fmt.Errorf("no test and seed in %q", line)
	}
	seed, err := strconv.ParseUint(m[3], 10, 64)
	if err != nil {
		return err
	}
	e.failures = append(e.failures, failure{fault: m[1], test: m[2], seed: seed, line: line})
	return nil
}

// fixed tells the earlier failures whose test has passed since, with the same
// seed, from those that stay.
func (e *Earlier) fixed(since []Result) (fixed, open []failure) {
	for _, f := range e.failures {
		again := func(r Result) bool { return r.Test == f.test && r.Seed == f.seed }
		bad := slices.ContainsFunc(since, func(r Result) bool { return again(r) && r.bad() })
		if slices.ContainsFunc(since, again) && !bad {
			fixed = append(fixed, f)
		} else {
			open = append(open, f)
		}
	}
	return fixed, open
}

// carried is the earlier rows: a failure that is fixed is none any more, but
// what was lost in it stays lost.
func (e *Earlier) carried(since []Result) []row {
	out := slices.Clone(e.rows)
	fixed, _ := e.fixed(since)
	for _, f := range fixed {
		if i := slices.IndexFunc(out, func(r row) bool { return r.fault == f.fault }); i >= 0 && out[i].failed > 0 {
			out[i].failed--
		}
	}
	return out
}

// stand lists the earlier controls that stand: those that did not run since.
func (e *Earlier) stand(since []Result) (out []Result) {
	for _, c := range e.controls {
		if !slices.ContainsFunc(since, func(r Result) bool { return r.Control && r.Fault == c.Fault }) {
			out = append(out, c)
		}
	}
	return out
}
