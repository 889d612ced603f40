package gateway

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/onceward/onceward/forward"
	"github.com/onceward/onceward/receiver"
)

// where compiles the condition of a route and reports its faults at their own
// places.
func (c *checker) where(r *RouteConfig, n *node) {
	if n == nil || n.bad || len(n.unset) > 0 {
		return
	}
	if strings.TrimSpace(r.Where) == "" {
		c.rep.at(n, "the condition is empty", "leave it out to take every event")
		return
	}
	w, err := forward.CompileWhere(r.Where)
	var faults forward.WhereError
	switch {
	case errors.As(err, &faults):
		for _, f := range faults {
			c.rep.at(n.inside(f.Line, f.Column), "the condition "+wherePlace(n, f)+": "+f.Problem, `want CEL such as 'body.data.object.amount > 1000 && type.startsWith("invoice.")'`)
		}
		return
	case err != nil:
		c.rep.at(n, err.Error(), "")
		return
	}
	r.where = w
}

// whereBodies warns of bodies that conditions don't look into.
func (c *checker) whereBodies(s *SourceConfig, n *node) {
	for i, r := range s.Routes {
		if r.where != nil && r.where.Body() && s.BodyLimit > forward.MaxWhereBody {
			c.rep.warn(n.get("route").item(i).get("where"), "a body over "+Size(forward.MaxWhereBody).String()+" matches no condition that looks into it",
				"such events are flagged filter_error; add a route without a condition, or lower body_limit")
		}
	}
}

// wherePlace says where in the condition a fault is, when the file can't show
// it.
func wherePlace(n *node, f forward.WhereFault) string {
	if n.expanded {
		return fmt.Sprintf("is wrong at %d:%d", f.Line, f.Column)
	}
	return "is wrong"
}

// conditions are those of the source's routes as the receiver takes them, nil
// when there are none.
func (s *SourceConfig) conditions() receiver.Conditions {
	list := make(forward.Conditions, len(s.Targets), len(s.Targets)+len(s.Routes)) // plain targets come first
	some := false
	for _, r := range s.Routes {
		list = append(list, r.where)
		some = some || r.where != nil
	}
	if !some {
		return nil
	}
	return list.On
}

// inside is the place in the file of a line and column of a string's text. A
// string with references has but one place.
func (n *node) inside(line, column int) *node {
	at := *n
	if n.expanded || n.raw == "" {
		return &at
	}
	w := rawWalker{line: n.line, column: n.column, textLine: 1, textColumn: 1}
	quote, body := rawBody(n.raw)
	w.skip(quote)
	escapes := quote[0] == '"'
	for body != "" {
		before := w
		n := w.step(body, escapes)
		if silent := w.textLine == before.textLine && w.textColumn == before.textColumn; !silent &&
			(before.textLine > line || before.textLine == line && before.textColumn >= column) {
			w = before
			break
		}
		body = body[n:]
	}
	at.line, at.column = w.line, w.column
	return &at
}

// rawBody splits a string as written into what opens it and the rest.
func rawBody(raw string) (open, body string) {
	for _, q := range []string{`"""`, `'''`} {
		if len(raw) >= 6 && strings.HasPrefix(raw, q) {
			open = q
			for _, nl := range []string{"\r\n", "\n"} { // the first line break is not of the text
				if strings.HasPrefix(raw[3:], nl) {
					open += nl
					break
				}
			}
			return open, raw[len(open):]
		}
	}
	return raw[:1], raw[1:]
}

// rawWalker follows a string as written and the text that it stands for.
type rawWalker struct{ line, column, textLine, textColumn int }

func (w *rawWalker) skip(s string) {
	for _, r := range s {
		if w.column++; r == '\n' {
			w.line, w.column = w.line+1, 1
		}
	}
}

// step passes one character of the text and returns the bytes written for it.
func (w *rawWalker) step(s string, escapes bool) int {
	_, n := utf8.DecodeRuneInString(s)
	text := s[:n]
	if escapes && s[0] == '\\' && len(s) > 1 {
		n, text = escape(s)
	}
	w.skip(s[:n])
	switch text {
	case "":
	case "\n":
		w.textLine, w.textColumn = w.textLine+1, 1
	default:
		w.textColumn++
	}
	return n
}

// escape is the length of an escape sequence and a character that stands for
// what it means: nothing, a line break, or anything else.
func escape(s string) (n int, text string) {
	switch s[1] {
	case 'u':
		return min(6, len(s)), "x"
	case 'U':
		return min(10, len(s)), "x"
	case 'x':
		return min(4, len(s)), "x"
	case 'n':
		return 2, "\n"
	case '\n', '\r', ' ', '\t': // a line that goes on
		return len(s) - len(strings.TrimLeft(s[1:], " \t\r\n")), ""
	}
	return 2, "x"
}
