package verify

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/tidwall/gjson"
)

// batch is a Batch made ready.
type batch struct {
	Batch
	when conditions
	form string // the field with the array
	xml  string // the path of the elements
	root []*arrayNode
}

// arrayNode is an array on the way to the elements. Without children its elements
// are the events.
type arrayNode struct {
	path     string // from the enclosing element, as gjson reads it; "" is itself
	children []*arrayNode
}

func (b *Batch) compile(opts map[string]string) (*batch, error) {
	if b == nil {
		return nil, nil
	}
	c := &batch{Batch: *b}
	var errs []error
	var err error
	c.when, err = parseConditions("batch when", b.When, opts)
	errs = append(errs, err)
	if field, ok := strings.CutPrefix(b.Path, "form:"); ok {
		c.form, c.Whole = field, true
	} else if path, ok := strings.CutPrefix(b.Path, "xml:"); ok {
		c.xml = path
	}
	if c.form != "" || c.xml != "" {
		if len(b.Also) > 0 || b.Lines {
			errs = append(errs, errors.New("batch: also and lines are for JSON bodies"))
		}
		return c, errors.Join(errs...)
	}
	for _, path := range append([]string{b.Path}, b.Also...) {
		errs = append(errs, c.add(path))
	}
	return c, errors.Join(errs...)
}

// add puts a path into the tree, so that arrays with the same beginning are walked
// together.
func (c *batch) add(path string) error {
	level := &c.root
	for _, seg := range strings.Split(path, "[]") {
		seg = strings.TrimPrefix(seg, ".")
		p := ""
		if seg != "" {
			var ok bool
			if p, ok = jsonPath(seg); !ok {
				return fmt.Errorf("batch path %q: is not a JSON path", path)
			}
		}
		var node *arrayNode
		for _, n := range *level {
			if n.path == p {
				node = n
			}
		}
		if node == nil {
			node = &arrayNode{path: p}
			*level = append(*level, node)
		}
		level = &node.children
	}
	return nil
}

// span is the exact place of an element in the body, and of what encloses it.
type span struct{ start, end, parentStart, parentEnd int }

// walk calls each for every event below doc = body[start:end]. It reports whether
// any of the arrays is there, and how many events it gave.
func walk(body []byte, at span, nodes []*arrayNode, each func(span) bool) (found bool, n int) {
	for _, node := range nodes {
		i := arrayAt(body[at.start:at.end], node.path)
		if i < 0 {
			continue
		}
		found = true
		more := true
		elements(body[:at.end], at.start+i, func(start, end int) bool {
			el := span{start, end, at.start, at.end}
			inner := 0
			if len(node.children) > 0 {
				_, inner = walk(body, el, node.children, each)
			}
			if inner == 0 {
				more = each(el)
				inner = 1
			}
			n += inner
			return more
		})
	}
	return found, n
}

// arrayAt returns where the array at the path begins in valid JSON, or -1.
func arrayAt(doc []byte, path string) int {
	if path == "" {
		if i := skipSpace(doc, 0); i < len(doc) && doc[i] == '[' {
			return i
		}
		return -1
	}
	r := gjson.GetBytes(doc, path)
	if !r.IsArray() || r.Index <= 0 || r.Index >= len(doc) || doc[r.Index] != '[' {
		return -1
	}
	return r.Index
}

// lines returns the bounds of the JSON texts of a body that is one a line; ok is
// false where a line is not.
func jsonLines(body []byte) (list []span, ok bool) {
	whole := span{0, len(body), 0, len(body)}
	for start := 0; start < len(body); {
		end := len(body)
		if i := bytes.IndexByte(body[start:], '\n'); i >= 0 {
			end = start + i
		}
		line := body[start:end]
		if from := skipSpace(line, 0); from < len(line) {
			text := bytes.TrimRight(line[from:], " \t\r\n")
			if !json.Valid(text) {
				return nil, false
			}
			whole.start, whole.end = start+from, start+from+len(text)
			list = append(list, whole)
		}
		start = end + 1
	}
	return list, len(list) > 0
}

// elements calls each for every element of the array that begins at body[i],
// with its exact bounds, until it returns false. The body must be valid JSON.
func elements(body []byte, i int, each func(start, end int) bool) {
	i = skipSpace(body, i+1)
	for i < len(body) && body[i] != ']' {
		end := skipValue(body, i)
		if !each(i, end) {
			return
		}
		if i = skipSpace(body, end); i < len(body) && body[i] == ',' {
			i = skipSpace(body, i+1)
		}
	}
}

// skipValue returns the end of the JSON value that begins at b[i].
func skipValue(b []byte, i int) int {
	switch b[i] {
	case '"':
		return skipString(b, i)
	case '[', '{':
		return skipNested(b, i)
	}
	for i < len(b) && b[i] != ',' && b[i] != ']' && b[i] != '}' && !isSpace(b[i]) {
		i++
	}
	return i
}

func skipString(b []byte, i int) int {
	for i++; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(b)
}

func skipNested(b []byte, i int) int {
	for depth := 0; i < len(b); {
		switch b[i] {
		case '"':
			i = skipString(b, i)
			continue
		case '[', '{':
			depth++
		case ']', '}':
			if depth--; depth == 0 {
				return i + 1
			}
		}
		i++
	}
	return len(b)
}

func skipSpace(b []byte, i int) int {
	for i < len(b) && isSpace(b[i]) {
		i++
	}
	return i
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }
