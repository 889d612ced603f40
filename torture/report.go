package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"
)

// Result is what one test of one fault came to. Results are appended to a file
// as JSON lines, so that tests in processes of their own add to it too.
type Result struct {
	Fault        string `json:"fault"` // what was done to the gateway, as the report names it
	Test         string `json:"test"`  // the test's name, which replays it together with the seed
	Seed         uint64 `json:"seed"`
	Control      bool   `json:"control"` // a promise was broken on purpose: Seen says whether the suite noticed
	Seen         bool   `json:"seen"`
	Note         string `json:"note"` // one line: what a control lost, how long a recovery took
	Cycles       int    `json:"cycles"`
	Acknowledged int    `json:"acknowledged"`
	Lost         int    `json:"lost"`
	Twice        int    `json:"twice"`
	Failed       bool   `json:"failed"`
}

// Append adds a result to the file at path. Several processes may do so.
func (r Result) Append(path string) error {
	line, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode result: %w", err)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open results: %w", err)
	}
	_, err = f.Write(append(line, '\n'))
	return errors.Join(err, f.Close())
}

// ReadResults reads what Append wrote; no file is no results.
func ReadResults(path string) ([]Result, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read results: %w", err)
	}
	var all []Result
	sc := bufio.NewScanner(bytes.NewReader(text))
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		var r Result
		if err := json.Unmarshal(sc.Bytes(), &r); err != nil {
			return nil, fmt.Errorf("read results: line %d: %w", len(all)+1, err)
		}
		all = append(all, r)
	}
	return all, sc.Err()
}

// Report is what both tiers write.
type Report struct {
	Date    time.Time
	Took    time.Duration
	Commit  string // as the version control names the tree
	Tier    string // C or N
	Machine string
	Results []Result
	// Failures are tests that failed before they came to a result.
	Failures []string
	Earlier  *Earlier // the report that this one goes on from, or nil
}

// row is a fault's line of the report.
type row struct {
	fault                                    string
	runs, cycles, acked, lost, twice, failed int
}

// Total adds up all results but the controls'.
func (r *Report) Total() (cycles, acked, lost, twice int) {
	for _, f := range r.rows() {
		cycles, acked, lost, twice = cycles+f.cycles, acked+f.acked, lost+f.lost, twice+f.twice
	}
	return cycles, acked, lost, twice
}

// OK reports whether nothing failed, a blind control included.
func (r *Report) OK() bool {
	if len(r.Failures) > 0 || slices.ContainsFunc(r.Results, Result.bad) {
		return false
	}
	if r.Earlier == nil {
		return true
	}
	_, open := r.Earlier.fixed(r.Results)
	return len(open) == 0 && !slices.ContainsFunc(r.Earlier.stand(r.Results), Result.bad) &&
		!slices.ContainsFunc(r.Earlier.rows, func(f row) bool { return f.lost+f.twice > 0 })
}

func (r Result) bad() bool {
	return r.Failed || r.Control && !r.Seen || !r.Control && r.Lost+r.Twice > 0
}

func (r *Report) rows() []row {
	var out []row
	if r.Earlier != nil {
		out = r.Earlier.carried(r.Results)
	}
	for _, res := range r.Results {
		if res.Control {
			continue
		}
		i := slices.IndexFunc(out, func(f row) bool { return f.fault == res.Fault })
		if i < 0 {
			i, out = len(out), append(out, row{fault: res.Fault})
		}
		f := &out[i]
		f.runs++
		f.cycles, f.acked, f.lost, f.twice = f.cycles+res.Cycles, f.acked+res.Acknowledged, f.lost+res.Lost, f.twice+res.Twice
		if res.bad() {
			f.failed++
		}
	}
	return out
}

// Write writes the report as Markdown. Its last line is the total, for
// machines.
func (r *Report) Write(w io.Writer) error {
	var b strings.Builder
	took, commit := r.Took, r.Commit
	if r.Earlier != nil {
		took += r.Earlier.Took
		commit = r.Earlier.Commit
		if !strings.HasSuffix(commit, r.Commit) {
			commit += ", then " + r.Commit
		}
	}
	fmt.Fprintf(&b, "# Torture report\n\nWritten by the crash suite; do not edit. Tier %s, %s, %s, commit %s, %s.\n\n",
		r.Tier, r.Date.UTC().Format("2006-01-02 15:04 MST"), took.Round(time.Second), commit, r.Machine)
	b.WriteString("| fault | runs | cycles | acknowledged | lost | accepted twice | failed runs |\n| --- | ---: | ---: | ---: | ---: | ---: | ---: |\n")
	for _, f := range r.rows() {
		fmt.Fprintf(&b, "| %s | %d | %d | %d | %d | %d | %d |\n", f.fault, f.runs, f.cycles, f.acked, f.lost, f.twice, f.failed)
	}
	r.controls(&b)
	r.notes(&b)
	r.failures(&b)
	cycles, acked, lost, twice := r.Total()
	fmt.Fprintf(&b, "total: cycles %d, acknowledged %d, lost %d, accepted twice %d\n", cycles, acked, lost, twice)
	_, err := io.WriteString(w, b.String())
	return err
}

func (r *Report) controls(b *strings.Builder) {
	b.WriteString("\n## Controls\n\nA promise broken on purpose in a build of its own: each must be noticed.\n\n| control | noticed | what it showed |\n| --- | --- | --- |\n")
	all := r.Results
	if r.Earlier != nil {
		all = slices.Concat(r.Earlier.stand(r.Results), r.Results)
	}
	for _, res := range all {
		if !res.Control {
			continue
		}
		seen := "yes"
		if !res.Seen {
			seen = "**NO**"
		}
		fmt.Fprintf(b, "| %s | %s | %s |\n", res.Fault, seen, res.Note)
	}
}

// notes lists what tests measured, the last of each fault.
func (r *Report) notes(b *strings.Builder) {
	last := map[string]string{}
	var order []string
	if r.Earlier != nil {
		for _, n := range r.Earlier.notes {
			order = append(order, n[0])
			last[n[0]] = n[1]
		}
	}
	for _, res := range r.Results {
		if res.Control || res.Note == "" {
			continue
		}
		if _, known := last[res.Fault]; !known {
			order = append(order, res.Fault)
		}
		last[res.Fault] = res.Note
	}
	if len(order) == 0 {
		return
	}
	b.WriteString("\n## Measured\n\n")
	for _, f := range order {
		fmt.Fprintf(b, "- %s: %s\n", f, last[f])
	}
}

func (r *Report) failures(b *strings.Builder) {
	b.WriteString("\n## Failures\n\n")
	n := 0
	var fixed, open []failure
	if r.Earlier != nil {
		fixed, open = r.Earlier.fixed(r.Results)
	}
	for _, f := range open {
		n++
		b.WriteString(f.line + "\n")
	}
	for _, res := range r.Results {
		if res.bad() {
			n++
			fmt.Fprintf(b, "- %s: `go test -tags torture ./torture -run '^%s$' -seed %d`\n", res.Fault, res.Test, res.Seed)
		}
	}
	for _, f := range r.Failures {
		n++
		fmt.Fprintf(b, "- %s\n", f)
	}
	if n == 0 {
		b.WriteString("None.\n")
	}
	b.WriteString("\n")
	var mended []string
	if r.Earlier != nil {
		mended = slices.Clone(r.Earlier.mended)
	}
	for _, f := range fixed {
		mended = append(mended, f.line+" passes at "+r.Commit)
	}
	if len(mended) == 0 {
		return
	}
	b.WriteString("## Fixed\n\nFailed in an earlier part, and passes since with the same seed, at the commit where one is named.\n\n")
	for _, line := range mended {
		b.WriteString(line + "\n")
	}
	b.WriteString("\n")
}
