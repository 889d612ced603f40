package gateway

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// Fault is one thing that is wrong with a configuration: where, what, and
// what to do about it. It never holds a value that a reference stood for.
type Fault struct {
	File    string `json:"file"`
	Line    int    `json:"line"` // from 1; 0 when it is about the whole file
	Column  int    `json:"column"`
	Key     string `json:"key"` // as in source[0].secrets[1]; "" for the whole file
	Problem string `json:"problem"`
	Remedy  string `json:"remedy"`
	Warning bool   `json:"warning"` // nothing is refused because of it
}

// String is one line: file:line:column: key: problem; remedy.
func (f Fault) String() string {
	var b strings.Builder
	b.WriteString(f.File)
	if f.Line > 0 {
		b.WriteString(":" + strconv.Itoa(f.Line) + ":" + strconv.Itoa(f.Column))
	}
	b.WriteString(": ")
	if f.Warning {
		b.WriteString("warning: ")
	}
	if f.Key != "" {
		b.WriteString(f.Key + ": ")
	}
	b.WriteString(f.Problem)
	if f.Remedy != "" {
		b.WriteString("; " + f.Remedy)
	}
	return b.String()
}

// Faults is everything that is wrong, in the order of the file. As an error
// it is all of its lines; use Err, which is nil when nothing is refused.
type Faults []Fault

// Failed reports whether the configuration is refused.
func (fs Faults) Failed() bool {
	return slices.ContainsFunc(fs, func(f Fault) bool { return !f.Warning })
}

// Err is the faults as an error, nil when there are only warnings.
func (fs Faults) Err() error {
	if fs.Failed() {
		return fs
	}
	return nil
}

// Error is one line per fault.
func (fs Faults) Error() string {
	lines := make([]string, len(fs))
	for i, f := range fs {
		lines[i] = f.String()
	}
	return strings.Join(lines, "\n")
}

// Warnings are the faults that refuse nothing.
func (fs Faults) Warnings() Faults {
	return slices.DeleteFunc(slices.Clone(fs), func(f Fault) bool { return !f.Warning })
}

// report collects the faults of one file.
type report struct {
	file   string
	faults Faults
	values [][2]string // what references stood for, and the references
}

// hide remembers a value that no fault may show.
func (r *report) hide(value, ref string) {
	if len(value) > 2 {
		r.values = append(r.values, [2]string{value, "${" + ref + "}"})
		slices.SortStableFunc(r.values, func(a, b [2]string) int { return cmp.Compare(len(b[0]), len(a[0])) })
	}
}

// clean puts the references back where a text holds what they stood for.
func (r *report) clean(text string) string {
	for _, v := range r.values {
		text = strings.ReplaceAll(text, v[0], v[1])
	}
	return text
}

// at adds an error at a node; a nil node is the whole file.
func (r *report) at(n *node, problem, remedy string) { r.add(n, false, problem, remedy) }

// warn adds a warning at a node.
func (r *report) warn(n *node, problem, remedy string) { r.add(n, true, problem, remedy) }

func (r *report) add(n *node, warning bool, problem, remedy string) {
	if n != nil && n.bad {
		return
	}
	f := Fault{File: r.file, Problem: r.clean(problem), Remedy: r.clean(remedy), Warning: warning}
	if n != nil {
		f.Line, f.Column, f.Key = n.line, n.column, n.path
	}
	r.faults = append(r.faults, f)
}

// sorted is the faults by position, each once.
func (r *report) sorted() Faults {
	slices.SortStableFunc(r.faults, func(a, b Fault) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return slices.Compact(r.faults)
}

// meant is `did you mean "x"?` for the candidate nearest to got, at most two
// edits away, else the fallback.
func meant(got string, candidates []string, fallback string) string {
	best, at := "", 3
	for _, c := range candidates {
		if d := edits(got, c); d < at && d < len(c) {
			best, at = c, d
		}
	}
	if best == "" {
		return fallback
	}
	return "did you mean " + strconv.Quote(best) + "?"
}

// edits is the number of insertions, deletions, substitutions and swaps of
// neighbours that turn a into b.
func edits(a, b string) int {
	if d := len(a) - len(b); d > 2 || d < -2 {
		return 3
	}
	before, prev, cur := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		cur[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			cur[j] = min(prev[j]+1, cur[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				cur[j] = min(cur[j], before[j-2]+1)
			}
		}
		before, prev, cur = prev, cur, before
	}
	return prev[len(b)]
}
