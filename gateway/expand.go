package gateway

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Env is what references in a configuration are looked up in, and how strict
// to be. The zero value is the process's environment and files.
type Env struct {
	// Lookup finds an environment variable. Default os.LookupEnv.
	Lookup func(name string) (string, bool)
	// Strict makes a source offline by an unset secret an error.
	Strict bool
}

func (e Env) lookup(name string) (string, bool) {
	if e.Lookup == nil {
		return os.LookupEnv(name)
	}
	return e.Lookup(name)
}

// expander replaces references in the string values of a tree.
type expander struct {
	env Env
	dir string // relative paths start here
	rep *report
}

// walk expands every string below n. Keys are never looked at.
func (x *expander) walk(n *node) {
	for _, k := range n.keys {
		x.walk(n.table[k])
	}
	for _, el := range n.list {
		x.walk(el)
	}
	if n.kind == kindString && strings.Contains(n.text, "${") {
		x.expand(n)
	}
}

// expand replaces the references of one string: ${env:NAME},
// ${env:NAME:-default}, ${file:path}; $${ stands for ${. What a reference
// stands for is not looked at again.
func (x *expander) expand(n *node) {
	n.set = n.text
	var out strings.Builder
	rest := n.text
	for {
		lit, after, found := strings.Cut(rest, "${")
		if !found {
			out.WriteString(lit)
			break
		}
		if strings.HasSuffix(lit, "$") {
			out.WriteString(lit + "{")
			rest = after
			continue
		}
		out.WriteString(lit)
		ref, tail, closed := strings.Cut(after, "}")
		if !closed {
			x.rep.at(n, "a ${ is never closed", "write $${ for a literal ${")
			n.bad = true
			return
		}
		v, ok := x.resolve(n, ref)
		if !ok {
			n.unset = append(n.unset, ref)
		}
		out.WriteString(v)
		x.rep.hide(v, ref)
		n.expanded = true
		rest = tail
	}
	n.text = out.String()
}

// resolve is what one reference stands for; false when that is not there.
// Faults that are not about presence are reported here.
func (x *expander) resolve(n *node, ref string) (string, bool) {
	scheme, name, _ := strings.Cut(ref, ":")
	switch {
	case scheme == "env" && name != "":
		name, fallback, has := strings.Cut(name, ":-")
		if v, ok := x.env.lookup(name); ok && v != "" {
			return v, true
		}
		return fallback, has
	case scheme == "file" && name != "":
		return x.readFile(n, name)
	}
	x.rep.at(n, "unknown reference ${"+ref+"}", "want ${env:NAME}, ${env:NAME:-default} or ${file:path}; write $${ for a literal ${")
	n.bad = true
	return "", true
}

// maxFile bounds what ${file:…} reads.
const maxFile = 1 << 20

func (x *expander) readFile(n *node, name string) (string, bool) {
	path := name
	if !filepath.IsAbs(path) {
		path = filepath.Join(x.dir, path)
	}
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", false
	}
	if err == nil && info.Size() > maxFile {
		x.rep.at(n, "${file:"+name+"} is larger than 1 MiB", "name a file that holds nothing but the value")
		return "", true
	}
	b, rerr := os.ReadFile(path)
	if err = errors.Join(err, rerr); err != nil {
		x.rep.at(n, "${file:"+name+"} can't be read: "+cause(err), "")
		return "", true
	}
	if secretPlace(n.path) && info.Mode().IsRegular() && info.Mode().Perm()&0o004 != 0 {
		x.rep.warn(n, "${file:"+name+"} is readable by everyone", "chmod 0600 it")
	}
	if info.ModTime().After(n.written) {
		n.written = info.ModTime()
	}
	s := strings.TrimSuffix(string(b), "\n")
	return strings.TrimSuffix(s, "\r"), true
}

// cause is the last part of a file error: its path was named already.
func cause(err error) string {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return pe.Err.Error()
	}
	return err.Error()
}

// secretPlace reports whether a path names a secret.
func secretPlace(path string) bool {
	return strings.Contains(path, "secrets[") || strings.Contains(path, ".headers.") ||
		strings.Contains(path, ".options.") || strings.Contains(path, ".auth.") || strings.HasSuffix(path, "].proxy") ||
		path == "store.dsn" || path == "audit.key" || path == "audit.key.value"
}
