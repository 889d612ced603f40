package gateway

import (
	"errors"
	"sort"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// node is a value of the file with its position: the whole file is a tree of
// them. go-toml checks the grammar and parses; the tree exists so that every
// fault can be found in one pass and named by line and column.
type node struct {
	kind         kind
	line, column int    // of the value; of the key where the value has none
	path         string // as in source[0].name

	keys  []string // of a table, in the order of the file
	table map[string]*node
	key   *node // position of the key of a table's entry
	list  []*node
	text  string // of a scalar, as written but unquoted
	raw   string // of a string, as written

	set      string    // of an expanded string: the text with its references
	expanded bool      // the text holds something that is not in the file
	bad      bool      // what it is was reported; what it says means nothing
	unset    []string  // references to what is not there
	written  time.Time // of the newest file that a reference names; zero for none
}

type kind uint8

const (
	kindTable kind = iota
	kindArray
	kindString
	kindInt
	kindFloat
	kindBool
	kindTime
)

var kindNames = [...]string{"a table", "an array", "a string", "an integer", "a number", "true or false", "a date and time"}

func (k kind) String() string { return kindNames[k] }

// get is the entry of a table, nil when it isn't there.
func (n *node) get(keys ...string) *node {
	for _, k := range keys {
		if n == nil || n.kind != kindTable {
			return nil
		}
		n = n.table[k]
	}
	return n
}

// item is the element of an array, nil when it isn't there.
func (n *node) item(i int) *node {
	if n == nil || n.kind != kindArray || i >= len(n.list) {
		return nil
	}
	return n.list[i]
}

// or is the entry of a table if it is there, else the table itself: the place
// to point at when something is wrong or missing.
func (n *node) or(key string) *node {
	if c := n.get(key); c != nil {
		return c
	}
	return n
}

// parseTree reads TOML into a tree. A file that is not TOML has one fault:
// what follows it can't be told apart.
func parseTree(data []byte, rep *report) *node {
	var probe map[string]any
	if err := toml.Unmarshal(data, &probe); err != nil {
		rep.faults = append(rep.faults, syntaxFault(rep.file, err))
		return nil
	}
	t := &treeParser{lines: lineStarts(data), data: data}
	t.parser.Reset(data)
	root := newTable("")
	root.line, root.column = 1, 1
	at := root
	for t.parser.NextExpression() {
		e := t.parser.Expression()
		switch e.Kind {
		case unstable.Table:
			at = t.open(root, e, false)
		case unstable.ArrayTable:
			at = t.open(root, e, true)
		case unstable.KeyValue:
			t.entry(at, e)
		}
	}
	return root
}

func syntaxFault(file string, err error) Fault {
	f := Fault{File: file, Line: 1, Column: 1, Problem: "not TOML: " + err.Error(), Remedy: "nothing else was looked at"}
	if de, ok := errors.AsType[*toml.DecodeError](err); ok {
		f.Line, f.Column = de.Position()
	}
	return f
}

type treeParser struct {
	parser unstable.Parser
	data   []byte
	lines  []int
}

func lineStarts(data []byte) []int {
	starts := []int{0}
	for i, c := range data {
		if c == '\n' {
			starts = append(starts, i+1)
		}
	}
	return starts
}

// place sets line and column, in characters from 1, of a byte offset.
func (t *treeParser) place(n *node, offset int) {
	line := sort.SearchInts(t.lines, offset+1)
	n.line = line
	n.column = utf8.RuneCount(t.data[t.lines[line-1]:offset]) + 1
}

func newTable(path string) *node {
	return &node{kind: kindTable, path: path, table: map[string]*node{}}
}

func joinPath(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// open finds or makes the table that a [header] or [[header]] names.
func (t *treeParser) open(root *node, e *unstable.Node, array bool) *node {
	at := root
	for it := e.Key(); it.Next(); {
		k := it.Node()
		name := string(k.Data)
		next := at.table[name]
		last := it.IsLast()
		if next == nil {
			next = newTable(joinPath(at.path, name))
			if last && array {
				next.kind, next.table = kindArray, nil
			}
			t.place(next, int(k.Raw.Offset))
			at.put(name, next)
		}
		if next.kind == kindArray {
			if last {
				el := newTable(next.path + "[" + strconv.Itoa(len(next.list)) + "]")
				t.place(el, int(k.Raw.Offset))
				next.list = append(next.list, el)
			}
			next = next.list[len(next.list)-1]
		}
		at = next
	}
	return at
}

func (n *node) put(name string, v *node) {
	n.keys = append(n.keys, name)
	n.table[name] = v
}

// entry puts key = value, whose key may be dotted, into a table.
func (t *treeParser) entry(at *node, e *unstable.Node) {
	for it := e.Key(); it.Next(); {
		k := it.Node()
		name := string(k.Data)
		if !it.IsLast() {
			next := at.table[name]
			if next == nil {
				next = newTable(joinPath(at.path, name))
				t.place(next, int(k.Raw.Offset))
				at.put(name, next)
			}
			at = next
			continue
		}
		v := t.value(e.Value(), joinPath(at.path, name))
		v.key = &node{path: v.path}
		t.place(v.key, int(k.Raw.Offset))
		if v.line == 0 {
			v.line, v.column = v.key.line, v.key.column
		}
		at.put(name, v)
	}
}

var scalarKinds = map[unstable.Kind]kind{
	unstable.String: kindString, unstable.Integer: kindInt, unstable.Float: kindFloat, unstable.Bool: kindBool,
	unstable.DateTime: kindTime, unstable.LocalDateTime: kindTime, unstable.LocalDate: kindTime, unstable.LocalTime: kindTime,
}

// value turns a parsed value into a node. Arrays have no position of their
// own: they take their key's.
func (t *treeParser) value(e *unstable.Node, path string) *node {
	switch e.Kind {
	case unstable.Array:
		n := &node{kind: kindArray, path: path}
		for it := e.Children(); it.Next(); {
			el := t.value(it.Node(), path+"["+strconv.Itoa(len(n.list))+"]")
			n.list = append(n.list, el)
		}
		return n
	case unstable.InlineTable:
		n := newTable(path)
		t.place(n, int(e.Raw.Offset))
		for it := e.Children(); it.Next(); {
			t.entry(n, it.Node())
		}
		return n
	}
	n := &node{kind: scalarKinds[e.Kind], path: path, text: string(e.Data)}
	t.place(n, int(e.Raw.Offset))
	if n.kind == kindString {
		n.raw = string(t.parser.Raw(e.Raw))
	}
	return n
}
