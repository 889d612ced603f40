package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf16"

	"github.com/onceward/onceward/dedupe"
)

// table is data as a person reads it. Cells are escaped when it is written.
type table struct {
	head []string
	rows [][]string
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

// write aligns the columns; a table without head gets none.
func (t *table) write(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	if t.head != nil {
		fmt.Fprintln(tw, strings.Join(t.head, "\t"))
	}
	for _, row := range t.rows {
		cells := make([]string, len(row))
		for i, c := range row {
			cells[i] = escape(c)
		}
		fmt.Fprintln(tw, strings.Join(cells, "\t"))
	}
	return tw.Flush()
}

// encode is v as JSON that is safe to show: characters that a terminal would
// act on are written as \u escapes, which leaves the document the same.
func encode(v any, prefix, indent string) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	enc.SetIndent(prefix, indent)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("encode output: %w", err)
	}
	out := strings.TrimSuffix(buf.String(), "\n")
	if !needsEscape(out, true) {
		return []byte(out), nil
	}
	var b strings.Builder
	for _, r := range out {
		switch {
		case !unsafeRune(r, true):
			b.WriteRune(r)
		case r <= 0xffff:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			hi, lo := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, hi, lo)
		}
	}
	return []byte(b.String()), nil
}

// show prints one document, or its table.
func (a *app) show(v any, view func(io.Writer) error) error {
	indent := "  "
	switch a.flags.output {
	case "table":
		return view(a.Stdout)
	case "jsonl":
		indent = ""
	}
	out, err := encode(v, "", indent)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.Stdout, "%s\n", out)
	return err
}

// listWriter prints a list of any length as it comes.
type listWriter struct {
	w      io.Writer
	format string
	head   []string
	n      int
}

func (a *app) newList(head ...string) *listWriter {
	return &listWriter{w: a.Stdout, format: a.flags.output, head: head}
}

// page prints some items; row makes an item's cells.
func page[T any](l *listWriter, items []T, row func(T) []string) error {
	t := table{}
	if l.n == 0 {
		t.head = l.head
	}
	for _, item := range items {
		if l.format == "table" {
			t.add(row(item)...)
		} else if err := l.object(item); err != nil {
			return err
		}
		l.n++
	}
	if l.format != "table" || len(t.rows) == 0 {
		return nil
	}
	return t.write(l.w)
}

func (l *listWriter) object(item any) error {
	if l.format == "jsonl" {
		out, err := encode(item, "", "")
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(l.w, "%s\n", out)
		return err
	}
	out, err := encode(item, "  ", "  ")
	if err != nil {
		return err
	}
	open := "[\n  "
	if l.n > 0 {
		open = ",\n  "
	}
	_, err = fmt.Fprintf(l.w, "%s%s", open, out)
	return err
}

// end closes the list: a JSON list is an array also when it is empty.
func (l *listWriter) end() error {
	if l.format != "json" {
		return nil
	}
	closing := "\n]\n"
	if l.n == 0 {
		closing = "[]\n"
	}
	_, err := io.WriteString(l.w, closing)
	return err
}

// whole prints a list that came in one piece.
func whole[T any](a *app, items []T, head []string, row func(T) []string) error {
	l := a.newList(head...)
	if err := page(l, items, row); err != nil {
		return err
	}
	return l.end()
}

// pages prints a paged list: up to limit items, or all, following the cursors.
func pages[T any](l *listWriter, limit int, all bool, fetch func(cursor string, limit int) (dedupe.Page[T], error), row func(T) []string) (more bool, err error) {
	cursor := ""
	for {
		want := maxPage
		if !all {
			want = min(maxPage, limit-l.n)
		}
		p, err := fetch(cursor, want)
		if err != nil {
			return false, err
		}
		if err := page(l, p.Items, row); err != nil {
			return false, err
		}
		cursor = p.Next
		if cursor == "" || !all && l.n >= limit {
			return cursor != "", l.end()
		}
	}
}

// maxPage is the largest page the admin API gives.
const maxPage = 500

// stamp is a time as people read it: local, to the second.
func stamp(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Local().Format("2006-01-02 15:04:05")
}

// ago is how long before now t was, in its largest unit.
func ago(now, t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return short(now.Sub(t)) + " ago"
}

// short is a duration in its largest unit.
func short(d time.Duration) string {
	switch {
	case d < 0:
		return "0s"
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

// size is a number of bytes in its largest unit.
func size(n int64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	f, i := float64(n), 0
	for f >= 1024 && i < len(units)-1 {
		f /= 1024
		i++
	}
	if i == 0 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", f, units[i])
}

// amount is a count in at most five characters or so.
func amount(n int64) string {
	switch {
	case n < 100_000:
		return fmt.Sprint(n)
	case n < 1_000_000:
		return fmt.Sprintf("%dk", n/1000)
	case n < 1_000_000_000:
		return fmt.Sprintf("%.1fM", float64(n)/1e6)
	}
	return fmt.Sprintf("%.1fG", float64(n)/1e9)
}

// dash stands for what is not there.
func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// clip shortens s to n runes, with an ellipsis.
func clip(s string, n int) string {
	r := []rune(s)
	if len(r) <= n {
		return s
	}
	return string(r[:n-1]) + "…"
}
